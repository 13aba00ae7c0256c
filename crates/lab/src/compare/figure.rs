//! One figure of a row before and after, and what is to be said of it.
//!
//! A judged figure is never left out: where it cannot be judged it says why ([`Figure::unjudged`]), so that what is missing is not taken
//! for what is well.

use serde::Serialize;

use super::{Made, Placed};
use crate::record::Record;
use crate::statistics::{Change, Spread, change, change_by_turns};
use crate::units::plural;

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
    /// Too few runs, or runs without the figure.
    Unknown,
}

impl Verdict {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unknown => "cannot be judged",
        }
    }
}

/// The figures of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Runs that have the figure, and whose every operation went well.
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
    /// Before; `None`: no run has it.
    pub old: Option<Side>,
    /// After.
    pub new: Option<Side>,
    /// The new median by the old one; of runs that were made by turns, the middle of their ratios.
    pub ratio: Option<f64>,
    /// The interval of the ratio.
    pub interval: Option<(f64, f64)>,
    /// Whether the comparison is about it.
    pub judged: bool,
    /// What is to be said of it.
    pub verdict: Verdict,
    /// Why nothing can be said of it, where something should be.
    pub unjudged: Option<String>,
    /// Whether it is worse by the threshold, as far as the interval tells; never where it is not judged.
    pub regression: bool,
    /// The share by which it may have become worse all the same, where it is judged and no difference is shown: the end of the interval on the
    /// bad side.
    pub possible_loss: Option<f64>,
}

/// A figure of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Metric {
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
            // No operation of a kind has no latency.
            Self::Tail(kind) => record.latency_ns.get(kind).filter(|l| l.count > 0).map(|latency| latency.p99 as f64),
            Self::Waf => record.waf,
        }
    }
}

/// The figures of a row on either side, those that are judged first, and whether they are.
pub(super) fn metrics(old: &Placed, new: &Placed) -> Vec<(Metric, bool)> {
    let mut kinds: Vec<&String> = Vec::new();
    for record in new.row.records.iter().chain(&old.row.records) {
        let here = record.latency_ns.iter().filter(|(_, latency)| latency.count > 0).map(|(kind, _)| kind);
        let more: Vec<&String> = here.filter(|kind| !kinds.contains(kind)).collect();
        kinds.extend(more);
    }
    let tails = kinds.into_iter().cloned().map(Metric::Tail);
    let all = std::iter::once(Metric::Throughput).chain(tails).chain([Metric::Waf]);
    let mut metrics: Vec<_> = all.map(|metric| (metric.clone(), metric.is_judged(new.table.rate))).collect();
    metrics.sort_by_key(|(_, is_judged)| !is_judged);
    metrics
}

/// `None` where it is not judged and a side does not know it.
pub(super) fn figure(
    metric: &Metric,
    judged: bool,
    [old, new]: [&[Record]; 2],
    made: Made,
    level: f64,
    threshold: f64,
) -> Option<Figure> {
    let sound = |records: &[Record]| {
        let sound = records.iter().filter(|record| record.errors == 0);
        sound.filter_map(|record| Some((record.repetition, metric.of(record)?))).collect::<Vec<(u32, f64)>>()
    };
    let (old, new) = (sound(old), sound(new));
    // Of several runs of a round each has a partner of its own.
    let mut free = old.clone();
    let mut beside = |round: u32| {
        let at = free.iter().position(|(other, _)| *other == round)?;
        Some(free.remove(at).1)
    };
    let pairs: Vec<_> = new.iter().filter_map(|(round, new)| Some((*new, beside(*round)?))).collect();
    let figures = |side: Vec<(u32, f64)>| side.into_iter().map(|(_, figure)| figure).collect::<Vec<f64>>();
    let (old, new) = (figures(old), figures(new));
    let change: Option<Change> = match made {
        Made::Apart => change(&new, &old, level),
        Made::ByTurns => change_by_turns(&pairs, level),
    };
    if change.is_none() && !judged {
        return None;
    }
    let interval = change.and_then(|change| change.interval);
    let larger = metric.is_larger_better();
    let (above, below) = if larger { (Verdict::Better, Verdict::Worse) } else { (Verdict::Worse, Verdict::Better) };
    let verdict = match interval {
        None => Verdict::Unknown,
        Some((low, _)) if low > 1.0 => above,
        Some((_, high)) if high < 1.0 => below,
        Some(_) => Verdict::Same,
    };
    let reaches =
        interval.is_some_and(|(low, high)| if larger { low <= 1.0 - threshold } else { high >= 1.0 + threshold });
    let possible_loss = interval.map(|(low, high)| if larger { 1.0 - low } else { high - 1.0 }.max(0.0));
    Some(Figure {
        metric: metric.name(),
        old: side(&old),
        new: side(&new),
        ratio: change.map(|change| change.ratio),
        interval,
        judged,
        verdict,
        unjudged: (judged && verdict == Verdict::Unknown).then(|| why(&old, &new, pairs.len(), made, level)),
        regression: judged && verdict == Verdict::Worse && reaches,
        possible_loss: possible_loss.filter(|_| judged && verdict == Verdict::Same),
    })
}

/// Why nothing can be said of such figures, of which `pairs` are of one round.
fn why(old: &[f64], new: &[f64], pairs: usize, made: Made, level: f64) -> String {
    for (name, figures) in [("old", old), ("new", new)] {
        if figures.is_empty() {
            return format!("no {name} run without errors has it");
        }
        if let Some(none) = figures.iter().find(|figure| !figure.is_finite() || **figure <= 0.0) {
            return format!("it is {none} in one of the {name} runs");
        }
    }
    let needed = made.runs_needed(level);
    let few = format!("{} old and {} new runs are too few", old.len(), new.len());
    match made {
        Made::Apart => format!("{few}: it takes {needed} of each (--repeat {needed})"),
        // A round in which one of the two failed judges nothing, however many there are of either.
        Made::ByTurns => {
            let rounds = plural(pairs as u64, "round");
            format!("{few}: {rounds} with both, and it takes {needed} (--rounds {needed}, and more where runs fail)")
        }
    }
}

fn side(figures: &[f64]) -> Option<Side> {
    let Spread { median, min, max, .. } = Spread::of(figures.iter().copied())?;
    Some(Side { runs: figures.len(), median, min, max })
}
