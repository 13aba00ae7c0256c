//! Units spread evenly over the partitions that stay, by as few moves as can be; those that leave end with nothing. (Slots here; of ranges the
//! shares are bytes: `even`.)
//!
//! Keys that are pinned to a partition that leaves go to where their slots are.
//!
//! Crash argument: that of each move. Cut anywhere, the placement says who owns what, and the next call goes on from there.

use std::collections::BTreeMap;

use biombo_engine::{Error, ErrorKind, Result};

use super::{Moved, Pace};
use crate::{PartitionId, Placement, PlacementKind, Store, UnitId};

/// Bytes of keys that are unpinned by one move: its record stays far below a segment of the placement journal.
const UNPIN_BYTES_MAX: usize = 8 << 10;

impl Store {
    /// Give all partitions that stay as many units each, but for one, moving as few as possible, and those that [leave](Store::leaving)
    /// nothing, while reads and writes go on: after opening with other partitions than before ([`Options::reshape`](crate::Options::reshape)). Cut
    /// short, by an error or a crash, it can be called again.
    ///
    /// Under range placement each partition gets one range with as many bytes as the others have, within a tenth: a pass over all keys finds where to
    /// split, and what may be one range in the end is.
    ///
    /// # Errors
    /// As [`move_units`](Store::move_units).
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory");
    /// drop(options.clone().partitions(2).open(dir.path(), &registry)?);
    /// let store = options.partitions(4).reshape(true).open(dir.path(), &registry)?;
    /// assert_eq!(store.stats()?.units_by_partition, [2048, 2048, 0, 0]);
    /// assert_eq!(store.spread(Pace::default())?.units, 2048);
    /// assert_eq!(store.stats()?.units_by_partition, [1024; 4]);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn spread(&self, pace: Pace) -> Result<Moved> {
        let mut all = Moved { cleaned: true, ..Moved::default() };
        self.mover()?;
        let leaving = self.leaving();
        let told = |error: Error| match error.kind() {
            ErrorKind::Invalid if !leaving.is_empty() => too_large(&error),
            _ => error,
        };
        if self.placement_kind() == PlacementKind::Range {
            self.spread_ranges(&leaving, pace, &mut all).map_err(told)?;
        } else {
            for (to, units) in plan(&self.placement(), self.partitions(), &leaving) {
                all.add(&self.move_units(&units, to, pace).map_err(told)?);
            }
        }
        for (to, keys) in unpins(&self.placement(), &leaving) {
            all.add(&self.move_keys(&keys, to, pace).map_err(told)?);
        }
        if !leaving.is_empty() {
            // Also of attempts before this one: partitions are taken away once nothing is.
            all.cleaned &= self.clean_leftovers(pace).unwrap_or(false);
        }
        Ok(all)
    }
}

/// What is refused by the engine of those that stay.
fn too_large(error: &Error) -> Error {
    Error::invalid(format!(
        "partitions that leave hold what those that stay cannot take ({}): go back to the former engine, or delete it by a range",
        error.message()
    ))
}

/// Which units go where.
fn plan(placement: &Placement, partitions: u32, leaving: &[PartitionId]) -> Vec<(PartitionId, Vec<UnitId>)> {
    let owned: Vec<_> = (0..partitions).map(|number| placement.units_of(PartitionId(number as u16))).collect();
    let stays = |number: &usize| !leaving.iter().any(|partition| partition.index() == *number);
    // Those that have most keep the units that do not divide.
    let mut by_size: Vec<_> = (0..owned.len()).filter(stays).collect();
    by_size.sort_by_key(|number| std::cmp::Reverse(owned[*number].len()));
    let (share, more) = (placement.units() / by_size.len(), placement.units() % by_size.len());
    let mut shares = vec![0; owned.len()];
    by_size.iter().for_each(|number| shares[*number] = share);
    by_size[..more].iter().for_each(|number| shares[*number] += 1);
    let surplus = owned.iter().zip(&shares).flat_map(|(units, share)| units.iter().skip(*share).copied());
    // A partition after the other gives to one after the other: few pairs, and so few passes.
    let mut surplus = surplus;
    let mut moves = Vec::new();
    for (number, units) in owned.iter().enumerate() {
        let wanted = shares[number].saturating_sub(units.len());
        let units: Vec<_> = surplus.by_ref().take(wanted).collect();
        if !units.is_empty() {
            moves.push((PartitionId(number as u16), units));
        }
    }
    moves
}

/// Keys that are pinned to partitions that leave, a few at a time, and where their slots are.
fn unpins(placement: &Placement, leaving: &[PartitionId]) -> Vec<(PartitionId, Vec<Vec<u8>>)> {
    let mut by_home: BTreeMap<PartitionId, Vec<Vec<u8>>> = BTreeMap::new();
    for (key, _) in placement.pinned().filter(|(_, at)| leaving.contains(at)) {
        if let Some(home) = placement.owner_of(placement.unit_of(key)) {
            by_home.entry(home).or_default().push(key.to_vec());
        }
    }
    let mut moves = Vec::new();
    for (home, mut keys) in by_home {
        // The same moves whatever the order in which pins are kept.
        keys.sort_unstable();
        let mut some: Vec<Vec<u8>> = Vec::new();
        for key in keys {
            if some.iter().map(Vec::len).sum::<usize>() + key.len() > UNPIN_BYTES_MAX {
                moves.push((home, std::mem::take(&mut some)));
            }
            some.push(key);
        }
        moves.push((home, some));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::UnitSet;
    use proptest::prelude::*;

    #[test]
    fn keys_that_are_pinned_to_what_leaves_go_home_a_few_at_a_time() {
        let keys: Vec<Vec<u8>> = (0..90u32).map(|number| [&[7; 500][..], &number.to_be_bytes()].concat()).collect();
        let pin = |placement: &Placement, keys: &[Vec<u8>], to: u16| {
            let set = UnitSet::of_keys(placement, keys.iter().map(Vec::as_slice)).expect("keys");
            placement.moved(&set, PartitionId(to)).expect("keys")
        };
        let placement = pin(&pin(&Placement::hash(2), &keys[..60], 2), &keys[60..], 3);
        let moves = unpins(&placement, &[PartitionId(2)]);
        let mut moved = Vec::new();
        for (to, keys) in moves {
            assert!(keys.iter().map(Vec::len).sum::<usize>() <= UNPIN_BYTES_MAX && !keys.is_empty());
            assert!(keys.iter().all(|key| Placement::hash(2).owner(key) == to));
            moved.extend(keys);
        }
        moved.sort();
        assert_eq!(moved, keys[..60], "those that are pinned to what stays stay");
    }

    proptest! {
        #[test]
        fn what_leaves_ends_with_nothing_and_shares_are_even(
            before in 1u32..9,
            added in 0u32..5,
            leave in proptest::collection::vec(any::<bool>(), 13),
        ) {
            let all = before + added;
            let leaving: Vec<_> =
                (0..all as u16).filter(|number| leave[usize::from(*number)]).map(PartitionId).collect();
            prop_assume!(leaving.len() < all as usize);
            let placement = Placement::hash(before);
            let mut counts = placement.units_by_partition(all);
            let staying = all as usize - leaving.len();
            let (least, most) = (placement.units() / staying, placement.units().div_ceil(staying));
            let mut seen = std::collections::HashSet::new();
            for (to, units) in plan(&placement, all, &leaving) {
                prop_assert!(!leaving.contains(&to));
                for unit in units {
                    prop_assert!(seen.insert(unit), "{unit:?} moves twice");
                    counts[placement.owner_of(unit).expect("a unit").index()] -= 1;
                    counts[to.index()] += 1;
                }
            }
            for (number, count) in counts.into_iter().enumerate() {
                let leaves = leaving.contains(&PartitionId(number as u16));
                prop_assert!(if leaves { count == 0 } else { (least..=most).contains(&count) }, "{number}: {count}");
            }
        }

        #[test]
        fn shares_are_even_and_nothing_moves_that_need_not(before in 1u32..9, after in 1u32..9) {
            let after = before.max(after);
            let placement = Placement::hash(before);
            let mut counts = placement.units_by_partition(after);
            let units = placement.units();
            let (least, most) = (units / after as usize, units.div_ceil(after as usize));
            let needed: usize = counts.iter().map(|count| count.saturating_sub(most)).sum();
            let mut moved = 0;
            let mut seen = std::collections::HashSet::new();
            for (to, units) in plan(&placement, after, &[]) {
                for unit in units {
                    prop_assert!(seen.insert(unit), "{unit:?} moves twice");
                    counts[placement.owner_of(unit).expect("a unit").index()] -= 1;
                    counts[to.index()] += 1;
                    moved += 1;
                }
            }
            prop_assert!(counts.iter().all(|count| (least..=most).contains(count)), "{counts:?}");
            prop_assert!(moved >= needed && moved <= needed + after as usize, "{moved} moved, {needed} had to");
            if before == after {
                prop_assert_eq!(moved, 0);
            }
        }
    }
}
