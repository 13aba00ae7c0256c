//! What an engine says of itself.

/// Figures of one engine instance. `None`: the engine does not know it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Keys held.
    pub keys: Option<u64>,
    /// Whether `keys` is an estimate.
    pub keys_estimated: bool,
    /// Bytes of live keys and values.
    pub logical_bytes: Option<u64>,
    /// Bytes on the device, as allocated to the instance's files.
    pub physical_bytes: Option<u64>,
    /// Bytes that the engine itself says it wrote to files (logs, tables, pages) since it was opened.
    pub written_bytes: Option<u64>,
    /// Bytes that it has still to write for what was put, if nothing more came: dirty pages, a memtable as a table. They belong to the
    /// write amplification of a run that ends before them.
    pub unflushed_bytes: Option<u64>,
    /// Whether closing leaves `unflushed_bytes` unwritten, because a log has them until the next opening: then the kernel has not counted them
    /// either when the process has ended.
    pub leaves_unflushed: bool,
    /// Bytes of cache in use.
    pub cache_bytes: Option<u64>,
    /// Cache hits and misses since it was opened.
    pub cache_hits_misses: Option<(u64, u64)>,
    /// Work in the background since it was opened.
    pub compaction: Option<Compaction>,
    /// The slowest of that work, where the engine keeps it.
    pub compaction_tail: Option<CompactionTail>,
    /// The segments of an engine whose data is a log.
    pub segments: Option<Segments>,
    /// The index of an engine that keeps one of all keys in memory.
    pub index: Option<IndexFigures>,
    /// Whether the data is kept by a server that this process did not start: what the kernel counts for this process and its directory then
    /// says nothing of the engine.
    pub elsewhere: bool,
    /// Every option that the instance was opened with, name and value, for the report.
    pub options: Vec<(String, String)>,
}

/// Compactions, checkpoints or cleanings since the instance was opened, added up over `hard` partitions (then the median time
/// is the median of the instances' medians, each weighted by its count).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compaction {
    /// How many.
    pub count: u64,
    /// Their time together, in seconds.
    pub seconds: f64,
    /// The median time of one, in nanoseconds, where the engine knows it.
    pub latency_ns_p50: Option<u64>,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// Tables that went a level down as they were: nothing was read or written, so they are none of `count`.
    pub moves: u64,
}

/// The slowest compactions, checkpoints or cleanings since the instance was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionTail {
    /// 99 % of them took no longer, in nanoseconds.
    pub latency_ns_p99: Option<u64>,
    /// The slowest one's time, in nanoseconds.
    pub latency_ns_max: Option<u64>,
}

/// The segments of a log that is the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segments {
    /// How many files.
    pub count: u64,
    /// Bytes written to them: records, their frames and filling.
    pub data_bytes: u64,
    /// Of those, records that are live: that the keys or live snapshots lead to, and deletions that are still needed.
    pub live_bytes: u64,
}

impl Segments {
    /// Bytes written by bytes of records that are live: what cleaning keeps within a bound. `None` without live ones.
    pub fn amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| self.data_bytes as f64 / self.live_bytes as f64)
    }

    /// Of several instances together.
    pub fn together(instances: impl IntoIterator<Item = Self>) -> Self {
        instances.into_iter().fold(Self::default(), |sum, one| Self {
            count: sum.count + one.count,
            data_bytes: sum.data_bytes + one.data_bytes,
            live_bytes: sum.live_bytes + one.live_bytes,
        })
    }
}

/// An index of all keys in memory, and how it came there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct IndexFigures {
    /// Bytes of memory that it takes. Keys that are only named by their place in the data take none.
    pub memory_bytes: u64,
    /// Checkpoints of it that were written since the instance was opened.
    pub checkpoints: u64,
    /// Bytes that they wrote.
    pub checkpoint_written_bytes: u64,
    /// The time of their work together, in seconds: without what they wait between steps, so as not to be in anybody's way.
    pub checkpoint_seconds: f64,
    /// What a checkpoint takes on disk, in bytes; 0 where there is none.
    pub checkpoint_bytes: u64,
    /// How long opening took until the first read could be answered, in seconds.
    pub opened_seconds: f64,
    /// Keys that opening had from a checkpoint; `None`: it used none.
    pub opened_from_checkpoint: Option<u64>,
    /// Records that opening took up from the log, one by one.
    pub opened_from_log: u64,
    /// Whether all of it is in memory by now; a checkpoint is searched where it lies until then.
    pub is_loaded: bool,
}

impl IndexFigures {
    /// Of several instances, which are opened side by side: the slowest opening counts. `None`: of none.
    pub fn together(instances: impl IntoIterator<Item = Self>) -> Option<Self> {
        instances.into_iter().reduce(|sum, one| Self {
            memory_bytes: sum.memory_bytes + one.memory_bytes,
            checkpoints: sum.checkpoints + one.checkpoints,
            checkpoint_written_bytes: sum.checkpoint_written_bytes + one.checkpoint_written_bytes,
            checkpoint_seconds: sum.checkpoint_seconds + one.checkpoint_seconds,
            checkpoint_bytes: sum.checkpoint_bytes + one.checkpoint_bytes,
            opened_seconds: sum.opened_seconds.max(one.opened_seconds),
            opened_from_checkpoint: match (sum.opened_from_checkpoint, one.opened_from_checkpoint) {
                (None, only) | (only, None) => only,
                (Some(a), Some(b)) => Some(a + b),
            },
            opened_from_log: sum.opened_from_log + one.opened_from_log,
            is_loaded: sum.is_loaded && one.is_loaded,
        })
    }
}

impl Compaction {
    /// The median of the times of all of them, which it sorts: the mean of the middle two of an even number, as of all medians of the
    /// laboratory. `None` of none.
    ///
    /// ```
    /// use biombo_engine::Compaction;
    /// assert_eq!(Compaction::median(&mut [200, 10, 30]), Some(30));
    /// assert_eq!(Compaction::median(&mut [200, 10]), Some(105));
    /// assert_eq!(Compaction::median(&mut []), None);
    /// ```
    pub fn median(times_ns: &mut [u64]) -> Option<u64> {
        times_ns.sort_unstable();
        let upper = *times_ns.get(times_ns.len() / 2)?;
        let lower = if times_ns.len() % 2 == 1 { upper } else { times_ns[times_ns.len() / 2 - 1] };
        Some(lower + (upper - lower) / 2)
    }

    /// The work of several instances together.
    pub fn together<'a>(instances: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        let mut medians = Vec::new();
        for one in instances {
            sum.count += one.count;
            sum.seconds += one.seconds;
            sum.bytes += one.bytes;
            sum.moves += one.moves;
            medians.extend(one.latency_ns_p50.map(|median| (median, one.count)));
        }
        medians.sort_unstable();
        let count = medians.iter().map(|(_, count)| count).sum::<u64>();
        let at = |rank: u64| {
            let mut before = 0_u64;
            medians
                .iter()
                .find(|(_, count)| {
                    before += *count;
                    rank < before
                })
                .map(|(median, _)| *median)
        };
        let middle = at(count.saturating_sub(1) / 2).zip(at(count / 2));
        sum.latency_ns_p50 = middle.and_then(|(lower, upper)| Self::median(&mut [lower, upper]));
        sum
    }
}

impl CompactionTail {
    /// Of the times of all of them, in any order; nothing is known of none.
    ///
    /// ```
    /// use biombo_engine::CompactionTail;
    /// let tail = CompactionTail::of((1..=200).rev().collect());
    /// assert_eq!((tail.latency_ns_p99, tail.latency_ns_max), (Some(198), Some(200)));
    /// assert_eq!(CompactionTail::of(Vec::new()), CompactionTail::default());
    /// ```
    pub fn of(mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        let rank = (times_ns.len() * 99).div_ceil(100);
        Self {
            latency_ns_p99: rank.checked_sub(1).and_then(|at| times_ns.get(at)).copied(),
            latency_ns_max: times_ns.last().copied(),
        }
    }

    /// Of several instances together: the slowest of all; of the 99th percentiles the largest, which no smaller share of all of
    /// them keeps to. A figure that one of them lacks is unknown, but for one that has nothing to tell of: it did no such work yet.
    pub fn together<'a>(instances: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let larger = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.max(b));
        instances.into_iter().copied().reduce(|sum, one| {
            if sum == Self::default() {
                one
            } else if one == Self::default() {
                sum
            } else {
                Self {
                    latency_ns_p99: larger(sum.latency_ns_p99, one.latency_ns_p99),
                    latency_ns_max: larger(sum.latency_ns_max, one.latency_ns_max),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_add_up_and_the_median_is_that_of_most_compactions() {
        let one = |count, latency_ns_p50| Compaction { count, seconds: 0.5, latency_ns_p50, bytes: 10, moves: 2 };
        let busy = Compaction::together(&[one(1, Some(900)), one(7, Some(20)), one(2, Some(5)), one(3, None)]);
        assert_eq!(busy, Compaction { count: 13, seconds: 2.0, latency_ns_p50: Some(20), bytes: 40, moves: 8 });
        assert_eq!(Compaction::together(&[one(0, None)]).latency_ns_p50, None);
        assert_eq!(Compaction::together(&[one(1, Some(200)), one(1, Some(10))]).latency_ns_p50, Some(105), "as of one");
        assert_eq!(Compaction::together(&[]), Compaction::default());
    }

    /// Fails if the tail of several instances is anything but the slowest, or if a figure is made up where one of them has none.
    #[test]
    fn the_tail_of_several_instances_is_that_of_the_slowest() {
        let one = |p99, max| CompactionTail { latency_ns_p99: p99, latency_ns_max: max };
        let both = [one(Some(9), Some(20)), one(Some(11), Some(12))];
        assert_eq!(CompactionTail::together(&both), Some(one(Some(11), Some(20))));
        assert_eq!(CompactionTail::together(&[one(None, Some(3)), one(Some(1), Some(2))]), Some(one(None, Some(3))));
        assert_eq!(CompactionTail::together(&[]), None);
    }

    /// Fails if a partition that had nothing to compact hides the tail of those that had.
    #[test]
    fn an_instance_without_such_work_leaves_the_tail_of_the_others() {
        let (none, busy) =
            (CompactionTail::default(), CompactionTail { latency_ns_p99: Some(9), latency_ns_max: Some(20) });
        for instances in [[none, busy], [busy, none]] {
            assert_eq!(CompactionTail::together(&instances), Some(busy));
        }
        assert_eq!(CompactionTail::together(&[none, none]), Some(none));
    }

    /// The 99th percentile of few is the slowest of them, never less than 99 % of them.
    #[test]
    fn a_tail_is_never_faster_than_its_share() {
        for count in [1u64, 2, 99, 100, 101, 1_000] {
            let tail = CompactionTail::of((1..=count).collect());
            let (p99, max) = tail.latency_ns_p99.zip(tail.latency_ns_max).unwrap();
            assert!(p99 * 100 >= count * 99 && p99 <= max && max == count, "{count}: {tail:?}");
            assert!((p99 - 1) * 100 < count * 99, "{count}: {p99} is more than it takes");
        }
    }
}
