//! `biombo bench compare`.

use std::fs;
use std::path::{Path, PathBuf};

use biombo_lab::compare::{Comparison, Verdict};
use biombo_lab::record::{Record, parse_lines};
use clap::Args;
use serde::Serialize;

use crate::args::JsonArg;
use crate::failure::{Done, Failure};
use crate::out::Out;

/// Compare two files of runs: what changed, and whether it is more than noise
#[derive(Debug, Args)]
#[command(after_help = "\
The files are those of --json. Rows are compared that have engine, layout, workload, sizes, threads, durability and cache in
common; both sides need six repetitions or more (--repeat 9). The change is the ratio of the medians, with an interval by the
bootstrap (5,000 resamples) in which the truth lies 19 times in 20, for all judged figures together. Judged are operations per
second, in an open loop (--rate) the 99th percentiles; the others are shown.

`worse`: the whole interval is a loss. The exit status is 1 where a loss of the threshold lies within such an interval, or where
nothing could be judged. The runs of two files are not made side by side: what the machine does meanwhile counts as a change.

Examples:
  biombo bench ycsb --engine log --workload a --repeat 9 --json old.jsonl      (then build the other version)
  biombo bench compare old.jsonl new.jsonl
  biombo bench compare old.jsonl new.jsonl --threshold 0.02 --json")]
pub(crate) struct CompareArgs {
    /// Runs before
    #[arg(value_name = "OLD.jsonl")]
    old: PathBuf,
    /// Runs after
    #[arg(value_name = "NEW.jsonl")]
    new: PathBuf,
    /// The share of a figure whose loss is a regression
    #[arg(long, value_name = "F", default_value_t = 0.05)]
    threshold: f64,
    #[command(flatten)]
    json: JsonArg,
}

/// The object of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    old: String,
    new: String,
    resamples: usize,
    regressions: usize,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

pub(super) fn run(args: &CompareArgs) -> Done {
    if !(0.0..1.0).contains(&args.threshold) {
        let given = args.threshold;
        return Err(Failure::usage(format!("--threshold {given} is no share from 0 to below 1: 0.05 is five percent")));
    }
    let comparison = biombo_lab::compare::compare(&read(&args.old)?, &read(&args.new)?, args.threshold)?;
    let mut out = Out::new();
    if args.json.json {
        out.json(&Line {
            old: args.old.display().to_string(),
            new: args.new.display().to_string(),
            resamples: biombo_lab::statistics::RESAMPLES,
            regressions: comparison.regressions(),
            comparison: &comparison,
        })?;
    } else {
        biombo_lab::compare::print(&comparison, &mut out).map_err(|e| Failure::output(&e))?;
    }
    out.finish()?;
    match comparison.regressions() {
        0 if comparison.judged().all(|figure| figure.verdict == Verdict::Unknown) => {
            Err(Failure::failed("nothing could be judged: both files need six repetitions or more (--repeat 9)"))
        }
        0 => Ok(()),
        count => {
            let threshold = args.threshold * 100.0;
            Err(Failure::failed(format!("{count} of the judged figures lost {threshold:.1} % or more, or may have")))
        }
    }
}

/// The runs that a file holds.
pub(super) fn read(path: &Path) -> Done<Vec<Record>> {
    let text = fs::read_to_string(path).map_err(|e| Failure::input(path.display(), &e))?;
    let records = parse_lines(&text).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    if records.is_empty() {
        return Err(Failure::failed(format!("{} holds no run: make it with `biombo bench .. --json`", path.display())));
    }
    Ok(records)
}
