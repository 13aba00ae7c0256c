//! The numbers of many shared values in one table, so that whoever looks for some goes one step instead of three.
//!
//! A section of a graph is an `Arc`, which points to a block, which points to memory; of a thousand of them a kernel that hops about finds no two
//! in a row in its cache. This keeps the sections and, beside each other, where their memory is.
//!
//! Invariant: a value of the table is never changed while the table lives: it has a share of it, and nobody changes what is shared.

use std::sync::Arc;

/// Shared values, and the numbers of each.
#[derive(Debug)]
pub(crate) struct Lent<S> {
    owners: Vec<Arc<S>>,
    /// Of `owners`, in their order: they live as long as those do.
    numbers: Vec<&'static [u32]>,
}

impl<S> Lent<S> {
    /// A table of `owners` and the numbers of each: in blocks of theirs, which neither move nor change while somebody shares the value. O(values).
    pub(crate) fn new(owners: Vec<Arc<S>>, numbers: impl Fn(&S) -> &[u32]) -> Self {
        let lent = |owner: &Arc<S>| {
            let numbers: *const [u32] = numbers(owner);
            // SAFETY: (G10) the table has a share of the value, so that its numbers stay where and as they are until the table goes, and it
            // lends them for no longer than it is borrowed itself.
            unsafe { &*numbers }
        };
        let numbers = owners.iter().map(lent).collect();
        Self { owners, numbers }
    }

    /// The values.
    pub(crate) fn owners(&self) -> &[Arc<S>] {
        &self.owners
    }

    /// The numbers of each.
    #[inline]
    pub(crate) fn numbers(&self) -> &[&[u32]] {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{Block, Pool};

    #[test]
    fn numbers_are_those_of_their_owners_also_when_nobody_else_has_them() {
        let pool = Pool::new();
        let block = |number: u32| {
            let mut block = pool.block(1).unwrap();
            block.fill(number);
            Arc::new(block)
        };
        let mut blocks: Vec<Arc<Block>> = (0..100).map(block).collect();
        let table = Lent::new(blocks.clone(), |block| &block[..]);
        // Whoever has them changes them by others; what the table has is the table's alone then.
        blocks.iter_mut().for_each(|has| {
            assert!(Arc::get_mut(has).is_none(), "the table's share keeps it as it is");
            *has = block(1000);
        });
        for (at, (owner, numbers)) in (0u32..).zip(table.owners().iter().zip(table.numbers())) {
            assert_eq!((owner[0], numbers[0], numbers.len()), (at, at, owner.len()));
        }
    }
}
