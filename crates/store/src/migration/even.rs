//! Ranges with as many bytes each, one for each partition that stays, by moving few bytes.
//!
//! 1. A pass over all keys in order takes a *survey*: every so many bytes a key, with who owns it. The stride doubles whenever there are too many, so that any
//!    store is surveyed in bounded memory and each share in some dozens of steps at least.
//! 2. The key space is cut where the shares end: at a bound that is there already where one lies within [`TOLERANCE`] of it, so that what is even
//!    stays as it is.
//! 3. Each piece goes to the partition that holds most of it and has none yet, the heaviest overlap first: at least half as many bytes stay as could
//!    (Avis, "A survey of heuristics for the weighted matching problem", 1983).
//!
//! Crash argument: splits and moves are what they are anywhere else. The next call surveys anew, and finds done what is done.

use std::collections::HashMap;

use biombo_engine::Result;

use super::{Moved, Pace};
use crate::placement::{CUT_BYTES_MAX, begins_all};
use crate::{PartitionId, Placement, PlacementKind, Range, Store};

/// Keys that a survey takes at most.
const SURVEY_MAX: usize = 1 << 16;
/// Keys that are read by one scan: none holds on to old versions for long.
const SCAN_KEYS: u64 = 1 << 16;
/// How far from where a share ends a bound may lie, as a part of the share.
const TOLERANCE: f64 = 0.05;

/// What lies where, about.
#[derive(Debug, Default)]
struct Survey {
    /// In order: a key, cut to where a range may be split, and all bytes up to it, its own included.
    marks: Vec<(Vec<u8>, u64)>,
    /// Bytes between one mark and the next.
    stride: u64,
    total: u64,
}

/// The first key of a piece, and who is to own it.
type Piece = (Vec<u8>, PartitionId);

impl Survey {
    fn take(&mut self, key: &[u8], bytes: u64) {
        self.total += bytes;
        let due = self.marks.last().map_or(0, |(_, at)| at + self.stride);
        if self.total < due {
            return;
        }
        self.marks.push((key[..key.len().min(CUT_BYTES_MAX)].to_vec(), self.total));
        if self.marks.len() > SURVEY_MAX {
            self.stride = (self.stride * 2).max(2 * self.total / SURVEY_MAX as u64);
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// The bytes before `key`, about.
    fn before(&self, key: &[u8]) -> u64 {
        let at = self.marks.partition_point(|(mark, _)| mark.as_slice() < key);
        at.checked_sub(1).map_or(0, |at| self.marks[at].1)
    }

    /// Where to cut for so many equal shares: ascending, none twice.
    fn cuts(&self, shares: usize, placement: &Placement) -> Vec<Vec<u8>> {
        if self.marks.is_empty() {
            return Placement::range(shares as u32, Vec::new()).starts().to_vec();
        }
        let starts: Vec<(u64, &Vec<u8>)> = placement.starts().iter().map(|start| (self.before(start), start)).collect();
        let share = self.total as f64 / shares as f64;
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        for number in 1..shares {
            let wanted = (share * number as f64) as u64;
            let is_behind = |start: &Vec<u8>| cuts.last().is_none_or(|last| last < start);
            let near = starts.iter().filter(|(_, start)| is_behind(start)).min_by_key(|(at, _)| at.abs_diff(wanted));
            let near = near.filter(|(at, _)| at.abs_diff(wanted) as f64 <= share * TOLERANCE);
            let at = self.marks.partition_point(|(_, bytes)| *bytes <= wanted);
            let cut = near.map(|(_, start)| *start).or_else(|| self.marks.get(at).map(|(mark, _)| mark));
            if let Some(cut) = cut.filter(|cut| !begins_all(cut) && is_behind(cut)).cloned() {
                cuts.push(cut);
            }
        }
        cuts
    }

    /// The pieces between `cuts`, each with the one of `partitions` that is to own it.
    fn pieces(&self, cuts: Vec<Vec<u8>>, placement: &Placement, partitions: &[PartitionId]) -> Vec<Piece> {
        let mut overlaps: HashMap<(usize, PartitionId), u64> = HashMap::new();
        let mut before = 0;
        for (mark, at) in &self.marks {
            let piece = cuts.partition_point(|cut| cut <= mark);
            *overlaps.entry((piece, placement.owner(mark))).or_default() += at - before;
            before = *at;
        }
        // An empty piece, too, stays where it is if it can.
        let starts = || std::iter::once(&b""[..]).chain(cuts.iter().map(Vec::as_slice));
        for (piece, start) in starts().enumerate() {
            overlaps.entry((piece, placement.owner(start))).or_default();
        }
        let mut overlaps: Vec<_> = overlaps.into_iter().filter(|((_, owner), _)| partitions.contains(owner)).collect();
        overlaps.sort_unstable_by_key(|(pair, bytes)| (std::cmp::Reverse(*bytes), *pair));
        let mut owners: Vec<Option<PartitionId>> = vec![None; cuts.len() + 1];
        let mut free = partitions.to_vec();
        for ((piece, owner), _) in overlaps {
            if owners[piece].is_none() && free.contains(&owner) {
                owners[piece] = Some(owner);
                free.retain(|partition| *partition != owner);
            }
        }
        let mut free = free.into_iter();
        let owners = owners.into_iter().map(|owner| owner.or_else(|| free.next()));
        starts().map(<[u8]>::to_vec).zip(owners).filter_map(|(start, owner)| Some((start, owner?))).collect()
    }
}

/// What is to be where: pieces in order, no more than `partitions`.
fn pieces(survey: &Survey, placement: &Placement, partitions: &[PartitionId]) -> Vec<Piece> {
    survey.pieces(survey.cuts(partitions.len(), placement), placement, partitions)
}

impl Store {
    /// [`spread`](Store::spread), of ranges.
    pub(super) fn spread_ranges(&self, leaving: &[PartitionId], pace: Pace, all: &mut Moved) -> Result<()> {
        debug_assert_eq!(self.placement_kind(), PlacementKind::Range, "slots are spread by their number");
        // Of no use any more, and each would be a unit of its own to move.
        self.merge_ranges()?;
        let partitions =
            (0..self.partitions() as u16).map(PartitionId).filter(|partition| !leaving.contains(partition));
        let pieces = pieces(&self.survey(pace)?, &self.placement(), &partitions.collect::<Vec<_>>());
        let ends = pieces.iter().skip(1).map(|(start, _)| Some(start.as_slice())).chain([None]);
        for ((start, owner), end) in pieces.iter().zip(ends) {
            all.add(&self.move_range(start, end, *owner, pace)?);
        }
        self.merge_ranges().map(drop)
    }

    /// Where ranges begin that give each of so many partitions as many bytes, after a pass over all keys.
    pub(crate) fn even_starts(&self, partitions: u32) -> Result<Vec<Vec<u8>>> {
        let cuts = self.survey(Pace::default())?.cuts(partitions as usize, &self.placement());
        Ok(std::iter::once(Vec::new()).chain(cuts).collect())
    }

    /// A pass over all keys.
    fn survey(&self, pace: Pace) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut from = Vec::new();
        loop {
            let mut scan = self.scan(Range { from: from.clone(), limit: Some(SCAN_KEYS), ..Range::all() })?;
            let before = (survey.total, from.len());
            let mut count = 0;
            while let Some((key, value)) = scan.next()? {
                survey.take(key, (key.len() + value.len()) as u64);
                count += 1;
                from.clear();
                from.extend_from_slice(key);
            }
            if count < SCAN_KEYS {
                return Ok(survey);
            }
            from.push(0);
            pace.rest((survey.total - before.0) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Cuts;
    use proptest::prelude::*;

    fn key(number: u64) -> Vec<u8> {
        format!("key {number:07}").into_bytes()
    }

    fn survey(sizes: impl Iterator<Item = (u64, u64)>) -> Survey {
        let mut survey = Survey::default();
        sizes.for_each(|(number, bytes)| survey.take(&key(number), bytes));
        survey
    }

    #[test]
    fn many_keys_are_surveyed_in_bounded_memory_and_shares_stay_even() {
        let survey = survey((0..400_000).map(|number| (number, 100)));
        assert!(survey.marks.len() <= SURVEY_MAX && survey.marks.len() > SURVEY_MAX / 8, "{}", survey.marks.len());
        assert_eq!(survey.total, 40_000_000);
        let cuts = survey.cuts(8, &Placement::range(1, Vec::new()));
        for (number, cut) in (1..8u64).zip(&cuts) {
            let found: u64 = String::from_utf8_lossy(&cut[4..]).parse().expect("a number");
            assert!(found.abs_diff(number * 50_000) < 200, "{found} for {number}");
        }
    }

    #[test]
    fn what_is_even_stays_and_what_nobody_wrote_yet_is_cut_evenly() {
        let survey = survey((0..1000).map(|number| (number, 100)));
        let partitions: Vec<_> = (0..4).map(PartitionId).collect();
        let even = Placement::range(4, (0..1000).map(key).collect());
        assert_eq!(survey.cuts(4, &even), even.starts());
        let owners: Vec<_> = pieces(&survey, &even, &partitions).into_iter().map(|(_, owner)| owner).collect();
        assert_eq!(owners, partitions);
        let nothing = Survey::default();
        assert_eq!(pieces(&nothing, &Placement::range(1, Vec::new()), &partitions).len(), 4);
        assert_eq!(pieces(&nothing, &Placement::range(4, Vec::new()), &partitions).len(), 4);
    }

    proptest! {
        #[test]
        fn shares_are_even_and_no_partition_gets_two(
            sizes in proptest::collection::vec(1u64..200, 0..300),
            bounds in proptest::collection::btree_set(0u64..300, 0..6),
            stay in proptest::collection::vec(any::<bool>(), 7),
        ) {
            let survey = survey(sizes.iter().enumerate().map(|(number, bytes)| (number as u64, *bytes)));
            let starts: Vec<_> = bounds.into_iter().map(key).collect();
            let placement = Placement::range(starts.len() as u32 + 1, [vec![b"".to_vec()], starts].concat());
            let partitions: Vec<_> = (0..7).filter(|number| stay[usize::from(*number)]).map(PartitionId).collect();
            prop_assume!(!partitions.is_empty());
            let pieces = pieces(&survey, &placement, &partitions);
            prop_assert!(pieces[0].0.is_empty() && pieces.is_sorted_by(|a, b| a.0 < b.0));
            let mut owners: Vec<_> = pieces.iter().map(|(_, owner)| *owner).collect();
            owners.sort_unstable();
            owners.dedup();
            prop_assert_eq!(owners.len(), pieces.len());
            prop_assert!(owners.iter().all(|owner| partitions.contains(owner)));
            // None has more than its share, what a bound may be off at either end, and a key.
            let share = survey.total as f64 / partitions.len() as f64;
            let most = share * (1.0 + 2.0 * TOLERANCE) + 2.0 * 200.0;
            let mut bytes = vec![0.0; pieces.len()];
            for (number, size) in sizes.iter().enumerate() {
                bytes[pieces.partition_point(|(start, _)| *start <= key(number as u64)) - 1] += *size as f64;
            }
            prop_assert!(bytes.iter().all(|bytes| *bytes <= most), "{:?} of {}", bytes, most);
            // Once it is so, nothing moves: where no record is a large part of a share.
            if share < 20.0 * 200.0 {
                return Ok(());
            }
            let cuts = Cuts::splits(&placement, pieces.iter().map(|(start, _)| start.clone())).expect("keys");
            let mut after = placement.recut(&cuts).expect("splits");
            let ends = pieces.iter().skip(1).map(|(start, _)| Some(start.as_slice())).chain([None]);
            for ((start, owner), end) in pieces.iter().zip(ends) {
                for unit in super::super::ranges::units_within(&after, start, end) {
                    let unit = crate::placement::UnitSet::of(&after, &[unit]).expect("a unit");
                    after = after.moved(&unit, *owner).expect("a unit");
                }
            }
            after = after.recut(&Cuts::merges(&after, |_| true).expect("ranges")).expect("merges");
            prop_assert_eq!(super::pieces(&survey, &after, &partitions), pieces);
        }
    }
}
