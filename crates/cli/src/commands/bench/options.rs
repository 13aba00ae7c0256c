//! The options that all benches of engines share.

use std::path::{Path, PathBuf};

use biombo::{Durability, Executor, IoMode, Repartition};
use biombo_lab::bench::Plan;
use biombo_lab::spec::{Partitioning, Placement};
use biombo_lab::workload::Task;
use clap::Args;

use super::page::part;
use crate::failure::{Done, Failure};
use crate::out::file_name;
use crate::size::parse_bytes;
use crate::store_args::{DURABILITIES, PARTITIONINGS, PLACEMENTS, one_of, parse_amplification};

/// What is measured, how long, and where the results go. What a bench has its own default for is `None` or empty.
#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Engines, by the names that `biombo engines` lists
    #[arg(long = "engine", value_name = "E,E..", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// Records to load before each run (of a benchmark that fills an empty store: the keys to choose from) [default: 1000000]
    #[arg(long, value_name = "N")]
    pub(super) records: Option<u64>,
    /// Operations of each run, of all threads together [default: ycsb 1000000, db as many as records, trace all of it once]
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    operations: Option<u64>,
    /// Run for so many seconds instead [default: shift 20]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// An open loop: start so many operations a second, however long each takes (latency counts from the planned start)
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
    /// Client threads [default: ycsb and shift 2, db 1, trace one for each file]
    #[arg(long, value_name = "T,T..", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Layouts: none (the engine used directly), soft, hard [default: hard when --partitions is given, else none]
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', value_parser = one_of::<Partitioning>(PARTITIONINGS),
        hide_possible_values = true)]
    partitioning: Vec<Partitioning>,
    /// Partitions of soft and hard layouts [default: 8]
    #[arg(long, value_name = "P,P..", value_delimiter = ',')]
    partitions: Vec<u32>,
    /// Who runs the writes of soft and hard layouts, side by side: direct (whoever calls), pinned (a few threads, each bound to a
    /// processor)
    #[arg(long, value_name = "WHO,..", value_delimiter = ',', value_parser = ["direct", "pinned"], default_value = "direct",
        hide_possible_values = true)]
    executor: Vec<String>,
    /// The threads of the executor pinned, side by side [default: one for each processor]
    #[arg(long, value_name = "N,N..", value_delimiter = ',')]
    workers: Vec<u32>,
    /// How keys find their partition: hash or range (boundaries cut from the loaded keys)
    #[arg(long, value_name = "KIND", default_value = "hash", value_parser = one_of::<Placement>(PLACEMENTS),
        hide_possible_values = true)]
    placement: Placement,
    /// When a write is acknowledged: sync (on the device), os (survives the death of the process), relaxed (logged a bounded time later:
    /// up to 4 MiB a partition may still be to be written when the last one is answered, which is done and checked after the run's time)
    #[arg(long, value_name = "LEVEL", default_value = "os", value_parser = one_of::<Durability>(DURABILITIES),
        hide_possible_values = true)]
    durability: Durability,
    /// Bytes of each key; several are a sweep [default: 16]
    #[arg(long, value_name = "N,N..", value_delimiter = ',')]
    pub(super) key_bytes: Vec<u32>,
    /// Bytes of each value; several are a sweep [default: 1000, db 100]
    #[arg(long, value_name = "N,N..", value_delimiter = ',')]
    value_bytes: Vec<u32>,
    /// What a compressor can leave of a value, 1: it cannot shrink it [default: 1, db 0.5]
    #[arg(long, value_name = "F")]
    compression_ratio: Option<f64>,
    /// All caches of a store together, in bytes or with KiB, MiB, GiB [default: 2GiB, or a quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cache_bytes: Option<u64>,
    /// Bytes on disk by bytes of live data that an engine which cleans (log) keeps to [default: 1.5]
    #[arg(long, value_name = "F", value_parser = parse_amplification)]
    space_amplification: Option<f64>,
    /// How engines read files that they write no more: mmap, direct (O_DIRECT through a cache of --cache-bytes). log knows both,
    /// rocksdb direct, lmdb mmap [default: each its own way]
    #[arg(long, value_name = "HOW")]
    io: Option<IoMode>,
    /// How often stores of hard partitions repartition themselves, side by side: off, or a time in seconds, such as off,1s
    #[arg(long, value_name = "off|1s,..", value_delimiter = ',', default_value = "off")]
    repartition: Vec<Repartition>,
    /// Who plans the moves: multilevel, fennel, ldg, greedy, and metis in builds with it [default: ldg]
    #[arg(long, value_name = "NAME")]
    planner: Option<String>,
    /// Limit the memory of each run, page cache included, by a control group (needs the right to make one)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_bytes: Option<u64>,
    /// Repetitions of everything, interleaved
    #[arg(long, value_name = "R", default_value_t = 1)]
    repeat: u32,
    /// Makes the runs repeatable; each repetition adds one
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Where the stores are made, and removed again; of several (devices), hard partitions are dealt to all in turn. A name cannot have a
    /// comma [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR,..", value_delimiter = ',')]
    dir: Vec<PathBuf>,
    /// Write each run as a JSON line to this file, as soon as it is done (`-`: standard output, and no table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    html: Option<PathBuf>,
}

/// Where the results go.
pub(in crate::commands) struct Outputs {
    /// The lines.
    pub(in crate::commands) json: Option<PathBuf>,
    pub(in crate::commands) html: Option<PathBuf>,
}

impl Outputs {
    pub(super) fn of(options: &RunOptions) -> Self {
        Self { json: options.json.clone(), html: options.html.clone() }
    }

    /// Refuse files that would be written over: those of `inputs` (named by `option`) by either or by what becomes the page, and the lines
    /// by the page.
    pub(super) fn check(&self, inputs: &[PathBuf], option: &str) -> Done {
        self.check_as("--json", inputs, option)
    }

    /// The same where the option for the lines is called `lines`.
    pub(in crate::commands) fn check_as(&self, lines: &str, inputs: &[PathBuf], option: &str) -> Done {
        for (written, path) in [(lines, &self.json), ("--html", &self.html)] {
            if let Some(path) = path.as_deref().filter(|path| inputs.iter().any(|input| is_same(input, path))) {
                let path = path.display();
                return Err(Failure::usage(format!(
                    "{written} names {path}, {option}, which it would write over: name another"
                )));
            }
        }
        let place = self.html.as_deref().and_then(part);
        if let Some(place) = place.filter(|place| inputs.iter().any(|input| is_same(input, place))) {
            let place = place.display();
            return Err(Failure::usage(format!(
                "--html writes the report to {place} until it is whole, and that is {option}: name another"
            )));
        }
        let (Some(json), Some(html)) = (&self.json, &self.html) else { return Ok(()) };
        if is_same(json, html) {
            return Err(Failure::usage(format!("{lines} and --html name the same file: name another for one of them")));
        }
        if part(html).is_some_and(|part| is_same(json, &part)) {
            let json = json.display();
            return Err(Failure::usage(format!(
                "{lines} names {json}, where the report is written until it is whole: name another"
            )));
        }
        Ok(())
    }
}

/// Whether two names are those of one file, which need not be there yet.
pub(in crate::commands) fn is_same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let of_its_directory = || {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(parent.canonicalize().ok()?.join(path.file_name()?))
        };
        path.canonicalize().ok().or_else(of_its_directory)
    };
    a == b || place(a).is_some_and(|a| place(b) == Some(a))
}

/// Partitions where nobody says how many.
const PARTITIONS: u32 = 8;

/// The engines that clean, and so can be told how much space they may take.
const CLEANERS: [&str; 1] = ["log"];

/// What a bench does where the command line does not say it.
pub(super) struct Defaults {
    /// `None`: as many as records.
    pub(super) operations: Option<u64>,
    /// Instead of operations, where neither is said.
    pub(super) seconds: Option<f64>,
    pub(super) threads: u32,
    pub(super) value_bytes: u32,
    pub(super) compression_ratio: f64,
}

impl RunOptions {
    /// Whether it is said how long a run is.
    pub(super) fn has_length(&self) -> bool {
        self.operations.is_some() || self.seconds.is_some()
    }

    /// The most partitions that are asked for.
    pub(super) fn partitions_max(&self) -> u32 {
        self.partitions.iter().copied().max().unwrap_or(PARTITIONS)
    }

    /// What is said and no run goes by, each in words: a script may say it in all of its benches.
    fn unused(&self, tasks: &[Task]) -> Vec<String> {
        let is_divided = match self.partitioning.as_slice() {
            [] => !self.partitions.is_empty(),
            said => said.iter().any(|kind| *kind != Partitioning::None),
        };
        let is_hard = match self.partitioning.as_slice() {
            [] => is_divided,
            said => said.contains(&Partitioning::Hard),
        };
        // Which records are hot may follow from how many partitions there would be.
        let counts = |task: &Task| matches!(task, Task::Shift { shift } if shift.kind.has_partitions());
        let is_counted = is_divided || tasks.iter().any(counts);
        let cleans = self.engines.iter().any(|engine| CLEANERS.contains(&engine.as_str()));
        let cleaners = CLEANERS.join(", ");
        let all = [
            (
                !self.partitions.is_empty() && !is_counted,
                "--partitions has no effect here: it divides stores, and engines are used directly (--partitioning none)".to_owned(),
            ),
            (
                self.placement != Placement::Hash && !is_divided,
                "--placement has no effect here: it says which partition a key is in, and engines are used directly".to_owned(),
            ),
            (
                self.dir.len() > 1 && !is_hard,
                "--dir has no effect here but for its first directory: the others are for hard partitions, which are dealt to them"
                    .to_owned(),
            ),
            (
                self.space_amplification.is_some() && !cleans,
                format!("--space-amplification has no effect here: it is for engines that clean ({cleaners})"),
            ),
        ];
        all.into_iter().filter_map(|(is_unused, why)| is_unused.then_some(why)).collect()
    }

    /// The plan, and what was said that none of its runs goes by.
    pub(super) fn plan(self, tasks: Vec<Task>, defaults: &Defaults) -> Done<(Plan, Vec<String>)> {
        let unused = self.unused(&tasks);
        let records = self.records.unwrap_or(Plan::default().records);
        let or = |given: Vec<u32>, default: u32| if given.is_empty() { vec![default] } else { given };
        let partitionings = match (self.partitioning.is_empty(), self.partitions.is_empty()) {
            (false, _) => self.partitioning,
            (true, true) => vec![Partitioning::None],
            (true, false) => vec![Partitioning::Hard],
        };
        let has_workers = !self.workers.is_empty();
        let workers = or(self.workers, std::thread::available_parallelism().map_or(1, |count| count.get() as u32));
        let pinned = || workers.iter().map(|workers| Executor::Pinned { workers: *workers });
        let executors = self.executor.iter().flat_map(|name| match name.as_str() {
            "pinned" => pinned().collect(),
            _ => vec![Executor::Direct],
        });
        let executors: Vec<Executor> = executors.collect();
        if has_workers && !executors.iter().any(|executor| executor.workers().is_some()) {
            return Err(Failure::usage("--workers are threads of the executor pinned: add --executor pinned"));
        }
        let plan = Plan {
            engines: self.engines,
            tasks,
            records,
            operations: self.operations.or(defaults.operations).unwrap_or(records),
            seconds: self.seconds.or(defaults.seconds.filter(|_| self.operations.is_none())),
            rate: self.rate,
            threads: or(self.threads, defaults.threads),
            partitionings,
            partitions: or(self.partitions, PARTITIONS),
            placement: self.placement,
            durability: self.durability,
            key_bytes: or(self.key_bytes, 16),
            value_bytes: or(self.value_bytes, defaults.value_bytes),
            compression_ratio: self.compression_ratio.unwrap_or(defaults.compression_ratio),
            cache_bytes: self.cache_bytes,
            space_amplification: self.space_amplification,
            io: self.io,
            executors,
            repartitions: self.repartition,
            planner: self.planner,
            memory_bytes: self.memory_bytes,
            repeat: self.repeat,
            seed: self.seed,
            dir: self.dir.first().cloned(),
            more_dirs: self.dir.into_iter().skip(1).collect(),
            ..Plan::default()
        };
        Ok((plan, unused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a name of a file that is not there yet is compared by its letters alone.
    #[test]
    fn two_names_of_one_file_are_known_before_it_is_there_and_after() {
        let dir = tempfile::tempdir().expect("a directory");
        let [here, inner] = ["r", "inner"].map(|name| dir.path().join(name));
        std::fs::create_dir(&inner).expect("a directory");
        let roundabout = inner.join("..").join("r");
        for _ in 0..2 {
            assert!(is_same(&here, &roundabout) && is_same(&here, &here));
            assert!(!is_same(&here, &inner.join("r")) && !is_same(&here, &dir.path().join("s")));
            std::fs::write(&here, "it is there").expect("written");
        }
        assert!(is_same(Path::new("no-such-file"), Path::new("./no-such-file")));
        assert!(!is_same(Path::new("nosuch/r"), Path::new("nosuch/s")));
    }

    #[test]
    fn lines_and_a_report_have_a_file_each() {
        let refused = |json: &str, html: &str| {
            let outputs = Outputs { json: Some(json.into()), html: Some(html.into()) };
            let graphs: [PathBuf; 2] = ["edges".into(), "page.part".into()];
            outputs.check_as("--runs", &graphs, "the graph").err().map(|failure| failure.to_string())
        };
        let said = |json: &str, html: &str| refused(json, html).expect("it is refused");
        assert!(said("r", "./r").starts_with("--runs and --html name the same file"));
        assert!(said("r.part", "r").contains("--runs names r.part, where the report is written until"));
        assert!(said("./edges", "r").starts_with("--runs names ./edges, the graph, which it would write over"));
        assert!(said("r", "edges").starts_with("--html names edges, the graph"));
        assert!(
            said("r", "page")
                .starts_with("--html writes the report to page.part until it is whole, and that is the gr")
        );
        assert_eq!(refused("r", "s"), None);
    }
}
