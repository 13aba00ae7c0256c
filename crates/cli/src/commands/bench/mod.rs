//! `biombo bench`: the laboratory from the command line.

mod watch;

use std::path::{Path, PathBuf};

use biombo::Durability;
use biombo_lab::bench::Plan;
use biombo_lab::process::{WorkerCommand, worker};
use biombo_lab::spec::{Partitioning, Placement};
use biombo_lab::workload::{Distribution, Workload};
use clap::{Args, Subcommand};

use self::watch::{Output, Watch};
use crate::failure::{Done, Failure};
use crate::out::Out;
use crate::size::parse_bytes;
use crate::store_args::{DURABILITIES, PARTITIONINGS, PLACEMENTS, one_of};

/// Measure engines and layouts under a workload
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Ycsb(YcsbArgs),
}

const WORKLOADS: &[&str] = &["a", "b", "c", "d", "e", "f"];
const DISTRIBUTIONS: &[&str] = &["zipfian", "uniform", "latest", "hotspot"];

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
  biombo bench ycsb --engine lmdb --workload a
  biombo bench ycsb --engine lmdb,rocksdb --workload a,d --partitioning none,hard --partitions 8 --repeat 5
  biombo bench ycsb --engine lmdb --workload a --durability sync --threads 32 --seconds 10
  biombo bench ycsb --engine rocksdb --workload b --rate 50000 --seconds 30      an open loop at 50,000 a second
  biombo bench ycsb --engine lmdb,leveldb --workload c --json runs.jsonl --html report.html")]
pub(crate) struct YcsbArgs {
    /// Engines, by the names that `biombo engines` lists
    #[arg(long = "engine", value_name = "E,E..", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// Workloads: a, b, c, d, e, f
    #[arg(long = "workload", value_name = "W,W..", value_delimiter = ',', required = true, ignore_case = true,
        value_parser = one_of::<Workload>(WORKLOADS), hide_possible_values = true)]
    workloads: Vec<Workload>,
    /// Records to load before each run
    #[arg(long, value_name = "N", default_value_t = Plan::default().records)]
    records: u64,
    /// Operations of each run, of all threads together
    #[arg(long, value_name = "N", default_value_t = Plan::default().operations, conflicts_with = "seconds")]
    operations: u64,
    /// Run for so many seconds instead
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// An open loop: start so many operations a second, however long each takes (latency counts from the planned start)
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
    /// Client threads
    #[arg(long, value_name = "T,T..", value_delimiter = ',', default_value = "2")]
    threads: Vec<u32>,
    /// Layouts: none (the engine used directly), soft, hard [default: hard when --partitions is given, else none]
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', value_parser = one_of::<Partitioning>(PARTITIONINGS),
        hide_possible_values = true)]
    partitioning: Vec<Partitioning>,
    /// Partitions of soft and hard layouts [default: 8]
    #[arg(long, value_name = "P,P..", value_delimiter = ',')]
    partitions: Vec<u32>,
    /// Who runs a partition's writes
    #[arg(long, value_parser = ["direct"], default_value = "direct", hide = true)]
    executor: String,
    /// How keys find their partition: hash or range (boundaries cut from the loaded keys)
    #[arg(long, value_name = "KIND", default_value = "hash", value_parser = one_of::<Placement>(PLACEMENTS),
        hide_possible_values = true)]
    placement: Placement,
    /// When a write is acknowledged: sync, os
    #[arg(long, value_name = "LEVEL", default_value = "os", value_parser = one_of::<Durability>(DURABILITIES),
        hide_possible_values = true)]
    durability: Durability,
    /// Bytes of each key
    #[arg(long, value_name = "N", default_value_t = Plan::default().key_bytes)]
    key_bytes: u32,
    /// Bytes of each value, incompressible
    #[arg(long, value_name = "N", default_value_t = Plan::default().value_bytes)]
    value_bytes: u32,
    /// Choose records by zipfian, uniform, latest or hotspot instead of as the workload says
    #[arg(long, value_name = "KIND", value_parser = one_of::<Distribution>(DISTRIBUTIONS), hide_possible_values = true)]
    distribution: Option<Distribution>,
    /// All caches of a store together, in bytes or with KiB, MiB, GiB [default: 2GiB, or a quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cache_bytes: Option<u64>,
    /// Repetitions of everything, interleaved
    #[arg(long, value_name = "R", default_value_t = 1)]
    repeat: u32,
    /// Makes the runs repeatable; each repetition adds one
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Where the stores are made, and removed again [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write each run as a JSON line to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Run it.
pub(crate) fn bench(command: BenchCommand) -> Done {
    match command {
        BenchCommand::Ycsb(args) => ycsb(args),
    }
}

/// A run in a process of its own, started by another `biombo`: its description comes on standard input.
pub(crate) fn bench_worker() -> Done {
    worker::main(&registry(), std::io::stdin().lock(), std::io::stdout()).map_err(Failure::from)
}

/// The engines that can be measured: those of this build, and the null engine that shows what the driver itself costs.
fn registry() -> biombo::Registry {
    let mut registry = biombo::registry();
    registry.add(biombo_lab::null::kind());
    registry
}

fn ycsb(args: YcsbArgs) -> Done {
    let (json, html) = (args.json.clone(), args.html.clone());
    measure(&args.plan(), json.as_deref(), html.as_deref())
}

/// Do the plan; write a line after each run to `json`, a table to standard output and a report to `html` at the end.
fn measure(plan: &Plan, json: Option<&Path>, html: Option<&Path>) -> Done {
    let registry = registry();
    plan.check(&registry).map_err(|e| Failure::usage(e.to_string()))?;
    let json = json.map(Output::create).transpose()?;
    let mut html = html.map(Output::create).transpose()?;
    let mut watch = Watch::new(json)?;
    let outcome = biombo_lab::bench::run(plan, &registry, &WorkerCommand::this_program()?, &mut watch)?;
    watch.finish()?;
    let mut out = Out::new();
    if !outcome.records.is_empty() {
        biombo_lab::table::print(&biombo_lab::summary::tables(&outcome.records), &mut out)
            .map_err(|e| Failure::output(&e))?;
        if let Some(html) = &mut html {
            html.write(&biombo_lab::report::html(&outcome)?)?;
            out.line(format_args!("report: {}", html.path().display()))?;
        }
    }
    out.finish()?;
    let runs = outcome.records.len() + outcome.failures.len() + outcome.interrupted;
    match outcome.failures.first() {
        _ if outcome.interrupted > 0 => {
            Err(Failure::failed(format!("interrupted: {} of {runs} runs were not done", outcome.interrupted)))
        }
        None => Ok(()),
        Some((_, error)) => Err(Failure::failed(format!("{} of {runs} runs failed: {error}", outcome.failures.len()))),
    }
}

impl YcsbArgs {
    fn plan(self) -> Plan {
        let partitionings = match (self.partitioning.is_empty(), self.partitions.is_empty()) {
            (false, _) => self.partitioning,
            (true, true) => vec![Partitioning::None],
            (true, false) => vec![Partitioning::Hard],
        };
        Plan {
            engines: self.engines,
            workloads: self.workloads,
            records: self.records,
            operations: self.operations,
            seconds: self.seconds,
            rate: self.rate,
            threads: self.threads,
            partitionings,
            partitions: if self.partitions.is_empty() { Plan::default().partitions } else { self.partitions },
            placement: self.placement,
            durability: self.durability,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            distribution: self.distribution,
            cache_bytes: self.cache_bytes,
            repeat: self.repeat,
            seed: self.seed,
            dir: self.dir,
        }
    }
}
