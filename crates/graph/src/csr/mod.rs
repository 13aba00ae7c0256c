//! The layout `csr`: compressed sparse rows. The lists of neighbours stand one after the other in one array, 4 bytes an edge, and
//! another one says where each begins, 8 bytes a vertex. It does not change; it is what the other layouts are measured by.

mod build;
pub mod file;
mod spread;

use std::ops::Range;

use biombo_base::Result;

use crate::Edge;
use crate::media::{Backing, Numbers};
use crate::team::Team;
use crate::view::{Blocks, Lists, View, ahead};

/// What a graph is to be made of its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Edges have a direction. Otherwise each one is stored at both of its ends.
    pub is_directed: bool,
    /// Edges from a vertex to itself are kept, once each. Otherwise they are left out, as the GAP benchmark does.
    pub keeps_loops: bool,
}

impl Shape {
    /// Undirected, loops kept.
    pub const UNDIRECTED: Self = Self { is_directed: false, keeps_loops: true };
    /// Directed, loops kept.
    pub const DIRECTED: Self = Self { is_directed: true, keeps_loops: true };
    /// As the GAP benchmark makes its synthetic graphs: undirected, without loops.
    pub const GAP: Self = Self { is_directed: false, keeps_loops: false };
}

/// A static graph.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::team::Team;
/// use biombo_graph::view::View;
///
/// let mut team = Team::new(1)?;
/// let graph = Csr::build(4, &[[0, 1], [2, 1], [0, 1]], Shape::DIRECTED, &mut team)?;
/// assert_eq!(graph.out_neighbors(0), [1], "repeated edges are stored once");
/// assert_eq!(graph.in_neighbors(1), [0, 2]);
/// assert_eq!(graph.out_degree(3), 0, "vertex 3 is isolated");
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Csr {
    out: Adjacency,
    /// Of a directed graph.
    inward: Option<Adjacency>,
    blocks: Blocks,
}

/// Lists of neighbours in one direction.
///
/// Invariants: `offsets` ascends from 0 to the length of `targets`; each list ascends strictly, below the number of vertices.
#[derive(Debug)]
struct Adjacency {
    offsets: Numbers<u64>,
    targets: Numbers<u32>,
}

impl Adjacency {
    #[inline]
    fn rows(&self) -> Rows<'_> {
        Rows { offsets: &self.offsets, targets: &self.targets }
    }

    fn memory_bytes(&self) -> usize {
        self.offsets.memory_bytes() + self.targets.memory_bytes()
    }
}

/// The lists of an [`Adjacency`].
#[derive(Clone, Copy)]
struct Rows<'g> {
    offsets: &'g [u64],
    targets: &'g [u32],
}

impl Lists for Rows<'_> {
    #[inline]
    fn list<'a>(self, vertex: u32) -> &'a [u32]
    where
        Self: 'a,
    {
        let at = &self.offsets[vertex as usize..][..2];
        &self.targets[at[0] as usize..at[1] as usize]
    }

    #[inline]
    fn degree(self, vertex: u32) -> usize {
        let at = &self.offsets[vertex as usize..][..2];
        (at[1] - at[0]) as usize
    }

    #[inline]
    fn each(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32])) {
        let offsets = &self.offsets[vertices.start as usize..=vertices.end as usize];
        for (vertex, at) in vertices.zip(offsets.windows(2)) {
            work(vertex, &self.targets[at[0] as usize..at[1] as usize]);
        }
    }

    #[inline]
    fn each_ahead(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32], &[u32])) {
        let offsets = &self.offsets[vertices.start as usize..=vertices.end as usize];
        for (vertex, at) in vertices.zip(offsets.windows(2)) {
            let (list, ahead) = ahead(self.targets, at[0] as usize, (at[1] - at[0]) as usize);
            work(vertex, list, ahead);
        }
    }
}

impl Csr {
    /// The graph of `edges` between the vertices `0..vertices`. Repeated edges are stored once. O(edges), shared by the team; for a
    /// moment it takes 12 bytes for each stored edge beside the graph.
    ///
    /// # Errors
    /// `Invalid` for more than [`VERTICES_MAX`](crate::VERTICES_MAX) vertices or an edge whose end is not one of them; `Io` when there is no memory.
    pub fn build(vertices: usize, edges: &[Edge], shape: Shape, team: &mut Team) -> Result<Self> {
        build::check(vertices, edges, team)?;
        let out = build::adjacency(vertices, edges, shape, build::Direction::Out, team)?;
        let inward = match shape.is_directed {
            true => Some(build::adjacency(vertices, edges, shape, build::Direction::In, team)?),
            false => None,
        };
        Ok(Self::new(out, inward))
    }

    fn new(out: Adjacency, inward: Option<Adjacency>) -> Self {
        // Pulling kernels read in-edges, pushing ones out-edges: balance what most time goes into, the pulled ones.
        let pulled = inward.as_ref().unwrap_or(&out);
        let vertices = pulled.offsets.len() - 1;
        let blocks = Blocks::new(vertices, pulled.targets.len() as u64, |vertex| pulled.offsets[vertex]);
        Self { out, inward, blocks }
    }

    /// What is behind its lists, where that is persistent memory; `None` in memory.
    pub fn backing(&self) -> Option<Backing> {
        self.out.offsets.region().map(|region| region.backing())
    }

    /// How much memory it takes, in bytes: lists and offsets in each direction.
    pub fn memory_bytes(&self) -> usize {
        self.out.memory_bytes() + self.in_edges_memory_bytes().unwrap_or(0)
    }

    /// How much of that the in-edges of a directed graph take; `None` for an undirected one, whose edges are stored at both ends anyway.
    pub fn in_edges_memory_bytes(&self) -> Option<usize> {
        self.inward.as_ref().map(Adjacency::memory_bytes)
    }
}

impl View for Csr {
    fn vertices(&self) -> usize {
        self.out.offsets.len() - 1
    }

    fn edges(&self) -> u64 {
        self.out.targets.len() as u64
    }

    fn is_directed(&self) -> bool {
        self.inward.is_some()
    }

    #[inline]
    fn out_lists(&self) -> impl Lists + '_ {
        self.out.rows()
    }

    #[inline]
    fn in_lists(&self) -> impl Lists + '_ {
        self.inward.as_ref().unwrap_or(&self.out).rows()
    }

    fn blocks(&self) -> &Blocks {
        &self.blocks
    }
}

#[cfg(test)]
mod tests;
