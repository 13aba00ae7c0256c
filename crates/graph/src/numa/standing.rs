//! The placement of a graph that changes: who has which vertex stays from snapshot to snapshot, unless the load drifts.
//!
//! Each snapshot is seen with the owners of the one before. Vertices that came belong to nodes with the fewest edges; and when a node has too
//! much more than its share, a few units of vertices go to others ([`Owners::rebalanced`]). Only memory that is not where it belongs is brought
//! there: sections that were rewritten elsewhere since, and those of units that went.
//!
//! Invariant: `laid` says of each section, in each direction, which memory was brought to which node last. A section that has the same memory and
//! the same node is left alone.

use std::collections::HashMap;
use std::sync::Arc;

use biombo_base::Result;

use super::{Home, Load, Owners, Placed, Placement, Spreading};
use crate::team::Team;
use crate::view::{View, unit_shift};

/// A node may have so much more than its share of the edges before units go to others.
const DRIFT_MAX: f64 = 0.05;

/// Vertices of a section, whose memory is in one piece.
const SECTION: usize = 1 << 10;

/// What keeping a placement has taken so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Units of vertices that went to another node, for balance.
    pub units: usize,
    /// Stretches of memory that were brought to their node.
    pub stretches: usize,
}

/// A placement that goes with a graph; see the module.
///
/// ```
/// use biombo_graph::csr::Shape;
/// use biombo_graph::kernels::afforest;
/// use biombo_graph::numa::{Placement, Standing};
/// use biombo_graph::pma::{Changing, Image, Update};
/// use biombo_graph::team::Team;
///
/// let mut team = Team::new(2)?;
/// let graph = Changing::<Image>::new(Shape::UNDIRECTED)?;
/// let mut standing = Standing::new(Placement::BlockCyclic, 2, None);
/// for vertex in 0..3 {
///     graph.apply(&[Update::InsertEdge(vertex, vertex + 1)])?;
///     let snapshot = graph.snapshot(&mut team)?;
///     let placed = standing.place(&snapshot, &mut team)?;
///     assert_eq!(afforest(&placed, &mut team)?.label(vertex as u32 + 1), 0);
/// }
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Standing {
    placement: Placement,
    nodes: usize,
    home: Option<Arc<Home>>,
    owners: Option<Owners>,
    /// Begin, bytes and node, by section and the number of the stretch within it.
    laid: HashMap<(usize, usize), (usize, usize, Option<usize>)>,
    kept: Kept,
}

impl Standing {
    /// Vertices dealt to `nodes` nodes as `placement` says, to begin with. Without a home memory is left where it is.
    pub fn new(placement: Placement, nodes: usize, home: Option<Arc<Home>>) -> Self {
        Self { placement, nodes, home, owners: None, laid: HashMap::new(), kept: Kept::default() }
    }

    /// What it has taken so far.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Somebody else has brought memory of the graph to other nodes since: all of it is brought to its own with the next snapshot. Owners stay.
    pub fn memory_has_moved(&mut self) {
        self.laid.clear();
    }

    /// The graph as `snapshot` has it, on its nodes. O(vertices), shared by the team, and a call of the system for each stretch of memory
    /// that is not where it belongs.
    ///
    /// # Errors
    /// Those of [`place`](biombo_base::numa::place): what could not be placed lies where it did, and is tried again next time.
    pub fn place<'v, V: View + Spreading>(&mut self, snapshot: &'v V, team: &mut Team) -> Result<Placed<'v, V>> {
        let load = Load::of(snapshot, team);
        let owners = match &self.owners {
            // Of nothing, or next to nothing, there is no placement worth keeping.
            Some(owners) if load.vertices() > 1 << unit_shift(0) => {
                let (owners, units) = owners.rebalanced(&load, DRIFT_MAX);
                self.kept.units += units;
                owners
            }
            _ => Owners::new(self.placement, self.nodes, &load),
        };
        self.owners = Some(owners.clone());
        let placed = Placed::owned(snapshot, owners.clone());
        let Some(home) = self.home.clone() else { return Ok(placed) };
        if !home.is_idle() && snapshot.stays().is_none() {
            self.lay(&home, snapshot, &owners)?;
        }
        Ok(placed.at_home(home))
    }

    fn lay(&mut self, home: &Home, snapshot: &(impl View + Spreading), owners: &Owners) -> Result<()> {
        let vertices = snapshot.vertices();
        for (section, first) in (0..vertices).step_by(SECTION).enumerate() {
            let node = home.node_of(owners, first as u32);
            let mut stretch = 0;
            snapshot.memory_of(first..(first + SECTION).min(vertices), &mut |memory| {
                let (begin, bytes) = memory.extent();
                let (key, laid) = ((section, stretch), (begin, bytes, node));
                stretch += 1;
                if self.laid.get(&key) == Some(&laid) {
                    return Ok(());
                }
                home.place_on(memory, node)?;
                self.kept.stretches += 1;
                self.laid.insert(key, laid);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::{Csr, Shape};
    use crate::generate::Synthetic;
    use crate::ids::Ids;
    use crate::kernels::tests::answers;
    use crate::numa::Allocation;
    use crate::pma::{Changing, Image, Update};

    /// How much more than its share the fullest node has.
    fn excess(edges: &[u64]) -> f64 {
        *edges.iter().max().unwrap() as f64 * edges.len() as f64 / edges.iter().sum::<u64>() as f64 - 1.0
    }

    #[test]
    fn a_graph_that_grows_on_one_side_stays_balanced_and_answers_as_before() {
        let mut team = Team::new(2).unwrap();
        let synthetic: Synthetic = "uniform:16:4".parse().unwrap();
        let edges = synthetic.draw(&mut team).unwrap();
        let csr = Csr::build(synthetic.vertices(), &edges, Shape::UNDIRECTED, &mut team).unwrap();
        for placement in Placement::ALL {
            let ids = Ids::dense(csr.vertices());
            let graph = Changing::<Image>::from_view(&csr, &ids, true, &mut team).unwrap();
            let mut standing = Standing::new(placement, 2, None);
            let mut before = 0;
            for round in 0..12u64 {
                let snapshot = graph.snapshot(&mut team).unwrap();
                let placed = standing.place(&snapshot, &mut team).unwrap();
                assert!(excess(&placed.edges_by_node(&mut team)) <= DRIFT_MAX + 0.01, "{placement}, round {round}");
                if round % 4 == 3 {
                    assert!(answers(&placed, &[1], &mut team) == answers(&snapshot, &[1], &mut team), "{placement}");
                }
                let kept = standing.kept().units;
                assert!(kept - before <= 4, "{placement}, round {round}: {} units at once", kept - before);
                before = kept;
                // All that comes leads to vertices of the first unit, no edge twice, and some to new ones.
                let updates: Vec<Update> = (0..6000u64)
                    .map(|n| Update::InsertEdge(n * 7 % 1000, (n * 13 + n / 1000 * 17 + round * 977) % 1000))
                    .chain((0..300).map(|n| Update::InsertEdge(n, 70_000 + round * 300 + n)))
                    .collect();
                graph.apply(&updates).unwrap();
            }
            assert_eq!(standing.kept().units > 0, placement != Placement::RoundRobin, "{placement}");
            assert_eq!(standing.kept().stretches, 0);
        }
    }

    #[test]
    fn only_memory_that_is_elsewhere_is_brought_home() {
        let mut team = Team::new(1).unwrap();
        let edges: Vec<[u32; 2]> = (0..40_000).map(|n| [n % 8192, (n * 31) % 8192]).collect();
        let csr = Csr::build(8192, &edges, Shape::DIRECTED, &mut team).unwrap();
        let graph = Changing::<Image>::from_view(&csr, &Ids::dense(8192), true, &mut team).unwrap();
        // Two nodes that are one, which every machine has.
        let home = Arc::new(Home::of_nodes(&[0, 0], Allocation::Bind));
        let mut standing = Standing::new(Placement::BlockCyclic, 2, Some(home));
        let mut place = |graph: &Changing<Image>, team: &mut Team| {
            let snapshot = graph.snapshot(team).unwrap();
            match standing.place(&snapshot, team) {
                Ok(_) => Some(standing.kept().stretches),
                Err(error) => {
                    println!("not placed here: {error}");
                    None
                }
            }
        };
        let Some(first) = place(&graph, &mut team) else { return };
        assert_eq!(first, 16, "eight sections, each in two directions");
        assert_eq!(place(&graph, &mut team), Some(16), "nothing has changed");
        let updates: Vec<Update> = (0..4000).map(|n| Update::InsertEdge(n % 1024, n % 900)).collect();
        graph.apply(&updates).unwrap();
        let after = place(&graph, &mut team).unwrap();
        // What comes is more than a node may have too much: another section goes to the other node, in both directions too.
        assert_eq!(standing.kept().units, 1);
        assert!((19..=20).contains(&after), "one section, rewritten in both directions, and one that went: {after}");
        standing.memory_has_moved();
        let snapshot = graph.snapshot(&mut team).unwrap();
        standing.place(&snapshot, &mut team).unwrap();
        assert_eq!(standing.kept().stretches, after + 16, "all of it");
    }
}
