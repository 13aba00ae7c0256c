//! Reading one segment's file: frames in order, and evidence of damage behind the last good one. A reader is put to rest where there are many: it
//! has no file open then, and no window.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{File, Io, OpenMode};
use biombo_base::{Error, Result};

use crate::Lsn;
use crate::format::{
    ALIGN_BYTES, FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
};

/// Bytes read at once; larger frames make the window grow.
const WINDOW_BYTES: usize = 256 << 10;

/// A segment open for reading.
pub(crate) struct SegmentReader {
    pub path: PathBuf,
    pub header: SegmentHeader,
    file: Option<Arc<dyn File>>,
    pub file_bytes: u64,
    seed: u32,
    window: Vec<u8>,
    window_start: u64,
}

impl SegmentReader {
    pub fn open(io: &dyn Io, path: PathBuf) -> Result<Self> {
        let reading = |e| Error::io(format_args!("read {}", path.display()), e);
        let file = io.open(&path, OpenMode::READ).map_err(reading)?;
        let file_bytes = file.len().map_err(reading)?;
        let mut start = [0; 64];
        let got = file.read_at(&mut start, 0).map_err(reading)?;
        let header = SegmentHeader::decode(&path, &start[..got])?;
        let seed = header.seed();
        Ok(Self { path, header, seed, file: Some(file), file_bytes, window: Vec::new(), window_start: 0 })
    }

    /// Nothing is read of it before it is woken.
    pub fn rest(&mut self) {
        (self.file, self.window, self.window_start) = (None, Vec::new(), 0);
    }

    /// What is behind its header is to be read.
    pub fn wake(&mut self, io: &dyn Io) -> Result<()> {
        if self.file.is_none() {
            let file = io.open(&self.path, OpenMode::READ);
            self.file = Some(file.map_err(|e| Error::io(format_args!("read {}", self.path.display()), e))?);
        }
        Ok(())
    }

    /// Where the first frame begins.
    pub const START: u64 = SEGMENT_HEADER_BYTES as u64;

    /// The frame at `offset` and its payload, whose records are still to be checked; `None` when there is no whole one of
    /// this segment's life.
    pub fn frame(&mut self, offset: u64) -> Result<Option<(FrameHeader, &[u8])>> {
        let seed = self.seed;
        let Some(bytes) = self.bytes(offset, FRAME_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = FrameHeader::decode(seed, bytes) else { return Ok(None) };
        // The header's checksum holds, so its length is what was written: this cannot ask for more than the file has.
        let payload = self.bytes(offset + FRAME_HEADER_BYTES as u64, header.payload_bytes as usize)?;
        Ok(payload.map(|payload| (header, payload)))
    }

    /// Where the frame after the one at `offset` begins.
    pub fn next_offset(&self, offset: u64, header: &FrameHeader) -> u64 {
        let end = offset + FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        if header.flags & FLAG_LAST_OF_WRITE != 0 {
            end.next_multiple_of(self.header.block_bytes() as u64)
        } else {
            end
        }
    }

    /// The highest watermark that any frame header of this life at or behind `from` carries.
    pub fn watermark_behind(&mut self, from: u64) -> Result<Option<Lsn>> {
        let seed = self.seed;
        let mut highest = None;
        let mut at = from.next_multiple_of(ALIGN_BYTES as u64);
        while at + FRAME_HEADER_BYTES as u64 <= self.file_bytes {
            let count = (self.file_bytes - at).min(WINDOW_BYTES as u64) as usize;
            let Some(bytes) = self.bytes(at, count)? else { break };
            let mut inside = 0;
            while inside + FRAME_HEADER_BYTES <= count {
                let head = &bytes[inside..inside + FRAME_HEADER_BYTES];
                if head[4..8] == FRAME_MAGIC.to_le_bytes()
                    && let Some(header) = FrameHeader::decode(seed, head)
                {
                    highest = highest.max(Some(header.durable_lsn));
                }
                inside += ALIGN_BYTES;
            }
            at += inside as u64;
        }
        Ok(highest)
    }

    fn bytes(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        if offset.checked_add(count as u64).is_none_or(|end| end > self.file_bytes) {
            return Ok(None);
        }
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + count as u64 > window_end {
            let bytes = (self.file_bytes - offset).min(count.max(WINDOW_BYTES) as u64) as usize;
            self.window.resize(bytes, 0);
            self.window_start = offset;
            let file = self.file.as_ref().expect("invariant: it is awake while it is read");
            let got = file.read_at(&mut self.window, offset);
            let got = got.map_err(|e| {
                self.window.clear();
                Error::io(format_args!("read {}", self.path.display()), e)
            })?;
            self.window.truncate(got);
            if got < count {
                return Ok(None);
            }
        }
        let inside = (offset - self.window_start) as usize;
        Ok(Some(&self.window[inside..inside + count]))
    }

    pub fn damage(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(Path::new(&self.path), offset, what)
    }
}
