//! Who accesses tells it here.
//!
//! 1. Most accesses cost a count-down in a cell of the thread. The steps between two samples are drawn anew each time, uniformly
//!    around their mean, so that no rhythm of the caller hides from it.
//! 2. A sample weighs as many accesses as one stands for. Those whose samples were lost, because a ring was full, are dealt to all that it kept
//!    meanwhile, by their weights: sums are right in the mean, however slowly the rings are drained, and no key seems hot because its sample was the
//!    first that found room again. (Where a ring kept no sample of a kind, what it lost of that kind counts for nothing.)
//! 3. Once it has [ended](Tracker::end) no thread has a ring: nobody would take what is in it.
//! 4. The count-downs are the thread's, for all trackers: where several are told by one thread, one's sample may stand for accesses that the
//!    others were told of, and so its weight is only about right.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::ring::{self, Lost, Put, class_of};
use crate::sample::{GROUP_KEYS_MAX, Kind, Sample, Shape};
use crate::thinning::Thinning;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// One access of a single key in so many is sampled.
    pub singles: u32,
    /// One access of several keys in so many.
    pub groups: u32,
    /// Memory of one thread's ring.
    pub ring_bytes: usize,
    /// Where much comes between two drains, accesses are sampled up to so many times as rarely; 1: never.
    pub thinned_max: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { singles: 64, groups: 8, ring_bytes: 64 << 10, thinned_max: 256 }
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
    thinning: Thinning,
    ring_bytes: usize,
    /// Held while samples are handed over.
    rings: Mutex<Vec<Drain>>,
    /// Those of threads that came since: nobody waits for what is done with samples. Locked after `rings`.
    joining: Mutex<Vec<Drain>>,
    lost: AtomicU64,
    /// Set under both locks.
    ended: AtomicBool,
}

/// The other end of a thread's ring.
struct Drain {
    ring: Consumer<u8>,
    lost: Arc<Lost>,
}

thread_local! {
    /// Accesses until the next sample, and how many it stands for (0: the first of its thread): of single keys; of several.
    static LEFT: [Cell<(u32, u32)>; 2] = const { [Cell::new((0, 0)), Cell::new((0, 0))] };
}

impl Tracker {
    /// A tracker that knows nothing yet. Rates of 0 are taken as 1: everything is sampled.
    pub fn new(rates: Rates) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            thinning: Thinning::new(&rates),
            ring_bytes: rates.ring_bytes,
            rings: Mutex::default(),
            joining: Mutex::default(),
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Take no samples any more: nobody will drain it again. Gives the memory of the rings back, as their threads come by or end.
    pub fn end(&self) {
        let mut rings = locked(&self.rings);
        let mut joining = locked(&self.joining);
        self.ended.store(true, Ordering::Relaxed);
        rings.clear();
        joining.clear();
    }

    /// Whether it takes no samples any more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// A key was read. A few instructions, unless it is sampled.
    #[inline]
    pub fn read(&self, key: &[u8]) {
        self.sample(Kind::Read, key);
    }

    /// A key was written.
    #[inline]
    pub fn write(&self, key: &[u8]) {
        self.sample(Kind::Write, key);
    }

    #[inline]
    fn sample(&self, kind: Kind, key: &[u8]) {
        if is_due(0) {
            self.take(kind, Shape::Single, 1, || [key]);
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
        let class = class_of(shape);
        let next = self.thinning.every(class);
        let draw = || fastrand::u32(0..next * 2 - 1);
        let drawn = LEFT.try_with(|left| {
            let (left, is_first) = (&left[class], left[class].get().1 == 0);
            // A thread comes by somewhere between two samples. How far the next one is from there is as far as the nearer one of two that are drawn;
            // were its first access always one, threads that do little would be told as doing much.
            let before = if is_first { draw().min(draw()) } else { 0 };
            match before.checked_sub(1) {
                Some(rest) => {
                    left.set((rest, next));
                    None
                }
                None => Some(left.replace((draw(), next)).1),
            }
        });
        let every = match drawn {
            Ok(None) => return,
            Ok(Some(every)) if every > 0 => every,
            _ => next,
        };
        if self.has_ended() {
            return;
        }
        // Too many to be a group: evenly chosen ones stand for all, each for itself.
        let stride = count.div_ceil(GROUP_KEYS_MAX).max(1);
        let (shape, weight) = if stride == 1 { (shape, every) } else { (Shape::Single, every * stride as u32) };
        let alone = if shape == Shape::Single { count.div_ceil(stride) as u64 } else { 1 };
        let accesses = u64::from(weight) * alone;
        let keys = std::iter::once_with(keys).flatten().step_by(stride);
        if ring::put(self.number, || self.open(), (kind, shape, weight), accesses, keys) == Put::Lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A ring for a thread that has none.
    fn open(&self) -> (Producer<u8>, Arc<Lost>) {
        let (producer, ring) = RingBuffer::new(self.ring_bytes);
        let lost = Arc::<Lost>::default();
        let drain = Drain { ring, lost: Arc::clone(&lost) };
        let mut joining = locked(&self.joining);
        // Without its other end the thread lets go of its own.
        if !self.has_ended() {
            joining.push(drain);
        }
        (producer, lost)
    }

    /// Hand over all samples that were taken since the last time. One at a time: a second caller waits for the first.
    pub fn drain(&self, mut each: impl FnMut(&Sample<'_>)) -> Drained {
        let mut drained = Drained { samples: 0, lost: self.lost.swap(0, Ordering::Relaxed) };
        let mut bytes = Vec::new();
        let mut rings = locked(&self.rings);
        rings.append(&mut locked(&self.joining));
        let mut filled = [0f64; 2];
        rings.retain_mut(|Drain { ring, lost }| {
            // First whether its thread has ended: what it wrote before is then seen below.
            let has_ended = ring.is_abandoned();
            bytes.resize(ring.slots(), 0);
            if ring.pop_entire_slice(&mut bytes).is_ok() {
                let mut deals = Deal::of(lost.take(), &bytes);
                for (filled, deal) in filled.iter_mut().zip(&deals) {
                    *filled += deal.would_fill(self.ring_bytes);
                }
                for mut sample in samples(&bytes) {
                    deals[class_of(sample.shape)].deal(&mut sample);
                    each(&sample);
                    drained.samples += 1;
                }
            }
            !has_ended
        });
        self.thinning.adapt(filled);
        drained
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The samples that lie one after the other.
fn samples(bytes: &[u8]) -> impl Iterator<Item = Sample<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (sample, behind) = Sample::read(rest)?;
        rest = behind;
        Some(sample)
    })
}

/// Accesses of one class whose samples were lost, and those that samples of it stand for.
#[derive(Clone, Copy, Default)]
struct Deal {
    lost: u64,
    kept: u64,
    /// Of what was kept.
    bytes: usize,
    /// Of both, what was handed over already.
    lost_dealt: u64,
    kept_dealt: u64,
}

impl Deal {
    fn of(lost: [u64; 2], bytes: &[u8]) -> [Self; 2] {
        let mut deals = lost.map(|lost| Self { lost, ..Self::default() });
        for sample in samples(bytes) {
            let deal = &mut deals[class_of(sample.shape)];
            deal.kept += sample.accesses();
            deal.bytes += sample.bytes();
        }
        deals
    }

    /// What part of a ring its samples would have filled, had all found room. Of those that were all lost it is not known: a whole one.
    fn would_fill(&self, ring_bytes: usize) -> f64 {
        if self.kept == 0 {
            return if self.lost > 0 { 1.0 } else { 0.0 };
        }
        let times = (self.kept + self.lost) as f64 / self.kept as f64;
        self.bytes as f64 / ring_bytes.max(1) as f64 * times
    }

    /// Add the sample's part of what was lost. What does not divide goes to a later one.
    fn deal(&mut self, sample: &mut Sample<'_>) {
        if self.lost == 0 {
            return;
        }
        self.kept_dealt += sample.accesses();
        let due = u128::from(self.lost) * u128::from(self.kept_dealt) / u128::from(self.kept.max(1));
        self.lost_dealt += sample.add_accesses((due as u64).saturating_sub(self.lost_dealt));
    }
}

/// Count one access down.
#[inline]
fn is_due(which: usize) -> bool {
    LEFT.try_with(|left| {
        let left = &left[which];
        let (now, every) = left.get();
        left.set((now.saturating_sub(1), every));
        now == 0
    })
    .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the first access of a thread always is a sample: threads that do little would be told as doing 64 times as much.
    #[test]
    fn threads_that_do_little_are_told_as_doing_little() {
        let tracker = Tracker::new(Rates { singles: 64, ring_bytes: 4096, ..Rates::default() });
        let threads = 40_000u32;
        let mut told = 0;
        for _ in 0..threads / 100 {
            std::thread::scope(|scope| (0..100).for_each(|_| drop(scope.spawn(|| tracker.write(b"key")))));
            tracker.drain(|sample| told += sample.accesses());
        }
        let share = told as f64 / f64::from(threads);
        assert!((0.75..1.25).contains(&share), "{told} accesses of {threads} are told");
    }

    /// Fails when the first sample of a thread waits for what is done with those of others.
    #[test]
    fn a_thread_that_comes_while_samples_are_handed_over_does_not_wait() {
        let tracker = Arc::new(Tracker::new(Rates { singles: 1, groups: 1, ..Rates::default() }));
        tracker.write(b"first");
        let drained = tracker.drain(|_| {
            let (said, heard) = std::sync::mpsc::channel();
            let tracker = Arc::clone(&tracker);
            std::thread::spawn(move || {
                tracker.write(b"second");
                let _ = said.send(());
            });
            heard.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits");
        });
        assert_eq!(drained.samples, 1);
        assert_eq!(tracker.drain(|sample| assert!(sample.keys().eq([b"second"]))).samples, 1);
    }

    /// Fails if one that nobody drains any more keeps a ring of each thread that comes by.
    #[test]
    fn a_tracker_that_has_ended_keeps_no_rings_of_threads_that_come_and_go() {
        let tracker = Tracker::new(Rates { singles: 1, groups: 1, ..Rates::default() });
        let rings = || locked(&tracker.rings).len() + locked(&tracker.joining).len();
        let come_and_go =
            || std::thread::scope(|scope| scope.spawn(|| tracker.write(b"key")).join().expect("no panic"));
        tracker.write(b"key");
        come_and_go();
        assert_eq!(rings(), 2);
        tracker.end();
        assert!(tracker.has_ended());
        for _ in 0..10 {
            tracker.write_group(2, || [&b"order"[..], b"stock"]);
            come_and_go();
        }
        assert_eq!((rings(), tracker.drain(|_| panic!("no sample")).samples), (0, 0));
        // One that had looked before it ended.
        drop(tracker.open());
        assert_eq!(rings(), 0);
    }
}
