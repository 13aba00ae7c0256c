//! Whole benches, with their worker processes: the worker is this test program itself.

use std::io::{Write, stdin, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use biombo_engine::{Durability, EngineKind, Registry};
use biombo_lab::advise::{Question, Standing, advise};
use biombo_lab::bench::{Observer, Plan, Silent, run};
use biombo_lab::process::{WorkerCommand, worker};
use biombo_lab::spec::{Partitioning, Placement, RunSpec};
use biombo_lab::workload::trace::survey;
use biombo_lab::workload::{Benchmark, Shift, ShiftKind, Task, Workload};

const WORKER: &str = "BIOMBO_LAB_WORKER";

/// `memory`, `null`, and some that die or hang in their own way.
fn registry() -> Registry {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    registry.add(biombo_engine::memory::kind()).add(biombo_lab::null::kind());
    registry.add(EngineKind {
        name: "aborts",
        open: std::sync::Arc::new(|_| {
            eprintln!("out of cheese");
            std::process::abort()
        }),
        ..biombo_engine::memory::kind()
    });
    registry.add(EngineKind {
        name: "panics",
        open: std::sync::Arc::new(|_| panic!("redo from start")),
        ..biombo_engine::memory::kind()
    });
    registry.add(EngineKind {
        name: "hangs",
        open: std::sync::Arc::new(|_| {
            eprintln!("please wait");
            std::thread::sleep(Duration::from_secs(3_600));
            panic!("nobody waits so long")
        }),
        ..biombo_engine::memory::kind()
    });
    registry.add(EngineKind {
        name: "unordered",
        capabilities: || biombo_engine::Capabilities {
            ordered: false,
            ..(biombo_engine::memory::kind().capabilities)()
        },
        ..biombo_engine::memory::kind()
    });
    registry
}

/// No test: the entry of the worker processes that the tests below start.
#[test]
fn worker_entry() {
    if std::env::var_os(WORKER).is_some() {
        // The test runner's own words end here.
        stdout().write_all(b"\n").expect("the parent listens");
        let _ = worker::main(&registry(), stdin(), stdout());
    }
}

fn command() -> WorkerCommand {
    WorkerCommand {
        program: std::env::current_exe().expect("this program has a file"),
        args: ["--exact", "worker_entry", "--nocapture", "--test-threads=1"].map(str::to_owned).into(),
        env: vec![(WORKER.to_owned(), "1".to_owned())],
        silence_max: None,
    }
}

fn plan(engines: &[&str], dir: &Path) -> Plan {
    Plan {
        engines: engines.iter().map(|&name| name.to_owned()).collect(),
        tasks: vec![Workload::A.into()],
        records: 500,
        operations: 2_000,
        value_bytes: vec![100],
        cache_bytes: Some(1 << 24),
        dir: Some(dir.to_owned()),
        ..Plan::default()
    }
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).expect("the directory is there").next().is_none()
}

#[test]
fn every_workload_gives_a_whole_record_from_its_own_process() {
    let dir = tempfile::tempdir().unwrap();
    let plan =
        Plan { tasks: Workload::ALL.map(Task::from).to_vec(), repeat: 2, ..plan(&["memory", "null"], dir.path()) };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(outcome.records.len(), 24);
    for record in &outcome.records {
        assert_eq!((record.operations, record.errors), (2_000, 0), "{:?}", record.first_error);
        assert!(record.ops_per_s > 0.0 && record.seconds > 0.0 && record.rss_bytes_max > 0);
        assert!(record.latency_ns.values().map(|l| l.count).sum::<u64>() == 2_000);
        assert!(record.logical_write_bytes >= 500 * 116);
    }
    let order: Vec<_> = outcome.records[..4].iter().map(|r| (r.workload.as_str(), r.engine.as_str())).collect();
    assert_eq!(order, [("a", "memory"), ("a", "null"), ("b", "memory"), ("b", "null")]);
    assert!(is_empty(dir.path()), "runs left their directories behind");
}

#[test]
fn every_layout_of_lmdb_and_memory_does_the_same_work() {
    let dir = tempfile::tempdir().unwrap();
    let all = [Partitioning::None, Partitioning::Soft, Partitioning::Hard];
    for placement in [Placement::Hash, Placement::Range] {
        let plan = Plan {
            tasks: vec![Workload::A.into(), Workload::D.into(), Workload::E.into()],
            partitionings: all.to_vec(),
            partitions: vec![3],
            placement,
            ..plan(&["lmdb", "memory"], dir.path())
        };
        let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!(outcome.records.len(), 3 * 2 * 3);
        for record in &outcome.records {
            assert_eq!((record.operations, record.errors), (2_000, 0), "{:?}", record.first_error);
            if record.engine == "lmdb" {
                assert!(record.disk_bytes > record.logical_write_bytes / 2, "{}", record.disk_bytes);
                assert!(!record.engine_options.is_empty() && !record.engine_version.is_empty());
            }
        }
    }
    assert!(is_empty(dir.path()));
}

#[test]
fn a_synced_run_works_under_many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        partitionings: vec![Partitioning::None, Partitioning::Hard],
        partitions: vec![2],
        threads: vec![8],
        operations: 400,
        durability: Durability::Sync,
        ..plan(&["lmdb"], dir.path())
    };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(outcome.records.iter().all(|r| r.operations == 400 && r.errors == 0 && r.durability == "sync"));
}

#[test]
fn a_crashed_worker_is_one_clear_failure_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&["memory", "aborts", "panics", "null"], dir.path());
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    let engines: Vec<_> = outcome.records.iter().map(|r| r.engine.as_str()).collect();
    assert_eq!(engines, ["memory", "null"]);
    let messages: Vec<_> = outcome.failures.iter().map(|(_, error)| error.to_string()).collect();
    assert_eq!(messages.len(), 2);
    assert!(messages[0].contains("signal 6") && messages[0].contains("out of cheese"), "{}", messages[0]);
    assert!(messages[1].contains("redo from start") || messages[1].contains("status"), "{}", messages[1]);
    assert!(is_empty(dir.path()), "failed runs left their directories behind");
}

#[test]
fn a_workload_that_an_engine_cannot_do_is_said_and_the_rest_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { tasks: vec![Workload::E.into(), Workload::C.into()], ..plan(&["unordered"], dir.path()) };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert_eq!(outcome.records.len(), 1);
    assert!(outcome.failures[0].1.to_string().contains("no order"));
}

#[test]
fn the_null_engine_measures_the_driver_and_a_soft_store_and_refuses_a_hard_one() {
    let dir = tempfile::tempdir().unwrap();
    let all = vec![Partitioning::None, Partitioning::Soft, Partitioning::Hard];
    let plan = Plan { partitionings: all, ..plan(&["null"], dir.path()) };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert_eq!(outcome.records.iter().map(|r| r.label()).collect::<Vec<_>>(), ["null", "null soft-8"]);
    assert!(outcome.records.iter().all(|r| r.errors == 0));
    assert!(outcome.failures[0].1.to_string().contains("none or soft"));
}

#[test]
fn a_worker_that_is_no_worker_is_a_clear_failure() {
    let dir = tempfile::tempdir().unwrap();
    let command = WorkerCommand { program: "/bin/true".into(), args: Vec::new(), env: Vec::new(), silence_max: None };
    let outcome = run(&plan(&["memory"], dir.path()), &registry(), &command, &mut Silent).unwrap();
    assert!(outcome.failures[0].1.to_string().contains("ended with status 0"));
    let command = WorkerCommand { program: "/no/such/program".into(), ..command };
    let outcome = run(&plan(&["memory"], dir.path()), &registry(), &command, &mut Silent).unwrap();
    assert!(outcome.failures[0].1.to_string().contains("/no/such/program"));
}

#[test]
fn a_worker_that_hangs_is_killed_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let command = WorkerCommand { silence_max: Some(Duration::from_secs(3)), ..command() };
    let outcome = run(&plan(&["hangs", "memory"], dir.path()), &registry(), &command, &mut Silent).unwrap();
    assert_eq!((outcome.records.len(), outcome.failures.len(), outcome.interrupted), (1, 1, 0));
    let message = outcome.failures[0].1.to_string();
    assert!(message.contains("hung in its phase `open`") && message.contains("please wait"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(is_empty(dir.path()));
}

/// Interrupts once `records` runs have ended and another is in `phase`.
struct Interrupts {
    records: usize,
    phase: &'static str,
    now: bool,
}

impl Observer for Interrupts {
    fn phase(&mut self, phase: &str, _operations: Option<u64>, _seconds: Option<f64>) {
        self.now = self.records == 0 && phase == self.phase;
    }

    fn end(&mut self, _spec: &RunSpec, _result: Result<&biombo_lab::record::Record, &biombo_engine::Error>) {
        self.records -= 1;
    }

    fn interrupted(&mut self) -> bool {
        self.now
    }
}

#[test]
fn an_interruption_gives_up_the_present_run_and_keeps_those_before() {
    let dir = tempfile::tempdir().unwrap();
    for (engines, phase) in [(["memory", "hangs", "null"], "open"), (["memory", "memory", "null"], "load")] {
        let mut observer = Interrupts { records: 1, phase, now: false };
        let plan = Plan { tasks: vec![Workload::A.into(), Workload::B.into()], ..plan(&engines, dir.path()) };
        let runs = plan.runs().len();
        let outcome = run(&plan, &registry(), &command(), &mut observer).unwrap();
        assert_eq!((outcome.records.len(), outcome.failures.len(), outcome.interrupted), (1, 0, runs - 1), "{phase}");
        assert!(is_empty(dir.path()), "an interrupted run left its directory behind");
    }
}

#[test]
fn every_benchmark_of_db_bench_sweeps_sizes_over_two_engines_in_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        tasks: Benchmark::ALL.map(Task::from).to_vec(),
        partitionings: vec![Partitioning::None, Partitioning::Hard],
        partitions: vec![3],
        operations: 500,
        threads: vec![1],
        key_bytes: vec![16, 20],
        value_bytes: vec![64, 256],
        compression_ratio: 0.5,
        ..plan(&["lmdb", "memory"], dir.path())
    };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(outcome.records.len(), 6 * 2 * 2 * 2 * 2);
    for record in &outcome.records {
        let name = format!("{} {}", record.workload, record.label());
        assert_eq!((record.bench.as_str(), record.operations, record.errors), ("db", 500, 0), "{name}");
        assert_eq!(record.compression_ratio, 0.5);
        let (size, fills) = (u64::from(record.key_bytes + record.value_bytes), record.workload.starts_with("fill"));
        let beside = if record.workload == "readwhilewriting" { record.latency_ns["update"].count } else { 0 };
        let puts = match record.workload.as_str() {
            "fillseq" | "fillrandom" | "overwrite" => 500,
            _ => beside,
        };
        let loaded = if fills { 0 } else { 500 };
        assert_eq!(record.logical_write_bytes, (loaded + puts) * size, "{name}");
        assert_eq!((record.load.seconds > 0.0, record.load.ops_per_s > 0.0), (!fills, !fills), "{name}");
        assert_eq!(record.latency_ns.values().map(|l| l.count).sum::<u64>(), 500 + beside, "{name}");
    }
    let sizes: Vec<_> = outcome.records[..16].iter().map(|r| (r.key_bytes, r.value_bytes)).collect();
    assert_eq!(sizes.chunks(4).map(|c| c[0]).collect::<Vec<_>>(), [(16, 64), (16, 256), (20, 64), (20, 256)]);
    assert!(is_empty(dir.path()));
}

#[test]
fn an_engine_without_order_is_refused_readseq_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = vec![Benchmark::ReadSeq.into(), Benchmark::ReadRandom.into()];
    let plan = Plan { tasks, operations: 100, ..plan(&["unordered"], dir.path()) };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert_eq!(outcome.records.len(), 1);
    assert!(outcome.failures[0].1.to_string().contains("no order"));
}

#[test]
fn every_shifting_workload_does_the_same_work_over_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = ShiftKind::ALL.map(|kind| Task::from(Shift { period_seconds: 0.01, ..kind.into() })).to_vec();
    let plan = Plan {
        tasks,
        partitionings: vec![Partitioning::None, Partitioning::Hard],
        partitions: vec![3],
        ..plan(&["lmdb"], dir.path())
    };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert_eq!(outcome.records.len(), ShiftKind::ALL.len() * 2);
    for record in &outcome.records {
        let name = format!("{} {}", record.workload, record.label());
        assert_eq!((record.bench.as_str(), record.operations, record.errors), ("shift", 2_000, 0), "{name}");
        assert_eq!(record.shift.map(|shift| shift.kind.name()), Some(record.workload.as_str()), "{name}");
        assert!(record.shift.is_some_and(|shift| shift.hot_records.is_some()), "{name}: what it came to is told");
        let (line, length) = (&record.timeline, record.timeline.operations.len());
        assert_eq!(
            (line.operations.iter().sum::<u64>(), line.p99_ns.len(), line.max_ns.len()),
            (2_000, length, length)
        );
        let slowest = record.latency_ns.values().map(|l| l.max).max().unwrap();
        // A histogram's three digits and an exact figure.
        let told = line.max_ns.iter().copied().max().unwrap();
        assert!(told.abs_diff(slowest) <= slowest / 500 + 1, "{name}: {told} and {slowest}");
        assert!(line.marks.iter().all(|mark| mark.at_seconds <= record.seconds + 0.1), "{name}: {:?}", line.marks);
    }
    // A run by seconds shifts while it goes on.
    let jump = Shift { period_seconds: 0.05, ..ShiftKind::Jump.into() };
    let plan = Plan { tasks: vec![jump.into()], seconds: Some(0.3), ..plan_of_one(dir.path()) };
    let outcome = run(&plan, &registry(), &command(), &mut Silent).unwrap();
    assert!(outcome.records[0].timeline.marks.len() >= 5, "{:?}", outcome.records[0].timeline.marks);
    assert!(is_empty(dir.path()));
}

fn plan_of_one(dir: &Path) -> Plan {
    plan(&["memory"], dir)
}

#[test]
fn a_trace_is_loaded_and_replayed_once_by_each_worker_over_every_layout() {
    let dir = tempfile::tempdir().unwrap();
    let files = [dir.path().join("one.txt"), dir.path().join("two.txt")];
    let lines =
        |from: u32| (from..from + 500).map(|n| format!("{},key{:04}\n", n % 2, n * 7 % 900)).collect::<String>();
    std::fs::write(&files[0], lines(0)).unwrap();
    std::fs::write(&files[1], lines(300) + "2,key0007,10\n").unwrap();
    let counts = survey(&files).unwrap();
    assert_eq!((counts.operations(), counts.keys), (1_001, 800));
    let runs = dir.path().join("runs");
    let plan = |preload| Plan {
        tasks: vec![Task::Trace { counts }],
        partitionings: vec![Partitioning::None, Partitioning::Hard],
        partitions: vec![3],
        placement: Placement::Range,
        traces: files.to_vec(),
        once: true,
        preload,
        records: counts.operations(),
        ..plan(&["lmdb", "null"], &runs)
    };
    let keys = (0..800u32).map(|n| n * 7 % 900).collect::<std::collections::BTreeSet<_>>().len() as u64;
    for preload in [true, false] {
        let outcome = run(&plan(preload), &registry(), &command(), &mut Silent).unwrap();
        let records: Vec<_> = outcome.records.iter().filter(|record| record.engine == "lmdb").collect();
        assert_eq!(records.len(), 2, "{:?}", outcome.failures);
        for record in records {
            assert_eq!((record.bench.as_str(), record.workload.as_str()), ("trace", "one and 1 more"));
            assert_eq!((record.operations, record.errors), (1_001, 0), "{:?}", record.first_error);
            assert_eq!(record.latency_ns["scan"].count, 1);
            assert_eq!((record.latency_ns["read"].count, record.latency_ns["update"].count), (500, 500));
            assert_eq!(record.records, if preload { keys } else { 0 });
            assert_eq!(record.logical_write_bytes, (record.records + 500) * 107);
            assert_eq!(record.load.seconds > 0.0, preload);
        }
    }
    // Files that do not fit the threads are refused before anything is started.
    let unfit = Plan { threads: vec![3], ..plan(true) };
    let error = run(&unfit, &registry(), &command(), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("--threads 3 does not fit 2 files"), "{error}");
    assert!(is_empty(&runs));
}

#[test]
fn a_race_drops_what_is_beaten_and_what_dies_and_ends_before_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let engines = ["lmdb", "aborts", "memory", "unordered"].map(str::to_owned).to_vec();
    // Each write of lmdb waits for the device.
    let question = Question {
        engines,
        partitions: vec![1],
        records: 500,
        value_bytes: 100,
        durability: Durability::Sync,
        cache_bytes: Some(1 << 24),
        budget_seconds: 20.0,
        dir: Some(dir.path().to_owned()),
        ..Question::default()
    };
    let advice = advise(&question, &registry(), &command(), &mut Silent).unwrap();
    let of = |name: &str| advice.ranking.iter().find(|ranked| ranked.name == name).unwrap();
    assert!(matches!(&of("aborts").standing, Standing::Failed { why } if why.contains("out of cheese")), "{advice:?}");
    assert!(matches!(&of("lmdb").standing, Standing::Beaten { .. }), "{advice:?}");
    assert!((1..advice.rounds).contains(&of("lmdb").trials), "it leaves its time to the others: {advice:?}");
    assert_eq!((of("aborts").trials, of("memory").trials), (0, advice.rounds));
    // The last two are one engine under two names.
    assert!(["memory", "unordered"].contains(&advice.config.engine.as_deref().unwrap_or_default()), "{advice:?}");
    assert!(is_empty(dir.path()), "trials left their directories behind");

    let scans =
        Question { task: Workload::E.into(), engines: vec!["unordered".to_owned(), "memory".to_owned()], ..question };
    let advice = advise(&scans, &registry(), &command(), &mut Silent).unwrap();
    assert_eq!((advice.ranking.len(), advice.rounds, advice.left_out.len()), (1, 1, 1), "one candidate is tried once");
    assert!(advice.seconds < 10.0 && advice.left_out[0].engine == "unordered", "{advice:?}");
}

/// Gives up in the middle of the second round.
#[derive(Default)]
struct GivesUp {
    begun: usize,
}

impl Observer for GivesUp {
    fn begin(&mut self, index: usize, _spec: &RunSpec) {
        self.begun = index + 1;
    }

    fn interrupted(&mut self) -> bool {
        self.begun >= 4
    }
}

#[test]
fn an_interrupted_race_says_what_its_whole_rounds_have_shown() {
    let dir = tempfile::tempdir().unwrap();
    let question = Question {
        engines: vec!["memory".to_owned(), "unordered".to_owned()],
        partitions: vec![1],
        records: 500,
        budget_seconds: 20.0,
        dir: Some(dir.path().to_owned()),
        ..Question::default()
    };
    let mut observer = GivesUp::default();
    let advice = advise(&question, &registry(), &command(), &mut observer).unwrap();
    assert_eq!((observer.begun, advice.rounds, advice.interrupted), (4, 1, true), "{advice:?}");
    assert!(advice.ranking.iter().all(|ranked| ranked.trials == 1), "a part of a round counts: {advice:?}");
    assert_eq!(advice.noise, None);
    assert!(is_empty(dir.path()), "trials left their directories behind");
}
