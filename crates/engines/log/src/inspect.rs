//! What the contract does not ask for: figures of an open instance, and cleaning step by step.

use biombo_base::Result;
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

    /// One step of cleaning, of a new pass if none is under way: over segments for which it pays, or over `everything` that has
    /// something dead. Returns the step's name; `None` when a pass has ended or there is nothing to clean. For who drives
    /// cleaning by hand, as the simulated crashes do: an instance with threads does it by itself.
    ///
    /// # Errors
    /// As [`compact`](biombo_engine::Engine::compact).
    pub fn clean_step(&self, everything: bool) -> Result<Option<String>> {
        Ok(self.clean_a_step(everything)?.map(|stage| format!("{stage:?}").to_lowercase()))
    }
}
