//! Laying out a batch as a frame, straight into where it will lie.

use biombo_base::checksum::crc32c_append;
use biombo_base::coding::put_u32;

use crate::Lsn;
use crate::format::{FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, record_bytes, record_crc};

/// Records that are appended together.
pub(crate) trait Batch {
    /// How many.
    fn count(&self) -> usize;

    /// Hand over each in order, as parts.
    fn each(&self, record: &mut impl FnMut(&[&[u8]]));

    /// Bytes of their frame behind its header. Saturates instead of overflowing.
    fn payload_bytes(&self) -> usize {
        let mut bytes = 0usize;
        self.each(&mut |parts| bytes = bytes.saturating_add(record_bytes(length(parts).min(1 << 40))));
        bytes
    }

    /// Bytes of their frame.
    fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES.saturating_add(self.payload_bytes())
    }
}

/// Fill `into`, which has exactly the record's size, and add its header to the checksum of headers.
#[inline]
pub(crate) fn encode_record(into: &mut [u8], parts: &[&[u8]], seed: u32, headers_crc: &mut u32) {
    let mut end = RECORD_HEADER_BYTES;
    for part in parts {
        into[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    into[end..].fill(0);
    let bytes = (end - RECORD_HEADER_BYTES) as u32;
    // Of the copy, which is one piece and in the cache.
    let crc = record_crc(seed, bytes, &[&into[RECORD_HEADER_BYTES..end]]);
    put_u32(into, 0, bytes);
    put_u32(into, 4, crc);
    *headers_crc = crc32c_append(*headers_crc, &into[..RECORD_HEADER_BYTES]);
}

pub(crate) fn length(parts: &[&[u8]]) -> usize {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.len()))
}

impl Batch for &[&[&[u8]]] {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn each(&self, record: &mut impl FnMut(&[&[u8]])) {
        self.iter().for_each(|parts| record(parts));
    }
}

/// Fill `into`, which has exactly the frame's size, and tell of each record where its header lies in it. One copy of each
/// part; no allocation.
#[inline]
pub(crate) fn encode_frame(
    into: &mut [u8],
    batch: &impl Batch,
    seed: u32,
    flags: u32,
    first_lsn: Lsn,
    durable_lsn: Lsn,
    at: &mut impl FnMut(usize),
) {
    let payload_bytes = (into.len() - FRAME_HEADER_BYTES) as u32;
    let (mut offset, mut headers_crc) = (FRAME_HEADER_BYTES, 0);
    batch.each(&mut |parts| {
        at(offset);
        let end = offset + record_bytes(length(parts));
        encode_record(&mut into[offset..end], parts, seed, &mut headers_crc);
        offset = end;
    });
    let record_count = if flags & crate::format::FLAG_FOOTER != 0 { 0 } else { batch.count() as u32 };
    let header = FrameHeader { flags, headers_crc, payload_bytes, record_count, first_lsn, durable_lsn };
    header.encode(seed, into);
}
