//! Latencies by kind of operation, in HDR histograms: three significant digits from 1 ns to an hour.

use hdrhistogram::Histogram;

use crate::workload::OpKind;

const HIGHEST_NS: u64 = 3_600_000_000_000;

/// One histogram for each kind that occurs.
#[derive(Debug, Clone)]
pub struct Latencies {
    histograms: [Option<Histogram<u64>>; OpKind::ALL.len()],
}

impl Latencies {
    /// For the kinds that `kinds` yields.
    pub fn new(kinds: impl IntoIterator<Item = OpKind>) -> Self {
        let mut histograms = [const { None }; OpKind::ALL.len()];
        for kind in kinds {
            histograms[kind as usize] = Some(empty());
        }
        Self { histograms }
    }

    /// Add one latency; more than an hour counts as an hour.
    #[inline]
    pub fn record(&mut self, kind: OpKind, latency_ns: u64) {
        if let Some(histogram) = &mut self.histograms[kind as usize] {
            histogram.saturating_record(latency_ns);
        }
    }

    /// Add all of another thread's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            if let Some(theirs) = theirs {
                let mine = mine.get_or_insert_with(empty);
                mine.add(theirs).expect("invariant: all histograms have the same bounds");
            }
        }
    }

    /// The histograms of the kinds that occur.
    pub fn iter(&self) -> impl Iterator<Item = (OpKind, &Histogram<u64>)> {
        OpKind::ALL.into_iter().filter_map(|kind| self.histograms[kind as usize].as_ref().map(|h| (kind, h)))
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("invariant: the bounds are constant and right")
}
