//! Merge trees say what they hold in memory alone: a short run, all of which fits a memtable, has written a log and nothing else so far.
#![cfg(any(feature = "rocksdb", feature = "leveldb"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use biombo_engine::{Durability, Engine, Op, OpenOptions, Registry};

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
    assert!(stats.leaves_unflushed, "closing writes no memtable");
    (stats.unflushed_bytes.expect("it tells"), stats.written_bytes.expect("it tells"))
}

fn tells(name: &str) {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir.path()) };
    let engine = (registry.get(name).unwrap().open)(&options).unwrap();
    assert_eq!(told(&engine).0, 0, "nothing was put");

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
    let begun = Instant::now();
    while told(&engine).0 > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} bytes are unflushed still", told(&engine).0);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_tells_what_its_memtables_hold() {
    tells("rocksdb");
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb_tells_what_its_logs_hold_that_no_table_does() {
    tells("leveldb");
}
