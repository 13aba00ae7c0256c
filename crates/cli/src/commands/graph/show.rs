//! `biombo graph neighbors`, `degree`, `stat`, `verify`, `export`: what a graph holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biombo::graph::numa::{Load, Owners, Placement};
use biombo::graph::team::Team;
use biombo::graph::view::View;
use biombo_base::topology::Spread;
use biombo_base::{Error, ErrorKind};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::opened::{Graph, Kept, Lists, Memory, over};
use crate::args::{DirArg, JsonArg};
use crate::commands::verify::Damages;
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::{show_bytes, show_count};

/// Print the vertices that edges of a vertex lead to, one a line
#[derive(Debug, Args)]
pub(crate) struct NeighborsArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The vertex
    #[arg(value_name = "V")]
    vertex: u64,
    /// Print those that edges to it come from
    #[arg(long = "in")]
    inward: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Print how many edges leave a vertex
#[derive(Debug, Args)]
pub(crate) struct DegreeArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The vertex
    #[arg(value_name = "V")]
    vertex: u64,
    /// Print how many edges lead to it
    #[arg(long = "in")]
    inward: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Print a graph's figures
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Show the edges of each of so many NUMA nodes too, under each placement (whether the machine has them or not)
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    #[command(flatten)]
    json: JsonArg,
}

/// Read and check everything
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status 1 and one line for the damage: FILE: offset N: what is wrong; it ends what can be read. With --json
{\"file\":..,\"offset\":..,\"what\":..}, then {\"vertices\":null,\"edges\":null,\"ok\":false}.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    json: JsonArg,
}

/// Write a graph's edges to a file
#[derive(Debug, Args)]
#[command(after_help = "\
edge-list: `source<TAB>destination` a line, an undirected edge once. adjacency-list: `vertex`, then its neighbours, a line; isolated
vertices have a line too. adjacency-matrix, for graphs of at most 4,096 vertices: a line of the ids, then for each of them a line of 0 and 1.
csr: a line of the ids, one of offsets (one more than ids), one of places among the ids, to which the edges lead.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    dir: DirArg,
    /// The file to write, `-` for standard output
    file: PathBuf,
    /// How
    #[arg(long, value_enum, default_value_t = Format::EdgeList)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    EdgeList,
    AdjacencyList,
    AdjacencyMatrix,
    Csr,
}

/// A matrix of more vertices is of no use to anybody.
const MATRIX_MAX: usize = 4096;

#[derive(Serialize)]
struct Neighbors {
    vertex: u64,
    neighbors: Vec<u64>,
}

#[derive(Serialize)]
struct Degree {
    vertex: u64,
    degree: u64,
}

#[derive(Serialize)]
struct Figures {
    vertices: u64,
    edges: u64,
    directed: bool,
    layout: &'static str,
    #[serde(flatten)]
    kept: Kept,
    isolated: u64,
    loops: u64,
    degree_max: u64,
    degree_mean: f64,
    /// All of it; of a static graph on persistent memory what it takes there.
    memory_bytes: u64,
    /// What of it the in-edges of a directed graph take.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_edges_memory_bytes: Option<u64>,
    /// The rest, by stored edges.
    bytes_per_edge: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_in_edge: Option<f64>,
    /// By placement: edges that lead to the vertices of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    edges_per_node: Option<BTreeMap<&'static str, Vec<u64>>>,
}

#[derive(Serialize)]
struct Verified {
    /// None where they could not be read.
    vertices: Option<u64>,
    edges: Option<u64>,
    ok: bool,
}

fn open(dir: &DirArg) -> Done<Graph> {
    Ok(Graph::open(&dir.dir, &mut Team::new(1)?)?)
}

/// The ids of a vertex's neighbours.
fn ids_of(dir: &DirArg, named: u64, inward: bool) -> Done<Vec<u64>> {
    let graph = open(dir)?;
    let vertex = graph.vertex(named)?;
    Ok(graph.ids(if inward { graph.in_neighbors(vertex) } else { graph.out_neighbors(vertex) }))
}

/// Run it.
pub(crate) fn neighbors(args: &NeighborsArgs) -> Done {
    let neighbors = ids_of(&args.dir, args.vertex, args.inward)?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Neighbors { vertex: args.vertex, neighbors })?;
    } else {
        neighbors.iter().try_for_each(|neighbor| out.line(neighbor))?;
    }
    out.finish()
}

/// Run it.
pub(crate) fn degree(args: &DegreeArgs) -> Done {
    let degree = ids_of(&args.dir, args.vertex, args.inward)?.len() as u64;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Degree { vertex: args.vertex, degree })?;
    } else {
        out.line(degree)?;
    }
    out.finish()
}

/// The edges of each of `nodes` nodes, by placement.
fn edges_per_node<V: View>(view: &V, nodes: usize) -> Done<BTreeMap<&'static str, Vec<u64>>> {
    let mut team = Team::new(1)?;
    let load = Load::of(view, &mut team);
    let edges = |placement: Placement| {
        let owners = Owners::new(placement, nodes, &load);
        (placement.name(), owners.edges_by_node(view, &mut team))
    };
    Ok(Placement::ALL.into_iter().map(edges).collect())
}

/// Run it.
pub(crate) fn stat(args: &StatArgs) -> Done {
    if let Some(nodes) = args.nodes.filter(|nodes| !(1..=Spread::NODES_MAX).contains(nodes)) {
        return Err(Failure::usage(format!("--nodes are 1 to {}, not {nodes}", Spread::NODES_MAX)));
    }
    let graph = open(&args.dir)?;
    let edges_per_node = match args.nodes {
        Some(nodes) => Some(over!(graph, view => edges_per_node(view, nodes)?)),
        None => None,
    };
    let vertices = 0..graph.vertices() as u32;
    let degrees = vertices.clone().map(|vertex| graph.out_neighbors(vertex).len() as u64);
    let alone = |vertex: &u32| graph.out_neighbors(*vertex).is_empty() && graph.in_neighbors(*vertex).is_empty();
    let has_loop = |vertex: &u32| graph.out_neighbors(*vertex).binary_search(vertex).is_ok();
    let Memory { bytes: memory_bytes, in_edges: in_edges_memory_bytes } = graph.memory;
    let out_edges_memory_bytes = memory_bytes - in_edges_memory_bytes.unwrap_or(0);
    let each = |bytes: u64| (graph.edges() > 0).then(|| bytes as f64 / graph.edges() as f64);
    let figures = Figures {
        vertices: graph.vertices() as u64,
        edges: graph.edges(),
        directed: graph.is_directed(),
        layout: graph.layout().name(),
        kept: Kept::on(graph.media),
        isolated: vertices.clone().filter(alone).count() as u64,
        loops: vertices.filter(has_loop).count() as u64,
        degree_max: degrees.max().unwrap_or(0),
        degree_mean: graph.edges() as f64 / graph.vertices().max(1) as f64,
        memory_bytes,
        in_edges_memory_bytes,
        bytes_per_edge: each(out_edges_memory_bytes),
        bytes_per_in_edge: in_edges_memory_bytes.and_then(each),
        edges_per_node,
    };
    let mut out = Out::new();
    if args.json.json {
        out.json(&figures)?;
        return out.finish();
    }
    let kind = if figures.directed { "directed" } else { "undirected" };
    out.line(format_args!("layout        {}, {kind}", figures.layout))?;
    let in_place = if graph.is_read_in_place() { "; lists are read there" } else { "" };
    out.line(format_args!("media         {}{in_place}", graph.media))?;
    out.line(format_args!(
        "vertices      {} ({} isolated)",
        show_count(figures.vertices),
        show_count(figures.isolated)
    ))?;
    out.line(format_args!("stored edges  {} ({} loops)", show_count(figures.edges), show_count(figures.loops)))?;
    out.line(format_args!("out-degree    {:.2} on average, {} at most", figures.degree_mean, figures.degree_max))?;
    let each =
        |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| format!(", {bytes:.2} bytes per stored edge"));
    let apart = if in_edges_memory_bytes.is_some() { ", without in-edges" } else { "" };
    out.line(format_args!(
        "memory        {}{}{apart}",
        show_bytes(out_edges_memory_bytes),
        each(figures.bytes_per_edge)
    ))?;
    if let Some(bytes) = in_edges_memory_bytes {
        out.line(format_args!("in-edges      {}{}", show_bytes(bytes), each(figures.bytes_per_in_edge)))?;
    }
    for (placement, edges) in figures.edges_per_node.iter().flatten() {
        let share =
            |of: &u64| format!("{} ({:.2} %)", show_count(*of), 100.0 * *of as f64 / figures.edges.max(1) as f64);
        let shares: Vec<String> = edges.iter().map(share).collect();
        out.line(format_args!("{placement:13} {}", shares.join("  ")))?;
    }
    out.finish()
}

/// The graph in `dir`, all of which was read and checked. Opening checks everything of a file: checksums, the order of lists, the ends of edges.
fn read_all(dir: &Path) -> biombo_base::Result<Graph> {
    let graph = Graph::open(dir, &mut Team::new(1)?)?;
    if let Lists::Pma(snapshot) = &graph.lists {
        snapshot.verify().map_err(|what| Error::corruption(dir, 0, what))?;
    }
    Ok(graph)
}

/// Run it.
pub(crate) fn verify(args: &VerifyArgs) -> Done {
    let dir = &args.dir.dir;
    let mut damages = Damages::new(&args.json);
    let graph = match read_all(dir) {
        Ok(graph) => Some(graph),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            damages.say_error(dir, &error);
            None
        }
        Err(error) => return Err(error.into()),
    };
    let mut out = damages.said()?;
    let (vertices, edges) = (graph.as_ref().map(|graph| graph.vertices() as u64), graph.as_ref().map(Graph::edges));
    if args.json.json {
        out.json(&Verified { vertices, edges, ok: graph.is_some() })?;
    } else if let (Some(vertices), Some(edges)) = (vertices, edges) {
        let (vertices, edges) = (show_count(vertices), show_count(edges));
        out.line(format_args!("{vertices} vertices and {edges} stored edges read, no damage"))?;
    }
    out.finish()?;
    match graph {
        Some(_) => Ok(()),
        None => Err(Failure::failed(format!(
            "the graph in {0} is damaged: load it again, or restore a copy of {0}",
            dir.display()
        ))),
    }
}

/// Run it.
pub(crate) fn export(args: &ExportArgs) -> Done {
    let graph = open(&args.dir)?;
    if args.format == Format::AdjacencyMatrix && graph.vertices() > MATRIX_MAX {
        let vertices = graph.vertices();
        return Err(Failure::failed(format!(
            "a matrix of {vertices} vertices is too large, {MATRIX_MAX} is the most: export an adjacency-list or csr"
        )));
    }
    let write = |out: &mut dyn Write| -> std::io::Result<()> {
        match args.format {
            Format::AdjacencyMatrix => return matrix(&graph, out).and_then(|()| out.flush()),
            Format::Csr => return rows(&graph, out).and_then(|()| out.flush()),
            Format::EdgeList | Format::AdjacencyList => {}
        }
        if args.format == Format::EdgeList {
            heading(&graph, out)?;
        }
        for vertex in graph.by_id() {
            let name = graph.id(vertex);
            let neighbors = graph.ids(graph.out_neighbors(vertex));
            match args.format {
                Format::AdjacencyMatrix | Format::Csr => {}
                Format::AdjacencyList => {
                    write!(out, "{name}")?;
                    neighbors.iter().try_for_each(|neighbor| write!(out, "\t{neighbor}"))?;
                    writeln!(out)?;
                }
                Format::EdgeList => {
                    let mut each = neighbors.iter().filter(|neighbor| graph.is_directed() || **neighbor >= name);
                    each.try_for_each(|neighbor| writeln!(out, "{name}\t{neighbor}"))?;
                }
            }
        }
        out.flush()
    };
    if args.file.as_os_str() == "-" {
        let mut out = Out::new();
        write(&mut out).map_err(|e| Failure::output(&e))?;
        return out.finish();
    }
    let refused = |e: std::io::Error| Failure::failed(format!("cannot write {}: {e}", args.file.display()));
    let file = File::create(&args.file).map_err(refused)?;
    write(&mut BufWriter::with_capacity(256 << 10, file)).map_err(refused)
}

/// What `graph load` must know of edges that have no direction, and what their reader should: a list of edges names no vertex that has none.
fn heading(graph: &Graph, out: &mut dyn Write) -> std::io::Result<()> {
    if !graph.is_directed() {
        writeln!(out, "# Undirected graph")?;
    }
    let is_isolated = |vertex: &u32| graph.out_neighbors(*vertex).is_empty() && graph.in_neighbors(*vertex).is_empty();
    match (0..graph.vertices() as u32).filter(is_isolated).count() {
        0 => Ok(()),
        isolated => writeln!(out, "# Vertices without edges, which are not listed: {isolated}"),
    }
}

/// Items of one line, with blanks between them.
fn line<T: std::fmt::Display>(out: &mut dyn Write, items: impl IntoIterator<Item = T>) -> std::io::Result<()> {
    let mut blank = "";
    for item in items {
        write!(out, "{blank}{item}")?;
        blank = " ";
    }
    writeln!(out)
}

/// The vertices by the order of their ids, and the place of each in it.
fn places(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let order = graph.by_id();
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(vertex, place)| places[*vertex as usize] = place);
    (order, places)
}

fn matrix(graph: &Graph, out: &mut dyn Write) -> std::io::Result<()> {
    let (order, places) = places(graph);
    line(out, order.iter().map(|vertex| graph.id(*vertex)))?;
    let mut row = vec![0u8; order.len()];
    for vertex in &order {
        row.fill(0);
        graph.out_neighbors(*vertex).iter().for_each(|to| row[places[*to as usize] as usize] = 1);
        line(out, &row)?;
    }
    Ok(())
}

/// Ids, offsets, places of neighbours: compressed sparse rows.
fn rows(graph: &Graph, out: &mut dyn Write) -> std::io::Result<()> {
    let (order, places) = places(graph);
    line(out, order.iter().map(|vertex| graph.id(*vertex)))?;
    let mut end = 0;
    let ends = order.iter().map(|vertex| {
        end += graph.out_neighbors(*vertex).len();
        end
    });
    line(out, std::iter::once(0).chain(ends))?;
    let row = |vertex: &u32| {
        let mut row: Vec<u32> = graph.out_neighbors(*vertex).iter().map(|to| places[*to as usize]).collect();
        row.sort_unstable();
        row
    };
    line(out, order.iter().flat_map(row))
}
