//! What changed from one file of records to another, and whether it is more than noise.
//!
//! Rows are those of the tables: one engine in one layout under one workload. Runs of the two files were not made side by side, so
//! they form no pairs: the change is the ratio of the medians, with an interval by the bootstrap of both series
//! ([`statistics::change`](crate::statistics::change)).
//!
//! 1. *Judged* is one figure of each row: operations per second in a closed loop; in an open loop, where these are given, the 99th
//!    percentile of the latency of each kind of operation. Everything else is shown beside it: it moves with it, and the more one
//!    judges, the more noise one takes for a change.
//! 2. All judged figures of a comparison together are wrong once in twenty: with `m` of them, each interval has the level
//!    `1 - 0.05 / m` (Bonferroni).
//! 3. A figure is *better* or *worse* where its interval lies wholly on that side of 1. It is a *regression* where it is worse and
//!    its interval reaches the threshold: a loss of so much cannot be ruled out. So a true loss of the threshold is caught 39
//!    times in 40, which it would be half the time if the median had to pass the threshold.
//! 4. Fewer than six runs on either side judge nothing: [`Verdict::Unknown`].

mod print;

use biombo_base::{Error, Result};
use serde::Serialize;

pub use self::print::print;
use crate::record::Record;
use crate::statistics::{Change, Spread, change};
use crate::summary::{Row, Table, tables};

/// How sure all judged figures together are.
pub const LEVEL: f64 = 0.95;

/// What is to be said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better, beyond noise.
    Better,
    /// Worse, beyond noise.
    Worse,
    /// No difference is shown.
    Same,
    /// Too few runs.
    Unknown,
}

impl Verdict {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unknown => "too few runs",
        }
    }
}

/// The figures of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Runs that have the figure.
    pub runs: usize,
    /// The median of them.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// One figure before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// `ops_per_s`, `latency_ns.KIND.p99` or `waf`.
    pub metric: String,
    /// Before.
    pub old: Side,
    /// After.
    pub new: Side,
    /// The new median by the old one.
    pub ratio: f64,
    /// The interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Whether the comparison is about it.
    pub judged: bool,
    /// What is to be said of it.
    pub verdict: Verdict,
    /// Whether it is worse by the threshold, as far as the interval tells; never where it is not judged.
    pub regression: bool,
}

/// One engine in one layout under one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The workload and its parameters.
    #[serde(flatten)]
    pub table: Table,
    /// Engine and layout, such as `log hard-8`.
    pub row: String,
    /// Its figures, those that are judged first.
    pub figures: Vec<Figure>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The share of a figure whose loss is a regression.
    pub threshold: f64,
    /// How sure all judged figures together are.
    pub level: f64,
    /// Rows that both files have, in the order of the new one.
    pub rows: Vec<Compared>,
    /// Rows that only the old file has.
    pub only_old: Vec<String>,
    /// Rows that only the new file has.
    pub only_new: Vec<String>,
    /// The machines and versions of both, where they differ.
    pub differences: Vec<String>,
}

impl Comparison {
    /// The judged figures.
    pub fn judged(&self) -> impl Iterator<Item = &Figure> {
        self.rows.iter().flat_map(|row| &row.figures).filter(|figure| figure.judged)
    }

    /// How many judged figures are worse by the threshold.
    pub fn regressions(&self) -> usize {
        self.judged().filter(|figure| figure.regression).count()
    }
}

/// Compare the records of two files. `threshold` is a share, such as 0.05. `Invalid` where there is no row in both.
pub fn compare(old: &[Record], new: &[Record], threshold: f64) -> Result<Comparison> {
    if !(0.0..1.0).contains(&threshold) {
        return Err(Error::invalid(format!(
            "the threshold {threshold} is no share from 0 to below 1: 0.05 is five percent"
        )));
    }
    let (before, after) = (rows(old), rows(new));
    let pairs: Vec<(&Placed, &Placed)> =
        after.iter().filter_map(|a| Some((before.iter().find(|b| b.is_like(a))?, a))).collect();
    if pairs.is_empty() {
        return Err(Error::invalid(
            "the files have no run in common: engine, layout, workload, sizes, threads, durability and cache must be the same",
        ));
    }
    // What is judged is known before any of it is looked at.
    let judged: usize = pairs.iter().map(|(_, a)| metrics(a).iter().filter(|(_, is_judged)| *is_judged).count()).sum();
    let level = 1.0 - (1.0 - LEVEL) / judged.max(1) as f64;
    let rows: Vec<Compared> = pairs
        .iter()
        .map(|(b, a)| Compared {
            table: a.table.clone(),
            row: a.name(),
            figures: metrics(a)
                .iter()
                .filter_map(|(metric, judged)| {
                    figure(metric, *judged, [&b.row.records, &a.row.records], level, threshold)
                })
                .collect(),
        })
        .collect();
    let only = |these: &[Placed], others: &[Placed]| {
        these.iter().filter(|row| !others.iter().any(|other| other.is_like(row))).map(Placed::full_name).collect()
    };
    Ok(Comparison {
        threshold,
        level: LEVEL,
        rows,
        only_old: only(&before, &after),
        only_new: only(&after, &before),
        differences: differences(old, new),
    })
}

/// A row with what its table says of it.
struct Placed {
    table: Table,
    row: Row,
}

impl Placed {
    fn is_like(&self, other: &Self) -> bool {
        let how =
            |row: &Row| row.records.first().map(|r| (r.executor.clone(), r.repartition.clone(), r.planner.clone()));
        self.table == other.table && self.row.name == other.row.name && how(&self.row) == how(&other.row)
    }

    fn name(&self) -> String {
        match self.row.placement.as_str() {
            "hash" => self.row.label.clone(),
            placement => format!("{} {placement}", self.row.label),
        }
    }

    fn full_name(&self) -> String {
        format!("{} {}, {}: {}", self.table.bench_name(), self.table.heading(), self.table.sizes(), self.name())
    }
}

fn rows(records: &[Record]) -> Vec<Placed> {
    let placed = |mut table: Table| {
        let rows = std::mem::take(&mut table.rows);
        table.swept = false;
        rows.into_iter().map(move |row| Placed { table: table.clone(), row })
    };
    tables(records).into_iter().flat_map(placed).collect()
}

/// A figure of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Metric {
    Throughput,
    /// The 99th percentile of a kind of operation.
    Tail(String),
    Waf,
}

impl Metric {
    fn name(&self) -> String {
        match self {
            Self::Throughput => "ops_per_s".to_owned(),
            Self::Tail(kind) => format!("latency_ns.{kind}.p99"),
            Self::Waf => "waf".to_owned(),
        }
    }

    fn is_larger_better(&self) -> bool {
        *self == Self::Throughput
    }

    /// Whether the comparison is about it: throughput in a closed loop, latency where throughput is given.
    fn is_judged(&self, rate: Option<f64>) -> bool {
        match self {
            Self::Throughput => rate.is_none(),
            Self::Tail(_) => rate.is_some(),
            Self::Waf => false,
        }
    }

    fn of(&self, record: &Record) -> Option<f64> {
        match self {
            Self::Throughput => Some(record.ops_per_s),
            Self::Tail(kind) => record.latency_ns.get(kind).map(|latency| latency.p99 as f64),
            Self::Waf => record.waf,
        }
    }
}

/// The figures of a row, those that are judged first, and whether they are.
fn metrics(placed: &Placed) -> Vec<(Metric, bool)> {
    let tails = placed.row.latency.keys().cloned().map(Metric::Tail);
    let all = std::iter::once(Metric::Throughput).chain(tails).chain([Metric::Waf]);
    let mut metrics: Vec<_> = all.map(|metric| (metric.clone(), metric.is_judged(placed.table.rate))).collect();
    metrics.sort_by_key(|(_, is_judged)| !is_judged);
    metrics
}

/// `None` where a side does not know it.
fn figure(metric: &Metric, judged: bool, [old, new]: [&[Record]; 2], level: f64, threshold: f64) -> Option<Figure> {
    let figures = |records: &[Record]| records.iter().filter_map(|record| metric.of(record)).collect::<Vec<f64>>();
    let (old, new) = (figures(old), figures(new));
    let Change { ratio, interval } = change(&new, &old, level)?;
    let verdict = match interval {
        None => Verdict::Unknown,
        Some((low, _)) if low > 1.0 => {
            if metric.is_larger_better() {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        }
        Some((_, high)) if high < 1.0 => {
            if metric.is_larger_better() {
                Verdict::Worse
            } else {
                Verdict::Better
            }
        }
        Some(_) => Verdict::Same,
    };
    let reaches =
        interval.is_some_and(
            |(low, high)| {
                if metric.is_larger_better() { low <= 1.0 - threshold } else { high >= 1.0 + threshold }
            },
        );
    Some(Figure {
        metric: metric.name(),
        old: side(&old)?,
        new: side(&new)?,
        ratio,
        interval,
        judged,
        verdict,
        regression: judged && verdict == Verdict::Worse && reaches,
    })
}

fn side(figures: &[f64]) -> Option<Side> {
    let Spread { median, min, max } = Spread::of(figures.iter().copied())?;
    Some(Side { runs: figures.len(), median, min, max })
}

/// What else differs, so that nobody takes another machine for another build.
fn differences(old: &[Record], new: &[Record]) -> Vec<String> {
    let machine = |r: &Record| format!("{} ({} cores), Linux {}", r.host.cpu, r.host.cores, r.host.kernel);
    let all = |records: &[Record], of: &dyn Fn(&Record) -> String| {
        let mut seen: Vec<String> = records.iter().map(of).collect();
        seen.sort();
        seen.dedup();
        seen.join("; ")
    };
    let mut differences = Vec::new();
    for (what, of) in [("machine", &machine as &dyn Fn(&Record) -> String), ("version", &|r| r.version.clone())] {
        let (before, after) = (all(old, of), all(new, of));
        if before != after {
            differences.push(format!("{what}: {before} before, {after} now"));
        }
    }
    differences
}

#[cfg(test)]
mod tests;
