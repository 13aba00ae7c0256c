//! Names of the vertices of a graph that changes: any 64-bit number outside, dense numbers inside.
//!
//! Vertices are numbered as they come. When one goes, the last one gets its number, so that there is never a hole: kernels see exactly
//! the vertices that are there. While the ids are those of [`Ids::dense`], 0 to n - 1 in their order, there is no table at all.
//!
//! Invariants:
//! 1. Numbers are `0..count`; each has one id, and each id one number.
//! 2. A chunk of ids that a [`NamesView`] has is replaced, not changed.

use std::sync::{Arc, PoisonError, RwLock};

use crate::ids::Ids;
use crate::slots::Slots;

/// Ids of a chunk. A view copies the chunks' addresses; what changes afterwards is copied by chunks.
const CHUNK: usize = 4096;

/// The present names.
#[derive(Debug, Default)]
pub(super) struct Names {
    count: usize,
    /// `None` while the ids are 0 to `count` - 1.
    table: Option<Table>,
    renumberings: u64,
}

#[derive(Debug, Default)]
struct Table {
    /// By number; the last one may be longer than there are numbers.
    chunks: Vec<Arc<Vec<u64>>>,
    slots: Slots,
}

impl Names {
    /// Those of `ids`.
    pub(super) fn of(ids: &Ids) -> Self {
        let mut names = Self { count: ids.len(), ..Self::default() };
        if !ids.are_dense() {
            names.table = Some(Table::of(ids.table().iter().copied()));
        }
        names
    }

    /// Those of `ids`, in the order of numbers; `None` when one of them is there twice.
    pub(super) fn in_order(ids: Vec<u64>) -> Option<Self> {
        let mut names = Self { count: ids.len(), ..Self::default() };
        let table = names.table.insert(Table::default());
        for (id, number) in ids.into_iter().zip(0..) {
            if table.slots.find(id, |number| table.id(number)).is_some() {
                return None;
            }
            table.push(id, number);
        }
        Some(names)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How often a number came to mean another vertex, or none.
    pub(super) fn renumberings(&self) -> u64 {
        self.renumberings
    }

    /// The number of an id. O(1).
    #[inline]
    pub(super) fn number(&self, id: u64) -> Option<u32> {
        match &self.table {
            None => (id < self.count as u64).then_some(id as u32),
            Some(table) => table.slots.find(id, |number| table.id(number)),
        }
    }

    /// The id of a number that is there. O(1).
    pub(super) fn id(&self, number: u32) -> u64 {
        self.table.as_ref().map_or(number.into(), |table| table.id(number))
    }

    /// The number of an id, a new one if there is none. The caller sees to it that they are not too many. O(1), amortised; once O(count).
    pub(super) fn intern(&mut self, id: u64) -> u32 {
        if let Some(number) = self.number(id) {
            return number;
        }
        let number = self.count as u32;
        if self.table.is_some() || id != u64::from(number) {
            self.table().push(id, number);
        }
        self.count += 1;
        number
    }

    /// `id` goes, which is there, and the last vertex gets its number: that and what the last one had. O(1), amortised; once O(count).
    pub(super) fn remove(&mut self, id: u64, number: u32) -> u32 {
        let last = self.count as u32 - 1;
        if number != last || self.table.is_some() {
            let table = self.table();
            table.slots.remove(id, |number| table.chunks[number as usize / CHUNK][number as usize % CHUNK]);
            if number != last {
                let moved = table.id(last);
                table
                    .slots
                    .renumber(moved, number, |number| table.chunks[number as usize / CHUNK][number as usize % CHUNK]);
                table.set(number, moved);
            }
        }
        self.count -= 1;
        self.renumberings += 1;
        last
    }

    fn table(&mut self) -> &mut Table {
        let count = self.count as u64;
        self.table.get_or_insert_with(|| Table::of(0..count))
    }

    /// How much memory they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |table: &Table| table.chunks.len() * (CHUNK + 4) * size_of::<u64>() + table.slots.memory_bytes();
        self.table.as_ref().map_or(0, of)
    }
}

impl Table {
    fn of(ids: impl Iterator<Item = u64>) -> Self {
        let mut table = Self::default();
        ids.zip(0..).for_each(|(id, number)| table.push(id, number));
        table
    }

    #[inline]
    fn id(&self, number: u32) -> u64 {
        self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn push(&mut self, id: u64, number: u32) {
        if number as usize / CHUNK == self.chunks.len() {
            self.chunks.push(Arc::new(vec![0; CHUNK]));
        }
        let chunks = &self.chunks;
        self.slots.insert(id, number, |number| chunks[number as usize / CHUNK][number as usize % CHUNK]);
        self.set(number, id);
    }

    fn set(&mut self, number: u32, id: u64) {
        Arc::make_mut(&mut self.chunks[number as usize / CHUNK])[number as usize % CHUNK] = id;
    }
}

/// The names at one point in the graph's history.
#[derive(Debug)]
pub(super) struct NamesView {
    count: usize,
    chunks: Option<Vec<Arc<Vec<u64>>>>,
    /// How often numbers had come to mean other vertices.
    renumberings: u64,
    /// The present ones, which know where to look first.
    present: Arc<RwLock<Names>>,
}

impl NamesView {
    /// The present names, to be kept.
    pub(super) fn of(present: &Arc<RwLock<Names>>) -> Self {
        let names = present.read().unwrap_or_else(PoisonError::into_inner);
        let chunks = names.table.as_ref().map(|table| table.chunks.clone());
        Self { count: names.count, chunks, renumberings: names.renumberings, present: present.clone() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The ids in the order of numbers; `None` where they are 0 to the number of vertices - 1.
    pub(super) fn table(&self) -> Option<impl Iterator<Item = u64> + '_> {
        let chunks = self.chunks.as_ref()?;
        Some(chunks.iter().flat_map(|chunk| chunk.iter().copied()).take(self.count))
    }

    /// The id of a number.
    pub(super) fn id(&self, number: u32) -> Option<u64> {
        if number as usize >= self.count {
            return None;
        }
        let at = number as usize;
        Some(self.chunks.as_ref().map_or(number.into(), |chunks| chunks[at / CHUNK][at % CHUNK]))
    }

    /// The number of an id. O(1) as long as no vertex was deleted since, and for vertices that have the same number still; O(count) for
    /// others.
    pub(super) fn number(&self, id: u64) -> Option<u32> {
        if self.chunks.is_none() {
            return (id < self.count as u64).then_some(id as u32);
        }
        let (present, renumberings) = {
            let names = self.present.read().unwrap_or_else(PoisonError::into_inner);
            (names.number(id), names.renumberings)
        };
        if renumberings == self.renumberings {
            // Numbers mean what they meant; those that came since are past the end.
            return present.filter(|number| (*number as usize) < self.count);
        }
        let is_same = |number: &u32| self.id(*number) == Some(id);
        present.filter(is_same).or_else(|| {
            #[cfg(test)]
            tests::SEARCHES.set(tests::SEARCHES.get() + 1);
            (0..self.count as u32).find(is_same)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// How often this thread went through all numbers to find one.
        pub(super) static SEARCHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Fails when numbers are searched for where they can be looked up, though all answers are right.
    #[test]
    fn only_vertices_that_have_another_number_since_are_searched_for() {
        let mut names = Names::of(&Ids::dense(0));
        let far = |n: u64| 1 << 40 | n;
        (0..100).for_each(|n| _ = names.intern(far(n)));
        let names = Arc::new(RwLock::new(names));
        let view = NamesView::of(&names);
        let searched = |asked: &[u64]| {
            let before = SEARCHES.get();
            let numbers: Vec<Option<u32>> = asked.iter().map(|n| view.number(far(*n))).collect();
            let right = asked.iter().map(|n| (*n < 100).then_some(*n as u32));
            assert!(numbers.into_iter().eq(right));
            SEARCHES.get() - before
        };
        let all: Vec<u64> = (0..110).collect();
        assert_eq!(searched(&all), 0, "nothing has changed");
        (100..105).for_each(|n| _ = names.write().unwrap().intern(far(n)));
        assert_eq!(searched(&all), 0, "vertices came: their numbers are past the end");
        // 104 goes from the end; then 7 goes, and 103 gets its number.
        for (id, number) in [(104, 104), (7, 7)] {
            names.write().unwrap().remove(far(id), number);
        }
        let stayed: Vec<u64> = (0..100).filter(|n| *n != 7).collect();
        assert_eq!(searched(&stayed), 0, "these have the same numbers still");
        assert_eq!(searched(&[7]), 1, "that one has none any more");
        // 102 gets the number of 20, 101 that of 21, and so on: 99 gets that of 23.
        for id in 20..24 {
            names.write().unwrap().remove(far(id), id as u32);
        }
        assert_eq!((searched(&[99]), searched(&[98])), (1, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_have_no_holes_and_views_keep_what_was(
            dense in 0..20usize,
            steps in proptest::collection::vec((prop_oneof![0..30u64, (1 << 40)..(1u64 << 40) + 9], 0..8u8), 1..300),
        ) {
            let names = Arc::new(RwLock::new(Names::of(&Ids::dense(dense))));
            let mut model: Vec<u64> = (0..dense as u64).collect();
            let mut kept: Vec<(Vec<u64>, NamesView)> = Vec::new();
            for (id, step) in steps {
                let mut names_now = names.write().unwrap();
                let number = names_now.number(id);
                prop_assert_eq!(number, model.iter().position(|known| *known == id).map(|at| at as u32));
                match (step, number) {
                    (0, _) => {
                        drop(names_now);
                        kept.push((model.clone(), NamesView::of(&names)));
                    }
                    (1..4, Some(number)) => {
                        prop_assert_eq!(names_now.remove(id, number) as usize, model.len() - 1);
                        model.swap_remove(number as usize);
                    }
                    _ => {
                        let interned = names_now.intern(id);
                        if number.is_none() {
                            model.push(id);
                        }
                        prop_assert_eq!(model[interned as usize], id);
                    }
                }
            }
            kept.push((model, NamesView::of(&names)));
            for (ids, view) in kept {
                prop_assert_eq!(view.len(), ids.len());
                for (id, number) in ids.iter().zip(0..) {
                    prop_assert_eq!((view.id(number), view.number(*id)), (Some(*id), Some(number)));
                }
                prop_assert_eq!(view.id(ids.len() as u32), None);
                prop_assert!((0..30).filter(|id| !ids.contains(id)).all(|id| view.number(id).is_none()));
            }
        }
    }
}
