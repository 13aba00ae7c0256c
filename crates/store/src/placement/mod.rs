//! Which partition owns a key.
//!
//! The key space is cut into units: hash slots, or key ranges; single keys may be pinned elsewhere than their slot. A [`Placement`] is an immutable value; the store reads the
//! present one with one atomic load (`present`) and replaces it as a whole. Each has an [`Epoch`], one more than the one before.
//!
//! | room | idea |
//! |---|---|
//! | [`Placement`] | the assignment itself |
//! | `pins` | keys that live elsewhere than their slot |
//! | `units` | a set of units, or of keys, as moves name it |
//! | `cuts` | where ranges are split and merged |
//! | `record` | how it stands in a journal |
//! | `journal` | the placements of a store and the moves between them, through any crash |
//!
//! Invariants: every key belongs to exactly one unit and every unit to exactly one partition, which owns the key unless it is pinned; epochs
//! only grow. Ranges have no pins: a scan walks from range to range and asks nobody else. Splitting and merging ranges changes nobody's owner.

mod cuts;
mod journal;
mod pins;
mod record;
mod units;

use std::sync::Arc;

use biombo_engine::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::bounds::Bounds;
use crate::{PlacementKind, keyspace};

use pins::Pins;

pub(crate) use cuts::{CUT_BYTES_MAX, Cuts};
pub(crate) use journal::{Leftover, MoveId, PlacementJournal};
pub(crate) use pins::PINNED_KEY_BYTES_MAX;
#[cfg(test)]
pub(crate) use pins::made;
pub(crate) use record::Input;
pub(crate) use units::{KeyRange, UnitSet};

/// A partition's number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The version of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A unit of a placement: the number of a slot, or of a range in order, which changes when ranges are split or merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// Hash slots of a store: enough that 1,024 partitions can be balanced, few enough to stay in the first-level cache (8 KiB).
pub const SLOTS: usize = 4096;

/// One assignment of all keys to partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    epoch: Epoch,
    units: Units,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Units {
    /// `owners[slot]`, by the top bits of the key's xxh3.
    Hash { owners: Arc<[PartitionId]>, pins: Pins, all: Arc<[PartitionId]> },
    /// Range `i` begins at bound `i - 1` (range 0 at the beginning) and belongs to `owners[i]`.
    Range { bounds: Bounds, owners: Vec<PartitionId> },
}

impl Units {
    fn hash(owners: Arc<[PartitionId]>, pins: Pins) -> Self {
        // Each owner once, in order, for scans. Not a walk over the pins, of which there may be a million at each move.
        let mut all: Vec<_> = owners.iter().copied().chain(pins.partitions()).collect();
        all.sort_unstable();
        all.dedup();
        Self::Hash { owners, pins, all: all.into() }
    }
}

impl Placement {
    /// Slots dealt to `partitions` in turn.
    pub fn hash(partitions: u32) -> Self {
        let owners: Arc<[_]> = (0..SLOTS).map(|slot| PartitionId((slot % partitions as usize) as u16)).collect();
        Self { epoch: Epoch(1), units: Units::hash(owners, Pins::default()) }
    }

    /// One range for each partition, cut at the quantiles of `sample`; with fewer distinct sampled keys than partitions, the
    /// key space is cut evenly by its first two bytes.
    pub fn range(partitions: u32, mut sample: Vec<Vec<u8>>) -> Self {
        sample.sort_unstable();
        sample.dedup();
        let count = partitions as usize;
        let mut starts: Vec<Vec<u8>> = Vec::new();
        if sample.len() >= count {
            starts.extend((1..count).map(|i| sample[i * sample.len() / count].clone()));
            if let Some(first) = starts.first_mut().filter(|first| begins_all(first)) {
                *first = vec![0, 0];
            }
        }
        if starts.len() + 1 < count || !starts.is_sorted_by(|a, b| a < b) {
            starts = (1..count).map(|i| ((i * 65_536 / count) as u16).to_be_bytes().to_vec()).collect();
        }
        let owners = (0..count).map(|i| PartitionId(i as u16)).collect();
        Self { epoch: Epoch(1), units: Units::Range { bounds: Bounds::new(starts), owners } }
    }

    /// Its version.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Hash or range.
    pub fn kind(&self) -> PlacementKind {
        match self.units {
            Units::Hash { .. } => PlacementKind::Hash,
            Units::Range { .. } => PlacementKind::Range,
        }
    }

    /// How many units.
    pub fn units(&self) -> usize {
        self.owners().len()
    }

    /// The owner of `key`. O(1) for slots and pins, O(log ranges) for ranges; no lock, no allocation.
    ///
    /// ```
    /// use biombo_store::{PartitionId, Placement};
    /// let placement = Placement::range(2, vec![b"a".to_vec(), b"m".to_vec()]);
    /// assert_eq!(placement.owner(b"lion"), PartitionId(0));
    /// assert_eq!(placement.owner(b"mouse"), PartitionId(1));
    /// ```
    #[inline]
    pub fn owner(&self, key: &[u8]) -> PartitionId {
        match &self.units {
            Units::Hash { owners, pins, .. } => {
                let hash = xxh3_64(key);
                pins.find(hash, key).unwrap_or_else(|| owners[slot_of_hash(hash)])
            }
            Units::Range { bounds, owners } => by_range(bounds, owners, key),
        }
    }

    /// The unit that holds `key`, by the number that it has in this placement.
    pub fn unit_of(&self, key: &[u8]) -> UnitId {
        UnitId(match &self.units {
            Units::Hash { .. } => slot_of(key) as u32,
            Units::Range { bounds, .. } => bounds.at_most(key) as u32,
        })
    }

    /// The owner of a unit; `None`: there is no such unit.
    pub fn owner_of(&self, unit: UnitId) -> Option<PartitionId> {
        self.owners().get(unit.0 as usize).copied()
    }

    /// The units that `partition` owns, in order.
    pub fn units_of(&self, partition: PartitionId) -> Vec<UnitId> {
        let owned = self.owners().iter().enumerate().filter(|(_, owner)| **owner == partition);
        owned.map(|(unit, _)| UnitId(unit as u32)).collect()
    }

    fn owners(&self) -> &[PartitionId] {
        match &self.units {
            Units::Hash { owners, .. } => owners,
            Units::Range { owners, .. } => owners,
        }
    }

    /// Whether `key` is pinned elsewhere than its slot.
    pub(crate) fn is_pinned(&self, key: &[u8]) -> bool {
        matches!(&self.units, Units::Hash { pins, .. } if pins.find(xxh3_64(key), key).is_some())
    }

    /// The keys that are pinned, and where, in no order.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = (&[u8], PartitionId)> {
        let pins = if let Units::Hash { pins, .. } = &self.units { Some(pins) } else { None };
        pins.into_iter().flat_map(Pins::iter)
    }

    /// How many keys are pinned elsewhere than their slot.
    pub fn pins(&self) -> usize {
        if let Units::Hash { pins, .. } = &self.units { pins.len() } else { 0 }
    }

    /// The next placement, in which `to` owns `units`; `Invalid` when they are not units of this one.
    pub(crate) fn moved(&self, units: &UnitSet, to: PartitionId) -> Result<Self> {
        let next = |units| Ok(Self { epoch: Epoch(self.epoch.0 + 1), units });
        if let (UnitSet::Keys(keys), Units::Hash { owners, pins, .. }) = (units, &self.units) {
            let users: Vec<_> = keys.iter().map(|stored| keyspace::decode(stored, &mut Vec::new()).to_vec()).collect();
            // Where its slot is, a key needs no pin.
            let change = |key: &[u8]| if owners[slot_of(key)] == to { None } else { Some(to) };
            let changes = users.iter().map(|key| (key.as_slice(), change(key)));
            return next(Units::hash(Arc::clone(owners), pins.with(changes)));
        }
        let numbers = units.numbers_in(self)?;
        let mut owners = self.owners().to_vec();
        numbers.iter().for_each(|unit| owners[unit.0 as usize] = to);
        next(match &self.units {
            Units::Hash { pins, .. } => Units::hash(owners.into(), pins.clone()),
            Units::Range { bounds, .. } => Units::Range { bounds: bounds.clone(), owners },
        })
    }

    /// The same under other numbers of the partitions, as the next placement; `Invalid` where one that has none owns something.
    pub(crate) fn renumbered(&self, numbers: &[Option<PartitionId>]) -> Result<Self> {
        let gone = |old: PartitionId| Error::invalid(format!("partition {} still owns something", old.0));
        let number = |old: PartitionId| numbers.get(old.index()).copied().flatten().ok_or_else(|| gone(old));
        let owners = self.owners().iter().map(|owner| number(*owner)).collect::<Result<Vec<_>>>()?;
        let units = match &self.units {
            Units::Hash { pins, .. } => {
                let pins = pins.iter().map(|(key, at)| Ok((key, Some(number(at)?)))).collect::<Result<Vec<_>>>()?;
                Units::hash(owners.into(), Pins::default().with(pins))
            }
            Units::Range { bounds, .. } => Units::Range { bounds: bounds.clone(), owners },
        };
        Ok(Self { epoch: Epoch(self.epoch.0 + 1), units })
    }

    /// The partitions that may own a key of `[from, to)`, each once: in order of their ranges, or of their numbers under
    /// hash placement.
    pub fn owners_of_range(&self, from: &[u8], to: Option<&[u8]>) -> Vec<PartitionId> {
        match &self.units {
            Units::Hash { all, .. } => all.to_vec(),
            Units::Range { owners, .. } => {
                let (first, last) = self.ranges_within(from, to);
                let all = &owners[first..=last];
                // A bit for each owner that was met.
                let mut met = vec![0u64; all.iter().map(|owner| owner.index() / 64 + 1).max().unwrap_or(0)];
                let mut is_new = |owner: &PartitionId| {
                    let (word, bit) = (&mut met[owner.index() / 64], 1 << (owner.index() % 64));
                    std::mem::replace(word, *word | bit) & bit == 0
                };
                all.iter().copied().filter(|owner| is_new(owner)).collect()
            }
        }
    }

    /// The first and the last range that may hold a key of `[from, to)`; of hash slots the first alone. O(log ranges).
    pub(crate) fn ranges_within(&self, from: &[u8], to: Option<&[u8]>) -> (usize, usize) {
        let Units::Range { bounds, .. } = &self.units else { return (0, 0) };
        let (starts, first) = (bounds.starts(), bounds.at_most(from));
        let last = to.map_or(starts.len(), |to| starts.partition_point(|start| start.as_slice() < to));
        (first, last.max(first))
    }

    /// Where a range begins; `None`: there is no such range.
    pub(crate) fn start_of(&self, range: UnitId) -> Option<&[u8]> {
        match range.0.checked_sub(1) {
            None => Some(b""),
            Some(before) => self.starts().get(before as usize).map(Vec::as_slice),
        }
    }

    /// The first key of each range and its owner; empty under hash placement.
    pub fn ranges(&self) -> Vec<(&[u8], PartitionId)> {
        match &self.units {
            Units::Hash { .. } => Vec::new(),
            Units::Range { bounds, owners } => std::iter::once(&b""[..])
                .chain(bounds.starts().iter().map(Vec::as_slice))
                .zip(owners.iter().copied())
                .collect(),
        }
    }

    /// The beginnings of all ranges but the first; empty under hash placement.
    pub(crate) fn starts(&self) -> &[Vec<u8>] {
        if let Units::Range { bounds, .. } = &self.units { bounds.starts() } else { &[] }
    }

    /// How many units each of `partitions` owns.
    pub fn units_by_partition(&self, partitions: u32) -> Vec<usize> {
        let mut counts = vec![0; partitions as usize];
        for owner in self.owners() {
            if let Some(count) = counts.get_mut(owner.index()) {
                *count += 1;
            }
        }
        counts
    }
}

/// Whether all keys come from `key` on: no range begins there but the first, since nothing lies before.
pub(crate) fn begins_all(key: &[u8]) -> bool {
    key.is_empty() || key == [0]
}

/// Apart, so that the way of hash slots saves no registers for the sake of this one.
#[inline(never)]
fn by_range(bounds: &Bounds, owners: &[PartitionId], key: &[u8]) -> PartitionId {
    owners[bounds.at_most(key)]
}

/// The slot of a key: the top bits of its xxh3.
#[inline]
fn slot_of(key: &[u8]) -> usize {
    slot_of_hash(xxh3_64(key))
}

#[inline]
fn slot_of_hash(hash: u64) -> usize {
    (hash >> (64 - SLOTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_are_dealt_evenly() {
        let counts = Placement::hash(3).units_by_partition(3);
        assert!(counts.iter().max().expect("three") - counts.iter().min().expect("three") <= 1, "{counts:?}");
    }

    #[test]
    fn a_range_reaches_exactly_the_partitions_that_own_a_piece_of_it() {
        let placement = Placement::range(4, ["a", "f", "m", "t"].map(|k| k.as_bytes().to_vec()).to_vec());
        let ids = |from: &[u8], to: Option<&[u8]>| {
            placement.owners_of_range(from, to).iter().map(|p| p.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(b"", None), [0, 1, 2, 3]);
        assert_eq!(ids(b"f", Some(b"m")), [1]);
        assert_eq!(ids(b"f", Some(b"m\0")), [1, 2]);
        assert_eq!(ids(b"z", None), [3]);
        assert_eq!(ids(b"z", Some(b"a")), [3]);
    }

    #[test]
    fn no_range_ends_before_the_first_key() {
        for sample in [&["\0", "a", "b"][..], &["", "\0", "b"], &["", "\0", "\0\0"], &["\0", "\0\0", "\0\0\0"]] {
            let placement = Placement::range(3, sample.iter().map(|key| key.as_bytes().to_vec()).collect());
            assert_eq!(placement.units(), 3);
            assert!(placement.starts().iter().all(|start| !begins_all(start)), "{:?}", placement.starts());
            for unit in 0..3 {
                let units = UnitSet::of(&placement, &[UnitId(unit)]).expect("a range");
                assert_eq!(units.numbers_in(&placement).expect("of it"), [UnitId(unit)]);
            }
        }
    }

    #[test]
    fn a_partition_that_owns_nothing_but_a_pinned_key_is_asked_too() {
        let key = UnitSet::of_keys(&Placement::hash(1), [&b"hot"[..]]).expect("a key");
        let placement = Placement::hash(1).moved(&key, PartitionId(7)).expect("a key");
        assert_eq!(placement.owners_of_range(b"", None), [PartitionId(0), PartitionId(7)]);
        assert_eq!((placement.owner(b"hot"), placement.owner(b"cold")), (PartitionId(7), PartitionId(0)));
    }

    #[test]
    fn partitions_get_other_numbers_unless_one_that_goes_owns_something() {
        let ids = |numbers: &[Option<u16>]| numbers.iter().map(|number| number.map(PartitionId)).collect::<Vec<_>>();
        let key = UnitSet::of_keys(&Placement::hash(1), [&b"hot"[..]]).expect("a key");
        let hash = Placement::hash(1).moved(&key, PartitionId(2)).expect("a key");
        let after = hash.renumbered(&ids(&[Some(1), None, Some(0)])).expect("partition 1 owns nothing");
        assert_eq!((after.owner(b"hot"), after.owner(b"cold")), (PartitionId(0), PartitionId(1)));
        assert_eq!((after.epoch().0, after.pins()), (hash.epoch().0 + 1, 1));
        // The pin alone keeps it.
        hash.renumbered(&ids(&[Some(0), Some(1), None])).expect_err("a key is pinned there");
        hash.renumbered(&ids(&[Some(0), Some(1)])).expect_err("it has no number");
        let range = Placement::range(3, ["", "g", "p"].map(|key| key.as_bytes().to_vec()).to_vec());
        range.renumbered(&ids(&[Some(0), None, Some(1)])).expect_err("a range lies there");
        let first = UnitSet::of(&range, &[UnitId(1)]).expect("a range");
        let moved = range.moved(&first, PartitionId(2)).expect("a range");
        let after = moved.renumbered(&ids(&[Some(0), None, Some(1)])).expect("partition 1 owns nothing");
        assert_eq!(["a", "h", "q"].map(|key| after.owner(key.as_bytes()).0), [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn placements_come_back_from_their_records(keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..40), partitions in 1u32..12) {
            for placement in [Placement::hash(partitions), Placement::range(partitions, keys.clone())] {
                let record = placement.encode();
                let back = Placement::decode(&record, partitions).expect("decodes");
                prop_assert_eq!(&back, &placement);
                for key in &keys {
                    prop_assert!(u32::from(placement.owner(key).0) < partitions);
                    prop_assert!(placement.owners_of_range(key, None).contains(&placement.owner(key)));
                }
                for cut in super::record::cuts(record.len(), keys.len()) {
                    prop_assert!(Placement::decode(&record[..cut], partitions).is_err());
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(record in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Placement::decode(&record, 8);
        }
    }
}
