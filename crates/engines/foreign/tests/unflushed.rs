//! Engines say what they hold in memory alone: a short run, all of which fits a memtable or a cache of pages, has written a log and nothing else
//! so far.
#![cfg(any(feature = "rocksdb", feature = "leveldb", feature = "wiredtiger", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use biombo_engine::{Durability, Engine, Op, OpenOptions, Registry};
use tempfile::TempDir;

/// Values that do not compress.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..1_000).map(step).collect()
}

fn put(engine: &Arc<dyn Engine>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        engine.apply(&[Op::Put { key: &number.to_be_bytes(), value: &value(number) }], Durability::Os).unwrap();
    }
}

/// Bytes unflushed, and written.
fn told(engine: &Arc<dyn Engine>) -> (u64, u64) {
    let stats = engine.stats().unwrap();
    (stats.unflushed_bytes.expect("it tells"), stats.written_bytes.expect("it tells"))
}

/// A new instance of the engine; `None`, said, where it is not installed.
fn open(name: &str, dir: &TempDir) -> Option<Arc<dyn Engine>> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get(name).unwrap();
    if !kind.is_installed() {
        println!("skipped: {name} is not installed");
        return None;
    }
    Some((kind.open)(&OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir.path()) }).unwrap())
}

/// Engines that change pages: what is put is in a log, and as dirty pages in a cache, which a checkpoint writes and closing too.
#[cfg(any(feature = "wiredtiger", feature = "postgres"))]
fn tells_dirty(name: &str) {
    let dir = TempDir::with_prefix("biombo-unflushed-").unwrap();
    let Some(engine) = open(name, &dir) else { return };
    assert!(!engine.stats().unwrap().leaves_unflushed, "closing writes them");
    engine.compact().unwrap();
    let (nothing, before) = told(&engine);
    assert!(nothing < 100_000, "{nothing} bytes unflushed, and nothing was put");
    put(&engine, 0..400);
    let (unflushed, written) = told(&engine);
    assert!(unflushed > 100_000, "{unflushed} of 403,200 bytes put");
    // In the log, and in pages, of which an eviction may have written some already.
    let all = written - before + unflushed;
    assert!((720_000..1_400_000).contains(&all), "{written} bytes written after {before}, {unflushed} to come");
    engine.compact().unwrap();
    let (left, after) = told(&engine);
    assert!(left < 100_000, "{left} bytes unflushed after a checkpoint");
    assert!(after >= written + unflushed / 2, "{written} bytes written, then {after}, with {unflushed} to come");
}

#[cfg(feature = "wiredtiger")]
#[test]
fn wiredtiger_tells_which_of_its_pages_are_dirty() {
    tells_dirty("wiredtiger");
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_tells_which_of_its_pages_are_dirty() {
    tells_dirty("postgres");
}

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
fn tells(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Some(engine) = open(name, &dir) else { return };
    assert_eq!(told(&engine).0, 0, "nothing was put");
    assert!(engine.stats().unwrap().leaves_unflushed, "closing writes no memtable");

    // A log was written, and all of it is to be written once more.
    put(&engine, 0..400);
    let (unflushed, written) = told(&engine);
    assert!((400_000..650_000).contains(&unflushed), "{unflushed} of 403,200 bytes put");
    assert!((400_000..500_000).contains(&written), "{written} bytes written");

    // More than the memtables take: most is in tables.
    put(&engine, 400..12_000);
    let (unflushed, written) = told(&engine);
    assert!(unflushed < 7_000_000, "{unflushed} of 12,096,000 bytes put");
    // Each byte twice in the end, but for what a flush that ends at this moment has told of neither.
    let all = 2 * 12_000 * 1_000;
    assert!(written + unflushed > all / 10 * 9, "{written} and {unflushed} of {all}");

    // A compaction begins with the memtable; the log goes a moment later.
    engine.compact().unwrap();
    let begun = std::time::Instant::now();
    while told(&engine).0 > 0 {
        assert!(begun.elapsed().as_secs() < 10, "{} bytes are unflushed still", told(&engine).0);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Fails if the memory of a memtable is told: of few small records that is many times their table.
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
fn tells_of_small_ones(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Some(engine) = open(name, &dir) else { return };
    for number in 0..400_u64 {
        let value = value(number);
        engine.apply(&[Op::Put { key: &number.to_be_bytes(), value: &value[..50] }], Durability::Os).unwrap();
    }
    let (unflushed, _) = told(&engine);
    assert!((23_200..40_000).contains(&unflushed), "{unflushed} of 23,200 bytes put");
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_tells_what_its_memtables_hold() {
    tells("rocksdb");
    tells_of_small_ones("rocksdb");
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb_tells_what_its_logs_hold_that_no_table_does() {
    tells("leveldb");
    tells_of_small_ones("leveldb");
}

/// Fails when a deleted range counts as the two keys that name it: LevelDB's log has a deletion of each key in it.
#[cfg(feature = "leveldb")]
#[test]
fn leveldb_counts_each_deletion_of_a_range() {
    let dir = TempDir::with_prefix("biombo-unflushed-").unwrap();
    let Some(engine) = open("leveldb", &dir) else { return };
    put(&engine, 0..400);
    let (_, before) = told(&engine);
    engine.apply(&[Op::DeleteRange { from: &[0], to: None }], Durability::Os).unwrap();
    let (_, after) = told(&engine);
    assert!(after - before >= 400 * 8, "{} bytes for 400 keys", after - before);
}
