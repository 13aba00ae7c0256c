//! `biombo bench db`.

use biombo_lab::workload::{Benchmark, Task};
use clap::Args;

use super::options::{Defaults, Outputs, RunOptions};
use crate::failure::Done;
use crate::store_args::one_of;

const BENCHMARKS: &[&str] = &["fillseq", "fillrandom", "overwrite", "readseq", "readrandom", "readwhilewriting"];

/// Those of db_bench: `--num` operations, one thread, values of 100 bytes that compress to half.
const DEFAULTS: Defaults =
    Defaults { operations: None, seconds: None, threads: 1, value_bytes: 100, compression_ratio: 0.5 };

/// Run db_bench's benchmarks over engines, used directly and partitioned
#[derive(Debug, Args)]
#[command(after_help = "\
Benchmarks, as LevelDB's and RocksDB's db_bench define them:
  fillseq     put every key in order into an empty store      readseq           read in order, from the first key
  fillrandom  put random keys into an empty store             readrandom        get random keys
  overwrite   put random keys over a loaded store             readwhilewriting  get random keys, one more thread puts some

Keys have one length: decimal numbers, after as many `a` as it takes. Random keys are drawn with replacement. Values compress to
half (--compression-ratio 1: not at all). What needs data loads every key first, in no order, outside the measured time.
Several --key-bytes or --value-bytes are a sweep: the report plots throughput, latency, write amplification and compaction
against them. Compaction shows once the data is several times the caches: give small ones.
Lists multiply, each run has a process of its own, repetitions interleave, Ctrl-C keeps what was done, as in `bench ycsb`.

Examples:
  biombo bench db --engine log,rocksdb --benchmark fillrandom,readrandom
  biombo bench db --engine log,leveldb --benchmark fillrandom --key-bytes 16,32,64,128 --value-bytes 256,1024,4096 \\
    --cache-bytes 16MiB --repeat 3 --html sweep.html
  biombo bench db --engine log,lmdb --benchmark readwhilewriting --threads 1,2 --seconds 10 --repeat 3
  biombo bench db --engine leveldb --benchmark fillrandom --compression-ratio 1 --json runs.jsonl")]
pub(crate) struct DbArgs {
    /// Benchmarks: fillseq, fillrandom, overwrite, readseq, readrandom, readwhilewriting
    #[arg(long = "benchmark", value_name = "B,B..", value_delimiter = ',', required = true,
        value_parser = one_of::<Benchmark>(BENCHMARKS), hide_possible_values = true)]
    benchmarks: Vec<Benchmark>,
    #[command(flatten)]
    run: RunOptions,
}

pub(super) fn run(args: DbArgs) -> Done {
    let tasks = args.benchmarks.into_iter().map(Task::from).collect();
    let outputs = Outputs::of(&args.run);
    let (plan, unused) = args.run.plan(tasks, &DEFAULTS)?;
    super::measure(outputs, plan, &unused)
}
