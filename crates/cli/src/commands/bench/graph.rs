//! `biombo bench graph`.

use std::path::PathBuf;

use biombo::graph::generate::Drawn;
use biombo::graph::numa::Allocation;
use biombo::graph::team::Bind;
use biombo_base::topology::Spread;
use biombo_lab::graph::{BATCH, Kernel, Layout, Media, NodesPlan, Placing, Plan};
use clap::{Args, ValueEnum};

use super::super::graph::nodes::PlacementArg;
use super::graph_table;
use super::options::Outputs;
use super::page::{Page, print_path, write_then_print};
use super::steps::Steps;
use super::watch::Output;
use crate::failure::{Done, Failure};
use crate::out::{file_name, is_stdout};

/// Measure graphs: kernels over layouts in turns, ingest, bytes per edge
#[derive(Debug, Args)]
#[command(after_help = "\
Every kernel runs over all layouts in turns, trial by trial; each answer is verified. The source of bfs and bc is the vertex with the
most out-edges, pagerank does 20 iterations. Edges of synthetic graphs come in a shuffled order, those of a file in its own.
Layouts: csr is static; pma is a packed memory array; adjacency is a log of edges, archived in batches into adjacency blocks; buffered
are buffers of vertices, which grow with the degree, over such blocks.
--ingest: each layout but csr is made of a tenth of the edges, the others come in batches of 65,536 (--batch; with 1 each edge is durable by
itself) from all threads; on disk and on persistent memory each batch is durable when it is acknowledged. No checkpoint is due meanwhile: a
snapshot and one checkpoint after it are timed apart. Edges a second are those of the file: an undirected one counts once and
is stored twice. Bytes an edge are all memory of a layout, logs and buffers included, by stored edges; what the in-edges of a directed graph
take stands apart, behind a +.
--stream RATE: while a kernel runs over a snapshot of a dynamic layout, another thread deletes edges from the graph and inserts them again,
at most so many updates a second. On several nodes each placement is kept from one snapshot to the next: a node with more than 1.05 times its
share of the edges gives units of vertices away, and memory that was rewritten elsewhere is brought home; how much of both is told.
--layout csr --media pmem: csr is in memory, and on persistent memory in --dir too, where kernels read it in turns with the one in memory.
orkut-like and livejournal-like have the published graphs' size and density, or a share :F of them.

Placements of vertices on NUMA nodes are run in turns too: block (the first share, the second one, ..), round-robin (vertex v on node v
modulo N), block-cyclic (units of at least 1,024 vertices in turn), degree (shares with as many edges), auto (what suits kernel and
graph, and why). Each thread works on the vertices of its own node first. --nodes N other than the machine's are virtual: the same
code, and on a machine with one node no memory to be bound. --bind: none; local and remote (all threads on the first node, all memory
there or on the last one); round-robin (threads on all nodes in turn, each on its own: the default for several nodes). Answers are the
same for all of them. What the machine cannot do is said, and left out.

Ctrl-C ends a bench after the step that is under way, and shows what was measured; a second one ends it at once. Lines of --json are shown
again by `biombo bench show`, which makes a report of them too.

Examples:
  biombo bench graph --graph kron:20:16 --threads 1,2 --trials 9 --churn 0.1
  biombo bench graph --graph kron:20:16 --layout csr,pma,adjacency,buffered --ingest --threads 2
  biombo bench graph --graph kron:20:16 --layout pma --kernel bfs --ingest --media dram,disk,pmem --threads 2 --json graph.jsonl
  biombo bench graph --graph kron:12:16 --layout pma --kernel cc --ingest --batch 1 --media disk,pmem --threads 1,2
  biombo bench graph --graph kron:20:16 --layout csr --media dram,pmem --dir /mnt/pmem
  biombo bench graph --graph kron:20:16 --layout csr --nodes 2 --threads 2 --placement block,round-robin,block-cyclic,degree,auto
  biombo bench graph --graph livejournal-like:0.1 --threads 2 --stream 1000000
  biombo bench graph --graph wiki-Vote.txt.gz --kernel pagerank")]
pub(crate) struct GraphArgs {
    /// kron:SCALE:DEGREE, uniform:SCALE:DEGREE (the GAP benchmark's), orkut-like[:F], livejournal-like[:F], or a file of edges
    #[arg(long, value_name = "GRAPH")]
    graph: String,
    /// Layouts: csr, pma, adjacency, buffered
    #[arg(
        long = "layout",
        value_name = "L,L..",
        value_delimiter = ',',
        default_value = "csr,pma",
        hide_possible_values = true
    )]
    layouts: Vec<LayoutArg>,
    /// Where a graph is kept that takes edges in (--ingest), and csr on pmem beside memory: dram, disk, pmem (what plays it is said)
    #[arg(long, value_name = "M,M..", value_delimiter = ',', default_value = "dram", hide_possible_values = true)]
    media: Vec<MediaArg>,
    /// Kernels: bfs, pagerank, cc, cc-sv, bc [default: all]
    #[arg(long = "kernel", value_name = "K,K..", value_delimiter = ',', hide_possible_values = true)]
    kernels: Vec<KernelArg>,
    /// Threads
    #[arg(long, value_name = "T,T..", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Placements on NUMA nodes: block, round-robin, block-cyclic, degree, auto
    #[arg(
        long = "placement",
        value_name = "P,P..",
        value_delimiter = ',',
        default_value = "block-cyclic",
        hide_possible_values = true
    )]
    placements: Vec<PlacementArg>,
    /// NUMA nodes; with another number than the machine's they are virtual [default: the machine's]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// How memory comes to lie on nodes: bind, first-touch, interleave
    #[arg(long, value_enum, value_name = "A", default_value = "bind", hide_possible_values = true)]
    allocation: AllocationArg,
    /// Where threads run: none, local, remote, round-robin [default: round-robin, on one node none]
    #[arg(long, value_enum, value_name = "B", hide_possible_values = true)]
    bind: Option<BindArg>,
    /// How often each kernel runs over each layout
    #[arg(long, value_name = "N", default_value_t = 5)]
    trials: u32,
    /// Measure ingest too
    #[arg(long)]
    ingest: bool,
    /// Edges of each batch of --ingest [default: 65536]
    #[arg(long, value_name = "N", requires = "ingest", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    batch: Option<u64>,
    /// Delete this share of the edges from each dynamic layout and insert it again, before its kernels
    #[arg(long, value_name = "F", default_value_t = 0.0)]
    churn: f64,
    /// Updates a second that dynamic layouts take in while kernels run over them: edges deleted and inserted again
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    stream: Option<u64>,
    /// Where graphs on disk and on persistent memory are made [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write a JSON line for each step to this file (`-`: standard output, and no table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    Csr,
    Pma,
    Adjacency,
    Buffered,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Self {
        match layout {
            LayoutArg::Csr => Self::Csr,
            LayoutArg::Pma => Self::Pma,
            LayoutArg::Adjacency => Self::Adjacency,
            LayoutArg::Buffered => Self::Buffered,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MediaArg {
    Dram,
    Disk,
    Pmem,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KernelArg {
    Bfs,
    Pagerank,
    Cc,
    CcSv,
    Bc,
}

impl From<KernelArg> for Kernel {
    fn from(kernel: KernelArg) -> Self {
        match kernel {
            KernelArg::Bfs => Self::Bfs,
            KernelArg::Pagerank => Self::Pagerank,
            KernelArg::Cc => Self::Cc,
            KernelArg::CcSv => Self::CcSv,
            KernelArg::Bc => Self::Bc,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AllocationArg {
    Bind,
    FirstTouch,
    Interleave,
}

impl From<AllocationArg> for Allocation {
    fn from(allocation: AllocationArg) -> Self {
        match allocation {
            AllocationArg::Bind => Self::Bind,
            AllocationArg::FirstTouch => Self::FirstTouch,
            AllocationArg::Interleave => Self::Interleave,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BindArg {
    None,
    Local,
    Remote,
    RoundRobin,
}

impl From<BindArg> for Bind {
    fn from(bind: BindArg) -> Self {
        match bind {
            BindArg::None => Self::None,
            BindArg::Local => Self::Local,
            BindArg::Remote => Self::Remote,
            BindArg::RoundRobin => Self::RoundRobin,
        }
    }
}

/// What the command line says of NUMA nodes.
fn nodes(args: &GraphArgs) -> Done<NodesPlan> {
    if let Some(nodes) = args.nodes.filter(|nodes| !(1..=Spread::NODES_MAX).contains(nodes)) {
        return Err(Failure::usage(format!("--nodes are 1 to {}, not {nodes}", Spread::NODES_MAX)));
    }
    let bind: Option<Bind> = args.bind.map(Bind::from);
    if let Some(bind) = bind.filter(|bind| matches!(bind, Bind::Local | Bind::Remote))
        && args.allocation != AllocationArg::Bind
    {
        let bind = bind.name();
        return Err(Failure::usage(format!("--bind {bind} has all memory on one node: it needs --allocation bind")));
    }
    Ok(NodesPlan {
        placings: once(args.placements.iter().map(|named| named.fixed().map_or(Placing::Auto, Placing::Fixed))),
        nodes: args.nodes,
        allocation: args.allocation.into(),
        bind,
    })
}

/// What is named twice is measured once: two series of one name would be shown as one.
pub(super) fn once<T: PartialEq>(named: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Refuse a medium on which nothing would be kept.
fn check_media(args: &GraphArgs) -> Done {
    let has_csr = args.layouts.iter().any(|layout| matches!(layout, LayoutArg::Csr));
    for media in &args.media {
        match media {
            MediaArg::Disk if !args.ingest => {
                return Err(Failure::usage("--media disk is where a graph takes edges in: it needs --ingest"));
            }
            MediaArg::Pmem if !args.ingest && !has_csr => {
                return Err(Failure::usage(
                    "--media pmem is where a graph takes edges in, or where csr is read: it needs --ingest or --layout csr",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn run(args: &GraphArgs) -> Done {
    if !(0.0..=1.0).contains(&args.churn) {
        return Err(Failure::usage(format!("--churn is a share from 0 to 1, not {}", args.churn)));
    }
    if args.trials == 0 {
        return Err(Failure::usage("--trials is at least 1"));
    }
    if let Some(threads) = args.threads.iter().find(|threads| !(1..=1024).contains(*threads)) {
        return Err(Failure::usage(format!("--threads are 1 to 1024, not {threads}")));
    }
    if let Err(error) = Drawn::named(&args.graph) {
        return Err(Failure::usage(format!("--graph: {error}")));
    }
    let layouts: Vec<Layout> = once(args.layouts.iter().map(|layout| Layout::from(*layout)));
    let asked = [(args.ingest, "--ingest"), (args.stream.is_some(), "--stream"), (args.churn > 0.0, "--churn")];
    if let Some((_, option)) = asked.iter().find(|(is_asked, _)| *is_asked)
        && !layouts.iter().any(|layout| layout.is_dynamic())
    {
        return Err(Failure::usage(format!(
            "{option} is of graphs that change: it needs --layout pma, adjacency or buffered, or several of them"
        )));
    }
    check_media(args)?;
    let media = |media: &MediaArg| match media {
        MediaArg::Dram => Media::Dram,
        MediaArg::Disk => Media::Disk,
        MediaArg::Pmem => Media::Pmem,
    };
    let kernels: Vec<Kernel> = once(args.kernels.iter().map(|kernel| Kernel::from(*kernel)));
    let plan = Plan {
        graph: args.graph.clone(),
        shape: None,
        dealt: layouts.clone(),
        layouts,
        media: once(args.media.iter().map(media)),
        kernels: if kernels.is_empty() { Kernel::ALL.to_vec() } else { kernels },
        threads: once(args.threads.iter().copied()),
        nodes: nodes(args)?,
        trials: args.trials,
        ingest: args.ingest,
        batch: args.batch.map_or(BATCH, |batch| batch as usize),
        churn: args.churn,
        stream: args.stream,
        dir: args.dir.clone().unwrap_or_else(std::env::temp_dir),
    };
    let graph = Some(PathBuf::from(&args.graph)).filter(|path| path.is_file());
    let outputs = Outputs { json: args.json.clone(), html: args.html.clone() };
    outputs.check_as("--json", graph.as_slice(), "the graph")?;
    // The lines are what is printed then, and no table.
    let prints_lines = args.json.as_deref().is_some_and(is_stdout);
    let html = args.html.as_deref().map(Page::create).transpose()?;
    let json = args.json.as_deref().map(Output::create).transpose()?;
    let mut steps = Steps::new(json)?;
    let ended = steps.measure(std::slice::from_ref(&plan));
    // What was measured is shown whatever became of the file of the runs, and of the graph later.
    let records = steps.records;
    if records.is_empty() {
        return ended;
    }
    let page = || biombo_lab::report::graphs(&records, None);
    let (written, printed) = write_then_print(html, page, |out, report| {
        if prints_lines {
            return Ok(());
        }
        graph_table::print(&records, out)?;
        print_path(out, report)
    });
    written?;
    ended?;
    printed
}
