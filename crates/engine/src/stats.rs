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
    /// Bytes of cache in use.
    pub cache_bytes: Option<u64>,
    /// Cache hits and misses since it was opened.
    pub cache_hits_misses: Option<(u64, u64)>,
    /// Work in the background since it was opened.
    pub compaction: Option<Compaction>,
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
}

impl Compaction {
    /// The work of several instances together.
    pub fn together<'a>(instances: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        let mut medians = Vec::new();
        for one in instances {
            sum.count += one.count;
            sum.seconds += one.seconds;
            sum.bytes += one.bytes;
            medians.extend(one.latency_ns_p50.map(|median| (median, one.count)));
        }
        medians.sort_unstable();
        let mut left = medians.iter().map(|(_, count)| count).sum::<u64>().div_ceil(2);
        sum.latency_ns_p50 = medians
            .iter()
            .find(|(_, count)| {
                let found = left <= *count;
                left = left.saturating_sub(*count);
                found
            })
            .map(|(median, _)| *median);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_add_up_and_the_median_is_that_of_most_compactions() {
        let one = |count, latency_ns_p50| Compaction { count, seconds: 0.5, latency_ns_p50, bytes: 10 };
        let busy = Compaction::together(&[one(1, Some(900)), one(7, Some(20)), one(2, Some(5)), one(3, None)]);
        assert_eq!(busy, Compaction { count: 13, seconds: 2.0, latency_ns_p50: Some(20), bytes: 40 });
        assert_eq!(Compaction::together(&[one(0, None)]).latency_ns_p50, None);
        assert_eq!(Compaction::together(&[]), Compaction::default());
    }
}
