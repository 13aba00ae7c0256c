//! The segment files in use and those kept for reuse: making one, dropping one.
//!
//! Invariants:
//! 1. A file called `.seg` has a durable header that carries the number of its name: a segment is made under another name
//!    (`.new`, or the `.free` of a former life), its header is synced, then it is renamed and the directory is synced, then
//!    the manifest names it. Only then the first frame is written.
//! 2. A segment is dropped by an edit of the manifest. Its file goes after that, when nobody reads it any more.
//! 3. The last segment of the log's order is never dropped: it carries the position.
//! 4. A sealed segment is read directly only once it is durable: until then a direct read would wait for its pages to be written.
//! 5. A segment is dropped only when all records before its end are durable, so that what the log has lost at its end is
//!    never older than what was dropped.
//!
//! Making one on another thread, ahead of time, is in `prepare`; both use `supply`.
//!
//! After a crash while making a segment: `.new` is removed on opening, a `.free` with a new header stays free, a `.seg`
//! that the manifest does not name is removed. While dropping: the segment is named or it is not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_base::io::{BLOCK_BYTES, File, Io, IoMode, Mapping, OpenMode};
use biombo_base::{Error, Result};

use crate::cold::ColdSegment;
use crate::direct::DirectFile;
use crate::edits::{Edits, Unsaid};
use crate::failure::Failure;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::manifest::{Manifest, Op, Seal};
use crate::names::Name;
use crate::recovery::{Found, Listing, Recovered};
use crate::sealing::{Sealing, read_at_random, shorten};
use crate::supply::{Disused, Made, Removal, Supply};
use crate::table::{Data, Footer, Segment, Shared, Table};
use crate::{LogOptions, Lsn, Mode, SegmentKind, SegmentNumber};

/// A segment in use.
pub(crate) struct Live {
    pub found: Found,
    pub sealed: bool,
    /// What is being done since it is written no more.
    pub sealing: Option<Arc<Sealing>>,
    /// What readers see; `None` in a log without readers.
    pub segment: Option<Arc<Segment>>,
}

impl Live {
    /// The same as far as sealing has come.
    pub fn found(&self) -> Found {
        let sealing = self.sealing.as_ref();
        sealing.map_or(self.found, |s| Found { seal: s.seal(), file_bytes: s.file_bytes(), ..self.found })
    }
}

/// A dropped segment whose file is still there.
struct Retiring {
    live: Live,
    /// Set when nobody is pinned any more who was when it was dropped; `None` until the owner lets go of it.
    grace: Option<Arc<AtomicBool>>,
    in_table: bool,
}

pub(crate) struct Files {
    pub io: Arc<dyn Io>,
    pub dir: PathBuf,
    options: LogOptions,
    pub supply: Arc<Supply>,
    pub shared: Option<Arc<Shared>>,
    pub live: BTreeMap<SegmentNumber, Live>,
    next_number: SegmentNumber,
    retiring: Vec<Retiring>,
    /// Segments that are read directly since, as they were mapped: readers may still look at them. With the files that the page
    /// cache forgets after.
    unmapped: Vec<(Arc<Segment>, Arc<dyn File>)>,
    /// A sealed segment may still be mapped that is to be read directly.
    any_mapped: bool,
}

/// Map a sealed segment for reading.
pub(crate) fn map_sealed(file: &dyn File, seal: &Seal) -> std::io::Result<Arc<Mapping>> {
    let mapping = file.map(seal.data_bytes, seal.data_bytes, false)?;
    read_at_random(&mapping);
    Ok(mapping)
}

/// Whether anybody but its owner has a segment that is in no table any more.
fn is_held(segment: &Arc<Segment>) -> bool {
    // Who got hold of it while it was written holds another value over the same mapping.
    let is_mapped = matches!(&segment.data, Data::Mapped(mapping) if Arc::strong_count(mapping) > 1);
    Arc::strong_count(segment) > 1 || is_mapped
}

impl Files {
    /// With what opening found; what unfinished work left is removed.
    pub fn open(
        io: Arc<dyn Io>,
        dir: &Path,
        options: LogOptions,
        mut manifest: Manifest,
        listing: &Listing,
        recovered: &Recovered,
        shared: Option<Arc<Shared>>,
    ) -> Result<Self> {
        let last = recovered.segments.last().filter(|last| last.header.kind == SegmentKind::Hot);
        let last = last.map(|last| (last.header.number, last.seal));
        let begun =
            recovered.begun.iter().map(|&(number, base_lsn)| Op::Made { number, kind: SegmentKind::Hot, base_lsn });
        let begun: Vec<_> = begun.collect();
        if !recovered.discarded.is_empty() {
            let mut ops: Vec<_> = recovered.discarded.iter().map(|&number| Op::Dropped { number }).collect();
            ops.extend(last.map(|(number, seal)| Op::Sealed { number, seal }));
            manifest.reserve(ops.len()).map_err(Failure::into_error)?;
            manifest.append(&ops)?;
        }
        let unfooted = recovered.unfooted.iter().filter_map(|number| {
            let found = recovered.segments.iter().find(|found| found.header.number == *number)?;
            // What is last gets its edit when the next one is made.
            (last.is_none_or(|(last, _)| last != *number)).then_some(Op::Sealed { number: *number, seal: found.seal })
        });
        let unfooted: Vec<_> = begun.into_iter().chain(unfooted).collect();
        if !unfooted.is_empty() {
            manifest.reserve(unfooted.len()).map_err(Failure::into_error)?;
            manifest.append(&unfooted)?;
        }
        let removed = |name: Name| {
            let path = name.path(dir);
            io.remove_file(&path).map_err(|e| Error::io(format_args!("remove {}", path.display()), e))
        };
        let leftover = recovered.discarded.iter().chain(&recovered.unnamed);
        let leftover = leftover.map(|number| Name::Segment(*number)).chain(listing.new.iter().map(|n| Name::New(*n)));
        leftover.into_iter().try_for_each(removed)?;
        let next_number = manifest.state.next_number;
        let unsaid = last.map(|(number, seal)| Unsaid::Sealed(number, seal)).into_iter().collect();
        let edits = Edits::new(manifest, unsaid);
        let supply = Supply::new(Arc::clone(&io), dir.to_owned(), edits, &options);
        let stored_bytes = recovered.segments.iter().map(|found| found.file_bytes).sum();
        supply.want(options.segment_bytes_at(stored_bytes));
        for &number in &listing.free {
            let path = Name::Free(number).path(dir);
            let file = io.open(&path, OpenMode::READ).and_then(|file| file.len());
            let bytes = file.map_err(|e| Error::io(format_args!("open {}", path.display()), e))?;
            if !supply.keep(number, bytes) {
                removed(Name::Free(number))?;
            }
        }
        let mut live = BTreeMap::new();
        for found in &recovered.segments {
            let mode = if found.unsettled.is_some() { IoMode::Mmap } else { options.io };
            let segment = shared.as_ref().map(|_| open_for_reading(&*io, dir, found, mode)).transpose()?;
            live.insert(found.header.number, Live { found: *found, sealed: true, sealing: None, segment });
        }
        let (dir, supply) = (dir.to_owned(), Arc::new(supply));
        let (retiring, unmapped) = Default::default();
        let any_mapped = true;
        let files = Self { io, dir, options, supply, shared, live, next_number, retiring, unmapped, any_mapped };
        files.publish();
        Ok(files)
    }

    pub fn file_bytes(&self) -> u64 {
        let all = self.live.values().chain(self.retiring.iter().map(|r| &r.live));
        all.map(|live| live.found().file_bytes).sum::<u64>() + self.supply.free_bytes()
    }

    /// Segments of the log's order, oldest first.
    pub fn hot(&self) -> impl Iterator<Item = &Live> {
        self.live.values().filter(|live| live.found.header.kind == SegmentKind::Hot)
    }

    /// A number for a new segment.
    pub fn take_number(&mut self) -> Result<SegmentNumber> {
        let number = self.next_number;
        let next = number.0.checked_add(1);
        self.next_number =
            SegmentNumber(next.ok_or_else(|| {
                Error::new(biombo_base::ErrorKind::Full, "this log has used up its numbers of segments")
            })?);
        Ok(number)
    }

    /// Make the next segment of the log, large enough for a first write of `write_bytes`, in the place of one that was prepared
    /// in vain; durable when it returns.
    pub fn make(
        &mut self,
        base_lsn: Lsn,
        durable_lsn: Lsn,
        write_bytes: usize,
        mode: Mode,
        in_vain: Option<SegmentNumber>,
    ) -> Result<Made, Failure> {
        self.reclaim(durable_lsn);
        let number = self.take_number().map_err(Failure::Full)?;
        let needed = (SEGMENT_HEADER_BYTES + write_bytes).next_multiple_of(BLOCK_BYTES) as u64;
        let capacity_bytes = self.size_of(number).max(needed);
        let kind = SegmentKind::Hot;
        let id = self.io.random_u64();
        let header = SegmentHeader { id, number, base_lsn, capacity_bytes, mode, kind, durable_lsn };
        let dropped = in_vain.map(|number| Op::Dropped { number });
        let (made, said) = self.supply.make(header, dropped)?;
        for fact in said {
            match fact {
                Unsaid::Sealing(sealing) => sealing.shorten(&*self.io),
                Unsaid::Sealed(number, seal) => {
                    let path = Name::Segment(number).path(&self.dir);
                    if let Some(live) = self.live.get_mut(&number)
                        && let Some(bytes) = shorten(&*self.io, &path, seal.end_bytes(), live.found.file_bytes)
                    {
                        live.found.file_bytes = bytes;
                    }
                }
                Unsaid::Begun(..) => {}
            }
        }
        Ok(made)
    }

    /// A number and a size for a segment to be prepared.
    pub fn next_prepared(&mut self) -> Option<(SegmentNumber, u64)> {
        let number = self.take_number().ok()?;
        Some((number, self.size_of(number)))
    }

    /// The size of the segment with this number: files of another one are not kept for reuse any more.
    fn size_of(&self, number: SegmentNumber) -> u64 {
        let stored_bytes = self.live.values().map(|live| live.found().file_bytes).sum();
        self.supply.want(self.options.segment_bytes_at(stored_bytes));
        self.options.bytes_of(number, stored_bytes)
    }

    /// Let the manifest say that all before `durable_lsn` is durable, and drop a segment that was prepared in vain.
    pub fn note_durable(&self, durable_lsn: Lsn, in_vain: Option<SegmentNumber>) -> Result<(), Failure> {
        let edit = self.supply.edits.begin(2)?;
        if let Some(number) = in_vain {
            edit.append([Op::Dropped { number }, Op::Durable(durable_lsn)])?;
        } else if edit.durable_lsn() < durable_lsn {
            edit.append([Op::Durable(durable_lsn)])?;
        }
        Ok(())
    }

    /// The segment that is written from now on.
    pub fn begun(&mut self, header: SegmentHeader, segment: Option<Arc<Segment>>) {
        let seal = Seal { end_lsn: header.base_lsn, data_bytes: SEGMENT_HEADER_BYTES as u64, footer: None };
        let found = Found { header, seal, file_bytes: header.capacity_bytes, unsettled: None };
        self.live.insert(header.number, Live { found, sealed: false, sealing: None, segment });
        self.publish();
    }

    /// It is written no more.
    pub fn sealed(&mut self, sealing: Arc<Sealing>, segment: Option<Arc<Segment>>) {
        let live = self.live.get_mut(&sealing.number()).expect("invariant: what is written is in use");
        live.found.seal = sealing.seal();
        live.sealed = true;
        live.segment = segment;
        live.sealing = Some(sealing);
        self.any_mapped = true;
        self.publish();
    }

    /// Whether these may be dropped: `Invalid` when one does not exist or carries the log's position.
    pub fn check_droppable(&self, numbers: &[SegmentNumber]) -> Result<()> {
        let last = self.hot().last().map(|live| live.found.header.number);
        for (i, number) in numbers.iter().enumerate() {
            if !self.live.contains_key(number) || numbers[..i].contains(number) {
                return Err(Error::invalid(format!("segment {number} does not exist, so it cannot be dropped")));
            }
            if Some(*number) == last {
                return Err(Error::invalid(format!("segment {number} is the log's last and cannot be dropped")));
            }
        }
        Ok(())
    }

    /// A cold segment was added and what it replaces was dropped, as the manifest says: from now on readers find the new one.
    pub fn exchanged(&mut self, numbers: &[SegmentNumber], added: Option<Live>) {
        let is_new = added.is_some();
        if let Some(live) = added {
            self.live.insert(live.found.header.number, live);
        }
        for number in numbers {
            let live = self.live.remove(number).expect("invariant: it was checked to exist");
            let in_table = live.segment.is_some();
            self.retiring.push(Retiring { live, grace: None, in_table });
        }
        if is_new {
            self.publish();
        }
    }

    /// Nobody looks for records in these dropped segments from now on: they go after those who do already.
    pub fn release(&mut self, numbers: &[SegmentNumber]) {
        let gone = Arc::new(AtomicBool::new(self.shared.is_none()));
        if let Some(shared) = &self.shared {
            let gone = Arc::clone(&gone);
            shared.table.domain().pin().defer(move || gone.store(true, Ordering::Release));
        }
        for retiring in &mut self.retiring {
            if numbers.contains(&retiring.live.found.header.number) {
                retiring.grace = Some(Arc::clone(&gone));
            }
        }
    }

    /// Let go of what nobody reads any more, here and now.
    pub fn reclaim(&mut self, durable_lsn: Lsn) {
        let disused = self.poll(durable_lsn);
        self.supply.clear(disused);
    }

    /// Read directly what has become durable. Returns mappings of such that nobody reads any more.
    fn settle(&mut self, durable_lsn: Lsn) -> Vec<(Arc<Segment>, Arc<dyn File>)> {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.io_mode == IoMode::Direct) else {
            return Vec::new();
        };
        let domain = shared.table.domain().clone();
        if self.any_mapped {
            self.any_mapped = false;
            let before = self.unmapped.len();
            for live in self.live.values_mut().filter(|live| live.sealed) {
                let Some(segment) = live.segment.as_mut().filter(|segment| !segment.is_direct()) else { continue };
                let opened = || {
                    let opened = live.sealing.as_ref().and_then(|sealing| sealing.opened());
                    // A recovered one is opened here, and one that could not be (too many files are open) is tried again.
                    let path = Name::Segment(segment.number).path(&self.dir);
                    opened.or_else(|| self.io.open(&path, OpenMode::READ_DIRECT).ok())
                };
                let is_durable = live.found.header.kind == SegmentKind::Cold || live.found.seal.end_lsn <= durable_lsn;
                let Some(file) = is_durable.then(opened).flatten() else {
                    self.any_mapped = true;
                    continue;
                };
                let direct = direct_segment(&live.found, segment.footer.clone(), Arc::clone(&file));
                self.unmapped.push((std::mem::replace(segment, Arc::new(direct)), file));
            }
            if self.unmapped.len() > before {
                self.publish();
            }
        }
        if !self.unmapped.is_empty() {
            domain.collect();
        }
        self.unmapped.extract_if(.., |(segment, _)| !is_held(segment)).collect()
    }

    /// Let go of dropped segments that nobody reads any more, and of the mappings of those that are durable, if they are to be read
    /// directly; what comes of it is to be [cleared](Supply::clear), which needs no lock.
    #[must_use]
    pub fn poll(&mut self, durable_lsn: Lsn) -> Disused {
        let unmapped = self.settle(durable_lsn);
        let mut removals = Vec::new();
        if self.retiring.is_empty() {
            return Disused { removals, unmapped };
        }
        let collect = |shared: &Option<Arc<Shared>>| {
            if let Some(shared) = shared {
                shared.table.domain().collect();
            }
        };
        collect(&self.shared);
        let mut changed = false;
        for retiring in &mut self.retiring {
            let over = retiring.grace.as_ref().is_some_and(|grace| grace.load(Ordering::Acquire));
            if retiring.in_table && over {
                retiring.in_table = false;
                changed = true;
            }
        }
        if changed {
            self.publish();
            collect(&self.shared);
        }
        for retiring in std::mem::take(&mut self.retiring) {
            // Who got hold of it before it was read directly reads a mapping of its file.
            let number = retiring.live.found.header.number;
            let is_mapped = self.unmapped.iter().any(|(segment, _)| segment.number == number);
            let is_read = is_mapped || retiring.live.segment.as_ref().is_some_and(is_held);
            if retiring.in_table || retiring.grace.is_none() || is_read {
                self.retiring.push(retiring);
            } else {
                let Found { header, file_bytes, .. } = retiring.live.found();
                let mapping = match retiring.live.segment.and_then(Arc::into_inner).map(|segment| segment.data) {
                    Some(Data::Mapped(mapping)) => Some(mapping),
                    Some(Data::Direct(_)) | None => None,
                };
                removals.push(Removal { header, file_bytes, mapping });
            }
        }
        Disused { removals, unmapped }
    }

    fn publish(&self) {
        if let Some(shared) = &self.shared {
            let retiring = self.retiring.iter().filter(|r| r.in_table).map(|r| &r.live);
            let all: Vec<_> = self.live.values().chain(retiring).filter_map(|live| live.segment.clone()).collect();
            shared.table.replace(Table::new(all.into_iter()));
        }
    }
}

/// What an edit of the manifest is to say of a cold segment and of what it replaces, and what comes of it when it has.
pub(crate) struct Exchange {
    supply: Arc<Supply>,
    pub numbers: Vec<SegmentNumber>,
    cold: Option<Found>,
    /// How readers will read it, if there are any.
    io_mode: Option<IoMode>,
    durable_lsn: Lsn,
}

impl Files {
    /// Drop what may be dropped, and add a cold segment, once it [has run](Exchange::run).
    pub fn exchange(&self, numbers: &[SegmentNumber], cold: Option<Found>, durable_lsn: Lsn) -> Exchange {
        let (supply, io_mode) = (Arc::clone(&self.supply), self.shared.as_ref().map(|shared| shared.io_mode));
        Exchange { supply, numbers: numbers.to_vec(), cold, io_mode, durable_lsn }
    }
}

impl Exchange {
    /// Durable when this returns, with the name of the cold segment. `Full`: nothing was changed.
    pub fn run(&self, named: Option<&mut ColdSegment>) -> Result<Option<Live>, Failure> {
        let edit = self.supply.edits.begin(self.numbers.len() + 3)?;
        let mut ops = Vec::with_capacity(self.numbers.len() + 3);
        let mut added = None;
        named.map_or(Ok(()), ColdSegment::name)?;
        if let Some(cold) = self.cold {
            let SegmentHeader { number, kind, base_lsn, .. } = cold.header;
            let Supply { io, dir, .. } = &*self.supply;
            let readable = self.io_mode.map(|io_mode| open_for_reading(&**io, dir, &cold, io_mode));
            let segment = readable.transpose().map_err(Failure::before)?;
            added = Some(Live { found: cold, sealed: true, sealing: None, segment });
            ops.push(Op::Made { number, kind, base_lsn });
            ops.push(Op::Sealed { number, seal: cold.seal });
        }
        ops.extend(self.numbers.iter().map(|&number| Op::Dropped { number }));
        ops.push(Op::Durable(self.durable_lsn));
        edit.append(ops)?;
        Ok(added)
    }
}

/// A sealed segment, mapped or open for direct reads.
fn open_for_reading(io: &dyn Io, dir: &Path, found: &Found, io_mode: IoMode) -> Result<Arc<Segment>> {
    let SegmentHeader { number, kind, mode, .. } = found.header;
    let path = Name::Segment(number).path(dir);
    if io_mode == IoMode::Direct {
        let file = io.open(&path, OpenMode::READ_DIRECT);
        let file = file.map_err(|e| Error::io(format_args!("open {}", path.display()), e))?;
        // A cold segment was written through the page cache.
        file.uncache();
        return Ok(Arc::new(direct_segment(found, Footer::At(found.seal.footer), file)));
    }
    let data = io.open(&path, OpenMode::READ).and_then(|file| map_sealed(&*file, &found.seal));
    let data = data.map_err(|e| Error::io(format_args!("map {}", path.display()), e))?;
    let data = Data::Mapped(data);
    Ok(Arc::new(Segment { number, kind, mode, seed: found.header.seed(), data, footer: Footer::At(found.seal.footer) }))
}

/// What readers see of a segment that is read directly.
fn direct_segment(found: &Found, footer: Footer, file: Arc<dyn File>) -> Segment {
    let SegmentHeader { number, kind, mode, base_lsn, .. } = found.header;
    let (seed, seal) = (found.header.seed(), &found.seal);
    let records = seal.end_lsn.0.saturating_sub(base_lsn.0).max(1);
    let expected = seal.data_bytes.saturating_sub(SEGMENT_HEADER_BYTES as u64) / records;
    let data = Data::Direct(Arc::new(DirectFile::new(file, seed, seal.data_bytes, expected)));
    Segment { number, kind, mode, seed, data, footer }
}
