//! The conformance suite on RocksDB, LevelDB and Tkrzw.

macro_rules! conforms {
    ($($feature:literal => $test:ident),* $(,)?) => {$(
        #[cfg(feature = $feature)]
        #[test]
        fn $test() {
            let mut registry = biombo_engine::Registry::new();
            biombo_foreign::register(&mut registry);
            biombo_engine::conformance::run(registry.get($feature).expect("registered"));
        }
    )*};
}

conforms! {
    "rocksdb" => rocksdb_conforms,
    "leveldb" => leveldb_conforms,
}
