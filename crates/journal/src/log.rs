//! The log: one writer appends, any number of readers look up by position.
//!
//! Invariants:
//! 1. Records are numbered without a gap; what is durable is always a prefix (`durable_lsn`): a segment is synced after all
//!    before it, and an append is acknowledged as durable only after that.
//! 2. A segment is written in one mode for its life; a change of mode seals it.
//! 3. After a failed write or sync nothing is written any more.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::{IoMode, Lock};
use biombo_base::{Error, Result};

use crate::active::Active;
use crate::chooser::Chooser;
use crate::edits::Unsaid;
use crate::failure::Failure;
use crate::files::{Files, map_sealed};
use crate::flush::{Flush, Flusher, How, Unsynced};
use crate::footer::footer_blocks_bytes;
use crate::format::{BATCH_BYTES_MAX, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, record_bytes};
use crate::frame::Batch;
use crate::names::Name;
use crate::prepare::{Prepare, Preparer, Preparing, is_due};
use crate::recovery::Found;
use crate::sealing::{Readers, Sealing};
use crate::supply::Made;
use crate::table::{Data, Footer, Segment};
use crate::{Durability, LogOptions, LogStats, Lsn, Mode, Position, SegmentInfo, SegmentNumber};

mod open;

/// A record as slices that are stored one behind the other.
pub type Parts<'a> = &'a [&'a [u8]];

/// Gives the footer of a segment that is sealed: what it puts into the buffer, which is empty.
pub type Footers = Box<dyn FnMut(&SegmentInfo, &mut Vec<u8>) + Send>;

/// The writer of a log in a directory of its own. See the crate for an example.
pub struct Log {
    pub(crate) files: Files,
    pub(crate) flush: Arc<Flush>,
    active: Option<Active>,
    chooser: Chooser,
    options: LogOptions,
    /// The next record's.
    written_lsn: Lsn,
    footers: Option<Footers>,
    footer: Vec<u8>,
    stats: LogStats,
    /// Bytes of frames, footers and headers, which is less than what was written.
    appended_bytes: u64,
    pub(crate) prepare: Arc<Prepare>,
    /// Whether somebody works ahead, and has been told to make the next segment.
    pub(crate) has_preparer: bool,
    is_told: bool,
    /// Held for as long as the log is open.
    _lock: Box<dyn Lock>,
}

impl Log {
    /// Give each segment of the log a footer when it is sealed, for whatever reason.
    pub fn set_footers(&mut self, footers: Footers) {
        self.footers = Some(footers);
    }

    /// The footer of the segment that is written, as far as it has come: what its owner puts in. It is empty when a segment
    /// begins, and is used where there is none from [`set_footers`](Self::set_footers).
    #[inline]
    pub fn footer(&mut self) -> &mut Vec<u8> {
        &mut self.footer
    }

    /// Append records that survive a crash all or not at all (one frame), and push the position of each to `at`; returns the
    /// lsn of the first when they are as durable as asked, and all before them. Readers see them from then on.
    ///
    /// `Invalid`: larger than [`BATCH_BYTES_MAX`] together. `Full`: nothing was appended; free room and try again.
    /// `Poisoned`: an earlier write or sync failed. Any other error: the records may or may not be there after reopening,
    /// and the log takes no more. After an error `at` is as it was. Each byte is copied once, nothing is allocated once a
    /// segment is begun; `Os` into a mapped segment makes no system call.
    pub fn append(&mut self, records: &[Parts<'_>], durability: Durability, at: &mut Vec<Position>) -> Result<Lsn> {
        self.flush.check()?;
        if records.is_empty() {
            if durability == Durability::Sync {
                self.sync()?;
            }
            return Ok(self.written_lsn);
        }
        check_batch(&records)?;
        let lsn = self.written_lsn;
        let before = at.len();
        let written = self.write(&[records], durability, &mut |position| at.push(position));
        let written = written.and_then(|_| if durability == Durability::Sync { self.make_durable() } else { Ok(()) });
        if let Err(failure) = written {
            at.truncate(before);
            return Err(self.fail(failure));
        }
        Ok(lsn)
    }

    /// Have room for records of these lengths that are appended next, together: begin a segment where they do not fit, so that appending them takes
    /// nothing more from the device.
    ///
    /// # Errors
    /// As those of [`append`](Self::append); `Full`: nothing has changed.
    pub fn reserve(&mut self, lengths: impl Iterator<Item = usize>, durability: Durability) -> Result<()> {
        self.flush.check()?;
        let record = |length: usize| record_bytes(length.min(1 << 40));
        let bytes = lengths.fold(FRAME_HEADER_BYTES, |sum, length| sum.saturating_add(record(length)));
        let active = self.active.as_ref();
        // As it will be asked.
        let mode = self.chooser.clone().choose(active.map(|active| active.header.mode), durability);
        let fits = |active: &Active| active.header.mode == mode && active.padded(bytes) <= active.room();
        // One that is too large for any is refused by who appends it.
        if active.is_some_and(fits) || bytes > BATCH_BYTES_MAX {
            return Ok(());
        }
        let begun = self.seal_active(None).and_then(|()| self.begin(bytes, mode));
        begun.map_err(|failure| self.fail(failure))
    }

    /// Write batches, the first ones that fit one segment, in one write; returns how many. The others are untouched.
    pub(crate) fn write<B: Batch>(
        &mut self,
        batches: &[B],
        durability: Durability,
        at: &mut impl FnMut(Position),
    ) -> Result<usize, Failure> {
        let mode = self.chooser.choose(self.active.as_ref().map(|active| active.header.mode), durability);
        if self.active.as_ref().is_some_and(|active| active.header.mode != mode) {
            self.seal_active(None)?;
        }
        let mut count = self.fitting(batches);
        if count == 0 {
            self.seal_active(None)?;
            let bytes = batches.first().map_or(0, Batch::frame_bytes);
            self.begin(bytes, mode)?;
            count = self.fitting(batches).max(1);
        }
        let batches = &batches[..count.min(batches.len())];
        let durable_lsn = self.durable_lsn();
        let active = self.active.as_mut().expect("invariant: a segment with room was begun");
        let bytes = active.write(batches, self.written_lsn, durable_lsn, at).map_err(Failure::Fatal)?;
        let records = batches.iter().map(|batch| batch.count() as u64).sum();
        self.written_lsn = self.written_lsn.plus(records);
        self.stats.records += records;
        self.appended_bytes += bytes as u64;
        self.stats.writes += 1;
        if mode == Mode::Direct {
            self.stats.written_bytes += bytes as u64 + active.take_zeros();
        }
        if mode == Mode::Direct && self.flush.len() == 0 {
            self.flush.durable_to(self.written_lsn);
        }
        if self.has_preparer && mode == Mode::Mapped {
            self.tell_preparer();
        }
        Ok(batches.len())
    }

    /// Wake the preparer when the pages ahead get few, or the next segment is due.
    #[inline]
    fn tell_preparer(&mut self) {
        let Some(active) = &self.active else { return };
        let offset = active.offset();
        let is_due = !self.is_told && is_due(offset, active.header.capacity_bytes);
        if is_due || active.ahead.as_ref().is_some_and(|ahead| ahead.is_short(offset)) {
            self.is_told |= is_due;
            self.prepare.wake();
        }
    }

    /// What works ahead of the writer from now on: run it on a thread, so that appends wait for no disk.
    pub fn preparer(&mut self) -> Preparer {
        self.has_preparer = true;
        Preparer { prepare: Arc::clone(&self.prepare) }
    }

    /// Begin what there is to be done ahead; it is [run](Preparing::run) while the log goes on. `None`: nothing.
    pub fn begin_preparing(&mut self) -> Option<Preparing> {
        self.flush.check().ok()?;
        self.prepare.quiesce();
        let disused = self.files.poll(self.flush.durable_lsn());
        let is_due = self.active.as_ref().is_some_and(|active| {
            active.header.mode == Mode::Mapped && is_due(active.offset(), active.header.capacity_bytes)
        });
        let next = if is_due && !self.prepare.has_made() { self.files.next_prepared() } else { None };
        if next.is_none() && disused.is_empty() {
            return None;
        }
        Some(Preparing::new(&self.prepare, &self.files.supply, &self.flush, next, disused))
    }

    /// Wait until no work ahead is under way. None begins before `self` is given to somebody else.
    pub fn quiesce(&mut self) {
        self.prepare.quiesce();
    }

    fn fitting<B: Batch>(&self, batches: &[B]) -> usize {
        let Some(active) = &self.active else { return 0 };
        let (room, mut bytes) = (active.room(), 0usize);
        batches
            .iter()
            .take_while(|batch| {
                bytes = bytes.saturating_add(batch.frame_bytes());
                bytes <= room && active.padded(bytes) <= room
            })
            .count()
    }

    /// Make everything appended so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.flush.check()?;
        self.make_durable().map_err(|failure| self.fail(failure))?;
        self.settle();
        Ok(())
    }

    /// Let a [`Flusher`] sync what is appended so far, without waiting for it; [`durable_lsn`](Self::durable_lsn) tells when it
    /// has.
    pub fn begin_sync(&mut self) -> Result<()> {
        self.flush.check()?;
        if let Some(active) = &self.active
            && self.durable_lsn() < self.written_lsn
        {
            let how = How::Sync(Arc::clone(&active.file), active.mapping().cloned());
            self.flush.push(Unsynced { end_lsn: self.written_lsn, how });
        }
        Ok(())
    }

    /// What [`begin_sync`](Self::begin_sync) began is done: pages that the kernel has written back are made ready again by the
    /// preparer, when the writer goes on.
    pub fn after_sync(&mut self) {
        let durable_lsn = self.durable_lsn();
        // One that was begun meanwhile was not synced, and one without new records need not be.
        if self.active.as_ref().is_some_and(|active| active.has_new() && active.header.base_lsn < durable_lsn) {
            self.cleaned();
        }
        // What was dropped may be free to go. Room ahead is made ready when the writer asks for it.
        self.prepare.wake();
        self.settle();
    }

    /// Somebody had the kernel write all that was dirty, as `syncfs` does: it counts as written, with the zeros ahead of the writer.
    pub fn written_back(&mut self) {
        self.cleaned();
        self.stats.written_bytes += self.prepare.written_back();
    }

    /// The pages of the segment that is written are clean: count what was written, and begin again.
    fn cleaned(&mut self) {
        let Some(active) = &mut self.active else { return };
        let dirty = active.dirty();
        self.stats.written_bytes += dirty.records + dirty.ahead;
        active.clean();
    }

    /// All records before this are durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.flush.durable_lsn()
    }

    /// The lsn that the next record will get.
    pub fn next_lsn(&self) -> Lsn {
        self.written_lsn
    }

    /// Seal the segment that is written; the next append begins a new one. It gets its footer from [`set_footers`] or
    /// [`footer`].
    ///
    /// [`set_footers`]: Self::set_footers
    /// [`footer`]: Self::footer
    pub fn seal(&mut self) -> Result<()> {
        self.flush.check()?;
        self.seal_active(None).map_err(|failure| self.fail(failure))
    }

    /// The same with this footer, in place of one from [`set_footers`](Self::set_footers). Without a segment that is
    /// written, nothing happens.
    pub fn seal_with(&mut self, footer: &[u8]) -> Result<()> {
        if footer.len() > BATCH_BYTES_MAX / 2 {
            return Err(Error::invalid(format!("a footer of {} bytes is too large", footer.len())));
        }
        self.flush.check()?;
        self.seal_active(Some(footer)).map_err(|failure| self.fail(failure))
    }

    /// All segments, by number.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let durable_lsn = self.durable_lsn();
        let mut infos: Vec<_> = self.files.live.values().map(|l| l.found().info(l.sealed, durable_lsn)).collect();
        if let Some(active) = &self.active
            && let Some(info) = infos.iter_mut().find(|info| info.number == active.header.number)
        {
            info.end_lsn = self.written_lsn;
            info.data_bytes = active.offset();
            info.durable = self.written_lsn <= durable_lsn;
        }
        infos
    }

    /// The segment that is written, with the bytes that still fit.
    pub fn active(&self) -> Option<(SegmentNumber, u64)> {
        self.active.as_ref().map(|active| (active.header.number, active.room() as u64))
    }

    /// What syncs sealed segments in the background.
    pub fn flusher(&self) -> Flusher {
        Flusher { flush: Arc::clone(&self.flush) }
    }

    /// Let go of the files of dropped segments that nobody reads any more, and of the memory of those that are durable and
    /// read directly from now on. Also done whenever a segment is begun or dropped.
    pub fn reclaim(&mut self) {
        if self.has_preparer {
            self.prepare.wake();
        } else {
            self.files.reclaim(self.flush.durable_lsn());
        }
    }

    /// Something may have become durable that is read directly from now on.
    fn settle(&mut self) {
        if self.options.io == IoMode::Direct {
            self.reclaim();
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// Bytes of frames, footers and segment headers since it was opened, for who asks at every append. What that makes the device write is
    /// in the [figures](Self::stats).
    #[inline]
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    /// Figures since it was opened.
    pub fn stats(&self) -> LogStats {
        let (cache_bytes, cache_hits, cache_misses) =
            self.files.shared.as_ref().map_or((0, 0, 0), |shared| shared.cache.figures());
        let dirty = self.active.as_ref().map(Active::dirty).unwrap_or_default();
        LogStats {
            written_bytes: self.stats.written_bytes + dirty.records + self.files.supply.edits.written_bytes(),
            ahead_bytes: dirty.ahead,
            syncs: self.stats.syncs + self.flush.syncs(),
            file_bytes: self.files.file_bytes(),
            cache_bytes,
            cache_hits,
            cache_misses,
            ..self.stats
        }
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.flush.check()
    }

    pub(crate) fn poison(&self, why: &Error) {
        self.flush.poison(why);
    }

    /// The error of a failure, after which the log takes no more unless nothing was changed.
    pub(crate) fn fail(&self, failure: Failure) -> Error {
        match failure {
            Failure::Full(error) => error,
            Failure::Fatal(error) => {
                self.flush.poison(&error);
                error
            }
        }
    }

    pub(crate) fn make_durable(&mut self) -> Result<(), Failure> {
        if self.durable_lsn() >= self.written_lsn && self.flush.len() == 0 {
            return Ok(());
        }
        self.flush.flush_all().map_err(Failure::Fatal)?;
        if let Some(active) = &self.active
            && active.header.mode != Mode::Direct
            && self.durable_lsn() < self.written_lsn
        {
            active.sync().map_err(Failure::Fatal)?;
            self.stats.syncs += 1;
            self.cleaned();
        }
        self.flush.durable_to(self.written_lsn);
        Ok(())
    }

    fn begin(&mut self, write_bytes: usize, mode: Mode) -> Result<(), Failure> {
        self.is_told = false;
        let prepared = self.prepare.take();
        let fits = |made: &Made| {
            mode == Mode::Mapped && SEGMENT_HEADER_BYTES as u64 + write_bytes as u64 <= made.header.capacity_bytes
        };
        let made = match prepared {
            Some(mut made) if fits(&made) => {
                made.header.base_lsn = self.written_lsn;
                self.files.supply.edits.note([Unsaid::Begun(made.header.number, self.written_lsn)]);
                made
            }
            in_vain => self.make(write_bytes, mode, in_vain)?,
        };
        self.prepare.set_ahead(made.ahead.clone());
        let header = made.header;
        let (active, segment) = Active::begin(made, self.files.shared.is_some()).map_err(Failure::Fatal)?;
        self.active = Some(active);
        self.files.begun(header, segment);
        self.stats.syncs += 1;
        self.stats.segments_made += 1;
        self.stats.written_bytes += SEGMENT_HEADER_BYTES as u64;
        self.appended_bytes += SEGMENT_HEADER_BYTES as u64;
        Ok(())
    }

    /// Make a segment now, and drop one that was prepared in vain.
    fn make(&mut self, write_bytes: usize, mode: Mode, in_vain: Option<Made>) -> Result<Made, Failure> {
        let number = in_vain.as_ref().map(|made| made.header.number);
        let made = self.files.make(self.written_lsn, self.durable_lsn(), write_bytes, mode, number);
        match (made, in_vain) {
            (Ok(made), Some(dropped)) => {
                self.files.supply.remove(dropped.into());
                Ok(made)
            }
            (Err(failure), Some(kept)) => {
                self.prepare.put_back(kept);
                Err(failure)
            }
            (made, None) => made,
        }
    }

    fn seal_active(&mut self, footer: Option<&[u8]>) -> Result<(), Failure> {
        let Some(active) = self.active.take() else { return Ok(()) };
        active.close_ahead();
        let SegmentHeader { number, kind, mode, .. } = active.header;
        let end_lsn = self.written_lsn;
        if footer.is_none()
            && let Some(footers) = &mut self.footers
        {
            self.footer.clear();
            let seal = crate::manifest::Seal { end_lsn, data_bytes: active.offset(), footer: None };
            let file_bytes = active.header.capacity_bytes;
            let found = Found { header: active.header, seal, file_bytes, unsettled: None };
            footers(&found.info(true, self.flush.durable_lsn()), &mut self.footer);
        }
        let footer = match footer {
            Some(footer) => footer.to_vec(),
            // The next one will be about as long.
            None => {
                let next = Vec::with_capacity(self.footer.len());
                std::mem::replace(&mut self.footer, next)
            }
        };
        self.footer.clear();
        let footer_bytes = if footer.is_empty() { 0 } else { footer_blocks_bytes(footer.len()) as u64 };
        let dirty = active.dirty();
        // The footer goes over what stands ahead.
        self.stats.written_bytes += dirty.records + dirty.ahead.max(footer_bytes);
        self.appended_bytes += footer_bytes;
        let path = Name::Segment(number).path(&self.files.dir);
        let end = (end_lsn, active.offset());
        let file = Arc::clone(&active.file);
        let written = self.files.live.get(&number).and_then(|live| live.segment.as_ref());
        let readers = written.map_or(Readers::None, |written| Readers::of(self.options.io, &written.data));
        let sealing = Sealing::new(active.header, path, file, end, self.flush.durable_lsn(), footer, readers);
        let sealing = Arc::new(sealing);
        let segment = written.map(|written| {
            // What is to be read directly is read in memory until it is durable. Where the file cannot be mapped, its copy in memory
            // serves as well.
            let is_in_memory = mode == Mode::Mapped || self.options.io == IoMode::Direct;
            let data = if is_in_memory { None } else { map_sealed(&*active.file, &sealing.seal()).ok() };
            let data = data.map_or_else(|| written.data.clone(), Data::Mapped);
            let footer = Footer::Of(Arc::clone(&sealing));
            Arc::new(Segment { number, kind, mode, seed: written.seed, data, footer })
        });
        self.files.supply.edits.note([Unsaid::Sealing(Arc::clone(&sealing))]);
        self.files.sealed(Arc::clone(&sealing), segment);
        drop(active);
        if mode == Mode::Direct {
            // Each of its writes was durable when it returned, and so is the footer.
            sealing.finish().map_err(Failure::Fatal)?;
            sealing.let_go();
            sealing.open_for_readers(&*self.files.io);
        } else {
            self.flush.push(Unsynced { end_lsn, how: How::Sealed(sealing) });
        }
        while self.flush.len() > self.options.unsynced_segments_max {
            self.flush.flush_one().map_err(Failure::Fatal)?;
        }
        self.settle();
        Ok(())
    }

    /// Before closing: let the manifest and a last frame say that all is durable, so that damage to what is the end now is
    /// not taken for a torn tail later. The frame is left out where there is no room for it.
    fn close(&mut self) -> Result<()> {
        self.sync()?;
        self.prepare.quiesce();
        let durable_lsn = self.durable_lsn();
        let in_vain = self.prepare.take();
        let number = in_vain.as_ref().map(|made| made.header.number);
        self.files.note_durable(durable_lsn, number).map_err(Failure::into_error)?;
        if let Some(dropped) = in_vain {
            self.files.supply.remove(dropped.into());
        }
        if let Some(active) = &mut self.active {
            let nothing: [Parts<'_>; 0] = [];
            let batch: &[Parts<'_>] = &nothing;
            if active.padded(batch.frame_bytes()) <= active.room() {
                active.write(&[batch], self.written_lsn, durable_lsn, &mut |_| {})?;
                if active.header.mode != Mode::Direct {
                    active.sync()?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a batch is not too large.
pub(crate) fn check_batch(batch: &impl Batch) -> Result<()> {
    let bytes = batch.payload_bytes();
    if bytes > BATCH_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a batch of {bytes} bytes is larger than the {BATCH_BYTES_MAX} that a journal takes"
        )));
    }
    Ok(())
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.flush.check().is_ok() {
            // Nobody can be told of a failure any more, and nothing acknowledged with `Sync` depends on it.
            let _ = self.close();
        }
        self.flush.close();
        self.prepare.close();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("dir", &self.files.dir).field("next_lsn", &self.written_lsn).finish_non_exhaustive()
    }
}
