//! What waits for the next write: batches, laid out as frames the moment they arrive.
//!
//! A record is copied once, from the caller's slice into the buffer that is written. Only what depends on the segment (the
//! seal of each frame's header, the watermark, the end of the write) is filled in by the leader.

use biombo_base::io::AlignedBuf;

use crate::Lsn;
use crate::format::{FLAG_LAST_OF_WRITE, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, FrameHeader, frame_bytes};

/// The room that a buffer keeps from one group to the next.
const KEEP_BYTES: usize = 4 << 20;

/// One batch in a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// Where it begins in the buffer.
    pub offset: usize,
    /// Who waits for it.
    pub ticket: u64,
    pub header: FrameHeader,
}

impl Frame {
    pub fn end(&self) -> usize {
        self.offset + frame_bytes(self.header.payload_bytes as usize)
    }
}

/// Batches for one write.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub buf: AlignedBuf,
    pub frames: Vec<Frame>,
    /// Somebody waits until it is on the device.
    pub sync: bool,
}

impl Group {
    /// Add a batch, whose payload has the given size and checksum.
    pub fn push(&mut self, ticket: u64, first_lsn: Lsn, records: &[&[u8]], payload_bytes: usize, payload_crc: u32) {
        let offset = self.buf.len();
        self.buf.reserve(frame_bytes(payload_bytes));
        self.buf.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        for record in records {
            self.buf.extend_from_slice(&(record.len() as u32).to_le_bytes());
            self.buf.extend_from_slice(record);
        }
        self.buf.pad_to(FRAME_ALIGN_BYTES);
        let header = FrameHeader {
            flags: 0,
            payload_crc,
            payload_bytes: payload_bytes as u32,
            record_count: records.len() as u32,
            first_lsn,
            durable_lsn: Lsn::FIRST,
        };
        self.frames.push(Frame { offset, ticket, header });
    }

    /// Seal the first `count` frames for the segment `id`, as one write.
    pub fn seal(&mut self, count: usize, id: u64, durable_lsn: Lsn) {
        for (i, frame) in self.frames[..count].iter_mut().enumerate() {
            frame.header.durable_lsn = durable_lsn;
            frame.header.flags = if i + 1 == count { FLAG_LAST_OF_WRITE } else { 0 };
            frame.header.encode(id, &mut self.buf[frame.offset..]);
        }
    }

    /// Drop the first `count` frames, which were written.
    pub fn remove_front(&mut self, count: usize) {
        let Some(start) = self.frames.get(count).map(|frame| frame.offset) else { return self.clear() };
        self.buf.remove_front(start);
        self.frames.drain(..count);
        for frame in &mut self.frames {
            frame.offset -= start;
        }
    }

    pub fn clear(&mut self) {
        self.frames.clear();
        self.buf.clear();
        if self.buf.capacity() > KEEP_BYTES {
            self.buf = AlignedBuf::new();
        }
    }
}
