//! The conformance suite for every engine of this build.

use std::time::Duration;

use biombo_engine::Registry;
use biombo_engine::conformance::Subject;

fn subject(name: &str) -> Option<Subject> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get(name).expect("the feature is on");
    kind.is_installed().then(|| Subject::from_kind(kind).with_budget(Duration::from_millis(200)))
}

macro_rules! engines {
    ($($feature:literal $module:ident)*) => {
        $(
            #[cfg(feature = $feature)]
            biombo_engine::conformance_tests!($module, subject($feature));
        )*
    };
}

engines! {
    "lmdb" lmdb
    "rocksdb" rocksdb
    "leveldb" leveldb
    "tkrzw-tree" tkrzw_tree
    "tkrzw-tree-zlib" tkrzw_tree_zlib
    "tkrzw-hash" tkrzw_hash
    "wiredtiger" wiredtiger
    "postgres" postgres
}
