//! Who gives the turns.

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use biombo_base::{Error, Result};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use super::seat::is_gone;
use crate::measure::process::{Descendants, wait_until_stopped};

/// How often it is looked whether somebody came, while nothing is measured.
const LOOK: Duration = Duration::from_millis(1);
/// A bench that knows turns says so at its beginning; on the busiest machine in so long.
const SEATED_MAX: Duration = Duration::from_secs(20);
/// A thread that does not stop in so long waits for a device; no turn waits longer for it.
const STOPPED_MAX: Duration = Duration::from_secs(1);
/// Who connects says who it is at once.
const INTRODUCED_MAX: Duration = Duration::from_secs(20);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Two sides, the old build first, of which one bench at a time plays each.
pub struct Umpire {
    dir: PathBuf,
    sides: [Side; 2],
    turn: Duration,
}

/// One build.
struct Side {
    path: PathBuf,
    listener: UnixListener,
    /// The bench that is under way.
    bench: Option<UnixStream>,
    /// A run of it that wants to begin.
    waiting: Option<Run>,
}

impl Umpire {
    /// Two sockets in a directory of their own, which goes with this; turns of so long.
    ///
    /// # Errors
    /// The place for temporary files cannot be written, or its name is too long for a socket's.
    pub fn new(turn: Duration) -> Result<Self> {
        // A socket's name is short: where the usual place has a long one, another has to do.
        Self::below(&std::env::temp_dir(), turn)
            .or_else(|refused| Self::below(Path::new("/tmp"), turn).map_err(|_| refused))
    }

    fn below(base: &Path, turn: Duration) -> Result<Self> {
        let io = |what: &str, dir: &Path| format!("{what} {} (TMPDIR; --turn 0 does without)", dir.display());
        let dir = loop {
            let name = format!("biombo-turns-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let dir = base.join(name);
            match DirBuilder::new().mode(0o700).create(&dir) {
                // Left by one that was killed, in a container that has this number now.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    made.map_err(|e| Error::io(io("make", &dir), e))?;
                    break dir;
                }
            }
        };
        let side = |name: &str| -> std::io::Result<Side> {
            let path = dir.join(name);
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(Side { path, listener, bench: None, waiting: None })
        };
        let sides = side("old").and_then(|old| Ok([old, side("new")?])).map_err(|e| {
            let _ = std::fs::remove_dir_all(&dir);
            Error::io(io("make sockets in", &dir), e)
        })?;
        Ok(Self { dir, sides, turn })
    }

    /// What a bench of `side` finds the umpire by ([`TURNS`](super::TURNS)).
    pub fn address(&self, side: usize) -> &Path {
        &self.sides[side].path
    }

    /// Whether the bench that was started for `side` takes turns. `has_ended`: whether it has ended.
    pub fn is_seated(&mut self, side: usize, mut has_ended: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        loop {
            // Asked first: what it said before its end is heard.
            let is_over = has_ended() || begun.elapsed() > SEATED_MAX;
            self.sides[side].look();
            if self.sides[side].bench.is_some() || is_over {
                return self.sides[side].bench.is_some();
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Let the benches that are seated play all their runs, the one of side `first` before the other. Returns when both are gone.
    pub fn round(&mut self, first: usize) {
        loop {
            while !self.sides.iter_mut().map(Side::look).fold(true, |all, side| all & side) {
                std::thread::sleep(LOOK);
            }
            let waiting = |side: &Side| side.waiting.as_ref().map(|run| run.index);
            let Some(index) = self.sides.iter().filter_map(waiting).min() else { break };
            let turn = self.turn;
            let of = |side: &mut Side| side.waiting.take_if(|run| run.index == index);
            let [old, new] = &mut self.sides;
            let mut runs = [of(old), of(new)];
            if first == 1 {
                runs.reverse();
            }
            play(runs.into_iter().flatten().collect(), turn);
        }
        self.dismiss();
    }

    /// Nobody is waited for any more: benches that are seated end.
    pub fn dismiss(&mut self) {
        for side in &mut self.sides {
            (side.bench, side.waiting) = (None, None);
        }
    }
}

impl Drop for Umpire {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Side {
    /// See who came. `true`: a run waits, or none will come any more.
    fn look(&mut self) -> bool {
        let mut is_gone = self.bench.as_ref().is_none_or(is_gone);
        // Looked at last: a run that came before the bench went is met.
        while let Ok((stream, _)) = self.listener.accept() {
            let Some((lines, line)) = introduced(stream) else { continue };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["bench"] => {
                    let stream = lines.into_inner();
                    self.bench = stream.set_nonblocking(true).is_ok().then_some(stream);
                    is_gone = self.bench.is_none();
                }
                ["run", index] => {
                    // The kernel says who it is, by the numbers that hold here. Only who is the first of a process group is stopped with it.
                    let process = socket_peercred(lines.get_ref()).ok().map(|peer| peer.pid);
                    let process =
                        process.filter(|process| getpgid(Some(*process)).is_ok_and(|group| group == *process));
                    self.waiting =
                        index.parse().ok().zip(process).map(|(index, process)| Run::new(index, process, lines));
                }
                _ => {}
            }
        }
        is_gone || self.waiting.is_some()
    }
}

/// The first line of who connected.
fn introduced(stream: UnixStream) -> Option<(BufReader<UnixStream>, String)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(INTRODUCED_MAX)).ok()?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    lines.read_line(&mut line).ok()?;
    Some((lines, line))
}

/// What a run says.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Word(String),
    /// Nothing in time.
    Nothing,
    /// Its process has ended, or will.
    End,
}

/// A run of one side, in a process of its own.
struct Run {
    index: usize,
    process: Pid,
    lines: BufReader<UnixStream>,
    /// What came of a line so far.
    line: String,
    /// The servers that it started, while they are stopped.
    below: Vec<Pid>,
    is_stopped: bool,
    is_done: bool,
    is_gone: bool,
}

impl Run {
    fn new(index: usize, process: Pid, lines: BufReader<UnixStream>) -> Self {
        Self {
            index,
            process,
            lines,
            line: String::new(),
            below: Vec::new(),
            is_stopped: false,
            is_done: false,
            is_gone: false,
        }
    }

    fn say(&mut self, word: &str) {
        let said = self.lines.get_mut().write_all(format!("{word}\n").as_bytes());
        self.is_gone |= said.is_err();
    }

    /// What it says next, within so long.
    fn hear(&mut self, within: Option<Duration>) -> Heard {
        let begun = Instant::now();
        loop {
            let left = within.map(|within| within.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Heard::Nothing;
            }
            let read = self.lines.get_ref().set_read_timeout(left).and_then(|()| self.lines.read_line(&mut self.line));
            match read {
                Ok(read) if read > 0 && self.line.ends_with('\n') => {
                    return Heard::Word(std::mem::take(&mut self.line).trim_end().to_owned());
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
                _ => {
                    self.is_gone = true;
                    return Heard::End;
                }
            }
        }
    }

    /// Hear until it says `word`, or that it is done.
    fn hear_until(&mut self, word: &str, within: Option<Duration>) -> Heard {
        loop {
            match self.hear(within) {
                Heard::Word(said) if said == "done" => {
                    self.is_done = true;
                    return Heard::Word(said);
                }
                Heard::Word(said) if said != word => {}
                heard => return heard,
            }
        }
    }

    /// Stop it with all its threads, and the servers that it started with it. It is the first of its process group.
    fn stop(&mut self) {
        self.is_stopped = !self.is_gone && kill_process_group(self.process, Signal::STOP).is_ok();
        if self.is_stopped {
            self.below = Descendants::of(number(self.process)).stopped();
            let begun = Instant::now();
            for process in [self.process].iter().chain(&self.below) {
                wait_until_stopped(number(*process), STOPPED_MAX.saturating_sub(begun.elapsed()));
            }
        }
    }

    fn go_on(&mut self) {
        for process in self.below.drain(..) {
            let _ = kill_process(process, Signal::CONT);
        }
        if std::mem::take(&mut self.is_stopped) {
            let _ = kill_process_group(self.process, Signal::CONT);
        }
    }

    /// One turn, which ends after so long, or when it is done.
    fn turn(&mut self, within: Option<Duration>) {
        self.go_on();
        self.say("go");
        if self.hear_until("", within) == Heard::Nothing {
            self.say("rest");
            self.hear_until("resting", None);
        }
        self.stop();
    }
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get() as u32
}

/// Whatever becomes of the umpire, nobody stays stopped.
impl Drop for Run {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// Let runs play against each other, in this order. One that is alone plays without rests.
fn play(mut runs: Vec<Run>, turn: Duration) {
    for run in &mut runs {
        run.say("load");
        run.hear_until("ready", None);
        run.stop();
    }
    loop {
        runs.retain(|run| !run.is_gone);
        let playing = runs.iter().filter(|run| !run.is_done).count();
        if playing == 0 {
            break;
        }
        let within = (playing > 1).then_some(turn);
        for run in runs.iter_mut().filter(|run| !run.is_done) {
            run.turn(within);
        }
    }
    for run in &mut runs {
        run.go_on();
        run.say("close");
        while run.hear(None) != Heard::End {}
    }
}
