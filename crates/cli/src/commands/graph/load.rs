//! `biombo graph load`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use biombo::graph::csr::{Csr, Shape, file};
use biombo::graph::edges::EdgeList;
use biombo::graph::ids::Ids;
use biombo::graph::owner::Owner;
use biombo::graph::pma::{Durable, Media};
use biombo::graph::team::Team;
use biombo::graph::view::View;
use biombo_base::io::{Io, RealIo};
use clap::Args;
use serde::Serialize;

use super::nodes::{NodesArgs, Said};
use super::opened::{Kept, Layout, MediaArg, has_static};
use crate::args::JsonArg;
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::show_count;

/// Make a graph of files of edges
#[derive(Debug, Args)]
#[command(after_help = "\
Files: one edge a line, `source destination`, lines with # are comments (SNAP, .el; weights of .wel and times of .tel are left out), or
Matrix Market; plain or compressed with gzip or Zstandard. Repeated edges are stored once, loops are kept.
The graph is durable when the command returns; before, nothing of it is there. --placement and --nodes are kept with it: kernels run so
unless they are told otherwise.

Examples:
  biombo graph load votes wiki-Vote.txt.gz
  zcat edges.gz | biombo graph load web - --undirected
  biombo graph load web links.el                   can be changed: graph add, graph delete
  biombo graph load web links.el --layout csr      static: one file, read as it is
  biombo graph load /mnt/pmem/web links.el --media pmem      on persistent memory; graph stat says whether it is played
  biombo graph load /mnt/pmem/web links.el --media pmem --layout csr     static: kernels read it there, nothing but ids is copied")]
pub(crate) struct LoadArgs {
    /// The graph's directory; it must not have a graph yet
    dir: PathBuf,
    /// Files of edges, `-` for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Edges have a direction (default, unless a file says otherwise)
    #[arg(long, conflicts_with = "undirected")]
    directed: bool,
    /// Edges have no direction
    #[arg(long)]
    undirected: bool,
    /// How it is stored
    #[arg(long, value_enum, default_value_t = Layout::Pma)]
    layout: Layout,
    /// What it is kept on
    #[arg(long, value_enum, default_value_t = MediaArg::Disk)]
    media: MediaArg,
    /// Threads that build it
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    nodes: NodesArgs,
    /// Print `acked N` when the graph is durable, N being all edges: it is there as a whole or not at all
    #[arg(long)]
    acks: bool,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Serialize)]
struct Loaded {
    vertices: u64,
    edges: u64,
    directed: bool,
    layout: &'static str,
    #[serde(flatten)]
    kept: Kept,
    lines: u64,
    seconds: f64,
}

/// Run it.
pub(crate) fn load(args: &LoadArgs) -> Done {
    let begun = Instant::now();
    let io = RealIo::shared();
    match (args.media, args.layout) {
        (_, Layout::Adjacency | Layout::Buffered) => {
            let layout = args.layout.name();
            return Err(Failure::usage(format!(
                "--layout {layout} is for `graph run` and `bench graph`: a graph that changes is kept as pma, and runs in any layout"
            )));
        }
        (MediaArg::Dram, _) => {
            let message =
                "--media dram ends with the command, and nothing would be left: use disk or pmem, or `bench graph`";
            return Err(Failure::usage(message));
        }
        (MediaArg::Disk | MediaArg::Pmem, Layout::Csr | Layout::Pma) => {}
    }
    let said = args.nodes.said()?;
    refuse_another(&*io, &args.dir)?;
    let mut team = Team::new(args.threads).map_err(|e| Failure::usage(e.to_string()))?;
    let mut list = EdgeList::read(&args.files)?;
    let lines = list.edges.len() as u64;
    let is_directed = args.directed || (!args.undirected && list.is_directed.unwrap_or(true));
    let shape = if is_directed { Shape::DIRECTED } else { Shape::UNDIRECTED };
    if is_directed {
        list.mirror();
    }
    let graph = Csr::build(list.ids.len(), &list.edges, shape, &mut team)?;
    // From the placement to the graph, or to the end of both: what another load is writing is no business of this one.
    let owner = Owner::make(&*io, &args.dir)?;
    // Somebody may have been faster.
    refuse_another(&*io, &args.dir)?;
    // Before the graph, with which the command has done what it was asked: nothing may fail after that.
    said.keep(&*io, &args.dir)?;
    let media = make(args, &io, &owner, &graph, &list.ids, shape.keeps_loops).inspect_err(|_| {
        if refuse_another(&*io, &args.dir).is_ok() {
            Said::forget(&*io, &args.dir);
        }
    })?;
    drop(owner);
    let loaded = Loaded {
        vertices: graph.vertices() as u64,
        edges: graph.edges(),
        directed: is_directed,
        layout: args.layout.name(),
        kept: Kept::on(media),
        lines,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let mut out = Out::new();
    if args.acks {
        out.line(format_args!("acked {}", loaded.lines))?;
    }
    if args.json.json {
        out.json(&loaded)?;
    } else {
        let kind = if is_directed { "directed" } else { "undirected" };
        let (vertices, edges) = (show_count(loaded.vertices), show_count(loaded.edges));
        let (lines, seconds) = (show_count(loaded.lines), loaded.seconds);
        out.line(format_args!(
            "loaded {lines} edges in {seconds:.2} s: {vertices} vertices, {edges} stored edges, {kind}"
        ))?;
        if media != Media::Disk {
            out.line(format_args!("kept on {media}"))?;
        }
    }
    out.finish()
}

/// Make the graph durable, as a whole or not at all; what it is kept on.
fn make(args: &LoadArgs, io: &Arc<dyn Io>, owner: &Owner, graph: &Csr, ids: &Ids, keeps_loops: bool) -> Done<Media> {
    let dir = &args.dir;
    match (args.layout, args.media) {
        (Layout::Csr, MediaArg::Pmem) => Ok(Media::Pmem(file::pmem::save(io, dir, graph, ids)?)),
        (Layout::Csr, _) => {
            file::save(&**io, dir, graph, ids)?;
            Ok(Media::Disk)
        }
        (_, MediaArg::Pmem) => Ok(Media::Pmem(Durable::create_owned_on_pmem(owner, io, dir, graph, ids, keeps_loops)?)),
        // Other layouts and media were refused.
        (_, MediaArg::Disk | MediaArg::Dram) => {
            Durable::create_owned(owner, io, dir, graph, ids, keeps_loops)?;
            Ok(Media::Disk)
        }
    }
}

fn refuse_another(io: &dyn Io, dir: &Path) -> Done {
    let has_store = io.exists(&dir.join("MANIFEST")).unwrap_or(false);
    if has_store {
        return Err(Failure::failed(format!("{} has a store: name another directory for the graph", dir.display())));
    }
    if !has_static(io, dir)? && !Durable::exists(io, dir)? {
        return Ok(());
    }
    let dir = dir.display();
    Err(Failure::failed(format!("{dir} has a graph already: name another directory or remove it")))
}
