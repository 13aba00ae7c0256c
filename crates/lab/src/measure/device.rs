//! The block device under a directory, and what it says it read and wrote.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Traffic;
use super::disk::linked;

/// One block device. Its counters cover everything that anybody writes to it, other programs included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    stat: PathBuf,
}

impl Device {
    /// The device that holds `dir`; `None` where there is none (tmpfs, overlays, network), or what belongs to it lies on another one as well.
    pub fn of(dir: &Path) -> Option<Self> {
        let dev = dir.metadata().ok()?.dev();
        if linked(dir).iter().any(|other| other.metadata().map_or(true, |meta| meta.dev() != dev)) {
            return None;
        }
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(Self { stat })
    }

    /// Bytes read and written since the machine started.
    pub fn traffic(&self) -> Option<Traffic> {
        parse(&std::fs::read_to_string(&self.stat).ok()?)
    }
}

/// The kind of the file system that holds `dir`, as the kernel names it: `ext4`, `tmpfs`; `None` where that cannot be told.
pub fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    file_system_of(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &dir)
}

/// Of the mounts above a directory the lowest one holds it, of several in one place the last one (proc(5), mountinfo).
fn file_system_of(mounts: &str, dir: &Path) -> Option<String> {
    let above = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        // Blanks are escaped there.
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let kind = source.split(' ').next()?.to_owned();
        dir.starts_with(&point).then(|| (Path::new(&point).components().count(), kind))
    };
    mounts.lines().filter_map(above).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// The third field counts sectors read, the seventh those written, of 512 bytes on every device (Documentation/block/stat).
fn parse(stat: &str) -> Option<Traffic> {
    let bytes = |field| Some(stat.split_whitespace().nth(field)?.parse::<u64>().ok()? * 512);
    Some(Traffic { read_bytes: bytes(2)?, written_bytes: bytes(6)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_read_are_the_third_field_and_written_ones_the_seventh() {
        let stat = "51066 9458 4904706 21386 14001 14258 2293112 7014 0 10940 29209 5505 27 535248 776 1533 32\n";
        assert_eq!(parse(stat), Some(Traffic { read_bytes: 4_904_706 * 512, written_bytes: 2_293_112 * 512 }));
        assert_eq!(parse("1 2"), None);
    }

    /// Fails when the first mount is taken, or one whose path merely begins alike.
    #[test]
    fn the_file_system_is_that_of_the_lowest_mount_above() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:9 / /dev rw shared:2 - devtmpfs udev rw\n\
                      31 30 0:21 / /dev/shm rw - tmpfs tmpfs rw\n40 22 0:30 / /my\\040disk rw - xfs /dev/sdb rw\n\
                      41 40 0:31 / /my\\040disk rw - btrfs /dev/sdc rw\n";
        let of = |dir: &str| file_system_of(mounts, Path::new(dir));
        assert_eq!(of("/tmp/x").as_deref(), Some("ext4"));
        assert_eq!(of("/dev/shm/x").as_deref(), Some("tmpfs"));
        assert_eq!(of("/dev/shmem").as_deref(), Some("devtmpfs"));
        assert_eq!(of("/my disk/x").as_deref(), Some("btrfs"), "the last of two in one place");
        assert_eq!(file_system_of("", Path::new("/")), None);
        assert!(file_system(Path::new("/")).is_some_and(|kind| !kind.is_empty()));
    }
}
