//! Published against measured: every figure that has both as a dot, by how many times the published one it is, on a logarithmic axis.
//!
//! A row for each kind of figure, another for the conclusions that come to a figure. To the right of the line is more than was published:
//! faster where the row is of throughput, slower where it is of latency.

use std::fmt::Write;

use super::context::distinct;
use super::escape;
use super::plots::{Mark, Series, ticks};
use crate::reproduce::{Figure, Finding, Reproduction, Verdict};
use crate::units::times;

/// The least height of a row; dots that lie close are spread over it.
const ROW_PX: f64 = 30.0;
/// How many levels the dots of a row are dealt to.
const LEVELS: usize = 3;

/// A logarithmic axis of quotients that has 1 on it.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn of(ratios: impl Iterator<Item = f64> + Clone) -> Self {
        let (min, max) = ratios.fold((1.0f64, 1.0f64), |(min, max), ratio| (min.min(ratio), max.max(ratio)));
        let all: Vec<f64> = (-6..=6).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power))).collect();
        // A step beyond on either side, so that nothing lies on the edge.
        let low = all.iter().rposition(|tick| *tick < min * 0.999).unwrap_or(0);
        let high = all.iter().position(|tick| *tick > max * 1.001).unwrap_or(all.len() - 1);
        let within = &all[low..=high];
        let is_round = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
        let ticks = match within.len() {
            0..=7 => within.to_vec(),
            _ => within.iter().copied().filter(is_round).collect(),
        };
        Self { low: all[low].log10(), high: all[high].log10(), ticks }
    }

    /// Where `ratio` lies, in percent of the width.
    fn at(&self, ratio: f64) -> f64 {
        ((ratio.log10() - self.low) / (self.high - self.low) * 100.0).clamp(0.0, 100.0)
    }
}

/// One dot: how far it is, the extremes where they are known, and what it says when it is pointed at.
struct Dot<'a> {
    row: String,
    series: Series<'a>,
    ratio: f64,
    extremes: Option<(f64, f64)>,
    title: String,
}

/// `names`: of all dots, which have a colour and a mark each.
fn of_figure<'a>(figure: &'a Figure, names: &[String]) -> Option<Dot<'a>> {
    let (ratio, published) = (figure.ratio.filter(|ratio| *ratio > 0.0)?, figure.published?);
    let engine = figure.engine.as_deref()?;
    let colour = names.iter().position(|name| name == engine).unwrap_or(names.len());
    let by = |measured: f64| measured / published;
    Some(Dot {
        row: figure.of.replace('_', "-"),
        series: Series { label: engine, colour, direct: false },
        ratio,
        extremes: figure.extremes.map(|(low, high)| (by(low), by(high))).filter(|(low, high)| *low > 0.0 && low < high),
        title: format!(
            "{}, {}, {engine}: {} by {} of {}, {} times",
            figure.load,
            figure.of,
            figure.measured.map_or("-".to_owned(), |measured| figure.unit.text(measured)),
            figure.unit.text(published),
            figure.published_system.as_deref().unwrap_or("what was published"),
            times(ratio)
        ),
    })
}

fn of_finding(finding: &Finding) -> Option<Dot<'_>> {
    let ratio = finding.ratio.filter(|ratio| *ratio > 0.0 && finding.verdict != Verdict::Unknown)?;
    Some(Dot {
        row: "conclusions".to_owned(),
        series: Series { label: "conclusions", colour: 7, direct: false },
        ratio,
        extremes: None,
        title: format!("{}: {}, {} times the published figure", finding.published, finding.measured, times(ratio)),
    })
}

/// The plot, and what its marks mean: an engine each. `None` where nothing that was published has a figure here.
pub(super) fn plot(again: &Reproduction, engines: &[String]) -> Option<(String, Vec<(String, String)>)> {
    // What is no engine of the page, such as a layout under a placement, comes after all that are.
    let names =
        distinct(engines.iter().cloned().chain(again.figures.iter().filter_map(|figure| figure.engine.clone())));
    let dots: Vec<Dot<'_>> = again
        .figures
        .iter()
        .filter_map(|figure| of_figure(figure, &names))
        .chain(again.findings.iter().filter_map(of_finding))
        .collect();
    if dots.is_empty() {
        return None;
    }
    let ends = |dot: &Dot<'_>| dot.extremes.map_or([dot.ratio; 2], |(low, high)| [low, high]);
    let axis = Axis::of(dots.iter().flat_map(ends));
    let mut out = String::from("<div class=\"plot against\" role=\"img\" aria-label=\"Published against measured\">");
    for row in distinct(dots.iter().map(|dot| dot.row.clone())) {
        let here: Vec<&Dot<'_>> = dots.iter().filter(|dot| dot.row == row).collect();
        let levels = here.len().min(LEVELS);
        let height = ROW_PX + 7.0 * (levels - 1) as f64;
        let _ = write!(out, "<div class=\"label\">{}</div><svg class=\"row\" height=\"{height:.0}\">", escape(&row));
        for tick in &axis.ticks {
            let class = if *tick == 1.0 { "grid as-published" } else { "grid" };
            let x = axis.at(*tick);
            let _ = write!(out, "<line class=\"{class}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"100%\"/>");
        }
        for (i, dot) in here.iter().enumerate() {
            let y = ROW_PX / 2.0 + 7.0 * (i % levels) as f64;
            let class = dot.series.hue();
            if let Some((low, high)) = dot.extremes {
                let (low, high) = (axis.at(low), axis.at(high));
                let _ = write!(
                    out,
                    "<line class=\"spread {class}\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                );
            }
            out.push_str(&mark_of(dot).point(&class, axis.at(dot.ratio), y, &escape(&dot.title)));
        }
        out.push_str("</svg>");
    }
    let text = |tick: f64| if tick < 1.0 { format!("1/{:.0}", 1.0 / tick) } else { format!("{tick:.0}") };
    ticks(&mut out, axis.ticks.iter().map(|t| (axis.at(*t), text(*t))), "times what was published, logarithmic");
    out.push_str("</div>");
    let mut key: Vec<(String, String)> = Vec::new();
    for dot in &dots {
        if !key.iter().any(|(_, label)| label == dot.series.label) {
            let point = mark_of(dot).point(&dot.series.hue(), 50.0, 6.0, "");
            let swatch = format!("<svg class=\"swatch\" width=\"12\" height=\"12\">{point}</svg>");
            key.push((swatch, dot.series.label.to_owned()));
        }
    }
    Some((out, key))
}

fn mark_of(dot: &Dot<'_>) -> Mark {
    if dot.row == "conclusions" { Mark::Diamond } else { dot.series.mark() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Unit;
    use crate::statistics::Spread;

    fn again(figures: Vec<Figure>, findings: Vec<Finding>) -> Reproduction {
        Reproduction {
            name: "x",
            title: "x",
            setup_then: "then",
            setup_now: String::new(),
            differences: Vec::new(),
            figures,
            curves: Vec::new(),
            findings,
        }
    }

    fn figure(of: &str, published: Option<f64>, measured: f64) -> Figure {
        let spread = Spread { median: measured, min: measured / 2.0, max: measured * 2.0, runs: 3 };
        let figure = Figure::new("a<b", of, Unit::PerSecond).published("System", published);
        figure.measured("log", Some(spread))
    }

    fn places(plot: &str) -> Vec<f64> {
        let parts = plot.split(" cx=\"").skip(1);
        parts.map(|part| part.split('%').next().unwrap().parse().unwrap()).collect()
    }

    /// Fails if a figure without a published one has a dot, if less than was published lies right of it, or if 1 is not on the axis.
    #[test]
    fn a_dot_for_each_figure_that_was_published_left_of_one_where_it_is_less() {
        let figures = vec![
            figure("throughput", Some(100.0), 50.0),
            figure("throughput", Some(100.0), 400.0),
            figure("read", Some(100.0), 100.0),
            figure("read", None, 100.0),
        ];
        let (plot, key) = plot(&again(figures, Vec::new()), &["log".to_owned()]).unwrap();
        let dots = places(&plot);
        assert_eq!(dots.len(), 3, "{plot}");
        assert!(dots[0] < dots[2] && dots[2] < dots[1], "{dots:?}");
        let line = plot.split("as-published\" x1=\"").nth(1).unwrap().split('%').next().unwrap();
        assert_eq!(line.parse::<f64>().unwrap(), dots[2], "what is as published lies on the line");
        assert_eq!(plot.matches("class=\"label\"").count(), 2);
        assert_eq!(plot.matches("class=\"spread ").count(), 3);
        assert!(plot.contains("a&lt;b, throughput, log: 50/s by 100/s of System, 0.50 times"), "{plot}");
        assert_eq!(key.len(), 1);
    }

    #[test]
    fn conclusions_with_a_figure_have_dots_too_and_without_any_there_is_no_plot() {
        let finding = |ratio| Finding { ratio, verdict: Verdict::Holds, ..Finding::unknown("p".into(), Some(2.0)) };
        let (plot, _) = plot(&again(Vec::new(), vec![finding(Some(0.004)), finding(None)]), &[]).unwrap();
        assert_eq!((plot.matches("<path").count(), plot.matches("conclusions</div>").count()), (1, 1), "{plot}");
        assert!(super::plot(&again(vec![figure("read", None, 1.0)], vec![finding(None)]), &[]).is_none());
        let unknown = Finding { verdict: Verdict::Unknown, ..finding(Some(0.5)) };
        assert!(super::plot(&again(Vec::new(), vec![unknown]), &[]).is_none(), "what was not measured has no dot");
    }

    /// Fails if two names that are no engines of the page look alike.
    #[test]
    fn names_that_are_no_engines_of_the_page_are_told_apart() {
        let named = |name: &str| Figure { engine: Some(name.to_owned()), ..figure("time", Some(1.0), 2.0) };
        let figures = vec![named("pma, block"), named("pma, round-robin"), named("csr")];
        let (_, key) = plot(&again(figures, Vec::new()), &["csr".to_owned()]).unwrap();
        let marks = distinct(key.iter().map(|(mark, _)| mark.clone()));
        assert_eq!((key.len(), marks.len()), (3, 3), "{key:?}");
    }

    #[test]
    fn an_axis_has_one_on_it_and_what_it_is_of_within_it() {
        for ratios in [vec![1.0], vec![0.5, 0.9], vec![3.0], vec![0.001, 900.0], vec![1e-9, 1e9]] {
            let axis = Axis::of(ratios.iter().copied());
            assert!((2..=13).contains(&axis.ticks.len()), "{ratios:?}: {:?}", axis.ticks);
            assert!(axis.ticks.contains(&1.0) && axis.at(1.0) > 0.0 && axis.at(1.0) < 100.0);
            let mut at: Vec<f64> = ratios.iter().map(|ratio| axis.at(*ratio)).collect();
            assert!(at.iter().all(|at| (0.0..=100.0).contains(at)) && at.is_sorted());
            at.dedup();
            assert_eq!(at.len(), ratios.len());
        }
    }
}
