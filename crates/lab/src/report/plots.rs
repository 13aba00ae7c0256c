//! The plots, as fragments of HTML and SVG.
//!
//! Positions are percentages and heights pixels, so a plot is as wide as its place and its letters keep their size: the
//! same fragment serves a laptop and a phone. Colours are CSS variables, so light and dark are the page's business. Each
//! row of a plot is a label and an SVG of its own in one grid, which lets the browser fit the labels.

use std::fmt::Write;

use super::axis::{Linear, Log};
use super::context::COLOURS;
use super::escape;
use crate::record::Latency;
use crate::statistics::Spread;
use crate::summary::Row;
use crate::units::{count, duration_ns};

/// One engine and layout in a plot.
pub(crate) struct Series<'a> {
    pub(crate) label: &'a str,
    /// The number of its engine: of the page's colours, and where these are used up of the marks, it has one.
    pub(crate) colour: usize,
    /// Used directly, drawn lighter than partitioned.
    pub(crate) direct: bool,
}

impl Series<'_> {
    pub(super) fn class(&self) -> String {
        format!("{}{}", self.hue(), if self.direct { " direct" } else { "" })
    }

    /// Its colour.
    pub(super) fn hue(&self) -> String {
        format!("c{}", self.colour % COLOURS)
    }

    /// Its mark: no two of so many engines as there are colours times marks have colour and mark in common, and neighbours differ in both,
    /// for who sees no colours.
    pub(super) fn mark(&self) -> Mark {
        Mark::ALL[(self.colour + self.colour / COLOURS) % Mark::ALL.len()]
    }
}

/// The shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Mark {
    pub(super) const ALL: [Self; 4] = [Self::Circle, Self::Square, Self::Triangle, Self::Diamond];

    /// A point at `x` percent and `y` pixels.
    pub(super) fn point(self, class: &str, x: f64, y: f64, title: &str) -> String {
        let path = match self {
            Self::Circle => {
                return format!(
                    "<circle class=\"dot {class}\" cx=\"{x:.2}%\" cy=\"{y:.1}\" r=\"3.5\"><title>{title}</title></circle>"
                );
            }
            Self::Square => "M-3.2-3.2h6.4v6.4h-6.4z",
            Self::Triangle => "M0-4.2l4.2 7.4h-8.4z",
            Self::Diamond => "M0-4.6l4.6 4.6-4.6 4.6-4.6-4.6z",
        };
        format!(
            "<svg x=\"{x:.2}%\" y=\"{y:.1}\" overflow=\"visible\"><path class=\"dot {class}\" d=\"{path}\"><title>{title}</title></path></svg>"
        )
    }
}

/// A piece of a line with its point, for a legend.
pub(super) fn swatch(class: &str, mark: Mark) -> String {
    format!(
        "<svg class=\"swatch\" width=\"30\" height=\"12\" aria-hidden=\"true\"><line class=\"line {class}\" x1=\"0\" x2=\"30\" y1=\"6\" \
         y2=\"6\"/>{}</svg>",
        mark.point(class, 50.0, 6.0, "")
    )
}

/// The percentiles of one kind of operation in a row, each with its extremes over the repetitions.
pub(crate) struct Percentiles([(&'static str, Spread); 5]);

impl Percentiles {
    /// `None` where the row has no such operation.
    pub(crate) fn of(row: &Row, kind: &str) -> Option<Self> {
        let figures = || row.told().filter_map(|record| record.latency_ns.get(kind)).filter(|l| l.count > 0);
        let spread = |of: fn(&Latency) -> u64| Spread::of(figures().map(|latency| of(latency) as f64));
        Some(Self([
            ("p50", spread(|l| l.p50)?),
            ("p95", spread(|l| l.p95)?),
            ("p99", spread(|l| l.p99)?),
            ("p99.9", spread(|l| l.p999)?),
            ("max", spread(|l| l.max)?),
        ]))
    }

    fn p50(&self) -> Spread {
        self.0[0].1
    }

    fn max(&self) -> Spread {
        self.0[4].1
    }
}

const ROW_PX: u32 = 26;

/// Operations per second.
pub(crate) fn bars(rows: &[(Series<'_>, Spread)]) -> String {
    bars_of(rows, "operations per second", &count)
}

/// Bars with whiskers from the slowest to the fastest repetition; `text` says a figure of `unit`.
pub(crate) fn bars_of(rows: &[(Series<'_>, Spread)], unit: &str, text: &dyn Fn(f64) -> String) -> String {
    let axis = Linear::new(rows.iter().map(|(_, s)| s.max).fold(0.0, f64::max) * 1.12, 4);
    let mut out = format!("<div class=\"plot\" role=\"img\" aria-label=\"{unit}\">");
    for (series, spread) in rows {
        let (at, min, max) = (axis.at(spread.median), axis.at(spread.min), axis.at(spread.max));
        let _ = write!(
            out,
            "<div class=\"label\">{}</div><svg class=\"row\" height=\"{ROW_PX}\">{}<rect class=\"bar {}\" x=\"0\" y=\"5\" \
             width=\"{at:.2}%\" height=\"16\" rx=\"2\"><title>{}: {} {unit}, {} to {}</title></rect>",
            escape(series.label),
            grid(axis.ticks.iter().map(|t| axis.at(*t))),
            series.class(),
            escape(series.label),
            text(spread.median),
            text(spread.min),
            text(spread.max),
        );
        if spread.max > spread.min {
            let _ = write!(
                out,
                "<g class=\"whisker\"><line x1=\"{min:.2}%\" x2=\"{max:.2}%\" y1=\"13\" y2=\"13\"/><line x1=\"{min:.2}%\" \
                 x2=\"{min:.2}%\" y1=\"9\" y2=\"17\"/><line x1=\"{max:.2}%\" x2=\"{max:.2}%\" y1=\"9\" y2=\"17\"/></g>"
            );
        }
        // Past the whisker where there is room for a figure; before it within the bar; else past the median, over the whisker.
        let (class, x, dx, anchor) = match (max, min) {
            (..84.0, _) => ("figure", max, 6, "start"),
            (_, 25.0..) => ("figure inside", min, -6, "end"),
            _ => ("figure", at, 6, "start"),
        };
        let _ = write!(
            out,
            "<text class=\"{class}\" x=\"{x:.2}%\" dx=\"{dx}\" y=\"17\" text-anchor=\"{anchor}\">{}</text></svg>",
            text(spread.median)
        );
    }
    ticks(&mut out, axis.ticks.iter().map(|t| (axis.at(*t), text(*t))), unit);
    out.push_str("</div>");
    out
}

/// The percentiles of one kind of operation on a logarithmic axis: medians of the repetitions, and below each how far it spreads.
pub(crate) fn latencies(rows: &[(Series<'_>, Percentiles)]) -> String {
    let axis = Log::new(
        rows.iter().map(|(_, l)| l.p50().min).fold(f64::INFINITY, f64::min),
        rows.iter().map(|(_, l)| l.max().max).fold(1.0, f64::max),
    );
    let mut out = String::from("<div class=\"plot\" role=\"img\" aria-label=\"Latency percentiles\">");
    for (series, percentiles) in rows {
        let class = series.class();
        let _ = write!(
            out,
            "<div class=\"label\">{}</div><svg class=\"row\" height=\"{ROW_PX}\">{}<line class=\"range {class}\" x1=\"{:.2}%\" \
             x2=\"{:.2}%\" y1=\"13\" y2=\"13\"/>",
            escape(series.label),
            grid(axis.ticks.iter().map(|t| axis.at(*t))),
            axis.at(percentiles.p50().median),
            axis.at(percentiles.max().median),
        );
        for (i, (name, spread)) in percentiles.0.iter().enumerate() {
            let at = axis.at(spread.median);
            let text = duration_ns;
            let spreads = spread.max > spread.min;
            let extremes =
                if spreads { format!(", {} to {}", text(spread.min), text(spread.max)) } else { String::new() };
            let title = format!("<title>{} {name}: {}{extremes}</title>", escape(series.label), text(spread.median));
            if spreads {
                // Neighbours may overlap: they lie on two levels.
                let y = if i % 2 == 0 { 22.0 } else { 24.5 };
                let _ = write!(
                    out,
                    "<line class=\"spread {class}\" x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"{y}\" y2=\"{y}\">{title}</line>",
                    axis.at(spread.min),
                    axis.at(spread.max)
                );
            }
            let _ = match i {
                // The median is a bar across, the maximum hollow, those between are dots that grow.
                0 => write!(
                    out,
                    "<svg x=\"{at:.2}%\" overflow=\"visible\"><rect class=\"dot {class}\" x=\"-2\" y=\"5\" width=\"4\" \
                     height=\"16\" rx=\"1\">{title}</rect></svg>"
                ),
                4 => write!(
                    out,
                    "<circle class=\"dot hollow {class}\" cx=\"{at:.2}%\" cy=\"13\" r=\"3.5\">{title}</circle>"
                ),
                _ => write!(
                    out,
                    "<circle class=\"dot {class}\" cx=\"{at:.2}%\" cy=\"13\" r=\"{}\">{title}</circle>",
                    [0.0, 3.0, 4.0, 5.5][i]
                ),
            };
        }
        out.push_str("</svg>");
    }
    ticks(&mut out, axis.ticks.iter().map(|t| (axis.at(*t), round_ns(*t))), "latency, logarithmic");
    out.push_str("</div>");
    out
}

fn grid(at: impl Iterator<Item = f64>) -> String {
    at.fold(String::new(), |mut out, x| {
        let _ = write!(out, "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"100%\"/>");
        out
    })
}

/// More ticks than this do not all get a figure: the last two would stand too close in half the page's width, as the last one ends
/// where the axis does.
const TICKS_MAX: usize = 5;

pub(super) fn ticks(out: &mut String, ticks: impl Iterator<Item = (f64, String)>, unit: &str) {
    out.push_str("<div></div><svg class=\"row axis\" height=\"34\">");
    let ticks: Vec<_> = ticks.collect();
    for (i, (at, name)) in ticks.iter().enumerate() {
        let (at, from_end) = (*at, ticks.len() - 1 - i);
        // Every second one of many is left out, where there is little room every second one of some.
        let is_second = from_end % 2 == 1;
        if ticks.len() > TICKS_MAX && is_second {
            continue;
        }
        let sparse = if ticks.len() > 4 && is_second { " sparse" } else { "" };
        let anchor = if at < 1.0 {
            "start"
        } else if at > 99.0 {
            "end"
        } else {
            "middle"
        };
        let _ =
            write!(out, "<text class=\"tick{sparse}\" x=\"{at:.2}%\" y=\"13\" text-anchor=\"{anchor}\">{name}</text>");
    }
    let _ = write!(out, "<text class=\"unit\" x=\"100%\" y=\"29\" text-anchor=\"end\">{unit}</text></svg>");
}

/// A tick of a scale of counts.
pub(crate) fn round_count(figure: f64) -> String {
    let (figure, unit) = match figure {
        x if x >= 1e9 => (x / 1e9, " G"),
        x if x >= 1e6 => (x / 1e6, " M"),
        x if x >= 1e3 => (x / 1e3, " k"),
        x => (x, ""),
    };
    format!("{figure:.0}{unit}")
}

/// A tick of a scale of nanoseconds.
pub(crate) fn round_ns(ns: f64) -> String {
    let (figure, unit) = match ns {
        x if x >= 1e9 => (x / 1e9, "s"),
        x if x >= 1e6 => (x / 1e6, "ms"),
        x if x >= 1e3 => (x / 1e3, "µs"),
        x => (x, "ns"),
    };
    format!("{figure:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::record::tests::record;
    use crate::summary::tables;

    #[test]
    fn sixteen_engines_and_more_differ_in_colour_or_mark_and_neighbours_in_both() {
        let look = |colour: usize| {
            let series = Series { label: "", colour, direct: false };
            (series.hue(), series.mark())
        };
        let all: HashSet<_> = (0..COLOURS * Mark::ALL.len()).map(look).collect();
        assert_eq!(all.len(), 32);
        assert!((0..31).all(|i| look(i).0 != look(i + 1).0 && look(i).1 != look(i + 1).1));
        let points: HashSet<_> = Mark::ALL.iter().map(|mark| mark.point("c0", 1.0, 2.0, "")).collect();
        assert_eq!(points.len(), 4);
    }

    #[test]
    fn percentiles_have_their_extremes_and_those_of_one_run_none() {
        let of = |repetitions: u32| {
            let mut records: Vec<_> = (1..=repetitions).map(|i| record("log", "none", i, 1_000.0)).collect();
            for (record, p99) in records.iter_mut().zip([1_400, 1_200, 1_900]) {
                record.latency_ns.values_mut().for_each(|latency| latency.p99 = p99);
            }
            let table = tables(&records).remove(0);
            let row = &table.rows[0];
            let series = Series { label: "log", colour: 0, direct: true };
            latencies(&[(series, Percentiles::of(row, "read").unwrap())])
        };
        let three = of(3);
        assert_eq!(three.matches("class=\"spread ").count(), 1, "p99 alone spreads: {three}");
        assert!(three.contains("log p99: 1.40 µs, 1.20 µs to 1.90 µs"), "{three}");
        assert!(!of(1).contains("class=\"spread ") && of(1).contains("log p99: 1.40 µs</title>"));
        assert!(Percentiles::of(&tables(&[record("log", "none", 1, 1.0)])[0].rows[0], "scan").is_none());
    }
}
