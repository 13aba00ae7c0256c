//! A write at `Sync` is acknowledged only after the device sync of its data: proved by the system calls of a traced child.
//!
//! A killed process loses nothing that the kernel has, so a kill cannot see a missing sync; a trace of the calls can. The
//! child is this same test program, told by the environment to be the writer. Without strace, or where tracing is not
//! allowed, the tests say so and pass.

#[path = "sync_trace/mod.rs"]
mod sync_trace;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use biombo::{Durability, EngineKind, Op, OpenOptions};
use sync_trace::judge::{MARKERS, Proof, TRACED, Verdicts, judge, needle};

const WRITES: usize = 20;
const THREADS: usize = 3;
/// So much of a write is shown: the judge wants all of it, and the log fills room in writes of 256 KiB.
const SHOWN_BYTES: &str = "1048576";

/// What the writer does between `begin` and `ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `apply` at `Sync`.
    Sync,
    /// `apply` at `Os`, then `sync`.
    OsThenSync,
    /// `apply` at `Os` only: nothing is synced.
    Os,
    /// `apply` at `Sync` by several threads at once.
    ManyThreads,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Sync, Self::OsThenSync, Self::Os, Self::ManyThreads];
}

/// The child's part; without its environment it is no test at all.
#[test]
fn writer_of_the_traced_child() {
    let (Ok(engine), Ok(home), Ok(mode)) = (
        std::env::var("BIOMBO_TRACED_ENGINE"),
        std::env::var("BIOMBO_TRACED_HOME"),
        std::env::var("BIOMBO_TRACED_MODE"),
    ) else {
        return;
    };
    let mode = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode).expect("a known mode");
    let home = Path::new(&home);
    let registry = biombo::registry();
    let kind = registry.get(&engine).expect("the parent has it too");
    let engine = (kind.open)(&OpenOptions::new(home.join("instance"))).expect("open");
    let markers = File::create(home.join(MARKERS)).expect("the file of markers");
    // One write call for each marker: the trace shows it whole.
    let mark = |text: String| (&markers).write_all(text.as_bytes()).expect("write a marker");
    let write = |i: usize| {
        mark(format!("begin {i}\n"));
        let (key, value) = (format!("key {i:05}"), needle(i).repeat(20));
        let durability = if matches!(mode, Mode::Os | Mode::OsThenSync) { Durability::Os } else { Durability::Sync };
        engine.apply(&[Op::Put { key: key.as_bytes(), value: value.as_bytes() }], durability).expect("apply");
        if mode == Mode::OsThenSync {
            engine.sync().expect("sync");
        }
        mark(format!("ack {i}\n"));
    };
    let threads = if mode == Mode::ManyThreads { THREADS } else { 1 };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let write = &write;
            scope.spawn(move || (0..WRITES).for_each(|i| write(thread * WRITES + i)));
        }
    });
}

/// The verdicts of the writer's acknowledgements; `None` where nothing can be traced.
fn traced(kind: &EngineKind, mode: Mode) -> Option<Verdicts> {
    let can_trace = Command::new("strace").args(["-f", "-y", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !can_trace.is_ok_and(|status| status.success()) {
        println!("{}: skipped, because strace is not there or may not trace", kind.name);
        return None;
    }
    let home = tempfile::TempDir::with_prefix("biombo-traced-").expect("a temporary directory");
    // As the kernel names it, since strace shows paths so.
    let path = home.path().canonicalize().expect("it exists");
    std::fs::create_dir(path.join("instance")).expect("the instance's directory");
    let trace = path.join("trace");
    let child = Command::new("strace")
        .args(["-f", "-y", "-s", SHOWN_BYTES, "-e", &format!("trace={TRACED}"), "-e", "signal=none", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "writer_of_the_traced_child", "--test-threads", "1", "--nocapture"])
        .env("BIOMBO_TRACED_ENGINE", kind.name)
        .env("BIOMBO_TRACED_HOME", &path)
        .env("BIOMBO_TRACED_MODE", format!("{mode:?}"))
        .output()
        .expect("run strace");
    assert!(child.status.success(), "{}: {}", kind.name, String::from_utf8_lossy(&child.stderr));
    let text = String::from_utf8_lossy(&std::fs::read(&trace).expect("the trace")).into_owned();
    let dir = path.join("instance");
    let verdicts = judge(&text, dir.to_str().expect("a temporary directory has a plain name"));
    let verdicts = verdicts.unwrap_or_else(|why| panic!("{}: {why}", kind.name));
    let writes = if mode == Mode::ManyThreads { THREADS * WRITES } else { WRITES };
    assert_eq!(verdicts.len(), writes, "{}: acknowledgements in the trace", kind.name);
    Some(verdicts)
}

fn persistent() -> Vec<EngineKind> {
    let kinds: Vec<EngineKind> = biombo::registry()
        .iter()
        .filter(|kind| (kind.capabilities)().persistent && kind.is_installed())
        .cloned()
        .collect();
    assert!(!kinds.is_empty(), "this build has no persistent engine");
    kinds
}

/// Panics with the first early acknowledgement of each engine.
fn none_early(mode: Mode) {
    let mut early = Vec::new();
    for kind in persistent() {
        let Some(verdicts) = traced(&kind, mode) else { return };
        let found: Vec<_> =
            verdicts.iter().filter_map(|(i, verdict)| verdict.as_ref().err().map(|why| (i, why))).collect();
        let proved = |proof| verdicts.iter().filter(|(_, verdict)| *verdict == Ok(proof)).count();
        let (data, file) = (proved(Proof::OfItsData), proved(Proof::OfSomeFile));
        let count = verdicts.len();
        println!(
            "{}, {mode:?}: of {count} acknowledgements {data} after a sync of their data, {file} of a file",
            kind.name
        );
        early.extend(found.first().map(|(i, why)| format!("{}, write {i} of {}: {why}", kind.name, found.len())));
    }
    assert!(early.is_empty(), "acknowledged before the sync:\n{}", early.join("\n"));
}

#[test]
fn no_acknowledgement_at_sync_comes_before_its_device_sync() {
    none_early(Mode::Sync);
}

#[test]
fn no_acknowledgement_at_sync_by_many_threads_comes_before_its_device_sync() {
    none_early(Mode::ManyThreads);
}

#[test]
fn sync_makes_earlier_writes_durable_before_it_returns() {
    none_early(Mode::OsThenSync);
}

#[test]
fn writes_at_os_are_seen_to_be_unsynced() {
    for kind in persistent() {
        let Some(verdicts) = traced(&kind, Mode::Os) else { return };
        let early = verdicts.iter().filter(|(_, verdict)| verdict.is_err()).count();
        println!("{}: {early} of {} acknowledgements at `os` without a sync", kind.name, verdicts.len());
        // An engine may sync now and then on its own account; it need not do so for each write.
        assert!(early * 10 >= verdicts.len() * 9, "{}: the judge took {early} of {WRITES} for unsynced", kind.name);
    }
}
