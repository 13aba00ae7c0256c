//! The segment files in use and those kept for reuse: making one, dropping one.
//!
//! Invariants:
//! 1. A file called `.seg` has a durable header that carries the number of its name: a segment is made under another name
//!    (`.new`, or the `.free` of a former life), its header is synced, then it is renamed and the directory is synced, then
//!    the manifest names it. Only then the first frame is written.
//! 2. A segment is dropped by an edit of the manifest. Its file goes after that, when nobody reads it any more.
//! 3. The last segment of the log's order is never dropped: it carries the position.
//! 4. A segment is dropped only when all records before its end are durable, so that what the log has lost at its end is
//!    never older than what was dropped.
//!
//! After a crash while making a segment: `.new` is removed on opening, a `.free` with a new header stays free, a `.seg`
//! that the manifest does not name is removed. While dropping: the segment is named or it is not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_base::io::{Advice, BLOCK_BYTES, File, Io, Mapping, OpenMode};
use biombo_base::{Error, Result};

use crate::failure::Failure;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::manifest::{Manifest, Op, Seal};
use crate::names::Name;
use crate::recovery::{Found, Listing, Recovered};
use crate::table::{Segment, Shared, Table};
use crate::{LogOptions, Lsn, Mode, SegmentKind, SegmentNumber};

/// A segment in use.
pub(crate) struct Live {
    pub found: Found,
    pub sealed: bool,
    /// What readers see; `None` in a log without readers.
    pub segment: Option<Arc<Segment>>,
}

/// A dropped segment whose file is still there.
struct Retiring {
    live: Live,
    /// Set when nobody is pinned any more who was when it was dropped; `None` until the owner lets go of it.
    grace: Option<Arc<AtomicBool>>,
    in_table: bool,
}

struct Free {
    number: SegmentNumber,
    mapping: Option<Arc<Mapping>>,
}

/// A segment just made.
pub(crate) struct Made {
    pub header: SegmentHeader,
    pub file: Arc<dyn File>,
    /// Its mapping, if that is how it is written.
    pub mapping: Option<Arc<Mapping>>,
    /// Whether the file had a former life: then its room was written before.
    pub is_recycled: bool,
}

pub(crate) struct Files {
    pub io: Arc<dyn Io>,
    pub dir: PathBuf,
    options: LogOptions,
    manifest: Manifest,
    pub shared: Option<Arc<Shared>>,
    pub live: BTreeMap<SegmentNumber, Live>,
    /// Sealed, and the manifest does not say so yet.
    sealed_last: Option<(SegmentNumber, Seal)>,
    next_number: SegmentNumber,
    free: Vec<Free>,
    retiring: Vec<Retiring>,
}

/// Map a sealed segment for reading.
pub(crate) fn map_sealed(file: &dyn File, seal: &Seal) -> std::io::Result<Arc<Mapping>> {
    file.map(seal.data_bytes, seal.data_bytes, false)
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
        let unfooted: Vec<_> = unfooted.collect();
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
        let mut free = Vec::new();
        for &number in &listing.free {
            let path = Name::Free(number).path(dir);
            let file = io.open(&path, OpenMode::READ).and_then(|file| file.len());
            let bytes = file.map_err(|e| Error::io(format_args!("open {}", path.display()), e))?;
            if bytes == options.segment_bytes && free.len() < options.recycle_segments_max {
                free.push(Free { number, mapping: None });
            } else {
                removed(Name::Free(number))?;
            }
        }
        let mut live = BTreeMap::new();
        for found in &recovered.segments {
            let segment = shared.as_ref().map(|_| open_for_reading(&*io, dir, found)).transpose()?;
            live.insert(found.header.number, Live { found: *found, sealed: true, segment });
        }
        let next_number = manifest.state.next_number;
        let dir = dir.to_owned();
        let sealed_last = last;
        let retiring = Vec::new();
        let files = Self { io, dir, options, manifest, shared, live, sealed_last, next_number, free, retiring };
        files.publish();
        Ok(files)
    }

    pub fn file_bytes(&self) -> u64 {
        self.live.values().chain(self.retiring.iter().map(|r| &r.live)).map(|live| live.found.file_bytes).sum::<u64>()
            + self.free.len() as u64 * self.options.segment_bytes
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

    /// Make the next segment of the log, large enough for a first write of `write_bytes`; durable when it returns.
    pub fn make(&mut self, base_lsn: Lsn, durable_lsn: Lsn, write_bytes: usize, mode: Mode) -> Result<Made, Failure> {
        self.poll();
        self.manifest.reserve(3)?;
        let number = self.take_number().map_err(Failure::Full)?;
        let needed = (SEGMENT_HEADER_BYTES + write_bytes).next_multiple_of(BLOCK_BYTES) as u64;
        let capacity_bytes = self.options.bytes_of(number).max(needed);
        let kind = SegmentKind::Hot;
        let id = self.io.random_u64();
        let header = SegmentHeader { id, number, base_lsn, capacity_bytes, mode, kind, durable_lsn };

        let mut recycled = if capacity_bytes == self.options.segment_bytes { self.free.pop() } else { None };
        let is_recycled = recycled.is_some();
        let from = recycled.as_ref().map_or(Name::New(number), |free| Name::Free(free.number)).path(&self.dir);
        let retained = recycled.as_mut().and_then(|free| free.mapping.take());
        let made = match self.prepare(&from, is_recycled, retained, &header) {
            Ok(made) => made,
            Err(failure) => {
                // A recycled file stays free; a new one goes, now or when the log is opened again.
                match recycled {
                    Some(free) => self.free.push(free),
                    None => drop(self.io.remove_file(&from)),
                }
                return Err(failure);
            }
        };
        let to = Name::Segment(number).path(&self.dir);
        self.io
            .rename(&from, &to)
            .and_then(|()| self.io.sync_dir(&self.dir))
            .map_err(|e| Failure::fatal(Error::io(format_args!("name {}", to.display()), e)))?;
        let sealed = self.sealed_last.map(|(number, seal)| Op::Sealed { number, seal });
        let ops: Vec<_> =
            sealed.into_iter().chain([Op::Made { number, kind, base_lsn }, Op::Durable(durable_lsn)]).collect();
        self.manifest.append(&ops).map_err(Failure::Fatal)?;
        if let Some((sealed, seal)) = self.sealed_last.take() {
            self.shorten(sealed, &seal);
        }
        Ok(made)
    }

    /// A file with the room and a durable header, not yet part of the log.
    fn prepare(
        &self,
        path: &Path,
        recycled: bool,
        retained: Option<Arc<Mapping>>,
        header: &SegmentHeader,
    ) -> Result<Made, Failure> {
        let mode =
            OpenMode { create: !recycled, exclusive: false, write: true, direct_sync: header.mode == Mode::Direct };
        // Nothing refers to this file yet, so no room in it is no harm to the log.
        let failed =
            |doing: &str, e: std::io::Error| Failure::before(Error::io(format_args!("{doing} {}", path.display()), e));
        let file = self.io.open(path, mode).map_err(|e| failed("create", e))?;
        file.allocate(header.capacity_bytes).map_err(|e| failed("reserve the room of", e))?;
        file.write_at(&header.encode(), 0).map_err(|e| failed("write the header of", e))?;
        file.sync().map_err(|e| Failure::fatal(Error::io(format_args!("sync {}", path.display()), e)))?;
        let mapping = match header.mode {
            Mode::Mapped => Some(self.map(&*file, retained, header).map_err(|e| failed("map", e))?),
            Mode::Direct | Mode::Buffered => None,
        };
        Ok(Made { header: *header, file, mapping, is_recycled: recycled })
    }

    /// The mapping of a former life, whose pages are there already, or a fresh one.
    fn map(
        &self,
        file: &dyn File,
        retained: Option<Arc<Mapping>>,
        header: &SegmentHeader,
    ) -> std::io::Result<Arc<Mapping>> {
        let start = SEGMENT_HEADER_BYTES as u64;
        if let Some(mut mapping) = retained
            && let Some(alone) = Arc::get_mut(&mut mapping)
            && alone.capacity() == header.capacity_bytes
        {
            alone.reset(start)?;
            // Only time is at stake.
            let _ = mapping.advise(0, header.capacity_bytes, Advice::HugePages);
            return Ok(mapping);
        }
        let mapping = file.map(header.capacity_bytes, start, true)?;
        let _ = mapping.advise(0, header.capacity_bytes, Advice::HugePages);
        Ok(mapping)
    }

    /// Let the manifest say that all before `durable_lsn` is durable.
    pub fn note_durable(&mut self, durable_lsn: Lsn) -> Result<(), Failure> {
        if self.manifest.state.durable_lsn < durable_lsn {
            self.manifest.reserve(1)?;
            self.manifest.append(&[Op::Durable(durable_lsn)]).map_err(Failure::Fatal)?;
        }
        Ok(())
    }

    /// The segment that is written from now on.
    pub fn begun(&mut self, header: SegmentHeader, segment: Option<Arc<Segment>>) {
        let seal = Seal { end_lsn: header.base_lsn, data_bytes: SEGMENT_HEADER_BYTES as u64, footer: None };
        let found = Found { header, seal, file_bytes: header.capacity_bytes, unsettled: None };
        self.live.insert(header.number, Live { found, sealed: false, segment });
        self.publish();
    }

    /// It is written no more.
    pub fn sealed(&mut self, number: SegmentNumber, seal: Seal, file_bytes: u64, segment: Option<Arc<Segment>>) {
        let live = self.live.get_mut(&number).expect("invariant: what is written is in use");
        live.found.seal = seal;
        live.found.file_bytes = file_bytes;
        live.sealed = true;
        live.segment = segment;
        self.sealed_last = Some((number, seal));
        self.publish();
    }

    /// Give back the room behind the end of a sealed segment, if it is worth it: it is not written again.
    fn shorten(&mut self, number: SegmentNumber, seal: &Seal) {
        let Some(live) = self.live.get_mut(&number) else { return };
        let end = seal.end_bytes().next_multiple_of(BLOCK_BYTES as u64);
        if end + live.found.file_bytes / 4 > live.found.file_bytes {
            return;
        }
        // Only room is at stake: a failure leaves the file as long as it was.
        let path = Name::Segment(number).path(&self.dir);
        let mode = OpenMode { write: true, ..OpenMode::READ };
        if self.io.open(&path, mode).and_then(|file| file.set_len(end)).is_ok() {
            live.found.file_bytes = end;
        }
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

    /// Drop what may be dropped, and add a cold segment. `Full`: nothing was changed.
    pub fn exchange(
        &mut self,
        numbers: &[SegmentNumber],
        cold: Option<Found>,
        durable_lsn: Lsn,
    ) -> Result<(), Failure> {
        self.manifest.reserve(numbers.len() + 3)?;
        let mut ops = Vec::with_capacity(numbers.len() + 3);
        let mut added = None;
        if let Some(cold) = cold {
            let SegmentHeader { number, kind, base_lsn, .. } = cold.header;
            let segment = self.shared.as_ref().map(|_| open_for_reading(&*self.io, &self.dir, &cold));
            added = Some(Live { found: cold, sealed: true, segment: segment.transpose().map_err(Failure::before)? });
            ops.push(Op::Made { number, kind, base_lsn });
            ops.push(Op::Sealed { number, seal: cold.seal });
        }
        ops.extend(numbers.iter().map(|&number| Op::Dropped { number }));
        ops.push(Op::Durable(durable_lsn));
        self.manifest.append(&ops).map_err(Failure::Fatal)?;
        if let Some(live) = added {
            self.live.insert(live.found.header.number, live);
        }
        for number in numbers {
            let live = self.live.remove(number).expect("invariant: it was checked to exist");
            let in_table = live.segment.is_some();
            self.retiring.push(Retiring { live, grace: None, in_table });
        }
        if cold.is_some() {
            self.publish();
        }
        Ok(())
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
        self.poll();
    }

    /// Let go of dropped segments that nobody reads any more.
    pub fn poll(&mut self) {
        if self.retiring.is_empty() {
            return;
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
            // Who got hold of a segment while it was written holds another value over the same mapping.
            let is_held =
                |segment: &Arc<Segment>| Arc::strong_count(segment) > 1 || Arc::strong_count(&segment.data) > 1;
            if retiring.in_table || retiring.grace.is_none() || retiring.live.segment.as_ref().is_some_and(is_held) {
                self.retiring.push(retiring);
            } else {
                let mapping = retiring.live.segment.and_then(Arc::into_inner).map(|segment| segment.data);
                self.remove(&retiring.live.found, mapping);
            }
        }
    }

    /// Keep the file of a dropped segment for reuse, or remove it. If that fails, it is a left-over of no importance.
    fn remove(&mut self, found: &Found, mapping: Option<Arc<Mapping>>) {
        let number = found.header.number;
        let path = Name::Segment(number).path(&self.dir);
        let wanted = self.free.len() < self.options.recycle_segments_max;
        // A footer may have made it longer.
        let fits = found.file_bytes == self.options.segment_bytes
            || found.file_bytes > self.options.segment_bytes
                && found.header.capacity_bytes == self.options.segment_bytes
                && wanted
                && self
                    .io
                    .open(&path, OpenMode { write: true, ..OpenMode::READ })
                    .and_then(|file| file.set_len(self.options.segment_bytes))
                    .is_ok();
        if !(wanted && fits) {
            drop(mapping);
            let _ = self.io.remove_file(&path);
            return;
        }
        if self.io.rename(&path, &Name::Free(number).path(&self.dir)).is_ok() {
            let mapping = mapping.filter(|mapping| found.header.mode == Mode::Mapped && mapping.is_writable());
            self.free.push(Free { number, mapping });
        }
    }

    fn publish(&self) {
        if let Some(shared) = &self.shared {
            let retiring = self.retiring.iter().filter(|r| r.in_table).map(|r| &r.live);
            let all: Vec<_> = self.live.values().chain(retiring).filter_map(|live| live.segment.clone()).collect();
            shared.table.replace(Table::new(all.into_iter()));
        }
    }
}

/// A sealed segment, mapped.
fn open_for_reading(io: &dyn Io, dir: &Path, found: &Found) -> Result<Arc<Segment>> {
    let SegmentHeader { number, kind, mode, .. } = found.header;
    let path = Name::Segment(number).path(dir);
    let data = io.open(&path, OpenMode::READ).and_then(|file| map_sealed(&*file, &found.seal));
    let data = data.map_err(|e| Error::io(format_args!("map {}", path.display()), e))?;
    Ok(Arc::new(Segment { number, kind, mode, seed: found.header.seed(), data, footer: found.seal.footer }))
}
