//! What is sound in one segment, wherever it is damaged.
//!
//! Invariants:
//!
//! 1. A record is sound when its checksum holds, which covers its length and its bytes under the seed of this life of the file.
//!    Nothing else decides: neither the header of its frame nor that of the segment has to be whole.
//! 2. Where headers cannot be read, the next record or frame is looked for at every place where one can begin.
//! 3. The seed of a damaged segment header comes out of the checksum of the first frame, and counts only if a record proves it.

use std::ops::Range;

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, get_u64};

use crate::Lsn;
use crate::format::{
    ALIGN_BYTES, FLAG_LAST_OF_WRITE, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES, record_at, record_bytes, record_crc,
};

/// CRC-32C's polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const START: usize = SEGMENT_HEADER_BYTES;

/// What is known of a segment before it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub seed: u32,
    /// What frames after the last of a write are aligned to.
    pub block_bytes: usize,
    pub base_lsn: Lsn,
    /// Where it was sealed, if somebody says it; records from there on are not its.
    pub end_lsn: Option<Lsn>,
    /// Records of the log before this were durable, so that one of them that cannot be read is damaged, not torn.
    pub durable_lsn: Lsn,
    /// Frames end here at the latest.
    pub data_bytes: usize,
}

/// A piece of a segment that no sound record covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    pub bytes: Range<usize>,
    /// It is exactly one record, its header included.
    pub is_record: bool,
    pub what: &'static str,
}

/// What a segment holds.
#[derive(Debug)]
pub(super) struct Scanned {
    /// Offsets of the headers of sound records, ascending.
    pub records: Vec<usize>,
    pub gaps: Vec<Gap>,
    /// Behind the last record that counts.
    pub end_lsn: Lsn,
    /// Behind the last frame that counts.
    pub end: usize,
    /// The log ends in it, as after a crash.
    pub is_torn: bool,
}

/// The seed of the segment whose header cannot be read: that of the id as it lies there, or what the first frame was sealed
/// with, whichever a record proves.
pub(super) fn seed_of(bytes: &[u8], base_lsn: Option<Lsn>) -> Option<u32> {
    let head = bytes.get(START..START + FRAME_HEADER_BYTES)?;
    let stated = crc32c(bytes.get(16..24)?);
    let proves = |seed: &u32| {
        let frame = FrameHeader::decode(*seed, head)?;
        let fits = base_lsn.is_none_or(|base| frame.first_lsn == base);
        let (record, crc) = record_at(bytes, START + FRAME_HEADER_BYTES)?;
        (fits && record_crc(*seed, record.len() as u32, &[record]) == crc).then_some(())
    };
    let sealed_with = unseal(get_u32(head, 0)?, &head[4..]);
    [stated, sealed_with].into_iter().find(|seed| proves(seed).is_some())
}

/// The seed under which `bytes` have the checksum `crc`: there is exactly one.
fn unseal(crc: u32, bytes: &[u8]) -> u32 {
    // A checksum is the sum of what the bytes give and what the seed gives, each as if the other were zero. The seed's share is
    // the seed itself, shifted through as many zero bits as there are bits: shift it back.
    let mut state = crc ^ crc32c_append(!0, bytes);
    for _ in 0..8 * bytes.len() {
        state = if state & 0x8000_0000 == 0 { state << 1 } else { (state ^ POLYNOMIAL) << 1 | 1 };
    }
    !state
}

/// The highest watermark in a segment.
pub(super) fn watermark(bytes: &[u8], seed: u32) -> Lsn {
    let mut highest = Lsn::FIRST;
    let mut at = START;
    while let Some((found, frame)) = next_frame(bytes, seed, at) {
        highest = highest.max(frame.durable_lsn);
        at = found + FRAME_HEADER_BYTES;
    }
    highest
}

/// What the first frame begins with.
pub(super) fn first_lsn(bytes: &[u8], seed: u32) -> Option<Lsn> {
    next_frame(bytes, seed, START).map(|(_, frame)| frame.first_lsn)
}

/// Where the footer's frame begins, or the file ends.
pub(super) fn footer_at(bytes: &[u8], seed: u32) -> usize {
    let mut at = START;
    while let Some((found, frame)) = next_frame(bytes, seed, at) {
        if frame.is_footer() {
            return found;
        }
        at = found + FRAME_HEADER_BYTES;
    }
    bytes.len()
}

/// The first frame header at or behind `at`.
fn next_frame(bytes: &[u8], seed: u32, at: usize) -> Option<(usize, FrameHeader)> {
    let magic = FRAME_MAGIC.to_le_bytes();
    (at..bytes.len().saturating_sub(FRAME_HEADER_BYTES - 1)).step_by(ALIGN_BYTES).find_map(|at| {
        let head = &bytes[at..at + FRAME_HEADER_BYTES];
        if head[4..8] != magic {
            return None;
        }
        FrameHeader::decode(seed, head).map(|frame| (at, frame))
    })
}

/// Find all that is sound. `accepts`: whether a record with a right checksum is one of the owner's.
pub(super) fn scan(bytes: &[u8], known: &Known, accepts: &mut dyn FnMut(&[u8]) -> bool) -> Scanned {
    let (records, gaps) = Default::default();
    let found = Scanned { records, gaps, end_lsn: known.base_lsn, end: START, is_torn: false };
    let mut scan = Scan { bytes, seed: known.seed, accepts, found };
    let mut lsn = known.base_lsn;
    let mut at = START;
    loop {
        if known.end_lsn.is_some_and(|end| lsn >= end) {
            break;
        }
        let frame = bytes.get(at..).and_then(|rest| FrameHeader::decode(known.seed, rest));
        let payload = frame.and_then(|frame| {
            let payload = at + FRAME_HEADER_BYTES..at + FRAME_HEADER_BYTES + frame.payload_bytes as usize;
            (!frame.is_footer() && frame.first_lsn >= lsn && payload.end <= bytes.len()).then_some((frame, payload))
        });
        let Some((frame, payload)) = payload else {
            at = at.min(bytes.len());
            // A hole, or the end. What lies behind it says which, unless somebody else does.
            let behind = next_frame(bytes, known.seed, at + ALIGN_BYTES)
                .filter(|(_, frame)| !frame.is_footer() && frame.first_lsn >= lsn);
            let end = behind.map_or(known.data_bytes.clamp(at, bytes.len()), |(behind, _)| behind);
            let is_filling = bytes[at..end].iter().all(|byte| *byte == 0);
            let is_cold = known.durable_lsn == Lsn(u64::MAX);
            match behind {
                // Filled up to where the next write begins.
                Some((behind, frame)) if is_filling && frame.first_lsn == lsn => {
                    at = behind;
                    continue;
                }
                None if is_filling && is_cold && known.end_lsn.is_none() => break,
                _ => {}
            }
            if lsn >= known.durable_lsn {
                scan.found.is_torn = known.end_lsn.is_some_and(|end| lsn < end) || behind.is_some();
                break;
            }
            // The headers of the frame may be all that is damaged.
            let first = (at + FRAME_HEADER_BYTES).min(end);
            let before = scan.found.records.len();
            scan.found.gaps.push(Gap { bytes: at..first, is_record: false, what: "the header of a frame is damaged" });
            scan.region(first..end);
            let salvaged = (scan.found.records.len() - before) as u64;
            at = end;
            lsn = match behind {
                Some((_, frame)) => frame.first_lsn,
                None => known.end_lsn.unwrap_or(lsn.plus(salvaged).max(known.durable_lsn)),
            };
            if behind.is_none() {
                break;
            }
            continue;
        };
        if known.end_lsn.is_some_and(|end| frame.first_lsn >= end) {
            break;
        }
        if frame.first_lsn > lsn {
            if lsn >= known.durable_lsn {
                scan.found.is_torn = true;
                break;
            }
            scan.found.gaps.push(Gap {
                bytes: at..at,
                is_record: false,
                what: "records are missing before this frame",
            });
        }
        if !scan.frame(&frame, payload.clone(), lsn < known.durable_lsn) {
            scan.found.is_torn = true;
            break;
        }
        lsn = frame.end_lsn();
        let is_last = frame.flags & FLAG_LAST_OF_WRITE != 0;
        at = if is_last { payload.end.next_multiple_of(known.block_bytes) } else { payload.end };
    }
    Scanned { end_lsn: lsn, end: at, ..scan.found }
}

struct Scan<'a> {
    bytes: &'a [u8],
    seed: u32,
    accepts: &'a mut dyn FnMut(&[u8]) -> bool,
    found: Scanned,
}

impl Scan<'_> {
    /// The records of a frame whose header holds. False: one of them is torn, because nobody says that it was durable.
    fn frame(&mut self, frame: &FrameHeader, payload: Range<usize>, was_durable: bool) -> bool {
        let mut places = Vec::new();
        let (mut at, mut crc) = (payload.start, 0);
        for _ in 0..frame.record_count {
            let Some((record, _)) = record_at(&self.bytes[..payload.end], at) else { break };
            crc = crc32c_append(crc, &self.bytes[at..at + RECORD_HEADER_BYTES]);
            places.push(at);
            at += record_bytes(record.len());
        }
        let chained = at == payload.end && crc == frame.headers_crc && places.len() == frame.record_count as usize;
        if chained && places.iter().all(|at| self.is_whole(*at, payload.end)) {
            let (mut taken, mut foreign) = (places, Vec::new());
            taken.retain(|&at| {
                let accepted = record_at(self.bytes, at).is_some_and(|(record, _)| (self.accepts)(record));
                if !accepted {
                    foreign.push(at);
                }
                accepted
            });
            self.found.records.extend(taken);
            for at in foreign {
                let end = at + record_at(self.bytes, at).map_or(0, |(record, _)| record_bytes(record.len()));
                let what = "a record that its owner cannot have written";
                self.found.gaps.push(Gap { bytes: at..end, is_record: true, what });
            }
            return true;
        }
        if !was_durable {
            return false;
        }
        if chained {
            for (i, &at) in places.iter().enumerate() {
                let end = places.get(i + 1).copied().unwrap_or(payload.end);
                self.record(at, end);
            }
        } else {
            let what = "the headers of a frame's records are damaged";
            self.found.gaps.push(Gap { bytes: payload.start..payload.start, is_record: false, what });
            self.region(payload);
        }
        true
    }

    /// The record that must be at `at`, up to `end`.
    fn record(&mut self, at: usize, end: usize) {
        let is_sound =
            self.is_whole(at, end) && record_at(self.bytes, at).is_some_and(|(record, _)| (self.accepts)(record));
        if is_sound {
            self.found.records.push(at);
        } else {
            let what = "the checksum of a record differs";
            self.found.gaps.push(Gap { bytes: at..end, is_record: true, what });
        }
    }

    /// Whatever records there are.
    fn region(&mut self, region: Range<usize>) {
        let (mut at, mut gap) = (region.start, None);
        let what = "damaged records, or nothing";
        while at + RECORD_HEADER_BYTES <= region.end {
            let length = record_at(&self.bytes[..region.end], at).map(|(record, _)| record_bytes(record.len()));
            if self.is_whole(at, region.end)
                && record_at(self.bytes, at).is_some_and(|(record, _)| !record.is_empty() && (self.accepts)(record))
            {
                if let Some(from) = gap.take() {
                    self.found.gaps.push(Gap { bytes: from..at, is_record: false, what });
                }
                self.found.records.push(at);
                at += length.unwrap_or(ALIGN_BYTES);
                continue;
            }
            // Its length may be right: then what follows proves it.
            let next = length.map(|length| at + length);
            if gap.is_none()
                && let Some(next) = next
                && (next == region.end || (next < region.end && self.is_whole(next, region.end)))
                && get_u64(self.bytes, at) != Some(0)
            {
                let what = "the checksum of a record differs";
                self.found.gaps.push(Gap { bytes: at..next, is_record: true, what });
                at = next;
                continue;
            }
            gap.get_or_insert(at);
            at += ALIGN_BYTES;
        }
        if let Some(from) = gap
            && self.bytes[from..region.end].iter().any(|byte| *byte != 0)
        {
            self.found.gaps.push(Gap { bytes: from..region.end, is_record: false, what });
        }
    }

    fn is_whole(&self, at: usize, end: usize) -> bool {
        record_at(&self.bytes[..end], at)
            .is_some_and(|(record, crc)| record_crc(self.seed, record.len() as u32, &[record]) == crc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_comes_out_of_a_checksum() {
        for seed in [0, 1, 0xdead_beef, u32::MAX] {
            for bytes in [&b""[..], b"x", b"thirty-six bytes of a frame's header"] {
                assert_eq!(unseal(crc32c_append(seed, bytes), bytes), seed);
            }
        }
    }
}
