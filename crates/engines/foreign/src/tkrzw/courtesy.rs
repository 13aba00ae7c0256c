//! Readers that let writers through.
//!
//! Tkrzw guards its pages with locks that prefer readers: a few threads that read one page in a tight loop keep a writer of that
//! page waiting without end. So writers announce themselves, and each reader now and then waits for one of them to finish.
//!
//! 1. A reader that waits holds no lock of the library, so once all readers of a page wait, its writer goes on.
//! 2. A wait ends when any writer finishes, when none is left, or after [`WAIT_MAX`]: it is a courtesy, not a lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reads of a thread between two looks for writers.
const READS_BETWEEN: u32 = 64;
const WAIT_MAX: Duration = Duration::from_millis(5);

#[derive(Default)]
pub struct Courtesy {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A write under way.
pub struct Writing<'a>(&'a Courtesy);

impl Courtesy {
    /// Before a read.
    #[inline]
    pub fn read(&self) {
        thread_local!(static READS: Cell<u32> = const { Cell::new(0) });
        let reads = READS.get().wrapping_add(1);
        READS.set(reads);
        if reads.is_multiple_of(READS_BETWEEN) {
            self.let_through();
        }
    }

    /// Around a write.
    pub fn write(&self) -> Writing<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Writing(self)
    }

    fn let_through(&self) {
        let ended = self.ended.load(Ordering::SeqCst);
        if self.begun.load(Ordering::SeqCst) == ended {
            return;
        }
        let until = Instant::now() + WAIT_MAX;
        while self.ended.load(Ordering::SeqCst) == ended && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}
