//! The bytes of a segment: its header, and the frames in it. `docs/format/journal.md` draws them.
//!
//! Invariants:
//! 1. A frame is one batch; it lies in one segment.
//! 2. The header's checksum of a frame is seeded with the random id of its segment and covers the checksum of its payload:
//!    what an earlier life of the file left behind never passes.
//! 3. Frames begin at multiples of [`FRAME_ALIGN_BYTES`]; the first frame of a write begins at a multiple of the segment's
//!    block.

use std::path::Path;

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{AlignedBuf, BLOCK_BYTES};
use biombo_base::{Error, Result};

use crate::{Lsn, Mode};

/// The format that this build writes and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// The first bytes of every segment.
pub const MAGIC: [u8; 8] = *b"BIOMBOJL";
/// The first bytes of every frame.
pub const FRAME_MAGIC: u32 = 0x4d52_464a; // "JFRM"
/// The segment header fills one block, of which 64 bytes carry something.
pub const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;
/// Size of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 40;
/// Frames begin at multiples of this.
pub const FRAME_ALIGN_BYTES: usize = 8;
/// Each record is preceded by its length.
pub const RECORD_HEADER_BYTES: usize = 4;
/// The largest batch: its records and 4 bytes for each, in bytes.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// The frame is the last one of its write: the next one begins at the next block.
pub const FLAG_LAST_OF_WRITE: u32 = 1;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Random, fresh for each life of the file; the seed of its checksums.
    pub id: u64,
    /// One more than that of the segment before; also in the file's name.
    pub number: u64,
    /// The first record that belongs here. All before it are durable in the segments before.
    pub base_lsn: Lsn,
    /// Size of the file when the segment was made, in bytes.
    pub capacity_bytes: u64,
    /// How it is written.
    pub mode: Mode,
}

impl SegmentHeader {
    /// A write begins at a multiple of this.
    pub fn block_bytes(&self) -> usize {
        match self.mode {
            Mode::Direct => BLOCK_BYTES,
            Mode::Buffered => FRAME_ALIGN_BYTES,
        }
    }

    /// The header as one block.
    pub fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(SEGMENT_HEADER_BYTES);
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, FORMAT_VERSION);
        put_u32(&mut block, 12, u32::from(self.mode == Mode::Direct));
        put_u64(&mut block, 16, self.id);
        put_u64(&mut block, 24, self.number);
        put_u64(&mut block, 32, self.base_lsn.0);
        put_u64(&mut block, 40, self.capacity_bytes);
        let crc = crc32c(&block[..60]);
        put_u32(&mut block, 60, crc);
        block
    }

    /// Read the header of the segment `path` from its first bytes.
    ///
    /// `Corruption` when they are damaged, `Unsupported` when a newer version wrote them (the checksum stays in its place
    /// in all versions, so that a flipped bit is not taken for a new version).
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |offset, what: &str| Err(Error::corruption(path, offset, what));
        let (Some(head), Some(crc)) = (bytes.get(..60), get_u32(bytes, 60)) else {
            return damaged(0, "the file is too short for a journal segment");
        };
        if head[..8] != MAGIC {
            return damaged(0, "this is no journal segment");
        }
        if crc32c(head) != crc {
            return damaged(60, "the checksum of the segment header differs");
        }
        let u32_at = |at| get_u32(bytes, at).expect("invariant: 64 bytes are there");
        let u64_at = |at| get_u64(bytes, at).expect("invariant: 64 bytes are there");
        let version = u32_at(8);
        if version == 0 || version > FORMAT_VERSION {
            return Err(Error::unsupported(format!(
                "{} has journal format version {version}, and this build reads up to {FORMAT_VERSION}: open it with the \
                 newer version that wrote it",
                path.display()
            )));
        }
        let mode = match u32_at(12) {
            0 => Mode::Buffered,
            1 => Mode::Direct,
            _ => return damaged(12, "the segment header names an unknown mode"),
        };
        Ok(Self { id: u64_at(16), number: u64_at(24), base_lsn: Lsn(u64_at(32)), capacity_bytes: u64_at(40), mode })
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// [`FLAG_LAST_OF_WRITE`].
    pub flags: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// Bytes of the payload, without the zeros that fill up to [`FRAME_ALIGN_BYTES`].
    pub payload_bytes: u32,
    /// Records in it; 0 in a frame that only carries the watermark.
    pub record_count: u32,
    /// The first of them.
    pub first_lsn: Lsn,
    /// All records before this were durable when the frame was written.
    pub durable_lsn: Lsn,
}

impl FrameHeader {
    /// Put the header, sealed for the segment `id`, into the first bytes of `into`.
    pub fn encode(&self, id: u64, into: &mut [u8]) {
        put_u32(into, 4, FRAME_MAGIC);
        put_u32(into, 8, self.flags);
        put_u32(into, 12, self.payload_crc);
        put_u32(into, 16, self.payload_bytes);
        put_u32(into, 20, self.record_count);
        put_u64(into, 24, self.first_lsn.0);
        put_u64(into, 32, self.durable_lsn.0);
        let crc = Self::seal(id, &into[4..FRAME_HEADER_BYTES]);
        put_u32(into, 0, crc);
    }

    /// The header in the first bytes of `bytes`, if it was sealed for the segment `id`.
    pub fn decode(id: u64, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        if get_u32(bytes, 4)? != FRAME_MAGIC || get_u32(bytes, 0)? != Self::seal(id, &bytes[4..]) {
            return None;
        }
        Some(Self {
            flags: get_u32(bytes, 8)?,
            payload_crc: get_u32(bytes, 12)?,
            payload_bytes: get_u32(bytes, 16)?,
            record_count: get_u32(bytes, 20)?,
            first_lsn: Lsn(get_u64(bytes, 24)?),
            durable_lsn: Lsn(get_u64(bytes, 32)?),
        })
    }

    /// The record after the last one of the frame.
    pub fn end_lsn(&self) -> Lsn {
        self.first_lsn.plus(u64::from(self.record_count))
    }

    fn seal(id: u64, bytes: &[u8]) -> u32 {
        crc32c_append(crc32c(&id.to_le_bytes()), bytes)
    }
}

/// Bytes of a frame with a payload of `payload_bytes`, filled up to the alignment.
pub fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(FRAME_ALIGN_BYTES)
}

/// The bytes of a batch's payload.
pub fn payload_bytes(records: &[&[u8]]) -> usize {
    records.iter().map(|record| RECORD_HEADER_BYTES + record.len()).sum()
}

/// The checksum of a batch's payload, without laying it out.
pub fn payload_crc(records: &[&[u8]]) -> u32 {
    records.iter().fold(0, |crc, record| {
        let crc = crc32c_append(crc, &(record.len() as u32).to_le_bytes());
        crc32c_append(crc, record)
    })
}

/// The records of a payload whose checksum holds; `None` when they do not fill it as the header says.
pub fn split_records(payload: &[u8], record_count: u32) -> Option<impl Iterator<Item = &[u8]>> {
    let mut at = 0usize;
    for _ in 0..record_count {
        at = at.checked_add(RECORD_HEADER_BYTES + get_u32(payload, at)? as usize)?;
    }
    if at != payload.len() {
        return None;
    }
    let mut rest = payload;
    Some(std::iter::from_fn(move || {
        let (length, tail) = rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let (record, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = tail;
        Some(record)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_passes_only_under_the_id_of_its_segment_and_with_every_bit_as_it_was() {
        let header = FrameHeader {
            flags: FLAG_LAST_OF_WRITE,
            payload_crc: payload_crc(&[b"ab", b""]),
            payload_bytes: payload_bytes(&[b"ab", b""]) as u32,
            record_count: 2,
            first_lsn: Lsn(7),
            durable_lsn: Lsn(5),
        };
        let mut bytes = [0; FRAME_HEADER_BYTES];
        header.encode(11, &mut bytes);
        assert_eq!(FrameHeader::decode(11, &bytes), Some(header));
        assert_eq!(FrameHeader::decode(12, &bytes), None, "a former life of the file");
        for bit in 0..8 * FRAME_HEADER_BYTES {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(11, &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_payload_splits_into_its_records_or_not_at_all() {
        let payload = [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0];
        assert_eq!(crc32c(&payload), payload_crc(&[b"ab", b""]));
        let records: Vec<_> = split_records(&payload, 2).unwrap().collect();
        assert_eq!(records, [&b"ab"[..], &b""[..]]);
        for wrong in [0, 1, 3, u32::MAX] {
            assert!(split_records(&payload, wrong).is_none(), "{wrong} records");
        }
        assert!(split_records(&payload[..9], 2).is_none());
    }
}
