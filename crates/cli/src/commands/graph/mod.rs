//! `biombo graph`: load a graph, ask it, run kernels over it.

mod load;
mod run;
mod show;

use std::path::Path;

use biombo::graph::csr::{Csr, file};
use biombo::graph::ids::Ids;
use biombo_base::io::RealIo;
use clap::Subcommand;

use crate::failure::{Done, Failure};

/// Load graphs, ask them and analyse them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
DIR is a graph's directory. Vertices have any numbers from 0 to 2^64 - 1 as ids, kept as given in all output.

Examples:
  biombo graph load votes wiki-Vote.txt.gz           SNAP's files as downloaded
  biombo graph run votes pagerank --out scores.tsv
  biombo graph neighbors votes 30")]
pub(crate) enum GraphCommand {
    Load(load::LoadArgs),
    Run(run::RunArgs),
    Neighbors(show::NeighborsArgs),
    Degree(show::DegreeArgs),
    Stat(show::StatArgs),
    Verify(show::VerifyArgs),
    Export(show::ExportArgs),
}

/// Run it.
pub(crate) fn graph(command: GraphCommand) -> Done {
    match command {
        GraphCommand::Load(args) => load::load(&args),
        GraphCommand::Run(args) => run::run(&args),
        GraphCommand::Neighbors(args) => show::neighbors(&args),
        GraphCommand::Degree(args) => show::degree(&args),
        GraphCommand::Stat(args) => show::stat(&args),
        GraphCommand::Verify(args) => show::verify(&args),
        GraphCommand::Export(args) => show::export(&args),
    }
}

/// The graph in `dir`.
fn open(dir: &Path) -> Done<(Csr, Ids)> {
    Ok(file::open(&RealIo::new(), dir)?)
}

/// The inner number of a vertex that was named on the command line.
fn vertex(ids: &Ids, id: u64) -> Done<u32> {
    ids.vertex(id).ok_or_else(|| Failure::failed(format!("the graph has no vertex {id}")))
}

/// The id of a vertex that the graph has.
fn id(ids: &Ids, vertex: u32) -> u64 {
    ids.id(vertex).expect("invariant: kernels and lists name the graph's vertices only")
}
