//! Asking the processor for memory ahead of its use.

/// The unit in which memory comes, in bytes.
pub const LINE_BYTES: usize = 64;

/// Ask for the cache lines of `bytes`, and do not wait. Cheap, and never wrong: it changes no result. A dependent load
/// from memory costs hundreds of nanoseconds, ten independent ones together about the same.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line.as_ptr());
    }
}

/// Ask for the cache line of the item at `at`, and do not wait. Never wrong, whatever `at`: past the end it asks for memory that nobody needs.
#[inline]
pub fn prefetch_item<T>(items: &[T], at: usize) {
    prefetch_line(items.as_ptr().wrapping_add(at).cast());
}

#[inline]
fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: (B9) a prefetch reads nothing that the program can see and takes no fault, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
