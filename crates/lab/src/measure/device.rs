//! The block device under a directory, and what it says it read and wrote.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Traffic;

/// One block device. Its counters cover everything that anybody writes to it, other programs included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    stat: PathBuf,
}

impl Device {
    /// The device that holds `dir`; `None` where there is none (tmpfs, overlays, network).
    pub fn of(dir: &Path) -> Option<Self> {
        let dev = dir.metadata().ok()?.dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(Self { stat })
    }

    /// Bytes read and written since the machine started.
    pub fn traffic(&self) -> Option<Traffic> {
        parse(&std::fs::read_to_string(&self.stat).ok()?)
    }
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
}
