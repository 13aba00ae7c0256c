//! A run that takes turns: what its process says and hears.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use biombo_base::{Error, Result};

use super::Gate;
use super::seat::{RUN, TURNS};
use crate::driver::RunClock;

/// One run of a bench.
pub(crate) struct Player<'a> {
    stream: UnixStream,
    lines: Mutex<BufReader<UnixStream>>,
    gate: Gate,
    /// Whether the last operation has ended. Held while it is told that it waits, or waits no more: from its end on it does.
    is_done: Mutex<bool>,
    /// Told before it waits for the other side, and after.
    waits: &'a (dyn Fn(bool) + Sync),
}

impl<'a> Player<'a> {
    /// Where this process is a run by turns, wait until it may load. `waits` is told whenever it begins and ends to wait for the other side.
    ///
    /// # Errors
    /// The umpire is not there, or goes away.
    pub(crate) fn sit_down(waits: &'a (dyn Fn(bool) + Sync)) -> Result<Option<Self>> {
        let (Some(path), Some(run)) = (std::env::var_os(TURNS), std::env::var_os(RUN)) else { return Ok(None) };
        let run = run.to_str().and_then(|run| run.parse().ok());
        let run = run.ok_or_else(|| Error::invalid(format!("{RUN} is no number of a run")))?;
        Self::at(&PathBuf::from(path), run, waits).map(Some)
    }

    pub(super) fn at(path: &Path, run: usize, waits: &'a (dyn Fn(bool) + Sync)) -> Result<Self> {
        let connected = || {
            let stream = UnixStream::connect(path)?;
            let lines = Mutex::new(BufReader::new(stream.try_clone()?));
            Ok(Self { stream, lines, gate: Gate::default(), is_done: Mutex::new(false), waits })
        };
        let player = connected().map_err(|e| Error::io(format!("reach the comparison at {}", path.display()), e))?;
        player.say(&format!("run {run}"))?;
        player.wait_for("load")?;
        Ok(player)
    }

    /// What its clients pass before each operation.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// All is loaded and every client is there: wait for the first turn.
    pub(crate) fn begin(&self) -> Result<()> {
        // Told first: once it is heard this process is stopped.
        (self.waits)(true);
        self.say("ready")?;
        self.wait_for("go")
    }

    /// Keep to the turns, from the first one on until both sides are done. `clock` is any of the run.
    pub(crate) fn keep(&self, clock: &RunClock) -> Result<()> {
        let kept = (|| {
            loop {
                match self.hear()?.as_str() {
                    "rest" => {
                        self.gate.close();
                        (self.waits)(true);
                        self.say("resting")?;
                    }
                    "go" => {
                        self.gate.open(clock.stamp());
                        // Where it ended while all others rested already, it waits for the other side from here on.
                        let is_done = self.is_done();
                        if !*is_done {
                            (self.waits)(false);
                        }
                    }
                    "close" => return Ok(()),
                    word => return Err(Error::invalid(format!("`{word}` is no word between runs that take turns"))),
                }
            }
        })();
        // Whatever came of it, no client is left standing.
        self.gate.open(clock.stamp());
        (self.waits)(false);
        kept
    }

    /// The last operation has ended; [`keep`](Self::keep) returns when the other side is done, too.
    pub(crate) fn done(&self) -> Result<()> {
        let mut is_done = self.is_done();
        *is_done = true;
        (self.waits)(true);
        drop(is_done);
        self.say("done")
    }

    fn is_done(&self) -> MutexGuard<'_, bool> {
        self.is_done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, word: &str) -> Result<()> {
        (self.waits)(true);
        let heard = self.hear()?;
        (self.waits)(false);
        if heard == word { Ok(()) } else { Err(Error::invalid(format!("`{heard}` was heard in place of `{word}`"))) }
    }

    fn say(&self, word: &str) -> Result<()> {
        (&self.stream)
            .write_all(format!("{word}\n").as_bytes())
            .map_err(|e| Error::io("take turns with the other build", e))
    }

    fn hear(&self) -> Result<String> {
        let mut line = String::new();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let read = lines.read_line(&mut line).map_err(|e| Error::io("take turns with the other build", e))?;
        if read == 0 {
            return Err(Error::invalid("the comparison that this run takes turns for is gone"));
        }
        Ok(line.trim_end().to_owned())
    }
}
