//! Movements backward over Tkrzw's tree while other threads remove the last records of its pages and split them: in either case
//! the library's own search below a key passes over records that nobody touches. And ranges that are deleted meanwhile.
#![cfg(feature = "tkrzw-tree")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biombo_engine::{Durability, Engine, Op, OpenOptions, Registry};

/// Records that stay: a few to a page.
const STEADY: u64 = 64;

fn put(engine: &Arc<dyn Engine>, key: &str, value: &[u8]) {
    engine.apply(&[Op::Put { key: key.as_bytes(), value }], Durability::Os).unwrap();
}

fn steady(i: u64) -> String {
    format!("{i:04}-steady")
}

/// `(behind, value bytes)` of the records that come and go behind each steady one.
fn walk_while(noise: impl Fn(u64) -> (String, usize) + Sync) {
    let dir = tempfile::tempdir().unwrap();
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get("tkrzw-tree").unwrap();
    let engine = (kind.open)(&OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir.path()) }).unwrap();
    (0..STEADY).for_each(|i| put(&engine, &steady(i), &[7; 1_500]));
    let stop = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_millis(1_500);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (key, len) = noise(n);
                put(&engine, &key, &vec![1; len]);
                engine.apply(&[Op::Delete { key: key.as_bytes() }], Durability::Os).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cursor = Arc::clone(&engine).cursor().unwrap();
            let mut looks = 0u64;
            while Instant::now() < until {
                let i = looks % STEADY;
                cursor.seek_before(format!("{}-", steady(i)).as_bytes()).unwrap();
                let found = cursor.key().map(|key| String::from_utf8_lossy(key).into_owned());
                let expected = steady(i);
                assert!(found.as_ref() == Some(&expected), "{found:?} for {expected} at look {looks}");
                looks += 1;
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_search_below_a_key_finds_what_is_there_while_the_last_record_of_its_page_goes() {
    walk_while(|n| (format!("{}-more", steady(n % STEADY)), 10));
}

#[test]
fn a_search_below_a_key_finds_what_is_there_while_its_page_is_split_and_merged() {
    walk_while(|n| (format!("{}-more", steady(n % STEADY)), 3_000));
}

/// Fails when the deletion of a range leaves a record of it, or takes one beside it. (That an iterator stands elsewhere when it is read, as cursors
/// have seen it, no run has shown for deletions: 1.0.25 seems to lead those of a removed record on.)
#[test]
fn a_range_is_deleted_and_nothing_beside_it_while_its_pages_are_split_and_merged() {
    let dir = tempfile::tempdir().unwrap();
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    let kind = registry.get("tkrzw-tree").unwrap();
    let engine = (kind.open)(&OpenOptions { cache_bytes: 16 << 20, ..OpenOptions::new(dir.path()) }).unwrap();
    // Below the range, and above it.
    let beside = |i: u64| [format!("a{i:04}"), format!("z{i:04}")];
    (0..STEADY).for_each(|i| beside(i).iter().for_each(|key| put(&engine, key, &[7; 1_500])));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Between those of the range, and on both sides of it.
                let key = format!("{}{:04}-more", ["a", "m", "m", "z"][n as usize % 4], n / 4 % STEADY);
                put(&engine, &key, &vec![1; 3_000]);
                engine.apply(&[Op::Delete { key: key.as_bytes() }], Durability::Os).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let until = Instant::now() + Duration::from_millis(1_500);
            for round in 0u64.. {
                if Instant::now() > until {
                    break;
                }
                (0..STEADY).for_each(|i| put(&engine, &format!("m{i:04}"), &[7; 700]));
                engine.apply(&[Op::DeleteRange { from: b"m", to: Some(b"n") }], Durability::Os).unwrap();
                for i in 0..STEADY {
                    assert!(!engine.contains(format!("m{i:04}").as_bytes()).unwrap(), "m{i:04} stays in round {round}");
                    assert!(
                        beside(i).iter().all(|key| engine.contains(key.as_bytes()).unwrap()),
                        "{i} in round {round}"
                    );
                }
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}
