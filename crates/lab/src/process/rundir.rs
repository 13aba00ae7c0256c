//! A run's directory: made empty, removed when the run is over, however it ends.
//!
//! A parent that is killed cannot remove its own; the next one that works in the same place does, when the process that
//! the name carries is gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use biombo_base::{Error, Result};

const PREFIX: &str = "biombo-bench-";
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An empty directory that is removed on drop.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Make one under `base`, which is created where it is missing.
    pub fn create(base: &Path) -> Result<Self> {
        std::fs::create_dir_all(base).map_err(|e| Error::io(format!("create {}", base.display()), e))?;
        // Run directories are named absolutely: a worker may start elsewhere.
        let base = base.canonicalize().map_err(|e| Error::io(format!("find {}", base.display()), e))?;
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = base.join(name);
        std::fs::create_dir(&path).map_err(|e| Error::io(format!("create {}", path.display()), e))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Remove directories under `base` that a killed process left behind.
pub fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok())
        else {
            continue;
        };
        let owner: u32 = owner;
        if !Path::new(&format!("/proc/{owner}")).exists() && Path::new("/proc/self").exists() {
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
        let left = base.path().join("new").join(format!("{PREFIX}4294967294-0"));
        let other = base.path().join("new").join("somebody's own");
        std::fs::create_dir(&left).unwrap();
        std::fs::create_dir(&other).unwrap();
        sweep(&base.path().join("new"));
        assert!(path.exists() && other.exists() && !left.exists());
        drop(dir);
        assert!(!path.exists());
    }
}
