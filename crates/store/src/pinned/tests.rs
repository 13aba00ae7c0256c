//! What only this executor does: groups, errors and panics of workers, lanes that change their worker.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use biombo_engine::memory::{self, Memory};
use biombo_engine::{
    Batch, Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind, Op, Registry, Result,
    Snapshot, Stats, Value,
};

use super::queue::{Came, Closed, Queue};
use super::{KEPT_BYTES_MAX, MINE};
use crate::lane::Instance;
use crate::poison::Poison;
use crate::{Executor, Options, PartitionId, Partitioning, Store};

/// What an engine is told to do, and what it has done.
#[derive(Default)]
pub(crate) struct Script {
    panics: AtomicBool,
    fails: Mutex<Option<ErrorKind>>,
    /// There is no room, for who asks.
    pub(crate) is_full: AtomicBool,
    failed: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    applied: AtomicUsize,
    pub(crate) applied_at_sync: AtomicUsize,
    /// Applications wait while it is set, at most [`HELD_MAX`].
    holds: AtomicBool,
    /// How long a sync, and an application, takes.
    sync_time: Duration,
    apply_time: Duration,
}

impl Script {
    /// Applications fail so, from now on.
    pub(crate) fn fail(&self, kind: Option<ErrorKind>) {
        *self.fails.lock().expect("no panic") = kind;
    }

    pub(crate) fn hold(&self, holds: bool) {
        self.holds.store(holds, Ordering::SeqCst);
    }
}

const HELD_MAX: Duration = Duration::from_secs(20);

struct Scripted(Arc<Memory>, Arc<Script>, Capabilities);

impl Engine for Scripted {
    fn capabilities(&self) -> &Capabilities {
        &self.2
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.0.get(key)
    }
    fn reserve(&self, ops: &[Op<'_>], _durability: Durability) -> Result<()> {
        assert!(matches!(ops, [.., Op::Put { value: [_, _, _, _, _, _, _, _], .. }]), "the mark is among them");
        let full = self.1.is_full.load(Ordering::SeqCst);
        if full { Err(Error::new(ErrorKind::Full, "no room, as the script says")) } else { Ok(()) }
    }
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        assert!(!self.1.panics.load(Ordering::SeqCst), "an engine that panics");
        if let Some(kind) = *self.1.fails.lock().expect("no panic") {
            self.1.failed.fetch_add(1, Ordering::SeqCst);
            return Err(Error::new(kind, "as the script says"));
        }
        let begun = Instant::now();
        while self.1.holds.load(Ordering::SeqCst) && begun.elapsed() < HELD_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.1.applied.fetch_add(1, Ordering::SeqCst);
        self.1.applied_at_sync.fetch_add(usize::from(durability == Durability::Sync), Ordering::SeqCst);
        let begun = Instant::now();
        while begun.elapsed() < self.1.apply_time {
            std::hint::spin_loop();
        }
        self.0.apply(ops, durability)
    }
    fn sync(&self) -> Result<()> {
        std::thread::sleep(self.1.sync_time);
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Arc::clone(&self.0).snapshot()
    }
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Arc::clone(&self.0).cursor()
    }
    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.0.checkpoint(dest)
    }
    fn compact(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> Result<Stats> {
        self.0.stats()
    }
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.0.verify(report)
    }
}

pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) script: Arc<Script>,
    _dir: tempfile::TempDir,
}

fn fixture(script: Script, partitions: u32, workers: u32) -> Fixture {
    fixture_of(script, Options::new().partitions(partitions).executor(Executor::Pinned { workers }))
}

pub(crate) fn fixture_of(script: Script, options: Options) -> Fixture {
    fixture_over(script, options, (memory::kind().capabilities)())
}

/// As [`fixture_of`], over an engine that declares `capabilities`.
pub(crate) fn fixture_over(script: Script, options: Options, capabilities: Capabilities) -> Fixture {
    let (script, dir) = (Arc::new(script), tempfile::tempdir().expect("a directory"));
    let mut registry = Registry::new();
    let shared = Arc::clone(&script);
    registry.add(EngineKind {
        name: "scripted",
        open: Arc::new(move |_| {
            let capabilities = capabilities.clone();
            Ok(Arc::new(Scripted(Arc::new(Memory::new()), Arc::clone(&shared), capabilities)))
        }),
        ..memory::kind()
    });
    let options = options.engine("scripted").partitioning(Partitioning::Hard);
    let store = options.open(dir.path().join("db"), &registry).expect("a store");
    Fixture { store, script, _dir: dir }
}

/// Keys of one partition.
fn keys_of(store: &Store, partition: u16) -> impl Iterator<Item = Vec<u8>> {
    (0u32..)
        .map(|number| format!("key{number}").into_bytes())
        .filter(move |key| store.route(key) == PartitionId(partition))
}

#[test]
fn what_comes_at_the_same_time_is_written_and_synced_at_once() {
    let fixture = fixture(Script { sync_time: Duration::from_millis(2), ..Script::default() }, 2, 1);
    let (threads, each) = (8, 20);
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, barrier) = (&fixture.store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for (number, key) in keys_of(store, 0).take(each).enumerate() {
                    let key = [&key[..], &[thread as u8]].concat();
                    store.put_with(&key, &[number as u8], Durability::Sync).expect("put");
                    assert_eq!(store.get(&key).expect("get").as_deref(), Some(&[number as u8][..]), "its own write");
                }
            });
        }
    });
    let (syncs, applied) = (fixture.script.syncs.load(Ordering::SeqCst), fixture.script.applied.load(Ordering::SeqCst));
    let writes = threads * each;
    assert!(syncs <= writes / 2 && applied <= writes / 2, "{syncs} syncs, {applied} applications of {writes} writes");
    assert_eq!(fixture.store.count().expect("count"), writes as u64);
    let waited_ns: u64 = fixture.store.inner.lanes.iter().map(|lane| lane.waited_ns()).sum();
    assert!(waited_ns > 0, "who came while others were written has waited");
}

#[test]
fn a_worker_that_panics_answers_everybody_and_the_store_is_read_only() {
    let fixture = fixture(Script::default(), 4, 2);
    let store = &fixture.store;
    store.put_with(b"before", b"1", Durability::Os).expect("put");
    fixture.script.panics.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            scope.spawn(move || {
                for number in 0..20 {
                    let error = store.put_with(&[b'k', thread, number], b"2", Durability::Os).expect_err("a panic");
                    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
                }
            });
        }
    });
    fixture.script.panics.store(false, Ordering::SeqCst);
    for write in [Durability::Os, Durability::Sync] {
        let error = store.put_with(b"after", b"3", write).expect_err("read-only");
        assert!(error.kind() == ErrorKind::Poisoned && error.message().contains("panicked"), "{error}");
    }
    assert_eq!(store.get(b"before").expect("reads go on").as_deref(), Some(&b"1"[..]));
    // And it closes.
}

/// (Mutations: no guard where one operation is applied, and none where a batch is.)
#[test]
fn a_caller_that_panics_within_its_own_write_leaves_the_store_read_only() {
    let both = |store: &Store| {
        let mut batch = Batch::new();
        for partition in 0..2 {
            batch.put(&keys_of(store, partition).next().expect("a key"), b"2");
        }
        store.write_with(&batch, Durability::Sync)
    };
    let acts: [fn(&Store) -> Result<()>; 2] = [|store| store.put_with(b"key", b"2", Durability::Os), both];
    for act in acts {
        let fixture = fixture_of(Script::default(), Options::new().partitions(2));
        let store = &fixture.store;
        store.put_with(b"before", b"1", Durability::Os).expect("put");
        fixture.script.panics.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| act(store)).join().is_err(), "it panics");
        });
        fixture.script.panics.store(false, Ordering::SeqCst);
        let error = store.put_with(b"after", b"3", Durability::Os).expect_err("read-only");
        assert!(error.kind() == ErrorKind::Poisoned && error.message().contains("panicked"), "{error}");
        assert_eq!(store.get(b"before").expect("reads go on").as_deref(), Some(&b"1"[..]));
    }
    // A panic of the user's own, in what it decides with, is no half-done write.
    let fixture = fixture_of(Script::default(), Options::new().partitions(2));
    let store = &fixture.store;
    std::thread::scope(|scope| {
        let update = || store.update(b"key", Durability::Os, |_| panic!("the user's"));
        assert!(scope.spawn(update).join().is_err());
    });
    store.put_with(b"key", b"2", Durability::Os).expect("writes go on");
}

#[test]
fn an_error_of_the_engine_is_told_to_each_member_of_the_group_by_its_kind() {
    for (kind, poisons) in [(ErrorKind::Full, false), (ErrorKind::Io, true)] {
        let fixture = fixture(Script::default(), 2, 2);
        let store = &fixture.store;
        *fixture.script.fails.lock().expect("no panic") = Some(kind);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let error = store.put_with(&[b'k', thread], b"1", Durability::Os).expect_err("as told");
                    assert!(error.kind() == kind || poisons && error.kind() == ErrorKind::Poisoned, "{error}");
                });
            }
        });
        *fixture.script.fails.lock().expect("no panic") = None;
        assert_eq!(store.put_with(b"after", b"2", Durability::Os).is_err(), poisons, "{kind:?}");
    }
}

#[test]
fn batches_ranges_and_large_values_of_one_partition_are_written_whole() {
    let fixture = fixture(Script::default(), 3, 2);
    let store = &fixture.store;
    let keys: Vec<_> = keys_of(store, 1).take(5).collect();
    let mut batch = Batch::new();
    for key in &keys {
        batch.put(key, b"1");
    }
    batch.delete(&keys[2]);
    for durability in [Durability::Os, Durability::Sync, Durability::Relaxed] {
        store.write_with(&batch, durability).expect("write");
        assert_eq!(store.count().expect("count"), 4);
        let large = vec![7; 3 << 20];
        store.put_with(&keys[2], &large, durability).expect("put");
        store.put_with(b"\0zero", &large[..900_000], durability).expect("put");
        assert_eq!(store.get(&keys[2]).expect("get").as_deref(), Some(&large[..]));
        assert_eq!(store.get(b"\0zero").expect("get").as_deref(), Some(&large[..900_000]));
        store.delete_range(b"", None).expect("delete");
        assert_eq!(store.count().expect("count"), 0);
    }
    // What a write of 900 KB took is not kept: the buffer that comes back with the next is that of the one before.
    store.put(b"\0zero", b"small").expect("put");
    MINE.with(|slip| slip.fill(|work| assert!(work.batch.capacity() <= KEPT_BYTES_MAX, "{}", work.batch.capacity())));
}

/// Were it to wait for its engine, it would wait until the engine gives up waiting; were it not seen, reads would miss it.
#[test]
fn a_relaxed_write_returns_at_once_is_seen_at_once_and_reaches_the_engine_in_order() {
    let fixture = fixture(Script { holds: true.into(), ..Script::default() }, 2, 2);
    let (store, script) = (&fixture.store, &fixture.script);
    let begun = Instant::now();
    let keys: Vec<_> = (0..2).flat_map(|partition| keys_of(store, partition).take(3)).collect();
    for (value, key) in keys.iter().enumerate() {
        store.put_with(key, b"before", Durability::Relaxed).expect("put");
        store.put_with(key, &[value as u8], Durability::Relaxed).expect("put");
        assert_eq!(store.get(key).expect("get").as_deref(), Some(&[value as u8][..]));
    }
    store.delete_with(&keys[0], Durability::Relaxed).expect("delete");
    let mut batch = Batch::new();
    batch.put(&keys[1], b"batch").put(&keys[2], b"batch");
    store.write_with(&batch, Durability::Relaxed).expect("batch");
    let values = store.multi_get(&keys).expect("multi_get");
    let values: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
    let seen = [None, Some(&b"batch"[..]), Some(&b"batch"[..]), Some(&[3][..]), Some(&[4][..]), Some(&[5][..])];
    assert_eq!(values, seen);
    assert!(begun.elapsed() < HELD_MAX / 2, "{:?}", begun.elapsed());
    assert_eq!(script.applied.load(Ordering::SeqCst), 0, "the engine is still busy");
    std::thread::scope(|scope| {
        // What is gathered before a write that waits goes before it.
        let waits = scope.spawn(|| store.put_with(&keys[1], b"last", Durability::Os));
        std::thread::sleep(Duration::from_millis(20));
        script.holds.store(false, Ordering::SeqCst);
        waits.join().expect("no panic").expect("put");
    });
    assert_eq!(store.get(&keys[1]).expect("get").as_deref(), Some(&b"last"[..]));
    store.flush().expect("flush");
    assert_eq!(store.get(&keys[1]).expect("get").as_deref(), Some(&b"last"[..]));
    assert!(script.syncs.load(Ordering::SeqCst) >= 2, "both partitions are durable");
    let mut scan = store.scan(crate::Range::all()).expect("scan");
    let mut count = 0;
    while scan.next().expect("next").is_some() {
        count += 1;
    }
    assert_eq!(count, 5);
}

/// The keys that a scan finds, and a snapshot too.
fn scanned(store: &Store) -> Vec<Vec<u8>> {
    let keys = |mut scan: crate::Scan| {
        let mut keys = Vec::new();
        while let Some((key, _)) = scan.next().expect("next") {
            keys.push(key.to_vec());
        }
        keys
    };
    let found = keys(store.scan(crate::Range::all()).expect("scan"));
    let snapshot = store.snapshot().expect("snapshot");
    assert_eq!(keys(snapshot.scan(crate::Range::all()).expect("scan")), found);
    found
}

#[test]
fn errors_of_relaxed_writes_surface_at_the_next_flush_and_lose_nothing_that_can_be_tried_again() {
    let fixture = fixture(Script::default(), 2, 1);
    let (store, script) = (&fixture.store, &fixture.script);
    let fails = |kind| *script.fails.lock().expect("no panic") = kind;
    fails(Some(ErrorKind::Full));
    store.put_with(b"key", b"value", Durability::Relaxed).expect("put");
    assert_eq!(store.flush().expect_err("the disk is full").kind(), ErrorKind::Full);
    assert_eq!(store.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    let stats = store.stats().expect("figures, without what waits");
    assert_eq!((stats.keys, stats.poisoned), (Some(0), None));
    assert_eq!(scanned(store), [b"key".to_vec()], "reads go on");
    fails(None);
    store.flush().expect("flush");
    assert_eq!(
        (store.get(b"key").expect("get").as_deref(), script.applied.load(Ordering::SeqCst)),
        (Some(&b"value"[..]), 1)
    );
    // What gathers is bounded: a full disk is told before it takes all memory, and what is refused is not there.
    fails(Some(ErrorKind::Full));
    let megabyte = vec![7; 1 << 20];
    let key = |number: u32| format!("large {number}").into_bytes();
    let same = (0u32..).map(key).filter(|key| store.route(key) == PartitionId(0));
    let mut refused = None;
    for key in same.take(16) {
        let value = &megabyte[..megabyte.len() - key.len()];
        if let Err(error) = store.put_with(&key, value, Durability::Relaxed) {
            refused = Some((key, error));
            break;
        }
    }
    let (key, error) = refused.expect("sixteen megabytes gathered");
    assert!(error.kind() == ErrorKind::Full && store.get(&key).expect("get").is_none(), "{error}");
    fails(None);
    store.flush().expect("flush");
    fails(Some(ErrorKind::Io));
    store.put_with(b"key", b"lost", Durability::Relaxed).expect("put");
    let error = store.flush().expect_err("the disk is broken");
    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned), "{error}");
    let error = store.put_with(b"key", b"late", Durability::Relaxed).expect_err("read-only");
    assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    assert!(store.stats().expect("figures").poisoned.is_some(), "who asks is told why");
    assert!(scanned(store).contains(&b"key".to_vec()), "reads go on");
}

/// What a batch that is no whole leaves of many writes at a crash need not be the first of them.
#[test]
fn only_engines_with_atomic_batches_have_writes_gathered() {
    let gathers = |atomic_batches| {
        let capabilities = Capabilities { atomic_batches, ..(memory::kind().capabilities)() };
        let engine = Scripted(Arc::new(Memory::new()), Arc::default(), capabilities);
        Instance::deferring(Arc::new(engine), true).relaxed.is_some()
    };
    assert!(gathers(true) && !gathers(false));
}

/// A write that is in its engine is acknowledged, though somebody else's that was gathered since finds no room.
#[test]
fn a_sync_of_what_is_applied_neither_brings_in_nor_fails_for_what_is_gathered() {
    let script = Arc::new(Script::default());
    let engine = Scripted(Arc::new(Memory::new()), Arc::clone(&script), (memory::kind().capabilities)());
    let (instance, poison) = (Instance::deferring(Arc::new(engine), true), Poison::default());
    let relaxed = instance.relaxed.as_ref().expect("it gathers");
    relaxed.gather(&[Op::Put { key: b"key", value: b"value" }]);
    *script.fails.lock().expect("no panic") = Some(ErrorKind::Full);
    instance.sync_applied(&poison).expect("what was applied is durable");
    assert_eq!(instance.sync(&poison).expect_err("all of it is not").kind(), ErrorKind::Full);
    instance.sync_if_unsynced(&poison).expect("nothing was applied");
    assert!(poison.why().is_none() && script.syncs.load(Ordering::SeqCst) == 1);
    *script.fails.lock().expect("no panic") = None;
    // What was brought in is what a later write must make durable, whoever brought it in: once.
    instance.drain_relaxed(&poison).expect("room");
    for _ in 0..2 {
        instance.sync_if_unsynced(&poison).expect("sync");
        assert_eq!((script.applied.load(Ordering::SeqCst), script.syncs.load(Ordering::SeqCst)), (1, 2));
    }
}

/// Time and again, and for each partition: what is gathered would grow without bound otherwise.
#[test]
fn relaxed_writes_are_brought_in_though_nobody_asks_for_it() {
    let fixture = fixture(Script::default(), 2, 1);
    let (store, script) = (&fixture.store, &fixture.script);
    for partition in [0, 1, 0, 1, 0] {
        let before = script.applied.load(Ordering::SeqCst);
        let key = keys_of(store, partition).next().expect("a key");
        store.put_with(&key, b"value", Durability::Relaxed).expect("put");
        let begun = Instant::now();
        while script.applied.load(Ordering::SeqCst) == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "partition {partition} waits");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What a store's last handle leaves behind is in its engine, though nobody flushed.
#[test]
fn relaxed_writes_are_brought_in_before_a_store_is_gone() {
    let fixture = fixture(Script { holds: true.into(), ..Script::default() }, 1, 1);
    let Fixture { store, script, _dir } = fixture;
    store.put_with(b"key", b"value", Durability::Relaxed).expect("put");
    script.holds.store(false, Ordering::SeqCst);
    drop(store);
    assert!(script.applied.load(Ordering::SeqCst) >= 1);
    // Nor had it been possible before.
    let Fixture { store, script, _dir } = self::fixture(Script::default(), 1, 1);
    *script.fails.lock().expect("no panic") = Some(ErrorKind::Full);
    store.put_with(b"key", b"value", Durability::Relaxed).expect("put");
    let begun = Instant::now();
    while script.failed.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody brings it in");
        std::thread::sleep(Duration::from_millis(1));
    }
    *script.fails.lock().expect("no panic") = None;
    drop(store);
    assert_eq!(script.applied.load(Ordering::SeqCst), 1);
}

#[test]
fn partitions_leave_the_worker_that_has_more_to_do() {
    let script = Script { apply_time: Duration::from_micros(50), ..Script::default() };
    let options = Options::new().partitions(8).executor(Executor::Pinned { workers: 2 });
    let fixture = fixture_of(script, options.repartition("1s".parse().expect("a second")));
    let store = &fixture.store;
    assert_eq!(store.stats().expect("stats").worker_by_partition, [0, 1, 0, 1, 0, 1, 0, 1]);
    // Partitions 0, 2, 4 and 6 are all that is written.
    let hot: Vec<_> = [0, 2, 4, 6].into_iter().flat_map(|partition| keys_of(store, partition).take(8)).collect();
    let (begun, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (hot, is_over) = (&hot, &is_over);
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    store.put_with(&hot[(turn * 7 + thread * 11) % hot.len()], b"1", Durability::Os).expect("put");
                }
            });
        }
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let stats = store.stats().expect("stats");
            let of_first =
                [0, 2, 4, 6].into_iter().filter(|partition| stats.worker_by_partition[*partition] == 0).count();
            let late = begun.elapsed() > Duration::from_secs(60);
            if late || (of_first == 2 && stats.moves.workers >= 2) {
                is_over.store(true, Ordering::SeqCst);
                assert!(!late, "{:?} after {} changes", stats.worker_by_partition, stats.moves.workers);
                return;
            }
        }
    });
}

#[test]
fn more_workers_than_partitions_are_as_many_and_an_engine_used_directly_has_none() {
    let fixture = fixture(Script::default(), 2, 7);
    assert_eq!(fixture.store.stats().expect("stats").worker_by_partition, [0, 1]);
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().engine("memory").executor(Executor::Pinned { workers: 2 });
    let error = options.open(dir.path().join("db"), &registry).expect_err("nothing to pin");
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("soft or hard"), "{error}");
    assert!(!dir.path().join("db").exists(), "nothing was left behind");
}

#[test]
fn a_full_queue_makes_callers_wait_and_a_closed_one_is_emptied_and_takes_no_more() {
    let queue = Queue::new(2);
    let (pushed, mut taken) = (AtomicUsize::new(0), Vec::new());
    std::thread::scope(|scope| {
        for number in 0..5 {
            let (queue, pushed) = (&queue, &pushed);
            scope.spawn(move || {
                queue.push(number).expect("open");
                pushed.fetch_add(1, Ordering::SeqCst);
            });
        }
        while pushed.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(pushed.load(Ordering::SeqCst), 2, "no more than it has room for");
        while taken.len() < 5 {
            let before = taken.len();
            queue.take(&mut taken).expect("open");
            assert!(taken.len() - before <= 2);
        }
    });
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3, 4]);
    queue.push(5).expect("open");
    queue.close();
    assert_eq!(queue.push(6), Err(Closed));
    assert_eq!(queue.take(&mut taken), Some(Came::Waiting));
    assert_eq!((taken[5..].to_vec(), queue.take(&mut taken)), (vec![5], None));
}
