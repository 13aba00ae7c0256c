//! As `src/sync.rs`, by loom; one fence can be left out, to see that the model notices it.

pub(crate) use loom::sync::atomic::AtomicU64;
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;

/// Loom tries the look before a sleep, and the sleep.
pub(crate) const SPINS: u32 = 1;

/// Whether threads end their part without a fence.
pub(crate) static ENDS_RELAXED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// How many threads are at work.
pub(crate) struct AtomicUsize(loom::sync::atomic::AtomicUsize);

impl AtomicUsize {
    pub(crate) fn new(value: usize) -> Self {
        Self(loom::sync::atomic::AtomicUsize::new(value))
    }

    pub(crate) fn load(&self, ordering: Ordering) -> usize {
        self.0.load(ordering)
    }

    pub(crate) fn store(&self, value: usize, ordering: Ordering) {
        self.0.store(value, ordering);
    }

    pub(crate) fn fetch_sub(&self, value: usize, ordering: Ordering) -> usize {
        let is_broken = ENDS_RELAXED.load(Ordering::Relaxed);
        self.0.fetch_sub(value, if is_broken { Ordering::Relaxed } else { ordering })
    }
}
