//! Memory in blocks of any size that come and go, carved out of slabs on huge pages.
//!
//! What grows and shrinks piece by piece cannot be one [`Array`]; a mapping for each piece would lie on small pages, and the system's
//! allocator asks for no huge ones.
//!
//! Invariants:
//! 1. Each [`Block`] has pages of one slab that no other block has, from when they are taken from the free runs until it gives them
//!    back, once, when it is dropped.
//! 2. A slab is unmapped only when all its pages are free, so while a block lives its memory does.
//! 3. Slabs are never read or written but through blocks.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::{Error, Result};

use super::Array;
use super::runs::{Run, Runs};

/// What blocks are rounded up to, in numbers: 4 KiB.
pub const PAGE_LEN: usize = 1024;

/// Slabs double up to this many pages, 32 MiB; a larger one is made for a larger block.
const SLAB_PAGES_MAX: usize = 8192;

/// The first slab, 512 KiB.
const SLAB_PAGES_MIN: usize = 128;

/// A source of blocks. Clones are the same pool.
///
/// ```
/// use biombo_graph::media::Pool;
/// let pool = Pool::new();
/// let mut block = pool.block(1500)?;
/// assert_eq!(block.len(), 2048, "whole pages of 1,024 numbers");
/// block[7] = 7;
/// assert!(pool.memory_bytes() >= 8192);
/// # Ok::<(), biombo_base::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Pool {
    slabs: Arc<Mutex<Slabs>>,
}

#[derive(Default)]
struct Slabs {
    /// By number; `None` where one was unmapped.
    slabs: Vec<Option<Slab>>,
    free: Runs,
}

struct Slab {
    memory: Array<u32>,
    pages: u32,
    /// Pages from here on were never part of a block: the system has not been asked for their memory.
    touched: u32,
}

/// `u32` numbers in memory of a pool, this value's own. What they are at first nobody knows.
pub struct Block {
    memory: NonNull<u32>,
    len: usize,
    run: Run,
    slabs: Arc<Mutex<Slabs>>,
}

// SAFETY: (G5) a block alone has its memory, which belongs to no thread.
unsafe impl Send for Block {}
// SAFETY: (G5) a shared block lends its numbers for reading only.
unsafe impl Sync for Block {}

impl Pool {
    /// A pool without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A block of at least `len` numbers, rounded up to whole pages. O(log blocks).
    ///
    /// # Errors
    /// `Invalid` when that is more than memory can address, `Io` when the system has no room.
    pub fn block(&self, len: usize) -> Result<Block> {
        let pages = len.div_ceil(PAGE_LEN).max(1);
        let pages =
            u32::try_from(pages).map_err(|_| Error::invalid(format!("a block of {len} numbers is too large")))?;
        let mut slabs = locked(&self.slabs);
        let run = match slabs.free.take(pages) {
            Some(run) => run,
            None => {
                slabs.add(pages)?;
                slabs.free.take(pages).expect("invariant: a slab of that size was just added")
            }
        };
        let slab = slabs.slabs[run.slab as usize].as_mut().expect("invariant: runs lie in slabs that are there");
        slab.touched = slab.touched.max(run.page + run.pages);
        // SAFETY: (G5) the run lies within the slab's memory.
        let memory = unsafe { slab.memory.base().add(run.page as usize * PAGE_LEN) };
        Ok(Block { memory, len: pages as usize * PAGE_LEN, run, slabs: self.slabs.clone() })
    }

    /// How much memory it takes, in bytes: all pages that were ever part of a block and were not given back to the system.
    pub fn memory_bytes(&self) -> usize {
        let slabs = locked(&self.slabs);
        slabs.slabs.iter().flatten().map(|slab| slab.touched as usize * PAGE_LEN * size_of::<u32>()).sum()
    }
}

impl Slabs {
    fn add(&mut self, pages: u32) -> Result<()> {
        let there: usize = self.slabs.iter().flatten().map(|slab| slab.pages as usize).sum();
        let pages = pages.max(there.clamp(SLAB_PAGES_MIN, SLAB_PAGES_MAX) as u32);
        let slab = Slab { memory: Array::zeroed(pages as usize * PAGE_LEN)?, pages, touched: 0 };
        let number = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        if number == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[number] = Some(slab);
        self.free.give(Run { slab: number as u32, page: 0, pages });
        Ok(())
    }

    fn give(&mut self, run: Run) {
        let whole = self.free.give(run);
        let slot = &mut self.slabs[run.slab as usize];
        if slot.as_ref().is_some_and(|slab| slab.pages == whole.pages) {
            self.free.remove(whole);
            *slot = None;
        }
    }
}

fn locked(slabs: &Mutex<Slabs>) -> MutexGuard<'_, Slabs> {
    slabs.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deref for Block {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        // SAFETY: (G6) so many numbers lie in the block's run, initialised by the system or by earlier blocks, and nobody
        // else has them while it lives.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: (G6) as above, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        locked(&self.slabs).give(self.run);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("run", &self.run).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_what_is_stored_while_others_come_and_go() {
        let pool = Pool::new();
        let mut blocks: Vec<(u32, Block)> = Vec::new();
        let mut state = 1u32;
        for step in 0..3000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if blocks.len() > 60 || (state >> 20).is_multiple_of(3) && !blocks.is_empty() {
                let (mark, block) = blocks.swap_remove((state >> 8) as usize % blocks.len());
                assert!(block.iter().all(|item| *item == mark), "block {mark} was changed by another");
            } else {
                let mut block = pool.block((state >> 16) as usize % 40_000).unwrap();
                block.fill(step);
                blocks.push((step, block));
            }
        }
        assert!(blocks.iter().all(|(mark, block)| block.iter().all(|item| item == mark)));
        let most = pool.memory_bytes();
        assert!(most >= blocks.iter().map(|(_, block)| block.len() * 4).sum());
        drop(blocks);
        assert_eq!(pool.memory_bytes(), 0, "empty slabs go back to the system");
    }

    #[test]
    fn blocks_outlive_their_pool_and_go_to_other_threads() {
        let mut block = Pool::new().block(3).unwrap();
        block[2] = 9;
        assert_eq!(std::thread::spawn(move || block[2]).join().unwrap(), 9);
    }

    #[test]
    fn what_no_memory_can_hold_is_an_error() {
        assert!(Pool::new().block(usize::MAX / 8).is_err());
        assert!(Pool::new().block((1 << 42) - 1).is_err());
    }
}
