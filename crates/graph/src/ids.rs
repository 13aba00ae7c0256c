//! Names of vertices: any 64-bit number outside, dense numbers from 0 inside.
//!
//! While a file is read, [`Interner`] numbers ids as they come; [`Interner::finish`] renumbers them in ascending order, so that the inner
//! order is the outer one: the smallest inner number of a component is that of its smallest id, and files whose ids are 0 to n - 1
//! need no table at all.

use biombo_base::{Error, Result};

use crate::slots::Slots;
use crate::{Edge, VERTICES_MAX};

/// The ids of a graph's vertices, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    count: usize,
    /// Empty when the ids are 0 to `count` - 1.
    sorted: Vec<u64>,
}

impl Ids {
    /// The ids 0 to `count` - 1.
    pub fn dense(count: usize) -> Self {
        Self { count, sorted: Vec::new() }
    }

    /// From ids that ascend; `None` when they do not.
    pub fn ascending(sorted: Vec<u64>) -> Option<Self> {
        let count = sorted.len();
        if sorted.windows(2).any(|pair| pair[0] >= pair[1]) {
            return None;
        }
        let is_dense = sorted.last().is_none_or(|last| *last as usize == count - 1);
        Some(Self { count, sorted: if is_dense { Vec::new() } else { sorted } })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether they are 0 to n - 1.
    pub fn are_dense(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The id of an inner number; `None` past the last one. O(1).
    pub fn id(&self, vertex: u32) -> Option<u64> {
        if self.sorted.is_empty() {
            return ((vertex as usize) < self.count).then_some(vertex.into());
        }
        self.sorted.get(vertex as usize).copied()
    }

    /// The inner number of an id; `None` where the graph does not have it. O(log n), O(1) for dense ids.
    pub fn vertex(&self, id: u64) -> Option<u32> {
        if self.sorted.is_empty() {
            return (id < self.count as u64).then_some(id as u32);
        }
        self.sorted.binary_search(&id).ok().map(|vertex| vertex as u32)
    }

    /// The ids that are not dense, ascending; empty otherwise.
    pub(crate) fn table(&self) -> &[u64] {
        &self.sorted
    }
}

/// Numbers ids as they come: 8 bytes for each id and 5.3 to 10.7 for its place.
#[derive(Debug, Default)]
pub struct Interner {
    ids: Vec<u64>,
    slots: Slots,
}

impl Interner {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many different ids came so far.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none came so far.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The number of `id`, a new one if it never came before. O(1).
    ///
    /// # Errors
    /// `Invalid` past [`VERTICES_MAX`] different ids.
    pub fn number(&mut self, id: u64) -> Result<u32> {
        let ids = &self.ids;
        if let Some(number) = self.slots.find(id, |number| ids[number as usize]) {
            return Ok(number);
        }
        if self.ids.len() >= VERTICES_MAX {
            return Err(Error::invalid(format!("the graph has more than {VERTICES_MAX} vertices")));
        }
        let number = ids.len() as u32;
        self.slots.insert(id, number, |number| ids[number as usize]);
        self.ids.push(id);
        Ok(number)
    }

    /// All ids in ascending order; the ends of `edges`, which have the numbers that [`number`](Self::number) gave, are renumbered
    /// alike. O(n log n + edges).
    pub fn finish(self, edges: &mut [Edge]) -> Ids {
        let mut order: Vec<u32> = (0..self.ids.len() as u32).collect();
        if !self.ids.is_sorted() {
            order.sort_unstable_by_key(|number| self.ids[*number as usize]);
            let mut renumbered = vec![0; order.len()];
            order.iter().zip(0..).for_each(|(old, new)| renumbered[*old as usize] = new);
            edges.iter_mut().flatten().for_each(|end| *end = renumbered[*end as usize]);
        }
        let sorted = order.into_iter().map(|number| self.ids[number as usize]).collect();
        Ids::ascending(sorted).expect("invariant: each id was numbered once and they were sorted")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn intern(pairs: &[(u64, u64)]) -> (Ids, Vec<Edge>) {
        let mut interner = Interner::new();
        let mut edges: Vec<Edge> = Vec::new();
        for (a, b) in pairs {
            edges.push([interner.number(*a).unwrap(), interner.number(*b).unwrap()]);
        }
        (interner.finish(&mut edges), edges)
    }

    #[test]
    fn dense_ids_need_no_table_and_others_keep_their_names() {
        let (ids, edges) = intern(&[(2, 0), (1, 2)]);
        assert!(ids.are_dense());
        assert_eq!(edges, [[2, 0], [1, 2]]);
        assert_eq!((ids.vertex(2), ids.vertex(3), ids.id(2), ids.id(3)), (Some(2), None, Some(2), None));
        let (ids, edges) = intern(&[(1 << 40, 30), (u64::MAX, 30)]);
        assert_eq!(edges, [[1, 0], [2, 0]]);
        assert_eq!(
            (0..4).map(|vertex| ids.id(vertex)).collect::<Vec<_>>(),
            [Some(30), Some(1 << 40), Some(u64::MAX), None]
        );
        assert_eq!((ids.vertex(30), ids.vertex(0), ids.vertex(u64::MAX)), (Some(0), None, Some(2)));
        assert!(intern(&[]).0.is_empty());
    }

    #[test]
    fn ids_that_do_not_ascend_are_refused() {
        assert_eq!(Ids::ascending(vec![1, 1]), None);
        assert_eq!(Ids::ascending(vec![2, 1]), None);
        assert_eq!(Ids::ascending(vec![0, 1]), Some(Ids::dense(2)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_id_is_found_again_and_the_order_is_kept(
            pairs in proptest::collection::vec((prop_oneof![0..50u64, any::<u64>()], prop_oneof![0..5000u64, Just(u64::MAX)]), 0..3000),
        ) {
            let (ids, edges) = intern(&pairs);
            let all: BTreeSet<u64> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
            prop_assert_eq!(ids.len(), all.len());
            for (id, vertex) in all.iter().zip(0..) {
                prop_assert_eq!(ids.vertex(*id), Some(vertex));
                prop_assert_eq!(ids.id(vertex), Some(*id));
            }
            for ((a, b), edge) in pairs.iter().zip(&edges) {
                prop_assert_eq!((ids.id(edge[0]), ids.id(edge[1])), (Some(*a), Some(*b)));
            }
        }
    }
}
