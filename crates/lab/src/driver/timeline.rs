//! Operations finished in each tenth of a second: throughput over time.

use serde::{Deserialize, Serialize};

/// The width of a bucket while a run goes on, in nanoseconds.
const BUCKET_NS: u64 = 100_000_000;
/// More buckets than this are put together in pairs.
const BUCKETS_MAX: usize = 600;

/// One thread's counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticks {
    counts: Vec<u64>,
    count: u64,
    bucket_end_ns: u64,
}

impl Ticks {
    pub(crate) fn new() -> Self {
        Self { counts: Vec::with_capacity(1024), count: 0, bucket_end_ns: BUCKET_NS }
    }

    /// An operation ended `at_ns` after the beginning of the phase; `at_ns` never goes back.
    #[inline]
    pub(crate) fn tick(&mut self, at_ns: u64) {
        while at_ns >= self.bucket_end_ns {
            self.counts.push(self.count);
            self.count = 0;
            self.bucket_end_ns += BUCKET_NS;
        }
        self.count += 1;
    }

    pub(crate) fn finish(mut self) -> Vec<u64> {
        self.counts.push(self.count);
        self.counts
    }
}

/// Throughput over the time of a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The width of a bucket in seconds.
    pub bucket_seconds: f64,
    /// Operations finished in each; the last bucket may be cut short by the end.
    pub operations: Vec<u64>,
}

impl Timeline {
    /// All threads' counters together.
    pub(crate) fn merge(threads: impl IntoIterator<Item = Vec<u64>>) -> Self {
        let mut operations: Vec<u64> = Vec::new();
        for counts in threads {
            if operations.len() < counts.len() {
                operations.resize(counts.len(), 0);
            }
            for (sum, count) in operations.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        let mut bucket_seconds = BUCKET_NS as f64 / 1e9;
        while operations.len() > BUCKETS_MAX {
            operations = operations.chunks(2).map(|pair| pair.iter().sum()).collect();
            bucket_seconds *= 2.0;
        }
        Self { bucket_seconds, operations }
    }

    /// Operations per second in each full bucket, with the middle of the bucket in seconds. The last bucket counts only
    /// where it is the only one.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let full = if self.operations.len() > 1 { self.operations.len() - 1 } else { self.operations.len() };
        self.operations[..full]
            .iter()
            .enumerate()
            .map(|(i, &count)| ((i as f64 + 0.5) * self.bucket_seconds, count as f64 / self.bucket_seconds))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_fall_into_their_bucket_and_none_is_lost() {
        let mut ticks = Ticks::new();
        for at in [0, 50_000_000, 99_999_999, 100_000_000, 350_000_000] {
            ticks.tick(at);
        }
        let timeline = Timeline::merge([ticks.finish(), vec![1, 1]]);
        assert_eq!(timeline.operations, [4, 2, 0, 1]);
        assert_eq!(timeline.rates()[0], (0.05, 40.0));
    }

    #[test]
    fn long_runs_are_coarsened() {
        let timeline = Timeline::merge([vec![1; 3_001]]);
        assert!(timeline.operations.len() <= BUCKETS_MAX);
        assert_eq!(timeline.operations.iter().sum::<u64>(), 3_001);
        assert!((timeline.bucket_seconds - 0.8).abs() < 1e-9);
    }
}
