//! The bytes of a segment: its header, the frames in it, the records in those. `docs/format/journal.md` draws them.
//!
//! Invariants:
//! 1. A frame is one batch; it lies in one segment.
//! 2. The checksum of a frame's header and those of its records are seeded with the random id of the segment: what an
//!    earlier life of the file left behind never passes. The header's covers the checksum of the record headers, and those
//!    hold the records' checksums: every byte but the zeros of filling is checked, and checked once.
//! 3. Frames and records begin at multiples of [`ALIGN_BYTES`]; the first frame of a write begins at a multiple of the
//!    segment's block.

use std::path::Path;

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64, put_u32, put_u64};
use biombo_base::io::{AlignedBuf, BLOCK_BYTES};
use biombo_base::{Error, Result};

use crate::{Lsn, Mode, SegmentKind, SegmentNumber};

/// The format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 3;
/// The first bytes of every segment.
pub const MAGIC: [u8; 8] = *b"BIOMBOJL";
/// The first bytes of every frame.
pub const FRAME_MAGIC: u32 = 0x4d52_464a; // "JFRM"
/// The segment header fills one block, of which 64 bytes carry something.
pub const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;
/// Size of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 40;
/// Frames and records begin at multiples of this.
pub const ALIGN_BYTES: usize = 8;
/// Each record is preceded by its length and its checksum.
pub const RECORD_HEADER_BYTES: usize = 8;
/// The largest batch: its records, 8 bytes for each, and what fills them up to multiples of 8; in bytes.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// The frame is the last one of its write: the next one begins at the next block.
pub const FLAG_LAST_OF_WRITE: u32 = 1;
/// The frame is a footer: its one record is the owner's and has no lsn.
pub const FLAG_FOOTER: u32 = 2;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Random, fresh for each life of the file; the seed of its checksums.
    pub id: u64,
    /// Also in the file's name.
    pub number: SegmentNumber,
    /// The first record that belongs here. 1 in a cold segment, which counts for itself.
    pub base_lsn: Lsn,
    /// Size of the file when the segment was made, in bytes.
    pub capacity_bytes: u64,
    /// How it is written.
    pub mode: Mode,
    /// Part of the log's order, or written apart.
    pub kind: SegmentKind,
    /// All records of the log before this were durable when the segment was made.
    pub durable_lsn: Lsn,
}

impl SegmentHeader {
    /// A write begins at a multiple of this.
    pub fn block_bytes(&self) -> usize {
        match self.mode {
            Mode::Direct => BLOCK_BYTES,
            Mode::Buffered | Mode::Mapped => ALIGN_BYTES,
        }
    }

    /// What checksums in the segment begin with.
    pub fn seed(&self) -> u32 {
        crc32c(&self.id.to_le_bytes())
    }

    /// The header as one block.
    pub fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(SEGMENT_HEADER_BYTES);
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, FORMAT_VERSION);
        let mode = match self.mode {
            Mode::Buffered => 0,
            Mode::Direct => 1,
            Mode::Mapped => 2,
        };
        put_u32(&mut block, 12, mode | u32::from(self.kind == SegmentKind::Cold) << 8);
        put_u64(&mut block, 16, self.id);
        put_u64(&mut block, 24, u64::from(self.number.0));
        put_u64(&mut block, 32, self.base_lsn.0);
        put_u64(&mut block, 40, self.capacity_bytes);
        put_u64(&mut block, 48, self.durable_lsn.0);
        let crc = crc32c(&block[..60]);
        put_u32(&mut block, 60, crc);
        block
    }

    /// Read the header of the segment `path` from its first bytes.
    ///
    /// `Corruption` when they are damaged, `Unsupported` when another version wrote them (the checksum stays in its place
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
        check_version(path, u32_at(8))?;
        let mode = match u32_at(12) & 0xff {
            0 => Mode::Buffered,
            1 => Mode::Direct,
            2 => Mode::Mapped,
            _ => return damaged(12, "the segment header names an unknown mode"),
        };
        let kind = match u32_at(12) >> 8 {
            0 => SegmentKind::Hot,
            1 => SegmentKind::Cold,
            _ => return damaged(12, "the segment header names an unknown kind"),
        };
        let Ok(number) = u32::try_from(u64_at(24)) else {
            return damaged(24, "the segment header has a number that is too large");
        };
        Ok(Self {
            id: u64_at(16),
            number: SegmentNumber(number),
            base_lsn: Lsn(u64_at(32)),
            capacity_bytes: u64_at(40),
            mode,
            kind,
            durable_lsn: Lsn(u64_at(48)),
        })
    }
}

/// Whether this build reads what `version` wrote.
pub(crate) fn check_version(path: &Path, version: u32) -> Result<()> {
    let advice = match version {
        FORMAT_VERSION => return Ok(()),
        ..FORMAT_VERSION => "which it no longer does: open it with the version that wrote it",
        _ => "not yet this: open it with the newer version that wrote it",
    };
    let path = path.display();
    Err(Error::unsupported(format!(
        "{path} has journal format version {version}; this build reads {FORMAT_VERSION}, {advice}"
    )))
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// [`FLAG_LAST_OF_WRITE`], [`FLAG_FOOTER`].
    pub flags: u32,
    /// CRC-32C of the headers of its records.
    pub headers_crc: u32,
    /// Bytes of the records, with their headers and filling: a multiple of [`ALIGN_BYTES`].
    pub payload_bytes: u32,
    /// Records in it; 0 in a frame that only carries the watermark.
    pub record_count: u32,
    /// The first of them.
    pub first_lsn: Lsn,
    /// All records before this were durable when the frame was written.
    pub durable_lsn: Lsn,
}

impl FrameHeader {
    /// Put the header, sealed under the segment's `seed`, into the first bytes of `into`.
    pub fn encode(&self, seed: u32, into: &mut [u8]) {
        put_u32(into, 4, FRAME_MAGIC);
        put_u32(into, 8, self.flags);
        put_u32(into, 12, self.headers_crc);
        put_u32(into, 16, self.payload_bytes);
        put_u32(into, 20, self.record_count);
        put_u64(into, 24, self.first_lsn.0);
        put_u64(into, 32, self.durable_lsn.0);
        let crc = crc32c_append(seed, &into[4..FRAME_HEADER_BYTES]);
        put_u32(into, 0, crc);
    }

    /// The header in the first bytes of `bytes`, if it was sealed under `seed`.
    pub fn decode(seed: u32, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        if get_u32(bytes, 4)? != FRAME_MAGIC || get_u32(bytes, 0)? != crc32c_append(seed, &bytes[4..]) {
            return None;
        }
        Some(Self {
            flags: get_u32(bytes, 8)?,
            headers_crc: get_u32(bytes, 12)?,
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

    /// Whether it is the owner's footer.
    pub fn is_footer(&self) -> bool {
        self.flags & FLAG_FOOTER != 0
    }
}

/// Bytes of a record with its header, filled up to the alignment.
pub fn record_bytes(bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + bytes).next_multiple_of(ALIGN_BYTES)
}

/// The checksum of a record given as parts: of its length and its bytes.
pub fn record_crc(seed: u32, bytes: u32, parts: &[&[u8]]) -> u32 {
    let crc = crc32c_append(seed, &bytes.to_le_bytes());
    parts.iter().fold(crc, |crc, part| crc32c_append(crc, part))
}

/// The record whose header is at `at`: its bytes and its checksum, which is not looked at; `None` when it does not lie in
/// `bytes`.
#[inline]
pub fn record_at(bytes: &[u8], at: usize) -> Option<(&[u8], u32)> {
    let (head, rest) = bytes.get(at..)?.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    Some((rest.get(..length as usize)?, crc))
}

/// The records of a payload, each with the offset of its header; `None` when any of its checksums differs, or the records do
/// not fill it as the header says.
pub fn records<'a>(
    seed: u32,
    header: &FrameHeader,
    payload: &'a [u8],
) -> Option<impl Iterator<Item = (usize, &'a [u8])> + use<'a>> {
    let count = if header.is_footer() { 1 } else { header.record_count };
    let (mut at, mut headers_crc) = (0usize, 0);
    for _ in 0..count {
        let (record, _) = record_at(payload, at)?;
        headers_crc = crc32c_append(headers_crc, &payload[at..at + RECORD_HEADER_BYTES]);
        at += record_bytes(record.len());
    }
    if at != payload.len() || headers_crc != header.headers_crc {
        return None;
    }
    let mut next = 0;
    let mut each = move || {
        let (record, crc) = record_at(payload, next)?;
        let at = next;
        next += record_bytes(record.len());
        Some((at, record, crc))
    };
    let mut check = each;
    while let Some((_, record, crc)) = check() {
        if record_crc(seed, record.len() as u32, &[record]) != crc {
            return None;
        }
    }
    Some(std::iter::from_fn(move || each().map(|(at, record, _)| (at, record))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Batch, encode_frame};

    fn example() -> Vec<u8> {
        let records: [&[&[u8]]; 3] = [&[b"ab", b"cdefgh"], &[], &[b"xyz"]];
        let mut bytes = vec![0xff; (&records[..]).frame_bytes()];
        let mut at = Vec::new();
        encode_frame(&mut bytes, &&records[..], 11, FLAG_LAST_OF_WRITE, Lsn(7), Lsn(5), &mut |offset| at.push(offset));
        assert_eq!(at, [40, 56, 64]);
        bytes
    }

    #[test]
    fn a_frame_passes_only_under_the_seed_of_its_segment_and_with_every_bit_as_it_was() {
        let bytes = example();
        let read = |seed, bytes: &[u8]| {
            let header = FrameHeader::decode(seed, bytes)?;
            assert_eq!((header.first_lsn, header.durable_lsn, header.end_lsn()), (Lsn(7), Lsn(5), Lsn(10)));
            let records = records(seed, &header, &bytes[FRAME_HEADER_BYTES..])?;
            Some(records.map(|(at, record)| (at, record.to_vec())).collect::<Vec<_>>())
        };
        let whole = [(0, b"abcdefgh".to_vec()), (16, vec![]), (24, b"xyz".to_vec())];
        assert_eq!(read(11, &bytes).unwrap(), whole);
        assert_eq!(read(12, &bytes), None, "a former life of the file");
        let mut filling = 0;
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match read(11, &flipped) {
                Some(records) => {
                    assert_eq!(records, whole, "bit {bit}");
                    filling += 1;
                }
                None => assert!(bit / 8 < bytes.len() - 5),
            }
        }
        assert_eq!(filling, 8 * 5, "only what fills up is not checked");
    }

    #[test]
    fn records_that_do_not_fill_their_frame_are_refused_and_never_read_past_it() {
        let bytes = example();
        let header = FrameHeader::decode(11, &bytes).unwrap();
        let payload = &bytes[FRAME_HEADER_BYTES..];
        for record_count in [0, 1, 2, 4, u32::MAX] {
            assert!(records(11, &FrameHeader { record_count, ..header }, payload).is_none(), "{record_count} records");
        }
        for short in 0..payload.len() {
            assert!(records(11, &header, &payload[..short]).is_none(), "{short} bytes");
        }
        assert_eq!(record_at(payload, usize::MAX), None);
    }
}
