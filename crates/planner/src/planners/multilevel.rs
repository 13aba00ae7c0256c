//! `multilevel`: the graph is coarsened by matching heavy edges, the small graph is cut by streaming, and the cut is refined level by level
//! on the way back. In plain Rust.
//!
//! The scheme is Karypis and Kumar's ("Multilevel k-way partitioning scheme for irregular graphs", J. Parallel Distrib. Comput. 1998), with
//! the matching of leaves of one hub from LaSalle, Patwary, Satish, Sundaram, Dubey and Karypis ("Improving graph partitioning for modern graphs
//! and architectures", IA3 2015), without which graphs with hubs do not shrink. The first cut is `ldg`'s, the best of some seeds, and the refinement places units again in
//! passes (`stream`), where METIS keeps a queue of gains.

use super::Planner;
use super::ldg::RoomLeft;
use super::stream::{Score, Stream};
use crate::error::PlanError;
use crate::graph::{AccessGraph, GraphBuilder, Part, Vertex};
use crate::random::{mix, order};
use crate::request::Request;

/// Coarsening ends at so many units for each part.
const UNITS_PER_PART: usize = 20;
/// First cuts that are tried.
const TRIES: u64 = 6;

pub(super) struct Multilevel;

/// The weight that stays whole, less a price for load that grows with how full a part is: without it the first parts to fill up keep what
/// better fits elsewhere. A part that is full costs half of what a unit of its load has of edges on average.
struct Price {
    for_full: f64,
    capacity: f64,
}

impl Price {
    fn new(graph: &AccessGraph, request: &Request) -> Self {
        let load = graph.load_total() as f64;
        let for_full = if load > 0.0 { 0.5 * graph.weight_total() as f64 / load } else { 0.0 };
        Self { for_full, capacity: request.capacity(graph).max(f64::MIN_POSITIVE) }
    }
}

impl Score for Price {
    fn score(&self, tie: f64, load: f64, w: f64) -> f64 {
        tie - self.for_full * w * (load / self.capacity)
    }
}

impl Planner for Multilevel {
    fn name(&self) -> &'static str {
        "multilevel"
    }

    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError> {
        let price = Price::new(graph, request);
        let enough = UNITS_PER_PART * request.parts() as usize;
        // No unit of a coarse graph is so heavy that parts cannot be even.
        let load_max = (1.5 * graph.load_total() as f64 / enough as f64) as u64;
        let mut levels: Vec<(AccessGraph, Vec<u32>)> = Vec::new();
        loop {
            let finest = levels.last().map_or(graph, |(coarse, _)| coarse);
            if finest.len() <= enough {
                break;
            }
            let (coarse, into) = coarsen(finest, load_max, request.seed_value().wrapping_add(levels.len() as u64))?;
            if coarse.len() * 20 > finest.len() * 19 {
                break;
            }
            levels.push((coarse, into));
        }
        let coarsest = levels.last().map_or(graph, |(coarse, _)| coarse);
        let mut plan = first(coarsest, request, &price);
        while let Some((_, into)) = levels.pop() {
            let finer = levels.last().map_or(graph, |(coarse, _)| coarse);
            let start = into.iter().map(|at| Some(plan[*at as usize])).collect();
            plan = Stream::new(finer, request, start).refine(&price);
        }
        Ok(plan)
    }
}

/// The best of several cuts of the coarsest graph.
fn first(graph: &AccessGraph, request: &Request, price: &Price) -> Vec<Part> {
    let score = RoomLeft::new(graph, request);
    let one = |attempt: u64| {
        let request = request.seed(mix(request.seed_value() ^ attempt));
        let cut = Stream::new(graph, &request, vec![None; graph.len()]).settle(&score);
        let start = cut.into_iter().map(Some).collect();
        let plan = Stream::new(graph, &request, start).refine(price);
        let cut = |v: Vertex| -> u64 {
            graph.neighbours(v).filter(|(u, _)| plan[u.index()] != plan[v.index()]).map(|(_, weight)| weight).sum()
        };
        (graph.vertices().map(cut).sum::<u64>(), plan)
    };
    (0..TRIES).map(one).min_by_key(|(cut, _)| *cut).map(|(_, plan)| plan).unwrap_or_default()
}

/// Half as many units, more or less: each is one of the graph or two. Says which each became part of.
fn coarsen(graph: &AccessGraph, load_max: u64, seed: u64) -> Result<(AccessGraph, Vec<u32>), PlanError> {
    const NONE: u32 = u32::MAX;
    let mut mate = vec![NONE; graph.len()];
    let order = order(graph.len(), seed);
    let light = |a: Vertex, b: Vertex| graph.load(a) + graph.load(b) <= load_max;
    for number in &order {
        let vertex = Vertex(*number);
        if mate[vertex.index()] != NONE {
            continue;
        }
        let free = |(other, _): &(Vertex, u64)| mate[other.index()] == NONE && light(vertex, *other);
        // Of equal edges the one to the unit with fewer others.
        let heaviest = graph
            .neighbours(vertex)
            .filter(free)
            .max_by_key(|(other, weight)| (*weight, std::cmp::Reverse(graph.degree(*other))));
        if let Some((other, _)) = heaviest {
            mate[vertex.index()] = other.0;
            mate[other.index()] = vertex.0;
        }
    }
    // Those left alone, two by two if they hang on the same unit.
    let mut waiting = vec![NONE; graph.len()];
    for number in &order {
        let vertex = Vertex(*number);
        if mate[vertex.index()] != NONE {
            continue;
        }
        let Some((hub, _)) = graph.neighbours(vertex).max_by_key(|(_, weight)| *weight) else { continue };
        let other = std::mem::replace(&mut waiting[hub.index()], vertex.0);
        if other != NONE && light(vertex, Vertex(other)) {
            mate[vertex.index()] = other;
            mate[other as usize] = vertex.0;
            waiting[hub.index()] = NONE;
        }
    }
    let mut builder = GraphBuilder::new();
    let mut into = vec![NONE; graph.len()];
    for vertex in graph.vertices() {
        if into[vertex.index()] != NONE {
            continue;
        }
        let other = mate[vertex.index()];
        let more = if other == NONE { 0 } else { graph.load(Vertex(other)) };
        let number = builder.vertex(graph.load(vertex) + more, 0, Part(0))?;
        into[vertex.index()] = number.0;
        if other != NONE {
            into[other as usize] = number.0;
        }
    }
    for vertex in graph.vertices() {
        for (other, weight) in graph.neighbours(vertex).filter(|(other, _)| *other > vertex) {
            let (a, b) = (into[vertex.index()], into[other.index()]);
            if a != b {
                builder.edge(Vertex(a), Vertex(b), weight)?;
            }
        }
    }
    Ok((builder.build(), into))
}
