//! The placement of a graph that changes: who has which vertex stays from snapshot to snapshot, unless the load drifts.
//!
//! Each snapshot is seen with the owners of the one before. Vertices that came belong to nodes with the fewest edges; and when a node has too
//! much more than its share, a few units of vertices go to others ([`Owners::rebalanced`]). Only memory that is not where it belongs is brought
//! there: sections that were rewritten elsewhere since, and those of units that went.
//!
//! Invariants:
//! 1. `laid` says of each section that the last snapshot had, in each direction, which memory was brought to which node last. A section that
//!    has the same memory and the same node is left alone.
//! 2. Memory that the system refuses to bring anywhere lies where it did, has no entry in `laid`, and is tried again with the next snapshot.
//!    The view is the same.

use std::collections::HashMap;
use std::sync::Arc;

use biombo_base::Error;

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
    /// Stretches of memory that the system refused to bring there, each time that it was asked: [`Standing::refusal`] says why.
    pub refused: usize,
}

impl Kept {
    /// What it has taken since it had taken `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            units: self.units - before.units,
            stretches: self.stretches - before.stretches,
            refused: self.refused - before.refused,
        }
    }
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
///     let placed = standing.place(&snapshot, &mut team);
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
    refusal: Option<Error>,
}

impl Standing {
    /// Vertices dealt to `nodes` nodes as `placement` says, to begin with. Without a home memory is left where it is.
    pub fn new(placement: Placement, nodes: usize, home: Option<Arc<Home>>) -> Self {
        Self { placement, nodes, home, owners: None, laid: HashMap::new(), kept: Kept::default(), refusal: None }
    }

    /// What it has taken so far.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Why memory of the snapshot that was placed last lies where it did, and not where it belongs, if some does: an error of
    /// [`place`](biombo_base::numa::place).
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Somebody else has brought memory of the graph to other nodes since: all of it is brought to its own with the next snapshot. Owners stay.
    pub fn memory_has_moved(&mut self) {
        self.laid.clear();
    }

    /// The graph as `snapshot` has it, on its nodes. O(vertices), shared by the team, and a call of the system for each stretch of memory
    /// that is not where it belongs. What the system refuses to bring there is counted ([`kept`](Self::kept)), and tried again next time.
    pub fn place<'v, V: View + Spreading>(&mut self, snapshot: &'v V, team: &mut Team) -> Placed<'v, V> {
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
        let Some(home) = self.home.clone() else { return placed };
        if !home.is_idle() && snapshot.stays().is_none() {
            self.lay(&home, snapshot, &owners);
        }
        placed.at_home(home)
    }

    fn lay(&mut self, home: &Home, snapshot: &(impl View + Spreading), owners: &Owners) {
        self.refusal = None;
        let vertices = snapshot.vertices();
        self.laid.retain(|(section, _), _| *section < vertices.div_ceil(SECTION));
        for (section, first) in (0..vertices).step_by(SECTION).enumerate() {
            let node = home.node_of(owners, first as u32);
            let mut stretch = 0;
            let each = snapshot.memory_of(first..(first + SECTION).min(vertices), &mut |memory| {
                let (begin, bytes) = memory.extent();
                let (key, laid) = ((section, stretch), (begin, bytes, node));
                stretch += 1;
                if self.laid.get(&key) == Some(&laid) {
                    return Ok(());
                }
                match home.place_on(memory, node) {
                    Ok(()) => {
                        self.kept.stretches += 1;
                        self.laid.insert(key, laid);
                    }
                    Err(error) => {
                        self.kept.refused += 1;
                        self.laid.remove(&key);
                        self.refusal.get_or_insert(error);
                    }
                }
                Ok(())
            });
            each.expect("invariant: each stretch is visited, and no visit fails");
        }
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
                let placed = standing.place(&snapshot, &mut team);
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
            standing.place(&snapshot, team);
            match standing.refusal() {
                None => Some((standing.kept(), standing.laid.len())),
                Some(error) => {
                    println!("not placed here: {error}");
                    None
                }
            }
        };
        let Some(first) = place(&graph, &mut team) else { return };
        let all = Kept { units: 0, stretches: 16, refused: 0 };
        assert_eq!(first, (all, 16), "eight sections, each in two directions");
        assert_eq!(place(&graph, &mut team), Some(first), "nothing has changed");
        let updates: Vec<Update> = (0..4000).map(|n| Update::InsertEdge(n % 1024, n % 900)).collect();
        graph.apply(&updates).unwrap();
        let (after, _) = place(&graph, &mut team).unwrap();
        // The section that was rewritten, and those that went for balance, which are units; in both directions.
        assert!((1..=3).contains(&after.units), "{after:?}");
        let since = after.since(all);
        assert_eq!((since.stretches, since.refused), (2 + 2 * after.units, 0));
        graph.apply(&(4096..8192).map(Update::DeleteVertex).collect::<Vec<_>>()).unwrap();
        assert_eq!(place(&graph, &mut team).map(|(_, laid)| laid), Some(8), "sections that went are remembered");
        let before = standing.kept();
        standing.memory_has_moved();
        let snapshot = graph.snapshot(&mut team).unwrap();
        standing.place(&snapshot, &mut team);
        assert_eq!(standing.kept().since(before).stretches, 8, "all of it");
    }

    /// Fails when a graph that cannot be brought to its nodes cannot be seen on them either.
    #[test]
    fn memory_that_may_not_be_brought_home_is_told_and_answers_are_the_same() {
        let mut team = Team::new(2).unwrap();
        let edges: Vec<[u32; 2]> = (0..20_000).map(|n| [n % 4096, (n * 31) % 4096]).collect();
        let csr = Csr::build(4096, &edges, Shape::DIRECTED, &mut team).unwrap();
        let graph = Changing::<Image>::from_view(&csr, &Ids::dense(4096), true, &mut team).unwrap();
        // A node that no machine has.
        let home = Arc::new(Home::of_nodes(&[1023, 1023], Allocation::Bind));
        let mut standing = Standing::new(Placement::BlockCyclic, 2, Some(home));
        for times in 1..3 {
            let snapshot = graph.snapshot(&mut team).unwrap();
            let placed = standing.place(&snapshot, &mut team);
            assert_eq!(standing.kept(), Kept { units: 0, stretches: 0, refused: times * 8 }, "tried again each time");
            assert!(standing.refusal().is_some() && standing.laid.is_empty());
            assert!(answers(&placed, &[1], &mut team) == answers(&snapshot, &[1], &mut team));
        }
    }
}
