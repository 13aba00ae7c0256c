//! Every byte is counted: the published figure of a B-tree that writes its page at each put, by its own counter and by the kernel's.
//!
//! A program of its own, because the kernel counts for the whole process.

use std::path::Path;
use std::sync::Arc;

use biombo_engine::{Durability, Engine, EngineKind, Op, OpenOptions};
use biombo_micro::Behaviour::{Honest, Published};
use biombo_micro::{btree, lsm};

const RECORDS: u64 = 10_000;
const PUTS: u64 = 5_000;
/// Keys and values of 8 bytes.
const RECORD_BYTES: u64 = 16;

/// Bytes that this process has caused to be written, by the kernel.
fn process_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("the kernel counts");
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.trim().parse().expect("a number")
    };
    field("write_bytes:") - field("cancelled_write_bytes:")
}

/// Spread over all records.
fn key(number: u64) -> [u8; 8] {
    (number % RECORDS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(engine: &Arc<dyn Engine>, number: u64) {
    let op = Op::Put { key: &key(number), value: &number.to_be_bytes() };
    engine.apply(&[op], Durability::Os).expect("put");
}

/// An engine that has all records, in a directory on a real disk.
fn loaded(kind: &EngineKind, dir: &Path) -> Arc<dyn Engine> {
    let engine = (kind.open)(&OpenOptions { cache_bytes: 8 << 20, ..OpenOptions::new(dir) }).expect("open");
    (0..RECORDS).for_each(|number| put(&engine, number));
    engine.sync().expect("sync");
    engine
}

fn written(engine: &Arc<dyn Engine>) -> u64 {
    engine.stats().expect("stats").written_bytes.expect("it counts")
}

fn flushed_or_not(engine: &Arc<dyn Engine>) -> u64 {
    written(engine) + engine.stats().expect("stats").unflushed_bytes.expect("it counts")
}

fn amplification(bytes: u64) -> f64 {
    bytes as f64 / (PUTS * RECORD_BYTES) as f64
}

#[test]
fn bytes_written_are_those_of_the_kernel_and_what_is_unflushed_counts() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let dir = |name: &str| {
        let dir = home.path().join(name);
        std::fs::create_dir(&dir).expect("a directory");
        dir
    };

    // Half reads, half writes, as published: each write is a page of 4,096 bytes for a record of 16.
    let engine = loaded(&btree::kind(Published), &dir("btree-published"));
    let (own, kernel) = (written(&engine), process_bytes());
    for number in 0..PUTS {
        put(&engine, number * 7);
        assert!(engine.contains(&key(number)).expect("get"));
    }
    assert_eq!(amplification(written(&engine) - own), 256.0);
    assert_eq!(engine.stats().expect("stats").unflushed_bytes, Some(0));
    let by_kernel = amplification(process_bytes() - kernel);
    assert!((by_kernel / 256.0 - 1.0).abs() < 0.02, "by the kernel: {by_kernel}");
    drop(engine);

    // With a journal, a page that is put to many times is written once: far less, and none of it forgotten.
    let engine = loaded(&btree::kind(Honest), &dir("btree-honest"));
    engine.compact().expect("a checkpoint");
    let own = flushed_or_not(&engine);
    (0..PUTS).for_each(|number| put(&engine, number * 7));
    let unflushed = engine.stats().expect("stats").unflushed_bytes.expect("it counts");
    let before = amplification(flushed_or_not(&engine) - own);
    engine.compact().expect("a checkpoint");
    let after = amplification(written(&engine) - own);
    assert!(unflushed > 40 * 4096, "{unflushed}");
    // A checkpoint writes its head and map beside.
    assert!(after >= before && after < before + 0.2, "{before} before, {after} after it was flushed");
    assert!((3.0..20.0).contains(&after), "{after}");
    drop(engine);

    // The run that was published: 2,500 puts, of which 2,000 reach a table. What was never written is what made it less than 1. The list of
    // tables is written whole with each of them: a page for its few bytes, by either counter. The marker has another. A kernel counts a page
    // or two of its own to whoever comes along, where others sync much, which is a lot of one run: so it is several.
    let per_put = |bytes: u64| bytes as f64 / (2500 * RECORD_BYTES) as f64;
    let runs = (0..8).map(|run| {
        let dir = dir(&format!("lsm-published-{run}"));
        let engine = (lsm::kind(Published).open)(&OpenOptions::new(dir)).expect("open");
        let kernel = process_bytes();
        (0..2500).for_each(|number| put(&engine, number));
        let (reached, all) = (per_put(written(&engine)), per_put(flushed_or_not(&engine)));
        assert!((1.0..2.0).contains(&reached) && all > reached * 1.2, "{reached} reached the tables of {all}");
        engine.sync().expect("sync");
        let flushed = per_put(written(&engine));
        assert!((flushed / all - 1.0).abs() < 0.05, "{all} before, {flushed} after it was flushed");
        (flushed, per_put(process_bytes() - kernel))
    });
    let (flushed, by_kernel) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    assert!((by_kernel / flushed - 1.0).abs() < 0.05, "{by_kernel} by the kernel for {flushed}");
}
