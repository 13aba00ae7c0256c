//! The system call that begins to write back a part of a file, which neither `std` nor `rustix` has.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Let the kernel begin to write what is dirty of `bytes` at `offset`. A hint: an error is no concern of the caller's, who syncs later and
/// is told then.
pub(super) fn begin(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else { return };
    // SAFETY: (B13) numbers only, and the descriptor is open while it is borrowed.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}
