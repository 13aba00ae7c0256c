//! Opening: what the manifest names, replayed in order.
//!
//! The rule that tells a torn tail from damage: when the frame with record L of the log cannot be read, L was never
//! acknowledged as durable unless somebody says that it was. Those who can: the manifest, the header of any segment of the
//! log, and any frame header behind the place, in its own segment or in a later one (`durable_lsn` > L in each). If one
//! does, it is `Corruption`; if none does, the log ends at L: later segments hold what was written behind a hole, and are
//! discarded.
//!
//! Nothing is changed here, so that a crash during recovery leaves what was there. What lies behind the end stays in its
//! segment and stays dead: appending goes on in a new segment, and what the manifest then says of the old one is that it
//! ends at L.

use std::collections::VecDeque;
use std::path::Path;

use biombo_base::io::Io;
use biombo_base::{Error, Result};

use crate::footer::read_footer;
use crate::format::{FRAME_HEADER_BYTES, SegmentHeader, records};
use crate::manifest::{Entry, FooterAt, Loaded, Seal, State};
use crate::names::Name;
use crate::prepare::PREPARED;
use crate::reader::SegmentReader;
use crate::{Lsn, Position, Replay, SegmentInfo, SegmentKind, SegmentNumber, Wants};

/// What is in the directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers, ascending.
    pub segments: Vec<SegmentNumber>,
    pub new: Vec<SegmentNumber>,
    pub free: Vec<SegmentNumber>,
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

/// A segment that is in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub header: SegmentHeader,
    pub seal: Seal,
    pub file_bytes: u64,
    /// From here on no watermark says that its frames are durable; `None` when all of it is known to be.
    pub unsettled: Option<u64>,
}

/// Where a recovered log stands.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Cold ones first, then those of the log.
    pub segments: Vec<Found>,
    /// Segments of the log behind its end.
    pub discarded: Vec<SegmentNumber>,
    /// Segments that the manifest does not name: what a crash left of making or dropping one.
    pub unnamed: Vec<SegmentNumber>,
    /// Segments whose end or footer the manifest does not say as it was found: a crash took the footer before it was synced, or
    /// came before the edit.
    pub unfooted: Vec<SegmentNumber>,
    /// Segments that were prepared, and where they begin, which the manifest does not say.
    pub begun: Vec<(SegmentNumber, Lsn)>,
    pub next_lsn: Lsn,
    /// All before it is known to be durable.
    pub durable_lsn: Lsn,
}

struct Recovery<'a> {
    io: &'a dyn Io,
    dir: &'a Path,
    replay: &'a mut dyn Replay,
}

/// Replay what `loaded` names of `listing`.
pub(crate) fn recover(
    io: &dyn Io,
    dir: &Path,
    listing: &Listing,
    loaded: Option<&Loaded>,
    replay: &mut dyn Replay,
) -> Result<Recovered> {
    let mut recovery = Recovery { io, dir, replay };
    recovery.replay.begin()?;
    let Some(loaded) = loaded else {
        if let Some(first) = listing.segments.first() {
            // Says so if an older version wrote it.
            recovery.open(*first)?;
            let path = crate::names::manifest_path(dir);
            return Err(Error::corruption(path, 0, "segments are there and their manifest is missing"));
        }
        let (next_lsn, durable_lsn) = (Lsn::FIRST, Lsn::FIRST);
        let (segments, discarded, unnamed, unfooted, begun) = Default::default();
        return Ok(Recovered { segments, discarded, unnamed, unfooted, begun, next_lsn, durable_lsn });
    };
    let state = &loaded.state;
    if let Some(missing) = state.entries.keys().find(|number| !listing.segments.contains(number)) {
        let path = Name::Segment(*missing).path(dir);
        return Err(Error::corruption(path, 0, "this segment is named by the manifest and is missing"));
    }
    let unnamed: Vec<_> =
        listing.segments.iter().copied().filter(|number| !state.entries.contains_key(number)).collect();
    recovery.check_unnamed(&unnamed, state, loaded.end())?;

    let mut segments = Vec::new();
    for (number, entry) in state.entries.iter().filter(|(_, entry)| entry.kind == SegmentKind::Cold) {
        segments.push(recovery.cold(*number, entry)?);
    }
    let hot: Vec<_> = state.entries.iter().filter(|(_, entry)| entry.kind == SegmentKind::Hot).collect();
    // Only their headers for now: there may be more of them than files that may be open.
    let header = |(number, _): &(&SegmentNumber, &Entry)| -> Result<SegmentReader> {
        let mut reader = recovery.open(**number)?;
        reader.rest();
        Ok(reader)
    };
    let mut readers = hot.iter().map(header).collect::<Result<Vec<_>>>()?;
    let mut durable_lsn =
        readers.iter().map(|reader| reader.header.durable_lsn).fold(state.durable_lsn, |a, b| a.max(b));
    let mut next_lsn = Lsn::FIRST;
    let mut discarded = Vec::new();
    let mut unfooted = Vec::new();
    let mut begun = Vec::new();
    for (i, (number, entry)) in hot.iter().enumerate() {
        let (reader, later) = readers[i..].split_first_mut().expect("invariant: there is a reader for each");
        let is_prepared = reader.header.base_lsn == PREPARED;
        let base_lsn = if entry.base_lsn == PREPARED { next_lsn } else { entry.base_lsn };
        if !is_prepared && reader.header.base_lsn != entry.base_lsn
            || reader.header.kind != entry.kind
            || base_lsn < next_lsn
        {
            return Err(reader.damage(32, "the header of a segment and the manifest differ"));
        }
        reader.header.base_lsn = base_lsn;
        if entry.base_lsn == PREPARED {
            begun.push((**number, base_lsn));
        }
        let is_followed = hot.get(i + 1).is_some_and(|(_, next)| next.base_lsn == PREPARED);
        if entry.seal.is_none() && !later.is_empty() && !is_followed {
            return Err(reader.damage(0, "the manifest does not say where this segment ends, and names later ones"));
        }
        if entry.seal.is_some_and(|seal| seal.end_lsn < base_lsn) {
            return Err(reader.damage(32, "the manifest says that this segment ends before it begins"));
        }
        if entry.seal.is_some_and(|seal| seal.data_bytes > reader.file_bytes && seal.end_lsn <= durable_lsn) {
            return Err(reader.damage(reader.file_bytes, "a segment is shorter than its records"));
        }
        let (mut seal, mut is_footer_unsettled) = (entry.seal, false);
        if let Some(seal) = &mut seal
            && let Some(at) = seal.footer
            && seal.end_lsn >= durable_lsn
        {
            // Nothing behind it is known to be durable, so it may not have been synced after it was sealed.
            is_footer_unsettled = recovery.has_footer(reader, at)?;
            if !is_footer_unsettled {
                seal.footer = None;
                unfooted.push(**number);
            }
        }
        let whole = seal.filter(|seal| seal.end_lsn <= durable_lsn);
        let taken = match whole {
            Some(seal) => recovery.take_up(reader, seal, durable_lsn)?,
            None => Taken::No,
        };
        let mut found = match taken {
            Taken::As(found) => found,
            Taken::No => {
                reader.wake(io)?;
                let replayed = replay_segment(reader, entry.seal.map(|seal| seal.end_lsn), recovery.replay)?;
                durable_lsn = durable_lsn.max(replayed.durable_lsn);
                let end = replayed.next_lsn;
                let is_cut = entry.seal.is_some_and(|seal| end < seal.end_lsn);
                if entry.seal.is_none() && !later.is_empty() {
                    unfooted.push(**number);
                }
                // A prepared segment that begins here shows that this one ended.
                let goes_on = is_followed && !is_cut && begins_with(io, &mut later[0], end)?;
                if is_cut || later.is_empty() || is_followed && !goes_on {
                    check_end(io, reader, &replayed, later, durable_lsn)?;
                }
                if is_cut {
                    discarded = hot[i + 1..].iter().map(|(number, _)| **number).collect();
                }
                let seal = match seal {
                    Some(seal) if !is_cut => seal,
                    _ => Seal { end_lsn: end, data_bytes: replayed.end, footer: None },
                };
                // A segment has its room, durably, before it is named.
                if seal.data_bytes > reader.file_bytes {
                    return Err(reader.damage(reader.file_bytes, "a segment is shorter than its records"));
                }
                let settled = end <= durable_lsn && entry.seal.is_some();
                let unsettled = if settled { None } else { Some(replayed.unsettled_from(durable_lsn)) };
                Found { header: reader.header, seal, file_bytes: reader.file_bytes, unsettled }
            }
        };
        debug_assert_eq!(found.header.number, **number);
        reader.rest();
        if is_footer_unsettled && found.seal.footer.is_some() {
            found.unsettled = found.unsettled.or(Some(found.seal.data_bytes));
        }
        next_lsn = found.seal.end_lsn;
        segments.push(found);
        if !discarded.is_empty() {
            break;
        }
    }
    let durable_lsn = durable_lsn.min(next_lsn);
    Ok(Recovered { segments, discarded, unnamed, unfooted, begun, next_lsn, durable_lsn })
}

enum Taken {
    As(Found),
    /// It must be read.
    No,
}

impl Recovery<'_> {
    fn open(&self, number: SegmentNumber) -> Result<SegmentReader> {
        let reader = SegmentReader::open(self.io, Name::Segment(number).path(self.dir))?;
        if reader.header.number != number {
            let says = reader.header.number;
            return Err(reader.damage(24, format!("the header says that this is segment {says}")));
        }
        Ok(reader)
    }

    /// A segment gets its first frame after the manifest names it. One that is newer than all that are named and has a frame
    /// shows that the manifest lost its end.
    fn check_unnamed(&self, unnamed: &[SegmentNumber], state: &State, end: u64) -> Result<()> {
        for &number in unnamed.iter().filter(|number| **number >= state.next_number) {
            let mut reader = self.open(number)?;
            if reader.header.kind == SegmentKind::Hot && reader.frame(SegmentReader::START)?.is_some() {
                let path = crate::names::manifest_path(self.dir);
                let what = format!("segment {number} has records, and the edit that names it cannot be read");
                return Err(Error::corruption(path, end, what));
            }
        }
        Ok(())
    }

    fn cold(&mut self, number: SegmentNumber, entry: &Entry) -> Result<Found> {
        let mut reader = self.open(number)?;
        let SegmentHeader { kind, base_lsn, .. } = reader.header;
        let is_cold = kind == SegmentKind::Cold && base_lsn == Lsn::FIRST && entry.base_lsn == Lsn::FIRST;
        let Some(seal) = entry.seal.filter(|seal| is_cold && seal.end_lsn >= Lsn::FIRST) else {
            return Err(reader.damage(12, "the header of a segment and the manifest differ"));
        };
        if seal.data_bytes > reader.file_bytes {
            return Err(reader.damage(reader.file_bytes, "a segment is shorter than its records"));
        }
        if let Taken::As(found) = self.take_up(&reader, seal, Lsn(u64::MAX))? {
            return Ok(found);
        }
        let replayed = replay_segment(&mut reader, Some(seal.end_lsn), self.replay)?;
        if replayed.next_lsn != seal.end_lsn {
            return Err(reader.damage(replayed.end, "a record of a cold segment cannot be read"));
        }
        Ok(Found { header: reader.header, seal, file_bytes: reader.file_bytes, unsettled: None })
    }

    fn has_footer(&self, reader: &SegmentReader, at: FooterAt) -> Result<bool> {
        match read_footer(self.io, &reader.path, reader.header.seed(), at) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == biombo_base::ErrorKind::Corruption => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Ask the owner how to take up a sealed and durable segment, and do it, unless it is to be read.
    fn take_up(&mut self, reader: &SegmentReader, seal: Seal, durable_lsn: Lsn) -> Result<Taken> {
        let found = Found { header: reader.header, seal, file_bytes: reader.file_bytes, unsettled: None };
        let info = found.info(true, durable_lsn);
        match (self.replay.wants(&info)?, seal.footer) {
            (Wants::Nothing, _) => return Ok(Taken::As(found)),
            (Wants::Footer, Some(at)) => {
                let footer = read_footer(self.io, &reader.path, reader.header.seed(), at);
                match footer.and_then(|footer| self.replay.footer(&info, &footer)) {
                    Ok(()) => return Ok(Taken::As(found)),
                    // What it says is in the records too.
                    Err(e) if e.kind() == biombo_base::ErrorKind::Corruption => {}
                    Err(e) => return Err(e),
                }
            }
            _ => {}
        }
        Ok(Taken::No)
    }
}

impl Found {
    pub fn info(&self, sealed: bool, durable_lsn: Lsn) -> SegmentInfo {
        let SegmentHeader { number, kind, mode, base_lsn, .. } = self.header;
        SegmentInfo {
            number,
            kind,
            mode,
            base_lsn,
            end_lsn: self.seal.end_lsn,
            data_bytes: self.seal.data_bytes,
            file_bytes: self.file_bytes,
            sealed,
            durable: kind == SegmentKind::Cold || self.seal.end_lsn <= durable_lsn,
            footer_bytes: self.seal.footer.map(|footer| footer.bytes),
        }
    }
}

/// Whether the first frame of a segment begins with this record.
fn begins_with(io: &dyn Io, reader: &mut SegmentReader, lsn: Lsn) -> Result<bool> {
    reader.wake(io)?;
    Ok(reader.frame(SegmentReader::START)?.is_some_and(|(frame, _)| frame.first_lsn == lsn && !frame.is_footer()))
}

/// How far a segment went.
struct Replayed {
    next_lsn: Lsn,
    /// The offset behind the last good frame.
    end: u64,
    /// Frames that no later one in the segment says were durable, oldest first: end and offset.
    unsettled: VecDeque<(Lsn, u64)>,
    /// The highest watermark met.
    durable_lsn: Lsn,
}

impl Replayed {
    fn unsettled_from(&self, durable_lsn: Lsn) -> u64 {
        let first = self.unsettled.iter().find(|(end, _)| *end > durable_lsn);
        first.map_or(self.end, |(_, offset)| *offset)
    }
}

/// Whether the log may end where `reader` was left: `Corruption` when somebody says that more was durable.
fn check_end(
    io: &dyn Io,
    reader: &mut SegmentReader,
    replayed: &Replayed,
    later: &mut [SegmentReader],
    durable_lsn: Lsn,
) -> Result<()> {
    let mut evidence = durable_lsn.max(reader.watermark_behind(replayed.end)?.unwrap_or(Lsn::FIRST));
    for later in later {
        later.wake(io)?;
        evidence = evidence.max(later.watermark_behind(SegmentReader::START)?.unwrap_or(Lsn::FIRST));
        later.rest();
    }
    let end = replayed.next_lsn;
    if evidence > end {
        let last = evidence.0 - 1;
        let what = format!(
            "record {end} was durable and cannot be read here; what lies behind it, up to record {last}, may be sound"
        );
        return Err(reader.damage(replayed.end, what));
    }
    Ok(())
}

/// Replay one segment up to `end` (where it was sealed) or to the last good frame.
fn replay_segment(reader: &mut SegmentReader, end: Option<Lsn>, replay: &mut dyn Replay) -> Result<Replayed> {
    let (number, seed) = (reader.header.number, reader.header.seed());
    let mut unsettled: VecDeque<(Lsn, u64)> = VecDeque::new();
    let mut durable_lsn = Lsn::FIRST;
    let mut lsn = reader.header.base_lsn;
    let mut offset = SegmentReader::START;
    while end != Some(lsn) {
        let Some((frame, payload)) = reader.frame(offset)? else { break };
        if frame.first_lsn != lsn || frame.is_footer() {
            break;
        }
        if end.is_some_and(|end| frame.end_lsn() > end) {
            // Its header is whole, and nothing behind the end was ever written there.
            return Err(reader.damage(offset, "a batch goes on past the end of its segment"));
        }
        let Some(records) = records(seed, &frame, payload) else { break };
        for (at, record) in records {
            let at = offset as usize + FRAME_HEADER_BYTES + at;
            let at = u32::try_from(at).ok().and_then(|at| Position::new(number, at));
            let Some(at) = at else { break };
            replay.record(at, lsn, record)?;
            lsn = lsn.plus(1);
        }
        durable_lsn = durable_lsn.max(frame.durable_lsn);
        while unsettled.front().is_some_and(|(end, _)| *end <= durable_lsn) {
            unsettled.pop_front();
        }
        unsettled.push_back((lsn, offset));
        offset = reader.next_offset(offset, &frame);
    }
    Ok(Replayed { next_lsn: lsn, end: offset, unsettled, durable_lsn })
}
