//! Published experiments, done again: published beside measured, and which conclusions hold here.
//!
//! [`EXPERIMENTS`] names all that are meant to be done, with what they need; one that is done has its [`Work`]. Published
//! figures and conclusions stand in the experiment's file, with their source. A conclusion is judged by the medians and
//! extremes of the repetitions: [`Verdict`] says how.

pub mod btree_vs_lsm;
pub mod dgap_numa;
mod figures;
mod judge;
pub mod leveldb_sizes;
pub mod logstore;
mod merging;
mod print;
pub mod repart_kv;

use std::fmt;
use std::path::Path;

use biombo_base::Result;
use biombo_engine::Registry;
use serde::Serialize;

pub use self::figures::{Curve, Figure, Point, Unit};
pub(crate) use self::judge::{Trend, describe, judge, quotient};
pub use self::print::print;
use crate::bench::{Outcome, Plan};
use crate::record::Record;

/// An experiment that somebody published.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What was published.
    pub title: &'static str,
    /// What doing it again takes.
    pub needs: &'static str,
    /// How it is done; `None`: not by this version.
    #[serde(rename = "available", serialize_with = "whether")]
    pub work: Option<Work>,
}

/// How an experiment is done again.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Over stores.
    Stores(StoreWork),
    /// Over graphs.
    Graphs(GraphWork),
}

/// Runs over graphs, and what came of them.
#[derive(Debug, Clone, Copy)]
pub struct GraphWork {
    /// The runs, at a scale of the experiment's usual size; a directory may have the published graphs.
    pub plans: fn(f64, Option<&Path>) -> Result<Vec<crate::graph::Plan>>,
    /// What came out, beside what was published.
    pub findings: fn(&[crate::graph::Record]) -> Result<Reproduction>,
}

/// Runs over stores, and what came of them.
#[derive(Debug, Clone, Copy)]
pub struct StoreWork {
    /// The runs, with the engines that a registry has and at a scale of the experiment's usual size.
    pub plans: fn(&Registry, f64) -> Result<Vec<Plan>>,
    /// What came out, beside what was published.
    pub findings: fn(&Outcome) -> Result<Reproduction>,
    /// What the build or the machine lacks: the runs are those that can be done without.
    pub lacks: fn(&Registry) -> Vec<Lack>,
}

impl StoreWork {
    /// What came out of `outcome`, beside what was published. Runs with operations that failed or gave a wrong answer are judged by
    /// nobody, and told.
    ///
    /// # Errors
    /// Those of [`StoreWork::findings`].
    pub fn judged(&self, outcome: &Outcome) -> Result<Reproduction> {
        let (sound, wrong): (Vec<_>, Vec<_>) =
            outcome.records.iter().cloned().partition(|record: &Record| record.errors == 0);
        let mut found = (self.findings)(&Outcome { records: sound, ..Outcome::default() })?;
        if let Some(first) = wrong.first() {
            found.differences.push(format!(
                "{} operations failed or gave a wrong answer; the runs that they are in ({}) take no part in any of this. The first is {} {}: {}.",
                wrong.iter().map(|record| record.errors).sum::<u64>(),
                wrong.len(),
                first.workload,
                first.label(),
                first.first_error.as_deref().unwrap_or("it does not say what failed"),
            ));
        }
        Ok(found)
    }
}

/// Something that an experiment is done without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The engine that is missing.
    pub engine: &'static str,
    /// Why, and what to do about it.
    pub why: String,
    /// What is left out.
    pub without: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.without)
    }
}

fn nothing(_: &Registry) -> Vec<Lack> {
    Vec::new()
}

/// Scripts are told whether, not how.
fn whether<S: serde::Serializer>(work: &Option<Work>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_bool(work.is_some())
}

/// All of them.
pub const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "repart-kv",
        title: repart_kv::TITLE,
        needs: "the engine lmdb, tkrzw-tree for most conclusions, and 1 GB on a disk for each unit of --scale",
        work: Some(Work::Stores(StoreWork { plans: repart_kv::plans, findings: repart_kv::findings, lacks: nothing })),
    },
    Experiment {
        name: "btree-vs-lsm",
        title: btree_vs_lsm::TITLE,
        needs: "the engines rocksdb and postgres, PostgreSQL's programs, the engines of the feature micro, and 2 GB on a disk for each unit of \
                --scale; without some of it, the rest is done",
        work: Some(Work::Stores(StoreWork {
            plans: btree_vs_lsm::plans,
            findings: btree_vs_lsm::findings,
            lacks: btree_vs_lsm::lacks,
        })),
    },
    Experiment {
        name: "dgap-numa",
        title: dgap_numa::TITLE,
        needs: "8 GB of memory for each unit of --scale, which is 1 at most; SNAP's com-orkut.ungraph.txt and soc-LiveJournal1.txt in --dir, where \
                they are, else graphs like them are drawn",
        work: Some(Work::Graphs(GraphWork { plans: dgap_numa::plans, findings: dgap_numa::findings })),
    },
    Experiment {
        name: "leveldb-sizes",
        title: leveldb_sizes::TITLE,
        needs: "the engine leveldb, and 3 GB on a disk for each unit of --scale",
        work: Some(Work::Stores(StoreWork {
            plans: leveldb_sizes::plans,
            findings: leveldb_sizes::findings,
            lacks: nothing,
        })),
    },
    Experiment {
        name: "logstore",
        title: logstore::TITLE,
        needs: "every engine of this build that keeps data, and 1 GB on a disk for each unit of --scale",
        work: Some(Work::Stores(StoreWork { plans: logstore::plans, findings: logstore::findings, lacks: nothing })),
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

impl Finding {
    /// Of what could not be measured.
    fn unknown(published: String, figure: Option<f64>) -> Self {
        Self {
            published,
            published_figure: figure,
            measured: "no figures".to_owned(),
            measured_figure: None,
            ratio: None,
            verdict: Verdict::Unknown,
        }
    }
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
    /// Figures that were published, each beside its like that was measured.
    pub figures: Vec<Figure>,
    /// What is drawn as a curve.
    pub curves: Vec<Curve>,
    /// The conclusions.
    pub findings: Vec<Finding>,
}
