//! Which records exist: numbers are handed out in order and count as readable once acknowledged.
//!
//! As YCSB's `AcknowledgedCounterGenerator`: reads may choose any record up to the last one below which every insert has
//! been acknowledged, so no read asks for a record that is still on its way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Inserts that may be acknowledged out of order before the oldest one is. A power of two.
const WINDOW: u64 = 1 << 20;

/// The counter, shared by all threads of a run.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    // The first record that is not known to exist: all below are acknowledged.
    end: AtomicU64,
    // Acknowledged numbers at and past `end`, one bit each; guarded so that a bit is cleared before its place is reused.
    window: Mutex<Vec<u64>>,
}

impl Inserts {
    /// With the records `0..records` loaded.
    pub fn new(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            end: AtomicU64::new(records),
            window: Mutex::new(vec![0; (WINDOW / 64) as usize]),
        }
    }

    /// A number for a new record.
    #[inline]
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The insert of `number` is done (or has failed: readers must go on all the same).
    pub fn acknowledge(&self, number: u64) {
        while number - self.end() >= WINDOW {
            // An insert hangs while a million later ones went through: wait for it rather than lose count.
            std::thread::yield_now();
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let place = |n: u64| (((n % WINDOW) / 64) as usize, 1u64 << (n % 64));
        let (word, bit) = place(number);
        window[word] |= bit;
        let mut end = self.end.load(Ordering::Relaxed);
        loop {
            let (word, bit) = place(end);
            if window[word] & bit == 0 {
                break;
            }
            window[word] &= !bit;
            end += 1;
        }
        self.end.store(end, Ordering::Release);
    }

    /// The records `0..end` exist.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_all_before_it_are_acknowledged() {
        let inserts = Inserts::new(10);
        let numbers: Vec<_> = (0..3).map(|_| inserts.begin()).collect();
        assert_eq!(numbers, [10, 11, 12]);
        inserts.acknowledge(12);
        inserts.acknowledge(11);
        assert_eq!(inserts.end(), 10);
        inserts.acknowledge(10);
        assert_eq!(inserts.end(), 13);
    }

    #[test]
    fn threads_lose_no_acknowledgement_past_the_window() {
        let inserts = Inserts::new(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300_000 {
                        inserts.acknowledge(inserts.begin());
                    }
                });
            }
        });
        assert_eq!(inserts.end(), 5 + 1_200_000);
    }
}
