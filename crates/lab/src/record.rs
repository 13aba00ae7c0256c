//! One run's result, as one JSON line.
//!
//! The names and their nesting are an interface that scripts rely on; new fields may be added, none renamed. A figure that
//! could not be measured is `null`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use biombo_engine::{Compaction, CompactionTail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::amplification::{Amplification, Ways};
use crate::driver::{Timeline, Until};
use crate::measure::{Host, Place};
use crate::units::plural;
use crate::workload::Shift;

/// One run of a key-value bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which bench: `ycsb`, `db`, `shift` or `trace`.
    pub bench: String,
    /// The workload's name; a trace's file.
    pub workload: String,
    /// The engine's name.
    pub engine: String,
    /// `none`, `soft` or `hard`.
    pub partitioning: String,
    /// Partitions; 1 for `none`.
    pub partitions: u32,
    /// Who runs a partition's writes: `direct` or `pinned`.
    pub executor: String,
    /// Client threads.
    pub threads: u32,
    /// When a write was acknowledged: `sync`, `os`, `relaxed`.
    pub durability: String,
    /// How keys were placed: `hash` or `range`.
    pub placement: String,
    /// Memory for all caches of the store together, in bytes.
    pub cache_bytes: u64,
    /// How often the store repartitioned itself: `off`, or a time such as `1s`.
    pub repartition: String,
    /// Who planned the moves; `null` where it did not.
    pub planner: Option<String>,
    /// Records loaded, or named by those who fill an empty store.
    pub records: u64,
    /// Operations finished in the run phase.
    pub operations: u64,
    /// The length of each key; of a trace their mean, each as often as it is named.
    pub key_bytes: u32,
    /// The length of each value.
    pub value_bytes: u32,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The run phase's duration.
    pub seconds: f64,
    /// Operations per second of the run phase.
    pub ops_per_s: f64,
    /// Latencies by kind of operation.
    pub latency_ns: BTreeMap<String, Latency>,
    /// Operations that failed or gave a wrong answer.
    pub errors: u64,
    /// The most memory that the run's process had resident; pages of mapped files count, and the memory of processes that it started.
    pub rss_bytes_max: u64,
    /// Bytes allocated to the store's files at the end.
    pub disk_bytes: u64,
    /// Bytes of keys and values put, load phase included.
    pub logical_write_bytes: u64,
    /// Bytes written to storage on behalf of the process and those that it started, opening, load phase and closing included.
    pub physical_write_bytes: u64,
    /// `physical_write_bytes` and `unflushed_write_bytes` by `logical_write_bytes`. Who shows it says where `waf_by.engine` is more than 5 %
    /// higher.
    pub waf: Option<f64>,
    /// Write amplification by each counter, `unflushed_write_bytes` included.
    pub waf_by: WafBy,
    /// The load phase; zeros where there was none.
    pub load: Load,
    /// Moves of partitions.
    pub moves: Moves,
    /// The engine's work in the background.
    pub compaction: CompactionFigures,
    /// The machine.
    pub host: Host,
    /// The version of this program.
    pub version: String,

    /// Bytes that were put and that closing left for the next opening to write (a memtable, which a log has), by the engine's own word.
    #[serde(default)]
    pub unflushed_write_bytes: u64,
    /// The workers of the executor `pinned`; `null` under `direct`.
    #[serde(default)]
    pub workers: Option<u32>,
    /// How records were chosen.
    pub distribution: String,
    /// What a compressor leaves of a value; 1: it cannot shrink it.
    pub compression_ratio: f64,
    /// Operations per second asked for in an open loop; `null`: closed loop.
    pub rate: Option<f64>,
    /// The seed of the repetition.
    pub seed: u64,
    /// The shifting workload with its parameters; `null` for others.
    #[serde(default)]
    pub shift: Option<Shift>,
    /// The files of a trace.
    #[serde(default)]
    pub traces: Vec<PathBuf>,
    /// How the engine was told to read files that it writes no more (`mmap`, `direct`); `null`: its own way.
    #[serde(default)]
    pub io: Option<String>,
    /// The limit on the memory of the process, page cache included; `null`: none.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processor seconds of the run's process and those that it started, from its start to its end; `null`: not known.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// What the device gave after the run: random reads of 4 KiB a second past every cache, over the files of the store, by as many
    /// threads. Measured where `io` or `memory_bytes` is given.
    #[serde(default)]
    pub device_random_reads_per_s: Option<f64>,
    /// Bytes read from storage in the run phase by bytes that its reads returned: by the process, or by the device where that is not known.
    #[serde(default)]
    pub read_amplification: Option<f64>,
    /// `disk_bytes` by bytes of live keys and values.
    #[serde(default)]
    pub space_amplification: Option<f64>,
    /// Write, read and space amplification of each phase, and while it went on; `null` in lines from before there was such a thing.
    #[serde(default)]
    pub amplification: Option<Amplification>,
    /// How long the run phase was to be: so many operations or seconds, or a trace once; `null` in lines from before that was kept.
    #[serde(default)]
    pub until: Option<Until>,
    /// Where the run's directories were, its first one first; none in lines from before that was kept.
    #[serde(default)]
    pub places: Vec<Place>,
    /// How the run's process ended, where it did not end well after its result was told; `null`: well.
    #[serde(default)]
    pub ended: Option<String>,
    /// The first failed operation, where there is one.
    pub first_error: Option<String>,
    /// Operations finished over the time of the run phase, their tail, and what happened meanwhile.
    pub timeline: Timeline,
    /// The version of the engine's library.
    pub engine_version: String,
    /// Every option that the engine was opened with.
    pub engine_options: Vec<(String, String)>,
}

/// One histogram's figures, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Their mean.
    pub mean: u64,
    /// Half were faster.
    pub p50: u64,
    /// 95 % were faster.
    pub p95: u64,
    /// 99 % were faster.
    pub p99: u64,
    /// 99.9 % were faster.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

impl Latency {
    /// Of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
        Self {
            count: histogram.len(),
            mean: histogram.mean() as u64,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// Write amplification: bytes written by bytes of keys and values put.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct WafBy {
    /// By the engine's own counters.
    pub engine: Option<f64>,
    /// By the kernel's counters for the process.
    pub process: Option<f64>,
    /// By the block device's counters (everything that anybody wrote to it meanwhile).
    pub device: Option<f64>,
}

/// The load phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    /// Its duration, the closing flush included.
    pub seconds: f64,
    /// Inserts per second.
    pub ops_per_s: f64,
}

/// Moves of units between partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moves {
    /// Plans carried out.
    pub plans: u64,
    /// Units moved.
    pub units: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Compactions, checkpoints and cleanings; `null` throughout for an engine that has or tells none: it is not the same as 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CompactionFigures {
    /// How many.
    pub count: Option<u64>,
    /// Their time together.
    pub seconds: Option<f64>,
    /// The median time of one, where the engine says it.
    pub latency_ns_p50: Option<u64>,
    /// 99 % of them took no longer, where the engine says it; of several instances the largest.
    #[serde(default)]
    pub latency_ns_p99: Option<u64>,
    /// The slowest, where the engine says it.
    #[serde(default)]
    pub latency_ns_max: Option<u64>,
    /// Bytes that they wrote.
    pub bytes: Option<u64>,
}

impl CompactionFigures {
    /// With the slowest of them.
    #[must_use]
    pub fn with(self, tail: Option<CompactionTail>) -> Self {
        let CompactionTail { latency_ns_p99, latency_ns_max } = tail.unwrap_or_default();
        Self { latency_ns_p99, latency_ns_max, ..self }
    }

    /// Whether the engine tells of any.
    pub fn is_any(&self) -> bool {
        self.count.is_some_and(|count| count > 0)
    }
}

impl From<Option<Compaction>> for CompactionFigures {
    fn from(told: Option<Compaction>) -> Self {
        told.map_or_else(Self::default, |Compaction { count, seconds, latency_ns_p50, bytes, moves: _ }| Self {
            count: Some(count),
            seconds: Some(seconds),
            latency_ns_p50,
            bytes: Some(bytes),
            ..Self::default()
        })
    }
}

impl Record {
    /// Write amplification of the run phase by the kernel's counters or the device's; see [`Amplification::waf_of_run`].
    pub fn waf_of_run(&self, way: impl Fn(&Ways<u64>) -> Option<u64>) -> Option<f64> {
        self.amplification.as_ref()?.waf_of_run(way, self.unflushed_write_bytes)
    }

    /// The label of engine and layout in tables and plots, such as `lmdb`, `lmdb hard-8`, or `lmdb hard-8 pinned-2 moving 1s`.
    pub fn label(&self) -> String {
        let repartition = Some(self.repartition.as_str()).filter(|repartition| *repartition != "off");
        label(&self.engine, &self.partitioning, self.partitions, self.workers, repartition)
    }
}

pub(crate) fn label(
    engine: &str,
    partitioning: &str,
    partitions: u32,
    workers: Option<u32>,
    repartition: Option<&str>,
) -> String {
    if partitioning == "none" {
        return engine.to_owned();
    }
    let workers = workers.map_or(String::new(), |workers| format!(" pinned-{workers}"));
    let moving = repartition.map_or(String::new(), |every| format!(" moving {every}"));
    format!("{engine} {partitioning}-{partitions}{workers}{moving}")
}

/// Parse JSON lines; the error names the line.
pub fn parse_lines(text: &str) -> biombo_base::Result<Vec<Record>> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| serde_json::from_str(line).map_err(|e| no_record(i + 1, &e)))
        .collect()
}

fn no_record(number: usize, error: &serde_json::Error) -> biombo_base::Error {
    biombo_base::Error::invalid(format!("line {number} is no record of a run: {error}"))
}

/// What a file of runs holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kept {
    /// The runs, in the order of their lines.
    pub records: Vec<Record>,
    /// What of it was left out and why, for people, a piece each.
    pub left_out: Vec<String>,
}

/// What `biombo advise --trials` says of a run that failed.
#[derive(Deserialize)]
struct Trial {
    failed: Option<String>,
}

/// Parse the JSON lines of a file, whatever became of who wrote it. A last line that stops in its middle is left out, since whoever is
/// killed, or finds no room, leaves one behind the lines of all runs before; and so are lines that say why their run `failed`. The error
/// names any other line that is no record.
pub fn parse_kept(text: &str) -> biombo_base::Result<Kept> {
    let (mut kept, mut failed) = (Kept::default(), Vec::new());
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let (is_whole, json) = (line.ends_with('\n'), line.trim());
        if json.is_empty() {
            continue;
        }
        if !is_whole && serde_json::from_str::<serde_json::Value>(json).is_err_and(|error| error.is_eof()) {
            kept.left_out.push(format!("line {number}, the last one, which stops in its middle"));
        } else if let Ok(Trial { failed: Some(why) }) = serde_json::from_str(json) {
            failed.push((number, why));
        } else {
            kept.records.push(serde_json::from_str(json).map_err(|error| no_record(number, &error))?);
        }
    }
    if let Some((number, why)) = failed.first() {
        let (lines, why) = (plural(failed.len() as u64, "line"), why.lines().next().unwrap_or_default());
        kept.left_out.push(format!("{lines} of runs that failed, such as line {number}: {why}"));
    }
    Ok(kept)
}

/// Records as JSON lines.
pub fn to_lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut lines = String::new();
    for record in records {
        lines.push_str(&serde_json::to_string(record).expect("invariant: records have string keys and finite figures"));
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
pub(crate) mod tests;
