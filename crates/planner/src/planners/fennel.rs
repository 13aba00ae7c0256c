//! `fennel`: a unit goes where the weight of its neighbours less the cost of the load there is the greatest.
//!
//! Tsourakakis, Gkantsidis, Radunovic and Vojnovic, "FENNEL: streaming graph partitioning for massive scale graphs", WSDM 2014: a part of
//! load L costs alpha L^gamma, with gamma = 3/2 and alpha = M k^(gamma-1) / W^gamma for edges of weight M and loads of W in k parts;
//! with weights in place of counts. The further passes are Nishimura and Ugander's ("Restreaming graph partitioning", KDD 2013), so that a
//! plan can go on from the present owners.

use super::Planner;
use super::stream::{Score, Stream};
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::request::Request;

pub(super) struct Fennel;

/// The price of load, with gamma = 3/2: the square root is exact everywhere, a general power is not.
pub(super) struct LoadCost {
    alpha: f64,
}

impl LoadCost {
    pub(super) fn new(graph: &AccessGraph, request: &Request) -> Self {
        let (load, parts) = (graph.load_total() as f64, f64::from(request.parts()));
        // Without edges any price evens out the loads.
        let weight = graph.weight_total().max(1) as f64;
        Self { alpha: if load > 0.0 { weight * parts.sqrt() / (load * load.sqrt()) } else { 0.0 } }
    }
}

impl Score for LoadCost {
    fn score(&self, tie: f64, load: f64, w: f64) -> f64 {
        let cost = |load: f64| load * load.sqrt();
        tie - self.alpha * (cost(load + w) - cost(load))
    }
}

impl Planner for Fennel {
    fn name(&self) -> &'static str {
        "fennel"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let score = LoadCost::new(graph, request);
        Ok(Stream::new(graph, request, request.first(graph)).settle(&score))
    }
}
