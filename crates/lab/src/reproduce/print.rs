//! A reproduction for people.

use std::io::{self, Write};

use super::{Curve, Point, Reproduction};
use crate::columns;
use crate::units::{count, duration_ns, times};

/// Where it was done then and now, the figures, the curves, each conclusion with what was measured, and what differs.
pub fn print(reproduction: &Reproduction, output: &mut impl Write) -> io::Result<()> {
    let Reproduction { name, title, setup_then, setup_now, differences, figures, curves, findings } = reproduction;
    let (head, rest) = reproduction.headline();
    let rest = if rest.is_empty() { rest } else { format!(": {rest}") };
    writeln!(output, "{name}: {title}\n  {head}{rest}\n  then: {setup_then}\n  now:  {setup_now}\n")?;
    if !figures.is_empty() {
        let header =
            ["load", "figure", "published of", "published", "engine", "measured", "spread", "ratio", "p95", "p99"];
        let mut lines = vec![header.map(str::to_owned).to_vec()];
        lines.extend(figures.iter().map(|figure| figure.cells().to_vec()));
        columns::write(&lines, &[0, 1, 2, 4], output)?;
        writeln!(output)?;
    }
    for (what, text) in [
        ("operations per second", &(|point: &Point| count(point.ops_per_s)) as &dyn Fn(&Point) -> String),
        ("mean latency", &|point| duration_ns(point.latency_ns)),
        ("99th percentile of latency", &|point| point.latency_ns_p99.map_or("-".to_owned(), duration_ns)),
    ] {
        by_threads(what, curves, text, output)?;
    }
    for finding in findings {
        writeln!(output, "  {:<14} {}", finding.verdict.name(), finding.published)?;
        let ratio = finding.ratio.map_or(String::new(), |ratio| format!("; {} of the published figure", times(ratio)));
        writeln!(output, "  {:<14} measured: {}{ratio}", "", finding.measured)?;
    }
    writeln!(output)?;
    differences.iter().try_for_each(|difference| writeln!(output, "{difference}"))
}

/// One figure of all curves: a line for each, a column for each number of threads.
fn by_threads(
    what: &str,
    curves: &[Curve],
    text: &dyn Fn(&Point) -> String,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut threads: Vec<u32> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.threads)).collect();
    threads.sort_unstable();
    threads.dedup();
    if threads.is_empty() {
        return Ok(());
    }
    let mut lines = vec![vec![format!("{what}, by threads")]];
    lines[0].extend(threads.iter().map(u32::to_string));
    for curve in curves {
        let at = |threads: &u32| curve.points.iter().find(|point| point.threads == *threads);
        let mut line = vec![format!("{}{}", curve.label, if curve.published { " (published)" } else { "" })];
        line.extend(threads.iter().map(|threads| at(threads).map_or(String::new(), text)));
        lines.push(line);
    }
    columns::write(&lines, &[0], output)?;
    writeln!(output)
}
