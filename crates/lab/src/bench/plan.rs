//! What a bench is asked for, and the runs that follow from it.

use std::path::PathBuf;

use biombo_base::io::IoMode;
use biombo_base::{Error, Result};
use biombo_engine::{Durability, Registry};
use biombo_store::{Executor, Repartition, planner_names};

use crate::measure::host;
use crate::spec::{Partitioning, Placement, RunSpec};
use crate::workload::{OpKind, Task, Workload};

/// The options of a bench. [`Plan::default`] holds the defaults of `bench ycsb`; lists multiply.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Engines by name.
    pub engines: Vec<String>,
    /// Workloads and benchmarks.
    pub tasks: Vec<Task>,
    /// Records to load in each run, or to be named by those who fill an empty store.
    pub records: u64,
    /// Operations of each run phase, of all threads together.
    pub operations: u64,
    /// Seconds of each run phase, instead of `operations`.
    pub seconds: Option<f64>,
    /// Operations per second of an open loop; `None`: closed loop.
    pub rate: Option<f64>,
    /// Numbers of client threads.
    pub threads: Vec<u32>,
    /// Layouts.
    pub partitionings: Vec<Partitioning>,
    /// Whether `none` is a store over the whole engine; the engine used directly otherwise.
    pub in_store: bool,
    /// Numbers of partitions, for `soft` and `hard`.
    pub partitions: Vec<u32>,
    /// Placement of keys, for `soft` and `hard`.
    pub placement: Placement,
    /// When writes of the run phase are acknowledged. The load phase uses `os` and is flushed at its end.
    pub durability: Durability,
    /// The lengths of keys.
    pub key_bytes: Vec<u32>,
    /// The lengths of values.
    pub value_bytes: Vec<u32>,
    /// What a compressor leaves of a value; 1: it cannot shrink it.
    pub compression_ratio: f64,
    /// All caches of a store together; `None`: 2 GiB, or a quarter of the machine's memory where that is less.
    pub cache_bytes: Option<u64>,
    /// Bytes on disk by bytes of live data that engines which clean keep to; `None`: their own default.
    pub space_amplification: Option<f64>,
    /// How engines read files that they write no more; `None`: each its own way.
    pub io: Option<IoMode>,
    /// Who runs the writes of `soft` and `hard` layouts.
    pub executors: Vec<Executor>,
    /// How often `hard` layouts repartition themselves.
    pub repartitions: Vec<Repartition>,
    /// Who plans the moves; `None`: the store's own choice.
    pub planner: Option<String>,
    /// The limit on the memory of each run's process, page cache included; `None`: none.
    pub memory_bytes: Option<u64>,
    /// Repetitions of everything, interleaved.
    pub repeat: u32,
    /// The first repetition's seed; each later one adds 1.
    pub seed: u64,
    /// The files of a trace: one for each thread, or one that every thread replays.
    pub traces: Vec<PathBuf>,
    /// Load every key that a trace names before it is replayed.
    pub preload: bool,
    /// Replay a trace once, instead of `operations` or `seconds`.
    pub once: bool,
    /// Where the runs' directories are made; `None`: the system's place for temporary files.
    pub dir: Option<PathBuf>,
    /// Further places, on other devices, to which partitions are dealt in turn with the first.
    pub more_dirs: Vec<PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            engines: Vec::new(),
            tasks: vec![Workload::A.into()],
            records: 1_000_000,
            operations: 1_000_000,
            seconds: None,
            rate: None,
            threads: vec![2],
            partitionings: vec![Partitioning::None],
            in_store: false,
            partitions: vec![8],
            placement: Placement::Hash,
            durability: Durability::Os,
            key_bytes: vec![16],
            value_bytes: vec![1_000],
            compression_ratio: 1.0,
            cache_bytes: None,
            space_amplification: None,
            io: None,
            executors: vec![Executor::Direct],
            repartitions: vec![Repartition::Off],
            planner: None,
            memory_bytes: None,
            repeat: 1,
            seed: 1,
            traces: Vec::new(),
            preload: true,
            once: false,
            dir: None,
            more_dirs: Vec::new(),
        }
    }
}

/// The most client threads and partitions of one run.
const THREADS_MAX: u32 = 1024;
const PARTITIONS_MAX: u32 = biombo_store::PARTITIONS_MAX;
/// The least memory that a run is limited to.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The most records and operations of one run.
const COUNT_MAX: u64 = 1_000_000_000_000;

impl Plan {
    /// Where the runs' directories are made.
    pub fn base_dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The cache of every store, in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes.unwrap_or_else(|| (2 << 30).min(host::memory_bytes().map_or(2 << 30, |memory| memory / 4)))
    }

    /// Refuse what cannot be run at all: `Invalid` or `Unsupported`, naming the option.
    pub fn check(&self, registry: &Registry) -> Result<()> {
        let require = |ok: bool, what: &str| if ok { Ok(()) } else { Err(Error::invalid(what)) };
        require(!self.engines.is_empty(), "name at least one engine with --engine")?;
        require(!self.tasks.is_empty(), "name at least one workload or benchmark")?;
        require(
            !self.key_bytes.is_empty() && !self.value_bytes.is_empty(),
            "name at least one length with --key-bytes and --value-bytes",
        )?;
        require(
            !self.threads.is_empty() && !self.partitionings.is_empty(),
            "name at least one layout and thread count",
        )?;
        require((1..=COUNT_MAX).contains(&self.records), "--records must be 1 to 10^12")?;
        require(self.repeat >= 1, "--repeat must be at least 1")?;
        require(
            self.threads.iter().all(|t| (1..=THREADS_MAX).contains(t)),
            &format!("--threads must be 1 to {THREADS_MAX}"),
        )?;
        require(!self.repartitions.is_empty(), "name `off` or a time with --repartition")?;
        let moves = self.repartitions.iter().any(|every| *every != Repartition::Off);
        require(
            !moves || self.layouts().iter().any(|(.., every)| *every != Repartition::Off),
            "--repartition moves units between hard partitions: choose --partitioning hard and --partitions of 2 or more",
        )?;
        require(
            moves || self.planner.is_none(),
            "--planner plans moves: name how often with --repartition, such as 1s",
        )?;
        if let Some(name) = self.planner.as_deref().filter(|name| !planner_names().any(|known| known == *name)) {
            let known: Vec<_> = planner_names().collect();
            return Err(Error::invalid(format!("--planner {name} is none of {}", known.join(", "))));
        }
        let divided = self.partitionings.iter().any(|p| *p != Partitioning::None);
        require(!self.executors.is_empty(), "name `direct` or `pinned` with --executor")?;
        let most = self.executors.iter().filter_map(|executor| executor.workers());
        require(
            most.clone().all(|workers| (1..=PARTITIONS_MAX).contains(&workers)),
            &format!("--workers must be 1 to {PARTITIONS_MAX}"),
        )?;
        require(divided || most.count() == 0, "--executor pinned runs partitions: choose --partitioning hard or soft")?;
        require(
            !divided
                || (!self.partitions.is_empty() && self.partitions.iter().all(|p| (1..=PARTITIONS_MAX).contains(p))),
            &format!("--partitions must be 1 to {PARTITIONS_MAX}"),
        )?;
        match self.seconds {
            Some(seconds) => require(
                seconds.is_finite() && seconds > 0.0 && seconds <= 1e6,
                "--seconds must be more than 0 and at most 1000000",
            )?,
            None => require((1..=COUNT_MAX).contains(&self.operations), "--operations must be 1 to 10^12")?,
        }
        if let Some(rate) = self.rate {
            require(rate.is_finite() && rate > 0.0 && rate <= 1e9, "--rate must be more than 0 operations per second")?;
        }
        require(
            self.compression_ratio > 0.0 && self.compression_ratio <= 1.0,
            "--compression-ratio must be more than 0 and at most 1",
        )?;
        require(
            self.space_amplification.is_none_or(|bound| bound.is_finite() && bound >= 1.05),
            "--space-amplification must be at least 1.05",
        )?;
        require(
            self.memory_bytes.is_none_or(|bytes| bytes >= MEMORY_BYTES_MIN),
            "--memory-bytes must be at least 32MiB: the run itself needs some",
        )?;
        self.check_tasks()?;
        for engine in &self.engines {
            let kind = registry.get(engine)?;
            kind.check_io(self.io)?;
            let capabilities = (kind.capabilities)();
            let recorded = self.tasks.iter().filter_map(|task| match task {
                Task::Trace { counts } => Some(counts.key_bytes_max),
                _ => None,
            });
            let limit = capabilities.key_bytes_max;
            if let Some(bytes) = recorded.max().filter(|bytes| *bytes > limit as u64) {
                return Err(Error::invalid(format!(
                    "a key of the trace has {bytes} bytes, and {engine} takes at most {limit}: measure another engine"
                )));
            }
            let within = |option: &str, sizes: &[u32], max: usize| match sizes.iter().max() {
                Some(&most) if most as usize > max => {
                    Err(Error::invalid(format!("{option} {most} is more than the {max} of {engine}")))
                }
                _ => Ok(()),
            };
            within("--key-bytes", &self.key_bytes, capabilities.key_bytes_max)?;
            within("--value-bytes", &self.value_bytes, capabilities.value_bytes_max)?;
        }
        self.runs().iter().try_for_each(|spec| spec.keys().map(drop))
    }

    /// Refuse parameters of single tasks that mean nothing.
    fn check_tasks(&self) -> Result<()> {
        for task in &self.tasks {
            match task {
                Task::Shift { shift } => shift.check(self.records)?,
                Task::Trace { .. } if self.traces.is_empty() => return Err(Error::invalid("name the trace's file")),
                Task::Trace { .. } => {
                    let files = self.traces.len();
                    if let Some(threads) = self.threads.iter().find(|t| files > 1 && **t as usize != files) {
                        return Err(Error::invalid(format!(
                            "--threads {threads} does not fit {files} files, one for each thread: leave --threads out, or name \
                             one file, which every thread replays"
                        )));
                    }
                }
                Task::Ycsb { .. } | Task::Mix { .. } | Task::Db { .. } => {}
            }
        }
        Ok(())
    }

    /// The operations of a run with so many threads.
    fn operations_of(&self, task: Task, threads: u32) -> u64 {
        match task {
            Task::Trace { counts } if self.once && self.traces.len() == 1 => counts.operations() * u64::from(threads),
            Task::Trace { counts } if self.once => counts.operations(),
            _ => self.operations,
        }
    }

    /// Every run in its order: all layouts of all engines side by side, then again for the next repetition, so that a drift
    /// of the machine meets all alike. A repetition has one seed for all. What is named twice is done once.
    pub fn runs(&self) -> Vec<RunSpec> {
        let mut runs: Vec<RunSpec> = Vec::new();
        for repetition in 1..=self.repeat {
            for (task, threads, key_bytes, value_bytes) in self.points() {
                for engine in &self.engines {
                    for (partitioning, partitions, executor, repartition) in self.layouts() {
                        let spec = RunSpec {
                            engine: engine.clone(),
                            task,
                            partitioning,
                            partitions,
                            in_store: self.in_store,
                            placement: self.placement,
                            threads,
                            durability: self.durability.name().to_owned(),
                            records: self.records,
                            operations: self.operations_of(task, threads),
                            seconds: self.seconds,
                            rate: self.rate,
                            key_bytes,
                            value_bytes,
                            compression_ratio: self.compression_ratio,
                            cache_bytes: self.cache_bytes(),
                            space_amplification: self.space_amplification,
                            io: self.io.map(|io| io.name().to_owned()),
                            planner: self.planner.clone().filter(|_| repartition != Repartition::Off),
                            workers: executor.workers(),
                            repartition: (repartition != Repartition::Off).then(|| repartition.to_string()),
                            memory_bytes: self.memory_bytes,
                            seed: self.seed.wrapping_add(u64::from(repetition - 1)),
                            repetition,
                            traces: self.traces.clone(),
                            preload: self.preload,
                            once: self.once,
                            dir: PathBuf::new(),
                            dirs: match partitioning {
                                Partitioning::Hard => self.more_dirs.clone(),
                                _ => Vec::new(),
                            },
                        };
                        if !runs.contains(&spec) {
                            runs.push(spec);
                        }
                    }
                }
            }
        }
        runs
    }

    /// What engines and layouts are compared at: task, threads, key bytes and value bytes.
    fn points(&self) -> Vec<(Task, u32, u32, u32)> {
        let mut points = Vec::new();
        for &task in &self.tasks {
            for &threads in &self.threads {
                for &key_bytes in &self.key_bytes {
                    points.extend(self.value_bytes.iter().map(|&value_bytes| (task, threads, key_bytes, value_bytes)));
                }
            }
        }
        points
    }

    /// Where there is nothing to be moved, nothing moves by itself; an engine used directly has no executor.
    fn layouts(&self) -> Vec<(Partitioning, u32, Executor, Repartition)> {
        let mut layouts = Vec::new();
        for &partitioning in &self.partitionings {
            let (partitions, executors) = match partitioning {
                Partitioning::None => (&[1][..], &[Executor::Direct][..]),
                _ => (&self.partitions[..], &self.executors[..]),
            };
            for &partitions in partitions {
                let repartitions = match (partitioning, partitions) {
                    (Partitioning::Hard, 2..) => &self.repartitions[..],
                    _ => &[Repartition::Off][..],
                };
                for &executor in executors {
                    layouts.extend(repartitions.iter().map(|every| (partitioning, partitions, executor, *every)));
                }
            }
        }
        layouts
    }
}

/// Why a run cannot be done by its engine, found out before anything is started.
pub(crate) fn impossible(registry: &Registry, spec: &RunSpec) -> Option<Error> {
    let capabilities = (registry.get(&spec.engine).ok()?.capabilities)();
    if spec.engine == crate::null::NAME && spec.partitioning == Partitioning::Hard {
        return Some(Error::unsupported(format!(
            "{}: the engine null keeps nothing, not even what a hard store notes in each partition: measure it with \
             --partitioning none or soft",
            spec.label()
        )));
    }
    if spec.task.share(OpKind::Batch) > 0.0 && spec.partitioning == Partitioning::None && !capabilities.atomic_batches {
        return Some(Error::unsupported(format!(
            "{}: {} keeps no batch whole by itself: measure it with --partitioning soft or hard",
            spec.label(),
            spec.engine
        )));
    }
    if spec.repartition.is_some() && !capabilities.ordered {
        return Some(Error::unsupported(format!(
            "{}: {} keeps no order of keys, by which units are found: measure it with --repartition off",
            spec.label(),
            spec.engine
        )));
    }
    let why = spec.task.order().filter(|_| !capabilities.ordered)?;
    Some(Error::unsupported(format!("{}: {} keeps no order of keys, so {why}", spec.label(), spec.engine)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Benchmark;

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.add(biombo_engine::memory::kind()).add(crate::null::kind());
        registry
    }

    fn plan() -> Plan {
        Plan {
            engines: vec!["memory".into(), "null".into()],
            partitionings: vec![Partitioning::None, Partitioning::Hard],
            partitions: vec![2, 4],
            repeat: 2,
            ..Plan::default()
        }
    }

    #[test]
    fn repetitions_interleave_engines_and_layouts_under_one_seed() {
        let runs = plan().runs();
        let labels: Vec<_> = runs.iter().map(|r| format!("{}-{}-{}", r.engine, r.partitioning, r.partitions)).collect();
        let once = ["memory-none-1", "memory-hard-2", "memory-hard-4", "null-none-1", "null-hard-2", "null-hard-4"];
        assert_eq!(labels, [once, once].concat());
        assert!(runs[..6].iter().all(|r| r.seed == 1 && r.repetition == 1));
        assert!(runs[6..].iter().all(|r| r.seed == 2 && r.repetition == 2));
    }

    #[test]
    fn what_repartitions_itself_stands_beside_what_does_not_and_only_where_something_can_move() {
        let every = |text: &str| text.parse::<Repartition>().unwrap();
        let plan = Plan {
            engines: vec!["memory".into()],
            partitionings: vec![Partitioning::None, Partitioning::Soft, Partitioning::Hard],
            partitions: vec![1, 4],
            repartitions: vec![Repartition::Off, every("1s")],
            planner: Some("greedy".into()),
            ..plan()
        };
        plan.check(&registry()).unwrap();
        let runs = plan.runs();
        let moving: Vec<_> = runs.iter().filter(|run| run.repartition.is_some()).collect();
        assert_eq!(runs.len(), 2 * 6);
        assert!(
            moving.len() == 2 && moving.iter().all(|run| run.partitioning == Partitioning::Hard && run.partitions == 4)
        );
        assert!(runs.iter().all(|run| run.planner.is_some() == run.repartition.is_some()));
        assert!(moving[0].label().contains("hard-4 moving 1s"), "{}", moving[0].label());
        let refused = |plan: Plan, what: &str| {
            let error = plan.check(&registry()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(Plan { planner: Some("best".into()), ..plan.clone() }, "multilevel");
        refused(Plan { partitions: vec![1], ..plan.clone() }, "hard partitions");
        refused(Plan { repartitions: vec![Repartition::Off], ..plan.clone() }, "--planner plans moves");
        refused(Plan { repartitions: Vec::new(), ..plan }, "--repartition");
    }

    #[test]
    fn executors_stand_side_by_side_and_an_engine_used_directly_has_none() {
        let plan = Plan {
            engines: vec!["memory".into()],
            partitionings: vec![Partitioning::None, Partitioning::Soft, Partitioning::Hard],
            partitions: vec![4],
            executors: vec![Executor::Direct, Executor::Pinned { workers: 2 }],
            repeat: 1,
            ..plan()
        };
        plan.check(&registry()).unwrap();
        let labels: Vec<_> = plan.runs().iter().map(|run| run.label()).collect();
        let layouts: Vec<_> = labels.iter().map(|label| label.split(',').next().unwrap()).collect();
        let expected = ["memory", "memory soft-4", "memory soft-4 pinned-2", "memory hard-4", "memory hard-4 pinned-2"];
        assert_eq!(layouts, expected.map(|layout| format!("a {layout}")));
        let refused = |plan: Plan, what: &str| {
            let error = plan.check(&registry()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(Plan { partitionings: vec![Partitioning::None], ..plan.clone() }, "hard or soft");
        refused(Plan { executors: vec![Executor::Pinned { workers: 0 }], ..plan.clone() }, "--workers");
        refused(Plan { executors: Vec::new(), ..plan }, "--executor");
    }

    #[test]
    fn a_sweep_compares_all_engines_at_every_size_before_it_goes_on() {
        let plan = Plan {
            tasks: vec![Benchmark::FillRandom.into(), Benchmark::ReadRandom.into()],
            partitionings: vec![Partitioning::None],
            key_bytes: vec![16, 32],
            value_bytes: vec![256, 1_024],
            repeat: 1,
            ..plan()
        };
        let runs = plan.runs();
        assert_eq!(runs.len(), 2 * 2 * 2 * 2);
        let points: Vec<_> = runs.iter().map(|r| (r.engine.as_str(), r.key_bytes, r.value_bytes)).collect();
        assert_eq!(points[..4], [("memory", 16, 256), ("null", 16, 256), ("memory", 16, 1_024), ("null", 16, 1_024)]);
        assert_eq!(points[..8], points[8..]);
        assert!(runs[..8].iter().all(|r| r.task.name() == "fillrandom" && r.loaded() == 0));
        assert!(runs[8..].iter().all(|r| r.task.name() == "readrandom" && r.loaded() == r.records));
    }

    #[test]
    fn what_is_named_twice_is_done_once() {
        let plan = Plan { engines: vec!["null".into(), "null".into()], threads: vec![1, 2, 1], ..plan() };
        assert_eq!(plan.runs().len(), 2 * 2 * 3);
    }

    #[test]
    fn bad_options_are_refused_by_name() {
        let refuse = |change: &dyn Fn(&mut Plan), word: &str| {
            let mut plan = plan();
            change(&mut plan);
            let error = plan.check(&registry()).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        };
        assert!(plan().check(&registry()).is_ok());
        refuse(&|p| p.engines.clear(), "--engine");
        refuse(&|p| p.engines = vec!["nosuch".into()], "nosuch");
        refuse(&|p| p.records = 0, "--records");
        refuse(&|p| p.operations = 0, "--operations");
        refuse(&|p| p.threads = vec![0], "--threads");
        refuse(&|p| p.partitions = vec![0], "--partitions");
        refuse(&|p| p.seconds = Some(-1.0), "--seconds");
        refuse(&|p| p.rate = Some(f64::NAN), "--rate");
        refuse(&|p| p.repeat = 0, "--repeat");
        refuse(&|p| p.key_bytes = vec![16, 2], "--key-bytes");
        refuse(&|p| p.key_bytes = vec![16, 70_000], "--key-bytes");
        refuse(&|p| p.key_bytes.clear(), "--key-bytes");
        refuse(&|p| p.value_bytes = vec![u32::MAX, 1], "--value-bytes");
        refuse(&|p| p.compression_ratio = 0.0, "--compression-ratio");
        refuse(&|p| p.compression_ratio = f64::NAN, "--compression-ratio");
    }
}
