//! What was accessed lately: bounded in memory, decaying with time.
//!
//! 1. Weights halve with each half-life. Nothing is walked for that: a new sample is multiplied by 2^(time / half-life), and what is
//!    read is divided by it (*forward decay*: Cormode, Shkapenyuk, Srivastava and Xu, "Forward Decay: A Practical Time Decay Model
//!    for Streaming Systems", 2009). All weights are brought down together before that factor outgrows a double.
//! 2. Loads of units are the sums of the samples. Keys, pairs of keys ([`keys`]) and pairs of units ([`pairs`]) are bounded: what is heavy
//!    stays, what is light comes and goes.
//! 3. The keys of a group are tied by a path in random order, not each to each: a group of n that lies in k parts is cut by at least
//!    k - 1 edges of any path, and after some samples the paths have tied them all, at n - 1 steps a sample.

mod keys;
mod pairs;

use hashbrown::HashMap;

use crate::sample::{Kind, Sample, Shape};
use keys::KeyTable;
use pairs::PairTable;

/// Weights are brought down when new ones are multiplied by 2 to the power of this.
const EXPONENT_MAX: f64 = 64.0;

/// Bounds of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// After this time an access counts half.
    pub half_life_ns: u64,
    /// Keys that are known at a time.
    pub keys_max: usize,
    /// Longer keys count for their unit alone.
    pub key_bytes_max: usize,
    /// Neighbours that are known of a key.
    pub neighbours_max: usize,
    /// Pairs of units that stay known; for a while there may be twice as many.
    pub pairs_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            half_life_ns: 2_000_000_000,
            keys_max: 1 << 18,
            key_bytes_max: 256,
            neighbours_max: 16,
            pairs_max: 1 << 16,
        }
    }
}

/// How much something is accessed: accesses in the window, decayed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
}

impl Load {
    /// Both together.
    pub fn total(self) -> f64 {
        self.reads + self.writes
    }

    fn add(&mut self, kind: Kind, weight: f64) {
        match kind {
            Kind::Read => self.reads += weight,
            Kind::Write => self.writes += weight,
        }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { reads: self.reads * factor, writes: self.writes * factor }
    }
}

/// A key of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyView<'a> {
    /// Its number, by which [`Pair`] names it; good until the next sample is noted.
    pub number: u32,
    /// The key.
    pub key: &'a [u8],
    /// Its load, groups included.
    pub load: Load,
}

/// Two keys that are accessed together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The smaller number.
    pub a: u32,
    /// The greater one.
    pub b: u32,
    /// How often, at least: accesses in the window.
    pub weight: f64,
}

/// A bounded, decaying view of what was accessed.
pub struct Window {
    limits: Limits,
    /// When weights were last brought down.
    origin_ns: u64,
    /// The latest time that was given.
    now_ns: u64,
    /// What an access now is multiplied by.
    gain: f64,
    units: HashMap<u32, Load>,
    unit_pairs: PairTable,
    keys: KeyTable,
    random: fastrand::Rng,
    /// Of the sample that is being noted.
    members: Vec<u32>,
}

impl Window {
    /// A window that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { half_life_ns: limits.half_life_ns.max(1), ..limits };
        Self {
            limits,
            origin_ns: 0,
            now_ns: 0,
            gain: 1.0,
            units: HashMap::new(),
            unit_pairs: PairTable::new(limits.pairs_max),
            keys: KeyTable::new(limits.keys_max, limits.neighbours_max),
            random: fastrand::Rng::with_seed(0x7261_636b),
            members: Vec::new(),
        }
    }

    /// Let time pass: what was noted before counts less from now on. Time does not go back.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns.max(self.now_ns);
        let exponent = (self.now_ns - self.origin_ns) as f64 / self.limits.half_life_ns as f64;
        if exponent > EXPONENT_MAX {
            self.bring_down((-exponent).exp2());
            self.origin_ns = self.now_ns;
            self.gain = 1.0;
        } else {
            self.gain = exponent.exp2();
        }
    }

    /// Multiply all weights, and forget what counts for less than a thousandth of an access.
    fn bring_down(&mut self, factor: f64) {
        const FORGOTTEN: f64 = 1e-3;
        self.units.retain(|_, load| {
            *load = load.scaled(factor);
            load.total() >= FORGOTTEN
        });
        self.unit_pairs.bring_down(factor, FORGOTTEN);
        self.keys.bring_down(factor, FORGOTTEN);
    }

    /// Take a sample in; `unit_of` says where a key belongs now.
    pub fn note(&mut self, sample: &Sample<'_>, mut unit_of: impl FnMut(&[u8]) -> u32) {
        let weight = f64::from(sample.weight) * self.gain;
        self.members.clear();
        let mut last_unit = None;
        for key in sample.keys() {
            let unit = unit_of(key);
            self.units.entry(unit).or_default().add(sample.kind, weight);
            if sample.shape == Shape::Span {
                if let Some(last) = last_unit.replace(unit).filter(|last| *last != unit) {
                    self.unit_pairs.add(last, unit, weight);
                }
            } else if key.len() <= self.limits.key_bytes_max {
                self.members.extend(self.keys.touch(key, sample.kind, weight, &mut self.random));
            }
        }
        if sample.shape == Shape::Group && self.members.len() > 1 {
            self.random.shuffle(&mut self.members);
            for at in 1..self.members.len() {
                // A key that came twice, or gave its place to a later one of the same group, ties nothing.
                if self.members[at - 1] != self.members[at] {
                    self.keys.tie(self.members[at - 1], self.members[at], weight);
                }
            }
        }
    }

    /// Units have other numbers from now on, because they were split or merged: what is known of each is known of its `pieces` by their shares, and what
    /// went over two of them goes over the last piece of the one and the first of the other (their order stays). What has no pieces is forgotten;
    /// keys stay.
    pub fn renumber_units(&mut self, pieces: impl Fn(u32) -> Vec<(u32, f64)>) {
        for (unit, load) in std::mem::take(&mut self.units) {
            for (piece, share) in pieces(unit) {
                let sum = self.units.entry(piece).or_default();
                let part = load.scaled(share);
                *sum = Load { reads: sum.reads + part.reads, writes: sum.writes + part.writes };
            }
        }
        for ((a, b), weight) in self.unit_pairs.take() {
            let (last, first) = (pieces(a).last().map(|piece| piece.0), pieces(b).first().map(|piece| piece.0));
            if let (Some(a), Some(b)) = (last, first)
                && a != b
            {
                self.unit_pairs.add(a, b, weight);
            }
        }
    }

    /// Units that were accessed, in no order.
    pub fn units(&self) -> impl Iterator<Item = (u32, Load)> + '_ {
        self.units.iter().map(|(unit, load)| (*unit, load.scaled(1.0 / self.gain)))
    }

    /// Units that one operation went over, the smaller number first, and how often; in no order.
    pub fn unit_pairs(&self) -> impl Iterator<Item = ((u32, u32), f64)> + '_ {
        self.unit_pairs.iter().map(|(pair, weight)| (pair, weight / self.gain))
    }

    /// Keys that are known, in no order. O(keys).
    pub fn keys(&self) -> impl Iterator<Item = KeyView<'_>> {
        self.keys.views(1.0 / self.gain)
    }

    /// Pairs of keys that are accessed together, each once, in no order. O(keys x neighbours).
    pub fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.keys.pairs(1.0 / self.gain)
    }
}
