//! Throughput and tail over time, with what happened marked on it: a panel for each engine, all of them on the same axes.
//!
//! Of each engine and layout it shows the repetition whose throughput is the median. Layouts of an engine differ in their dashes ([`Layouts`]).

use std::fmt::Write;

use minijinja::{Value, context};

use super::axis::{Linear, Log};
use super::context::{distinct, series};
use super::escape;
use super::layouts::Layouts;
use super::plots::{Series, round_ns};
use crate::driver::Timeline;
use crate::record::Record;
use crate::summary::{Row, Table};
use crate::units::{count, duration_ns};
use crate::workload::shift::{Mark, MarkKind};

/// The runs of a table over time, and axes for all of them.
pub(super) struct Timelines<'a> {
    rows: Vec<(&'a Row, &'a Record)>,
    layouts: Layouts<'a>,
    rates: Linear,
    tails: Log,
    bucket_seconds: f64,
}

impl<'a> Timelines<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        let rows: Vec<_> = table
            .rows
            .iter()
            .filter_map(|row| {
                let distance = |r: &Record| (r.ops_per_s - row.ops_per_s.median).abs();
                let record = row.told().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
                Some((row, record))
            })
            .collect();
        let most = rows.iter().flat_map(|(_, record)| rates(record)).map(|(_, rate)| rate).fold(0.0, f64::max);
        let tails = || rows.iter().flat_map(|(_, record)| record.timeline.tails());
        let least_ns = tails().map(|(_, p99, _)| p99 as f64).fold(f64::INFINITY, f64::min);
        let most_ns = tails().map(|(_, _, max)| max as f64).fold(1.0, f64::max);
        let bucket_seconds = rows.iter().map(|(_, record)| record.timeline.bucket_seconds).fold(0.0, f64::max);
        let layouts = Layouts::of(table.rows.iter());
        let tails = Log::fitted(least_ns.min(most_ns), most_ns);
        Self { rates: Linear::new(most, 3), tails, bucket_seconds, layouts, rows }
    }

    /// Which run is shown, in steps of what.
    pub(super) fn note(&self) -> String {
        format!("the repetition of median throughput, in steps of {}", duration_ns(self.bucket_seconds * 1e9))
    }

    /// The kinds of marks that occur, as classes and words for the legend.
    pub(super) fn marks(&self) -> Vec<(&'static str, &'static str)> {
        let words = [
            (MarkKind::Shift, "the workload shifts"),
            (MarkKind::Plan, "a plan is made"),
            (MarkKind::Move, "units move"),
        ];
        let occurs =
            |kind| self.rows.iter().any(|(_, record)| record.timeline.marks.iter().any(|mark| mark.kind == kind));
        words.into_iter().filter(|(kind, _)| occurs(*kind)).map(|(kind, word)| (kind.name(), word)).collect()
    }

    /// A piece of a line and the name of each layout, where an engine has several.
    pub(super) fn layouts(&self) -> Vec<(String, &'a str)> {
        self.layouts.key()
    }

    /// A panel of throughput for each engine.
    pub(super) fn throughput(&self, engines: &[String]) -> Vec<Value> {
        let at = |rate: f64| self.rates.at(rate);
        let ticks: Vec<_> = self.rates.ticks.iter().map(|tick| (at(*tick), count(*tick))).collect();
        self.panels(engines, "Operations per second over time", &ticks, |look, record| {
            vec![Line::new(look, "", rates(record).into_iter().map(|(t, rate)| (t, at(rate))))]
        })
    }

    /// A panel of the 99th percentile and the slowest operation for each engine; none where no run tells of them.
    pub(super) fn tail(&self, engines: &[String]) -> Vec<Value> {
        if self.rows.iter().all(|(_, record)| record.timeline.tails().is_empty()) {
            return Vec::new();
        }
        let at = |ns: u64| self.tails.at(ns as f64);
        let ticks: Vec<_> = self.tails.ticks.iter().map(|tick| (self.tails.at(*tick), round_ns(*tick))).collect();
        self.panels(engines, "Latency over time", &ticks, |look, record| {
            let tails = record.timeline.tails();
            vec![
                Line::new(look, " slowest", tails.iter().map(|(t, _, max)| (*t, at(*max)))),
                Line::new(look, "", tails.iter().map(|(t, p99, _)| (*t, at(*p99)))),
            ]
        })
    }

    fn panels(
        &self,
        engines: &[String],
        what: &str,
        ticks: &[(f64, String)],
        lines: impl Fn(&Look<'_>, &Record) -> Vec<Line>,
    ) -> Vec<Value> {
        distinct(self.rows.iter().map(|(row, _)| row.engine.clone()))
            .into_iter()
            .map(|engine| {
                let mine: Vec<_> = self.rows.iter().filter(|(row, _)| row.engine == engine).collect();
                let seconds = mine
                    .iter()
                    .map(|(_, record)| &record.timeline)
                    .map(|t| t.bucket_seconds * t.operations.len().saturating_sub(1).max(1) as f64)
                    .fold(0.1, f64::max);
                let marks = marks(mine.iter().map(|(_, record)| &record.timeline), self.bucket_seconds);
                let look = |row| Look { series: series(row, engines), dashes: self.layouts.dashes(row) };
                let lines: Vec<Line> = mine.iter().flat_map(|(row, record)| lines(&look(row), record)).collect();
                context! { engine => engine, plot => panel(what, &lines, ticks, &marks, seconds) }
            })
            .collect()
    }
}

/// What happened in any of the runs, each once: the shifts that are known before are those of all of them.
fn marks<'a>(timelines: impl Iterator<Item = &'a Timeline>, bucket_seconds: f64) -> Vec<&'a Mark> {
    let mut marks: Vec<&Mark> = Vec::new();
    for mark in timelines.flat_map(|timeline| &timeline.marks) {
        let same = |other: &&Mark| {
            other.kind == mark.kind
                && other.text == mark.text
                && (other.at_seconds - mark.at_seconds).abs() < bucket_seconds / 2.0
        };
        if !marks.iter().any(same) {
            marks.push(mark);
        }
    }
    marks
}

/// A line of a panel.
struct Line {
    class: String,
    title: String,
    /// Seconds, and percent of the height.
    points: Vec<(f64, f64)>,
}

impl Line {
    fn new(Look { series, dashes }: &Look<'_>, kind: &str, points: impl Iterator<Item = (f64, f64)>) -> Self {
        let title = format!("{}{kind}", series.label);
        Self { class: format!("{} l{dashes}{kind}", series.hue()), title, points: points.collect() }
    }
}

/// How the lines of a row look.
struct Look<'a> {
    series: Series<'a>,
    dashes: usize,
}

/// Operations per second over time. A run that is shorter than a bucket has that of the run.
fn rates(record: &Record) -> Vec<(f64, f64)> {
    match record.timeline.rates()[..] {
        [(at, _)] => vec![(at, record.ops_per_s)],
        ref several => several.to_vec(),
    }
}

const PANEL_PX: f64 = 110.0;

/// One panel: `ticks` are percent of the height and their words.
fn panel(what: &str, lines: &[Line], ticks: &[(f64, String)], marks: &[&Mark], seconds: f64) -> String {
    let y = |percent: f64| 16.0 + PANEL_PX - percent * PANEL_PX / 100.0;
    // Figures stand beside the lines, as wide as the longest of them, not among them.
    let letters = ticks.iter().map(|(_, word)| word.chars().count()).max().unwrap_or(0);
    let width = letters * 15 / 2;
    let mut out = format!("<div class=\"over\"><svg class=\"ordinate\" width=\"{width}\" height=\"142\">");
    for (percent, word) in ticks {
        let y = y(*percent) + 4.0;
        let _ = write!(out, "<text class=\"tick\" x=\"100%\" y=\"{y:.1}\" text-anchor=\"end\">{word}</text>");
    }
    let _ = write!(out, "</svg><svg class=\"panel\" role=\"img\" height=\"142\" aria-label=\"{what}\">");
    for (percent, _) in ticks {
        let y = y(*percent);
        let _ = write!(out, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    for mark in marks.iter().filter(|mark| mark.at_seconds < seconds) {
        let x = mark.at_seconds / seconds * 100.0;
        let _ = write!(
            out,
            "<line class=\"mark {}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"16\" y2=\"{:.0}\"><title>{:.1} s: {}</title></line>",
            mark.kind.name(),
            16.0 + PANEL_PX,
            mark.at_seconds,
            escape(&mark.text)
        );
    }
    let _ = write!(
        out,
        "<svg x=\"0\" y=\"16\" width=\"100%\" height=\"{PANEL_PX}\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">"
    );
    for line in lines {
        let mut points: Vec<(f64, f64)> = line.points.iter().map(|(t, at)| (t / seconds * 1000.0, *at)).collect();
        // A single bucket is drawn as a level line.
        if let [(_, at)] = points[..] {
            points = vec![(0.0, at), (1000.0, at)];
        }
        let path: Vec<String> = points.iter().map(|(x, at)| format!("{x:.1},{:.2}", 100.0 - at)).collect();
        let _ = write!(
            out,
            "<polyline class=\"line {}\" points=\"{}\"><title>{}</title></polyline>",
            line.class,
            path.join(" "),
            escape(&line.title)
        );
    }
    let _ = write!(
        out,
        "</svg><text class=\"tick\" x=\"0\" y=\"140\">0</text><text class=\"tick\" x=\"100%\" y=\"140\" \
         text-anchor=\"end\">{} s</text></svg></div>",
        if seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
    );
    out
}
