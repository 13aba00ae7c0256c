//! What a plan gave, measured after it: each access is looked at twice, where its keys lie now and where they lay before.
//!
//! An access that is cut less than it would have been saves the measured price of a cut for each edge; writers who wait less for lanes, for each
//! key that they write, save the difference. What somebody saves who does other things than before is not the plan's: nothing here is about the
//! accesses that it was made of.

use std::collections::HashMap;

use biombo_planner::Part;
use biombo_tracker::{Kind, Sample, Shape};

use super::coarse::overlaps;
use super::costs::Costs;
use super::watch::{Way, cut_of_path};
use crate::{Placement, UnitId};

/// What an operation costs more that goes over two units in different partitions.
pub(super) const SPAN_NS: f64 = 500.0;

/// What the latest plan moved, and from where; and what it has saved since it was asked last.
#[derive(Default)]
pub(super) struct Former {
    pub(super) keys: HashMap<Vec<u8>, Part>,
    pub(super) units: HashMap<UnitId, Part>,
    /// What writers waited, for each key, before it.
    waited_per_write_ns: f64,
    /// Edges of paths through groups, by way, and spans over two units, that are cut no more.
    edges: [f64; 2],
    spans: f64,
    writes: f64,
    pub(super) waited_ns: f64,
    /// Until then the governor wants to know.
    pub(super) until_ns: u64,
}

impl Former {
    /// Of a plan before which writers waited so long for lanes, for each key.
    pub(super) fn new(waited_per_write_ns: f64) -> Self {
        Self { waited_per_write_ns, ..Self::default() }
    }

    /// Where a key was.
    fn owner(&self, key: &[u8], placement: &Placement) -> usize {
        let unit = || if self.units.is_empty() { None } else { self.units.get(&placement.unit_of(key)) };
        let part = self.keys.get(key).or_else(unit);
        part.map_or_else(|| placement.owner(key).index(), |part| part.index())
    }

    /// Ranges have other numbers: one was where all of it was.
    pub(super) fn renumber(&mut self, old: &Placement, new: &Placement) {
        let before = std::mem::take(&mut self.units);
        for (unit, parts) in overlaps(new, old).enumerate() {
            let mut parts = parts.map(|part| before.get(&UnitId(part)).copied());
            if let Some(Some(part)) = parts.next()
                && parts.all(|other| other == Some(part))
            {
                self.units.insert(UnitId(unit as u32), part);
            }
        }
    }

    /// An access after the plan.
    pub(super) fn note(&mut self, sample: &Sample<'_>, placement: &Placement) {
        let weight = f64::from(sample.weight);
        if sample.kind == Kind::Write {
            self.writes += weight * sample.keys().len() as f64;
        }
        if sample.shape == Shape::Single {
            return;
        }
        let cut = |mut places: Vec<usize>| {
            places.sort_unstable();
            cut_of_path(&places)
        };
        let before = cut(sample.keys().map(|key| self.owner(key, placement)).collect());
        let now = cut(sample.keys().map(|key| placement.owner(key).index()).collect());
        match sample.shape {
            Shape::Group => self.edges[way_of(sample).index()] += weight * (before - now),
            _ => self.spans += weight * (before - now),
        }
    }

    /// What it saved.
    pub(super) fn take_saved_ns(&mut self, costs: &Costs) -> f64 {
        let edges: f64 = Way::ALL.into_iter().map(|way| costs.cut_ns_of(way) * self.edges[way.index()]).sum();
        let waits = self.waited_per_write_ns * self.writes - self.waited_ns;
        let saved_ns = edges + SPAN_NS * self.spans + waits;
        (self.edges, self.spans, self.writes, self.waited_ns) = ([0.0; 2], 0.0, 0.0, 0.0);
        saved_ns
    }
}

pub(super) fn way_of(sample: &Sample<'_>) -> Way {
    if sample.kind == Kind::Read { Way::Read } else { Way::Write }
}
