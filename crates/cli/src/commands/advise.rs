//! `biombo advise`: which store for a workload on this machine.

mod trials;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use biombo::Durability;
use biombo_lab::advise::{Advice, Question, candidates, exhaustive};
use biombo_lab::measure::MemoryLimit;
use biombo_lab::process::WorkerCommand;
use biombo_lab::spec::Placement;
use biombo_lab::units::plural;
use biombo_lab::workload::trace::survey;
use biombo_lab::workload::{Distribution, Mix, Task, Workload};
use clap::Args;

use self::trials::Trials;
use super::bench::options::is_same;
use super::bench::ycsb::{DISTRIBUTIONS, WORKLOADS};
use crate::args::JsonArg;
use crate::failure::{Done, Failure};
use crate::out::{Out, file_name};
use crate::size::{parse_bytes, parse_seconds};
use crate::store_args::{DURABILITIES, PLACEMENTS, one_of};

/// Try engines and layouts under a workload, and say which store to take on this machine, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Say what the store is for by --workload, --trace or shares such as --reads 0.95; the rest has defaults.

Every engine of the build that keeps what --durability promises is tried, whole and in several partitions, by hash and by range, their \
writes run by whoever calls and by threads bound to processors, in rounds of trials, one after the other. From the second round on \
what is beaten beyond doubt drops out, and the others get its time: trials begin short and grow as fewer are left. The best is dropped \
with a risk of at most 5 %, if no ratio of two stores changes by more than 5 % with each doubling of the data, if stores that run for \
longer rank as in the trials, and if the trials of all stores scatter alike about what each of them does: how far is learnt from all \
of them together, and one that scatters far more than the others is misjudged more often. PostgreSQL, the laboratory's own engines and \
those that do not keep what --durability promises (tkrzw-*) take part where --engine names them.

A trial has no more records than the budget has time to load, and its share of --cache-bytes; where the data are more than the memory and \
this command may limit its trials (as root, by a control group), its share of the memory too. What is to be read from the device and was \
read from memory all the same is told. A longer --budget tries more of the data, and tells closer ones apart. Fewer engines do so too. Let \
nothing else work on the machine meanwhile.

--exhaustive shows what the advice is worth: afterwards every candidate is measured over all records, and the advised store and the best \
of the others are measured twice more, in turn. That takes many times as long.

Examples:
  biombo advise --workload a
  biombo advise --reads 0.95 --records 2000000 --value-bytes 200 --durability os --budget 5m
  biombo advise --trace day.txt --config store.toml && biombo load new data.tsv --config store.toml
  biombo advise --workload e --engine log,lmdb,rocksdb --partitions 1,4,16 --json
  biombo advise --workload b --budget 1m --exhaustive=10s --trials trials.jsonl")]
pub(crate) struct AdviseArgs {
    /// A YCSB core workload: a, b, c, d, e, f
    #[arg(long, value_name = "W", ignore_case = true, value_parser = one_of::<Workload>(WORKLOADS), hide_possible_values = true,
        conflicts_with_all = ["trace", "reads", "scans", "inserts"])]
    workload: Option<Workload>,
    /// Recorded operations, as `biombo bench trace` replays them: a file for each client thread, or one for all
    #[arg(long, value_name = "FILE,FILE..", value_delimiter = ',',
        conflicts_with_all = ["reads", "scans", "inserts", "records", "key_bytes", "distribution"])]
    trace: Vec<PathBuf>,
    /// The share of reads, 0 to 1; operations that are no reads, scans or inserts are updates
    #[arg(long, value_name = "F")]
    reads: Option<f64>,
    /// The share of scans of 1 to 100 records
    #[arg(long, value_name = "F")]
    scans: Option<f64>,
    /// The share of inserts
    #[arg(long, value_name = "F")]
    inserts: Option<f64>,
    /// Choose records by zipfian, uniform, latest, hotspot or shift [default: as the workload says, else zipfian]
    #[arg(long, value_name = "KIND", value_parser = one_of::<Distribution>(DISTRIBUTIONS), hide_possible_values = true)]
    distribution: Option<Distribution>,
    /// How many records there are [default: 1000000]
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Bytes of each key [default: 16]
    #[arg(long, value_name = "N")]
    key_bytes: Option<u32>,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    value_bytes: u32,
    /// Client threads [default: 2, of a trace one for each file]
    #[arg(long, value_name = "T")]
    threads: Option<u32>,
    /// When a write is acknowledged: sync (on the device), os (survives the death of the process), relaxed (logged a bounded time later:
    /// up to 4 MiB a partition may still be to be written when the last one is answered, which is done and checked after the run's time)
    #[arg(long, value_name = "LEVEL", default_value = "sync", value_parser = one_of::<Durability>(DURABILITIES),
        hide_possible_values = true)]
    durability: Durability,
    /// All caches of the store together, in bytes or with KiB, MiB, GiB [default: 2GiB, or a quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cache_bytes: Option<u64>,
    /// Try these engines [default: those of the build that keep what --durability promises, but for postgres and micro-*]
    #[arg(long = "engine", value_name = "E,E..", value_delimiter = ',')]
    engines: Vec<String>,
    /// Try these numbers of partitions [default: 1 and four for each processor]
    #[arg(long, value_name = "P,P..", value_delimiter = ',')]
    partitions: Vec<u32>,
    /// Try these placements of keys: hash, range
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', default_value = "hash,range",
        value_parser = one_of::<Placement>(PLACEMENTS), hide_possible_values = true)]
    placement: Vec<Placement>,
    /// Try these executors where there are several partitions and somebody writes: direct (whoever calls), pinned (a thread bound to each
    /// processor)
    #[arg(long, value_name = "WHO,..", value_delimiter = ',', default_value = "direct,pinned", value_parser = ["direct", "pinned"],
        hide_possible_values = true)]
    executor: Vec<String>,
    /// How long it may take, such as 90s, 2m, 1h; a first round of all is done in any case
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_seconds)]
    budget: f64,
    /// Write the advised store to this new file, which `biombo load --config` takes
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    config: Option<PathBuf>,
    /// Then measure every candidate over all records for so long [default: 10s], and say how far the advised one is from the best
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10s",
        value_parser = parse_seconds)]
    exhaustive: Option<f64>,
    /// Write each trial to this file, a JSON line as of a bench; `part` says race or exhaustive, `failed` why one failed
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    trials: Option<PathBuf>,
    /// Where the stores are made, and removed again [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Makes the trials repeatable; each round adds one
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonArg,
}

/// Run it.
pub(crate) fn advise(args: AdviseArgs) -> Done {
    let (json, run_seconds) = (args.json.json, args.exhaustive);
    let (file, lines) = (args.config.clone(), args.trials.clone());
    let (of_file, of_lines) = (file.as_deref(), lines.as_deref());
    if of_file.zip(of_lines).is_some_and(|(file, lines)| is_same(file, lines)) {
        return Err(Failure::usage("--config and --trials name the same file: name another for one of them"));
    }
    if of_lines.is_some_and(|lines| args.trace.iter().any(|trace| is_same(trace, lines))) {
        return Err(Failure::usage("--trials names a file of --trace, which it would write over: name another"));
    }
    let question = question(args)?;
    let registry = biombo::registry();
    // What is wrong with the question is said before a file is made.
    candidates(&question, &registry).map_err(|e| Failure::usage(e.to_string()))?;
    let file = file.map(NewFile::create).transpose()?;
    let mut trials = Trials::new(lines.as_deref())?;
    let worker = WorkerCommand::this_program()?;
    let mut advice = match biombo_lab::advise::advise(&question, &registry, &worker, &mut trials) {
        Ok(advice) => advice,
        // What stopped it says more than that it was stopped.
        Err(error) => return Err(trials.finish().err().unwrap_or_else(|| error.into())),
    };
    let mut unjudged = None;
    if let Some(run_seconds) = run_seconds.filter(|_| !advice.interrupted) {
        trials.part = "exhaustive";
        match exhaustive(&question, run_seconds, &advice, &registry, &worker, &mut trials) {
            Ok(run) => advice.exhaustive = Some(run),
            Err(error) => unjudged = Some(error),
        }
    }
    let written = trials.finish();
    show(&advice, json, file)?;
    written?;
    if advice.interrupted {
        let rounds = plural(u64::from(advice.rounds), "round");
        return Err(Failure::failed(format!("interrupted: this is what was known after {rounds}")));
    }
    unjudged.map_or(Ok(()), |error| Err(Failure::failed(format!("the advice stands unjudged: {error}"))))
}

/// Write and print what came out.
fn show(advice: &Advice, json: bool, file: Option<NewFile>) -> Done {
    let text = advice.to_toml()?;
    let mut out = Out::new();
    if json {
        out.json(advice)?;
    } else {
        biombo_lab::advise::print(advice, &mut out).map_err(|e| Failure::output(&e))?;
    }
    match file {
        Some(file) => {
            let path = file.write(&text)?;
            if !json {
                out.line(format_args!("configuration: {} (biombo load DIR --config {0})", path.display()))?;
            }
        }
        None if !json => {
            out.line(format_args!("\nAs a configuration:"))?;
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                out.line(format_args!("  {line}"))?;
            }
        }
        None => {}
    }
    out.finish()
}

/// What is asked about.
fn question(args: AdviseArgs) -> Done<Question> {
    let usual = Question::default();
    let is_mix = args.reads.is_some() || args.scans.is_some() || args.inserts.is_some();
    let (task, counts) = match (args.workload, args.trace.as_slice()) {
        (Some(workload), _) => {
            let distribution = args.distribution.unwrap_or(workload.distribution());
            (Task::Ycsb { workload, distribution }, None)
        }
        (None, []) if is_mix => {
            let share = |share: Option<f64>| share.unwrap_or(0.0);
            let mix = Mix::new(share(args.reads), share(args.scans), share(args.inserts));
            let mix = mix.map_err(|e| Failure::usage(e.to_string()))?;
            (Task::Mix { mix, distribution: args.distribution.unwrap_or(Distribution::Zipfian) }, None)
        }
        (None, []) => {
            return Err(Failure::usage(
                "say what the store is for: --workload a, --trace FILE, or the shares of operations, such as --reads 0.95",
            ));
        }
        (None, files) => {
            let counts = survey(files)?;
            (Task::Trace { counts }, Some(counts))
        }
    };
    let threads = match args.trace.len() {
        0 => usual.threads,
        files => u32::try_from(files).unwrap_or(u32::MAX),
    };
    let executors =
        usual.executors.into_iter().filter(|executor| args.executor.iter().any(|name| name == executor.name()));
    let mut question = Question {
        task,
        traces: args.trace,
        records: counts.map(|counts| counts.operations()).or(args.records).unwrap_or(usual.records),
        keys: counts.map(|counts| counts.keys),
        key_bytes: counts.map(|counts| counts.key_bytes_mean().max(1)).or(args.key_bytes).unwrap_or(usual.key_bytes),
        value_bytes: args.value_bytes,
        threads: args.threads.unwrap_or(threads),
        durability: args.durability,
        cache_bytes: args.cache_bytes,
        memory_bytes: usual.memory_bytes,
        limits_memory: false,
        engines: args.engines,
        partitions: args.partitions,
        placements: args.placement,
        executors: executors.collect(),
        budget_seconds: args.budget,
        seed: args.seed,
        dir: args.dir,
    };
    if question.memory_bytes.is_some_and(|memory| question.data_bytes() > memory) {
        question.limits_memory = MemoryLimit::is_permitted();
    }
    Ok(question)
}

/// A file that is made before the work, so that one which cannot be made is found out then, and goes again where the work fails.
struct NewFile {
    file: File,
    path: PathBuf,
    is_written: bool,
}

impl NewFile {
    fn create(path: PathBuf) -> Done<Self> {
        match File::create_new(&path) {
            Ok(file) => Ok(Self { file, path, is_written: false }),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(Failure::failed(format!("{} exists: name another file, or remove it", path.display())))
            }
            Err(e) => Err(Self::failed(&path, &e)),
        }
    }

    fn failed(path: &Path, error: &std::io::Error) -> Failure {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
    }

    fn write(mut self, text: &str) -> Done<PathBuf> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|e| Self::failed(&self.path, &e))?;
        self.is_written = true;
        Ok(self.path.clone())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_written {
            // It is empty, and this command's own.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
