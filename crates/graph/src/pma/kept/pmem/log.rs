//! The log: a record for each batch, one behind the other in segments of persistent memory.
//!
//! ```text
//! record:  u32 checksum   u32 length + 1   the batch
//! ```
//!
//! A record begins at a multiple of 32 bytes, one of more than 32 bytes at a multiple of 64: so that of a single edge lies in one cache line, and is
//! durable by one write-back and one fence. The checksum is CRC-32C of the batch, the graph's identity, the record's number and the
//! length. A segment's name says the number of its first record.
//!
//! Batches of threads that wait for each other make a group: who comes first stores all of them, writes back and fences once. Where a fence is
//! an instruction, a batch of few updates waits for the lock and is stored alone: that costs less than telling another thread of it.
//!
//! When a segment is half full, the next one is made, aside: [`spare`](super::spare).
//!
//! Invariants:
//! 1. Records stand in the order of their numbers, without a gap, within a segment and from one to the next. All of a segment is persistent
//!    before the next one is made.
//! 2. Behind the last record there are zeros when the log is opened for appending, persistently: whoever opens it clears what a crash
//!    has left there.
//! 3. All that was read when the log was opened is persistent before anything is appended.
//! 4. After a fence failed, or the making of a segment for another reason than lack of room, or after who appends a group ended in the
//!    middle of it, nothing is appended any more.
//!
//! Crash argument: of the records since the last fence any part may be there. The log ends before the first that is not whole: a line or a word
//! that is missing fails the checksum. Those behind it were never acknowledged, and must not come back when the gap is filled by another
//! record of the same size: invariant 2. A process that died leaves records that are stored and not persistent; the next one
//! reads them, and whoever relies on them must not lose them: invariant 3.
//!
//! What it does not do: tell a record that the medium has damaged at the very end of the log from one that a crash has torn. Damage before
//! the last segment, or in what the image has, is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use biombo_base::checksum::{crc32c, crc32c_append};
use biombo_base::coding::{get_u32, put_u32};
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::Durability;

use super::spare::Spare;
use super::{Place, Visit, number_in};
use crate::media::Backing;
use crate::media::persistent::{LINE_BYTES, Region};
use crate::pma::record::{Few, ROOM};

const HEADER_BYTES: usize = 8;
const _: () = assert!(ROOM == HEADER_BYTES, "few updates leave room for it");
/// What small records are aligned to.
const HALF_LINE: u64 = LINE_BYTES / 2;

fn name(first: u64) -> String {
    format!("log-{first:016x}")
}

/// How far a segment is used when the next one is asked for.
fn half(segment: &dyn Region) -> u64 {
    segment.bytes().len() as u64 / 2
}

/// Where a record of so many bytes goes, of which `end` is free.
fn place_for(end: u64, bytes: u64) -> u64 {
    end.next_multiple_of(if bytes <= HALF_LINE { HALF_LINE } else { LINE_BYTES })
}

/// The checksum of a record whose batch has the checksum `batch`.
fn seal(batch: u32, identity: u64, number: u64, length: u32) -> u32 {
    let mut rest = [0; 20];
    rest[..8].copy_from_slice(&identity.to_le_bytes());
    rest[8..16].copy_from_slice(&number.to_le_bytes());
    put_u32(&mut rest, 16, length);
    crc32c_append(batch, &rest)
}

/// The record of that number at the end of a segment that is being read: where it begins and its batch.
fn record_at(segment: &[u8], end: u64, identity: u64, number: u64) -> Option<(u64, &[u8])> {
    // Small and large ones go to different places; only one of them has that number.
    [end.next_multiple_of(HALF_LINE), end.next_multiple_of(LINE_BYTES)].into_iter().find_map(|start| {
        let bytes = segment.get(start as usize..)?;
        let length = get_u32(bytes, 4)?.checked_sub(1)?;
        let batch = bytes.get(HEADER_BYTES..)?.get(..length as usize)?;
        (get_u32(bytes, 0)? == seal(crc32c(batch), identity, number, length)).then_some((start, batch))
    })
}

/// A batch that somebody wants to have appended.
struct Waiting {
    batch: Vec<u8>,
    checksum: u32,
    durability: Durability,
    outcome: Mutex<Option<Result<u64>>>,
}

/// The log; see the module.
pub(super) struct Log {
    place: Place,
    identity: u64,
    segment_bytes: u64,
    is_quick: bool,
    spare: Spare,
    /// Taken while `tail` is held, or alone.
    waiting: Mutex<Vec<Arc<Waiting>>>,
    tail: Mutex<Tail>,
}

struct Tail {
    region: Box<dyn Region>,
    /// The first records of the segments, the last of which is `region`'s.
    firsts: VecDeque<u64>,
    /// The number of the next record.
    next: u64,
    /// Where the last record ends.
    end: u64,
    /// When it ends behind this, the next segment is asked for.
    ask_at: u64,
    /// All before is persistent.
    fenced: u64,
    /// Why nothing is appended any more.
    failed: Option<String>,
}

/// Why nothing is appended after a thread that has not done what it was at.
const IN_THE_MIDDLE: &str = "a thread ended in the middle of appending";

/// A record that somebody appends alone. If that ends in the middle, it may be there or not.
struct Alone<'t> {
    tail: &'t mut Tail,
    is_done: bool,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.tail.failed.get_or_insert_with(|| IN_THE_MIDDLE.to_owned());
        }
    }
}

/// A group that somebody appends. If that ends in the middle, its records may be there or not, and everybody whose they are hears of it.
struct Group<'t> {
    tail: &'t mut Tail,
    waiting: Vec<Arc<Waiting>>,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for waiting in &self.waiting {
            let mut outcome = locked(&waiting.outcome);
            if outcome.is_none() {
                let why = self.tail.failed.get_or_insert_with(|| IN_THE_MIDDLE.to_owned());
                *outcome = Some(Err(Error::poisoned(why)));
            }
        }
    }
}

/// An error after which it is not known what is persistent. `Full` would say that nothing was changed and the next try may do.
pub(super) fn unknown(error: Error) -> Error {
    if error.kind() == ErrorKind::Full { Error::new(ErrorKind::Io, error.to_string()) } else { error }
}

impl Tail {
    /// Make all records persistent.
    fn fence(&mut self) -> Result<()> {
        if let Some(why) = &self.failed {
            return Err(Error::poisoned(why));
        }
        if self.fenced < self.end {
            self.region.write_back(self.fenced, self.end - self.fenced);
            let fenced = self.region.fence();
            fenced.map_err(|error| {
                self.failed = Some(error.to_string());
                unknown(Error::io("make the log of the graph durable", error))
            })?;
            self.fenced = self.end;
        }
        Ok(())
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a thread looks whether `tail` is free before it sleeps, and how often it pauses in between at most: about a hundred microseconds in all,
/// by estimate.
const LOOKS: u32 = 64;
const PAUSES_MAX: u32 = 64;

/// The same where whoever has it is about to let go, with exponential backoff (Anderson, 1990): who has it does several batches meanwhile, each with
/// what it needs in its own cache. Threads that take turns fetch it from each other for every edge, which took two 1.3 times as long;
/// and a mutex on which somebody sleeps lets nobody look any more, so that everybody after that one would sleep too.
fn locked_soon<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    let mut pauses = 1;
    for _ in 0..LOOKS {
        match of.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return error.into_inner(),
            Err(TryLockError::WouldBlock) => (0..pauses).for_each(|_| std::hint::spin_loop()),
        }
        pauses = (2 * pauses).min(PAUSES_MAX);
    }
    locked(of)
}

impl Log {
    /// Whether a name is that of a segment.
    pub(super) fn is_segment(name: &str) -> bool {
        number_in(name, "log-").is_some()
    }

    /// The first segment of a graph that is being made; the next one is as large as is asked for then.
    pub(super) fn create(place: &Place, first: u64) -> Result<()> {
        let name = name(first);
        place.medium.create(&name, 4096).map_err(place.refused("write", &name)).map(drop)
    }

    /// Go through the records, at least from `applied` on, and be ready to append more, to segments of `segment_bytes` that a thread
    /// makes if it `makes_aside`.
    pub(super) fn open(
        place: &Place,
        identity: u64,
        segment_bytes: u64,
        makes_aside: bool,
        applied: u64,
        visit: &mut Visit<'_>,
    ) -> Result<Self> {
        let mut firsts: Vec<u64> = place.names()?.iter().filter_map(|name| number_in(name, "log-")).collect();
        firsts.sort_unstable();
        let from = firsts.iter().rposition(|first| *first <= applied).ok_or_else(|| {
            let what = format!("the log lacks the batches from {applied} on");
            firsts.first().map_or_else(
                || place.damaged(super::root::NAME, 0, what.clone()),
                |first| place.damaged(&name(*first), 0, what.clone()),
            )
        })?;
        let firsts: VecDeque<u64> = firsts.split_off(from).into();
        let mut next = firsts[0];
        for (first, after) in firsts.iter().zip(firsts.iter().skip(1)) {
            let (_, end) = walk(place, identity, *first, &mut next, visit)?;
            if *after != next {
                let what = format!("record {next} is damaged or missing: the log goes on with record {after}");
                return Err(place.damaged(&name(*first), end, what));
            }
        }
        let last = firsts[firsts.len() - 1];
        let (mut region, end) = walk(place, identity, last, &mut next, visit)?;
        if next < applied {
            // All that the image has was durable before it was: this is no torn end, and what lies behind it may be whole.
            let what = format!("record {next} is damaged or missing: the image has those before {applied}");
            return Err(place.damaged(&name(last), end, what));
        }
        clear(&mut *region, end);
        region.fence().map_err(place.refused("write", &name(last)))?;
        let ask_at = half(&*region);
        let tail = Tail { region, firsts, next, end, ask_at, fenced: end, failed: None };
        let is_quick = tail.region.backing().is_fenced_by_an_instruction();
        let spare = Spare::new(place, segment_bytes.max(1), makes_aside)?;
        let (place, waiting, tail) = (place.clone(), Mutex::default(), Mutex::new(tail));
        Ok(Self { place, identity, segment_bytes, is_quick, spare, waiting, tail })
    }

    /// Append a batch, as durably as asked. Its number.
    pub(super) fn append(&self, batch: Vec<u8>, durability: Durability) -> Result<u64> {
        let checksum = crc32c(&batch);
        let own = Arc::new(Waiting { batch, checksum, durability, outcome: Mutex::default() });
        locked(&self.waiting).push(own.clone());
        let mut tail = locked(&self.tail);
        // Whoever had the tail before may have done it.
        if locked(&own.outcome).is_none() {
            self.append_group(&mut tail);
        }
        let outcome = locked(&own.outcome).take();
        outcome.expect("invariant: who holds the tail has done all that waited, this one too")
    }

    fn append_group(&self, tail: &mut Tail) {
        let Group { tail, waiting: group } = &mut Group { tail, waiting: std::mem::take(&mut *locked(&self.waiting)) };
        let mut outcomes: Vec<Result<u64>> = group.iter().map(|waiting| self.put(tail, waiting)).collect();
        if group.iter().any(|waiting| waiting.durability == Durability::Sync)
            && let Err(error) = tail.fence()
        {
            outcomes.iter_mut().filter(|outcome| outcome.is_ok()).for_each(|outcome| {
                *outcome = Err(Error::poisoned(&error));
            });
        }
        for (waiting, outcome) in group.iter().zip(outcomes) {
            *locked(&waiting.outcome) = Some(outcome);
        }
    }

    /// Whether a fence is an instruction.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Append a batch of few updates alone, as durably as asked, and do `then` with its number before anybody else appends.
    pub(super) fn append_few<T>(
        &self,
        record: &mut Few,
        durability: Durability,
        then: impl FnOnce(u64) -> Option<T>,
    ) -> Result<(u64, Option<T>)> {
        let checksum = crc32c(record.batch());
        let mut tail = locked_soon(&self.tail);
        let mut alone = Alone { tail: &mut tail, is_done: false };
        let put = self.put_few(alone.tail, record.whole(), checksum, durability);
        alone.is_done = true;
        let number = put?;
        // Those whose records are before have their numbers, and need nothing that this one has: or it is not its turn now.
        Ok((number, then(number)))
    }

    fn put_few(&self, tail: &mut Tail, record: &mut [u8], checksum: u32, durability: Durability) -> Result<u64> {
        let bytes = record.len() as u64;
        let (number, start) = self.find_place(tail, bytes)?;
        record[..HEADER_BYTES].copy_from_slice(&self.header(checksum, number, bytes));
        tail.region.store(start, record);
        self.advance(tail, start + bytes);
        if durability == Durability::Sync {
            tail.fence()?;
        }
        Ok(number)
    }

    /// Store a record.
    fn put(&self, tail: &mut Tail, waiting: &Waiting) -> Result<u64> {
        let bytes = (HEADER_BYTES + waiting.batch.len()) as u64;
        let (number, start) = self.find_place(tail, bytes)?;
        tail.region.store(start, &self.header(waiting.checksum, number, bytes));
        tail.region.store(start + HEADER_BYTES as u64, &waiting.batch);
        self.advance(tail, start + bytes);
        Ok(number)
    }

    /// A record was stored, up to `end`.
    #[inline]
    fn advance(&self, tail: &mut Tail, end: u64) {
        (tail.next, tail.end) = (tail.next + 1, end);
        if end > tail.ask_at {
            // Once for each segment.
            tail.ask_at = u64::MAX;
            self.spare.ask();
        }
    }

    /// The number of the next record, which has so many bytes, and where it goes.
    #[inline]
    fn find_place(&self, tail: &mut Tail, bytes: u64) -> Result<(u64, u64)> {
        if let Some(why) = &tail.failed {
            return Err(Error::poisoned(why));
        }
        if place_for(tail.end, bytes) + bytes > tail.region.bytes().len() as u64 {
            self.begin_segment(tail, bytes)?;
        }
        Ok((tail.next, place_for(tail.end, bytes)))
    }

    /// What stands before a batch with such a checksum, in a record of so many bytes.
    #[inline]
    fn header(&self, checksum: u32, number: u64, bytes: u64) -> [u8; HEADER_BYTES] {
        let length = bytes as u32 - HEADER_BYTES as u32;
        let mut header = [0; HEADER_BYTES];
        put_u32(&mut header, 0, seal(checksum, self.identity, number, length));
        put_u32(&mut header, 4, length + 1);
        header
    }

    /// Go on in another segment, which has room for `bytes`.
    fn begin_segment(&self, tail: &mut Tail, bytes: u64) -> Result<()> {
        tail.fence()?;
        let name = name(tail.next);
        let make = || self.place.medium.create(&name, bytes.max(self.segment_bytes));
        let region = self.spare.take(bytes, &name).unwrap_or_else(make);
        tail.region = region.map_err(self.place.refused("write", &name)).inspect_err(|error| {
            // Without room no name has changed. Otherwise the segment may be there, and no record may come before it any more.
            if error.kind() != ErrorKind::Full {
                tail.failed = Some(error.to_string());
            }
        })?;
        // One without a record has the same name, and was too short.
        if tail.firsts.back() != Some(&tail.next) {
            tail.firsts.push_back(tail.next);
        }
        (tail.end, tail.fenced, tail.ask_at) = (0, 0, half(&*tail.region));
        Ok(())
    }

    /// Give up room that only a segment to come needs; whether there was any.
    pub(super) fn give_room_back(&self) -> bool {
        self.spare.give_back()
    }

    /// Make every record durable.
    pub(super) fn sync(&self) -> Result<()> {
        locked(&self.tail).fence()
    }

    /// Forget segments all of whose records are before `applied`. The one that is written stays.
    pub(super) fn trim(&self, applied: u64) -> Result<()> {
        let mut past = Vec::new();
        let mut tail = locked(&self.tail);
        while tail.firsts.get(1).is_some_and(|second| *second <= applied) {
            past.extend(tail.firsts.pop_front());
        }
        drop(tail);
        let mut names = past.into_iter().map(name);
        names.try_for_each(|name| self.place.medium.remove(&name).map_err(self.place.refused("remove", &name)))
    }

    /// Whether a name is that of a segment before the log's.
    pub(super) fn is_past(&self, name: &str) -> bool {
        number_in(name, "log-").is_some_and(|first| first < locked(&self.tail).firsts[0])
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        locked(&self.tail).next
    }

    pub(super) fn backing(&self) -> Backing {
        locked(&self.tail).region.backing()
    }
}

/// Go through a segment's records: it, and where they end.
fn walk(
    place: &Place,
    identity: u64,
    first: u64,
    next: &mut u64,
    visit: &mut Visit<'_>,
) -> Result<(Box<dyn Region>, u64)> {
    let segment = name(first);
    let region = place.open(&segment)?;
    let mut end = 0;
    while let Some((start, batch)) = record_at(region.bytes(), end, identity, *next) {
        visit(*next, batch)?;
        end = start + (HEADER_BYTES + batch.len()) as u64;
        *next += 1;
    }
    Ok((region, end))
}

/// Store zeros wherever there are none from `end` on, and have all of the segment written back.
fn clear(region: &mut dyn Region, end: u64) {
    let (mut at, length) = (end as usize, region.bytes().len());
    while at < length {
        let stop = (at / LINE_BYTES as usize + 1) * LINE_BYTES as usize;
        let stop = stop.min(length);
        if region.bytes()[at..stop].iter().any(|byte| *byte != 0) {
            region.store(at as u64, &[0; LINE_BYTES as usize][..stop - at]);
        }
        at = stop;
    }
    region.write_back(0, length as u64);
}
