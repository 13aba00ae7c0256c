//! Latencies of one bucket of time: a histogram small enough that every tenth of a second can have one.
//!
//! Cells are logarithmic with 32 steps for each power of two, so a quantile is right to 3 %; the maximum is exact. A bucket that is
//! over keeps only the cells that are not empty: some hundred bytes.

/// Steps within a power of two, as a power of two.
const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
/// Up to 2^42 ns, more than an hour; what is longer counts there.
const CELLS: usize = ((42 - STEP_BITS as usize) + 1) << STEP_BITS;

/// The cell of a latency.
#[inline]
fn cell(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() - STEP_BITS;
    (((u64::from(power) << STEP_BITS) + (ns >> power)) as usize).min(CELLS - 1)
}

/// The highest latency of a cell.
fn highest(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < 2 * STEPS {
        return cell;
    }
    let power = (cell >> STEP_BITS) - 1;
    ((cell - (power << STEP_BITS) + 1) << power) - 1
}

/// Latencies of the bucket that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    cells: Box<[u32]>,
    max_ns: u64,
}

impl Tail {
    pub(crate) fn new() -> Self {
        Self { cells: vec![0; CELLS].into(), max_ns: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.cells[cell(ns)] += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// The bucket is over: what was in it. The next one begins.
    pub(crate) fn take(&mut self) -> Bucket {
        let mut bucket = Bucket { max_ns: std::mem::take(&mut self.max_ns), ..Bucket::default() };
        for (cell, count) in self.cells.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            bucket.operations += u64::from(*count);
            bucket.cells.push((cell as u16, std::mem::take(count)));
        }
        bucket
    }
}

/// Latencies of a bucket that is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) operations: u64,
    pub(crate) max_ns: u64,
    // In the order of cells, none empty.
    cells: Vec<(u16, u32)>,
}

impl Bucket {
    /// Add what was in `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.max_ns = self.max_ns.max(other.max_ns);
        let mut all: Vec<(u16, u32)> = Vec::with_capacity(self.cells.len() + other.cells.len());
        all.extend(&self.cells);
        all.extend(&other.cells);
        all.sort_unstable_by_key(|(cell, _)| *cell);
        all.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
        self.cells = all;
    }

    /// The latency that a share of `quantile` does not exceed, 0 where there was no operation.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = ((self.operations as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (cell, count) in &self.cells {
            seen += u64::from(*count);
            if seen >= wanted {
                return highest(usize::from(*cell)).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    #[test]
    fn every_latency_is_in_a_cell_that_is_right_to_three_percent() {
        let mut before = 0;
        for exponent in 0..41 {
            for step in 0..100u64 {
                let ns = (1u64 << exponent) + (step << exponent) / 100;
                let top = highest(cell(ns));
                assert!(top >= ns && top - ns <= ns / 32, "{ns}: up to {top}");
                assert!(cell(ns) >= before, "{ns} is in a lower cell");
                before = cell(ns);
            }
        }
        assert!((0..CELLS).all(|c| cell(highest(c)) == c), "a cell's highest latency is in it");
        assert_eq!(cell(u64::MAX), CELLS - 1);
    }

    #[test]
    fn quantiles_agree_with_the_sorted_latencies_also_of_parts_put_together() {
        let mut random = Random::new(1, 1);
        let all: Vec<u64> = (0..30_000).map(|_| (1.0 / (1e-6 + random.unit())) as u64 * 10).collect();
        let mut tail = Tail::new();
        let mut whole = Bucket::default();
        for part in all.chunks(7_000) {
            part.iter().for_each(|ns| tail.record(*ns));
            whole.add(&tail.take());
        }
        assert_eq!(tail.take(), Bucket::default(), "a bucket begins empty");
        let mut sorted = all;
        sorted.sort_unstable();
        assert_eq!((whole.operations, whole.max_ns), (30_000, sorted[29_999]));
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = sorted[((30_000.0 * quantile) as usize).max(1) - 1] as f64;
            let ours = whole.quantile_ns(quantile) as f64;
            assert!(ours >= exact && ours <= exact * 1.04, "{quantile}: {ours}, not {exact}");
        }
        assert_eq!(Bucket::default().quantile_ns(0.99), 0);
    }
}
