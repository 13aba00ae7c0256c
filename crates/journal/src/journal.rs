//! The journal itself: group commit over a log.
//!
//! Whoever finds no leader becomes it: it takes everything that is gathered, writes it once, syncs it once if anybody in it
//! asked for that, and wakes those whose batches are done. Meanwhile the next group gathers; one of it leads next. The
//! leader is a role of a calling thread, there is no thread of the journal's own.
//!
//! Invariants:
//! 1. At most one thread leads (`State::leading`), and only it appends to the log.
//! 2. Batches are numbered twice: by the lsn of their records (stored; given again after `Full`, when nothing was written)
//!    and by a ticket (never given again), so that a waiter can tell its own batch from a later one with the same lsn.
//! 3. Tickets complete in order. A batch with a ticket below `durable_ticket` is on the device, below `written_ticket` in the
//!    kernel's hands.
//! 4. After a failed write or sync, `poison` is set and nothing is written any more.
//! 5. `log` is locked before `state`, never while `state` is held.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};

use crate::failure::Failure;
use crate::group::{Group, Records};
use crate::log::check_batch;
use crate::{Durability, JournalOptions, JournalStats, Log, Lsn, Position};

/// An append-only log in a directory of its own, for many threads. All methods may be called from any number of them.
pub struct Journal {
    state: Mutex<State>,
    /// Waiters of even and of odd generations of groups, so that a finished group wakes only its own.
    waiters: [Condvar; 2],
    log: Mutex<Log>,
    dir: PathBuf,
}

struct State {
    gather: Group,
    /// The buffer of the group before, for the next.
    spare: Group,
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
        let mut replay = |_: Position, lsn: Lsn, record: &[u8]| replay(lsn, record);
        let mut log = Log::open_with(io, dir, options.log_options(), &mut replay, None)?;
        log.sync()?;
        Ok(Self {
            state: Mutex::new(State {
                gather: Group::default(),
                spare: Group::default(),
                generation: 0,
                leading: false,
                next_lsn: log.next_lsn(),
                next_ticket: 0,
                written_ticket: 0,
                durable_ticket: 0,
                refused: BTreeMap::new(),
                poison: None,
                records: 0,
                record_bytes: 0,
            }),
            waiters: Default::default(),
            log: Mutex::new(log),
            dir: dir.to_owned(),
        })
    }

    /// Hand every record of the journal in `dir` to `replay` without opening it: nothing is written, locked or synced.
    /// Returns what the next record's position would be. For verification, while nobody appends.
    pub fn read(io: &dyn Io, dir: &Path, replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<Lsn> {
        Log::read(io, dir, &mut |_: Position, lsn: Lsn, record: &[u8]| replay(lsn, record))
    }

    /// Append one record of 0 B to [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) - 8; returns its position when it is as durable as asked.
    ///
    /// `Full`: nothing was written; free room and try again. `Poisoned`: an earlier write or sync failed. Any other error
    /// means that this record may or may not be there after reopening. The record is copied twice: to gather
    /// it, and to where it is written from.
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
        check_batch(&Records(records))?;
        let mut state = locked(&self.state);
        if let Some(why) = &state.poison {
            return Err(Error::poisoned(why));
        }
        let lsn = state.next_lsn;
        let ticket = state.take_ticket(durability);
        state.next_lsn = lsn.plus(records.len() as u64);
        state.gather.push(ticket, lsn, records);
        state.records += records.len() as u64;
        state.record_bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
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
    /// written is never dropped, so records before `before` may be replayed again. One synchronous write, and a rename for each
    /// segment; waits for a write that is under way.
    pub fn trim(&self, before: Lsn) -> Result<()> {
        if let Some(why) = &locked(&self.state).poison {
            return Err(Error::poisoned(why));
        }
        let trimmed = locked(&self.log).trim(before);
        trimmed.inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.poison(&mut locked(&self.state), error);
            }
        })
    }

    /// The position that the next record will get.
    pub fn next_lsn(&self) -> Lsn {
        locked(&self.state).next_lsn
    }

    /// The oldest position that a replay would give, or the next one when there is none.
    pub fn first_lsn(&self) -> Lsn {
        let first = locked(&self.log).files().hot().next().map(|live| live.found.header.base_lsn);
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
        let log = locked(&self.log);
        let stats = log.stats();
        JournalStats {
            records,
            record_bytes,
            written_bytes: stats.written_bytes,
            ahead_bytes: stats.ahead_bytes,
            writes: stats.writes,
            syncs: stats.syncs,
            segments: log.files().live.len() as u64,
            file_bytes: stats.file_bytes,
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
        let spare = mem::take(&mut state.spare);
        let mut group = mem::replace(&mut state.gather, spare);
        state.leading = true;
        let end = state.next_ticket;
        let mine = &self.waiters[(state.generation % 2) as usize];
        state.generation += 1;
        drop(state);
        let leading = Leading { journal: self };
        let mut log = locked(&self.log);

        let written = write(&mut log, &mut group);
        let mut state = locked(&self.state);
        let mut failed = None;
        match written {
            Ok(()) => state.written_ticket = end,
            // What was written before the room ended is to be synced all the same: somebody waits for it.
            Err(Failure::Full(error)) => state.refuse_from(&group, &error),
            Err(Failure::Fatal(error)) => failed = Some(error),
        }
        if failed.is_none() && group.sync && log.durable_lsn() < log.next_lsn() {
            mine.notify_all();
            drop(state);
            failed = log.sync().err();
            state = locked(&self.state);
        }
        if log.durable_lsn() == log.next_lsn() {
            state.durable_ticket = state.written_ticket;
        }
        drop(log);
        if let Some(error) = &failed {
            self.poison(&mut state, error);
        }
        group.clear();
        state.spare = group;
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

/// Write all batches of `group`, which it takes out as they are written: when it fails with `Full`, those left were not
/// written at all.
fn write(log: &mut Log, group: &mut Group) -> Result<(), Failure> {
    log.check().map_err(Failure::Fatal)?;
    let durability = if group.sync { Durability::Sync } else { Durability::Os };
    while !group.members.is_empty() {
        let written = log.write(&group.batches(), durability, &mut |_| {});
        let count = written.inspect_err(|failure| {
            if let Failure::Fatal(error) = failure {
                log.poison(error);
            }
        })?;
        group.remove_front(count);
    }
    Ok(())
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
        let first = group.members.first().expect("invariant: a batch had no room");
        self.written_ticket = first.ticket;
        self.next_lsn = first.first_lsn;
        let message: Arc<str> = error.to_string().into();
        for ticket in first.ticket..self.next_ticket {
            self.refused.insert(ticket, Arc::clone(&message));
        }
        for member in group.members.iter().chain(&self.gather.members) {
            self.records -= member.record_count();
            self.record_bytes -= member.record_bytes();
        }
        self.gather.clear();
    }
}

/// Ends a lead that was unwound: whoever waits must not wait for ever.
struct Leading<'a> {
    journal: &'a Journal,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let panicked = Error::new(ErrorKind::Io, "a panic interrupted a write");
        locked(&self.journal.log).poison(&panicked);
        let mut state = locked(&self.journal.state);
        state.leading = false;
        self.journal.poison(&mut state, &panicked);
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("dir", &self.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo};

    use super::*;
    use crate::{Mode, Modes};

    fn options() -> JournalOptions {
        let modes = Modes::Always(Mode::Buffered);
        JournalOptions { segment_bytes: 12 << 10, recycle_segments_max: 0, modes, unsynced_segments_max: 0 }
    }

    #[test]
    fn of_a_group_that_finds_no_room_what_was_written_becomes_durable_and_nobody_waits_for_ever() {
        let mut refusals = 0;
        for offset in 0..12 {
            let sim = SimIo::new(3);
            sim.create_dir_all(Path::new("store")).unwrap();
            sim.sync_dir(Path::new("")).unwrap();
            let open = |sim: &SimIo, seen: &mut Vec<Vec<u8>>| {
                let mut replay = |_: Lsn, record: &[u8]| {
                    seen.push(record.to_vec());
                    Ok(())
                };
                Journal::open(Arc::new(sim.clone()), Path::new("store/journal"), options(), &mut replay).unwrap()
            };
            let journal = Arc::new(open(&sim, &mut Vec::new()));
            journal.append(b"before", Durability::Sync).unwrap();
            sim.inject(Fault { times: u32::MAX, ..Fault::at(sim.event_count() + offset, FaultKind::Enospc) });
            // Two callers in one group: the first one's fits the segment, the second one's needs a new one.
            let (small, large) = (vec![1; 100], vec![2; 20 << 10]);
            let (told, tells) = mpsc::channel();
            let shared = Arc::clone(&journal);
            std::thread::spawn(move || {
                let mut state = locked(&shared.state);
                let mut tickets = Vec::new();
                for record in [&small, &large] {
                    let (lsn, ticket) = (state.next_lsn, state.take_ticket(Durability::Sync));
                    state.next_lsn = lsn.plus(1);
                    state.gather.push(ticket, lsn, &[record]);
                    state.records += 1;
                    state.record_bytes += record.len() as u64;
                    tickets.push(ticket);
                }
                let first = shared.wait(state, tickets[0], Durability::Sync);
                let second = shared.wait(locked(&shared.state), tickets[1], Durability::Sync);
                told.send((first, second)).unwrap();
            });
            let answers = tells.recv_timeout(Duration::from_secs(60));
            let (first, second) = answers.unwrap_or_else(|_| panic!("fault after {offset} events: somebody waits"));
            let is_full = |outcome: &Result<()>| outcome.as_ref().is_err_and(|e| e.kind() == ErrorKind::Full);
            refusals += usize::from(first.is_ok() && is_full(&second));
            let image = sim.crash(usize::MAX, Crash::Nothing);
            let mut seen = Vec::new();
            drop(open(&image, &mut seen));
            let expected = 1 + usize::from(first.is_ok()) + usize::from(second.is_ok());
            assert!(seen.len() >= expected, "fault after {offset} events: {} of {expected} records", seen.len());
        }
        assert!(refusals > 0, "at no place was the first one taken and the second one refused");
    }
}
