//! Groups of records that are used together.
//!
//! In every period the records `0..groups * size` are in exactly one group each: place `group * size + i` holds the record that a
//! bijection of the places, another one in each period, gives it. The hot groups are the first ones.

use super::hot::{Jumps, scale};
use crate::workload::shuffle::Shuffle;

/// Groups of one size that change from period to period.
#[derive(Debug, Clone, Copy)]
pub struct Groups {
    size: u64,
    count: u64,
    hot: u64,
    jumps: Jumps,
    order: Shuffle,
}

impl Groups {
    /// Of `size` records each, out of `records` (at least `size`), with `hot` records in hot groups.
    pub fn new(seed: u64, size: u32, hot: u64, records: u64) -> Self {
        let size = u64::from(size);
        let count = (records / size).max(1);
        let places = count * size;
        Self {
            size,
            count,
            hot: (hot / size).clamp(1, count),
            jumps: Jumps::new(seed, 1, places),
            order: Shuffle::new(places),
        }
    }

    /// A group for `bits`, which are uniform: a hot one, or one of the others (a hot one where there are no others).
    #[inline]
    pub fn choose(&self, hot: bool, bits: u64) -> u64 {
        let cold = self.count - self.hot;
        if hot || cold == 0 { scale(bits, self.hot) } else { self.hot + scale(bits, cold) }
    }

    /// The records of `group` in `period`.
    #[inline]
    pub fn members(&self, group: u64, period: u64) -> impl Iterator<Item = u64> {
        let (order, places, start) = (self.order, self.count * self.size, self.jumps.start(period));
        (group * self.size..(group + 1) * self.size).map(move |place| order.at((order.at(place) + start) % places))
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them are hot.
    pub fn hot(&self) -> u64 {
        self.hot
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The group of every record in `period`.
    fn grouped(groups: &Groups, period: u64) -> HashMap<u64, u64> {
        let mut all = HashMap::new();
        for group in 0..groups.count() {
            for record in groups.members(group, period) {
                assert_eq!(all.insert(record, group), None, "record {record} is in two groups");
            }
        }
        all
    }

    #[test]
    fn every_record_is_in_one_group_and_those_of_the_next_period_are_others() {
        for (size, records) in [(10u32, 1_000u64), (7, 1_003), (2, 5), (10, 10)] {
            let groups = Groups::new(4, size, 100, records);
            let here = grouped(&groups, 0);
            assert_eq!(here.len() as u64, groups.count() * u64::from(size));
            assert!(here.keys().all(|record| *record < records));
            let next = grouped(&groups, 1);
            assert_eq!(here.len(), next.len());
            if records >= 1_000 {
                // Pairs that stay together: by chance about one in a hundred groups.
                let mut together = 0;
                for group in 0..groups.count() {
                    let members: Vec<_> = groups.members(group, 0).collect();
                    together += members.windows(2).filter(|pair| next[&pair[0]] == next[&pair[1]]).count();
                }
                assert!(together < 50, "{together} neighbours of {} stay together", here.len());
            }
        }
    }

    #[test]
    fn hot_groups_are_as_many_as_the_hot_records_fill() {
        let groups = Groups::new(1, 10, 100, 1_000);
        assert_eq!((groups.count(), groups.hot()), (100, 10));
        for step in 0..1_000u64 {
            let bits = step << 54;
            assert!(groups.choose(true, bits) < 10);
            assert!((10..100).contains(&groups.choose(false, bits)));
        }
        assert_eq!(Groups::new(1, 10, 1, 1_000).hot(), 1);
        assert_eq!(Groups::new(1, 10, 1_000, 1_000).choose(false, u64::MAX), 99);
    }
}
