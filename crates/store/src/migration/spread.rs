//! Units spread evenly over all partitions, by as few moves as can be.

use biombo_engine::Result;

use super::{Moved, Pace};
use crate::{PartitionId, Placement, Store, UnitId};

impl Store {
    /// Give all partitions as many units each, but for one, moving as few as possible, while reads and writes go on: after opening with
    /// more partitions than before ([`Options::grow`](crate::Options::grow)). Cut short, by an error or a crash, it can be called again.
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
    /// let store = options.partitions(4).grow(true).open(dir.path(), &registry)?;
    /// assert_eq!(store.stats()?.units_by_partition, [2048, 2048, 0, 0]);
    /// assert_eq!(store.spread(Pace::default())?.units, 2048);
    /// assert_eq!(store.stats()?.units_by_partition, [1024; 4]);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn spread(&self, pace: Pace) -> Result<Moved> {
        let mut all = Moved { cleaned: true, ..Moved::default() };
        self.mover()?;
        for (to, units) in plan(&self.placement(), self.partitions()) {
            all.add(&self.move_units(&units, to, pace)?);
        }
        Ok(all)
    }
}

/// Which units go where.
fn plan(placement: &Placement, partitions: u32) -> Vec<(PartitionId, Vec<UnitId>)> {
    let owned: Vec<_> = (0..partitions).map(|number| placement.units_of(PartitionId(number as u16))).collect();
    let (share, more) = (placement.units() / owned.len(), placement.units() % owned.len());
    // Those that have most keep the units that do not divide.
    let mut by_size: Vec<_> = (0..owned.len()).collect();
    by_size.sort_by_key(|number| std::cmp::Reverse(owned[*number].len()));
    let mut shares = vec![share; owned.len()];
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_even_and_nothing_moves_that_need_not(before in 1u32..9, after in 1u32..9, ranges in any::<bool>()) {
            let after = before.max(after);
            let placement = if ranges { Placement::range(before, Vec::new()) } else { Placement::hash(before) };
            let mut counts = placement.units_by_partition(after);
            let units = placement.units();
            let (least, most) = (units / after as usize, units.div_ceil(after as usize));
            let needed: usize = counts.iter().map(|count| count.saturating_sub(most)).sum();
            let mut moved = 0;
            let mut seen = std::collections::HashSet::new();
            for (to, units) in plan(&placement, after) {
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
