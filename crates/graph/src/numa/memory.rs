//! Where the memory of lists and results lies.
//!
//! Lists of neighbours and arrays with an element a vertex are cut where vertices change their node, at whole pages: a page follows the
//! vertex that it begins with. Units of vertices are large enough for that (4 KiB of 4-byte elements), but of huge pages only those of
//! large graphs are: of others, results are on small ones. Striped vertices (round robin) share pages: those go to the nodes in turn, which
//! is what the share of each node comes to.

use std::ops::Range;
use std::sync::Arc;

use biombo_base::numa::{Policy, place};
use biombo_base::topology::Spread;
use biombo_base::{Error, Result};

use super::Owners;
use crate::team::Bind;

/// Of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// How memory comes to lie on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// It goes to the node of its vertices as long as that has room; pages that lie elsewhere move.
    Bind,
    /// It lies where it is touched first: threads of a node write its vertices' memory first.
    FirstTouch,
    /// Pages go to all nodes in turn, whoever has their vertices.
    Interleave,
}

impl Allocation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bind, Self::FirstTouch, Self::Interleave];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::FirstTouch => "first-touch",
            Self::Interleave => "interleave",
        }
    }
}

/// A layout that can say where its lists of neighbours are.
pub trait Spreading {
    /// Hand `visit` the memory of the lists of `vertices`, in ascending order.
    fn memory_of(&self, vertices: Range<usize>, visit: &mut dyn FnMut(Memory<'_>) -> Result<()>) -> Result<()>;

    /// Why its lists are left where they are, if they are no memory that a node may have.
    fn stays(&self) -> Option<&'static str> {
        None
    }
}

/// A stretch of memory.
#[derive(Debug, Clone, Copy)]
pub enum Memory<'m> {
    /// Neighbours.
    Numbers(&'m [u32]),
    /// Where lists begin.
    Offsets(&'m [u64]),
}

/// The memory of some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The kernel's number of each.
    nodes: Vec<u32>,
    allocation: Allocation,
    /// Why memory is left where the system puts it.
    why_not: Option<String>,
}

/// Where an array with an element a vertex lies: what it takes for another one to lie in the same memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    home: Arc<Home>,
    owners: Owners,
    /// Of an element: arrays of as many bytes may be of fewer vertices.
    element_bytes: usize,
}

impl Home {
    /// The memory of the nodes of `spread`, while threads are bound as `bind` says. On a machine with one node it is left where it is:
    /// [`why_not`](Self::why_not) says so.
    ///
    /// # Errors
    /// `Invalid` when `bind` says where memory is and `allocation` something else.
    pub fn new(spread: &Spread, bind: Bind, allocation: Allocation) -> Result<Self> {
        if matches!(bind, Bind::Local | Bind::Remote) && allocation != Allocation::Bind {
            return Err(Error::invalid(format!(
                "threads bound {} have all memory on one node: allocate it by bind, not by {}",
                bind.name(),
                allocation.name()
            )));
        }
        let all = |node: Option<&biombo_base::topology::Node>| {
            let id = node.map_or(0, |node| node.id);
            vec![id; spread.nodes.len()]
        };
        let nodes = match bind {
            Bind::Local => all(spread.nodes.first()),
            Bind::Remote => all(spread.nodes.last()),
            Bind::None | Bind::RoundRobin => spread.nodes.iter().map(|node| node.id).collect(),
        };
        let count = spread.nodes.len();
        let why_not = match (spread.has_distance(), count) {
            (true, _) => None,
            (false, 1) => (bind == Bind::Remote).then(|| "there is one node: no access is remote".to_owned()),
            (false, count) => Some(format!(
                "the {count} nodes are virtual, on one of the machine's: memory is not bound, and no access is remote"
            )),
        };
        Ok(Self { nodes, allocation, why_not })
    }

    /// What is not done, and why.
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    /// How memory comes to lie on nodes.
    pub fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// Whether memory is left where it is, so that any will do.
    pub(crate) fn takes_any(&self) -> bool {
        self.nodes.len() < 2 || self.why_not.is_some()
    }

    /// Whether memory stays where the system puts it.
    pub(super) fn is_idle(&self) -> bool {
        self.takes_any() || self.allocation == Allocation::FirstTouch
    }

    /// Whether the vertices of neighbouring units of `unit_bytes` bytes may be on different nodes, and a huge page would have both.
    pub(crate) fn needs_small_pages(&self, unit_bytes: usize) -> bool {
        let places = self.nodes.len() > 1 && self.why_not.is_none() && self.allocation != Allocation::Interleave;
        places && !unit_bytes.is_multiple_of(HUGE_BYTES)
    }

    /// Bring an array with an element a vertex to the nodes of its vertices.
    ///
    /// # Errors
    /// Those of [`place`]: what could not be placed lies where it did.
    pub fn place<T>(&self, array: &[T], owners: &Owners) -> Result<()> {
        if self.is_idle() {
            return Ok(());
        }
        if self.allocation == Allocation::Interleave || owners.is_striped() {
            return place(array, Policy::Interleave(&self.nodes));
        }
        let stretches = owners.stretches(array.len());
        stretches.into_iter().try_for_each(|(range, node)| place(&array[range], Policy::Prefer(self.node(node))))
    }

    /// Bring the lists of a layout of `vertices` vertices to the nodes of these, unless they [stay](Spreading::stays) where they are.
    ///
    /// # Errors
    /// Those of [`place`]: what could not be placed lies where it did.
    pub fn place_lists(&self, lists: &impl Spreading, vertices: usize, owners: &Owners) -> Result<()> {
        if self.is_idle() || lists.stays().is_some() {
            return Ok(());
        }
        if self.allocation == Allocation::Interleave || owners.is_striped() {
            return lists.memory_of(0..vertices, &mut |memory| memory.place(Policy::Interleave(&self.nodes)));
        }
        for (range, node) in owners.stretches(vertices) {
            lists.memory_of(range, &mut |memory| memory.place(Policy::Prefer(self.node(node))))?;
        }
        Ok(())
    }

    /// The node that a vertex's lists belong to; `None` for all of them in turn.
    pub(super) fn node_of(&self, owners: &Owners, vertex: u32) -> Option<usize> {
        let is_dealt = self.allocation == Allocation::Bind && !owners.is_striped();
        is_dealt.then(|| owners.node(vertex))
    }

    /// Bring a stretch of lists to a node, or to all of them in turn.
    pub(super) fn place_on(&self, memory: Memory<'_>, node: Option<usize>) -> Result<()> {
        match node {
            Some(node) => memory.place(Policy::Prefer(self.node(node))),
            None => memory.place(Policy::Interleave(&self.nodes)),
        }
    }

    /// The kernel's number of a node. Owners may have another number of nodes than there are.
    fn node(&self, node: usize) -> u32 {
        self.nodes[node % self.nodes.len()]
    }

    #[cfg(test)]
    pub(super) fn of_nodes(nodes: &[u32], allocation: Allocation) -> Self {
        Self { nodes: nodes.to_vec(), allocation, why_not: None }
    }

    #[cfg(test)]
    pub(super) fn of_virtual_nodes(nodes: &[u32], allocation: Allocation) -> Self {
        Self { why_not: Some("virtual".to_owned()), ..Self::of_nodes(nodes, allocation) }
    }
}

impl Place {
    /// Of an array with an element of so many bytes for each vertex.
    pub(crate) fn new(home: Arc<Home>, owners: Owners, element_bytes: usize) -> Self {
        Self { home, owners, element_bytes }
    }
}

impl Memory<'_> {
    /// Where it begins and how many bytes it is.
    pub(super) fn extent(&self) -> (usize, usize) {
        match self {
            Self::Numbers(memory) => (memory.as_ptr() as usize, size_of_val(*memory)),
            Self::Offsets(memory) => (memory.as_ptr() as usize, size_of_val(*memory)),
        }
    }

    fn place(self, policy: Policy<'_>) -> Result<()> {
        match self {
            Self::Numbers(memory) => place(memory, policy),
            Self::Offsets(memory) => place(memory, policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_left_where_they_would_have_vertices_of_several_nodes() {
        for (nodes, allocation, unit_bytes, needs) in [
            (&[0, 1][..], Allocation::FirstTouch, 16 << 10, true),
            (&[0, 1], Allocation::Bind, 16 << 10, true),
            (&[0, 1], Allocation::Bind, 4 << 20, false),
            (&[0, 1], Allocation::Interleave, 16 << 10, false),
            (&[0], Allocation::FirstTouch, 16 << 10, false),
        ] {
            assert_eq!(
                Home::of_nodes(nodes, allocation).needs_small_pages(unit_bytes),
                needs,
                "{nodes:?} {allocation:?}"
            );
        }
        let virtual_ones = Home::of_virtual_nodes(&[0, 1], Allocation::Bind);
        assert!(!virtual_ones.needs_small_pages(4096));
    }
}
