//! A growing byte buffer whose memory is aligned to [`BLOCK_BYTES`], as direct writes need it.
//!
//! Invariants:
//! 1. `memory` is either dangling (capacity 0) or an allocation of exactly `capacity` bytes with the layout of
//!    [`AlignedBuf::layout`].
//! 2. All `capacity` bytes are initialised (the allocation is zeroed), so any prefix may be lent as a slice.
//! 3. `len <= capacity`, and `capacity` is a multiple of [`BLOCK_BYTES`].
//!
//! This is the only place for this kind of unsafe code; the rules B1 to B3 are in SAFETY.md.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::BLOCK_BYTES;

/// A byte vector aligned to [`BLOCK_BYTES`]. Growing at least doubles it; [`clear`](AlignedBuf::clear) keeps the room.
///
/// ```
/// use biombo_base::io::{AlignedBuf, BLOCK_BYTES};
/// let mut buf = AlignedBuf::new();
/// buf.extend_from_slice(b"abc");
/// buf.pad_to(BLOCK_BYTES);
/// assert_eq!(buf.len(), 4096);
/// assert_eq!(buf.as_ptr() as usize % BLOCK_BYTES, 0);
/// ```
pub struct AlignedBuf {
    memory: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: (B3) the buffer owns its memory alone and lends it only through `&self` and `&mut self`.
unsafe impl Send for AlignedBuf {}
// SAFETY: (B3) as above; `&AlignedBuf` gives only `&[u8]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// An empty buffer; allocates nothing.
    pub const fn new() -> Self {
        Self { memory: NonNull::dangling(), len: 0, capacity: 0 }
    }

    /// An empty buffer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buf = Self::new();
        buf.reserve(bytes);
        buf
    }

    /// A buffer of `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        let mut buf = Self::new();
        buf.resize(bytes);
        buf
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forget the content and keep the room.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Make room for `more` further bytes.
    pub fn reserve(&mut self, more: usize) {
        let needed = self.len.checked_add(more).expect("invariant: a buffer is smaller than the address space");
        if needed > self.capacity {
            self.grow(needed.max(self.capacity * 2).max(BLOCK_BYTES).next_multiple_of(BLOCK_BYTES));
        }
    }

    /// Append `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.reserve(bytes.len());
        self.len += bytes.len();
        self[start..].copy_from_slice(bytes);
    }

    /// Cut or extend with zeros to `bytes`.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.len {
            let start = self.len;
            self.reserve(bytes - start);
            self.len = bytes;
            self[start..].fill(0);
        } else {
            self.len = bytes;
        }
    }

    /// Extend with zeros to a multiple of `unit` bytes.
    pub fn pad_to(&mut self, unit: usize) {
        self.resize(self.len.next_multiple_of(unit));
    }

    /// Drop the first `bytes` and move the rest to the front, so that it is aligned again.
    pub fn remove_front(&mut self, bytes: usize) {
        self.copy_within(bytes.., 0);
        self.len -= bytes;
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, BLOCK_BYTES).expect("invariant: a buffer is smaller than the address space")
    }

    fn grow(&mut self, capacity: usize) {
        let layout = Self::layout(capacity);
        // SAFETY: (B1) `capacity` is at least BLOCK_BYTES, so the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let mut grown = Self { memory, len: self.len, capacity };
        grown.copy_from_slice(self);
        *self = grown;
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: (B1) invariant 1: the memory came from `alloc_zeroed` with this very layout and is freed once.
            unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.capacity)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: (B2) invariants 2 and 3: the first `len` bytes are allocated and initialised; an empty buffer dangles,
        // which a slice of length 0 may.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: (B2) as in `deref`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_survives_growth_and_memory_stays_aligned() {
        let mut buf = AlignedBuf::new();
        let mut model = Vec::new();
        for i in 0..2000u32 {
            let piece = i.to_le_bytes().repeat(i as usize % 17);
            buf.extend_from_slice(&piece);
            model.extend_from_slice(&piece);
            assert_eq!(buf.as_ptr() as usize % BLOCK_BYTES, if buf.capacity() == 0 { 1 } else { 0 });
        }
        assert_eq!(&buf[..], &model[..]);
        buf.remove_front(1000);
        assert_eq!(&buf[..], &model[1000..]);
    }

    #[test]
    fn growing_after_a_cut_shows_zeros_not_the_former_bytes() {
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(&[7; 100]);
        buf.resize(10);
        buf.pad_to(64);
        assert_eq!(&buf[..10], &[7; 10]);
        assert_eq!(&buf[10..], &[0; 54]);
    }
}
