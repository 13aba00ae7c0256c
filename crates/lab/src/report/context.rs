//! What the template is given: every text and plot of the page.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::again::reproduced;
use super::date;
use super::findings::{class, findings};
use super::methods::methods;
use super::plots::{Percentiles, Series, bars, latencies};
use super::sweep::sweep;
use super::timeline::Timelines;
use crate::amplification::{OF_WHOLE, Waf, note};
use crate::measure::{Host, Place};
use crate::record::{Latency, Record};
use crate::reproduce::Reproduction;
use crate::statistics::{PAIRS_MIN, Ratio};
use crate::summary::{Criterion, Row, Table, bench_name, sweeps, tables};
use crate::units::{bytes, count, duration_ns, plural as plural_of, size};
use crate::workload::{Benchmark, Workload};

/// The page's colours for engines. More engines than these have them again, with other marks.
pub(super) const COLOURS: usize = 8;

pub(crate) fn page(records: &[Record], failures: &[String], again: Option<&Reproduction>, lines: String) -> Value {
    let tables = tables(records);
    let engines = distinct(records.iter().map(|r| r.engine.clone()));
    let sections: Vec<Value> = sweeps(&tables).iter().map(|tables| section(tables, &engines)).collect();
    context! {
        again => again.map(|again| reproduced(again, &engines)),
        title => again.map_or_else(|| title(records, &engines), |again| again.title.to_owned()),
        lead => lead(records),
        findings => Value::from(Serde(findings(&tables))),
        failures => Value::from(Serde(failures)),
        sections => sections,
        methods => methods(records),
        engines => options(records),
        records => lines,
    }
}

pub(super) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut all, item| {
        if !all.contains(&item) {
            all.push(item);
        }
        all
    })
}

pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn title(records: &[Record], engines: &[String]) -> String {
    let works: Vec<String> = distinct(records.iter().map(|r| r.bench.as_str()))
        .into_iter()
        .map(|bench| {
            let names = distinct(records.iter().filter(|r| r.bench == bench).map(|r| match bench {
                "ycsb" => r.workload.to_uppercase(),
                _ => r.workload.clone(),
            }));
            format!("{} {}", bench_name(bench), list(&names))
        })
        .collect();
    if engines.len() <= 6 {
        format!("{} on {}", list(&works), list(engines))
    } else {
        format!("{} on {} engines", list(&works), engines.len())
    }
}

/// How many runs, on which machines, by which versions. Runs carry no date: the day is that of the page.
fn lead(records: &[Record]) -> String {
    if records.is_empty() {
        return "No run was done.".to_owned();
    }
    let machine = |record: &Record| {
        let Host { cpu, cores, kernel } = &record.host;
        format!("{cpu} ({cores} core{}), Linux {kernel}", if *cores == 1 { "" } else { "s" })
    };
    let machines = distinct(records.iter().map(machine));
    let versions = distinct(records.iter().map(|record| record.version.clone()));
    let runs = plural_of(records.len() as u64, "run");
    let several = if machines.len() > 1 { format!("{} machines: ", machines.len()) } else { String::new() };
    let mixed = if machines.len() > 1 { ". Figures of different machines do not compare" } else { "" };
    format!(
        "{runs} on {several}{}, biombo {}{mixed}. This page was made on {}.",
        machines.join("; "),
        list(&versions),
        date::today()
    )
}

/// Many operations of a kind.
pub(super) fn plural(kind: &str) -> String {
    let kind = kind.replace('_', "-");
    if kind.ends_with("ch") { kind + "es" } else { kind + "s" }
}

pub(super) fn series<'a>(row: &'a Row, engines: &[String]) -> Series<'a> {
    let colour = engines.iter().position(|engine| *engine == row.engine).unwrap_or(0);
    Series { label: &row.label, colour, direct: row.partitioning == "none" }
}

/// One workload with one number of threads: a table with its plots, or a sweep's plots with the tables folded up below.
fn section(tables: &[&Table], engines: &[String]) -> Value {
    let first = tables[0];
    context! {
        heading => first.sweep_heading().replacen('w', "W", usize::from(first.bench == "ycsb")),
        setting => setting(tables),
        sweep => (tables.len() > 1).then(|| sweep(tables, engines)),
        spread => spread_note(tables),
        tables => tables.iter().map(|table| body(table, engines)).collect::<Vec<_>>(),
    }
}

/// Of the row with most of them; runs that are in no figure do not count.
fn repetitions(table: &Table) -> usize {
    table.rows.iter().map(|row| row.told().count()).max().unwrap_or(0)
}

fn spread_note(tables: &[&Table]) -> String {
    match tables.iter().map(|table| repetitions(table)).max().unwrap_or(0) {
        0 | 1 => "one run each: no spread is known".to_owned(),
        several => format!("median of {several} repetitions, whiskers from the slowest to the fastest"),
    }
}

fn body(table: &Table, engines: &[String]) -> Value {
    let kinds = distinct(table.rows.iter().flat_map(|row| row.latency.keys().cloned()));
    let timelines = Timelines::new(table);
    let criterion = table.criterion();
    context! {
        sizes => format!("keys of {}, values of {}", size(table.key_bytes), size(table.value_bytes)),
        spread => spread_note(&[table]),
        bars => bars(&table.rows.iter().map(|row| (series(row, engines), row.ops_per_s)).collect::<Vec<_>>()),
        latencies => kinds.iter().map(|kind| latency(table, kind, engines)).collect::<Vec<_>>(),
        panels => timelines.throughput(engines),
        tails => timelines.tail(engines),
        marks => Value::from(Serde(timelines.marks())),
        layouts => Value::from(Serde(timelines.layouts())),
        timeline_note => timelines.note(),
        amplification => super::amplification::card(table),
        stars => note(&table.rows, &OF_WHOLE).unwrap_or_default(),
        both => table.rows.iter().any(|row| row.partitioning == "none")
            && table.rows.iter().any(|row| row.partitioning != "none"),
        interval_note => if repetitions(table) >= PAIRS_MIN {
            "the 95 % interval of the ratio"
        } else {
            "the smallest and largest ratio"
        },
        ratios => table.rows.iter().any(|row| row.ratio.is_some()),
        tail => match &criterion {
            Criterion::Throughput => None,
            Criterion::Tail(kind) => Some(plural(kind)),
        },
        errors => table.rows.iter().any(|row| row.errors > 0),
        moving => Value::from(Serde(table.rows.iter().filter_map(|row| moved(row, &criterion)).collect::<Vec<_>>())),
        shifts => table.rows.iter().any(|row| row.moving.as_ref().is_some_and(|moving| moving.settled.is_some())),
        rows => Value::from(Serde(table.rows.iter().flat_map(|row| lines(row, &criterion)).collect::<Vec<_>>())),
        costs => Value::from(Serde(table.rows.iter().map(cost).collect::<Vec<_>>())),
    }
}

fn setting(tables: &[&Table]) -> String {
    let table = tables[0];
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let sizes = |of: fn(&Table) -> u32| {
        let mut sizes = distinct(tables.iter().map(|table| of(table)));
        sizes.sort_unstable();
        list(&sizes.into_iter().map(size).collect::<Vec<_>>())
    };
    let work = match (table.bench.as_str(), table.workload.parse::<Workload>(), table.workload.parse::<Benchmark>()) {
        ("ycsb", Ok(workload), _) => {
            format!(" {}: {}, {} distribution", workload.name().to_uppercase(), workload.summary(), table.distribution)
        }
        ("db", _, Ok(benchmark)) => {
            format!(" {benchmark}: {}, {} distribution", benchmark.summary(), table.distribution)
        }
        _ => format!(" {}: {}", table.workload, table.choice()),
    };
    let placements = distinct(rows().filter(|row| row.partitioning != "none").map(|row| row.placement.clone()));
    let placed = match placements.as_slice() {
        [] => String::new(),
        some => format!("; keys are placed in partitions by {}", list(some)),
    };
    let late = tables.iter().flat_map(|table| table.rows.iter().filter(move |row| table.is_behind(row)));
    let late = distinct(late.map(|row| row.label.clone()));
    let kept = if late.is_empty() { String::new() } else { format!(", which {} did not keep", list(&late)) };
    let length = table.length().map_or(String::new(), |length| format!("; {length}"));
    let places = distinct(rows().flat_map(|row| &row.records).flat_map(|record| &record.places).map(Place::to_string));
    let lie = if places.is_empty() { String::new() } else { format!("; stores on {}", list(&places)) };
    let io = table.io.as_ref().map_or(String::new(), |io| format!("; files that are written no more are read by {io}"));
    let memory = table.memory_bytes.map_or(String::new(), |limit| {
        format!("; {} of memory for each run, the kernel's cache of its files included", bytes(limit as f64))
    });
    format!(
        "{}{work}. {} records with keys of {} and values of {}{}; writes acknowledged at {}; {} of cache \
         for each store{memory}{io}{placed}; {}{kept}{length}{lie}.",
        table.bench_name(),
        count(table.records as f64),
        sizes(|t| t.key_bytes),
        sizes(|t| t.value_bytes),
        if table.compression_ratio < 1.0 {
            format!(" (a compressor leaves {:.0} %)", table.compression_ratio * 100.0)
        } else {
            String::new()
        },
        table.durability,
        bytes(table.cache_bytes as f64),
        table
            .rate
            .map_or("closed loop".to_owned(), |rate| format!("open loop at {} operations per second", count(rate))),
    )
}

fn latency(table: &Table, kind: &str, engines: &[String]) -> Value {
    let rows: Vec<_> =
        table.rows.iter().filter_map(|row| Some((series(row, engines), Percentiles::of(row, kind)?))).collect();
    let counted = if table.rate.is_some() { "from the intended beginning" } else { "as its client sees it" };
    let spread = if repetitions(table) > 1 { "; thin lines from the least to the most of the repetitions" } else { "" };
    context! {
        kind => plural(kind),
        note => format!("{counted}{spread}"),
        plot => latencies(&rows),
    }
}

/// One line of the table of figures.
#[derive(Default, Serialize)]
struct Line {
    first: bool,
    label: String,
    ops: String,
    spread: String,
    kinds: usize,
    ratio: String,
    interval: String,
    ratio_class: &'static str,
    kind: String,
    p50: String,
    p95: String,
    p99: String,
    p999: String,
    max: String,
    waf: String,
    disk: String,
    memory: String,
    load: String,
    errors: String,
    /// The numbers of its records' lines, from 1.
    raw: Vec<usize>,
}

fn lines(row: &Row, criterion: &Criterion) -> Vec<Line> {
    row.latency
        .iter()
        .enumerate()
        .map(|(i, (kind, latency))| {
            let line = percentiles(kind, latency);
            if i > 0 {
                return line;
            }
            let load = crate::statistics::Spread::of(row.told().map(|r| r.load.ops_per_s).filter(|ops| *ops > 0.0));
            Line {
                first: true,
                label: row.label.clone(),
                ops: count(row.ops_per_s.median),
                spread: if row.ops_per_s.runs > 1 {
                    format!("{} to {}", count(row.ops_per_s.min), count(row.ops_per_s.max))
                } else {
                    String::new()
                },
                kinds: row.latency.len(),
                ratio: row.ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
                interval: row.ratio.map_or(String::new(), interval),
                ratio_class: row.ratio.as_ref().map_or("", |ratio| class(ratio, criterion)),
                waf: Waf::of_whole(row).map_or("-".to_owned(), Waf::text),
                disk: bytes(row.disk_bytes),
                memory: bytes(row.rss_bytes),
                load: load.map_or("-".to_owned(), |s| count(s.median)),
                errors: row.errors.to_string(),
                raw: row.lines.iter().map(|line| line + 1).collect(),
                ..line
            }
        })
        .collect()
}

/// What a row cost, as text.
#[derive(Serialize)]
struct Cost {
    label: String,
    waf: [String; 3],
    cpu: String,
    compactions: String,
    time: String,
    median: String,
    bytes: String,
}

fn cost(row: &Row) -> Cost {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let waf = |waf: Option<f64>| known(waf.map(|waf| format!("{waf:.2}")));
    let by_kernel = row.waf_by.process.and_then(|kernel| Waf::of(Some(kernel), row.waf_by.engine));
    let compaction = &row.compaction;
    Cost {
        label: row.label.clone(),
        waf: [known(by_kernel.map(Waf::text)), waf(row.waf_by.engine), waf(row.waf_by.device)],
        cpu: known(row.cpu_seconds.map(|seconds| duration_ns(seconds * 1e9))),
        compactions: known(compaction.count.map(|n| count(n as f64))),
        time: known(compaction.seconds.map(|seconds| duration_ns(seconds * 1e9))),
        median: known(compaction.latency_ns_p50.map(|ns| duration_ns(ns as f64))),
        bytes: known(compaction.bytes.map(|n| bytes(n as f64))),
    }
}

/// What moving brought, as text.
#[derive(Serialize)]
struct Moved {
    label: String,
    still: String,
    ratio: Against,
    settled: Against,
    settles: String,
    plans: String,
    units: String,
    bytes: String,
}

/// A ratio with its interval.
#[derive(Default, Serialize)]
struct Against {
    ratio: String,
    interval: String,
    class: &'static str,
}

impl Against {
    fn of(ratio: Option<Ratio>, criterion: &Criterion) -> Self {
        ratio.map_or_else(Self::default, |ratio| Self {
            ratio: format!("{:.2}", ratio.median),
            interval: interval(ratio),
            class: class(&ratio, criterion),
        })
    }
}

fn moved(row: &Row, criterion: &Criterion) -> Option<Moved> {
    let moving = row.moving.as_ref()?;
    Some(Moved {
        label: row.name.clone(),
        still: moving.still.clone().unwrap_or_else(|| "none was measured".to_owned()),
        ratio: Against::of(moving.ratio, criterion),
        settled: Against::of(moving.settled, &Criterion::Throughput),
        settles: moving.settles_seconds.map_or("-".to_owned(), |seconds| duration_ns(seconds * 1e9)),
        plans: count(moving.plans),
        units: count(moving.units),
        bytes: bytes(moving.bytes),
    })
}

/// The 95 % interval in brackets, the extremes of too few pairs in parentheses.
fn interval(ratio: Ratio) -> String {
    match ratio.interval {
        Some((low, high)) => format!("[{low:.2}, {high:.2}]"),
        None if ratio.pairs > 1 => format!("({:.2}..{:.2})", ratio.min, ratio.max),
        None => String::new(),
    }
}

fn percentiles(kind: &str, latency: &Latency) -> Line {
    // Operations that were not done took no time at all.
    let text = |ns: u64| if latency.count > 0 { duration_ns(ns as f64) } else { "-".to_owned() };
    Line {
        kind: kind.replace('_', "-"),
        p50: text(latency.p50),
        p95: text(latency.p95),
        p99: text(latency.p99),
        p999: text(latency.p999),
        max: text(latency.max),
        ..Line::default()
    }
}

/// What each engine in each layout was opened with; the workloads of one bench open alike.
fn options(records: &[Record]) -> Vec<Value> {
    let mut seen: Vec<(&str, &Vec<(String, String)>)> = Vec::new();
    let mut values = Vec::new();
    for record in records {
        let label = record.label();
        if seen.iter().any(|(engine, options)| *engine == record.engine && **options == record.engine_options) {
            continue;
        }
        seen.push((&record.engine, &record.engine_options));
        values.push(context! {
            label => label,
            version => record.engine_version.as_str(),
            options => Value::from(Serde(&record.engine_options)),
        });
    }
    values
}
