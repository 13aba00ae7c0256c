//! Conclusions over records whose truth is known.

use super::*;
use crate::record::tests::record;

/// Three repetitions of the published grid: `of` gives throughput, mean latency, WAF and the time of a compaction.
fn outcome(of: impl Fn(Benchmark, f64, f64) -> (f64, f64, f64, f64)) -> Outcome {
    let mut records = Vec::new();
    for benchmark in [Benchmark::FillRandom, Benchmark::ReadRandom] {
        for (key, value) in KEYS.into_iter().flat_map(|key| VALUES.map(|value| (key, value))) {
            for repetition in 1..=3 {
                let (throughput, latency, waf, compaction) = of(benchmark, f64::from(key), f64::from(value));
                let noise = 1.0 + 0.01 * f64::from(repetition);
                let mut record = record("leveldb", "none", repetition, throughput * noise);
                (record.bench, record.workload) = ("db".into(), benchmark.name().into());
                (record.key_bytes, record.value_bytes, record.waf) = (key, value, Some(waf * noise));
                record.latency_ns.retain(|kind, _| kind == "read");
                record.latency_ns.values_mut().for_each(|l| l.mean = (latency * noise) as u64);
                record.compaction.latency_ns_p50 = Some((compaction * noise) as u64);
                records.push(record);
            }
        }
    }
    Outcome { records, failures: Vec::new(), interrupted: 0 }
}

fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    findings(outcome).unwrap().findings.iter().map(|finding| finding.verdict).collect()
}

#[test]
fn a_machine_that_behaves_as_published_confirms_everything_and_one_that_does_not_refutes_it() {
    // Each fourfold value: 3 times the latency, 4 times the compaction; the last step of reads 120 times.
    let steps = |value: f64| (value / 256.0).log(4.0);
    let published = |benchmark, key: f64, value: f64| {
        let latency = match benchmark {
            Benchmark::ReadRandom if value > 5_000.0 => 1e7,
            Benchmark::ReadRandom => 1e4 * value.powf(0.1),
            _ => 1e4 * 3f64.powf(steps(value)) * key,
        };
        (1e6 / value * key, latency, value.sqrt() / key, 1e6 * 4f64.powf(steps(value)) * key)
    };
    let mut repeated = outcome(published);
    assert!(verdicts(&repeated).iter().all(|verdict| *verdict == Verdict::Holds));
    repeated.records.retain(|record| record.repetition == 1);
    assert!(verdicts(&repeated).iter().all(|verdict| *verdict == Verdict::Mixed), "of one run each");
    let opposite = |benchmark, key: f64, value: f64| {
        let (throughput, _, waf, _) = published(benchmark, key, value);
        (1.0 / throughput, 1e9 / value / key, 1.0 / waf, 1e9 / value / key)
    };
    assert!(verdicts(&outcome(opposite)).iter().all(|verdict| *verdict == Verdict::Refuted));
    // What lies within the spread of the repetitions is no trend.
    let flat = |slope: f64| {
        let within = move |value: f64| 1.0 + slope * steps(value);
        verdicts(&outcome(|_, _, value| (1e3 * within(value), 1e6 * within(value), within(value), 1e6 * within(value))))
    };
    for slope in [0.0, 0.005, -0.005] {
        assert!(flat(slope)[..9].iter().all(|verdict| *verdict == Verdict::Mixed), "{slope}: {:?}", flat(slope));
    }
    // Nor is what only some series show.
    let some = |_, key: f64, value: f64| {
        if key < 20.0 { published(Benchmark::FillRandom, key, value) } else { (1e3, 1e6, 2.0, 1e6) }
    };
    assert!(verdicts(&outcome(some))[..4].iter().all(|verdict| *verdict == Verdict::Mixed));
}

#[test]
fn what_was_not_measured_is_said_and_not_judged() {
    let mut silent = outcome(|_, _, value| (1e6 / value, 1e4, 2.0, 1.0));
    silent.records.iter_mut().for_each(|record| record.compaction.latency_ns_p50 = None);
    let found = findings(&silent).unwrap();
    let about = |what: &str| found.findings.iter().filter(|f| f.published.contains(what)).collect::<Vec<_>>();
    assert!(about("compaction").iter().all(|f| f.verdict == Verdict::Unknown && f.measured == "no figures"));
    assert_eq!(about("larger values: throughput")[0].verdict, Verdict::Holds);
    let nothing = Outcome { records: Vec::new(), failures: Vec::new(), interrupted: 3 };
    assert!(verdicts(&nothing).iter().all(|verdict| *verdict == Verdict::Unknown));
}

/// Fails if a mean is judged as if it had no spread: a bound that lies within the repetitions is passed by nobody.
#[test]
fn a_mean_is_within_what_was_published_with_all_of_its_spread_or_not_clearly() {
    let of = |min: f64, max: f64| Spread { median: (min + max) / 2.0, min, max, runs: 3 };
    // From 2.0 to 6.0.
    let verdict = |min, max| within(of(min, max), 2.4, 5.0);
    assert_eq!([verdict(2.0, 6.0), verdict(3.0, 4.0)], [Verdict::Holds; 2]);
    assert_eq!([verdict(1.99, 3.0), verdict(5.0, 6.01), verdict(1.0, 9.0)], [Verdict::Mixed; 3]);
    assert_eq!([verdict(1.0, 1.99), verdict(6.01, 9.0)], [Verdict::Refuted; 2]);
    assert_eq!(within(Spread { runs: 2, ..of(3.0, 4.0) }, 2.4, 5.0), Verdict::Mixed);
    // The repetitions of 3 times lie 2 % apart, at either end.
    let found = findings(&outcome(|_, _, value| (1e6, 3f64.powf((value / 256.0).log(4.0)) * 1e6, 2.0, 1e6))).unwrap();
    let mean = found.findings.iter().find(|finding| finding.published.contains("times the latency")).unwrap();
    assert_eq!(mean.measured, "3.00 (2.94 to 3.06) times, the geometric mean of all steps");
}

/// (Mutation: what is not yet in tables is left out of what an operation writes, or the sentence is drawn from that.)
#[test]
fn why_write_amplification_falls_is_said_where_it_falls() {
    let said = |slope: f64, unflushed: u64| {
        let mut told = outcome(|_, key, _| (1e3, 1e4, 3.0 * (key / 16.0).powf(slope), 1e6));
        for record in &mut told.records {
            (record.operations, record.physical_write_bytes, record.unflushed_write_bytes) =
                (1_000, 500_000, unflushed);
        }
        let differences = findings(&told).unwrap().differences;
        differences.into_iter().find(|said| said.starts_with("Keys and write amplification")).unwrap()
    };
    for (slope, says) in [(-0.2, "falls by that"), (0.2, "rises in this run"), (0.0, "neither fall nor rise")] {
        assert!(said(slope, 0).contains(says), "{}", said(slope, 0));
    }
    assert!(
        said(0.0, 0).contains("write 500 B") && said(0.0, 500_000).contains("write 1.00 kB"),
        "{}",
        said(0.0, 500_000)
    );
}

/// Fails if write amplification is judged by figures that the kernel took bytes off, and nobody is told.
#[test]
fn figures_below_what_leveldb_says_itself_are_told_of() {
    let mut told = outcome(|_, key, value| (1e6 / value * key, 1e4, 2.0, 1e6));
    let is_said = |told: &Outcome| findings(told).unwrap().differences.join(" ").contains("In 3 of ");
    assert!(!is_said(&told));
    let fills = told.records.iter_mut().filter(|record| record.workload == Benchmark::FillRandom.name());
    fills.take(3).for_each(|record| record.waf_by.engine = Some(2.5));
    assert!(is_said(&told));
}

#[test]
fn the_page_and_the_table_show_published_beside_measured() {
    let outcome = outcome(|_, key, value| (1e6 / value * key, 1e4, 2.0, 1e6));
    let found = findings(&outcome).unwrap();
    let mut text = Vec::new();
    super::super::print(&found, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let html = crate::report::reproduction(&outcome, &found).unwrap();
    for page in [&text, &html] {
        for expected in ["LevelDB 1.23", "fillrandom, larger values: throughput falls", "holds", "of 4 series", "0.01"]
        {
            assert!(page.contains(expected), "`{expected}` is missing in\n{page}");
        }
    }
}

#[test]
fn the_published_grid_and_finer_steps_are_run_three_times_each() {
    let plans = plans(&Registry::new(), &[], 1.0).unwrap();
    let runs: Vec<_> = plans.iter().flat_map(Plan::runs).collect();
    assert_eq!(runs.len(), (16 + 3 + 3) * 2 * 3);
    assert!(runs.iter().all(|run| run.operations == 50_000 && run.engine == "leveldb"));
    assert_eq!(super::plans(&Registry::new(), &[], 1e-9).unwrap()[0].operations, 1_000);
}
