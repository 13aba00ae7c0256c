//! A step that was measured, as a line of JSON.

use serde::{Deserialize, Serialize};

use crate::measure::Host;

/// What [`Record::bench`] says of graphs: by it their lines are told from those of stores.
pub(super) const BENCH: &str = "graph";

/// What was done; see the [module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// One measured step. New fields may come, and lines of earlier versions are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `graph`.
    pub bench: String,
    /// As it was asked for.
    pub graph: String,
    /// How many it has.
    pub vertices: u64,
    /// Stored edges: both directions of an undirected one.
    pub edges: u64,
    /// The layout's name.
    pub layout: String,
    /// The medium's name: of a kernel, where the lists are that it reads.
    pub media: String,
    /// What is behind the medium `pmem`: MAP_SYNC, or what plays it. Of other media nothing.
    pub pmem: Option<String>,
    /// Whether that is something else than persistent memory.
    pub pmem_is_played: Option<bool>,
    /// The placement of vertices on NUMA nodes: of a kernel the one that it ran under, also where it was chosen by `auto`.
    #[serde(default)]
    pub placement: String,
    /// NUMA nodes.
    pub nodes: u32,
    /// How memory comes to lie on them.
    #[serde(default)]
    pub allocation: String,
    /// Where threads run.
    #[serde(default)]
    pub bind: String,
    /// Threads.
    pub threads: usize,
    /// What was done.
    pub step: Step,
    /// The kernel's name.
    pub kernel: Option<String>,
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
    /// The share of the edges that this layout let go and took in again before; `null`: none, or a line of before that was told of kernels.
    #[serde(default)]
    pub churn: Option<f64>,
    /// Updates a second that were asked for while the kernel ran; `null`: none, or a line of before that was told.
    #[serde(default)]
    pub stream: Option<u64>,
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
    /// The machine; `null` in lines of before it was told.
    #[serde(default)]
    pub host: Option<Host>,
    /// The version of this program; `null` as above.
    #[serde(default)]
    pub version: Option<String>,
}

impl Record {
    /// The medium, and what is behind it where that is not plain: `pmem (played by a file on ext4)`.
    pub fn media_text(&self) -> String {
        self.pmem.as_ref().map_or_else(|| self.media.clone(), |behind| format!("{} ({behind})", self.media))
    }
}

/// The records among `lines`, and all other lines where they are: in the place of a record there is an empty one, so that whoever reads
/// the others names the right ones.
///
/// # Errors
/// `Invalid` for a line that says that it is a record of a graph, and is none; it names the line.
pub fn parse_lines(lines: &str) -> biombo_base::Result<(Vec<Record>, String)> {
    /// What tells lines apart.
    #[derive(Deserialize)]
    struct Kind {
        bench: String,
    }
    let (mut records, mut others) = (Vec::new(), String::new());
    for (line, at) in lines.split_inclusive('\n').zip(1..) {
        let is_graph = serde_json::from_str::<Kind>(line).is_ok_and(|kind| kind.bench == BENCH);
        if !is_graph {
            others.push_str(line);
            continue;
        }
        let record = serde_json::from_str(line)
            .map_err(|e| biombo_base::Error::invalid(format!("line {at} is no record of a graph: {e}")))?;
        records.push(record);
        others.push('\n');
    }
    Ok((records, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the first version, which knew neither placements nor machines.
    const FIRST: &str = concat!(
        r#"{"bench":"graph","graph":"kron:4:4","vertices":16,"edges":90,"layout":"csr","media":"dram","nodes":1,"threads":2,"#,
        r#""step":"kernel","kernel":"cc","trial":3,"seconds":0.5,"answer":"xxh3:00","verified":true,"edges_per_s":null,"#,
        r#""bytes_per_edge":null}"#
    );

    /// Fails if a field without a default comes, if what is written is read otherwise, or if lines of stores are taken for those of
    /// graphs, or lost.
    #[test]
    fn lines_of_earlier_versions_are_read_and_those_of_stores_stay_where_they_are() {
        let text = format!("{{\"bench\":\"ycsb\"}}\n{FIRST}\n\n{{\"bench\":\"gra");
        let (records, others) = parse_lines(&text).unwrap();
        assert_eq!(others, "{\"bench\":\"ycsb\"}\n\n\n{\"bench\":\"gra");
        let [first] = &records[..] else { panic!("one record: {records:?}") };
        assert_eq!((first.step, first.kernel.as_deref(), first.seconds), (Step::Kernel, Some("cc"), 0.5));
        assert_eq!((first.placement.as_str(), &first.host, &first.version), ("", &None, &None));
        let now = Record { placement: "block".to_owned(), host: Some(Host::here()), ..first.clone() };
        let line = serde_json::to_string(&now).unwrap();
        assert_eq!(parse_lines(&line).unwrap(), (vec![now], "\n".to_owned()));
        let broken = parse_lines("\n{\"bench\":\"graph\",\"edges\":-1}\n").unwrap_err();
        assert!(broken.to_string().contains("line 2 is no record of a graph"), "{broken}");
    }
}
