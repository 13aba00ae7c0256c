//! The atomics of the index for loom, in the place of `src/index/sync.rs`. Each ordering can be weakened by name, to show that
//! the models notice.

use std::sync::atomic::AtomicUsize as Plain;

pub use loom::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
pub use loom::sync::{Mutex, MutexGuard};

pub const CHUNK_UNITS_LOG2: u32 = 6;
pub const CLAIM_UNITS: usize = 1;
pub const RETIRED_BETWEEN_EPOCHS: usize = 1;
pub const BLOCK_SLOTS: usize = 2;

/// The orderings that can be weakened.
pub const MUTANTS: [&str; 10] =
    ["none", "publish", "observe", "advance", "leave", "scan", "pin fence", "scan fence", "copied", "copied seen"];

pub fn pause() {
    loom::thread::yield_now();
}

loom::lazy_static! {
    /// Loom tries other orders around accesses of one word, not around fences. So each fence has an access before it, which
    /// orders nothing.
    static ref NEAR_FENCE: AtomicU64 = AtomicU64::new(0);
}

/// Make the word beside the fences: who finds it made is ordered after who made it, so it must be there before threads are.
pub fn prepare_fences() {
    NEAR_FENCE.store(0, Ordering::Relaxed);
}

static MUTANT: Plain = Plain::new(0);

/// Weaken one ordering from now on.
pub fn weaken(name: &str) {
    let at = MUTANTS.iter().position(|mutant| *mutant == name).expect("a known ordering");
    MUTANT.store(at, std::sync::atomic::Ordering::SeqCst);
}

fn or_weak(name: &str, ordering: Ordering) -> Ordering {
    if is_weak(name) { Ordering::Relaxed } else { ordering }
}

fn is_weak(name: &str) -> bool {
    MUTANTS[MUTANT.load(std::sync::atomic::Ordering::SeqCst)] == name
}

pub mod order {
    use super::{NEAR_FENCE, Ordering, fence, is_weak, or_weak};

    pub fn publish() -> Ordering {
        or_weak("publish", Ordering::Release)
    }

    pub fn observe() -> Ordering {
        or_weak("observe", Ordering::Acquire)
    }

    pub fn advance() -> Ordering {
        or_weak("advance", Ordering::Release)
    }

    /// Not among what can be weakened: where the fence that follows is one, as here, it does this load's work too.
    pub fn enter() -> Ordering {
        Ordering::Acquire
    }

    pub fn leave() -> Ordering {
        or_weak("leave", Ordering::Release)
    }

    pub fn scan() -> Ordering {
        or_weak("scan", Ordering::Acquire)
    }

    pub fn copied() -> Ordering {
        or_weak("copied", Ordering::Release)
    }

    pub fn copied_seen() -> Ordering {
        or_weak("copied seen", Ordering::Acquire)
    }

    pub fn pin_fence() {
        NEAR_FENCE.store(1, Ordering::Relaxed);
        if !is_weak("pin fence") {
            fence(Ordering::SeqCst);
        }
    }

    pub fn scan_fence() {
        NEAR_FENCE.store(2, Ordering::Relaxed);
        if !is_weak("scan fence") {
            fence(Ordering::SeqCst);
        }
    }
}
