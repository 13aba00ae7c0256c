//! An experiment done again: its figures, curves and conclusions.

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::context::COLOURS;
use super::plots::{Series, swatch};
use super::{against, curve};
use crate::reproduce::{Curve, Reproduction, Verdict};
use crate::units::{plural, times};

/// What the template is given of `again`; `engines` are those of the page, whose colours they have all over it.
pub(super) fn reproduced(again: &Reproduction, engines: &[String]) -> Value {
    let rows: Vec<Value> = again
        .findings
        .iter()
        .map(|finding| {
            context! {
                published => &finding.published,
                measured => &finding.measured,
                ratio => finding.ratio.map(times),
                lines => lines(&finding.lines),
                verdict => finding.verdict.name(),
                class => match finding.verdict { Verdict::Holds => "good", Verdict::Refuted => "bad", _ => "" },
            }
        })
        .collect();
    // What is no engine here comes after all of them, and after the colours that one sees first.
    let mut other = engines.len().max(COLOURS - 1);
    let curves: Vec<_> = again
        .curves
        .iter()
        .map(|curve| {
            let colour = engines.iter().position(|engine| *engine == curve.label).unwrap_or_else(|| {
                other += 1;
                other - 1
            });
            (Series { label: &curve.label, colour, direct: false }, curve)
        })
        .collect();
    let piece = |(series, curve): &(Series<'_>, &Curve)| swatch(&curve::class(series, curve.published), series.mark());
    let key: Vec<(String, &str)> = curves.iter().map(|one| (piece(one), one.0.label)).collect();
    let figures: Vec<Value> = again
        .figures
        .iter()
        .map(|figure| context! { cells => Value::from(Serde(figure.cells())), lines => lines(&figure.lines) })
        .collect();
    let has_tails = again.figures.iter().any(|figure| figure.cells()[8..].iter().any(|cell| !cell.is_empty()));
    let (head, rest) = again.headline();
    let against = against::plot(again, engines);
    context! {
        head => head,
        rest => rest,
        against => against.as_ref().map(|(plot, _)| plot),
        against_key => against.as_ref().map(|(_, key)| Value::from(Serde(key))),
        then => again.setup_then,
        now => &again.setup_now,
        differences => &again.differences,
        rows => rows,
        figures => figures,
        has_tails => has_tails,
        curve => curve::plot(&curves),
        key => Value::from(Serde(key)),
    }
}

/// So many lines are named by their numbers; more are counted.
const NAMED_MAX: usize = 5;

/// The link to raw lines: their numbers, and what is read of it. Nothing for none.
fn lines(lines: &[u32]) -> Option<Value> {
    let all = |between: &str| lines.iter().map(u32::to_string).collect::<Vec<_>>().join(between);
    let text = match lines.len() {
        0 => return None,
        1..=NAMED_MAX => all(", "),
        many => plural(many as u64, "run"),
    };
    Some(context! { all => all(" "), text => text })
}
