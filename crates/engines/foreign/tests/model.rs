//! The engines behind C libraries against the ordered map in memory, and what only they can get wrong: directories, locks,
//! damaged files, limits.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use biombo_engine::{Cursor, Durability, Engine, EngineKind, ErrorKind, Op, OpenOptions, Registry};

fn kinds() -> Vec<EngineKind> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let mine = ["rocksdb", "leveldb", "tkrzw-tree", "tkrzw-tree-zlib", "tkrzw-hash"];
    registry.iter().filter(|kind| mine.contains(&kind.name)).cloned().collect()
}

fn options(dir: &Path) -> OpenOptions {
    OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir) }
}

fn open(kind: &EngineKind, dir: &Path) -> Arc<dyn Engine> {
    (kind.open)(&options(dir)).unwrap_or_else(|e| panic!("{}: {e}", kind.name))
}

/// A small generator of its own (splitmix64), so that a seed means the same everywhere.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.below(300);
        match n % 5 {
            0 => vec![0xff; (n % 7 + 1) as usize],
            1 => vec![0; (n % 5 + 1) as usize],
            _ => format!("key{n:05}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.below(8) {
            0 => 0,
            1 => 5_000,
            n => n * 20,
        };
        (0..len).map(|_| self.next() as u8).collect()
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn scan(mut cursor: Box<dyn Cursor>) -> Model {
    let mut found = Model::new();
    cursor.first().unwrap();
    while let Some(key) = cursor.key() {
        assert!(found.insert(key.to_vec(), cursor.value().unwrap().to_vec()).is_none(), "a key came twice");
        cursor.next().unwrap();
    }
    assert!(cursor.value().is_none());
    cursor.next().unwrap();
    assert!(cursor.key().is_none());
    found
}

fn scan_back(mut cursor: Box<dyn Cursor>) -> Model {
    let mut found = Model::new();
    cursor.last().unwrap();
    while let Some(key) = cursor.key() {
        assert!(found.insert(key.to_vec(), cursor.value().unwrap().to_vec()).is_none(), "a key came twice");
        cursor.prev().unwrap();
    }
    found
}

fn check(engine: &Arc<dyn Engine>, model: &Model, name: &str) {
    let mut buffer = Vec::new();
    for (key, value) in model {
        assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]), "{name}");
        assert!(engine.get_into(key, &mut buffer).unwrap());
        assert_eq!(&buffer, value);
        assert!(engine.contains(key).unwrap());
    }
    assert!(engine.get(b"absent").unwrap().is_none());
    assert!(!engine.get_into(b"absent", &mut buffer).unwrap() && buffer.is_empty());
    if engine.capabilities().ordered {
        assert_eq!(&scan(Arc::clone(engine).cursor().unwrap()), model, "{name}");
        assert_eq!(&scan_back(Arc::clone(engine).cursor().unwrap()), model, "{name}");
    }
}

#[test]
fn random_batches_agree_with_an_ordered_map_and_survive_a_reopen() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let mut rng = Rng(7);
        let mut model = Model::new();
        let mut engine = open(&kind, dir.path());
        let ordered = engine.capabilities().ordered;
        for round in 0..400 {
            let ops: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..=rng.below(6))
                .map(|_| (rng.below(if ordered { 24 } else { 20 }), rng.key(), rng.value()))
                .collect();
            let ends: Vec<Option<Vec<u8>>> =
                ops.iter().map(|_| if rng.below(9) == 0 { None } else { Some(rng.key()) }).collect();
            let mut batch = Vec::new();
            for ((choice, key, value), end) in ops.iter().zip(&ends) {
                match choice {
                    0..14 => {
                        batch.push(Op::Put { key, value });
                        model.insert(key.clone(), value.clone());
                    }
                    14..20 => {
                        batch.push(Op::Delete { key });
                        model.remove(key);
                    }
                    _ => {
                        batch.push(Op::DeleteRange { from: key, to: end.as_deref() });
                        model.retain(|k, _| k < key || end.as_ref().is_some_and(|end| k >= end));
                    }
                }
            }
            let durability = [Durability::Os, Durability::Os, Durability::Sync, Durability::Relaxed][round % 4];
            engine.apply(&batch, durability).unwrap();
            if round % 80 == 79 {
                check(&engine, &model, kind.name);
                if round % 160 == 159 {
                    engine.compact().unwrap();
                }
                drop(engine);
                engine = open(&kind, dir.path());
                check(&engine, &model, kind.name);
            }
        }
        engine.sync().unwrap();
        assert_eq!(engine.verify(&mut |damage| panic!("{}: {damage:?}", kind.name)).unwrap(), model.len() as u64);
        let stats = engine.stats().unwrap();
        assert!(stats.physical_bytes.unwrap() > 0 && !stats.options.is_empty());
    }
}

#[test]
fn cursors_seek_both_ways_and_keep_the_view_of_their_beginning_where_snapshots_are_declared() {
    for kind in kinds().into_iter().filter(|kind| (kind.capabilities)().ordered) {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path());
        let keys: Vec<Vec<u8>> = (0..500u32).map(|n| format!("{:06}", n * 2).into_bytes()).collect();
        for key in &keys {
            engine.apply(&[Op::Put { key, value: key }], Durability::Os).unwrap();
        }
        let mut cursor = Arc::clone(&engine).cursor().unwrap();
        assert!(cursor.key().is_none() && cursor.value().is_none());
        cursor.next().unwrap();
        cursor.prev().unwrap();
        assert!(cursor.key().is_none());
        for n in [0u32, 1, 2, 499, 500, 997, 998, 999] {
            let key = format!("{n:06}").into_bytes();
            cursor.seek(&key).unwrap();
            assert_eq!(cursor.key(), keys.iter().find(|k| **k >= key).map(Vec::as_slice), "{} seek {n}", kind.name);
            cursor.seek_before(&key).unwrap();
            assert_eq!(cursor.key(), keys.iter().rfind(|k| **k < key).map(Vec::as_slice), "{} before {n}", kind.name);
        }
        cursor.seek(b"000500").unwrap();
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), Some(&b"000498"[..]));
        cursor.next().unwrap();
        cursor.next().unwrap();
        assert_eq!((cursor.key(), cursor.value()), (Some(&b"000502"[..]), Some(&b"000502"[..])));
        cursor.seek(b"").unwrap();
        assert_eq!(cursor.key(), Some(&b"000000"[..]));
        cursor.seek_before(b"").unwrap();
        assert_eq!(cursor.key(), None);

        if engine.capabilities().snapshots {
            let snapshot = Arc::clone(&engine).snapshot().unwrap();
            let cursor = Arc::clone(&engine).cursor().unwrap();
            engine.apply(&[Op::DeleteRange { from: b"", to: None }], Durability::Os).unwrap();
            engine.apply(&[Op::Put { key: b"new", value: b"" }], Durability::Os).unwrap();
            engine.compact().unwrap();
            assert_eq!(scan(cursor).len(), 500);
            assert_eq!(scan(Arc::clone(&snapshot).cursor().unwrap()).len(), 500);
            assert_eq!(snapshot.get(b"000004").unwrap().as_deref(), Some(&b"000004"[..]));
            assert!(snapshot.get(b"new").unwrap().is_none());
            assert_eq!(scan(Arc::clone(&engine).cursor().unwrap()).len(), 1);
            drop(engine);
            assert_eq!(snapshot.get(b"000004").unwrap().as_deref(), Some(&b"000004"[..]), "it holds the engine open");
        } else {
            assert_eq!(Arc::clone(&engine).snapshot().err().unwrap().kind(), ErrorKind::Unsupported);
        }
    }
}

#[test]
fn declared_limits_hold_and_what_is_past_them_changes_nothing() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path());
        let limits = engine.capabilities().clone();
        let key = vec![0xff; limits.key_bytes_max];
        let value: Vec<u8> = (0..40u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        engine.apply(&[Op::Put { key: &key, value: &value }], Durability::Sync).unwrap();
        engine.apply(&[Op::Put { key: b"k", value: b"" }], Durability::Sync).unwrap();
        let long = vec![1; limits.key_bytes_max + 1];
        let refused = [Op::Put { key: b"x", value: b"x" }, Op::Put { key: &long, value: b"" }];
        assert_eq!(engine.apply(&refused, Durability::Os).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(engine.apply(&[Op::Delete { key: b"" }], Durability::Os).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(engine.get(&long).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(engine.get(b"x").unwrap().is_none());
        drop(engine);
        let engine = open(&kind, dir.path());
        assert!(engine.get(&key).unwrap().unwrap()[..] == value[..], "{}", kind.name);
        assert_eq!(engine.get(b"k").unwrap().as_deref(), Some(&b""[..]));
        if limits.ordered {
            // A range without an end takes the longest key of all ones too.
            engine.apply(&[Op::DeleteRange { from: b"k", to: None }], Durability::Os).unwrap();
            assert!(!engine.contains(&key).unwrap() && !engine.contains(b"k").unwrap(), "{}", kind.name);
        } else {
            let range = [Op::DeleteRange { from: b"k", to: None }];
            assert_eq!(engine.apply(&range, Durability::Os).unwrap_err().kind(), ErrorKind::Unsupported);
            assert_eq!(Arc::clone(&engine).cursor().err().unwrap().kind(), ErrorKind::Unsupported);
        }
    }
}

#[test]
fn a_directory_has_one_instance_and_another_programs_directory_stays_as_it_is() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path());
        assert_eq!((kind.open)(&options(dir.path())).err().unwrap().kind(), ErrorKind::Busy, "{}", kind.name);
        drop(engine);
        for other in kinds().iter().filter(|other| other.name != kind.name) {
            assert_eq!((other.open)(&options(dir.path())).err().unwrap().kind(), ErrorKind::Invalid);
        }
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
        assert_eq!((kind.open)(&options(other.path())).err().unwrap().kind(), ErrorKind::Invalid);
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
        assert_eq!((kind.open)(&options(&other.path().join("no"))).err().unwrap().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_checkpoint_opens_and_holds_what_was_applied_before_it() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let copies = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path());
        for n in 0..3000u32 {
            engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &[n as u8; 300] }], Durability::Os).unwrap();
        }
        let dest = copies.path().join("copy");
        if !engine.capabilities().checkpoints {
            assert_eq!(engine.checkpoint(&dest).unwrap_err().kind(), ErrorKind::Unsupported);
            assert!(!dest.exists());
            continue;
        }
        engine.checkpoint(&dest).unwrap();
        assert_eq!(engine.checkpoint(&dest).unwrap_err().kind(), ErrorKind::Invalid);
        let empty = copies.path().join("empty");
        fs::create_dir(&empty).unwrap();
        engine.checkpoint(&empty).unwrap();
        engine.apply(&[Op::Put { key: b"later", value: b"" }], Durability::Os).unwrap();
        for path in [&dest, &empty] {
            let copy = open(&kind, path);
            assert_eq!(copy.verify(&mut |damage| panic!("{damage:?}")).unwrap(), 3000, "{}", kind.name);
            assert!(copy.get(b"later").unwrap().is_none());
            copy.apply(&[Op::Put { key: b"own", value: b"" }], Durability::Sync).unwrap();
        }
        assert!(engine.get(b"own").unwrap().is_none());
    }
}

#[test]
fn many_threads_write_and_read_their_own_keys() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path());
        std::thread::scope(|scope| {
            for thread in 0..6u8 {
                let engine = &engine;
                scope.spawn(move || {
                    let mut buffer = Vec::new();
                    for n in 0..500u32 {
                        let key = [&[thread][..], &(n % 50).to_be_bytes()].concat();
                        let value = [&n.to_be_bytes()[..], &[thread; 100]].concat();
                        let durability = if n % 100 == 0 { Durability::Sync } else { Durability::Os };
                        engine.apply(&[Op::Put { key: &key, value: &value }], durability).unwrap();
                        assert!(engine.get_into(&key, &mut buffer).unwrap());
                        assert_eq!(buffer, value, "a write is visible when apply returns");
                    }
                });
            }
        });
    }
}
