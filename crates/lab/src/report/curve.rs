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

/// A curve and how it is drawn: what was published is dashed and has the last colour.
pub(super) fn class(series: &Series<'_>, published: bool) -> String {
    format!("c{} l{}", series.colour, u8::from(published))
}

/// Operations per second to the right, mean latency upwards, both logarithmic; `None` when there is nothing to show.
pub(super) fn plot(curves: &[(Series<'_>, &Curve)]) -> Option<String> {
    let points = || curves.iter().flat_map(|(_, curve)| &curve.points);
    let range = |of: fn(&Point) -> f64| {
        let min = points().map(of).reduce(f64::min)?;
        Some(Log::fitted(min, points().map(of).reduce(f64::max)?))
    };
    let (across, up) = (range(|point| point.ops_per_s)?, range(|point| point.latency_ns)?);
    // The figures of the scale stand to the left of the first point.
    let x = |point: &Point| 9.0 + 0.86 * across.at(point.ops_per_s);
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
        let at = 9.0 + 0.86 * across.at(*tick);
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

fn line(out: &mut String, series: &Series<'_>, curve: &Curve, x: &dyn Fn(&Point) -> f64, y: &dyn Fn(f64) -> f64) {
    let class = class(series, curve.published);
    for pair in curve.points.windows(2) {
        let _ = write!(
            out,
            "<line class=\"line {class}\" x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            x(&pair[0]),
            x(&pair[1]),
            y(pair[0].latency_ns),
            y(pair[1].latency_ns)
        );
    }
    for point in &curve.points {
        let _ = write!(
            out,
            "<circle class=\"dot {class}\" cx=\"{:.2}%\" cy=\"{:.1}\" r=\"3.5\"><title>{}, {} thread{}: {} operations per second at \
             {}</title></circle>",
            x(point),
            y(point.latency_ns),
            escape(&curve.label),
            point.threads,
            if point.threads == 1 { "" } else { "s" },
            count(point.ops_per_s),
            duration_ns(point.latency_ns)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_throughput_lies_to_the_right_and_more_latency_above() {
        let point = |threads, ops_per_s, latency_ns| Point { threads, ops_per_s, latency_ns, latency_ns_p99: None };
        let points = vec![point(1, 1e4, 2e4), point(2, 3e4, 2e4), point(4, 3e4, 9e6)];
        let curve = Curve { label: "a<b".into(), published: true, points };
        let plot = plot(&[(Series { label: "a<b", colour: 7, direct: false }, &curve)]).unwrap();
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
        assert!(super::plot(&[]).is_none());
    }
}
