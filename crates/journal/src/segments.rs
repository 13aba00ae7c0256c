//! The segments in use and those kept for reuse: making one, dropping one.
//!
//! Invariants:
//! 1. A file called `.seg` has a durable header that carries the number of its name: a segment is made under another name
//!    (`.new`, or the `.free` of a former life), its header is synced, then it is renamed and the directory is synced
//!    before the first frame is written.
//! 2. Segments are dropped in ascending order, each drop durable before the next: what is left is always a chain without
//!    gaps. The last segment is never dropped: it carries the position.
//! 3. A dropped segment's file is written again only after its new name is durable, so no `.seg` ever shows the header of
//!    another life.
//!
//! After a crash while making a segment: `.new` is removed on opening; a `.free` with a new header stays free; a `.seg`
//! without frames is an empty end. While dropping: the segment is there or it is not.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{File, Io, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use crate::format::SegmentHeader;
use crate::names::Name;
use crate::recovery::{Listing, Segment};
use crate::{JournalOptions, Lsn, Mode};

pub(crate) struct Segments {
    io: Arc<dyn Io>,
    dir: PathBuf,
    options: JournalOptions,
    /// In use, ascending.
    used: VecDeque<Segment>,
    free: Vec<u64>,
}

/// Why a segment could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no room; nothing that counts was changed.
    Full(Error),
    /// What is on the disk is not known any more.
    Fatal(Error),
}

impl Failure {
    /// An error after which the disk's content is unknown. `Full` would say that nothing was changed, so it is not kept.
    pub fn fatal(error: Error) -> Self {
        Self::Fatal(unknown(error))
    }
}

/// See [`Failure::fatal`].
pub(crate) fn unknown(error: Error) -> Error {
    if error.kind() == ErrorKind::Full { Error::new(ErrorKind::Io, error.to_string()) } else { error }
}

impl Segments {
    /// With what opening found. Left-overs of unfinished work are removed.
    pub fn new(
        io: Arc<dyn Io>,
        dir: PathBuf,
        options: JournalOptions,
        listing: &Listing,
        used: Vec<Segment>,
    ) -> Result<Self> {
        let remove = |name: Name| {
            let path = name.path(&dir);
            io.remove_file(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))
        };
        for &number in &listing.new {
            remove(Name::New(number))?;
        }
        let mut free = Vec::new();
        for &number in &listing.free {
            let path = Name::Free(number).path(&dir);
            let file = io.open(&path, OpenMode::READ).and_then(|file| file.len());
            let bytes = file.map_err(|e| Error::io(format_args!("open {}", path.display()), e))?;
            if bytes == options.segment_bytes && free.len() < options.recycle_segments_max {
                free.push(number);
            } else {
                remove(Name::Free(number))?;
            }
        }
        Ok(Self { io, dir, options, used: used.into(), free })
    }

    pub fn count(&self) -> usize {
        self.used.len()
    }

    pub fn file_bytes(&self) -> u64 {
        self.used.iter().map(|segment| segment.file_bytes).sum::<u64>()
            + self.free.len() as u64 * self.options.segment_bytes
    }

    pub fn first_lsn(&self) -> Option<Lsn> {
        self.used.front().map(|segment| segment.base_lsn)
    }

    /// Make the next segment, large enough for a first write of `frame_bytes`; durable when it returns.
    pub fn make(&mut self, base_lsn: Lsn, frame_bytes: usize) -> Result<(SegmentHeader, Arc<dyn File>), Failure> {
        let number = self.used.back().map_or(1, |last| last.number + 1);
        let needed =
            (crate::format::SEGMENT_HEADER_BYTES + frame_bytes).next_multiple_of(biombo_base::io::BLOCK_BYTES) as u64;
        let capacity_bytes = self.options.segment_bytes.max(needed);
        let mode = self.options.mode;
        let header = SegmentHeader { id: self.io.random_u64(), number, base_lsn, capacity_bytes, mode };

        let recycled = if capacity_bytes == self.options.segment_bytes { self.free.last().copied() } else { None };
        let from = recycled.map_or(Name::New(number), Name::Free).path(&self.dir);
        let made = self.prepare(&from, recycled.is_some(), &header);
        let file = made.inspect_err(|_| {
            // A recycled file stays free; a new one goes, now or when the journal is opened again.
            if recycled.is_none() {
                let _ = self.io.remove_file(&from);
            }
        })?;
        let to = Name::Segment(number).path(&self.dir);
        self.io
            .rename(&from, &to)
            .and_then(|()| self.io.sync_dir(&self.dir))
            .map_err(|e| Failure::fatal(Error::io(format_args!("name {}", to.display()), e)))?;
        if recycled.is_some() {
            self.free.pop();
        }
        self.used.push_back(Segment { number, base_lsn, file_bytes: capacity_bytes });
        Ok((header, file))
    }

    /// A file with the room and a durable header, not yet part of the journal.
    fn prepare(&self, path: &Path, recycled: bool, header: &SegmentHeader) -> Result<Arc<dyn File>, Failure> {
        let mode =
            OpenMode { create: !recycled, exclusive: false, write: true, direct_sync: header.mode == Mode::Direct };
        // Nothing refers to this file yet, so no room in it is no harm to the journal.
        let failed = |doing: &str, e: std::io::Error| {
            let error = Error::io(format_args!("{doing} {}", path.display()), e);
            if error.kind() == ErrorKind::Full { Failure::Full(error) } else { Failure::Fatal(error) }
        };
        let file = self.io.open(path, mode).map_err(|e| failed("create", e))?;
        file.allocate(header.capacity_bytes).map_err(|e| failed("reserve the room of", e))?;
        file.write_at(&header.encode(), 0).map_err(|e| failed("write the header of", e))?;
        file.sync().map_err(|e| Failure::fatal(Error::io(format_args!("sync {}", path.display()), e)))?;
        Ok(file)
    }

    /// Give back the room behind `end` of the last segment but one, which recovery closed: it is not written again.
    pub fn shorten_before_last(&mut self, end: u64) {
        let Some(index) = self.used.len().checked_sub(2) else { return };
        let segment = &mut self.used[index];
        let end = end.next_multiple_of(biombo_base::io::BLOCK_BYTES as u64);
        if end >= segment.file_bytes {
            return;
        }
        // Only room is at stake: a failure leaves the file as long as it was.
        let path = Name::Segment(segment.number).path(&self.dir);
        let mode = OpenMode { write: true, ..OpenMode::READ };
        if self.io.open(&path, mode).and_then(|file| file.set_len(end)).is_ok() {
            segment.file_bytes = end;
        }
    }

    /// Drop the segments whose records are all before `before`.
    pub fn trim(&mut self, before: Lsn) -> Result<(), Failure> {
        while let (Some(first), Some(second)) = (self.used.front().copied(), self.used.get(1))
            && second.base_lsn <= before
        {
            let path = Name::Segment(first.number).path(&self.dir);
            let recycle =
                first.file_bytes == self.options.segment_bytes && self.free.len() < self.options.recycle_segments_max;
            let dropped = if recycle {
                self.io.rename(&path, &Name::Free(first.number).path(&self.dir))
            } else {
                self.io.remove_file(&path)
            };
            dropped
                .and_then(|()| self.io.sync_dir(&self.dir))
                .map_err(|e| Failure::fatal(Error::io(format_args!("drop {}", path.display()), e)))?;
            self.used.pop_front();
            if recycle {
                self.free.push(first.number);
            }
        }
        Ok(())
    }
}
