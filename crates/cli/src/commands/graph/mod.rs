//! `biombo graph`: load a graph, ask it, run kernels over it.

mod change;
mod load;
pub(super) mod nodes;
mod opened;
mod run;
mod show;

use clap::Subcommand;

use crate::failure::Done;

/// Load graphs, ask them and analyse them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
DIR is a graph's directory. Vertices have any numbers from 0 to 2^64 - 1 as ids, kept as given in all output.

Examples:
  biombo graph load votes wiki-Vote.txt.gz           SNAP's files as downloaded
  biombo graph run votes pagerank --out scores.tsv
  biombo graph neighbors votes 30
  biombo graph add votes more.el                     and graph delete: graphs change, and survive every crash
  biombo graph load web links.el --layout csr        a static one; with --media pmem read where it is, on persistent memory")]
pub(crate) enum GraphCommand {
    Load(load::LoadArgs),
    Add(change::AddArgs),
    Delete(change::DeleteArgs),
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
        GraphCommand::Add(args) => change::add(&args),
        GraphCommand::Delete(args) => change::delete(&args),
        GraphCommand::Run(args) => run::run(&args),
        GraphCommand::Neighbors(args) => show::neighbors(&args),
        GraphCommand::Degree(args) => show::degree(&args),
        GraphCommand::Stat(args) => show::stat(&args),
        GraphCommand::Verify(args) => show::verify(&args),
        GraphCommand::Export(args) => show::export(&args),
    }
}
