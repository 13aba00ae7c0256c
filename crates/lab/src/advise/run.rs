//! The race itself: rounds of trials, until one candidate is left or the budget is spent.

use std::path::Path;
use std::time::Instant;

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Registry;

use super::race::{self, Trials};
use super::{Advice, Candidate, ERROR, LeftOut, Question, Ranked, Size, Standing, candidates, config, words};
use crate::bench::run::one;
use crate::bench::{Observer, Plan};
use crate::measure::Host;
use crate::process::{RunDir, WorkerCommand, rundir};
use crate::record::Record;
use crate::spec::RunSpec;
use crate::workload::trace::{Counts, head, survey};
use crate::workload::{Random, Task};

/// More rounds than this tell nothing new.
const ROUNDS_MAX: u32 = 50;
/// A round is begun if it is likely to fit: it may take so much longer than those before.
const ROUND_SLACK: f64 = 1.1;

/// A candidate in the race.
struct Runner {
    candidate: Candidate,
    /// `None`: in the race.
    out: Option<Standing>,
    records: Vec<Record>,
    seconds: f64,
}

impl Runner {
    fn figures(&self) -> Trials {
        self.records.iter().map(|record| record.ops_per_s).collect()
    }

    fn seconds_per_trial(&self) -> f64 {
        self.seconds / self.records.len().max(1) as f64
    }
}

/// Try the candidates for `question`, each trial in a process started by `worker`, and say which store it should be.
///
/// A trial that fails costs its candidate the race, with the reason in the ranking. When the observer interrupts, the rounds that were
/// done are what is known.
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
    let size = Size::of(question.budget_seconds, all.len(), question.records, record_bytes);
    let base = question.dir.clone().unwrap_or_else(std::env::temp_dir);
    rundir::sweep(&base);
    // What of a trace a trial replays lies beside the stores, and goes with this.
    let beside = (!question.traces.is_empty()).then(|| RunDir::create(&base)).transpose()?;
    let shortened = beside.as_ref().map(|dir| shortened(question, size, dir.path())).transpose()?;
    let tried = shortened.as_ref().unwrap_or(question);
    let runners = all.into_iter().map(|candidate| Runner { candidate, out: None, records: Vec::new(), seconds: 0.0 });
    let mut race = Race { question: tried, size, runners: runners.collect(), trials: 0, rounds: 0 };
    let mut interrupted = false;
    while race.goes_on(begun.elapsed().as_secs_f64()) {
        observer.plan(&race.expected(begun.elapsed().as_secs_f64()));
        if !race.round(registry, worker, &base, observer)? {
            interrupted = true;
            break;
        }
    }
    let (rounds, runners) = (race.rounds, race.runners);
    let advice = Outcome { question, size, left_out, rounds, interrupted, seconds: begun.elapsed().as_secs_f64() };
    conclude(advice, runners)
}

/// What a trial replays of the traces, in `dir`.
fn shortened(question: &Question, size: Size, dir: &Path) -> Result<Question> {
    let files = question.traces.len() as u64;
    let mut traces = Vec::new();
    for (i, file) in question.traces.iter().enumerate() {
        let apart = dir.join(i.to_string());
        std::fs::create_dir(&apart).map_err(|e| Error::io(format!("create {}", apart.display()), e))?;
        let short = apart.join(file.file_name().unwrap_or_default());
        head(file, &short, size.records.div_ceil(files.max(1)))?;
        traces.push(short);
    }
    let counts = traces.iter().try_fold(Counts::default(), |all, file| survey(file).map(|one| all.plus(one)))?;
    Ok(Question { task: Task::Trace { counts }, traces, ..question.clone() })
}

struct Race<'a> {
    question: &'a Question,
    size: Size,
    runners: Vec<Runner>,
    /// Trials that were begun.
    trials: usize,
    rounds: u32,
}

impl Race<'_> {
    fn running(&self) -> impl Iterator<Item = usize> {
        self.runners.iter().enumerate().filter(|(_, runner)| runner.out.is_none()).map(|(at, _)| at)
    }

    /// What the next round will take, by those before; 0 before the first.
    fn round_seconds(&self) -> f64 {
        ROUND_SLACK * self.running().map(|at| self.runners[at].seconds_per_trial()).sum::<f64>()
    }

    fn goes_on(&self, spent: f64) -> bool {
        let left = self.running().count();
        let fits = spent + self.round_seconds() <= self.question.budget_seconds;
        self.rounds == 0 || left > 1 && self.rounds < ROUNDS_MAX && fits
    }

    /// The trials until the budget is spent if nobody dropped out any more, those that were done included: for progress.
    fn expected(&self, spent: f64) -> Vec<RunSpec> {
        let room = (self.question.budget_seconds - spent) / self.round_seconds();
        let rounds =
            if room.is_finite() { room.floor().min(f64::from(ROUNDS_MAX - self.rounds)).max(1.0) } else { 3.0 };
        let trial = |at: usize| self.runners[at].candidate.trial(self.question, self.size, self.rounds + 1);
        let round: Vec<RunSpec> = self.running().filter_map(trial).collect();
        round.iter().cycle().take(self.trials + round.len() * rounds as usize).cloned().collect()
    }

    /// One trial of each that is in the race, then who is out; `false`: interrupted, and the round does not count.
    fn round(
        &mut self,
        registry: &Registry,
        worker: &WorkerCommand,
        base: &Path,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let running = in_turn(self.running().collect(), self.question.seed, self.rounds);
        let mut results = Vec::new();
        for &at in &running {
            let Some(mut spec) = self.runners[at].candidate.trial(self.question, self.size, self.rounds + 1) else {
                continue;
            };
            observer.begin(self.trials, &spec);
            let begun = Instant::now();
            let result = one(registry, worker, base, &mut spec, observer);
            if observer.interrupted() {
                return Ok(false);
            }
            observer.end(&spec, result.as_ref());
            self.trials += 1;
            results.push((at, result, begun.elapsed().as_secs_f64()));
        }
        self.rounds += 1;
        for (at, result, seconds) in results {
            let runner = &mut self.runners[at];
            runner.seconds += seconds;
            match result.map(|record| (failure(&record), record)) {
                Ok((None, record)) => runner.records.push(record),
                Ok((Some(why), _)) => runner.out = Some(Standing::Failed { why }),
                Err(error) => runner.out = Some(Standing::Failed { why: error.to_string() }),
            }
        }
        let trials: Vec<Trials> = self.runners.iter().map(Runner::figures).collect();
        for (slow, fast) in race::beaten(&trials, ERROR) {
            let by = self.runners[fast].candidate.to_string();
            self.runners[slow].out.get_or_insert(Standing::Beaten { by, round: self.rounds });
        }
        Ok(true)
    }
}

/// The candidates of a round in an order by lot: whoever always follows the one that leaves the device busy would pay for it in each.
fn in_turn(mut candidates: Vec<usize>, seed: u64, round: u32) -> Vec<usize> {
    let mut random = Random::new(seed, u64::from(round));
    for last in (1..candidates.len()).rev() {
        candidates.swap(last, random.below(last as u64 + 1) as usize);
    }
    candidates
}

/// Why a trial that came to its end says nothing.
fn failure(record: &Record) -> Option<String> {
    if record.errors > 0 {
        let first = record.first_error.clone().unwrap_or_else(|| "an answer was wrong".to_owned());
        return Some(format!("{} operations failed: {first}", record.errors));
    }
    (record.ops_per_s.is_nan() || record.ops_per_s <= 0.0).then(|| "no operation came to its end".to_owned())
}

/// How the race went, but for its runners.
struct Outcome<'a> {
    question: &'a Question,
    size: Size,
    left_out: Vec<LeftOut>,
    rounds: u32,
    interrupted: bool,
    seconds: f64,
}

/// The ranking, and what is to be said of it.
fn conclude(outcome: Outcome<'_>, runners: Vec<Runner>) -> Result<Advice> {
    let Outcome { question, size, left_out, rounds, interrupted, seconds } = outcome;
    if rounds == 0 {
        return Err(Error::new(ErrorKind::Io, "interrupted before every candidate had a trial"));
    }
    let trials: Vec<Trials> = runners.iter().map(Runner::figures).collect();
    let left: Vec<usize> = (0..runners.len()).filter(|at| runners[*at].out.is_none()).collect();
    let Some(&first) = race::order(&trials, &left).first() else {
        let why = runners.iter().find_map(|runner| match &runner.out {
            Some(Standing::Failed { why }) => Some(why.clone()),
            _ => None,
        });
        return Err(Error::new(ErrorKind::Io, format!("every trial failed: {}", why.unwrap_or_default())));
    };
    let config = config(
        &runners[first].candidate,
        question,
        Plan { cache_bytes: question.cache_bytes, ..Plan::default() }.cache_bytes(),
    );
    let of_first = trials[first].clone();
    let mut ranking: Vec<Ranked> = runners
        .into_iter()
        .enumerate()
        .map(|(at, runner)| {
            let standing = runner.out.unwrap_or(if at == first { Standing::First } else { Standing::Close });
            let by_first = (!trials[at].is_empty()).then(|| race::by(&trials[at], &of_first));
            Ranked::new(runner.candidate, standing, &runner.records, by_first)
        })
        .collect();
    let key = |ranked: &Ranked| match &ranked.standing {
        Standing::First => f64::INFINITY,
        Standing::Failed { .. } => 0.0,
        _ => ranked.by_first.unwrap_or(0.0),
    };
    ranking.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let mut advice = Advice {
        question: words::question(question),
        ranking,
        left_out,
        why: Vec::new(),
        records: question.records,
        trial: size,
        rounds,
        budget_seconds: question.budget_seconds,
        seconds,
        noise: race::noise(&trials),
        error: ERROR,
        interrupted,
        host: Host::here(),
        config,
    };
    advice.why = words::why(&advice);
    Ok(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::spec::{Partitioning, Placement};

    fn runner(engine: &str, out: Option<Standing>, figures: &[f64]) -> Runner {
        let candidate = Candidate {
            engine: engine.to_owned(),
            partitioning: Partitioning::None,
            partitions: 1,
            placement: Placement::Hash,
        };
        let records = figures.iter().map(|ops| record(engine, "none", 1, *ops)).collect();
        Runner { candidate, out, records, seconds: 2.0 * figures.len() as f64 }
    }

    fn outcome(question: &Question) -> Outcome<'_> {
        let size = Size { records: 500, seconds: 0.5 };
        Outcome { question, size, left_out: Vec::new(), rounds: 3, interrupted: false, seconds: 30.0 }
    }

    #[test]
    fn the_first_is_the_fastest_that_is_left_and_the_rest_follow_by_the_rounds_they_shared() {
        let question = Question::default();
        let beaten = |by: &str| Some(Standing::Beaten { by: by.to_owned(), round: 1 });
        let failed = Some(Standing::Failed { why: "no room".to_owned() });
        let runners = vec![
            runner("slow", beaten("quick"), &[10.0]),
            runner("broken", failed.clone(), &[900.0]),
            runner("close", None, &[95.0, 96.0, 90.0]),
            // Fast in its one round, in which all were.
            runner("early", beaten("quick"), &[60.0]),
            runner("quick", None, &[100.0, 99.0, 101.0]),
        ];
        let advice = conclude(outcome(&question), runners).unwrap();
        let names: Vec<_> = advice.ranking.iter().map(|ranked| ranked.name.as_str()).collect();
        assert_eq!(names, ["quick", "close", "early", "slow", "broken"]);
        assert_eq!((&advice.ranking[0].standing, &advice.ranking[1].standing), (&Standing::First, &Standing::Close));
        assert_eq!(advice.config.engine.as_deref(), Some("quick"));
        assert!((advice.ranking[2].by_first.unwrap() - 0.6).abs() < 1e-9);
        assert_eq!(advice.ranking[0].ops_per_s_extremes, Some((99.0, 101.0)));
        let nothing = conclude(outcome(&question), vec![runner("broken", failed, &[])]).unwrap_err().to_string();
        assert!(nothing.contains("every trial failed: no room"), "{nothing}");
        let early = Outcome { rounds: 0, ..outcome(&question) };
        assert!(conclude(early, Vec::new()).unwrap_err().to_string().contains("interrupted"));
    }

    #[test]
    fn rounds_go_on_while_they_fit_and_more_than_one_is_left() {
        let question = Question { budget_seconds: 20.0, ..Question::default() };
        let race = |runners| Race {
            question: &question,
            size: Size { records: 5, seconds: 0.1 },
            runners,
            trials: 4,
            rounds: 2,
        };
        let two = || vec![runner("a", None, &[1.0, 1.0]), runner("b", None, &[1.0, 1.0])];
        // A round of both takes 4 s, and 4.4 s at most.
        assert!(race(two()).goes_on(15.5) && !race(two()).goes_on(15.7));
        assert_eq!(race(two()).expected(8.0).len(), 4 + 2 * 2);
        let one = vec![runner("a", None, &[1.0]), runner("b", Some(Standing::Failed { why: String::new() }), &[])];
        assert!(!race(one).goes_on(0.0));
        let at_the_end = Race { rounds: ROUNDS_MAX, ..race(two()) };
        assert!(!at_the_end.goes_on(0.0));
        let before = Race { rounds: 0, trials: 0, ..race(vec![runner("a", None, &[])]) };
        assert!(before.goes_on(1e9) && before.expected(0.0).len() == 3);
    }

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
