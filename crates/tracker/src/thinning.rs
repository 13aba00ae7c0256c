//! How rarely accesses are sampled while many come.
//!
//! A sample costs its thread a copy, and ten times that whoever takes it in; and one that finds no room has cost nearly as much and says nothing. So
//! whoever drains the rings looks how many bytes samples would have filled since the last time, and where that is more than is asked for, samples get
//! rarer, and heavier, until it is no more: what is on the way of an operation, and what watching takes in all, is then bounded however fast
//! operations come, and on however many threads. They get more frequent again when fewer come.
//!
//! Invariant: a sample's weight is the distance that was drawn for it, so sums are right in the mean whatever the rate was meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::Rates;

/// What the samples of all threads shall fill between two drains, as a part of one ring, by class: of single keys, a thousand of a ring of 128 KiB, and
/// of groups of ten six hundred. And the share of that below which they may be more frequent.
const FILL: [f64; 2] = [0.25, 1.0];
const FEW: f64 = 0.4;
/// The rate changes so many times at a drain, at most: one that came late or early says little.
const STEP_MAX: f64 = 16.0;

/// One access in so many is sampled, at this moment: of single keys; of several.
pub(crate) struct Thinning {
    least: [u32; 2],
    most: [u32; 2],
    now: [AtomicU32; 2],
}

impl Thinning {
    pub(crate) fn new(rates: &Rates) -> Self {
        let least = [rates.singles, rates.groups].map(|every| every.max(1));
        // A distance is drawn from twice as many.
        let most = least.map(|every| every.saturating_mul(rates.thinned_max.max(1)).min(u32::MAX / 4).max(every));
        Self { least, most, now: least.map(AtomicU32::new) }
    }

    /// One access of a class in so many.
    pub(crate) fn every(&self, class: usize) -> u32 {
        self.now[class].load(Ordering::Relaxed)
    }

    /// Of each class, what its samples would have filled since the last call, had all found room, as a part of one ring.
    pub(crate) fn adapt(&self, filled: [f64; 2]) {
        for (class, filled) in filled.into_iter().enumerate() {
            let now = self.every(class);
            let (least, most) = (self.least[class], self.most[class]);
            let times = filled / FILL[class];
            let wanted = f64::from(now) * times.clamp(1.0 / STEP_MAX, STEP_MAX);
            let is_out = times > 1.0 || times < FEW && now > least;
            if is_out && least < most {
                self.now[class].store((wanted.ceil() as u32).clamp(least, most), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_get_rarer_until_a_ring_holds_them_and_more_frequent_when_there_is_room_again() {
        let rates = Rates { singles: 64, groups: 2, thinned_max: 100, ..Rates::default() };
        let thinning = Thinning::new(&rates);
        let both = || [0, 1].map(|class| thinning.every(class));
        thinning.adapt([0.25, 0.6]);
        assert_eq!(both(), [64, 2], "as it should be");
        thinning.adapt([0.01, 5.0]);
        assert_eq!(both(), [64, 10], "not more than is asked for");
        thinning.adapt([0.2, 1e9]);
        assert_eq!(both(), [64, 160], "a step at a time");
        thinning.adapt([f64::INFINITY, 0.8]);
        assert_eq!(both(), [1024, 160]);
        thinning.adapt([1e9, 1e9]);
        assert_eq!(both(), [6400, 200], "but never so rare that nothing is seen");
        thinning.adapt([0.05, 0.0]);
        assert_eq!(both(), [1280, 13]);
        (0..9).for_each(|_| thinning.adapt([0.0, 0.0]));
        assert_eq!(both(), [64, 2]);
        let never = Thinning::new(&Rates { thinned_max: 1, ..rates });
        never.adapt([9.0, 9.0]);
        assert_eq!([never.every(0), never.every(1)], [64, 2]);
    }
}
