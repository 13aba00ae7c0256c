//! Opening: the chain of segments, replayed in order.
//!
//! The rule that tells a torn tail from damage: when the frame with record L cannot be read, L was never acknowledged
//! unless somebody says that it was durable. Two can say so: the header of a later segment (`base_lsn` > L), and a frame
//! header further on in the same segment (`durable_lsn` > L). If one does, it is `Corruption`; if none does, the journal
//! ends at L.
//!
//! Nothing is changed here but for the page cache ([`settle`]), so that a crash during recovery leaves what was there. What lies behind the end stays in its
//! segment and stays dead: appending goes on in a new segment, whose header says that it begins at L, and a segment is
//! never read past the beginning of the next one.

use std::collections::VecDeque;
use std::path::Path;

use biombo_base::io::{Io, OpenMode};
use biombo_base::{Error, Result};

use crate::Lsn;
use crate::format::split_records;
use crate::names::Name;
use crate::reader::SegmentReader;

/// What the caller does with each record.
pub(crate) type Replay<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> Result<()>;

/// A segment that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub number: u64,
    pub base_lsn: Lsn,
    pub file_bytes: u64,
}

/// What is in the directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers, ascending.
    pub segments: Vec<u64>,
    pub new: Vec<u64>,
    pub free: Vec<u64>,
}

impl Listing {
    pub fn read(io: &dyn Io, dir: &Path) -> Result<Self> {
        let names = io.read_dir(dir).map_err(|e| Error::io(format_args!("list {}", dir.display()), e))?;
        let mut listing = Self::default();
        for name in names {
            match Name::parse(&name) {
                Some(Name::Segment(number)) => listing.segments.push(number),
                Some(Name::New(number)) => listing.new.push(number),
                Some(Name::Free(number)) => listing.free.push(number),
                None => {}
            }
        }
        listing.segments.sort_unstable();
        Ok(listing)
    }
}

/// Where a recovered journal stands.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub segments: Vec<Segment>,
    pub next_lsn: Lsn,
    /// Where the last segment's good frames end, in bytes.
    pub last_end: u64,
    /// From here to there no watermark says that the last segment's frames are durable.
    pub last_unsettled: u64,
}

/// Replay `numbers` (ascending).
pub(crate) fn recover(io: &dyn Io, dir: &Path, numbers: &[u64], replay: Replay<'_>) -> Result<Recovered> {
    let mut recovered = Recovered { segments: Vec::new(), next_lsn: Lsn::FIRST, last_end: 0, last_unsettled: 0 };
    let mut next = numbers.first().map(|number| open_segment(io, dir, *number)).transpose()?;
    let mut position = 0;
    while let Some(mut reader) = next {
        position += 1;
        next = match numbers.get(position) {
            Some(&number) if number != reader.header.number + 1 => {
                let missing = Name::Segment(reader.header.number + 1).path(dir);
                return Err(Error::corruption(
                    missing,
                    0,
                    "this journal segment is missing between two that are there",
                ));
            }
            Some(&number) => Some(open_segment(io, dir, number)?),
            None => None,
        };
        let end = next.as_ref().map(|next| next.header.base_lsn);
        let replayed = replay_segment(&mut reader, end, replay)?;
        recovered.next_lsn = replayed.next_lsn;
        recovered.last_end = replayed.end;
        recovered.last_unsettled = replayed.unsettled;
        recovered.segments.push(Segment {
            number: reader.header.number,
            base_lsn: reader.header.base_lsn,
            file_bytes: reader.file_bytes,
        });
    }
    Ok(recovered)
}

fn open_segment(io: &dyn Io, dir: &Path, number: u64) -> Result<SegmentReader> {
    let reader = SegmentReader::open(io, Name::Segment(number).path(dir))?;
    if reader.header.number != number {
        let says = reader.header.number;
        return Err(reader.damage(24, format!("the header says that this is segment {says:#x}")));
    }
    Ok(reader)
}

/// Make the last segment durable to its end, before anything relies on what was replayed from it.
///
/// The segments before it were durable before it was made, and its frames up to the last watermark too. Behind that, a
/// killed process may have left its last writes in the page cache only; and if it was a failed sync that ended it, those
/// pages may count as clean, and no sync would ever write them. So these frames are written once more, the same bytes in
/// the same place, and synced: a crash meanwhile leaves what was there.
pub(crate) fn settle(io: &dyn Io, path: &Path, recovered: &Recovered) -> Result<()> {
    let failed = |e| Error::io(format_args!("make {} durable", path.display()), e);
    let file = io.open(path, OpenMode { write: true, ..OpenMode::READ }).map_err(failed)?;
    let mut at = recovered.last_unsettled;
    let mut chunk = Vec::new();
    while at < recovered.last_end {
        chunk.resize((recovered.last_end - at).min(1 << 20) as usize, 0);
        let got = file.read_at(&mut chunk, at).map_err(failed)?;
        if got == 0 {
            break;
        }
        file.write_at(&chunk[..got], at).map_err(failed)?;
        at += got as u64;
    }
    file.sync().map_err(failed)
}

/// How far a segment went.
struct Replayed {
    next_lsn: Lsn,
    /// The offset behind the last good frame.
    end: u64,
    /// The offset of the first frame that no later one says was durable.
    unsettled: u64,
}

/// Replay one segment up to `end` (the beginning of the next one) or, in the last one, to the last good frame.
fn replay_segment(reader: &mut SegmentReader, end: Option<Lsn>, replay: Replay<'_>) -> Result<Replayed> {
    // Frames behind the watermark, oldest first: position and offset.
    let mut unsettled: VecDeque<(Lsn, u64)> = VecDeque::new();
    let mut lsn = reader.header.base_lsn;
    let mut offset = SegmentReader::START;
    while end != Some(lsn) {
        let Some((frame, payload)) = reader.frame(offset)? else { break };
        if frame.first_lsn != lsn {
            break;
        }
        if end.is_some_and(|end| frame.end_lsn() > end) {
            return Err(reader.damage(offset, "a batch goes on past the beginning of the next segment"));
        }
        let Some(records) = split_records(payload, frame.record_count) else {
            return Err(reader.damage(offset, "the records of a batch do not fill it, though its checksum holds"));
        };
        for record in records {
            replay(lsn, record)?;
            lsn = lsn.plus(1);
        }
        while unsettled.front().is_some_and(|(first, _)| *first < frame.durable_lsn) {
            unsettled.pop_front();
        }
        unsettled.push_back((frame.first_lsn, offset));
        offset = reader.next_offset(offset, &frame);
    }
    if let Some(end) = end {
        if lsn != end {
            let what = format!("records {lsn} to {} were durable here and cannot be read", end.0.saturating_sub(1));
            return Err(reader.damage(offset, what));
        }
    } else if let Some(durable) = reader.watermark_behind(offset)?
        && durable > lsn
    {
        let what = format!("records {lsn} to {} were durable here and cannot be read", durable.0 - 1);
        return Err(reader.damage(offset, what));
    }
    let unsettled = unsettled.front().map_or(offset, |(_, offset)| *offset);
    Ok(Replayed { next_lsn: lsn, end: offset, unsettled })
}
