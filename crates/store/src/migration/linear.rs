//! Whether a history of concurrent operations on one key could have happened one at a time.
//!
//! The search of Wing and Gong (Testing and verifying concurrent objects, 1993) with memory of what was tried (Lowe, 2017). Each thread's
//! operations follow one another, so a point of the search is how far each thread has come, and the value; an operation may come next if
//! none that is still to come had ended before it began.

use std::collections::HashSet;

/// A value of a key: none, or the number of the write that gave it.
pub(super) type Value = Option<u64>;

/// What an operation did, and what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Set, or with none: delete.
    Write(Value),
    Read(Value),
    /// Set if the first is there; whether it was.
    Swap(Value, Value, bool),
}

impl Deed {
    /// The value after it, if it can come to a key that has `value`.
    fn after(self, value: Value) -> Option<Value> {
        match self {
            Self::Write(new) => Some(new),
            Self::Read(seen) => (seen == value).then_some(value),
            Self::Swap(expected, new, true) => (expected == value).then_some(new),
            Self::Swap(expected, _, false) => (expected != value).then_some(value),
        }
    }
}

/// An operation, from the instant when it was called to that when it returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) deed: Deed,
}

/// Check the operations on a key that had no value, each thread's in order. The error tells the operations where it ends.
pub(super) fn check(threads: &[Vec<Operation>]) -> Result<(), String> {
    let mut tried: HashSet<(Vec<usize>, Value)> = HashSet::new();
    let mut open = vec![(vec![0; threads.len()], None)];
    let mut farthest = vec![0; threads.len()];
    while let Some((done, value)) = open.pop() {
        if !tried.insert((done.clone(), value)) {
            continue;
        }
        if done.iter().sum::<usize>() > farthest.iter().sum() {
            farthest.clone_from(&done);
        }
        let next = |thread: usize| threads[thread].get(done[thread]);
        let Some(first_return) = (0..threads.len()).filter_map(next).map(|next| next.returned).min() else {
            return Ok(());
        };
        for thread in 0..threads.len() {
            let Some(operation) = next(thread).filter(|next| next.called <= first_return) else { continue };
            if let Some(value) = operation.deed.after(value) {
                let mut done = done.clone();
                done[thread] += 1;
                open.push((done, value));
            }
        }
    }
    let around = |thread: usize| {
        let from = farthest[thread].saturating_sub(2);
        threads[thread]
            .iter()
            .skip(from)
            .take(4)
            .map(|operation| format!("\n  {thread}: {operation:?}"))
            .collect::<String>()
    };
    Err(format!("no order explains what was seen here:{}", (0..threads.len()).map(around).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(called: u64, returned: u64, deed: Deed) -> Operation {
        Operation { called, returned, deed }
    }

    #[test]
    fn what_overlaps_may_come_in_any_order_and_nothing_else_may() {
        use Deed::{Read, Swap, Write};
        let write = vec![operation(0, 10, Write(Some(1)))];
        let reads = |first, second| vec![operation(1, 2, Read(first)), operation(3, 4, Read(second))];
        check(&[write.clone(), reads(None, Some(1))]).expect("in between");
        check(&[write.clone(), reads(None, None)]).expect("before");
        check(&[write.clone(), reads(Some(1), None)]).expect_err("it was there, and is gone");
        check(&[write.clone(), vec![operation(11, 12, Read(None))]]).expect_err("a write that was lost");
        check(&[write.clone(), vec![operation(11, 12, Swap(Some(1), Some(2), true))]]).expect("a swap");
        check(&[write.clone(), vec![operation(11, 12, Swap(Some(1), Some(2), false))]]).expect_err("it was there");
        let both = |won| vec![operation(0, 9, Swap(None, Some(5), won))];
        check(&[both(true), both(false)]).expect("one of two");
        check(&[both(true), both(true)]).expect_err("both");
        let later = vec![operation(20, 21, Write(Some(2))), operation(22, 23, Read(Some(1)))];
        check(&[write, later]).expect_err("an old value came back");
    }
}
