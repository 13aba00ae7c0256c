//! Many threads: single keys linearizable, batches whole, snapshots one point, cursors steady.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

use super::history::{Call, Did, linearizable};
use super::model::Model;
use super::subject::{Instance, Subject, bytes, must};
use crate::{Durability, Op, Snapshot};

/// Set when dropped, so that the other threads end when one panics.
struct StopInTheEnd<'a>(&'a AtomicBool);

impl Drop for StopInTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[track_caller]
fn decode(value: &[u8]) -> u64 {
    assert!(value.len() >= 8, "a value of {} bytes was never written: it was read while it changed", value.len());
    let number = u64::from_be_bytes([value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7]]);
    assert!(value == stamped(number), "the value of version {number} is torn: {} bytes", value.len());
    number
}

/// A value that says its version, of a length that changes with it, and shows a tear anywhere.
fn stamped(number: u64) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(8 + (number % 7) as usize * 90, number as u8);
    value
}

/// A read begun after a write was acknowledged sees it or a later one, never one that has not begun, and never an older one
/// than any read that ended before it began. One writer, readers by all three ways.
pub fn check_reads_follow_acknowledged_writes(subject: &Subject) {
    subject.bounded(|subject| {
        const KEYS: usize = 5;
        let instance = subject.instance();
        let keys: Vec<Vec<u8>> = (0..KEYS as u64).map(|i| bytes(i, 10)).collect();
        let counters = || (0..KEYS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (begun, acknowledged, seen) = (counters(), counters(), counters());
        for key in &keys {
            instance.put(key, &stamped(0));
        }
        let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        let deadline = Instant::now() + subject.campaign();
        std::thread::scope(|scope| {
            for reader in 0..3usize {
                let (instance, keys, stop, reads) = (&instance, &keys, &stop, &reads);
                let (begun, acknowledged, seen) = (&begun, &acknowledged, &seen);
                scope.spawn(move || {
                    let _ends = StopInTheEnd(stop);
                    let mut buffer = Vec::new();
                    for i in reader.. {
                        let k = i % KEYS;
                        let floor = acknowledged[k].load(Ordering::SeqCst).max(seen[k].load(Ordering::SeqCst));
                        let version = if i % 2 == 0 {
                            let value = must(instance.engine.get(&keys[k]), "get");
                            decode(&value.unwrap_or_else(|| panic!("a key that is only overwritten is absent")))
                        } else {
                            assert!(must(instance.engine.get_into(&keys[k], &mut buffer), "get_into"), "absent");
                            decode(&buffer)
                        };
                        assert!(
                            version >= floor,
                            "key {k}: read version {version} after {floor} was acknowledged or read"
                        );
                        let ceiling = begun[k].load(Ordering::SeqCst);
                        assert!(
                            version <= ceiling,
                            "key {k}: read version {version} before it was written ({ceiling})"
                        );
                        seen[k].fetch_max(version, Ordering::SeqCst);
                        reads.fetch_add(1, Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            let _ends = StopInTheEnd(&stop);
            let mut version = 0;
            while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
                version += 1;
                let k = version as usize % KEYS;
                begun[k].store(version, Ordering::SeqCst);
                let durability = if version % 512 == 0 { Durability::Sync } else { Durability::Os };
                let put = Op::Put { key: &keys[k], value: &stamped(version) };
                must(instance.engine.apply(&[put], durability), "put");
                acknowledged[k].store(version, Ordering::SeqCst);
            }
        });
        assert!(reads.load(Ordering::Relaxed) > 0);
    });
}

/// Several threads put unique values, delete and read a few keys; for each key some order explains what all of them saw.
pub fn check_single_keys_are_linearizable(subject: &Subject) {
    subject.bounded(|subject| {
        const THREADS: u64 = 4;
        const KEYS: u64 = 3;
        const CALLS: u64 = 60;
        let instance = subject.instance();
        let deadline = Instant::now() + subject.campaign();
        let mut round = 0u64;
        while round == 0 || Instant::now() < deadline {
            let clock = AtomicU64::new(0);
            let barrier = Barrier::new(THREADS as usize);
            let histories: Mutex<Vec<Vec<Call>>> = Mutex::new(vec![Vec::new(); KEYS as usize]);
            let key_of = |k: u64| bytes(round << 8 | k, 11);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (clock, barrier, histories, instance) = (&clock, &barrier, &histories, &instance);
                    let key_of = &key_of;
                    scope.spawn(move || {
                        let mut calls = Vec::new();
                        let choices = bytes(round << 8 | thread, CALLS as usize * 2);
                        barrier.wait();
                        for i in 0..CALLS {
                            let (k, choice) = (u64::from(choices[i as usize * 2]) % KEYS, choices[i as usize * 2 + 1]);
                            let key = key_of(k);
                            let unique = thread << 32 | (i + 1);
                            let begun = clock.fetch_add(1, Ordering::SeqCst);
                            let did = match choice % 8 {
                                0 => {
                                    must(instance.engine.apply(&[Op::Delete { key: &key }], Durability::Os), "delete");
                                    Did::Wrote(None)
                                }
                                1..=3 => {
                                    instance.put(&key, &stamped(unique));
                                    Did::Wrote(Some(unique))
                                }
                                _ => Did::Read(must(instance.engine.get(&key), "get").map(|value| decode(&value))),
                            };
                            calls.push((k, Call { begun, done: clock.fetch_add(1, Ordering::SeqCst), did }));
                        }
                        let mut histories = histories.lock().unwrap_or_else(|e| e.into_inner());
                        calls.into_iter().for_each(|(k, call)| histories[k as usize].push(call));
                    });
                }
            });
            for (k, calls) in histories.lock().unwrap_or_else(|e| e.into_inner()).iter().enumerate() {
                assert!(linearizable(calls), "no order explains what {THREADS} threads saw of key {k}: {calls:?}");
            }
            round += 1;
        }
    });
}

/// A snapshot, and a cursor where it is one, shows each batch of several writers whole or not at all.
pub fn check_batches_are_atomic_to_snapshots(subject: &Subject) {
    if !subject.capabilities.atomic_batches || !subject.capabilities.snapshots {
        return;
    }
    subject.bounded(|subject| {
        const KEYS: u64 = 16;
        let instance = subject.instance();
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|i| bytes(i, 10)).collect();
        let write_all = |version: u64| {
            let value = stamped(version);
            let ops: Vec<Op<'_>> = keys.iter().map(|key| Op::Put { key, value: &value }).collect();
            let durability = if version.is_multiple_of(256) { Durability::Sync } else { Durability::Os };
            must(instance.engine.apply(&ops, durability), "a batch");
        };
        write_all(0);
        let (stop, next) = (AtomicBool::new(false), AtomicU64::new(1));
        let deadline = Instant::now() + subject.campaign();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let _ends = StopInTheEnd(&stop);
                    while !stop.load(Ordering::Relaxed) {
                        write_all(next.fetch_add(1, Ordering::SeqCst));
                    }
                });
            }
            let _ends = StopInTheEnd(&stop);
            let mut looks = 0;
            while looks == 0 || Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
                looks += 1;
                let snapshot = instance.snapshot();
                let versions: Vec<u64> = keys.iter().map(|key| version_in(&*snapshot, key)).collect();
                assert!(versions.iter().all(|v| *v == versions[0]), "a snapshot shows part of a batch: {versions:?}");
                if subject.capabilities.ordered {
                    for mut cursor in [instance.cursor(), must(snapshot.cursor(), "cursor of a snapshot")] {
                        let mut versions = Vec::new();
                        must(cursor.first(), "first");
                        while let Some(value) = cursor.value() {
                            versions.push(decode(value));
                            must(cursor.next(), "next");
                        }
                        assert_eq!(versions.len(), KEYS as usize);
                        assert!(
                            versions.iter().all(|v| *v == versions[0]),
                            "a cursor shows part of a batch: {versions:?}"
                        );
                    }
                }
            }
        });
    });
}

#[track_caller]
fn version_in(snapshot: &dyn Snapshot, key: &[u8]) -> u64 {
    decode(&must(snapshot.get(key), "get of a snapshot").unwrap_or_else(|| panic!("a key is missing in a snapshot")))
}

/// A writer writes keys in turn, one by one: a snapshot that has a later write has every earlier one, wherever the keys
/// lie, and has everything that was acknowledged before it was asked for.
pub fn check_snapshots_are_one_point_in_history(subject: &Subject) {
    if !subject.capabilities.snapshots {
        return;
    }
    subject.bounded(|subject| {
        const KEYS: usize = 8;
        let instance = subject.instance();
        let keys: Vec<Vec<u8>> = (0..KEYS as u64).map(|i| bytes(i + 100, 10)).collect();
        keys.iter().for_each(|key| instance.put(key, &stamped(0)));
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        let deadline = Instant::now() + subject.campaign();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ends = StopInTheEnd(&stop);
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    for key in &keys {
                        instance.put(key, &stamped(round));
                    }
                    acknowledged.store(round, Ordering::SeqCst);
                }
            });
            let _ends = StopInTheEnd(&stop);
            let mut looks = 0;
            while looks == 0 || Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
                looks += 1;
                let floor = acknowledged.load(Ordering::SeqCst);
                let snapshot = instance.snapshot();
                let versions: Vec<u64> = keys.iter().map(|key| version_in(&*snapshot, key)).collect();
                let (first, last) = (versions[0], versions[KEYS - 1]);
                let falls_once = versions.windows(2).all(|pair| pair[0] >= pair[1]) && first <= last + 1;
                assert!(falls_once, "written in turn, but a snapshot shows {versions:?}");
                assert!(last >= floor, "round {floor} was acknowledged before the snapshot, which shows {versions:?}");
            }
        });
    });
}

/// Keys that nobody touches come exactly once and in order from a cursor, both ways, while others are put and deleted
/// around them; where snapshots are declared, a second walk of the same cursor shows exactly what the first one did.
pub fn check_cursors_under_concurrent_writes(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        const STEADY: u64 = 300;
        let instance = subject.instance();
        let steady: Vec<Vec<u8>> = (0..STEADY).map(|i| format!("{i:04}-steady").into_bytes()).collect();
        let ops: Vec<Op<'_>> = steady.iter().map(|key| Op::Put { key, value: b"steady" }).collect();
        instance.apply(&ops);
        let stop = AtomicBool::new(false);
        let deadline = Instant::now() + subject.campaign();
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (instance, stop) = (&instance, &stop);
                scope.spawn(move || {
                    let _ends = StopInTheEnd(stop);
                    for i in 0u64.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let noise = bytes(thread << 32 | i, 2);
                        let place = u64::from(u16::from_be_bytes([noise[0], noise[1]])) % STEADY;
                        let key = format!("{place:04}-noise-{}", i % 3);
                        match i % 2 {
                            0 => instance.put(key.as_bytes(), &stamped(i)),
                            _ => instance.apply(&[Op::Delete { key: key.as_bytes() }]),
                        }
                    }
                });
            }
            let _ends = StopInTheEnd(&stop);
            let mut looks = 0;
            while looks < 2 || Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
                looks += 1;
                let mut cursor = instance.cursor();
                let forward = pass(&mut *cursor, true);
                let mut backward = pass(&mut *cursor, false);
                backward.reverse();
                for (walk, way) in [(&forward, "forward"), (&backward, "backward")] {
                    assert!(walk.windows(2).all(|pair| pair[0].0 < pair[1].0), "keys out of order {way}");
                    let found: Vec<&Vec<u8>> =
                        walk.iter().map(|(key, _)| key).filter(|key| key.ends_with(b"steady")).collect();
                    assert!(found.iter().copied().eq(&steady), "{} of {STEADY} untouched keys {way}", found.len());
                }
                if subject.capabilities.snapshots {
                    assert!(forward == backward, "the view of a cursor changed while it walked");
                }
            }
        });
    });
}

fn pass(cursor: &mut dyn crate::Cursor, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    must(if forward { cursor.first() } else { cursor.last() }, "move a cursor");
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        found.push((key.to_vec(), value.to_vec()));
        must(if forward { cursor.next() } else { cursor.prev() }, "move a cursor");
    }
    found
}

/// 200 threads each hold a value at the same time, read and write on, and all their writes are there in the end.
pub fn check_many_threads_hold_values(subject: &Subject) {
    subject.bounded(|subject| {
        const THREADS: u64 = 200;
        let instance: Instance = subject.instance();
        let mut model = Model::default();
        let shared = bytes(9, 1000);
        let op = [Op::Put { key: b"shared", value: &shared }];
        instance.apply(&op);
        model.apply(&op);
        // No thread may wait at a barrier for one that panicked: they hold their values for a moment by the clock.
        let (holding, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (instance, holding, failed, shared) = (&instance, &holding, &failed, &shared);
                let work = move || {
                    let mut ended = FailUnlessEnded { failed, ended: false };
                    let held = must(instance.engine.get(b"shared"), "get in one of many threads");
                    holding.fetch_add(1, Ordering::SeqCst);
                    let patience = Instant::now() + std::time::Duration::from_secs(20);
                    while holding.load(Ordering::SeqCst) < THREADS
                        && !failed.load(Ordering::SeqCst)
                        && Instant::now() < patience
                    {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    assert!(held.as_deref() == Some(shared), "a held value changed");
                    drop(held);
                    for i in 0..10u64 {
                        instance.put(&bytes(thread << 8 | i, 10), &bytes(i, 50));
                    }
                    ended.ended = true;
                };
                std::thread::Builder::new()
                    .stack_size(256 << 10)
                    .spawn_scoped(scope, work)
                    .unwrap_or_else(|e| panic!("no thread: {e}"));
            }
        });
        for thread in 0..THREADS {
            for i in 0..10u64 {
                model.apply(&[Op::Put { key: &bytes(thread << 8 | i, 10), value: &bytes(i, 50) }]);
            }
        }
        instance.same_as(&model);
    });
}

/// A cursor and a snapshot may be opened by one thread, used by a second and dropped by a third, while each of these
/// threads has views of its own.
pub fn check_cursors_and_snapshots_move_between_threads(subject: &Subject) {
    if !subject.capabilities.ordered {
        return;
    }
    subject.bounded(|subject| {
        let instance = subject.instance();
        let mut model = Model::default();
        for i in 0..50u64 {
            let (key, value) = (bytes(i, 10), stamped(i));
            let op = [Op::Put { key: &key, value: &value }];
            instance.apply(&op);
            model.apply(&op);
        }
        for round in 0..20 {
            let snapshot = subject.capabilities.snapshots.then(|| instance.snapshot());
            let mut cursor = instance.cursor();
            must(cursor.first(), "first");
            let (cursor, snapshot) = elsewhere(move || {
                must(cursor.next(), "next, in another thread");
                assert_eq!(must(instance_get(snapshot.as_deref(), &bytes(7, 10)), "get"), snapshot.is_some());
                (cursor, snapshot)
            });
            // This thread opens views of its own while the others are away.
            instance.same_as(&model);
            if let Some(snapshot) = &snapshot
                && let Err(difference) = model.same_as_snapshot(snapshot, true)
            {
                panic!("a snapshot back from another thread, round {round}: {difference}");
            }
            let walked = elsewhere({
                let model = model.clone();
                move || model.same_as_cursor(cursor)
            });
            if let Err(difference) = walked {
                panic!("a cursor in its third thread, round {round}: {difference}");
            }
            elsewhere(move || drop(snapshot));
        }
    });
}

fn instance_get(snapshot: Option<&dyn Snapshot>, key: &[u8]) -> crate::Result<bool> {
    Ok(match snapshot {
        Some(snapshot) => snapshot.get(key)?.is_some(),
        None => false,
    })
}

/// Run in a new thread, passing a panic on.
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

struct FailUnlessEnded<'a> {
    failed: &'a AtomicBool,
    ended: bool,
}

impl Drop for FailUnlessEnded<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.failed.store(true, Ordering::SeqCst);
        }
    }
}
