//! The files of a journal's directory.
//!
//! - `0000000000000003.seg`: segment 3. The name is given only when its header is durable.
//! - `0000000000000003.new`: segment 3 in the making; removed on opening.
//! - `0000000000000001.free`: what was segment 1, kept for reuse.
//! - `LOCK`: held by the owner.

use std::path::{Path, PathBuf};

/// What a file of the directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(u64),
    New(u64),
    Free(u64),
}

impl Name {
    /// `None` for a name that the journal never gives: such files are left alone.
    pub fn parse(name: &Path) -> Option<Self> {
        let (number, kind) = name.to_str()?.split_once('.')?;
        if number.len() != 16 {
            return None;
        }
        let number = u64::from_str_radix(number, 16).ok()?;
        match kind {
            "seg" => Some(Self::Segment(number)),
            "new" => Some(Self::New(number)),
            "free" => Some(Self::Free(number)),
            _ => None,
        }
    }

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Segment(number) => format!("{number:016x}.seg"),
            Self::New(number) => format!("{number:016x}.new"),
            Self::Free(number) => format!("{number:016x}.free"),
        })
    }
}

pub(crate) fn lock_path(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_foreign_ones_are_left_alone() {
        for name in [Name::Segment(3), Name::New(u64::MAX), Name::Free(0)] {
            let path = name.path(Path::new("d"));
            assert_eq!(Name::parse(Path::new(path.file_name().unwrap())), Some(name));
        }
        for foreign in ["LOCK", "3.seg", "000000000000000g.seg", "0000000000000003.txt", "0000000000000003.seg.bak"] {
            assert_eq!(Name::parse(Path::new(foreign)), None, "{foreign}");
        }
    }
}
