//! The command line: what can be asked, and the help that teaches it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    advise, bench, compact, copy, engines, graph, key, plan, repair, repartition, reproduce, scan, stat, verify,
};
use crate::failure::{Done, Failure};
use crate::format::tsv;
use crate::load;

/// An embedded store whose partitions run on several storage engines, and a laboratory that measures it.
#[derive(Debug, Parser)]
#[command(
    name = "biombo",
    version,
    about,
    max_term_width = 110,
    disable_help_subcommand = false,
    arg_required_else_help = false,
    after_help = "\
DIR is a store's directory. One process at a time has it open.
Exit status: 0 done, 1 the operation failed, 2 the arguments are wrong. Errors are one line on standard error.

Examples:
  printf 'apple\\tred\\n' | biombo load fruit --partitions 8    create a store of 8 partitions and load it
  biombo get fruit apple                                      red
  biombo scan fruit --prefix a --limit 10                     keys and values in order
  biombo bench ycsb --engine log,lmdb --workload a,d      measure
  biombo bench db --engine log,rocksdb --benchmark fillrandom
  biombo help load                                            all of one command"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(load::LoadArgs),
    Get(key::GetArgs),
    Put(key::PutArgs),
    Delete(key::DeleteArgs),
    Scan(scan::ScanArgs),
    Count(scan::CountArgs),
    Stat(stat::StatArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    Checkpoint(copy::CheckpointArgs),
    Backup(copy::BackupArgs),
    Restore(copy::RestoreArgs),
    Compact(compact::CompactArgs),
    Plan(plan::PlanArgs),
    Repartition(repartition::RepartitionArgs),
    Engines(engines::EnginesArgs),
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    #[command(subcommand)]
    Bench(Box<bench::BenchCommand>),
    Reproduce(reproduce::ReproduceArgs),
    Advise(Box<advise::AdviseArgs>),
    /// One run of a bench, in a process of its own
    #[command(hide = true)]
    BenchWorker,
}

impl Command {
    /// Do it.
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Load(args) => load::load(args),
            Self::Get(args) => key::get(&args),
            Self::Put(args) => key::put(args),
            Self::Delete(args) => key::delete(&args),
            Self::Scan(args) => scan::scan(&args),
            Self::Count(args) => scan::count(&args),
            Self::Stat(args) => stat::stat(&args),
            Self::Verify(args) => verify::verify(&args),
            Self::Repair(args) => repair::repair(&args),
            Self::Checkpoint(args) => copy::checkpoint(&args),
            Self::Backup(args) => copy::backup(&args),
            Self::Restore(args) => copy::restore(args),
            Self::Compact(args) => compact::compact(&args),
            Self::Plan(args) => plan::plan(&args),
            Self::Repartition(args) => repartition::repartition(&args),
            Self::Engines(args) => engines::engines(&args),
            Self::Graph(command) => graph::graph(command),
            Self::Bench(command) => bench::bench(*command),
            Self::Reproduce(args) => reproduce::reproduce(&args),
            Self::Advise(args) => advise::advise(*args),
            Self::BenchWorker => bench::bench_worker(),
        }
    }
}

/// The directory of a store.
#[derive(Debug, Args)]
pub(crate) struct DirArg {
    /// The store's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Whether programs read the output.
#[derive(Debug, Args)]
pub(crate) struct JsonArg {
    /// Print JSON: one object, or one a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How keys stand on the command line.
#[derive(Debug, Args)]
pub(crate) struct EscapedArg {
    /// Keys and values on the command line have the escapes of tsv (\t \n \\ \xHH); otherwise they are taken as they are
    #[arg(long)]
    escaped: bool,
}

impl EscapedArg {
    /// The bytes that `text` stands for; `what` names it in the error.
    pub(crate) fn bytes(&self, text: OsString, what: &str) -> Done<Vec<u8>> {
        let text = text.into_vec();
        if !self.escaped {
            return Ok(text);
        }
        let mut bytes = Vec::new();
        tsv::unescape(&text, &mut bytes).map_err(|e| Failure::usage(format!("{what}: {e}")))?;
        Ok(bytes)
    }

    /// The key that `text` stands for, which no engine would refuse for its length alone.
    pub(crate) fn key(&self, text: &OsString) -> Done<Vec<u8>> {
        let key = self.bytes(text.clone(), "KEY")?;
        match key.len() {
            0 => Err(Failure::usage("KEY is empty: a key has at least one byte")),
            bytes if bytes > KEY_BYTES_MAX => {
                Err(Failure::usage(format!("KEY has {bytes} bytes: a key has at most {KEY_BYTES_MAX}")))
            }
            _ => Ok(key),
        }
    }
}

/// The longest key of any engine, in bytes.
const KEY_BYTES_MAX: usize = biombo::KEY_BYTES_MAX;
