//! An experiment done again: its figures, curves and conclusions.

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::context::COLOURS;
use super::curve;
use super::plots::Series;
use crate::reproduce::{Reproduction, Verdict};

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
    let curves: Vec<_> = again
        .curves
        .iter()
        .map(|curve| {
            let colour = engines.iter().position(|engine| *engine == curve.label).unwrap_or(COLOURS - 1) % COLOURS;
            (Series { label: &curve.label, colour, direct: false }, curve)
        })
        .collect();
    let key: Vec<(String, &str)> =
        curves.iter().map(|(series, curve)| (curve::class(series, curve.published), series.label)).collect();
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
