//! The segments as readers see them: a table behind one atomic load, from a position to bytes.
//!
//! Invariants:
//! 1. A segment in the table has its bytes mapped (or, while it is written directly, held in memory); they stay as they are
//!    below the mapping's committed length.
//! 2. A position is given out only after its record is committed, and its segment published before.
//! 3. A dropped segment leaves the table only when everybody is gone who was pinned when it was dropped: whoever found a
//!    position before it was replaced can still read there.
//! 4. Its mapping and its file go when nobody [holds](LogReader::hold) it either.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::io::{Io, Mapping};
use biombo_base::prefetch::prefetch;
use biombo_base::published::{Domain, Guard, Published};
use biombo_base::{Error, Result};

use crate::footer::read_footer;
use crate::format::{RECORD_HEADER_BYTES, record_at, record_crc};
use crate::manifest::FooterAt;
use crate::names::Name;
use crate::sealing::Sealing;
use crate::{Mode, Position, SegmentKind, SegmentNumber};

/// A segment that can be read. Holding it keeps its file and its mapping.
#[derive(Debug)]
pub struct Segment {
    pub(crate) number: SegmentNumber,
    pub(crate) kind: SegmentKind,
    pub(crate) mode: Mode,
    pub(crate) seed: u32,
    pub(crate) data: Arc<Mapping>,
    pub(crate) footer: Footer,
}

/// Where the footer of a segment is.
pub(crate) enum Footer {
    /// Known when it was opened.
    At(Option<FooterAt>),
    /// Written on demand.
    Of(Arc<Sealing>),
}

impl std::fmt::Debug for Footer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(at) => at.fmt(f),
            Self::Of(sealing) => sealing.seal().footer.fmt(f),
        }
    }
}

impl Segment {
    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.number
    }

    /// Whether it is part of the log's order.
    pub fn kind(&self) -> SegmentKind {
        self.kind
    }

    /// How it was written.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The record whose header is at `offset`, unverified; `None` when there is none that lies in what is written.
    #[inline]
    pub fn get(&self, offset: u32) -> Option<&[u8]> {
        record_at(self.written(), offset as usize).map(|(record, _)| record)
    }

    /// Ask for the cache lines of the record's header at `offset` and of its first `bytes`, without waiting for them.
    #[inline]
    pub fn prefetch(&self, offset: u32, bytes: usize) {
        let written = self.written();
        let start = (offset as usize).min(written.len());
        prefetch(&written[start..(start + RECORD_HEADER_BYTES + bytes).min(written.len())]);
    }

    #[inline]
    pub(crate) fn written(&self) -> &[u8] {
        self.data.slice(0, self.data.committed()).unwrap_or_default()
    }

    /// The record whose header is at `offset`, if its checksum holds.
    pub fn verified(&self, offset: u32) -> Option<&[u8]> {
        let (record, crc) = record_at(self.written(), offset as usize)?;
        (record_crc(self.seed, record.len() as u32, &[record]) == crc).then_some(record)
    }
}

/// All segments at one time: a hash table with linear probing. Numbers are given in sequence, so their low bits spread
/// well.
pub(crate) struct Table {
    slots: Box<[Option<Arc<Segment>>]>,
}

impl Table {
    pub fn new(segments: impl ExactSizeIterator<Item = Arc<Segment>>) -> Self {
        let mut slots: Box<[Option<Arc<Segment>>]> = vec![None; (2 * segments.len() + 1).next_power_of_two()].into();
        let mask = slots.len() - 1;
        for segment in segments {
            let mut at = segment.number.0 as usize & mask;
            while slots[at].is_some() {
                at = (at + 1) & mask;
            }
            slots[at] = Some(segment);
        }
        Self { slots }
    }

    #[inline]
    pub fn find(&self, number: SegmentNumber) -> Option<&Arc<Segment>> {
        let mask = self.slots.len() - 1;
        let mut at = number.0 as usize & mask;
        // At least half of the slots are empty, so this ends.
        loop {
            let segment = self.slots[at].as_ref()?;
            if segment.number == number {
                return Some(segment);
            }
            at = (at + 1) & mask;
        }
    }
}

/// What the log and its readers share.
pub(crate) struct Shared {
    pub io: Arc<dyn Io>,
    pub dir: PathBuf,
    pub table: Published<Table>,
}

/// Reads records by their position, from any thread and without a lock, while the log goes on. Clones are cheap.
#[derive(Clone)]
pub struct LogReader {
    pub(crate) shared: Arc<Shared>,
}

impl LogReader {
    /// A guard for reads. What was found under it stays readable as long as it lives, dropped segments too; so take it
    /// before looking for a position, and let it go soon. Some nanoseconds.
    #[inline]
    pub fn pin(&self) -> Guard {
        self.domain().pin()
    }

    /// The domain of the guards: what else is published there is covered by the same guard.
    #[inline]
    pub fn domain(&self) -> &Domain {
        self.shared.table.domain()
    }

    /// The bytes of the record at `at`, unverified; `None` when no record was ever given that position, or its segment was
    /// dropped before `guard` was taken. Plain loads.
    ///
    /// # Panics
    ///
    /// As all that take one: when `guard` is of another log.
    #[inline]
    pub fn get<'g>(&self, guard: &'g Guard, at: Position) -> Option<&'g [u8]> {
        self.segment(guard, at.segment())?.get(at.offset())
    }

    /// The bytes of the record at `at`, whose checksum holds. `Corruption` where it does not, or where no record is.
    pub fn read_verified<'g>(&self, guard: &'g Guard, at: Position) -> Result<&'g [u8]> {
        let damaged = |what| {
            let path = Name::Segment(at.segment()).path(&self.shared.dir);
            Err(Error::corruption(path, u64::from(at.offset()), what))
        };
        let Some(segment) = self.segment(guard, at.segment()) else {
            return damaged("a record was to be read here, and this segment does not exist");
        };
        match segment.verified(at.offset()) {
            Some(record) => Ok(record),
            None => damaged("the checksum of a record differs"),
        }
    }

    /// Ask for the cache lines of the record's header and of its first `bytes`, without waiting for them.
    #[inline]
    pub fn prefetch(&self, guard: &Guard, at: Position, bytes: usize) {
        if let Some(segment) = self.segment(guard, at.segment()) {
            segment.prefetch(at.offset(), bytes);
        }
    }

    /// Keep the segment of `at`, for longer than a guard should live; `None` as for [`get`](Self::get).
    pub fn hold(&self, guard: &Guard, at: Position) -> Option<Arc<Segment>> {
        self.segment(guard, at.segment()).cloned()
    }

    /// The footer that was written when `number` was sealed; `None` when it has none or does not exist. `Corruption` when
    /// its checksum differs. Read from the file.
    pub fn footer(&self, number: SegmentNumber) -> Result<Option<Vec<u8>>> {
        let guard = self.pin();
        let Some(segment) = self.segment(&guard, number) else { return Ok(None) };
        let (seed, at) = match &segment.footer {
            Footer::At(at) => (segment.seed, *at),
            Footer::Of(sealing) => (segment.seed, sealing.finish()?.footer),
        };
        let Some(at) = at else { return Ok(None) };
        read_footer(&*self.shared.io, &Name::Segment(number).path(&self.shared.dir), seed, at).map(Some)
    }

    #[inline]
    fn segment<'g>(&self, guard: &'g Guard, number: SegmentNumber) -> Option<&'g Arc<Segment>> {
        self.shared.table.load(guard).find(number)
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_each_segment_and_no_other() {
        let data = Mapping::anonymous(4096).unwrap();
        let segment = |number| {
            let (number, data) = (SegmentNumber(number), Arc::clone(&data));
            Arc::new(Segment {
                number,
                kind: SegmentKind::Hot,
                mode: Mode::Mapped,
                seed: 0,
                data,
                footer: Footer::At(None),
            })
        };
        // Numbers that collide on purpose among them.
        let numbers: Vec<u32> = (0..50).map(|i| i * i * 64 + i % 3).collect();
        let table = Table::new(numbers.iter().map(|number| segment(*number)));
        for number in 0..200_000 {
            let found = table.find(SegmentNumber(number)).map(|segment| segment.number.0);
            assert_eq!(found, numbers.contains(&number).then_some(number));
        }
        assert!(Table::new([].into_iter()).find(SegmentNumber(0)).is_none());
    }
}
