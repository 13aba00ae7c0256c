//! `biombo bench show`.

use std::path::{Path, PathBuf};

use biombo_lab::bench::Outcome;
use biombo_lab::record::Record;
use biombo_lab::{beside, graph, report, summary, table};
use clap::Args;

use super::compare::{runs, text};
use super::graph_table;
use super::options::is_same;
use super::page::{Page, part, print_path, write_then_print};
use crate::failure::{Done, Failure};
use crate::out::file_name;

/// Show runs that were kept, over stores or over graphs: the tables, and a report, of all files together
#[derive(Debug, Args)]
#[command(after_help = "\
The files are those of --json, or of `biombo reproduce --runs`, of one bench or of several: runs of the same workload come into one table,
whichever file they are in, and those of the same repetition and seed form a pair. Runs that differ in engine, layout, placement, planner,
bound on space or the number of --dir come into rows of their own, and trials of graphs that differ in allocation, batches, churn or stream
into medians of their own; what the table would not tell apart says what it differs in. A last line that stops in its middle, as a bench
leaves it that was killed, and lines of runs that failed (`biombo advise --trials`) are left out, with a note.
Lines of `biombo bench graph` and of `biombo reproduce dgap-numa` come into the table of their graph. A report is of stores or of graphs.

--beside log: below each table, what the row of log is to each other one, pair by pair: operations per second by those of the other, in an
open loop (--rate) the longest 99th percentile by its; the median of the ratios, the least and the greatest, and from six pairs on the
interval that holds the true median 19 times in 20. Of several rows of an engine the best one by its median is taken, which flatters it;
\"log hard-8\" means those in that layout, \"log hard-8 hash\" those with that placement too.

Examples:
  biombo bench ycsb --engine log --workload a --json a.jsonl
  biombo bench ycsb --engine lmdb --workload a --json b.jsonl
  biombo bench show a.jsonl b.jsonl --beside log --html both.html")]
pub(crate) struct ShowArgs {
    /// Runs
    #[arg(value_name = "RUNS.jsonl", required = true)]
    files: Vec<PathBuf>,
    /// Show too what this row of each table is to each other one, pair by pair: an engine, or the name of a row
    #[arg(long, value_name = "ROW")]
    beside: Option<String>,
    /// Write a report with plots, one self-contained HTML page, to this file
    #[arg(long, value_name = "FILE", value_parser = file_name())]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &ShowArgs) -> Done {
    let is_read = |path: &Path| args.files.iter().any(|file| is_same(file, path));
    if let Some(html) =
        args.html.as_deref().filter(|html| is_read(html) || part(html).is_some_and(|part| is_read(&part)))
    {
        let html = html.display();
        return Err(Failure::usage(format!("--html names {html}, which has the runs: name another file")));
    }
    let (mut records, mut steps) = (Vec::new(), Vec::new());
    for file in &args.files {
        let (of_graphs, of_stores) = kept(file)?;
        steps.extend(of_graphs);
        records.extend(of_stores);
    }
    if args.html.is_some() && !records.is_empty() && !steps.is_empty() {
        return Err(Failure::failed(
            "--html: there are runs over stores and steps over graphs, and a report is of one of both: show them apart",
        ));
    }
    let tables = summary::tables(&records);
    if let Some(name) = args.beside.as_deref().filter(|name| !beside::is_in(&tables, name)) {
        return Err(Failure::failed(format!(
            "--beside {name}: no table has a row of it; name an engine or a row of the tables"
        )));
    }
    let html = args.html.as_deref().map(Page::create).transpose()?;
    let outcome = Outcome { records, failures: Vec::new(), interrupted: 0 };
    let page = || if steps.is_empty() { report::html(&outcome) } else { report::graphs(&steps, None) };
    let (written, printed) = write_then_print(html, page, |out, path| {
        for (i, shown) in tables.iter().enumerate() {
            if i > 0 {
                out.line("")?;
            }
            table::print(std::slice::from_ref(shown), out).map_err(|e| Failure::output(&e))?;
            if let Some(name) = &args.beside {
                beside::print(shown, name, out).map_err(|e| Failure::output(&e))?;
            }
        }
        if !tables.is_empty() && !steps.is_empty() {
            out.line("")?;
        }
        graph_table::print(&steps, out)?;
        print_path(out, path)
    });
    written?;
    printed
}

/// What a file holds: steps over graphs, and runs over stores.
fn kept(file: &Path) -> Done<(Vec<graph::Record>, Vec<Record>)> {
    let of_graphs = graph::parse_lines(&text(file)?);
    let (steps, others) = of_graphs.map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
    let records = runs(file, &others)?;
    if steps.is_empty() && records.is_empty() {
        let file = file.display();
        return Err(Failure::failed(format!("{file} holds no run: make it with `biombo bench .. --json`")));
    }
    Ok((steps, records))
}
