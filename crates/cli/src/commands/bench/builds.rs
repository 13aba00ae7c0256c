//! Two builds measured by turns, so that what the machine does meanwhile meets both alike.
//!
//! A round is one bench of each build, in a process of its own, with one seed for both; who goes first changes from round to round. The
//! lines of a build are kept as soon as a round has them, those of a bench that failed too: the rounds after it go on, and in the end it is told.
//! What was kept before stays until both builds have a line: one of two files that belong together is never replaced alone.
//! Interrupted, the rounds so far are compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_lab::record::{Record, parse_lines, to_lines};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::watch::Output;
use crate::failure::{Done, Failure};
use crate::progress::Progress;

/// The benches whose lines can be compared.
const BENCHES: [&str; 4] = ["ycsb", "db", "shift", "trace"];
/// What is said for both builds alike, here.
const OURS: [&str; 4] = ["--repeat", "--seed", "--json", "--html"];

/// What is measured by turns.
pub(super) struct Builds<'a> {
    /// The programs, the old one first.
    pub(super) programs: [&'a Path; 2],
    /// The arguments of `biombo bench`.
    pub(super) bench: &'a [String],
    /// How often.
    pub(super) rounds: u32,
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
            return Err(Failure::usage("--rounds must be at least 1, and 6 or more for a verdict"));
        }
        Ok(())
    }

    /// Measure them; the runs of the old one and of the new one, and what failed. A signal ends it after the bench under way; the second one at once.
    pub(super) fn measure(&self) -> Done<([Vec<Record>; 2], Vec<String>)> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
                .and_then(|_| flag::register(signal, Arc::clone(&stop)))
                .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
        }
        if let Some(dir) = self.keep {
            std::fs::create_dir_all(dir).map_err(|e| Failure::failed(format!("cannot make {}: {e}", dir.display())))?;
        }
        let kept = |name: &str| self.keep.map(|dir| Output::create(&dir.join(name))).transpose();
        let mut kept = [kept("old.jsonl")?, kept("new.jsonl")?];
        let scratch = Scratch::create()?;
        let mut progress = Progress::of_runs("by turns".to_owned(), u64::from(self.rounds) * 2);
        let (mut all, mut failed) = ([Vec::new(), Vec::new()], Vec::new());
        let mut to_keep = [String::new(), String::new()];
        'rounds: for round in 1..=self.rounds {
            let first = usize::from(round % 2 == 0);
            for (turn, which) in [first, 1 - first].into_iter().enumerate() {
                let (records, failure) = self.bench_of(which, round, &scratch.0)?;
                if let Some(failure) = failure {
                    // What does not even begin is no build to be compared.
                    if all[which].is_empty() && records.is_empty() {
                        return Err(Failure::failed(failure));
                    }
                    failed.push(failure);
                }
                to_keep[which] += &to_lines(&records);
                all[which].extend(records);
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
                progress.at(u64::from(round - 1) * 2 + turn as u64 + 1);
                if stop.load(Ordering::Relaxed) {
                    let interrupted = format!("interrupted in round {round} of {}", self.rounds);
                    if round == 1 {
                        return Err(Failure::failed(interrupted));
                    }
                    // The rounds before it are compared.
                    failed.push(interrupted);
                    break 'rounds;
                }
            }
        }
        Ok((all, failed))
    }

    /// One bench of one build: its runs, and why it failed, if it did.
    fn bench_of(&self, which: usize, round: u32, lines: &Path) -> Done<(Vec<Record>, Option<String>)> {
        let program = self.programs[which];
        let of = || format!("round {round} of the {} build, {}", ["old", "new"][which], program.display());
        // What an earlier round left is not this one's.
        let _ = std::fs::remove_file(lines);
        // A program is looked for in the path by its bare name, unless it is right here.
        let here = Path::new(".").join(program);
        let is_here = program.components().count() == 1 && here.is_file();
        let output = Command::new(if is_here { here.as_path() } else { program })
            .arg("bench")
            .args(self.bench)
            .args(["--repeat", "1", "--seed", round.to_string().as_str(), "--json"])
            .arg(lines)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|e| Failure::failed(format!("cannot run {}: {e}", program.display())))?;
        let text = std::fs::read_to_string(lines).unwrap_or_default();
        // Of a line that was cut short nothing is known, but for those before it.
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let told: Vec<_> = lines.map(parse_lines).collect();
        let is_whole = told.iter().all(|line| line.is_ok());
        let mut records: Vec<Record> = told.into_iter().flatten().flatten().collect();
        // Wrong answers are the comparison's business.
        let has_wrong = records.iter().any(|record| record.errors > 0);
        let failure = (records.is_empty() || !is_whole || !(output.status.success() || has_wrong)).then(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said
                .lines()
                .rev()
                .find(|line| line.starts_with("biombo: ") && !line.starts_with("biombo: note: "))
                .unwrap_or("a line of its runs is missing or broken");
            format!("{}: {}", of(), why.trim_start_matches("biombo: "))
        });
        records.iter_mut().for_each(|record| record.repetition = round);
        Ok((records, failure))
    }
}

/// A file beside all others, which goes with this.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> Done<Self> {
        let path = std::env::temp_dir().join(format!("biombo-compare-{}.jsonl", std::process::id()));
        Output::create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
