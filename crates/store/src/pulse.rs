//! How long users' operations take: they are timed while somebody moves and wants to know, and counted by their times.
//!
//! Reading the clock twice takes as long as a tenth of a quick read: while those of a thread take less than a microsecond about one in eight is timed,
//! below four one in two, and it counts for those before it. How many go by untimed is drawn each time, so that no rhythm of quick reads and slow ones (to
//! open a cursor, to seek) hides either. After one that took longer the next is timed; writes are each.
//!
//! At rest that is one relaxed load for each operation ([`Pulse::look`]), which says at the same time whether accesses are watched. Counts are in
//! buckets a quarter of an octave wide, so a time is right to a tenth, in stripes that threads share as little as possible.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use biombo_base::clock::monotonic_ns;

use crate::planning::Way;

/// From 4 ns to some hours.
const BUCKETS: usize = 168;
/// Threads count into as many places.
const STRIPES: usize = 8;
/// How many reads go untimed, on average, after one that took less.
const SKIPS: [(u64, u32); 2] = [(1_000, 7), (4_000, 1)];

/// Accesses are watched, for the planner.
const WATCHED: u8 = 1;
/// Operations are timed.
const TIMED: u8 = 2;

/// What is looked at of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Look(u8);

impl Look {
    /// Nothing.
    #[inline]
    pub(crate) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Its keys, for the planner.
    #[inline]
    pub(crate) fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }
}

/// The bucket of a time: four to each power of two.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(4);
    let exponent = ns.ilog2() - 2;
    let quarter = (ns >> exponent) & 3;
    (exponent as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

/// What every time in a bucket is below.
fn end_of(bucket: usize) -> u64 {
    (bucket as u64 % 4 + 5) << (bucket / 4)
}

/// The middle of a bucket, in nanoseconds.
fn middle_of(bucket: usize) -> f64 {
    end_of(bucket) as f64 - 0.5 * (1_u64 << (bucket / 4)) as f64
}

/// Where some of the threads count, one for each [`Way`].
#[repr(align(128))]
#[derive(Default)]
struct Stripe([Counts; 2]);

struct Counts {
    by_bucket: [AtomicU32; BUCKETS],
    /// So many are not to be timed now, and were not before the next one that is. Threads that meet here may lose one another's steps.
    untimed: AtomicU32,
    before: AtomicU32,
    /// What the next number is drawn from.
    drawn: AtomicU32,
}

impl Default for Counts {
    fn default() -> Self {
        let by_bucket = std::array::from_fn(|_| AtomicU32::new(0));
        Self { by_bucket, untimed: AtomicU32::new(0), before: AtomicU32::new(0), drawn: AtomicU32::new(0x9e37_79b9) }
    }
}

impl Counts {
    /// Whether an operation is to be timed.
    fn is_due(&self) -> bool {
        let untimed = self.untimed.load(Ordering::Relaxed);
        self.untimed.store(untimed.saturating_sub(1), Ordering::Relaxed);
        untimed == 0
    }

    /// Count one that took so long, and for those before it that were not timed; so many after it go untimed, on average.
    fn count(&self, took_ns: u64, mean_skips: u32) {
        let stands_for = 1 + self.before.load(Ordering::Relaxed);
        self.by_bucket[bucket_of(took_ns)].fetch_add(stands_for, Ordering::Relaxed);
        let skips = if mean_skips == 0 { 0 } else { self.draw() % (2 * mean_skips + 1) };
        self.before.store(skips, Ordering::Relaxed);
        self.untimed.store(skips, Ordering::Relaxed);
    }

    /// Marsaglia, "Xorshift RNGs" (2003), of 32 bits; its upper half, whose remainders are spread more evenly.
    fn draw(&self) -> u32 {
        let mut x = self.drawn.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.drawn.store(x, Ordering::Relaxed);
        x >> 16
    }
}

/// Whether operations are looked at, and what threads count into.
pub(crate) struct Pulse {
    looks: AtomicU8,
    /// Operations that began before are not counted.
    since_ns: AtomicU64,
    stripes: Box<[Stripe]>,
    #[cfg(test)]
    times_each: std::sync::atomic::AtomicBool,
}

impl Pulse {
    /// Of a store that nobody looks at yet.
    pub(crate) fn new() -> Self {
        let stripes = (0..STRIPES).map(|_| Stripe::default()).collect();
        Self {
            looks: AtomicU8::new(0),
            since_ns: AtomicU64::new(0),
            stripes,
            #[cfg(test)]
            times_each: false.into(),
        }
    }

    /// Have accesses watched from now on, or no more.
    pub(crate) fn set_watched(&self, is_watched: bool) {
        if is_watched {
            self.looks.fetch_or(WATCHED, Ordering::Relaxed);
        } else {
            self.looks.fetch_and(!WATCHED, Ordering::Relaxed);
        }
    }

    /// What is to be done to an operation that begins now.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        Look(self.looks.load(Ordering::Relaxed))
    }

    /// Have operations timed from now on, or no more. What was counted before is forgotten.
    pub(crate) fn set_timed(&self, is_timed: bool) {
        if is_timed {
            self.looks.fetch_or(TIMED, Ordering::Relaxed);
        } else {
            self.looks.fetch_and(!TIMED, Ordering::Relaxed);
        }
        self.restart();
    }

    /// Forget what was counted, and whatever has begun: how long it takes is another time's doing.
    pub(crate) fn restart(&self) {
        self.since_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.take();
        for counts in self.stripes.iter().flat_map(|Stripe(counts)| counts) {
            counts.untimed.store(0, Ordering::Relaxed);
            counts.before.store(0, Ordering::Relaxed);
        }
    }

    /// Do `run`, and count how long it took if operations are timed.
    #[inline]
    pub(crate) fn timed<R>(&self, look: Look, way: Way, run: impl FnOnce() -> R) -> R {
        if look.0 & TIMED == 0 { run() } else { self.time(way, run) }
    }

    #[cold]
    fn time<R>(&self, way: Way, run: impl FnOnce() -> R) -> R {
        let counts = self.mine(way);
        if !counts.is_due() {
            return run();
        }
        let begun = monotonic_ns();
        let result = run();
        if begun >= self.since_ns.load(Ordering::Relaxed) {
            let took_ns = monotonic_ns() - begun;
            counts.count(took_ns, self.skips_after(way, took_ns));
        }
        result
    }

    fn skips_after(&self, way: Way, took_ns: u64) -> u32 {
        if way == Way::Write {
            return 0;
        }
        #[cfg(test)]
        if self.times_each.load(Ordering::Relaxed) {
            return 0;
        }
        SKIPS.iter().find(|(below_ns, _)| took_ns < *below_ns).map_or(0, |(_, skips)| *skips)
    }

    /// Have each operation timed, however quick.
    #[cfg(test)]
    pub(crate) fn time_each(&self) {
        self.times_each.store(true, Ordering::Relaxed);
    }

    /// Count an operation that took so long.
    #[cfg(test)]
    pub(crate) fn count(&self, way: Way, took_ns: u64) {
        self.mine(way).by_bucket[bucket_of(took_ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// Where this thread counts.
    fn mine(&self, way: Way) -> &Counts {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
        let Stripe(counts) = &self.stripes[STRIPE.try_with(|stripe| *stripe).unwrap_or(0)];
        &counts[way.index()]
    }

    /// What was counted since the last call, by [`Way::index`].
    pub(crate) fn take(&self) -> [Times; 2] {
        let mut all = [Times::default(), Times::default()];
        for Stripe(stripe) in &self.stripes {
            for (times, counts) in all.iter_mut().zip(stripe) {
                // Most are zero, and cost a load then.
                let counted =
                    counts.by_bucket.iter().enumerate().filter(|(_, count)| count.load(Ordering::Relaxed) > 0);
                counted.for_each(|(bucket, count)| times.0[bucket] += f64::from(count.swap(0, Ordering::Relaxed)));
            }
        }
        all
    }
}

/// How many operations of one way took how long.
#[derive(Debug, Clone)]
pub(crate) struct Times([f64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Self([0.0; BUCKETS])
    }
}

impl Times {
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|count| *count *= factor);
    }

    pub(crate) fn count(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The time that operations took beyond `bound_ns`, all together, in nanoseconds.
    pub(crate) fn beyond_ns(&self, bound_ns: f64) -> f64 {
        let beyond = |(bucket, count): (usize, &f64)| count * (middle_of(bucket) - bound_ns).max(0.0);
        self.0.iter().enumerate().map(beyond).sum()
    }

    /// The bound beyond which operations took `left_ns` all together; 0 where all of it is less. The reverse of [`beyond_ns`](Times::beyond_ns).
    pub(crate) fn bound_ns(&self, left_ns: f64) -> f64 {
        let (mut count, mut sum_ns) = (0.0, 0.0);
        for bucket in (0..BUCKETS).rev() {
            if self.0[bucket] > 0.0 {
                // The bound lies above this bucket if what is longer takes that much beyond it already.
                if sum_ns - count * middle_of(bucket) >= left_ns {
                    break;
                }
                count += self.0[bucket];
                sum_ns += self.0[bucket] * middle_of(bucket);
            }
        }
        if count > 0.0 { ((sum_ns - left_ns) / count).max(0.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_the_times_below_its_end_and_none_below_the_end_before() {
        for ns in (0..5_000).chain((0..40).map(|power| (1u64 << power) + 7)) {
            let bucket = bucket_of(ns);
            assert!(ns < end_of(bucket), "{ns} in {bucket}");
            assert!(bucket == 0 || ns >= end_of(bucket - 1), "{ns} in {bucket}");
            let middle = middle_of(bucket) / ns.max(4) as f64;
            assert!((0.88..=1.13).contains(&middle), "{ns}: {middle} of it");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_is_beyond_a_bound_and_the_bound_beyond_which_so_much_is_agree() {
        let pulse = Pulse::new();
        (1..=10_000).for_each(|number| pulse.count(Way::Write, number * 100));
        pulse.count(Way::Read, 77);
        let [reads, mut writes] = pulse.take();
        assert_eq!((reads.count(), writes.count()), (1.0, 10_000.0));
        // Of times spread evenly up to 1 ms, those above a bound are beyond it by half of what is left, on average. Buckets are a seventh to a
        // quarter of a time wide: a bound within one of the longest says nothing.
        for bound_ns in [200_000.0_f64, 500_000.0, 700_000.0] {
            let exact_ns = (1e6 - bound_ns).powi(2) / 200.0;
            let beyond_ns = writes.beyond_ns(bound_ns);
            assert!((0.7..1.3).contains(&(beyond_ns / exact_ns)), "{beyond_ns} for {exact_ns}");
            let back_ns = writes.bound_ns(beyond_ns);
            assert!((0.999..1.001).contains(&(back_ns / bound_ns)), "{back_ns} for {bound_ns}");
        }
        assert_eq!((reads.bound_ns(1e6), Times::default().bound_ns(0.0)), (0.0, 0.0));
        writes.scale(0.5);
        writes.add(&writes.clone());
        assert_eq!(writes.count(), 10_000.0);
        assert_eq!(pulse.take()[Way::Write.index()].count(), 0.0, "taken once");
    }

    /// Operations that take so long, by turns, one after the other; none is waited for.
    fn pass(pulse: &Pulse, way: Way, took_ns: &[u64], times: usize) -> usize {
        let counts = pulse.mine(way);
        let is_due = |_: &&u64| counts.is_due();
        let timed = took_ns.iter().cycle().take(times).filter(is_due);
        timed.inspect(|took_ns| counts.count(**took_ns, pulse.skips_after(way, **took_ns))).count()
    }

    /// Fails when what is not timed is not counted, or when writes or slow reads go untimed.
    #[test]
    fn quick_reads_are_timed_now_and_then_and_all_are_counted() {
        let pulse = Pulse::new();
        let timed = pass(&pulse, Way::Read, &[500], 80_000);
        assert!((9_000..=11_000).contains(&timed), "{timed}");
        assert_eq!((pass(&pulse, Way::Write, &[500], 50), pass(&Pulse::new(), Way::Read, &[5_000], 50)), (50, 50));
        let [reads, writes] = pulse.take();
        assert!((79_985.0..=80_000.0).contains(&reads.count()), "{}", reads.count());
        assert_eq!(writes.count(), 50.0);
    }

    /// Fails when quick reads are passed over in a rhythm that slow ones keep, too.
    #[test]
    fn no_rhythm_hides_slow_reads() {
        for slow in 0..8 {
            for period in [2, 4, 8] {
                let mut rhythm = vec![500; period];
                rhythm[slow % period] = 1_000_000;
                let pulse = Pulse::new();
                pass(&pulse, Way::Read, &rhythm, 80_000);
                let [reads, _] = pulse.take();
                let share = reads.beyond_ns(100_000.0) / 900_000.0 / 80_000.0 * period as f64;
                assert!((0.7..1.4).contains(&share), "read {slow} of {period} counts {share} times");
            }
        }
    }

    /// Fails when a stall that a move made counts as rest, because it ended there.
    #[test]
    fn what_had_begun_before_a_restart_is_not_counted() {
        let pulse = Pulse::new();
        pulse.set_timed(true);
        pulse.timed(pulse.look(), Way::Write, || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            pulse.restart();
        });
        assert_eq!(pulse.take()[Way::Write.index()].count(), 0.0);
    }

    /// Fails when `set_timed` keeps what was counted, and when it forgets that accesses are watched.
    #[test]
    fn operations_are_timed_only_while_somebody_asks_for_it() {
        for is_watched in [false, true] {
            let pulse = Pulse::new();
            pulse.set_watched(is_watched);
            let count = |pulse: &Pulse| pulse.take()[Way::Read.index()].count();
            assert_eq!((pulse.look().is_nothing(), pulse.look().is_watched()), (!is_watched, is_watched));
            pulse.timed(pulse.look(), Way::Read, || {});
            assert_eq!(count(&pulse), 0.0);
            pulse.set_timed(true);
            pulse.timed(pulse.look(), Way::Read, || {});
            assert!(!pulse.look().is_nothing() && count(&pulse) == 1.0);
            pulse.timed(pulse.look(), Way::Read, || {});
            pulse.set_timed(false);
            pulse.timed(pulse.look(), Way::Read, || {});
            assert_eq!((count(&pulse), pulse.look().is_nothing()), (0.0, !is_watched));
            pulse.set_watched(false);
            assert!(pulse.look().is_nothing());
        }
    }
}
