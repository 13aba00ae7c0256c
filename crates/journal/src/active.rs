//! The segment that is written: batches go behind each other into it.
//!
//! Invariants:
//! 1. A write begins behind the end of the one before, at a block of the segment's: no acknowledged byte is written again.
//!    (Buffered and mapped: the kernel writes whole pages, but always with the same acknowledged bytes in them.)
//! 2. Readers see a batch only when it is in the kernel's hands: a mapped one when it is copied, others after their write.

use std::sync::Arc;

use biombo_base::io::{AlignedBuf, BLOCK_BYTES, File, Mapping, MappingWriter};
use biombo_base::{Error, Result};

use crate::ahead::Ahead;
use crate::failure::unknown;
use crate::format::{FLAG_LAST_OF_WRITE, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::frame::{Batch, encode_frame};
use crate::supply::Made;
use crate::table::{Data, Footer, Segment};
use crate::{Lsn, Mode, Position};

/// How far a fresh segment that is not mapped is filled with zeros ahead of small writes, in bytes. The first synced write to room that was
/// only reserved makes the file system note durably that it is in use, which costs as much as the write; so that is done for many
/// writes at once, for as much as was written before, between these bounds.
const FILL_BYTES_MIN: u64 = 16 << 10;
const FILL_BYTES_MAX: u64 = 256 << 10;

/// Where a batch is laid out.
enum Sink {
    /// In the file's mapping, or in memory that readers see until the file is mapped.
    Memory(MappingWriter),
    /// In a buffer: nobody reads.
    Scratch(AlignedBuf),
}

pub(crate) struct Active {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    seed: u32,
    sink: Sink,
    /// Where the next write goes.
    offset: u64,
    /// The room ahead (mapped only).
    pub ahead: Option<Arc<Ahead>>,
    /// Whether the file had a former life: its room is in use, and for small writes not in memory (not mapped only).
    is_recycled: bool,
    /// To here the room is in use, and in memory (not mapped only).
    filled: u64,
    /// Where the next write went at the last sync, and how far zeros were written since (0: none; not mapped only).
    synced: u64,
    touched: u64,
    /// Zeros that were written directly and that nobody has counted, in bytes.
    zeros_bytes: u64,
}

/// Bytes of pages that wait for a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Dirty {
    /// Of those that have records.
    pub records: u64,
    /// Of those ahead of the writer, which have none.
    pub ahead: u64,
}

impl Active {
    /// Begin to write a segment; `readable` gives what readers see of it.
    pub fn begin(made: Made, readable: bool) -> Result<(Self, Option<Arc<Segment>>)> {
        let Made { header, file, mapping, is_recycled, ahead } = made;
        let start = SEGMENT_HEADER_BYTES as u64;
        let failed = |e| unknown(Error::io(format_args!("map segment {}", header.number), e));
        let memory = match mapping {
            Some(mapping) => Some(mapping),
            None if readable => {
                let mut memory = Mapping::anonymous(header.capacity_bytes).map_err(failed)?;
                let alone = Arc::get_mut(&mut memory).expect("invariant: it was just made");
                alone.reset(start).map_err(failed)?;
                Some(memory)
            }
            None => None,
        };
        let sink = match &memory {
            Some(memory) => Sink::Memory(memory.writer().expect("invariant: nobody else writes to it")),
            None => Sink::Scratch(AlignedBuf::new()),
        };
        let seed = header.seed();
        let segment = memory.filter(|_| readable).map(|data| {
            let SegmentHeader { number, kind, mode, .. } = header;
            Arc::new(Segment { number, kind, mode, seed, data: Data::Mapped(data), footer: Footer::At(None) })
        });
        let filled = if is_recycled && header.mode == Mode::Direct { header.capacity_bytes } else { start };
        let (offset, synced, touched, zeros_bytes) = (start, start, 0, 0);
        let active =
            Self { header, file, seed, sink, offset, ahead, is_recycled, filled, synced, touched, zeros_bytes };
        Ok((active, segment))
    }

    /// What a sync would write. The kernel writes whole pages: one that was written in part when it was synced is written again.
    pub fn dirty(&self) -> Dirty {
        if self.header.mode == Mode::Direct {
            return Dirty::default();
        }
        let page = BLOCK_BYTES as u64;
        let from = self.synced / page * page;
        let end = if self.has_new() { self.offset.next_multiple_of(page) } else { from };
        let touched = self.ahead.as_ref().map_or(self.touched, |ahead| ahead.touched());
        Dirty { records: end - from, ahead: touched.saturating_sub(end) }
    }

    /// Whether anything was written since the last sync.
    pub fn has_new(&self) -> bool {
        self.offset > self.synced
    }

    /// All of that is written.
    pub fn clean(&mut self) {
        (self.synced, self.touched) = (self.offset, 0);
        if let Some(ahead) = &self.ahead {
            ahead.again();
        }
    }

    /// Bytes of zeros that were written directly since this was asked.
    pub fn take_zeros(&mut self) -> u64 {
        std::mem::take(&mut self.zeros_bytes)
    }

    /// Where the next write goes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that fit.
    pub fn room(&self) -> usize {
        self.header.capacity_bytes.saturating_sub(self.offset) as usize
    }

    /// What a write of `bytes` takes.
    pub fn padded(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.header.block_bytes())
    }

    /// Write batches as one frame each, in one write of whole blocks (direct, buffered) or by copying them into the mapping.
    /// They must fit. Gives the position of each record, and returns the bytes written.
    pub fn write<B: Batch>(
        &mut self,
        batches: &[B],
        first_lsn: Lsn,
        durable_lsn: Lsn,
        at: &mut impl FnMut(Position),
    ) -> Result<usize> {
        let bytes = batches.iter().map(Batch::frame_bytes).sum();
        let padded = self.padded(bytes);
        match self.header.mode {
            Mode::Mapped => self.reach(padded as u64),
            Mode::Direct | Mode::Buffered => self.fill(padded as u64)?,
        }
        let Self { header, file, seed, sink, offset, .. } = self;
        let into = match sink {
            Sink::Memory(writer) => writer.tail(padded).expect("invariant: the batch fits"),
            Sink::Scratch(buf) => {
                buf.resize(padded);
                &mut buf[..]
            }
        };
        let (mut start, mut lsn) = (0, first_lsn);
        for (i, batch) in batches.iter().enumerate() {
            let end = start + batch.frame_bytes();
            let flags = if i + 1 == batches.len() { FLAG_LAST_OF_WRITE } else { 0 };
            let base = *offset + start as u64;
            let mut place = |inside: usize| {
                let place = u32::try_from(base + inside as u64).ok().and_then(|at| Position::new(header.number, at));
                at(place.expect("invariant: a segment is smaller than 4 GiB and its records are aligned"));
            };
            encode_frame(&mut into[start..end], batch, *seed, flags, lsn, durable_lsn, &mut place);
            lsn = lsn.plus(batch.count() as u64);
            start = end;
        }
        into[start..].fill(0);
        let failed = |e| unknown(Error::io(format_args!("write segment {}", header.number), e));
        if header.mode != Mode::Mapped {
            file.write_at(into, *offset).map_err(failed)?;
        }
        if let Sink::Memory(writer) = sink {
            writer.commit(padded).map_err(failed)?;
        }
        *offset += padded as u64;
        Ok(padded)
    }

    /// Write zeros where small writes will go. Nothing is recorded there before or after, whatever of them a crash leaves out.
    #[inline]
    fn fill(&mut self, bytes: u64) -> Result<()> {
        let end = self.offset + bytes;
        if end <= self.filled {
            return Ok(());
        }
        if self.is_recycled {
            return self.bring_in(end);
        }
        let more = (self.offset - SEGMENT_HEADER_BYTES as u64).clamp(FILL_BYTES_MIN, FILL_BYTES_MAX);
        let to = (end + more).min(self.header.capacity_bytes) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        // A large write is its own filling.
        self.filled = if bytes * 4 > more || to <= end { end } else { self.fill_to(to)? };
        Ok(())
    }

    /// A write to `end` comes into a page that is not in memory, and would wait for it to be read if it changed a part of it only: so the page
    /// is made zeros before. It is written with the record at the next sync whatever is in it.
    fn bring_in(&mut self, end: u64) -> Result<()> {
        let page = BLOCK_BYTES as u64;
        let (from, to) = (end / page * page, end.next_multiple_of(page).min(self.header.capacity_bytes));
        if from < end {
            let zeros = AlignedBuf::zeroed((to - from) as usize);
            let written = self.file.write_at(&zeros, from);
            written.map_err(|e| unknown(Error::io(format_args!("write segment {}", self.header.number), e)))?;
        }
        self.filled = to;
        Ok(())
    }

    fn fill_to(&mut self, to: u64) -> Result<u64> {
        let zeros = AlignedBuf::zeroed((to - self.filled) as usize);
        let written = self.file.write_blocks_at(&zeros, self.filled);
        written.map_err(|e| unknown(Error::io(format_args!("write segment {}", self.header.number), e)))?;
        match self.header.mode {
            Mode::Direct => self.zeros_bytes += to - self.filled,
            Mode::Buffered | Mode::Mapped => self.touched = to,
        }
        Ok(to)
    }

    #[inline]
    fn reach(&self, bytes: u64) {
        if let Some(ahead) = &self.ahead {
            ahead.reach(self.offset + bytes);
        }
    }

    /// What it is written through, if it is the file's.
    pub fn mapping(&self) -> Option<&Arc<Mapping>> {
        match &self.sink {
            Sink::Memory(writer) => Some(writer.mapping()),
            Sink::Scratch(_) => None,
        }
    }

    /// Nothing is done to the room ahead any more.
    pub fn close_ahead(&self) {
        if let Some(ahead) = &self.ahead {
            ahead.close();
        }
    }

    /// Make everything written durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| unknown(Error::io(format_args!("sync segment {}", self.header.number), e)))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.close_ahead();
    }
}
