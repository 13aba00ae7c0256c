//! The files of a log's directory.
//!
//! - `0000000000000003.seg`: segment 3. The name is given only when its header is durable; whether it counts is said by the
//!   manifest.
//! - `0000000000000003.new`: segment 3 in the making; removed on opening.
//! - `0000000000000001.free`: what was segment 1, kept for reuse.
//! - `MANIFEST`: which segments exist; `MANIFEST.new`: the next one in the making.
//! - `LOCK`: held by the owner.

use std::path::{Path, PathBuf};

use crate::SegmentNumber;

/// What a file of the directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(SegmentNumber),
    New(SegmentNumber),
    Free(SegmentNumber),
}

impl Name {
    /// `None` for a name that a log never gives: such files are left alone.
    pub fn parse(name: &Path) -> Option<Self> {
        let (stem, kind) = name.to_str()?.split_once('.')?;
        // As it is given, and not in capitals or with a sign.
        let number = u64::from_str_radix(stem, 16).ok().filter(|number| format!("{number:016x}") == stem)?;
        let number = SegmentNumber(number.try_into().ok()?);
        match kind {
            "seg" => Some(Self::Segment(number)),
            "new" => Some(Self::New(number)),
            "free" => Some(Self::Free(number)),
            _ => None,
        }
    }

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Segment(number) => format!("{:016x}.seg", number.0),
            Self::New(number) => format!("{:016x}.new", number.0),
            Self::Free(number) => format!("{:016x}.free", number.0),
        })
    }
}

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

pub(crate) fn manifest_path(dir: &Path) -> PathBuf {
    dir.join("MANIFEST")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_foreign_ones_are_left_alone() {
        for name in [Name::Segment(SegmentNumber(3)), Name::New(SegmentNumber(u32::MAX)), Name::Free(SegmentNumber(0))]
        {
            let path = name.path(Path::new("d"));
            assert_eq!(Name::parse(Path::new(path.file_name().unwrap())), Some(name));
        }
        let foreign = [
            "LOCK",
            "3.seg",
            "000000000000000g.seg",
            "000000000000000A.seg",
            "+000000000000003.seg",
            "0000000000000003.txt",
            "0000000000000003.seg.bak",
            "ffffffffffffffff.seg",
        ];
        for foreign in foreign {
            assert_eq!(Name::parse(Path::new(foreign)), None, "{foreign}");
        }
    }
}
