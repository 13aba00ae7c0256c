//! Conclusions over records whose truth is known.

use super::*;
use crate::record::tests::record;

const LAYOUTS: [Layout; 4] = [Layout::Engine, Layout::Hard1, Layout::Hard8, Layout::Moving8];

/// Three repetitions of every run of LMDB, Tkrzw's tree and `log`; `of` gives throughput by workload, engine, layout and workers.
fn outcome(of: impl Fn(&str, &str, Layout, u32) -> f64) -> Outcome {
    let mut records = Vec::new();
    let mut add = |work: &str, engine: &str, layout: Layout, workers: u32, cache_bytes: u64, throughput: f64| {
        for repetition in 1..=3 {
            let partitioning = if layout == Layout::Engine { "none" } else { "hard" };
            let mut record =
                record(engine, partitioning, repetition, throughput * (1.0 + 0.01 * f64::from(repetition)));
            record.partitions = if layout == Layout::Hard1 { 1 } else { record.partitions };
            record.repartition = if layout == Layout::Moving8 { "1s" } else { "off" }.into();
            (record.workload, record.threads, record.cache_bytes) = (work.to_lowercase(), workers, cache_bytes);
            records.push(record);
        }
    };
    for work in ["A", "D", "E"] {
        for engine in [LMDB, TREES[0], "log"] {
            for layout in LAYOUTS {
                (1..=2).for_each(|workers| {
                    add(work, engine, layout, workers, CACHE_BYTES, of(work, engine, layout, workers))
                });
            }
        }
    }
    let large = 3.0 * of("A", TREES[0], Layout::Hard8, 1);
    add("A", TREES[0], Layout::Hard8, 1, 8 * CACHE_BYTES, large);
    Outcome { records, failures: Vec::new(), interrupted: 0 }
}

/// The published figures; what was not published is 10,000 a second, and four fifths of that where it repartitions itself.
fn as_published(work: &str, engine: &str, layout: Layout, workers: u32) -> f64 {
    let system = if engine == LMDB { System::Lmdb } else { System::Tkrzw };
    let row = THROUGHPUT.iter().find(|row| (row.0, row.1, row.2, row.3) == (work, system, layout, workers));
    let hard_8 =
        || THROUGHPUT.iter().find(|row| (row.0, row.1, row.2, row.3) == (work, system, Layout::Hard8, workers));
    match (row.filter(|_| engine != "log"), layout) {
        (Some(row), _) => row.4,
        (None, Layout::Moving8) => hard_8().filter(|_| engine != "log").map_or(10_000.0, |row| row.4) * 0.8,
        _ => 10_000.0,
    }
}

fn verdicts(outcome: &Outcome) -> Vec<(String, Verdict)> {
    let found = findings(outcome).unwrap().findings;
    found.into_iter().map(|finding| (finding.published, finding.verdict)).collect()
}

#[test]
fn published_figures_confirm_everything_that_can_be_asked_if_they_were_repeated() {
    let mut outcome = outcome(as_published);
    for found in [Verdict::Holds, Verdict::Mixed] {
        let verdicts = verdicts(&outcome);
        assert_eq!(verdicts.len(), 10);
        for (published, verdict) in verdicts {
            let due = match found {
                _ if published.contains("with one partition") => Verdict::Unknown,
                // Three times by more cache, of 35 times in all: a third of the gain.
                Verdict::Holds if published.contains("eight caches") => Verdict::Refuted,
                found => found,
            };
            assert_eq!(verdict, due, "{published}");
        }
        outcome.records.retain(|record| record.repetition == 1);
    }
}

#[test]
fn the_opposite_refutes_and_what_is_alike_is_not_clear() {
    let opposite = |work: &str, engine: &str, layout: Layout, workers: u32| match (layout, work, engine) {
        (Layout::Moving8, ..) => 1.1e10 / as_published(work, engine, Layout::Hard8, workers),
        _ => 1e10 / as_published(work, engine, layout, workers),
    };
    for (published, verdict) in verdicts(&outcome(opposite)) {
        let due = match () {
            () if published.contains("with one partition") => Verdict::Unknown,
            // There is no gain that could be anybody's.
            () if published.contains("eight caches") => Verdict::Mixed,
            () => Verdict::Refuted,
        };
        assert_eq!(verdict, due, "{published}");
    }
    let alike = verdicts(&outcome(|_, _, _, _| 5_000.0));
    assert_eq!(alike.iter().filter(|(_, verdict)| *verdict == Verdict::Mixed).count(), 8, "{alike:?}");
}

/// Fails if eight caches have a gain because they are faster at all, or because the repetitions scatter.
#[test]
fn a_gain_is_that_of_eight_caches_where_most_of_it_is_gone_without_them() {
    let of = |figure: f64, noise: f64| {
        let (min, max) = (figure * (1.0 - noise), figure * (1.0 + noise));
        Spread { median: figure, min, max, runs: 3 }
    };
    let verdict = |alone, equal, large, noise| of_caches(of(alone, noise), of(equal, noise), of(large, noise));
    for (alone, equal, large, due) in [
        // 200 of the 220 are there without one byte more of cache.
        (100.0, 300.0, 320.0, Verdict::Refuted),
        (100.0, 300.0, 300.0, Verdict::Refuted),
        // Without more cache eight partitions are slower.
        (100.0, 90.0, 320.0, Verdict::Holds),
        (100.0, 101.0, 320.0, Verdict::Holds),
        // Half of it on either side: twice by each.
        (100.0, 190.0, 400.0, Verdict::Holds),
        (100.0, 210.0, 400.0, Verdict::Refuted),
        (100.0, 200.0, 400.0, Verdict::Mixed),
        (100.0, 80.0, 90.0, Verdict::Mixed),
        (100.0, 50.0, 100.0, Verdict::Mixed),
    ] {
        assert_eq!(verdict(alone, equal, large, 0.001), due, "{alone} {equal} {large}");
    }
    assert_eq!(verdict(100.0, 190.0, 400.0, 0.1), Verdict::Mixed, "of repetitions that scatter by a tenth");
    let once = Spread { runs: 2, ..of(90.0, 0.0) };
    assert_eq!(of_caches(of(100.0, 0.0), once, of(320.0, 0.0)), Verdict::Mixed, "of two runs");
}

#[test]
fn the_setup_says_how_long_all_runs_are() {
    let mut outcome = outcome(as_published);
    let setup = |outcome: &Outcome| findings(outcome).unwrap().setup_now;
    outcome.records.iter_mut().for_each(|record| record.seconds = 2.004);
    assert!(setup(&outcome).contains("runs of 2.0 s, "), "{}", setup(&outcome));
    outcome.records.last_mut().unwrap().seconds = 0.5;
    assert!(setup(&outcome).contains("runs of 0.5 to 2.0 s, "), "{}", setup(&outcome));
    let moves = |finding: &&Finding| finding.published.contains("everywhere");
    let measured = findings(&outcome).unwrap().findings.iter().find(moves).unwrap().measured.clone();
    assert!(measured.contains("what repartitions itself has 0.8") && !measured.contains("large end"), "{measured}");
}

#[test]
fn each_published_figure_stands_beside_its_like_and_what_was_not_published_beside_nothing() {
    let outcome = outcome(|work, engine, layout, workers| as_published(work, engine, layout, workers) / 2.0);
    let found = findings(&outcome).unwrap();
    let (known, rest): (Vec<_>, Vec<_>) = found.figures.iter().partition(|figure| figure.published.is_some());
    assert_eq!((known.len(), known.len() + rest.len()), (THROUGHPUT.len(), 3 * 3 * 4 * 2));
    for figure in known {
        assert!((figure.ratio.unwrap() - 0.51).abs() < 1e-6, "{figure:?}");
        assert!(figure.extremes.unwrap().0 < figure.measured.unwrap());
    }
    let gain = &found.findings[0];
    assert!(
        gain.published.contains("A over Tkrzw, 1 worker") && gain.published.contains("11.73"),
        "{}",
        gain.published
    );
    assert!((gain.ratio.unwrap() - 1.0).abs() < 1e-6 && gain.measured.contains("tkrzw-tree-zlib"), "{}", gain.measured);
    let caches = found.findings.iter().find(|finding| finding.published.contains("eight caches")).unwrap();
    assert_eq!(caches.measured_figure, Some(3.0), "the larger cache stands for itself alone");
}

#[test]
fn without_runs_or_without_tkrzw_what_needs_them_is_not_judged() {
    let nothing = Outcome { records: Vec::new(), failures: Vec::new(), interrupted: 9 };
    assert!(verdicts(&nothing).iter().all(|(_, verdict)| *verdict == Verdict::Unknown));
    let mut alone = outcome(as_published);
    alone.records.retain(|record| record.engine == LMDB);
    for (published, verdict) in verdicts(&alone) {
        let is_known = published.contains("over LMDB") || published.contains("everywhere");
        assert_eq!(verdict == Verdict::Holds, is_known, "{published}");
    }
}

#[test]
fn the_table_and_the_page_show_published_beside_measured() {
    let outcome = outcome(as_published);
    let found = findings(&outcome).unwrap();
    let mut text = Vec::new();
    super::super::print(&found, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let html = crate::report::reproduction(&outcome, &found).unwrap();
    for page in [&text, &html] {
        for expected in ["hard-8-repartitioning", "A, 1 worker", "Tkrzw", "E, 2 workers", "Xeon", "holds"] {
            assert!(page.contains(expected), "`{expected}` is missing in\n{page}");
        }
    }
}

#[test]
fn the_matrix_is_whole_at_equal_cache_and_fits_into_half_an_hour() {
    let mut registry = Registry::new();
    registry.add(biombo_engine::memory::kind());
    assert!(plans(&registry, &[], 1.0).unwrap_err().to_string().contains("no engine `lmdb`"));
    for name in ALL {
        registry.add(biombo_engine::EngineKind { name, ..biombo_engine::memory::kind() });
    }
    let runs: Vec<_> = plans(&registry, &[], 1.0).unwrap().iter().flat_map(Plan::runs).collect();
    for (task, engine, workers) in
        Workload::ALL.iter().flat_map(|task| ALL.map(|name| (task, name))).flat_map(|(t, e)| [(t, e, 1), (t, e, 2)])
    {
        let of = runs.iter().filter(|run| {
            (run.task, run.engine.as_str(), run.threads, run.cache_bytes)
                == (Task::from(*task), engine, workers, CACHE_BYTES)
        });
        let is_published = [LMDB, TREES[1]].contains(&engine) && ["a", "d"].contains(&&*task.to_string());
        let (repeat, seconds) = if is_published { (REPEAT, 2.0) } else { (REPEAT_REST, 0.5) };
        assert_eq!(of.clone().count() as u32, 4 * repeat, "{task} {engine} {workers}");
        // What repartitions itself plans twice in a run, however long.
        let moving: Vec<_> = of.clone().filter_map(|run| run.repartition.clone()).collect();
        assert_eq!(moving.len() as u32, repeat);
        assert!(moving.iter().all(|every| *every == format!("{}s", seconds / 2.0)), "{moving:?}");
        assert!(of.clone().all(|run| run.seconds == Some(seconds)));
    }
    let others: Vec<_> = runs.iter().filter(|run| run.cache_bytes != CACHE_BYTES).collect();
    assert!(others.len() as u32 == REPEAT && others.iter().all(|run| run.partitions == 8 && run.engine == TREES[1]));
    // A run takes its two seconds, and about one to load, to start and to close.
    let seconds: f64 = runs.iter().map(|run| run.seconds.unwrap() + 1.0).sum();
    assert!(seconds < 1_800.0, "{seconds}");
    // With both trees in the build, the one that is asked for stands for Tkrzw.
    registry.add(biombo_engine::EngineKind { name: TREES[0], ..biombo_engine::memory::kind() });
    for (asked, stands) in [(vec![], TREES[0]), (vec![TREES[1].to_owned()], TREES[1])] {
        let plans = plans(&registry, &asked, 1.0).unwrap();
        let of_five: Vec<&str> = plans
            .iter()
            .filter(|plan| plan.repeat == REPEAT)
            .map(|plan| &*plan.engines[plan.engines.len() - 1])
            .collect();
        assert_eq!(of_five, [stands; 2], "{asked:?}");
        assert!(asked.is_empty() || plans.iter().flat_map(|plan| &plan.engines).all(|name| *name == stands));
    }
    assert!(plans(&registry, &[], 0.001).unwrap().iter().all(|plan| plan.repeat == 1 && plan.records == 1_000));
}
