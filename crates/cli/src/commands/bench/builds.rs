//! Two builds measured by turns, so that what the machine does meanwhile meets both alike.
//!
//! A round is one bench of each build, in a process of its own, with one seed for both; who goes first changes from round to round. The two
//! benches of a round are loaded one after the other and then take turns of some milliseconds ([`biombo_lab::turns`]); where a build does not know
//! turns, or none are wanted, one bench follows the other. The
//! lines of a build are kept as soon as a round has them, those of a bench that failed too: the rounds after it go on, and in the end it is told.
//! What was kept before stays until both builds have a line: one of two files that belong together is never replaced alone.
//! Interrupted, the rounds so far are compared.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use biombo_lab::record::{Record, to_lines};
use biombo_lab::turns::Umpire;

use super::one_bench::{Bench, Outcome};
use super::watch::{Output, listen};
use crate::failure::{Done, Failure};
use crate::progress::Progress;

/// The benches whose lines can be compared.
const BENCHES: [&str; 4] = ["ycsb", "db", "shift", "trace"];
/// What is said for both builds alike, here.
const OURS: [&str; 4] = ["--repeat", "--seed", "--json", "--html"];

/// Turns shorter than this are mostly changes from one to the other, longer ones follow no machine.
const SHORTEST_TURN: f64 = 0.001;
const LONGEST_TURN: f64 = 60.0;

/// What is measured by turns.
pub(super) struct Builds<'a> {
    /// The programs, the old one first.
    pub(super) programs: [&'a Path; 2],
    /// The arguments of `biombo bench`.
    pub(super) bench: &'a [String],
    /// How often.
    pub(super) rounds: u32,
    /// How long a turn is, in seconds; 0: one bench follows the other.
    pub(super) turn: f64,
    /// Where the lines are kept: `old.jsonl` and `new.jsonl`.
    pub(super) keep: Option<&'a Path>,
}

impl Builds<'_> {
    /// Refuse what cannot be measured by turns.
    pub(super) fn check(&self) -> Done {
        let name = self.bench.first().map_or("", String::as_str);
        if !BENCHES.contains(&name) {
            let known = BENCHES.join(", ");
            return Err(Failure::usage(format!("say after -- what to measure: one of {known}, with its options")));
        }
        let is = |word: &str, option: &str| {
            word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
        };
        if let Some(option) = OURS.iter().find(|option| self.bench.iter().any(|word| is(word, option))) {
            return Err(Failure::usage(format!(
                "leave {option} out of the bench: each round is one run of it (--rounds, --keep)"
            )));
        }
        if self.rounds == 0 {
            return Err(Failure::usage("--rounds must be at least 1, and 7 or more for a verdict"));
        }
        if !(self.turn == 0.0 || (SHORTEST_TURN..=LONGEST_TURN).contains(&self.turn)) {
            return Err(Failure::usage(format!(
                "--turn {} is no time from {SHORTEST_TURN} to {LONGEST_TURN} seconds, nor 0 for one bench after the other",
                self.turn
            )));
        }
        Ok(())
    }

    /// Measure them; the runs of the old one and of the new one, and what failed. A signal ends it after the round under way; the second one at once.
    pub(super) fn measure(&self) -> Done<([Vec<Record>; 2], Vec<String>)> {
        let stop = listen()?;
        if let Some(dir) = self.keep {
            std::fs::create_dir_all(dir).map_err(|e| Failure::failed(format!("cannot make {}: {e}", dir.display())))?;
        }
        let kept = |name: &str| self.keep.map(|dir| Output::create(&dir.join(name))).transpose();
        let mut kept = [kept("old.jsonl")?, kept("new.jsonl")?];
        let scratch = [Scratch::create("old")?, Scratch::create("new")?];
        let turn = Duration::from_secs_f64(self.turn);
        let mut umpire = if self.takes_turns() { Some(Umpire::new(turn)?) } else { None };
        let mut progress = Progress::of_runs("by turns".to_owned(), u64::from(self.rounds) * 2);
        let (mut all, mut failed) = ([Vec::new(), Vec::new()], Vec::new());
        let mut to_keep = [String::new(), String::new()];
        for round in 1..=self.rounds {
            let benches = [0, 1].map(|which| self.bench_of(which, round, &scratch[which].0));
            let first = usize::from(round % 2 == 0);
            let together = match &mut umpire {
                None => None,
                Some(umpire) => Bench::together(&benches, umpire, first, round == 1)?,
            };
            let is_alone = together.is_none();
            let outcomes = match together {
                Some(outcomes) => outcomes,
                None => Bench::one_after_the_other(&benches, first)?,
            };
            for which in [first, 1 - first] {
                let Outcome { records, failure } = &outcomes[which];
                if let Some(failure) = failure {
                    // What does not even begin is no build to be compared.
                    if all[which].is_empty() && records.is_empty() {
                        return Err(Failure::failed(failure));
                    }
                    failed.push(failure.clone());
                }
                to_keep[which] += &to_lines(records);
                all[which].extend(records.iter().cloned());
            }
            if is_alone && umpire.take().is_some() {
                crate::note(format_args!(
                    "note: one of the builds knows no turns, so that one bench follows the other"
                ));
            }
            if all.iter().all(|records| !records.is_empty()) {
                for (kept, lines) in kept.iter_mut().zip(&mut to_keep) {
                    let lines = std::mem::take(lines);
                    let written = kept.as_mut().filter(|_| !lines.is_empty()).map(|kept| kept.write(&lines));
                    // What was measured is compared, whatever becomes of the file that keeps it.
                    if let Some(Err(failure)) = written {
                        failed.push(failure.to_string());
                        *kept = None;
                    }
                }
            }
            progress.at(u64::from(round) * 2);
            if stop.load(Ordering::Relaxed) {
                let interrupted = format!("interrupted in round {round} of {}", self.rounds);
                if round == 1 {
                    return Err(Failure::failed(interrupted));
                }
                // The rounds before it are compared.
                failed.push(interrupted);
                break;
            }
        }
        Ok((all, failed))
    }

    /// A store that repartitions itself does so by the clock of the machine, which does not stand still while another has its turn.
    fn takes_turns(&self) -> bool {
        let moves = |(at, word): (usize, &String)| match word.split_once('=') {
            Some(("--repartition", value)) => value != "off",
            _ => word == "--repartition" && self.bench.get(at + 1).is_some_and(|value| value != "off"),
        };
        self.turn > 0.0 && !self.bench.iter().enumerate().any(moves)
    }

    fn bench_of<'b>(&'b self, which: usize, round: u32, lines: &'b Path) -> Bench<'b> {
        let program = self.programs[which];
        let name = format!("round {round} of the {} build, {}", ["old", "new"][which], program.display());
        Bench { name, program, args: self.bench, round, lines }
    }
}

/// A file beside all others, which goes with this.
struct Scratch(PathBuf);

impl Scratch {
    fn create(side: &str) -> Done<Self> {
        let path = std::env::temp_dir().join(format!("biombo-compare-{}-{side}.jsonl", std::process::id()));
        Output::create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
