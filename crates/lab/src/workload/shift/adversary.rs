//! The adversary: it asks where records are and overloads the partition that is calm.
//!
//! At the beginning of every period it looks where the records are that it made hot. The partition with the fewest of them is the calm
//! one (of several, the next after the one that it overloaded before); the hot records of the new period are records that live
//! there now. A planner that spread the old hot records, or moved them together, did so for nothing: the load is where
//! it made room. Whichever thread first enters a period does this between two of its operations; the others go on with the old records
//! until it is done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::clock::{MARKS_MAX, Mark, MarkKind};
use super::hot::shared_random;

/// Where records are at this moment.
pub trait Whereabouts {
    /// How many partitions there are.
    fn partitions(&self) -> u32;
    /// The partition that holds `record`, from 0.
    fn partition_of(&self, record: u64) -> u32;
}

/// The records that are hot, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victims {
    /// Since which period.
    pub period: u64,
    /// Where they lived when they were chosen.
    pub partition: u32,
    /// They. Never empty.
    pub records: Vec<u64>,
}

/// What the threads of a run share.
#[derive(Debug)]
pub struct Adversary {
    seed: u64,
    hot: u64,
    records: u64,
    period: AtomicU64,
    turning: Mutex<Vec<Mark>>,
    victims: RwLock<Arc<Victims>>,
}

/// Records looked at for each one wanted, beyond one a partition.
const LOOKS: u64 = 16;

impl Adversary {
    /// With `hot` of `records` records (at least 1) hot, all of the first partition.
    pub fn new(seed: u64, hot: u64, records: u64, whereabouts: &dyn Whereabouts) -> Self {
        let nobody = Victims { period: 0, partition: whereabouts.partitions().saturating_sub(1), records: Vec::new() };
        let first = choose(&nobody, 0, seed, hot, records, whereabouts);
        Self {
            seed,
            hot,
            records,
            period: AtomicU64::new(0),
            turning: Mutex::new(Vec::new()),
            victims: RwLock::new(Arc::new(first)),
        }
    }

    /// The hot records of this moment.
    pub fn victims(&self) -> Arc<Victims> {
        Arc::clone(&self.victims.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The hot records of `period`, chosen now if this caller is the first in it; while another one is choosing, the old ones.
    pub fn turn(&self, period: u64, at_ns: u64, whereabouts: &dyn Whereabouts) -> Arc<Victims> {
        if period > self.period.load(Ordering::Acquire)
            && let Ok(mut marks) = self.turning.try_lock()
            && period > self.period.load(Ordering::Acquire)
        {
            let before = self.victims();
            let next = choose(&before, period, self.seed, self.hot, self.records, whereabouts);
            if marks.len() < MARKS_MAX {
                let text = format!("the adversary turns from partition {} to {}", before.partition, next.partition);
                marks.push(Mark { at_seconds: at_ns as f64 / 1e9, kind: MarkKind::Shift, text });
            }
            *self.victims.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
            self.period.store(period, Ordering::Release);
        }
        self.victims()
    }

    /// When it turned.
    pub fn marks(&self) -> Vec<Mark> {
        self.turning.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `hot` records of the partition with the fewest of those that are hot.
fn choose(before: &Victims, period: u64, seed: u64, hot: u64, records: u64, whereabouts: &dyn Whereabouts) -> Victims {
    let partitions = whereabouts.partitions().max(1);
    let mut load = vec![0u64; partitions as usize];
    for record in &before.records {
        if let Some(count) = load.get_mut(whereabouts.partition_of(*record) as usize) {
            *count += 1;
        }
    }
    // From the next one on, so that calm partitions take turns.
    let mut order: Vec<u32> = (1..=partitions).map(|step| (before.partition + step) % partitions).collect();
    order.sort_by_key(|partition| load[*partition as usize]);
    let start = shared_random(seed, period + 1).below(records);
    let looks = (hot.saturating_mul(u64::from(partitions)).saturating_mul(LOOKS)).min(records);
    for partition in order {
        let chosen: Vec<u64> = (0..looks)
            .map(|i| (start + i) % records)
            .filter(|record| whereabouts.partition_of(*record) == partition)
            .take(hot as usize)
            .collect();
        if !chosen.is_empty() {
            return Victims { period, partition, records: chosen };
        }
    }
    // Whoever answers names a partition that is none: then one record is as good as another.
    Victims { period, partition: 0, records: vec![start] }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Records dealt in turn, except those that a planner has moved.
    #[derive(Default)]
    struct Placed {
        partitions: u32,
        moved: HashMap<u64, u32>,
    }

    impl Whereabouts for Placed {
        fn partitions(&self) -> u32 {
            self.partitions
        }

        fn partition_of(&self, record: u64) -> u32 {
            self.moved.get(&record).copied().unwrap_or((record % u64::from(self.partitions)) as u32)
        }
    }

    #[test]
    fn whatever_a_planner_did_the_load_comes_to_the_partition_that_is_calm() {
        let mut placed = Placed { partitions: 4, ..Placed::default() };
        let adversary = Adversary::new(1, 40, 10_000, &placed);
        let first = adversary.victims();
        assert_eq!((first.partition, first.records.len()), (0, 40));
        assert!(first.records.iter().all(|r| placed.partition_of(*r) == 0), "all of one partition");
        // A planner spreads them over the partitions 0, 1 and 3.
        for (i, record) in first.records.iter().enumerate() {
            placed.moved.insert(*record, [0, 1, 3][i % 3]);
        }
        let second = adversary.turn(1, 7_000_000_000, &placed);
        assert_eq!(second.partition, 2, "the one with none of the hot records");
        assert!(second.records.iter().all(|r| placed.partition_of(*r) == 2));
        // A planner empties partition 2 into partition 3: then 2 has no record at all, and the calm ones are 0 and 1.
        placed.moved.extend((0..10_000).filter(|r| r % 4 == 2).map(|r| (r, 3)));
        let third = adversary.turn(2, 9_000_000_000, &placed);
        assert_eq!(third.partition, 0, "{third:?}");
        let marks = adversary.marks();
        assert_eq!(marks.iter().map(|mark| mark.at_seconds).collect::<Vec<_>>(), [7.0, 9.0]);
        assert!(marks[0].text.contains("from partition 0 to 2"), "{}", marks[0].text);
    }

    #[test]
    fn without_a_planner_it_takes_the_partitions_in_turn_and_other_records_each_time() {
        let placed = Placed { partitions: 3, ..Placed::default() };
        let adversary = Adversary::new(2, 10, 1_000, &placed);
        let mut seen = vec![adversary.victims()];
        seen.extend((1..6).map(|period| adversary.turn(period, 0, &placed)));
        assert_eq!(seen.iter().map(|v| v.partition).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        assert_ne!(seen[0].records, seen[3].records);
        assert_eq!(*Adversary::new(2, 10, 1_000, &placed).victims(), *seen[0], "set by its seed");
    }

    #[test]
    fn it_turns_once_a_period_however_many_threads_ask() {
        let placed = Placed { partitions: 3, ..Placed::default() };
        let adversary = Adversary::new(2, 10, 1_000, &placed);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..200u64).for_each(|i| drop(adversary.turn(i / 20, i, &placed))));
            }
        });
        let marks = adversary.marks();
        assert!((1..=9).contains(&marks.len()), "{} turns in 9 periods", marks.len());
        assert_eq!(adversary.turn(9, 0, &placed).period, 9);
        let before = adversary.marks().len();
        assert_eq!(adversary.turn(3, 0, &placed).period, 9, "it never goes back");
        assert_eq!(adversary.marks().len(), before);
    }

    #[test]
    fn one_partition_or_a_wrong_answer_is_no_harm() {
        let alone = Placed { partitions: 1, ..Placed::default() };
        let adversary = Adversary::new(3, 5, 100, &alone);
        assert_eq!(adversary.turn(1, 0, &alone).partition, 0);
        let wrong = Placed { partitions: 2, moved: (0..100).map(|r| (r, 9)).collect() };
        assert_eq!(Adversary::new(3, 5, 100, &wrong).turn(1, 0, &wrong).records.len(), 1);
    }
}
