//! What a caller chooses and sees: options, levels, positions, figures.

use std::fmt;

use biombo_base::io::{BLOCK_BYTES, IoMode};
use biombo_base::{Error, Result};

use crate::SegmentNumber;

/// The number of a record: 1 for the first of a journal's life, one more for each further one, never used twice for
/// records that were acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The first record's.
    pub const FIRST: Self = Self(1);

    /// The position `records` further on.
    pub fn plus(self, records: u64) -> Self {
        Self(self.0.saturating_add(records))
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

/// How segments are written. It belongs to a segment for its life; a change begins a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// `O_DIRECT|O_DSYNC`, whole blocks of 4 KiB, padded: the cheapest durable write. `Os` costs the same as `Sync`.
    /// No block that was written is written again before its segment is recycled.
    #[default]
    Direct,
    /// Through the page cache, fdatasync for `Sync`: for logs that mostly append with `Os`.
    Buffered,
    /// Copied into a mapping: the cheapest `Os` append. `Sync` is an fdatasync, which through a mapping is the dearest.
    Mapped,
}

/// Whether a segment belongs to the log's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Made by appending: its records have lsns of the log.
    Hot,
    /// Written apart and installed: its records are copies, and their lsns count from 1 in each such segment.
    Cold,
}

/// How a log chooses the mode of its next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Modes {
    /// By what appends ask for: mapped for `Os`, buffered for `Sync` (direct, where sealed segments are read directly), with
    /// hysteresis: a few `Sync` appends to a mapped segment are synced through it, and one for `Sync` takes some `Os` appends
    /// in sequence, before it is sealed.
    #[default]
    ByDurability,
    /// Always the same.
    Always(Mode),
}

/// How to open a [`Log`](crate::Log).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file in bytes, preallocated: a multiple of 4,096, from 8,192 to 2 GiB. A batch that is too large
    /// for it gets a segment of its own size.
    pub segment_bytes: u64,
    /// Size of the log's first segment, as `segment_bytes`, no more than which counts. Each further one has twice the size of
    /// the one before, up to `segment_bytes`: what is young reserves little.
    pub first_segment_bytes: u64,
    /// While little is stored segments are no larger than this, as `segment_bytes`, no more than which counts.
    pub small_segment_bytes: u64,
    /// Above that size, segments are no larger than the largest power of two in this part of what is stored: at least 1. What is
    /// reserved, kept for reuse, or too young to be cleaned is counted in segments, and is to be little beside what is stored.
    pub segments_min: u64,
    /// How many dropped segments to keep for reuse: space that is written already is the cheapest to write.
    pub recycle_segments_max: usize,
    /// How segments are written.
    pub modes: Modes,
    /// How many sealed segments may wait for their sync (by a [`Flusher`](crate::Flusher), or by the next synced append)
    /// before sealing one more waits for the oldest. 0: sealing syncs. It bounds what a power cut can take from `Os`
    /// appends, and keeps the kernel from throttling writers.
    pub unsynced_segments_max: usize,
    /// How sealed segments are read once they are durable.
    pub io: IoMode,
    /// The memory of the cache of records, in bytes, where they are read directly.
    pub cache_bytes: u64,
}

impl Default for LogOptions {
    /// Segments of 64 MiB from the first on, two kept for reuse, modes by durability, up to four unsynced, read through mappings.
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            first_segment_bytes: 64 << 20,
            small_segment_bytes: 64 << 20,
            segments_min: 1,
            recycle_segments_max: 2,
            modes: Modes::ByDurability,
            unsynced_segments_max: 4,
            io: IoMode::Mmap,
            cache_bytes: 64 << 20,
        }
    }
}

impl LogOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let block = BLOCK_BYTES as u64;
        let sizes = [
            ("segment_bytes", self.segment_bytes),
            ("first_segment_bytes", self.first_segment_bytes),
            ("small_segment_bytes", self.small_segment_bytes),
        ];
        for (name, bytes) in sizes {
            if !bytes.is_multiple_of(block) || bytes < 2 * block || bytes > 2 << 30 {
                return Err(Error::invalid(format!(
                    "{name} is {bytes}, but must be a multiple of {block} from {} to 2 GiB",
                    2 * block
                )));
            }
        }
        if self.segments_min == 0 {
            return Err(Error::invalid("segments_min is 0, but must be at least 1"));
        }
        Ok(())
    }

    /// The size of the segment with this number, unless one write needs more, of a log whose segments hold `stored_bytes`.
    pub(crate) fn bytes_of(&self, number: SegmentNumber, stored_bytes: u64) -> u64 {
        let doublings = number.0.saturating_sub(1).min(20);
        (self.first_segment_bytes << doublings).min(self.segment_bytes_at(stored_bytes))
    }

    /// The size of the segments of a log that are not its first ones and hold `stored_bytes`.
    #[must_use]
    pub fn segment_bytes_at(&self, stored_bytes: u64) -> u64 {
        let share = (stored_bytes / self.segments_min.max(1)).checked_ilog2().map_or(0, |log2| 1 << log2);
        self.small_segment_bytes.max(share).min(self.segment_bytes)
    }
}

/// What a log tells of one of its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: SegmentNumber,
    /// Whether it is part of the log's order.
    pub kind: SegmentKind,
    /// How it was written.
    pub mode: Mode,
    /// Its first record (counted from 1 in a cold one).
    pub base_lsn: Lsn,
    /// The record after its last.
    pub end_lsn: Lsn,
    /// Where its frames end, in bytes from the start of the file.
    pub data_bytes: u64,
    /// The length of its file.
    pub file_bytes: u64,
    /// Whether it is written no more.
    pub sealed: bool,
    /// Whether all of it is known to be durable.
    pub durable: bool,
    /// The size of its footer, if it has one.
    pub footer_bytes: Option<u32>,
}

/// Figures of a log since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Records appended.
    pub records: u64,
    /// Bytes written for segments: frames, padding, footers, segment headers, edits of the manifest. What goes through the page cache is
    /// counted in whole pages, again after each sync, with the zeros ahead of the writer that a sync writes; cold segments are their owner's.
    pub written_bytes: u64,
    /// Bytes ahead of the writer that hold no record, which the next sync would write.
    pub ahead_bytes: u64,
    /// Writes of frames: batches that are written together share one.
    pub writes: u64,
    /// Syncs of segments.
    pub syncs: u64,
    /// Segments begun.
    pub segments_made: u64,
    /// Bytes of all segment files, those kept for reuse and those that readers still hold included.
    pub file_bytes: u64,
    /// Bytes of records in the cache, where sealed segments are read directly.
    pub cache_bytes: u64,
    /// Records that were found there, and those that were read from the device.
    pub cache_hits: u64,
    /// See `cache_hits`.
    pub cache_misses: u64,
}

/// How to open a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// Size of a segment file in bytes, preallocated: a multiple of 4,096, from 8,192 to 2 GiB. A batch that is too large
    /// for it gets a segment of its own size.
    pub segment_bytes: u64,
    /// How many trimmed segments to keep for reuse: space that is written already is the cheapest to write.
    pub recycle_segments_max: usize,
    /// How segments are written.
    pub modes: Modes,
    /// How many sealed segments may wait for their sync before sealing one more waits for the oldest. 0: sealing syncs.
    pub unsynced_segments_max: usize,
}

impl Default for JournalOptions {
    /// Segments of 16 MiB, two kept for reuse, direct, so that none waits for its sync.
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            recycle_segments_max: 2,
            modes: Modes::Always(Mode::Direct),
            unsynced_segments_max: 0,
        }
    }
}

impl JournalOptions {
    pub(crate) fn log_options(&self) -> LogOptions {
        LogOptions {
            segment_bytes: self.segment_bytes,
            first_segment_bytes: self.segment_bytes,
            small_segment_bytes: self.segment_bytes,
            segments_min: 1,
            recycle_segments_max: self.recycle_segments_max,
            modes: self.modes,
            unsynced_segments_max: self.unsynced_segments_max,
            ..LogOptions::default()
        }
    }
}

/// Figures of a journal since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Records appended.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Bytes written, as [`LogStats::written_bytes`].
    pub written_bytes: u64,
    /// See [`LogStats::ahead_bytes`].
    pub ahead_bytes: u64,
    /// Writes of frames: a group of appends shares one.
    pub writes: u64,
    /// Syncs of segments (none in direct mode but at a new segment).
    pub syncs: u64,
    /// Segments in use.
    pub segments: u64,
    /// Bytes of all segment files, those kept for reuse included.
    pub file_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_with_the_log_and_with_what_it_stores() {
        let (first_segment_bytes, small_segment_bytes) = (1 << 20, 4 << 20);
        let options = LogOptions {
            first_segment_bytes,
            small_segment_bytes,
            segments_min: 32,
            segment_bytes: 24 << 20,
            ..LogOptions::default()
        };
        let young = [1, 2, 3, 4, 90].map(|number| options.bytes_of(SegmentNumber(number), 0) >> 20);
        assert_eq!(young, [1, 2, 4, 4, 4]);
        // MiB stored, MiB of a segment: powers of two until there is no room for the next one.
        for (stored, segment) in
            [(0, 4), (128, 4), (255, 4), (256, 8), (511, 8), (512, 16), (1023, 16), (1024, 24), (1 << 20, 24)]
        {
            assert_eq!(options.segment_bytes_at(stored << 20) >> 20, segment, "{stored} MiB");
        }
        let fixed = LogOptions::default();
        assert_eq!([0, 1 << 40].map(|stored| fixed.segment_bytes_at(stored)), [fixed.segment_bytes; 2]);
        let none = LogOptions { segments_min: 0, ..options };
        assert!(none.check().is_err() && LogOptions { segments_min: 1, ..none }.check().is_ok());
    }
}
