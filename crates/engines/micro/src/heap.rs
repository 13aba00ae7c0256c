//! What memory takes: what a buffer costs beside its bytes, and reading without memory that is lost between buffers.
//!
//! A cache of so many bytes is to take so many bytes, or data of four times the cache would be of less. Two things stand against it:
//!
//! - a small buffer takes more than its bytes ([`heap_bytes`]);
//! - a buffer that is aligned for direct reads takes twice its bytes: glibc leaves a hole before each of them that the next one does not fit.
//!   So nothing is kept where it was read: one buffer of the thread takes what a direct read brings, and who keeps it copies it ([`read`]).

use std::cell::Cell;
use std::io;

use biombo_base::io::{AlignedBuf, File};

/// Larger buffers are given back after their read.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What the system's allocator (glibc, 64 bits) takes for a buffer of so many bytes: 8 more, in steps of 16, at least 32.
pub(crate) fn heap_bytes(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}

thread_local! {
    static BUFFER: Cell<AlignedBuf> = const { Cell::new(AlignedBuf::new()) };
}

/// Read `bytes` bytes at `offset` and hand them to `seen`: fewer where the file ends before.
pub(crate) fn read<R>(file: &dyn File, offset: u64, bytes: usize, seen: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
    // A thread that is about to end may have none any more.
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.resize(bytes);
    let seen = file.read_at(&mut buffer, offset).map(|read| seen(&buffer[..read]));
    if buffer.capacity() <= KEPT_BYTES_MAX {
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_cost_what_the_allocator_takes() {
        let taken = [0, 1, 8, 24, 25, 100, 4096].map(heap_bytes);
        assert_eq!(taken, [0, 32, 32, 32, 48, 112, 4112]);
    }
}
