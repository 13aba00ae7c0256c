//! The conformance suite for RocksDB, LevelDB and Tkrzw.
#![cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "tkrzw-tree",
    feature = "tkrzw-tree-zlib",
    feature = "tkrzw-hash"
))]

use biombo_engine::Registry;
use biombo_engine::conformance::Subject;

fn subject(name: &str) -> Subject {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    Subject::from_kind(registry.get(name).expect("the feature is on"))
}

#[cfg(feature = "rocksdb")]
biombo_engine::conformance_tests!(rocksdb, subject("rocksdb"));
#[cfg(feature = "leveldb")]
biombo_engine::conformance_tests!(leveldb, subject("leveldb"));
