//! Conclusions over records whose truth is known.

use super::*;
use crate::record::tests::record;

/// Three repetitions of `log` and two others on four cores; `of` gives throughput and mean latency by engine and threads.
fn outcome(of: impl Fn(&str, f64) -> (f64, f64)) -> Outcome {
    let mut records = Vec::new();
    for threads in THREADS {
        for engine in [LOG, "rocksdb", "leveldb", "lmdb"] {
            for repetition in 1..=3 {
                let noise = 1.0 + 0.01 * f64::from(repetition);
                let (throughput, latency) = of(engine, f64::from(threads));
                let mut record = record(engine, "none", repetition, throughput * noise);
                (record.bench, record.workload, record.threads) = ("db".into(), "fillrandom".into(), threads);
                record.host.cores = 4;
                let mut figures = record.latency_ns["update"];
                (figures.mean, figures.p99) = ((latency * noise) as u64, (latency * 9.0) as u64);
                record.latency_ns = [("insert".to_owned(), figures)].into();
                records.push(record);
            }
        }
    }
    Outcome { records, failures: Vec::new(), interrupted: 0 }
}

/// As it was published: linear and flat to four cores, then as much and slower; five times a merge tree.
fn as_published(engine: &str, threads: f64) -> (f64, f64) {
    let speed = if engine == LOG { 100_000.0 } else { 20_000.0 };
    (speed * threads.min(4.0), 1e9 / speed * (threads / 4.0).max(1.0))
}

fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    findings(outcome).unwrap().findings.iter().map(|finding| finding.verdict).collect()
}

#[test]
fn a_machine_that_behaves_as_published_confirms_everything_and_one_that_does_not_refutes_it() {
    let unknown = Verdict::Unknown;
    assert_eq!(verdicts(&outcome(as_published)), [[Verdict::Holds; 4].as_slice(), &[unknown]].concat());
    let mut once = outcome(as_published);
    once.records.retain(|record| record.repetition == 1);
    assert_eq!(verdicts(&once), [[Verdict::Mixed; 4].as_slice(), &[unknown]].concat(), "of one run each");
    // No faster than the others, no faster with more threads, slower from the second thread on, not slower past the cores.
    let opposite = |_: &str, threads: f64| (20_000.0, if threads > 1.0 { 90_000.0 } else { 10_000.0 });
    assert_eq!(verdicts(&outcome(opposite)), [[Verdict::Refuted; 4].as_slice(), &[unknown]].concat());
    // At the bound itself the repetitions lie on both sides.
    let bound = |engine: &str, threads: f64| (if engine == LOG { 80_000.0 } else { 20_000.0 }, 1e4 * threads);
    assert_eq!(verdicts(&outcome(bound))[0], Verdict::Mixed);
}

#[test]
fn without_the_engines_or_the_cores_that_it_takes_nothing_is_judged() {
    let nothing = Outcome { records: Vec::new(), failures: Vec::new(), interrupted: 9 };
    assert!(verdicts(&nothing).iter().all(|verdict| *verdict == Verdict::Unknown));
    let mut alone = outcome(as_published);
    alone.records.retain(|record| record.engine == LOG);
    alone.records.iter_mut().for_each(|record| record.host.cores = 1);
    assert_eq!(verdicts(&alone)[..3], [Verdict::Unknown; 3]);
}

#[test]
fn published_figures_stand_beside_those_of_the_same_number_of_threads() {
    let found = findings(&outcome(as_published)).unwrap();
    let eight: Vec<_> = found.figures.iter().filter(|figure| figure.load == "8 threads").collect();
    assert_eq!(eight.len(), 2);
    assert_eq!((eight[0].published, eight[0].measured), (Some(17_833.0), Some(80_000.0 * 1.02)));
    assert!((eight[0].ratio.unwrap() - 80_000.0 * 1.02 / 17_833.0).abs() < 1e-9);
    assert_eq!((eight[1].published, eight[1].measured), (Some(441_000.0), Some(102_000.0)));
    // Each published system has one engine in its place, in all rows.
    for (system, engine) in [(LOGBASE_NAME, "leveldb"), (LOGSTORE_NAME, LOG)] {
        let its = || found.figures.iter().filter(|figure| figure.published_system.as_deref() == Some(system));
        assert!(its().count() > 1 && its().all(|figure| figure.engine.as_deref() == Some(engine)), "{system}");
    }
    let best: Vec<_> = found.figures.iter().filter(|figure| figure.load == "the best").collect();
    assert_eq!(best.iter().map(|figure| figure.engine.as_deref()).collect::<Vec<_>>(), [Some("log"), Some("leveldb")]);
    let log = &found.curves[0];
    assert_eq!((log.label.as_str(), log.points.len(), log.points[3].threads), ("log", 8, 8));
    assert!(found.curves.last().is_some_and(|curve| curve.published && curve.points.len() == LOGBASE.len()));
}

#[test]
fn the_page_and_the_table_show_figures_curves_and_conclusions() {
    let outcome = outcome(as_published);
    let found = findings(&outcome).unwrap();
    let mut text = Vec::new();
    super::super::print(&found, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let html = crate::report::reproduction(&outcome, &found).unwrap();
    for page in [&text, &html] {
        for expected in ["LogBase, 3 replicas", "17.8 k", "4.58", "more than 4 times as fast", "leveldb", "holds"] {
            assert!(page.contains(expected), "`{expected}` is missing in\n{page}");
        }
    }
    assert!(text.contains("mean latency, by threads"), "{text}");
    assert!(html.contains("log, 8 threads: 408 k operations per second (404 k to 412 k) at 20.4 µs (2"));
}

#[test]
fn every_engine_that_keeps_data_is_run_at_every_number_of_threads() {
    let mut registry = Registry::new();
    registry.add(biombo_engine::memory::kind()).add(crate::null::kind());
    biombo_foreign::register(&mut registry);
    let plans = plans(&registry, &[], 1e-9).unwrap();
    let runs: Vec<_> = plans.iter().flat_map(Plan::runs).collect();
    let forgetful = ["memory", "null"];
    let keeping: Vec<_> = registry
        .iter()
        .filter(|kind| kind.is_installed() && !forgetful.contains(&kind.name))
        .map(|kind| kind.name)
        .collect();
    assert!(keeping.contains(&"lmdb"), "{keeping:?}");
    for engine in &keeping {
        assert_eq!(runs.iter().filter(|run| run.engine == *engine).count(), THREADS.len() * 3, "{engine}");
    }
    assert_eq!(runs.len(), keeping.len() * THREADS.len() * 3, "an engine that keeps nothing is run");
    assert!(runs.iter().all(|run| run.operations == 1_024));
    // By default 2 GiB: no merge tree would flush.
    let cache_bytes = |scale| super::plans(&registry, &[], scale).unwrap()[0].cache_bytes();
    assert_eq!((cache_bytes(1e-9), cache_bytes(2.0)), (16 << 20, 120_000 * 1_040 / 4));
}
