//! What engines tell of compactions, checkpoints and cleanings, of which there was at least one.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
use biombo::{Compaction, CompactionTail, Options, Range, Store};

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
    // Whether an engine keeps the median, the 99th percentile and the slowest. WiredTiger keeps the sum of its checkpoints' times and the
    // slowest, PostgreSQL the sum alone.
    let compacting = [
        ("log", [true; 3]),
        ("rocksdb", [true; 3]),
        ("leveldb", [true; 3]),
        ("wiredtiger", [false, false, true]),
        ("postgres", [false; 3]),
        ("micro-btree", [true; 3]),
        ("micro-lsm", [true; 3]),
        ("micro-lsm-published", [true; 3]),
    ];
    for kind in biombo::registry().iter().filter(|kind| kind.is_installed()) {
        for partitions in [1, 3] {
            let (store, _dir) = compacted(kind.name, partitions);
            let what = format!("{} in {partitions} partitions", kind.name);
            let told: Vec<(Option<Compaction>, Option<CompactionTail>)> =
                store.instance_stats().unwrap().into_iter().map(|one| (one.compaction, one.compaction_tail)).collect();
            let Some((_, known)) = compacting.iter().find(|(name, _)| *name == kind.name) else {
                assert!(
                    told.iter().all(|told| *told == (None, None)),
                    "{what} compacts nothing, and tells of {told:?}"
                );
                continue;
            };
            for (told, tail) in told {
                let told = told.unwrap_or_else(|| panic!("{what} tells nothing"));
                assert!(told.count > 0 && told.seconds > 0.0, "{what}: {told:?}");
                // Each key was written twice: at least what is live was written once more, a compressor's share aside.
                assert!(told.bytes > u64::from(KEYS / partitions) * 20, "{what}: {told:?}");
                let tail = tail.unwrap_or_default();
                let times = [told.latency_ns_p50, tail.latency_ns_p99, tail.latency_ns_max];
                assert_eq!(times.map(|time| time.is_some()), *known, "{what}: {told:?}, {tail:?}");
                assert!(told.latency_ns_p50.is_none_or(|ns| ns > 0), "{what}: {told:?}");
                // Of those that are known, none is below the one before. RocksDB interpolates its median within a bucket of times.
                let known: Vec<u64> = times.into_iter().flatten().collect();
                assert!(known.is_sorted(), "{what}: {told:?}, {tail:?}");
            }
            if (kind.capabilities)().ordered {
                assert_eq!(store.count().unwrap(), u64::from(KEYS), "{what}");
                assert!(store.scan(Range::all()).unwrap().next().unwrap().is_some());
            }
        }
    }
}
