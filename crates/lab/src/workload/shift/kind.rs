//! The kinds of shifting workloads and what they are called.

use std::fmt;
use std::str::FromStr;

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// What shifts. In all of them a share `reads` of the operations reads and the others replace a value, unless it says otherwise;
/// `share` of them go to hot records, each of these equally likely, the others to the rest (of `slot`, `partition`, `worker` and
/// `adversary`: to all records).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShiftKind {
    /// The hot records, which lie all over the key space, become others every period.
    Jump,
    /// The hot records are neighbours in the order of keys. Every period the range moves on by its own length, and begins anew
    /// past the last key.
    Rotate,
    /// Multi-gets and atomic batches of whole groups; no record is in two groups. Every period all records are grouped anew.
    Groups,
    /// In the first half of a period every record is equally likely; in the second half `share` of the operations go to one
    /// record, another one each time.
    Crowd,
    /// Writes insert records in the order of keys, each behind the last one; reads choose as YCSB's latest does. Nothing in it
    /// depends on the period.
    Monotonic,
    /// The hot records are those whose keys one hash slot holds. Nothing in it depends on the period.
    Slot,
    /// The hot records are those that one partition of a hash placement holds before any move. Nothing in it depends on the period.
    Partition,
    /// The hot records are those of every second partition of a hash placement, as it is before any move: of the partitions that one of
    /// two workers has at the beginning. Nothing in it depends on the period.
    Worker,
    /// Every period it asks where the records are that it made hot, and makes those hot that live in the partition with the
    /// fewest of them: it reverses whatever a planner did.
    Adversary,
}

impl ShiftKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Jump,
        Self::Rotate,
        Self::Groups,
        Self::Crowd,
        Self::Monotonic,
        Self::Slot,
        Self::Partition,
        Self::Worker,
        Self::Adversary,
    ];

    /// The name in options, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jump => "jump",
            Self::Rotate => "rotate",
            Self::Groups => "groups",
            Self::Crowd => "crowd",
            Self::Monotonic => "monotonic",
            Self::Slot => "slot",
            Self::Partition => "partition",
            Self::Worker => "worker",
            Self::Adversary => "adversary",
        }
    }

    /// What it does, for people.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Jump => "a hot set that jumps",
            Self::Rotate => "a hot range of keys that moves on",
            Self::Groups => "multi-gets and atomic batches over groups that change",
            Self::Crowd => "flash crowds, each on one record",
            Self::Monotonic => "inserts in the order of keys",
            Self::Slot => "everything in one hash slot",
            Self::Partition => "everything in one partition",
            Self::Worker => "everything in the partitions of one of two workers",
            Self::Adversary => "an adversary who overloads the partition that is calm",
        }
    }

    /// Whether anything changes with time.
    pub fn has_periods(self) -> bool {
        !matches!(self, Self::Monotonic | Self::Slot | Self::Partition | Self::Worker)
    }

    /// Whether an operation may be for a group of records.
    pub fn has_groups(self) -> bool {
        matches!(self, Self::Groups | Self::Worker)
    }

    /// Whether its hot records are those of some of so many partitions.
    pub fn has_partitions(self) -> bool {
        matches!(self, Self::Partition | Self::Worker)
    }

    /// Whether it can be said how many records are hot.
    pub fn has_hot_records(self) -> bool {
        !matches!(self, Self::Crowd | Self::Monotonic)
    }

    /// Whether a share of the operations goes to hot records.
    pub fn has_hot_share(self) -> bool {
        self != Self::Monotonic
    }
}

impl fmt::Display for ShiftKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ShiftKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::invalid(format!("workload `{name}` is none of {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}
