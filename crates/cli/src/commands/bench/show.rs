//! `biombo bench show`.

use std::path::PathBuf;

use biombo_lab::bench::Outcome;
use clap::Args;

use super::compare::read;
use super::page::Page;
use crate::failure::{Done, Failure};
use crate::out::{Out, file_name};

/// Show runs that were kept: the tables, and a report, of all files together
#[derive(Debug, Args)]
#[command(after_help = "\
The files are those of --json, or of `biombo reproduce --runs`, of one bench or of several: runs of the same workload come into one table, whichever file they are in,
and those of the same repetition and seed form a pair.

Examples:
  biombo bench ycsb --engine log --workload a --json a.jsonl
  biombo bench ycsb --engine lmdb --workload a --json b.jsonl
  biombo bench show a.jsonl b.jsonl --html both.html")]
pub(crate) struct ShowArgs {
    /// Runs
    #[arg(value_name = "RUNS.jsonl", required = true)]
    files: Vec<PathBuf>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &ShowArgs) -> Done {
    let mut records = Vec::new();
    for file in &args.files {
        records.extend(read(file)?);
    }
    let mut html = args.html.as_deref().map(Page::create).transpose()?;
    let mut out = Out::new();
    biombo_lab::table::print(&biombo_lab::summary::tables(&records), &mut out).map_err(|e| Failure::output(&e))?;
    if let Some(html) = &mut html {
        html.write(&biombo_lab::report::html(&Outcome { records, failures: Vec::new(), interrupted: 0 })?)?;
        out.line(format_args!("report: {}", html.path().display()))?;
    }
    out.finish()
}
