//! `range`: neighbouring units together, cut where the load is even. The baseline for units in key order.
//!
//! A unit goes to the part in whose piece of the cumulative load its own middle lies. A piece is an average part long, and the two
//! units at its ends reach half of themselves beyond it: no part carries more than the average and the largest load.

use super::Planner;
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::request::Request;

pub(super) struct Range;

impl Planner for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        // Without any load all units count the same.
        let idle = graph.load_total() == 0;
        let total = if idle { graph.len() as u64 } else { graph.load_total() };
        let mut before = 0u64;
        let part = |vertex| {
            let load = if idle { 1 } else { graph.load(vertex) };
            let middle_twice = 2 * u128::from(before) + u128::from(load);
            before += load;
            let part = middle_twice * u128::from(request.parts()) / (2 * u128::from(total));
            Part((part as u32).min(request.parts() - 1))
        };
        Ok(graph.vertices().map(part).collect())
    }
}
