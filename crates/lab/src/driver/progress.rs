//! How far a phase is, for a watcher beside it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by the threads of a phase and who watches them.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    stop: AtomicBool,
    put_bytes: AtomicU64,
    returned_bytes: AtomicU64,
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

    /// Bytes of keys and values put so far, and of what reads returned, to within what a thread does in some milliseconds.
    pub fn bytes(&self) -> (u64, u64) {
        (self.put_bytes.load(Ordering::Relaxed), self.returned_bytes.load(Ordering::Relaxed))
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

    pub(crate) fn add_bytes(&self, put: u64, returned: u64) {
        self.put_bytes.fetch_add(put, Ordering::Relaxed);
        self.returned_bytes.fetch_add(returned, Ordering::Relaxed);
    }
}
