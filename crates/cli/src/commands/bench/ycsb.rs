//! `biombo bench ycsb`.

use biombo_lab::workload::{Distribution, Task, Workload};
use clap::Args;

use super::options::{Defaults, Outputs, RunOptions};
use crate::failure::Done;
use crate::store_args::one_of;

pub(in crate::commands) const WORKLOADS: &[&str] = &["a", "b", "c", "d", "e", "f"];
pub(in crate::commands) const DISTRIBUTIONS: &[&str] = &["zipfian", "uniform", "latest", "hotspot", "shift"];

const DEFAULTS: Defaults =
    Defaults { operations: Some(1_000_000), seconds: None, threads: 2, value_bytes: 1_000, compression_ratio: 1.0 };

/// Run YCSB core workloads over engines, used directly and partitioned
#[derive(Debug, Args)]
#[command(after_help = "\
Workloads, as YCSB defines them:
  a  50 % reads, 50 % updates          d  95 % reads of the latest, 5 % inserts
  b  95 % reads, 5 % updates           e  95 % scans of 1 to 100 records, 5 % inserts
  c  reads only                        f  50 % reads, 50 % read-modify-writes

Lists, separated by commas, multiply: every workload, thread count, engine and layout is run, each in a process of its own on
freshly loaded records, with the same total cache. Repetitions interleave them; the table shows the median and the spread.
Ctrl-C ends the bench in good order: the lines of the runs that were done stay in the JSON file, and no store is left behind.

Examples:
  biombo bench ycsb --engine log --workload a
  biombo bench ycsb --engine log,lmdb,rocksdb --workload a,d --partitioning none,hard --partitions 8 --repeat 5
  biombo bench ycsb --engine log --workload a --durability sync --threads 32 --seconds 10
  biombo bench ycsb --engine rocksdb --workload b --rate 50000 --seconds 30      an open loop at 50,000 a second
  biombo bench ycsb --engine log,leveldb --workload c --json runs.jsonl --html report.html")]
pub(crate) struct YcsbArgs {
    /// Workloads: a, b, c, d, e, f
    #[arg(long = "workload", value_name = "W,W..", value_delimiter = ',', required = true, ignore_case = true,
        value_parser = one_of::<Workload>(WORKLOADS), hide_possible_values = true)]
    workloads: Vec<Workload>,
    /// Choose records by zipfian, uniform, latest, hotspot or shift (zipfian, every 5 s with other popular records) instead of as the
    /// workload says
    #[arg(long, value_name = "KIND", value_parser = one_of::<Distribution>(DISTRIBUTIONS), hide_possible_values = true)]
    distribution: Option<Distribution>,
    #[command(flatten)]
    run: RunOptions,
}

pub(super) fn run(args: YcsbArgs) -> Done {
    let task = |workload: Workload| Task::Ycsb {
        workload,
        distribution: args.distribution.unwrap_or(workload.distribution()),
    };
    let tasks = args.workloads.into_iter().map(task).collect();
    let outputs = Outputs::of(&args.run);
    let (plan, unused) = args.run.plan(tasks, &DEFAULTS)?;
    super::measure(outputs, plan, &unused)
}
