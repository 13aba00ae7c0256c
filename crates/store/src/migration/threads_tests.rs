//! Threads that read and write while units move all the time: histories of single keys are linearizable, batches are whole in every
//! scan and snapshot; and a hand-over that is broken on purpose is caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use biombo_base::io::RealIo;
use biombo_base::io::sim::Random;
use biombo_engine::{Batch, Durability, Registry, Value as EngineValue, memory};

use super::crash_tests::common;
use super::linear::{Deed, Operation, Value, check};
use super::{Pace, Step};
use crate::seam::{Point, at_each};
use crate::{Executor, Options, PartitionId, PlacementKind, Range, Store};

const PARTITIONS: u16 = 3;
const CLIENTS: u64 = 4;
const PINNED: Executor = Executor::Pinned { workers: 2 };
/// How long each test runs, for each engine, and longer until so many units have moved.
const TIME: Duration = Duration::from_millis(700);
const MOVED_MIN: usize = 10;

struct Fixture {
    store: Store,
    _dir: tempfile::TempDir,
}

/// `simulated` with its files on the real disk stands for an engine that gets its writes later, with the thread that brings them.
fn fixture(engine: &str, placement: PlacementKind, executor: Executor) -> Fixture {
    let dir = tempfile::tempdir().expect("a directory");
    let mut registry: Registry = common::registry(Arc::new(RealIo::new()), common::Commit::Costly);
    registry.add(memory::kind());
    registry.add(biombo_log::kind());
    let sample = (0..3).map(key).collect();
    let options = Options::new().engine(engine).partitions(PARTITIONS.into()).placement(placement).range_sample(sample);
    let options = options.executor(executor);
    let store = options.journal_segment_bytes(1 << 20).open(dir.path().join("db"), &registry).expect("a store");
    Fixture { store, _dir: dir }
}

fn key(number: u64) -> Vec<u8> {
    if number.is_multiple_of(2) { format!("key{number}").into_bytes() } else { vec![0, number as u8] }
}

/// Move random keys, or their units, to random partitions until `is_over`, counting them.
fn keep_moving(store: &Store, keys: u64, is_over: &AtomicBool, moved: &AtomicUsize) {
    let mut random = Random(99);
    while !is_over.load(Ordering::SeqCst) {
        let placement = store.placement();
        let mut units: Vec<_> = (0..keys).map(|number| placement.unit_of(&key(number))).collect();
        units.retain(|_| random.below(2) == 0);
        let to = PartitionId(random.below(PARTITIONS.into()) as u16);
        let pace = Pace { chunk_keys: 1 + random.below(4) as usize, ..Pace::default() };
        let alone: Vec<_> = (0..keys).filter(|_| random.below(3) == 0).map(key).collect();
        let result = match placement.kind() {
            PlacementKind::Hash if random.below(2) == 0 && !alone.is_empty() => store.move_keys(&alone, to, pace),
            _ if !units.is_empty() => store.move_units(&units, to, pace),
            _ => continue,
        };
        moved.fetch_add(result.expect("move").units, Ordering::SeqCst);
    }
}

/// Whether a test has seen enough.
fn is_enough(begun: Instant, moved: &AtomicUsize) -> bool {
    let (elapsed, moved) = (begun.elapsed(), moved.load(Ordering::SeqCst));
    assert!(elapsed < Duration::from_secs(60), "only {moved} units moved");
    elapsed > TIME && moved >= MOVED_MIN
}

const KEYS: u64 = 4;

/// Ends the threads of a test that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A client's operations on each key.
fn client(store: &Store, seed: u64, clock: &AtomicU64, is_over: &AtomicBool) -> Vec<Vec<Operation>> {
    let mut random = Random(seed);
    let mut history = vec![Vec::new(); KEYS as usize];
    let (mut written, mut known) = (0u64, vec![None; KEYS as usize]);
    while !is_over.load(Ordering::SeqCst) {
        let number = random.below(KEYS);
        let (key, at) = (key(number), number as usize);
        written += 1;
        if written.is_multiple_of(4) {
            // So that a history is not longer than it takes to check it.
            std::thread::sleep(Duration::from_micros(50));
        }
        let new: Value = Some(seed << 32 | written);
        let bytes = |value: Value| value.map(|value| value.to_le_bytes().to_vec());
        let durability = match random.below(16) {
            0 => Durability::Sync,
            1..6 => Durability::Relaxed,
            _ => Durability::Os,
        };
        let called = clock.fetch_add(1, Ordering::SeqCst);
        let deed = match random.below(10) {
            0..3 => {
                store.put_with(&key, &bytes(new).expect("some"), durability).expect("put");
                Deed::Write(new)
            }
            3 => {
                store.delete_with(&key, durability).expect("delete");
                Deed::Write(None)
            }
            4 => {
                let mut batch = Batch::new();
                batch.put(b"beside", b"it").put(&key, &bytes(new).expect("some"));
                store.write_with(&batch, Durability::Os).expect("write");
                Deed::Write(new)
            }
            5 => {
                let expected: Value = known[at];
                let mut swapped = false;
                let (old, to) = (bytes(expected), bytes(new).expect("some"));
                let swap = |seen: Option<&[u8]>| {
                    swapped = seen == old.as_deref();
                    if swapped { crate::Update::Put(to.clone()) } else { crate::Update::Keep }
                };
                store.update(&key, durability, swap).expect("update");
                Deed::Swap(expected, new, swapped)
            }
            _ => {
                let seen = store.get(&key).expect("get").map(EngineValue::into_vec);
                let seen = seen.map(|seen| u64::from_le_bytes(seen.try_into().expect("eight bytes")));
                known[at] = seen;
                Deed::Read(seen)
            }
        };
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        history[at].push(Operation { called, returned, deed });
    }
    history
}

/// What clients see of each key while its unit moves; `broken`: writers are let past while the units change hands.
fn histories(engine: &str, placement: PlacementKind, executor: Executor, broken: bool) -> Result<(), String> {
    let fixture = fixture(engine, placement, executor);
    let store = &fixture.store;
    let (clock, is_over, moved) = (AtomicU64::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let begun = Instant::now();
    let histories: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let breaking = store.clone();
            at_each(broken.then(|| {
                let watcher: Box<dyn FnMut(Point)> = Box::new(move |point| {
                    if point == Point::Step(Step::Flip) {
                        breaking.inner.lanes.iter().for_each(|lane| *lane.lock().0 = None);
                        breaking.mover().expect("hard").handover.end();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                watcher
            }));
            keep_moving(store, KEYS, &is_over, &moved);
        });
        let (clock, is_over) = (&clock, &is_over);
        let clients: Vec<_> =
            (1..=CLIENTS).map(|seed| scope.spawn(move || client(store, seed, clock, is_over))).collect();
        let _over = Over(is_over);
        while !is_enough(begun, &moved) && clients.iter().all(|client| !client.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::SeqCst);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    for number in 0..KEYS as usize {
        let threads: Vec<_> = histories.iter().map(|history| history[number].clone()).collect();
        check(&threads).map_err(|why| format!("{engine}, {placement}, {executor}, key {number}: {why}"))?;
    }
    Ok(())
}

#[test]
fn what_threads_see_of_a_key_while_its_unit_moves_is_linearizable() {
    for engine in ["log", "memory", "simulated"] {
        for executor in [Executor::Direct, PINNED] {
            histories(engine, PlacementKind::Hash, executor, false).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    histories("log", PlacementKind::Range, Executor::Direct, false).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_broken_hand_over_is_caught() {
    for executor in [Executor::Direct, PINNED] {
        let caught = (0..20).find_map(|_| histories("memory", PlacementKind::Hash, executor, true).err());
        assert!(caught.is_some_and(|why| why.contains("no order explains")), "{executor}: writers passed by unseen");
    }
}

/// A thread takes from one account and gives to another, in one batch; whoever looks must find all coins, while accounts move.
#[test]
fn scans_and_snapshots_see_whole_batches_and_each_key_once_while_units_move() {
    const ACCOUNTS: u64 = 12;
    for (engine, placement, executor) in [
        ("log", PlacementKind::Hash, Executor::Direct),
        ("log", PlacementKind::Range, PINNED),
        ("simulated", PlacementKind::Hash, Executor::Direct),
    ] {
        let fixture = fixture(engine, placement, executor);
        let store = &fixture.store;
        for number in 0..ACCOUNTS {
            store.put_with(&key(number), &100u64.to_le_bytes(), Durability::Os).expect("put");
        }
        let (is_over, moved) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let _over = Over(is_over);
            scope.spawn(|| keep_moving(store, ACCOUNTS, is_over, moved));
            scope.spawn(|| {
                let mut random = Random(5);
                while !is_over.load(Ordering::SeqCst) {
                    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                    if from == to {
                        continue;
                    }
                    let balance = |number| {
                        let value = store.get(&key(number)).expect("get").expect("an account").into_vec();
                        u64::from_le_bytes(value.try_into().expect("eight bytes"))
                    };
                    let coins = balance(from).min(1 + random.below(3));
                    let mut batch = Batch::new();
                    batch.put(&key(from), &(balance(from) - coins).to_le_bytes());
                    batch.put(&key(to), &(balance(to) + coins).to_le_bytes());
                    store.write_with(&batch, Durability::Os).expect("write");
                }
            });
            let mut looked = 0;
            while !is_enough(begun, moved) || looked < 20 {
                let scan = match looked % 3 {
                    0 => store.scan(Range::all()),
                    1 => store.scan(Range { reverse: true, ..Range::all() }),
                    _ => store.snapshot().expect("snapshot").scan(Range::all()),
                };
                let (mut scan, mut coins, mut keys) = (scan.expect("scan"), 0, 0);
                while let Some((_, value)) = scan.next().expect("next") {
                    coins += u64::from_le_bytes(value.try_into().expect("eight bytes"));
                    keys += 1;
                }
                assert_eq!((keys, coins), (ACCOUNTS, 100 * ACCOUNTS), "{engine}, {placement}");
                looked += 1;
            }
        });
        store.verify(&mut |damage| panic!("{damage:?}")).expect("verify");
    }
}
