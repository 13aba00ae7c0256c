//! `hash`: each unit to a part that its number and the seed pick. The baseline: it knows neither loads nor edges and promises no
//! balance, since many light units come out even and a heavy one does not.

use super::Planner;
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::random::{below, mix};
use crate::request::Request;

pub(super) struct Hash;

impl Planner for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let seed = mix(request.seed_value());
        let part = |n: u32| Part(below(mix(seed ^ u64::from(n)), u64::from(request.parts())) as u32);
        Ok(graph.vertices().map(|vertex| part(vertex.0)).collect())
    }
}
