//! Throughput against latency: a line for each engine, a point for each number of threads.

use std::fmt::Write;

use super::axis::Log;
use super::escape;
use super::plots::{Series, round_count, round_ns};
use crate::reproduce::{Curve, Point};
use crate::units::{count, duration_ns};

/// The heights of the space above the plot and of the plot itself.
const TOP_PX: f64 = 16.0;
const HEIGHT_PX: f64 = 300.0;

/// How a curve is drawn: what was published is dashed.
pub(super) fn class(series: &Series<'_>, published: bool) -> String {
    format!("{} l{}", series.hue(), u8::from(published))
}

/// Operations per second to the right, mean latency upwards, both logarithmic; `None` when there is nothing to show.
pub(super) fn plot(curves: &[(Series<'_>, &Curve)]) -> Option<String> {
    let points = || curves.iter().flat_map(|(_, curve)| &curve.points);
    let range = |of: fn(&Point) -> (f64, f64)| {
        let min = points().map(|point| of(point).0).reduce(f64::min)?;
        Some(Log::fitted(min, points().map(|point| of(point).1).reduce(f64::max)?))
    };
    let (across, up) = (range(Point::ops_per_s_extremes)?, range(Point::latency_ns_extremes)?);
    // The figures of the scale stand to the left of the first point.
    let x = |ops_per_s: f64| 9.0 + 0.86 * across.at(ops_per_s);
    let y = |latency: f64| TOP_PX + HEIGHT_PX - up.at(latency) * HEIGHT_PX / 100.0;
    let mut out = format!(
        "<svg class=\"panel\" role=\"img\" aria-label=\"Throughput against latency\" height=\"{:.0}\">",
        TOP_PX + HEIGHT_PX + 44.0
    );
    for tick in &up.ticks {
        let y = y(*tick);
        let _ = write!(out, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    for (series, curve) in curves {
        line(&mut out, series, curve, &x, &y);
    }
    for tick in &up.ticks {
        let _ = write!(out, "<text class=\"tick\" x=\"0\" y=\"{:.1}\">{}</text>", y(*tick) - 3.0, round_ns(*tick));
    }
    for tick in &across.ticks {
        let at = x(*tick);
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{at:.1}%\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            TOP_PX + HEIGHT_PX + 18.0,
            round_count(*tick)
        );
    }
    let _ = write!(
        out,
        "<text class=\"unit\" x=\"100%\" y=\"{:.0}\" text-anchor=\"end\">operations per second, logarithmic</text></svg>",
        TOP_PX + HEIGHT_PX + 36.0
    );
    Some(out)
}

fn line(out: &mut String, series: &Series<'_>, curve: &Curve, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    let class = class(series, curve.published);
    let mut stroke = |kind: &str, x1: f64, x2: f64, y1: f64, y2: f64| {
        let _ = write!(
            out,
            "<line class=\"{kind} {class}\" x1=\"{x1:.2}%\" x2=\"{x2:.2}%\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
        );
    };
    for point in &curve.points {
        let (ops, latency) = (point.ops_per_s_extremes(), point.latency_ns_extremes());
        if ops.0 < ops.1 {
            stroke("spread", x(ops.0), x(ops.1), y(point.latency_ns), y(point.latency_ns));
        }
        if latency.0 < latency.1 {
            stroke("spread", x(point.ops_per_s), x(point.ops_per_s), y(latency.0), y(latency.1));
        }
    }
    for pair in curve.points.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        stroke("line", x(from.ops_per_s), x(to.ops_per_s), y(from.latency_ns), y(to.latency_ns));
    }
    for point in &curve.points {
        let spread = |extremes: Option<(f64, f64)>, text: fn(f64) -> String| {
            let wide = extremes.filter(|(low, high)| low < high);
            wide.map_or(String::new(), |(low, high)| format!(" ({} to {})", text(low), text(high)))
        };
        let title = format!(
            "{}, {} thread{}: {} operations per second{} at {}{}",
            escape(&curve.label),
            point.threads,
            if point.threads == 1 { "" } else { "s" },
            count(point.ops_per_s),
            spread(point.ops_per_s_spread, count),
            duration_ns(point.latency_ns),
            spread(point.latency_ns_spread, duration_ns)
        );
        out.push_str(&series.mark().point(&class, x(point.ops_per_s), y(point.latency_ns), &title));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_throughput_lies_to_the_right_and_more_latency_above() {
        let point = |threads, ops_per_s, latency_ns| Point::published(threads, ops_per_s, latency_ns);
        let points = vec![point(1, 1e4, 2e4), point(2, 3e4, 2e4), point(4, 3e4, 9e6)];
        let curve = Curve { label: "a<b".into(), published: true, points };
        let plot = plot(&[(Series { label: "a<b", colour: 4, direct: false }, &curve)]).unwrap();
        let all = |name: &str| -> Vec<f64> {
            let attribute = format!(" {name}=\"");
            let parts = plot.split(&attribute).skip(1);
            parts.map(|part| part.split(['"', '%']).next().unwrap().parse().unwrap()).collect()
        };
        let (x, y) = (all("cx"), all("cy"));
        assert!(x[0] < x[1] && x[1] == x[2], "{x:?}");
        assert!(y[0] == y[1] && y[2] < y[1], "{y:?}");
        assert!(x.iter().all(|x| (0.0..=100.0).contains(x)) && y.iter().all(|y| (0.0..=316.0).contains(y)));
        // The lines join the points: the last two of them, behind those of the grid.
        let (from, to) = (all("x1"), all("y2"));
        assert_eq!((&from[from.len() - 2..], to[to.len() - 1]), (&x[..2], y[2]));
        assert!(plot.contains("l1") && plot.contains("a&lt;b, 4 threads"));
        assert!(super::plot(&[]).is_none() && !plot.contains("class=\"spread "));
    }

    #[test]
    fn a_point_of_several_repetitions_shows_how_far_both_its_figures_spread() {
        let mut points = vec![Point::published(1, 1e4, 2e4), Point::published(2, 3e4, 2e4)];
        (points[0].ops_per_s_spread, points[0].latency_ns_spread) = (Some((0.5e4, 2e4)), Some((1e4, 9e4)));
        points[1].latency_ns_spread = Some((2e4, 2e4));
        let curve = Curve { label: "log".into(), published: false, points };
        let plot = plot(&[(Series { label: "log", colour: 0, direct: false }, &curve)]).unwrap();
        assert_eq!(plot.matches("class=\"spread c0").count(), 2, "{plot}");
        assert!(plot.contains("(5.00 k to 20.0 k) at 20.0 µs (10.0 µs to 90.0 µs)"), "{plot}");
    }
}
