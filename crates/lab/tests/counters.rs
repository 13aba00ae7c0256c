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
use biombo_lab::workload::{Distribution, Task, Workload};

const WORKER: &str = "BIOMBO_LAB_COUNTERS_WORKER";

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
    file.sync_all().expect("sync");
    before.zip(process::traffic()).is_some_and(|(before, after)| after.since(before).written_bytes >= BYTES)
}

/// Loading at `os`, half updates at `durability`, keys of 16 bytes and values of 1,000, one thread, in `dir`.
fn runs(durability: Durability, (records, operations): (u64, u64), dir: &Path) -> Vec<Record> {
    let command = WorkerCommand {
        program: std::env::current_exe().expect("this program has a file"),
        args: ["--exact", "worker_entry", "--nocapture", "--test-threads=1"].map(str::to_owned).into(),
        env: vec![(WORKER.to_owned(), "1".to_owned())],
        silence_max: None,
    };
    let plan = Plan {
        engines: ["log", "micro-btree", "micro-lsm"].map(str::to_owned).into(),
        tasks: vec![Task::Ycsb { workload: Workload::A, distribution: Distribution::Uniform }],
        records,
        operations,
        durability,
        threads: vec![1],
        cache_bytes: Some(16 << 20),
        dir: Some(dir.to_owned()),
        ..Plan::default()
    };
    let outcome = run(&plan, &registry(), &command, &mut Silent).expect("a plan that can be run");
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    outcome.records
}

fn agree(durability: Durability, volume: (u64, u64)) {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    if !is_counted(home.path()) {
        println!("skipped: the kernel counts no bytes written to {}", home.path().display());
        return;
    }
    let records = runs(durability, volume, home.path());
    for record in &records {
        let told = record.amplification.as_ref().expect("every run tells");
        println!("{} at {}: {:?}", record.engine, record.durability, record.waf_by);
        println!(
            "  load: {:?}, owing {:?}",
            told.load.as_ref().map(|l| l.write_bytes),
            told.load.as_ref().map(|l| l.unflushed_bytes)
        );
        println!("  run: {:?}, owing {:?}", told.run.write_bytes, told.run.unflushed_bytes);
    }
    assert_eq!(records.len(), 3);
    for record in &records {
        let (own, process) =
            (record.waf_by.engine.expect("it counts"), record.waf_by.process.expect("so does the kernel"));
        let difference = own / process - 1.0;
        assert!(own >= 1.0, "{} at {}: {own}", record.engine, record.durability);
        assert!(
            difference.abs() < 0.05,
            "{} at {}: {own:.3} by its own counters, {process:.3} by the kernel ({:+.1} %)",
            record.engine,
            record.durability,
            100.0 * difference
        );
    }
}

/// Fails if the log leaves out zeros ahead of its writer or what closing writes, or counts zeros that are stored over before they are written:
/// it was 10 % apart with twice the records.
#[test]
fn own_counters_agree_with_the_kernel_s_at_os() {
    agree(Durability::Os, (30_000, 30_000));
}

/// Fails if an engine counts bytes where a sync writes pages, or if room for synced writes is filled in large pages, all of which the kernel counts
/// at each sync: factors of 4 and of 38.
#[test]
fn own_counters_agree_with_the_kernel_s_at_sync() {
    agree(Durability::Sync, (5_000, 16_000));
}
