//! What the threads of a run share.

use std::collections::BTreeMap;
use std::sync::Arc;

use biombo_store::{Placement, SLOTS};

use super::adversary::{Adversary, Whereabouts};
use super::clock::Mark;
use super::hot::shared_random;
use super::{Shift, ShiftKind};
use crate::workload::Keys;

/// What the threads of a run share.
#[derive(Debug, Clone)]
pub enum Common {
    /// Nothing: everything follows from the seed and the time.
    Nothing,
    /// The hot records, chosen by where hash placement puts their keys. Never empty.
    Chosen(Arc<[u64]>),
    /// The same as groups, each of so many records of one partition, one after the other. Never empty.
    Grouped(Arc<[u64]>, usize),
    /// The adversary.
    Adversary(Arc<Adversary>),
}

impl Common {
    /// Of `shift` over `records` records (at least 1) with these `keys`. Looks at every record until enough are found where the
    /// records are chosen by their place.
    pub fn new(shift: &Shift, seed: u64, records: u64, keys: &Keys, whereabouts: &dyn Whereabouts) -> Self {
        let hot = shift.hot(records);
        match shift.kind {
            ShiftKind::Slot => Self::Chosen(alike(seed, hot, records, |record| slot_of(keys, record))),
            ShiftKind::Partition => {
                // A hash placement deals its slots to the partitions in turn.
                let partition = |record| slot_of(keys, record) % shift.partitions;
                Self::Chosen(alike(seed, hot, records, partition))
            }
            ShiftKind::Worker => {
                // Two workers get them in turn as well.
                let worker = |record| slot_of(keys, record) % shift.partitions % 2;
                let chosen = alike(seed, hot, records, worker);
                match shift.group as usize {
                    0 | 1 => Self::Chosen(chosen),
                    size => in_groups(&chosen, size, |record| slot_of(keys, record) % shift.partitions),
                }
            }
            ShiftKind::Adversary => Self::Adversary(Arc::new(Adversary::new(seed, hot, records, whereabouts))),
            _ => Self::Nothing,
        }
    }

    /// What happened that was not known before the run.
    pub fn marks(&self) -> Vec<Mark> {
        match self {
            Self::Adversary(adversary) => adversary.marks(),
            _ => Vec::new(),
        }
    }
}

/// The hash slot of a record's key: its partition where every slot has one of its own.
fn slot_of(keys: &Keys, record: u64) -> u32 {
    thread_local! {
        static SLOT_EACH: Placement = Placement::hash(SLOTS as u32);
    }
    let mut key = Vec::new();
    keys.write(record, &mut key);
    SLOT_EACH.with(|placement| u32::from(placement.owner(&key).0))
}

/// At most `hot` records whose `place` is that of one which is drawn.
fn alike(seed: u64, hot: u64, records: u64, place: impl Fn(u64) -> u32) -> Arc<[u64]> {
    let one = shared_random(seed, 1).below(records);
    let here = place(one);
    (0..records).map(|i| (one + i) % records).filter(|record| place(*record) == here).take(hot as usize).collect()
}

/// `chosen` records (at least one) in groups of `size` that have one `place`; what fills no group is left out. Where none is filled all are one group.
fn in_groups(chosen: &[u64], size: usize, place: impl Fn(u64) -> u32) -> Common {
    let mut of_place: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for record in chosen {
        of_place.entry(place(*record)).or_default().push(*record);
    }
    let whole = of_place.values().flat_map(|records| records.chunks_exact(size)).flatten().copied();
    let grouped: Arc<[u64]> = whole.collect();
    if grouped.is_empty() { Common::Grouped(chosen.into(), chosen.len()) } else { Common::Grouped(grouped, size) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workload::KeyFormat;

    /// An engine alone.
    struct Alone;

    impl Whereabouts for Alone {
        fn partitions(&self) -> u32 {
            1
        }

        fn partition_of(&self, _record: u64) -> u32 {
            0
        }
    }

    fn chosen(shift: Shift, seed: u64, records: u64) -> Arc<[u64]> {
        let keys = Keys::new(KeyFormat::Hashed, 16, records).unwrap();
        match Common::new(&shift, seed, records, &keys, &Alone) {
            Common::Chosen(records) => records,
            other => panic!("{other:?}"),
        }
    }

    fn owners(records: &[u64], partitions: u32) -> Vec<u16> {
        let (keys, placement) = (Keys::new(KeyFormat::Hashed, 16, 100_000).unwrap(), Placement::hash(partitions));
        let mut owners: Vec<u16> = records
            .iter()
            .map(|record| {
                let mut key = Vec::new();
                keys.write(*record, &mut key);
                placement.owner(&key).0
            })
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    #[test]
    fn a_slot_is_one_slot_whole_and_a_partition_several_of_one_partition() {
        let slot = chosen(ShiftKind::Slot.into(), 1, 100_000);
        // 100,000 records over 4,096 slots: 24.4 each.
        assert!((5..60).contains(&slot.len()), "{} records in one slot", slot.len());
        for partitions in [2, 8, 100, 4_096] {
            assert_eq!(owners(&slot, partitions).len(), 1, "{partitions} partitions");
        }
        let partition = chosen(Shift { partitions: 8, ..ShiftKind::Partition.into() }, 1, 100_000);
        assert_eq!(partition.len(), 1_000, "a hundredth of the records");
        for partitions in [2, 4, 8] {
            assert_eq!(owners(&partition, partitions).len(), 1, "{partitions} partitions");
        }
        assert!(owners(&partition, 16).len() == 2 && owners(&partition, 4_096).len() > 300, "many slots of it");
        assert_eq!(partition, chosen(Shift { partitions: 8, ..ShiftKind::Partition.into() }, 1, 100_000));
        assert_ne!(partition, chosen(Shift { partitions: 8, ..ShiftKind::Partition.into() }, 2, 100_000));
    }

    #[test]
    fn a_worker_is_every_second_partition() {
        let worker = chosen(Shift { partitions: 8, ..ShiftKind::Worker.into() }, 1, 100_000);
        let owners = owners(&worker, 8);
        assert!([[0, 2, 4, 6], [1, 3, 5, 7]].contains(&[owners[0], owners[1], owners[2], owners[3]]), "{owners:?}");
        assert_eq!((owners.len(), worker.len()), (4, 1_000));
    }

    #[test]
    fn groups_of_a_worker_lie_in_one_partition_each() {
        let keys = Keys::new(KeyFormat::Hashed, 16, 100_000).unwrap();
        let shift = Shift { group: 7, ..ShiftKind::Worker.into() };
        let Common::Grouped(records, size) = Common::new(&shift, 1, 100_000, &keys, &Alone) else { panic!() };
        assert_eq!((size, records.len() % 7), (7, 0));
        assert!(records.len() > 1_000 - 4 * 7, "no more than a rest of each partition is left out: {}", records.len());
        assert_eq!(records.iter().collect::<BTreeSet<_>>().len(), records.len());
        assert!(records.chunks(7).all(|group| owners(group, 8).len() == 1));
        assert_eq!(owners(&records, 8).len(), 4);
        let Common::Grouped(few, size) = in_groups(&[5, 6, 7], 2, |record| record as u32) else { panic!() };
        assert_eq!((&few[..], size), (&[5, 6, 7][..], 3), "where nothing fills a group all are one");
    }

    #[test]
    fn a_single_record_is_the_one() {
        assert_eq!(*chosen(ShiftKind::Slot.into(), 5, 1), [0]);
        assert_eq!(*chosen(ShiftKind::Partition.into(), 5, 1), [0]);
    }
}
