//! Published figures beside measured ones, and curves.

use serde::Serialize;

use crate::statistics::{Ratio, Spread, resampled_ratio};
use crate::units::{count, duration_ns, times};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations per second.
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Times something.
    Ratio,
}

impl Unit {
    /// For people.
    pub fn text(self, figure: f64) -> String {
        match self {
            Self::PerSecond => format!("{}/s", count(figure)),
            Self::Ns => duration_ns(figure),
            Self::Ratio => times(figure),
        }
    }
}

/// A figure that was published, or could have been, beside the one that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Under which load: a workload, a number of threads.
    pub load: String,
    /// Of what: `throughput`, or a kind of operation.
    pub of: String,
    /// What it counts.
    pub unit: Unit,
    /// Whose figure was published.
    pub published_system: Option<String>,
    /// The published figure.
    pub published: Option<f64>,
    /// What was measured here in its place: an engine.
    pub engine: Option<String>,
    /// The median of the repetitions.
    pub measured: Option<f64>,
    /// The smallest and the largest of them.
    pub extremes: Option<(f64, f64)>,
    /// The 95 % interval of the median, where it was taken: see [`resampled_ratio`](crate::statistics::resampled_ratio).
    pub interval: Option<(f64, f64)>,
    /// Measured by published.
    pub ratio: Option<f64>,
    /// Percentiles of the same operations, medians of the repetitions.
    pub p95_ns: Option<f64>,
    /// As above.
    pub p99_ns: Option<f64>,
    /// Whether it is a figure of the kernel that is more than 5 % below what the engine says: a star stands behind it.
    pub engine_says_more: bool,
    /// The runs that it was drawn from: by their places among all, from 1.
    pub lines: Vec<u32>,
}

impl Figure {
    /// Of `load`, neither published nor measured yet.
    pub fn new(load: impl Into<String>, of: impl Into<String>, unit: Unit) -> Self {
        Self {
            load: load.into(),
            of: of.into(),
            unit,
            published_system: None,
            published: None,
            engine: None,
            measured: None,
            extremes: None,
            interval: None,
            ratio: None,
            p95_ns: None,
            p99_ns: None,
            engine_says_more: false,
            lines: Vec::new(),
        }
    }

    /// With what was published of `system`.
    pub fn published(self, system: &str, figure: Option<f64>) -> Self {
        let published = Self { published_system: Some(system.to_owned()), published: figure, ..self };
        Self { ratio: published.quotient(), ..published }
    }

    /// With what `engine` gave here.
    pub fn measured(self, engine: &str, spread: Option<Spread>) -> Self {
        let measured = Self {
            engine: Some(engine.to_owned()),
            measured: spread.map(|s| s.median),
            extremes: spread.map(|s| (s.min, s.max)),
            ..self
        };
        Self { ratio: measured.quotient(), ..measured }
    }

    /// With what `engine` gave here: the median of the pairs' quotients, and its interval.
    pub fn measured_in_pairs(self, engine: &str, pairs: &[(f64, f64)]) -> Self {
        let found = resampled_ratio(pairs);
        let spread = found.map(|Ratio { median, min, max, pairs: runs, .. }| Spread { median, min, max, runs });
        Self { interval: found.and_then(|found| found.interval), ..self.measured(engine, spread) }
    }

    fn quotient(&self) -> Option<f64> {
        Some(self.measured? / self.published?).filter(|ratio| ratio.is_finite())
    }

    /// Where the repetitions differ: the 95 % interval of the median in brackets, where it was taken, or the least and the greatest.
    pub fn spread(&self) -> String {
        match (self.interval, self.extremes) {
            (Some((low, high)), _) => format!("[{}, {}]", self.unit.text(low), self.unit.text(high)),
            (None, Some((low, high))) if low < high => format!("{} to {}", self.unit.text(low), self.unit.text(high)),
            _ => String::new(),
        }
    }

    /// The cells of its line: load, of what, published of whom, published, engine, measured, its spread, ratio, p95, p99.
    pub fn cells(&self) -> [String; 10] {
        let figure = |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| self.unit.text(figure));
        let percentile = |ns: Option<f64>| ns.map_or(String::new(), duration_ns);
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        [
            self.load.clone(),
            self.of.replace('_', "-"),
            name(&self.published_system),
            figure(self.published),
            name(&self.engine),
            figure(self.measured) + if self.engine_says_more { "*" } else { "" },
            self.spread(),
            self.ratio.map_or("-".to_owned(), times),
            percentile(self.p95_ns),
            percentile(self.p99_ns),
        ]
    }
}

/// What throughput costs in latency as more clients ask.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Whose.
    pub label: String,
    /// Whether it was published, and not measured here.
    pub published: bool,
    /// By the number of threads.
    pub points: Vec<Point>,
}

/// One number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Client threads.
    pub threads: u32,
    /// Operations per second of all of them, the median of the repetitions.
    pub ops_per_s: f64,
    /// The mean latency of an operation, the median of the repetitions.
    pub latency_ns: f64,
    /// Its 99th percentile, where it is known.
    pub latency_ns_p99: Option<f64>,
    /// The least and the most operations per second of the repetitions.
    pub ops_per_s_spread: Option<(f64, f64)>,
    /// The least and the most mean latency of them.
    pub latency_ns_spread: Option<(f64, f64)>,
}

impl Point {
    /// Of which two figures were published.
    pub fn published(threads: u32, ops_per_s: f64, latency_ns: f64) -> Self {
        let (ops_per_s_spread, latency_ns_spread) = (None, None);
        Self { threads, ops_per_s, latency_ns, latency_ns_p99: None, ops_per_s_spread, latency_ns_spread }
    }

    /// The least and the most operations per second; where no spread is known, the figure itself.
    pub(crate) fn ops_per_s_extremes(&self) -> (f64, f64) {
        self.ops_per_s_spread.unwrap_or((self.ops_per_s, self.ops_per_s))
    }

    /// The least and the most mean latency; where no spread is known, the figure itself.
    pub(crate) fn latency_ns_extremes(&self) -> (f64, f64) {
        self.latency_ns_spread.unwrap_or((self.latency_ns, self.latency_ns))
    }
}
