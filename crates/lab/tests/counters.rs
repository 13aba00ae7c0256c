//! What engines that Biombo wrote say they wrote, beside what the kernel says of their process.
//!
//! The worker is this test program itself.

use std::io::{Write, stdin, stdout};
use std::path::Path;

use biombo_engine::{Durability, Registry};
use biombo_lab::bench::{Plan, Silent, run};
use biombo_lab::measure::process;
use biombo_lab::process::{WorkerCommand, worker};
use biombo_lab::record::Record;
use biombo_lab::spec::Partitioning;
use biombo_lab::workload::{Distribution, Task, Workload};

const WORKER: &str = "BIOMBO_LAB_COUNTERS_WORKER";

/// Runs of which the median is held against the kernel. Somebody else on the machine who syncs the file system has pages written that are stored
/// to once more: the kernel counts them, no engine can. Where the median of the first is off, it is that of all.
const RUNS: [usize; 2] = [3, 7];
/// How far apart the counters may be.
const PERCENT_MAX: f64 = 5.0;

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(biombo_log::kind());
    biombo_micro::register(&mut registry);
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

/// Whether the kernel counts what goes to files in `dir`: of those in memory it does not.
fn is_counted(dir: &Path) -> bool {
    const BYTES: u64 = 1 << 20;
    let before = process::traffic();
    let file = std::fs::File::create(dir.join("probe")).expect("a file");
    (&file).write_all(&vec![7; BYTES as usize]).expect("room");
    before.zip(process::traffic()).is_some_and(|(before, after)| after.since(before).written_bytes >= BYTES)
}

/// Used directly by one thread, or in so many `hard` partitions by as many.
type Layout = Option<u32>;

/// Loading at `os`, half updates at `durability`, keys of 16 bytes and values of 1,000, in `dir`.
fn one(engine: &str, layout: Layout, durability: Durability, (records, operations): (u64, u64), dir: &Path) -> Record {
    let command = WorkerCommand {
        program: std::env::current_exe().expect("this program has a file"),
        args: ["--exact", "worker_entry", "--nocapture", "--test-threads=1"].map(str::to_owned).into(),
        env: vec![(WORKER.to_owned(), "1".to_owned())],
        silence_max: None,
    };
    let plan = Plan {
        engines: vec![engine.to_owned()],
        tasks: vec![Task::Ycsb { workload: Workload::A, distribution: Distribution::Uniform }],
        records,
        operations,
        durability,
        threads: vec![layout.unwrap_or(1)],
        partitionings: vec![if layout.is_some() { Partitioning::Hard } else { Partitioning::None }],
        partitions: vec![layout.unwrap_or(1)],
        cache_bytes: Some(16 << 20),
        dir: Some(dir.to_owned()),
        ..Plan::default()
    };
    let mut outcome = run(&plan, &registry(), &command, &mut Silent).expect("a plan that can be run");
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    outcome.records.remove(0)
}

/// Fails if the log leaves out zeros ahead of its writer or what closing writes, or counts zeros that are stored over before they are written
/// (it was 15 % apart at `os`); if an engine counts bytes where a sync writes pages, or writes more in closing than it said it had still to write; or if room for synced writes is filled, or kept from
/// a time without syncs, in large pages, all of which the kernel counts at each sync (factors of 4 to 38).
#[test]
fn own_counters_agree_with_the_kernel_s() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    if !is_counted(home.path()) {
        println!("skipped: the kernel counts no bytes written to {}", home.path().display());
        return;
    }
    let volumes = [(Durability::Os, (30_000, 30_000)), (Durability::Sync, (5_000, 16_000))];
    let engines = ["log", "micro-btree", "micro-lsm"];
    let layouts = engines.iter().flat_map(|engine| [(*engine, None), (*engine, Some(2))]);
    let mut cases: Vec<Case> = Vec::new();
    for (durability, volume) in volumes {
        cases.extend(layouts.clone().map(|(engine, layout)| Case { engine, layout, durability, volume }));
    }
    // Synced writes to files of which the former life was mapped, in large pages.
    for engine in ["micro-btree", "micro-lsm"] {
        cases.push(Case { engine, layout: None, durability: Durability::Sync, volume: (30_000, 16_000) });
    }
    // The eighth table of level 0 by closing, which is no time to merge them.
    let volume = (27_000, 500);
    cases.push(Case { engine: "micro-lsm", layout: None, durability: Durability::Os, volume });
    for case in cases {
        agrees(&case, home.path());
    }
}

/// What is run.
struct Case {
    engine: &'static str,
    layout: Layout,
    durability: Durability,
    /// Records, and operations.
    volume: (u64, u64),
}

fn agrees(&Case { engine, layout, durability, volume }: &Case, dir: &Path) {
    let (records, how) = (volume.0, layout.map_or("directly", |_| "hard-2, 2 threads,"));
    let what = format!("{engine} {how} at {durability:?}, {records} records");
    let mut apart: Vec<f64> = Vec::new();
    for runs in RUNS {
        while apart.len() < runs {
            let record = one(engine, layout, durability, volume, dir);
            println!("{what}: {:?}", record.waf_by);
            let (own, process) = (record.waf_by.engine.expect("it counts"), record.waf_by.process);
            assert!(own >= 1.0, "{what}: {own}");
            apart.push(100.0 * (own / process.expect("so does the kernel") - 1.0));
        }
        if median(&apart).abs() < PERCENT_MAX {
            break;
        }
    }
    let off = median(&apart);
    assert!(off.abs() < PERCENT_MAX, "{what}: {off:.1} % above the kernel's by its own counters, of {apart:?}");
}

/// Of an odd number of them.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
