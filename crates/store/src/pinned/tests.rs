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
use crate::{Executor, Options, PartitionId, Partitioning, Store};

/// What an engine is told to do, and what it has done.
#[derive(Default)]
struct Script {
    panics: AtomicBool,
    fails: Mutex<Option<ErrorKind>>,
    syncs: AtomicUsize,
    applied: AtomicUsize,
    /// How long a sync, and an application, takes.
    sync_time: Duration,
    apply_time: Duration,
}

struct Scripted(Arc<Memory>, Arc<Script>, Capabilities);

impl Engine for Scripted {
    fn capabilities(&self) -> &Capabilities {
        &self.2
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.0.get(key)
    }
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        assert!(!self.1.panics.load(Ordering::SeqCst), "an engine that panics");
        if let Some(kind) = *self.1.fails.lock().expect("no panic") {
            return Err(Error::new(kind, "as the script says"));
        }
        self.1.applied.fetch_add(1, Ordering::SeqCst);
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

struct Fixture {
    store: Store,
    script: Arc<Script>,
    _dir: tempfile::TempDir,
}

fn fixture(script: Script, partitions: u32, workers: u32) -> Fixture {
    fixture_of(script, Options::new().partitions(partitions).executor(Executor::Pinned { workers }))
}

fn fixture_of(script: Script, options: Options) -> Fixture {
    let (script, dir) = (Arc::new(script), tempfile::tempdir().expect("a directory"));
    let mut registry = Registry::new();
    let shared = Arc::clone(&script);
    registry.add(EngineKind {
        name: "scripted",
        open: Arc::new(move |_| {
            let capabilities = (memory::kind().capabilities)();
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
            let late = begun.elapsed() > Duration::from_secs(20);
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
