//! Ranges that are split, merged, and moved by their bounds.
//!
//! Splitting and merging moves nothing: a record in the placement journal, then another topology. No key changes its owner, so nobody waits, and whoever routed by
//! the topology before routes once more.
//!
//! Crash argument: that of `placement::cuts`; a move by bounds is splits, then moves of whole units.

use biombo_engine::{Error, Result};

use super::{Moved, Mover, Pace, Tidied};
use crate::placement::{Cuts, KeyRange, begins_all};
use crate::{PartitionId, Placement, Store, UnitId};

/// Bytes of keys in one record of cuts, about: it stays far below a segment of the placement journal.
const CUTS_BYTES_MAX: usize = 8 << 10;

impl Mover {
    /// Split and merge as `cuts` says of the placement of the moment; returns how many ranges that were.
    pub(crate) fn recut(&self, cuts: impl FnOnce(&Placement) -> Result<Cuts>) -> Result<usize> {
        let _role = self.take_role();
        self.recut_in_role(cuts)
    }

    /// As [`recut`](Mover::recut), by the thread that has the role.
    pub(crate) fn recut_in_role(&self, cuts: impl FnOnce(&Placement) -> Result<Cuts>) -> Result<usize> {
        self.poison.check()?;
        let cuts = cuts(&self.topology.get().1.placement)?;
        let count = cuts.len();
        if cuts.is_empty() {
            return Ok(0);
        }
        let done =
            cuts.in_parts(CUTS_BYTES_MAX).iter().try_for_each(|part| self.poison.watch(self.journal().recut(part)));
        // Also of parts before one that failed.
        self.replace(self.topology());
        done.map(|()| count)
    }

    /// [`Store::move_range`].
    pub(crate) fn move_range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        partition: PartitionId,
        pace: Pace,
    ) -> Result<Moved> {
        let _role = self.take_role();
        let from = if begins_all(from) { &[][..] } else { from };
        if to.is_some_and(|to| to <= from || begins_all(to)) {
            return Err(Error::invalid("a range that ends where it begins, or before, holds no key"));
        }
        self.check_target(partition)?;
        let _governed = self.govern(pace);
        self.recut_in_role(|placement| {
            // What lies there already needs no bounds of its own.
            let bounds = std::iter::once(from).chain(to);
            let elsewhere = bounds.filter(|key| placement.owner(key) != partition);
            Cuts::splits(placement, elsewhere.map(<[u8]>::to_vec))
        })?;
        let units = units_within(&self.topology.get().1.placement, from, to);
        if units.is_empty() {
            return Ok(Moved { cleaned: true, ..Moved::default() });
        }
        self.move_units_in_role(&units, partition, pace)
    }
}

impl Mover {
    /// As [`move_units`](Mover::move_units), by the thread that has the role, and by the numbers that they had in `placement`: of ranges those
    /// move that lie in one of them now.
    pub(crate) fn move_units_of_in_role(
        &self,
        placement: &Placement,
        units: &[UnitId],
        to: PartitionId,
        pace: Pace,
    ) -> Result<Moved> {
        let topology = self.topology.get().1;
        let now = &topology.placement;
        if now.starts() == placement.starts() {
            return self.move_units_in_role(units, to, pace);
        }
        let ranges = placement.ranges();
        let within = units.iter().filter_map(|unit| {
            let end = ranges.get(unit.0 as usize + 1).map(|(start, _)| *start);
            Some(units_within(now, ranges.get(unit.0 as usize)?.0, end))
        });
        let units: Vec<_> = within.flatten().collect();
        if units.is_empty() {
            return Ok(Moved { cleaned: true, ..Moved::default() });
        }
        self.move_units_in_role(&units, to, pace)
    }
}

/// The ranges that lie in `[from, to)` as a whole.
pub(super) fn units_within(placement: &Placement, from: &[u8], to: Option<&[u8]>) -> Vec<UnitId> {
    let wanted = KeyRange::new(from, to);
    let ranges = placement.ranges();
    let ends = ranges.iter().skip(1).map(|(start, _)| Some(*start)).chain([None]);
    let within = ranges.iter().zip(ends).enumerate();
    let within = within.filter(|(_, ((start, _), end))| wanted.covers(&KeyRange::new(start, *end)));
    within.map(|(number, _)| UnitId(number as u32)).collect()
}

impl Store {
    /// Split ranges at `keys`, and say how many there are more now: each piece is a unit that can be moved for itself, and belongs to whom the
    /// whole did. Nothing moves, nobody waits. A key at which a range begins already is left out. O(ranges).
    ///
    /// # Errors
    /// `Unsupported` under hash placement, and as [`move_units`](Store::move_units); `Invalid` for a key over 1,024 bytes, and for more than 65,536 ranges.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace, PartitionId, PlacementKind};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory").partitions(2).placement(PlacementKind::Range);
    /// let store = options.open(dir.path(), &registry)?;
    /// assert_eq!(store.split_ranges(&["fish", "lion"])?, 2);
    /// assert_eq!(store.placement().units(), 4);
    /// assert_eq!(store.merge_ranges()?, 2);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn split_ranges(&self, keys: &[impl AsRef<[u8]>]) -> Result<usize> {
        let keys = keys.iter().map(|key| key.as_ref().to_vec());
        self.mover()?.recut(|placement| Cuts::splits(placement, keys))
    }

    /// Make one range of neighbours that belong to one partition, wherever there are some, and say how many there are fewer now. Nothing moves, nobody
    /// waits. O(ranges).
    ///
    /// # Errors
    /// `Unsupported` under hash placement, and as [`move_units`](Store::move_units).
    pub fn merge_ranges(&self) -> Result<usize> {
        self.mover()?.recut(|placement| Cuts::merges(placement, |_| true))
    }

    /// Give the keys from `from` (included) up to `to` (excluded; `None`: to the end) to `partition`, while reads and writes go on, whatever ranges there
    /// are: those that reach beyond are split first. As [`move_units`](Store::move_units), but that a pass is over those keys alone.
    ///
    /// # Errors
    /// As `move_units` and [`split_ranges`](Store::split_ranges); `Invalid` for a range that holds no key.
    ///
    /// ```
    /// # use biombo_engine::{Registry, memory};
    /// # use biombo_store::{Options, Pace, PartitionId, PlacementKind};
    /// # let mut registry = Registry::new();
    /// # registry.add(memory::kind());
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// let options = Options::new().engine("memory").partitions(2).placement(PlacementKind::Range);
    /// let store = options.open(dir.path(), &registry)?;
    /// ["user/ann", "user/zoe"].iter().try_for_each(|key| store.put(key.as_bytes(), b"..."))?;
    /// let to = PartitionId(1 - store.route(b"user/zoe").0);
    /// let moved = store.move_range(b"user/m", Some(b"user0"), to, Pace::default())?;
    /// assert_eq!((moved.units, moved.keys, store.route(b"user/zoe")), (1, 1, to));
    /// assert_ne!(store.route(b"user/ann"), to);
    /// # Ok::<(), biombo_engine::Error>(())
    /// ```
    pub fn move_range(&self, from: &[u8], to: Option<&[u8]>, partition: PartitionId, pace: Pace) -> Result<Moved> {
        let _tidy = Tidied(&self.inner);
        self.mover()?.move_range(from, to, partition, pace)
    }
}
