//! What engines that Biombo wrote say they wrote, beside what the kernel says of their process.
//!
//! The worker is this test program itself.

use std::io::{Write, stdin, stdout};
use std::path::Path;

use biombo_engine::{Durability, Registry};
use biombo_lab::bench::{Plan, Silent, run};
use biombo_lab::measure::Device;
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

fn runs(durability: Durability, records: u64, operations: u64, dir: &Path) -> Vec<Record> {
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

fn compare(durability: Durability, records: u64, operations: u64) {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for record in runs(durability, records, operations, home.path()) {
        let told = record.amplification.as_ref().expect("every run tells");
        println!("{} {durability:?} {:.1} s: {:?}", record.engine, record.seconds, record.waf_by);
        println!("  load {:?} {:?}", told.load.as_ref().map(|load| load.write_bytes), told.load.as_ref().map(|load| load.unflushed_bytes));
        println!("  run {:?} {:?}", told.run.write_bytes, told.run.unflushed_bytes);
    }
    let _ = Device::of(home.path());
}

#[test]
fn at_os() {
    compare(Durability::Os, 60_000, 60_000);
}

#[test]
fn at_sync() {
    compare(Durability::Sync, 5_000, 40_000);
}
