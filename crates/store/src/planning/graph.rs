//! The graph of accesses that a plan is made of: out of what the window knows, under a placement.
//!
//! Two levels. *Keys* are those that are accessed together, and the hottest ones: to be pinned, a few bytes each, found without a pass. *Units*
//! are slots, or ranges: whole stretches of data, found by a pass over their partition. Each graph has one more vertex for each partition: the
//! rest of its load, which stays where it is (its bytes are more than any budget), so that parts are weighed by all that they bear.
//!
//! What is seen once is chance: a key counts once it was seen in about two samples of groups, a pair once in more than one. Of a group that
//! is accessed again and again all pairs come; of keys that chance brings together none do, and no plan is made of them.
//!
//! Invariants: a key is a vertex at most once, and can be pinned; a vertex' owner is where the placement says.

use std::collections::HashMap;

use biombo_planner::{AccessGraph, GraphBuilder, Part, PlanError, TOTAL_MAX, Vertex};
use biombo_tracker::{KeyView, Load, Window};

use crate::placement::PINNED_KEY_BYTES_MAX;
use crate::{PartitionId, Placement, PlacementKind, UnitId};

/// Loads and weights are whole numbers: so many to an access.
pub(crate) const SCALE: f64 = 8.0;
/// A read needs no lane, so it makes nobody wait; it counts a little, so that reads too are spread.
const READ_SHARE: f64 = 1.0 / 8.0;
/// Samples of groups in which a key, and a pair, must have been seen.
pub(crate) const KEY_SEEN_MIN: f64 = 2.0;
const PAIR_SEEN_MIN: f64 = 1.4;
/// The hottest keys that are vertices for their load alone, and the share of all load that each must have.
const HOT_MAX: usize = 4096;
const HOT_SHARE_MIN: f64 = 1.0 / 16_384.0;
/// Vertices at most, of the heaviest keys.
const KEYS_MAX: usize = 1 << 16;

/// A graph, and what its first vertices stand for; one more for each partition follows them.
pub(crate) struct Seen<U> {
    pub(crate) graph: AccessGraph,
    pub(crate) units: Vec<U>,
    /// So many more would be, had they room.
    pub(crate) left_out: usize,
}

/// What a graph is made under.
pub(crate) struct Frame<'a> {
    pub(crate) window: &'a Window,
    pub(crate) placement: &'a Placement,
    pub(crate) partitions: u32,
    /// What a sample of a group stands for.
    pub(crate) sample_weight: f64,
}

/// The load of a vertex for so many accesses.
pub(super) fn load_of(load: Load) -> f64 {
    (load.writes + load.reads * READ_SHARE) * SCALE
}

impl Frame<'_> {
    /// The keys that are accessed together; with `hot`, the hottest as well. Of those that are not pinned yet `room` at most, each of
    /// `key_bytes`. None, where there is nothing to be planned.
    pub(crate) fn keys(
        &self,
        hot: bool,
        room: usize,
        key_bytes: impl FnOnce() -> u64,
    ) -> Result<Option<Seen<Vec<u8>>>, PlanError> {
        if self.placement.kind() != PlacementKind::Hash {
            return Ok(None);
        }
        let views: Vec<KeyView<'_>> = self.window.keys().collect();
        let can_be_pinned = |view: &KeyView<'_>| (1..=PINNED_KEY_BYTES_MAX).contains(&view.key.len());
        let least = KEY_SEEN_MIN * self.sample_weight;
        let is_seen =
            |number: u32| views.get(number as usize).is_some_and(|v| can_be_pinned(v) && v.load.total() >= least);
        let mut pairs = Vec::new();
        if (0..views.len() as u32).filter(|number| is_seen(*number)).nth(1).is_some() {
            let least = PAIR_SEEN_MIN * self.sample_weight;
            pairs.extend(self.window.pairs().filter(|pair| pair.weight >= least && is_seen(pair.a) && is_seen(pair.b)));
        }
        let mut chosen: Vec<u32> = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
        if hot {
            chosen.extend(self.hottest(&views, &can_be_pinned));
        }
        chosen.sort_unstable();
        chosen.dedup();
        // The heaviest first, so that those stay for which there is room.
        chosen.sort_by(|a, b| load_of(views[*b as usize].load).total_cmp(&load_of(views[*a as usize].load)));
        let (mut room, wanted) = (room, chosen.len());
        chosen.retain(|number| {
            let is_new = !self.placement.is_pinned(views[*number as usize].key);
            let fits = !is_new || room > 0;
            room -= usize::from(is_new && fits);
            fits
        });
        let left_out = wanted - chosen.len();
        chosen.truncate(KEYS_MAX);
        if chosen.is_empty() && left_out == 0 {
            return Ok(None);
        }
        let (mut builder, mut rest) = (GraphBuilder::new(), self.loads_of_units());
        let key_bytes = key_bytes();
        let mut vertices = HashMap::with_capacity(chosen.len());
        for number in &chosen {
            let view = &views[*number as usize];
            let owner = self.placement.owner(view.key);
            let load = load_of(view.load);
            // The window counts it where its unit is.
            *rest.entry(self.placement.unit_of(view.key)).or_default() -= load;
            vertices.insert(*number, builder.vertex(load.round() as u64, key_bytes, Part(u32::from(owner.0)))?);
        }
        for pair in &pairs {
            if let (Some(a), Some(b)) = (vertices.get(&pair.a), vertices.get(&pair.b)) {
                builder.edge(*a, *b, ((pair.weight * SCALE).round() as u64).max(1))?;
            }
        }
        self.add_rest(&mut builder, &rest)?;
        let units = chosen.iter().map(|number| views[*number as usize].key.to_vec()).collect();
        Ok(Some(Seen { graph: builder.build(), units, left_out }))
    }

    /// The units that are accessed, each of `unit_bytes`; they are tied by what went over several of them. None, where there are no two.
    pub(crate) fn units(&self, unit_bytes: u64) -> Result<Option<Seen<UnitId>>, PlanError> {
        let mut loads = self.loads_of_units();
        let mut rest: HashMap<PartitionId, f64> = HashMap::new();
        if self.placement.pins() > 0 {
            // What is pinned stays where it is when its slot moves.
            for view in self.window.keys().filter(|view| self.placement.is_pinned(view.key)) {
                let load = load_of(view.load);
                *loads.entry(self.placement.unit_of(view.key)).or_default() -= load;
                *rest.entry(self.placement.owner(view.key)).or_default() += load;
            }
        }
        let mut units: Vec<_> = loads.into_iter().filter(|(_, load)| *load >= 1.0).collect();
        units.sort_unstable_by_key(|(unit, _)| *unit);
        if units.len() < 2 {
            return Ok(None);
        }
        let (mut builder, mut vertices): (_, HashMap<UnitId, Vertex>) = (GraphBuilder::new(), HashMap::new());
        for (unit, load) in &units {
            let Some(owner) = self.placement.owner_of(*unit) else { continue };
            vertices.insert(*unit, builder.vertex(load.round() as u64, unit_bytes, Part(u32::from(owner.0)))?);
        }
        let least = PAIR_SEEN_MIN * self.sample_weight;
        for ((a, b), weight) in self.window.unit_pairs().filter(|(_, weight)| *weight >= least) {
            if let (Some(a), Some(b)) = (vertices.get(&UnitId(a)), vertices.get(&UnitId(b))) {
                builder.edge(*a, *b, ((weight * SCALE).round() as u64).max(1))?;
            }
        }
        add_anchors(&mut builder, self.partitions, |partition| rest.get(&partition).copied().unwrap_or(0.0))?;
        let units = units.into_iter().map(|(unit, _)| unit).filter(|unit| vertices.contains_key(unit)).collect();
        Ok(Some(Seen { graph: builder.build(), units, left_out: 0 }))
    }

    /// The load of each partition, as far as the window knows.
    pub(crate) fn loads_of_partitions(&self) -> Vec<u64> {
        let mut loads = vec![0.0; self.partitions as usize];
        let mut add = |owner: PartitionId, load: f64| {
            if let Some(sum) = loads.get_mut(owner.index()) {
                *sum += load;
            }
        };
        for (unit, load) in self.loads_of_units() {
            if let Some(owner) = self.placement.owner_of(unit) {
                add(owner, load);
            }
        }
        if self.placement.pins() > 0 {
            for view in self.window.keys().filter(|view| self.placement.is_pinned(view.key)) {
                let load = load_of(view.load);
                add(self.placement.owner(view.key), load);
                if let Some(home) = self.placement.owner_of(self.placement.unit_of(view.key)) {
                    add(home, -load);
                }
            }
        }
        loads.into_iter().map(|load| load.max(0.0).round() as u64).collect()
    }

    fn hottest(&self, views: &[KeyView<'_>], can_be_pinned: &impl Fn(&KeyView<'_>) -> bool) -> Vec<u32> {
        let total: f64 = self.window.units().map(|(_, load)| load_of(load)).sum();
        let is_hot = |view: &&KeyView<'_>| load_of(view.load) >= total * HOT_SHARE_MIN && can_be_pinned(view);
        let mut hot: Vec<_> = views.iter().filter(is_hot).map(|view| (load_of(view.load), view.number)).collect();
        hot.sort_by(|a, b| b.0.total_cmp(&a.0));
        hot.truncate(HOT_MAX);
        hot.into_iter().map(|(_, number)| number).collect()
    }

    fn loads_of_units(&self) -> HashMap<UnitId, f64> {
        self.window.units().map(|(unit, load)| (UnitId(unit), load_of(load))).collect()
    }

    fn add_rest(&self, builder: &mut GraphBuilder, rest: &HashMap<UnitId, f64>) -> Result<(), PlanError> {
        let mut loads: HashMap<PartitionId, f64> = HashMap::new();
        for (unit, load) in rest {
            if let Some(owner) = self.placement.owner_of(*unit) {
                *loads.entry(owner).or_default() += load;
            }
        }
        add_anchors(builder, self.partitions, |partition| loads.get(&partition).copied().unwrap_or(0.0))
    }
}

/// A vertex for each partition, which no budget allows to be moved.
fn add_anchors(
    builder: &mut GraphBuilder,
    partitions: u32,
    load: impl Fn(PartitionId) -> f64,
) -> Result<(), PlanError> {
    let bytes = TOTAL_MAX / (2 * u64::from(partitions.max(1)));
    for partition in 0..partitions {
        builder.vertex(load(PartitionId(partition as u16)).max(0.0).round() as u64, bytes, Part(partition))?;
    }
    Ok(())
}
