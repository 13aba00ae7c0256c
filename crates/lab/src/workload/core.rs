//! The YCSB core workloads, as their property files define them.

use std::fmt;
use std::str::FromStr;

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// What one operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Read one record.
    Read,
    /// Replace the value of an existing record.
    Update,
    /// Add a record.
    Insert,
    /// Read up to a hundred records in order from a key.
    Scan,
    /// Read a record, then replace its value.
    ReadModifyWrite,
    /// Read the records of a group.
    MultiGet,
    /// Replace the values of the records of a group, all or none.
    Batch,
}

impl OpKind {
    /// All kinds, those of YCSB first, in its order.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite, Self::MultiGet, Self::Batch];

    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read_modify_write",
            Self::MultiGet => "multi_get",
            Self::Batch => "batch",
        }
    }

    /// Whether it puts a value.
    pub fn writes(self) -> bool {
        matches!(self, Self::Update | Self::Insert | Self::ReadModifyWrite | Self::Batch)
    }
}

/// How records are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Scrambled zipfian with the constant 0.99: popular records lie all over the key space.
    Zipfian,
    /// Each record loaded is equally likely.
    Uniform,
    /// Zipfian from the newest record backwards.
    Latest,
    /// 80 % of the operations go to 20 % of the records (YCSB's defaults).
    Hotspot,
    /// As zipfian, but every five seconds other records are the popular ones.
    Shift,
}

/// How long the popular records of [`Distribution::Shift`] stay the same.
pub const SHIFT_PERIOD_SECONDS: f64 = 5.0;

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Zipfian, Self::Uniform, Self::Latest, Self::Hotspot, Self::Shift];

    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zipfian => "zipfian",
            Self::Uniform => "uniform",
            Self::Latest => "latest",
            Self::Hotspot => "hotspot",
            Self::Shift => "shift",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| {
            Error::invalid(format!("distribution `{name}` is none of {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// One of the core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Update heavy: 50 % reads, 50 % updates, zipfian.
    A,
    /// Read mostly: 95 % reads, 5 % updates, zipfian.
    B,
    /// Read only, zipfian.
    C,
    /// Read latest: 95 % reads, 5 % inserts, latest.
    D,
    /// Short ranges: 95 % scans of 1 to 100 records (uniform) from a zipfian start, 5 % inserts.
    E,
    /// Read-modify-write: 50 % reads, 50 % read-modify-writes, zipfian.
    F,
}

/// The most records that one scan reads.
pub const SCAN_RECORDS_MAX: u64 = 100;

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }

    /// What it does, for people.
    pub fn summary(self) -> &'static str {
        match self {
            Self::A => "50 % reads, 50 % updates",
            Self::B => "95 % reads, 5 % updates",
            Self::C => "100 % reads",
            Self::D => "95 % reads of recent records, 5 % inserts",
            Self::E => "95 % scans of 1 to 100 records, 5 % inserts",
            Self::F => "50 % reads, 50 % read-modify-writes",
        }
    }

    /// The share of each kind of operation; they add up to 1.
    pub fn mix(self) -> &'static [(OpKind, f64)] {
        match self {
            Self::A => &[(OpKind::Read, 0.5), (OpKind::Update, 0.5)],
            Self::B => &[(OpKind::Read, 0.95), (OpKind::Update, 0.05)],
            Self::C => &[(OpKind::Read, 1.0)],
            Self::D => &[(OpKind::Read, 0.95), (OpKind::Insert, 0.05)],
            Self::E => &[(OpKind::Scan, 0.95), (OpKind::Insert, 0.05)],
            Self::F => &[(OpKind::Read, 0.5), (OpKind::ReadModifyWrite, 0.5)],
        }
    }

    /// The share of `kind`.
    pub fn share(self, kind: OpKind) -> f64 {
        self.mix().iter().find(|(k, _)| *k == kind).map_or(0.0, |(_, share)| *share)
    }

    /// The distribution that its definition names.
    pub fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|workload| workload.name() == name.to_ascii_lowercase())
            .ok_or_else(|| Error::invalid(format!("workload `{name}` is none of a, b, c, d, e, f")))
    }
}
