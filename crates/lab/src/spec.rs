//! One run, described so that another process can do it.

mod room;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use biombo_base::io::IoMode;
use biombo_base::{Error, Result};
use biombo_store::Executor;
use serde::{Deserialize, Serialize};

use crate::driver::Until;
use crate::record::label;
use crate::workload::{KeyFormat, Keys, OpKind, Task};

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

impl From<Partitioning> for biombo_store::Partitioning {
    fn from(partitioning: Partitioning) -> Self {
        match partitioning {
            Partitioning::None => Self::None,
            Partitioning::Soft => Self::Soft,
            Partitioning::Hard => Self::Hard,
        }
    }
}

impl From<Placement> for biombo_store::PlacementKind {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Hash => Self::Hash,
            Placement::Range => Self::Range,
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
    /// What to do.
    pub task: Task,
    /// How the store is divided.
    pub partitioning: Partitioning,
    /// Into how many; 1 for `none`.
    pub partitions: u32,
    /// Whether `none` is a store over the whole engine, as programs open it; the engine used directly otherwise.
    #[serde(default)]
    pub in_store: bool,
    /// How keys find their partition.
    pub placement: Placement,
    /// Client threads.
    pub threads: u32,
    /// `sync`, `os` or `relaxed`.
    pub durability: String,
    /// Records to load, or to be named by those who fill an empty store.
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
    /// What a compressor leaves of a value; 1: it cannot shrink it.
    pub compression_ratio: f64,
    /// All caches together.
    pub cache_bytes: u64,
    /// The bound on space of engines that clean; `None`: their own.
    #[serde(default)]
    pub space_amplification: Option<f64>,
    /// How files are read that are written no more: `mmap` or `direct`; `None`: the engine's own way.
    #[serde(default)]
    pub io: Option<String>,
    /// The workers of the executor `pinned`; `None`: `direct`.
    #[serde(default)]
    pub workers: Option<u32>,
    /// How often the store repartitions itself, such as `1s`; `None`: it does not.
    #[serde(default)]
    pub repartition: Option<String>,
    /// Who plans the moves; `None`: the store's own choice.
    #[serde(default)]
    pub planner: Option<String>,
    /// The limit on the memory of the process, page cache included.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Makes the run reproducible.
    pub seed: u64,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The files of a trace: one for each thread, or one that every thread replays.
    #[serde(default)]
    pub traces: Vec<PathBuf>,
    /// Whether a trace's keys are loaded before.
    #[serde(default)]
    pub preload: bool,
    /// Whether a trace is replayed once; until the operations or seconds are over otherwise.
    #[serde(default)]
    pub once: bool,
    /// An empty directory of the run's own.
    pub dir: PathBuf,
    /// Others, on other devices: `hard` partitions are dealt to it and to these in turn. In a plan's runs, where they are to be made.
    #[serde(default)]
    pub dirs: Vec<PathBuf>,
}

impl RunSpec {
    /// How files are read that are written no more.
    pub fn io(&self) -> Result<Option<IoMode>> {
        self.io.as_deref().map(|name| name.parse().map_err(Error::invalid)).transpose()
    }

    /// When its run phase ends.
    pub fn until(&self) -> Until {
        match self.seconds {
            _ if self.once => Until::Once,
            Some(seconds) => Until::Seconds(seconds),
            None => Until::Operations(self.operations),
        }
    }

    /// Who runs a partition's writes.
    pub fn executor(&self) -> Executor {
        self.workers.map_or(Executor::Direct, |workers| Executor::Pinned { workers })
    }

    /// The name of what it does: of a trace, its files' names without folders and endings.
    pub fn work(&self) -> String {
        let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match self.traces.as_slice() {
            [] => self.task.to_string(),
            [one] => stem(one),
            [first, rest @ ..] => format!("{} and {} more", stem(first), rest.len()),
        }
    }

    /// What people call it: `a lmdb hard-8, 16 + 1000 bytes, 2 threads, repetition 1`.
    pub fn label(&self) -> String {
        format!(
            "{} {}, {} + {} bytes, {} thread{}, repetition {}",
            self.work(),
            label(&self.engine, self.partitioning.name(), self.partitions, self.workers, self.repartition.as_deref()),
            self.key_bytes,
            self.value_bytes,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.repetition
        )
    }

    /// Inserts to expect in the run phase. A run by seconds has no known count: as many operations as records are assumed.
    pub fn inserts(&self) -> u64 {
        (self.expected_operations() as f64 * self.task.share(OpKind::Insert)).ceil() as u64
    }

    /// Its keys, with room for the records loaded and, with a large margin, those inserted. `Invalid` when that many
    /// numbers do not fit.
    pub fn keys(&self) -> Result<Keys> {
        if let Task::Trace { .. } = self.task {
            // A trace has keys of its own.
            return Keys::new(KeyFormat::Hashed, 16, 1);
        }
        let inserts = match (self.task.grows(), self.seconds) {
            (false, _) => 0,
            // Ten million inserts a second and thread are out of reach of any engine here.
            (true, Some(seconds)) => ((seconds * 1e7).ceil() as u64).saturating_mul(u64::from(self.threads)),
            (true, None) => self.operations,
        };
        Keys::with_room(self.task.key_format(), self.key_bytes, self.records, inserts)
    }

    /// Whether it has a load phase.
    pub fn loads(&self) -> bool {
        self.task.loads() && (self.preload || self.traces.is_empty())
    }

    /// Records that the load phase puts; for a trace a guess from above.
    pub fn loaded(&self) -> u64 {
        if self.loads() { self.records } else { 0 }
    }

    /// Bytes of keys and values that it puts, load phase included; for a run by seconds a guess.
    pub fn put_bytes(&self) -> u64 {
        self.loaded().saturating_add(self.puts()).saturating_mul(self.record_bytes())
    }

    fn record_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }

    /// Records put in the run phase, one that is put again as well. Who writes beside others is taken to be as fast as they are.
    fn puts(&self) -> u64 {
        let writes: f64 = match self.task.beside() {
            Some(_) => 1.0,
            None => OpKind::ALL.iter().filter(|kind| kind.writes()).map(|k| self.task.share(*k)).sum(),
        };
        (self.expected_operations() as f64 * writes * self.task.records_per_write() as f64) as u64
    }

    fn expected_operations(&self) -> u64 {
        if self.seconds.is_some() { self.records } else { self.operations }
    }
}
