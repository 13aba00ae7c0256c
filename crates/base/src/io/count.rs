//! Counters of what went through an [`Io`](super::Io): the lab's write amplification and the tests rely on them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Running totals since the file system object was made. Each counter is exact; together they are no snapshot.
#[derive(Debug, Default)]
pub struct Counters {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

/// The values of [`Counters`] at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes that writes handed to the kernel, and those stored through mappings.
    pub written_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Syncs of files and directories; a direct synchronous write is not counted here.
    pub syncs: u64,
}

impl Counters {
    /// The present values.
    pub fn get(&self) -> Counts {
        Counts {
            read_bytes: self.read_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
        }
    }

    pub(super) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn wrote(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
        self.writes.fetch_add(1, Relaxed);
    }

    pub(super) fn stored(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }
}
