//! What the loops share that kill processes.

use std::process::Child;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Print what was reached, and keep it where `make test` looks: a test that passes is not heard.
pub fn report(line: &str) {
    println!("{line}");
    let Some(dir) = std::env::var_os("BIOMBO_CAMPAIGN_REPORTS") else { return };
    let mut name = line.to_owned();
    name.retain(|c| c.is_ascii_alphabetic());
    name.truncate(60);
    std::fs::write(std::path::Path::new(&dir).join(format!("kill-{name}.txt")), format!("{line}\n")).expect("a report");
}

/// Random enough for times and sizes, and the same in each run.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Kill `child`: in one of five rounds at any time from its start, while it opens or creates the store; in the others at any
/// time after its first acknowledgement, of which `working` tells.
pub fn kill_soon(child: &mut Child, working: &Receiver<()>, dice: &mut Dice) {
    if dice.below(5) > 0 {
        // A child that never gets so far is killed all the same, and counted as idle.
        let _ = working.recv_timeout(Duration::from_secs(20));
    }
    std::thread::sleep(Duration::from_micros(dice.below(200_000)));
    child.kill().expect("a child can be killed");
    child.wait().expect("a killed child ends");
}
