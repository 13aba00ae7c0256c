//! All records of a sealed segment, in order and verified: for who moves them.

use std::path::PathBuf;
use std::sync::Arc;

use biombo_base::{Error, Result};

use crate::format::{
    ALIGN_BYTES, FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES,
    record_at, record_bytes, record_crc,
};
use crate::names::Name;
use crate::table::{LogReader, Segment};
use crate::{Mode, Position, SegmentNumber};

/// A walk over the records of one segment, which it holds; from [`LogReader::walk`].
#[derive(Debug)]
pub struct Walk {
    segment: Arc<Segment>,
    path: PathBuf,
    /// The next record of the frame, and where that ends.
    at: usize,
    frame_end: usize,
    next_frame: usize,
}

impl LogReader {
    /// Begin a walk over the records of a sealed segment; `None` when it does not exist.
    pub fn walk(&self, number: SegmentNumber) -> Option<Walk> {
        let guard = self.pin();
        let segment = self.hold(&guard, Position::new(number, 0)?)?;
        let path = Name::Segment(number).path(&self.shared.dir);
        let start = SEGMENT_HEADER_BYTES;
        Some(Walk { segment, path, at: start, frame_end: start, next_frame: start })
    }
}

impl Walk {
    /// The next record, or `None` behind the last one. `Corruption` where a frame or a record is damaged: the walk ends there.
    pub fn next_record(&mut self) -> Result<Option<(Position, &[u8])>> {
        while self.at >= self.frame_end {
            if self.next_frame as u64 >= self.segment.data.committed() {
                return Ok(None);
            }
            self.enter_frame()?;
        }
        let at = self.at;
        let Some((record, crc)) = record_at(self.segment.written(), at) else {
            return Err(self.damage(at, "a record does not lie in its segment"));
        };
        if record_crc(self.segment.seed, record.len() as u32, &[record]) != crc {
            return Err(self.damage(at, "the checksum of a record differs"));
        }
        self.at = at + record_bytes(record.len());
        let offset = u32::try_from(at).ok().and_then(|at| Position::new(self.segment.number, at));
        Ok(Some((offset.expect("invariant: records are aligned and a segment is smaller than 4 GiB"), record)))
    }

    fn enter_frame(&mut self) -> Result<()> {
        let at = self.next_frame;
        let written = self.segment.written();
        let header = written.get(at..at + FRAME_HEADER_BYTES);
        let header = header.and_then(|bytes| FrameHeader::decode(self.segment.seed, bytes));
        let Some(header) = header.filter(|header| !header.is_footer()) else {
            return Err(self.damage(at, "the header of a frame is damaged"));
        };
        self.at = at + FRAME_HEADER_BYTES;
        self.frame_end = self.at + header.payload_bytes as usize;
        let block = match self.segment.mode {
            Mode::Direct => biombo_base::io::BLOCK_BYTES,
            Mode::Buffered | Mode::Mapped => ALIGN_BYTES,
        };
        let is_last = header.flags & FLAG_LAST_OF_WRITE != 0;
        self.next_frame = if is_last { self.frame_end.next_multiple_of(block) } else { self.frame_end };
        // The lengths of the records lead from one to the next: they must be those that were written.
        let (mut next, mut crc) = (self.at, 0);
        for _ in 0..header.record_count {
            let Some((record, _)) = record_at(written, next) else { break };
            crc = biombo_base::checksum::crc32c_append(crc, &written[next..next + RECORD_HEADER_BYTES]);
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
