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
mod seen;

use std::fmt;
use std::path::Path;

use biombo_base::Result;
use biombo_engine::Registry;
use serde::Serialize;

pub use self::figures::{Curve, Figure, Point, Unit};
pub(crate) use self::judge::{ENDS, RUNS_MIN, Trend, describe, judge, of_runs, quotient, spread_text};
pub use self::print::print;
use self::seen::Seen;
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
    /// Room that its stores take at scale 1, and memory that its graphs do.
    pub disk_bytes: u64,
    /// As above.
    pub memory_bytes: u64,
    /// About how long one of its runs takes at scale 1 on two cores and an NVMe device, with opening, loading and closing: an estimate.
    pub run_seconds: f64,
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
    /// The runs, with the engines that a registry has and at a scale of the experiment's usual size. Those are named that somebody asks for, if
    /// not for all: where one engine can stand for another, the one that is asked for does.
    pub plans: fn(&Registry, &[String], f64) -> Result<Vec<Plan>>,
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
            outcome.records.iter().zip(1..).partition(|(record, _): &(&Record, u32)| record.errors == 0);
        let (records, lines): (Vec<Record>, Vec<u32>) = sound.into_iter().map(|(one, at)| (one.clone(), at)).unzip();
        let wrong: Vec<&Record> = wrong.into_iter().map(|(record, _)| record).collect();
        let mut found = (self.findings)(&Outcome { records, ..Outcome::default() })?;
        // Their lines are those among the sound ones so far.
        let placed = found.figures.iter_mut().map(|figure| &mut figure.lines);
        for line in placed.chain(found.findings.iter_mut().map(|finding| &mut finding.lines)).flatten() {
            *line = lines.get(*line as usize - 1).copied().unwrap_or(*line);
        }
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

/// Those of `engines` that this build or this machine does not have.
fn missing(registry: &Registry, engines: &[&'static str], without: &'static str) -> Vec<Lack> {
    let of = |&engine: &&'static str| {
        let why = match registry.get(engine) {
            Err(_) => format!("this build has no engine {engine}: build it with the feature {engine}"),
            Ok(kind) if kind.is_installed() => return None,
            Ok(_) => format!("{engine} is not installed"),
        };
        Some(Lack { engine, why, without })
    };
    engines.iter().filter_map(of).collect()
}

/// Scripts are told whether, not how.
fn whether<S: serde::Serializer>(work: &Option<Work>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_bool(work.is_some())
}

const GB: u64 = 1_000_000_000;

/// What an experiment would meet here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// What this build or this machine lacks, and what is left out for want of it; where it lacks what nothing can be done without, that alone.
    pub lacks: Vec<String>,
    /// The runs at scale 1 with what is there.
    pub runs: u64,
    /// About how long they take: an estimate.
    pub minutes: f64,
}

impl Experiment {
    /// What it would meet with these engines, this memory and so much room on the disk; what is not known is there.
    pub fn outlook(&self, registry: &Registry, memory_bytes: Option<u64>, free_bytes: Option<u64>) -> Outlook {
        let (planned, mut lacks) = match self.work {
            None => (Ok(0), vec!["this version".to_owned()]),
            Some(Work::Graphs(work)) => {
                let plans = (work.plans)(1.0, None);
                (plans.map(|plans| plans.iter().map(crate::graph::Plan::runs).sum()), Vec::new())
            }
            Some(Work::Stores(work)) => {
                let plans = (work.plans)(registry, &[], 1.0);
                let is_here = |engine: &str| registry.get(engine).is_ok_and(|kind| kind.is_installed());
                let runs = |plan: &Plan| plan.runs().iter().filter(|run| is_here(&run.engine)).count() as u64;
                let runs = plans.map(|plans| plans.iter().map(runs).sum());
                (runs, (work.lacks)(registry).iter().map(Lack::to_string).collect())
            }
        };
        let runs = planned.unwrap_or_else(|error| {
            lacks = vec![error.to_string()];
            0
        });
        let short = |there: Option<u64>, needed: u64| there.filter(|there| *there < needed);
        let text = |bytes: u64| crate::units::bytes(bytes as f64);
        if let Some(there) = short(memory_bytes, self.memory_bytes) {
            lacks.push(format!(
                "{} of memory: this machine has {}; a lower --scale needs less",
                text(self.memory_bytes),
                text(there)
            ));
        }
        if let Some(there) = short(free_bytes, self.disk_bytes) {
            lacks.push(format!(
                "{} of room on the disk: there is {}; --dir names another, a lower --scale needs less",
                text(self.disk_bytes),
                text(there)
            ));
        }
        Outlook { lacks, runs, minutes: runs as f64 * self.run_seconds / 60.0 }
    }
}

/// All of them.
pub const EXPERIMENTS: [Experiment; 5] = [
    Experiment {
        name: "repart-kv",
        title: repart_kv::TITLE,
        needs: "the engine lmdb, tkrzw-tree for most conclusions, and 1 GB on a disk for each unit of --scale",
        disk_bytes: GB,
        memory_bytes: 0,
        run_seconds: 1.75,
        work: Some(Work::Stores(StoreWork {
            plans: repart_kv::plans,
            findings: repart_kv::findings,
            lacks: repart_kv::lacks,
        })),
    },
    Experiment {
        name: "btree-vs-lsm",
        title: btree_vs_lsm::TITLE,
        needs: "the engines rocksdb and postgres, PostgreSQL's programs, the engines of the feature micro, and 2 GB on a disk for each unit of \
                --scale; without some of it, the rest is done",
        disk_bytes: 2 * GB,
        memory_bytes: 0,
        run_seconds: 6.0,
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
        disk_bytes: 0,
        memory_bytes: 8 * GB,
        run_seconds: 2.0,
        work: Some(Work::Graphs(GraphWork { plans: dgap_numa::plans, findings: dgap_numa::findings })),
    },
    Experiment {
        name: "leveldb-sizes",
        title: leveldb_sizes::TITLE,
        needs: "the engine leveldb, and 3 GB on a disk for each unit of --scale",
        disk_bytes: 3 * GB,
        memory_bytes: 0,
        run_seconds: 4.0,
        work: Some(Work::Stores(StoreWork {
            plans: leveldb_sizes::plans,
            findings: leveldb_sizes::findings,
            lacks: leveldb_sizes::lacks,
        })),
    },
    Experiment {
        name: "logstore",
        title: logstore::TITLE,
        needs: "every engine of this build that keeps data, and 1 GB on a disk for each unit of --scale",
        disk_bytes: GB,
        memory_bytes: 0,
        run_seconds: 3.0,
        work: Some(Work::Stores(StoreWork { plans: logstore::plans, findings: logstore::findings, lacks: nothing })),
    },
];

/// Whether a conclusion holds here. Conclusions that ask something else than which of two ends is larger say how they are judged where they
/// are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In every series the figures go the published way, and those of the two ends, of three repetitions at least, do not overlap.
    Holds,
    /// In every series they go the other way, and do not overlap, as above.
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

    /// That of the contrary.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Holds => Self::Refuted,
            Self::Refuted => Self::Holds,
            other => other,
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
    /// The runs that it was drawn from: by their places among all, from 1.
    pub lines: Vec<u32>,
    /// Whether somebody published it; otherwise it was asked here alone, or is a warning.
    pub is_published: bool,
    /// Whether it holds here.
    pub verdict: Verdict,
}

impl Finding {
    /// Of what could not be measured.
    pub(crate) fn unknown(published: String, figure: Option<f64>) -> Self {
        Self {
            published,
            published_figure: figure,
            measured: "no figures".to_owned(),
            measured_figure: None,
            ratio: None,
            lines: Vec::new(),
            is_published: true,
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

impl Reproduction {
    /// `7 of 12 published conclusions hold on this machine`, and what becomes of the others: `3 do not, 1 is not clear, 1 was not measured`.
    pub fn headline(&self) -> (String, String) {
        let published = || self.findings.iter().filter(|finding| finding.is_published);
        let count = |verdict: Verdict| published().filter(|finding| finding.verdict == verdict).count();
        let (all, holds) = (published().count(), count(Verdict::Holds));
        let head = format!(
            "{holds} of {all} published conclusion{} on this machine",
            match (all, holds) {
                (1, _) => " holds",
                (_, 1) => "s holds",
                _ => "s hold",
            }
        );
        let number = |count: usize, one: &str, many: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let rest = [
            number(count(Verdict::Refuted), "does not", "do not"),
            number(count(Verdict::Mixed), "is not clear", "are not clear"),
            number(count(Verdict::Unknown), "was not measured", "were not measured"),
        ];
        (head, rest.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if what was asked here alone counts as published, or if what was not measured counts as refuted.
    #[test]
    fn the_headline_counts_published_conclusions_by_what_became_of_them() {
        let finding = |verdict| Finding { verdict, ..Finding::unknown("p".into(), None) };
        let of = |verdicts: &[Verdict]| {
            let mut findings: Vec<Finding> = verdicts.iter().map(|verdict| finding(*verdict)).collect();
            findings.push(Finding { is_published: false, ..finding(Verdict::Holds) });
            Reproduction {
                name: "x",
                title: "x",
                setup_then: "then",
                setup_now: String::new(),
                differences: Vec::new(),
                figures: Vec::new(),
                curves: Vec::new(),
                findings,
            }
            .headline()
        };
        use Verdict::{Holds, Mixed, Refuted, Unknown};
        let (head, rest) = of(&[Holds, Refuted, Holds, Refuted, Mixed, Unknown, Unknown]);
        assert_eq!(head, "2 of 7 published conclusions hold on this machine");
        assert_eq!(rest, "2 do not, 1 is not clear, 2 were not measured");
        assert_eq!(of(&[Holds]), ("1 of 1 published conclusion holds on this machine".to_owned(), String::new()));
        assert_eq!(of(&[Holds, Refuted]).0, "1 of 2 published conclusions holds on this machine");
        assert_eq!(of(&[Refuted, Refuted]).0, "0 of 2 published conclusions hold on this machine");
    }

    /// Fails if what is not there is not told, or if time is told for what cannot be done.
    #[test]
    fn an_outlook_tells_what_is_missing_and_about_how_long_the_rest_takes() {
        let with = |names: &[&'static str]| {
            let mut registry = Registry::new();
            for &name in names {
                registry.add(biombo_engine::EngineKind { name, ..biombo_engine::memory::kind() });
            }
            registry
        };
        let of = |name: &str, registry: &Registry, memory, free| {
            let known = EXPERIMENTS.iter().find(|experiment| experiment.name == name).unwrap();
            known.outlook(registry, memory, free)
        };
        let all = with(&["lmdb", "tkrzw-tree", "leveldb", "rocksdb", "wiredtiger", "log"]);
        let whole = of("repart-kv", &all, None, None);
        assert_eq!(whole.lacks, [""; 0]);
        assert!(whole.runs > 400 && whole.minutes < 30.0, "{whole:?}");
        let few = of("repart-kv", &with(&["lmdb", "log"]), None, Some(GB / 2));
        assert!(few.runs < whole.runs / 2 && few.lacks.len() == 4 + 1, "{few:?}");
        assert!(
            few.lacks[0].contains("tkrzw-tree") && few.lacks[4].starts_with("1.00 GB of room on the disk"),
            "{few:?}"
        );
        let none = of("leveldb-sizes", &with(&["log"]), None, None);
        assert!(none.runs == 0 && none.minutes == 0.0 && none.lacks.len() == 1, "{none:?}");
        let graphs = of("dgap-numa", &with(&[]), Some(GB), None);
        assert!(graphs.runs > 0 && graphs.lacks[0].starts_with("8.00 GB of memory"), "{graphs:?}");
    }

    /// Fails if a link of the page leads to the runs before those with errors were taken out.
    #[test]
    fn lines_are_those_of_all_runs_and_not_of_the_sound_ones_alone() {
        let work = StoreWork {
            plans: |_, _, _| Ok(Vec::new()),
            lacks: nothing,
            findings: |outcome| {
                let seen = Seen::of(&outcome.records);
                let of = |engine: &str| {
                    let here = outcome.records.iter().filter(|record| record.engine == engine);
                    let spread = crate::statistics::Spread::of(here.inspect(|r| seen.saw(r)).map(|r| r.ops_per_s));
                    Figure::new("a", "throughput", Unit::PerSecond).measured(engine, spread)
                };
                Ok(Reproduction {
                    name: "x",
                    title: "x",
                    setup_then: "then",
                    setup_now: String::new(),
                    differences: Vec::new(),
                    figures: vec![seen.figure(|| of("log"))],
                    curves: Vec::new(),
                    findings: vec![seen.finding(|| {
                        of("lmdb");
                        Finding::unknown("p".into(), None)
                    })],
                })
            },
        };
        let record = |engine, errors| Record { errors, ..crate::record::tests::record(engine, "none", 1, 1.0) };
        let records = vec![record("log", 0), record("lmdb", 3), record("lmdb", 0), record("log", 1), record("log", 0)];
        let found = work.judged(&Outcome { records, ..Outcome::default() }).unwrap();
        assert_eq!((&found.figures[0].lines[..], &found.findings[0].lines[..]), (&[1, 5][..], &[3][..]));
    }
}
