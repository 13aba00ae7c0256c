//! Figures of an open instance that the contract does not ask for.

use biombo_journal::SegmentNumber;

use crate::engine::LogEngine;

impl LogEngine {
    /// Bytes of each segment that are live (what the index leads to, and tombstones), as the writer accounts for them;
    /// segments without any are left out.
    pub fn live_bytes(&self) -> Vec<(SegmentNumber, u64)> {
        self.lock_writer().accounts.all().collect()
    }

    /// Superseded versions that are kept for live snapshots.
    pub fn kept_versions(&self) -> usize {
        self.versions.len()
    }
}
