//! What users' operations leave for the planner: samples of what they touch, and how long those took that touch several keys.
//!
//! Only a store that repartitions has one. What is on the way of every operation is a count-down in the thread ([`Tracker`]); one group in
//! [`TIMED`] is timed as well, by the number of its keys and by whether they lay together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use biombo_base::clock::monotonic_ns;
use biombo_engine::Op;
use biombo_tracker::{GROUP_KEYS_MAX, Rates, Tracker};

/// One group in so many is timed, and more often while something was moved to learn from: primes, so that callers who do things in turn have each of
/// them timed.
const TIMED: u32 = 13;
const TIMED_CLOSELY: u32 = 7;
/// A group that took so many times longer than is usual for its like counts as one that took just that: a thread that the processor was taken
/// from says nothing about partitions.
const OUTLIER_TIMES: u64 = 4;

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Where the operations of a store leave what they did.
pub(crate) struct Watch {
    pub(crate) tracker: Tracker,
    meter: Meter,
    /// Whether scans tell what they went over: where units are ranges.
    pub(crate) spans: bool,
}

impl Watch {
    pub(crate) fn new(rates: Rates, spans: bool) -> Self {
        Self { tracker: Tracker::new(rates), meter: Meter::default(), spans }
    }

    /// An operation that is written for itself.
    #[inline]
    pub(crate) fn write_one(&self, op: &Op<'_>) {
        if let Some(key) = key_of(op) {
            self.tracker.write(key);
        }
    }

    /// An atomic write of several `ops`, done by `run`; `place` says which partition owns a key.
    #[inline]
    pub(crate) fn write<R>(&self, ops: &[Op<'_>], place: impl Fn(&[u8]) -> usize, run: impl FnOnce() -> R) -> R {
        self.tracker.write_group(ops.len(), || ops.iter().filter_map(key_of));
        self.meter.time(Way::Write, ops.len(), || ops.iter().filter_map(key_of).map(place), run)
    }

    /// Operations that are written for themselves.
    pub(crate) fn write_each(&self, ops: &[Op<'_>]) {
        ops.iter().for_each(|op| self.write_one(op));
    }

    /// A read of several keys, done by `run`.
    #[inline]
    pub(crate) fn read_group<R>(
        &self,
        keys: &[impl AsRef<[u8]>],
        place: impl Fn(&[u8]) -> usize,
        run: impl FnOnce() -> R,
    ) -> R {
        if let [key] = keys {
            self.tracker.read(key.as_ref());
            return run();
        }
        self.tracker.read_group(keys.len(), || keys.iter().map(AsRef::as_ref));
        self.meter.time(Way::Read, keys.len(), || keys.iter().map(|key| place(key.as_ref())), run)
    }

    /// Time groups often from now on, or no more.
    pub(crate) fn set_close(&self, is_close: bool) {
        self.meter.every.store(if is_close { TIMED_CLOSELY } else { TIMED }, Ordering::Relaxed);
    }

    /// The times since the last call.
    pub(crate) fn take_times(&self) -> Times {
        self.meter.take()
    }
}

fn key_of<'a>(op: &Op<'a>) -> Option<&'a [u8]> {
    match op {
        Op::Put { key, .. } | Op::Delete { key } => Some(key),
        Op::DeleteRange { .. } => None,
    }
}

thread_local! {
    /// Groups until the next one is timed.
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Sums of groups of one way and size that lie together, or of such that lie apart.
#[derive(Default)]
struct Sums {
    count: AtomicU64,
    ns: AtomicU64,
    /// Of their times, in squares of [`COARSE_NS`].
    squares: AtomicU64,
    /// Cut edges, in thousandths.
    cut: AtomicU64,
    /// What one usually takes; 0: none was timed.
    usual_ns: AtomicU64,
}

impl Sums {
    /// Racing threads may lose each other's news of what is usual: it is about right all the same.
    fn add(&self, took_ns: u64, cut: f64) {
        let usual_ns = self.usual_ns.load(Ordering::Relaxed);
        let new_ns = match usual_ns {
            0 => took_ns,
            // Down soon, up slowly: it begins with whatever came first.
            _ if took_ns < usual_ns => (usual_ns + took_ns) / 2,
            _ => usual_ns + (took_ns.min(OUTLIER_TIMES * usual_ns) - usual_ns) / 16,
        };
        self.usual_ns.store(new_ns.max(1), Ordering::Relaxed);
        // The first one is not known to be none of the outliers.
        if usual_ns > 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
            let took_ns = took_ns.min(OUTLIER_TIMES * usual_ns);
            self.ns.fetch_add(took_ns, Ordering::Relaxed);
            let coarse = (took_ns + COARSE_NS / 2) / COARSE_NS;
            self.squares.fetch_add(coarse.saturating_mul(coarse), Ordering::Relaxed);
            self.cut.fetch_add((cut * MILLI) as u64, Ordering::Relaxed);
        }
    }

    /// How often, how long, the squares of that, and by how many edges cut.
    fn take(&self) -> [f64; 4] {
        let sums = [&self.count, &self.ns, &self.squares, &self.cut];
        let [count, ns, squares, cut] = sums.map(|sum| sum.swap(0, Ordering::Relaxed) as f64);
        [count, ns, squares * (COARSE_NS * COARSE_NS) as f64, cut / MILLI]
    }
}

/// What threads add to.
struct Meter {
    /// One group in so many is timed.
    every: AtomicU32,
    sums: [[[Sums; 2]; GROUP_KEYS_MAX + 1]; 2],
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            every: AtomicU32::new(TIMED),
            sums: std::array::from_fn(|_| std::array::from_fn(|_| Default::default())),
        }
    }
}

/// How often groups of one size were timed, how long they took (and the squares of that), and by how many edges of a path through their keys they
/// were cut.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Timed {
    /// Whose keys lay in one partition.
    pub(crate) together: f64,
    pub(crate) together_ns: f64,
    pub(crate) together_ns2: f64,
    /// Whose keys lay in several.
    pub(crate) apart: f64,
    pub(crate) apart_ns: f64,
    pub(crate) apart_ns2: f64,
    pub(crate) apart_cut: f64,
}

/// What was timed, by way and size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Times(pub(crate) [[Timed; GROUP_KEYS_MAX + 1]; 2]);

impl Default for Times {
    fn default() -> Self {
        Self([[Timed::default(); GROUP_KEYS_MAX + 1]; 2])
    }
}

/// Of a cut edge, which are counted in whole numbers.
const MILLI: f64 = 1000.0;
/// Squares of times are summed in this unit: such of seconds, by the hundreds between two looks, must not overflow.
const COARSE_NS: u64 = 16;

impl Meter {
    /// Do `run`, and now and then time it.
    #[inline]
    fn time<R, I: Iterator<Item = usize>>(
        &self,
        way: Way,
        count: usize,
        places: impl FnOnce() -> I,
        run: impl FnOnce() -> R,
    ) -> R {
        let is_due = LEFT.try_with(|left| {
            let now = left.get();
            left.set(now.checked_sub(1).unwrap_or_else(|| self.every.load(Ordering::Relaxed) - 1));
            now == 0
        });
        if count > GROUP_KEYS_MAX || !is_due.unwrap_or(false) {
            return run();
        }
        let mut places: Vec<usize> = places().collect();
        let begun = monotonic_ns();
        let result = run();
        let took_ns = monotonic_ns() - begun;
        places.sort_unstable();
        #[cfg(test)]
        let took_ns = told::took_ns(&places).unwrap_or(took_ns);
        self.add(way, &places, took_ns);
        result
    }

    /// `places` are in order.
    fn add(&self, way: Way, places: &[usize], took_ns: u64) {
        if let Some([together, apart]) = self.sums[way.index()].get(places.len()).filter(|_| places.len() > 1) {
            let cut = cut_of_path(places);
            if cut == 0.0 { together.add(took_ns, cut) } else { apart.add(took_ns, cut) }
        }
    }

    fn take(&self) -> Times {
        let mut times = Times::default();
        for way in Way::ALL {
            for (timed, [together, apart]) in times.0[way.index()].iter_mut().zip(&self.sums[way.index()]) {
                let [together, together_ns, together_ns2, _] = together.take();
                let [apart, apart_ns, apart_ns2, apart_cut] = apart.take();
                *timed = Timed { together, together_ns, together_ns2, apart, apart_ns, apart_ns2, apart_cut };
            }
        }
        times
    }
}

/// How many edges of a path through keys in random order lead from one partition to another, on average: what the tracker ties, and
/// so what the graph of accesses counts. `places` are the keys' partitions, in order.
pub(crate) fn cut_of_path(places: &[usize]) -> f64 {
    let count = places.len() as f64;
    let pairs: f64 = places.chunk_by(|a, b| a == b).map(|same| (same.len() * (same.len() - 1)) as f64).sum();
    if places.is_empty() { 0.0 } else { count - 1.0 - pairs / count }
}

/// Where tests say how long a group takes, whatever the machine does meanwhile.
#[cfg(test)]
pub(crate) mod told {
    use std::cell::Cell;

    type Told = fn(&[usize]) -> u64;

    thread_local!(static TOLD: Cell<Option<Told>> = const { Cell::new(None) });

    /// From now on groups of this thread take what `told` makes of the partitions of their keys.
    pub(crate) fn take(told: Told) {
        TOLD.set(Some(told));
    }

    thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });

    /// So much time passes for loops that this thread drives.
    pub(crate) fn pass(ns: u64) {
        NOW_NS.set(NOW_NS.get() + ns);
    }

    pub(crate) fn now_ns() -> u64 {
        NOW_NS.get()
    }

    pub(super) fn took_ns(places: &[usize]) -> Option<u64> {
        TOLD.get().map(|told| told(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_by_as_many_edges_as_random_orders_are_on_average() {
        assert_eq!(cut_of_path(&[]), 0.0);
        assert_eq!(cut_of_path(&[3, 3, 3]), 0.0);
        assert_eq!(cut_of_path(&[0, 1, 2, 3]), 3.0);
        let mut places = [0, 0, 0, 1, 1, 2];
        let expected = cut_of_path(&places);
        let mut random = 12345u64;
        let mut cut = 0;
        for _ in 0..20_000 {
            for at in (1..places.len()).rev() {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                places.swap(at, (random >> 33) as usize % (at + 1));
            }
            cut += places.windows(2).filter(|pair| pair[0] != pair[1]).count();
        }
        let mean = f64::from(cut as u32) / 20_000.0;
        assert!((mean - expected).abs() < 0.05, "{mean} by trial, {expected} by the formula");
    }

    #[test]
    fn groups_are_timed_by_their_size_and_by_whether_they_lie_together() {
        told::take(|places| 1_600 * places.len() as u64);
        let watch = Watch::new(Rates::default(), false);
        let put = |key: &'static [u8]| Op::Put { key, value: b"" };
        let (two, three) = ([put(b"a"), put(b"a2")], [put(b"a"), put(b"b"), put(b"c")]);
        let place = |key: &[u8]| usize::from(key[0]);
        for _ in 0..2 * TIMED {
            watch.write(&two, place, || {});
            watch.write(&three, place, || {});
            watch.read_group(&[b"a", b"b"], place, || {});
            watch.write_one(&put(b"a"));
        }
        let times = watch.take_times();
        let [reads, writes] = &times.0;
        // Three of them in turn, and so each has been timed twice; the first time does not count.
        let (two_ns, three_ns) = (3_200.0f64, 4_800.0f64);
        let together = Timed { together: 1.0, together_ns: two_ns, together_ns2: two_ns.powi(2), ..Timed::default() };
        let apart = |ns: f64, cut| Timed {
            apart: 1.0,
            apart_ns: ns,
            apart_ns2: ns.powi(2),
            apart_cut: cut,
            ..Timed::default()
        };
        assert_eq!((writes[2], writes[3], reads[2]), (together, apart(three_ns, 2.0), apart(two_ns, 1.0)));
        assert_eq!(writes[1], Timed::default());
        assert_eq!(watch.take_times(), Times::default(), "taken once");
        let timed = |is_close| {
            watch.set_close(is_close);
            (0..20 * TIMED * TIMED_CLOSELY).for_each(|_| watch.write(&three, place, || {}));
            watch.take_times().0[Way::Write.index()][3].apart as u32
        };
        let (closely, seldom) = (timed(true), timed(false));
        assert!(closely.abs_diff(20 * TIMED) <= 5 && seldom.abs_diff(20 * TIMED_CLOSELY) <= 1, "{closely}, {seldom}");
    }

    #[test]
    fn a_time_out_of_proportion_changes_little_wherever_it_comes() {
        for outlier_at in [0, 1, 50] {
            let meter = Meter::default();
            for turn in 0..100 {
                meter.add(Way::Write, &[0, 1], if turn == outlier_at { 10_000_000 } else { 10_000 + turn % 7 });
            }
            let timed = meter.take().0[Way::Write.index()][2];
            let mean_ns = timed.apart_ns / timed.apart;
            assert!((9_000.0..12_000.0).contains(&mean_ns), "{mean_ns} with one at {outlier_at}");
        }
        // What takes longer for good does not stay an outlier.
        let meter = Meter::default();
        for turn in 0..400 {
            meter.add(Way::Read, &[0, 0], if turn < 20 { 1_000 } else { 100_000 });
        }
        let timed = meter.take().0[Way::Read.index()][2];
        assert!(timed.together_ns / timed.together > 50_000.0, "{timed:?}");
    }
}
