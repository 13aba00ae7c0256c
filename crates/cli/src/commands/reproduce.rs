//! `biombo reproduce`: published experiments, done again.

use std::path::PathBuf;

use biombo_lab::bench::{Outcome, Plan};
use biombo_lab::process::WorkerCommand;
use biombo_lab::reproduce::{EXPERIMENTS, Experiment, GraphWork, Lack, Outlook, StoreWork, Work};
use clap::Args;

use super::bench::options::Outputs;
use super::bench::page::{Page, print_path, write_then_print};
use super::bench::steps::Steps;
use super::bench::watch::{Output, Watch};
use super::bench::{ended, registry};
use crate::args::JsonArg;
use crate::failure::{Done, Failure};
use crate::out::{Out, file_name};

/// Do a published experiment again: published beside measured, and which of its conclusions hold on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
A conclusion `holds` where in every series the figures go the published way and the repetitions at its two ends, three of each or more, do
not overlap. Runs with operations that failed or gave a wrong answer take no part, and the exit status is 1 then. Ctrl-C ends the runs, over
graphs after the one that is under way, and shows what was done; a second one ends the command at once. --runs keeps the line of each run as
soon as it is done: `biombo bench show` makes tables and a report of what was done before somebody ended it.

  leveldb-sizes
      fillrandom and readrandom over LevelDB, keys of 16 to 128 bytes and values of 256 B to 16 KiB in fine steps, three repetitions,
      50,000 operations a run: 132 runs
  btree-vs-lsm
      YCSB over PostgreSQL, RocksDB and Biombo's own engines, each at os and at sync, three repetitions, 60,000 records, caches of 16 MiB
      (about a quarter of them), 40,000 operations a run, 10,000 scans of E: 42 runs an engine; then a micro-benchmark of write
      amplification: a B-tree that writes a page at each put against an LSM-tree with 1,000 records in memory, and both with a journal,
      5,000 operations a run and 100,000: 6 runs an engine.
      What is not there, such as PostgreSQL, is left out and named
  repart-kv
      YCSB over engines used directly, in one and in eight partitions, and in eight that repartition themselves every second, by one
      and two clients, 50,000 records: what was published (A and D over LMDB and Tkrzw) five times, 2 seconds a run; B, C, E and F and
      other engines three times, half a second a run, which repartition themselves every quarter of one: 981 runs with every engine
  dgap-numa
      PageRank, betweenness, breadth-first search and connected components over graphs that change beside a static one, by one thread, two and
      more where there are processors; with vertices dealt to two NUMA nodes by halves and in turn, and with all memory near or far; nine
      repetitions of all in turns, on graphs of Orkut's and LiveJournal's size. Intervals that are shown are those of 5,000 bootstrap
      resamples; conclusions are judged by those of the sign test, for all series of a conclusion at once. --dir is where SNAP's files lie,
      which become undirected, as published
  logstore
      inserts of 1 KB by 1 to 128 threads, throughput and latency of every engine of this build that keeps data, three repetitions,
      100,000 operations a run, caches of a quarter of that: 24 runs an engine

Examples:
  biombo reproduce --list
  biombo reproduce leveldb-sizes --runs sizes.jsonl --html sizes.html
  biombo reproduce logstore --engine log,rocksdb
  biombo reproduce dgap-numa --scale 0.1
  biombo reproduce leveldb-sizes --scale 0.1 --json      a tenth of the operations: less data, less compaction")]
pub(crate) struct ReproduceArgs {
    /// The experiment, by its name in --list
    #[arg(value_name = "NAME", required_unless_present = "list")]
    name: Option<String>,
    /// Print all experiments, what they need, what of it this build and this machine lack, and about how long they take
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// The number of operations, by that of the default
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Repetitions of every run over stores, instead of those of the experiment
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Only these engines, of those that the experiment measures
    #[arg(long, value_name = "E,..", value_delimiter = ',')]
    engine: Vec<String>,
    /// Where the stores are made, and removed again; of several (devices), hard partitions are dealt to all in turn; of experiments on graphs,
    /// the one where SNAP's files lie. A name cannot have a comma [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR,..", value_delimiter = ',')]
    dir: Vec<PathBuf>,
    /// Write each run as a JSON line to this file, as soon as it is done
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    runs: Option<PathBuf>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    html: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// Run it.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Done {
    let Some(name) = args.name.as_deref() else { return list(args) };
    let known = EXPERIMENTS.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        Failure::usage(format!("`{name}` is none of {}", EXPERIMENTS.map(|experiment| experiment.name).join(", ")))
    })?;
    let Some(work) = known.work else {
        return Err(Failure::usage(format!("{name} is not in this version: it needs {}", known.needs)));
    };
    if !(args.scale > 0.0 && args.scale <= 1_000.0) {
        return Err(Failure::usage(format!("--scale {} is not above 0 and up to 1000", args.scale)));
    }
    match work {
        Work::Stores(work) => stores(args, name, work),
        Work::Graphs(work) => graphs(args, work),
    }
}

fn stores(args: &ReproduceArgs, name: &str, work: StoreWork) -> Done {
    let registry = registry();
    let plans = (work.plans)(&registry, &args.engine, args.scale).map_err(|e| Failure::failed(e.to_string()))?;
    let plans = plans
        .into_iter()
        .map(|plan| Plan {
            engines: chosen(&plan.engines, &args.engine),
            repeat: args.repeat.unwrap_or(plan.repeat),
            dir: args.dir.first().cloned(),
            more_dirs: args.dir.iter().skip(1).cloned().collect(),
            ..plan
        })
        .filter(|plan| !plan.engines.is_empty())
        .collect::<Vec<_>>();
    let lacks = (work.lacks)(&registry);
    if let Some(lack) = lacks.iter().find(|lack| args.engine.iter().any(|engine| engine == lack.engine)) {
        return Err(Failure::failed(lack.why.clone()));
    }
    // Who names engines wants no others.
    let lacks: Vec<Lack> = lacks.into_iter().filter(|_| args.engine.is_empty()).collect();
    if let Some(stray) = args.engine.iter().find(|engine| !plans.iter().any(|plan| plan.engines.contains(engine))) {
        return Err(Failure::usage(format!("{name} does not measure an engine `{stray}` with this build")));
    }
    for plan in &plans {
        plan.check(&registry).map_err(|e| Failure::failed(e.to_string()))?;
    }
    outputs(args).check_as("--runs", &[], "")?;
    for lack in &lacks {
        crate::note(lack);
    }
    let html = args.html.as_deref().map(Page::create).transpose()?;
    let mut watch = Watch::new(args.runs.as_deref().map(Output::create).transpose()?)?;
    let mut outcome = Outcome::default();
    for plan in &plans {
        if outcome.interrupted > 0 {
            outcome.interrupted += plan.runs().len();
            continue;
        }
        let part = biombo_lab::bench::run(plan, &registry, &WorkerCommand::this_program()?, &mut watch)?;
        outcome.records.extend(part.records);
        outcome.failures.extend(part.failures);
        outcome.interrupted = part.interrupted;
    }
    // What was measured is shown, whatever became of the file.
    let kept = watch.finish();
    let mut found = work.judged(&outcome)?;
    found.differences.extend(lacks.iter().map(Lack::to_string));
    // Where nothing was measured, the report of before stays.
    let html = html.filter(|_| !outcome.records.is_empty());
    let page = || biombo_lab::report::reproduction(&outcome, &found);
    let (written, printed) = write_then_print(html, page, |out, report| {
        if args.json.json {
            return out.json(&found);
        }
        let tables = biombo_lab::summary::tables(&outcome.records);
        biombo_lab::table::print(&tables, out).map_err(|e| Failure::output(&e))?;
        biombo_lab::reproduce::print(&found, out).map_err(|e| Failure::output(&e))?;
        print_path(out, report)
    });
    kept?;
    written?;
    ended(&outcome)?;
    printed
}

fn graphs(args: &ReproduceArgs, work: GraphWork) -> Done {
    if !args.engine.is_empty() {
        return Err(Failure::usage("--engine is of stores: this experiment is of graphs"));
    }
    if args.repeat.is_some() {
        return Err(Failure::usage(
            "--repeat is of stores: this experiment of graphs has the repetitions that its intervals need",
        ));
    }
    if args.dir.len() > 1 {
        return Err(Failure::usage(
            "--dir has several directories, which are for the partitions of stores: for this experiment of graphs name the one where SNAP's \
             files lie",
        ));
    }
    let plans =
        (work.plans)(args.scale, args.dir.first().map(PathBuf::as_path)).map_err(|e| Failure::usage(e.to_string()))?;
    let files = plans.iter().map(|plan| PathBuf::from(&plan.graph)).filter(|path| path.is_file());
    outputs(args).check_as("--runs", &files.collect::<Vec<_>>(), "a graph")?;
    let html = args.html.as_deref().map(Page::create).transpose()?;
    let mut steps = Steps::new(args.runs.as_deref().map(Output::create).transpose()?)?;
    let ended = steps.measure(&plans);
    // What was measured until then is shown, whatever ended it.
    let records = steps.records;
    if records.is_empty() {
        return ended;
    }
    let found = (work.findings)(&records)?;
    let page = || biombo_lab::report::graphs(&records, Some(&found));
    let (written, printed) = write_then_print(html, page, |out, report| {
        if args.json.json {
            return out.json(&found);
        }
        biombo_lab::reproduce::print(&found, out).map_err(|e| Failure::output(&e))?;
        print_path(out, report)
    });
    written?;
    ended?;
    printed
}

fn outputs(args: &ReproduceArgs) -> Outputs {
    Outputs { json: args.runs.clone(), html: args.html.clone() }
}

/// Those of `all` that are wanted; all where nothing is said.
fn chosen(all: &[String], wanted: &[String]) -> Vec<String> {
    all.iter().filter(|engine| wanted.is_empty() || wanted.contains(engine)).cloned().collect()
}

/// An experiment with what it would meet here.
#[derive(serde::Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    experiment: &'a Experiment,
    #[serde(flatten)]
    here: Outlook,
}

fn list(args: &ReproduceArgs) -> Done {
    let mut out = Out::new();
    let registry = registry();
    let temporary = std::env::temp_dir();
    let free_bytes = biombo_lab::measure::disk::free_bytes(args.dir.first().unwrap_or(&temporary)).ok();
    for experiment in &EXPERIMENTS {
        let here = experiment.outlook(&registry, biombo_lab::measure::host::memory_bytes(), free_bytes);
        if args.json.json {
            out.json(&Listed { experiment, here })?;
            continue;
        }
        let state = if experiment.work.is_some() { "" } else { " (not in this version)" };
        out.line(format_args!("{}{state}\n  {}\n  needs {}", experiment.name, experiment.title, experiment.needs))?;
        for lack in &here.lacks {
            out.line(format_args!("  lacks here: {lack}"))?;
        }
        match here.runs {
            0 => out.line("  cannot be done here")?,
            runs => out.line(format_args!(
                "  takes about {:.0} minutes at scale 1 with what is here: {runs} runs (an estimate, for two cores and an NVMe device)",
                here.minutes.max(1.0)
            ))?,
        }
    }
    out.finish()
}
