//! A set of units, as a move names it: slots, or ranges of keys; or a set of single keys.
//!
//! Slots leave without the keys that are pinned: those are where they are, whoever owns their slot. What a move of slots left behind may
//! hold garbage of keys that were pinned elsewhere later, though, and keys that are pinned to the very place: so what is
//! cleaned is decided by the present owner of each key ([`may_hold`](UnitSet::may_hold)).
//!
//! A range is named by its bounds, not by its number: ranges may be split and merged while what a move left behind is still there.
//!
//! Invariants: all keys here are in stored form, which keeps their order; ranges ascend, are not empty and do not overlap; the
//! store's own keys belong to no set. Single keys ascend.

use std::borrow::Cow;

use biombo_engine::{Error, Op, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::pins::Pins;
use super::record::Input;
use super::{PINNED_KEY_BYTES_MAX, PartitionId, Placement, SLOTS, UnitId, Units, slot_of, slot_of_hash};
use crate::keyspace;

const WORDS: usize = SLOTS / 64;

/// Some units of a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnitSet {
    /// A bit for each slot; and the pins when the move began (none in a set that was read from a journal, which moves no more).
    Slots(Box<[u64; WORDS]>, Pins),
    /// Ranges of stored keys.
    Ranges(Vec<KeyRange>),
    /// Stored keys.
    Keys(Vec<Vec<u8>>),
}

/// `[from, to)` in stored keys; no `to`: to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl KeyRange {
    /// The user's keys from `from` up to `to`; no `to`: to the end.
    pub(crate) fn new(from: &[u8], to: Option<&[u8]>) -> Self {
        Self { from: keyspace::encode_from(from).into_owned(), to: to.map(|to| keyspace::encode_from(to).into_owned()) }
    }

    /// Whether all of `other` lies in it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let ends_before = match (&self.to, &other.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(other)) => other <= end,
        };
        self.from <= other.from && ends_before
    }

    fn holds(&self, stored: &[u8]) -> bool {
        self.from.as_slice() <= stored && self.to.as_deref().is_none_or(|to| stored < to)
    }

    fn meets(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        self.to.as_deref().is_none_or(|end| from < end) && to.is_none_or(|to| self.from.as_slice() < to)
    }
}

impl UnitSet {
    /// Units of `placement`; `Invalid` when one of them is not, or there are none.
    pub(crate) fn of(placement: &Placement, units: &[UnitId]) -> Result<Self> {
        let mut units = units.to_vec();
        units.sort_unstable();
        units.dedup();
        let Some(last) = units.last() else { return Err(Error::invalid("no unit was named")) };
        if last.0 as usize >= placement.units() {
            let what = format!("there is no unit {}: the placement has {}", last.0, placement.units());
            return Err(Error::invalid(what));
        }
        if let Units::Hash { pins, .. } = &placement.units {
            let mut slots = Box::new([0; WORDS]);
            units.iter().for_each(|unit| slots[unit.0 as usize / 64] |= 1 << (unit.0 % 64));
            return Ok(Self::Slots(slots, pins.clone()));
        }
        let ranges = placement.ranges();
        let range = |unit: &UnitId| {
            let unit = unit.0 as usize;
            KeyRange::new(ranges[unit].0, ranges.get(unit + 1).map(|(start, _)| *start))
        };
        Ok(Self::Ranges(units.iter().map(range).collect()))
    }

    /// Single keys, to be pinned or to go back to their slots; `Invalid` for one that cannot be pinned, `Unsupported` under range placement.
    pub(crate) fn of_keys<'k>(placement: &Placement, keys: impl IntoIterator<Item = &'k [u8]>) -> Result<Self> {
        if !matches!(placement.units, Units::Hash { .. }) {
            return Err(Error::unsupported(
                "single keys are moved under hash placement alone; move or split a range instead",
            ));
        }
        let mut stored = Vec::new();
        for key in keys {
            if key.is_empty() || key.len() > PINNED_KEY_BYTES_MAX {
                let what =
                    format!("a key of {} bytes cannot be moved alone: 1 to {PINNED_KEY_BYTES_MAX} can", key.len());
                return Err(Error::invalid(what));
            }
            stored.push(keyspace::encode(key).into_owned());
        }
        stored.sort_unstable();
        stored.dedup();
        if stored.is_empty() { Err(Error::invalid("no key was named")) } else { Ok(Self::Keys(stored)) }
    }

    /// The numbers that these units have in `placement`; `Invalid` when they are not units of it.
    pub(crate) fn numbers_in(&self, placement: &Placement) -> Result<Vec<UnitId>> {
        let strange = || Error::invalid("a move of units that the placement does not have");
        match (self, &placement.units) {
            (Self::Slots(..), Units::Hash { .. }) => Ok(self.slots().map(|slot| UnitId(slot as u32)).collect()),
            (Self::Ranges(ranges), Units::Range { .. }) => {
                let all = placement.ranges();
                let starts: Vec<_> = all.iter().map(|(start, _)| keyspace::encode_from(start)).collect();
                let number = |range: &KeyRange| {
                    let at = starts.binary_search_by(|start| (**start).cmp(&range.from)).map_err(|_| strange())?;
                    let end = starts.get(at + 1).map(|end| &**end);
                    if end == range.to.as_deref() { Ok(UnitId(at as u32)) } else { Err(strange()) }
                };
                ranges.iter().map(number).collect()
            }
            _ => Err(strange()),
        }
    }

    /// Whether `partition` owns one of them by `placement`, or, of ranges that were split or merged since, a part of one.
    pub(crate) fn any_is_owned_by(&self, partition: PartitionId, placement: &Placement) -> bool {
        match (self, &placement.units) {
            (Self::Keys(keys), _) => {
                keys.iter().any(|stored| placement.owner(keyspace::decode(stored, &mut Vec::new())) == partition)
            }
            (Self::Slots(..), Units::Hash { owners, .. }) => self.slots().any(|slot| owners[slot] == partition),
            (Self::Ranges(ranges), Units::Range { .. }) => {
                let all = placement.ranges();
                let ends = all.iter().skip(1).map(|(start, _)| Some(*start)).chain([None]);
                let mut owned = all.iter().zip(ends).filter(|((_, owner), _)| *owner == partition);
                owned.any(|((start, _), end)| {
                    let whole = KeyRange::new(start, end);
                    ranges.iter().any(|range| range.meets(&whole.from, whole.to.as_deref()))
                })
            }
            _ => false,
        }
    }

    fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let words: &[u64] = if let Self::Slots(words, _) = self { &words[..] } else { &[] };
        (0..SLOTS.min(words.len() * 64)).filter(|slot| words[slot / 64] >> (slot % 64) & 1 == 1)
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Slots(..) => self.slots().count(),
            Self::Ranges(ranges) => ranges.len(),
            Self::Keys(keys) => keys.len(),
        }
    }

    /// Whether a stored key belongs to one of them, and goes where they go.
    pub(crate) fn holds(&self, stored: &[u8]) -> bool {
        match self {
            _ if keyspace::is_own(stored) => false,
            Self::Slots(slots, pins) => {
                let mut scratch = Vec::new();
                let key = keyspace::decode(stored, &mut scratch);
                let hash = xxh3_64(key);
                is_set(slots, slot_of_hash(hash)) && pins.find(hash, key).is_none()
            }
            Self::Ranges(ranges) => {
                let before = ranges.partition_point(|range| range.from.as_slice() <= stored);
                before > 0 && ranges[before - 1].holds(stored)
            }
            Self::Keys(keys) => keys.binary_search_by(|key| key.as_slice().cmp(stored)).is_ok(),
        }
    }

    /// Whether a move of them may have left a stored key behind: whether it did, its present owner tells.
    pub(crate) fn may_hold(&self, stored: &[u8]) -> bool {
        match self {
            Self::Slots(slots, _) => !keyspace::is_own(stored) && is_set(slots, slot_of_stored(stored)),
            _ => self.holds(stored),
        }
    }

    /// Whether an operation on stored keys may change a key of them.
    pub(crate) fn touched_by(&self, op: &Op<'_>) -> bool {
        match (self, op) {
            (_, Op::Put { key, .. } | Op::Delete { key }) => self.holds(key),
            (Self::Slots(..), Op::DeleteRange { .. }) => true,
            (Self::Ranges(ranges), Op::DeleteRange { from, to }) => ranges.iter().any(|range| range.meets(from, *to)),
            (Self::Keys(keys), Op::DeleteRange { from, to }) => {
                let first = keys.partition_point(|key| key.as_slice() < *from);
                keys.get(first).is_some_and(|key| to.is_none_or(|to| key.as_slice() < to))
            }
        }
    }

    /// Whether a unit or a key is in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slots(a, _), Self::Slots(b, _)) => a.iter().zip(b.iter()).any(|(a, b)| a & b != 0),
            (Self::Ranges(a), Self::Ranges(b)) => {
                a.iter().any(|range| b.iter().any(|other| range.meets(&other.from, other.to.as_deref())))
            }
            (Self::Keys(keys), other) | (other, Self::Keys(keys)) => keys.iter().any(|key| other.may_hold(key)),
            _ => false,
        }
    }

    /// The first place at or after the stored key `from` where a key of them can be; `None`: there is none.
    pub(crate) fn seek<'a>(&'a self, from: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Slots(..) => Some(from.max(keyspace::USER_FROM).into()),
            Self::Keys(keys) => keys.get(keys.partition_point(|key| key.as_slice() < from)).map(|key| key.into()),
            Self::Ranges(ranges) => {
                let range = ranges.iter().find(|range| range.to.as_deref().is_none_or(|to| from < to))?;
                Some(from.max(&range.from).into())
            }
        }
    }

    /// Its field in a record: see `docs/format/store.md`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        fn slice(out: &mut Vec<u8>, bytes: &[u8]) {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        match self {
            Self::Slots(..) => {
                out.push(0);
                out.extend_from_slice(&(self.len() as u32).to_le_bytes());
                self.slots().for_each(|slot| out.extend_from_slice(&(slot as u16).to_le_bytes()));
            }
            Self::Ranges(ranges) => {
                out.push(1);
                out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
                for range in ranges {
                    slice(out, &range.from);
                    // No range ends at the empty key.
                    slice(out, range.to.as_deref().unwrap_or_default());
                }
            }
            Self::Keys(keys) => {
                out.push(2);
                out.extend_from_slice(&(keys.len() as u32).to_le_bytes());
                keys.iter().for_each(|key| slice(out, key));
            }
        }
    }

    pub(super) fn decode(input: &mut Input<'_>) -> Result<Self> {
        let kind = input.byte()?;
        let count = input.u32()?;
        match kind {
            0 => {
                let mut slots = Box::new([0; WORDS]);
                for _ in 0..count {
                    let slot = usize::from(input.u16()?);
                    let word = slots.get_mut(slot / 64).ok_or_else(|| Error::invalid("a slot that does not exist"))?;
                    *word |= 1u64 << (slot % 64);
                }
                Ok(Self::Slots(slots, Pins::default()))
            }
            1 => {
                let mut ranges: Vec<KeyRange> = Vec::new();
                for _ in 0..count {
                    let (from, to) = (input.slice()?.to_vec(), input.slice()?.to_vec());
                    let after = ranges.last().is_none_or(|last| last.to.as_ref().is_some_and(|to| *to <= from));
                    if !after || (!to.is_empty() && to <= from) {
                        return Err(Error::invalid("ranges that are empty or out of order"));
                    }
                    ranges.push(KeyRange { from, to: (!to.is_empty()).then_some(to) });
                }
                Ok(Self::Ranges(ranges))
            }
            2 => {
                let mut keys: Vec<Vec<u8>> = Vec::new();
                for _ in 0..count {
                    let key = input.slice()?.to_vec();
                    if keyspace::is_own(&key) || key.is_empty() || keys.last().is_some_and(|last| *last >= key) {
                        return Err(Error::invalid("keys that are out of order or cannot be"));
                    }
                    keys.push(key);
                }
                Ok(Self::Keys(keys))
            }
            _ => Err(Error::unsupported("units of a kind that this version does not know")),
        }
    }
}

fn is_set(slots: &[u64; WORDS], slot: usize) -> bool {
    slots[slot / 64] >> (slot % 64) & 1 == 1
}

fn slot_of_stored(stored: &[u8]) -> usize {
    slot_of(keyspace::decode(stored, &mut Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placements() -> [Placement; 2] {
        [Placement::hash(3), Placement::range(3, ["", "f", "m", "t"].map(|k| k.as_bytes().to_vec()).to_vec())]
    }

    #[test]
    fn what_is_no_unit_is_refused() {
        for placement in placements() {
            UnitSet::of(&placement, &[]).expect_err("none");
            UnitSet::of(&placement, &[UnitId(placement.units() as u32)]).expect_err("past the end");
        }
        let [hash, range] = placements();
        let slots = UnitSet::of(&hash, &[UnitId(1)]).expect("a slot");
        assert!(range.moved(&slots, crate::PartitionId(0)).is_err() && slots.numbers_in(&range).is_err());
    }

    proptest! {
        /// Two letters and a zero, so that keys meet bounds and begin with what stored keys escape.
        #[test]
        fn a_set_holds_the_keys_of_its_units_and_is_found_by_seeking(
            units in proptest::collection::vec(0u32..3, 1..3),
            keys in proptest::collection::vec("[\0fm]{1,3}", 1..20),
        ) {
            for placement in placements() {
                let units: Vec<_> = match placement.kind() {
                    crate::PlacementKind::Range => units.iter().copied().map(UnitId).collect(),
                    // Units that some of the keys are in.
                    crate::PlacementKind::Hash => keys.iter().take(units.len()).map(|key| placement.unit_of(key.as_bytes())).collect(),
                };
                let set = UnitSet::of(&placement, &units).expect("units");
                let mut numbers = units.clone();
                numbers.sort_unstable();
                numbers.dedup();
                prop_assert_eq!(set.numbers_in(&placement).expect("units of it"), numbers);
                let moved = placement.moved(&set, crate::PartitionId(2)).expect("units of it");
                prop_assert_eq!(moved.epoch().0, placement.epoch().0 + 1);
                for key in &keys {
                    let key = key.as_bytes();
                    let stored = keyspace::encode(key);
                    let inside = units.contains(&placement.unit_of(key));
                    prop_assert_eq!(set.holds(&stored), inside);
                    prop_assert_eq!(set.touched_by(&Op::Delete { key: &stored }), inside);
                    let owner = if inside { crate::PartitionId(2) } else { placement.owner(key) };
                    prop_assert_eq!(moved.owner(key), owner);
                    for from in &keys {
                        let from = keyspace::encode(from.as_bytes());
                        let at = set.seek(&from);
                        if inside && *stored >= *from {
                            prop_assert!(at.is_some_and(|at| *at <= *stored && *at >= *from), "sought past a key");
                            let end = [&stored[..], &[0]].concat();
                            let range = Op::DeleteRange { from: &from, to: Some(&end) };
                            prop_assert!(set.touched_by(&range));
                        }
                    }
                }
                prop_assert!(!set.holds(keyspace::MARK));
                let mut record = Vec::new();
                set.encode(&mut record);
                prop_assert_eq!(&UnitSet::decode(&mut Input(&record)).expect("decodes"), &set);
                for cut in 0..record.len() {
                    prop_assert!(UnitSet::decode(&mut Input(&record[..cut])).is_err());
                }
            }
        }

        #[test]
        fn keys_go_alone_and_slots_without_them(
            keys in proptest::collection::vec("[\0fm]{1,3}", 1..12),
            alone in proptest::collection::vec(any::<proptest::sample::Index>(), 1..6),
            from in "[\0fm]{0,3}",
        ) {
            let hash = Placement::hash(3);
            let to = crate::PartitionId(2);
            let mut alone: Vec<&str> = alone.iter().map(|at| keys[at.index(keys.len())].as_str()).collect();
            alone.sort_unstable();
            alone.dedup();
            let set = UnitSet::of_keys(&hash, alone.iter().map(|key| key.as_bytes())).expect("keys");
            prop_assert_eq!(set.len(), alone.len());
            let pinned = hash.moved(&set, to).expect("keys");
            let elsewhere = alone.iter().filter(|key| hash.owner(key.as_bytes()) != to).count();
            prop_assert_eq!((pinned.epoch().0, pinned.pins()), (hash.epoch().0 + 1, elsewhere));
            prop_assert!(pinned.owners_of_range(b"", None).contains(&to));
            // All slots of the keys go to partition 0.
            let units: Vec<_> = keys.iter().map(|key| hash.unit_of(key.as_bytes())).collect();
            let slots = UnitSet::of(&pinned, &units).expect("units");
            let moved = pinned.moved(&slots, crate::PartitionId(0)).expect("units");
            let from = keyspace::encode_from(from.as_bytes());
            let mut first = None;
            for key in &keys {
                let (stored, is_alone) = (keyspace::encode(key.as_bytes()), alone.contains(&key.as_str()));
                let is_pinned = is_alone && hash.owner(key.as_bytes()) != to;
                prop_assert_eq!((set.holds(&stored), set.may_hold(&stored)), (is_alone, is_alone));
                prop_assert_eq!((slots.holds(&stored), slots.may_hold(&stored)), (!is_pinned, true));
                let owner = if is_alone { to } else { hash.owner(key.as_bytes()) };
                prop_assert_eq!(pinned.owner(key.as_bytes()), owner);
                prop_assert_eq!(moved.owner(key.as_bytes()), if is_pinned { to } else { crate::PartitionId(0) });
                let end = [&stored[..], &[0]].concat();
                let range = Op::DeleteRange { from: &stored, to: Some(&end) };
                prop_assert_eq!(set.touched_by(&range), is_alone);
                if is_alone && *stored >= *from {
                    first = Some(first.map_or(stored.to_vec(), |first: Vec<u8>| first.min(stored.to_vec())));
                }
            }
            prop_assert_eq!(set.seek(&from).map(Cow::into_owned), first);
            prop_assert!(set.meets(&slots) && slots.meets(&set) && set.meets(&set));
            let other = UnitSet::of_keys(&hash, [&b"another"[..]]).expect("a key");
            prop_assert!(!set.meets(&other) && !set.holds(keyspace::MARK));
            // Back to where their slots are.
            let back = alone.iter().fold(moved, |placement, key| {
                let set = UnitSet::of_keys(&placement, [key.as_bytes()]).expect("a key");
                placement.moved(&set, crate::PartitionId(0)).expect("a key")
            });
            prop_assert_eq!(back.pins(), 0);
            let mut record = Vec::new();
            set.encode(&mut record);
            prop_assert_eq!(&UnitSet::decode(&mut Input(&record)).expect("decodes"), &set);
            for cut in 0..record.len() {
                prop_assert!(UnitSet::decode(&mut Input(&record[..cut])).is_err());
            }
            let record = pinned.encode();
            prop_assert_eq!(&Placement::decode(&record, 3).expect("decodes"), &pinned);
            for cut in crate::placement::record::cuts(record.len(), record.len() + keys.len()) {
                prop_assert!(Placement::decode(&record[..cut], 3).is_err());
            }
        }

        #[test]
        fn sets_meet_where_they_share_a_unit(a in proptest::collection::vec(0u32..3, 1..3), b in proptest::collection::vec(0u32..3, 1..3)) {
            for placement in placements() {
                let set = |units: &[u32]| UnitSet::of(&placement, &units.iter().copied().map(UnitId).collect::<Vec<_>>()).expect("units");
                prop_assert_eq!(set(&a).meets(&set(&b)), a.iter().any(|unit| b.contains(unit)));
            }
        }
    }
}
