//! The conformance suite for `lmdb` and `wiredtiger`.
#![cfg(any(feature = "lmdb", feature = "wiredtiger"))]

use biombo_engine::Registry;
use biombo_engine::conformance::Subject;

fn subject(name: &str) -> Subject {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    Subject::from_kind(registry.get(name).expect("the feature is on"))
}

#[cfg(feature = "lmdb")]
biombo_engine::conformance_tests!(lmdb, subject("lmdb"));
