//! The engines of this crate against the model, operation by operation.
#![cfg(any(feature = "lmdb", feature = "wiredtiger"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use biombo_engine::{Cursor, Durability, Engine, Op, OpenOptions, Registry, Snapshot};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A small deterministic generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    fn key(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut key = (self.below(400) as u32).wrapping_mul(2_654_435_761).to_be_bytes()[..1 + self.below(4)].to_vec();
        if self.below(4) == 0 {
            let bytes = self.below(bytes_max) + 1;
            let fill = self.below(3) as u8;
            key.resize(bytes, fill);
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.below(20) {
            0 => 0,
            1 => self.below(60_000),
            _ => self.below(1200),
        };
        vec![self.next() as u8; bytes]
    }
}

fn check(cursor: &mut dyn Cursor, model: &Model, random: &mut Random, key_bytes_max: usize) {
    let mut forward = Vec::new();
    cursor.first().unwrap();
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        forward.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    assert!(forward.iter().map(|(k, v)| (k, v)).eq(model.iter()), "forward");
    let mut backward = Vec::new();
    cursor.last().unwrap();
    while let Some(key) = cursor.key() {
        backward.push(key.to_vec());
        cursor.prev().unwrap();
    }
    assert!(backward.iter().eq(model.keys().rev()), "backward");
    for _ in 0..30 {
        let key = if random.below(20) == 0 { vec![] } else { random.key(key_bytes_max * 2) };
        cursor.seek(&key).unwrap();
        assert_eq!(cursor.key(), model.range(key.clone()..).next().map(|(k, _)| &k[..]));
        if random.below(2) == 0 {
            let at = cursor.key().map(<[u8]>::to_vec);
            cursor.prev().unwrap();
            let before = at.and_then(|at| model.range(..at).next_back());
            assert_eq!(cursor.key(), before.map(|(k, _)| &k[..]));
        }
        cursor.seek_before(&key).unwrap();
        let before = model.range(..key).next_back();
        assert_eq!(cursor.key(), before.map(|(k, _)| &k[..]));
        assert_eq!(cursor.value(), before.map(|(_, v)| &v[..]));
        let at = cursor.key().map(<[u8]>::to_vec);
        cursor.next().unwrap();
        let after = at.and_then(|at| model.range((Bound::Excluded(at), Bound::Unbounded)).next());
        assert_eq!(cursor.key(), after.map(|(k, _)| &k[..]));
    }
}

/// A random batch, applied to the model too.
fn batch(model: &mut Model, random: &mut Random, key_bytes_max: usize) -> biombo_engine::Batch {
    let mut batch = biombo_engine::Batch::new();
    for _ in 0..random.below(12) {
        let key = random.key(key_bytes_max);
        match random.below(12) {
            0..3 => {
                batch.delete(&key);
                model.remove(&key);
            }
            3 if random.below(4) == 0 => {
                let key = if random.below(5) == 0 { vec![] } else { key };
                let to = random.key(key_bytes_max);
                let to = (random.below(10) > 0).then_some(to);
                batch.delete_range(&key, to.as_deref());
                model.retain(|k, _| *k < key || to.as_ref().is_some_and(|to| k >= to));
            }
            _ => {
                let value = random.value();
                batch.put(&key, &value);
                model.insert(key, value);
            }
        }
    }
    batch
}

fn run(name: &str, seed: u64, steps: usize) {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get(name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let mut options = OpenOptions::new(&home);
    options.cache_bytes = 64 << 20;
    let open = || (kind.open)(&options).unwrap();
    let mut engine: Arc<dyn Engine> = open();
    let key_bytes_max = engine.capabilities().key_bytes_max.min(3000);
    let mut model = Model::new();
    let mut random = Random(seed);
    let mut snapshots: Vec<(Arc<dyn Snapshot>, Model)> = Vec::new();
    let mut into = Vec::new();
    for step in 0..steps {
        match random.below(40) {
            0 => {
                snapshots.push((Arc::clone(&engine).snapshot().unwrap(), model.clone()));
                if snapshots.len() > 3 {
                    snapshots.remove(0);
                }
            }
            1 => {
                let mut cursor = Arc::clone(&engine).cursor().unwrap();
                check(&mut *cursor, &model, &mut random, key_bytes_max);
            }
            2 => {
                if let Some((snapshot, model)) = snapshots.last() {
                    let mut cursor = Arc::clone(snapshot).cursor().unwrap();
                    check(&mut *cursor, model, &mut random, key_bytes_max);
                    let key = random.key(key_bytes_max);
                    assert_eq!(snapshot.get(&key).unwrap().as_deref(), model.get(&key).map(|v| &v[..]));
                }
            }
            3 if step % 3 == 0 => {
                snapshots.clear();
                drop(engine);
                engine = open();
            }
            4 if step % 5 == 0 => {
                let copy = dir.path().join(format!("copy{step}"));
                engine.checkpoint(&copy).unwrap();
                let copy = (kind.open)(&OpenOptions::new(&copy)).unwrap();
                let mut cursor = copy.cursor().unwrap();
                check(&mut *cursor, &model, &mut random, key_bytes_max);
            }
            5 => engine.sync().unwrap(),
            _ => {
                let batch = batch(&mut model, &mut random, key_bytes_max);
                let durability = if random.below(10) == 0 { Durability::Sync } else { Durability::Os };
                engine.apply(&batch.to_ops(), durability).unwrap();
            }
        }
        let key = random.key(key_bytes_max);
        let expected = model.get(&key).map(|v| &v[..]);
        assert_eq!(engine.get(&key).unwrap().as_deref(), expected);
        assert_eq!(engine.get_into(&key, &mut into).unwrap(), expected.is_some());
        assert_eq!(into, expected.unwrap_or_default());
    }
    snapshots.clear();
    let mut damages = Vec::new();
    assert_eq!(engine.verify(&mut |damage| damages.push(damage)).unwrap(), model.len() as u64);
    assert_eq!(damages, []);
}

/// Two threads write their own keys, in batches of two that must be seen together, while two read.
fn run_threads(name: &str) {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let dir = tempfile::tempdir().unwrap();
    let engine = (registry.get(name).unwrap().open)(&OpenOptions::new(dir.path())).unwrap();
    let last = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2u8 {
            let (engine, last) = (&engine, &last);
            scope.spawn(move || {
                for i in 0..3000u64 {
                    let value = i.to_be_bytes();
                    let shared = [writer; 9];
                    let (left, right) = ([writer, 1], [writer, 2]);
                    let ops = [
                        Op::Put { key: &left, value: &value },
                        Op::Put { key: &right, value: &value },
                        // Both write this one: engines that see a conflict must retry.
                        Op::Put { key: b"shared", value: &shared },
                    ];
                    engine.apply(&ops, Durability::Os).unwrap();
                    assert_eq!(&*engine.get(&left).unwrap().unwrap(), &value);
                    if writer == 0 {
                        last.store(i, std::sync::atomic::Ordering::SeqCst);
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while last.load(std::sync::atomic::Ordering::SeqCst) < 2999 {
                    let acknowledged = last.load(std::sync::atomic::Ordering::SeqCst);
                    let snapshot = Arc::clone(&engine).snapshot().unwrap();
                    let [left, right] = [[0, 1], [0, 2]].map(|key| snapshot.get(&key).unwrap().map(|v| v.into_vec()));
                    assert_eq!(left, right, "half of a batch is visible");
                    if let Some(left) = left {
                        assert!(u64::from_be_bytes(left.try_into().unwrap()) >= acknowledged);
                    }
                }
            });
        }
    });
}

#[cfg(feature = "lmdb")]
#[test]
fn lmdb_does_what_the_model_does() {
    for seed in 1..6 {
        run("lmdb", seed, 1500);
    }
}

#[cfg(feature = "lmdb")]
#[test]
fn lmdb_shows_batches_whole_to_other_threads() {
    run_threads("lmdb");
}

#[cfg(feature = "wiredtiger")]
#[test]
fn wiredtiger_does_what_the_model_does() {
    for seed in 1..3 {
        run("wiredtiger", seed, 800);
    }
}

#[cfg(feature = "wiredtiger")]
#[test]
fn wiredtiger_shows_batches_whole_to_other_threads() {
    run_threads("wiredtiger");
}
