//! The race itself: rounds of trials, until one candidate is left or the budget is spent.

use std::time::Instant;

use biombo_base::Result;
use biombo_engine::Registry;

use super::candidates::promising_less;
use super::conclude::{Outcome, conclude};
use super::heads::Heads;
use super::race::{self, Round, Trials};
use super::schedule::Schedule;
use super::trial::{Bench, Tried, in_turn};
use super::{Advice, Candidate, ERROR, Question, Size, Standing, candidates};
use crate::bench::Observer;
use crate::process::WorkerCommand;
use crate::record::Record;
use crate::spec::RunSpec;

/// A candidate in the race.
pub(super) struct Runner {
    pub(super) candidate: Candidate,
    /// `None`: in the race.
    pub(super) out: Option<Standing>,
    pub(super) records: Vec<Record>,
    /// What its latest trial took.
    pub(super) latest_seconds: f64,
}

impl Runner {
    fn new(candidate: Candidate) -> Self {
        Self { candidate, out: None, records: Vec::new(), latest_seconds: 0.0 }
    }
}

/// The figures of all, each from its first round.
pub(super) fn figures(runners: &[Runner]) -> Vec<Trials> {
    runners.iter().map(|runner| runner.records.iter().map(|record| record.ops_per_s).collect()).collect()
}

/// The rounds of trials of such sizes, where so many records are asked about.
pub(super) fn rounds(sizes: &[Size], asked: u64) -> Vec<Round> {
    sizes.iter().map(|size| Round { weight: size.seconds, margin: size.margin(asked) }).collect()
}

/// Try the candidates for `question`, each trial in a process started by `worker`, and say which store it should be.
///
/// A trial that fails costs its candidate the race, with the reason in the ranking; a later round that fails for all ends it, and the
/// rounds before are what is known. So are those that were done when the observer interrupts.
///
/// # Errors
/// Those of [`candidates()`]; `Invalid` for a trace that cannot be read; the first failure, where every candidate failed; `Io` when it was
/// interrupted before the first round was done.
pub fn advise(
    question: &Question,
    registry: &Registry,
    worker: &WorkerCommand,
    observer: &mut dyn Observer,
) -> Result<Advice> {
    let begun = Instant::now();
    let (all, left_out) = candidates(question, registry)?;
    let record_bytes = u64::from(question.key_bytes) + u64::from(question.value_bytes);
    let mut schedule = Schedule::new(question.budget_seconds, all.len(), question.records, record_bytes);
    let mut bench = Bench::new(question, registry, worker, observer);
    let mut heads = Heads::new(question, &bench.base)?;
    let mut race = Race { runners: all.into_iter().map(Runner::new).collect(), sizes: Vec::new() };
    let (mut interrupted, mut broke_off, mut tried) = (false, None, question.clone());
    loop {
        let (spent, latest) = (begun.elapsed().as_secs_f64(), race.latest());
        let Some(size) = schedule.next(spent, &latest) else { break };
        let beginning = match heads.of(size.records) {
            Ok(beginning) => beginning,
            Err(error) if race.sizes.is_empty() => return Err(error),
            Err(error) => {
                broke_off = Some(error.to_string());
                break;
            }
        };
        let trials = race.trials(&beginning, size);
        let ahead = trials.len() * schedule.rounds_ahead(spent, &latest) as usize;
        let plan: Vec<RunSpec> =
            trials.iter().map(|(_, spec)| spec).cycle().take(bench.done + ahead).cloned().collect();
        bench.observer.plan(&plan);
        match race.round(trials, size, question.records, &mut bench) {
            Ended::Counted => {
                tried = beginning;
                continue;
            }
            Ended::Interrupted => interrupted = true,
            Ended::Failed(why) => broke_off = Some(why),
        }
        break;
    }
    let Race { runners, sizes } = race;
    let seconds = begun.elapsed().as_secs_f64();
    let promising_less = promising_less(question, registry);
    conclude(Outcome { question, tried, sizes, left_out, promising_less, interrupted, broke_off, seconds }, runners)
}

/// How a round ended.
#[derive(Debug, PartialEq)]
enum Ended {
    /// It counts.
    Counted,
    /// It does not: the observer gave up.
    Interrupted,
    /// It does not: no trial of it came to its end, and this is why.
    Failed(String),
}

struct Race {
    runners: Vec<Runner>,
    /// Of the trials of each round that was done.
    sizes: Vec<Size>,
}

impl Race {
    fn running(&self) -> impl Iterator<Item = usize> {
        self.runners.iter().enumerate().filter(|(_, runner)| runner.out.is_none()).map(|(at, _)| at)
    }

    /// What the latest trial of each that is left took; nothing before the first round.
    fn latest(&self) -> Vec<f64> {
        let running = self.running().filter(|_| !self.sizes.is_empty());
        running.map(|at| self.runners[at].latest_seconds).collect()
    }

    /// The trials of the next round, in an order by lot.
    fn trials(&self, question: &Question, size: Size) -> Vec<(usize, RunSpec)> {
        let round = self.sizes.len() as u32;
        let in_turn = in_turn(self.running().collect(), question.seed, round);
        let trial = |at: usize| Some((at, self.runners[at].candidate.trial(question, size, round + 1)?));
        in_turn.into_iter().filter_map(trial).collect()
    }

    /// One trial of each that is in the race, then who is out.
    fn round(&mut self, trials: Vec<(usize, RunSpec)>, size: Size, asked: u64, bench: &mut Bench<'_>) -> Ended {
        let mut results = Vec::new();
        for (at, spec) in trials {
            let Some(tried) = bench.trial(spec) else { return Ended::Interrupted };
            results.push((at, tried));
        }
        self.count(results, size, asked)
    }

    /// Take in what a round gave, and say who is out. A later round that fails for all says nothing of anybody (longer trials may need
    /// more room than there is): what the rounds before have shown is not lost for it.
    fn count(&mut self, results: Vec<(usize, Tried)>, size: Size, asked: u64) -> Ended {
        if !self.sizes.is_empty() && results.iter().all(|(_, tried)| tried.result.is_err()) {
            let why = results.into_iter().find_map(|(_, tried)| tried.result.err());
            return Ended::Failed(why.unwrap_or_default());
        }
        self.sizes.push(size);
        for (at, tried) in results {
            let runner = &mut self.runners[at];
            runner.latest_seconds = tried.seconds;
            match tried.result {
                Ok(record) => runner.records.push(record),
                Err(why) => runner.out = Some(Standing::Failed { why }),
            }
        }
        for (slow, fast) in race::beaten(&figures(&self.runners), &rounds(&self.sizes, asked), ERROR) {
            let by = self.runners[fast].candidate.to_string();
            let round = self.sizes.len() as u32;
            self.runners[slow].out.get_or_insert(Standing::Beaten { by, round });
        }
        Ended::Counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::spec::{Partitioning, Placement};

    fn race_of(engines: &[&str]) -> Race {
        let candidate = |engine: &str| Candidate {
            engine: engine.to_owned(),
            partitioning: Partitioning::None,
            partitions: 1,
            placement: Placement::Hash,
            workers: None,
        };
        Race { runners: engines.iter().map(|engine| Runner::new(candidate(engine))).collect(), sizes: Vec::new() }
    }

    fn tried(at: usize, figure: std::result::Result<f64, &str>) -> (usize, Tried) {
        let result = figure.map(|ops| record("log", "none", 1, ops)).map_err(str::to_owned);
        (at, Tried { result, seconds: 1.5 })
    }

    fn left(race: &Race) -> Vec<usize> {
        race.running().collect()
    }

    const SIZE: Size = Size { records: 100, seconds: 0.5 };

    #[test]
    fn a_later_round_that_fails_for_all_costs_nobody_the_race() {
        let mut race = race_of(&["a", "b", "c"]);
        let first = vec![tried(1, Ok(50.0)), tried(0, Ok(60.0)), tried(2, Err("it broke"))];
        assert_eq!(race.count(first, SIZE, 100), Ended::Counted);
        assert_eq!((race.sizes.len(), left(&race), race.latest()), (1, vec![0, 1], vec![1.5, 1.5]));
        let full = vec![tried(1, Err("no room")), tried(0, Err("none here"))];
        assert_eq!(race.count(full, SIZE, 100), Ended::Failed("no room".to_owned()));
        assert_eq!((race.sizes.len(), left(&race)), (1, vec![0, 1]));
        // One that fails alone is out.
        let one = vec![tried(0, Err("it broke")), tried(1, Ok(50.0))];
        assert_eq!(race.count(one, SIZE, 100), Ended::Counted);
        assert_eq!((race.sizes.len(), left(&race)), (2, vec![1]));
    }

    #[test]
    fn a_first_round_that_fails_for_all_leaves_nobody() {
        let mut race = race_of(&["a", "b"]);
        let none = vec![tried(0, Err("no room")), tried(1, Err("no room"))];
        assert_eq!(race.count(none, SIZE, 100), Ended::Counted);
        assert!(left(&race).is_empty() && race.latest().is_empty());
        let why = |runner: &Runner| runner.out.as_ref().and_then(Standing::failure).map(str::to_owned);
        assert!(race.runners.iter().all(|runner| why(runner).as_deref() == Some("no room")));
    }

    #[test]
    fn who_is_beaten_is_told_with_the_round_and_the_winner() {
        let mut race = race_of(&["slow", "quick", "middle"]);
        for round in 0..6 {
            let noise = 1.0 + 0.001 * f64::from(round % 2);
            let all = [10.0 * noise, 1_000.0, 900.0 / noise];
            let results = left(&race).into_iter().map(|at| tried(at, Ok(all[at]))).collect();
            assert_eq!(race.count(results, SIZE, 100), Ended::Counted);
        }
        assert_eq!(left(&race), [1]);
        let beaten = race.runners[0].out.clone();
        assert!(matches!(&beaten, Some(Standing::Beaten { by, round }) if by == "quick" && *round <= 4), "{beaten:?}");
    }
}
