//! From the figures of a race to the advice.

use biombo_base::{Error, ErrorKind, Result};

use super::run::{Runner, figures, rounds};
use super::{Advice, ERROR, LeftOut, Question, Ranked, Size, Standing, config, race, scale, words};
use crate::measure::Host;

/// How the race went, but for its runners.
pub(super) struct Outcome<'a> {
    pub(super) question: &'a Question,
    /// What the last round that was done tried of it: of a trace, its beginning.
    pub(super) tried: Question,
    /// Of the trials of each round that was done.
    pub(super) sizes: Vec<Size>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) promising_less: Vec<LeftOut>,
    pub(super) interrupted: bool,
    /// Why its last round failed for all, if it did.
    pub(super) broke_off: Option<String>,
    pub(super) seconds: f64,
}

/// The ranking, and what is to be said of it.
pub(super) fn conclude(outcome: Outcome<'_>, runners: Vec<Runner>) -> Result<Advice> {
    let Outcome { question, tried, sizes, left_out, promising_less, interrupted, broke_off, seconds } = outcome;
    let (Some(&first_trial), Some(&trial)) = (sizes.first(), sizes.last()) else {
        return Err(Error::new(ErrorKind::Io, "interrupted before every candidate had a trial"));
    };
    let (trials, rounds) = (figures(&runners), rounds(&sizes, question.records));
    let left: Vec<usize> = (0..runners.len()).filter(|at| runners[*at].out.is_none()).collect();
    let Some(&first) = race::order(&trials, &rounds, &left).first() else {
        let why = runners.iter().find_map(|runner| runner.out.as_ref()?.failure());
        return Err(Error::new(ErrorKind::Io, format!("every trial failed: {}", why.unwrap_or_default())));
    };
    let config = config(&runners[first].candidate, question, question.cache_bytes());
    let of_first = trials[first].clone();
    let mut ranking: Vec<Ranked> = runners
        .into_iter()
        .enumerate()
        .map(|(at, runner)| {
            let standing = runner.out.unwrap_or(if at == first { Standing::First } else { Standing::Close });
            let by_first = (!trials[at].is_empty()).then(|| race::by(&trials[at], &of_first, &rounds));
            let trials: Vec<_> = sizes.iter().copied().zip(&runner.records).collect();
            Ranked::new(runner.candidate, standing, &trials, by_first)
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
        promising_less,
        why: Vec::new(),
        records: question.records,
        first_trial,
        trial,
        rounds: rounds.len() as u32,
        budget_seconds: question.budget_seconds,
        seconds,
        noise: race::noise(&trials),
        error: ERROR,
        interrupted,
        host: Host::here(),
        config,
        exhaustive: None,
    };
    advice.why = words::why(&advice);
    advice.why.extend(scale::sentences(&tried, trial));
    advice.why.extend(broke_off.map(|why| words::broke_off(&why)));
    Ok(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::Candidate;
    use crate::record::tests::record;
    use crate::spec::{Partitioning, Placement};

    fn runner(engine: &str, out: Option<Standing>, figures: &[f64]) -> Runner {
        let candidate = Candidate {
            engine: engine.to_owned(),
            partitioning: Partitioning::None,
            partitions: 1,
            placement: Placement::Hash,
            workers: None,
        };
        let records = figures.iter().map(|ops| record(engine, "none", 1, *ops)).collect();
        Runner { candidate, out, records, latest_seconds: 2.0 }
    }

    fn outcome(question: &Question) -> Outcome<'_> {
        let sizes = [0.5, 0.5, 2.0].map(|seconds| Size { records: 500, seconds }).to_vec();
        let tried = question.clone();
        let (left_out, promising_less) = (Vec::new(), Vec::new());
        Outcome { question, tried, sizes, left_out, promising_less, interrupted: false, broke_off: None, seconds: 30.0 }
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
        // Of the largest of its trials, which the third was: what the shorter ones gave is another thing.
        let quick = &advice.ranking[0];
        assert_eq!((quick.ops_per_s, quick.ops_per_s_extremes), (Some(101.0), Some((101.0, 101.0))));
        assert_eq!(
            (quick.trials, quick.largest_trials, quick.largest),
            (3, 1, Some(Size { records: 500, seconds: 2.0 }))
        );
        let early = &advice.ranking[2];
        assert_eq!(
            (early.ops_per_s, early.largest_trials, early.largest.map(|size| size.seconds)),
            (Some(60.0), 1, Some(0.5))
        );
        assert_eq!((advice.rounds, advice.first_trial.seconds, advice.trial.seconds), (3, 0.5, 2.0));
        let nothing = conclude(outcome(&question), vec![runner("broken", failed, &[])]).unwrap_err().to_string();
        assert!(nothing.contains("every trial failed: no room"), "{nothing}");
        let early = Outcome { sizes: Vec::new(), ..outcome(&question) };
        assert!(conclude(early, Vec::new()).unwrap_err().to_string().contains("interrupted"));
    }

    #[test]
    fn a_race_that_broke_off_says_why() {
        let question = Question::default();
        let runners = || vec![runner("quick", None, &[100.0; 3]), runner("close", None, &[99.0; 3])];
        let full = Outcome { broke_off: Some("the disk\nis full".to_owned()), ..outcome(&question) };
        let said = conclude(full, runners()).unwrap().why;
        assert!(said.last().is_some_and(|last| last.ends_with("could not be done: the disk is full.")), "{said:?}");
        let said = conclude(outcome(&question), runners()).unwrap().why;
        assert!(said.iter().all(|sentence| !sentence.contains("could not be done")), "{said:?}");
    }

    #[test]
    fn a_long_trial_counts_for_more_than_a_short_one() {
        let question = Question::default();
        // Behind in the two short rounds, ahead in the long one: all three alike, it would be behind.
        let runners = vec![runner("early", None, &[110.0, 110.0, 100.0]), runner("late", None, &[100.0, 100.0, 115.0])];
        let advice = conclude(outcome(&question), runners).unwrap();
        assert_eq!(advice.ranking[0].name, "late");
        assert!(advice.ranking[1].by_first.unwrap() < 1.0, "{:?}", advice.ranking[1]);
    }
}
