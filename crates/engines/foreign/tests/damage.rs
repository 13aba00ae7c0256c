//! Damaged, torn and missing files of RocksDB and LevelDB: named where they are, never taken for an empty or a shorter store.
#![cfg(any(feature = "rocksdb", feature = "leveldb"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_engine::{Durability, Engine, EngineKind, ErrorKind, Op, OpenOptions, Registry, Result};

fn kinds() -> Vec<EngineKind> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    registry.iter().filter(|kind| ["rocksdb", "leveldb"].contains(&kind.name)).cloned().collect()
}

fn open(kind: &EngineKind, dir: &Path) -> Result<Arc<dyn Engine>> {
    (kind.open)(&OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir) })
}

/// Incompressible, so that a block is as long as its values.
fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..200).map(|_| next()).collect()
}

fn put(engine: &Arc<dyn Engine>, keys: std::ops::Range<u32>) {
    for n in keys {
        engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &value(n) }], Durability::Os).unwrap();
    }
}

/// The largest file with one of these extensions.
fn largest(dir: &Path, extensions: &[&str]) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of_kind = |path: &PathBuf| path.extension().is_some_and(|e| extensions.iter().any(|known| e == *known));
    files.filter(of_kind).max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn verify_names_the_damaged_table_and_reads_refuse_its_keys() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path()).unwrap();
        put(&engine, 0..20_000);
        engine.compact().unwrap();
        assert_eq!(engine.verify(&mut |damage| panic!("{}: {damage:?}", kind.name)).unwrap(), 20_000);
        drop(engine);
        let table = largest(dir.path(), &["sst", "ldb"]);
        let middle = fs::metadata(&table).unwrap().len() as usize / 2;
        flip(&table, middle);
        let engine = open(&kind, dir.path()).unwrap();
        let mut damages = Vec::new();
        let keys = engine.verify(&mut |damage| damages.push(damage)).unwrap();
        assert!(!damages.is_empty() && keys < 20_000, "{}: {damages:?}, {keys} keys", kind.name);
        assert_eq!(damages[0].file.file_name(), table.file_name(), "{}: {damages:?}", kind.name);
        let offset = damages[0].offset as usize;
        assert!(offset <= middle && middle < offset + (64 << 10), "{}: {damages:?}, flipped at {middle}", kind.name);
        let refused: Vec<_> = (0..20_000u32).filter_map(|n| engine.get(&n.to_be_bytes()).err()).collect();
        assert!(!refused.is_empty() && refused.iter().all(|e| e.kind() == ErrorKind::Corruption), "{}", kind.name);
        let mut cursor = Arc::clone(&engine).cursor().unwrap();
        let mut outcome = cursor.first();
        while outcome.is_ok() && cursor.key().is_some() {
            outcome = cursor.next();
        }
        assert_eq!(outcome.err().map(|e| e.kind()), Some(ErrorKind::Corruption), "{}: a scan lost keys", kind.name);
    }
}

#[test]
fn a_damaged_log_is_refused_and_a_torn_last_record_is_dropped() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&kind, dir.path()).unwrap();
        put(&engine, 0..100);
        drop(engine);
        let log = largest(dir.path(), &["log"]);
        let whole = fs::read(&log).unwrap();

        flip(&log, whole.len() / 2);
        let error = open(&kind, dir.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", kind.name);
        assert_eq!(error.place().unwrap().0.file_name(), log.file_name(), "{}: {error}", kind.name);

        fs::write(&log, &whole).unwrap();
        flip(&log, whole.len() - 1);
        let engine = open(&kind, dir.path()).unwrap();
        assert_eq!(engine.verify(&mut |damage| panic!("{}: {damage:?}", kind.name)).unwrap(), 99, "{}", kind.name);
        put(&engine, 99..120);
        drop(engine);
        assert_eq!(open(&kind, dir.path()).unwrap().verify(&mut |_| ()).unwrap(), 120, "{}", kind.name);
    }
}

#[test]
fn a_database_that_lost_its_first_file_is_damaged_and_not_new() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        put(&open(&kind, dir.path()).unwrap(), 0..10);
        fs::remove_file(dir.path().join("CURRENT")).unwrap();
        let before = fs::read_dir(dir.path()).unwrap().count();
        let error = open(&kind, dir.path()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", kind.name);
        assert!(fs::read_dir(dir.path()).unwrap().count() >= before, "{}: files were removed", kind.name);
    }
}
