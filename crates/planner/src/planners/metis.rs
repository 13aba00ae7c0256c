//! `metis`: multilevel k-way partitioning: the graph is coarsened by matching heavy edges, the small graph is cut, and the cut is
//! refined level by level on the way back.
//!
//! Karypis and Kumar, "Multilevel k-way partitioning scheme for irregular graphs", J. Parallel Distrib. Comput. 1998, by their own
//! library METIS 5.2.1, which the crate compiles from source.
//!
//! What the library is spared:
//! 1. Units heavier than an average part, and more parts than it has units for: it would halve a graph of one unit, and print that to
//!    standard output. Heavy units get a part of their own first; what is left is dealt (`greedy`) if it is too little or has no edges.
//! 2. Sums past 32 bits: loads and weights are scaled down, and nothing to 0, which it takes for an error in edges.
//! 3. Another call at the same time: it draws from the C library's one random generator, which the seed sets, so calls go one after another. The
//!    plan is the same each time unless somebody else in the process calls `rand` meanwhile.
//!
//! It does not promise the balance that it is asked for; a last pass over the parts that are too heavy does.
//!
//! **While it runs, the library replaces the process's handlers of SIGABRT and SIGTERM**: a SIGTERM that arrives in these milliseconds is
//! taken for an error of its own if its thread gets the signal, and may crash the process if another thread does. Where a process must end
//! in order on SIGTERM, choose `multilevel`.

use std::sync::{Mutex, PoisonError};

use ::metis::option::{NIter, Seed, UFactor};

use super::Planner;
use super::fennel::LoadCost;
use super::greedy::deal;
use super::stream::Stream;
use crate::error::PlanError;
use crate::graph::{AccessGraph, Part, Vertex};
use crate::request::Request;

/// The library's generator is one for the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The largest sum that is handed to the library, with room below 2^31 for what rounding up adds.
const SUM_MAX: u64 = 1 << 29;

/// Fewer vertices than this for each part are dealt instead.
const VERTICES_PER_PART: usize = 4;

pub(super) struct Metis;

impl Planner for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let (heavy, rest) = apart(graph, request.parts());
        let mut plan = vec![None; graph.len()];
        for (part, vertex) in heavy.iter().enumerate() {
            plan[vertex.index()] = Some(Part(part as u32));
        }
        let first = heavy.len() as u32;
        let parts = request.parts() - first;
        let pieces = if parts <= 1 || rest.len() < VERTICES_PER_PART * parts as usize || graph.edge_count() == 0 {
            deal(graph, &rest, parts)
        } else {
            part_kway(graph, &rest, parts, request)?
        };
        for (vertex, piece) in rest.iter().zip(pieces) {
            plan[vertex.index()] = Some(Part(first + piece.0));
        }
        let mut stream = Stream::new(graph, request, plan);
        stream.repair(&LoadCost::new(graph, request));
        Ok(stream.finish())
    }
}

/// The units that are at least as heavy as an average part of what is left without the heavier ones, heaviest first, and all others in
/// order. At least one part is left for those.
fn apart(graph: &AccessGraph, parts: u32) -> (Vec<Vertex>, Vec<Vertex>) {
    let mut order: Vec<Vertex> = graph.vertices().collect();
    order.sort_by_key(|vertex| (std::cmp::Reverse(graph.load(*vertex)), *vertex));
    let (mut left, mut heavy) = (graph.load_total(), 0);
    for vertex in order.iter().take(parts as usize - 1) {
        let load = graph.load(*vertex);
        if load == 0 || u128::from(load) * u128::from(parts - heavy as u32) < u128::from(left) {
            break;
        }
        left -= load;
        heavy += 1;
    }
    let mut rest = order.split_off(heavy);
    rest.sort_unstable();
    (order, rest)
}

/// The factor that brings a sum of `count` numbers, each rounded up to at least 1, below 2^31.
fn scale(sum: u64, value: u64) -> i32 {
    let scaled =
        if sum <= SUM_MAX { value } else { (u128::from(value) * u128::from(SUM_MAX) / u128::from(sum)) as u64 };
    scaled.max(1) as i32
}

/// The library's parts of some vertices.
fn part_kway(graph: &AccessGraph, rest: &[Vertex], parts: u32, request: &Request) -> Result<Vec<Part>, PlanError> {
    let too_large = PlanError::Metis("the graph has more than 2^29 vertices or edges");
    if rest.len() as u64 > SUM_MAX || graph.edge_count() as u64 > SUM_MAX {
        return Err(too_large);
    }
    let mut number = vec![-1i32; graph.len()];
    for (at, vertex) in rest.iter().enumerate() {
        number[vertex.index()] = at as i32;
    }
    let loads: u64 = rest.iter().map(|vertex| graph.load(*vertex)).sum();
    let (mut offsets, mut ends, mut weights) = (Vec::with_capacity(rest.len() + 1), Vec::new(), Vec::new());
    offsets.push(0);
    for vertex in rest {
        for (neighbour, weight) in graph.neighbours(*vertex) {
            if number[neighbour.index()] >= 0 {
                ends.push(number[neighbour.index()]);
                // Both directions count in the library's sums.
                weights.push(scale(2 * graph.weight_total(), weight));
            }
        }
        offsets.push(ends.len() as i32);
    }
    if ends.is_empty() {
        return Ok(deal(graph, rest, parts));
    }
    let sizes: Vec<i32> = rest.iter().map(|vertex| scale(loads, graph.load(*vertex))).collect();
    let mut plan = vec![0; rest.len()];
    let slack = (request.slack_value() * 1000.0).round() as i32;
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    ::metis::Graph::new(1, parts as i32, &offsets, &ends)
        .map_err(|_| PlanError::Metis("the graph is malformed"))?
        .set_vwgt(&sizes)
        .set_adjwgt(&weights)
        .set_option(UFactor(slack.max(1)))
        .set_option(NIter(10))
        .set_option(Seed((request.seed_value() & 0x7fff_ffff) as i32))
        .part_kway(&mut plan)
        .map_err(|error| match error {
            ::metis::Error::Memory => PlanError::Metis("not enough memory"),
            _ => PlanError::Metis("it refused the graph, or a signal interrupted it"),
        })?;
    drop(alone);
    plan.into_iter()
        .map(|part| u32::try_from(part).ok().filter(|part| *part < parts).map(Part))
        .collect::<Option<_>>()
        .ok_or(PlanError::Metis("it named a part that there is not"))
}
