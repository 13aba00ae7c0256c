//! How much of its rate a move takes: less while users feel it.
//!
//! What a caller in an open loop feels of an operation that takes long is not one slow operation: everybody who comes due meanwhile waits for
//! it, the first of them all of its time. So times count by what they take beyond a bound, not by heads: the *felt* time is the bound beyond which
//! operations spent a thousandth of the time that passed, which is the 99.9th percentile of the waits of one caller who comes at any moment. What is
//! felt at rest is compared with what is felt while something moves, reads and writes each for themselves. Is more than a thousandth of the time
//! spent beyond [`TIMES`] the former, the share is halved, else it grows by a step: additive increase, multiplicative decrease (Chiu and
//! Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer networks", 1989), so that it swings below
//! what users bear.
//!
//! What is felt at rest is learnt by standing still: a *look* of a fifth of a second before a move, unless there was one lately; now and
//! then in a long one; where others came than at the last one; and where users feel the least share too, to see whether it is the move or another
//! load. Operations are timed from
//! the begin of a move, or of its look, to its end ([`Pulse`] says which of them), and none at other times.
//!
//! Invariants:
//!
//! 1. The share is between [`SHARE_MIN`] and 1, and a move begins with [`SHARE_FIRST`] at most.
//! 2. It grows only if both ways were judged that had operations, or if there were none for a second; seen and not judged holds it.
//! 3. What was timed while something moved never counts as rest, nor the reverse.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::planning::Way;
use crate::pulse::{Pulse, Times};

/// So many times what is felt at rest is too much: twice is promised, and what is too much is known only when it was felt.
const TIMES: f64 = 1.5;
/// The share of the time that decides: one that is spent beyond the felt time.
const FELT: f64 = 1e-3;
/// What is shorter nobody feels: the clock, the caches and the scheduler make as much.
const FELT_MIN_NS: f64 = 20_000.0;
pub(super) const SHARE_MIN: f64 = 1.0 / 8.0;
/// It begins slowly.
pub(super) const SHARE_FIRST: f64 = 1.0 / 4.0;
const STEP: f64 = 1.0 / 32.0;
/// It is judged as often as this, a way by so many operations at rest, and so many since; what has not come to as many after the longer
/// time is forgotten.
const JUDGED_NS: u64 = 100_000_000;
const RESTED_MIN: f64 = 16.0;
const TIMED_MIN: f64 = 64.0;
const FORGOTTEN_NS: f64 = 10e9;
/// After so long without an operation nobody is there to feel anything.
const ALONE_NS: u64 = 1_000_000_000;
/// How long a look takes; without any operation, and with too few.
const LOOK_NS: u64 = 200_000_000;
const LOOK_ALONE_NS: u64 = 50_000_000;
const LOOK_LONGEST_NS: u64 = 1_000_000_000;
/// How old a look may be before a move begins, and while it goes on; the least time between two of them in one move.
const LOOKED_BEFORE_NS: u64 = 5_000_000_000;
const LOOKED_NS: u64 = 10_000_000_000;
const LOOK_AGAIN_NS: u64 = 2_000_000_000;
/// After this time a look counts half, beside the ones after it.
const HALF_LIFE_NS: f64 = 3e9;

/// What operations of one way took, in how much time.
#[derive(Default)]
struct Seen {
    times: Times,
    elapsed_ns: f64,
}

impl Seen {
    fn add(&mut self, times: &Times, elapsed_ns: f64) {
        self.times.add(times);
        self.elapsed_ns += elapsed_ns;
    }

    fn scale(&mut self, factor: f64) {
        self.times.scale(factor);
        self.elapsed_ns *= factor;
    }

    fn felt_ns(&self) -> f64 {
        self.times.bound_ns(FELT * self.elapsed_ns).max(FELT_MIN_NS)
    }

    fn count(&self) -> f64 {
        self.times.count()
    }
}

/// What is to be said of one way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No operation came.
    Alone,
    /// Too few came, here or at rest.
    Unknown,
    Good,
    Slow,
}

/// What who moves is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Go {
    /// Of its rate, and of its time.
    pub(super) share: f64,
    /// It is to stand still now, for a look.
    pub(super) stands: bool,
}

/// The control itself: times go in, a share comes out.
struct Control {
    /// By [`Way::index`].
    rest: [Seen; 2],
    moving: [Seen; 2],
    share: f64,
    /// Up to which time it was told; what passes between two moves is nobody's.
    now_ns: u64,
    /// Told since it judged the last time.
    unjudged_ns: u64,
    /// Told since the latest operation.
    alone_ns: u64,
    look_begun_ns: Option<u64>,
    looked_ns: Option<u64>,
    /// Up to which time what was seen at rest has aged.
    aged_ns: u64,
}

impl Control {
    fn new() -> Self {
        Self {
            rest: Default::default(),
            moving: Default::default(),
            share: SHARE_FIRST,
            now_ns: 0,
            unjudged_ns: 0,
            alone_ns: 0,
            look_begun_ns: None,
            looked_ns: None,
            aged_ns: 0,
        }
    }

    /// Somebody begins to move: slowly, and if it `looks_first` after a look, unless there was one lately.
    fn begin(&mut self, now_ns: u64, looks_first: bool) {
        self.share = self.share.min(SHARE_FIRST);
        self.now_ns = now_ns;
        if looks_first && self.is_look_older(LOOKED_BEFORE_NS) {
            self.begin_look();
        }
    }

    /// It has ended; since it was told the last time, operations took so long. Short moves are judged together.
    fn end(&mut self, now_ns: u64, new: &[Times; 2]) {
        if self.look_begun_ns.is_none() {
            self.told(now_ns, new);
        }
        // One that was not finished says nothing.
        self.look_begun_ns = None;
    }

    fn is_look_older(&self, than_ns: u64) -> bool {
        self.looked_ns.is_none_or(|looked_ns| self.now_ns.saturating_sub(looked_ns) > than_ns)
    }

    fn begin_look(&mut self) {
        let age_ns = self.now_ns.saturating_sub(self.aged_ns) as f64;
        self.rest.iter_mut().for_each(|rest| rest.scale((-age_ns / HALF_LIFE_NS).exp2()));
        self.moving = Default::default();
        (self.unjudged_ns, self.alone_ns, self.aged_ns) = (0, 0, self.now_ns);
        self.look_begun_ns = Some(self.now_ns);
    }

    /// Whether it should be told by `now_ns` what operations took.
    fn is_due(&self, now_ns: u64) -> bool {
        let new_ns = now_ns.saturating_sub(self.now_ns);
        if self.look_begun_ns.is_some() { new_ns >= LOOK_ALONE_NS } else { self.unjudged_ns + new_ns >= JUDGED_NS }
    }

    fn go(&self) -> Go {
        Go { share: self.share, stands: self.look_begun_ns.is_some() }
    }

    /// Since it was told the last time, operations took so long.
    fn told(&mut self, now_ns: u64, new: &[Times; 2]) -> Go {
        let elapsed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns = now_ns;
        self.alone_ns = if new.iter().any(|times| times.count() > 0.0) { 0 } else { self.alone_ns + elapsed_ns };
        let kept = if self.look_begun_ns.is_some() { &mut self.rest } else { &mut self.moving };
        kept.iter_mut().zip(new).for_each(|(kept, new)| kept.add(new, elapsed_ns as f64));
        if let Some(begun_ns) = self.look_begun_ns {
            self.look(now_ns.saturating_sub(begun_ns));
        } else {
            self.unjudged_ns += elapsed_ns;
            if self.unjudged_ns >= JUDGED_NS {
                self.unjudged_ns = 0;
                self.judge();
            }
        }
        self.go()
    }

    /// End a look that has taken so long, if that is enough.
    fn look(&mut self, took_ns: u64) {
        let is_alone = self.alone_ns >= took_ns;
        let knows = self.rest.iter().all(|rest| rest.count() == 0.0 || rest.count() >= RESTED_MIN);
        if is_alone || took_ns >= LOOK_LONGEST_NS || (took_ns >= LOOK_NS && knows) {
            (self.look_begun_ns, self.looked_ns) = (None, Some(self.now_ns));
        }
    }

    fn verdict(&self, way: Way) -> Verdict {
        let (rest, seen) = (&self.rest[way.index()], &self.moving[way.index()]);
        if seen.count() == 0.0 {
            Verdict::Alone
        } else if rest.count() < RESTED_MIN {
            Verdict::Unknown
        } else if seen.times.beyond_ns(TIMES * rest.felt_ns()) > FELT * seen.elapsed_ns {
            Verdict::Slow
        } else if seen.count() >= TIMED_MIN {
            Verdict::Good
        } else {
            Verdict::Unknown
        }
    }

    fn judge(&mut self) {
        let verdicts = Way::ALL.map(|way| self.verdict(way));
        let is_least = self.share <= SHARE_MIN;
        let mut wants_look = self.is_look_older(LOOKED_NS) && verdicts != [Verdict::Alone; 2];
        if verdicts.contains(&Verdict::Slow) {
            self.share = (self.share / 2.0).max(SHARE_MIN);
            // Is it the move, or another load?
            wants_look |= is_least && self.is_look_older(LOOK_AGAIN_NS);
        } else if verdicts.contains(&Verdict::Unknown) {
            // Who came only after the look.
            let is_new = |way: Way| self.moving[way.index()].count() >= TIMED_MIN;
            wants_look |= Way::ALL.into_iter().any(|way| verdicts[way.index()] == Verdict::Unknown && is_new(way))
                && self.is_look_older(LOOK_AGAIN_NS);
        } else if verdicts.contains(&Verdict::Good) {
            self.share = (self.share + STEP).min(1.0);
        } else if self.alone_ns >= ALONE_NS {
            self.share = (2.0 * self.share).min(1.0);
        }
        for (seen, verdict) in self.moving.iter_mut().zip(verdicts) {
            // Each way goes on gathering until it is judged for itself; a good one waits for the other.
            let is_judged = verdict == Verdict::Slow || !verdicts.contains(&Verdict::Unknown);
            if is_judged || verdict == Verdict::Alone || seen.elapsed_ns > FORGOTTEN_NS {
                *seen = Seen::default();
            }
        }
        if wants_look {
            self.begin_look();
        }
    }
}

/// The control of a store, fed by what its users' operations take.
pub(crate) struct Throttle {
    pulse: Arc<Pulse>,
    control: Mutex<Control>,
}

impl Throttle {
    pub(crate) fn new(pulse: Arc<Pulse>) -> Self {
        Self { pulse, control: Mutex::new(Control::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A move begins.
    pub(super) fn begin(&self, now_ns: u64, looks_first: bool) {
        self.lock().begin(now_ns, looks_first);
        self.pulse.set_timed(true);
    }

    /// The share that the latest move came to.
    pub(super) fn latest(&self) -> f64 {
        self.lock().share
    }

    /// It has ended.
    pub(super) fn end(&self, now_ns: u64) {
        self.lock().end(now_ns, &self.pulse.take());
        self.pulse.set_timed(false);
    }

    /// What was said last.
    pub(super) fn share(&self) -> f64 {
        self.lock().go().share
    }

    /// How to go on.
    pub(super) fn go(&self, now_ns: u64) -> Go {
        let mut control = self.lock();
        let before = control.go();
        if !control.is_due(now_ns) {
            return before;
        }
        let go = control.told(now_ns, &self.pulse.take());
        if go.stands && !before.stands {
            // Who waits for the move still is not at rest.
            self.pulse.restart();
        }
        go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 100_000_000;

    /// Users, in ticks of a tenth of a second: what they do in a tick is told by `does`, to which the share is given that something moves at, or
    /// none while nothing does.
    struct Users<F> {
        control: Control,
        pulse: Pulse,
        now_ns: u64,
        does: F,
    }

    impl<F: Fn(&Pulse, Option<f64>)> Users<F> {
        fn new(does: F) -> Self {
            let mut control = Control::new();
            control.begin(0, true);
            Self { control, pulse: Pulse::new(), now_ns: 0, does }
        }

        /// The shares after each of so many ticks.
        fn moving(&mut self, ticks: usize) -> Vec<f64> {
            let tick = |_| {
                let go = self.control.go();
                (self.does)(&self.pulse, (!go.stands).then_some(go.share));
                self.now_ns += TICK_NS;
                self.control.told(self.now_ns, &self.pulse.take()).share
            };
            (0..ticks).map(tick).collect()
        }
    }

    fn some(pulse: &Pulse, way: Way, count: u64, took_ns: u64) {
        (0..count).for_each(|_| pulse.count(way, took_ns));
    }

    /// 400 writes in a tick, of which 2 in 100 take `slow_ns`.
    fn writes(pulse: &Pulse, slow_ns: u64) {
        some(pulse, Way::Write, 392, 10_000);
        some(pulse, Way::Write, 8, slow_ns);
    }

    fn mean(shares: &[f64]) -> f64 {
        shares.iter().sum::<f64>() / shares.len() as f64
    }

    /// Fails if a move begins with what the former one had, and if good verdicts do not raise the share.
    #[test]
    fn a_move_that_nobody_feels_comes_to_its_whole_rate_and_every_one_begins_slowly() {
        let mut users = Users::new(|pulse, _| writes(pulse, 12_000));
        for _ in 0..2 {
            let shares = users.moving(40);
            assert!(shares[3] < 0.4 && shares.is_sorted() && shares[39] == 1.0, "{shares:?}");
            users.now_ns += 60 * TICK_NS;
            users.control.begin(users.now_ns, true);
        }
        // Nor does it wait for users who do nothing.
        let shares = Users::new(|_, _| {}).moving(20);
        assert!(shares[8] == SHARE_FIRST && shares[19] == 1.0, "{shares:?}");
    }

    #[test]
    fn the_rate_swings_below_what_users_bear() {
        let felt = |share: Option<f64>| if share.is_some_and(|share| share > 0.6) { 100_000 } else { 12_000 };
        let shares = Users::new(|pulse, share| writes(pulse, felt(share))).moving(400);
        let too_much = shares[20..].iter().filter(|share| **share > 0.6).count();
        assert!(too_much > 0 && too_much < 60, "{too_much} of 380 tenths: {shares:?}");
        assert!((0.4..0.6).contains(&mean(&shares[20..])), "{shares:?}");
    }

    /// Fails if no look is taken at the least share.
    #[test]
    fn what_is_slow_without_the_move_too_is_another_load_and_slows_no_move_for_long() {
        let is_loaded = std::cell::Cell::new(false);
        let mut users = Users::new(|pulse, _| writes(pulse, if is_loaded.get() { 1_000_000 } else { 10_000 }));
        users.moving(5);
        is_loaded.set(true);
        let shares = users.moving(150);
        assert!(shares.contains(&SHARE_MIN), "{shares:?}");
        assert!(shares.iter().all(|share| (SHARE_MIN..=1.0).contains(share)));
        assert_eq!(shares[149], 1.0, "{shares:?}");
    }

    /// Fails if what users feel at the least share counts as rest.
    #[test]
    fn a_move_that_hurts_at_the_least_rate_too_stays_there() {
        let felt = |share: Option<f64>| share.map_or(10_000, |share| (100_000.0 * 8.0 * share) as u64);
        let shares = Users::new(|pulse, share| writes(pulse, felt(share))).moving(600);
        assert!(mean(&shares) < 0.25 && mean(&shares[20..]) < 0.15, "{}: {shares:?}", mean(&shares));
    }

    /// Fails if few operations count as none.
    #[test]
    fn few_operations_hold_the_share_and_slow_ones_among_them_lower_it() {
        for slow_ns in [10_000, 500_000] {
            // 30 a second, of which one in twelve is slow while something moves.
            let turn = std::cell::Cell::new(0);
            let mut users = Users::new(|pulse, share| {
                turn.set(turn.get() + 1);
                some(pulse, Way::Write, 2, 10_000);
                let is_slow = share.is_some() && turn.get() % 4 == 0;
                some(pulse, Way::Write, 1, if is_slow { slow_ns } else { 10_000 });
            });
            let shares = users.moving(300);
            let most = shares.iter().copied().fold(0.0, f64::max);
            assert!(slow_ns == 10_000 || most <= SHARE_FIRST && shares.contains(&SHARE_MIN), "{shares:?}");
            // Good ones raise it, as slowly as it takes to know: every 22nd tick.
            assert!(
                slow_ns > 10_000 || shares[30] <= SHARE_FIRST + 2.0 * STEP && most > 2.0 * SHARE_FIRST,
                "{shares:?}"
            );
        }
        // Too few to judge, for ever: held.
        let turn = std::cell::Cell::new(0);
        let mut users = Users::new(|pulse, _| {
            turn.set(turn.get() + 1);
            some(pulse, Way::Read, u64::from(turn.get() % 8 == 0), 10_000);
        });
        let shares = users.moving(600);
        assert!(shares.iter().all(|share| *share == SHARE_FIRST), "{shares:?}");
    }

    /// Fails if ways are judged together, and if the good one's verdict resets the other.
    #[test]
    fn many_fast_reads_do_not_hide_few_slow_writes() {
        let mut users = Users::new(|pulse, share| {
            some(pulse, Way::Read, 400, 10_000);
            some(pulse, Way::Write, 20, if share.is_some() { 200_000 } else { 10_000 });
        });
        assert!(users.moving(30).contains(&SHARE_MIN));
    }

    /// Fails if times count by heads: two in 10,000 are no percentile that anybody looks at.
    #[test]
    fn a_stall_of_two_writers_weighs_as_long_as_it_lasts() {
        let mut users = Users::new(|pulse, share| {
            some(pulse, Way::Write, 10_000, 10_000);
            some(pulse, Way::Write, 2 * u64::from(share.is_some()), 50_000_000);
        });
        let shares = users.moving(30);
        assert!(shares.contains(&SHARE_MIN) && shares[29] <= SHARE_FIRST, "{shares:?}");
    }

    /// Fails if what is timed before a move, or between two, counts.
    #[test]
    fn what_came_before_a_move_is_neither_its_rest_nor_its_doing() {
        let pulse = Arc::new(Pulse::new());
        let throttle = Throttle::new(Arc::clone(&pulse));
        some(&pulse, Way::Write, 1_000, 9_000_000);
        throttle.begin(0, true);
        assert!(throttle.go(1).stands && !pulse.look().is_nothing());
        let tick = |number: u64, slow_ns| {
            writes(&pulse, slow_ns);
            throttle.go(number * TICK_NS)
        };
        let ticks: Vec<_> = (1..4).map(|number| tick(number, 10_000)).collect();
        assert_eq!(ticks[1], Go { share: SHARE_FIRST, stands: false });
        throttle.end(3 * TICK_NS);
        assert!(pulse.look().is_nothing());
        // By whoever moves without a pace.
        some(&pulse, Way::Write, 1_000, 9_000_000);
        throttle.begin(33 * TICK_NS, true);
        let go = tick(34, 10_000);
        assert!(!go.stands && go.share > SHARE_FIRST, "{go:?}");
        assert!(tick(35, 9_000_000).share < SHARE_FIRST);
    }

    /// Fails if each move begins to count anew.
    #[test]
    fn many_short_moves_are_judged_together() {
        let pulse = Arc::new(Pulse::new());
        let throttle = Throttle::new(Arc::clone(&pulse));
        let mut now_ns = 0;
        for number in 0..12 {
            throttle.begin(now_ns, true);
            // The first of them looks.
            while throttle.go(now_ns).stands {
                writes(&pulse, 10_000);
                now_ns += TICK_NS;
            }
            writes(&pulse, 1_000_000);
            now_ns += TICK_NS / 4;
            throttle.end(now_ns);
            assert_eq!(throttle.share() < SHARE_FIRST, number >= 3, "move {number}");
            writes(&pulse, 10_000);
            now_ns += TICK_NS;
        }
        assert_eq!(throttle.share(), SHARE_MIN);
    }
}
