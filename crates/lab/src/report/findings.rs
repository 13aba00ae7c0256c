//! What the figures say, in a line each: the fastest of every workload, and what partitioning and moving did to each engine.

use serde::Serialize;

use crate::statistics::Ratio;
use crate::summary::Table;
use crate::units::count;

/// One finding: what it is about, its figure, and what that means.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finding {
    about: String,
    figure: String,
    text: String,
    class: &'static str,
}

/// At most so many, so that the head of a report stays one look.
const FINDINGS_MAX: usize = 8;

/// The fastest rows first, then the ratios, the largest differences before the small ones.
pub(crate) fn findings(tables: &[Table]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tables.iter().filter_map(fastest).take(FINDINGS_MAX / 2).collect();
    let mut ratios: Vec<(f64, Finding)> = tables
        .iter()
        .flat_map(|table| {
            table.rows.iter().flat_map(move |row| {
                let still = row.moving.as_ref().and_then(|moving| moving.ratio);
                let beside = [(row.ratio, "the engine used directly"), (still, "the best that stays as it is")];
                beside.into_iter().filter_map(move |(ratio, base)| Some((table, row, ratio?, base)))
            })
        })
        .map(|(table, row, ratio, base)| {
            let finding = Finding {
                about: format!("{}, {}", row.label, table.heading()),
                figure: format!("{:.2} ×", ratio.median),
                text: meaning(&ratio, base),
                class: class(&ratio),
            };
            (ratio.median.ln().abs(), finding)
        })
        .collect();
    ratios.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let room = FINDINGS_MAX.saturating_sub(findings.len());
    findings.extend(ratios.into_iter().map(|(_, finding)| finding).take(room));
    findings
}

fn fastest(table: &Table) -> Option<Finding> {
    // The null engine is what the driver costs, no competitor; nor is one with wrong answers.
    let row = table
        .rows
        .iter()
        .filter(|row| row.engine != crate::null::NAME && row.errors == 0)
        .max_by(|a, b| a.ops_per_s.median.total_cmp(&b.ops_per_s.median))?;
    Some(Finding {
        about: format!("Fastest in {}", table.heading()),
        figure: format!("{}/s", count(row.ops_per_s.median)),
        text: row.label.clone(),
        class: "",
    })
}

/// Only an interval that leaves out 1 shows a difference.
pub(crate) fn class(ratio: &Ratio) -> &'static str {
    match ratio.interval {
        Some((low, _)) if low > 1.0 => "good",
        Some((_, high)) if high < 1.0 => "bad",
        _ => "",
    }
}

/// A ratio to `base` in words.
fn meaning(ratio: &Ratio, base: &str) -> String {
    match ratio.interval {
        Some((low, high)) => {
            let verdict = match class(ratio) {
                "good" => "faster than",
                "bad" => "slower than",
                _ => "no difference shown to",
            };
            format!("{verdict} {base}; 95 % interval {low:.2} to {high:.2} over {} pairs", ratio.pairs)
        }
        None => format!(
            "of {base}; {} pair{}, too few for an interval",
            ratio.pairs,
            if ratio.pairs == 1 { "" } else { "s" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interval_that_leaves_out_one_is_a_difference() {
        let of = |interval| Ratio { median: 1.02, min: 0.9, max: 1.1, pairs: 9, interval };
        assert_eq!(class(&of(Some((1.01, 1.03)))), "good");
        assert_eq!(class(&of(Some((0.97, 1.03)))), "");
        assert_eq!(class(&of(Some((0.90, 0.99)))), "bad");
        assert_eq!(class(&of(None)), "");
        assert!(meaning(&of(Some((0.97, 1.03))), "it").starts_with("no difference"));
        assert!(meaning(&of(None), "it").contains("too few"));
    }
}
