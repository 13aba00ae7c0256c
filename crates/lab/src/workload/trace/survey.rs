//! One pass over a trace before anything is done: is every line right, and how much is it?

use std::path::Path;

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Reader;
use crate::workload::OpKind;

/// What is in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Scans.
    pub scans: u64,
    /// Bytes of all keys together, each as often as it is named.
    pub key_bytes: u64,
    /// The longest key.
    pub key_bytes_max: u64,
}

impl Counts {
    /// All operations.
    pub fn operations(&self) -> u64 {
        self.reads + self.writes + self.scans
    }

    /// The share of `kind`.
    pub fn share(&self, kind: OpKind) -> f64 {
        let count = match kind {
            OpKind::Read => self.reads,
            OpKind::Update => self.writes,
            OpKind::Scan => self.scans,
            _ => 0,
        };
        count as f64 / self.operations().max(1) as f64
    }

    /// The mean length of a key, rounded.
    pub fn key_bytes_mean(&self) -> u32 {
        let operations = self.operations().max(1);
        u32::try_from((self.key_bytes + operations / 2) / operations).unwrap_or(u32::MAX)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            scans: self.scans + other.scans,
            key_bytes: self.key_bytes + other.key_bytes,
            key_bytes_max: self.key_bytes_max.max(other.key_bytes_max),
        }
    }
}

/// Read the whole file `path` as a stream. The first broken line is an error that names it; a file without lines is one too.
pub fn survey(path: &Path) -> Result<Counts> {
    let mut reader = Reader::open(path)?;
    let mut counts = Counts::default();
    while let Some(line) = reader.line()? {
        match line.kind {
            OpKind::Read => counts.reads += 1,
            OpKind::Scan => counts.scans += 1,
            _ => counts.writes += 1,
        }
        counts.key_bytes += line.key.len() as u64;
        counts.key_bytes_max = counts.key_bytes_max.max(line.key.len() as u64);
    }
    if counts.operations() == 0 {
        return Err(Error::invalid(format!(
            "{} holds no operation: a line is `0,key`, `1,key` or `2,key,limit`",
            path.display()
        )));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_a_broken_line_is_found_before_anything_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, "0,a\n0,bb\n1,a\n2,ccc,5\n").unwrap();
        let counts = survey(&path).unwrap();
        assert_eq!(counts, Counts { reads: 2, writes: 1, scans: 1, key_bytes: 7, key_bytes_max: 3 });
        assert_eq!((counts.operations(), counts.key_bytes_mean(), counts.share(OpKind::Read)), (4, 2, 0.5));
        assert_eq!(counts.plus(counts).operations(), 8);
        std::fs::write(&path, "0,a\n0,b\n\n0,c\n").unwrap();
        let error = survey(&path).unwrap_err().to_string();
        assert!(error.contains("trace:3: the line is empty"), "{error}");
        std::fs::write(&path, "").unwrap();
        assert!(survey(&path).unwrap_err().to_string().contains("holds no operation"));
    }
}
