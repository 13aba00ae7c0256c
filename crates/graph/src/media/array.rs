//! Arrays of numbers in memory of their own: zeroed, and on huge pages where the system has them.
//!
//! Kernels hop through arrays of many megabytes; on pages of 4 KiB such a hop costs twice as much as on pages of 2 MiB, for the
//! look-up of its address alone. The system's allocator asks for no huge pages where they must be asked for, so this maps memory itself.
//! Getting it from the system costs as much as a short kernel, so what arrays of a [`Spares`] leave is used again.
//!
//! Invariants:
//! 1. `memory` is a private anonymous mapping of `len` times the size of `T` bytes, which this value owns, and unmaps or leaves to
//!    its spares once; or dangling, where that is 0 bytes.
//! 2. Every element is initialised: the system gives zeros, and whoever had the memory since stored numbers; any bits are a value of every
//!    [`Plain`] type.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use biombo_base::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::numa::Place;

/// Arrays of at least this many bytes ask for huge pages.
const HUGE_BYTES_MIN: usize = 2 << 20;

mod sealed {
    pub trait Sealed {}
}

/// Numbers of which any bits are a value, that are aligned to 8 bytes at most and need no drop.
pub trait Plain: sealed::Sealed + Send + 'static {}

macro_rules! plain {
    ($($type:ty),*) => { $(impl sealed::Sealed for $type {} impl Plain for $type {})* };
}
plain!(u8, u32, u64, f32, f64, [u32; 2], AtomicU32, AtomicU64);

/// An array of `T`; see the module.
///
/// ```
/// use biombo_graph::media::Array;
/// let mut squares = Array::<u64>::zeroed(10)?;
/// squares.iter_mut().zip(0..).for_each(|(square, n)| *square = n * n);
/// assert_eq!(squares[9], 81);
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub struct Array<T: Plain> {
    memory: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
    /// Who has the memory next, and where it lies, if somebody brought it there.
    spares: Option<(Arc<Spares>, Option<Arc<Place>>)>,
}

/// Memory that arrays have left, for the next ones of the same size in the same place.
#[derive(Default)]
pub(crate) struct Spares {
    mappings: Mutex<Vec<Mapping>>,
}

/// A mapping that no array has.
struct Mapping {
    memory: NonNull<u8>,
    bytes: usize,
    place: Option<Arc<Place>>,
}

// SAFETY: (G1) a mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: (G1) the mapping is this value's own, and nothing borrows it any more. It needs no drop of elements.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "an array's own mapping can be unmapped");
    }
}

impl Spares {
    /// How many bytes it keeps at most.
    const BYTES_MAX: usize = 128 << 20;
    /// How many mappings.
    const COUNT_MAX: usize = 16;

    /// The one of so many bytes in that place that was left last.
    fn take(&self, bytes: usize, place: Option<&Place>) -> Option<Mapping> {
        let mut mappings = self.mappings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let at = mappings.iter().rposition(|mapping| mapping.bytes == bytes && mapping.place.as_deref() == place)?;
        Some(mappings.remove(at))
    }

    /// The oldest ones go when they are too many.
    fn leave(&self, mapping: Mapping) {
        let mut mappings = self.mappings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        mappings.push(mapping);
        while mappings.len() > Self::COUNT_MAX
            || mappings.iter().map(|mapping| mapping.bytes).sum::<usize>() > Self::BYTES_MAX
        {
            mappings.remove(0);
        }
    }
}

// SAFETY: (G1) the array owns its memory alone, and memory belongs to no thread; its elements are `Send`.
unsafe impl<T: Plain> Send for Array<T> {}
// SAFETY: (G1) a shared array lends shared elements only, which are `Sync`.
unsafe impl<T: Plain + Sync> Sync for Array<T> {}

impl<T: Plain> Array<T> {
    /// `len` zeros. Pages are taken from the system when they are first touched.
    ///
    /// # Errors
    /// `Invalid` when that is more than memory can address, `Io` when the system has no room.
    pub fn zeroed(len: usize) -> Result<Self> {
        Self::mapped(len, Advice::LinuxHugepage)
    }

    /// The same without huge pages, for arrays of which neighbouring pages are to lie on different NUMA nodes.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub(crate) fn zeroed_on_small_pages(len: usize) -> Result<Self> {
        Self::mapped(len, Advice::LinuxNoHugepage)
    }

    fn mapped(len: usize, pages: Advice) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>());
        let bytes = bytes.ok_or_else(|| Error::invalid(format!("an array of {len} elements is too large")))?;
        if bytes == 0 {
            return Ok(Self { memory: NonNull::dangling(), len, owns: PhantomData, spares: None });
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: (G1) a fresh mapping at an address that the kernel chooses replaces no memory of anybody's.
        let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let memory = memory.map_err(|e| Error::io(format_args!("get {bytes} bytes of memory"), e.into()))?;
        #[cfg(test)]
        MAPPED.set(MAPPED.get() + 1);
        if bytes >= HUGE_BYTES_MIN {
            // SAFETY: (G2) the range is the mapping just made, and advice on the size of pages changes no byte. A kernel without huge pages
            // refuses it: then the array has small ones.
            let _ = unsafe { madvise(memory, bytes, pages) };
        }
        let memory = NonNull::new(memory.cast()).expect("invariant: the kernel maps nothing at address 0");
        Ok(Self { memory, len, owns: PhantomData, spares: None })
    }

    /// `len` numbers out of what is spare, and whether they are zeros: whatever the array before left there, or else zeros of the
    /// system's. The memory goes to `spares` in the end.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub(crate) fn spare(len: usize, spares: &Arc<Spares>) -> Result<(Self, bool)> {
        let found = Self::taken(len, spares, None);
        let is_zero = found.is_none();
        let mut array = found.map_or_else(|| Self::zeroed(len), Ok)?;
        array.spares = Some((spares.clone(), None));
        Ok((array, is_zero))
    }

    /// `len` numbers that lie in that place: whatever the array before left there, or else zeros that `make` has brought there; and whether they
    /// are zeros. The memory goes to `spares` in the end.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn spare_in(
        len: usize,
        spares: &Arc<Spares>,
        place: Place,
        make: impl FnOnce() -> Result<Self>,
    ) -> Result<(Self, bool)> {
        let found = Self::taken(len, spares, Some(&place));
        let is_zero = found.is_none();
        let mut array = found.map_or_else(make, Ok)?;
        array.spares = Some((spares.clone(), Some(Arc::new(place))));
        Ok((array, is_zero))
    }

    fn taken(len: usize, spares: &Spares, place: Option<&Place>) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0)?;
        let mut mapping = spares.take(bytes, place)?;
        mapping.place = None;
        // Not dropped: the array has it now. What is forgotten has nothing else that needs a drop.
        let memory = std::mem::ManuallyDrop::new(mapping).memory.cast();
        Some(Self { memory, len, owns: PhantomData, spares: None })
    }

    /// A copy of `items`.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub fn copy_of(items: &[T]) -> Result<Self>
    where
        T: Copy,
    {
        let mut array = Self::zeroed(items.len())?;
        array.copy_from_slice(items);
        Ok(array)
    }

    /// Where its memory begins, for whoever lends it in parts and never borrows the array itself.
    pub(super) fn base(&self) -> NonNull<T> {
        self.memory
    }

    /// How much memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T: Plain> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: (G3) so many initialised elements are there (invariants 1, 2) for as long as `self` is borrowed, and pages
        // are aligned for every Plain type; a dangling pointer stands for no bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: (G3) as above, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Array<T> {
    fn drop(&mut self) {
        let bytes = self.memory_bytes();
        if bytes > 0 {
            let (spares, place) = self.spares.take().unzip();
            let mapping = Mapping { memory: self.memory.cast(), bytes, place: place.flatten() };
            match spares {
                Some(spares) => spares.leave(mapping),
                None => drop(mapping),
            }
        }
    }
}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Array").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
thread_local! {
    /// How many mappings this thread has made.
    pub(crate) static MAPPED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_as_zeros_and_keep_what_is_stored() {
        for len in [0, 1, 5, 1000, (4 << 20) + 3] {
            let mut array = Array::<u32>::zeroed(len).unwrap();
            assert_eq!(array.len(), len);
            assert!(array.iter().all(|item| *item == 0));
            array.iter_mut().zip(0..).for_each(|(item, n)| *item = n);
            assert!(array.iter().copied().eq(0..len as u32));
            assert!(*Array::copy_of(&array).unwrap() == *array);
        }
    }

    #[test]
    fn arrays_go_to_other_threads() {
        let mut array = Array::<u64>::zeroed(100).unwrap();
        std::thread::scope(|scope| {
            let (left, right) = array.split_at_mut(50);
            scope.spawn(move || left.fill(1));
            scope.spawn(move || right.fill(2));
        });
        let array = std::thread::spawn(move || array).join().unwrap();
        assert_eq!(array.iter().sum::<u64>(), 150);
    }

    #[test]
    fn memory_is_used_again_by_arrays_of_its_size_and_what_is_kept_has_an_end() {
        let spares = Arc::new(Spares::default());
        let kept = || spares.mappings.lock().unwrap().len();
        let (mut array, is_zero) = Array::<f64>::spare(1000, &spares).unwrap();
        assert!(is_zero && array.iter().all(|item| *item == 0.0));
        array.fill(1.5);
        let memory = array.base().cast::<u8>();
        drop(array);
        assert_eq!(kept(), 1);
        assert!(Array::<f64>::spare(999, &spares).unwrap().1, "another size");
        let (again, is_zero) = Array::<[u32; 2]>::spare(1000, &spares).unwrap();
        assert!(!is_zero && again.base().cast() == memory);
        assert_eq!(again[999], [0, 1.5f64.to_bits().wrapping_shr(32) as u32]);
        // Two at once are never the same memory.
        let (other, _) = Array::<f64>::spare(1000, &spares).unwrap();
        assert_ne!(other.base().cast::<u8>(), memory);
        drop((again, other));
        assert!(Array::<u8>::spare(0, &spares).unwrap().0.is_empty());

        let many: Vec<_> = (1..100).map(|len| Array::<u64>::spare(len, &spares).unwrap().0).collect();
        drop(many);
        assert_eq!(kept(), Spares::COUNT_MAX);
        drop(Array::<u8>::spare(Spares::BYTES_MAX + 1, &spares).unwrap());
        assert_eq!(kept(), 0, "what is too large pushes all out, itself too");
        // An array may outlive everybody else who has the spares.
        let (mut last, _) = Array::<u64>::spare(7, &spares).unwrap();
        drop(spares);
        last.fill(3);
        assert!(last.iter().all(|item| *item == 3));
    }

    #[test]
    fn what_no_memory_can_hold_is_an_error() {
        assert!(Array::<u64>::zeroed(usize::MAX / 4).is_err());
        assert!(Array::<u64>::zeroed(1 << 58).is_err());
    }
}
