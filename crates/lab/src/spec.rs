//! One run, described so that another process can do it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::record::label;
use crate::workload::{Distribution, OpKind, Workload};

/// How a store is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioning {
    /// The engine used directly, without a store around it.
    None,
    /// One engine instance, divided execution.
    Soft,
    /// One engine instance for each partition.
    Hard,
}

/// How keys find their partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// By the hash of the key.
    Hash,
    /// By ranges of keys, with boundaries sampled from the keys that are loaded.
    Range,
}

impl Partitioning {
    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Soft => "soft",
            Self::Hard => "hard",
        }
    }
}

impl Placement {
    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Range => "range",
        }
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Partitioning {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::None, Self::Soft, Self::Hard]
            .into_iter()
            .find(|p| p.name() == name)
            .ok_or_else(|| Error::invalid(format!("partitioning `{name}` is none of none, soft, hard")))
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Hash, Self::Range]
            .into_iter()
            .find(|p| p.name() == name)
            .ok_or_else(|| Error::invalid(format!("placement `{name}` is none of hash, range")))
    }
}

/// One run: what a worker process is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The engine's name.
    pub engine: String,
    /// The workload.
    pub workload: Workload,
    /// How records are chosen.
    pub distribution: Distribution,
    /// How the store is divided.
    pub partitioning: Partitioning,
    /// Into how many; 1 for `none`.
    pub partitions: u32,
    /// How keys find their partition.
    pub placement: Placement,
    /// Client threads.
    pub threads: u32,
    /// `sync`, `os` or `relaxed`.
    pub durability: String,
    /// Records to load.
    pub records: u64,
    /// Operations to run, unless `seconds` is given.
    pub operations: u64,
    /// The run phase's duration, instead of `operations`.
    pub seconds: Option<f64>,
    /// Operations per second of an open loop.
    pub rate: Option<f64>,
    /// The length of each key.
    pub key_bytes: u32,
    /// The length of each value.
    pub value_bytes: u32,
    /// All caches together.
    pub cache_bytes: u64,
    /// Makes the run reproducible.
    pub seed: u64,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// An empty directory of the run's own.
    pub dir: PathBuf,
}

impl RunSpec {
    /// What people call it: `a lmdb hard-8, 2 threads, repetition 1`.
    pub fn label(&self) -> String {
        format!(
            "{} {}, {} thread{}, repetition {}",
            self.workload,
            label(&self.engine, self.partitioning.name(), self.partitions),
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.repetition
        )
    }

    /// Inserts to expect in the run phase. A run by seconds has no known count: as many operations as records are assumed.
    pub fn inserts(&self) -> u64 {
        (self.expected_operations() as f64 * self.workload.share(OpKind::Insert)).ceil() as u64
    }

    /// Record numbers that keys must have room for: those loaded and, with a large margin, those inserted.
    pub fn record_numbers(&self) -> u64 {
        match (self.workload.share(OpKind::Insert) > 0.0, self.seconds) {
            (false, _) => self.records,
            // Ten million inserts a second and thread are out of reach of any engine here.
            (true, Some(seconds)) => {
                self.records.saturating_add((seconds * 1e7).ceil() as u64 * u64::from(self.threads))
            }
            (true, None) => self.records.saturating_add(self.operations),
        }
    }

    /// Bytes of keys and values that it puts, load phase included; for a run by seconds a guess.
    pub fn put_bytes(&self) -> u64 {
        self.records.saturating_add(self.puts()).saturating_mul(self.record_bytes())
    }

    /// Bytes on disk that the run may need at its worst: three times what it puts, where updates of the same records do
    /// not add up for ever, and some room for logs.
    pub fn disk_bytes_needed(&self) -> u64 {
        let records = self.records.saturating_add(self.puts().min(self.records.max(1_000)));
        records.saturating_mul(self.record_bytes()).saturating_mul(3).saturating_add(64 << 20)
    }

    fn record_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }

    /// Records put in the run phase.
    fn puts(&self) -> u64 {
        let writes: f64 = OpKind::ALL.iter().filter(|kind| kind.writes()).map(|k| self.workload.share(*k)).sum();
        (self.expected_operations() as f64 * writes) as u64
    }

    fn expected_operations(&self) -> u64 {
        if self.seconds.is_some() { self.records } else { self.operations }
    }
}
