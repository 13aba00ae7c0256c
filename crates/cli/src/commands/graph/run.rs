//! `biombo graph run`: a kernel over a graph.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use biombo::graph::kernels::pagerank::Stop;
use biombo::graph::kernels::{afforest, bfs, brandes, pagerank, shiloach_vishkin};
use biombo::graph::numa::Work;
use biombo::graph::team::Team;
use biombo::graph::view::View;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::nodes::{NodesArgs, Said};
use super::opened::{Graph, Layout, Lists, over};
use crate::args::{DirArg, JsonArg};
use crate::failure::{Done, Failure};
use crate::out::{Out, is_stdout};
use crate::size::show_count;

/// Run a kernel over a graph
#[derive(Debug, Args)]
#[command(after_help = "\
--out writes `vertex<TAB>value` a line, by vertex id:
  bfs       depth below --source, -1 where no path leads
  pagerank  score: damping 0.85, scores sum to 1, the mass of vertices without out-edges shared evenly
  cc        the smallest vertex id of the component (weakly connected, in a directed graph); cc-sv: the same, by Shiloach-Vishkin
  bc        betweenness: for each --source (default: every vertex), the shares of its shortest paths that go through, added up; in an
            undirected graph each pair of ends counts from both sides

Examples:
  biombo graph run votes bfs --source 30
  biombo graph run votes pagerank --tolerance 1e-8 --out scores.tsv
  biombo graph run votes bc --source 30 --source 8 --threads 2 --json")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Which kernel
    #[arg(value_enum)]
    kernel: Kernel,
    /// The vertex to begin at; bc takes several
    #[arg(long, value_name = "V")]
    source: Vec<u64>,
    /// pagerank: at most so many iterations [default: 100]
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// pagerank: stop when an iteration changes all scores together by less [default: 0.000001]
    #[arg(long, value_name = "T")]
    tolerance: Option<f64>,
    /// Threads; the answer does not depend on them
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Run it over this layout, in memory (default: the one that the graph has)
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    #[command(flatten)]
    nodes: NodesArgs,
    /// Write the value of every vertex to this file (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kernel {
    Bfs,
    Pagerank,
    Cc,
    CcSv,
    Bc,
}

/// What a kernel found.
enum Answer {
    Depths(Vec<i64>),
    Components(Vec<u32>),
    Scores { scores: Vec<f64>, iterations: Option<u32> },
}

#[derive(Serialize)]
struct Summary {
    kernel: String,
    vertices: u64,
    edges: u64,
    layout: &'static str,
    threads: usize,
    /// Of the vertices on several NUMA nodes, and how many those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    /// Of the kernel alone, without reading the graph.
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth_max: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_component: Option<u64>,
    /// The vertices with the largest scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<Vec<(u64, f64)>>,
}

/// When pagerank stops, where nobody says it.
const ITERATIONS: u32 = 100;
const TOLERANCE: f64 = 1e-6;
/// How many vertices with large scores are shown.
const TOP: usize = 10;

/// Run it.
pub(crate) fn run(args: &RunArgs) -> Done {
    if args.kernel == Kernel::Bfs && args.source.len() != 1 {
        return Err(Failure::usage("bfs begins at one vertex: name it with --source"));
    }
    if !matches!(args.kernel, Kernel::Bfs | Kernel::Bc) && !args.source.is_empty() {
        return Err(Failure::usage("only bfs and bc have a --source"));
    }
    let prints_values = args.out.as_deref().is_some_and(is_stdout);
    if prints_values && args.json.json {
        return Err(Failure::usage("--out - and --json both go to standard output: name a file for --out"));
    }
    if let Some(tolerance) = args.tolerance.filter(|tolerance| !(0.0..).contains(tolerance)) {
        return Err(Failure::usage(format!("--tolerance is a number from 0, not {tolerance}")));
    }
    let said = args.nodes.said()?.or_kept(&args.dir.dir)?;
    let spread = said.spread()?;
    let mut team = Said::team(spread.as_ref(), args.threads)?;
    let mut graph = Graph::open(&args.dir.dir, &mut team)?;
    if let Some(layout) = args.layout {
        graph = graph.into_layout(layout, &mut team)?;
    }
    let sources = args.source.iter().map(|source| graph.vertex(*source)).collect::<Done<Vec<u32>>>()?;
    // A script may say them to every kernel.
    let given = [(args.iterations.is_some(), "--iterations"), (args.tolerance.is_some(), "--tolerance")];
    for (_, option) in given.iter().filter(|(is_given, _)| *is_given && args.kernel != Kernel::Pagerank) {
        crate::note(format_args!("note: {option} has no effect here: it is for pagerank"));
    }
    let work = if args.kernel == Kernel::Bfs { Work::Search } else { Work::Sweep };
    let (answer, seconds, placement) = over!(graph, view => match &spread {
        None => timed(args, view, &sources, &mut team).map(|(answer, seconds)| (answer, seconds, None))?,
        Some(spread) => {
            let (placed, placement) = said.placed(view, spread, work, &mut team)?;
            let (answer, seconds) = timed(args, &placed, &sources, &mut team)?;
            (answer, seconds, Some((placement, spread.nodes.len())))
        }
    });
    if prints_values {
        let mut out = Out::new();
        write(&mut out, &answer, &graph).map_err(|e| Failure::output(&e))?;
        return out.finish();
    }
    if let Some(path) = &args.out {
        let refused = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", path.display()));
        let mut file = BufWriter::with_capacity(256 << 10, File::create(path).map_err(refused)?);
        write(&mut file, &answer, &graph).and_then(|()| file.flush()).map_err(refused)?;
    }
    let summary = Summary {
        placement: placement.map(|(placement, _)| placement.name()),
        nodes: placement.map(|(_, nodes)| nodes),
        ..summary(args, &graph, &answer, seconds)
    };
    let mut out = Out::new();
    if args.json.json {
        out.json(&summary)?;
    } else {
        tell(&mut out, &summary)?;
    }
    out.finish()
}

/// What a kernel found, and how long it alone took.
fn timed<V: View>(args: &RunArgs, view: &V, sources: &[u32], team: &mut Team) -> Done<(Answer, f64)> {
    // Made when first asked for: no part of the kernel.
    view.blocks();
    let begun = Instant::now();
    let answer = solve(args, view, sources, team)?;
    Ok((answer, begun.elapsed().as_secs_f64()))
}

fn solve<V: View>(args: &RunArgs, graph: &V, sources: &[u32], team: &mut Team) -> Done<Answer> {
    let vertices = 0..graph.vertices() as u32;
    Ok(match args.kernel {
        Kernel::Bfs => Answer::Depths(bfs(graph, sources[0], team)?.depths()),
        Kernel::Pagerank => {
            let stop = Stop {
                iterations: args.iterations.unwrap_or(ITERATIONS),
                tolerance: args.tolerance.unwrap_or(TOLERANCE),
            };
            let ranked = pagerank(graph, stop, team)?;
            Answer::Scores { scores: ranked.scores.to_vec(), iterations: Some(ranked.iterations) }
        }
        Kernel::Cc | Kernel::CcSv => {
            let of = if args.kernel == Kernel::Cc { afforest } else { shiloach_vishkin };
            let components = of(graph, team)?;
            Answer::Components(vertices.map(|vertex| components.label(vertex)).collect())
        }
        Kernel::Bc => {
            let all: Vec<u32> = if sources.is_empty() { vertices.collect() } else { sources.to_vec() };
            Answer::Scores { scores: brandes(graph, &all, team)?.to_vec(), iterations: None }
        }
    })
}

/// A line a vertex, by the order of ids.
fn write(out: &mut dyn Write, answer: &Answer, graph: &Graph) -> std::io::Result<()> {
    let smallest = match answer {
        Answer::Components(labels) => graph.smallest_ids(labels),
        _ => BTreeMap::new(),
    };
    for vertex in graph.by_id() {
        let (id, at) = (graph.id(vertex), vertex as usize);
        match answer {
            Answer::Depths(depths) => writeln!(out, "{id}\t{}", depths[at])?,
            Answer::Components(labels) => writeln!(out, "{id}\t{}", smallest[&labels[at]])?,
            Answer::Scores { scores, .. } => writeln!(out, "{id}\t{:e}", scores[at])?,
        }
    }
    Ok(())
}

fn summary(args: &RunArgs, graph: &Graph, answer: &Answer, seconds: f64) -> Summary {
    let kernel = args.kernel.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut summary = Summary {
        kernel,
        vertices: graph.vertices() as u64,
        edges: graph.edges(),
        layout: graph.layout().name(),
        threads: args.threads,
        placement: None,
        nodes: None,
        seconds,
        iterations: None,
        reached: None,
        depth_max: None,
        components: None,
        largest_component: None,
        top: None,
    };
    match answer {
        Answer::Depths(depths) => {
            summary.reached = Some(depths.iter().filter(|depth| **depth >= 0).count() as u64);
            summary.depth_max = depths.iter().copied().max();
        }
        Answer::Components(labels) => {
            let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
            labels.iter().for_each(|label| *sizes.entry(*label).or_default() += 1);
            summary.components = Some(sizes.len() as u64);
            summary.largest_component = sizes.values().copied().max();
        }
        Answer::Scores { scores, iterations } => {
            let mut order: Vec<u32> = (0..scores.len() as u32).collect();
            let by_score = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
            if order.len() > TOP {
                order.select_nth_unstable_by(TOP, by_score);
                order.truncate(TOP);
            }
            order.sort_unstable_by(by_score);
            summary.top = Some(order.iter().map(|vertex| (graph.id(*vertex), scores[*vertex as usize])).collect());
            summary.iterations = *iterations;
        }
    }
    summary
}

fn tell(out: &mut Out, summary: &Summary) -> Done {
    let (kernel, seconds) = (&summary.kernel, summary.seconds);
    let iterations = summary.iterations.map_or_else(String::new, |n| format!(", {n} iterations"));
    let (vertices, edges) = (show_count(summary.vertices), show_count(summary.edges));
    let placed = match (summary.placement, summary.nodes) {
        (Some(placement), Some(nodes)) => format!(", {placement} on {nodes} nodes"),
        _ => String::new(),
    };
    out.line(format_args!(
        "{kernel} over {vertices} vertices and {edges} stored edges in {seconds:.4} s{iterations}{placed}"
    ))?;
    if let (Some(reached), Some(depth)) = (summary.reached, summary.depth_max) {
        out.line(format_args!("{} vertices reached, the farthest at depth {depth}", show_count(reached)))?;
    }
    if let Some(components) = summary.components {
        let largest = show_count(summary.largest_component.unwrap_or(0));
        out.line(format_args!("{} components, the largest has {largest} vertices", show_count(components)))?;
    }
    summary.top.iter().flatten().try_for_each(|(vertex, score)| out.line(format_args!("{vertex}\t{score:.6e}")))
}
