//! How a move rests: for its rate after what it copied, and for its share of the time after what it did.
//!
//! A pass over a partition may look at a million keys of which it wants two: it copies next to nothing, and works all the time. So both are owed,
//! and both are paid by the same rest, the longer of the two. It is slept in slices, and before each of them the share is asked again, and
//! whether the store is closing.
//!
//! Invariants: nobody rests for longer than [`REST_MAX`] at a time, because writes that are forwarded gather meanwhile, nor beyond a slice after
//! a quarter of what may gather has (what is left is owed after the next chunk) or the store began to close; whoever is [`Governed`] has the role.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::throttle::{Go, Throttle};
use super::walk::Chunk;
use super::{Mover, Pace};
use crate::lane::Instance;

/// The longest sleep after which it is asked again how to go on.
const SLICE: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_secs(1);
/// A share below it does not make chunks smaller: each of them costs a cursor and a commit.
const CHUNK_SHARE_MIN: f64 = 0.25;
/// So many times more is read and written at a time where commits are dear.
const COSTLY_TIMES: usize = 4;

/// Time as moves see it.
mod time {
    use std::time::Duration;

    pub(super) fn now_ns() -> u64 {
        #[cfg(test)]
        if let Some(now_ns) = super::played::now_ns() {
            return now_ns;
        }
        biombo_base::clock::monotonic_ns()
    }

    pub(super) fn sleep(time: Duration) {
        #[cfg(test)]
        if super::played::sleep(time) {
            return;
        }
        std::thread::sleep(time);
    }
}

/// What who moves or cleans still has to rest for.
pub(super) struct Owed {
    bytes: f64,
    work_ns: f64,
    /// It has worked since then.
    since_ns: u64,
    bytes_per_second: Option<u64>,
    share_max: f64,
    work_ns_min: f64,
}

impl Owed {
    /// By whoever moves or cleans at a pace; nothing, where that has no rate.
    pub(super) fn at(pace: Pace) -> Self {
        let bytes_per_second = pace.bytes_per_second.map(|rate| rate.max(1));
        let since_ns = time::now_ns();
        Self { bytes: 0.0, work_ns: 0.0, since_ns, bytes_per_second, share_max: 1.0, work_ns_min: 0.0 }
    }

    /// By whoever works a share of the time at most; a chunk of work counts as so long at least.
    pub(super) fn for_work(share_max: f64, work_min: Duration) -> Self {
        Self { share_max, work_ns_min: work_min.as_nanos() as f64, ..Self::at(Pace::default()) }
    }

    /// How long it takes to pay all, at a share.
    fn due_ns(&self, share: f64) -> f64 {
        let rate = self.bytes_per_second.map_or(f64::INFINITY, |rate| rate as f64 / 1e9);
        (self.bytes / (rate * share)).max(self.work_ns * (1.0 / share - 1.0))
    }

    /// So long it was rested.
    fn pay(&mut self, rested_ns: f64, share: f64) {
        let rate = self.bytes_per_second.map_or(f64::INFINITY, |rate| rate as f64 / 1e9);
        self.bytes = (self.bytes - rested_ns * rate * share).max(0.0);
        let work_ns = if share < 1.0 { rested_ns * share / (1.0 - share) } else { f64::INFINITY };
        self.work_ns = (self.work_ns - work_ns).max(0.0);
    }
}

/// While it lives, users' operations are timed, and the thread that has it moves as they bear.
pub(crate) struct Governed<'a>(Option<&'a Throttle>);

impl Drop for Governed<'_> {
    fn drop(&mut self) {
        if let Some(throttle) = self.0 {
            throttle.end(time::now_ns());
        }
    }
}

impl Mover {
    /// Have moves governed. A second throttle is ignored.
    pub(crate) fn govern_by(&self, throttle: Throttle) {
        let _ = self.throttle.set(throttle);
    }

    /// Begin to move at a pace, by the thread that has the role: after a look at what users' operations take, unless there was one lately.
    /// A pace without a rate is governed by nobody.
    pub(crate) fn govern(&self, pace: Pace) -> Option<Governed<'_>> {
        pace.bytes_per_second?;
        let governed = self.governed(true);
        self.rest(&mut Owed::at(pace), 0);
        Some(governed)
    }

    /// Begin to clean what nobody waits for, by the thread that has the role: slowly, and at once.
    pub(super) fn govern_tidying(&self) -> Governed<'_> {
        self.governed(false)
    }

    fn governed(&self, looks_first: bool) -> Governed<'_> {
        let throttle = self.throttle.get();
        if let Some(throttle) = throttle {
            throttle.begin(time::now_ns(), looks_first);
        }
        Governed(throttle)
    }

    /// The share of its rate that the latest move came to.
    pub(crate) fn latest_share(&self) -> f64 {
        self.throttle.get().map_or(1.0, Throttle::latest)
    }

    fn go(&self, now_ns: u64) -> Go {
        self.throttle.get().map_or(Go { share: 1.0, stands: false }, |throttle| throttle.go(now_ns))
    }

    /// Let time pass; false: the store is closing.
    fn sleep(&self, time: Duration) -> bool {
        time::sleep(time);
        !self.closing.load(Ordering::Relaxed)
    }

    /// Rest after so many bytes and the work since the last rest, if a rate was asked for.
    pub(super) fn rest(&self, owed: &mut Owed, bytes: usize) {
        self.rest_while(owed, bytes, &|| true);
    }

    /// As [`rest`](Mover::rest), no longer than `may` says.
    pub(super) fn rest_while(&self, owed: &mut Owed, bytes: usize, may: &dyn Fn() -> bool) {
        if owed.bytes_per_second.is_some() {
            // Who moves asks for itself whether the store is closing.
            let _ = self.rest_with(owed, bytes, &mut |time| self.sleep(time) && may());
        }
    }

    /// As [`rest`](Mover::rest), where `sleep` says whether to go on; returns what it said last.
    pub(super) fn rest_with(&self, owed: &mut Owed, bytes: usize, sleep: &mut dyn FnMut(Duration) -> bool) -> bool {
        let begun_ns = time::now_ns();
        owed.bytes += bytes as f64;
        owed.work_ns += (begun_ns.saturating_sub(owed.since_ns) as f64).max(owed.work_ns_min);
        let mut now_ns = begun_ns;
        let goes_on = loop {
            let go = self.go(now_ns);
            let share = go.share.min(owed.share_max);
            let due_ns = owed.due_ns(share) as u64;
            if !go.stands && due_ns == 0 {
                // At this share nothing is owed: a smaller one does not count for what was before.
                (owed.bytes, owed.work_ns) = (0.0, 0.0);
                break true;
            }
            if !go.stands && now_ns - begun_ns >= REST_MAX.as_nanos() as u64 {
                break true;
            }
            let slice = if go.stands { SLICE } else { Duration::from_nanos(due_ns).min(SLICE) };
            if !sleep(slice) {
                break false;
            }
            let slept_ns = std::mem::replace(&mut now_ns, time::now_ns());
            owed.pay((now_ns - slept_ns) as f64, share);
        };
        owed.since_ns = now_ns;
        self.totals.rested_ns.fetch_add(now_ns - begun_ns, Ordering::Relaxed);
        goes_on
    }

    /// How finely a move, or a cleaning, that writes to `target` is cut now.
    pub(super) fn cut(&self, pace: Pace, target: &Instance) -> Chunk {
        let throttle = self.throttle.get().filter(|_| pace.bytes_per_second.is_some());
        let share = throttle.map_or(1.0, |throttle| throttle.share());
        cut(pace, share, target.engine.capabilities().costly_transactions)
    }
}

/// A pace cut by a share: who writes meanwhile waits for one piece at most, and a processor is taken for one at a time. A key that is looked at costs
/// about a microsecond, and one that is deleted another, with writers kept out; so keys go by the square of the share.
pub(super) fn cut(pace: Pace, share: f64, is_costly: bool) -> Chunk {
    let share = share.max(CHUNK_SHARE_MIN);
    let times = if is_costly { COSTLY_TIMES } else { 1 };
    let keys = (pace.chunk_keys as f64 * share * share) as usize;
    let bytes = (pace.chunk_bytes as f64 * share) as usize;
    Chunk { keys: keys.saturating_mul(times).min(pace.chunk_keys), bytes: bytes.saturating_mul(times) }
}

/// Where tests play time for the moves of their thread.
#[cfg(test)]
pub(super) mod played {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    type Sleep = Box<dyn FnMut(Duration)>;

    thread_local! {
        static NOW_NS: Cell<Option<u64>> = const { Cell::new(None) };
        static SLEEP: RefCell<Option<Sleep>> = const { RefCell::new(None) };
    }

    /// What a look at the clock takes: moves seem to work.
    pub(in super::super) const LOOK_NS: u64 = 100_000;

    /// While it lives, moves of this thread sleep by `sleep`, which need not wait: time goes on by itself.
    #[must_use]
    pub(in super::super) struct Played;

    impl Played {
        pub(in super::super) fn begin(sleep: impl FnMut(Duration) + 'static) -> Self {
            NOW_NS.set(Some(0));
            SLEEP.set(Some(Box::new(sleep)));
            Self
        }
    }

    impl Drop for Played {
        fn drop(&mut self) {
            NOW_NS.set(None);
            SLEEP.set(None);
        }
    }

    pub(super) fn now_ns() -> Option<u64> {
        NOW_NS.set(NOW_NS.get().map(|now_ns| now_ns + LOOK_NS));
        NOW_NS.get()
    }

    pub(super) fn sleep(time: Duration) -> bool {
        NOW_NS.set(NOW_NS.get().map(|now_ns| now_ns + time.as_nanos() as u64));
        SLEEP.with_borrow_mut(|sleep| sleep.as_mut().map(|sleep| sleep(time))).is_some()
    }
}
