//! Connected components by subgraph sampling: Afforest.
//!
//! Two neighbours of each vertex are joined first, which as a rule makes most of the largest component. What already is in it is passed
//! over when the remaining edges are joined, so that most edges of most graphs are never looked at.
//!
//! Source: Sutton, Ben-Nun, Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018.

use std::collections::HashMap;

use biombo_base::Result;

use super::components::Components;
use crate::team::Team;
use crate::view::View;

/// How many neighbours of each vertex are joined before the sample.
const SAMPLED: usize = 2;

/// How many vertices tell which component is the largest.
const SAMPLES: usize = 1024;

/// The connected components (of a directed graph: weakly connected). O(vertices + edges) at most; 4 bytes a vertex.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::{kernels::afforest, team::Team};
/// let mut team = Team::new(1)?;
/// let graph = Csr::build(5, &[[3, 1], [4, 3]], Shape::DIRECTED, &mut team)?;
/// let components = afforest(&graph, &mut team)?;
/// assert_eq!((0..5).map(|v| components.label(v)).collect::<Vec<_>>(), [0, 1, 2, 1, 1]);
/// # Ok::<(), biombo_base::Error>(())
/// ```
///
/// # Errors
/// `Io` when there is no memory.
pub fn afforest<V: View>(view: &V, team: &mut Team) -> Result<Components> {
    let components = Components::alone(view, team)?;
    let blocks = view.blocks();
    team.walk(blocks.shares(), 1, |_, places| {
        blocks.each_list(places, view.out_lists(), |vertex, list| {
            list.iter().take(SAMPLED).for_each(|neighbor| components.link(vertex, *neighbor));
        });
    });
    components.compress(view, team);
    let largest = most_frequent(&components, view.vertices());
    let is_directed = view.is_directed();
    team.walk(blocks.shares(), 1, |_, places| {
        blocks.each_list(places, view.out_lists(), |vertex, list| {
            if Some(components.label(vertex)) == largest {
                return;
            }
            let rest = list.get(SAMPLED..).unwrap_or_default();
            rest.iter().for_each(|neighbor| components.link(vertex, *neighbor));
            if is_directed {
                // An edge from the largest component is passed over there: it must be seen from here.
                view.in_neighbors(vertex).iter().for_each(|neighbor| components.link(vertex, *neighbor));
            }
        });
    });
    components.compress(view, team);
    Ok(components)
}

/// The label that most of some vertices have, spread over all of them.
fn most_frequent(components: &Components, vertices: usize) -> Option<u32> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for sample in 0..SAMPLES.min(vertices) {
        // Steps by the golden ratio: even over all vertices, and the same in every run.
        let at = (sample as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let vertex = ((u128::from(at) * vertices as u128) >> 64) as u32;
        *counts.entry(components.label(vertex)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(label, count)| (*count, *label)).map(|(label, _)| label)
}
