//! An experiment done again: its figures, curves and conclusions.

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::context::COLOURS;
use super::curve;
use super::plots::{Series, swatch};
use crate::reproduce::{Curve, Reproduction, Verdict};

/// What the template is given of `again`; `engines` are those of the page, whose colours they have all over it.
pub(super) fn reproduced(again: &Reproduction, engines: &[String]) -> Value {
    let rows: Vec<Value> = again
        .findings
        .iter()
        .map(|finding| {
            context! {
                published => &finding.published,
                measured => &finding.measured,
                ratio => finding.ratio.map(|ratio| format!("{ratio:.2}")),
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
    context! {
        then => again.setup_then,
        now => &again.setup_now,
        differences => &again.differences,
        rows => rows,
        figures => Value::from(Serde(again.figures.iter().map(|figure| figure.cells()).collect::<Vec<_>>())),
        curve => curve::plot(&curves),
        key => Value::from(Serde(key)),
    }
}
