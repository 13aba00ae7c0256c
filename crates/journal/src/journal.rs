//! The journal itself: group commit over the writer.
//!
//! Whoever finds no leader becomes it: it takes everything that is gathered, writes it once, syncs it once if anybody in it
//! asked for that, and wakes those whose batches are done. Meanwhile the next group gathers; one of it leads next. The
//! leader is a role of a calling thread, there is no thread of the journal's own.
//!
//! Invariants:
//! 1. At most one thread leads (`State::leading`), and only it touches the writer.
//! 2. Batches are numbered twice: by the lsn of their records (stored; given again after `Full`, when nothing was written)
//!    and by a ticket (never given again), so that a waiter can tell its own batch from a later one with the same lsn.
//! 3. Tickets complete in order. A batch with a ticket below `durable_ticket` is on the device, below `written_ticket` in the
//!    kernel's hands.
//! 4. After a failed write or sync, `poison` is set and nothing is written any more.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_base::io::{Io, Lock};
use biombo_base::{Error, ErrorKind, Result};

use crate::format::{BATCH_BYTES_MAX, payload_bytes, payload_crc};
use crate::group::Group;
use crate::names::{Name, lock_path};
use crate::recovery::{Listing, Replay, recover, settle};
use crate::segments::{Failure, Segments};
use crate::writer::Writer;
use crate::{Durability, JournalOptions, JournalStats, Lsn};

/// An append-only log in a directory of its own. All methods may be called from any number of threads.
pub struct Journal {
    state: Mutex<State>,
    /// Waiters of even and of odd generations of groups, so that a finished group wakes only its own.
    waiters: [Condvar; 2],
    writer: Mutex<WriterAndSpare>,
    segments: Mutex<Segments>,
    dir: PathBuf,
    /// Held for as long as the journal is open.
    _lock: Box<dyn Lock>,
}

struct State {
    gather: Group,
    /// Counts groups taken: that of the gathering one.
    generation: u64,
    leading: bool,
    next_lsn: Lsn,
    next_ticket: u64,
    written_ticket: u64,
    durable_ticket: u64,
    /// Tickets that found no room, until their waiters have seen it.
    refused: BTreeMap<u64, Arc<str>>,
    poison: Option<Arc<str>>,
    records: u64,
    record_bytes: u64,
}

struct WriterAndSpare {
    writer: Writer,
    /// The buffer of the group before, for the next but one.
    spare: Group,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held is dealt with by `Leading`, which poisons the journal.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Open the journal in `dir`, or create it, and hand every record of every whole batch to `replay`, in order; all of
    /// them are durable when it returns. An error of `replay` ends the opening and is returned.
    ///
    /// `Busy` when somebody else has it open, `Corruption` when acknowledged records are damaged, `Unsupported` when a newer
    /// version wrote it, `Invalid` for options that cannot be. Time and reads are proportional to the journal's size.
    pub fn open(
        io: Arc<dyn Io>,
        dir: &Path,
        options: JournalOptions,
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        options.check()?;
        let failed = |doing: &str, e| Error::io(format_args!("{doing} the journal {}", dir.display()), e);
        if !io.exists(dir).map_err(|e| failed("open", e))? {
            io.create_dir_all(dir).map_err(|e| failed("create", e))?;
        }
        let Some(lock) = io.try_lock(&lock_path(dir)).map_err(|e| failed("lock", e))? else {
            let what = format!("the journal {} is open already, here or in another process", dir.display());
            return Err(Error::new(ErrorKind::Busy, what));
        };
        let listing = Listing::read(&*io, dir)?;
        let recovered = recover(&*io, dir, &listing.segments, replay)?;
        if let Some(last) = listing.segments.last() {
            settle(&*io, &Name::Segment(*last).path(dir), &recovered)?;
            io.sync_dir(dir).map_err(|e| failed("sync", e))?;
        } else if let Some(parent) = dir.parent() {
            io.sync_dir(parent).map_err(|e| failed("create", e))?;
        }
        let recovered_end = (!recovered.segments.is_empty()).then_some(recovered.last_end);
        let segments = Segments::new(io, dir.to_owned(), options, &listing, recovered.segments)?;
        Ok(Self {
            state: Mutex::new(State {
                gather: Group::default(),
                generation: 0,
                leading: false,
                next_lsn: recovered.next_lsn,
                next_ticket: 0,
                written_ticket: 0,
                durable_ticket: 0,
                refused: BTreeMap::new(),
                poison: None,
                records: 0,
                record_bytes: 0,
            }),
            waiters: Default::default(),
            writer: Mutex::new(WriterAndSpare {
                writer: Writer::new(recovered.next_lsn, recovered_end),
                spare: Group::default(),
            }),
            segments: Mutex::new(segments),
            dir: dir.to_owned(),
            _lock: lock,
        })
    }

    /// Hand every record of the journal in `dir` to `replay` without opening it: nothing is written, locked or synced.
    /// Returns what the next record's position would be. For verification, while nobody appends.
    pub fn read(io: &dyn Io, dir: &Path, replay: Replay<'_>) -> Result<Lsn> {
        let listing = Listing::read(io, dir)?;
        Ok(recover(io, dir, &listing.segments, replay)?.next_lsn)
    }

    /// Append one record of 0 B to [`BATCH_BYTES_MAX`] - 4; returns its position when it is as durable as asked.
    ///
    /// `Full`: nothing was written; free room and try again. `Poisoned`: an earlier write or sync failed. Any other error
    /// means that this record may or may not be there after reopening. One copy of the record, no allocation once warm.
    pub fn append(&self, record: &[u8], durability: Durability) -> Result<Lsn> {
        self.append_batch(&[record], durability)
    }

    /// Append records that survive a crash all or not at all; returns the position of the first, the others follow it.
    /// Without records, the same as [`sync`](Self::sync) for `Sync` and nothing for `Os`. Errors as for
    /// [`append`](Self::append).
    pub fn append_batch(&self, records: &[&[u8]], durability: Durability) -> Result<Lsn> {
        if records.is_empty() {
            if durability == Durability::Sync {
                self.sync()?;
            }
            return Ok(self.next_lsn());
        }
        let bytes = payload_bytes(records);
        if bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a batch of {bytes} bytes is larger than the {BATCH_BYTES_MAX} that a journal takes"
            )));
        }
        let crc = payload_crc(records);
        let mut state = locked(&self.state);
        if let Some(why) = &state.poison {
            return Err(Error::poisoned(why));
        }
        let lsn = state.next_lsn;
        let ticket = state.take_ticket(durability);
        state.next_lsn = lsn.plus(records.len() as u64);
        state.gather.push(ticket, lsn, records, bytes, crc);
        state.records += records.len() as u64;
        state.record_bytes += (bytes - records.len() * crate::format::RECORD_HEADER_BYTES) as u64;
        self.wait(state, ticket, durability)?;
        Ok(lsn)
    }

    /// Make everything appended so far durable. Concurrent callers share one sync, and the group that is being gathered.
    pub fn sync(&self) -> Result<()> {
        loop {
            let mut state = locked(&self.state);
            if let Some(why) = &state.poison {
                return Err(Error::poisoned(why));
            }
            let ticket = state.take_ticket(Durability::Sync);
            match self.wait(state, ticket, Durability::Sync) {
                // Somebody's batch before this found no room; what was written is still to be synced.
                Err(e) if e.kind() == ErrorKind::Full => {}
                other => return other,
            }
        }
    }

    /// Drop every segment whose records are all before `before`, durably; their space is reused. The segment that is
    /// written is never dropped, so records before `before` may be replayed again. Two file system operations for each
    /// dropped segment; appends go on meanwhile unless they need a new segment.
    pub fn trim(&self, before: Lsn) -> Result<()> {
        if let Some(why) = &locked(&self.state).poison {
            return Err(Error::poisoned(why));
        }
        let trimmed = locked(&self.segments).trim(before);
        trimmed.map_err(|failure| {
            let (Failure::Full(error) | Failure::Fatal(error)) = failure;
            self.poison(&mut locked(&self.state), &error);
            error
        })
    }

    /// The position that the next record will get.
    pub fn next_lsn(&self) -> Lsn {
        locked(&self.state).next_lsn
    }

    /// The oldest position that a replay would give, or the next one when there is none.
    pub fn first_lsn(&self) -> Lsn {
        let first = locked(&self.segments).first_lsn();
        first.unwrap_or_else(|| self.next_lsn())
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Figures since it was opened. Waits for a write that is under way.
    pub fn stats(&self) -> JournalStats {
        let (records, record_bytes) = {
            let state = locked(&self.state);
            (state.records, state.record_bytes)
        };
        let (written_bytes, writes, syncs) = {
            let writer = &locked(&self.writer).writer;
            (writer.written_bytes, writer.writes, writer.syncs)
        };
        let segments = locked(&self.segments);
        JournalStats {
            records,
            record_bytes,
            written_bytes,
            writes,
            syncs,
            segments: segments.count() as u64,
            file_bytes: segments.file_bytes(),
        }
    }

    /// Wait until `ticket` is done, leading where nobody else does.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, ticket: u64, durability: Durability) -> Result<()> {
        let mine = &self.waiters[(state.generation % 2) as usize];
        loop {
            if let Some(message) = state.refused.remove(&ticket) {
                return Err(Error::new(ErrorKind::Full, &*message));
            }
            if state.is_done(ticket, durability) {
                return Ok(());
            }
            if let Some(why) = &state.poison {
                return Err(Error::poisoned(why));
            }
            if state.leading {
                state = mine.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (after, failed) = self.lead(state);
            state = after;
            if let Some(error) = failed
                && !state.is_done(ticket, durability)
            {
                return Err(error);
            }
        }
    }

    /// Take the gathered group, write it, sync it if asked, and wake its waiters.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, Option<Error>) {
        let mut writer = locked(&self.writer);
        let WriterAndSpare { writer, spare: group } = &mut *writer;
        mem::swap(&mut state.gather, group);
        state.gather.sync = false;
        state.leading = true;
        let end = state.next_ticket;
        let mine = &self.waiters[(state.generation % 2) as usize];
        state.generation += 1;
        drop(state);
        let leading = Leading { journal: self };

        let written = writer.write(group, &self.segments);
        let mut state = locked(&self.state);
        let failed = match written {
            Ok(()) => {
                state.written_ticket = end;
                if group.sync && writer.durable_lsn < writer.written_lsn {
                    mine.notify_all();
                    drop(state);
                    let synced = writer.sync();
                    state = locked(&self.state);
                    synced.err()
                } else {
                    None
                }
            }
            Err(Failure::Full(error)) => {
                state.refuse_from(group, &error);
                group.clear();
                None
            }
            Err(Failure::Fatal(error)) => Some(error),
        };
        if writer.durable_lsn == writer.written_lsn {
            state.durable_ticket = state.written_ticket;
        }
        if let Some(error) = &failed {
            self.poison(&mut state, error);
        }
        state.leading = false;
        mem::forget(leading);
        mine.notify_all();
        // Hand over to one of the group that gathered meanwhile, if there is one; a newcomer may be quicker and take it along.
        self.waiters[(state.generation % 2) as usize].notify_one();
        if !state.refused.is_empty() {
            self.wake_all();
        }
        (state, failed)
    }

    fn poison(&self, state: &mut State, why: &Error) {
        state.poison.get_or_insert_with(|| why.to_string().into());
        self.wake_all();
    }

    fn wake_all(&self) {
        self.waiters.iter().for_each(Condvar::notify_all);
    }
}

impl State {
    fn take_ticket(&mut self, durability: Durability) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.gather.sync |= durability == Durability::Sync;
        ticket
    }

    fn is_done(&self, ticket: u64, durability: Durability) -> bool {
        match durability {
            Durability::Os => ticket < self.written_ticket,
            Durability::Sync => ticket < self.durable_ticket,
        }
    }

    /// There was no room from the first frame left in `group` on: refuse it and everything that came after it, as if it had
    /// never been appended.
    fn refuse_from(&mut self, group: &Group, error: &Error) {
        let first = group.frames.first().expect("invariant: a frame had no room");
        self.written_ticket = first.ticket;
        self.next_lsn = first.header.first_lsn;
        let message: Arc<str> = error.to_string().into();
        for ticket in first.ticket..self.next_ticket {
            self.refused.insert(ticket, Arc::clone(&message));
        }
        for frame in group.frames.iter().chain(&self.gather.frames) {
            self.records -= u64::from(frame.header.record_count);
            let prefixes = frame.header.record_count as usize * crate::format::RECORD_HEADER_BYTES;
            self.record_bytes -= (frame.header.payload_bytes as usize - prefixes) as u64;
        }
        self.gather.clear();
        self.gather.sync = false;
    }
}

/// Ends a lead that was unwound: whoever waits must not wait for ever.
struct Leading<'a> {
    journal: &'a Journal,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.journal.state);
        state.leading = false;
        let panicked = Error::new(ErrorKind::Io, "a panic interrupted a write");
        self.journal.poison(&mut state, &panicked);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if locked(&self.state).poison.is_none() {
            // Nobody can be told of a failure any more, and nothing acknowledged with `Sync` depends on it.
            let _ = locked(&self.writer).writer.close();
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("dir", &self.dir).finish_non_exhaustive()
    }
}
