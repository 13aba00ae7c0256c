//! The room on disk that a run may need at its worst, by what its engine keeps besides the data.
//!
//! An estimate from above, made before anything is started: a run that does not fit is refused then, and not when the disk is full.
//! What an engine keeps follows from its options, which stand in its own crate: here they are named again, so that the laboratory can ask
//! without opening an instance.

use super::{Partitioning, RunSpec};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What an engine takes for its data, and besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    /// Beside the key and value of each record.
    record_bytes: u64,
    /// How often the data may be there: pages half full, dead versions, what is merged or copied and its copy.
    times: u64,
    /// Logs, segments, what an empty instance has.
    beside_bytes: u64,
}

impl RunSpec {
    /// Bytes on disk that the run may need at its worst. Updates of the same records do not add up for ever: records are counted twice at most.
    pub fn disk_bytes_needed(&self) -> u64 {
        let records = self.loaded().saturating_add(self.puts().min(self.records.max(1_000)));
        let Room { record_bytes, times, beside_bytes } = self.room();
        let data = records.saturating_mul(self.record_bytes().saturating_add(record_bytes)).saturating_mul(times);
        // A store's own journals, and whatever any engine begins with.
        let own = (64 * MIB).saturating_add(self.instances().saturating_sub(1).saturating_mul(16 * MIB));
        data.saturating_add(beside_bytes).saturating_add(own)
    }

    /// Instances of the engine, which are dealt to the directories in turn.
    pub(crate) fn instances(&self) -> u64 {
        if self.partitioning == Partitioning::Hard { u64::from(self.partitions).max(1) } else { 1 }
    }

    /// A log that is cut at `bytes_max` in each instance, of writes that take so much more than their record: no larger than what is put.
    fn log_bytes(&self, write_bytes: u64, bytes_max: u64) -> u64 {
        let puts = self.loaded().saturating_add(self.puts());
        let put = puts.saturating_mul(self.record_bytes().saturating_add(write_bytes));
        put.min(bytes_max.saturating_mul(self.instances()))
    }

    fn room(&self) -> Room {
        let (instances, cache_bytes) = (self.instances(), self.cache_bytes / self.instances());
        let each = |bytes: u64| bytes.saturating_mul(instances);
        match self.engine.as_str() {
            "postgres" => Room {
                // A row's head, and the key once more in the index, whose pages are two thirds full. Dead rows wait for the vacuum.
                record_bytes: 64 + 2 * u64::from(self.key_bytes),
                times: 3,
                // The log between two checkpoints, with whole pages of table and index; it may pass its bound by a little. An empty
                // cluster has 40 MB and a segment of 16 MiB.
                beside_bytes: self
                    .log_bytes(16 * KIB, (2_048 * MIB / instances).max(128 * MIB))
                    .saturating_mul(5)
                    .div_ceil(4)
                    .saturating_add(each(128 * MIB)),
            },
            "wiredtiger" => Room {
                record_bytes: 16,
                times: 3,
                // The log between two checkpoints, and that of the one before until it is removed.
                beside_bytes: self
                    .log_bytes(64, (2_048 * MIB / instances).max(128 * MIB))
                    .saturating_mul(2)
                    .saturating_add(128 * MIB),
            },
            "micro-btree" => Room {
                record_bytes: self.btree_record_bytes(),
                // Pages are half full at worst, and the last checkpoint's are kept beside those that were changed since.
                times: 4,
                beside_bytes: self
                    .log_bytes(16, cache_bytes.saturating_mul(2).clamp(8 * MIB, 256 * MIB))
                    .saturating_add(each(32 * MIB)),
            },
            "micro-btree-published" => Room { record_bytes: self.btree_record_bytes(), times: 3, beside_bytes: 0 },
            "micro-lsm" | "micro-lsm-published" => Room {
                record_bytes: 12,
                times: 3,
                beside_bytes: self
                    .log_bytes(16, (cache_bytes / 4).clamp(64 * KIB, 64 * MIB).saturating_mul(2))
                    .saturating_add(each(32 * MIB)),
            },
            "rocksdb" => {
                let memtables = (cache_bytes / 4).clamp(2 * MIB, 384 * MIB);
                // Logs live as long as their memtables, of which there are three, and are allocated ahead.
                Room {
                    record_bytes: 16,
                    times: 3,
                    beside_bytes: self.log_bytes(32, memtables).saturating_add(each(memtables / 2)),
                }
            }
            "leveldb" => {
                Room { record_bytes: 12, times: 3, beside_bytes: each((cache_bytes / 4).clamp(MIB, 128 * MIB)) }
            }
            // Cleaning keeps to a bound on what is live, beside a few segments.
            "log" => Room {
                record_bytes: 32,
                times: self.space_amplification.map_or(3, |bound| (bound.ceil() as u64).saturating_add(1).max(3)),
                beside_bytes: each(32 * MIB),
            },
            _ => Room { record_bytes: 32, times: 3, beside_bytes: 0 },
        }
    }

    /// A cell and its slot; a value that needs pages of its own takes whole ones.
    fn btree_record_bytes(&self) -> u64 {
        // A third of a page of 4 KiB.
        let (cell, cell_max) = (self.record_bytes().saturating_add(6), 1_358);
        if cell <= cell_max {
            6
        } else {
            12 + (u64::from(self.value_bytes) + 12).next_multiple_of(4 * KIB) - u64::from(self.value_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Plan;
    use crate::workload::Workload;

    fn run(engine: &str, plan: Plan) -> RunSpec {
        Plan { engines: vec![engine.to_owned()], cache_bytes: plan.cache_bytes.or(Some(2 << 30)), ..plan }
            .runs()
            .remove(0)
    }

    fn needed(engine: &str, records: u64, value_bytes: u32) -> u64 {
        let plan = Plan { records, operations: records, value_bytes: vec![value_bytes], ..Plan::default() };
        run(engine, plan).disk_bytes_needed()
    }

    const ENGINES: [&str; 11] = [
        "postgres",
        "wiredtiger",
        "micro-btree",
        "micro-btree-published",
        "micro-lsm",
        "micro-lsm-published",
        "rocksdb",
        "leveldb",
        "log",
        "lmdb",
        "of somebody else",
    ];

    #[test]
    fn logs_that_reach_gigabytes_are_counted_where_a_run_fills_them() {
        // A million records of 1 KB, half a million of them put once more: 1.5 GB.
        let data = 1_500_000 * 1_016;
        for engine in ENGINES {
            assert!(needed(engine, 1_000_000, 1_000) >= 3 * data, "{engine}");
        }
        assert!(needed("postgres", 1_000_000, 1_000) >= 3 * data + (2 << 30), "its log may have 2 GiB");
        assert!(needed("micro-btree", 1_000_000, 1_000) >= 4 * data + (256 << 20), "kept pages, and its journal");
        assert!(needed("wiredtiger", 1_000_000, 1_000) >= 3 * data + 2 * data, "all of the log is there still");
        assert!(needed("rocksdb", 1_000_000, 1_000) >= 3 * data + (512 << 20), "logs of three memtables");
    }

    #[test]
    fn a_small_run_is_refused_by_no_disk_of_a_few_hundred_megabytes() {
        for engine in ENGINES {
            let bytes = needed(engine, 1_000, 100);
            assert!((64 << 20..400 << 20).contains(&bytes), "{engine}: {bytes}");
        }
    }

    #[test]
    fn what_a_record_takes_besides_its_bytes_counts_where_records_are_small() {
        // Rows of 16 bytes have heads of 40, and an index.
        assert!(needed("postgres", 10_000_000, 8) > 10_000_000 * 3 * 100);
        // A value of 2,000 bytes has a page of its own.
        assert!(needed("micro-btree", 100_000, 2_000) > 150_000 * 4 * 4_096);
        assert!(needed("micro-btree", 100_000, 1_300) < 150_000 * 4 * 1_400 + (400 << 20));
    }

    #[test]
    fn partitions_have_logs_of_their_own_and_a_bound_on_space_counts() {
        let whole = Plan { records: 10_000_000, ..Plan::default() };
        let parted = Plan { partitionings: vec![Partitioning::Hard], partitions: vec![64], ..whole.clone() };
        let (parted, whole) = (run("postgres", parted), run("postgres", whole));
        // 128 MiB of log at least, and a cluster, in each of 64.
        assert!(parted.disk_bytes_needed() > whole.disk_bytes_needed() + 63 * (128 << 20));
        let wide = Plan { space_amplification: Some(9.5), ..Plan::default() };
        assert!(run("log", wide).disk_bytes_needed() > 3 * run("log", Plan::default()).disk_bytes_needed());
    }

    #[test]
    fn no_run_is_too_large_to_be_asked() {
        for engine in ENGINES {
            let plan = Plan { records: u64::MAX, operations: u64::MAX, ..Plan::default() };
            let spec = RunSpec {
                partitions: 0,
                partitioning: Partitioning::Hard,
                cache_bytes: u64::MAX,
                key_bytes: u32::MAX,
                value_bytes: u32::MAX,
                space_amplification: Some(f64::INFINITY),
                task: Workload::E.into(),
                ..run(engine, plan)
            };
            assert_eq!(spec.disk_bytes_needed(), u64::MAX, "{engine}");
        }
    }
}
