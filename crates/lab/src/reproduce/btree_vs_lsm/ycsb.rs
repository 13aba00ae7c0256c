//! YCSB over PostgreSQL, whose tables are B-trees, and over RocksDB, which merges sorted tables.
//!
//! Published: "B-trees against LSM-trees on NVMe SSDs" (February 2026), YCSB 0.18.0, 1 M operations of each workload. When a write was
//! acknowledged it does not say. By the defaults of both, and by its latencies, each PostgreSQL transaction waited for the device and no
//! write of RocksDB did. Here every engine is measured both ways: what stands beside the published figures is PostgreSQL at `sync` and
//! the others at `os`, and the conclusions say what remains when both are treated alike.

use std::collections::BTreeMap;

use biombo_engine::{Durability, Registry};

use super::super::{Figure, Finding, Lack, Seen, Unit, Verdict, merging, of_runs, quotient, spread_text};
use crate::amplification::Waf;
use crate::bench::Plan;
use crate::record::{Latency, Record};
use crate::statistics::Spread;
use crate::units::{bytes, count, duration_ns, times};
use crate::workload::{Benchmark, Task, Workload};

const TREE: &str = "postgres";
const MERGED: &str = "rocksdb";
/// Engines of Biombo's own, where a build has them.
const OURS: [&str; 3] = ["log", "micro-btree", "micro-lsm"];

/// What the load phase of YCSB is called.
const LOAD: &str = "A-load";
/// Operations per second: workload, PostgreSQL, RocksDB.
const THROUGHPUT: [(&str, Option<f64>, f64); 7] = [
    (LOAD, Some(1_053.0), 43_647.0),
    ("A", Some(1_496.0), 7_045.0),
    ("B", Some(3_482.0), 10_977.0),
    ("C", Some(4_324.0), 15_341.0),
    ("D", Some(4_156.0), 36_580.0),
    ("E", None, 2_671.0),
    ("F", Some(1_361.0), 9_849.0),
];
/// Mean latency in microseconds: workload, operation, PostgreSQL, RocksDB.
const LATENCY: [(&str, &str, f64, f64); 9] = [
    ("A", "read", 264.0, 124.0),
    ("A", "update", 1_065.0, 145.0),
    ("B", "read", 240.0, 87.0),
    ("B", "update", 1_120.0, 119.0),
    ("C", "read", 229.0, 63.0),
    ("D", "read", 194.0, 26.0),
    ("D", "insert", 1_075.0, 22.0),
    ("F", "read", 247.0, 86.0),
    ("F", "read_modify_write", 1_215.0, 112.0),
];

/// A counter of bytes written, and what it says of the run phase: not of opening, nor of the load before it.
type Counter = (&'static str, fn(&Record) -> Option<f64>);
const WAF: [Counter; 3] = [
    (KERNEL, |record| record.waf_of_run(|ways| ways.process)),
    ("engine", |record| record.amplification.as_ref()?.run.waf_by_engine()),
    ("device", |record| record.waf_of_run(|ways| ways.device)),
];
/// The counter that takes back what was removed before it was written.
const KERNEL: &str = "kernel";

/// Loaded bytes by those that a run has to put so that its write amplification is its own.
const LOADED_BY_PUT: u64 = 10;

/// Whether write amplification of the run phase is that of the run: nothing waits for compactions that loading left, and beside a few bytes
/// that are put they would be all that is seen.
fn is_own(record: &Record) -> bool {
    let Some(told) = &record.amplification else { return true };
    let loaded = told.load.as_ref().map_or(0, |load| load.logical_write_bytes);
    told.run.logical_write_bytes.saturating_mul(LOADED_BY_PUT) >= loaded
}

/// Records and operations of a run at scale 1, of which the whole ends within half an hour on a slow device, too; and scans of E, each of which reads
/// fifty records and more.
const RECORDS: f64 = 60_000.0;
const OPERATIONS: f64 = 40_000.0;
const SCANS: f64 = 10_000.0;
/// Keys and values, the lengths of which are a plan's default.
const RECORD_BYTES: u64 = 16 + 1_000;

/// Those of the two systems that were compared which can be measured.
fn systems(registry: &Registry) -> impl Iterator<Item = &'static str> {
    [TREE, MERGED].into_iter().filter(|name| registry.get(name).is_ok_and(|kind| kind.is_installed()))
}

/// The runs: the load alone, then each workload, at `os` and at `sync`; none where there is neither system.
pub(super) fn plans(registry: &Registry, scale: f64) -> Vec<Plan> {
    if systems(registry).next().is_none() {
        return Vec::new();
    }
    let ours = OURS.into_iter().filter(|name| registry.get(name).is_ok());
    let of = |figure: f64| ((figure * scale) as u64).max(1_000);
    let base = Plan {
        engines: systems(registry).chain(ours).map(str::to_owned).collect(),
        records: of(RECORDS),
        operations: of(OPERATIONS),
        threads: vec![1],
        repeat: 3,
        ..Plan::default()
    };
    let over_records = Plan { cache_bytes: Some(merging::cache_bytes(of(RECORDS), RECORD_BYTES)), ..base.clone() };
    let at = |durability| {
        [
            // Names enough that few are drawn twice: these are inserts.
            Plan {
                tasks: vec![Benchmark::FillRandom.into()],
                records: of(OPERATIONS) * 20,
                cache_bytes: Some(merging::cache_bytes(of(OPERATIONS), RECORD_BYTES)),
                durability,
                ..base.clone()
            },
            Plan {
                tasks: Workload::ALL.into_iter().filter(|work| *work != Workload::E).map(Task::from).collect(),
                durability,
                ..over_records.clone()
            },
            Plan { tasks: vec![Workload::E.into()], operations: of(SCANS), durability, ..over_records.clone() },
        ]
    };
    [at(Durability::Os), at(Durability::Sync)].concat()
}

/// What is left out of this part.
pub(super) fn lacks(registry: &Registry) -> Vec<Lack> {
    let of = |(engine, package, without)| {
        let why = match registry.get(engine) {
            Err(_) => format!("this build has no engine {engine}: build it with the feature {engine}"),
            Ok(kind) if kind.is_installed() => return None,
            Ok(_) => format!("the programs of {engine} are not installed: install the package {package}"),
        };
        Some(Lack { engine, why, without })
    };
    [
        (TREE, "postgresql", "the workloads are measured without PostgreSQL"),
        (MERGED, "librocksdb-dev", "the workloads are measured without RocksDB"),
    ]
    .into_iter()
    .filter_map(of)
    .collect()
}

/// The published name of what a run did.
fn workload(record: &Record) -> String {
    if record.workload == Benchmark::FillRandom.name() { LOAD.to_owned() } else { record.workload.to_uppercase() }
}

/// When the writes of an engine were acknowledged in the published study.
fn published_level(engine: &str) -> Durability {
    if engine == TREE { Durability::Sync } else { Durability::Os }
}

/// The runs of all engines.
pub(super) struct Runs<'a> {
    pub(super) records: Vec<&'a Record>,
    pub(super) seen: &'a Seen<'a, Record>,
}

impl<'a> Runs<'a> {
    fn of(&self, work: &str, engine: &str, level: Durability) -> Vec<&'a Record> {
        let fits = |r: &&'a Record| r.engine == engine && r.durability == level.name() && workload(r) == work;
        self.records.iter().copied().filter(fits).inspect(|record| self.seen.saw(record)).collect()
    }

    fn throughput(&self, work: &str, engine: &str, level: Durability) -> Option<Spread> {
        Spread::of(self.of(work, engine, level).iter().map(|record| record.ops_per_s))
    }

    /// A figure of one kind of operation.
    fn latency(
        &self,
        work: &str,
        engine: &str,
        level: Durability,
        kind: &str,
        of: fn(&Latency) -> u64,
    ) -> Option<Spread> {
        let runs = self.of(work, engine, level);
        Spread::of(runs.iter().filter_map(|record| record.latency_ns.get(kind)).map(|latency| of(latency) as f64))
    }

    /// Throughput of RocksDB by that of PostgreSQL, with the extremes that their repetitions allow.
    fn merged_by_tree(&self, work: &str, merged: Durability, tree: Durability) -> Option<Spread> {
        Some(quotient(self.throughput(work, MERGED, merged)?, self.throughput(work, TREE, tree)?))
    }

    /// Engines and kinds of operations of a workload in the order of their first run.
    fn rows(&self, work: &str) -> (Vec<&'a str>, Vec<&'a str>) {
        let mut engines: Vec<&str> = Vec::new();
        let mut kinds = BTreeMap::new();
        for &record in self.records.iter().filter(|record| workload(record) == work) {
            if !engines.contains(&record.engine.as_str()) {
                engines.push(&record.engine);
            }
            kinds.extend(record.latency_ns.keys().map(|kind| (kind.as_str(), ())));
        }
        (engines, kinds.into_keys().collect())
    }
}

/// What it was done with here.
pub(super) fn setup(runs: &Runs<'_>) -> String {
    let version = |engine: &str| {
        let of = runs.records.iter().find(|record| record.engine == engine);
        of.map_or("not measured".to_owned(), |record| record.engine_version.clone())
    };
    let of_load = runs.records.iter().find(|record| workload(record) == LOAD);
    let of_load = of_load.map_or(String::new(), |record| format!(" ({} for {LOAD})", bytes(record.cache_bytes as f64)));
    let (records, operations, cache_bytes) = runs
        .records
        .iter()
        .find(|record| workload(record) != LOAD)
        .map_or((0, 0, 0), |record| (record.records, record.operations, record.cache_bytes));
    let scans = runs.records.iter().find(|record| workload(record) == "E" && record.operations != operations);
    let scans = scans.map_or(String::new(), |record| format!(" ({} of E)", count(record.operations as f64)));
    format!(
        "PostgreSQL {}, RocksDB {}, {} records of 16 + 1000 bytes, {} of cache{of_load}, {} operations a run by one client{scans}",
        version(TREE),
        version(MERGED),
        count(records as f64),
        bytes(cache_bytes as f64),
        count(operations as f64)
    )
}

/// The conclusions.
pub(super) fn findings(runs: &Runs<'_>) -> Vec<Finding> {
    let seen = runs.seen;
    let mut findings: Vec<Finding> = THROUGHPUT.iter().map(|row| seen.finding(|| faster(runs, row))).collect();
    findings.push(seen.finding(|| updates(runs, TREE, 1_065.0 / 264.0)));
    findings.push(seen.finding(|| updates(runs, MERGED, 145.0 / 124.0)));
    findings.extend(merging::too_short(runs.records.iter().copied(), |r| format!("{}, {}", workload(r), r.durability)));
    findings
}

/// Throughput, latencies and write amplification of every engine under every workload.
pub(super) fn figures(runs: &Runs<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (work, tree, merged) in THROUGHPUT {
        let (engines, kinds) = runs.rows(work);
        let published = |engine: &str| match engine {
            TREE => Some(("PostgreSQL", tree)),
            MERGED => Some(("RocksDB", Some(merged))),
            _ => None,
        };
        let beside = |figure: Figure, published: Option<(&str, Option<f64>)>| match published {
            Some((system, published)) => figure.published(system, published),
            None => figure,
        };
        let load = |level: Durability| format!("{work}, {level}");
        for &engine in &engines {
            let level = published_level(engine);
            let figure = beside(Figure::new(load(level), "throughput", Unit::PerSecond), published(engine));
            figures.push(runs.seen.figure(|| figure.measured(engine, runs.throughput(work, engine, level))));
        }
        for (kind, &engine) in kinds.iter().flat_map(|kind| engines.iter().map(move |engine| (*kind, engine))) {
            let level = published_level(engine);
            let known = LATENCY.iter().find(|(of, operation, ..)| (*of, *operation) == (work, kind));
            let mean = |us: fn(&(&str, &str, f64, f64)) -> f64| known.map(|row| us(row) * 1e3);
            let published = match engine {
                TREE => Some(("PostgreSQL", mean(|row| row.2))),
                MERGED => Some(("RocksDB", mean(|row| row.3))),
                _ => None,
            };
            let at = |of| runs.latency(work, engine, level, kind, of);
            let figure = beside(Figure::new(load(level), format!("{kind}, mean"), Unit::Ns), published);
            figures.push(runs.seen.figure(|| Figure {
                p95_ns: at(|latency| latency.p95).map(|spread| spread.median),
                p99_ns: at(|latency| latency.p99).map(|spread| spread.median),
                ..figure.measured(engine, at(|latency| latency.mean))
            }));
        }
        for (engine, (by, of)) in engines.iter().flat_map(|engine| WAF.map(|counter| (*engine, counter))) {
            let level = published_level(engine);
            let figure = Figure::new(load(level), format!("WAF by the {by}"), Unit::Ratio);
            figures.push(runs.seen.figure(|| {
                let mut records = runs.of(work, engine, level);
                records.retain(|record| is_own(record));
                let waf = Spread::of(records.iter().filter_map(|record| of(record)));
                let below = || Waf::of_runs(records.iter().copied()).is_some_and(|waf| waf.engine.is_some());
                Figure { engine_says_more: by == KERNEL && below(), ..figure.measured(engine, waf) }
            }));
        }
    }
    figures
}

/// `3.10 (2.90 to 3.30)`.
fn text(spread: Spread) -> String {
    spread_text(spread, times)
}

/// Whether RocksDB is the faster one.
fn faster(runs: &Runs<'_>, (work, tree, merged): &(&str, Option<f64>, f64)) -> Finding {
    let Some(tree) = tree else { return completes(runs, work) };
    let ratio = merged / tree;
    let published = format!("workload {work}: RocksDB is faster than PostgreSQL ({ratio:.1} times as fast then)");
    let (os, sync) = (Durability::Os, Durability::Sync);
    let Some(by) = runs.merged_by_tree(work, os, sync) else { return Finding::unknown(published, Some(ratio)) };
    let alike = |level| runs.merged_by_tree(work, level, level).map_or("not measured".to_owned(), text);
    Finding {
        published,
        published_figure: Some(ratio),
        measured: format!(
            "{} times with PostgreSQL at sync and RocksDB at os, as then; both at os {}, both at sync {}",
            text(by),
            alike(os),
            alike(sync)
        ),
        measured_figure: Some(by.median),
        ratio: Some(by.median / ratio),
        lines: Vec::new(),
        is_published: true,
        verdict: of_runs(
            by.runs,
            if by.min > 1.0 {
                Verdict::Holds
            } else if by.max < 1.0 {
                Verdict::Refuted
            } else {
                Verdict::Mixed
            },
        ),
    }
}

/// The workload that failed then.
fn completes(runs: &Runs<'_>, work: &str) -> Finding {
    let published = format!(
        "workload {work} cannot be run on PostgreSQL: it failed with an ArithmeticException in the JDBC driver"
    );
    let level = published_level(TREE);
    let Some(tree) = runs.throughput(work, TREE, level) else { return Finding::unknown(published, None) };
    let by = runs.merged_by_tree(work, Durability::Os, level);
    let by = by.map_or(String::new(), |by| format!("; RocksDB at os is {} times as fast", text(by)));
    Finding {
        published,
        published_figure: None,
        measured: format!("{} operations a second, 0 errors{by}", count(tree.median)),
        measured_figure: Some(tree.median),
        ratio: None,
        // Runs with errors are not here.
        lines: Vec::new(),
        is_published: true,
        verdict: Verdict::Refuted,
    }
}

/// What an update costs by a read, in workload A.
fn updates(runs: &Runs<'_>, engine: &str, ratio: f64) -> Finding {
    let name = if engine == TREE { "PostgreSQL" } else { "RocksDB" };
    let published = format!("workload A: an update takes {ratio:.1} times as long as a read on {name}");
    let at = |level, kind| runs.latency("A", engine, level, kind, |latency| latency.mean);
    let by = |level| Some(quotient(at(level, "update")?, at(level, "read")?));
    let level = published_level(engine);
    let (Some(by_level), Some(update)) = (by(level), at(level, "update")) else {
        return Finding::unknown(published, Some(ratio));
    };
    let other = if level == Durability::Os { Durability::Sync } else { Durability::Os };
    let least = (ratio / 1.5).max(1.0);
    Finding {
        published,
        published_figure: Some(ratio),
        measured: format!(
            "{} times at {level}, {} on the mean; at {other} {}",
            text(by_level),
            duration_ns(update.median),
            by(other).map_or("not measured".to_owned(), text)
        ),
        measured_figure: Some(by_level.median),
        ratio: Some(by_level.median / ratio),
        lines: Vec::new(),
        is_published: true,
        // Within a half of it either way, and never where an update is the quicker one.
        verdict: of_runs(
            by_level.runs,
            if by_level.min >= least && by_level.max <= ratio * 1.5 {
                Verdict::Holds
            } else if by_level.max < least || by_level.min > ratio * 1.5 {
                Verdict::Refuted
            } else {
                Verdict::Mixed
            },
        ),
    }
}

/// What differs from then.
pub(super) fn differences() -> Vec<String> {
    [
        "The study does not say when a write was acknowledged. By the defaults of both, and by its latencies of an update (1065 and 145 µs), \
         each commit of PostgreSQL waited for the device and no write of RocksDB did. Here both are measured both ways, and what remains \
         when they are treated alike stands beside each workload. Nor does it say how many clients there were: YCSB's default is one.",
        "Then YCSB drove PostgreSQL through JDBC, ten columns a row, over TCP. Here a row is a key and a value of bytes, statements are \
         prepared, and the server listens on a local socket. Every operation still is a round trip between two processes, which no \
         engine within the process pays. A scan reads one state of the table, as it does on the other engines, for which a transaction begins \
         and ends: three round trips.",
        "Then the data was meant to be 10 M records, many times the caches. Here it is a hundredth at scale 1, and the cache of every engine a \
         quarter of what is loaded, or of what A-load puts, so that memtables are flushed and tables merged within a run. It is never less \
         than 16 MiB, which PostgreSQL takes: more than a quarter below a scale of 0.7, and for A-load, which puts less, below 1.7 (at 1 it \
         is two fifths). The machine's memory holds all of it: for engines that read through the kernel's \
         page cache more of the distance is processor time, less of it the device's.",
        "A-load is the fillrandom of db_bench: random names put into an empty store, one in forty twice. Its runs acknowledge each insert at \
         the durability that is named; the load phases before the workloads do so at os.",
        "The published study gives mean latencies alone. WAF is that of the run phase: what was written while loading and for PostgreSQL's \
         empty cluster (some 40 MB) is not in it, what closing writes or leaves in a log is, and so are compactions that loading left, for \
         which nothing waits. So there is none where less than a tenth of the load is put: in B, D and E, and in C, which puts nothing. By the \
         kernel is what the engine's processes are charged with: where files are kept in large pages, a whole one for each small synced \
         write into a log; and what is removed before it was written, as RocksDB's log at os is after a flush, is taken back. A star behind \
         it says that the engine's own counters, which stand below, have over 5 % more. By the device is what it really wrote, for \
         whomever: see to it that nothing else writes.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests;
