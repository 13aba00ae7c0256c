//! The placement of this moment, one plain load away.
//!
//! Every operation asks for it, and it changes at most a few times a second. So each thread keeps the one that it used last, and
//! an operation only compares versions: no line that several threads write, no atomic exchange. Safe Rust only.
//!
//! Invariants:
//!
//! 1. `version` grows after the value was replaced, both under the lock: a thread that reads version v and takes the value under the lock
//!    gets that of v or a newer one, and never calls an older value by a newer version.
//! 2. An operation that begins after [`Present::replace`] returned sees the new value: it reads the version first.
//! 3. What a thread keeps is found by the number of its store, which is never given twice in one process. A kept value of a
//!    closed store costs memory until the thread ends or needs the place, nothing else.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Placement;

/// Stores whose placements one thread keeps; more of them at a time take turns.
const KEPT: usize = 4;

/// A placement that is read far more often than replaced.
pub(crate) struct Present {
    /// Of this store, in this process.
    number: u64,
    version: AtomicU64,
    value: Mutex<Arc<Placement>>,
}

/// What a thread keeps: of which store, which version, and the value.
type Kept = Option<(u64, u64, Arc<Placement>)>;

thread_local! {
    static MINE: RefCell<[Kept; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

impl Present {
    pub(crate) fn new(placement: Placement) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(0),
            value: Mutex::new(Arc::new(placement)),
        }
    }

    /// Ask the placement of this moment; `ask` must not come back here. O(1), without a lock unless it was replaced since this
    /// thread last asked.
    #[inline]
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Placement) -> T) -> T {
        let version = self.version.load(Ordering::Acquire);
        let place = (self.number % KEPT as u64) as usize;
        let mut ask = Some(ask);
        let answer = MINE.try_with(|mine| {
            let mine = mine.try_borrow().ok()?;
            match &mine[place] {
                Some((number, kept, placement)) if *number == self.number && *kept == version => {
                    ask.take().map(|ask| ask(placement))
                }
                _ => None,
            }
        });
        match (answer, ask) {
            (Ok(Some(answer)), _) => answer,
            (_, ask) => ask.expect("invariant: asked once")(&self.renew(place)),
        }
    }

    /// Take the value under the lock, and keep it. (A thread that is ending keeps nothing.)
    #[cold]
    #[inline(never)]
    fn renew(&self, place: usize) -> Arc<Placement> {
        let (version, placement) = {
            let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
            (self.version.load(Ordering::Acquire), Arc::clone(&value))
        };
        let _ = MINE.try_with(|mine| {
            if let Ok(mut mine) = mine.try_borrow_mut() {
                mine[place] = Some((self.number, version, Arc::clone(&placement)));
            }
        });
        placement
    }

    /// The value itself, for who holds on to it.
    pub(crate) fn get(&self) -> Arc<Placement> {
        Arc::clone(&self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Put another placement in its place: who asks after this returned gets it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the seam at which partitions will move; its test holds it to its word")
    )]
    pub(crate) fn replace(&self, placement: Placement) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *value = Arc::new(placement);
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Partitions of the placement that is present, which tells the placements of a test apart.
    fn seen(present: &Present) -> usize {
        present.with(|placement| placement.units_by_partition(4096).iter().filter(|units| **units > 0).count())
    }

    #[test]
    fn who_asks_after_a_replacement_gets_it_in_every_thread() {
        let present = Present::new(Placement::hash(1));
        let replaced = AtomicU64::new(1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !done.load(Ordering::Relaxed) {
                        let at_least = replaced.load(Ordering::SeqCst) as usize;
                        let now = seen(&present);
                        assert!(now >= at_least && now >= last, "{now} after {at_least} and {last}");
                        last = now;
                    }
                });
            }
            for partitions in 2..200 {
                present.replace(Placement::hash(partitions));
                replaced.store(u64::from(partitions), Ordering::SeqCst);
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn more_stores_than_a_thread_keeps_are_never_confused() {
        let all: Vec<_> = (1..=3 * KEPT as u32).map(|partitions| Present::new(Placement::hash(partitions))).collect();
        for _ in 0..3 {
            for (before, present) in all.iter().enumerate() {
                assert_eq!(seen(present), before + 1);
            }
        }
        all[0].replace(Placement::hash(77));
        assert_eq!((seen(&all[0]), seen(&all[KEPT]), all[0].get().units()), (77, KEPT + 1, crate::SLOTS));
    }
}
