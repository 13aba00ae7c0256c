//! The block device under a directory, and what it says it read and wrote; where a directory lies.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
    Place::of(dir).file_system
}

/// Where a directory lies: what a write there costs is decided by that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The kind of the file system, as the kernel names it: `ext4`, `tmpfs`; `None` where that cannot be told.
    pub file_system: Option<String>,
    /// The block device, as the kernel names it: `sda1`, `dm-0`; `None` where there is none.
    pub device: Option<String>,
}

impl Place {
    /// That of `dir`.
    pub fn of(dir: &Path) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = dir.canonicalize().ok().and_then(|dir| mount_of(&mounts, &dir));
        // A file system with devices of its own to manage has none of the kernel's to name, but says what was mounted.
        let mounted = || mount?.1.strip_prefix("/dev/").map(str::to_owned);
        Self { file_system: mount.map(|(kind, _)| kind.to_owned()), device: block_device(dir).or_else(mounted) }
    }
}

impl fmt::Display for Place {
    /// For people: `ext4 (sda1)`, `tmpfs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.file_system.as_deref().unwrap_or("a file system without a name");
        match &self.device {
            Some(device) => write!(f, "{kind} ({device})"),
            None => f.write_str(kind),
        }
    }
}

/// What the kernel calls the block device that holds `dir`.
fn block_device(dir: &Path) -> Option<String> {
    let dev = dir.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(device.file_name()?.to_string_lossy().into_owned())
}

/// Kind and source of the mount that holds a directory: of those above it the lowest one, of several in one place the last one (proc(5),
/// mountinfo).
fn mount_of<'a>(mounts: &'a str, dir: &Path) -> Option<(&'a str, &'a str)> {
    let above = |line: &'a str| {
        let (mount, mounted) = line.split_once(" - ")?;
        // Blanks are escaped there.
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let mut fields = mounted.split(' ');
        let found = (fields.next()?, fields.next().unwrap_or_default());
        dir.starts_with(&point).then(|| (Path::new(&point).components().count(), found))
    };
    mounts.lines().filter_map(above).max_by_key(|(depth, _)| *depth).map(|(_, found)| found)
}

/// The third field counts sectors read, the seventh those written, of 512 bytes on every device (Documentation/block/stat).
fn parse(stat: &str) -> Option<Traffic> {
    let bytes = |field| Some(stat.split_whitespace().nth(field)?.parse::<u64>().ok()? * 512);
    // What never came to it, it cannot take back.
    Some(Traffic { read_bytes: bytes(2)?, written_bytes: bytes(6)?, cancelled_bytes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_read_are_the_third_field_and_written_ones_the_seventh() {
        let stat = "51066 9458 4904706 21386 14001 14258 2293112 7014 0 10940 29209 5505 27 535248 776 1533 32\n";
        let expected = Traffic { read_bytes: 4_904_706 * 512, written_bytes: 2_293_112 * 512, ..Traffic::default() };
        assert_eq!(parse(stat), Some(expected));
        assert_eq!(parse("1 2"), None);
    }

    /// Fails when the first mount is taken, or one whose path merely begins alike.
    #[test]
    fn the_file_system_is_that_of_the_lowest_mount_above() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:9 / /dev rw shared:2 - devtmpfs udev rw\n\
                      31 30 0:21 / /dev/shm rw - tmpfs tmpfs rw\n40 22 0:30 / /my\\040disk rw - xfs /dev/sdb rw\n\
                      41 40 0:31 / /my\\040disk rw - btrfs /dev/sdc rw\n";
        let of = |dir: &str| mount_of(mounts, Path::new(dir));
        assert_eq!(of("/tmp/x"), Some(("ext4", "/dev/sda1")));
        assert_eq!(of("/dev/shm/x"), Some(("tmpfs", "tmpfs")));
        assert_eq!(of("/dev/shmem").map(|(kind, _)| kind), Some("devtmpfs"));
        assert_eq!(of("/my disk/x"), Some(("btrfs", "/dev/sdc")), "the last of two in one place");
        assert_eq!(mount_of("", Path::new("/")), None);
        assert!(file_system(Path::new("/")).is_some_and(|kind| !kind.is_empty()));
    }

    #[test]
    fn a_place_is_named_by_its_file_system_and_its_device() {
        let place = |file_system: Option<&str>, device: Option<&str>| Place {
            file_system: file_system.map(str::to_owned),
            device: device.map(str::to_owned),
        };
        assert_eq!(place(Some("ext4"), Some("sda1")).to_string(), "ext4 (sda1)");
        assert_eq!(place(Some("tmpfs"), None).to_string(), "tmpfs");
        assert_eq!(Place::of(Path::new("/proc")), place(Some("proc"), None));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Place::of(dir.path()), Place::of(&dir.path().join(".")));
    }
}
