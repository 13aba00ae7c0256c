//! Checkpoints of the index: a file from which opening goes on, instead of taking up the whole log.
//!
//! - [`file`]: what stands in it, reading and checking it. `docs/format/index-checkpoint.md` draws it.
//! - [`making`]: the order of the steps, and why a crash between any two of them loses nothing.
//! - [`thread`]: when one is made in the background, and how fast.
//!
//! Invariants:
//!
//! 1. Only the file with the greatest number is ever used. One that is damaged, or does not fit the log, is not replaced by an
//!    older one: opening falls back to the log.
//! 2. While a checkpoint may be used that was frozen at number S, no tombstone above S is dropped ([`Standing::limit`]). A process
//!    that is killed while a checkpoint gets its name leaves one whose name a power cut may still take away, so that the older one would
//!    be the newest again: opening makes names durable before it looks for the newest.
//!
//! **When.** When as many records came since the last one as `checkpoint_records` says, divided among the instances of a
//! store, and a quarter of the keys that there are: opening takes up at most that much and what comes while one is written, and
//! writing images costs at most some hundred bytes for each record, less the fewer keys there are. When an instance is closed,
//! one is written if reading it will be cheaper than taking up the records since the last.

use biombo_base::Error;
use biombo_journal::Lsn;

mod file;
mod making;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use file::{Checkpoint, check, newest};
pub(crate) use making::{keep_alone, remove_all, remove_older};
pub(crate) use thread::Checkpointing;

/// Records that came since the last checkpoint by bytes of image, from which on closing writes one: taking up a record costs
/// about as much as writing and reading so many bytes.
const RECORD_BYTES: u64 = 256;

/// What checkpoints there are; the writer's.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The number of the newest file.
    pub number: u64,
    /// The last record's number in what may be used on opening.
    installed: Option<u64>,
    /// And in what is being made.
    making: Option<u64>,
    /// Whether the latter may count already, its name not being durable: then its limit stays until another is installed.
    is_doubtful: bool,
    /// The log's position at the last one.
    pub lsn: Since,
    /// Bytes of image at the last one.
    pub image_bytes: u64,
    /// Bytes of checkpoints written since opening.
    pub written_bytes: u64,
    pub count: u64,
    /// What they took, without waiting between steps.
    pub busy_ns: u64,
    /// On opening: segments that the checkpoint listed and that were cleaned since; `None` where none was used.
    pub gone: Option<usize>,
    /// Why what was found is not used.
    pub distrusted: Option<Error>,
}

/// A position of the log that begins with the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since(pub Lsn);

impl Default for Since {
    fn default() -> Self {
        Self(Lsn::FIRST)
    }
}

impl Standing {
    /// On opening: the number of the newest file, and why it is not used.
    pub fn found(number: u64, distrusted: Option<Error>) -> Self {
        let mut standing = Self { number, ..Self::default() };
        if let Some(error) = distrusted {
            standing.distrust(error);
        }
        standing
    }

    /// The newest file is used.
    pub fn stands(&mut self, seq: u64, lsn: Lsn) {
        self.installed = Some(seq);
        self.lsn = Since(lsn);
    }

    /// It is there and not used; what it was frozen at is not known, and another opening may judge differently.
    pub fn distrust(&mut self, error: Error) {
        self.distrusted = Some(error);
        self.installed = Some(0);
        self.lsn = Since::default();
    }

    /// The index was frozen at a number.
    pub fn begins(&mut self, seq: u64) {
        // One that is in doubt has the lower number.
        self.making = Some(self.making.unwrap_or(u64::MAX).min(seq));
    }

    /// The one in the making is installed, or given up.
    pub fn ends(&mut self) {
        if !self.is_doubtful {
            self.making = None;
        }
    }

    /// It was given a name that may or may not be durable.
    pub fn doubt(&mut self, number: u64) {
        self.number = number;
        self.is_doubtful = true;
    }

    /// It is installed: the only one that will be used.
    pub fn installed(&mut self, seq: u64, lsn: Lsn, image_bytes: u64, (written_bytes, busy_ns): (u64, u64)) {
        self.stands(seq, lsn);
        (self.image_bytes, self.distrusted, self.is_doubtful) = (image_bytes, None, false);
        self.written_bytes += written_bytes;
        self.busy_ns += busy_ns;
        self.count += 1;
    }

    /// No tombstone above this number may be dropped.
    pub fn limit(&self) -> u64 {
        self.installed.unwrap_or(u64::MAX).min(self.making.unwrap_or(u64::MAX))
    }

    /// Whether one is to be made, with this floor for the records since the last.
    pub fn is_due(&self, next_lsn: Lsn, keys: u64, records_min: u64) -> bool {
        let since = next_lsn.0.saturating_sub(self.lsn.0.0);
        self.distrusted.is_some() && since >= records_min / 4 || since >= records_min.max(keys / 4)
    }

    /// The same when the instance is closed.
    pub fn pays_on_closing(&self, next_lsn: Lsn, image_bytes: u64, records_min: u64) -> bool {
        let since = next_lsn.0.saturating_sub(self.lsn.0.0);
        since >= records_min / 16 && since > 0 && since.saturating_mul(RECORD_BYTES) >= image_bytes
    }
}
