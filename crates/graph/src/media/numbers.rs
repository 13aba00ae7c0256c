//! Numbers that do not change, in memory or where they are kept.
//!
//! Invariants:
//! 1. `numbers` and `len` say where so many elements lie: in `owner`'s array, or within its region, at an address that is a multiple of
//!    their size. The owner goes with this value and not before.
//! 2. Nobody changes the region: whoever has it shares it, and changes need it alone.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::persistent::Region;
use super::{Array, Plain};

/// Numbers to be read; see the module.
pub(crate) struct Numbers<T: Plain> {
    numbers: NonNull<T>,
    len: usize,
    owner: Owner<T>,
    lends: PhantomData<T>,
}

enum Owner<T: Plain> {
    Array(#[allow(dead_code, reason = "it is there to be dropped")] Array<T>),
    Region(Arc<dyn Region>),
}

// SAFETY: (G9) the numbers are the owner's, and either kind of owner may go to another thread.
unsafe impl<T: Plain> Send for Numbers<T> {}
// SAFETY: (G9) a shared value lends shared numbers only.
unsafe impl<T: Plain + Sync> Sync for Numbers<T> {}

impl<T: Plain> Numbers<T> {
    /// `len` numbers of a region, in the order of bytes that this processor has, from the byte `offset` on. `None` when they are not all
    /// there, or not aligned.
    pub(crate) fn in_place(region: &Arc<dyn Region>, offset: u64, len: usize) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let bytes = region.bytes().get(offset..)?.get(..len.checked_mul(size_of::<T>())?)?;
        let numbers = NonNull::from(bytes).cast::<T>();
        numbers.is_aligned().then(|| Self { numbers, len, owner: Owner::Region(region.clone()), lends: PhantomData })
    }

    /// How many bytes they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// What is behind them, if that is no memory.
    pub(crate) fn region(&self) -> Option<&Arc<dyn Region>> {
        match &self.owner {
            Owner::Array(_) => None,
            Owner::Region(region) => Some(region),
        }
    }
}

impl<T: Plain> From<Array<T>> for Numbers<T> {
    fn from(array: Array<T>) -> Self {
        // What an array lends does not move with it.
        let numbers = NonNull::from(&array[..]).cast();
        Self { numbers, len: array.len(), owner: Owner::Array(array), lends: PhantomData }
    }
}

impl<T: Plain> Deref for Numbers<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: (G9) so many elements are there for as long as `self` is borrowed (invariant 1), and nobody changes them
        // (invariant 2); any bits are a value.
        unsafe { std::slice::from_raw_parts(self.numbers.as_ptr(), self.len) }
    }
}

impl<T: Plain> fmt::Debug for Numbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_in_place = self.region().is_some();
        f.debug_struct("Numbers").field("len", &self.len).field("is_in_place", &is_in_place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use biombo_base::io::RealIo;

    use super::*;
    use crate::media::persistent::{Mapped, Medium};

    #[test]
    fn numbers_are_read_where_they_are_and_outlive_whoever_opened_the_region() {
        let dir = tempfile::tempdir().unwrap();
        let medium = Mapped::new(RealIo::shared(), dir.path().to_owned());
        let mut region = medium.create("numbers", 4096).unwrap();
        (0..20u64).for_each(|n| region.store(64 + 8 * n, &n.to_ne_bytes()));
        let region: Arc<dyn Region> = Arc::from(region);
        let numbers = Numbers::<u64>::in_place(&region, 64, 20).unwrap();
        let halves = Numbers::<u32>::in_place(&region, 64 + 8, 2).unwrap();
        assert!(Numbers::<u64>::in_place(&region, 60, 1).is_none(), "not aligned");
        assert!(Numbers::<u64>::in_place(&region, 4096 - 8, 2).is_none(), "past the end");
        assert!(Numbers::<u64>::in_place(&region, 4096, 0).is_some_and(|none| none.is_empty()));
        assert!(Numbers::<u64>::in_place(&region, 1 << 60, usize::MAX).is_none());
        drop(region);
        assert!(numbers.iter().copied().eq(0..20));
        assert_eq!(halves.iter().sum::<u32>(), 1);
        let numbers = std::thread::spawn(move || numbers).join().unwrap();
        assert_eq!((numbers[19], numbers.memory_bytes()), (19, 160));
        let own = Numbers::from(Array::copy_of(&[1u32, 2, 3]).unwrap());
        assert!(own.region().is_none() && *own == [1, 2, 3]);
    }
}
