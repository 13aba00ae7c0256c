//! A plan as moves: what goes to which partition, and why.
//!
//! Invariant: what moves is where the graph's placement says, and goes somewhere else.

use std::collections::BTreeMap;

use biombo_engine::Result;
use biombo_planner::{AccessGraph, Assessment, CostModel, Objective, Part, Prices, Proposal};

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
/// out by its load. Of the partitions, the one for which that saves the most. `None` where nothing that goes to one partition saves anything.
///
/// What a move costs is left out of the choice: the part is not there to pay for itself. `model` is of a budget in bytes, at the proposal's prices.
///
/// # Errors
/// If the proposal does not fit the graph and the objective.
pub(super) fn part_of(
    proposal: &Proposal,
    graph: &AccessGraph,
    objective: &Objective,
    prices: Prices,
    model: impl Fn(Prices, u64) -> Result<CostModel>,
) -> Result<Option<Proposal>> {
    let free = Prices { byte_ns: 0.0, pass_ns: 0.0, ..prices };
    let mut best: Option<Proposal> = None;
    for to in (0..objective.parts()).map(Part) {
        let (mut plan, mut bytes) = (graph.owners().to_vec(), 0);
        for vertex in graph.vertices().filter(|vertex| proposal.plan[vertex.index()] == to) {
            bytes += if graph.owner(vertex) == to { 0 } else { graph.bytes(vertex) };
            plan[vertex.index()] = to;
        }
        let part = model(free, bytes / PARTS)?.propose(graph, &plan, objective).map_err(wrong)?;
        if part.after.moved_units > 0 && best.as_ref().is_none_or(|best| part.saving_ns > best.saving_ns) {
            best = Some(part);
        }
    }
    let model = model(prices, 0)?;
    Ok(best.map(|best| Proposal { cost_ns: model.moving_ns(&best.after), ..best }))
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
