//! What dynamic layouts differ in: how the edges of a section stand in memory, and what of its changes waits beside them.
//!
//! Everything else is the same of all: names, batches, the logs of sections, cuts and snapshots. So a layout is a type of sections.
//!
//! Invariants that a layout keeps:
//! 1. A section that somebody else has too (its `Arc` is shared) does not change: snapshots are sections.
//! 2. Bringing in changes that came in already, in the same order and with nothing after them, changes nothing.
//! 3. After [`Layout::settle`] every change that was brought in is in the lists, and nothing waits.
//! 4. Its memory begins with two words of each vertex: where in it the list begins, and how long it is.

use std::fmt;
use std::sync::Arc;

use biombo_base::Result;

use super::changes::Change;
use super::tuning::Tuning;
use crate::media::Pool;

/// Vertices of a section, as a power of two.
pub(crate) const SHIFT: u32 = 10;
/// Vertices of a section.
pub(crate) const VERTICES: usize = 1 << SHIFT;

/// A dynamic layout, as the edges of 1,024 vertices in one direction. Nobody implements it outside of this crate.
pub trait Layout: fmt::Debug + Send + Sync + Sized + 'static {
    /// Its name everywhere.
    const NAME: &'static str;

    /// When changes that wait are brought in.
    #[doc(hidden)]
    const TUNING: Tuning;

    /// Whether edges wait in one log of the whole graph, as they came, before they are sorted into the logs of sections.
    #[doc(hidden)]
    const LOGS_EDGES: bool = false;

    /// Changes that are out of a section's log and not in its lists.
    #[doc(hidden)]
    type Waiting: Default + fmt::Debug + Send;

    /// A section without edges.
    #[doc(hidden)]
    fn empty(pool: &Pool) -> Result<Self>;

    /// A section with the lists that `append` appends, vertex by vertex. O(edges).
    #[doc(hidden)]
    fn build(pool: &Pool, scratch: &mut Vec<u32>, append: impl FnMut(usize, &mut Vec<u32>)) -> Result<Self>;

    /// The neighbours of the vertex `local` of the section, ascending.
    #[doc(hidden)]
    fn list(&self, local: usize) -> &[u32];

    /// How many there are.
    #[doc(hidden)]
    fn degree(&self, local: usize) -> usize;

    /// All of its memory; see invariant 4.
    #[doc(hidden)]
    fn memory(&self) -> &[u32];

    /// How many edges its lists have.
    #[doc(hidden)]
    fn edges(&self) -> u64;

    /// Bring `changes` in, at most `SORTED_MAX`, in the order in which they were made: into the lists or among what waits. After a
    /// failure they come first the next time.
    #[doc(hidden)]
    fn bring_in(
        section: &mut Arc<Self>,
        waiting: &mut Self::Waiting,
        changes: &[Change],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<()>;

    /// Bring what waits into the lists.
    #[doc(hidden)]
    fn settle(_: &mut Arc<Self>, _: &mut Self::Waiting, _: &Pool, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    /// What waits for the vertex `local`, in the order in which it came.
    #[doc(hidden)]
    fn waiting_of(_: &Self::Waiting, _local: usize) -> Vec<Change> {
        Vec::new()
    }

    /// How much memory waiting takes, in bytes.
    #[doc(hidden)]
    fn waiting_bytes(_: &Self::Waiting) -> usize {
        0
    }

    /// Check the section's invariants in a graph of `vertices` vertices, of which `present` are this section's.
    ///
    /// # Errors
    /// What does not hold.
    #[doc(hidden)]
    fn verify(&self, present: usize, vertices: usize) -> Result<(), String>;
}

/// Memory for merging, to be used again.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) changes: Vec<Change>,
    pub(crate) sorted: Vec<Change>,
    pub(crate) lists: Vec<u32>,
}
