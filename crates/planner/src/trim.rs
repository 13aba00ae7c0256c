//! The moves of a plan that are worth the most for each byte, as many as the budget allows.
//!
//! Units that are tied to each other and have the same destination gain only together, so the plan is cut into *groups*: the connected
//! components of moving units with one destination. A group that the budget cannot hold falls apart into its units. Groups are taken in
//! the order of their gain for a byte, each gain computed anew when its turn comes, in rounds until none gains any more, since a move can
//! make room for another. Of the moves taken, those up to the best sum of gains less costs are kept.
//!
//! This is the greedy heuristic of the knapsack problem, whose gains depend on each other here; it is no optimum. Invariants: each unit
//! is at its present owner or where the plan wants it; the bytes moved are within the budget; the plan's predicted saving is positive,
//! or nothing moves.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use crate::assess::Objective;
use crate::cost::CostModel;
use crate::graph::{AccessGraph, Part, Vertex};

/// Rounds at most.
const ROUNDS: usize = 8;

/// The trimmed plan. The plan and the owners fit the objective.
pub(crate) fn trim(graph: &AccessGraph, plan: &[Part], objective: &Objective, model: &CostModel) -> Vec<Part> {
    let mut state = State::new(graph, objective, model);
    let mut groups = groups(graph, plan, model.budget_bytes());
    let mut left_bytes = model.budget_bytes();
    let (mut taken, mut best, mut net, mut best_net) = (Vec::new(), 0, 0.0, 0.0);
    let mut ways = BTreeSet::new();
    for _ in 0..ROUNDS {
        let before = taken.len();
        let mut queue: BinaryHeap<Ranked> = groups.drain(..).map(|group| state.rank(group)).collect();
        while let Some(ranked) = queue.pop() {
            let again = state.rank(ranked.group);
            // Others before it changed its gain: it waits for its turn. Gains only fall this way, so this ends.
            if again.rate < ranked.rate && queue.peek().is_some_and(|next| again.rate < next.rate) {
                queue.push(again);
                continue;
            }
            if again.gain <= 0.0 || again.group.bytes > left_bytes {
                groups.push(again.group);
                continue;
            }
            left_bytes -= again.group.bytes;
            net += again.gain - model.prices().byte_ns * again.group.bytes as f64;
            for vertex in &again.group.units {
                let way = (graph.owner(*vertex), again.group.to);
                net -= if ways.insert(way) { model.prices().pass_ns } else { 0.0 };
            }
            state.carry_out(&again.group);
            taken.push(again.group);
            if net > best_net {
                (best, best_net) = (taken.len(), net);
            }
        }
        if taken.len() == before {
            break;
        }
    }
    let mut trimmed = graph.owners().to_vec();
    for group in &taken[..best] {
        group.units.iter().for_each(|unit| trimmed[unit.index()] = group.to);
    }
    trimmed
}

struct Group {
    units: Vec<Vertex>,
    to: Part,
    bytes: u64,
}

/// A group with its gain over the horizon and that for each byte.
struct Ranked {
    gain: f64,
    rate: f64,
    group: Group,
}

impl Ord for Ranked {
    /// By rate; of equals the one with the lowest unit first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate.total_cmp(&other.rate).then_with(|| other.group.units[0].cmp(&self.group.units[0]))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// The moves of a plan that are tied to each other: units that move to one part, each with all those that it is tied to by others of them. In order of
/// their first units, in the time that it takes to go over all edges. The plan has a part for each vertex.
///
/// ```
/// use biombo_planner::{GraphBuilder, Part, tied_moves};
///
/// let mut builder = GraphBuilder::new();
/// let units = [0, 0, 0, 1].map(|owner| builder.vertex(1, 1000, Part(owner)).expect("a unit"));
/// builder.edge(units[0], units[2], 3)?;
/// let graph = builder.build();
/// // The first and the third are tied and move together; the second moves for itself, and the last one stays.
/// let moves = tied_moves(&graph, &[Part(1); 4]);
/// assert_eq!(moves, [vec![units[0], units[2]], vec![units[1]]]);
/// # Ok::<(), biombo_planner::PlanError>(())
/// ```
pub fn tied_moves(graph: &AccessGraph, plan: &[Part]) -> Vec<Vec<Vertex>> {
    let moves = |vertex: Vertex| plan[vertex.index()] != graph.owner(vertex);
    let mut seen = vec![false; graph.len()];
    let mut found = Vec::new();
    for first in graph.vertices() {
        if seen[first.index()] || !moves(first) {
            continue;
        }
        let to = plan[first.index()];
        seen[first.index()] = true;
        let (mut units, mut at) = (vec![first], 0);
        while at < units.len() {
            for (other, _) in graph.neighbours(units[at]) {
                if !seen[other.index()] && moves(other) && plan[other.index()] == to {
                    seen[other.index()] = true;
                    units.push(other);
                }
            }
            at += 1;
        }
        found.push(units);
    }
    found
}

/// The plan's moves in groups.
fn groups(graph: &AccessGraph, plan: &[Part], budget_bytes: u64) -> Vec<Group> {
    let mut found = Vec::new();
    for units in tied_moves(graph, plan) {
        let to = plan[units[0].index()];
        let bytes = units.iter().map(|unit| graph.bytes(*unit)).sum();
        if bytes <= budget_bytes {
            found.push(Group { units, to, bytes });
        } else {
            found.extend(units.into_iter().map(|unit| Group { units: vec![unit], to, bytes: graph.bytes(unit) }));
        }
    }
    found
}

/// Where the units are with the moves so far.
struct State<'a> {
    graph: &'a AccessGraph,
    objective: &'a Objective,
    /// What one unit of cut, of a part's and of a worker's overload is worth.
    worth_ns: (f64, f64, f64),
    now: Vec<Part>,
    part_loads: Vec<u64>,
    worker_loads: Vec<u64>,
    part_mean: f64,
    worker_mean: f64,
    /// Whether a unit is in the group that is being weighed; all false between.
    inside: Vec<bool>,
}

impl<'a> State<'a> {
    fn new(graph: &'a AccessGraph, objective: &'a Objective, model: &CostModel) -> Self {
        let now = graph.owners().to_vec();
        let part_loads = graph.loads_of(&now, objective.parts());
        let mut worker_loads = vec![0; objective.worker_count() as usize];
        for (part, load) in part_loads.iter().enumerate() {
            worker_loads[objective.worker(Part(part as u32))] += load;
        }
        let total = graph.load_total() as f64;
        Self {
            graph,
            objective,
            worth_ns: model.worth_ns(),
            now,
            part_mean: total / part_loads.len() as f64,
            worker_mean: total / worker_loads.len() as f64,
            part_loads,
            worker_loads,
            inside: vec![false; graph.len()],
        }
    }

    /// Adds (or, with `back`, takes back) a group's loads at its destination.
    fn shift(&mut self, group: &Group, back: bool) {
        for unit in &group.units {
            let load = self.graph.load(*unit);
            let (mut from, mut to) = (self.now[unit.index()], group.to);
            if back {
                (from, to) = (to, from);
            }
            self.part_loads[from.index()] -= load;
            self.part_loads[to.index()] += load;
            self.worker_loads[self.objective.worker(from)] -= load;
            self.worker_loads[self.objective.worker(to)] += load;
        }
    }

    /// What the overload of the parts and workers that a group touches costs.
    fn overload_ns(&self, parts: &BTreeSet<usize>, workers: &BTreeSet<usize>) -> f64 {
        let above = |loads: &[u64], at: &BTreeSet<usize>, mean: f64| -> f64 {
            at.iter().map(|at| (loads[*at] as f64 - mean).max(0.0)).sum()
        };
        let (_, part, worker) = self.worth_ns;
        part * above(&self.part_loads, parts, self.part_mean)
            + worker * above(&self.worker_loads, workers, self.worker_mean)
    }

    /// What moving a group now would gain over the horizon.
    fn rank(&mut self, group: Group) -> Ranked {
        group.units.iter().for_each(|unit| self.inside[unit.index()] = true);
        // Edges within the group are seen from both ends.
        let mut fewer_cut_twice = 0.0;
        for unit in &group.units {
            for (other, weight) in self.graph.neighbours(*unit) {
                let inside = self.inside[other.index()];
                let cut = self.now[other.index()] != self.now[unit.index()];
                let cut_then = !inside && self.now[other.index()] != group.to;
                let times = if inside { 1.0 } else { 2.0 };
                fewer_cut_twice += times * weight as f64 * (f64::from(u8::from(cut)) - f64::from(u8::from(cut_then)));
            }
        }
        group.units.iter().for_each(|unit| self.inside[unit.index()] = false);

        let mut parts: BTreeSet<usize> = group.units.iter().map(|unit| self.now[unit.index()].index()).collect();
        parts.insert(group.to.index());
        let workers = parts.iter().map(|part| self.objective.worker(Part(*part as u32))).collect();
        let before = self.overload_ns(&parts, &workers);
        self.shift(&group, false);
        let after = self.overload_ns(&parts, &workers);
        self.shift(&group, true);

        let gain = self.worth_ns.0 * fewer_cut_twice / 2.0 + before - after;
        Ranked { gain, rate: gain / group.bytes.max(1) as f64, group }
    }

    fn carry_out(&mut self, group: &Group) {
        self.shift(group, false);
        group.units.iter().for_each(|unit| self.now[unit.index()] = group.to);
    }
}
