//! Which trials a race has room for, as a function of the time that was spent, and of nothing else.
//!
//! The budget is divided over `ROUNDS` rounds. In the first everybody has a short trial. Whoever drops out leaves its time to the others:
//! the next trials are as much longer as there is room, at most `GROWTH_MAX` times at once, so that one round hardly outweighs
//! all that was before, and never shorter. That is sequential halving (Karnin, Koren and Somekh, "Almost optimal exploration in
//! multi-armed bandits", 2013), but for the halving: here only those drop out that are beaten beyond doubt ([`race`](super::race)).
//!
//! Invariants: (1) there is a first round, whatever the budget; (2) a later one is begun only if all its trials are likely to fit what is left,
//! where a trial is taken to last as many times longer as it is larger; (3) sizes never fall.

use super::Size;

/// Rounds over which the budget is divided, if nobody dropped out.
const ROUNDS: u32 = 8;
/// Rounds for which there is to be room, however many were done: several short rounds show more than one long one.
const ROUNDS_AHEAD: u32 = 3;
/// More rounds than this tell nothing new.
const ROUNDS_MAX: u32 = 50;
/// A round may take so much longer than those before.
const SLACK: f64 = 1.1;
/// The most that trials grow from one round to the next, and the least that is worth it.
const GROWTH_MAX: f64 = 2.0;
const GROWTH_MIN: f64 = 1.2;

/// The rounds of one race.
#[derive(Debug, Clone)]
pub struct Schedule {
    size: Size,
    /// The records that are asked about.
    asked: u64,
    budget_seconds: f64,
    rounds: u32,
    growth_max: f64,
}

impl Schedule {
    /// For so many candidates that together may take `budget_seconds`, over `asked` records of `record_bytes` each.
    pub fn new(budget_seconds: f64, candidates: usize, asked: u64, record_bytes: u64) -> Self {
        let trial_seconds = budget_seconds / f64::from(ROUNDS) / candidates.max(1) as f64;
        let size = Size::within(trial_seconds, asked, record_bytes);
        Self { size, asked, budget_seconds, rounds: 0, growth_max: GROWTH_MAX }
    }

    /// Trials that all are of one size, for as long as it takes: what growing is compared with.
    #[cfg(test)]
    pub(super) fn fixed(size: Size, asked: u64) -> Self {
        Self { size, asked, budget_seconds: f64::INFINITY, rounds: 0, growth_max: 1.0 }
    }

    /// The size of the trials of the next round, where `spent` seconds are over and the latest trial of each candidate that is left took
    /// so many seconds (none before the first round); `None` when the race is at its end.
    pub fn next(&mut self, spent: f64, latest: &[f64]) -> Option<Size> {
        if self.rounds > 0 {
            let cost = cost(latest);
            let left = self.budget_seconds - spent;
            if latest.len() < 2 || self.rounds >= ROUNDS_MAX || cost > left {
                return None;
            }
            let growth = (left / f64::from(self.planned()) / cost).min(self.growth_max);
            if growth >= GROWTH_MIN {
                self.size = self.size.grown(growth, self.asked);
            }
        }
        self.rounds += 1;
        Some(self.size)
    }

    /// How many more rounds there will be if nobody drops out any more, the one that was begun last among them: a guess, for progress.
    pub fn rounds_ahead(&self, spent: f64, latest: &[f64]) -> u32 {
        let room = (self.budget_seconds - spent) / cost(latest);
        let room = if room.is_finite() { room.clamp(1.0, f64::from(ROUNDS_MAX)) as u32 } else { ROUNDS_MAX };
        room.min((ROUNDS + 1).saturating_sub(self.rounds).max(ROUNDS_AHEAD))
    }

    /// Rounds among which what is left of the budget is divided.
    fn planned(&self) -> u32 {
        ROUNDS.saturating_sub(self.rounds).max(ROUNDS_AHEAD)
    }
}

/// What another round of these trials takes at most.
fn cost(latest: &[f64]) -> f64 {
    SLACK * latest.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_takes_an_eighth_of_the_budget() {
        for (budget, candidates) in [(120.0, 21), (240.0, 4), (3_600.0, 35)] {
            let mut schedule = Schedule::new(budget, candidates, u64::MAX, 1_016);
            let size = schedule.next(0.0, &[]).unwrap();
            let all = 3.0 * size.seconds * candidates as f64;
            assert!((all / budget * 8.0 - 1.0).abs() < 1e-9, "{budget} s: {size:?}, {all} s");
        }
        // However small the budget, there is one.
        let mut schedule = Schedule::new(0.001, 50, 2_000_000, 1 << 20);
        assert_eq!(schedule.next(1e9, &[]), Some(Size { records: 100, seconds: 0.2 }));
        assert_eq!(schedule.next(1e9, &[1.0; 50]), None);
    }

    #[test]
    fn whoever_drops_out_leaves_its_time_to_the_others() {
        let mut schedule = Schedule::new(80.0, 10, u64::MAX, 1_016);
        let first = schedule.next(0.0, &[]).unwrap();
        // All are left, and a round takes its eighth: nothing grows.
        assert_eq!(schedule.next(10.0, &[1.0; 10]), Some(first));
        // Seven are left: a round of ten seconds has room for trials of 1.3 s by the slack.
        let third = schedule.next(20.0, &[1.0; 7]).unwrap();
        assert!((third.seconds / first.seconds - 60.0 / 6.0 / 7.7).abs() < 1e-9, "{third:?}");
        // Two are left: they do not grow at once to what there is room for.
        let fourth = schedule.next(29.0, &[1.3; 2]).unwrap();
        assert!((fourth.seconds / third.seconds - GROWTH_MAX).abs() < 1e-9, "{fourth:?}");
        assert!(fourth.records > third.records && third.records > first.records);
        // Nothing shrinks where time is short.
        assert_eq!(schedule.next(60.0, &[5.0; 2]), Some(fourth));
    }

    #[test]
    fn a_race_ends_with_one_candidate_or_with_its_time_or_after_many_rounds() {
        let begun = || {
            let mut schedule = Schedule::new(20.0, 2, 5, 10);
            schedule.next(0.0, &[]);
            schedule
        };
        // A round of both takes 4 s, and 4.4 s at most.
        assert!(begun().next(15.5, &[2.0; 2]).is_some() && begun().next(15.7, &[2.0; 2]).is_none());
        assert!(begun().next(0.0, &[2.0]).is_none() && begun().next(0.0, &[]).is_none());
        let mut long = Schedule::new(1e6, 2, 5, 10);
        assert_eq!((0..100).filter(|_| long.next(1.0, &[0.001; 2]).is_some()).count(), 50);
    }

    #[test]
    fn the_rounds_to_come_are_guessed_within_the_budget() {
        let mut schedule = Schedule::new(80.0, 10, u64::MAX, 1_016);
        schedule.next(0.0, &[]);
        assert_eq!(schedule.rounds_ahead(0.0, &[]), ROUNDS);
        assert_eq!(schedule.rounds_ahead(10.0, &[2.0; 10]), 3);
        assert_eq!(schedule.rounds_ahead(79.0, &[2.0; 10]), 1);
    }
}
