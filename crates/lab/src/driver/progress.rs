//! How far a phase is, for a watcher beside it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by the threads of a phase and who watches them.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// At the beginning.
    pub fn new() -> Self {
        Self::default()
    }

    /// Operations finished, to within a group for each thread.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ask all threads to end soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether they were asked to.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, operations: u64) {
        self.done.fetch_add(operations, Ordering::Relaxed);
    }
}
