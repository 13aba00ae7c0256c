//! What the loops share that kill processes.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Rounds after which a new store is begun, so that checking stays quick.
pub const ROUNDS_A_STORE: u64 = 10;

/// Rounds for which a test goes on until something is shown, by those asked for: a machine that is busy otherwise may need more.
pub const MORE_ROUNDS: u64 = 10;

/// How many rounds `variable` asks for, or `otherwise`.
pub fn rounds(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(otherwise)
}

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

/// This test program once more, as the child that `test` is where the environment's `variable` holds a `task`.
pub fn this_program(test: &str, variable: &str, task: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program has a file"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, format!("{task} {}", dir.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program runs again")
}

/// Kill `child`: in one of five rounds at any time from its start, while it opens or creates the store; in the others at any
/// time after its first acknowledgement. `hear` is given its lines, and says whether one acknowledges something. A child that
/// complained is a failure.
pub fn kill_soon<H: Default + Send + 'static>(
    mut child: Child,
    dice: &mut Dice,
    what: &str,
    mut hear: impl FnMut(&mut H, &str) -> bool + Send + 'static,
) -> H {
    let stdout = child.stdout.take().expect("a pipe");
    let (begun, working) = channel();
    let listener = std::thread::spawn(move || {
        let mut heard = H::default();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if hear(&mut heard, &line) {
                let _ = begun.send(());
            }
        }
        heard
    });
    if dice.below(5) > 0 {
        // A child that never gets so far is killed all the same, and counted as idle.
        let _ = working.recv_timeout(Duration::from_secs(20));
    }
    std::thread::sleep(Duration::from_micros(dice.below(200_000)));
    child.kill().expect("a child can be killed");
    child.wait().expect("a killed child ends");
    let heard = listener.join().expect("the listener ends");
    let mut complaint = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut complaint).expect("text");
    assert_eq!(complaint, "", "{what}: the child complained");
    heard
}
