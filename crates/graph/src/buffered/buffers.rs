//! Buffers of the vertices of a section: changes that wait, 4 bytes each, in the order in which they came.
//!
//! ```text
//! words: [start, length] of each vertex's buffer | buffers of 4, 8, 16 .. changes, taken and free
//! change: neighbour (31 bits) | appears (1)
//! ```
//!
//! A buffer has room for the next power of two of what is in it, at least 4. When it is full it moves to a free one of twice its size, or to the
//! end; the first word of a free one says where the next free one of its size is. There is no memory at all until the first change.
//!
//! Invariants:
//! 1. `words[2 v]..` for `words[2 v + 1]` words are the changes that wait for `v`; `waiting` is how many wait together.
//! 2. Buffers that are not empty and free ones do not overlap.

use crate::pma::changes::Change;
use crate::pma::layout::VERTICES;

/// Where buffers begin: never at 0, which therefore means none.
const HEAD: usize = 2 * VERTICES;
/// The smallest buffer.
const SMALLEST: usize = 4;
/// Sizes of buffers, each twice the one before.
const CLASSES: usize = 29;

/// See the module.
#[derive(Debug, Default)]
pub struct Buffers {
    words: Vec<u32>,
    free: [u32; CLASSES],
    waiting: usize,
}

fn class(length: usize) -> usize {
    (length.next_power_of_two().max(SMALLEST) / SMALLEST).ilog2() as usize
}

fn capacity(class: usize) -> usize {
    SMALLEST << class
}

impl Buffers {
    /// How many changes wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many wait for the vertex `local`.
    pub(super) fn length(&self, local: usize) -> usize {
        self.words.get(2 * local + 1).map_or(0, |length| *length as usize)
    }

    /// A change waits. O(1), amortised.
    pub(super) fn push(&mut self, change: Change) {
        if self.words.is_empty() {
            self.words.resize(HEAD, 0);
        }
        let local = change.vertex();
        let (mut start, length) = (self.words[2 * local] as usize, self.length(local));
        if length == 0 {
            start = self.take(0);
        } else if length == capacity(class(length)) {
            let larger = self.take(class(length) + 1);
            self.words.copy_within(start..start + length, larger);
            self.give(class(length), start);
            start = larger;
        }
        self.words[start + length] = change.neighbor() << 1 | u32::from(change.appears());
        self.words[2 * local] = start as u32;
        self.words[2 * local + 1] = length as u32 + 1;
        self.waiting += 1;
    }

    /// Append what waits for the vertex `local` to `changes`.
    pub(super) fn list(&self, local: usize, changes: &mut Vec<Change>) {
        let length = self.length(local);
        if length > 0 {
            let start = self.words[2 * local] as usize;
            let unpacked = |word: &u32| Change::new(local, *word >> 1, *word & 1 == 1);
            changes.extend(self.words[start..start + length].iter().map(unpacked));
        }
    }

    /// Nothing waits for the vertex `local` any more.
    pub(super) fn clear(&mut self, local: usize) {
        let length = self.length(local);
        if length > 0 {
            self.give(class(length), self.words[2 * local] as usize);
            self.words[2 * local + 1] = 0;
            self.waiting -= length;
        }
    }

    /// How much memory they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u32>()
    }

    fn take(&mut self, class: usize) -> usize {
        let free = self.free[class] as usize;
        if free != 0 {
            self.free[class] = self.words[free];
            return free;
        }
        let (start, end) = (self.words.len(), self.words.len() + capacity(class));
        if end > self.words.capacity() {
            // A quarter more at a time: buffers are a share of the graph's memory.
            self.words.reserve_exact(capacity(class) + (start - HEAD) / 4 + 16 * SMALLEST);
        }
        self.words.resize(end, 0);
        start
    }

    fn give(&mut self, class: usize, start: usize) {
        self.words[start] = self.free[class];
        self.free[class] = start as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn changes_wait_in_their_order_while_buffers_grow_and_are_used_again(
            steps in proptest::collection::vec(
                (prop_oneof![3 => 0..4usize, 1 => 0..VERTICES], 0..1u32 << 31, any::<bool>(), 0..12u8),
                1..1500,
            ),
        ) {
            let (mut buffers, mut model) = (Buffers::default(), BTreeMap::<usize, Vec<Change>>::new());
            for (local, neighbor, appears, step) in steps {
                let change = Change::new(local, neighbor, appears);
                if step == 0 {
                    buffers.clear(local);
                    model.remove(&local);
                } else {
                    buffers.push(change);
                    model.entry(local).or_default().push(change);
                }
            }
            for local in 0..VERTICES {
                let mut found = Vec::new();
                buffers.list(local, &mut found);
                prop_assert_eq!(found, model.get(&local).cloned().unwrap_or_default());
            }
            prop_assert_eq!(buffers.waiting(), model.values().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn buffers_that_were_emptied_are_used_again() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.memory_bytes(), 0);
        let mut most = 0;
        for round in 0..50u32 {
            (0..VERTICES).for_each(|local| {
                (0..9).for_each(|n| buffers.push(Change::new(local, round * 10 + n, true)));
                buffers.clear(local);
            });
            most = most.max(buffers.memory_bytes());
        }
        assert_eq!(buffers.waiting(), 0);
        assert!(most < 4 * (HEAD + 400), "{most} bytes of buffers that held 9 changes at most at a time");
    }
}
