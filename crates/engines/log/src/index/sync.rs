//! The atomics of the index, in one place: the loom tests (`tests/index_loom`) compile the same modules over another version
//! of this file, whose atomics are loom's and whose orderings can be weakened one by one to show that the tests notice.
//!
//! Each ordering has a name and a reason here; the code says which it means.

pub use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
pub use std::sync::{Mutex, MutexGuard};

/// Units of 16 bytes in a chunk of the arena, as a power of two: 2^14 units, 256 KiB. With `--cfg biombo_small_chunks`, for tests of
/// small stores, 4 KiB: their checkpoints then have several chunks too, which a crash can tear apart.
pub const CHUNK_UNITS_LOG2: u32 = if cfg!(biombo_small_chunks) { 8 } else { 14 };

/// Units that a kind of node claims at a time where they are free.
pub const CLAIM_UNITS: usize = if cfg!(biombo_small_chunks) { 16 } else { 256 };

/// Nodes that are retired before the epoch advances: rarely enough that readers keep the epoch's line in their caches.
pub const RETIRED_BETWEEN_EPOCHS: usize = 64;

/// Readers that a block of the epochs' slots takes; a full block is followed by another one.
pub const BLOCK_SLOTS: usize = 64;

/// Wait a moment for another thread.
pub fn pause() {
    std::thread::yield_now();
}

/// The orderings by their meaning.
pub mod order {
    use super::Ordering;

    /// A store that makes what was written before it reachable: a slot, a count, a word of a table.
    #[inline(always)]
    pub fn publish() -> Ordering {
        Ordering::Release
    }

    /// The load that reads what [`publish`] stored and then follows it.
    #[inline(always)]
    pub fn observe() -> Ordering {
        Ordering::Acquire
    }

    /// The epoch's own advance, after the unlinking stores of the epoch that ends.
    #[inline(always)]
    pub fn advance() -> Ordering {
        Ordering::Release
    }

    /// A reader's load of the epoch: what was unlinked before that epoch began must be seen as unlinked.
    #[inline(always)]
    pub fn enter() -> Ordering {
        Ordering::Acquire
    }

    /// A reader's last store: its loads of nodes stay before it.
    #[inline(always)]
    pub fn leave() -> Ordering {
        Ordering::Release
    }

    /// The writer's look at the readers, before it writes over what they may have read.
    #[inline(always)]
    pub fn scan() -> Ordering {
        Ordering::Acquire
    }

    /// Between a reader's announcement and its first load of the tree.
    #[inline(always)]
    pub fn pin_fence() {
        // The compare-and-swap that announces is a full barrier on x86 already.
        if cfg!(all(target_arch = "x86_64", not(miri))) {
            super::compiler_fence(Ordering::SeqCst);
        } else {
            super::fence(Ordering::SeqCst);
        }
    }

    /// Between the writer's unlinking stores and its look at the readers.
    #[inline(always)]
    pub fn scan_fence() {
        super::fence(Ordering::SeqCst);
    }
    /// The end of a copy of a chunk: the copy's loads stay before it.
    #[inline(always)]
    pub fn copied() -> Ordering {
        Ordering::Release
    }

    /// Seeing that a chunk is copied, before changing it.
    #[inline(always)]
    pub fn copied_seen() -> Ordering {
        Ordering::Acquire
    }
}
