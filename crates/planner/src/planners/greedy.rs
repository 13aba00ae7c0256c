//! `greedy`: the heaviest unit first, each to the lightest part. It balances loads and knows no edges.
//!
//! Longest processing time first (Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 1969): the heaviest part
//! carries at most 4/3 - 1/(3k) times what it must in the best plan. Units without load are dealt evenly by number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Planner;
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part, Vertex};
use crate::request::Request;

pub(super) struct Greedy;

impl Planner for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let vertices: Vec<Vertex> = graph.vertices().collect();
        Ok(deal(graph, &vertices, request.parts()))
    }
}

/// Deals some vertices to parts; the answer is in the order of `vertices`.
pub(super) fn deal(graph: &AccessGraph, vertices: &[Vertex], parts: u32) -> Vec<Part> {
    let mut order: Vec<usize> = (0..vertices.len()).collect();
    order.sort_by_key(|at| (Reverse(graph.load(vertices[*at])), *at));
    // (load, units, part)
    let mut lightest: BinaryHeap<Reverse<(u64, u32, u32)>> = (0..parts).map(|part| Reverse((0, 0, part))).collect();
    let mut plan = vec![Part(0); vertices.len()];
    for at in order {
        if let Some(mut top) = lightest.peek_mut() {
            plan[at] = Part(top.0.2);
            top.0.0 += graph.load(vertices[at]);
            top.0.1 += 1;
        }
    }
    plan
}
