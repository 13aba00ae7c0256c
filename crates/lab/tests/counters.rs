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

/// Somebody else on the machine who syncs the file system has pages written that are stored to once more: the kernel counts them, no engine can.
const ATTEMPTS: usize = 4;

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

/// Loading at `os`, half updates at `durability`, keys of 16 bytes and values of 1,000, one thread, in `dir`.
fn one(engine: &str, durability: Durability, (records, operations): (u64, u64), dir: &Path) -> Record {
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
        threads: vec![1],
        cache_bytes: Some(16 << 20),
        dir: Some(dir.to_owned()),
        ..Plan::default()
    };
    let mut outcome = run(&plan, &registry(), &command, &mut Silent).expect("a plan that can be run");
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    outcome.records.remove(0)
}

/// Fails if the log leaves out zeros ahead of its writer or what closing writes, or counts zeros that are stored over before they are written
/// (it was 15 % apart at `os`); if an engine counts bytes where a sync writes pages; or if room for synced writes is filled in large pages, all of
/// which the kernel counts at each sync (factors of 4 and of 38).
#[test]
fn own_counters_agree_with_the_kernel_s() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    if !is_counted(home.path()) {
        println!("skipped: the kernel counts no bytes written to {}", home.path().display());
        return;
    }
    let volumes = [(Durability::Os, (30_000, 30_000)), (Durability::Sync, (5_000, 16_000))];
    for (durability, volume) in volumes {
        for engine in ["log", "micro-btree", "micro-lsm"] {
            let mut apart = Vec::new();
            while apart.len() < ATTEMPTS && apart.iter().all(|percent: &f64| percent.abs() >= 5.0) {
                let record = one(engine, durability, volume, home.path());
                println!("{engine} at {durability:?}: {:?}", record.waf_by);
                let (own, process) = (record.waf_by.engine.expect("it counts"), record.waf_by.process);
                assert!(own >= 1.0, "{engine} at {durability:?}: {own}");
                apart.push(100.0 * (own / process.expect("so does the kernel") - 1.0));
            }
            let is_near = apart.iter().any(|percent| percent.abs() < 5.0);
            assert!(is_near, "{engine} at {durability:?}: percent by its own counters above the kernel's: {apart:?}");
        }
    }
}
