//! All records of a sealed segment, in order and verified: for who moves them.
//!
//! A segment that is read directly comes in large pieces, past the cache; one that is mapped is asked for ahead.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::io::{Advice, AlignedBuf, BLOCK_BYTES};
use biombo_base::{Error, Result};

use crate::format::{
    ALIGN_BYTES, FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES,
    record_at, record_bytes, record_crc,
};
use crate::names::Name;
use crate::table::{Data, LogReader, Segment};
use crate::{Mode, Position, SegmentNumber};

/// Bytes that are read or asked for at once; a larger frame is read whole.
const PIECE_BYTES: usize = 1 << 20;

/// A walk over the records of one segment, which it holds; from [`LogReader::walk`].
#[derive(Debug)]
pub struct Walk {
    segment: Arc<Segment>,
    path: PathBuf,
    /// The next record of the frame, and where that ends.
    at: usize,
    frame_end: usize,
    next_frame: usize,
    /// What was read of a segment that is read directly, and where it begins.
    piece: AlignedBuf,
    piece_start: usize,
    piece_bytes: usize,
    /// How far a mapping was asked for.
    asked: usize,
}

impl LogReader {
    /// Begin a walk over the records of a sealed segment; `None` when it does not exist.
    pub fn walk(&self, number: SegmentNumber) -> Option<Walk> {
        let guard = self.pin();
        let segment = self.hold(&guard, Position::new(number, 0)?)?;
        let path = Name::Segment(number).path(&self.shared.dir);
        let start = SEGMENT_HEADER_BYTES;
        let piece = AlignedBuf::new();
        let (piece_start, piece_bytes, asked) = (0, 0, 0);
        Some(Walk {
            segment,
            path,
            at: start,
            frame_end: start,
            next_frame: start,
            piece,
            piece_start,
            piece_bytes,
            asked,
        })
    }
}

impl Walk {
    /// The next record, or `None` behind the last one. `Corruption` where a frame or a record is damaged: the walk ends there.
    pub fn next_record(&mut self) -> Result<Option<(Position, &[u8])>> {
        while self.at >= self.frame_end {
            if self.next_frame as u64 >= self.data_bytes() {
                return Ok(None);
            }
            self.enter_frame()?;
        }
        let at = self.at;
        // Entering the frame has seen where each of its records ends.
        let (bytes, start) = self.present();
        let Some((record, crc)) = record_at(bytes, at - start) else {
            return Err(self.damage(at, "a record does not lie in its segment"));
        };
        if record_crc(self.segment.seed, record.len() as u32, &[record]) != crc {
            return Err(self.damage(at, "the checksum of a record differs"));
        }
        self.at = at + record_bytes(record.len());
        let offset = u32::try_from(at).ok().and_then(|at| Position::new(self.segment.number, at));
        let offset = offset.expect("invariant: records are aligned and a segment is smaller than 4 GiB");
        let (bytes, start) = self.present();
        let record = record_at(bytes, at - start).map_or(&[][..], |(record, _)| record);
        Ok(Some((offset, record)))
    }

    fn data_bytes(&self) -> u64 {
        match &self.segment.data {
            Data::Mapped(data) => data.committed(),
            Data::Direct(file) => file.data_bytes(),
        }
    }

    /// The bytes that are there, and where they begin.
    fn present(&self) -> (&[u8], usize) {
        match &self.segment.data {
            Data::Mapped(data) => (data.slice(0, data.committed()).unwrap_or_default(), 0),
            Data::Direct(_) => (&self.piece[..self.piece_bytes], self.piece_start),
        }
    }

    /// Let `bytes` from `at` on be present, as far as the segment has them.
    fn fetch(&mut self, at: usize, bytes: usize) -> Result<()> {
        match &self.segment.data {
            Data::Mapped(data) => {
                if at + bytes > self.asked {
                    let more = bytes.max(PIECE_BYTES);
                    self.asked = at + more;
                    // Only time is at stake.
                    let _ = data.advise(at as u64, more as u64, Advice::WillNeed);
                }
                Ok(())
            }
            Data::Direct(file) => {
                if at < self.piece_start || at + bytes > self.piece_start + self.piece_bytes {
                    self.piece_start = at / BLOCK_BYTES * BLOCK_BYTES;
                    let wanted = (at - self.piece_start + bytes).max(PIECE_BYTES);
                    self.piece_bytes = 0;
                    let got = file.read(&mut self.piece, self.piece_start as u64, wanted);
                    self.piece_bytes = got.map_err(|e| Error::io(format_args!("read {}", self.path.display()), e))?;
                }
                Ok(())
            }
        }
    }

    fn enter_frame(&mut self) -> Result<()> {
        let at = self.next_frame;
        self.fetch(at, FRAME_HEADER_BYTES)?;
        let (bytes, start) = self.present();
        let header = bytes.get(at - start..).and_then(|bytes| FrameHeader::decode(self.segment.seed, bytes));
        let Some(header) = header.filter(|header| !header.is_footer()) else {
            return Err(self.damage(at, "the header of a frame is damaged"));
        };
        self.at = at + FRAME_HEADER_BYTES;
        self.frame_end = self.at + header.payload_bytes as usize;
        let block = match self.segment.mode {
            Mode::Direct => BLOCK_BYTES,
            Mode::Buffered | Mode::Mapped => ALIGN_BYTES,
        };
        let is_last = header.flags & FLAG_LAST_OF_WRITE != 0;
        self.next_frame = if is_last { self.frame_end.next_multiple_of(block) } else { self.frame_end };
        self.fetch(at, FRAME_HEADER_BYTES + header.payload_bytes as usize)?;
        // The lengths of the records lead from one to the next: they must be those that were written.
        let (bytes, start) = self.present();
        let (mut next, mut crc) = (self.at, 0);
        for _ in 0..header.record_count {
            let Some((record, _)) = record_at(bytes, next - start) else { break };
            crc = biombo_base::checksum::crc32c_append(crc, &bytes[next - start..next - start + RECORD_HEADER_BYTES]);
            next += record_bytes(record.len());
        }
        if next != self.frame_end || crc != header.headers_crc {
            return Err(self.damage(at, "the headers of a frame's records are damaged"));
        }
        Ok(())
    }

    fn damage(&self, at: usize, what: &str) -> Error {
        Error::corruption(&self.path, at as u64, what)
    }
}
