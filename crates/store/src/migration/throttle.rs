//! How much of its rate a move takes: less while users feel it.
//!
//! The 99th percentile of users' operations at rest, lately, is compared with the one while something moves. Is it more than [`TIMES`] as
//! long, the rate is halved, else it grows by a step: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the
//! increase and decrease algorithms for congestion avoidance in computer networks", 1989), so that it swings below what the users bear.
//!
//! Invariants: the share is between [`SHARE_MIN`] and 1. What is slow at the least share, too, is not slow because of the move: it counts as
//! rest from then on, so that no plan crawls because the load is another one than before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::planning::Way;
use crate::pulse::{Pulse, Times};

/// So many times the percentile at rest is too much.
const TIMES: f64 = 2.0;
const SHARE_MIN: f64 = 1.0 / 8.0;
/// It begins slowly.
const SHARE_FIRST: f64 = 1.0 / 4.0;
const STEP: f64 = 1.0 / 8.0;
/// It is judged as often as this, where enough operations were timed, and after the longer time by fewer.
const JUDGED_NS: u64 = 100_000_000;
const JUDGED_LATEST_NS: u64 = 1_000_000_000;
const TIMED_MIN: f64 = 256.0;
const TIMED_LATEST_MIN: f64 = 64.0;
/// After this time what was timed at rest counts half.
const HALF_LIFE_NS: f64 = 3e9;

/// The control itself: times go in, a share comes out.
pub(super) struct Control {
    rest: Times,
    moving: Times,
    share: f64,
    now_ns: u64,
    judged_ns: u64,
}

impl Control {
    pub(super) fn new() -> Self {
        Self { rest: Times::default(), moving: Times::default(), share: SHARE_FIRST, now_ns: 0, judged_ns: 0 }
    }

    /// Nothing has moved up to now, and operations took so long.
    pub(super) fn at_rest(&mut self, now_ns: u64, new: &Times) {
        self.rest.scale((-(now_ns.saturating_sub(self.now_ns) as f64) / HALF_LIFE_NS).exp2());
        self.rest.add(new);
        self.moving = Times::default();
        (self.now_ns, self.judged_ns) = (now_ns, now_ns);
    }

    /// Something moves, and operations took so long; returns the share of the rate that it may take.
    pub(super) fn while_moving(&mut self, now_ns: u64, new: &Times) -> f64 {
        self.moving.add(new);
        let since_ns = now_ns.saturating_sub(self.judged_ns);
        if since_ns < JUDGED_NS {
            return self.share;
        }
        let is_late = since_ns >= JUDGED_LATEST_NS;
        let enough = if is_late { TIMED_LATEST_MIN } else { TIMED_MIN };
        let is_slow = |way: Way| {
            let known = self.moving.count(way) >= enough && self.rest.count(way) >= TIMED_LATEST_MIN;
            let of = |times: &Times| times.quantile_ns(way, 0.99).filter(|_| known);
            Some(of(&self.moving)? as f64 > TIMES * of(&self.rest)? as f64)
        };
        let judged = Way::ALL.map(is_slow);
        match judged {
            _ if judged.contains(&Some(true)) => {
                if self.share <= SHARE_MIN {
                    self.rest.add(&self.moving);
                }
                self.share = (self.share / 2.0).max(SHARE_MIN);
            }
            // Too few to tell, yet.
            [None, None] if !is_late => return self.share,
            _ => self.share = (self.share + STEP).min(1.0),
        }
        self.moving = Times::default();
        (self.now_ns, self.judged_ns) = (now_ns, now_ns);
        self.share
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

    /// The share that the latest move came to.
    pub(crate) fn latest(&self) -> f64 {
        self.lock().share
    }

    /// Nothing moves, up to `now_ns`.
    pub(crate) fn at_rest(&self, now_ns: u64) {
        self.lock().at_rest(now_ns, &self.pulse.take());
    }

    /// The share of its rate that a move may take now.
    pub(super) fn share(&self, now_ns: u64) -> f64 {
        self.lock().while_moving(now_ns, &self.pulse.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 100_000_000;

    /// Users whose operations take 10 us, of which some take longer.
    struct Users {
        control: Control,
        pulse: Pulse,
        now_ns: u64,
    }

    impl Users {
        fn new() -> Self {
            let mut users = Self { control: Control::new(), pulse: Pulse::default(), now_ns: 0 };
            (0..30).for_each(|_| users.rest(10_000));
            users
        }

        /// A tenth of a second of so many operations, of which 2 in 100 take `slow_ns`.
        fn tick(&mut self, count: u64, slow_ns: u64) -> Times {
            self.now_ns += TICK_NS;
            (0..count).for_each(|i| self.pulse.count(Way::Write, if i % 50 == 0 { slow_ns } else { 10_000 }));
            self.pulse.take()
        }

        fn rest(&mut self, slow_ns: u64) {
            let times = self.tick(400, slow_ns);
            self.control.at_rest(self.now_ns, &times);
        }

        /// What the share comes to in so many tenths of a second, in which slow operations take what `slow_ns` makes of the share.
        fn moving(&mut self, tenths: usize, count: u64, slow_ns: impl Fn(f64) -> u64) -> Vec<f64> {
            let mut share = self.control.share;
            let shares = (0..tenths).map(|_| {
                let times = self.tick(count, slow_ns(share));
                share = self.control.while_moving(self.now_ns, &times);
                share
            });
            shares.collect()
        }
    }

    #[test]
    fn a_move_that_nobody_feels_comes_to_its_whole_rate_and_begins_slowly() {
        let mut users = Users::new();
        let shares = users.moving(10, 400, |_| 12_000);
        assert!(shares[0] < 0.5 && shares.is_sorted() && shares[9] == 1.0, "{shares:?}");
        // Nor does it wait for users who do nothing, or next to nothing.
        let mut alone = Users::new();
        let shares = alone.moving(80, 0, |_| 0);
        assert!(shares[8] == SHARE_FIRST && shares[79] == 1.0, "{shares:?}");
    }

    #[test]
    fn the_rate_swings_below_what_users_bear() {
        let mut users = Users::new();
        let felt = |share: f64| if share > 0.6 { 100_000 } else { 12_000 };
        let shares = users.moving(200, 400, felt);
        let too_much = shares[20..].iter().filter(|share| **share > 0.6).count();
        let mean = shares[20..].iter().sum::<f64>() / 180.0;
        assert!(too_much > 0 && too_much < 60, "{too_much} of 180 tenths: {shares:?}");
        assert!((0.4..0.6).contains(&mean), "{mean}: {shares:?}");
    }

    #[test]
    fn what_is_slow_at_the_least_rate_too_is_another_load_and_slows_no_move_for_long() {
        let mut users = Users::new();
        let shares = users.moving(60, 400, |_| 1_000_000);
        assert!(shares.contains(&SHARE_MIN), "{shares:?}");
        assert!(shares.iter().all(|share| (SHARE_MIN..=1.0).contains(share)));
        assert_eq!(shares[59], 1.0, "{shares:?}");
        // At rest it is learnt again what rest is.
        (0..300).for_each(|_| users.rest(10_000));
        assert!(users.moving(10, 400, |_| 100_000).contains(&SHARE_MIN));
    }

    #[test]
    fn few_operations_are_judged_after_a_longer_time() {
        let mut users = Users::new();
        // Twelve in a tenth of a second are timed, and one of them is slow.
        let times = |users: &Users| {
            (0..12).for_each(|i| users.pulse.count(Way::Write, if i < 1 { 500_000 } else { 10_000 }));
            users.pulse.take()
        };
        let mut shares = Vec::new();
        for _ in 0..30 {
            users.now_ns += TICK_NS;
            let times = times(&users);
            shares.push(users.control.while_moving(users.now_ns, &times));
        }
        assert_eq!((shares[7], shares[29]), (SHARE_FIRST, SHARE_MIN), "{shares:?}");
    }
}
