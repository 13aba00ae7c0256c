//! The parent's side: start a worker, hear it out, and turn whatever happens to it into a result or a clear error.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use biombo_base::{Error, ErrorKind, Result};

use super::patience::{Patience, silence_max};
use super::protocol::Event;
use crate::bench::{Observer, is_over};
use crate::measure::process::Descendants;
use crate::record::Record;
use crate::spec::RunSpec;

/// How to start a worker: a program that calls [`worker::main`](super::worker::main) with its standard streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Additions to its environment.
    pub env: Vec<(String, String)>,
    /// A worker is killed that finishes nothing for so long; `None`: a generous limit by the length of the run.
    pub silence_max: Option<Duration>,
}

/// How soon an interruption is noticed while the worker says nothing.
const POLL: Duration = Duration::from_millis(50);

impl WorkerCommand {
    /// This very program with the one argument `bench-worker`.
    pub fn this_program() -> Result<Self> {
        let program = std::env::current_exe().map_err(|e| Error::io("find this program's own file", e))?;
        Ok(Self { program, args: vec!["bench-worker".to_owned()], env: Vec::new(), silence_max: None })
    }
}

/// Do one run in a worker process; `observer` hears its phases and progress, and may interrupt it. A worker tells its result when all is
/// closed: where it ends badly after that, the record says how ([`Record::ended`]).
pub fn launch(command: &WorkerCommand, spec: &RunSpec, observer: &mut dyn Observer) -> Result<Record> {
    let child = Command::new(&command.program)
        .args(&command.args)
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C is for this process alone: it ends the worker itself, and says what became of the run.
        .process_group(0)
        .spawn()
        .map_err(|e| Error::io(format!("start the worker {}", command.program.display()), e))?;
    let mut child = Guard(child);
    let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
    let description = serde_json::to_vec(spec).map_err(|e| Error::invalid(format!("cannot describe the run: {e}")))?;
    if let Some(mut stdin) = stdin {
        // A worker that died already says so below.
        let _ = stdin.write_all(&description);
    }
    // Its messages are drained beside, so that a full pipe never stops it; its events too, so that silence is noticed.
    let messages = std::thread::spawn(move || stderr.map(last_words).unwrap_or_default());
    let (send, events) = channel();
    std::thread::spawn(move || {
        for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n')).map_while(|l| l.ok()) {
            // Libraries may print on their own: what is no event is nobody's business.
            if serde_json::from_slice::<Event>(&line).is_ok_and(|event| send.send(event).is_err()) {
                break;
            }
        }
    });
    let mut patience = Patience::new(command.silence_max.unwrap_or_else(|| silence_max(spec)));
    let mut outcome = None;
    loop {
        let event = events.recv_timeout(POLL);
        event.iter().for_each(|event| patience.hear(event));
        match event {
            Ok(Event::Phase { phase, operations, seconds }) => observer.phase(&phase, operations, seconds),
            Ok(Event::Progress { done }) => observer.progress(done),
            Ok(Event::Waiting { .. }) => {}
            Ok(Event::Result { record }) => outcome = Some(Ok(*record)),
            Ok(Event::Error { message }) => outcome = Some(Err(message)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if is_over(observer) {
            return Err(Error::new(ErrorKind::Io, format!("{}: interrupted", spec.label())));
        }
        if let Some(why) = patience.lost() {
            drop(child);
            let words = said(&messages.join().unwrap_or_default());
            return Err(Error::new(ErrorKind::Io, format!("{}: the worker process {why}{words}", spec.label())));
        }
    }
    let status = child.0.wait().map_err(|e| Error::io("wait for the worker", e))?;
    let messages = messages.join().unwrap_or_default();
    match outcome {
        Some(Ok(record)) => Ok(Record { ended: (!status.success()).then(|| how(status)), ..record }),
        Some(Err(message)) => Err(Error::new(ErrorKind::Io, format!("{}: {message}", spec.label()))),
        None => {
            let (how, words) = (how(status), said(&messages));
            Err(Error::new(ErrorKind::Io, format!("{}: the worker process {how}{words}", spec.label())))
        }
    }
}

/// How a process ended.
fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was killed (signal 9; by somebody, or by the kernel for want of memory)".to_owned(),
        (Some(signal), _) => format!("crashed (signal {signal})"),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

fn said(messages: &str) -> String {
    if messages.is_empty() { String::new() } else { format!("; its last words: {messages}") }
}

/// The last few lines of what the worker said, on one line.
fn last_words(mut stderr: impl Read) -> String {
    const KEPT: usize = 4096;
    let mut kept = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(count) = stderr.read(&mut chunk) {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&chunk[..count]);
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

/// No worker outlives its parent's interest, nor does what it started: a server that is stopping writes into a directory that is about to go, and
/// beside the next run.
struct Guard(Child);

/// A server that does not stop in so long is left to whoever stops it.
const STOPPING_MAX: Duration = Duration::from_secs(10);

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let below = Descendants::of(self.0.id());
            // Servers that were stopped for another's turn can end only when they go on.
            below.go_on();
            let _ = self.0.kill();
            let _ = self.0.wait();
            below.wait(STOPPING_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Plan, Silent};
    use crate::record::tests::record;

    /// A library may crash when its process ends, after all was done. Fails if that costs the run, or if nobody is told.
    #[test]
    fn a_worker_that_ends_badly_after_its_result_has_given_it() {
        let dir = tempfile::tempdir().unwrap();
        let lines = dir.path().join("lines");
        let told = Event::Result { record: Box::new(record("log", "none", 1, 1_000.0)) };
        std::fs::write(&lines, serde_json::to_string(&told).unwrap() + "\n").unwrap();
        let spec = Plan { engines: vec!["log".into()], ..Plan::default() }.runs().remove(0);
        let ended = |end: &str| {
            let script = format!("cat >/dev/null; cat '{}'; {end}", lines.display());
            let args = vec!["-c".to_owned(), script];
            let command = WorkerCommand { program: "/bin/sh".into(), args, env: Vec::new(), silence_max: None };
            launch(&command, &spec, &mut Silent).unwrap().ended
        };
        assert_eq!(ended("exit 0"), None);
        assert_eq!(ended("exit 3").as_deref(), Some("ended with status 3"));
        assert_eq!(ended("kill -SEGV $$").as_deref(), Some("crashed (signal 11)"));
    }
}
