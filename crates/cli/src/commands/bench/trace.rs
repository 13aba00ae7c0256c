//! `biombo bench trace`.

use std::path::PathBuf;

use biombo_lab::bench::Plan;
use biombo_lab::workload::Task;
use biombo_lab::workload::trace::survey;
use clap::Args;

use super::options::{Defaults, Outputs, RunOptions};
use crate::failure::{Done, Failure};

/// Replay recorded operations over engines, used directly and partitioned
#[derive(Debug, Args)]
#[command(after_help = "\
A trace is text, an operation a line; lines end with a newline:
  0,key          read
  1,key          write: a new value of --value-bytes
  2,key,limit    scan: up to so many records in order from the key on
Keys are taken as they are, any bytes but commas and line ends. With several files each is replayed by a thread of its own;
one file is replayed by every thread of --threads. Without --operations or --seconds a file is replayed once, else again
from its first line for as long as it takes.

First every file is read once: a broken line is an error that names file and line, before anything is started. Then every key that
the files name is put, outside the measured time, unless --no-load asks for an empty store, where a read that
finds nothing is no error. Files are never held in memory.

Examples:
  printf '1,apple\\n0,apple\\n2,apple,10\\n' > day.txt
  biombo bench trace --engine log,lmdb day.txt
  biombo bench trace --engine log --partitions 8 worker1.txt,worker2.txt --repeat 5 --html trace.html
  biombo bench trace --engine lmdb --threads 1,2 --seconds 10 --rate 50000 day.txt")]
pub(crate) struct TraceArgs {
    /// Files, one for each thread, or one for all
    #[arg(value_name = "FILE,FILE..", value_delimiter = ',', required = true)]
    files: Vec<PathBuf>,
    /// Begin with an empty store
    #[arg(long)]
    no_load: bool,
    #[command(flatten)]
    run: RunOptions,
}

pub(super) fn run(args: TraceArgs) -> Done {
    let TraceArgs { files, no_load, run } = args;
    if run.records.is_some() {
        return Err(Failure::usage("a trace says itself which records there are: leave --records out"));
    }
    if !run.key_bytes.is_empty() {
        return Err(Failure::usage("a trace has its own keys: leave --key-bytes out"));
    }
    Outputs::of(&run).check(&files, "a file of the trace")?;
    let counts = survey(&files).map_err(|e| Failure::failed(e.to_string()))?;
    let threads = u32::try_from(files.len()).unwrap_or(u32::MAX);
    let defaults = Defaults { operations: Some(1), seconds: None, threads, value_bytes: 1_000, compression_ratio: 1.0 };
    let (once, outputs) = (!run.has_length(), Outputs::of(&run));
    let (plan, unused) = run.plan(vec![Task::Trace { counts }], &defaults)?;
    let plan = Plan {
        records: counts.keys,
        key_bytes: vec![counts.key_bytes_mean().max(1)],
        traces: files,
        preload: !no_load,
        once,
        ..plan
    };
    super::measure(outputs, plan, &unused)
}
