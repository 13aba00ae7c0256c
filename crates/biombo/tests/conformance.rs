//! The conformance suite for every real engine under every layout: `none`, `soft` with 3 partitions, and `hard` with 1, 3 and 8. (Numbers of
//! `soft` partitions, which share one engine, are gone through over the engine `memory` beside the store.)
//!
//! (Engines alone, without a store around them, are tested beside their adapters.)
#![cfg(feature = "lmdb")]

use std::sync::Arc;
use std::time::Duration;

use biombo::{Capabilities, Engine, Executor, Options, Partitioning, StoreEngine};
use biombo_engine::conformance::{Subject, run_all};

fn check(engine: &'static str, partitioning: Partitioning, partitions: u32) {
    check_by(Executor::Direct, engine, partitioning, partitions);
}

fn check_by(executor: Executor, engine: &'static str, partitioning: Partitioning, partitions: u32) {
    let registry = biombo::registry();
    let Ok(kind) = registry.get(engine) else {
        println!("skipped: this build has no engine {engine}");
        return;
    };
    let alone = (kind.capabilities)();
    let capabilities = match partitioning {
        Partitioning::Hard => Capabilities {
            key_bytes_max: alone.key_bytes_max - 1,
            checkpoints: alone.persistent && alone.snapshots,
            ..alone
        },
        _ => alone,
    };
    let options = Options::new().engine(engine).partitioning(partitioning).partitions(partitions).executor(executor);
    let subject = Subject::new(format!("{engine}-{partitioning}-{partitions}-{executor}"), capabilities, move |dir| {
        let engine: Arc<dyn Engine> = Arc::new(StoreEngine::open(options.clone(), dir, &registry)?);
        Ok(engine)
    });
    run_all(&subject.with_budget(Duration::from_millis(60)));
}

macro_rules! layouts {
    ($($module:ident = $engine:literal),+) => {$(
        mod $module {
            use super::*;

            #[test]
            fn used_directly() {
                check($engine, Partitioning::None, 1);
            }

            #[test]
            fn soft() {
                check($engine, Partitioning::Soft, 3);
            }

            #[test]
            fn hard_1() {
                check($engine, Partitioning::Hard, 1);
            }

            #[test]
            fn hard_3() {
                check($engine, Partitioning::Hard, 3);
            }

            #[test]
            fn hard_8() {
                check($engine, Partitioning::Hard, 8);
            }
        }
    )+};
}
layouts!(
    memory = "memory",
    log = "log",
    lmdb = "lmdb",
    rocksdb = "rocksdb",
    leveldb = "leveldb",
    wiredtiger = "wiredtiger",
    tkrzw_tree = "tkrzw-tree",
    tkrzw_hash = "tkrzw-hash"
);

/// By workers, an engine of each way in which partitions are written: with a log that is synced apart, in bulk after the store's journal, and
/// with a combiner of its own.
#[test]
fn workers_over_engines_of_each_way() {
    for engine in ["rocksdb", "lmdb", "log"] {
        check_by(Executor::Pinned { workers: 2 }, engine, Partitioning::Hard, 3);
    }
}

/// The laboratory's own engines, whose every close is a checkpoint or a table, and one that differs from another by the compression of its
/// pages: one layout of each kind.
#[test]
fn micro_engines_and_compressed_pages_in_three_partitions() {
    for engine in ["micro-btree", "micro-lsm", "tkrzw-tree-zlib"] {
        [Partitioning::Soft, Partitioning::Hard].into_iter().for_each(|partitioning| check(engine, partitioning, 3));
    }
}
