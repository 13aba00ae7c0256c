//! Published experiments, done again: published beside measured, and which conclusions hold here.
//!
//! [`EXPERIMENTS`] names all that are meant to be done, with what they need; [`LeveldbSizes`](leveldb_sizes) is done so far. Published
//! figures and conclusions stand in the experiment's file, with their source. A conclusion is judged by the medians and
//! extremes of the repetitions: [`Verdict`] says how.

pub mod leveldb_sizes;
mod print;

use serde::Serialize;

pub use self::print::print;
use crate::units::count;

/// An experiment that somebody published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What was published.
    pub title: &'static str,
    /// What doing it again takes.
    pub needs: &'static str,
    /// Whether this version does it.
    pub available: bool,
}

/// All of them.
pub const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "repart-kv",
        title: "Experimental evaluation report: Repart-KV (2026)",
        needs: "the engines lmdb and tkrzw-tree, and partitions that move by themselves",
        available: false,
    },
    Experiment {
        name: "btree-vs-lsm",
        title: "B-trees against LSM-trees on NVMe SSDs (2026)",
        needs: "the engine rocksdb, a PostgreSQL server, and the lab's own B-tree and LSM-tree",
        available: false,
    },
    Experiment {
        name: "dgap-numa",
        title: "Optimising graph structures in persistent memory for NUMA architectures (2025)",
        needs: "the graph layouts, and the graphs orkut and livejournal or others like them",
        available: false,
    },
    Experiment {
        name: "leveldb-sizes",
        title: leveldb_sizes::TITLE,
        needs: "the engine leveldb, and 3 GB on a disk for each unit of --scale",
        available: true,
    },
    Experiment {
        name: "logstore",
        title: "Building a new high-performance, highly available key-value database system (2021)",
        needs: "a sweep over up to 128 threads of every engine",
        available: false,
    },
];

/// Whether a conclusion holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In every series the figures go the published way, and those of the two ends do not overlap.
    Holds,
    /// In every series they go the other way, and do not overlap.
    Refuted,
    /// Anything between.
    Mixed,
    /// What it is about could not be measured.
    Unknown,
}

impl Verdict {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Refuted => "does not hold",
            Self::Mixed => "not clear",
            Self::Unknown => "not measured",
        }
    }
}

/// A published conclusion beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What was published.
    pub published: String,
    /// The published figure, where there is one.
    pub published_figure: Option<f64>,
    /// What was measured, in a sentence with its figures.
    pub measured: String,
    /// The measured figure that is comparable with the published one.
    pub measured_figure: Option<f64>,
    /// Measured by published.
    pub ratio: Option<f64>,
    /// Whether it holds here.
    pub verdict: Verdict,
}

/// An experiment done again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// Its name.
    pub name: &'static str,
    /// What was published.
    pub title: &'static str,
    /// Where it was done then.
    pub setup_then: &'static str,
    /// Where it was done now.
    pub setup_now: String,
    /// What differs, and what that changes.
    pub differences: Vec<String>,
    /// The conclusions.
    pub findings: Vec<Finding>,
}

/// How a figure goes from the small end of a series to the large one, both with their extremes `(median, min, max)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    small: (f64, f64, f64),
    large: (f64, f64, f64),
}

impl Trend {
    /// The large end by the small one.
    pub(crate) fn ratio(&self) -> f64 {
        self.large.0 / self.small.0
    }

    fn rises(&self) -> bool {
        self.large.1 > self.small.2
    }

    fn falls(&self) -> bool {
        self.large.2 < self.small.1
    }
}

/// What is to be said of a figure that was published to rise, or to fall.
pub(crate) fn judge(trends: &[Trend], published_rises: bool) -> Verdict {
    let all = |way: fn(&Trend) -> bool| !trends.is_empty() && trends.iter().all(way);
    match (trends.is_empty(), all(Trend::rises), all(Trend::falls)) {
        (true, ..) => Verdict::Unknown,
        (_, true, _) => {
            if published_rises {
                Verdict::Holds
            } else {
                Verdict::Refuted
            }
        }
        (_, _, true) => {
            if published_rises {
                Verdict::Refuted
            } else {
                Verdict::Holds
            }
        }
        _ => Verdict::Mixed,
    }
}

/// `3 of 4 series rise, 0 fall; the large end has 0.32 to 0.41 times the small one`.
pub(crate) fn describe(trends: &[Trend]) -> String {
    if trends.is_empty() {
        return "no figures".to_owned();
    }
    let (rise, fall) = (trends.iter().filter(|t| t.rises()).count(), trends.iter().filter(|t| t.falls()).count());
    let ratios = || trends.iter().map(Trend::ratio);
    let (low, high) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let (all, low, high) = (trends.len(), count(low), count(high));
    format!("of {all} series {rise} rise and {fall} fall; the large end has {low} to {high} times the small one")
}
