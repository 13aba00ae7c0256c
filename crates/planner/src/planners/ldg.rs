//! `ldg`, linear deterministic greedy: a unit goes where most of its neighbours are, times the share of room that is left there.
//!
//! Stanton and Kliot, "Streaming graph partitioning for large distributed graphs", KDD 2012; with weights in place of counts. The
//! further passes are Nishimura and Ugander's ("Restreaming graph partitioning", KDD 2013): each unit is placed again while the rest is
//! where the pass before left it.

use super::Planner;
use super::stream::{Score, Stream};
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::request::Request;

pub(super) struct Ldg;

/// The room that is left.
pub(super) struct RoomLeft {
    capacity: f64,
}

impl RoomLeft {
    pub(super) fn new(graph: &AccessGraph, request: &Request) -> Self {
        Self { capacity: request.capacity(graph) }
    }
}

impl Score for RoomLeft {
    fn score(&self, tie: f64, load: f64, _: f64) -> f64 {
        if self.capacity > 0.0 { tie * (1.0 - load / self.capacity) } else { tie }
    }
}

impl Planner for Ldg {
    fn name(&self) -> &'static str {
        "ldg"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let score = RoomLeft::new(graph, request);
        Ok(Stream::new(graph, request, request.first(graph)).settle(&score))
    }
}
