//! One trial, of the race or beyond it: in a process of its own, in a directory of its own.

use std::path::PathBuf;
use std::time::Instant;

use biombo_engine::Registry;

use super::Question;
use crate::bench::Observer;
use crate::bench::run::one;
use crate::process::{WorkerCommand, rundir};
use crate::record::Record;
use crate::spec::RunSpec;
use crate::workload::Random;

/// What trials are made with.
pub(super) struct Bench<'a> {
    registry: &'a Registry,
    worker: &'a WorkerCommand,
    pub(super) observer: &'a mut dyn Observer,
    /// Where the stores are made.
    pub(super) base: PathBuf,
    /// Trials that came to their end.
    pub(super) done: usize,
}

/// What came of a trial.
pub(super) struct Tried {
    /// The reason, where it says nothing.
    pub(super) result: Result<Record, String>,
    /// What it took, from its start to its end.
    pub(super) seconds: f64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        question: &Question,
        registry: &'a Registry,
        worker: &'a WorkerCommand,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let base = question.dir.clone().unwrap_or_else(std::env::temp_dir);
        rundir::sweep(&base);
        Self { registry, worker, observer, base, done: 0 }
    }

    /// Do `spec`; `None`: interrupted.
    pub(super) fn trial(&mut self, mut spec: RunSpec) -> Option<Tried> {
        self.observer.begin(self.done, &spec);
        let begun = Instant::now();
        let result = one(self.registry, self.worker, &self.base, &mut spec, self.observer);
        if self.observer.interrupted() {
            return None;
        }
        self.observer.end(&spec, result.as_ref());
        self.done += 1;
        let result = match result {
            Ok(record) => failure(&record).map_or(Ok(record), Err),
            Err(error) => Err(error.to_string()),
        };
        Some(Tried { result, seconds: begun.elapsed().as_secs_f64() })
    }
}

/// The candidates of a round in an order by lot: whoever always follows the one that leaves the device busy would pay for it in each.
pub(super) fn in_turn(mut candidates: Vec<usize>, seed: u64, round: u32) -> Vec<usize> {
    let mut random = Random::new(seed, u64::from(round));
    for last in (1..candidates.len()).rev() {
        candidates.swap(last, random.below(last as u64 + 1) as usize);
    }
    candidates
}

/// Why a trial that came to its end says nothing: operations that failed or gave a wrong answer, or none at all. `None`: it counts.
pub fn failure(record: &Record) -> Option<String> {
    if record.errors > 0 {
        let first = record.first_error.clone().unwrap_or_else(|| "an answer was wrong".to_owned());
        return Some(format!("{} operations failed: {first}", record.errors));
    }
    (record.ops_per_s.is_nan() || record.ops_per_s <= 0.0).then(|| "no operation came to its end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn the_turns_of_a_round_are_by_lot() {
        let turns: Vec<_> = (0..200).map(|round| in_turn((0..7).collect(), 1, round)).collect();
        for at in 0..7 {
            let first = turns.iter().filter(|turn| turn[0] == at).count();
            assert!((10..=60).contains(&first), "{at} is first in {first} of 200 rounds");
        }
        assert!(turns.iter().all(|turn| (0..7).all(|at| turn.contains(&at))));
        assert_eq!(turns[3], in_turn((0..7).collect(), 1, 3), "a seed repeats them");
        assert!(in_turn(Vec::new(), 1, 0).is_empty());
    }

    #[test]
    fn a_trial_with_wrong_answers_says_nothing() {
        let good = record("log", "none", 1, 100.0);
        assert_eq!(failure(&good), None);
        let wrong = Record { errors: 3, first_error: Some("key not there".to_owned()), ..good.clone() };
        assert_eq!(failure(&wrong).as_deref(), Some("3 operations failed: key not there"));
        assert!(failure(&Record { ops_per_s: 0.0, ..good }).is_some());
    }
}
