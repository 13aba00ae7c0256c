//! A comparison for people.

use std::io::{self, Write};

use super::{Comparison, Figure, Side, Verdict};
use crate::columns;
use crate::summary::Table;
use crate::units::{count, duration_ns, plural};

/// A table for each workload, then what is to be said of all.
pub fn print(comparison: &Comparison, output: &mut impl Write) -> io::Result<()> {
    for difference in &comparison.differences {
        writeln!(output, "note: another {difference}")?;
    }
    let mut rest = comparison.rows.as_slice();
    while let Some(first) = rest.first() {
        let here = rest.iter().take_while(|row| row.table == first.table).count();
        heading(&first.table, output)?;
        let header = ["engine", "figure", "old", "new", "change", "interval", ""];
        let mut lines = vec![header.map(str::to_owned).to_vec()];
        for row in &rest[..here] {
            for (i, figure) in row.figures.iter().enumerate() {
                let name = if i == 0 { row.row.clone() } else { String::new() };
                lines.push(line(name, figure));
            }
        }
        columns::write(&lines, &[0, 1, 6], output)?;
        writeln!(output)?;
        rest = &rest[here..];
    }
    for (rows, file) in [(&comparison.only_old, "old"), (&comparison.only_new, "new")] {
        for row in rows {
            writeln!(output, "only in the {file} file: {row}")?;
        }
    }
    for erred in &comparison.errors {
        let runs = [(erred.old_runs, "old run"), (erred.new_runs, "new run")];
        let runs: Vec<String> = runs.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n as u64, what)).collect();
        writeln!(output, "with errors, so without a part in this: {} of {}", runs.join(" and "), erred.row)?;
    }
    for unjudged in comparison.unjudged() {
        writeln!(output, "cannot be judged: {unjudged}")?;
    }
    conclusion(comparison, output)
}

fn heading(table: &Table, output: &mut impl Write) -> io::Result<()> {
    let pace = table.rate.map_or("closed loop".to_owned(), |rate| format!("open loop at {}/s", count(rate)));
    let (name, work, choice) = (table.bench_name(), table.work(), table.choice());
    let records = count(table.records as f64);
    let length = table.length().map_or(String::new(), |length| format!(", {length}"));
    let place = table.place.as_ref().map_or(String::new(), |place| format!(", on {place}"));
    let (sizes, durability) = (table.sizes(), &table.durability);
    writeln!(output, "{name} {work} ({choice}): {records} records of {sizes}, {durability}, {pace}{length}{place}")
}

fn line(name: String, figure: &Figure) -> Vec<String> {
    let mut parts = figure.metric.split('.');
    let (what, show): (String, fn(f64) -> String) = match (parts.next(), parts.next()) {
        (Some("latency_ns"), Some(kind)) => (format!("{} p99", kind.replace('_', "-")), duration_ns),
        (Some("waf"), _) => ("WAF".to_owned(), |waf| format!("{waf:.2}")),
        _ => ("ops/s".to_owned(), count),
    };
    let said = match (figure.judged, figure.verdict) {
        (true, _) if figure.regression => "WORSE, beyond the threshold".to_owned(),
        (true, verdict) => verdict.name().to_owned(),
        // Not judged: its interval speaks for itself.
        (false, _) => String::new(),
    };
    let interval =
        figure.interval.map_or("-".to_owned(), |(low, high)| format!("{} .. {}", percent(low), percent(high)));
    let median = |side: Option<Side>| side.map_or("-".to_owned(), |side| show(side.median));
    let ratio = figure.ratio.map_or("-".to_owned(), percent);
    vec![name, what, median(figure.old), median(figure.new), ratio, interval, said]
}

/// A ratio as a change: `+3.1 %`.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn conclusion(comparison: &Comparison, output: &mut impl Write) -> io::Result<()> {
    let of = |verdict| comparison.judged().filter(|figure| figure.verdict == verdict).count();
    let regressions = comparison.regressions();
    writeln!(
        output,
        "{} judged: {} better, {} worse ({regressions} beyond the threshold of {:.1} %), {} without a difference{}",
        comparison.judged().count(),
        of(Verdict::Better),
        of(Verdict::Worse),
        comparison.threshold * 100.0,
        of(Verdict::Same),
        match of(Verdict::Unknown) {
            0 => String::new(),
            unknown => format!(", {unknown} that cannot be judged ({} runs a side are needed)", comparison.runs_needed),
        },
    )?;
    match comparison.possible_loss() {
        Some(loss) if of(Verdict::Same) > 0 && loss > comparison.threshold => {
            let loss = loss * 100.0;
            writeln!(
                output,
                "where there is no difference a loss of up to {loss:.1} % cannot be ruled out: more runs tell more"
            )
        }
        _ => Ok(()),
    }
}
