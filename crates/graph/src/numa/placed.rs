//! A graph whose vertices belong to nodes.

use std::sync::Arc;

use super::{Home, Load, Owners, Placement};
use crate::team::Team;
use crate::view::{Blocks, Lists, View};

/// A view with its blocks dealt to nodes; everything else is the view's.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::kernels::afforest;
/// use biombo_graph::numa::{Load, Placed, Placement};
/// use biombo_graph::team::Team;
///
/// let mut team = Team::new(2)?;
/// let graph = Csr::build(5, &[[3, 1], [4, 3]], Shape::DIRECTED, &mut team)?;
/// let load = Load::of(&graph, &mut team);
/// let placed = Placed::new(&graph, Placement::RoundRobin, 2, &load);
/// let components = afforest(&placed, &mut team)?;
/// assert_eq!((0..5).map(|v| components.label(v)).collect::<Vec<_>>(), [0, 1, 2, 1, 1], "as everywhere");
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Placed<'v, V> {
    view: &'v V,
    blocks: Blocks,
}

impl<'v, V: View> Placed<'v, V> {
    /// The graph of `view`, of which `load` was taken, with its vertices dealt to `nodes` nodes. O(blocks).
    pub fn new(view: &'v V, placement: Placement, nodes: usize, load: &Load) -> Self {
        Self::owned(view, Owners::new(placement, nodes, load))
    }

    /// The graph of `view` with these owners of its vertices. O(blocks).
    pub fn owned(view: &'v V, owners: Owners) -> Self {
        Self { view, blocks: view.blocks().clone().dealt(owners) }
    }

    /// The results of kernels lie in the memory of the nodes.
    pub fn at_home(mut self, home: Arc<Home>) -> Self {
        self.blocks = self.blocks.at_home(home);
        self
    }

    /// How many edges lead to the vertices of each node. O(vertices).
    pub fn edges_by_node(&self, team: &mut Team) -> Vec<u64> {
        self.blocks.owners().edges_by_node(self.view, team)
    }
}

impl<V: View> View for Placed<'_, V> {
    fn vertices(&self) -> usize {
        self.view.vertices()
    }

    fn edges(&self) -> u64 {
        self.view.edges()
    }

    fn is_directed(&self) -> bool {
        self.view.is_directed()
    }

    #[inline]
    fn out_lists(&self) -> impl Lists + '_ {
        self.view.out_lists()
    }

    #[inline]
    fn in_lists(&self) -> impl Lists + '_ {
        self.view.in_lists()
    }

    fn blocks(&self) -> &Blocks {
        &self.blocks
    }
}
