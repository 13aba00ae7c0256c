//! `biombo bench compare`.

use std::fs;
use std::path::{Path, PathBuf};

use biombo_lab::compare::{Comparison, Made};
use biombo_lab::record::{Kept, Record, parse_kept};
use clap::Args;
use serde::Serialize;

use super::builds::Builds;
use crate::args::JsonArg;
use crate::failure::{Done, Failure};
use crate::out::Out;

/// Compare two files of runs, or two builds by turns: what changed, and whether it is more than noise
#[derive(Debug, Args)]
#[command(after_help = "\
The files are those of --json. Rows are compared that have engine, layout, workload, sizes, threads, durability, cache and length of the
runs in common; another place is told. The change is the ratio of the medians, with an interval by the bootstrap (5,000 resamples and
more) in which the truth lies 19 times in 20, for all judged figures together. Judged are operations per second, in an open loop (--rate)
the 99th percentiles; the others are shown. Both sides need six repetitions or more (--repeat 9): 6 where up to 23 figures are judged
together, 7 up to 85, 8 up to 321.
A last line that stops in its middle, as a bench leaves it that was killed, and lines of runs that failed are left out, with a note.

`worse`: the whole interval is a loss. The exit status is 1 where a loss of the threshold lies within such an interval, where an
operation of the new runs failed or gave a wrong answer (runs with such operations take no part, on either side), and, unless
--allow-missing is given, where the new file lacks a row of the old one, or some of its runs, or a judged figure cannot be judged. The
runs of two files are not made side by side: what the machine does meanwhile counts as a change. --build measures two builds side by
side: each round is one bench of either, with the same seed, and while both run they take turns of 50 ms (--turn), one standing still with
its clock while the other works. The change is the middle of the ratios of the rounds, with an interval by their signed ranks in which the
truth lies 49 times in 50, for all judged figures together: how the machine slows down or speeds up is no change. Seven rounds are enough
to judge one figure, nine up to 5 together, 13 up to 81. Benches that load are loaded one after the other; those that repartition
themselves follow each other, without turns, and so do those of a build that does not know turns yet. What builds pace by the clock of the
machine, such as checkpoints, goes on twice as fast by theirs; where that is what differs, take --turn 0.

Examples:
  biombo bench ycsb --engine log --workload a --repeat 9 --json old.jsonl      (then build the other version)
  biombo bench compare old.jsonl new.jsonl
  biombo bench compare old.jsonl new.jsonl --threshold 0.02 --json
  biombo bench compare --build biombo.old target/release/biombo -- ycsb --engine log --workload a,c --seconds 2")]
pub(crate) struct CompareArgs {
    /// Runs before
    #[arg(value_name = "OLD.jsonl", required_unless_present = "build", conflicts_with = "build")]
    old: Option<PathBuf>,
    /// Runs after
    #[arg(value_name = "NEW.jsonl", required_unless_present = "build", conflicts_with = "build")]
    new: Option<PathBuf>,
    /// Measure these two programs by turns instead, by the bench after --
    #[arg(long, value_names = ["OLD_BIN", "NEW_BIN"], num_args = 2, requires = "bench")]
    build: Option<Vec<PathBuf>>,
    /// Benches of each build
    #[arg(long, value_name = "N", default_value_t = 13, conflicts_with = "old")]
    rounds: u32,
    /// How long a build works while the other one stands still; 0: one bench follows the other
    #[arg(long, value_name = "SECONDS", default_value_t = 0.05, conflicts_with = "old")]
    turn: f64,
    /// Keep the runs of the builds in this directory, as old.jsonl and new.jsonl
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The share of a figure whose loss is a regression
    #[arg(long, value_name = "F", default_value_t = 0.05)]
    threshold: f64,
    /// Rows and runs that the new file lacks, and figures that cannot be judged, are no failure as long as one is judged
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    json: JsonArg,
    /// What both builds measure: ycsb, db, shift or trace with its options, but for --repeat, --seed, --json and --html
    #[arg(last = true, value_name = "BENCH")]
    bench: Vec<String>,
}

/// The object of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    old: String,
    new: String,
    /// Of each interval, at least; none where the runs were made by turns.
    resamples: Option<usize>,
    regressions: usize,
    /// Why the exit status is 1, where it is.
    failures: &'a [String],
    #[serde(flatten)]
    comparison: &'a Comparison,
}

pub(super) fn run(args: &CompareArgs) -> Done {
    if !(0.0..1.0).contains(&args.threshold) {
        let given = args.threshold;
        return Err(Failure::usage(format!("--threshold {given} is no share from 0 to below 1: 0.05 is five percent")));
    }
    let Sides { names: [old, new], runs: [before, after], failed } = sides(args)?;
    let made = if args.build.is_some() { Made::ByTurns } else { Made::Apart };
    let comparison = biombo_lab::compare::compare(&before, &after, made, args.threshold)?;
    let failures = [failed, comparison.failures(args.allow_missing)].concat();
    let mut out = Out::new();
    if args.json.json {
        out.json(&Line {
            old: old.display().to_string(),
            new: new.display().to_string(),
            resamples: (made == Made::Apart).then_some(biombo_lab::statistics::RESAMPLES),
            regressions: comparison.regressions(),
            failures: &failures,
            comparison: &comparison,
        })?;
    } else {
        biombo_lab::compare::print(&comparison, &mut out).map_err(|e| Failure::output(&e))?;
    }
    out.finish()?;
    if failures.is_empty() { Ok(()) } else { Err(Failure::failed(failures.join("; "))) }
}

/// What is compared, the old one first.
struct Sides<'a> {
    /// Files or programs.
    names: [&'a Path; 2],
    runs: [Vec<Record>; 2],
    /// Benches of programs that did not come to their end.
    failed: Vec<String>,
}

fn sides(args: &CompareArgs) -> Done<Sides<'_>> {
    if let (Some(old), Some(new)) = (&args.old, &args.new) {
        if !args.bench.is_empty() || args.keep.is_some() {
            return Err(Failure::usage(
                "files are compared as they are: a bench and --keep are for two programs (--build)",
            ));
        }
        let (names, runs) = ([old.as_path(), new.as_path()], [read(old)?, read(new)?]);
        return Ok(Sides { names, runs, failed: Vec::new() });
    }
    let Some([old, new]) = args.build.as_deref() else {
        return Err(Failure::usage("name two files of runs, or two programs with --build"));
    };
    let builds = Builds {
        programs: [old.as_path(), new.as_path()],
        bench: &args.bench,
        rounds: args.rounds,
        turn: args.turn,
        keep: args.keep.as_deref(),
    };
    builds.check()?;
    let (runs, failed) = builds.measure()?;
    Ok(Sides { names: builds.programs, runs, failed })
}

/// The runs that a file holds.
pub(super) fn read(path: &Path) -> Done<Vec<Record>> {
    let records = runs(path, &text(path)?)?;
    if records.is_empty() {
        return Err(Failure::failed(format!("{} holds no run: make it with `biombo bench .. --json`", path.display())));
    }
    Ok(records)
}

/// The text of a file of runs. Whoever was killed while it wrote may have left half a character at the end.
pub(super) fn text(path: &Path) -> Done<String> {
    let mut bytes = fs::read(path).map_err(|e| Failure::input(path.display(), &e))?;
    if let Err(broken) = std::str::from_utf8(&bytes)
        && broken.error_len().is_none()
    {
        bytes.truncate(broken.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|e| Failure::failed(format!("cannot read {}: {e}", path.display())))
}

/// The runs in the text of the file `path`; what of it is left out is said.
pub(super) fn runs(path: &Path, text: &str) -> Done<Vec<Record>> {
    let Kept { records, left_out } =
        parse_kept(text).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    for what in left_out {
        crate::note(format_args!("{}: left out: {what}", path.display()));
    }
    Ok(records)
}
