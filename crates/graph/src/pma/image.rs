//! A section as it stands in memory: the lists of neighbours of 1,024 vertices, with gaps, in one block.
//!
//! ```text
//! block:  [start, length] of each vertex's list | room of each list | lists, each with the gap behind it ... | free tail
//! ```
//!
//! Lists stand in the order of their vertices when the section was last rewritten. A list that outgrows its room is moved to the
//! tail with more of it, and where it was is lost until the next rewriting. So room grows where insertions happen, as in an adaptive
//! packed memory array.
//!
//! Invariants:
//! 1. `block[2 v]..` for `block[2 v + 1]` numbers is the list of `v`, ascending without repetitions, within `HEAD..used`; the
//!    stretches from starts to starts + rooms do not overlap, and no list is longer than its room.
//! 2. `edges` is the sum of the lengths.
//! 3. An image that somebody else has too (its `Arc` is shared) does not change: snapshots are images.

use std::sync::Arc;

use biombo_base::{Error, Result};

use super::changes::{Change, merge_list, sort};
use super::layout::{Layout, Scratch, VERTICES};
use super::tuning::Tuning;
use crate::media::{Block, PAGE_LEN, Pool};

/// Where the rooms stand.
const ROOMS: usize = 2 * VERTICES;
/// Where the lists begin.
const HEAD: usize = 3 * VERTICES;

/// A rewritten list has a gap of this share of its length.
const GAP_SHARE: usize = 16;
/// A list that has been moved has a gap of this share of its length, and `MOVED_GAP` more.
const MOVED_GAP_SHARE: usize = 8;
const MOVED_GAP: usize = 4;
/// A rewritten section has a free tail of this share of its lists.
const TAIL_SHARE: usize = 32;
/// Changes are made in place when they are fewer than this share of a section's edges; otherwise rewriting it is cheaper.
const IN_PLACE_SHARE: u64 = 24;

/// A section of the layout `pma`.
#[derive(Debug)]
pub struct Image {
    block: Block,
    used: usize,
    edges: u64,
}

impl Layout for Image {
    const NAME: &'static str = "pma";
    const TUNING: Tuning = Tuning { log_share: 16, log_min: 256, edges_share: 1, edges_min: 0 };

    type Waiting = ();

    fn empty(pool: &Pool) -> Result<Self> {
        let mut block = pool.block(HEAD)?;
        block[..HEAD].fill(0);
        Ok(Self { block, used: HEAD, edges: 0 })
    }

    fn build(pool: &Pool, scratch: &mut Vec<u32>, append: impl FnMut(usize, &mut Vec<u32>)) -> Result<Self> {
        let edges = lay_out(scratch, append)?;
        Self::of(pool, scratch, edges)
    }

    #[inline]
    fn list(&self, local: usize) -> &[u32] {
        let words = self.words();
        let (start, length) = (words[2 * local] as usize, words[2 * local + 1] as usize);
        &self.block[start..start + length]
    }

    #[inline]
    fn degree(&self, local: usize) -> usize {
        self.words()[2 * local + 1] as usize
    }

    fn memory(&self) -> &[u32] {
        &self.block
    }

    fn edges(&self) -> u64 {
        self.edges
    }

    fn bring_in(
        section: &mut Arc<Self>,
        (): &mut (),
        changes: &[Change],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        sort(changes, &mut scratch.sorted);
        Self::merge(section, &scratch.sorted, pool, &mut scratch.lists)
    }

    fn verify(&self, present: usize, vertices: usize) -> Result<(), String> {
        let mut stretches = Vec::new();
        let mut edges = 0;
        for local in 0..VERTICES {
            let (start, length) = (self.block[2 * local] as usize, self.block[2 * local + 1] as usize);
            let room = self.block[ROOMS + local] as usize;
            if length > room || (room > 0 && (start < HEAD || start + room > self.used)) || self.used > self.block.len()
            {
                return Err(format!(
                    "vertex {local} of a section has {length} neighbours at {start} with room for {room}"
                ));
            }
            let list = self.list(local);
            if list.windows(2).any(|pair| pair[0] >= pair[1])
                || list.last().is_some_and(|last| *last as usize >= vertices)
            {
                return Err(format!("the neighbours of vertex {local} of a section do not ascend below {vertices}"));
            }
            if local >= present && length > 0 {
                return Err(format!("vertex {local} of a section has neighbours and is not there"));
            }
            if room > 0 {
                stretches.push((start, room));
            }
            edges += length as u64;
        }
        stretches.sort_unstable();
        if stretches.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err("lists of a section overlap".to_owned());
        }
        if edges != self.edges {
            return Err(format!("a section has {edges} edges and counts {}", self.edges));
        }
        Ok(())
    }
}

impl Image {
    /// The words of all vertices.
    #[inline]
    fn words(&self) -> &[u32; ROOMS] {
        self.block.first_chunk().expect("invariant: a block begins with the words")
    }

    fn of(pool: &Pool, laid_out: &[u32], edges: u64) -> Result<Self> {
        let mut block = pool.block(laid_out.len() + tail(laid_out.len()))?;
        block[..laid_out.len()].copy_from_slice(laid_out);
        Ok(Self { block, used: laid_out.len(), edges })
    }

    /// A copy, to be changed.
    fn copy(&self, pool: &Pool) -> Result<Self> {
        let mut block = pool.block(self.block.len())?;
        block[..self.used].copy_from_slice(&self.block[..self.used]);
        Ok(Self { block, used: self.used, edges: self.edges })
    }

    /// Make `changes` in place, as far as there is room: whether there was for all.
    fn change(&mut self, changes: &[Change], scratch: &mut Vec<u32>) -> bool {
        for group in changes.chunk_by(|a, b| a.vertex() == b.vertex()) {
            let local = group[0].vertex();
            scratch.clear();
            merge_list(self.list(local), group, scratch);
            let (start, room) = (self.block[2 * local] as usize, self.block[ROOMS + local] as usize);
            let start = if scratch.len() <= room {
                start
            } else {
                let room = scratch.len() + scratch.len() / MOVED_GAP_SHARE + MOVED_GAP;
                if self.used + room > self.block.len() {
                    return false;
                }
                let start = self.used;
                self.used += room;
                self.block[2 * local] = start as u32;
                self.block[ROOMS + local] = room as u32;
                start
            };
            self.edges = self.edges - self.degree(local) as u64 + scratch.len() as u64;
            self.block[2 * local + 1] = scratch.len() as u32;
            self.block[start..start + scratch.len()].copy_from_slice(scratch);
        }
        true
    }

    /// Whether lists fill less than half of it, and it would be smaller rewritten.
    fn is_sparse(&self) -> bool {
        self.block.len() > HEAD + 2 * self.edges as usize + 2 * PAGE_LEN
    }

    /// Bring in `changes`: sorted by vertex and neighbour, one for each edge. In place, where they are few and nobody else has the
    /// image or copying it pays; or into a rewritten one. Making changes once more that were made already changes nothing.
    ///
    /// # Errors
    /// `Invalid` for more than 2^32 edges with their gaps, `Io` when there is no memory: some of the changes may have been made.
    fn merge(image: &mut Arc<Self>, changes: &[Change], pool: &Pool, scratch: &mut Vec<u32>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if changes.len() as u64 * IN_PLACE_SHARE < image.edges {
            if Arc::get_mut(image).is_none() {
                *image = Arc::new(image.copy(pool)?);
            }
            let own = Arc::get_mut(image).expect("invariant: it was just made or nobody else had it");
            if own.change(changes, scratch) && !own.is_sparse() {
                return Ok(());
            }
        }
        let mut rest = changes;
        let edges = lay_out(scratch, |local, lists| {
            let count = rest.iter().take_while(|change| change.vertex() == local).count();
            let (group, after) = rest.split_at(count);
            rest = after;
            merge_list(image.list(local), group, lists);
        })?;
        let needs = scratch.len() + tail(scratch.len());
        match Arc::get_mut(image) {
            // Its own block again, unless that is too small or much too large.
            Some(own) if (needs..needs + needs / 4 + 2 * PAGE_LEN).contains(&own.block.len()) => {
                own.block[..scratch.len()].copy_from_slice(scratch);
                (own.used, own.edges) = (scratch.len(), edges);
            }
            _ => *image = Arc::new(Self::of(pool, scratch, edges)?),
        }
        Ok(())
    }
}

/// Lists one after the other, each with its gap, behind the words that say where they are. How many edges they have.
fn lay_out(scratch: &mut Vec<u32>, mut append: impl FnMut(usize, &mut Vec<u32>)) -> Result<u64> {
    scratch.clear();
    scratch.resize(HEAD, 0);
    let mut edges = 0;
    for local in 0..VERTICES {
        let start = scratch.len();
        append(local, scratch);
        let length = scratch.len() - start;
        if length == 0 {
            continue;
        }
        scratch.resize(start + length + length / GAP_SHARE, 0);
        scratch[2 * local] = start as u32;
        scratch[2 * local + 1] = length as u32;
        scratch[ROOMS + local] = (scratch.len() - start) as u32;
        edges += length as u64;
    }
    // Places have 32 bits; what is moved to the tail later must have one too.
    if scratch.len() + tail(scratch.len()) + PAGE_LEN > u32::MAX as usize {
        return Err(Error::invalid(format!(
            "{VERTICES} vertices numbered in sequence have {edges} edges: more than fit a section of the layout pma; use csr"
        )));
    }
    Ok(edges)
}

/// Free room behind lists.
fn tail(laid_out: usize) -> usize {
    (laid_out - HEAD) / TAIL_SHARE + 16
}
