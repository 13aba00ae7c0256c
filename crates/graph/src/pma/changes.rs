//! Changes of a section's edges: how they wait in its log, and how they come into a list.

/// The most changes that are sorted at once: their order takes 21 bits.
pub(crate) const SORTED_MAX: usize = 1 << ORDER_BITS;

const ORDER_BITS: u32 = 21;
/// The neighbour's bits begin here; above them stand the 10 of the vertex.
const NEIGHBOR: u32 = 1 + ORDER_BITS;
const VERTEX: u32 = NEIGHBOR + 31;

/// An edge of a section appears or disappears: `vertex (10 bits) | neighbour (31) | order (21) | appears (1)`, so that sorting numbers
/// sorts by vertex, neighbour and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(u64);

impl Change {
    /// The edge from vertex `local` of the section to `neighbor` is there from now on, or no more.
    #[inline]
    pub(crate) fn new(local: usize, neighbor: u32, appears: bool) -> Self {
        Self((local as u64) << VERTEX | u64::from(neighbor) << NEIGHBOR | u64::from(appears))
    }

    /// The vertex's number within the section.
    #[inline]
    pub(crate) fn vertex(self) -> usize {
        (self.0 >> VERTEX) as usize
    }

    #[inline]
    pub(crate) fn neighbor(self) -> u32 {
        (self.0 >> NEIGHBOR) as u32 & (u32::MAX >> 1)
    }

    #[inline]
    pub(crate) fn appears(self) -> bool {
        self.0 & 1 == 1
    }

    fn edge(self) -> u64 {
        self.0 >> NEIGHBOR
    }
}

/// `changes`, at most [`SORTED_MAX`] in the order in which they were made: sorted, and of several of one edge the last alone.
pub(crate) fn sort(changes: &[Change], sorted: &mut Vec<Change>) {
    sorted.clear();
    sorted.extend(changes.iter().zip(0..).map(|(change, order): (_, u64)| Change(change.0 | order << 1)));
    sorted.sort_unstable();
    let mut kept = 0;
    for at in 0..sorted.len() {
        if sorted.get(at + 1).is_none_or(|next| next.edge() != sorted[at].edge()) {
            sorted[kept] = sorted[at];
            kept += 1;
        }
    }
    sorted.truncate(kept);
}

/// Append `list` to `out`, with `changes` of the same vertex, sorted, made on the way. O(changes log list) and the copying.
pub(crate) fn merge_list(list: &[u32], changes: &[Change], out: &mut Vec<u32>) {
    let mut at = 0;
    for change in changes {
        let neighbor = change.neighbor();
        let next = at + position(&list[at..], neighbor);
        out.extend_from_slice(&list[at..next]);
        at = next + usize::from(list.get(next) == Some(&neighbor));
        if change.appears() {
            out.push(neighbor);
        }
    }
    out.extend_from_slice(&list[at..]);
}

/// How many of `list` are below `neighbor`: near its beginning soonest.
pub(crate) fn position(list: &[u32], neighbor: u32) -> usize {
    let mut bound = 1;
    while bound < list.len() && list[bound] < neighbor {
        bound *= 2;
    }
    let begin = bound / 2;
    begin + list[begin..(bound + 1).min(list.len())].partition_point(|item| *item < neighbor)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_keeps_the_ends_of_its_edge() {
        for (vertex, neighbor, appears) in [(0, 0, true), (1023, (1 << 31) - 1, false), (512, 1 << 30, true)] {
            let change = Change::new(vertex, neighbor, appears);
            assert_eq!((change.vertex(), change.neighbor(), change.appears()), (vertex, neighbor, appears));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_last_change_of_an_edge_decides(
            before in proptest::collection::btree_set(0..300u32, 0..200),
            made in proptest::collection::vec((prop_oneof![0..300u32, Just(u32::MAX >> 1)], any::<bool>()), 0..100),
        ) {
            let changes: Vec<Change> = made.iter().map(|(neighbor, appears)| Change::new(7, *neighbor, *appears)).collect();
            let mut sorted = Vec::new();
            sort(&changes, &mut sorted);
            prop_assert!(sorted.windows(2).all(|pair| pair[0].edge() < pair[1].edge()));
            let list: Vec<u32> = before.iter().copied().collect();
            let mut out = vec![9];
            merge_list(&list, &sorted, &mut out);
            let mut model: BTreeSet<u32> = before;
            for (neighbor, appears) in made {
                if appears { model.insert(neighbor); } else { model.remove(&neighbor); }
            }
            prop_assert_eq!(&out[1..], model.into_iter().collect::<Vec<_>>());
        }
    }
}
