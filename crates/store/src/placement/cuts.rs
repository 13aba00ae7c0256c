//! Where ranges are split and where neighbours are merged: nothing moves, no key gets another owner.
//!
//! Invariants: only ranges of one partition become one; a piece belongs to whom the whole did; both lists of [`Cuts`] ascend and share nothing.
//!
//! Crash argument: a record is whole or not there, and by either placement every key has the same owner. What moves left behind is named by bounds, which
//! may lie anywhere among the ranges of now.

use biombo_engine::{Error, Result};

use super::record::Input;
use super::{Epoch, Placement, Units, begins_all};
use crate::bounds::Bounds;

/// The longest key at which a range may be split.
pub(crate) const CUT_BYTES_MAX: usize = 1024;
/// Ranges of a store at most.
pub(crate) const RANGES_MAX: usize = 1 << 16;

const ADDED: u8 = 1;
const REMOVED: u8 = 0;

/// Keys at which ranges begin from now on, and such at which they do no more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cuts {
    added: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
}

impl Cuts {
    /// Splits at those of `keys` at which no range of `placement` begins. `Invalid` for a key that is too long, and for more ranges than there may be;
    /// `Unsupported` under hash placement.
    pub(crate) fn splits(placement: &Placement, keys: impl IntoIterator<Item = Vec<u8>>) -> Result<Self> {
        check_kind(placement)?;
        let starts = placement.starts();
        let mut added: Vec<_> = keys.into_iter().collect();
        if let Some(key) = added.iter().find(|key| key.len() > CUT_BYTES_MAX) {
            let what = format!("a range cannot be split at a key of {} bytes: {CUT_BYTES_MAX} is the most", key.len());
            return Err(Error::invalid(what));
        }
        added.retain(|key| !begins_all(key) && starts.binary_search(key).is_err());
        added.sort_unstable();
        added.dedup();
        let count = placement.units() + added.len();
        if count > RANGES_MAX {
            return Err(Error::invalid(format!(
                "{count} ranges are too many: {RANGES_MAX} is the most; merge some first"
            )));
        }
        Ok(Self { added, removed: Vec::new() })
    }

    /// Merges of all neighbours that belong to one partition and of which `is_wanted` says so, by the key at which the second one begins.
    pub(crate) fn merges(placement: &Placement, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Result<Self> {
        check_kind(placement)?;
        let ranges = placement.ranges();
        let pairs = ranges.windows(2).filter(|pair| pair[0].1 == pair[1].1 && is_wanted(pair[1].0));
        Ok(Self { added: Vec::new(), removed: pairs.map(|pair| pair[1].0.to_vec()).collect() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.added.len() + self.removed.len()
    }

    /// The same in parts, each of about so many bytes.
    pub(crate) fn in_parts(self, bytes_max: usize) -> Vec<Self> {
        let mut parts = vec![Self::default()];
        let mut bytes = 0;
        let all =
            self.added.into_iter().map(|key| (key, ADDED)).chain(self.removed.into_iter().map(|key| (key, REMOVED)));
        for (key, how) in all {
            if bytes > bytes_max {
                parts.push(Self::default());
                bytes = 0;
            }
            bytes += key.len();
            let part = parts.last_mut().expect("invariant: there is one from the beginning");
            if how == ADDED { part.added.push(key) } else { part.removed.push(key) }
        }
        parts
    }

    /// Their field in a record: see `docs/format/store.md`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        let all = self.added.iter().map(|key| (key, ADDED)).chain(self.removed.iter().map(|key| (key, REMOVED)));
        for (key, how) in all {
            out.push(how);
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
        }
    }

    pub(super) fn decode(input: &mut Input<'_>) -> Result<Self> {
        let mut cuts = Self::default();
        for _ in 0..input.u32()? {
            let keys = match input.byte()? {
                ADDED => &mut cuts.added,
                REMOVED => &mut cuts.removed,
                _ => return Err(Error::unsupported("of cuts of a kind that this version does not know")),
            };
            let key = input.slice()?;
            if begins_all(key) || keys.last().is_some_and(|last| last.as_slice() >= key) {
                return Err(Error::invalid("of cuts that are out of order or cannot be"));
            }
            keys.push(key.to_vec());
        }
        Ok(cuts)
    }
}

impl Placement {
    /// The next placement, with ranges split and merged; `Invalid` where one begins already, or does not, or two that become one belong to
    /// different partitions.
    pub(crate) fn recut(&self, cuts: &Cuts) -> Result<Self> {
        check_kind(self)?;
        let old = self.starts();
        let is_start = |key: &Vec<u8>| old.binary_search(key).is_ok();
        if cuts.added.iter().any(is_start) || !cuts.removed.iter().all(is_start) {
            return Err(Error::invalid("cuts that the ranges have already, or have not"));
        }
        if cuts.removed.iter().any(|key| self.owner(key) != self.owner_before(key)) {
            return Err(Error::invalid("ranges of different partitions cannot be one"));
        }
        let stays = |key: &&Vec<u8>| cuts.removed.binary_search(key).is_err();
        let mut starts: Vec<_> = old.iter().filter(stays).chain(&cuts.added).cloned().collect();
        starts.sort_unstable();
        if starts.len() + 1 > RANGES_MAX {
            return Err(Error::invalid("more ranges than there may be"));
        }
        let owners = std::iter::once(&b""[..]).chain(starts.iter().map(Vec::as_slice)).map(|start| self.owner(start));
        let owners = owners.collect();
        Ok(Self { epoch: Epoch(self.epoch.0 + 1), units: Units::Range { bounds: Bounds::new(starts), owners } })
    }

    /// Who owns what lies directly before the beginning of a range.
    fn owner_before(&self, start: &[u8]) -> super::PartitionId {
        self.owners()[self.unit_of(start).0.saturating_sub(1) as usize]
    }
}

fn check_kind(placement: &Placement) -> Result<()> {
    match &placement.units {
        Units::Range { .. } => Ok(()),
        Units::Hash { .. } => Err(Error::unsupported(
            "hash slots are neither split nor merged: under hash placement single keys move, or slots",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartitionId;
    use crate::placement::UnitSet;
    use proptest::prelude::*;

    fn range(bounds: &[&str]) -> Placement {
        let sample = std::iter::once("").chain(bounds.iter().copied()).map(|key| key.as_bytes().to_vec()).collect();
        Placement::range(bounds.len() as u32 + 1, sample)
    }

    fn splits(placement: &Placement, keys: &[&str]) -> Result<Cuts> {
        Cuts::splits(placement, keys.iter().map(|key| key.as_bytes().to_vec()))
    }

    #[test]
    fn pieces_belong_to_whom_the_whole_did_and_only_ranges_of_one_partition_become_one() {
        let placement = range(&["g", "p"]);
        let cuts = splits(&placement, &["k", "c", "g", "", "c"]).expect("keys");
        assert_eq!(cuts.len(), 2, "what is no news is left out");
        let split = placement.recut(&cuts).expect("splits");
        let owners: Vec<_> = split.ranges().iter().map(|(start, owner)| (start.to_vec(), owner.0)).collect();
        let expected =
            [("", 0), ("c", 0), ("g", 1), ("k", 1), ("p", 2)].map(|(key, owner)| (key.as_bytes().to_vec(), owner));
        assert_eq!(owners, expected);
        assert_eq!(split.epoch().0, placement.epoch().0 + 1);
        split.recut(&cuts).expect_err("they begin there already");
        let whole = Cuts::merges(&split, |_| true).expect("ranges");
        let merged = split.recut(&whole).expect("of one partition each");
        assert_eq!(merged.ranges(), placement.ranges());
        merged.recut(&whole).expect_err("they do not begin there");
        let across = Cuts { added: Vec::new(), removed: vec![b"g".to_vec()] };
        split.recut(&across).expect_err("of two partitions");
        assert!(Cuts::merges(&placement, |_| true).expect("ranges").is_empty());
    }

    #[test]
    fn what_cannot_be_cut_is_refused_with_a_reason() {
        let hash = Placement::hash(2);
        assert!(splits(&hash, &["k"]).expect_err("slots").message().contains("hash"));
        Cuts::merges(&hash, |_| true).expect_err("slots");
        hash.recut(&Cuts::default()).expect_err("slots");
        let long = Cuts::splits(&range(&["g"]), [vec![7; CUT_BYTES_MAX + 1]]).expect_err("too long");
        assert!(long.message().contains("1024"), "{long}");
        let many = (0..RANGES_MAX as u32).map(|number| number.to_be_bytes().to_vec());
        assert!(Cuts::splits(&range(&["g"]), many).expect_err("too many").message().contains("merge"));
    }

    proptest! {
        #[test]
        fn no_key_gets_another_owner_and_records_say_what_was_cut(
            bounds in proptest::collection::btree_set("[\0am]{1,3}", 0..5),
            moved in proptest::collection::vec((0u32..6, 0u16..3), 0..4),
            cuts in proptest::collection::vec("[\0am]{0,3}", 0..6),
            merged in proptest::collection::vec(any::<bool>(), 12),
            keys in proptest::collection::vec("[\0amz]{1,4}", 1..20),
        ) {
            let mut placement = range(&bounds.iter().map(String::as_str).collect::<Vec<_>>());
            for (unit, to) in moved {
                if let Ok(units) = UnitSet::of(&placement, &[crate::UnitId(unit)]) {
                    placement = placement.moved(&units, PartitionId(to)).expect("a unit");
                }
            }
            let all = splits(&placement, &cuts.iter().map(String::as_str).collect::<Vec<_>>()).expect("keys");
            let mut split = placement.clone();
            for part in all.clone().in_parts(2) {
                split = split.recut(&part).expect("splits");
            }
            prop_assert_eq!(split.units(), placement.units() + all.len());
            let mut wanted = merged.iter().copied().cycle();
            let some = Cuts::merges(&split, |_| wanted.next().unwrap_or(false)).expect("ranges");
            let merged = split.recut(&some).expect("merges");
            prop_assert_eq!(merged.units(), split.units() - some.len());
            for key in &keys {
                let key = key.as_bytes();
                prop_assert_eq!((split.owner(key), merged.owner(key)), (placement.owner(key), placement.owner(key)));
                prop_assert_eq!(split.owner_of(split.unit_of(key)), Some(placement.owner(key)));
            }
            for cuts in [all, some] {
                let mut record = Vec::new();
                cuts.encode(&mut record);
                prop_assert_eq!(&Cuts::decode(&mut Input(&record)).expect("decodes"), &cuts);
                for cut in 0..record.len() {
                    prop_assert!(Cuts::decode(&mut Input(&record[..cut])).is_err());
                }
            }
        }
    }
}
