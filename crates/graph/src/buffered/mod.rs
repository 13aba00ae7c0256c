//! The layout `buffered`: a buffer for each vertex, which grows with its degree, over adjacency blocks.
//!
//! # Changes
//!
//! Changes of a section of 1,024 vertices go from its log, when that has some 256, to the buffers of their vertices: 4 bytes each, unsorted. A
//! buffer begins with room for 4 and doubles, up to a sixteenth of its list; then it is *flushed*: sorted, and merged into the list, where
//! that stands. So each list is rewritten once a sixteenth of it has changed, and no list for changes of others: hubs, whose lists are
//! long, wait longest.
//!
//! Lists stand in adjacency blocks, as in [`adjacency`](crate::adjacency). XPGraph keeps those in persistent memory and
//! the buffers in DRAM; here both are in memory, and what is durable is the graph's journal.
//!
//! # Snapshots
//!
//! As in [`pma`](crate::pma), with which it shares everything but this: a snapshot flushes every buffer with what came before it, and the
//! buffers' memory is given back. That is the price: who takes snapshots often rewrites lists for few changes.
//!
//! # Source
//!
//! Wang, Zhang, Zhao, Li, "XPGraph: XPline-Friendly Persistent Memory Graph Stores for Large-Scale Evolving Graphs", MICRO 2022 (vertex-centric
//! buffers of growing size).

mod buffers;

use std::sync::Arc;

use biombo_base::Result;

use crate::adjacency::blocks::Blocks;
use crate::media::Pool;
use crate::pma::changes::{Change, SORTED_MAX, merge_list, sort};
use crate::pma::layout::{Layout, Scratch, VERTICES};
use crate::pma::tuning::Tuning;
use crate::pma::{Changing, Snapshot as SnapshotOf};
use buffers::Buffers;

/// A graph that changes, in the layout `buffered`; see the module.
///
/// ```
/// use biombo_graph::buffered::Buffered;
/// use biombo_graph::csr::Shape;
/// use biombo_graph::pma::Update;
/// use biombo_graph::team::Team;
/// use biombo_graph::view::View;
///
/// let graph = Buffered::new(Shape::UNDIRECTED)?;
/// graph.apply(&[Update::InsertEdge(7, 9), Update::InsertEdge(7, 8)])?;
/// let snapshot = graph.snapshot(&mut Team::new(1)?)?;
/// assert_eq!((snapshot.vertices(), snapshot.edges()), (3, 4));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub type Buffered = Changing<Section>;

/// Such a graph as it was at one point in its history.
pub type Snapshot = SnapshotOf<Section>;

/// A section of the layout `buffered`.
pub type Section = Blocks<Buffers>;

/// A buffer is flushed at this share of its list.
const BUFFER_SHARE: usize = 16;
/// It holds at least so many changes.
const BUFFER_MIN: usize = 4;
/// And at most so many: they are sorted at once. Only lists of more than 16 million neighbours are rewritten for less than their share.
const BUFFER_MAX: usize = SORTED_MAX / 2;

/// So many changes of a list of `degree` neighbours are worth merging.
fn limit(degree: usize) -> usize {
    (degree / BUFFER_SHARE).next_power_of_two().clamp(BUFFER_MIN, BUFFER_MAX)
}

impl Layout for Section {
    const NAME: &'static str = "buffered";
    const TUNING: Tuning = Tuning { log_share: u64::MAX, log_min: 256, edges_share: 1, edges_min: 0 };

    type Waiting = Buffers;

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
        buffers: &mut Buffers,
        changes: &[Change],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for change in changes {
            let local = change.vertex();
            // Before it is added to: a buffer that could not be flushed does not grow.
            if buffers.length(local) >= limit(section.length(local)) {
                flush(section, buffers, local, pool, scratch)?;
            }
            buffers.push(*change);
        }
        Ok(())
    }

    fn settle(section: &mut Arc<Self>, buffers: &mut Buffers, pool: &Pool, scratch: &mut Scratch) -> Result<()> {
        if buffers.waiting() == 0 {
            return Ok(());
        }
        if section.is_for_few(buffers.waiting()) {
            let own = Self::own(section, pool)?;
            let flushed = (0..VERTICES).all(|local| change(own, buffers, local, scratch));
            if flushed && !own.is_sparse() {
                *buffers = Buffers::default();
                return Ok(());
            }
        }
        flush_all(section, buffers, pool, scratch)
    }

    fn waiting_of(buffers: &Buffers, local: usize) -> Vec<Change> {
        let mut changes = Vec::new();
        buffers.list(local, &mut changes);
        changes
    }

    fn waiting_bytes(buffers: &Buffers) -> usize {
        buffers.memory_bytes()
    }

    fn verify(&self, present: usize, vertices: usize) -> Result<(), String> {
        self.check(present, vertices)
    }
}

/// Merge what waits for one vertex into its list.
fn flush(
    section: &mut Arc<Section>,
    buffers: &mut Buffers,
    local: usize,
    pool: &Pool,
    scratch: &mut Scratch,
) -> Result<()> {
    let own = Section::own(section, pool)?;
    if change(own, buffers, local, scratch) && !own.is_sparse() {
        return Ok(());
    }
    // All of the section is rewritten: then nothing needs to wait.
    flush_all(section, buffers, pool, scratch)
}

/// The same, if there is room; otherwise nothing is changed.
fn change(section: &mut Section, buffers: &mut Buffers, local: usize, scratch: &mut Scratch) -> bool {
    scratch.changes.clear();
    buffers.list(local, &mut scratch.changes);
    if scratch.changes.is_empty() {
        return true;
    }
    sort(&scratch.changes, &mut scratch.sorted);
    let is_done = section.change(local, &scratch.sorted, &mut scratch.lists);
    if is_done {
        buffers.clear(local);
    }
    is_done
}

/// Merge everything that waits into a rewritten section.
fn flush_all(section: &mut Arc<Section>, buffers: &mut Buffers, pool: &Pool, scratch: &mut Scratch) -> Result<()> {
    let Scratch { changes, sorted, lists } = scratch;
    Section::rewrite(section, pool, lists, |local, list, lists| {
        changes.clear();
        buffers.list(local, changes);
        sort(changes, sorted);
        merge_list(list, sorted, lists);
    })?;
    *buffers = Buffers::default();
    Ok(())
}

#[cfg(test)]
mod tests;
