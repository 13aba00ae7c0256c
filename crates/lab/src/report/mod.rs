//! The report: one HTML file that needs nothing else, with the figures, their plots, how they came about and the records
//! themselves. It fits a laptop and a phone, light and dark, and asks no network for anything.

mod again;
mod axis;
mod context;
mod curve;
mod date;
mod findings;
mod methods;
mod plots;
mod sweep;
mod timeline;

#[cfg(test)]
mod tests;

use biombo_base::{Error, Result};
use minijinja::Environment;

use crate::bench::Outcome;
use crate::record::{Record, to_lines};
use crate::reproduce::Reproduction;

const TEMPLATE: &str = include_str!("template.html");

/// The report of `outcome`. Records of several benches may be put together; what differs in workload, threads or sizes
/// gets a section of its own.
pub fn html(outcome: &Outcome) -> Result<String> {
    page(&outcome.records, &failures(outcome))
}

/// The report of an experiment that was published: its conclusions beside what was measured, then everything as in [`html`].
pub fn reproduction(outcome: &Outcome, reproduction: &Reproduction) -> Result<String> {
    render(&outcome.records, &failures(outcome), Some(reproduction))
}

fn failures(outcome: &Outcome) -> Vec<String> {
    outcome.failures.iter().map(|(_, error)| error.to_string()).collect()
}

fn page(records: &[Record], failures: &[String]) -> Result<String> {
    render(records, failures, None)
}

fn render(records: &[Record], failures: &[String], reproduction: Option<&Reproduction>) -> Result<String> {
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE).map_err(broken)?;
    let template = environment.get_template("report.html").map_err(broken)?;
    // Within a script element only its end tag has a meaning; `<\/` is the same string to JSON.
    let lines = to_lines(records).replace("</", "<\\/");
    template.render(context::page(records, failures, reproduction, lines)).map_err(broken)
}

fn broken(error: minijinja::Error) -> Error {
    Error::invalid(format!("the report cannot be written: {error}"))
}

/// Text within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
