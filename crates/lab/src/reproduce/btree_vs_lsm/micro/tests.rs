//! Conclusions over records whose truth is known.

use super::super::findings as of_both;
use super::*;
use crate::amplification::{Amplification, PhaseFigures, Ways};
use crate::bench::Outcome;
use crate::record::tests::record;
use crate::reproduce::Reproduction;

/// A load and a run that put 10,000 bytes each: write amplification of the load by the engine, of the run by the engine and by the kernel.
fn told(load: f64, own: f64, kernel: f64) -> Option<Amplification> {
    let phase = |own, kernel: f64| PhaseFigures {
        logical_write_bytes: 10_000,
        write_bytes: Ways { process: Some((kernel * 1e4) as u64), ..Ways::default() },
        waf: Ways { own: Some(own), process: Some(kernel), ..Ways::default() },
        ..PhaseFigures::default()
    };
    Some(Amplification { load: Some(phase(load, load)), run: phase(own, kernel), ..Amplification::default() })
}

/// Three repetitions of both lengths: `of` gives operations per second and write amplification of the run by engine.
fn outcome(of: impl Fn(&str, bool) -> (f64, f64)) -> Outcome {
    let mut records = Vec::new();
    for (longer, operations) in [(false, 5_000), (true, 100_000)] {
        for engine in ENGINES {
            for repetition in 1..=3 {
                let (ops, waf) = of(engine, longer);
                let noise = 1.0 + 0.004 * f64::from(repetition);
                let mut record = record(engine, "none", repetition, ops * noise);
                (record.operations, record.key_bytes, record.value_bytes) = (operations, 8, 8);
                record.seed = u64::from(repetition) + if longer { LONGER_SEED } else { 0 };
                // As it is of the whole run, with opening and loading: nobody shall take it for the run's.
                record.waf_by.engine = Some(7e6);
                record.amplification = told(5.0 * waf, waf * noise, waf * noise);
                records.push(record);
            }
        }
    }
    Outcome { records, failures: Vec::new(), interrupted: 0 }
}

/// The conclusions of this part.
fn found(outcome: &Outcome) -> Vec<Finding> {
    let Reproduction { findings, .. } = of_both(outcome).unwrap();
    findings.into_iter().filter(|finding| finding.published.starts_with("micro-benchmark: ")).collect()
}

fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    found(outcome).iter().map(|finding| finding.verdict).collect()
}

#[test]
fn a_machine_that_behaves_as_published_confirms_everything_and_one_that_does_not_refutes_it() {
    let published =
        |engine: &str, _| if engine.contains("btree") { (BTREE_OPS, BTREE_WAF) } else { (LSM_OPS, LSM_WAF) };
    assert_eq!(verdicts(&outcome(published)), [Verdict::Holds; 5]);
    let mut once = outcome(published);
    once.records.retain(|record| record.repetition == 1);
    let (holds, unclear) = (Verdict::Holds, Verdict::Mixed);
    assert_eq!(verdicts(&once), [unclear; 5], "of one run each");
    let opposite = |engine: &str, _| if engine.contains("btree") { (LSM_OPS, 2.0) } else { (BTREE_OPS, 3.0) };
    assert_eq!(verdicts(&outcome(opposite)), [Verdict::Refuted; 5]);
    // What lies within the spread is no difference.
    let alike = |_: &str, _| (1_000.0, 256.0);
    assert_eq!(verdicts(&outcome(alike)), [unclear, holds, Verdict::Refuted, unclear, unclear]);
}

#[test]
fn each_conclusion_is_drawn_from_the_runs_that_it_is_about() {
    // The longer runs alone say how much is written in the long run, with and without journals.
    let told = outcome(|engine, longer| match (engine, longer) {
        (BTREE, false) => (10.0, 256.0),
        (LSM, false) => (40.0, 2.0),
        (BTREE, true) => (1.0, 300.0),
        (LSM, true) => (1.0, 3.0),
        (JOURNALED_BTREE, true) => (1.0, 50.0),
        (JOURNALED_LSM, true) => (1.0, 10.0),
        _ => (1.0, 1.0),
    });
    let conclusions = found(&told);
    let figures: Vec<f64> = conclusions.iter().map(|finding| finding.measured_figure.unwrap().round()).collect();
    assert_eq!(figures, [4.0, 258.0, 2.0, 100.0, 5.0]);
    assert_eq!(conclusions[2].verdict, Verdict::Refuted);
    let nothing = Outcome { records: Vec::new(), failures: Vec::new(), interrupted: 24 };
    assert_eq!(verdicts(&nothing), [Verdict::Unknown; 5]);
}

#[test]
fn the_short_runs_stand_beside_what_was_published_and_the_longer_ones_by_themselves() {
    let figures = of_both(&outcome(|_, longer| if longer { (10.0, 3.0) } else { (100.0, 2.0) })).unwrap().figures;
    assert_eq!(figures.len(), 2 * 4 * ENGINES.len());
    let find = |load: &str, of: &str, engine: &str| {
        let is = |f: &&Figure| f.load.contains(load) && f.of == of && f.engine.as_deref() == Some(engine);
        let figure = figures.iter().find(is).unwrap_or_else(|| panic!("no {of} of {engine} at {load}"));
        (figure.published_system.clone(), figure.published, figure.measured.map(f64::round))
    };
    let system = |name: &str| Some(name.to_owned());
    assert_eq!(find("5.00 k", "throughput", BTREE), (system("B-tree"), Some(BTREE_OPS), Some(101.0)));
    assert_eq!(find("5.00 k", "WAF by the engine", LSM), (system("LSM-tree"), Some(LSM_WAF), Some(2.0)));
    assert_eq!(find("5.00 k", "throughput", JOURNALED_LSM), (None, None, Some(101.0)));
    assert_eq!(find("100 k", "WAF by the engine", LSM), (None, None, Some(3.0)));
    assert_eq!(find("5.00 k", "WAF by the kernel", LSM), (system("LSM-tree"), Some(LSM_WAF), Some(2.0)));
    assert_eq!(find("5.00 k", "loading: WAF by the engine", BTREE), (None, None, Some(10.0)));
}

/// Fails if what loading writes is judged, or one counter alone, or within more than a fiftieth.
#[test]
fn a_published_amplification_is_judged_by_both_counters_of_the_run_within_a_fiftieth() {
    let with = |own: f64, kernel: f64| {
        let mut outcome = outcome(|_, _| (1_000.0, 1.0));
        let short = outcome.records.iter_mut().filter(|record| record.engine == BTREE && record.operations == 5_000);
        short.for_each(|record| record.amplification = told(270.0, own, kernel));
        let found = found(&outcome).remove(1);
        (found.verdict, found.measured)
    };
    let (verdict, measured) = with(256.1, 256.3);
    assert!(
        verdict == Verdict::Holds && measured.contains("256.30") && measured.contains("apart, 270.00"),
        "{measured}"
    );
    assert_eq!(with(256.0, 262.0).0, Verdict::Mixed);
    assert_eq!(with(263.0, 262.0).0, Verdict::Refuted);
    let (verdict, measured) = with(256.0, 0.0);
    assert!(verdict == Verdict::Holds && measured.contains("which counts nothing here"), "{measured}");
    assert_eq!(with(263.0, 0.0).0, Verdict::Refuted);
}

/// Fails if the median alone is judged, by whichever counter, or if what was done twice is.
#[test]
fn a_published_amplification_takes_three_repetitions_that_all_have_it() {
    let with = |runs: &[(f64, f64)]| {
        let mut outcome = outcome(|_, _| (1_000.0, 1.0));
        outcome.records.retain(|r| r.engine != BTREE || r.operations != 5_000 || r.repetition as usize <= runs.len());
        let short = outcome.records.iter_mut().filter(|record| record.engine == BTREE && record.operations == 5_000);
        short.zip(runs).for_each(|(record, (own, kernel))| record.amplification = told(270.0, *own, *kernel));
        found(&outcome).remove(1).verdict
    };
    let (near, far) = ((256.0, 256.0), (300.0, 300.0));
    assert_eq!((with(&[near; 3]), with(&[far; 3])), (Verdict::Holds, Verdict::Refuted));
    assert_eq!((with(&[near; 2]), with(&[far; 2])), (Verdict::Mixed, Verdict::Mixed), "twice is too few");
    for one in [(270.0, 256.0), (256.0, 270.0), (240.0, 256.0)] {
        assert_eq!(with(&[near, one, near]), Verdict::Mixed, "{one:?} among three");
    }
    assert_eq!(with(&[far, (256.0, 300.0), far]), Verdict::Mixed);
    assert_eq!(with(&[far, (200.0, 300.0), far]), Verdict::Mixed, "on both sides of it");
}

/// Fails if the longer runs are taken for short ones where no short one succeeded.
#[test]
fn without_a_short_run_nothing_is_said_of_short_runs() {
    let mut longer = outcome(|_, _| (1_000.0, 256.0));
    longer.records.retain(|record| record.operations > 5_000);
    let verdicts = verdicts(&longer);
    assert_eq!(verdicts[..3], [Verdict::Unknown; 3]);
    assert!(verdicts[3..].iter().all(|verdict| *verdict != Verdict::Unknown), "{verdicts:?}");
    assert!(of_both(&longer).unwrap().figures.iter().all(|figure| figure.published.is_none()));
}

#[test]
fn the_published_run_and_a_longer_one_are_done_three_times_each() {
    let mut registry = Registry::new();
    registry.add(biombo_engine::memory::kind());
    assert!(plans(&registry, 1.0).is_empty());
    for name in ENGINES {
        registry.add(biombo_engine::EngineKind { name, ..biombo_engine::memory::kind() });
    }
    let runs: Vec<_> = plans(&registry, 1.0).iter().flat_map(Plan::runs).collect();
    assert_eq!(runs.len(), 4 * 2 * 3);
    assert_eq!(runs.iter().filter(|run| run.operations == 5_000).count(), 12);
    assert!(
        runs.iter().all(|run| (run.operations > 5_000) == (run.seed >= LONGER_SEED)),
        "by which they are told apart"
    );
    assert!(runs.iter().all(|run| (run.key_bytes, run.value_bytes, run.threads) == (8, 8, 1)));
    assert_eq!(plans(&registry, 1e-9)[1].operations, 4_000);
}
