//! Who accesses tells it here.
//!
//! 1. Most accesses cost a count-down in a cell of the thread. The steps between two samples are drawn anew each time, uniformly
//!    around their mean, so that no rhythm of the caller hides from it.
//! 2. A sample weighs as many accesses as one stands for, and as those whose samples were lost before it: sums are right in the mean,
//!    however slowly the rings are drained.
//! 3. The count-downs are the thread's, for all trackers: where several with different rates are told by one thread, the weights
//!    are those of the one that took the sample, and so only about right.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::ring::{self, Put};
use crate::sample::{GROUP_KEYS_MAX, Kind, Sample, Shape};

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// One access of a single key in so many is sampled.
    pub singles: u32,
    /// One access of several keys in so many.
    pub groups: u32,
    /// Memory of one thread's ring.
    pub ring_bytes: usize,
}

impl Default for Rates {
    fn default() -> Self {
        Self { singles: 64, groups: 8, ring_bytes: 64 << 10 }
    }
}

/// What a drain found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples that were handed over.
    pub samples: u64,
    /// Samples that were lost since the last drain, because a ring was full.
    pub lost: u64,
}

/// Takes samples of accesses from any number of threads.
pub struct Tracker {
    number: u64,
    rates: Rates,
    rings: Mutex<Vec<Consumer<u8>>>,
    lost: AtomicU64,
}

thread_local! {
    /// Accesses until the next sample: of single keys; of several.
    static LEFT: [Cell<u32>; 2] = const { [Cell::new(0), Cell::new(0)] };
}

impl Tracker {
    /// A tracker that knows nothing yet. Rates of 0 are taken as 1: everything is sampled.
    pub fn new(rates: Rates) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let rates = Rates { singles: rates.singles.max(1), groups: rates.groups.max(1), ..rates };
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), rates, rings: Mutex::default(), lost: AtomicU64::new(0) }
    }

    /// A key was read. A few instructions, unless it is sampled.
    #[inline]
    pub fn read(&self, key: &[u8]) {
        if is_due(0) {
            self.take(Kind::Read, Shape::Single, 1, || [key]);
        }
    }

    /// A key was written.
    #[inline]
    pub fn write(&self, key: &[u8]) {
        if is_due(0) {
            self.take(Kind::Write, Shape::Single, 1, || [key]);
        }
    }

    /// One operation read `count` keys; `keys` is asked for them if the sample is due.
    #[inline]
    pub fn read_group<'k, I: IntoIterator<Item = &'k [u8]>>(&self, count: usize, keys: impl FnOnce() -> I) {
        if is_due(1) {
            self.take(Kind::Read, Shape::Group, count, keys);
        }
    }

    /// One operation wrote `count` keys; `keys` is asked for them if the sample is due.
    #[inline]
    pub fn write_group<'k, I: IntoIterator<Item = &'k [u8]>>(&self, count: usize, keys: impl FnOnce() -> I) {
        if is_due(1) {
            self.take(Kind::Write, Shape::Group, count, keys);
        }
    }

    /// One operation read everything from `first` to `last`.
    #[inline]
    pub fn read_span(&self, first: &[u8], last: &[u8]) {
        if is_due(1) {
            self.take(Kind::Read, Shape::Span, 2, || [first, last]);
        }
    }

    #[cold]
    #[inline(never)]
    fn take<'k, I: IntoIterator<Item = &'k [u8]>>(
        &self,
        kind: Kind,
        shape: Shape,
        count: usize,
        keys: impl FnOnce() -> I,
    ) {
        let every = if shape == Shape::Single { self.rates.singles } else { self.rates.groups };
        let _ = LEFT.try_with(|left| left[usize::from(shape != Shape::Single)].set(fastrand::u32(0..every * 2 - 1)));
        // Too many to be a group: evenly chosen ones stand for all, each for itself.
        let stride = count.div_ceil(GROUP_KEYS_MAX).max(1);
        let (shape, weight) = if stride == 1 { (shape, every) } else { (Shape::Single, every * stride as u32) };
        let keys = keys().into_iter().step_by(stride);
        if ring::put(self.number, || self.open(), (kind, shape, weight), keys) == Put::Lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A ring for a thread that has none.
    fn open(&self) -> Producer<u8> {
        let (producer, consumer) = RingBuffer::new(self.rates.ring_bytes);
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).push(consumer);
        producer
    }

    /// Hand over all samples that were taken since the last time. One at a time: a second caller waits for the first.
    pub fn drain(&self, mut each: impl FnMut(&Sample<'_>)) -> Drained {
        let mut drained = Drained { samples: 0, lost: self.lost.swap(0, Ordering::Relaxed) };
        let mut bytes = Vec::new();
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain_mut(|ring| {
            // First whether its thread has ended: what it wrote before is then seen below.
            let has_ended = ring.is_abandoned();
            bytes.resize(ring.slots(), 0);
            if ring.pop_entire_slice(&mut bytes).is_ok() {
                let mut rest = &bytes[..];
                while let Some((sample, behind)) = Sample::read(rest) {
                    each(&sample);
                    drained.samples += 1;
                    rest = behind;
                }
            }
            !has_ended
        });
        drained
    }
}

/// Count one access down.
#[inline]
fn is_due(which: usize) -> bool {
    LEFT.try_with(|left| {
        let left = &left[which];
        let now = left.get();
        left.set(now.saturating_sub(1));
        now == 0
    })
    .unwrap_or(false)
}
