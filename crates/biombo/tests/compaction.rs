//! What engines tell of compactions, checkpoints and cleanings, of which there was at least one.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
use biombo::{Compaction, Options, Range, Store};

const KEYS: u32 = 3_000;

/// Compacted after every key was written twice.
fn compacted(engine: &str, partitions: u32) -> (Store, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().engine(engine).partitions(partitions).durability(biombo::Durability::Os);
    let store = options.cache_bytes(8 << 20).open(dir.path().join("s"), &biombo::registry()).unwrap();
    for round in 0..2u8 {
        for i in 0..KEYS {
            let value: Vec<u8> = (0..500).map(|at: u32| (at * i + u32::from(round)) as u8).collect();
            store.put(&(i.wrapping_mul(0x9e37_79b9)).to_be_bytes(), &value).unwrap();
        }
    }
    store.compact().unwrap();
    (store, dir)
}

#[test]
fn engines_that_compact_tell_count_time_and_bytes_and_the_others_tell_nothing() {
    // WiredTiger and PostgreSQL keep no median of their checkpoints.
    let compacting = [
        ("log", true),
        ("rocksdb", true),
        ("leveldb", true),
        ("wiredtiger", false),
        ("postgres", false),
        ("micro-btree", true),
        ("micro-lsm", true),
        ("micro-lsm-published", true),
    ];
    for kind in biombo::registry().iter().filter(|kind| kind.is_installed()) {
        for partitions in [1, 3] {
            let (store, _dir) = compacted(kind.name, partitions);
            let what = format!("{} in {partitions} partitions", kind.name);
            let told: Vec<Option<Compaction>> =
                store.stats().unwrap().instances.into_iter().map(|instance| instance.compaction).collect();
            let Some((_, median)) = compacting.iter().find(|(name, _)| *name == kind.name) else {
                assert!(told.iter().all(Option::is_none), "{what} compacts nothing, and tells of {told:?}");
                continue;
            };
            for told in told {
                let told = told.unwrap_or_else(|| panic!("{what} tells nothing"));
                assert!(told.count > 0 && told.seconds > 0.0, "{what}: {told:?}");
                // Each key was written twice: at least what is live was written once more, a compressor's share aside.
                assert!(told.bytes > u64::from(KEYS / partitions) * 20, "{what}: {told:?}");
                assert_eq!(told.latency_ns_p50.is_some_and(|ns| ns > 0), *median, "{what}: {told:?}");
            }
            if (kind.capabilities)().ordered {
                assert_eq!(store.count().unwrap(), u64::from(KEYS), "{what}");
                assert!(store.scan(Range::all()).unwrap().next().unwrap().is_some());
            }
        }
    }
}
