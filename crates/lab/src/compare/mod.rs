//! What changed from some records to others, and whether it is more than noise.
//!
//! Rows are those of the tables: one engine in one layout under one workload. Runs of two files were not made side by side, so
//! they form no pairs: the change is the ratio of the medians, with an interval by the bootstrap of both series
//! ([`statistics::change`](crate::statistics::change)). Runs that two builds made by turns are pairs, by their repetition, of which what the machine did
//! meanwhile met both alike: the change is the middle of their ratios, with an interval by signed ranks
//! ([`statistics::change_by_turns`](crate::statistics::change_by_turns)).
//!
//! 1. *Judged* is one figure of each row: operations per second in a closed loop; in an open loop, where these are given, the 99th
//!    percentile of the latency of each kind of operation. Everything else is shown beside it: it moves with it, and the more one
//!    judges, the more noise one takes for a change.
//! 2. All judged figures of a comparison together are wrong once in twenty at most, of runs by turns, whose intervals are narrow enough for it,
//!    once in fifty ([`Made::level`]): with `m` of them, each interval has the level `1 - 0.05 / m` or `1 - 0.02 / m` (Bonferroni).
//! 3. A figure is *better* or *worse* where its interval lies wholly on that side of 1. It is a *regression* where it is worse and
//!    its interval reaches the threshold: a loss of so much cannot be ruled out. Where runs scatter by 1.5 % a true loss of 5 % is caught 19 times in 20 or more
//!    (nine runs a side, as the tests try), which it would be half the time if the median had to pass the threshold; where they scatter as much as the
//!    loss itself, it mostly is not. So *the same* says as much as its interval is narrow, and the loss that it does not rule out is told
//!    ([`Comparison::possible_loss`]).
//! 4. A row needs so many runs on either side that a level as high can be reached at all: six, seven of runs by turns, and more where many rows
//!    are judged together ([`Made::runs_needed`]). Fewer judge nothing: [`Verdict::Unknown`].
//! 5. Runs with operations that failed or gave a wrong answer take no part: a store that finds nothing is fast.
//! 6. What cannot be seen is not taken for well: errors of the new runs, rows that only the old file has, rows of which the new one has fewer runs and
//!    judged figures that cannot be judged are failures as regressions are ([`Comparison::failures`]).
//! 7. Runs of another length are other rows, and so are those of another planner, under another bound on space or in another number of
//!    places. Runs in another place are compared, and so are those of files from before lengths were kept:
//!    what differs is told ([`Comparison::differences`]).

mod figure;
mod print;

use biombo_base::{Error, Result};
use serde::Serialize;

pub use self::figure::{Figure, Side, Verdict};
use self::figure::{figure, metrics};
pub use self::print::print;
use crate::record::Record;
use crate::statistics::{pairs_needed, runs_needed};
use crate::summary::{Key, Row, Table, tables};
use crate::units::plural;

/// How the old runs and the new ones were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Each side for itself.
    Apart,
    /// One of either side in each repetition.
    ByTurns,
}

impl Made {
    /// How sure all judged figures together are. Whoever compares twenty times by turns should not be wrong even once.
    pub fn level(self) -> f64 {
        match self {
            Self::Apart => 0.95,
            Self::ByTurns => 0.98,
        }
    }

    /// The runs of each side that it takes to differ at `level`.
    pub fn runs_needed(self, level: f64) -> usize {
        match self {
            Self::Apart => runs_needed(level),
            Self::ByTurns => pairs_needed(level),
        }
    }
}

/// One engine in one layout under one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The workload and its parameters.
    #[serde(flatten)]
    pub table: Table,
    /// Engine and layout, such as `log hard-8`, and what other rows that would be called the same differ in.
    pub row: String,
    /// With the workload, which no other row has.
    #[serde(skip)]
    pub name: String,
    /// Its figures, those that are judged first.
    pub figures: Vec<Figure>,
}

/// Operations of a row that failed or gave a wrong answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Erred {
    /// Workload, engine and layout.
    pub row: String,
    /// Runs of the old file with such operations.
    pub old_runs: usize,
    /// Runs of the new file with them.
    pub new_runs: usize,
    /// The operations of these.
    pub new_errors: u64,
    /// What the first of them says.
    pub first_error: Option<String>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The share of a figure whose loss is a regression.
    pub threshold: f64,
    /// How sure all judged figures together are.
    pub level: f64,
    /// The runs that each judged figure needs on either side, as so many are judged together.
    pub runs_needed: usize,
    /// Rows that both files have, in the order of the new one.
    pub rows: Vec<Compared>,
    /// Rows that only the old file has.
    pub only_old: Vec<String>,
    /// Rows that only the new file has.
    pub only_new: Vec<String>,
    /// Rows of which the new file has fewer runs than the old one has without errors, with both numbers, the old one first.
    pub fewer: Vec<(String, usize, usize)>,
    /// Rows with runs that take no part, since operations of them failed.
    pub errors: Vec<Erred>,
    /// The machines, versions and places of both, and the versions and options of their engines, where they differ.
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

    /// The largest loss, as a share, that the intervals of judged figures without a difference leave possible; `None` where there is no such figure.
    pub fn possible_loss(&self) -> Option<f64> {
        self.judged().filter_map(|figure| figure.possible_loss).reduce(f64::max)
    }

    /// The figures that should be judged and cannot be, each with the reason.
    pub fn unjudged(&self) -> impl Iterator<Item = String> + '_ {
        let figures = self.rows.iter().flat_map(|row| row.figures.iter().map(move |figure| (row, figure)));
        figures.filter_map(|(row, figure)| {
            Some(format!("{}, {}: {}", row.name, figure.metric, figure.unjudged.as_deref()?))
        })
    }

    /// Why this is no good end, a sentence each; none: nothing got worse, as far as it can be told. `allow_missing`: rows may be gone,
    /// and figures may be such that they cannot be judged, as long as one is.
    pub fn failures(&self, allow_missing: bool) -> Vec<String> {
        let mut failures = Vec::new();
        let regressions = self.regressions();
        if regressions > 0 {
            let threshold = self.threshold * 100.0;
            failures.push(format!("{regressions} of the judged figures lost {threshold:.1} % or more, or may have"));
        }
        for erred in self.errors.iter().filter(|erred| erred.new_runs > 0) {
            let Erred { row, new_runs, new_errors, first_error, .. } = erred;
            let first = first_error.as_deref().map_or(String::new(), |first| format!(" ({first})"));
            let (operations, runs) = (plural(*new_errors, "operation"), plural(*new_runs as u64, "new run"));
            failures.push(format!("{operations} in {runs} of {row} failed or gave a wrong answer{first}"));
        }
        if let Some(first) = self.only_old.first().filter(|_| !allow_missing) {
            let rows = plural(self.only_old.len() as u64, "row");
            failures
                .push(format!("the new file lacks {rows} of the old one, such as {first} (--allow-missing allows it)"));
        }
        if let Some((row, old, new)) = self.fewer.first().filter(|_| !allow_missing) {
            let rows = plural(self.fewer.len() as u64, "row");
            failures.push(format!(
                "the new file has fewer runs of {rows}, such as {new} in place of {old} of {row}: did they fail? (--allow-missing allows it)"
            ));
        }
        let unjudged = self.unjudged().count();
        if unjudged == self.judged().count() {
            let why = self.unjudged().next().map_or(String::new(), |why| format!(", such as {why}"));
            failures.push(format!("nothing could be judged{why}"));
        } else if let Some(first) = self.unjudged().next().filter(|_| !allow_missing) {
            let figures = plural(unjudged as u64, "figure");
            failures.push(format!("{figures} cannot be judged, such as {first} (--allow-missing allows it)"));
        }
        failures
    }
}

/// Compare the records of two sides. `threshold` is a share, such as 0.05. `Invalid` where there is no row in both.
pub fn compare(old: &[Record], new: &[Record], made: Made, threshold: f64) -> Result<Comparison> {
    if !(0.0..1.0).contains(&threshold) {
        return Err(Error::invalid(format!(
            "the threshold {threshold} is no share from 0 to below 1: 0.05 is five percent"
        )));
    }
    let (mut before, mut after) = (rows(old), rows(new));
    let keys: Vec<Key> = before.iter().chain(&after).map(|placed| placed.row.key.clone()).collect();
    for placed in before.iter_mut().chain(&mut after) {
        placed.name = placed.row.key.name_if_not_hashed(keys.iter());
    }
    let pairs = counterparts(&before, &after);
    if pairs.is_empty() {
        return Err(Error::invalid(
            "the files have no run in common: engine, layout, planner, bound on space, number of places, workload, sizes, threads, \
             durability, cache and length of the runs must be the same",
        ));
    }
    // What is judged is known before any of it is looked at.
    let judged: usize =
        pairs.iter().map(|(b, a)| metrics(b, a).iter().filter(|(_, is_judged)| *is_judged).count()).sum();
    let level = 1.0 - (1.0 - made.level()) / judged.max(1) as f64;
    let rows: Vec<Compared> = pairs
        .iter()
        .map(|(b, a)| Compared {
            table: a.table.clone(),
            row: a.name.clone(),
            name: a.full_name(),
            figures: metrics(b, a)
                .iter()
                .filter_map(|(metric, judged)| {
                    figure(metric, *judged, [&b.row.records, &a.row.records], made, level, threshold)
                })
                .collect(),
        })
        .collect();
    let counterpart = |row: &Placed| pairs.iter().find(|(_, a)| std::ptr::eq(*a, row)).map(|(b, _)| *b);
    let is_gone = |row: &&Placed| !pairs.iter().any(|(b, _)| std::ptr::eq(*b, *row));
    let only_old = before.iter().filter(is_gone).map(Placed::full_name).collect();
    let only_new = after.iter().filter(|row| counterpart(row).is_none()).map(Placed::full_name).collect();
    let sound = |placed: &Placed| placed.row.records.iter().filter(|record| record.errors == 0).count();
    let numbers = pairs.iter().map(|(b, a)| (a.full_name(), sound(b), a.row.records.len()));
    let fewer = numbers.filter(|(_, old, new)| new < old).collect();
    let errors = after.iter().filter_map(|row| erred(counterpart(row), row)).collect();
    Ok(Comparison {
        threshold,
        level: made.level(),
        runs_needed: made.runs_needed(level),
        rows,
        only_old,
        only_new,
        fewer,
        errors,
        differences: [differences(old, new), differences_of_rows(&pairs)].concat(),
    })
}

/// A row with what its table says of it.
struct Placed {
    table: Table,
    /// Of the table among those of its file.
    heading: String,
    row: Row,
    /// Of the row among those of both sides.
    name: String,
}

impl Placed {
    /// Whether both are one engine in one layout under one workload, in one place.
    fn is_same(&self, other: &Self) -> bool {
        self.table == other.table && self.row.key == other.row.key
    }

    /// The same but for the place, and for what lines of earlier versions do not say: how long runs were, and what [`Key::is_like`]
    /// names.
    fn is_like(&self, other: &Self) -> bool {
        let is_told = self.table.until.is_some() && other.table.until.is_some();
        let of = |table: &Table| {
            let until = table.until.filter(|_| is_told);
            Table { until, place: None, ..table.clone() }
        };
        of(&self.table) == of(&other.table) && self.row.key.is_like(&other.row.key)
    }

    fn full_name(&self) -> String {
        format!("{} {}: {}", self.table.bench_name(), self.heading, self.name)
    }
}

/// The rows that are compared, the old one first, in the order of the new ones. One that is there on both sides is compared with itself
/// alone.
fn counterparts<'a>(before: &'a [Placed], after: &'a [Placed]) -> Vec<(&'a Placed, &'a Placed)> {
    let is_on_both = |old: &Placed| after.iter().any(|new| new.is_same(old));
    let counterpart = |new: &Placed| {
        let same = before.iter().find(|old| old.is_same(new));
        same.or_else(|| before.iter().find(|old| old.is_like(new) && !is_on_both(old)))
    };
    after.iter().filter_map(|new| Some((counterpart(new)?, new))).collect()
}

/// The errors of a row; `None` where both sides are without.
fn erred(old: Option<&Placed>, new: &Placed) -> Option<Erred> {
    let with_errors = |placed: &Placed| placed.row.records.iter().filter(|record| record.errors > 0).count();
    let (old_runs, new_runs) = (old.map_or(0, with_errors), with_errors(new));
    (old_runs + new_runs > 0).then(|| Erred {
        row: new.full_name(),
        old_runs,
        new_runs,
        new_errors: new.row.errors,
        first_error: new.row.records.iter().find_map(|record| record.first_error.clone()),
    })
}

fn rows(records: &[Record]) -> Vec<Placed> {
    let placed = |mut table: Table| {
        let rows = std::mem::take(&mut table.rows);
        let heading = format!("{}, {}", table.sweep_heading(), table.sizes());
        let table = table.alone();
        let placed = move |row| Placed { table: table.clone(), heading: heading.clone(), row, name: String::new() };
        rows.into_iter().map(placed)
    };
    tables(records).into_iter().flat_map(placed).collect()
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

/// How long the runs of common rows were and where, and what their engines were, as far as that differs: their versions, and what they
/// were opened with.
fn differences_of_rows(pairs: &[(&Placed, &Placed)]) -> Vec<String> {
    let mut differences: Vec<String> = Vec::new();
    let mut tell = |what: String, before: &str, now: &str| {
        let difference = format!("{what}: {before} before, {now} now");
        if before != now && !differences.contains(&difference) {
            differences.push(difference);
        }
    };
    let length = |row: &Placed| row.table.length().unwrap_or_else(|| "not told".to_owned());
    for (old, new) in pairs {
        tell("length".to_owned(), &length(old), &length(new));
    }
    for (old, new) in pairs.iter().filter_map(|(b, a)| b.row.records.first().zip(a.row.records.first())) {
        tell("place".to_owned(), &places(old), &places(new));
        let engine = &new.engine;
        tell(format!("version of {engine}"), &old.engine_version, &new.engine_version);
        for (name, _) in old.engine_options.iter().chain(&new.engine_options) {
            let of = |record: &Record| {
                let found = record.engine_options.iter().find(|(known, _)| known == name);
                found.map_or_else(|| "not given".to_owned(), |(_, value)| value.clone())
            };
            tell(format!("option {name} of {engine}"), &of(old), &of(new));
        }
    }
    differences
}

/// Where a run's directories were.
fn places(record: &Record) -> String {
    let places: Vec<String> = record.places.iter().map(ToString::to_string).collect();
    if places.is_empty() { "not told".to_owned() } else { places.join(" and ") }
}

#[cfg(test)]
mod tests;
