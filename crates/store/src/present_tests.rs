//! Tests of `present`: a file of their own, because the loom test compiles that one over loom's types.

use std::sync::atomic::AtomicBool;

use crate::present::{KEPT, Kept, Mine, Present, nothing_kept};
use crate::sync::{AtomicU64, LocalKey, Ordering};

/// A value that tells those of a test apart.
struct Count(usize);

impl Kept for Count {
    fn mine() -> &'static LocalKey<Mine<Self>> {
        thread_local!(static MINE: Mine<Count> = const { nothing_kept() });
        &MINE
    }
}

fn seen(present: &Present<Count>) -> usize {
    present.with(|count| count.0)
}

#[test]
fn who_asks_after_a_replacement_gets_it_in_every_thread() {
    let present = Present::new(Count(1));
    let replaced = AtomicU64::new(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let at_least = replaced.load(Ordering::SeqCst) as usize;
                    let (version, now) = present.with_version(|count| count.0);
                    assert!(now >= at_least && now >= last, "{now} after {at_least} and {last}");
                    assert_eq!(now as u64, version + 1, "each value has one version");
                    last = now;
                }
            });
        }
        for count in 2..2000 {
            present.replace(Count(count));
            replaced.store(count as u64, Ordering::SeqCst);
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn more_stores_than_a_thread_keeps_are_never_confused() {
    let all: Vec<_> = (1..=3 * KEPT).map(|count| Present::new(Count(count))).collect();
    for _ in 0..3 {
        for (before, present) in all.iter().enumerate() {
            assert_eq!(seen(present), before + 1);
        }
    }
    all[0].replace(Count(77));
    assert_eq!((seen(&all[0]), seen(&all[KEPT]), all[0].get().1.0), (77, KEPT + 1, 77));
}
