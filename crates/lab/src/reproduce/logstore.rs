//! `logstore`: what a log that is the data gives to many writers, beside stores that write a log and then their data.
//!
//! Published: "Building a new high-performance, highly available key-value database system", Journal of Software 2021, issue 10,
//! section 3.2: inserts of about 1 KB from YCSB by 1 to 128 threads; LogStore, LogBase and HBase, alone and with three replicas.
//! Here the engine `log` stands for LogStore, every other engine of the build beside it; replication is not measured.

use biombo_base::Result;
use biombo_engine::Registry;

use super::{
    Curve, Figure, Finding, Point, Reproduction, Seen, Unit, Verdict, merging, of_runs, quotient, spread_text,
};
use crate::bench::{Outcome, Plan};
use crate::record::Record;
use crate::statistics::Spread;
use crate::units::{bytes, count, duration_ns, plural, times};
use crate::workload::Benchmark;

/// What was published.
pub const TITLE: &str = "Building a new high-performance, highly available key-value database system (2021)";
const SETUP: &str = "1 M inserts of about 1 KB from YCSB, 1 to 128 threads; HBase 2.1.0 with an 8 GB cache, HDFS 3.1.1, three \
                     replicas where it says so; the machines are not named";

const THREADS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const MOST: u32 = 128;
/// LogBase with three replicas: threads, operations per second, mean latency in microseconds.
const LOGBASE: [(u32, f64, f64); 5] =
    [(1, 4_691.0, 211.0), (4, 6_501.0, 430.0), (8, 17_833.0, 441.0), (16, 34_618.0, 436.0), (32, 39_513.0, 764.0)];
const LOGBASE_PEAK: f64 = 37_000.0;
const LOGSTORE_AT_64: f64 = 64_973.0;
const LOGSTORE_PEAK: f64 = 80_000.0;
const LOGBASE_NAME: &str = "LogBase, 3 replicas";
const LOGSTORE_NAME: &str = "LogStore, 3 replicas";

/// The engine that is built as LogStore is.
const LOG: &str = "log";
/// Engines built as HBase is: a log, a table in memory, sorted tables that are merged.
const MERGE_TREES: [&str; 3] = ["rocksdb", "leveldb", "micro-lsm"];

/// Operations of a run at scale 1.
const OPERATIONS: f64 = 60_000.0;
/// The length of values; keys have 16 bytes.
const VALUE_BYTES: u32 = 1_024;

/// The runs: every engine that keeps data and is installed, at every number of threads. `scale` multiplies the number of operations.
pub fn plans(registry: &Registry, _asked: &[String], scale: f64) -> Result<Vec<Plan>> {
    let here = registry.iter().filter(|kind| (kind.capabilities)().persistent && kind.is_installed());
    let operations = ((OPERATIONS * scale) as u64).max(u64::from(MOST) * 8);
    Ok(vec![Plan {
        engines: here.map(|kind| kind.name.to_owned()).collect(),
        tasks: vec![Benchmark::FillRandom.into()],
        // Names enough that few are drawn twice: these are inserts.
        records: operations * 10,
        operations,
        threads: THREADS.to_vec(),
        value_bytes: vec![VALUE_BYTES],
        cache_bytes: Some(merging::cache_bytes(operations, 16 + u64::from(VALUE_BYTES))),
        repeat: 3,
        ..Plan::default()
    }])
}

/// A figure of a run.
type Of = fn(&Record) -> Option<f64>;

const THROUGHPUT: Of = |record| Some(record.ops_per_s);
const LATENCY: Of = |record| record.latency_ns.values().next().map(|latency| latency.mean as f64);
const P95: Of = |record| record.latency_ns.values().next().map(|latency| latency.p95 as f64);
const TAIL: Of = |record| record.latency_ns.values().next().map(|latency| latency.p99 as f64);

/// The runs of every engine.
struct Runs<'a> {
    records: &'a [Record],
    seen: Seen<'a, Record>,
}

impl Runs<'_> {
    fn at(&self, engine: &str, threads: u32, of: Of) -> Option<Spread> {
        let here = self.records.iter().filter(|record| record.engine == engine && record.threads == threads);
        Spread::of(here.inspect(|record| self.seen.saw(record)).filter_map(of))
    }

    /// Engines in the order of their first run.
    fn engines(&self) -> Vec<&str> {
        self.records.iter().fold(Vec::new(), |mut all, record| {
            if !all.contains(&record.engine.as_str()) {
                all.push(&record.engine);
            }
            all
        })
    }

    /// The throughput of the fastest of some engines, and which it is.
    fn fastest<'e>(&self, engines: impl IntoIterator<Item = &'e str>, threads: u32) -> Option<(&'e str, Spread)> {
        let known = engines.into_iter().filter_map(|engine| Some((engine, self.at(engine, threads, THROUGHPUT)?)));
        known.max_by(|a, b| a.1.median.total_cmp(&b.1.median))
    }

    /// The highest throughput of an engine at any number of threads.
    fn peak(&self, engine: &str) -> Option<Spread> {
        let all = THREADS.into_iter().filter_map(|threads| self.at(engine, threads, THROUGHPUT));
        all.max_by(|a, b| a.median.total_cmp(&b.median))
    }

    fn curve(&self, engine: &str) -> Curve {
        let point = |threads| {
            let (ops, latency) = (self.at(engine, threads, THROUGHPUT)?, self.at(engine, threads, LATENCY)?);
            Some(Point {
                threads,
                ops_per_s: ops.median,
                latency_ns: latency.median,
                latency_ns_p99: self.at(engine, threads, TAIL).map(|spread| spread.median),
                ops_per_s_spread: Some((ops.min, ops.max)),
                latency_ns_spread: Some((latency.min, latency.max)),
            })
        };
        Curve { label: engine.to_owned(), published: false, points: THREADS.into_iter().filter_map(point).collect() }
    }
}

/// What came out, beside what was published.
pub fn findings(outcome: &Outcome) -> Result<Reproduction> {
    let runs = Runs { records: &outcome.records, seen: Seen::of(&outcome.records) };
    let first = outcome.records.first();
    let cores = first.map_or(1, |record| record.host.cores);
    let mut curves: Vec<Curve> = runs.engines().into_iter().map(|engine| runs.curve(engine)).collect();
    let point = |(threads, ops_per_s, us): (u32, f64, f64)| Point::published(threads, ops_per_s, us * 1e3);
    curves.push(Curve { label: LOGBASE_NAME.to_owned(), published: true, points: LOGBASE.map(point).to_vec() });
    let host = first.map(|r| format!("{} ({} cores), Linux {}", r.host.cpu, r.host.cores, r.host.kernel));
    let (operations, cache_bytes) = first.map_or((0, 0), |record| (record.operations, record.cache_bytes));
    Ok(Reproduction {
        name: "logstore",
        title: TITLE,
        setup_then: SETUP,
        setup_now: format!(
            "{} inserts of 16 + {VALUE_BYTES} bytes a run into an empty store, {} of cache, acknowledged at os, one process, {}",
            count(operations as f64),
            bytes(cache_bytes as f64),
            host.unwrap_or_else(|| "no run was done".to_owned())
        ),
        differences: differences(cores),
        figures: figures(&runs),
        curves,
        findings: [conclusions(&runs, cores), merging::too_short(&outcome.records, at_threads)].concat(),
    })
}

fn conclusions(runs: &Runs<'_>, cores: u32) -> Vec<Finding> {
    vec![
        runs.seen.finding(|| faster(runs)),
        runs.seen.finding(|| scales(runs, cores)),
        runs.seen.finding(|| flat(runs, cores)),
        runs.seen.finding(|| rises(runs, cores)),
        Finding {
            published: "LogBase's locks make its latency jitter".to_owned(),
            published_figure: None,
            measured: "LogBase is not among the engines".to_owned(),
            measured_figure: None,
            ratio: None,
            lines: Vec::new(),
            is_published: true,
            verdict: Verdict::Unknown,
        },
    ]
}

fn at_threads(record: &Record) -> String {
    plural(u64::from(record.threads), "thread")
}

fn figures(runs: &Runs<'_>) -> Vec<Figure> {
    let at = |threads: u32| plural(u64::from(threads), "thread");
    let mut figures = Vec::new();
    // log stands for LogStore; for LogBase stands what it is compared with, the same engine in all rows.
    let tree = runs.fastest(MERGE_TREES, MOST).map_or(MERGE_TREES[0], |(tree, _)| tree);
    for (threads, qps, us) in LOGBASE {
        let merged = |of| runs.at(tree, threads, of);
        let throughput = Figure::new(at(threads), "throughput", Unit::PerSecond);
        let throughput = throughput.published(LOGBASE_NAME, Some(qps));
        figures.push(runs.seen.figure(|| throughput.measured(tree, merged(THROUGHPUT))));
        let latency = Figure::new(at(threads), "insert", Unit::Ns).published(LOGBASE_NAME, Some(us * 1e3));
        figures.push(runs.seen.figure(|| Figure {
            p95_ns: merged(P95).map(|spread| spread.median),
            p99_ns: merged(TAIL).map(|spread| spread.median),
            ..latency.measured(tree, merged(LATENCY))
        }));
    }
    let peak = |system, published, engine: &str| {
        let peak = Figure::new("the best", "throughput", Unit::PerSecond).published(system, Some(published));
        runs.seen.figure(|| peak.measured(engine, runs.peak(engine)))
    };
    let at_64 = Figure::new(at(64), "throughput", Unit::PerSecond).published(LOGSTORE_NAME, Some(LOGSTORE_AT_64));
    figures.push(runs.seen.figure(|| at_64.measured(LOG, runs.at(LOG, 64, THROUGHPUT))));
    figures.push(peak(LOGSTORE_NAME, LOGSTORE_PEAK, LOG));
    figures.push(peak(LOGBASE_NAME, LOGBASE_PEAK, tree));
    figures
}

/// Where figures lie by a bound that was published to be passed.
fn passes(by: Spread, bound: f64) -> Verdict {
    let verdict = if by.min >= bound {
        Verdict::Holds
    } else if by.max < bound {
        Verdict::Refuted
    } else {
        Verdict::Mixed
    };
    of_runs(by.runs, verdict)
}

/// `3.10 (2.90 to 3.30)`.
fn text(by: Spread) -> String {
    spread_text(by, times)
}

fn finding(published: String, figure: Option<f64>, measured: Option<(f64, String, Verdict)>) -> Finding {
    let Some((value, text, verdict)) = measured else { return Finding::unknown(published, figure) };
    Finding {
        published,
        published_figure: figure,
        measured: text,
        measured_figure: Some(value),
        ratio: figure.map(|figure| value / figure),
        lines: Vec::new(),
        is_published: true,
        verdict,
    }
}

fn faster(runs: &Runs<'_>) -> Finding {
    let measured = || {
        let log = runs.at(LOG, MOST, THROUGHPUT)?;
        let (tree, merged) = runs.fastest(MERGE_TREES, MOST)?;
        let by = quotient(log, merged);
        let others = runs.engines().into_iter().filter(|engine| *engine != LOG && *engine != tree);
        let others: Vec<String> = others
            .filter_map(|engine| Some((engine, log.median / runs.at(engine, MOST, THROUGHPUT)?.median)))
            .map(|(engine, by)| format!("{} times {engine}", times(by)))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        let text = format!(
            "{} times {tree}, the fastest engine that merges sorted tables as HBase does: {} by {} inserts a second{others}",
            text(by),
            count(log.median),
            count(merged.median)
        );
        Some((by.median, text, passes(by, 4.0)))
    };
    let published = "alone, 128 threads: a log that is the data writes more than 4 times as fast as LogBase and HBase";
    finding(published.to_owned(), Some(4.0), measured())
}

/// The most threads measured that a core each can run.
fn below(cores: u32) -> Option<u32> {
    THREADS.into_iter().rfind(|threads| *threads > 1 && *threads <= cores)
}

fn scales(runs: &Runs<'_>, cores: u32) -> Finding {
    let measured = || {
        let most = below(cores)?;
        let by = quotient(runs.at(LOG, most, THROUGHPUT)?, runs.at(LOG, 1, THROUGHPUT)?);
        let text = format!("{most} threads on {cores} cores write {} times what one does", text(by));
        // Linear, as people say it, is four fifths of it.
        Some((by.median, text, passes(by, 0.8 * f64::from(most))))
    };
    finding(
        "throughput grows linearly with the threads up to the number of cores".to_owned(),
        below(cores).map(f64::from),
        measured(),
    )
}

fn flat(runs: &Runs<'_>, cores: u32) -> Finding {
    let measured = || {
        let most = below(cores)?;
        let by = quotient(runs.at(LOG, most, LATENCY)?, runs.at(LOG, 1, LATENCY)?);
        let text = format!("{} times the mean latency at {most} threads", text(by));
        // A quarter more is flat yet: what is judged is that it does not pass that.
        Some((by.median, text, passes(by, 1.25).opposite()))
    };
    finding("latency stays flat while threads are no more than cores".to_owned(), None, measured())
}

fn rises(runs: &Runs<'_>, cores: u32) -> Finding {
    let measured = || {
        let few = below(cores).unwrap_or(1);
        let (many, few_at) = (runs.at(LOG, MOST, LATENCY)?, runs.at(LOG, few, LATENCY)?);
        let by = quotient(many, few_at);
        let text =
            format!("from {few} to {MOST} threads the mean rises {} times, to {}", text(by), duration_ns(many.median));
        Some((by.median, text, passes(by, 4.0)))
    };
    finding("past the number of cores latency rises sharply".to_owned(), None, measured())
}

fn differences(cores: u32) -> Vec<String> {
    vec![
        "The published figures with threads and latency are those of a cluster: a write there is sent to three machines over a network. \
         Here an engine is used in one process, so the ratios say how far apart the two are, not which is better built."
            .to_owned(),
        "The published setup does not say when a write was acknowledged. Here it is in the kernel's hands (os), which is what HBase's \
         default gives on each of its machines."
            .to_owned(),
        "LogStore, LogBase and HBase are not to be had: the engine log stands for the first, which it is built as; engines that merge \
         sorted tables stand for HBase, and the fastest of them with 128 threads for LogBase."
            .to_owned(),
        format!(
            "In a closed loop with more threads than the {cores} cores here, latency is threads by throughput: that it rises past the \
             cores says as much of the loop as of the store."
        ),
        "Records are as many as the operations, 6 % of those published at scale 1, and drawn from ten times as many names: one in \
         twenty is put twice."
            .to_owned(),
        "Then the cache of HBase had 8 GB, which is more than all that was written. Here the cache of every engine is a quarter of what is \
         written (never less than 16 MiB), so that engines that merge sorted tables flush and merge within a run, as they do in \
         the long run."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests;
