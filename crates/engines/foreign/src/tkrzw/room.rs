//! Room on the device, looked at before Tkrzw needs it.
//!
//! Tkrzw grows a sparse file and writes through a mapping: where the device is full, the kernel does not return an error but
//! kills the process with SIGBUS. So writes are refused with `Full` while less than a reserve is free. The reserve covers what
//! was applied and may still be written (dirty pages of the tree), and what other writers do between two looks; a program that
//! fills the device faster than that can still bring the signal.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use biombo_base::{Error, ErrorKind, Result};

/// Free bytes that must remain.
const RESERVE_BYTES: u64 = 16 << 20;
/// Bytes applied between two looks.
const LOOK_BYTES: u64 = 1 << 20;

/// What was applied since the last look and the last sync.
#[derive(Debug, Default)]
pub(super) struct Room {
    since_look: AtomicU64,
    since_sync: AtomicU64,
}

impl Room {
    /// Refuse `bytes` more where there is no room for them. `dirty_bytes_max`: what the engine may hold back in memory.
    pub(super) fn check(&self, dir: &Path, bytes: u64, dirty_bytes_max: u64) -> Result<()> {
        // Counted when it is taken: what is refused is held back nowhere.
        let taken = || {
            self.since_sync.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        };
        let since = self.since_look.fetch_add(bytes.max(1), Ordering::Relaxed);
        // The very first write looks too.
        if since != 0 && since + bytes < LOOK_BYTES {
            return taken();
        }
        self.since_look.store(1, Ordering::Relaxed);
        let file_system = rustix::fs::statvfs(dir)
            .map_err(|e| Error::io(format_args!("ask for the free room of {}", dir.display()), e.into()))?;
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        let dirty = self.since_sync.load(Ordering::Relaxed).saturating_add(bytes);
        let needed = RESERVE_BYTES + bytes + dirty.min(dirty_bytes_max);
        if free >= needed {
            return taken();
        }
        // The next write looks again.
        self.since_look.store(0, Ordering::Relaxed);
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "{} has {free} bytes free and Tkrzw needs {needed} in reserve; nothing was changed: free room and retry",
                dir.display()
            ),
        ))
    }

    /// Everything applied is in the file.
    pub(super) fn synced(&self) {
        self.since_sync.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_larger_than_the_free_room_is_full_and_a_small_one_passes() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::default();
        room.check(dir.path(), 10, 0).unwrap();
        for _ in 0..3 {
            assert_eq!(room.check(dir.path(), 1 << 60, u64::MAX).unwrap_err().kind(), ErrorKind::Full);
        }
        // What was refused is not held back in memory.
        room.check(dir.path(), 10, u64::MAX).unwrap();
    }
}
