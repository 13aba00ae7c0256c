//! The segments as readers see them: a table behind one atomic load, from a position to bytes.
//!
//! Invariants:
//! 1. A segment in the table has its bytes mapped (or, while it is written directly, held in memory), where they stay as they are
//!    below the mapping's committed length; or it is durable and read directly, through a cache of records.
//! 2. A position is given out only after its record is committed, and its segment published before.
//! 3. A dropped segment leaves the table only when everybody is gone who was pinned when it was dropped: whoever found a
//!    position before it was replaced can still read there.
//! 4. Its mapping and its file go when nobody [holds](LogReader::hold) it either. A record that was read directly needs neither.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::io::{Io, IoMode, Mapping};
use biombo_base::prefetch::prefetch;
use biombo_base::published::{Domain, Guard, Published};
use biombo_base::{Error, Result};

use crate::cache::RecordCache;
use crate::direct::{DirectFile, Loaded};
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
    pub(crate) data: Data,
    pub(crate) footer: Footer,
}

/// Where the footer of a segment is.
#[derive(Clone)]
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

/// Where a segment's bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// In a mapping of its file, or in memory.
    Mapped(Arc<Mapping>),
    /// In its file.
    Direct(Arc<DirectFile>),
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

    /// Whether its records are read directly: then only a [`LogReader`] gives them.
    pub fn is_direct(&self) -> bool {
        matches!(self.data, Data::Direct(_))
    }

    /// The record whose header is at `offset`, unverified; `None` when there is none that lies in what is written, or the
    /// segment [is read directly](Self::is_direct).
    #[inline]
    pub fn get(&self, offset: u32) -> Option<&[u8]> {
        record_at(self.in_memory(), offset as usize).map(|(record, _)| record)
    }

    /// Ask for the cache lines of the record's header at `offset` and of its first `bytes`, without waiting for them. Nothing
    /// is done where they are not in memory.
    #[inline]
    pub fn prefetch(&self, offset: u32, bytes: usize) {
        let written = self.in_memory();
        let start = (offset as usize).min(written.len());
        prefetch(&written[start..(start + RECORD_HEADER_BYTES + bytes).min(written.len())]);
    }

    /// What is mapped.
    #[inline]
    fn in_memory(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(data) => data.slice(0, data.committed()).unwrap_or_default(),
            Data::Direct(_) => &[],
        }
    }

    /// The record whose header is at `offset`, if its checksum holds; `None` also as for [`get`](Self::get).
    pub fn verified(&self, offset: u32) -> Option<&[u8]> {
        let (record, crc) = record_at(self.in_memory(), offset as usize)?;
        (record_crc(self.seed, record.len() as u32, &[record]) == crc).then_some(record)
    }
}

/// A record, readable as long as the guard that it was found under.
#[derive(Debug)]
pub enum Found<'g> {
    /// In its segment.
    InSegment(&'g Arc<Segment>, u32, &'g [u8]),
    /// In memory of its own.
    Loaded(Loaded),
}

impl Deref for Found<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::InSegment(_, _, bytes) => bytes,
            Self::Loaded(record) => record,
        }
    }
}

impl PartialEq<[u8]> for Found<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl Found<'_> {
    /// The record for longer than a guard should live. No copy.
    pub fn keep(self) -> Kept {
        Kept(match self {
            Self::InSegment(segment, offset, _) => Keeping::Segment(Arc::clone(segment), offset),
            Self::Loaded(record) => Keeping::Loaded(record),
        })
    }
}

/// A record that is kept: in its segment, or in memory of its own.
#[derive(Debug)]
pub struct Kept(Keeping);

#[derive(Debug)]
enum Keeping {
    Segment(Arc<Segment>, u32),
    Loaded(Loaded),
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Keeping::Segment(segment, offset) => segment.get(*offset).unwrap_or_default(),
            Keeping::Loaded(record) => record,
        }
    }
}

/// Records read ahead of their use, by position: those of segments that are read directly.
#[derive(Debug, Default)]
pub struct Ahead {
    records: Vec<(Position, Loaded)>,
}

impl Ahead {
    /// The record at `at`, if it was read.
    pub fn get(&self, at: Position) -> Option<&[u8]> {
        self.records.binary_search_by_key(&at, |(at, _)| *at).ok().map(|found| &*self.records[found].1)
    }

    /// The same, if its checksum held.
    pub fn verified(&self, at: Position) -> Option<&[u8]> {
        let found = self.records.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        let (_, record) = &self.records[found];
        record.is_sound().then_some(&**record)
    }

    /// Forget all.
    pub fn clear(&mut self) {
        self.records.clear();
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
    /// How sealed segments are read.
    pub io_mode: IoMode,
    /// Records that were read directly.
    pub cache: RecordCache,
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

    /// Whether sealed segments are read directly.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.shared.io_mode == IoMode::Direct
    }

    /// The domain of the guards: what else is published there is covered by the same guard.
    #[inline]
    pub fn domain(&self) -> &Domain {
        self.shared.table.domain()
    }

    /// The bytes of the record at `at`, unverified; `None` when no record was ever given that position, or its segment was
    /// dropped before `guard` was taken. Plain loads where it is in memory; otherwise at most one look at the device, whose
    /// refusal is the error (two, where the record is larger than those before it).
    ///
    /// # Panics
    ///
    /// As all that take one: when `guard` is of another log.
    #[inline]
    pub fn get<'g>(&self, guard: &'g Guard, at: Position) -> Result<Option<Found<'g>>> {
        let Some(segment) = self.segment(guard, at.segment()) else { return Ok(None) };
        match &segment.data {
            Data::Mapped(_) => Ok(segment.get(at.offset()).map(|bytes| Found::InSegment(segment, at.offset(), bytes))),
            Data::Direct(file) => Ok(self.load(file, at)?.map(Found::Loaded)),
        }
    }

    /// The bytes of the record at `at`, whose checksum holds. `Corruption` where it does not, or where no record is; otherwise
    /// as [`get`](Self::get).
    #[inline]
    pub fn read_verified<'g>(&self, guard: &'g Guard, at: Position) -> Result<Found<'g>> {
        let Some(segment) = self.segment(guard, at.segment()) else {
            return Err(self.damaged(at, "a record was to be read here, and this segment does not exist"));
        };
        let found = match &segment.data {
            Data::Mapped(_) => segment.verified(at.offset()).map(|b| Found::InSegment(segment, at.offset(), b)),
            Data::Direct(file) => self.load(file, at)?.filter(Loaded::is_sound).map(Found::Loaded),
        };
        found.ok_or_else(|| self.damaged(at, "the checksum of a record differs"))
    }

    #[cold]
    fn damaged(&self, at: Position, what: &str) -> Error {
        Error::corruption(Name::Segment(at.segment()).path(&self.shared.dir), u64::from(at.offset()), what)
    }

    fn load(&self, file: &DirectFile, at: Position) -> Result<Option<Loaded>> {
        let cache = &self.shared.cache;
        if let Some(record) = cache.get(at) {
            return Ok(Some(Loaded::cached(record)));
        }
        let loaded = file.load(at.offset()).map_err(|e| self.unreadable(at.segment(), e))?;
        if let Some(record) = loaded.as_ref().and_then(Loaded::cacheable) {
            cache.keep(at, record);
        }
        Ok(loaded)
    }

    #[cold]
    fn unreadable(&self, number: SegmentNumber, e: std::io::Error) -> Error {
        Error::io(format_args!("read {}", Name::Segment(number).path(&self.shared.dir).display()), e)
    }

    /// The record whose header is at `offset` of a segment that is [held](Self::hold), dropped or not; it holds that too. Errors
    /// as for [`read_verified`](Self::read_verified).
    pub fn read_of(&self, segment: &Arc<Segment>, offset: u32) -> Result<Kept> {
        let at =
            Position::new(segment.number, offset).ok_or_else(|| Error::invalid("records lie at multiples of 8"))?;
        let found = match &segment.data {
            Data::Mapped(_) => segment.verified(offset).map(|_| Keeping::Segment(Arc::clone(segment), offset)),
            Data::Direct(file) => self.load(file, at)?.filter(Loaded::is_sound).map(Keeping::Loaded),
        };
        found.map(Kept).ok_or_else(|| self.damaged(at, "the checksum of a record differs"))
    }

    /// Read those of these records that are read directly into `ahead`, neighbours in one read, past the cache: for who goes
    /// through many. What cannot be read now is left out.
    pub fn read_ahead(&self, guard: &Guard, positions: impl Iterator<Item = Position>, ahead: &mut Ahead) {
        ahead.clear();
        if !self.is_direct() {
            return;
        }
        let mut wanted: Vec<_> = positions.collect();
        wanted.sort_unstable();
        let mut offsets = Vec::new();
        for of_segment in wanted.chunk_by(|a, b| a.segment() == b.segment()) {
            let number = of_segment[0].segment();
            let Some(Data::Direct(file)) = self.segment(guard, number).map(|segment| &segment.data) else { continue };
            offsets.clear();
            offsets.extend(of_segment.iter().map(|at| at.offset()));
            let mut each = |offset, record: Option<Loaded>| {
                if let (Some(at), Some(record)) = (Position::new(number, offset), record) {
                    ahead.records.push((at, record));
                }
            };
            if file.load_all(&offsets, &mut each).is_err() {
                // Who needs one of them asks for it alone, and is told.
                continue;
            }
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
            Arc::new(Segment {
                number: SegmentNumber(number),
                kind: SegmentKind::Hot,
                mode: Mode::Mapped,
                seed: 0,
                data: Data::Mapped(Arc::clone(&data)),
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
