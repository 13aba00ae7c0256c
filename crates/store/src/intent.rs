//! Atomic batches over several `hard` partitions, through any crash.
//!
//! One intent record in the store's own journal is the commit point and the redo: it holds every slice of the batch.
//! Then the slices are applied under the lanes' locks, each with the intent's number as its mark in the same engine batch. Format:
//! `docs/format/store.md`.
//!
//! Invariants:
//!
//! 1. An intent gets its number and its place in the journal, and its slices are published, under the locks of all its lanes: the
//!    intents of one partition have ascending numbers in the journal and are applied in that order, a partition's mark is the
//!    highest number applied to it, and a snapshot sees all slices of a batch or none.
//! 2. No engine gets a slice of a batch over several partitions before its intent is durable, whatever the batch's own durability:
//!    else a power cut could keep half. Below `Sync`, where all slices wait for their engines in memory ([`Deferred`]), whoever brings
//!    the first of them there syncs the journal before, once for all that wait with it. An `Os` write within one partition that
//!    waits for its engine needs no sync.
//! 3. Batches over several partitions, `Sync` writes that wait for their engine, and those of partitions that would each sync alone
//!    (`shares_syncs`), are committed by one leader at a time, who takes all waiting ones along in one record.
//! 4. An intent is dropped from the journal only after the partitions it touched were synced past it; one of `Os` writes only,
//!    after they are in their engine. Until then a slice may wait for its engine in memory ([`Deferred`]): the journal has it.
//! 5. What was cut is looked at again under the lanes' locks: if units have moved since, it is cut anew; if units that a slice touches are
//!    changing hands, all callers of the group are told to come again, and none of it is in the journal.
//! 6. A failure after the intent is durable poisons the store, and its callers are told that, whatever it was: the batch is decided, and the
//!    next opening finishes it. So engines are asked for room before ([`Engine::reserve`]): a device that is full refuses the batch. Nothing is written to any of its partitions in between, and nothing is dropped from the journal.
//! 7. A `Sync` batch is acknowledged after earlier writes below `Sync` of its partitions are durable too, and so they stay: those that were
//!    brought into an engine without a sync while the journal alone has the batch, are synced before the journal drops them. What an opening finds may be
//!    what a killed process left, which no sync covers yet.
//!
//! Crash argument: without the record the batch never was. With it, opening reapplies, before anything else and in order, the
//! slices whose number is above their partition's mark. Where a mark is missing, nothing that came after it in that partition
//! survived either, because an engine keeps a prefix of its writes; so the slice lands where it was. Reapplying is cut
//! anywhere without harm: the marks say what is done. (Across a power cut, unsynced `Os` writes that came before a batch in a
//! partition may be lost while the batch is kept: they were never promised.)

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::io::Io;
use biombo_engine::combine::Combiner;
use biombo_engine::{Batch, Durability, Engine, Error, ErrorKind, Op, Result};
use biombo_journal::{Durability as JournalDurability, Journal, JournalOptions};

use crate::deferred::Deferred;
use crate::keyspace::{self, MARK};
use crate::lane::{Attempt, Instance, Lane};
use crate::migration::Held;
use crate::placement::Input;
use crate::poison::Poison;
use crate::retirer::Due;

/// Segments' worth of intents before the partitions are synced and the journal is trimmed: bounds the work of an opening, and the
/// memory of what waits for its engine. At half of it the retiring thread begins.
const OUTSTANDING_SEGMENTS_MAX: u64 = 4;
const RECORD_INTENT: u8 = 1;

/// The journal of intents.
pub(crate) struct Intents {
    journal: Arc<Journal>,
    combiner: Combiner<Attempt>,
    last: AtomicU64,
    outstanding: Mutex<Outstanding>,
    outstanding_bytes_max: u64,
    /// Held while intents are retired.
    retiring: Mutex<()>,
    pub(crate) due: Arc<Due>,
}

/// Intents that the journal still holds, by the bytes of their records.
#[derive(Default, Clone, Copy)]
struct Outstanding {
    bytes: u64,
    /// Those of them whose partitions must be synced before they are dropped.
    synced_bytes: u64,
}

/// Of the journal's bound: what gathers for one partition before the retiring thread gives it to its engine, and what a caller
/// lets gather. The first makes transactions of some hundred kilobytes, which share the upper pages of a tree; the second bounds the
/// wait of a caller that outruns the thread.
const GATHER_PART: u64 = 256;
const GATHER_MAX_PART: u64 = 64;

/// An intent's slices: stored operations by partition, in the order of the partitions.
type Slices = Vec<(u16, Batch)>;

impl Intents {
    /// Open the journal in `dir` and finish what a crash left: reapply missing slices, sync, and drop them.
    pub(crate) fn recover(
        io: Arc<dyn Io>,
        dir: &Path,
        mut options: JournalOptions,
        instances: &[Instance],
        is_new: bool,
    ) -> Result<Self> {
        let outstanding_bytes_max = OUTSTANDING_SEGMENTS_MAX * options.segment_bytes;
        options.recycle_segments_max = OUTSTANDING_SEGMENTS_MAX as usize;
        let mut found: Vec<(u64, Slices)> = Vec::new();
        let journal = Journal::open(io, dir, options, &mut |lsn, record| {
            let intent = decode(record, instances.len()).map_err(|error| {
                let what = format!("{}: intent {lsn} cannot be read: {}", dir.display(), error.message());
                Error::new(ErrorKind::Corruption, what)
            })?;
            found.push(intent);
            Ok(())
        })?;
        let mut marks = instances.iter().map(|instance| read_mark(&*instance.engine)).collect::<Result<Vec<_>>>()?;
        let mut last = marks.iter().copied().max().unwrap_or(0);
        let any = !found.is_empty();
        let persistent = instances.iter().all(|instance| instance.engine.capabilities().persistent);
        for (number, slices) in found {
            last = last.max(number);
            if !persistent {
                // What the slices belonged to went with the instance.
                continue;
            }
            for (partition, slice) in slices {
                let mark = &mut marks[usize::from(partition)];
                if number > *mark {
                    hand_over(&instances[usize::from(partition)], &slice, number, Durability::Sync)?;
                    *mark = number;
                }
            }
        }
        if any {
            for instance in instances {
                instance.engine.sync()?;
            }
            journal.trim(journal.next_lsn())?;
        } else if !is_new && persistent {
            instances.iter().for_each(Instance::note_unsynced);
        }
        let journal = Arc::new(journal);
        for deferred in instances.iter().filter_map(|instance| instance.deferred.as_ref()) {
            deferred.follows(Arc::clone(&journal));
        }
        Ok(Self {
            journal,
            combiner: Combiner::default(),
            last: AtomicU64::new(last),
            outstanding: Mutex::default(),
            outstanding_bytes_max,
            retiring: Mutex::default(),
            due: Arc::default(),
        })
    }

    /// Commit checked operations (with users' keys) over the lanes that `routes` says; several callers at a time share one
    /// intent.
    pub(crate) fn commit(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        lanes: &[Lane],
        instances: &[Instance],
        poison: &Poison,
        routes: &impl Routes,
    ) -> Result<Attempt> {
        self.combiner.commit(ops, durability, |ops, durability| {
            poison.check()?;
            self.make_room(lanes, instances, poison)?;
            let slices = loop {
                let routed_by = routes.version();
                let slices = cut(ops, routes);
                let mut publishing: Vec<_> = slices.iter().map(|(lane, _)| lanes[usize::from(*lane)].lock()).collect();
                if routes.version() != routed_by {
                    continue;
                }
                if publishing.iter().zip(&slices).any(|(held, (_, slice))| !held.admits_batch(slice)) {
                    return Ok(Attempt::Again);
                }
                self.publish(&slices, &mut publishing, durability, lanes, instances, poison)?;
                drop(publishing);
                break slices;
            };
            for (lane, _) in &slices {
                let number = lanes[usize::from(*lane)].instance;
                let instance = &instances[number];
                let bytes = instance.deferred.as_ref().map_or(0, |deferred| deferred.gathering_bytes() as u64);
                self.relieve(Gathered { bytes, durability }, instance, number, poison)?;
            }
            Ok(Attempt::Landed)
        })
    }

    /// Put slices into the journal, and give them to their partitions, whose lanes' locks the caller holds in their order. The caller
    /// then [relieves](Intents::relieve) each of them, without the locks.
    fn publish(
        &self,
        slices: &Slices,
        publishing: &mut [Held<'_>],
        durability: Durability,
        lanes: &[Lane],
        instances: &[Instance],
        poison: &Poison,
    ) -> Result<()> {
        for (lane, _) in slices {
            instances[lanes[usize::from(*lane)].instance].drain_relaxed(poison)?;
        }
        let number = self.next_number();
        let all_wait = durability < Durability::Sync
            && slices.iter().all(|(lane, slice)| instances[lanes[usize::from(*lane)].instance].can_wait(slice));
        let level = if all_wait { JournalDurability::Os } else { JournalDurability::Sync };
        // While nothing is decided yet.
        for (lane, slice) in slices.iter().filter(|_| !all_wait) {
            poison.watch(make_sure(&instances[lanes[usize::from(*lane)].instance], slice, number, durability))?;
        }
        let record = encode(number, slices);
        // Others would write to partitions that have not got their slices of it.
        let _half_done = poison.note_panic();
        poison.watch(self.journal.append(&record, level))?;
        for ((lane, slice), held) in slices.iter().zip(publishing) {
            let lane = &lanes[usize::from(*lane)];
            lane.count_bytes(slice.bytes() as u64);
            let instance = &instances[lane.instance];
            let given = match &instance.deferred {
                Some(deferred) if all_wait => {
                    deferred.defer_part(&slice.to_ops(), number, durability);
                    Ok(())
                }
                _ => hand_over(instance, slice, number, durability),
            };
            if all_wait {
                held.published_part(slice, &given);
            } else {
                held.published_batch(slice, &given);
            }
            given.map_err(|error| poison.with(&error))?;
        }
        self.note(record.len(), Durability::Sync);
        Ok(())
    }

    /// Commit stored operations on single keys of one lane, whose lock the caller holds and whose engine may get them later; they are
    /// as durable as asked when this returns, once the caller has also called [`relieve`](Intents::relieve) without the lock.
    pub(crate) fn commit_in_lane(
        &self,
        lane: usize,
        held: &mut Held<'_>,
        deferred: &Deferred,
        ops: &[Op<'_>],
        durability: Durability,
        poison: &Poison,
    ) -> Result<Gathered> {
        let number = self.next_number();
        let mut record = begin_record(number, 1);
        encode_slice(&mut record, lane as u16, ops.len(), ops.iter().copied());
        let level = if durability == Durability::Sync { JournalDurability::Sync } else { JournalDurability::Os };
        let _half_done = poison.note_panic();
        poison.watch(self.journal.append(&record, level))?;
        let bytes = deferred.defer(ops, number, durability);
        held.published(ops, &Ok(()));
        self.note(record.len(), durability);
        Ok(Gathered { bytes: bytes as u64, durability })
    }

    /// What a caller of [`commit_in_lane`](Intents::commit_in_lane) owes after it has let the lane's lock go.
    pub(crate) fn relieve(
        &self,
        gathered: Gathered,
        instance: &Instance,
        number: usize,
        poison: &Poison,
    ) -> Result<()> {
        if gathered.durability == Durability::Sync {
            return instance.sync_if_unsynced(poison);
        }
        let Some(deferred) = &instance.deferred else { return Ok(()) };
        let (part, max) = (self.outstanding_bytes_max / GATHER_PART, self.outstanding_bytes_max / GATHER_MAX_PART);
        if gathered.bytes > part && deferred.gathers_unsynced() {
            if gathered.bytes <= max {
                self.due.drain(number);
            } else {
                // A full disk has lost nothing: the journal has the write. The next caller that needs room there is told.
                let _ = instance.drain(poison);
            }
        }
        Ok(())
    }

    /// Retire intents where their journal is full. Takes lanes' locks: the caller must hold none.
    pub(crate) fn make_room(&self, lanes: &[Lane], instances: &[Instance], poison: &Poison) -> Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        let one = self.retiring();
        // Whoever was here before may have made room for all who waited.
        if self.is_full() { self.retire_in_turn(&one, lanes, instances, poison) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.outstanding().bytes > self.outstanding_bytes_max
    }

    fn retiring(&self) -> MutexGuard<'_, ()> {
        self.retiring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an intent whose lanes' locks the caller holds.
    fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An intent of so many bytes is in the journal and published.
    fn note(&self, bytes: usize, level: Durability) {
        let mut outstanding = self.outstanding();
        outstanding.bytes += bytes as u64;
        if level == Durability::Sync {
            outstanding.synced_bytes += bytes as u64;
        }
        let is_due = outstanding.bytes > self.outstanding_bytes_max / 2;
        drop(outstanding);
        if is_due {
            self.due.retire();
        }
        self.due.watch();
    }

    /// The number of the last intent.
    pub(crate) fn last_number(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Bring what waits into the engines, sync those if any intent needs it, and drop the intents that came before the call; nothing
    /// to do when there are none. Takes the lanes' locks for an instant: the caller must hold none.
    pub(crate) fn retire(&self, lanes: &[Lane], instances: &[Instance], poison: &Poison) -> Result<()> {
        self.retire_in_turn(&self.retiring(), lanes, instances, poison)
    }

    fn retire_in_turn(
        &self,
        _turn: &MutexGuard<'_, ()>,
        lanes: &[Lane],
        instances: &[Instance],
        poison: &Poison,
    ) -> Result<()> {
        let (before, upto) = {
            // Behind this gate every intent of the journal is published, or the store is poisoned and its journal the only one that has it all.
            let _gate: Vec<_> = lanes.iter().map(Lane::lock).collect();
            poison.check()?;
            (*self.outstanding(), self.journal.next_lsn())
        };
        if before.bytes == 0 {
            return Ok(());
        }
        for instance in instances {
            if before.synced_bytes > 0 {
                instance.sync(poison)?;
            } else {
                instance.drain(poison)?;
            }
        }
        // Of a `Sync` write that came meanwhile, what came before it must not be lost by dropping it here. (One that comes from now on finds in the
        // engines what no sync covers, and syncs that.)
        if before.synced_bytes == 0 && self.outstanding().synced_bytes > 0 {
            for instance in instances.iter().filter(|instance| instance.has_unsynced()) {
                instance.sync_applied(poison)?;
            }
        }
        poison.watch(self.journal.trim(upto))?;
        let mut outstanding = self.outstanding();
        outstanding.bytes = outstanding.bytes.saturating_sub(before.bytes);
        outstanding.synced_bytes = outstanding.synced_bytes.saturating_sub(before.synced_bytes);
        Ok(())
    }

    /// Bytes of applied intents that the journal still holds.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.outstanding().bytes
    }

    /// Bytes that the journal has written since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.journal.stats().written_bytes
    }

    fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        self.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What gathers for a partition after a write to it.
#[must_use]
pub(crate) struct Gathered {
    bytes: u64,
    durability: Durability,
}

/// Which lanes own what.
pub(crate) trait Routes {
    /// The version of the topology: unchanged, and nothing has moved.
    fn version(&self) -> u64;

    /// The lanes that own a piece of an operation on users' keys.
    fn lanes_of(&self, op: &Op<'_>) -> Vec<usize>;
}

/// The operations of a batch by the lane that owns them, in stored form, in the order of the lanes.
fn cut(ops: &[Op<'_>], routes: &impl Routes) -> Slices {
    let mut slices = Slices::new();
    for op in ops {
        for lane in routes.lanes_of(op) {
            let lane = lane as u16;
            let at = slices.binary_search_by_key(&lane, |slice| slice.0).unwrap_or_else(|at| {
                slices.insert(at, (lane, Batch::new()));
                at
            });
            push_stored(&mut slices[at].1, op);
        }
    }
    slices
}

/// Add a user's operation to a batch in stored form.
pub(crate) fn push_stored(batch: &mut Batch, op: &Op<'_>) {
    match *op {
        Op::Put { key, value } => batch.put(&keyspace::encode(key), value),
        Op::Delete { key } => batch.delete(&keyspace::encode(key)),
        Op::DeleteRange { from, to } => {
            let to = to.map(keyspace::encode_from);
            batch.delete_range(&keyspace::encode_from(from), to.as_deref())
        }
    };
}

/// Give a slice to its partition: later, where it may wait.
fn hand_over(instance: &Instance, slice: &Batch, number: u64, durability: Durability) -> Result<()> {
    let ops = slice.to_ops();
    match &instance.deferred {
        Some(deferred) if Deferred::can_take(&ops) => {
            // The intent is durable whatever was asked, and goes only after its partitions were synced.
            deferred.defer(&ops, number, Durability::Sync);
            Ok(())
        }
        _ => apply_slice(&*instance.engine, slice, number, durability),
    }
}

/// Whether a partition has room for a slice that it gets next.
fn make_sure(instance: &Instance, slice: &Batch, number: u64, durability: Durability) -> Result<()> {
    let mut ops = slice.to_ops();
    if instance.deferred.is_some() && Deferred::can_take(&ops) {
        return Ok(());
    }
    let (engine, number) = (&*instance.engine, number.to_le_bytes());
    ops.push(Op::Put { key: MARK, value: &number });
    engine.reserve(&ops, slice_level(engine, durability))
}

/// The intent is the redo: where the engine keeps a prefix through a power cut, a slice needs no sync of its own.
fn slice_level(engine: &dyn Engine, durability: Durability) -> Durability {
    let keeps_prefix = engine.capabilities().survives_power_cut.is_some_and(|level| level <= Durability::Os);
    if keeps_prefix { Durability::Os } else { durability }
}

/// Apply a slice and its mark.
fn apply_slice(engine: &dyn Engine, slice: &Batch, number: u64, durability: Durability) -> Result<()> {
    let capabilities = engine.capabilities();
    let level = slice_level(engine, durability);
    let number = number.to_le_bytes();
    let mark = Op::Put { key: MARK, value: &number };
    let mut ops = slice.to_ops();
    if capabilities.atomic_batches {
        ops.push(mark);
        return engine.apply(&ops, level);
    }
    // Without atomic batches the mark comes last: a cut in between leaves it missing, and the whole slice is applied again.
    engine.apply(&ops, level)?;
    engine.apply(&[mark], level)
}

fn read_mark(engine: &dyn Engine) -> Result<u64> {
    let mut mark = Vec::new();
    if !engine.get_into(MARK, &mut mark)? {
        return Ok(0);
    }
    let bytes = mark.try_into().map_err(|mark: Vec<u8>| {
        Error::new(ErrorKind::Corruption, format!("a partition's mark has {} bytes instead of 8", mark.len()))
    })?;
    Ok(u64::from_le_bytes(bytes))
}

fn encode(number: u64, slices: &Slices) -> Vec<u8> {
    let mut out = begin_record(number, slices.len());
    out.reserve(slices.iter().map(|(_, slice)| slice.bytes() + 9 * slice.len() + 6).sum());
    for (partition, slice) in slices {
        encode_slice(&mut out, *partition, slice.len(), slice.iter());
    }
    out
}

fn begin_record(number: u64, slices: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(RECORD_INTENT);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(slices as u16).to_le_bytes());
    out
}

fn encode_slice<'a>(out: &mut Vec<u8>, partition: u16, count: usize, ops: impl Iterator<Item = Op<'a>>) {
    out.extend_from_slice(&partition.to_le_bytes());
    out.extend_from_slice(&(count as u32).to_le_bytes());
    for op in ops {
        match op {
            Op::Put { key, value } => {
                out.reserve(9 + key.len() + value.len());
                out.push(1);
                put_slice(out, key);
                put_slice(out, value);
            }
            Op::Delete { key } => {
                out.push(2);
                put_slice(out, key);
            }
            Op::DeleteRange { from, to } => {
                out.push(if to.is_some() { 3 } else { 4 });
                put_slice(out, from);
                if let Some(to) = to {
                    put_slice(out, to);
                }
            }
        }
    }
}

fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn decode(record: &[u8], partitions: usize) -> Result<(u64, Slices)> {
    let mut input = Input(record);
    if input.byte()? != RECORD_INTENT {
        return Err(Error::unsupported("a record of a kind that this version does not know"));
    }
    let number = input.u64()?;
    let count = input.u16()?;
    let mut slices = Slices::new();
    for _ in 0..count {
        let partition = input.u16()?;
        if usize::from(partition) >= partitions {
            return Err(Error::invalid("it names a partition that the store does not have"));
        }
        let mut slice = Batch::new();
        for _ in 0..input.u32()? {
            match input.byte()? {
                1 => slice.put(input.slice()?, input.slice()?),
                2 => slice.delete(input.slice()?),
                3 => slice.delete_range(input.slice()?, Some(input.slice()?)),
                4 => slice.delete_range(input.slice()?, None),
                _ => return Err(Error::invalid("it holds an operation of an unknown kind")),
            };
        }
        slices.push((partition, slice));
    }
    if input.0.is_empty() { Ok((number, slices)) } else { Err(Error::invalid("bytes follow its end")) }
}

#[cfg(test)]
mod tests;
