//! One pass: what is live in a few segments is copied into a cold one, which replaces them.
//!
//! Each call of [`Pass::step`] does one bounded piece of the current stage and says which it was.
//!
//! ```text
//! Copy ──> Finish ──> Settle ──> Install ──> Move ──> Release ──> Done
//! ```
//!
//! Invariants:
//!
//! 1. *Copy* takes what the index leads to, what a live snapshot needs (as `Superseded`, which opening passes over), and the
//!    tombstones that are needed. What it leaves out can never be needed later: no new snapshot sees it.
//! 2. *Settle*: what was left out is dead because of newer records, up to those appended when the copying ended. All of these
//!    are durable before the victims go; or a power cut could take the new version after cleaning took the old one.
//! 3. *Install* is one edit of the log's manifest. Before it a crash leaves the victims, after it the cold segment.
//! 4. *Move* goes under the writer's locks, a few records at a time, and compares positions: what was superseded meanwhile is
//!    not moved. Readers find the victims until *Release*, which comes after the last move.
//!
//! **Tombstones.** One numbered S deletes nothing in a segment whose first record is numbered S or higher: a segment that was
//! appended to has only later records; a cold one begins with a `Begin` record that says how far the history had come when its
//! copying began, and all that it holds beside `Superseded` was live then, so S had not deleted it. So S may go once this holds
//! for every segment but the victims, which go in the same step. The rule needs nothing but S, which a moved record keeps.

use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{Ahead, ColdSegment, ColdWriter, Flusher, Lsn, Position, Replaced, SegmentNumber, Walk};

use crate::engine::{Core, foreign, leaf};
use crate::keys::KeyList;
use crate::record::{Kind, Record};

/// Bytes that are read in one step.
const COPY_BYTES: u64 = 64 << 10;
/// Records that are moved under the locks at once: some tens of microseconds.
const MOVE_RECORDS: usize = 24;
/// Records that are read ahead of that, where they are read directly: a multiple of [`MOVE_RECORDS`].
const AHEAD_RECORDS: usize = 16 * MOVE_RECORDS;

/// The stages, by the names that tests know them by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    Copy,
    Finish,
    Settle,
    Install,
    Move,
    Release,
    Done,
}

/// A pass under way. Dropped before it has installed, it leaves the log as it was.
pub(crate) struct Pass {
    stage: Stage,
    pub victims: Vec<SegmentNumber>,
    /// The victim that is read, and how far.
    victim: usize,
    walk: Option<Walk>,
    /// How far the history had come when it began.
    begun_seq: u64,
    /// Tombstones up to this one delete nothing outside of the victims.
    drop_until: u64,
    cold: Option<ColdWriter>,
    /// What is in it, for its footer.
    keys: KeyList,
    finished: Option<ColdSegment>,
    /// What must be durable before the victims go.
    until: Option<Lsn>,
    /// Where each record was and is.
    copied: Vec<(Position, Position)>,
    next_move: usize,
    /// Records at their new places that were read directly, up to this one of `copied`.
    ahead: Ahead,
    ahead_until: usize,
    replaced: Option<Replaced>,
    flusher: Flusher,
    /// Bytes written.
    pub bytes: u64,
}

impl Pass {
    pub fn new(victims: Vec<SegmentNumber>, begun_seq: u64, drop_until: u64, flusher: Flusher) -> Self {
        Self {
            stage: Stage::Copy,
            victims,
            victim: 0,
            walk: None,
            begun_seq,
            drop_until,
            cold: None,
            keys: KeyList::default(),
            finished: None,
            until: None,
            copied: Vec::new(),
            next_move: 0,
            ahead: Ahead::default(),
            ahead_until: 0,
            replaced: None,
            flusher,
            bytes: 0,
        }
    }

    /// Whether the victims were replaced: from then on there is no way back, and no other pass before this is done.
    pub fn is_installed(&self) -> bool {
        self.stage >= Stage::Move
    }

    /// The victim whose records cannot be read, after `Corruption` while copying.
    pub fn reading(&self) -> Option<SegmentNumber> {
        if self.stage == Stage::Copy { self.victims.get(self.victim).copied() } else { None }
    }

    /// Do a piece of work; returns of which stage it was and how many bytes it read. After an error the pass is of no use
    /// unless it [is installed](Self::is_installed).
    pub fn step(&mut self, core: &Core) -> Result<(Stage, u64)> {
        let stage = self.stage;
        let mut read = 0;
        match stage {
            Stage::Copy => read = self.copy(core)?,
            Stage::Finish => self.finish()?,
            Stage::Settle => self.settle(core)?,
            Stage::Install => self.install(core)?,
            Stage::Move => self.move_some(core)?,
            Stage::Release => self.release(core),
            Stage::Done => {}
        }
        Ok((stage, read))
    }

    fn copy(&mut self, core: &Core) -> Result<u64> {
        let mut read = 0;
        while read < COPY_BYTES {
            let mut walk = match self.walk.take() {
                Some(walk) => walk,
                None => match self.victims.get(self.victim) {
                    Some(victim) => core.reader.walk(*victim).ok_or_else(|| foreign_segment(*victim))?,
                    None => {
                        self.stage = if self.cold.is_some() { Stage::Finish } else { Stage::Settle };
                        break;
                    }
                },
            };
            match walk.next_record()? {
                None => self.victim += 1,
                Some((at, bytes)) => {
                    let record = Record::parse_sound(bytes).ok_or_else(|| foreign(at))?;
                    read += record.stored_bytes();
                    if let Some(kind) = self.wanted(core, at, &record)? {
                        self.take(core, at, &Record { kind, ..record })?;
                    }
                    self.walk = Some(walk);
                }
            }
        }
        Ok(read)
    }

    /// As what a record is to be kept, if at all.
    fn wanted(&self, core: &Core, at: Position, record: &Record<'_>) -> Result<Option<Kind>> {
        Ok(match record.kind {
            // A version is kept beside the index before the index forgets it, so this order misses none.
            Kind::Put if core.index.pin().get(record.key)? == Some(leaf(at)) => Some(Kind::Put),
            Kind::Put | Kind::Superseded => core.versions.needs(record.key, at).then_some(Kind::Superseded),
            Kind::Begin => None,
            Kind::Delete | Kind::DeleteRange | Kind::DeleteFrom => {
                (record.seq > self.drop_until).then_some(record.kind)
            }
        })
    }

    fn take(&mut self, core: &Core, from: Position, record: &Record<'_>) -> Result<()> {
        let cold = match &mut self.cold {
            Some(cold) => cold,
            None => {
                let mut cold = core.lock_writer().log.cold_writer()?;
                let begin = Record::begin(self.begun_seq);
                let at = cold.append(&[&begin.header()])?;
                self.keys.push(at, &begin);
                self.cold.insert(cold)
            }
        };
        let to = cold.append(&[&record.header(), record.key, record.value])?;
        self.keys.push(to, record);
        self.copied.push((from, to));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let cold = self.cold.take().expect("invariant: there is one to finish");
        let finished = cold.finish(self.keys.as_footer())?;
        self.bytes = finished.bytes();
        self.finished = Some(finished);
        self.stage = Stage::Settle;
        Ok(())
    }

    fn settle(&mut self, core: &Core) -> Result<()> {
        let until = match self.until {
            Some(until) => until,
            None => {
                let mut writer = core.lock_writer();
                writer.log.begin_sync()?;
                *self.until.insert(writer.log.next_lsn())
            }
        };
        // Without the writer's lock: nobody waits for these syncs.
        let has_more = self.flusher.flush_one()?;
        let mut writer = core.lock_writer();
        if writer.log.durable_lsn() < until {
            if has_more {
                return Ok(());
            }
            writer.log.sync()?;
        }
        writer.log.after_sync();
        self.stage = Stage::Install;
        Ok(())
    }

    fn install(&mut self, core: &Core) -> Result<()> {
        let mut writer = core.lock_writer();
        if writer.is_broken {
            // The index does not know all that is live.
            let what = "damage kept the index from following the log: it is not cleaned";
            return Err(Error::new(ErrorKind::Poisoned, what));
        }
        let cold = self.finished.take();
        let number = cold.as_ref().map(ColdSegment::number);
        let mut installing = match cold {
            Some(cold) => writer.log.begin_install(cold, &self.victims)?,
            None => writer.log.begin_drop(&self.victims)?,
        };
        drop(writer);
        // Without the writer's lock: nobody waits for the manifest.
        installing.run();
        let mut writer = core.lock_writer();
        self.replaced = Some(writer.log.installed(installing)?);
        if let Some(number) = number {
            writer.accounts.begin(number, self.begun_seq);
        }
        self.stage = Stage::Move;
        Ok(())
    }

    fn move_some(&mut self, core: &Core) -> Result<()> {
        let end = (self.next_move + MOVE_RECORDS).min(self.copied.len());
        let group = &self.copied[self.next_move..end];
        let guard = core.reader.pin();
        for (_, to) in group {
            core.reader.prefetch(&guard, *to, 64);
        }
        if self.ahead_until <= self.next_move {
            // Where they are read directly: many in one read, in the order in which they lie there.
            let end = (self.next_move + AHEAD_RECORDS).min(self.copied.len());
            let positions = self.copied[self.next_move..end].iter().map(|(_, to)| *to);
            core.reader.read_ahead(&guard, positions, &mut self.ahead);
            self.ahead_until = end;
        }
        let mut stored = Vec::with_capacity(group.len());
        for (_, to) in group {
            stored.push(match self.ahead.get(*to).and_then(Record::parse) {
                Some(_) => None,
                None => Some(core.peek(&guard, *to)?),
            });
        }
        let ahead = &self.ahead;
        let records = || {
            group.iter().zip(&stored).map(|(at, stored)| {
                let record = match stored {
                    Some(stored) => stored.record(),
                    None => ahead.get(at.1).and_then(Record::parse).expect("invariant: it was just found there"),
                };
                (at, record)
            })
        };
        for (_, record) in records() {
            // Warms the way that is gone under the locks.
            core.index.pin().get(record.key)?;
        }
        let mut writer = core.lock_writer();
        let _snapshots = core.lock_snapshots();
        let mut index = core.index.writer();
        for ((from, to), record) in records() {
            let is_live = match record.kind {
                Kind::Put => index.replace(record.key, leaf(*from), leaf(*to))?,
                Kind::Superseded | Kind::Begin => false,
                Kind::Delete | Kind::DeleteRange | Kind::DeleteFrom => true,
            };
            writer.accounts.add(to.segment(), &record);
            if is_live {
                writer.accounts.remove(from.segment(), &record);
            } else {
                writer.accounts.remove(to.segment(), &record);
                core.versions.moved(record.key, *from, *to);
            }
            self.next_move += 1;
        }
        if self.next_move == self.copied.len() {
            self.stage = Stage::Release;
        }
        Ok(())
    }

    fn release(&mut self, core: &Core) {
        let mut writer = core.lock_writer();
        for victim in &self.victims {
            writer.accounts.forget(*victim);
        }
        if let Some(replaced) = self.replaced.take() {
            writer.log.release(replaced);
        }
        self.stage = Stage::Done;
    }
}

fn foreign_segment(number: SegmentNumber) -> Error {
    Error::new(ErrorKind::Corruption, format!("segment {number} of the log is not there to be cleaned"))
}
