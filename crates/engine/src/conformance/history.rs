//! Histories of one register (one key) and the search for a legal order of them.
//!
//! The algorithm is that of Wing and Gong (Testing and verifying concurrent objects, 1993) with the memory of visited
//! states that Lowe added (Testing for linearizability, 2016): operations are taken in any order that respects real time,
//! each must agree with the register, and a pair of (taken operations, value) is tried only once. The time is exponential
//! only in the number of operations that overlap.

use std::collections::HashSet;

/// What one operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// Wrote this value; `None`: deleted.
    Wrote(Option<u64>),
    /// Read this value; `None`: absent.
    Read(Option<u64>),
}

/// One operation with the instants of a common clock at which it was called and at which it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// When it was called.
    pub begun: u64,
    /// When it returned; later than `begun`.
    pub done: u64,
    /// What it did.
    pub did: Did,
}

/// Whether some order of `calls` that keeps real time explains every read, starting from an absent key.
pub fn linearizable(calls: &[Call]) -> bool {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.begun);
    let mut seen = HashSet::new();
    let mut stack = vec![State { taken: vec![0; calls.len().div_ceil(64)], first: 0, value: None }];
    while let Some(state) = stack.pop() {
        if state.first == calls.len() {
            return true;
        }
        // A call may come next if no other open call returned before it was called.
        let mut earliest_done = u64::MAX;
        for (i, call) in calls.iter().enumerate().skip(state.first) {
            if call.begun > earliest_done {
                break;
            }
            if state.has(i) {
                continue;
            }
            earliest_done = earliest_done.min(call.done);
            let value = match call.did {
                Did::Wrote(value) => value,
                Did::Read(value) if value == state.value => value,
                Did::Read(_) => continue,
            };
            let next = state.with(i, value, calls.len());
            if seen.insert(next.clone()) {
                stack.push(next);
            }
        }
    }
    false
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    taken: Vec<u64>,
    /// The first call that is not taken.
    first: usize,
    value: Option<u64>,
}

impl State {
    fn has(&self, i: usize) -> bool {
        self.taken[i / 64] >> (i % 64) & 1 == 1
    }

    fn with(&self, i: usize, value: Option<u64>, count: usize) -> Self {
        let mut next = Self { taken: self.taken.clone(), first: self.first, value };
        next.taken[i / 64] |= 1 << (i % 64);
        while next.first < count && next.has(next.first) {
            next.first += 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begun: u64, done: u64, did: Did) -> Call {
        Call { begun, done, did }
    }
    use Did::{Read, Wrote};

    #[test]
    fn overlapping_calls_may_take_either_order() {
        for value in [None, Some(1)] {
            assert!(linearizable(&[call(0, 3, Wrote(Some(1))), call(1, 2, Read(value))]), "{value:?}");
        }
    }

    #[test]
    fn a_stale_read_is_found() {
        let calls = [call(0, 1, Wrote(Some(1))), call(2, 3, Wrote(Some(2))), call(4, 5, Read(Some(1)))];
        assert!(!linearizable(&calls));
        assert!(linearizable(&calls[..2]));
    }

    #[test]
    fn readers_that_disagree_on_the_order_are_found() {
        // The write of 2 overlaps both reads; the first has seen it, so the later one must.
        let calls = [
            call(0, 1, Wrote(Some(1))),
            call(2, 9, Wrote(Some(2))),
            call(3, 4, Read(Some(2))),
            call(5, 6, Read(Some(1))),
        ];
        assert!(!linearizable(&calls));
    }

    #[test]
    fn a_value_from_nowhere_and_a_lost_delete_are_found() {
        assert!(!linearizable(&[call(0, 1, Wrote(Some(1))), call(2, 3, Read(Some(7)))]));
        assert!(!linearizable(&[call(0, 1, Wrote(Some(1))), call(2, 3, Wrote(None)), call(4, 5, Read(Some(1)))]));
    }

    #[test]
    fn long_histories_with_little_overlap_are_quick() {
        let mut calls = Vec::new();
        for i in 0..3000u64 {
            calls.push(call(i * 10, i * 10 + 12, Wrote(Some(i))));
            calls.push(call(i * 10 + 5, i * 10 + 14, Read(Some(i))));
        }
        assert!(linearizable(&calls));
    }
}
