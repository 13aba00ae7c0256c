//! Repair: what is sound in a damaged log is kept, the rest is told and let go of.
//!
//! A segment without damage stays as it is. The sound records of a damaged one are written once more, to a cold segment that
//! replaces it. Then one manifest says what there is. The file of a replaced segment stays beside, as `N.seg.damaged`.
//!
//! Invariants:
//!
//! 1. Damage costs the records that it lies in. A frame's header, a segment's header, a footer and the manifest cost none.
//! 2. What [`Log::open`] would take for a torn tail is no damage, and ends the log here as it does there. The same evidence
//!    decides: somebody says that the records were durable.
//! 3. A log that opens is not changed.
//! 4. With parts of the manifest lost, every segment that has a file is taken up, dropped ones too that were not removed yet: the
//!    owner must tell old records from new ones by what is in them.
//! 5. What is sound piece by piece and still does not open (a watermark that lies past the end, a batch that goes on past a seal)
//!    is a segment that contradicts itself or the manifest: it is told, and taken apart like a damaged one, in another round.
//!
//! **Crash argument.** Each round is one step. Everything is written beside what is there and synced, cold segments under
//! numbers that nobody has used; the kept segments are synced too. The rename of the manifest is the one step that counts. Before it the damaged log is as it
//! was, the cold segments are files that no manifest names, and repair can run again; after it the log is whole. The files of
//! replaced segments are renamed last: if that is cut short, the next opening removes them like any dropped segment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::{Io, Lock, Mapping, OpenMode};
use biombo_base::{Error, ErrorKind, Result};

use crate::cold::ColdWriter;
use crate::failure::Failure;
use crate::footer::read_footer;
use crate::format::{ALIGN_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, record_at};
use crate::manifest::{Entry, FooterAt, Manifest, Salvaged, Seal, State};
use crate::names::{Name, lock_path};
use crate::prepare::PREPARED;
use crate::recovery::{Found, Listing, recover};
use crate::{Log, Lsn, Position, SegmentKind, SegmentNumber};

use scan::{Known, Scanned};

mod scan;
#[cfg(test)]
mod tests;

/// Bytes of a damaged record that its owner gets to see.
const SHOWN_BYTES_MAX: usize = 128 << 10;
/// What is said of a footer that its owner does not believe.
const UNFIT: &str = "the footer of a segment says something else than its records";

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// How much; 0 where something is missing.
    pub bytes: u64,
    /// What is wrong.
    pub what: String,
    /// If it is one record: its bytes as they lie there, the first of them, with whatever is wrong in them.
    pub record: Option<Vec<u8>>,
}

/// Who owns the log that is repaired.
pub trait Salvage {
    /// Whether a record with a right checksum is one of the owner's. One that is not is damage.
    fn accepts(&mut self, record: &[u8]) -> bool;

    /// Whether a segment's footer is right about `records`, which are all that the segment has, in their order, each with its place.
    /// One that is not is damage; the segment goes on without it.
    fn fits(&mut self, footer: &[u8], records: &mut dyn Iterator<Item = (Position, &[u8])>) -> bool {
        let _ = (footer, records);
        true
    }

    /// There is damage, and nothing was changed yet: what the owner keeps beside the log and derives from it is to go now.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Something is damaged.
    fn lost(&mut self, loss: Loss);
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Damages that were told of.
    pub losses: u64,
    /// Segments that were replaced; their files have `.damaged` at the end of their names.
    pub replaced: Vec<SegmentNumber>,
    /// Records that were written once more.
    pub moved_records: u64,
}

impl Log {
    /// Make a damaged log one that opens, with every record that is sound; see `docs/format/journal.md`. A log that is whole is not
    /// changed.
    ///
    /// `Busy` while somebody has it open, `NotFound` where there is none, `Unsupported` for another version's. After any error
    /// the log is as it was, or as one round of repair left it; repair can run again.
    pub fn repair(io: &Arc<dyn Io>, dir: &Path, owner: &mut dyn Salvage) -> Result<Repaired> {
        let _lock = locked(&**io, dir)?;
        let mut repair = Repair { io, dir, owner, mends: true, done: Repaired::default(), distrusted: BTreeMap::new() };
        if repair.damage()?.is_none() {
            return Ok(repair.done);
        }
        repair.owner.begin()?;
        loop {
            repair.run()?;
            // What is sound piece by piece may contradict itself: then the segment that does is taken apart too.
            match repair.damage()? {
                None => return Ok(repair.done),
                Some(damage) => repair.distrust(damage)?,
            }
        }
    }

    /// Tell of everything that is damaged in a log that does not open, and change nothing: the damages that were told of. What contradicts
    /// itself without being damaged (invariant 5) is told where it is all that is wrong; beside other damage only [`repair`](Self::repair)
    /// finds it.
    ///
    /// Errors as those of [`repair`](Self::repair). [`Salvage::begin`] is not called.
    pub fn inspect(io: &Arc<dyn Io>, dir: &Path, owner: &mut dyn Salvage) -> Result<u64> {
        let _lock = locked(&**io, dir)?;
        let mut repair =
            Repair { io, dir, owner, mends: false, done: Repaired::default(), distrusted: BTreeMap::new() };
        let Some(damage) = repair.damage()? else { return Ok(0) };
        repair.run()?;
        if repair.done.losses == 0 {
            let (path, offset) = damage.place().unwrap_or((dir, 0));
            repair.lost(path, offset, 0, damage.message());
        }
        Ok(repair.done.losses)
    }
}

/// The lock of the log in `dir`, which is there and which nobody has open.
fn locked(io: &dyn Io, dir: &Path) -> Result<Box<dyn Lock>> {
    let failed = |doing: &str, e| Error::io(format_args!("{doing} the journal {}", dir.display()), e);
    if !io.exists(dir).map_err(|e| failed("open", e))? {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no journal in {}", dir.display())));
    }
    io.try_lock(&lock_path(dir)).map_err(|e| failed("lock", e))?.ok_or_else(|| {
        let what = format!("the journal {} is open already, here or in another process", dir.display());
        Error::new(ErrorKind::Busy, what)
    })
}

/// A segment whose seed is known.
struct Source {
    number: SegmentNumber,
    path: PathBuf,
    map: Arc<Mapping>,
    kind: SegmentKind,
    /// `None` when it cannot be read.
    header: Option<SegmentHeader>,
    seed: u32,
    base_lsn: Lsn,
    seal: Option<Seal>,
}

impl Source {
    fn bytes(&self) -> &[u8] {
        self.map.slice(0, self.map.committed()).unwrap_or_default()
    }
}

struct Repair<'a> {
    io: &'a Arc<dyn Io>,
    dir: &'a Path,
    owner: &'a mut dyn Salvage,
    /// Otherwise it tells, and changes nothing.
    mends: bool,
    done: Repaired,
    /// Segments that opening refuses whatever is sound in them: where and why.
    distrusted: BTreeMap<SegmentNumber, (u64, String)>,
}

impl Repair<'_> {
    /// What keeps it from being opened with every record one of the owner's; `None`: it is whole.
    fn damage(&mut self) -> Result<Option<Error>> {
        let listing = Listing::read(&**self.io, self.dir)?;
        let Self { io, dir, owner, .. } = self;
        let mut has_foreign = false;
        let opened = crate::manifest::Loaded::read(&***io, dir).and_then(|loaded| {
            let mut replay = |_, _, record: &[u8]| {
                has_foreign |= !owner.accepts(record);
                Ok(())
            };
            let recovered = recover(&***io, dir, &listing, loaded.as_ref(), &mut replay)?;
            for found in &recovered.segments {
                let path = Name::Segment(found.header.number).path(dir);
                found.seal.footer.map(|at| read_footer(&***io, &path, found.header.seed(), at)).transpose()?;
            }
            Ok(recovered.segments)
        });
        match opened {
            Ok(_) if has_foreign => Ok(Some(Error::corruption(*dir, 0, "a record that is none of its owner's"))),
            Ok(segments) => self.unfit_footer(&segments),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// The first footer of sound segments that is wrong about their records.
    fn unfit_footer(&mut self, segments: &[Found]) -> Result<Option<Error>> {
        for Found { header, seal, .. } in segments {
            let (Some(at), Some(map)) = (seal.footer, self.map(header.number)?) else { continue };
            let path = Name::Segment(header.number).path(self.dir);
            let (kind, seed, base_lsn) = (header.kind, header.seed(), header.base_lsn);
            let (number, header, seal) = (header.number, Some(*header), Some(*seal));
            let source = Source { number, path, map, kind, header, seed, base_lsn, seal };
            let scanned = self.scan(&source, None, Lsn(u64::MAX));
            if !self.fits(&source, &scanned, at)? {
                return Ok(Some(Error::corruption(&source.path, at.offset, UNFIT)));
            }
        }
        Ok(None)
    }

    /// Whether the footer at `at` of a segment without damage is right about its records.
    fn fits(&mut self, source: &Source, scanned: &Scanned, at: FooterAt) -> Result<bool> {
        let footer = read_footer(&**self.io, &source.path, source.seed, at)?;
        let mut records = scanned.records.iter().filter_map(|&offset| {
            let (record, _) = record_at(source.bytes(), offset)?;
            Some((Position::new(source.number, u32::try_from(offset).ok()?)?, record))
        });
        Ok(self.owner.fits(&footer, &mut records))
    }

    /// Take the segment that is still damaged apart when it is scanned again. The error again when that is no way out: each
    /// segment is distrusted once.
    fn distrust(&mut self, damage: Error) -> Result<()> {
        let place = damage.place().map(|(path, offset)| (path.to_owned(), offset));
        let listing = Listing::read(&**self.io, self.dir)?;
        let segment = place.and_then(|(path, offset)| {
            let number = listing.segments.iter().find(|number| Name::Segment(**number).path(self.dir) == path)?;
            (!self.distrusted.contains_key(number)).then_some((*number, offset))
        });
        let Some((number, offset)) = segment else { return Err(damage) };
        self.distrusted.insert(number, (offset, damage.message().to_owned()));
        Ok(())
    }

    fn lost(&mut self, file: &Path, offset: u64, bytes: u64, what: impl Into<String>) {
        self.done.losses += 1;
        self.owner.lost(Loss { file: file.to_owned(), offset, bytes, what: what.into(), record: None });
    }

    fn run(&mut self) -> Result<()> {
        let before = self.done.replaced.len();
        let listing = Listing::read(&**self.io, self.dir)?;
        let manifest = self.manifest(&listing)?;
        let mut sources = Vec::new();
        for number in manifest.0 {
            sources.extend(self.source(number, &manifest.1)?);
        }
        // Cold segments do not lie in the log's order.
        sources.sort_by_key(|source| (source.kind == SegmentKind::Hot, source.number));
        let stated = manifest.1.durable_lsn;
        let durable_lsn =
            sources.iter().filter(|source| source.kind == SegmentKind::Hot).fold(stated, |lsn, source| {
                let header = source.header.map_or(Lsn::FIRST, |header| header.durable_lsn);
                lsn.max(header).max(scan::watermark(source.bytes(), source.seed))
            });
        let used = listing.segments.iter().chain(&listing.new).chain(&listing.free).map(|number| number.0);
        let next = used.max().unwrap_or(0).saturating_add(1).max(manifest.1.next_number.0);
        let mut state = State { entries: BTreeMap::new(), durable_lsn: Lsn::FIRST, next_number: SegmentNumber(next) };
        let mut last_lsn = Lsn::FIRST;
        for (i, source) in sources.iter().enumerate() {
            let bound = sources.get(i + 1).filter(|_| source.kind == SegmentKind::Hot).map(|later| later.base_lsn);
            let scanned = self.scan(source, bound, durable_lsn);
            // A file that was cut in the padding of its last frame has all its records, and ends before its seal.
            let is_whole = scanned.end <= source.bytes().len();
            let distrusted = self.distrusted.get(&source.number).cloned();
            let is_sound = scanned.gaps.is_empty() && is_whole && source.header.is_some() && distrusted.is_none();
            if is_sound {
                let footer = self.footer(source, &scanned);
                self.sync(&source.path)?;
                let seal = Seal { end_lsn: scanned.end_lsn, data_bytes: scanned.end as u64, footer };
                let entry = Entry { kind: source.kind, base_lsn: source.base_lsn, seal: Some(seal) };
                state.entries.insert(source.number, entry);
                if source.kind == SegmentKind::Hot {
                    last_lsn = scanned.end_lsn;
                }
            } else {
                self.tell(source, &scanned);
                if let Some((offset, what)) = distrusted {
                    self.lost(&source.path, offset, 0, what);
                }
                if self.mends {
                    self.rewrite(source, &scanned, &mut state)?;
                    self.done.replaced.push(source.number);
                }
            }
            if scanned.is_torn {
                break;
            }
        }
        if !self.mends {
            return Ok(());
        }
        // Nobody may say that more was durable than there is.
        state.durable_lsn = durable_lsn.min(last_lsn);
        Manifest::open_as(Arc::clone(self.io), self.dir, state).map_err(Failure::into_error)?;
        for &number in &self.done.replaced[before..] {
            let path = Name::Segment(number).path(self.dir);
            let aside = path.with_extension("seg.damaged");
            let failed = |e| Error::io(format_args!("rename {}", path.display()), e);
            self.io.rename(&path, &aside).map_err(failed)?;
        }
        self.io.sync_dir(self.dir).map_err(|e| Error::io(format_args!("sync {}", self.dir.display()), e))
    }

    /// What is kept of a segment is durable.
    fn sync(&self, path: &Path) -> Result<()> {
        if !self.mends {
            return Ok(());
        }
        let file = self.io.open(path, OpenMode::WRITE);
        file.and_then(|file| file.sync()).map_err(|e| Error::io(format_args!("sync {}", path.display()), e))
    }

    /// What can be read of the manifest, and the segments to take up.
    fn manifest(&mut self, listing: &Listing) -> Result<(BTreeSet<SegmentNumber>, State)> {
        let Salvaged { path, state, losses } = Salvaged::read(&**self.io, self.dir)?;
        let mut has_holes = !losses.is_empty();
        for (offset, what) in losses {
            self.lost(&path, offset, 0, what);
        }
        let mut numbers: BTreeSet<_> = state.entries.keys().copied().collect();
        for &number in state.entries.keys().filter(|number| !listing.segments.contains(number)) {
            numbers.remove(&number);
            has_holes = true;
            self.lost(
                &Name::Segment(number).path(self.dir),
                0,
                0,
                "this segment is named by the manifest and is missing",
            );
        }
        for &number in listing.segments.iter().filter(|number| !state.entries.contains_key(number)) {
            // The last edit may be lost without a trace, but then the segment that it named has frames.
            let is_newer = number >= state.next_number
                && self.map(number)?.is_some_and(|map| {
                    let bytes = map.slice(0, map.committed()).unwrap_or_default();
                    let path = Name::Segment(number).path(self.dir);
                    let header = SegmentHeader::decode(&path, bytes).ok();
                    header.is_some_and(|header| {
                        let first = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
                        header.kind == SegmentKind::Hot
                            && crate::format::FrameHeader::decode(header.seed(), first).is_some()
                    })
                });
            if is_newer {
                self.lost(&path, 0, 0, format!("the edit that names segment {number} cannot be read"));
            }
            if has_holes || is_newer {
                numbers.insert(number);
            }
        }
        Ok((numbers, state))
    }

    fn map(&self, number: SegmentNumber) -> Result<Option<Arc<Mapping>>> {
        let path = Name::Segment(number).path(self.dir);
        let failed = |e| Error::io(format_args!("read {}", path.display()), e);
        let file = self.io.open(&path, OpenMode::READ).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        if bytes < SEGMENT_HEADER_BYTES as u64 {
            return Ok(None);
        }
        file.map(bytes, bytes, false).map(Some).map_err(failed)
    }

    /// A segment to take up; `None` when nothing of it can be read.
    fn source(&mut self, number: SegmentNumber, state: &State) -> Result<Option<Source>> {
        let path = Name::Segment(number).path(self.dir);
        let entry = state.entries.get(&number);
        let Some(map) = self.map(number)? else {
            self.lost(&path, 0, 0, "the file is too short for a segment");
            return Ok(None);
        };
        let bytes = map.slice(0, map.committed()).unwrap_or_default();
        let header = match SegmentHeader::decode(&path, bytes) {
            Ok(header) if header.number == number => Some(header),
            Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
            Ok(_) | Err(_) => None,
        };
        // A sound header that contradicts the manifest is of another life. One that was prepared does not say where it begins.
        let fits = |header: &SegmentHeader| {
            let begins = |entry: &Entry| entry.base_lsn == header.base_lsn || header.base_lsn == PREPARED;
            entry.is_none_or(|entry| entry.kind == header.kind && begins(entry))
        };
        let header = header.filter(fits);
        if entry.is_some_and(|entry| entry.base_lsn == PREPARED)
            && let Some(header) = &header
            && scan::first_lsn(bytes, header.seed()).is_none()
        {
            // Prepared and not begun.
            return Ok(None);
        }
        if header.is_none() {
            self.lost(&path, 0, SEGMENT_HEADER_BYTES as u64, "the header of a segment is damaged");
        }
        let known = entry.map(|entry| entry.base_lsn).filter(|lsn| *lsn != PREPARED);
        let seed = header.map(|header| header.seed()).or_else(|| scan::seed_of(bytes, known));
        let Some(seed) = seed else {
            // Without a frame there is nothing to lose, with one that is damaged too nothing to find.
            self.lost(&path, SEGMENT_HEADER_BYTES as u64, 0, "nothing in this segment can be read");
            self.done.replaced.push(number);
            return Ok(None);
        };
        let first_lsn = || scan::first_lsn(bytes, seed).unwrap_or(Lsn::FIRST);
        let kind = entry.map(|entry| entry.kind).or(header.map(|header| header.kind));
        let said = header.map(|header| header.base_lsn).filter(|lsn| *lsn != PREPARED);
        let base_lsn = known.or(said).unwrap_or_else(first_lsn);
        let seal = entry.and_then(|entry| entry.seal);
        // Of what nobody knows, only cold segments begin with 1 beside the very first one.
        let kind = kind.unwrap_or(if base_lsn == Lsn::FIRST { SegmentKind::Cold } else { SegmentKind::Hot });
        Ok(Some(Source { number, path, map: Arc::clone(&map), kind, header, seed, base_lsn, seal }))
    }

    fn scan(&mut self, source: &Source, bound: Option<Lsn>, durable_lsn: Lsn) -> Scanned {
        let bytes = source.bytes();
        let is_cold = source.kind == SegmentKind::Cold;
        let sealed = source.seal.map(|seal| seal.data_bytes as usize);
        let known = Known {
            seed: source.seed,
            block_bytes: source.header.map_or(ALIGN_BYTES, |header| header.block_bytes()),
            base_lsn: source.base_lsn,
            end_lsn: source.seal.map(|seal| seal.end_lsn).or(bound),
            durable_lsn: if is_cold { Lsn(u64::MAX) } else { durable_lsn },
            data_bytes: sealed.unwrap_or_else(|| scan::footer_at(bytes, source.seed)),
        };
        scan::scan(bytes, &known, &mut |record| self.owner.accepts(record))
    }

    /// Its footer, if it has one, it is as it was written and right about its records.
    fn footer(&mut self, source: &Source, scanned: &Scanned) -> Option<FooterAt> {
        let at = source.seal?.footer?;
        match self.fits(source, scanned, at) {
            Ok(true) => Some(at),
            Ok(false) => {
                self.lost(&source.path, at.offset, at.bytes.into(), UNFIT);
                None
            }
            Err(error) => {
                self.lost(&source.path, at.offset, at.bytes.into(), error.message());
                None
            }
        }
    }

    fn tell(&mut self, source: &Source, scanned: &Scanned) {
        for gap in &scanned.gaps {
            let start = gap.bytes.start + RECORD_HEADER_BYTES;
            let shown = start.min(gap.bytes.end)..gap.bytes.end.min(start + SHOWN_BYTES_MAX);
            let record = gap.is_record.then(|| source.bytes().get(shown).map(<[u8]>::to_vec)).flatten();
            self.done.losses += 1;
            self.owner.lost(Loss {
                file: source.path.clone(),
                offset: gap.bytes.start as u64,
                bytes: gap.bytes.len() as u64,
                what: gap.what.to_owned(),
                record,
            });
        }
    }

    /// Write what is sound to cold segments, which are complete, synced and named when this returns.
    fn rewrite(&mut self, source: &Source, scanned: &Scanned, state: &mut State) -> Result<()> {
        let mut writer: Option<ColdWriter> = None;
        for &at in &scanned.records {
            let Some((record, _)) = record_at(source.bytes(), at) else { continue };
            let mut cold = match writer.take() {
                Some(cold) => cold,
                None => self.cold(state)?,
            };
            match cold.append(&[record]) {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    finish(cold, state)?;
                    cold = self.cold(state)?;
                    cold.append(&[record])?;
                }
                appended => drop(appended?),
            }
            self.done.moved_records += 1;
            writer = Some(cold);
        }
        writer.map_or(Ok(()), |cold| finish(cold, state))
    }

    fn cold(&self, state: &mut State) -> Result<ColdWriter> {
        let number = state.next_number;
        let next = number.0.checked_add(1).filter(|next| *next < u32::MAX);
        state.next_number =
            SegmentNumber(next.ok_or_else(|| Error::new(ErrorKind::Full, "all numbers of segments are used"))?);
        ColdWriter::create(Arc::clone(self.io), self.dir.to_owned(), number)
    }
}

fn finish(cold: ColdWriter, state: &mut State) -> Result<()> {
    let mut cold = cold.finish(&[])?;
    cold.name().map_err(Failure::into_error)?;
    let entry = Entry { kind: SegmentKind::Cold, base_lsn: Lsn::FIRST, seal: Some(cold.found.seal) };
    state.entries.insert(cold.number(), entry);
    cold.installed();
    Ok(())
}
