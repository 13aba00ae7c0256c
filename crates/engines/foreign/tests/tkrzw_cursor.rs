//! Movements backward over Tkrzw's tree while other threads remove the last records of its pages and split them: in either case
//! the library's own search below a key passes over records that nobody touches.
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
