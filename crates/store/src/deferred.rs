//! Writes that the journal of intents holds, and their engine not yet; or, at `Relaxed`, that nothing holds yet.
//!
//! An engine with costly transactions (LMDB) copies and writes several scattered pages for each commit, and syncs them where
//! its commit is its sync. Where the store's journal has the write already, its engine may get it later, together with many
//! others in one commit. Until then it is here, in memory, and every read looks here first. [`Deferred`] stands in the engine's
//! place, so that nothing else in the store knows.
//!
//! The same place serves the executor `pinned` over engines whose writes do not wait: what is written to them at `Relaxed` is gathered here, seen by
//! every read at once, and brought into the engine by the worker of the lane ([`Crew::bring`](crate::pinned::Crew::bring)). No intent is behind that: a
//! process that dies loses what was gathered, which is what `Relaxed` allows. One instance has deferred writes or gathered ones, never both.
//!
//! Invariants:
//!
//! 1. What is deferred is in the journal, as an intent whose number is above the engine's mark, and as durable as it was asked. A
//!    drain applies a generation and its highest number as the mark in one batch of the engine, at the highest level of what is in
//!    it: a generation of `Os` writes costs no sync. A generation that was gathered has no mark.
//!    Where it has a part of a batch over several partitions whose intent may not be durable, the journal is synced before: what a power
//!    cut leaves in one engine must be in the journal for the others.
//! 2. Whatever else the engine is asked to do (a write that is not deferred, a cursor, a snapshot, a sync, a copy, figures)
//!    drains first: the order of the writes of a partition is that of its lane, and cursors see all of them. Where the engine takes no more,
//!    because its disk is full or broken, views of it lie under what waits ([`Overlaid`]).
//! 3. An entry leaves this map only after it is visible in the engine: a reader that looks here first misses nothing.
//! 4. Writes are deferred or gathered, and writes that drain are made, under the lock of their lane.
//! 5. What was gathered reaches the engine whole (only those with atomic batches have it gathered), before any later write of its partition does,
//!    and before an intent about it is in the journal: so what a crash leaves of a partition is a prefix of its order, here as everywhere.
//!
//! Crash argument: that of the intents. What was not drained is reapplied from the journal, which is trimmed only after a
//! drain at the level of what is dropped. A drain is one atomic batch with its mark: cut anywhere, it happened or did not.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use biombo_engine::{Capabilities, Cursor, Damage, Durability, Engine, Op, Result, Snapshot, Stats, Value};
use biombo_journal::Journal;

use crate::keyspace::MARK;
use crate::overlaid::{Overlaid, OverlaidSnapshot, Waiting};

/// An engine and what it will get.
pub(crate) struct Deferred {
    engine: Arc<dyn Engine>,
    /// Of intents.
    journal: OnceLock<Arc<Journal>>,
    /// Held over a drain: generations reach the engine one after another.
    draining: Mutex<()>,
    state: RwLock<State>,
    /// Entries of both generations; 0 lets reads pass without the lock.
    pending: AtomicUsize,
    /// Drains that no sync was part of.
    drained_unsynced: AtomicU64,
}

#[derive(Default)]
struct State {
    gathering: Generation,
    /// On its way to the engine, or refused by a full disk and to be tried again.
    draining: Option<Arc<Generation>>,
}

/// What a stored key will be; `None` stands for a deletion.
type Entry = Option<Arc<[u8]>>;

#[derive(Default)]
struct Generation {
    /// By stored keys.
    entries: HashMap<Box<[u8]>, Entry>,
    /// The number of the highest intent in it, as its mark holds it; none in what was gathered.
    mark: Option<[u8; 8]>,
    /// The highest of what was asked.
    level: Option<Durability>,
    /// Whether it has parts of batches whose intents may not be durable.
    has_parts: bool,
    /// Bytes of keys and values that are in it. What was written over counts no more: the engine never gets it.
    bytes: usize,
}

impl Deferred {
    /// Whether writes over such an engine gain by being deferred, and are as safe.
    pub(crate) fn suits(capabilities: &Capabilities) -> bool {
        capabilities.persistent
            && capabilities.atomic_batches
            && capabilities.costly_transactions
            && !capabilities.sync_apart
    }

    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            journal: OnceLock::new(),
            draining: Mutex::default(),
            state: RwLock::default(),
            pending: AtomicUsize::new(0),
            drained_unsynced: AtomicU64::new(0),
        }
    }

    /// The engine itself.
    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Intents are in `journal` from now on.
    pub(crate) fn follows(&self, journal: Arc<Journal>) {
        let _ = self.journal.set(journal);
    }

    /// Whether all operations can be deferred: those on single keys can.
    pub(crate) fn can_take(ops: &[Op<'_>]) -> bool {
        ops.iter().all(|op| !matches!(op, Op::DeleteRange { .. }))
    }

    /// Keep the stored operations of intent `number`, which the journal holds at `level`, and all before it too. Returns the bytes
    /// that gather for the next drain.
    pub(crate) fn defer(&self, ops: &[Op<'_>], number: u64, level: Durability) -> usize {
        self.keep(ops, Some(number), level, false)
    }

    /// As [`defer`](Deferred::defer), of a part of a batch over several partitions whose intent the journal holds at `Os` only.
    pub(crate) fn defer_part(&self, ops: &[Op<'_>], number: u64, level: Durability) {
        self.keep(ops, Some(number), level, true);
    }

    /// Keep stored operations that nothing else holds, until they are drained.
    pub(crate) fn gather(&self, ops: &[Op<'_>]) {
        self.keep(ops, None, Durability::Relaxed, false);
    }

    /// Bytes of keys and values that gather for the next drain, those that were written over since not counted.
    pub(crate) fn gathering_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { self.read().gathering.bytes }
    }

    /// Whether nothing waits for the engine.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    fn keep(&self, ops: &[Op<'_>], number: Option<u64>, level: Durability, is_part: bool) -> usize {
        // Copied before the lock: readers wait for it.
        let copies: Vec<(&[u8], Entry)> = ops
            .iter()
            .map(|op| match *op {
                Op::Put { key, value } => (key, Some(Arc::from(value))),
                Op::Delete { key } => (key, None),
                Op::DeleteRange { .. } => unreachable!("the caller asked can_take"),
            })
            .collect();
        let mut state = self.write();
        for (key, value) in copies {
            state.gathering.keep(key, value);
        }
        state.gathering.mark = number.map(u64::to_le_bytes).or(state.gathering.mark);
        state.gathering.level = state.gathering.level.max(Some(level));
        state.gathering.has_parts |= is_part;
        self.count(&state);
        state.gathering.bytes
    }

    /// Whether the generation that gathers can be drained without a sync.
    pub(crate) fn gathers_unsynced(&self) -> bool {
        self.read().gathering.level < Some(Durability::Sync)
    }

    /// Drains so far that no sync was part of.
    pub(crate) fn drained_unsynced(&self) -> u64 {
        self.drained_unsynced.load(Ordering::SeqCst)
    }

    /// Bring everything that is here at the call into the engine, each generation at its own level.
    pub(crate) fn drain(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let _one = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        // What a full disk left behind goes first, alone: its order before the rest is that of the intents.
        let passes = if self.read().draining.is_some() { 2 } else { 1 };
        for _ in 0..passes {
            let generation = {
                let mut state = self.write();
                if state.draining.is_none() && !state.gathering.entries.is_empty() {
                    state.draining = Some(Arc::new(std::mem::take(&mut state.gathering)));
                }
                let Some(generation) = &state.draining else { return Ok(()) };
                Arc::clone(generation)
            };
            let level = generation.level.unwrap_or_default();
            if generation.has_parts
                && let Some(journal) = self.journal.get()
            {
                journal.sync()?;
            }
            self.engine.apply(&generation.to_ops(), level)?;
            if level < Durability::Sync {
                self.drained_unsynced.fetch_add(1, Ordering::SeqCst);
            }
            let done = {
                let mut state = self.write();
                let done = state.draining.take();
                self.count(&state);
                done
            };
            // Readers wait for the lock: thousands of values are freed after it.
            drop((done, generation));
        }
        Ok(())
    }

    /// Make the intents of all that waits here durable, and let them be drained by a sync: after one without, the journal would drop them, and a power
    /// cut take them. A drain that is under way is waited for; it is counted.
    pub(crate) fn promise(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        {
            let _one = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.write();
            let refused = state.draining.as_mut().and_then(Arc::get_mut);
            refused.into_iter().for_each(|generation| generation.level = Some(Durability::Sync));
            if !state.gathering.entries.is_empty() {
                state.gathering.level = Some(Durability::Sync);
            }
        }
        match self.journal.get() {
            Some(journal) if !self.is_empty() => journal.sync(),
            _ => Ok(()),
        }
    }

    /// A view of the engine, and what waits for it: of an instant at which none of that gets there.
    fn beside<T>(&self, view: impl FnOnce(Arc<dyn Engine>) -> Result<T>) -> Result<(T, Arc<Waiting>)> {
        let _one = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: Waiting = {
            let state = self.read();
            let older = state.draining.iter().flat_map(|generation| &generation.entries);
            let all = older.chain(&state.gathering.entries);
            all.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        Ok((view(Arc::clone(&self.engine))?, Arc::new(waiting)))
    }

    /// The deferred value of `key`: `Some(None)` where it was deleted.
    #[inline]
    fn find(&self, key: &[u8]) -> Option<Entry> {
        if self.is_empty() { None } else { self.find_pending(key) }
    }

    #[inline(never)]
    fn find_pending(&self, key: &[u8]) -> Option<Entry> {
        let state = self.read();
        let older = || state.draining.as_ref().and_then(|generation| generation.entries.get(key));
        state.gathering.entries.get(key).or_else(older).cloned()
    }

    fn count(&self, state: &State) {
        let draining = state.draining.as_ref().map_or(0, |generation| generation.entries.len());
        self.pending.store(state.gathering.entries.len() + draining, Ordering::Release);
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    fn keep(&mut self, key: &[u8], value: Entry) {
        let bytes_of = |value: &Entry| value.as_ref().map_or(0, |value| value.len());
        let new = bytes_of(&value);
        let before = match self.entries.get_mut(key) {
            Some(entry) => bytes_of(&std::mem::replace(entry, value)),
            None => {
                self.entries.insert(key.into(), value);
                self.bytes += key.len();
                0
            }
        };
        self.bytes = self.bytes + new - before;
    }

    /// Its operations in the order of their keys, which is the cheapest for a tree, and its mark.
    fn to_ops(&self) -> Vec<Op<'_>> {
        let mut ops: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Op::Put { key, value },
                None => Op::Delete { key },
            })
            .chain(self.mark.as_ref().map(|mark| Op::Put { key: MARK, value: mark }))
            .collect();
        ops.sort_unstable_by_key(|op| match op {
            Op::Put { key, .. } | Op::Delete { key } => *key,
            Op::DeleteRange { from, .. } => *from,
        });
        ops
    }
}

impl Engine for Deferred {
    fn capabilities(&self) -> &Capabilities {
        self.engine.capabilities()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        match self.find(key) {
            Some(value) => Ok(value.map(Value::guarded)),
            None => self.engine.get(key),
        }
    }

    #[inline]
    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let Some(value) = self.find(key) else { return self.engine.get_into(key, into) };
        into.clear();
        into.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(value.is_some())
    }

    fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        // What waits is looked at before the engine is, as in `get`: between the two it may get there.
        let waiting: Vec<_> =
            if self.is_empty() { Vec::new() } else { keys.iter().map(|key| self.find_pending(key)).collect() };
        if waiting.iter().all(Option::is_none) {
            return self.engine.multi_get(keys, values);
        }
        for (key, waiting) in keys.iter().zip(waiting) {
            values.push(match waiting {
                Some(value) => value.map(Value::guarded),
                None => self.engine.get(key)?,
            });
        }
        Ok(())
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.engine.prefetch(keys);
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.find(key).map_or_else(|| self.engine.contains(key), |value| Ok(value.is_some()))
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.drain()?;
        self.engine.apply(ops, durability)
    }

    fn reserve(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        // What waits goes before them, and takes its room first.
        self.drain()?;
        self.engine.reserve(ops, durability)
    }

    fn sync(&self) -> Result<()> {
        self.drain()?;
        self.engine.sync()
    }

    fn written_back(&self) {
        self.engine.written_back();
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        if self.drain().is_ok() {
            return Arc::clone(&self.engine).snapshot();
        }
        // Who writes, or flushes, is told why; who reads need not be.
        let (snapshot, waiting) = self.beside(|engine| engine.snapshot())?;
        Ok(Arc::new(OverlaidSnapshot::new(snapshot, waiting)))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        if self.drain().is_ok() {
            return Arc::clone(&self.engine).cursor();
        }
        let (cursor, waiting) = self.beside(|engine| engine.cursor())?;
        Ok(Box::new(Overlaid::new(cursor, waiting)))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.drain()?;
        self.engine.checkpoint(dest)
    }

    fn compact(&self) -> Result<()> {
        self.drain()?;
        self.engine.compact()
    }

    fn stats(&self) -> Result<Stats> {
        self.drain()?;
        self.engine.stats()
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.drain()?;
        self.engine.verify(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_engine::Batch;
    use biombo_engine::memory::Memory;

    fn deferred() -> (Arc<Memory>, Arc<Deferred>) {
        let engine = Arc::new(Memory::new());
        (Arc::clone(&engine), Arc::new(Deferred::new(engine)))
    }

    fn slice(of: impl FnOnce(&mut Batch) -> &mut Batch) -> Batch {
        let mut batch = Batch::new();
        of(&mut batch);
        batch
    }

    #[test]
    fn reads_see_the_newest_of_what_gathers_and_what_the_engine_has() {
        let (engine, deferred) = deferred();
        deferred
            .apply(&[Op::Put { key: b"a", value: b"old" }, Op::Put { key: b"b", value: b"b" }], Durability::Os)
            .unwrap();
        deferred.defer(
            &slice(|batch| batch.put(b"a", b"new").delete(b"b").put(b"c", b"c").put(b"c", b"cc")).to_ops(),
            7,
            Durability::Sync,
        );
        let get = |key: &[u8]| deferred.get(key).unwrap().map(Value::into_vec);
        assert_eq!((get(b"a"), get(b"b"), get(b"c")), (Some(b"new".to_vec()), None, Some(b"cc".to_vec())));
        assert!(!deferred.contains(b"b").unwrap() && deferred.contains(b"c").unwrap());
        assert_eq!(engine.get(b"a").unwrap().unwrap().into_vec(), b"old", "the engine has not heard of it");

        deferred.sync().unwrap();
        assert_eq!((get(b"a"), get(b"b"), get(b"c")), (Some(b"new".to_vec()), None, Some(b"cc".to_vec())));
        assert_eq!(engine.get(MARK).unwrap().unwrap().into_vec(), 7u64.to_le_bytes());
        assert_eq!(engine.get(b"c").unwrap().unwrap().into_vec(), b"cc");
    }

    #[test]
    fn what_is_gathered_is_seen_at_once_and_reaches_the_engine_without_a_mark() {
        let (engine, deferred) = deferred();
        deferred.gather(&slice(|batch| batch.put(b"k", b"1").put(b"l", b"2")).to_ops());
        deferred.gather(&[Op::Delete { key: b"l" }]);
        assert_eq!(deferred.get(b"k").unwrap().unwrap().into_vec(), b"1");
        assert!(!deferred.contains(b"l").unwrap() && deferred.gathering_bytes() == 3 && !deferred.is_empty());
        assert!(!engine.contains(b"k").unwrap(), "the engine has not heard of it");
        deferred.drain().unwrap();
        assert_eq!(engine.get(b"k").unwrap().unwrap().into_vec(), b"1");
        assert!(!engine.contains(MARK).unwrap(), "no intent is behind it");
        assert_eq!((deferred.drained_unsynced(), deferred.gathering_bytes()), (1, 0));
    }

    /// Fails if what was written over counts: hot keys would be given to the engine as often as others.
    #[test]
    fn keys_that_are_written_again_and_again_gather_once() {
        let (engine, deferred) = deferred();
        let bytes: Vec<usize> = (1..=100u64)
            .map(|number| {
                let value = vec![7; if number % 2 == 0 { 10 } else { 30 }];
                deferred.defer(&slice(|batch| batch.put(b"hot", &value)).to_ops(), number, Durability::Os)
            })
            .collect();
        assert!(bytes.chunks(2).all(|bytes| bytes == [33, 13]), "{bytes:?}");
        deferred.defer(&[Op::Delete { key: b"hot" }], 101, Durability::Os);
        assert_eq!(deferred.gathering_bytes(), 3);
        deferred.drain().unwrap();
        assert_eq!(
            (engine.get(MARK).unwrap().unwrap().into_vec(), deferred.gathering_bytes()),
            (101u64.to_le_bytes().to_vec(), 0)
        );
        assert!(!engine.contains(b"hot").unwrap());
    }

    #[test]
    fn a_write_or_a_cursor_that_is_not_deferred_comes_after_what_is() {
        let (_, deferred) = deferred();
        deferred.defer(&slice(|batch| batch.put(b"k", b"1")).to_ops(), 1, Durability::Sync);
        deferred.apply(&[Op::Put { key: b"k", value: b"2" }], Durability::Os).unwrap();
        assert_eq!(deferred.get(b"k").unwrap().unwrap().into_vec(), b"2");
        deferred.defer(&slice(|batch| batch.put(b"l", b"3")).to_ops(), 2, Durability::Sync);
        let mut cursor = Arc::clone(&deferred).cursor().unwrap();
        cursor.last().unwrap();
        assert_eq!(cursor.key().zip(cursor.value()), Some((&b"l"[..], &b"3"[..])));
    }

    /// Refuses writes while it is full.
    struct Filling {
        engine: Memory,
        full: std::sync::atomic::AtomicBool,
    }

    impl Engine for Filling {
        fn capabilities(&self) -> &Capabilities {
            self.engine.capabilities()
        }
        fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
            self.engine.get(key)
        }
        fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
            if self.full.load(Ordering::SeqCst) {
                return Err(biombo_engine::Error::new(biombo_engine::ErrorKind::Full, "no room"));
            }
            self.engine.apply(ops, durability)
        }
        fn sync(&self) -> Result<()> {
            Ok(())
        }
        fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
            unimplemented_here()
        }
        fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
            unimplemented_here()
        }
        fn checkpoint(&self, _: &Path) -> Result<()> {
            unimplemented_here()
        }
        fn compact(&self) -> Result<()> {
            Ok(())
        }
        fn stats(&self) -> Result<Stats> {
            self.engine.stats()
        }
        fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
            self.engine.verify(report)
        }
    }

    fn unimplemented_here<T>() -> Result<T> {
        Err(biombo_engine::Error::unsupported("not part of this test"))
    }

    #[test]
    fn a_full_disk_keeps_what_waits_and_its_order() {
        let engine = Arc::new(Filling { engine: Memory::new(), full: true.into() });
        let deferred = Deferred::new(Arc::clone(&engine) as Arc<dyn Engine>);
        deferred.defer(&slice(|batch| batch.put(b"k", b"1")).to_ops(), 1, Durability::Sync);
        deferred.drain().expect_err("full");
        deferred.defer(&slice(|batch| batch.put(b"k", b"2")).to_ops(), 2, Durability::Sync);
        assert_eq!(deferred.get(b"k").unwrap().unwrap().into_vec(), b"2");
        deferred.drain().expect_err("still full");
        engine.full.store(false, Ordering::SeqCst);
        deferred.drain().unwrap();
        assert_eq!(engine.get(b"k").unwrap().unwrap().into_vec(), b"2");
        assert_eq!(engine.get(MARK).unwrap().unwrap().into_vec(), 2u64.to_le_bytes());
        assert_eq!(deferred.pending.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_reader_finds_a_key_at_every_moment_of_a_drain() {
        let (_, deferred) = deferred();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..3_000u64 {
                    deferred.defer(
                        &slice(|batch| batch.put(b"k", &number.to_le_bytes())).to_ops(),
                        number,
                        Durability::Sync,
                    );
                    if number % 3 == 0 {
                        deferred.drain().unwrap();
                    }
                }
                stop.store(true, Ordering::SeqCst);
            });
            let mut last = 0;
            while !stop.load(Ordering::SeqCst) {
                let Some(value) = deferred.get(b"k").unwrap() else {
                    assert_eq!(last, 0, "the key was there and is not");
                    continue;
                };
                let now = u64::from_le_bytes(value.into_vec().try_into().unwrap());
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        });
    }
}
