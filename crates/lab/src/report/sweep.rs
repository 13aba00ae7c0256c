//! A sweep's plots: what happens to throughput, latency, write amplification and compaction as keys and values grow.

use std::fmt::Write;

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::axis::{Linear, Log};
use super::context::{distinct, plural, series};
use super::escape;
use super::layouts::Layouts;
use super::plots::{Series, round_count, round_ns, swatch};
use crate::amplification::Waf;
use crate::statistics::Spread;
use crate::summary::{Key, Row, Table};
use crate::units::{count, duration_ns, size};
use crate::workload::OpKind;

/// A figure of a row's repetitions, where it is known.
type Figure = Box<dyn Fn(&Row) -> Option<Spread>>;

/// What is plotted of a row.
struct Metric {
    title: String,
    note: &'static str,
    of: Figure,
    text: fn(f64) -> String,
    tick: fn(f64) -> String,
    logarithmic: bool,
}

/// The plots of `tables`, which differ in the sizes of keys and values alone.
pub(super) fn sweep<'t>(tables: &[&'t Table], engines: &[String]) -> Value {
    let sizes = |of: fn(&Table) -> u32| {
        let mut sizes = distinct(tables.iter().map(|table| of(table)));
        sizes.sort_unstable();
        sizes
    };
    let (key_bytes, value_bytes) = (sizes(|t| t.key_bytes), sizes(|t| t.value_bytes));
    let at = |key: u32, value: u32| tables.iter().find(|t| (t.key_bytes, t.value_bytes) == (key, value)).copied();
    let labels = Labels::new(tables, engines);
    let metrics: Vec<_> =
        metrics(tables).into_iter().filter_map(|metric| Some((Axis::of(tables, &metric)?, metric))).collect();
    let group =
        |against: &str, along: &[u32], across: &[u32], other: &str, at: &dyn Fn(u32, u32) -> Option<&'t Table>| {
            // Of those that were measured with one size alone there is nothing to see.
            let measured = |bytes: u32| along.iter().filter(|&&here| at(here, bytes).is_some()).count();
            let across: Vec<u32> = across.iter().copied().filter(|&bytes| measured(bytes) > 1).collect();
            let lone = across.len() == 1;
            let figures: Vec<Value> = metrics
                .iter()
                .map(|(axis, metric)| {
                    let title = |bytes| if lone { String::new() } else { format!("{other} of {}", size(bytes)) };
                    let plot = |bytes| labels.panel(metric, axis, along, lone, |here| at(here, bytes));
                    let panels: Vec<Panel> =
                        across.iter().map(|&bytes| Panel { title: title(bytes), plot: plot(bytes) }).collect();
                    context! {
                        title => format!("{} against the size of {against}", metric.title),
                        note => metric.note,
                        wide => panels.len() > 2,
                        panels => Value::from(Serde(panels)),
                    }
                })
                .collect();
            (!across.is_empty()).then_some(figures)
        };
    let groups = [
        group("values", &value_bytes, &key_bytes, "keys", &|value, key| at(key, value)),
        group("keys", &key_bytes, &value_bytes, "values", &at),
    ];
    context! {
        groups => groups.into_iter().flatten().collect::<Vec<_>>(),
        key => Value::from(Serde(labels.key())),
    }
}

#[derive(Serialize)]
struct Panel {
    title: String,
    plot: String,
}

fn metrics(tables: &[&Table]) -> Vec<Metric> {
    let spread = |of: fn(&crate::record::Record) -> Option<f64>| {
        Box::new(move |row: &Row| Spread::of(row.told().filter_map(of)))
    };
    let mut metrics = vec![Metric {
        title: "Throughput".into(),
        note: "operations per second, logarithmic",
        of: Box::new(|row| Some(row.ops_per_s)),
        text: count,
        tick: round_count,
        logarithmic: true,
    }];
    let kinds = distinct(tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| row.latency.keys().cloned())));
    let writes = OpKind::ALL.iter().any(|kind| kind.writes() && kinds.iter().any(|name| name == kind.name()));
    for kind in kinds {
        metrics.push(Metric {
            title: format!("99th percentile of {}", plural(&kind)),
            note: "latency, logarithmic",
            of: Box::new(move |row| {
                // What was not done took no time at all.
                let done = row.told().filter_map(|r| r.latency_ns.get(&kind)).filter(|l| l.count > 0);
                Spread::of(done.map(|l| l.p99 as f64))
            }),
            text: duration_ns,
            tick: round_ns,
            logarithmic: true,
        });
    }
    // Who only reads shows what the load phase wrote: that is no matter of the run.
    if writes {
        let has_star = |row: &Row| Waf::of_whole(row).is_some_and(|waf| waf.engine.is_some());
        metrics.push(Metric {
            title: "Write amplification".into(),
            note: if tables.iter().flat_map(|table| &table.rows).any(has_star) {
                "bytes that the kernel wrote by bytes put, load phase included; where the tables below have a star the engine says more"
            } else {
                "bytes that the kernel wrote by bytes put, load phase included"
            },
            of: spread(|r| r.waf),
            text: |waf| format!("{waf:.2}"),
            tick: |waf| waf.to_string(),
            logarithmic: false,
        });
        metrics.push(Metric {
            title: "Compactions".into(),
            note: "how many, cleanings and checkpoints included, where the engine tells it",
            of: spread(|r| r.compaction.count.map(|n| n as f64)),
            text: count,
            tick: count,
            logarithmic: false,
        });
        metrics.push(Metric {
            title: "Time in compactions".into(),
            note: "all of them together, load phase included",
            of: spread(|r| r.compaction.seconds.map(|seconds| seconds * 1e9)),
            text: duration_ns,
            tick: duration_ns,
            logarithmic: false,
        });
        metrics.push(Metric {
            title: "Median compaction".into(),
            note: "time of one, where the engine tells it; logarithmic",
            of: Box::new(|row| {
                // Where most runs had none, the few that had some do not stand for them.
                row.compaction.latency_ns_p50?;
                Spread::of(row.told().filter_map(|r| r.compaction.latency_ns_p50.map(|ns| ns as f64)))
            }),
            text: duration_ns,
            tick: round_ns,
            logarithmic: true,
        });
    }
    metrics
}

enum Axis {
    Linear(Linear),
    Log(Log),
}

impl Axis {
    /// For all of `metric` in `tables`, so that panels compare; `None` when there is nothing to show.
    fn of(tables: &[&Table], metric: &Metric) -> Option<Self> {
        let spreads: Vec<_> = tables.iter().flat_map(|t| &t.rows).filter_map(|row| (metric.of)(row)).collect();
        let min = spreads.iter().map(|s| s.min).reduce(f64::min)?;
        let max = spreads.iter().map(|s| s.max).reduce(f64::max)?;
        Some(if metric.logarithmic { Self::Log(Log::fitted(min, max)) } else { Self::Linear(Linear::new(max, 4)) })
    }

    fn ticks(&self) -> &[f64] {
        match self {
            Self::Linear(axis) => &axis.ticks,
            Self::Log(axis) => &axis.ticks,
        }
    }

    fn at(&self, figure: f64) -> f64 {
        match self {
            Self::Linear(axis) => axis.at(figure),
            Self::Log(axis) => axis.at(figure),
        }
    }
}

/// What the lines of a sweep are called and how they look: a colour and a mark for an engine, dashes for a layout.
struct Labels<'a> {
    lines: Vec<(Series<'a>, &'a Key, usize)>,
}

impl<'a> Labels<'a> {
    fn new(tables: &[&'a Table], engines: &[String]) -> Self {
        let rows = || tables.iter().flat_map(|table| &table.rows);
        let layouts = Layouts::of(rows());
        let mut lines: Vec<(Series<'a>, &'a Key, usize)> = Vec::new();
        for row in rows() {
            if lines.iter().all(|(_, key, _)| **key != row.key) {
                lines.push((series(row, engines), &row.key, layouts.dashes(row)));
            }
        }
        Self { lines }
    }

    fn class(&self, (series, _, dashes): &(Series<'a>, &'a Key, usize)) -> String {
        format!("{} l{dashes}", series.hue())
    }

    /// A piece and the label of each line.
    fn key(&self) -> Vec<(String, String)> {
        self.lines.iter().map(|line| (swatch(&self.class(line), line.0.mark()), line.0.label.to_owned())).collect()
    }

    /// One panel: a line for each label over the sizes `along`, evenly spaced. A `lone` one has room for the names of all of them.
    fn panel<'t>(
        &self,
        metric: &Metric,
        axis: &Axis,
        along: &[u32],
        lone: bool,
        at: impl Fn(u32) -> Option<&'t Table>,
    ) -> String {
        const TOP: f64 = 16.0;
        const PX: f64 = 150.0;
        const NAMES_MAX: usize = 4;
        let y = |figure: f64| TOP + PX - axis.at(figure) * PX / 100.0;
        // The figures of the scale stand to the left of the first point.
        let x = |i: usize| 23.0 + 71.0 * i as f64 / (along.len() - 1).max(1) as f64;
        let mut out = format!("<svg class=\"panel\" role=\"img\" height=\"{:.0}\">", TOP + PX + 26.0);
        for tick in axis.ticks() {
            let y = y(*tick);
            let _ = write!(out, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        }
        for line in &self.lines {
            let points: Vec<(f64, u32, Spread)> = along
                .iter()
                .enumerate()
                .filter_map(|(i, &here)| {
                    let row = at(here)?.rows.iter().find(|row| row.key == *line.1)?;
                    Some((x(i), here, (metric.of)(row)?))
                })
                .collect();
            self.line(&mut out, line, &points, metric, &y);
        }
        for tick in axis.ticks() {
            let _ =
                write!(out, "<text class=\"tick\" x=\"0\" y=\"{:.1}\">{}</text>", y(*tick) - 3.0, (metric.tick)(*tick));
        }
        let step = if lone { 1 } else { along.len().div_ceil(NAMES_MAX) };
        for (i, bytes) in along.iter().enumerate().rev().step_by(step) {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}%\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                x(i),
                TOP + PX + 18.0,
                size(*bytes)
            );
        }
        out.push_str("</svg>");
        out
    }

    fn line(
        &self,
        out: &mut String,
        line: &(Series<'a>, &'a Key, usize),
        points: &[(f64, u32, Spread)],
        metric: &Metric,
        y: &dyn Fn(f64) -> f64,
    ) {
        let class = self.class(line);
        for pair in points.windows(2) {
            let _ = write!(
                out,
                "<line class=\"line {class}\" x1=\"{:.1}%\" x2=\"{:.1}%\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                pair[0].0,
                pair[1].0,
                y(pair[0].2.median),
                y(pair[1].2.median)
            );
        }
        for (x, bytes, spread) in points {
            if spread.max > spread.min {
                let _ = write!(
                    out,
                    "<line class=\"range {class}\" x1=\"{x:.1}%\" x2=\"{x:.1}%\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                    y(spread.min),
                    y(spread.max)
                );
            }
            let title = format!("{}, {}: {}", escape(line.0.label), size(*bytes), (metric.text)(spread.median));
            out.push_str(&line.0.mark().point(&class, *x, y(spread.median), &title));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Latency;
    use crate::record::tests::record;
    use crate::summary::tables;

    /// Fails if operations that were not done are plotted as such that took 0 ns.
    #[test]
    fn operations_that_were_not_done_are_no_point_of_a_plot() {
        let mut record = record("lmdb", "none", 1, 1_000.0);
        record.latency_ns.insert("scan".into(), Latency::default());
        let tables = tables(&[record]);
        let of = |title: &str| {
            let all = metrics(&[&tables[0]]);
            let metric = all.iter().find(|metric| metric.title == title).unwrap();
            (metric.of)(&tables[0].rows[0])
        };
        assert_eq!(of("99th percentile of scans"), None);
        assert!(of("99th percentile of reads").is_some());
    }
}
