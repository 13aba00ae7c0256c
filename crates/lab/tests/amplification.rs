//! Write amplification while it runs, over an engine whose figure is known: a B-tree that writes its page of 4 KiB at each put of 16 bytes
//! amplifies 256 times, in every interval and by every counter.
//!
//! The worker is this test program itself.

use std::io::{Write, stdin, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use biombo_engine::Registry;
use biombo_lab::amplification::{Amplification, PhaseFigures};
use biombo_lab::bench::{Plan, Silent, run};
use biombo_lab::measure::Device;
use biombo_lab::process::{WorkerCommand, worker};
use biombo_lab::record::{Record, parse_lines, to_lines};
use biombo_lab::workload::{Distribution, Task, Workload};

const WORKER: &str = "BIOMBO_LAB_AMPLIFICATION_WORKER";

fn registry() -> Registry {
    let mut registry = Registry::new();
    biombo_micro::register(&mut registry);
    biombo_foreign::register(&mut registry);
    registry.add(biombo_engine::memory::kind());
    registry
}

/// No test: the entry of the worker processes that the tests below start.
#[test]
fn worker_entry() {
    if std::env::var_os(WORKER).is_some() {
        // The test runner's own words end here.
        stdout().write_all(b"\n").expect("the parent listens");
        let _ = worker::main(&registry(), stdin(), stdout());
    }
}

/// One run over each of `engines`, keys and values of 8 bytes, one thread, a second long. On a real disk: in memory the kernel counts nothing.
fn runs(engines: &[&str], workload: Workload, dir: &Path) -> Vec<(Record, Amplification)> {
    let command = WorkerCommand {
        program: std::env::current_exe().expect("this program has a file"),
        args: ["--exact", "worker_entry", "--nocapture", "--test-threads=1"].map(str::to_owned).into(),
        env: vec![(WORKER.to_owned(), "1".to_owned())],
        silence_max: None,
    };
    let plan = Plan {
        engines: engines.iter().map(|&name| name.to_owned()).collect(),
        tasks: vec![Task::Ycsb { workload, distribution: Distribution::Uniform }],
        records: 2_000,
        seconds: Some(1.0),
        threads: vec![1],
        key_bytes: vec![8],
        value_bytes: vec![8],
        cache_bytes: Some(8 << 20),
        dir: Some(dir.to_owned()),
        ..Plan::default()
    };
    let outcome = run(&plan, &registry(), &command, &mut Silent).expect("a plan that can be run");
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    // As they are kept and read again.
    let records = parse_lines(&to_lines(&outcome.records)).expect("lines of its own");
    let told = |record: Record| record.amplification.clone().map(|told| (record, told));
    records.into_iter().map(|record| told(record).expect("every run tells")).collect()
}

fn within(figure: Option<f64>, expected: f64, share: f64) -> bool {
    figure.is_some_and(|figure| (figure / expected - 1.0).abs() <= share)
}

/// Whether the kernel counts what is written to `dir`; said, where it does not.
fn is_counted(dir: &Path, record: &Record) -> bool {
    let is_counted = Device::of(dir).is_some() && record.waf_by.process.is_some();
    if !is_counted {
        println!("skipped for {}: the kernel's counters, which have nothing of {}", record.engine, dir.display());
    }
    is_counted
}

/// All columns of a series are as long as it is, and add up to the phase's figures.
fn check(phase: &PhaseFigures) {
    let series = &phase.series;
    assert_eq!(series.logical_write_bytes.iter().sum::<u64>(), phase.logical_write_bytes);
    assert_eq!(series.logical_read_bytes.iter().sum::<u64>(), phase.logical_read_bytes);
    for (column, whole) in series.write_bytes.each().into_iter().zip(phase.write_bytes.each()) {
        assert_eq!(column.map(|column| (column.len(), column.iter().sum())), whole.map(|whole| (series.len(), *whole)));
    }
    for (column, whole) in series.waf.each().into_iter().zip(phase.waf.each()) {
        let last = column.and_then(|column| *column.last().expect("as many as intervals"));
        assert!(
            last.zip(whole.copied()).is_none_or(|(last, whole)| (last - whole).abs() < 1e-3),
            "{last:?}, {whole:?}"
        );
    }
}

/// The write amplification of each interval of the run that has one, by the engine's own counter.
fn of_intervals(told: &Amplification) -> Vec<f64> {
    told.run.series.waf.own.iter().flatten().filter_map(|waf| *waf).collect()
}

/// The one in the middle.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// What sampling may take of a run.
fn sampling_max(told: &Amplification) -> f64 {
    0.02 * (told.load.as_ref().map_or(0.0, |load| load.seconds) + told.run.seconds) + 0.05
}

/// Whether others left samples their time, and clients theirs between any two of them.
fn is_undisturbed(told: &Amplification) -> bool {
    let own = of_intervals(told);
    let is_whole = own.len() >= 3 && own.len() == told.run.series.len();
    is_whole && within(median(own), 256.0, 0.2) && told.sampling_seconds <= sampling_max(told)
}

/// Fails if the load's bytes are in the run's figures (the loading splits pages, which is why it is above 256), if a sample takes what was put
/// for what was written, or if the counters of the phases are those since the beginning.
#[test]
fn a_page_for_each_put_amplifies_256_times_in_every_interval() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let begun = Instant::now();
    let (record, told) = loop {
        let (record, told) = runs(&["micro-btree-published"], Workload::A, home.path()).remove(0);
        if is_undisturbed(&told) || begun.elapsed() > Duration::from_secs(60) {
            break (record, told);
        }
    };
    let (load, run) = (told.load.as_ref().expect("it was loaded"), &told.run);
    check(load);
    check(run);
    // The closing flush may write a page or two for all of them.
    assert!(within(run.waf.own, 256.0, 0.005), "each put of the run writes one page: {:?}", run.waf);
    assert!(load.waf.own.is_some_and(|waf| waf > 256.0 && waf < 300.0), "loading splits pages: {:?}", load.waf);
    assert_eq!((run.waf.statistics, load.waf.statistics), (None, None), "Biombo wrote this engine");
    // Up to a hundredth of a second of puts is not told yet when a sample is taken, and the machine may be busy with others.
    let series = &run.series;
    assert!(series.len() >= 3, "a second has several intervals: {series:?}");
    let own = of_intervals(&told);
    assert_eq!(own.len(), series.len(), "every interval has its figure");
    assert!(within(own.last().copied(), 256.0, 0.005), "{series:?}");
    assert!(within(median(own), 256.0, 0.2), "{series:?}");
    // The phases are what the whole is made of.
    let put = load.logical_write_bytes + run.logical_write_bytes;
    assert_eq!(put, record.logical_write_bytes);
    if is_counted(home.path(), &record) {
        assert!(within(run.waf.process, 256.0, 0.02), "by the kernel {:?}", run.waf);
        assert!(run.waf.device.is_none_or(|waf| waf > 250.0), "the device got at least as much: {:?}", run.waf);
    }
    assert!(told.sampling_seconds <= sampling_max(&told), "{} s", told.sampling_seconds);
    assert!(record.space_amplification.is_some_and(|space| space >= 1.0), "{:?}", record.space_amplification);
    assert_eq!(run.live_bytes, Some(2_000 * 16));
}

/// Fails if a run of reads shows what loading wrote as its own, or if an engine that counts nothing gets a figure by its own counters.
#[test]
fn who_only_reads_has_no_write_amplification_and_loading_has_its_own() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let runs = runs(&["micro-lsm", "lmdb", "memory"], Workload::C, home.path());
    for (record, told) in &runs {
        let (load, run) = (told.load.as_ref().expect("it was loaded"), &told.run);
        check(load);
        check(run);
        assert_eq!((run.logical_write_bytes, run.waf.process), (0, None), "{}", record.engine);
        assert_eq!(run.logical_read_bytes, 8 * record.operations, "{}", record.engine);
        assert_eq!(load.waf.own.is_some(), record.engine == "micro-lsm", "{}", record.engine);
        assert_eq!(load.waf.statistics, None, "{}: LMDB counts nothing, and memory keeps nothing", record.engine);
        if record.engine != "memory" && is_counted(home.path(), record) {
            assert!(load.waf.process.is_some_and(|waf| waf > 1.0), "{}: {:?}", record.engine, load.waf);
            assert!(record.read_amplification.is_some_and(|reads| reads >= 0.0), "{}", record.engine);
        }
    }
}

/// Fails if what an LSM-tree without a log has in memory is left out: 0.81, as was published.
#[test]
fn an_lsm_tree_writes_at_least_what_was_put() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (_, told) = runs(&["micro-lsm-published"], Workload::A, home.path()).remove(0);
    check(&told.run);
    assert!(told.run.waf.own.is_some_and(|waf| waf >= 1.0), "{:?}", told.run.waf);
    assert!(told.run.unflushed_bytes.is_some() && told.run.compaction.count.is_some_and(|count| count > 0));
    let compactions: u64 = told.run.series.compactions.iter().flatten().sum();
    assert_eq!(Some(compactions), told.run.compaction.count);
}
