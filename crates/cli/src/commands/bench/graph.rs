//! `biombo bench graph`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use biombo::graph::generate::Drawn;
use biombo::graph::numa::Allocation;
use biombo::graph::team::Bind;
use biombo_base::topology::Spread;
use biombo_lab::graph::{BATCH, Kernel, Layout, Media, NodesPlan, Placing, Plan, Record, Step, run as measure};
use clap::{Args, ValueEnum};

use super::super::graph::nodes::PlacementArg;
use super::watch::Output;
use crate::failure::{Done, Failure};
use crate::out::{Out, file_name};
use crate::progress::Progress;
use crate::size::show_count;

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
        placings: args
            .placements
            .iter()
            .map(|placement| placement.fixed().map_or(Placing::Auto, Placing::Fixed))
            .collect(),
        nodes: args.nodes,
        allocation: args.allocation.into(),
        bind,
    })
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
    let layouts: Vec<Layout> = args.layouts.iter().map(|layout| (*layout).into()).collect();
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
    let kernels: Vec<Kernel> = args.kernels.iter().map(|kernel| (*kernel).into()).collect();
    let plan = Plan {
        graph: args.graph.clone(),
        shape: None,
        dealt: layouts.clone(),
        layouts,
        media: args.media.iter().map(media).collect(),
        kernels: if kernels.is_empty() { Kernel::ALL.to_vec() } else { kernels },
        threads: args.threads.clone(),
        nodes: nodes(args)?,
        trials: args.trials,
        ingest: args.ingest,
        batch: args.batch.map_or(BATCH, |batch| batch as usize),
        churn: args.churn,
        stream: args.stream,
        dir: args.dir.clone().unwrap_or_else(std::env::temp_dir),
    };
    let to_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let mut json = args.json.as_deref().filter(|_| !to_stdout).map(Output::create).transpose()?;
    let mut html = args.html.as_deref().map(Output::create).transpose()?;
    let mut out = Out::new();
    let (mut records, mut refused): (Vec<Record>, _) = (Vec::new(), None);
    let (mut progress, mut done) = (Progress::of_runs(plan.graph.clone(), plan.runs()), 0);
    let measured = measure(&plan, &mut |record| {
        let mut told = || -> Done {
            if to_stdout {
                return out.json(record);
            }
            if let Some(json) = &mut json {
                let line = serde_json::to_string(record).map_err(|e| Failure::output(&e.into()))?;
                json.write(&format!("{line}\n"))?;
            }
            Ok(())
        };
        let told = told();
        records.push(record.clone());
        if let Err(failure) = told {
            refused = Some(failure);
            return Err(biombo_base::Error::invalid("what was measured cannot be written"));
        }
        done += u64::from(record.step == Step::Kernel);
        progress.at(done);
        Ok(())
    });
    drop(progress);
    // What was measured is shown whatever became of the file of the runs, and of the graph later.
    let ended = refused.map_or_else(|| measured.map_err(Failure::from), Err);
    if ended.is_err() && records.is_empty() {
        return ended;
    }
    if !to_stdout {
        table(&mut out, &plan, &records)?;
    }
    if let Some(html) = &mut html {
        html.write(&biombo_lab::report::graphs(&records, None)?)?;
        if !to_stdout {
            out.line(format_args!("report: {}", html.path().display()))?;
        }
    }
    out.finish()?;
    ended
}

/// Steps, then kernels by layouts and placements: medians, least and most, and how many times as long as the first one.
fn table(out: &mut Out, plan: &Plan, records: &[Record]) -> Done {
    let Some(first) = records.first() else { return Ok(()) };
    let (vertices, edges) = (show_count(first.vertices), show_count(first.edges));
    out.line(format_args!("{}: {vertices} vertices, {edges} stored edges", first.graph))?;
    let steps = || records.iter().filter(|record| !matches!(record.step, Step::Kernel | Step::Placement));
    let media_width = steps().map(|record| record.media_text().len()).max().unwrap_or(0).max("media".len());
    out.line(format_args!(
        "{:8} {:9} {:media_width$} {:>7} {:>10} {:>14} {:>11}",
        "step", "layout", "media", "threads", "seconds", "M edges/s", "bytes/edge"
    ))?;
    for record in steps() {
        let step = format!("{:?}", record.step).to_lowercase();
        let rate = record.edges_per_s.unwrap_or(0.0) / 1e6;
        let bytes = match (record.bytes_per_edge, record.bytes_per_in_edge) {
            (Some(bytes), Some(inward)) => format!("{bytes:.2} + {inward:.2}"),
            (Some(bytes), None) => format!("{bytes:.2}"),
            (None, _) => "-".to_owned(),
        };
        let (media, Record { layout, threads, seconds, .. }) = (record.media_text(), record);
        out.line(format_args!(
            "{step:8} {layout:9} {media:media_width$} {threads:>7} {seconds:>10.3} {rate:>14.2} {bytes:>11}"
        ))?;
    }
    for record in steps() {
        let Some(snapshot) = record.snapshot_seconds else { continue };
        let Record { layout, threads, .. } = record;
        let checkpoint = record
            .checkpoint_seconds
            .map_or_else(String::new, |seconds| format!(", a checkpoint {seconds:.3} s (none was due in the figure)"));
        let batches = match (record.batch_ns_p50, record.batch_ns_p99, record.batch_ns_max) {
            (Some(p50), Some(p99), Some(max)) => {
                let [p50, p99, max] = [p50, p99, max].map(|ns| ns as f64 / 1e6);
                format!(
                    ", which took {p50:.1} ms in the median, {p99:.1} ms at the 99th percentile, {max:.1} ms at most"
                )
            }
            _ => String::new(),
        };
        out.line(format_args!(
            "after ingest into {layout} on {}, {threads} thread{}, batches of {}{batches}: a snapshot took {snapshot:.3} s{checkpoint}",
            record.media,
            if *threads == 1 { "" } else { "s" },
            show_count(record.batch.unwrap_or(BATCH) as u64)
        ))?;
    }
    // With one placement on one node there is nothing to tell apart.
    let has_placements = first.nodes > 1 || plan.nodes.placings.len() > 1;
    let width = if has_placements { 18 } else { 0 };
    let placed = if has_placements { "placement" } else { "" };
    let of_kernels = || records.iter().filter(|record| record.step == Step::Kernel);
    let names = of_kernels().map(|record| lists(record.layout, record.media).len());
    let layout_width = names.max().unwrap_or(0).max(9);
    out.line(format_args!(
        "\n{:9} {:>7} {:layout_width$} {placed:width$} {:>10} {:>10} {:>10} {:>7}",
        "kernel", "threads", "layout", "median s", "least", "most", "x first"
    ))?;
    for kernel in &plan.kernels {
        for threads in &plan.threads {
            let of = |record: &&Record| record.kernel == Some(kernel.name()) && record.threads == *threads;
            let mut base = None;
            let lies = |layout: &Layout| [Media::Dram, Media::Pmem].map(|media| (*layout, media));
            for (layout, media) in plan.layouts.iter().flat_map(lies) {
                for placing in plan.placings(layout) {
                    let its = |record: &&Record| {
                        (record.layout, record.media) == (layout.name(), media.name()) && placing.has(record)
                    };
                    let turns: Vec<&Record> = records.iter().filter(of).filter(its).collect();
                    let mut seconds: Vec<f64> = turns.iter().map(|record| record.seconds).collect();
                    let Some(turn) = turns.first() else { continue };
                    seconds.sort_by(f64::total_cmp);
                    let (least, most, median) = (seconds[0], seconds[seconds.len() - 1], seconds[seconds.len() / 2]);
                    let ratio = median / *base.get_or_insert(median);
                    let (kernel, layout) = (kernel.name(), lists(layout.name(), media.name()));
                    let placed = match placing {
                        _ if !has_placements => String::new(),
                        Placing::Fixed(_) | Placing::Whole(_) => placing.name().to_owned(),
                        Placing::Auto => format!("auto: {}", turn.placement),
                    };
                    out.line(format_args!(
                        "{kernel:9} {threads:>7} {layout:layout_width$} {placed:width$} {median:>10.5} {least:>10.5} {most:>10.5} {ratio:>7.3}"
                    ))?;
                }
            }
        }
    }
    for layout in &plan.layouts {
        let its = records.iter().filter(|record| record.layout == layout.name());
        let rates: Vec<f64> = its.filter_map(|record| record.stream_per_s).collect();
        if let Some(least) = rates.iter().copied().reduce(f64::min) {
            let most = rates.iter().copied().fold(least, f64::max);
            let (least, most) = (show_count(least as u64), show_count(most as u64));
            out.line(format_args!("{} took {least} to {most} updates a second in while kernels ran", layout.name()))?;
        }
    }
    kept(out, plan, records)?;
    placements(out, records)
}

/// A layout, and where its lists are, unless that is memory.
fn lists(layout: &str, media: &str) -> String {
    if media == Media::Dram.name() { layout.to_owned() } else { format!("{layout} on {media}") }
}

/// What it took to keep placements while updates came in.
fn kept(out: &mut Out, plan: &Plan, records: &[Record]) -> Done {
    for layout in &plan.layouts {
        for placing in plan.placings(*layout) {
            let is_its = |record: &&Record| record.layout == layout.name() && placing.has(record);
            let its: Vec<&Record> = records.iter().filter(is_its).filter(|its| its.units_moved.is_some()).collect();
            if its.is_empty() {
                continue;
            }
            let units: usize = its.iter().filter_map(|record| record.units_moved).sum();
            let stretches: usize = its.iter().filter_map(|record| record.stretches_placed).sum();
            out.line(format_args!(
                "{}, {}: in {} turns {} units of vertices went to another node, and {} stretches of memory to theirs",
                layout.name(),
                placing.name(),
                show_count(its.len() as u64),
                show_count(units as u64),
                show_count(stretches as u64)
            ))?;
        }
    }
    Ok(())
}

/// Edges of each node, why placements were chosen, and what was not done.
fn placements(out: &mut Out, records: &[Record]) -> Done {
    let threads = records.first().map(|record| record.threads);
    let mut title = "\nedges of each node";
    for record in records.iter().filter(|record| Some(record.threads) == threads) {
        let Some(edges) = &record.edges_per_node else { continue };
        let percent = |of: &u64| format!("{:.2} %", 100.0 * *of as f64 / record.edges.max(1) as f64);
        let shares: Vec<String> = edges.iter().map(percent).collect();
        if !title.is_empty() {
            out.line(std::mem::take(&mut title))?;
        }
        out.line(format_args!("{:12} {}", record.placement, shares.join("  ")))?;
    }
    let mut told = BTreeSet::new();
    for record in records {
        let (Some(kernel), Some(why)) = (record.kernel, &record.why) else { continue };
        if told.insert(kernel) {
            out.line(format_args!("auto, {kernel}: {}, for {why}", record.placement))?;
        }
    }
    match records.last().and_then(|record| record.not_done.as_ref()) {
        Some(what) => out.line(format_args!("not done: {what}")),
        None => Ok(()),
    }
}
