//! The bounds between key ranges, made for looking one up.
//!
//! Bounds often begin alike (`user/...`), and what follows decides within a few bytes. So what all have in common is compared once,
//! and then the next eight bytes of each, as numbers side by side; whole bounds only where those are equal.
//!
//! Invariant: `heads[i]` is the head of `starts[i]` behind the common prefix. Heads order as their bounds do, or are equal: a
//! bound that ends early is filled with zeros, the least byte.

/// Bounds in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    starts: Vec<Vec<u8>>,
    common: usize,
    heads: Vec<u64>,
}

/// Heads up to which looking at all of them beats halving.
const FEW: usize = 16;

impl Bounds {
    /// `starts` must ascend.
    pub(crate) fn new(starts: Vec<Vec<u8>>) -> Self {
        debug_assert!(starts.is_sorted(), "bounds ascend");
        let common = match (starts.first(), starts.last()) {
            // What the first and the last begin with, all between them do.
            (Some(first), Some(last)) => first.iter().zip(last).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        let heads = starts.iter().map(|start| head(&start[common..])).collect();
        Self { starts, common, heads }
    }

    /// The bounds themselves.
    pub(crate) fn starts(&self) -> &[Vec<u8>] {
        &self.starts
    }

    /// How many bounds are at most `key`: the number of the range that holds it. O(log bounds), as a rule without looking at a
    /// whole bound.
    #[inline]
    pub(crate) fn at_most(&self, key: &[u8]) -> usize {
        let Some(first) = self.starts.first() else { return 0 };
        let common = &first[..self.common];
        let Some(rest) = key.strip_prefix(common) else {
            return if key < common { 0 } else { self.starts.len() };
        };
        let head = head(rest);
        let below = if self.heads.len() <= FEW {
            self.heads.iter().map(|other| usize::from(*other < head)).sum()
        } else {
            self.heads.partition_point(|other| *other < head)
        };
        if self.heads.get(below) == Some(&head) { self.at_most_of_equals(below, head, key) } else { below }
    }

    /// As [`at_most`](Bounds::at_most), where the heads from `from` on equal that of `key`.
    fn at_most_of_equals(&self, from: usize, head: u64, key: &[u8]) -> usize {
        let equals = self.heads[from..].partition_point(|other| *other == head);
        from + self.starts[from..from + equals].partition_point(|start| start.as_slice() <= key)
    }
}

/// The first eight bytes as a number that orders as they do.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(head)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(starts: &[Vec<u8>], key: &[u8]) -> usize {
        starts.iter().filter(|start| start.as_slice() <= key).count()
    }

    proptest! {
        /// Few letters and a prefix, so that bounds and keys share heads, end early and meet.
        #[test]
        fn a_key_is_found_where_comparing_whole_bounds_finds_it(
            prefix in "[ab]{0,12}",
            tails in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..12), 0..40),
            keys in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0u8..3, 0..12)), 1..40),
        ) {
            let with = |tail: &[u8]| [prefix.as_bytes(), tail].concat();
            let mut starts: Vec<_> = tails.iter().map(|tail| with(tail)).collect();
            starts.sort_unstable();
            starts.dedup();
            let bounds = Bounds::new(starts.clone());
            for (inside, tail) in &keys {
                let key = if *inside { with(tail) } else { tail.clone() };
                prop_assert_eq!(bounds.at_most(&key), plain(&starts, &key));
            }
            for cut in 0..=prefix.len() {
                let key = &prefix.as_bytes()[..cut];
                prop_assert_eq!(bounds.at_most(key), plain(&starts, key));
            }
            for start in &starts {
                prop_assert_eq!(bounds.at_most(start), plain(&starts, start));
            }
        }
    }
}
