//! Which placement for which graph and algorithm: none is best for all.
//!
//! What is known: with all edges to be visited in each pass, the threads of the node with the most of them end last, so that balance decides
//! (published: block gave one of two nodes 67 % of Orkut's edges; dealing vertices in turn made connected components up to 2.3 times as
//! fast, PageRank 1.25 times). A search visits few edges, one cache miss after the other: dealing vertices in turn gained nothing, or lost, on
//! a graph with 18 edges a vertex, and gained on one with 76. Stretches of neighbouring numbers on one node cost the least, where they
//! balance: neighbours often have near numbers, and memory lies in large pieces. Single vertices in turn are never chosen: every node would
//! write every cache line of the results.

use super::{Load, Owners, Placement};

/// What an algorithm mostly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// It follows a frontier and leaves most edges alone: breadth-first search.
    Search,
    /// It visits all edges, again and again: PageRank, components, betweenness.
    Sweep,
}

/// A placement and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which one.
    pub placement: Placement,
    /// Why, for people.
    pub why: String,
}

/// From so many edges a vertex on, a search is taken for work on edges.
const DENSE: u64 = 32;

/// A node may have so much more than its share of the edges before that is worth another placement: of a sweep, and of a sparse search.
const SWEEP_EXCESS: f64 = 0.02;
const SEARCH_EXCESS: f64 = 0.10;

/// The placement for `work` on a graph over `nodes` nodes. O(units).
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::numa::{Load, Placement, Work, choose};
/// use biombo_graph::team::Team;
///
/// let mut team = Team::new(1)?;
/// // All edges lead to the first half of the vertices.
/// let edges: Vec<[u32; 2]> = (0..4096).map(|v| [v, v / 2]).collect();
/// let graph = Csr::build(4096, &edges, Shape::DIRECTED, &mut team)?;
/// let choice = choose(Work::Sweep, 2, &Load::of(&graph, &mut team));
/// assert_eq!(choice.placement, Placement::BlockCyclic, "{}", choice.why);
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub fn choose(work: Work, nodes: usize, load: &Load) -> Choice {
    let (edges, vertices) = (load.edges(), load.vertices());
    let chosen = |placement: Placement, why: String| Choice { placement, why };
    if nodes <= 1 {
        return chosen(Placement::Block, "one node has everything".to_owned());
    }
    if edges == 0 {
        return chosen(Placement::Block, "there are no edges to balance".to_owned());
    }
    let excess = |placement: Placement| excess(&load.by_node(&Owners::new(placement, nodes, load)));
    let (block, cyclic, degree) = (excess(Placement::Block), excess(Placement::BlockCyclic), excess(Placement::Degree));
    let density = edges as f64 / vertices as f64;
    let more = |excess: f64| format!("{:.1} %", 100.0 * excess);
    if work == Work::Search && density < DENSE as f64 {
        let reason = format!(
            "a search of a sparse graph ({density:.1} edges a vertex) waits for memory, not for the fullest node: near numbers stay together"
        );
        return if block <= SEARCH_EXCESS {
            chosen(Placement::Block, format!("{reason}; the fullest node has {} more than its share", more(block)))
        } else {
            let (block, degree) = (more(block), more(degree));
            chosen(Placement::Degree, format!("{reason}; evenly by edges, {degree} over a share instead of {block}"))
        };
    }
    let reason = match work {
        Work::Sweep => "every edge is visited, and all wait for the fullest node".to_owned(),
        Work::Search => format!("a search of a dense graph ({density:.1} edges a vertex) visits many edges"),
    };
    if block <= SWEEP_EXCESS {
        let block = more(block);
        return chosen(
            Placement::Block,
            format!("{reason}: block gives it {block} more than its share, and keeps near numbers together"),
        );
    }
    let (placement, least) =
        if cyclic <= SWEEP_EXCESS.max(degree) { (Placement::BlockCyclic, cyclic) } else { (Placement::Degree, degree) };
    let (block, least) = (more(block), more(least));
    chosen(placement, format!("{reason}: block gives it {block} more than its share, {placement} {least}"))
}

/// How much more than its share the fullest node has.
fn excess(by_node: &[u64]) -> f64 {
    let (sum, most) = (by_node.iter().sum::<u64>(), by_node.iter().max().copied().unwrap_or(0));
    most as f64 * by_node.len() as f64 / sum.max(1) as f64 - 1.0
}
