//! Runs long enough for merge trees to merge: caches well below the data, and a word where a run ended before the first compaction.
//!
//! With the usual cache of gigabytes, RocksDB's memtable alone has 128 MiB: a run of 100 MB would end before its first flush, and no
//! byte of it would be written but into the log. A comparison of trees is published with data of many times the caches.

use super::{Finding, Verdict};
use crate::record::Record;

/// What every engine takes as it is: PostgreSQL gives its buffers no less.
const CACHE_BYTES_MIN: u64 = 16 << 20;
/// Data by cache.
const DATA_BY_CACHE: u64 = 4;

/// Engines that flush tables and merge them.
const MERGE_TREES: [&str; 4] = ["rocksdb", "leveldb", "micro-lsm", "micro-lsm-published"];

/// More runs than this are counted, not named.
const NAMED_MAX: usize = 4;

/// The cache of every engine beside so much data: a quarter of it.
pub(super) fn cache_bytes(records: u64, record_bytes: u64) -> u64 {
    (records.saturating_mul(record_bytes) / DATA_BY_CACHE).max(CACHE_BYTES_MIN)
}

/// For each merge tree that wrote and merged nothing in some run, that its write amplification there says nothing yet. `label` names a run.
pub(super) fn too_short<'a>(
    records: impl IntoIterator<Item = &'a Record> + Clone,
    label: impl Fn(&Record) -> String,
) -> Vec<Finding> {
    let of = |engine: &&str| {
        let idle = |r: &&Record| r.engine == **engine && r.logical_write_bytes > 0 && r.compaction.count == Some(0);
        let (mut runs, mut unflushed) = (Vec::new(), true);
        for record in records.clone().into_iter().filter(idle) {
            unflushed &= record.unflushed_write_bytes >= record.logical_write_bytes;
            let label = label(record);
            if !runs.contains(&label) {
                runs.push(label);
            }
        }
        let named = runs.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
        let more = runs.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let memory = if unflushed { ", and all that was put is in memory still" } else { "" };
        (!runs.is_empty()).then(|| Finding {
            published: format!("what merging costs {engine} (a warning, not published)"),
            published_figure: None,
            measured: format!(
                "0 compactions{memory}: its WAF says nothing yet; a larger --scale gives more data ({named}{more})"
            ),
            measured_figure: None,
            ratio: None,
            lines: Vec::new(),
            is_published: false,
            verdict: Verdict::Unknown,
        })
    };
    MERGE_TREES.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn a_cache_is_a_quarter_of_the_data_and_never_less_than_all_engines_take() {
        assert_eq!(cache_bytes(1_000_000, 1_016), 254_000_000);
        assert_eq!((cache_bytes(1_000, 1_016), cache_bytes(0, 0)), (16 << 20, 16 << 20));
    }

    #[test]
    fn a_merge_tree_that_merged_nothing_is_told_of_once_and_others_are_not() {
        let with = |engine: &str, work: &str, count: Option<u64>, put: u64| {
            let mut record = record(engine, "none", 1, 1_000.0);
            (record.workload, record.compaction.count, record.logical_write_bytes) = (work.to_owned(), count, put);
            record
        };
        let mut records = vec![
            with("rocksdb", "a", Some(0), 500),
            with("rocksdb", "a", Some(0), 500),
            with("rocksdb", "b", Some(3), 500),
            // It wrote nothing.
            with("rocksdb", "c", Some(0), 0),
            with("micro-lsm", "a", Some(2), 500),
            // Neither checkpoints nor what is not told are compactions of a merge tree.
            with("micro-btree", "a", Some(0), 500),
            with("leveldb", "a", None, 500),
        ];
        let label = |record: &Record| record.workload.clone();
        let found = too_short(&records, label);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].published.contains("rocksdb") && found[0].verdict == Verdict::Unknown);
        assert!(
            found[0].measured.contains("0 compactions: its WAF says nothing yet") && found[0].measured.ends_with("(a)")
        );
        // Not even flushed.
        records.truncate(1);
        records[0].unflushed_write_bytes = 510;
        assert!(too_short(&records, label)[0].measured.contains("in memory still"));
        let many: Vec<Record> = "abcdef".chars().map(|c| with("leveldb", &c.to_string(), Some(0), 1)).collect();
        assert!(too_short(&many, label)[0].measured.ends_with("(a; b; c; d; and 2 more)"));
    }
}
