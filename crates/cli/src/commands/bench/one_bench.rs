//! One bench of one build, in a process of its own: by itself, or beside one of another build with which it takes turns.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use biombo_lab::record::{Record, parse_lines};
use biombo_lab::turns::{TURNS, Umpire};

use crate::failure::{Done, Failure};

/// What is to be done.
pub(super) struct Bench<'a> {
    /// For people: which round of which build.
    pub(super) name: String,
    pub(super) program: &'a Path,
    /// The arguments of `biombo bench`.
    pub(super) args: &'a [String],
    pub(super) round: u32,
    /// The file into which it writes its lines.
    pub(super) lines: &'a Path,
}

/// What came of it.
pub(super) struct Outcome {
    /// Its runs.
    pub(super) records: Vec<Record>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
}

/// A bench that is under way; one that is given up is killed.
struct Running {
    child: Child,
    /// Why it was ended by us.
    given_up: Option<String>,
    messages: Option<JoinHandle<String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Bench<'_> {
    /// Both, the one of `first` before the other.
    pub(super) fn one_after_the_other(benches: &[Self; 2], first: usize) -> Done<[Outcome; 2]> {
        let one = |which: usize| benches[which].started(None)?.outcome(&benches[which]);
        let (one, other) = (one(first)?, one(1 - first)?);
        Ok(in_order(first, one, other))
    }

    /// Both beside each other, in the turns that `umpire` gives. Where `may_not` and one of them does not take part, `None`: neither counts.
    /// One that does later is killed: it would be measured beside the other, and wait for turns that nobody gives.
    pub(super) fn together(
        benches: &[Self; 2],
        umpire: &mut Umpire,
        first: usize,
        may_not: bool,
    ) -> Done<Option<[Outcome; 2]>> {
        let mut running = Vec::new();
        for which in [first, 1 - first] {
            let started = benches[which].started(Some(umpire.address(which)));
            let mut one = started.inspect_err(|_| {
                umpire.dismiss();
                let _ = running.first_mut().map(|first: &mut Running| first.child.wait());
            })?;
            let is_seated = umpire.is_seated(which, || !matches!(one.child.try_wait(), Ok(None)));
            if !is_seated && matches!(one.child.try_wait(), Ok(None)) {
                let _ = one.child.kill();
                one.given_up = Some("it did not begin in time and was killed".to_owned());
            }
            running.push(one);
            if may_not && !is_seated {
                // Who waits for the other ends by itself, and leaves nothing behind.
                umpire.dismiss();
                if which != first {
                    let _ = running[0].child.wait();
                }
                return Ok(None);
            }
        }
        umpire.round(first);
        let mut outcomes = running.into_iter().zip([first, 1 - first]).map(|(one, which)| one.outcome(&benches[which]));
        match (outcomes.next(), outcomes.next()) {
            (Some(one), Some(other)) => Ok(Some(in_order(first, one?, other?))),
            _ => unreachable!("invariant: two were started"),
        }
    }

    fn started(&self, turns: Option<&Path>) -> Done<Running> {
        let Self { program, lines, round, .. } = self;
        // What an earlier round left is not this one's.
        let _ = std::fs::remove_file(lines);
        // A program is looked for in the path by its bare name, unless it is right here.
        let here = Path::new(".").join(program);
        let is_here = program.components().count() == 1 && here.is_file();
        let mut child = Command::new(if is_here { here.as_path() } else { program })
            .arg("bench")
            .args(self.args)
            .args(["--repeat", "1", "--seed", round.to_string().as_str(), "--json"])
            .arg(lines)
            .envs(turns.map(|path| (TURNS, path)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::failed(format!("cannot run {}: {e}", program.display())))?;
        // Drained beside, so that a full pipe never stops it.
        let messages = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                let _ = stderr.read_to_end(&mut said);
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        Ok(Running { child, given_up: None, messages })
    }

    /// What a bench that ended so has left.
    fn outcome(&self, status: ExitStatus, said: &str) -> Outcome {
        let text = std::fs::read_to_string(self.lines).unwrap_or_default();
        // Of a line that was cut short nothing is known, but for those before it.
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let told: Vec<_> = lines.map(parse_lines).collect();
        let is_whole = told.iter().all(|line| line.is_ok());
        let mut records: Vec<Record> = told.into_iter().flatten().flatten().collect();
        // Wrong answers are the comparison's business.
        let has_wrong = records.iter().any(|record| record.errors > 0);
        let failure = (records.is_empty() || !is_whole || !(status.success() || has_wrong)).then(|| {
            let why = said
                .lines()
                .rev()
                .find(|line| line.starts_with("biombo: ") && !line.starts_with("biombo: note: "))
                .unwrap_or("a line of its runs is missing or broken");
            format!("{}: {}", self.name, why.trim_start_matches("biombo: "))
        });
        records.iter_mut().for_each(|record| record.repetition = self.round);
        Outcome { records, failure }
    }
}

impl Running {
    /// Wait for its end.
    fn outcome(mut self, bench: &Bench<'_>) -> Done<Outcome> {
        let status = self.child.wait().map_err(|e| Failure::failed(format!("cannot wait for {}: {e}", bench.name)))?;
        let said = self.messages.take().and_then(|messages| messages.join().ok()).unwrap_or_default();
        let outcome = bench.outcome(status, &said);
        let given_up = self.given_up.take().map(|why| format!("{}: {why}", bench.name));
        Ok(Outcome { failure: given_up.or(outcome.failure), ..outcome })
    }
}

/// The old one before the new one.
fn in_order(first: usize, one: Outcome, other: Outcome) -> [Outcome; 2] {
    if first == 0 { [one, other] } else { [other, one] }
}
