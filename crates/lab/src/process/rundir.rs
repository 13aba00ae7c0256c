//! A run's directory: made empty, removed when the run is over, however it ends.
//!
//! A parent that is killed cannot remove its own; the next one that works in the same place does. Each holds a lock on its
//! directory for as long as it lives, which the kernel gives up with the process (and which, unlike a process's number,
//! means the same in every container).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use biombo_base::{Error, Result};
use biombo_engine::RUN_DIR_PREFIX as PREFIX;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An empty directory that is removed on drop.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Make one under `base`, which is created where it is missing.
    pub fn create(base: &Path) -> Result<Self> {
        std::fs::create_dir_all(base).map_err(|e| Error::io(format!("create {}", base.display()), e))?;
        // Run directories are named absolutely: a worker may start elsewhere.
        let base = base.canonicalize().map_err(|e| Error::io(format!("find {}", base.display()), e))?;
        loop {
            let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = base.join(name);
            match std::fs::create_dir(&path) {
                // Another container's process of the same number has it.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                created => created.map_err(|e| Error::io(format!("create {}", path.display()), e))?,
            }
            // Another's sweep may come between creating and locking, and win: then begin again.
            if let Some(lock) = lock(&path).filter(|_| path.exists()) {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A process that is being stopped may add a file meanwhile.
        for _ in 0..ATTEMPTS {
            if std::fs::remove_dir_all(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// So often a directory is tried to be removed; a sweep does it later.
const ATTEMPTS: u32 = 10;

/// The lock of the directory `path`; `None` while its owner lives.
fn lock(path: &Path) -> Option<File> {
    let dir = File::open(path).ok()?;
    dir.try_lock().ok().map(|()| dir)
}

/// Remove directories under `base` that a killed process left behind.
pub fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // Held until it is gone: who has just made it would lock it and go on otherwise.
        if let Some(_held) = lock(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_goes_with_its_guard_and_leftovers_of_the_dead_are_swept() {
        let base = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&base.path().join("new")).unwrap();
        let path = dir.path().to_owned();
        std::fs::write(path.join("data"), b"x").unwrap();
        let left = base.path().join("new").join(format!("{PREFIX}1-0"));
        let other = base.path().join("new").join("somebody's own");
        std::fs::create_dir(&left).unwrap();
        std::fs::create_dir(&other).unwrap();
        sweep(&base.path().join("new"));
        assert!(path.exists() && other.exists() && !left.exists());
        drop(dir);
        assert!(!path.exists());
    }
}
