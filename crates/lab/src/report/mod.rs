//! The report: one HTML file that needs nothing else, with the figures, their plots, how they came about and the records
//! themselves. It fits a laptop and a phone, light and dark, and asks no network for anything.

mod again;
mod against;
mod amplification;
mod axis;
mod context;
mod curve;
mod date;
mod findings;
mod graph_findings;
mod graphs;
mod layouts;
mod methods;
mod plots;
mod sweep;
mod timeline;

#[cfg(test)]
pub(crate) mod tests;

use biombo_base::{Error, Result};
use minijinja::Environment;

use crate::bench::Outcome;
use crate::graph;
use crate::record::{Record, to_lines};
use crate::reproduce::Reproduction;

/// What all pages have, and what those of stores and of graphs have for themselves.
const TEMPLATES: [(&str, &str); 3] = [
    ("base.html", include_str!("base.html")),
    ("stores.html", include_str!("stores.html")),
    ("graphs.html", include_str!("graphs.html")),
];

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
    let lines = within_script(&to_lines(records));
    filled("stores.html", context::page(records, failures, reproduction, lines))
}

/// The report of what was measured of graphs, perhaps of an experiment that was published.
pub fn graphs(records: &[graph::Record], reproduction: Option<&Reproduction>) -> Result<String> {
    let line =
        |record| serde_json::to_string(record).map_err(|e| Error::invalid(format!("a record cannot be written: {e}")));
    let lines = records.iter().map(line).collect::<Result<Vec<_>>>()?.join("\n");
    filled("graphs.html", graphs::page(records, reproduction, within_script(&lines)))
}

/// Within a script element only its end tag has a meaning; `<\/` is the same string to JSON.
fn within_script(lines: &str) -> String {
    lines.replace("</", "<\\/")
}

fn filled(template: &str, values: minijinja::Value) -> Result<String> {
    let mut environment = Environment::new();
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).map_err(broken)?;
    }
    environment.get_template(template).and_then(|template| template.render(values)).map_err(broken)
}

fn broken(error: minijinja::Error) -> Error {
    Error::invalid(format!("the report cannot be written: {error}"))
}

/// Text within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
