//! The header of a segment, and a frame with its records, from bytes alone.

use std::path::Path;

use biombo_base::checksum::crc32c_append;
use biombo_journal::format::{
    ALIGN_BYTES, FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader, record_at, record_bytes, records,
};
use biombo_journal::{Lsn, Mode, SegmentKind, SegmentNumber};

use crate::{Property, blames_the_bytes, seal};

const SEED: u32 = 11;

/// The first byte says whether checksums are put right.
pub const PROPERTY: Property = Property { name: "journal_frames", holds, examples, cases: 1000 };

fn holds(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    segment_header(choice, &bytes);
    if choice & 1 == 0 {
        seal::frame(SEED, &mut bytes);
    }
    frame(&bytes);
}

fn segment_header(choice: u8, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if choice & 1 == 0 && bytes.len() >= 64 {
        let crc = crc32c_append(0, &bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    }
    match SegmentHeader::decode(Path::new("segment"), &bytes) {
        Err(error) => blames_the_bytes(&error, "decode the header of a segment"),
        Ok(header) => {
            assert!(header.block_bytes().is_multiple_of(ALIGN_BYTES));
            let again = header.encode();
            assert_eq!(again.len(), SEGMENT_HEADER_BYTES);
            let again = SegmentHeader::decode(Path::new("segment"), &again).expect("what is encoded can be decoded");
            assert_eq!(again, header);
        }
    }
}

fn frame(bytes: &[u8]) {
    let Some(header) = FrameHeader::decode(SEED, bytes) else { return };
    let mut again = [0; FRAME_HEADER_BYTES];
    header.encode(SEED, &mut again);
    assert_eq!(again, bytes[..FRAME_HEADER_BYTES], "the header comes back as it was");
    assert!(header.end_lsn() >= header.first_lsn);
    let end = FRAME_HEADER_BYTES.saturating_add(header.payload_bytes as usize);
    let Some(payload) = bytes.get(FRAME_HEADER_BYTES..end) else { return };
    let Some(records) = records(SEED, &header, payload) else { return };
    let (mut next, mut count) = (0, 0);
    for (at, record) in records {
        assert_eq!(at, next, "records follow one another");
        assert_eq!(record_at(payload, at).map(|(record, _)| record), Some(record));
        next = at + record_bytes(record.len());
        count += 1;
    }
    assert_eq!(next, payload.len(), "records fill their frame");
    assert_eq!(count, if header.is_footer() { 1 } else { header.record_count });
}

fn examples() -> Vec<Vec<u8>> {
    let header = SegmentHeader {
        id: 7,
        number: SegmentNumber(3),
        base_lsn: Lsn(5),
        capacity_bytes: 8192,
        mode: Mode::Mapped,
        kind: SegmentKind::Hot,
        durable_lsn: Lsn(2),
    };
    let mut examples = vec![[&[1], &header.encode()[..64]].concat()];
    for (flags, lengths) in [(0, &[3, 8, 0][..]), (1, &[70]), (2, &[20]), (0, &[])] {
        let mut payload = Vec::new();
        for length in lengths {
            payload.extend_from_slice(&u32::to_le_bytes(*length));
            payload.resize(payload.len() + record_bytes(*length as usize) - 4, 5);
        }
        let header = FrameHeader {
            flags,
            headers_crc: 0,
            payload_bytes: payload.len() as u32,
            record_count: if flags == 2 { 0 } else { lengths.len() as u32 },
            first_lsn: Lsn(4),
            durable_lsn: Lsn(2),
        };
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        header.encode(SEED, &mut bytes);
        bytes.extend_from_slice(&payload);
        seal::frame(SEED, &mut bytes);
        examples.push([&[0], &bytes[..]].concat());
        examples.push([&[1], &bytes[..]].concat());
    }
    examples
}
