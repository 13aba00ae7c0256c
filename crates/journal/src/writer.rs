//! The active segment: writes groups into it, and goes on in the next one when it is full.
//!
//! Invariants:
//! 1. A write begins behind the end of the one before, at a block of the segment's: no acknowledged byte is written again.
//!    (Buffered: the kernel writes whole pages, but always with the same acknowledged bytes in them.)
//! 2. A segment is durable to its end before the header of the next one is written.
//! 3. After a failed write or sync this writer is not used again.

use std::sync::{Arc, Mutex, PoisonError};

use biombo_base::Error;
use biombo_base::io::File;

use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::group::Group;
use crate::segments::{Failure, Segments, unknown};
use crate::{Lsn, Mode};

struct Active {
    header: SegmentHeader,
    file: Arc<dyn File>,
    /// Where the next write goes.
    offset: u64,
}

pub(crate) struct Writer {
    active: Option<Active>,
    /// The end of the good frames of the segment that recovery closed, until a new one follows it.
    recovered_end: Option<u64>,
    /// All records before it are in the kernel's hands.
    pub written_lsn: Lsn,
    /// All records before it are on the device.
    pub durable_lsn: Lsn,
    pub written_bytes: u64,
    pub writes: u64,
    pub syncs: u64,
}

impl Writer {
    /// Behind the recovered record before `next_lsn`, with all before it durable.
    pub fn new(next_lsn: Lsn, recovered_end: Option<u64>) -> Self {
        Self {
            active: None,
            recovered_end,
            written_lsn: next_lsn,
            durable_lsn: next_lsn,
            written_bytes: 0,
            writes: 0,
            syncs: 0,
        }
    }

    /// Write all frames of `group`, which it takes out as they are written: when it fails with `Full`, those left were not
    /// written at all.
    pub fn write(&mut self, group: &mut Group, segments: &Mutex<Segments>) -> Result<(), Failure> {
        while let Some(first) = group.frames.first().copied() {
            let room = self.room();
            // As many frames as fit; at least one goes into a new segment, which is made large enough for it.
            let mut count = group.frames.partition_point(|frame| self.padded(frame.end()) <= room);
            if count == 0 {
                self.roll(first.header.first_lsn, first.end(), segments)?;
                let room = self.room();
                count = group.frames.partition_point(|frame| self.padded(frame.end()) <= room).max(1);
            }
            self.write_front(group, count).map_err(Failure::fatal)?;
        }
        Ok(())
    }

    fn write_front(&mut self, group: &mut Group, count: usize) -> Result<(), Error> {
        let active = self.active.as_mut().expect("invariant: a segment with room was made");
        let last = group.frames[count - 1];
        group.seal(count, active.header.id, self.durable_lsn);
        let padded = last.end().next_multiple_of(active.header.block_bytes());
        if count == group.frames.len() {
            group.buf.resize(padded);
            write(active, &group.buf)?;
        } else {
            // The rest goes to the next segment. What follows is not ours to write here: pad in a copy of the last block.
            let block = active.header.block_bytes();
            let whole = last.end() / block * block;
            write(active, &group.buf[..whole])?;
            if whole < last.end() {
                let mut tail = biombo_base::io::AlignedBuf::with_capacity(block);
                tail.extend_from_slice(&group.buf[whole..last.end()]);
                tail.pad_to(block);
                write(active, &tail)?;
            }
        }
        self.writes += 1;
        self.written_bytes += padded as u64;
        self.written_lsn = last.header.end_lsn();
        if active.header.mode == Mode::Direct {
            self.durable_lsn = self.written_lsn;
        }
        group.remove_front(count);
        Ok(())
    }

    /// Make everything written durable.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.durable_lsn < self.written_lsn {
            let active = self.active.as_ref().expect("invariant: something was written");
            active.file.sync().map_err(|e| unknown(Error::io("sync the journal", e)))?;
            self.syncs += 1;
            self.durable_lsn = self.written_lsn;
        }
        Ok(())
    }

    /// Before closing: a last frame that says that all before it is durable, so that damage to what is the end now is not
    /// taken for a torn tail later. Left out where there is no room for it.
    pub fn close(&mut self) -> Result<(), Error> {
        self.sync()?;
        let mut group = Group::default();
        group.push(0, self.written_lsn, &[], 0, 0);
        if self.active.is_some() && self.padded(group.buf.len()) <= self.room() {
            self.write_front(&mut group, 1)?;
            let active = self.active.as_ref().expect("invariant: checked above");
            if active.header.mode == Mode::Buffered {
                active.file.sync().map_err(|e| Error::io("sync the journal", e))?;
            }
        }
        Ok(())
    }

    fn roll(&mut self, base_lsn: Lsn, frame_bytes: usize, segments: &Mutex<Segments>) -> Result<(), Failure> {
        self.sync().map_err(Failure::fatal)?;
        let mut segments = segments.lock().unwrap_or_else(PoisonError::into_inner);
        let (header, file) = segments.make(base_lsn, frame_bytes)?;
        if let Some(end) = self.recovered_end.take() {
            segments.shorten_before_last(end);
        }
        self.syncs += 1;
        self.written_bytes += SEGMENT_HEADER_BYTES as u64;
        self.active = Some(Active { header, file, offset: SEGMENT_HEADER_BYTES as u64 });
        Ok(())
    }

    fn room(&self) -> usize {
        self.active.as_ref().map_or(0, |active| (active.header.capacity_bytes.saturating_sub(active.offset)) as usize)
    }

    fn padded(&self, bytes: usize) -> usize {
        self.active.as_ref().map_or(bytes, |active| bytes.next_multiple_of(active.header.block_bytes()))
    }
}

fn write(active: &mut Active, bytes: &[u8]) -> Result<(), Error> {
    active
        .file
        .write_at(bytes, active.offset)
        .map_err(|e| Error::io(format_args!("write segment {} of the journal", active.header.number), e))?;
    active.offset += bytes.len() as u64;
    Ok(())
}
