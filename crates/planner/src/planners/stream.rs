//! What planners share that see one unit after another: where its neighbours are, which parts have room, several passes.
//!
//! The promise: after a whole pass no part carries more than [`Request::load_bound`]. Proof: a unit is placed into a part where it
//! fits within the capacity, or, if there is none, into the lightest, which without the unit carries at most an average part. So a
//! part is within the bound after whatever is placed into it, and every unit of a part was placed in the pass.

use crate::graph::{AccessGraph, Part, Vertex};
use crate::random::order;
use crate::request::Request;

/// Passes at most; they end early once little or nothing moves.
pub(super) const PASSES: usize = 10;

/// How well a unit of load `w`, tied with weight `tie` to a part of load `load`, fits there: the highest wins.
pub(super) trait Score {
    fn score(&self, tie: f64, load: f64, w: f64) -> f64;
}

/// Placing units in passes.
pub(super) struct Stream<'a> {
    graph: &'a AccessGraph,
    capacity: f64,
    /// Where each unit is, if anywhere yet.
    plan: Vec<Option<Part>>,
    loads: Vec<u64>,
    counts: Vec<u32>,
    /// The edge weight from the present unit to each part; all 0 between units.
    ties: Vec<u64>,
    order: Vec<u32>,
}

impl<'a> Stream<'a> {
    /// Begins with `plan`.
    pub(super) fn new(graph: &'a AccessGraph, request: &Request, plan: Vec<Option<Part>>) -> Self {
        let parts = request.parts() as usize;
        let (mut loads, mut counts) = (vec![0; parts], vec![0; parts]);
        for vertex in graph.vertices() {
            if let Some(part) = plan[vertex.index()] {
                loads[part.index()] += graph.load(vertex);
                counts[part.index()] += 1;
            }
        }
        let order = order(graph.len(), request.seed_value());
        Self { graph, capacity: request.capacity(graph), plan, loads, counts, ties: vec![0; parts], order }
    }

    /// Places every unit, in the seed's order, in passes until one moves nothing; says where the units are then.
    pub(super) fn settle(mut self, score: &impl Score) -> Vec<Part> {
        for _ in 0..PASSES {
            let moved = (0..self.order.len()).filter(|at| self.place(Vertex(self.order[*at]), score)).count();
            if moved == 0 {
                break;
            }
        }
        self.finish()
    }

    /// Places again what makes a part too heavy. After it the promise holds, whatever the plan was: a part that is still too
    /// heavy had every unit placed again.
    pub(super) fn repair(&mut self, score: &impl Score) {
        for at in 0..self.order.len() {
            let vertex = Vertex(self.order[at]);
            if self.plan[vertex.index()].is_none_or(|part| self.loads[part.index()] as f64 > self.capacity) {
                self.place(vertex, score);
            }
        }
    }

    /// Places again what has a neighbour in another part, in passes until a pass changes little; says where the units are then.
    pub(super) fn refine(mut self, score: &impl Score) -> Vec<Part> {
        self.repair(score);
        for _ in 0..PASSES {
            let mut moved = 0;
            for at in 0..self.order.len() {
                let vertex = Vertex(self.order[at]);
                let part = self.plan[vertex.index()];
                if self.graph.neighbours(vertex).any(|(other, _)| self.plan[other.index()] != part) {
                    moved += usize::from(self.place(vertex, score));
                }
            }
            if moved * 1000 <= self.order.len() {
                break;
            }
        }
        self.finish()
    }

    /// Takes a unit out and puts it where it scores best among the parts with room. Ties go to where it was, then to the part with
    /// the lesser load, then to that with fewer units, then to the lower number.
    fn place(&mut self, vertex: Vertex, score: &impl Score) -> bool {
        let load = self.graph.load(vertex);
        let was = self.plan[vertex.index()];
        if let Some(part) = was {
            self.loads[part.index()] -= load;
            self.counts[part.index()] -= 1;
        }
        for (neighbour, weight) in self.graph.neighbours(vertex) {
            if let Some(part) = self.plan[neighbour.index()] {
                self.ties[part.index()] += weight;
            }
        }
        let mut best: Option<(f64, usize)> = None;
        let mut lightest = 0;
        for part in 0..self.loads.len() {
            let rank = |part: usize| (self.loads[part], self.counts[part]);
            if rank(part) < rank(lightest) {
                lightest = part;
            }
            if self.loads[part] as f64 + load as f64 > self.capacity {
                continue;
            }
            let value = score.score(self.ties[part] as f64, self.loads[part] as f64, load as f64);
            let stays = |part: usize| was != Some(Part(part as u32));
            let better = best.is_none_or(|(most, at)| {
                value > most || (value == most && (stays(part), rank(part)) < (stays(at), rank(at)))
            });
            if better {
                best = Some((value, part));
            }
        }
        for (neighbour, _) in self.graph.neighbours(vertex) {
            if let Some(part) = self.plan[neighbour.index()] {
                self.ties[part.index()] = 0;
            }
        }
        let chosen = best.map_or(lightest, |(_, part)| part);
        self.loads[chosen] += load;
        self.counts[chosen] += 1;
        self.plan[vertex.index()] = Some(Part(chosen as u32));
        was != self.plan[vertex.index()]
    }

    /// The plan, once every unit was placed.
    pub(super) fn finish(self) -> Vec<Part> {
        self.plan.into_iter().map(|part| part.expect("invariant: a pass places every unit")).collect()
    }
}
