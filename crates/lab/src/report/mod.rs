//! The report: one HTML file that needs nothing else, with the figures, their plots, how they came about and the records
//! themselves. It fits a laptop and a phone, light and dark, and asks no network for anything.

mod axis;
mod context;
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

const TEMPLATE: &str = include_str!("template.html");

/// The report of `outcome`. Records of several benches may be put together; what differs in workload, threads or sizes
/// gets a section of its own.
pub fn html(outcome: &Outcome) -> Result<String> {
    let failures: Vec<String> = outcome.failures.iter().map(|(_, error)| error.to_string()).collect();
    page(&outcome.records, &failures)
}

fn page(records: &[Record], failures: &[String]) -> Result<String> {
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE).map_err(broken)?;
    let template = environment.get_template("report.html").map_err(broken)?;
    // Within a script element only its end tag has a meaning; `<\/` is the same string to JSON.
    let lines = to_lines(records).replace("</", "<\\/");
    template.render(context::page(records, failures, lines)).map_err(broken)
}

fn broken(error: minijinja::Error) -> Error {
    Error::invalid(format!("the report cannot be written: {error}"))
}

/// Text within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
