//! Deletions that older records may follow: those in cold segments, whose records come in no order of their numbers.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// For each key, the number of the newest deletion that is known of it.
///
/// Ranges are steps: the number of a key is that of the greatest step at or before it. Ranges that come by ascending numbers
/// replace the steps that they cover, so all together cost their number times its logarithm.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    keys: HashMap<Box<[u8]>, u64>,
    steps: BTreeMap<Box<[u8]>, u64>,
}

impl Deleted {
    /// `key` was deleted by number `seq`.
    pub fn key(&mut self, key: &[u8], seq: u64) {
        let known = self.keys.entry(key.into()).or_default();
        *known = seq.max(*known);
    }

    /// All keys from `from` up to `to` (excluded) were.
    pub fn range(&mut self, from: &[u8], to: Option<&[u8]>, seq: u64) {
        if to.is_some_and(|to| to <= from) {
            return;
        }
        let first = self.step(from);
        if let Some(to) = to {
            let behind = self.step(to);
            self.steps.entry(to.into()).or_insert(behind);
        }
        self.steps.entry(from.into()).or_insert(first);
        let within = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        let mut same = Vec::new();
        let mut before = None;
        for (key, step) in self.steps.range_mut::<[u8], _>(within) {
            *step = seq.max(*step);
            if before.replace(*step) == Some(*step) {
                same.push(key.clone());
            }
        }
        for key in same {
            self.steps.remove(&key);
        }
    }

    /// Whether `key` was deleted after `seq`.
    pub fn is_deleted(&self, key: &[u8], seq: u64) -> bool {
        self.keys.get(key).is_some_and(|deleted| *deleted > seq) || self.step(key) > seq
    }

    fn step(&self, key: &[u8]) -> u64 {
        let before = (Bound::Unbounded, Bound::Included(key));
        self.steps.range::<[u8], _>(before).next_back().map_or(0, |(_, step)| *step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_say_what_a_list_of_ranges_says(ranges: Vec<(u8, Option<u8>, u8)>) {
            let mut deleted = Deleted::default();
            for (from, to, seq) in &ranges {
                deleted.range(&[*from], to.as_ref().map(std::slice::from_ref), (*seq).into());
            }
            for key in 0..=255u8 {
                let covers = |(from, to, _): &&(u8, Option<u8>, u8)| *from <= key && to.is_none_or(|to| key < to);
                let newest = ranges.iter().filter(covers).map(|range| u64::from(range.2)).max().unwrap_or(0);
                prop_assert_eq!(deleted.step(&[key]), newest);
                prop_assert_eq!(deleted.is_deleted(&[key], 9), newest > 9);
            }
        }
    }

    #[test]
    fn many_ranges_in_order_leave_few_steps_and_take_no_time() {
        let mut deleted = Deleted::default();
        for seq in 1..200_000u64 {
            let from = (seq * 7919 % 1000).to_be_bytes();
            let to = (seq * 7919 % 1000 + 500).to_be_bytes();
            deleted.range(&from, Some(&to), seq);
        }
        assert!(deleted.steps.len() <= 2002);
        deleted.range(&[], None, 1 << 40);
        assert_eq!(deleted.steps.len(), 1);
        deleted.key(b"k", 1 << 41);
        assert!(deleted.is_deleted(b"k", 1 << 40) && !deleted.is_deleted(b"l", 1 << 40));
    }
}
