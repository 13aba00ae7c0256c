//! Running the command and looking at what came of it.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod kill;
pub mod mount;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// What a run of the command gave.
pub struct Run {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// It did what it was asked, and had nothing to complain about.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.status, 0, "failed: {}", self.stderr);
        assert_eq!(self.stderr, "", "a word on standard error");
        self
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text on standard output")
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.text()))
    }
}

/// The command itself.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_biombo"))
}

/// No command of these tests takes longer, on any machine; one that hangs fails its test instead of stopping all.
const DEADLINE: Duration = Duration::from_secs(180);

/// Run it with `args` and nothing on standard input.
pub fn biombo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    biombo_with(args, &[])
}

/// Run it with `args` and `input` on standard input.
pub fn biombo_with<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &[u8]) -> Run {
    with_input(command().args(args), input)
}

/// Run a command with `input` on standard input.
pub fn with_input(command: &mut Command, input: &[u8]) -> Run {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // Beside, so that a full pipe of its output cannot stop both.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let (ended, end) = mpsc::channel::<()>();
    let pid = child.id().to_string();
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
            return true;
        }
        false
    });
    let output = child.wait_with_output().expect("the command ends");
    drop(ended);
    writer.join().expect("the writer ends");
    assert!(!watch.join().expect("the watch ends"), "the command did not end within {DEADLINE:?}");
    Run::of(output)
}

/// The words of a command line; `DIR` stands for `dir`.
pub fn words(line: &str, dir: &Path) -> Vec<String> {
    line.split_whitespace().map(|word| word.replace("DIR", &dir.display().to_string())).collect()
}

/// Run a command line; `DIR` stands for `dir`.
pub fn run(line: &str, dir: &Path) -> Run {
    biombo(words(line, dir))
}

/// Whether this build has the engine.
pub fn has_engine(name: &str) -> bool {
    biombo::registry().get(name).is_ok()
}

/// The engines of this build that keep data, and among them only those that keep an order if asked so. Without `postgres`, which starts a
/// server for each partition at every command: it has tests of its own.
pub fn engines(ordered: bool) -> Vec<&'static str> {
    let registry = biombo::registry();
    let fit = |kind: &&biombo::EngineKind| {
        let can = (kind.capabilities)();
        can.persistent && (can.ordered || !ordered) && kind.name != "postgres"
    };
    registry.iter().filter(fit).map(|kind| kind.name).collect()
}
