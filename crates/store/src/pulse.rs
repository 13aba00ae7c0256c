//! How long users' operations take: some of them are timed, and counted by their times.
//!
//! Those that the tracker samples anyway, and groups that are timed anyway: for single keys two looks at a clock in 64 accesses, under a
//! nanosecond each. Counts are in buckets a quarter of an octave wide, so a quantile is right to a fifth.

use std::sync::atomic::{AtomicU32, Ordering};

use biombo_base::clock::monotonic_ns;

use crate::planning::Way;

/// From 4 ns to some hours.
const BUCKETS: usize = 168;

/// The bucket of a time: four to each power of two.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(4);
    let exponent = ns.ilog2() - 2;
    let quarter = (ns >> exponent) & 3;
    (exponent as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

/// What every time in a bucket is below.
fn end_of(bucket: usize) -> u64 {
    (bucket as u64 % 4 + 5) << (bucket / 4)
}

/// What threads count into.
pub(crate) struct Pulse([[AtomicU32; BUCKETS]; 2]);

impl Default for Pulse {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU32::new(0))))
    }
}

impl Pulse {
    /// Do `run`, and count how long it took.
    #[cold]
    pub(crate) fn time<R>(&self, way: Way, run: impl FnOnce() -> R) -> R {
        let begun = monotonic_ns();
        let result = run();
        self.count(way, monotonic_ns() - begun);
        result
    }

    /// Count an operation that took so long.
    pub(crate) fn count(&self, way: Way, took_ns: u64) {
        self.0[way.index()][bucket_of(took_ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted since the last call.
    pub(crate) fn take(&self) -> Times {
        let mut times = Times::default();
        for (sum, counts) in times.0.iter_mut().zip(&self.0) {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum = f64::from(count.swap(0, Ordering::Relaxed));
            }
        }
        times
    }
}

/// How many operations took how long, reads and writes for themselves.
#[derive(Debug, Clone)]
pub(crate) struct Times([[f64; BUCKETS]; 2]);

impl Default for Times {
    fn default() -> Self {
        Self([[0.0; BUCKETS]; 2])
    }
}

impl Times {
    pub(crate) fn add(&mut self, other: &Self) {
        let others = other.0.iter().flatten();
        self.0.iter_mut().flatten().zip(others).for_each(|(sum, count)| *sum += count);
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().flatten().for_each(|count| *count *= factor);
    }

    pub(crate) fn count(&self, way: Way) -> f64 {
        self.0[way.index()].iter().sum()
    }

    /// So large a share of the operations was faster; `None`: there were none.
    pub(crate) fn quantile_ns(&self, way: Way, share: f64) -> Option<u64> {
        let mut left = self.count(way) * share;
        let counts = &self.0[way.index()];
        let last = counts.iter().rposition(|count| *count > 0.0)?;
        let found = counts.iter().position(|count| {
            left -= count;
            left < 0.0
        });
        Some(end_of(found.unwrap_or(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_the_times_below_its_end_and_none_below_the_end_before() {
        for ns in (0..5_000).chain((0..40).map(|power| (1u64 << power) + 7)) {
            let bucket = bucket_of(ns);
            assert!(ns < end_of(bucket), "{ns} in {bucket}");
            assert!(bucket == 0 || ns >= end_of(bucket - 1), "{ns} in {bucket}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted_to_a_fifth() {
        let pulse = Pulse::default();
        (1..=10_000).for_each(|ns| pulse.count(Way::Write, ns));
        pulse.count(Way::Read, 77);
        let mut times = pulse.take();
        for (share, exact) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = times.quantile_ns(Way::Write, share).expect("some") as f64;
            assert!((1.0..=1.25).contains(&(found / exact)), "{found} for {exact}");
        }
        assert_eq!((times.count(Way::Read), times.quantile_ns(Way::Read, 0.99)), (1.0, Some(80)));
        times.scale(0.5);
        times.add(&times.clone());
        assert_eq!(times.count(Way::Write), 10_000.0);
        assert_eq!(pulse.take().quantile_ns(Way::Write, 0.5), None, "taken once");
    }
}
