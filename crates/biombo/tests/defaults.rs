//! What a store is when nothing is asked for.
#![cfg(all(feature = "log", feature = "lmdb"))]

use biombo::{ErrorKind, Options, Registry, memory};

#[test]
fn a_new_store_is_over_log_and_an_old_one_stays_over_its_engine() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = biombo::open(dir.path().join("new")).unwrap();
    assert_eq!((store.engine(), store.partitions(), store.partitioning().name()), ("log", 1, "none"));
    assert_eq!(store.placement_kind().name(), "hash");
    let old = dir.path().join("old");
    let store = Options::new().engine("lmdb").partitions(2).open(&old, &biombo::registry()).unwrap();
    store.put(b"apple", b"red").unwrap();
    drop(store);
    let store = biombo::open(&old).unwrap();
    assert_eq!((store.engine(), store.partitions()), ("lmdb", 2));
    assert_eq!(store.get(b"apple").unwrap().as_deref(), Some(&b"red"[..]));
}

#[test]
fn nobody_gets_a_store_that_forgets_without_asking_for_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("s");
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let Err(refused) = Options::new().open(&path, &registry) else { panic!("a store over nothing that keeps data") };
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("memory") && refused.to_string().contains("log"), "{refused}");
    assert!(!path.exists(), "a refused creation left something behind");
    assert!(Options::new().engine("memory").open(&path, &registry).is_ok());
}
