//! What a caller chooses and sees: options, levels, positions, figures.

use std::fmt;

use biombo_base::io::BLOCK_BYTES;
use biombo_base::{Error, Result};

/// The number of a record: 1 for the first of a journal's life, one more for each further one, never used twice for
/// records that were acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The first record's.
    pub const FIRST: Self = Self(1);

    /// The position `records` further on.
    pub fn plus(self, records: u64) -> Self {
        Self(self.0 + records)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When an append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// In the kernel's hands: survives the death of the process, not a power cut.
    Os,
    /// On the device, and everything before it.
    #[default]
    Sync,
}

/// How segments are written. It belongs to a segment for its life; reopening with the other one begins a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// `O_DIRECT|O_DSYNC`, whole blocks of 4 KiB, padded: the cheapest durable write. `Os` costs the same as `Sync`.
    /// No block that was written is written again before its segment is recycled.
    #[default]
    Direct,
    /// Through the page cache, fdatasync for `Sync`: for logs that mostly append with `Os`.
    Buffered,
}

/// How to open a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// Size of a segment file in bytes, preallocated: a multiple of 4,096, at least 8,192. A batch that is too large for
    /// it gets a segment of its own size.
    pub segment_bytes: u64,
    /// How many trimmed segments to keep for reuse: space that is written already is the cheapest to write.
    pub recycle_segments_max: usize,
    /// How segments are written.
    pub mode: Mode,
}

impl Default for JournalOptions {
    /// Segments of 16 MiB, two kept for reuse, direct.
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, recycle_segments_max: 2, mode: Mode::Direct }
    }
}

impl JournalOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let block = BLOCK_BYTES as u64;
        if !self.segment_bytes.is_multiple_of(block) || self.segment_bytes < 2 * block || self.segment_bytes > 1 << 40 {
            return Err(Error::invalid(format!(
                "segment_bytes is {}, but must be a multiple of {block} from {} to 1 TiB",
                self.segment_bytes,
                2 * block
            )));
        }
        Ok(())
    }
}

/// Figures of a journal since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Records appended.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Bytes written to segments: frames, padding and segment headers.
    pub written_bytes: u64,
    /// Writes of frames: a group of appends shares one.
    pub writes: u64,
    /// Syncs of segments (none in direct mode but at a new segment).
    pub syncs: u64,
    /// Segments in use.
    pub segments: u64,
    /// Bytes of all segment files, those kept for reuse included.
    pub file_bytes: u64,
}
