//! Graphs for the tests; each test program uses some.

#![allow(dead_code)]

use biombo_planner::{AccessGraph, GraphBuilder, Part, Vertex};
use proptest::prelude::*;

/// A graph from loads, sizes, owners and edges; edges whose ends are equal are left out.
pub fn graph(units: &[(u64, u64, u32)], edges: &[(usize, usize, u64)]) -> AccessGraph {
    let mut builder = GraphBuilder::new();
    for (load, bytes, owner) in units {
        builder.vertex(*load, *bytes, Part(*owner)).expect("a vertex");
    }
    for (a, b, weight) in edges {
        if a != b {
            builder.edge(Vertex(*a as u32), Vertex(*b as u32), *weight).expect("an edge");
        }
    }
    builder.build()
}

/// Loads of every kind: none, all the same, a few values, one that outweighs all others, and up to the largest sums.
pub fn load() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(1u64), 2 => 0..5u64, 2 => 0..1000u64, 1 => Just(1u64 << 40), 1 => Just(1u64 << 54)]
}

/// Graphs of up to `units` units owned by up to `parts` parts, sparse to dense.
pub fn graphs(units: usize, parts: u32) -> impl Strategy<Value = AccessGraph> {
    (0..=units, prop_oneof![Just(true), Just(false)]).prop_flat_map(move |(count, plain)| {
        let load = if plain { Just(1u64).boxed() } else { load().boxed() };
        let units = proptest::collection::vec((load, prop_oneof![0..10_000u64, 0..2u64], 0..parts), count);
        let ends = 0..count.max(1);
        let edges =
            proptest::collection::vec((ends.clone(), ends, prop_oneof![1..10u64, Just(1u64 << 50)]), 0..=4 * count);
        (units, edges).prop_map(|(units, edges)| graph(&units, &edges))
    })
}

/// `groups` groups of `size` units with load 1 and 100 bytes; those of a group are tied to each other and dealt over `parts` parts.
pub fn scattered_groups(groups: usize, size: usize, parts: u32) -> AccessGraph {
    let units: Vec<_> = (0..groups * size).map(|n| (1, 100, (n % size) as u32 % parts)).collect();
    let mut edges = Vec::new();
    for group in 0..groups {
        for a in 0..size {
            edges.extend((0..a).map(|b| (group * size + a, group * size + b, 10)));
        }
    }
    graph(&units, &edges)
}
