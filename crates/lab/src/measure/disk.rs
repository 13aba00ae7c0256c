//! Room on disks: what a directory takes, what a file system has left.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use biombo_base::{Error, ErrorKind, Result};

/// Bytes allocated to all files under `dir`. Files that vanish meanwhile do not count; hard links count once.
pub fn allocated_bytes(dir: &Path) -> Result<u64> {
    fn walk(dir: &Path, seen: &mut std::collections::HashSet<(u64, u64)>) -> std::io::Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() {
                bytes += walk(&entry.path(), seen)?;
            } else if meta.nlink() == 1 || seen.insert((meta.dev(), meta.ino())) {
                bytes += meta.blocks() * 512;
            }
        }
        Ok(bytes)
    }
    walk(dir, &mut std::collections::HashSet::new()).map_err(|e| Error::io(format!("list {}", dir.display()), e))
}

/// Bytes that an unprivileged process may still write to the file system of `dir`.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(dir)
        .map_err(|e| Error::io(format!("ask how much room the file system of {} has", dir.display()), e.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// `Full` unless the file system of `dir` has `needed` bytes left.
pub fn check_free(dir: &Path, needed: u64) -> Result<()> {
    let free = free_bytes(dir)?;
    if free < needed {
        return Err(Error::new(
            ErrorKind::Full,
            format!(
                "{} has {} MB left and this run may need {} MB: give fewer --records or another --dir",
                dir.display(),
                free / 1_000_000,
                needed.div_ceil(1_000_000)
            ),
        ));
    }
    Ok(())
}

/// Wait until the whole file system of `dir` is on its device, so that what one phase left behind is not written in the
/// next one's time.
pub fn settle(dir: &Path) -> Result<()> {
    let what = || format!("sync the file system of {}", dir.display());
    let file = std::fs::File::open(dir).map_err(|e| Error::io(what(), e))?;
    rustix::fs::syncfs(file).map_err(|e| Error::io(what(), e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_bytes_covers_all_files_and_links_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/a"), vec![1u8; 100_000]).unwrap();
        std::fs::hard_link(dir.path().join("sub/a"), dir.path().join("b")).unwrap();
        settle(dir.path()).unwrap();
        let bytes = allocated_bytes(dir.path()).unwrap();
        assert!((98_304..200_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_run_that_cannot_fit_is_refused_with_figures() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_free(dir.path(), 1).is_ok());
        let error = check_free(dir.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().contains("--records"));
    }
}
