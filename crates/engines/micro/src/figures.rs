//! What an instance counts: every byte where it is put, and where it is written.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use biombo_base::clock::monotonic_ns;
use biombo_engine::{Compaction, CompactionTail};

/// Counters since the instance was opened. Those of its journal are the journal's own.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Bytes written to the instance's files beside the journal.
    written: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    works: Mutex<Works>,
}

/// Checkpoints or compactions.
#[derive(Debug, Default)]
struct Works {
    times_ns: Vec<u64>,
    bytes: u64,
    moves: u64,
}

impl Figures {
    /// So many bytes were handed to the kernel.
    pub fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// A page or block was found in the cache, or not.
    pub fn looked_up(&self, found: bool) {
        if found { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
    }

    /// Hits and misses of the cache.
    pub fn hits_misses(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    /// Do one checkpoint or compaction, and count its time and what it wrote.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let (begun_ns, written) = (monotonic_ns(), self.written());
        let done = work();
        let mut works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        works.times_ns.push(monotonic_ns() - begun_ns);
        works.bytes += self.written() - written;
        done
    }

    /// A table went a level down as it was, which is no compaction: nothing was read or written.
    pub fn moved(&self) {
        self.works.lock().unwrap_or_else(PoisonError::into_inner).moves += 1;
    }

    /// The slowest of them.
    pub fn tail(&self) -> CompactionTail {
        CompactionTail::of(self.works.lock().unwrap_or_else(PoisonError::into_inner).times_ns.clone())
    }

    /// All of them.
    pub fn compaction(&self) -> Compaction {
        let works = self.works.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = works.times_ns.clone();
        Compaction {
            count: times.len() as u64,
            seconds: times.iter().sum::<u64>() as f64 / 1e9,
            latency_ns_p50: Compaction::median(&mut times),
            bytes: works.bytes,
            moves: works.moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the median of two is one of them: the same two would have another one in another engine.
    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let figures = Figures::default();
        figures.works.lock().unwrap().times_ns = vec![200, 10];
        assert_eq!(figures.compaction().latency_ns_p50, Some(105));
    }
}
