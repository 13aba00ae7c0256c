//! The steps of a move, done.
//!
//! Invariants: the source's lane is locked for exchanges of memory alone, never over I/O; a thread that unwinds lets the writers go on
//! by the source, unless the flip may have been appended: then the store turns read-only.
//!
//! Batches of which the target gets a part. It may be durable there at any time, by a sync of the move, or because the engine commits no other
//! way or writes back what it likes: it counts for nothing as long as the source owns the units, and for good once a flip is durable. So what is left of the
//! batch elsewhere must be beyond loss *before the flip*; earlier would gain nothing. Between partitions the intent sees to that, if it is
//! durable: always, where an engine had a slice, but not while all slices wait for their engines ([`Deferred`](crate::deferred::Deferred)). Within the source nothing
//! does: a batch below `Sync` may be in its engine and not on the device, or, at `Relaxed`, in memory alone. So [`settle`](Carrier::settle)
//! brings in what gathered, syncs the intents' journal where something waits, and the source where writes of its users are unsynced: once before the units are
//! closed, for all that was copied and forwarded, and once more after that only if a batch came meanwhile of which a part is forwarded. Writes
//! of single keys have no rest to lose. (An engine that gets its writes later, and keeps none below `Sync` through a power cut, is
//! kept from halves of batches over several partitions; more is not promised of it.)

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use biombo_engine::{Batch, Cursor, Error, ErrorKind, Op, Result};

use super::forward::{REST_BYTES_MAX, TAKE_BYTES_MIN, newest};
use super::machine::{CLOSE_KEYS_MAX, End, Machine, Outcome, Step};
use super::rests::Owed;
use super::walk::{Chunk, walk};
use super::{Mover, Outgoing, Pace};
use crate::lane::{Instance, Lane};
use crate::placement::{MoveId, UnitSet};
use crate::{PartitionId, Placement, seam};

/// Bytes of copies after which the target is synced: a device that is given all of a move at once lets others wait as long.
const SYNC_BYTES: usize = 2 << 20;

/// What a move did.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) keys: u64,
    pub(super) bytes: u64,
    pub(super) forwarded: u64,
    pub(super) pause: Duration,
}

/// A thread that moves units.
pub(super) struct Carrier<'a> {
    mover: &'a Mover,
    units: &'a Arc<UnitSet>,
    from: PartitionId,
    to: PartitionId,
    pace: Pace,
    owed: Owed,
    id: Option<MoveId>,
    /// The last stored key of the source that was looked at.
    position: Vec<u8>,
    chunk: Batch,
    /// What was taken, of each key the last write.
    taken: Batch,
    /// Room for the next taking.
    empty: Batch,
    /// The placement after it.
    next: Option<Placement>,
    /// Bytes of copies that no sync of this move has covered.
    unsynced: usize,
    /// Bytes of keys that were deleted for ranges, and that no sync has covered.
    ranged: usize,
    attached: bool,
    /// What the source had when the units were attached is settled.
    settled: bool,
    /// The flip may have been appended, and was not published.
    deciding: bool,
    closed_at: Option<Instant>,
    figures: Figures,
    error: Option<Error>,
}

impl<'a> Carrier<'a> {
    pub(super) fn new(
        mover: &'a Mover,
        units: &'a Arc<UnitSet>,
        from: PartitionId,
        to: PartitionId,
        pace: Pace,
    ) -> Self {
        Self {
            mover,
            units,
            from,
            to,
            pace,
            owed: Owed::at(pace),
            id: None,
            position: Vec::new(),
            chunk: Batch::new(),
            taken: Batch::new(),
            empty: Batch::new(),
            next: None,
            unsynced: 0,
            ranged: 0,
            attached: false,
            settled: false,
            deciding: false,
            closed_at: None,
            figures: Figures::default(),
            error: None,
        }
    }

    /// Move, or say why not.
    pub(super) fn run(&mut self) -> End {
        let mut machine = Machine::new();
        loop {
            let step = match machine.step() {
                Ok(step) => step,
                Err(end) => return end,
            };
            let is_copied = machine.is_copied();
            seam::pass(seam::Point::Step(step));
            let outcome = match step {
                // They cannot fail, and somebody may be waiting.
                Step::Reopen | Step::Publish | Step::Detach => self.execute(step, is_copied),
                _ => self.mover.poison.check().and_then(|()| self.execute(step, is_copied)),
            };
            machine.done(outcome.unwrap_or_else(|error| {
                // Of a record that found no room nothing is there.
                let is_unknown = self.deciding && error.kind() != ErrorKind::Full;
                self.deciding = is_unknown;
                if is_unknown {
                    self.mover.poison.set(&error);
                }
                self.error.get_or_insert(error);
                if is_unknown { Outcome::Unknown } else { Outcome::Failed }
            }));
        }
    }

    /// What it did, and what went wrong first.
    pub(super) fn into_parts(mut self) -> (Figures, Option<Error>) {
        (std::mem::take(&mut self.figures), self.error.take())
    }

    fn execute(&mut self, step: Step, is_copied: bool) -> Result<Outcome> {
        match step {
            Step::Begin => {
                let id = self.mover.journal().begin(Arc::clone(self.units), self.from, self.to);
                let id = self.mover.poison.watch(id)?;
                self.id = Some(id);
                self.mover.replace(self.mover.topology());
            }
            Step::Attach => {
                *self.lane().lock().0 = Some(Outgoing::new(Arc::clone(self.units)));
                self.attached = true;
            }
            Step::Read => {
                if self.mover.closing.load(Ordering::Relaxed) {
                    return Err(Error::new(ErrorKind::Busy, "the store is closing: what has not moved stays"));
                }
                return Ok(if self.read()? { Outcome::Done } else { Outcome::End });
            }
            Step::Take => {
                let least = if is_copied { 0 } else { TAKE_BYTES_MIN };
                self.take(least, false)?;
                return Ok(Outcome::Taken(self.taken.bytes()));
            }
            Step::Load => {
                let chunk = std::mem::take(&mut self.chunk);
                if !chunk.is_empty() {
                    self.target().apply_aside(&chunk.to_ops(), &self.mover.poison)?;
                }
                self.figures.keys += chunk.len() as u64;
                self.figures.bytes += chunk.bytes() as u64;
                self.unsynced += chunk.bytes();
                if self.unsynced >= SYNC_BYTES {
                    self.target().sync_aside(&self.mover.poison)?;
                    self.unsynced = 0;
                }
                let (lane, mover) = (self.lane(), self.mover);
                let fits = || lane.lock().0.as_ref().is_none_or(|outgoing| outgoing.waiting_bytes() <= REST_BYTES_MAX);
                mover.rest_while(&mut self.owed, chunk.bytes(), &fits);
            }
            Step::Forward => return self.forward(is_copied),
            Step::Sync => {
                // The first of two, while nobody is held back. What comes meanwhile is forwarded after it.
                if let (Some(id), None) = (self.id, &self.next) {
                    self.next = Some(self.mover.journal().flipped(id)?);
                }
                self.settle()?;
                self.target().sync_aside(&self.mover.poison)?;
            }
            Step::Close => {
                self.closed_at = Some(Instant::now());
                self.mover.handover.begin(self.units);
                self.take(0, true)?;
            }
            Step::Reopen => {
                // Whoever waits finds it open.
                if let Some(outgoing) = self.lane().lock().0.as_mut() {
                    outgoing.reopen();
                }
                self.mover.handover.end();
                self.note_pause();
            }
            Step::Flip => {
                let early = || Error::invalid("a flip before the begin, or the first sync");
                let (id, next) = self.id.zip(self.next.take()).ok_or_else(early)?;
                self.deciding = true;
                self.mover.journal().flip(id, next)?;
            }
            Step::Publish => {
                // What was kept for the former one alone is given back after it, not while somebody waits.
                let _former = self.mover.topology.get().1;
                let new = self.mover.topology();
                let mut held = self.lane().lock();
                self.mover.replace(new);
                *held.0 = None;
                drop(held);
                (self.attached, self.deciding) = (false, false);
                self.mover.handover.end();
                self.note_pause();
            }
            Step::Detach => self.detach(),
        }
        Ok(Outcome::Done)
    }

    fn lane(&self) -> &'a Lane {
        &self.mover.lanes[self.from.index()]
    }

    /// What is read, and written to the target, at a time.
    fn bounds(&self) -> Chunk {
        self.mover.cut(self.pace, self.target())
    }

    fn source(&self) -> &'a Instance {
        &self.mover.instances[self.from.index()]
    }

    fn target(&self) -> &'a Instance {
        &self.mover.instances[self.to.index()]
    }

    /// Read the next chunk of the source; says whether there may be another one.
    fn read(&mut self) -> Result<bool> {
        let mut cursor = Arc::clone(&self.source().engine).cursor()?;
        let bounds = self.bounds();
        let (units, chunk) = (self.units, &mut self.chunk);
        let take = |key: &[u8], cursor: &dyn Cursor| -> Result<usize> {
            let lost = || Error::new(ErrorKind::Corruption, "a key of the source has no value");
            chunk.put(key, cursor.value().ok_or_else(lost)?);
            Ok(chunk.bytes())
        };
        walk(&mut *cursor, units, &mut self.position, bounds, |key| units.holds(key), take)
    }

    /// Take what was forwarded, if it is so many bytes `at_least`, and hold back what comes after it if `close` says so.
    fn take(&mut self, at_least: usize, close: bool) -> Result<()> {
        self.taken.clear();
        let mut held = self.lane().lock();
        let broken = || Error::new(ErrorKind::Busy, super::TOO_FAST);
        let outgoing = held.0.as_mut().ok_or_else(|| Error::invalid("nothing is attached"))?;
        // What is broken has nothing that waits, and nothing that comes will mend it.
        if !outgoing.is_broken() && outgoing.waiting_bytes() < at_least {
            return Ok(());
        }
        let taken = outgoing.take(std::mem::take(&mut self.empty)).ok_or_else(broken)?;
        if close {
            outgoing.close();
        }
        drop(held);
        newest(&taken, &mut self.taken);
        self.empty = taken;
        self.empty.clear();
        Ok(())
    }

    /// Apply what was taken to the target, up to the position unless all is copied. What is too much for those who wait stays taken, all of it.
    fn forward(&mut self, is_copied: bool) -> Result<Outcome> {
        let taken = std::mem::take(&mut self.taken);
        let limit = if is_copied { None } else { Some(self.position.clone()) };
        let is_all = self.apply_taken(&taken, limit.as_deref());
        self.taken = taken;
        if !is_all? {
            return Ok(Outcome::TooMuch);
        }
        self.taken.clear();
        if self.closed_at.is_none() && self.ranged >= SYNC_BYTES {
            // Whoever is held back later does not wait for these.
            self.target().sync_aside(&self.mover.poison)?;
            self.ranged = 0;
        }
        Ok(Outcome::Done)
    }

    /// Says whether that was all: not where somebody waits, and a range has too many keys.
    fn apply_taken(&mut self, taken: &Batch, limit: Option<&[u8]>) -> Result<bool> {
        let is_inside = |key: &[u8]| limit.is_none_or(|limit| key <= limit);
        let mut batch = Batch::new();
        let mut keys_left = if self.closed_at.is_some() { CLOSE_KEYS_MAX } else { usize::MAX };
        for op in taken.iter() {
            match op {
                Op::Put { key, .. } | Op::Delete { key } if is_inside(key) => {
                    batch.push(op);
                    self.figures.forwarded += 1;
                }
                Op::DeleteRange { from, to } => {
                    self.give(&mut batch)?;
                    if !self.forward_range(from, to, &is_inside, &mut keys_left)? {
                        return Ok(false);
                    }
                }
                _ => {}
            }
            if batch.bytes() >= self.bounds().bytes {
                self.give(&mut batch)?;
            }
        }
        self.give(&mut batch)?;
        Ok(true)
    }

    fn give(&self, batch: &mut Batch) -> Result<()> {
        if !batch.is_empty() {
            self.target().apply_aside(&batch.to_ops(), &self.mover.poison)?;
            batch.clear();
        }
        Ok(())
    }

    /// Delete the keys of the units that the target holds in a range, one by one: it may own others there. A chunk at a time, and no more keys are
    /// looked at than `keys_left` says. Says whether that was all.
    fn forward_range(
        &mut self,
        from: &[u8],
        to: Option<&[u8]>,
        is_inside: &dyn Fn(&[u8]) -> bool,
        keys_left: &mut usize,
    ) -> Result<bool> {
        let is_of_range = |key: &[u8]| to.is_none_or(|to| key < to) && is_inside(key);
        let mut begin = from.to_vec();
        let mut batch = Batch::new();
        loop {
            let Some(first) = self.units.seek(&begin) else { return Ok(true) };
            let mut cursor = Arc::clone(self.target().raw()).cursor()?;
            cursor.seek(&first)?;
            let mut looked = 0;
            let next = loop {
                let Some(key) = cursor.key().filter(|key| is_of_range(key)) else { break None };
                if looked >= self.pace.chunk_keys.max(1) || batch.bytes() >= self.bounds().bytes {
                    break Some(key.to_vec());
                }
                if *keys_left == 0 {
                    return Ok(false);
                }
                seam::pass(seam::Point::Key);
                looked += 1;
                *keys_left -= 1;
                if self.units.holds(key) {
                    batch.delete(key);
                    self.figures.forwarded += 1;
                    cursor.next()?;
                    continue;
                }
                match self.units.seek(key) {
                    None => break None,
                    Some(next) if *next > *key => {
                        let next = next.into_owned();
                        cursor.seek(&next)?;
                    }
                    Some(_) => cursor.next()?,
                }
            };
            drop(cursor);
            self.ranged += batch.bytes();
            self.give(&mut batch)?;
            let Some(next) = next else { return Ok(true) };
            begin = next;
        }
    }

    /// Nobody is held back any more.
    fn note_pause(&mut self) {
        let paused = self.closed_at.take().map_or(Duration::ZERO, |at| at.elapsed());
        self.figures.pause = self.figures.pause.max(paused);
    }

    /// See that no crash after the flip takes from the source, or from other partitions, the rest of a write of which the target has a part.
    fn settle(&mut self) -> Result<()> {
        let has_divided = self.lane().lock().0.as_mut().is_some_and(Outgoing::take_divided);
        // What came before the units were watched may have been copied in part: that the first sync is for.
        if has_divided || !std::mem::replace(&mut self.settled, true) {
            self.source().settle_published(&self.mover.poison)?;
        }
        Ok(())
    }

    fn detach(&mut self) {
        if std::mem::take(&mut self.attached) {
            *self.lane().lock().0 = None;
            self.mover.handover.end();
        }
    }
}

impl Drop for Carrier<'_> {
    fn drop(&mut self) {
        if self.deciding {
            // No write of the units may pass by either partition. (Where an error said why, that is the reason.)
            self.mover.poison.set(&Error::new(ErrorKind::Io, "a thread that moved units was interrupted"));
            self.mover.handover.end();
        } else {
            self.detach();
        }
    }
}
