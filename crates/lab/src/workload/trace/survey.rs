//! One pass over a trace before anything is done: is every line right, and how much is it?

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

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
    /// Different keys that are named; of more than 65,536 to about half a percent.
    pub keys: u64,
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
}

/// Read all of `files` as streams. The first broken line is an error that names it; a file without lines is one too.
pub fn survey(files: &[PathBuf]) -> Result<Counts> {
    let (mut counts, mut keys) = (Counts::default(), Distinct::default());
    files.iter().try_for_each(|file| add(file, &mut counts, &mut keys))?;
    Ok(Counts { keys: keys.count(), ..counts })
}

/// What one file has, to what is known of others.
fn add(path: &Path, counts: &mut Counts, keys: &mut Distinct) -> Result<()> {
    let mut reader = Reader::open(path)?;
    while let Some(line) = reader.line()? {
        keys.add(line.key);
        match line.kind {
            OpKind::Read => counts.reads += 1,
            OpKind::Scan => counts.scans += 1,
            _ => counts.writes += 1,
        }
        counts.key_bytes += line.key.len() as u64;
        counts.key_bytes_max = counts.key_bytes_max.max(line.key.len() as u64);
    }
    if reader.number() == 0 {
        return Err(Error::invalid(format!(
            "{} holds no operation: a line is `0,key`, `1,key` or `2,key,limit`",
            path.display()
        )));
    }
    Ok(())
}

/// So many hashes are kept at most.
const KEPT_MAX: usize = 1 << 16;

/// How many different keys there are, in bounded memory: of hashes those are kept that end with so many zeros, at first all (adaptive sampling;
/// Flajolet, "On adaptive sampling", 1990).
#[derive(Default)]
struct Distinct {
    kept: HashSet<u64>,
    zeros: u32,
}

impl Distinct {
    fn add(&mut self, key: &[u8]) {
        let hash = xxh3_64(key);
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        self.kept.insert(hash);
        while self.kept.len() > KEPT_MAX {
            self.zeros += 1;
            self.kept.retain(|hash| hash.trailing_zeros() >= self.zeros);
        }
    }

    fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zeros
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_a_broken_line_is_found_before_anything_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, "0,a\n0,bb\n1,a\n2,ccc,5\n").unwrap();
        let counts = survey(std::slice::from_ref(&path)).unwrap();
        assert_eq!(counts, Counts { reads: 2, writes: 1, scans: 1, key_bytes: 7, key_bytes_max: 3, keys: 3 });
        assert_eq!((counts.operations(), counts.key_bytes_mean(), counts.share(OpKind::Read)), (4, 2, 0.5));
        let twice = survey(&[path.clone(), path.clone()]).unwrap();
        assert_eq!((twice.operations(), twice.keys), (8, 3), "a key that two files name is one");
        std::fs::write(dir.path().join("other"), "1,d\n").unwrap();
        assert_eq!(survey(&[path.clone(), dir.path().join("other")]).unwrap().keys, 4);
        std::fs::write(&path, "0,a\n0,b\n\n0,c\n").unwrap();
        let error = survey(std::slice::from_ref(&path)).unwrap_err().to_string();
        assert!(error.contains("trace:3: the line is empty"), "{error}");
        std::fs::write(&path, "").unwrap();
        let both = [dir.path().join("other"), path];
        assert!(survey(&both).unwrap_err().to_string().contains("trace holds no operation"));
    }

    /// Fails if keys that are named again count again, or if memory grows with the trace.
    #[test]
    fn different_keys_are_counted_whatever_is_named_again_and_in_bounded_memory() {
        let mut distinct = Distinct::default();
        let name = |i: u32| format!("key {}", i % 300_000);
        for i in 0..50_000 {
            distinct.add(name(i).as_bytes());
        }
        assert_eq!(distinct.count(), 50_000, "exact while they are few");
        for i in 0..600_000 {
            distinct.add(name(i).as_bytes());
            assert!(distinct.kept.len() <= KEPT_MAX);
        }
        assert!((distinct.count() as f64 / 300_000.0 - 1.0).abs() < 0.02, "{}", distinct.count());
    }
}
