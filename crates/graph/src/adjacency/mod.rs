//! The layout `adjacency`: a log of edges, and an adjacency block for each vertex, into which the log is archived in batches.
//!
//! # Changes
//!
//! A batch is appended to one log of the whole graph, an edge as 8 bytes whatever lists will have it: no other dynamic layout takes
//! batches in faster. The log is archived when it holds a thirty-second as many edges as are stored (or 16,384): its changes are sorted into
//! those of sections of 1,024 vertices, and each section's into lists. So archiving goes through memory once for many changes; whoever's
//! batch makes the log due pays for it, and others log on meanwhile.
//!
//! # Blocks
//!
//! A list stands in a block of its own, of one of 216 sizes: the smallest that holds it, at most an eighth or three neighbours too large. A
//! list that outgrows its block moves to another one, and the old one is used again for some list of its size (`blocks`). Lists are sorted:
//! who appends to them as changes come, as GraphOne does, cannot delete an edge without looking at all of a list, cannot leave out repeated
//! ones, and has lists in pieces, which kernels walk slower than slices.
//!
//! # Snapshots
//!
//! As in [`pma`](crate::pma), with which it shares everything but this: a snapshot archives the log before it brings the sections up to it.
//! Writers wait only while what came during that is archived too. Who asks for one vertex archives the log as well.
//!
//! # Source
//!
//! Kumar, Huang, "GraphOne: A Data Store for Real-time Analytics on Evolving Graphs", FAST 2019 (an edge log, archived in batches).

pub(crate) mod blocks;

use std::sync::Arc;

use biombo_base::Result;

use crate::media::Pool;
use crate::pma::changes::{Change, sort};
use crate::pma::layout::{Layout, Scratch};
use crate::pma::tuning::Tuning;
use crate::pma::{Changing, Snapshot as SnapshotOf};
use blocks::Blocks;

/// A graph that changes, in the layout `adjacency`; see the module.
///
/// ```
/// use biombo_graph::adjacency::Adjacency;
/// use biombo_graph::csr::Shape;
/// use biombo_graph::pma::Update;
/// use biombo_graph::team::Team;
/// use biombo_graph::view::View;
///
/// let graph = Adjacency::new(Shape::DIRECTED)?;
/// graph.apply(&[Update::InsertEdge(7, 9), Update::InsertEdge(7, 8), Update::DeleteEdge(7, 9)])?;
/// let snapshot = graph.snapshot(&mut Team::new(1)?)?;
/// assert_eq!((snapshot.vertices(), snapshot.edges()), (3, 1));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub type Adjacency = Changing<Section>;

/// Such a graph as it was at one point in its history.
pub type Snapshot = SnapshotOf<Section>;

/// Changes are in the logs, or in the lists.
#[derive(Debug, Default)]
pub struct Nothing;

/// A section of the layout `adjacency`.
pub type Section = Blocks<Nothing>;

impl Layout for Section {
    const NAME: &'static str = "adjacency";
    const TUNING: Tuning = Tuning { log_share: 32, log_min: 128, edges_share: 32, edges_min: 1 << 14 };
    const LOGS_EDGES: bool = true;

    type Waiting = Nothing;

    fn empty(pool: &Pool) -> Result<Self> {
        Self::without_edges(pool)
    }

    fn build(pool: &Pool, scratch: &mut Vec<u32>, append: impl FnMut(usize, &mut Vec<u32>)) -> Result<Self> {
        Self::of_lists(pool, scratch, append)
    }

    #[inline]
    fn list(&self, local: usize) -> &[u32] {
        self.neighbors(local)
    }

    #[inline]
    fn degree(&self, local: usize) -> usize {
        self.length(local)
    }

    fn memory(&self) -> &[u32] {
        self.numbers()
    }

    fn edges(&self) -> u64 {
        self.count()
    }

    fn bring_in(
        section: &mut Arc<Self>,
        _: &mut Nothing,
        changes: &[Change],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        sort(changes, &mut scratch.sorted);
        Self::merge(section, &scratch.sorted, pool, &mut scratch.lists)
    }

    fn verify(&self, present: usize, vertices: usize) -> Result<(), String> {
        self.check(present, vertices)
    }
}

#[cfg(test)]
mod tests;
