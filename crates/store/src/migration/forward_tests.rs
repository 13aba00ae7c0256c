//! What the newest of forwarded writes leave.

use std::collections::{BTreeMap, BTreeSet};

use biombo_engine::{Batch, Op};
use proptest::prelude::*;

use super::forward::newest;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(map: &mut Map, batch: &Batch) {
    for op in batch.iter() {
        match op {
            Op::Put { key, value } => drop(map.insert(key.to_vec(), value.to_vec())),
            Op::Delete { key } => drop(map.remove(key)),
            Op::DeleteRange { from, to } => {
                map.retain(|key, _| &key[..] < from || to.is_some_and(|to| &key[..] >= to));
            }
        }
    }
}

proptest! {
    /// (Mutation: of each key the first write.)
    #[test]
    fn the_newest_writes_leave_what_all_of_them_leave(
        writes in prop::collection::vec((0u8..4, 0u8..6, 0u8..6), 0..40),
        held in prop::collection::btree_map(0u8..6, any::<u8>(), 0..6),
    ) {
        let mut all = Batch::new();
        for (at, (what, key, to)) in writes.iter().enumerate() {
            match what {
                0 => all.delete(&[*key]),
                1 => all.delete_range(&[*key], (*to > 0).then_some(&[*to][..])),
                _ => all.put(&[*key], &[at as u8]),
            };
        }
        let held: Map = held.into_iter().map(|(key, value)| (vec![key], vec![value])).collect();
        let (mut by_all, mut by_newest, mut few) = (held.clone(), held, Batch::new());
        few.put(b"left over", b"");
        newest(&all, &mut few);
        apply(&mut by_all, &all);
        apply(&mut by_newest, &few);
        prop_assert_eq!(by_all, by_newest);
        let keys = few.iter().filter_map(|op| match op {
            Op::Put { key, .. } | Op::Delete { key } => Some(key.to_vec()),
            Op::DeleteRange { .. } => None,
        });
        let keys: Vec<_> = keys.collect();
        let once: BTreeSet<_> = keys.iter().collect();
        prop_assert_eq!(once.len(), keys.len(), "a key is written twice");
    }
}
