//! What the advice is worth: every candidate measured over all the data for the same, longer time, and how far the advised one is from the best.
//!
//! The best of many measurements is in part the luckiest one. So the advised store and those of the others that came near the best are measured
//! again, `REPETITIONS` times in turn, and what is said of them rests on these trials alone: there, luck meets all alike. Its rival is whoever
//! does the most by it there. They are not counted among the time of the exhaustive run, to which that of the advice is compared.

use std::io::{self, Write};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Registry;
use serde::Serialize;

use super::race::{self, Round};
use super::trial::{Bench, in_turn};
use super::{Advice, Candidate, Question, Size, candidates};
use crate::bench::Observer;
use crate::columns;
use crate::process::WorkerCommand;
use crate::units::{count, duration_ns};

/// Trials that the advised store and those that are near the best have after all have had one.
const REPETITIONS: u32 = 2;
/// Near is who has so much of the most that one did, of whom so many are measured again; the best of the others is in any case.
const NEAR: f64 = 0.9;
const NEAR_MAX: usize = 4;

/// An exhaustive run beside the advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exhaustive {
    /// The store that was advised.
    pub advised: String,
    /// The best store: of the advised one and its rival the one that was ahead when both were measured again.
    pub best: String,
    /// The throughput of the advised store by that of the best: 1 where it is the same; `None` where it failed.
    pub advised_by_best: Option<f64>,
    /// The seconds that the advice took, by those of this run.
    pub advice_share: f64,
    /// Seconds of this run: one trial of each candidate, loading included.
    pub seconds: f64,
    /// Seconds for which each trial ran once it was loaded.
    pub run_seconds: f64,
    /// The best of the other stores by the advised one, of those that were measured again; `None` where there is no other, or all others failed.
    pub rival: Option<String>,
    /// The throughput of the advised store by that of its rival; `None` where there is no such ratio.
    pub advised_by_rival: Option<f64>,
    /// How often both were measured again; 0 where one of them was not there, or failed.
    pub repetitions: u32,
    /// All candidates, the best first; those that failed at the end.
    pub ranking: Vec<Measured>,
}

/// One candidate of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What it is called.
    pub name: String,
    /// The candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Operations per second of its first trial; `None` where it failed.
    pub ops_per_s: Option<f64>,
    /// By the most that one did.
    pub by_best: Option<f64>,
    /// Why it failed.
    pub failed: Option<String>,
}

/// Measure every candidate for `question` over all of its records, each for `run_seconds` once it is loaded, and compare with what
/// `advice` says.
///
/// # Errors
/// Those of [`candidates()`]; the first failure, where every candidate failed; `Io` when it was interrupted: an advice cannot be
/// judged by a part of the candidates.
pub fn exhaustive(
    question: &Question,
    run_seconds: f64,
    advice: &Advice,
    registry: &Registry,
    worker: &WorkerCommand,
    observer: &mut dyn Observer,
) -> Result<Exhaustive> {
    let (all, _) = candidates(question, registry)?;
    let advised = advice.ranking.first().map(|ranked| ranked.name.clone()).unwrap_or_default();
    let size = Size { records: question.records, seconds: run_seconds };
    let mut bench = Bench::new(question, registry, worker, observer);
    // Its seeds and numbers follow those of the race.
    let mut pass = |which: &[usize], round: u32| -> Result<Vec<Timed>> {
        let number = advice.rounds + round;
        let in_turn = in_turn(which.to_vec(), question.seed, number);
        let trials: Vec<_> =
            in_turn.into_iter().filter_map(|at| Some((at, all[at].trial(question, size, number)?))).collect();
        let plan: Vec<_> =
            trials.iter().map(|(_, spec)| spec).cycle().take(bench.done + trials.len()).cloned().collect();
        bench.observer.plan(&plan);
        let mut figures = Vec::new();
        for (at, spec) in trials {
            let Some(tried) = bench.trial(spec) else {
                let (done, all) = (figures.len(), which.len());
                let text = format!("interrupted after {done} of {all} trials of the exhaustive run");
                return Err(Error::new(ErrorKind::Io, text));
            };
            figures.push(Timed { at, figure: tried.result.map(|record| record.ops_per_s), seconds: tried.seconds });
        }
        Ok(figures)
    };
    let everyone: Vec<usize> = (0..all.len()).collect();
    let first = pass(&everyone, 1)?;
    // What failed took its time for nothing: the advice is not to be flattered by it.
    let seconds: f64 = first.iter().filter(|timed| timed.figure.is_ok()).map(|timed| timed.seconds).sum();
    let ranking = ranking(&all, &first)?;
    let place = |name: &str| all.iter().position(|candidate| candidate.to_string() == name);
    let came_through = |at: &usize| first.iter().any(|timed| timed.at == *at && timed.figure.is_ok());
    let rivals = rivals(&ranking, &advised);
    let mut again: Vec<Vec<Timed>> = Vec::new();
    if let Some(advised) = place(&advised).filter(came_through)
        && !rivals.is_empty()
    {
        let near: Vec<usize> = rivals.iter().filter_map(|rival| place(rival)).chain([advised]).collect();
        for round in 0..REPETITIONS {
            again.push(pass(&near, 2 + round)?);
        }
    }
    let (rival, advised_by_rival, repetitions) = strongest(&advised, &rivals, &ranking, |rival| {
        let pair = |figures: &Vec<Timed>| pair(figures, place(&advised)?, place(rival)?);
        again.iter().map(pair).collect()
    });
    let run = Exhaustive {
        best: ranking[0].name.clone(),
        advised_by_best: None,
        advised_by_rival,
        advised,
        rival,
        advice_share: advice.seconds / seconds,
        seconds,
        run_seconds,
        repetitions,
        ranking,
    };
    Ok(run.judged())
}

/// Who is measured again beside the advised store: the best of the others, and who else is near the most that one did.
fn rivals(ranking: &[Measured], advised: &str) -> Vec<String> {
    let others = ranking.iter().filter(|one| one.name != advised && one.ops_per_s.is_some());
    let near = |(place, one): &(usize, &Measured)| *place == 0 || one.by_best.is_some_and(|by| by >= NEAR);
    others.enumerate().filter(near).take(NEAR_MAX).map(|(_, one)| one.name.clone()).collect()
}

/// Of the rivals the one by which the advised store does the least, how much that is, and by how many repetitions of both.
fn strongest(
    advised: &str,
    rivals: &[String],
    ranking: &[Measured],
    repeated: impl Fn(&str) -> Vec<Option<(f64, f64)>>,
) -> (Option<String>, Option<f64>, u32) {
    let of = |rival: &String| {
        let pairs = repeated(rival);
        (Some(rival.clone()), by(advised, rival, ranking, &pairs), pairs.iter().flatten().count() as u32)
    };
    // Where there is no ratio, the advised one failed, by all of them.
    let least = |a: &(_, Option<f64>, _), b: &(_, Option<f64>, _)| {
        a.1.unwrap_or(f64::INFINITY).total_cmp(&b.1.unwrap_or(f64::INFINITY))
    };
    rivals.iter().map(of).min_by(least).unwrap_or((None, None, 0))
}

impl Exhaustive {
    /// With what the ratio of the advised store and its rival says of the best.
    fn judged(mut self) -> Self {
        let failed = |name: &str| self.ranking.iter().any(|one| one.name == name && one.ops_per_s.is_none());
        (self.best, self.advised_by_best) = match (self.advised_by_rival, &self.rival) {
            (Some(by), Some(rival)) if by < 1.0 => (rival.clone(), Some(by)),
            _ if failed(&self.advised) => (self.best, None),
            _ => (self.advised.clone(), Some(1.0)),
        };
        self
    }
}

/// What a candidate did.
struct Timed {
    at: usize,
    figure: std::result::Result<f64, String>,
    seconds: f64,
}

/// The figures of two candidates; `None` where one of them failed.
fn pair(figures: &[Timed], one: usize, other: usize) -> Option<(f64, f64)> {
    let of = |at| figures.iter().find(|timed| timed.at == at).and_then(|timed| timed.figure.clone().ok());
    of(one).zip(of(other))
}

/// All candidates with what they did, the best first.
fn ranking(all: &[Candidate], figures: &[Timed]) -> Result<Vec<Measured>> {
    let best = figures.iter().filter_map(|timed| timed.figure.as_ref().ok().copied()).reduce(f64::max);
    let Some(best) = best else {
        let why = figures.iter().find_map(|timed| timed.figure.as_ref().err());
        let why = why.map_or("there was none", String::as_str);
        return Err(Error::new(ErrorKind::Io, format!("every trial of the exhaustive run failed: {why}")));
    };
    let measured = |timed: &Timed| Measured {
        name: all[timed.at].to_string(),
        candidate: all[timed.at].clone(),
        ops_per_s: timed.figure.as_ref().ok().copied(),
        by_best: timed.figure.as_ref().ok().map(|ops| ops / best),
        failed: timed.figure.as_ref().err().cloned(),
    };
    let mut ranking: Vec<Measured> = figures.iter().map(measured).collect();
    let key = |measured: &Measured| measured.ops_per_s.unwrap_or(0.0);
    ranking.sort_by(|a, b| key(b).total_cmp(&key(a)));
    Ok(ranking)
}

/// The throughput of one store by that of another: of the repetitions that both came through, else of their one trial.
fn by(one: &str, other: &str, ranking: &[Measured], repeated: &[Option<(f64, f64)>]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = repeated.iter().flatten().copied().collect();
    if pairs.is_empty() {
        let of = |name: &str| ranking.iter().find(|measured| measured.name == name)?.ops_per_s;
        return Some(of(one)? / of(other)?);
    }
    let (one, other): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    Some(race::by(&one, &other, &vec![Round { weight: 1.0, margin: 0.0 }; one.len()]))
}

/// The ranking of the run, and what it says of the advice.
pub(super) fn print(run: &Exhaustive, output: &mut impl Write) -> io::Result<()> {
    let cell = |figure: Option<f64>, text: &dyn Fn(f64) -> String| figure.map_or("-".to_owned(), text);
    let mut lines = vec![["store", "ops/s", "of the best", ""].map(str::to_owned).to_vec()];
    lines.extend(run.ranking.iter().map(|measured| {
        let remark = match &measured.failed {
            Some(why) => format!("failed: {}", super::words::line(why)),
            None if measured.name == run.advised => "advised".to_owned(),
            None => String::new(),
        };
        vec![
            measured.name.clone(),
            cell(measured.ops_per_s, &count),
            cell(measured.by_best, &|by| format!("{:.0} %", 100.0 * by)),
            remark,
        ]
    }));
    writeln!(
        output,
        "\nExhaustively, {} for each over all records, {} in all:\n",
        duration_ns(1e9 * run.run_seconds),
        duration_ns(1e9 * run.seconds)
    )?;
    columns::write(&lines, &[0, 3], output)?;
    writeln!(output)?;
    sentences(run).iter().try_for_each(|sentence| writeln!(output, "{sentence}"))
}

/// What the run says of the advice.
pub(super) fn sentences(run: &Exhaustive) -> [String; 2] {
    let rests = match run.repetitions {
        0 => "by one trial each".to_owned(),
        more => format!("measured {more} more times, in turn"),
    };
    let Exhaustive { advised, best, .. } = run;
    let judged = match (run.advised_by_best, run.advised_by_rival, &run.rival) {
        (None, ..) => format!("The best is {best}; the advised {advised} failed."),
        (Some(by), ..) if advised != best => {
            format!("The best is {best}; the advised {advised} has {:.1} % of it, {rests}.", 100.0 * by)
        }
        (_, Some(by), Some(rival)) => format!(
            "The advised store, {advised}, is the best of them; the next one, {rival}, has {:.1} % of it, {rests}.",
            100.0 / by
        ),
        _ => format!("The advised store, {advised}, is the best of them."),
    };
    [judged, format!("The advice took {:.1} % of the time of the exhaustive run.", 100.0 * run.advice_share)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Partitioning, Placement};

    fn all() -> Vec<Candidate> {
        ["a", "b", "c"]
            .map(|engine| Candidate {
                engine: engine.to_owned(),
                partitioning: Partitioning::None,
                partitions: 1,
                placement: Placement::Hash,
                workers: None,
            })
            .to_vec()
    }

    fn timed(at: usize, figure: std::result::Result<f64, &str>) -> Timed {
        Timed { at, figure: figure.map_err(str::to_owned), seconds: 5.0 }
    }

    #[test]
    fn the_best_is_first_and_what_failed_is_last_with_its_reason() {
        let ranking = ranking(&all(), &[timed(1, Err("full")), timed(0, Ok(50.0)), timed(2, Ok(80.0))]).unwrap();
        let names: Vec<_> = ranking.iter().map(|measured| measured.name.as_str()).collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert_eq!((ranking[1].by_best, ranking[2].failed.as_deref()), (Some(0.625), Some("full")));
        let none = super::ranking(&all(), &[timed(0, Err("full"))]).unwrap_err().to_string();
        assert!(none.contains("every trial of the exhaustive run failed: full"), "{none}");
    }

    #[test]
    fn the_ratio_is_that_of_the_repetitions_where_there_are_any() {
        let first = [timed(0, Ok(50.0)), timed(1, Ok(100.0)), timed(2, Err("full"))];
        let ranking = ranking(&all(), &first).unwrap();
        assert_eq!(by("a", "b", &ranking, &[]), Some(0.5));
        assert_eq!(by("b", "a", &ranking, &[]), Some(2.0));
        assert_eq!(by("c", "b", &ranking, &[]), None);
        let again = pair(&[timed(1, Ok(100.0)), timed(0, Ok(110.0))], 0, 1);
        assert_eq!(again, Some((110.0, 100.0)));
        // A repetition that failed does not count.
        assert!((by("a", "b", &ranking, &[again, None]).unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(pair(&first, 0, 2), None);
        assert_eq!(by("a", "b", &ranking, &[None]), Some(0.5));
    }

    /// Fails if the luckiest of one trial each is taken for the strongest rival: of those near it, another may be.
    #[test]
    fn the_rival_is_the_strongest_of_those_that_were_measured_again() {
        let figures = [timed(0, Ok(88.0)), timed(1, Ok(93.0)), timed(2, Ok(100.0))];
        let ranking = ranking(&all(), &figures).unwrap();
        assert_eq!(rivals(&ranking, "a"), ["c", "b"]);
        // The advised one is the best by far: the next one is measured again all the same, and nobody else.
        let apart = super::ranking(&all(), &[timed(0, Ok(300.0)), timed(1, Ok(90.0)), timed(2, Ok(100.0))]).unwrap();
        assert_eq!(rivals(&apart, "a"), ["c"]);
        let again = |rival: &str| vec![Some((88.0, if rival == "b" { 110.0 } else { 89.0 })), None];
        let (rival, by_rival, repetitions) = strongest("a", &rivals(&ranking, "a"), &ranking, again);
        assert_eq!((rival.as_deref(), by_rival, repetitions), (Some("b"), Some(0.8), 1));
        assert_eq!(strongest("a", &[], &ranking, again), (None, None, 0));
        let (rival, by_rival, _) = strongest("a", &rivals(&ranking, "a"), &ranking, |_| vec![None]);
        assert_eq!((rival.as_deref(), by_rival), (Some("c"), Some(0.88)), "by one trial each");
    }

    /// A run in which b did the most, c failed, and the advised one has so much of its rival.
    fn run(advised: &str, rival: Option<&str>, advised_by_rival: Option<f64>, repetitions: u32) -> Exhaustive {
        let figures = [timed(0, Ok(90_000.0)), timed(1, Ok(100_000.0)), timed(2, Err("the disk\nis full"))];
        let run = Exhaustive {
            advised: advised.to_owned(),
            best: "b".to_owned(),
            advised_by_best: None,
            advice_share: 0.0871,
            seconds: 600.0,
            run_seconds: 10.0,
            rival: rival.map(str::to_owned),
            advised_by_rival,
            repetitions,
            ranking: ranking(&all(), &figures).unwrap(),
        };
        run.judged()
    }

    #[test]
    fn the_best_is_whoever_was_ahead_when_both_were_measured_again() {
        let best = |run: Exhaustive| (run.best, run.advised_by_best);
        // Ahead by luck, and behind by luck.
        assert_eq!(best(run("b", Some("a"), Some(0.8), 2)), ("a".to_owned(), Some(0.8)));
        assert_eq!(best(run("a", Some("b"), Some(1.2), 2)), ("a".to_owned(), Some(1.0)));
        assert_eq!(best(run("a", Some("b"), Some(0.9), 2)), ("b".to_owned(), Some(0.9)));
        assert_eq!(best(run("b", None, None, 0)), ("b".to_owned(), Some(1.0)));
        assert_eq!(best(run("c", Some("b"), None, 0)), ("b".to_owned(), None));
    }

    #[test]
    fn the_table_and_its_sentences_say_how_far_the_advice_is_from_the_best() {
        let mut text = Vec::new();
        print(&run("a", Some("b"), Some(0.912), 2), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "Exhaustively, 10.0 s for each over all records, 600 s in all",
            "90.0 k         90 %  advised",
            "failed: the disk is full",
            "The best is b; the advised a has 91.2 % of it, measured 2 more times, in turn.",
            "The advice took 8.7 % of the time",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let judged = |run: Exhaustive| sentences(&run)[0].clone();
        let ahead = judged(run("b", Some("a"), Some(1.25), 2));
        assert!(
            ahead.contains("store, b, is the best of them; the next one, a, has 80.0 % of it, measured 2"),
            "{ahead}"
        );
        assert_eq!(judged(run("b", None, None, 0)), "The advised store, b, is the best of them.");
        assert!(judged(run("a", Some("b"), Some(0.9), 0)).contains("by one trial each"));
        assert!(judged(run("c", Some("b"), None, 0)).contains("the advised c failed"));
    }
}
