//! Advice: which engine, divided how, for this workload on this machine, with its evidence.
//!
//! - [`candidates()`]: what the build and the machine allow;
//! - [`advise()`]: every round each candidate that is still in the race has one trial, in a process of its own, over freshly loaded
//!   records; [`race`] says who is beaten beyond doubt and drops out, so that the others get the time;
//! - [`schedule`]: trials begin short and grow as fewer candidates are left, within the budget; [`Size`]: how much of the workload one is;
//! - the race ends with one candidate, or with the budget; [`Advice`] says what came out and why, [`print()`] with the figures;
//! - [`exhaustive()`]: all candidates at full length, to judge the advice by.
//!
//! A trial is smaller than what is asked about where the budget is small: the advice says how much smaller. Its caches are so as well, and its
//! memory where it may be limited (`scale`).

mod candidates;
mod conclude;
mod exhaustive;
mod heads;
mod print;
pub mod race;
mod run;
mod scale;
pub mod schedule;
#[cfg(test)]
mod simulated;
mod size;
mod student;
mod trial;
mod words;

use std::path::PathBuf;

use biombo_base::Result;
use biombo_engine::Durability;
use biombo_store::{Config, Executor};
use serde::Serialize;

pub use self::candidates::{Candidate, LeftOut, candidates};
pub use self::exhaustive::{Exhaustive, Measured, exhaustive};
pub use self::print::print;
pub use self::run::advise;
pub use self::size::Size;
pub use self::trial::failure;
use crate::amplification::Waf;
use crate::measure::{Host, host};
use crate::record::Record;
use crate::spec::{Partitioning, Placement};
use crate::statistics::Spread;
use crate::workload::{Task, Workload};

/// The best candidate is dropped with a probability of at most this.
pub const ERROR: f64 = 0.05;

/// What is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What the clients do.
    pub task: Task,
    /// The files of a trace: one for each thread, or one that every thread replays.
    pub traces: Vec<PathBuf>,
    /// How many records there are; of a trace, its operations.
    pub records: u64,
    /// Of a trace, the different keys that all of it names; `None`: there are as many as records.
    pub keys: Option<u64>,
    /// The length of keys; of a trace their mean.
    pub key_bytes: u32,
    /// The length of values.
    pub value_bytes: u32,
    /// Client threads.
    pub threads: u32,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// All caches of a store; `None`: as in a bench.
    pub cache_bytes: Option<u64>,
    /// The memory of the machine, for data, caches and the kernel's cache of files; `None`: not known.
    pub memory_bytes: Option<u64>,
    /// Whether trials may be limited to their share of it: see [`MemoryLimit::is_permitted`](crate::measure::MemoryLimit::is_permitted).
    pub limits_memory: bool,
    /// The engines to try; none: all of the build that keep data, but for those that are there to be compared with.
    pub engines: Vec<String>,
    /// The numbers of partitions to try; none: 1, and four for each processor.
    pub partitions: Vec<u32>,
    /// The placements to try where there are several partitions.
    pub placements: Vec<Placement>,
    /// Who is to run the writes of several partitions, each tried; more workers than partitions are not.
    pub executors: Vec<Executor>,
    /// Seconds that all of it may take. A first round of all candidates is done in any case.
    pub budget_seconds: f64,
    /// Makes the trials repeatable.
    pub seed: u64,
    /// Where the stores are made; `None`: the system's place for temporary files.
    pub dir: Option<PathBuf>,
}

impl Default for Question {
    /// YCSB's workload A over a million records of 1,000 bytes, each write on the device when it is acknowledged; two minutes.
    fn default() -> Self {
        Self {
            task: Workload::A.into(),
            traces: Vec::new(),
            records: 1_000_000,
            keys: None,
            key_bytes: 16,
            value_bytes: 1_000,
            threads: 2,
            durability: Durability::Sync,
            cache_bytes: None,
            memory_bytes: host::memory_bytes(),
            limits_memory: false,
            engines: Vec::new(),
            partitions: Vec::new(),
            placements: vec![Placement::Hash, Placement::Range],
            executors: vec![Executor::Direct, Executor::Pinned { workers: candidates::cores() }],
            budget_seconds: 120.0,
            seed: 1,
            dir: None,
        }
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Standing {
    /// The fastest of those that were left.
    First,
    /// Slower, but not beyond doubt.
    Close,
    /// Beaten beyond doubt.
    Beaten {
        /// By which candidate.
        by: String,
        /// After how many rounds.
        round: u32,
    },
    /// A trial of it failed.
    Failed {
        /// Why.
        why: String,
    },
}

impl Standing {
    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { why } => Some(why),
            _ => None,
        }
    }
}

/// A candidate with its figures: medians of its largest trials. Those of a trial with less data say another thing: of the disk, of memory, and mostly
/// of throughput too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// What it is called.
    pub name: String,
    /// The candidate.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// What became of it.
    pub standing: Standing,
    /// Trials that it had.
    pub trials: u32,
    /// The largest of them; `None` where it had none.
    pub largest: Option<Size>,
    /// How many were as large: those that its figures are of.
    pub largest_trials: u32,
    /// Operations per second.
    pub ops_per_s: Option<f64>,
    /// The smallest and the largest of the trials.
    pub ops_per_s_extremes: Option<(f64, f64)>,
    /// Its throughput by that of the first, over the rounds that both were in.
    pub by_first: Option<f64>,
    /// The 99th percentile of the latency of the operation that has the longest.
    pub p99_ns: Option<f64>,
    /// Bytes written to storage by bytes put, by the kernel.
    pub waf: Option<f64>,
    /// The same by the engine's own word, where `waf` is more than 5 % below it.
    pub waf_by_engine: Option<f64>,
    /// The most memory that its process had.
    pub memory_bytes: Option<f64>,
    /// Bytes allocated to its files.
    pub disk_bytes: Option<f64>,
}

impl Ranked {
    /// Of what its trials gave, each with its size, which never falls.
    fn new(candidate: Candidate, standing: Standing, trials: &[(Size, &Record)], by_first: Option<f64>) -> Self {
        let largest = trials.last().map(|(size, _)| *size);
        let records: Vec<&Record> =
            trials.iter().filter(|(size, _)| Some(*size) == largest).map(|(_, record)| *record).collect();
        let spread = |of: fn(&Record) -> Option<f64>| Spread::of(records.iter().copied().filter_map(of));
        let median = |of: fn(&Record) -> Option<f64>| spread(of).map(|spread| spread.median);
        let throughput = spread(|record| Some(record.ops_per_s));
        let waf = Waf::of(median(|record| record.waf), median(|record| record.waf_by.engine));
        Self {
            name: candidate.to_string(),
            candidate,
            standing,
            trials: u32::try_from(trials.len()).unwrap_or(u32::MAX),
            largest,
            largest_trials: u32::try_from(records.len()).unwrap_or(u32::MAX),
            ops_per_s: throughput.map(|spread| spread.median),
            ops_per_s_extremes: throughput.map(|spread| (spread.min, spread.max)),
            by_first,
            p99_ns: median(|record| record.latency_ns.values().map(|latency| latency.p99 as f64).reduce(f64::max)),
            waf: waf.map(|waf| waf.figure),
            waf_by_engine: waf.and_then(|waf| waf.engine),
            memory_bytes: median(|record| Some(record.rss_bytes_max as f64)),
            disk_bytes: median(|record| Some(record.disk_bytes as f64)),
        }
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What was asked about, in a line.
    pub question: String,
    /// The best first.
    pub ranking: Vec<Ranked>,
    /// What was not tried, and why.
    pub left_out: Vec<LeftOut>,
    /// Engines that were tried since they were named, although they promise less than what was asked, and what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub promising_less: Vec<LeftOut>,
    /// What is advised and why, a sentence each.
    pub why: Vec<String>,
    /// Records that were asked about; of a trace, operations.
    pub records: u64,
    /// What a trial of the first round was.
    pub first_trial: Size,
    /// What a trial of the last round was.
    pub trial: Size,
    /// Rounds that were done.
    pub rounds: u32,
    /// Seconds that it was to take at most, and took.
    pub budget_seconds: f64,
    /// As above.
    pub seconds: f64,
    /// By what factor two trials of one candidate usually differed; `None` after one round, or of one candidate.
    pub noise: Option<f64>,
    /// The probability with which the best candidate may have been dropped, at most.
    pub error: f64,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// The machine.
    pub host: Host,
    /// The advised store.
    pub config: Config,
    /// What measuring all candidates at full length said of it, where that was asked for.
    pub exhaustive: Option<Exhaustive>,
}

impl Advice {
    /// The advised store, as a configuration file that says where it comes from.
    ///
    /// # Errors
    /// Those of [`Config::to_toml`].
    pub fn to_toml(&self) -> Result<String> {
        // The name of a file may have lines.
        let comment = |text: &String| format!("# {}\n", words::line(text));
        let judged = self.exhaustive.as_ref().map(exhaustive::sentences);
        let lines: Vec<String> =
            [&self.question].into_iter().chain(&self.why).chain(judged.iter().flatten()).map(comment).collect();
        Ok(format!("{}{}", lines.concat(), self.config.to_toml()?))
    }
}

/// The store of `candidate`, for what `question` is about.
fn config(candidate: &Candidate, question: &Question, cache_bytes: u64) -> Config {
    let is_divided = candidate.partitioning != Partitioning::None;
    let mut config = Config::default();
    config.engine = Some(candidate.engine.clone());
    config.partitions = Some(candidate.partitions);
    config.partitioning = Some(candidate.partitioning.into());
    config.placement = is_divided.then(|| candidate.placement.into());
    config.executor = is_divided.then(|| candidate.executor());
    config.cache_bytes = Some(cache_bytes);
    config.durability = Some(question.durability);
    config.value_bytes = Some(question.value_bytes).filter(|bytes| *bytes > 0);
    config
}

#[cfg(test)]
mod tests;
