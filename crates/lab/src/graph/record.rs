//! A step that was measured, as a line of JSON.

use serde::Serialize;

/// What was done; see the [module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The layout was made of all edges in memory.
    Load,
    /// Vertices were dealt to NUMA nodes.
    Placement,
    /// Nine tenths of the edges came in batches.
    Ingest,
    /// A share of the edges went and came back.
    Churn,
    /// A kernel was run.
    Kernel,
}

/// One measured step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// `graph`.
    pub bench: &'static str,
    /// As it was asked for.
    pub graph: String,
    /// How many it has.
    pub vertices: u64,
    /// Stored edges: both directions of an undirected one.
    pub edges: u64,
    /// The layout's name.
    pub layout: &'static str,
    /// The medium's name: of a kernel, where the lists are that it reads.
    pub media: &'static str,
    /// What is behind the medium `pmem`: MAP_SYNC, or what plays it. Of other media nothing.
    pub pmem: Option<String>,
    /// Whether that is something else than persistent memory.
    pub pmem_is_played: Option<bool>,
    /// The placement of vertices on NUMA nodes: of a kernel the one that it ran under, also where it was chosen by `auto`.
    pub placement: &'static str,
    /// NUMA nodes.
    pub nodes: u32,
    /// How memory comes to lie on them.
    pub allocation: &'static str,
    /// Where threads run.
    pub bind: &'static str,
    /// Threads.
    pub threads: usize,
    /// What was done.
    pub step: Step,
    /// The kernel's name.
    pub kernel: Option<&'static str>,
    /// Counted from 1.
    pub trial: u32,
    /// How long it took.
    pub seconds: f64,
    /// A hash of the kernel's answer.
    pub answer: Option<String>,
    /// Whether the answer, or the number of edges that ingest made, was found right.
    pub verified: Option<bool>,
    /// Updates of each batch of ingest.
    pub batch: Option<usize>,
    /// How long half of the batches took at most to be as durable as the medium makes them, in nanoseconds. Batches of a few updates are not timed.
    pub batch_ns_p50: Option<u64>,
    /// How long 99 of 100 took at most.
    pub batch_ns_p99: Option<u64>,
    /// How long the longest took.
    pub batch_ns_max: Option<u64>,
    /// How long the first snapshot took after ingest, which merges what waits. It is no part of `seconds`.
    pub snapshot_seconds: Option<f64>,
    /// How long a checkpoint took after that, of a graph that is kept. It is no part of `seconds`, and none was due in those.
    pub checkpoint_seconds: Option<f64>,
    /// Edges as they were given, a second: an undirected one counts once and is stored twice.
    pub edges_per_s: Option<f64>,
    /// All memory of the layout by stored edges, but for what in-edges take.
    pub bytes_per_edge: Option<f64>,
    /// What the in-edges of a directed graph take, by stored edges.
    pub bytes_per_in_edge: Option<f64>,
    /// Updates a second that the graph took in while the kernel ran.
    pub stream_per_s: Option<f64>,
    /// Units of vertices that went to another node since the turn before, for balance: of graphs that take updates in, on several nodes.
    pub units_moved: Option<usize>,
    /// Stretches of memory that were brought to their node for this turn: all where the graph lay otherwise in between, or else what was
    /// rewritten elsewhere since.
    pub stretches_placed: Option<usize>,
    /// Edges that lead to the vertices of each node, under one placement.
    pub edges_per_node: Option<Vec<u64>>,
    /// Why `auto` chose this placement.
    pub why: Option<String>,
    /// What of nodes, binding and allocation the machine could not do.
    pub not_done: Option<String>,
}

impl Record {
    /// The medium, and what is behind it where that is not plain: `pmem (played by a file on ext4)`.
    pub fn media_text(&self) -> String {
        self.pmem.as_ref().map_or_else(|| self.media.to_owned(), |behind| format!("{} ({behind})", self.media))
    }
}
