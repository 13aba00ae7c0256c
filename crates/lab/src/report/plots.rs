//! The plots, as fragments of HTML and SVG.
//!
//! Positions are percentages and heights pixels, so a plot is as wide as its place and its letters keep their size: the
//! same fragment serves a laptop and a phone. Colours are CSS variables, so light and dark are the page's business. Each
//! row of a plot is a label and an SVG of its own in one grid, which lets the browser fit the labels.

use std::fmt::Write;

use super::axis::{Linear, Log};
use super::escape;
use crate::record::Latency;
use crate::units::{count, duration_ns};

/// One engine and layout in a plot.
pub(crate) struct Series<'a> {
    pub(crate) label: &'a str,
    /// Which of the page's colours: one for each engine.
    pub(crate) colour: usize,
    /// Used directly, drawn lighter than partitioned.
    pub(crate) direct: bool,
}

impl Series<'_> {
    pub(super) fn class(&self) -> String {
        format!("c{}{}", self.colour, if self.direct { " direct" } else { "" })
    }
}

const ROW_PX: u32 = 26;

/// Operations per second.
pub(crate) fn bars(rows: &[(Series<'_>, crate::statistics::Spread)]) -> String {
    bars_of(rows, "operations per second", &count)
}

/// Bars with whiskers from the slowest to the fastest repetition; `text` says a figure of `unit`.
pub(crate) fn bars_of(
    rows: &[(Series<'_>, crate::statistics::Spread)],
    unit: &str,
    text: &dyn Fn(f64) -> String,
) -> String {
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
        // Past the whisker where there is room for a figure, within the bar otherwise.
        if max < 84.0 {
            let _ = write!(
                out,
                "<text class=\"figure\" x=\"{max:.2}%\" dx=\"6\" y=\"17\">{}</text></svg>",
                text(spread.median)
            );
        } else {
            let _ = write!(
                out,
                "<text class=\"figure inside\" x=\"{min:.2}%\" dx=\"-6\" y=\"17\" text-anchor=\"end\">{}</text></svg>",
                text(spread.median)
            );
        }
    }
    ticks(&mut out, axis.ticks.iter().map(|t| (axis.at(*t), text(*t))), unit);
    out.push_str("</div>");
    out
}

/// The percentiles of one kind of operation on a logarithmic axis.
pub(crate) fn latencies(rows: &[(Series<'_>, Latency)]) -> String {
    let axis = Log::new(
        rows.iter().map(|(_, l)| l.p50 as f64).fold(f64::INFINITY, f64::min),
        rows.iter().map(|(_, l)| l.max as f64).fold(1.0, f64::max),
    );
    let mut out = String::from("<div class=\"plot\" role=\"img\" aria-label=\"Latency percentiles\">");
    for (series, latency) in rows {
        let points = [
            ("p50", latency.p50),
            ("p95", latency.p95),
            ("p99", latency.p99),
            ("p99.9", latency.p999),
            ("max", latency.max),
        ];
        let _ = write!(
            out,
            "<div class=\"label\">{}</div><svg class=\"row\" height=\"{ROW_PX}\">{}<line class=\"range {}\" x1=\"{:.2}%\" \
             x2=\"{:.2}%\" y1=\"13\" y2=\"13\"/>",
            escape(series.label),
            grid(axis.ticks.iter().map(|t| axis.at(*t))),
            series.class(),
            axis.at(latency.p50 as f64),
            axis.at(latency.max as f64),
        );
        for (i, (name, ns)) in points.iter().enumerate() {
            let at = axis.at(*ns as f64);
            let title = format!("<title>{} {name}: {}</title>", escape(series.label), duration_ns(*ns as f64));
            let class = series.class();
            let _ = match i {
                // The median is a bar across, the maximum hollow, those between are dots that shrink.
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
