//! Pairs of units, and how often one operation went over both, in bounded memory.
//!
//! The frequent items of a stream (Misra and Gries, "Finding repeated elements", 1982), many at a time: once there are twice as many pairs as may
//! stay, the weight of the heaviest that has to go is taken from all, and who is left with nothing goes (Agarwal, Cormode, Huang, Phillips, Wei
//! and Yi, "Mergeable summaries", 2013). O(1) an access on average.
//!
//! Invariant: no weight is too much, and none too little by more than the sum of all, divided by the places plus one.

use hashbrown::HashMap;

pub(super) type Pair = (u32, u32);

pub(super) struct PairTable {
    weights: HashMap<Pair, f64>,
    /// What stays when there are twice as many.
    pairs_max: usize,
}

impl PairTable {
    pub(super) fn new(pairs_max: usize) -> Self {
        Self { weights: HashMap::new(), pairs_max: pairs_max.max(1) }
    }

    /// One operation went over two different units.
    pub(super) fn add(&mut self, a: u32, b: u32, weight: f64) {
        *self.weights.entry((a.min(b), a.max(b))).or_default() += weight;
        if self.weights.len() >= self.pairs_max.saturating_mul(2) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let mut weights: Vec<f64> = self.weights.values().copied().collect();
        let (_, first_to_go, _) = weights.select_nth_unstable_by(self.pairs_max, |a, b| b.total_cmp(a));
        let taken = *first_to_go;
        self.weights.retain(|_, weight| {
            *weight -= taken;
            *weight > 0.0
        });
    }

    /// Multiply all weights, and forget pairs that then weigh less than `forgotten`.
    pub(super) fn bring_down(&mut self, factor: f64, forgotten: f64) {
        self.weights.retain(|_, weight| {
            *weight *= factor;
            *weight >= forgotten
        });
    }

    /// All of them, with which the table is left empty.
    pub(super) fn take(&mut self) -> HashMap<Pair, f64> {
        std::mem::take(&mut self.weights)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Pair, f64)> + '_ {
        self.weights.iter().map(|(pair, weight)| (*pair, *weight))
    }
}
