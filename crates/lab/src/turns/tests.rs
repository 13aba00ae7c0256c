//! Umpire and players in one process each way: what they say, in which order, and what becomes of those who go away.

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::seat::Seat;
use super::{Player, Umpire};
use crate::driver::RunClock;

const TURN: Duration = Duration::from_millis(10);
const NO_WAITS: &(dyn Fn(bool) + Sync) = &|_| {};
/// What tells this very program to be a player, and how long it plays in milliseconds.
const PLAYER: &str = "BIOMBO_LAB_TEST_PLAYER";
const MILLIS: &str = "BIOMBO_LAB_TEST_MILLIS";

/// No test: a bench with two runs, each in a process of its own, that the tests below start.
#[test]
fn player_entry() {
    let Ok(told) = std::env::var(PLAYER) else { return };
    let (path, millis) = (std::env::var("BIOMBO_LAB_TEST_PATH").unwrap(), std::env::var(MILLIS).unwrap());
    let (path, millis) = (std::path::Path::new(&path), millis.parse::<u64>().unwrap());
    match told.as_str() {
        "bench" => {
            let seat = Seat::at(path).unwrap();
            for run in 0..2 {
                let mut run = program(&run.to_string(), path, millis).process_group_of_its_own().spawn().unwrap();
                run.wait().unwrap();
            }
            assert!(!seat.is_left(), "the umpire is there to the end");
        }
        run => play(path, run.parse().unwrap(), Duration::from_millis(millis)),
    }
}

trait OfItsOwn {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OfItsOwn for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}

fn program(told: &str, path: &std::path::Path, millis: u64) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", "turns::tests::player_entry", "--nocapture", "--test-threads=1"])
        .env(PLAYER, told)
        .env("BIOMBO_LAB_TEST_PATH", path)
        .env(MILLIS, millis.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    program
}

/// Work for so long by a clock that stands still between turns, and write down each moment of work by the clock of the machine; a thread in
/// the background writes, too.
fn play(path: &std::path::Path, run: usize, long: Duration) {
    let player = Player::at(path, run, NO_WAITS).unwrap();
    let (ticks, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    // The clock of the machine: the same for all processes.
    let tick = || ticks.lock().unwrap().push(UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    let mut clock = RunClock::start();
    let other = clock.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                tick();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let inside = player.gate().enter();
        player.begin().unwrap();
        let keeping = scope.spawn(|| player.keep(&other));
        let until_ns = clock.now_ns() + long.as_nanos() as u64;
        while clock.now_ns() < until_ns {
            player.gate().pass(&mut clock);
            tick();
            std::thread::sleep(Duration::from_micros(200));
        }
        drop(inside);
        stop.store(true, Ordering::Relaxed);
        player.done().unwrap();
        keeping.join().unwrap().unwrap();
    });
    let text: String = ticks.lock().unwrap().iter().map(|tick| format!("{tick}\n")).collect();
    std::fs::write(path.with_extension(format!("{run}")), text).unwrap();
}

fn ticks(path: &std::path::Path, run: usize) -> Vec<u64> {
    let text = std::fs::read_to_string(path.with_extension(format!("{run}"))).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Fails if one works, in the foreground or behind, in a turn of the other, or if turns do not change.
#[test]
fn of_two_runs_one_works_at_a_time_with_all_its_threads_and_both_come_to_their_end() {
    let mut umpire = Umpire::new(TURN).unwrap();
    let mut benches: Vec<Child> = Vec::new();
    for side in [1, 0] {
        benches.push(program("bench", umpire.address(side), 300).spawn().unwrap());
        let bench = benches.last_mut().unwrap();
        assert!(umpire.is_seated(side, || bench.try_wait().unwrap().is_some()));
    }
    umpire.round(1);
    benches.into_iter().for_each(|mut bench| assert!(bench.wait().unwrap().success()));
    for run in 0..2 {
        let [old, new] = [0, 1].map(|side| ticks(umpire.address(side), run));
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (side, ticks) in [old, new].into_iter().enumerate() {
            assert!(ticks.len() > 100, "{} ticks", ticks.len());
            all.extend(ticks.into_iter().map(|tick| (tick, side)));
        }
        all.sort_unstable();
        let changes = all.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        // 300 ms in turns of 10 and more, which are longer on a busy machine: some 60 changes, and without turns thousands.
        assert!((4..=75).contains(&changes), "run {run}: {changes} changes from one to the other");
    }
}

/// Fails if a run that its side alone has, or whose counterpart is killed, waits for ever.
#[test]
fn who_has_no_counterpart_any_more_plays_alone() {
    let mut umpire = Umpire::new(TURN).unwrap();
    let mut alone = program("bench", umpire.address(0), 30).spawn().unwrap();
    assert!(umpire.is_seated(0, || alone.try_wait().unwrap().is_some()));
    let mut killed = program("bench", umpire.address(1), 600_000).spawn().unwrap();
    assert!(umpire.is_seated(1, || killed.try_wait().unwrap().is_some()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            // With its run, which the kernel ends with the bench of a real comparison.
            let below = crate::measure::process::Descendants::of(killed.id());
            killed.kill().unwrap();
            killed.wait().unwrap();
            below.killed();
        });
        umpire.round(0);
    });
    assert!(alone.wait().unwrap().success());
    assert_eq!([0, 1].map(|run| ticks(umpire.address(0), run).is_empty()), [false, false]);
}

#[test]
fn who_says_nothing_takes_no_turns_and_who_is_dismissed_hears_of_it() {
    let mut umpire = Umpire::new(TURN).unwrap();
    assert!(!umpire.is_seated(0, || true));
    let seat = Seat::at(umpire.address(1)).unwrap();
    assert!(umpire.is_seated(1, || false) && !seat.is_left());
    let address = umpire.address(1).to_owned();
    let waits = AtomicU64::new(0);
    let count = |_| {
        waits.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        let player = scope.spawn(|| Player::at(&address, 0, &count).map(|_| ()));
        while waits.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert!(umpire.is_seated(1, || false));
        drop(umpire);
        let said = player.join().unwrap().unwrap_err().to_string();
        assert!(said.contains("gone") || said.contains("take turns"), "{said}");
    });
    assert!(seat.is_left() && !address.exists(), "nothing is left behind");
    assert!(Seat::at(&address).err().unwrap().to_string().contains("BIOMBO_LAB_TURNS"));
}
