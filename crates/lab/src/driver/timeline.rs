//! Operations finished in each tenth of a second, and how slow the slowest of them were: throughput and tail over time.

use serde::{Deserialize, Serialize};

use super::tail::{Bucket, Tail};
use crate::workload::shift::Mark;

/// The width of a bucket while a run begins, in nanoseconds.
const BUCKET_NS: u64 = 100_000_000;
/// More buckets than this are put together in pairs.
const BUCKETS_MAX: usize = 600;

/// One thread's counter.
#[derive(Debug, Clone)]
pub(crate) struct Ticks {
    buckets: Vec<Bucket>,
    tail: Tail,
    bucket_ns: u64,
    bucket_end_ns: u64,
}

impl Ticks {
    pub(crate) fn new() -> Self {
        Self {
            buckets: Vec::with_capacity(BUCKETS_MAX),
            tail: Tail::new(),
            bucket_ns: BUCKET_NS,
            bucket_end_ns: BUCKET_NS,
        }
    }

    /// An operation ended `at_ns` after the beginning of the phase, `latency_ns` after its own; `at_ns` never goes back.
    #[inline]
    pub(crate) fn tick(&mut self, at_ns: u64, latency_ns: u64) {
        while at_ns >= self.bucket_end_ns {
            self.turn();
        }
        self.tail.record(latency_ns);
    }

    /// The bucket is over.
    #[cold]
    fn turn(&mut self) {
        self.buckets.push(self.tail.take());
        if self.buckets.len() == BUCKETS_MAX {
            self.buckets = pairs(&self.buckets);
            self.bucket_ns *= 2;
        }
        self.bucket_end_ns += self.bucket_ns;
    }

    /// Its buckets, and how wide they are.
    fn finish(mut self) -> (u64, Vec<Bucket>) {
        self.buckets.push(self.tail.take());
        (self.bucket_ns, self.buckets)
    }
}

/// Buckets of twice the width.
fn pairs(buckets: &[Bucket]) -> Vec<Bucket> {
    buckets
        .chunks(2)
        .map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|other| both.add(other));
            both
        })
        .collect()
}

/// Throughput and tail over the time of a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The width of a bucket in seconds.
    pub bucket_seconds: f64,
    /// Operations finished in each; the last bucket may be cut short by the end.
    pub operations: Vec<u64>,
    /// 99 % of the operations of each were faster, in nanoseconds, to 3 %; 0 where none was finished.
    #[serde(default)]
    pub p99_ns: Vec<u64>,
    /// The slowest of each, in nanoseconds.
    #[serde(default)]
    pub max_ns: Vec<u64>,
    /// What happened: shifts of the workload, plans, moves.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Seconds that the store's own thread watched and planned meanwhile.
    #[serde(default)]
    pub planning_seconds: f64,
}

impl Timeline {
    /// All threads' counters together.
    pub(crate) fn merge(threads: impl IntoIterator<Item = Ticks>) -> Self {
        let threads: Vec<_> = threads.into_iter().map(Ticks::finish).collect();
        let widest = threads.iter().map(|(width, _)| *width).max().unwrap_or(BUCKET_NS);
        let mut all: Vec<Bucket> = Vec::new();
        for (mut width, mut buckets) in threads {
            while width < widest {
                buckets = pairs(&buckets);
                width *= 2;
            }
            if all.len() < buckets.len() {
                all.resize(buckets.len(), Bucket::default());
            }
            all.iter_mut().zip(&buckets).for_each(|(sum, bucket)| sum.add(bucket));
        }
        Self {
            bucket_seconds: widest as f64 / 1e9,
            operations: all.iter().map(|bucket| bucket.operations).collect(),
            p99_ns: all.iter().map(|bucket| bucket.quantile_ns(0.99)).collect(),
            max_ns: all.iter().map(|bucket| bucket.max_ns).collect(),
            marks: Vec::new(),
            planning_seconds: 0.0,
        }
    }

    /// Operations per second in each full bucket, with the middle of the bucket in seconds. The last bucket counts only
    /// where it is the only one.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        self.full(&self.operations).map(|(at, count)| (at, count as f64 / self.bucket_seconds)).collect()
    }

    /// The 99th percentile and the maximum of each full bucket that has operations, in nanoseconds, as `(middle, p99, max)`.
    /// Empty for records that were made before there were such figures.
    pub fn tails(&self) -> Vec<(f64, u64, u64)> {
        self.full(&self.p99_ns).zip(&self.max_ns).map(|((at, p99), max)| (at, p99, *max)).filter(|t| t.2 > 0).collect()
    }

    /// The figures of the full buckets, with the middle of each in seconds.
    fn full<'a>(&'a self, figures: &'a [u64]) -> impl Iterator<Item = (f64, u64)> {
        let full = if figures.len() > 1 { figures.len() - 1 } else { figures.len() };
        figures[..full].iter().enumerate().map(|(i, &figure)| ((i as f64 + 0.5) * self.bucket_seconds, figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_their_latencies_fall_into_their_bucket_and_none_is_lost() {
        let mut ticks = Ticks::new();
        for (at, latency) in [(0, 10), (50_000_000, 20), (99_999_999, 5), (100_000_000, 7), (350_000_000, 1_000_000)] {
            ticks.tick(at, latency);
        }
        let mut other = Ticks::new();
        other.tick(1, 31);
        other.tick(100_000_001, 8);
        let timeline = Timeline::merge([ticks, other]);
        assert_eq!(timeline.operations, [4, 2, 0, 1]);
        assert_eq!(timeline.rates()[0], (0.05, 40.0));
        assert_eq!(timeline.max_ns, [31, 8, 0, 1_000_000]);
        assert_eq!(timeline.p99_ns, [31, 8, 0, 1_000_000]);
        let tails = timeline.tails();
        assert_eq!(tails.iter().map(|(_, p99, max)| (*p99, *max)).collect::<Vec<_>>(), [(31, 31), (8, 8)]);
        assert!((tails[1].0 - 0.15).abs() < 1e-9, "in the middle of its bucket");
    }

    #[test]
    fn the_tail_of_a_bucket_is_its_own() {
        let mut ticks = Ticks::new();
        for bucket in 0..10u64 {
            for i in 0..1_000u64 {
                // 2 % of the fourth bucket are slow, and one operation of the seventh.
                let slow = (bucket == 3 && i.is_multiple_of(50)) || (bucket == 6 && i == 500);
                ticks.tick(bucket * BUCKET_NS + i, if slow { 5_000_000 } else { 1_000 });
            }
        }
        let timeline = Timeline::merge([ticks]);
        let slow = |figures: &[u64]| (0..10).filter(|i| figures[*i] > 1_100).collect::<Vec<_>>();
        assert_eq!(slow(&timeline.p99_ns), [3]);
        assert_eq!(slow(&timeline.max_ns), [3, 6]);
    }

    #[test]
    fn long_runs_are_coarsened_while_they_go_on_and_threads_that_ended_early_with_them() {
        let (mut long, mut short) = (Ticks::new(), Ticks::new());
        for i in 0..3_001u64 {
            long.tick(i * BUCKET_NS, i + 1);
            assert!(long.buckets.len() <= BUCKETS_MAX);
        }
        short.tick(5 * BUCKET_NS, 9_000_000);
        let timeline = Timeline::merge([long, short]);
        assert!(timeline.operations.len() <= BUCKETS_MAX);
        assert_eq!(timeline.operations.iter().sum::<u64>(), 3_002);
        assert!((timeline.bucket_seconds - 0.8).abs() < 1e-9);
        assert_eq!(timeline.operations[..2], [9, 8]);
        assert_eq!((timeline.max_ns[0], timeline.max_ns[1]), (9_000_000, 16));
    }

    #[test]
    fn a_line_that_knows_no_tails_is_read_and_has_none() {
        let old: Timeline = serde_json::from_str(r#"{"bucket_seconds":0.1,"operations":[5,4,1]}"#).unwrap();
        assert_eq!((old.tails(), old.rates().len()), (Vec::new(), 2));
    }
}
