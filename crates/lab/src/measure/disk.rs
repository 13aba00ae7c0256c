//! Room on disks: what a directory takes, what a file system has left. A run's directory has links to those that the run has on other devices:
//! what is said of it is said of all.

use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use biombo_base::{Error, ErrorKind, Result};

/// How links to other devices are named.
const LINK: &str = "device-";

/// Note in `dir` that `others` belong to it.
pub fn link(dir: &Path, others: &[PathBuf]) -> Result<()> {
    others.iter().enumerate().try_for_each(|(number, other)| {
        let link = dir.join(format!("{LINK}{number}"));
        symlink(other, &link).map_err(|e| Error::io(format!("create {}", link.display()), e))
    })
}

/// The directories that belong to `dir`.
pub(crate) fn linked(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let is_link = |entry: &std::fs::DirEntry| {
        let is_named = entry.file_name().to_string_lossy().starts_with(LINK);
        is_named && entry.file_type().is_ok_and(|kind| kind.is_symlink())
    };
    entries.flatten().filter(is_link).map(|entry| entry.path()).collect()
}

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
    let mut seen = std::collections::HashSet::new();
    let mut bytes = 0;
    for dir in linked(dir).iter().map(PathBuf::as_path).chain([dir]) {
        bytes += walk(dir, &mut seen).map_err(|e| Error::io(format!("list {}", dir.display()), e))?;
    }
    Ok(bytes)
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

/// `Full` unless the file systems of `dirs` have `needed` bytes left together, each for those of the `instances` that are dealt to it.
pub(crate) fn check_all_free(dirs: &[&Path], instances: u64, needed: u64) -> Result<()> {
    let device = |dir: &&Path| {
        let found = dir.metadata().map_err(|e| Error::io(format!("look at {}", dir.display()), e))?;
        Ok(found.dev())
    };
    let devices = dirs.iter().map(device).collect::<Result<Vec<_>>>()?;
    shares(&devices, instances, needed).into_iter().try_for_each(|(dir, bytes)| check_free(dirs[dir], bytes))
}

/// What each device must hold, with the first directory on it: instances are dealt to the directories of `devices` in turn, and may not divide.
fn shares(devices: &[u64], instances: u64, needed: u64) -> Vec<(usize, u64)> {
    let (count, instances) = (devices.len() as u64, instances.max(1));
    let mut shares: Vec<(usize, u64)> = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        let dealt = (instances + count - 1).saturating_sub(number as u64) / count;
        let bytes = (u128::from(needed) * u128::from(dealt) / u128::from(instances)) as u64;
        match shares.iter_mut().find(|(first, _)| devices[*first] == *device) {
            Some((_, all)) => *all = all.saturating_add(bytes),
            None => shares.push((number, bytes)),
        }
    }
    shares
}

/// Wait until the whole file system of `dir` is on its device, so that what one phase left behind is not written in the
/// next one's time.
pub fn settle(dir: &Path) -> Result<()> {
    linked(dir).iter().map(PathBuf::as_path).chain([dir]).try_for_each(|dir| {
        let what = || format!("sync the file system of {}", dir.display());
        let file = std::fs::File::open(dir).map_err(|e| Error::io(what(), e))?;
        rustix::fs::syncfs(file).map_err(|e| Error::io(what(), e.into()))
    })
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
    fn what_lies_on_other_devices_counts_with_the_directory_that_it_belongs_to() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(dir.path().join("a"), vec![1u8; 50_000]).unwrap();
        std::fs::write(other.path().join("b"), vec![1u8; 100_000]).unwrap();
        link(dir.path(), &[other.path().to_owned()]).unwrap();
        settle(dir.path()).unwrap();
        let bytes = allocated_bytes(dir.path()).unwrap();
        assert!((147_456..300_000).contains(&bytes), "{bytes}");
        assert!(linked(other.path()).is_empty());
    }

    /// (Mutations: equal shares; directories of one file system asked one by one.)
    #[test]
    fn each_device_is_asked_for_what_is_dealt_to_it() {
        assert_eq!(shares(&[7], 3, 900), [(0, 900)]);
        assert_eq!(shares(&[7, 8], 3, 900), [(0, 600), (1, 300)]);
        assert_eq!(shares(&[7, 8, 9], 2, 900), [(0, 450), (1, 450), (2, 0)]);
        assert_eq!(shares(&[7, 8, 7], 6, 900), [(0, 600), (1, 300)]);
        assert_eq!(shares(&[7, 7], 1, u64::MAX), [(0, u64::MAX)]);
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dirs = [dir.path(), other.path()];
        let free = free_bytes(dir.path()).unwrap();
        check_all_free(&dirs, 2, 1).unwrap();
        assert_eq!(check_all_free(&dirs, 2, free + free / 2).unwrap_err().kind(), ErrorKind::Full, "one file system");
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
