//! The block device under a directory, and what it says it wrote.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

    /// Bytes written since the machine started.
    pub fn written_bytes(&self) -> Option<u64> {
        parse(&std::fs::read_to_string(&self.stat).ok()?)
    }
}

/// The seventh field counts written sectors, of 512 bytes on every device (Documentation/block/stat).
fn parse(stat: &str) -> Option<u64> {
    Some(stat.split_whitespace().nth(6)?.parse::<u64>().ok()? * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_sectors_are_the_seventh_field() {
        let stat = "51066 9458 4904706 21386 14001 14258 2293112 7014 0 10940 29209 5505 27 535248 776 1533 32\n";
        assert_eq!(parse(stat), Some(2_293_112 * 512));
        assert_eq!(parse("1 2"), None);
    }
}
