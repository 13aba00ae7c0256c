//! A plan as moves: what goes to which partition, and why.
//!
//! Invariant: what moves is where the graph's placement says, and goes somewhere else.

use std::collections::BTreeMap;

use biombo_engine::Result;
use biombo_planner::{AccessGraph, Assessment, CostModel, Objective, Part, Proposal, Vertex, tied_moves};

use super::brain::wrong;
use super::former::Former;
use super::graph::Seen;
use super::plans::Level;
use crate::{PartitionId, UnitId};

/// What goes to one partition, wherever it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Load {
    Keys(Vec<Vec<u8>>),
    Units(Vec<UnitId>),
}

/// A plan to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) level: Level,
    pub(crate) why: String,
    pub(crate) moves: Vec<(PartitionId, Load)>,
    pub(crate) ways: u64,
    pub(crate) cut: (f64, f64),
    pub(crate) balance: (f64, f64),
    pub(crate) predicted_ns_per_s: f64,
    pub(crate) predicted_cost_ns: f64,
    /// It is the part of a plan that shows what the rest of it would be worth, and is not judged for itself.
    pub(crate) is_probe: bool,
}

impl Draft {
    /// The moves of a proposal, and its predictions as they are; what it moves is noted in `former`.
    pub(super) fn of<U: Unit>(level: Level, proposal: &Proposal, seen: &Seen<U>, former: &mut Former) -> Self {
        let graph = &seen.graph;
        let mut moves: BTreeMap<Part, Vec<U>> = BTreeMap::new();
        // What follows the units are the rests of partitions, which no budget moves.
        for (vertex, unit) in graph.vertices().zip(&seen.units) {
            let (from, to) = (graph.owner(vertex), proposal.plan[vertex.index()]);
            if from != to {
                unit.note_in(former, from);
                moves.entry(to).or_default().push(unit.clone());
            }
        }
        let moves = moves.into_iter().map(|(to, units)| (PartitionId(to.0 as u16), U::load(units)));
        let (before, after) = (&proposal.before, &proposal.after);
        Self {
            level,
            why: why(level, before, after),
            moves: moves.collect(),
            ways: after.ways,
            cut: (before.cut_share(), after.cut_share()),
            balance: (before.part_balance, after.part_balance),
            predicted_ns_per_s: proposal.saving_ns / proposal.horizon_ns * 1e9,
            predicted_cost_ns: proposal.cost_ns,
            is_probe: false,
        }
    }
}

/// Of what goes to a partition, one of so many parts is moved to learn from.
const PARTS: u64 = 4;

/// The part of a proposal that shows what it is worth: of what goes to one partition the quarter that gains the most, so that this one does not stand
/// out by its load. Keys that are tied to each other go together or not at all, since only a group that is whole shows anything. Of the partitions, that
/// for which moving all of it gains the most. `None` where nothing gains anything. What a move costs is left out of the choice: the part is not there to
/// pay for itself. In the time that it takes to go over all edges.
///
/// # Errors
/// If the proposal does not fit the graph and the objective.
pub(super) fn part_of(
    proposal: &Proposal,
    graph: &AccessGraph,
    objective: &Objective,
    model: &CostModel,
) -> Result<Option<Proposal>> {
    let mut bundles = bundles(graph, &proposal.plan);
    bundles.retain(|bundle| bundle.gain > 0.0);
    let mut gains: BTreeMap<Part, f64> = BTreeMap::new();
    bundles.iter().for_each(|bundle| *gains.entry(bundle.to).or_default() += bundle.gain);
    let Some((to, _)) = gains.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)) else { return Ok(None) };
    bundles.retain(|bundle| bundle.to == to);
    let rate = |bundle: &Bundle| bundle.gain / bundle.bytes.max(1) as f64;
    bundles.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let enough = bundles.iter().map(|bundle| bundle.bytes).sum::<u64>() / PARTS;
    let (mut plan, mut bytes) = (graph.owners().to_vec(), 0);
    for bundle in bundles {
        bundle.units.iter().for_each(|unit| plan[unit.index()] = to);
        bytes += bundle.bytes;
        if bytes >= enough {
            break;
        }
    }
    let after = objective.assess(graph, &plan).map_err(wrong)?;
    let saving_ns = model.running_ns(&proposal.before) - model.running_ns(&after);
    let cost_ns = model.moving_ns(&after);
    Ok(Some(Proposal { plan, after, saving_ns, cost_ns, ..proposal.clone() }))
}

/// Units that move to one partition and are tied to each other.
struct Bundle {
    to: Part,
    units: Vec<Vertex>,
    bytes: u64,
    /// How much less is cut if they move and nothing else does.
    gain: f64,
}

fn bundles(graph: &AccessGraph, plan: &[Part]) -> Vec<Bundle> {
    let bundle = |units: Vec<Vertex>| {
        let to = plan[units[0].index()];
        let mut gain = 0.0;
        for (unit, (other, weight)) in units.iter().flat_map(|unit| graph.neighbours(*unit).map(move |tie| (unit, tie)))
        {
            // What is tied to a unit of the bundle and goes to the same partition is in it, or there already. A tie within is met from both of its ends.
            let goes_along = plan[other.index()] == to && graph.owner(other) != to;
            let share = if goes_along { 0.5 } else { 1.0 };
            let was_cut = graph.owner(other) != graph.owner(*unit);
            let stays_cut = !goes_along && graph.owner(other) != to;
            gain += share * weight as f64 * (f64::from(u8::from(was_cut)) - f64::from(u8::from(stays_cut)));
        }
        let bytes = units.iter().map(|unit| graph.bytes(*unit)).sum();
        Bundle { to, units, bytes, gain }
    };
    tied_moves(graph, plan).into_iter().map(bundle).collect()
}

/// What can be moved.
pub(super) trait Unit: Clone {
    /// In the plan, it was there before.
    fn note_in(&self, former: &mut Former, part: Part);

    fn load(units: Vec<Self>) -> Load;
}

impl Unit for Vec<u8> {
    fn note_in(&self, former: &mut Former, part: Part) {
        former.keys.insert(self.clone(), part);
    }

    fn load(units: Vec<Self>) -> Load {
        Load::Keys(units)
    }
}

impl Unit for UnitId {
    fn note_in(&self, former: &mut Former, part: Part) {
        former.units.insert(*self, part);
    }

    fn load(units: Vec<Self>) -> Load {
        Load::Units(units)
    }
}

/// What a plan is about, in words.
fn why(level: Level, before: &Assessment, after: &Assessment) -> String {
    let load: u64 = before.part_loads.iter().sum();
    let gathers = before.cut > after.cut;
    let evens = before.part_overload > after.part_overload + 0.01 * load as f64;
    let mut why = Vec::new();
    if gathers {
        let (unit, from, to) = (level.name(), 100.0 * before.cut_share(), 100.0 * after.cut_share());
        why.push(format!("{unit} that are accessed together lie apart: {from:.1} % of their ties, {to:.1} % after"));
    }
    if evens || !gathers {
        let (from, to) = (before.part_balance, after.part_balance);
        why.push(format!("writers wait where the load is: {from:.2} times the average, {to:.2} after"));
    }
    why.join("; ")
}
