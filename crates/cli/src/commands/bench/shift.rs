//! `biombo bench shift`.

use biombo_lab::workload::{Shift, ShiftKind, Task};
use clap::Args;

use super::options::{Defaults, Outputs, RunOptions};
use crate::failure::Done;
use crate::store_args::one_of;

const WORKLOADS: &[&str] =
    &["jump", "rotate", "groups", "crowd", "monotonic", "slot", "partition", "worker", "adversary"];

/// Twenty seconds are four periods.
const DEFAULTS: Defaults =
    Defaults { operations: None, seconds: Some(20.0), threads: 2, value_bytes: 1_000, compression_ratio: 1.0 };

/// Run workloads whose load shifts while they run
#[derive(Debug, Args)]
#[command(after_help = "\
Workloads. A share of the operations (--hot-share) goes to hot records, each of them equally likely; the others to the rest.
Half of the operations read and half replace a value (--reads).
  jump       the hot records lie all over the key space; every period they become others, none of them hot before
  rotate     the hot records are neighbours in the order of keys; every period the range moves on by its own length
  groups     multi-gets and atomic batches of whole groups of --group records, which hashing scatters; every period all records
             are grouped anew; the hot groups hold the hot records
  crowd      all records equally likely; in the second half of every period --hot-share of the operations (0.5) go to one
             record, another one each time
  monotonic  inserts in the order of keys behind the loaded ones; reads (--reads, 0) of the latest records
  slot       the hot records are those of one hash slot, and all operations go to them (--hot-share 1)
  partition  the same with one partition of hash placement, of the most --partitions given (8), as it is before any move
  worker     the same with every second partition: those that one of two workers has before any change (--executor pinned --workers 2);
             with --group N each operation is a multi-get or atomic batch of N of its records that lie in one partition
  adversary  the hot records are 100 of one partition; every period it asks where they are now and turns to records of the
             partition that has the fewest: it reverses whatever a planner did
Hot are a hundredth of the records, or --hot-records of them (of a slot or partition at most so many). What none of the workloads
asks for has no effect, and a note says so.

What an operation is follows from the seed alone, and which record it is for from the seed and the period that it begins in: in an
open loop (--rate), by the schedule. The report marks the shifts in throughput and tail over time. docs/workloads.md has it
all exactly.

Examples:
  biombo bench shift --engine log --workload jump,adversary --partitions 8 --html shift.html
  biombo bench shift --engine log,lmdb --workload groups --partitions 8 --period 15 --seconds 30 --repeat 3
  biombo bench shift --engine log --workload crowd --partitioning none,hard --rate 100000 --period 4 --html crowd.html
  biombo bench shift --engine log --workload rotate --placement range --partitions 8 --hot-records 5000 --json runs.jsonl")]
pub(crate) struct ShiftArgs {
    /// Workloads: jump, rotate, groups, crowd, monotonic, slot, partition, worker, adversary
    #[arg(long = "workload", value_name = "W,W..", value_delimiter = ',', required = true,
        value_parser = one_of::<ShiftKind>(WORKLOADS), hide_possible_values = true)]
    workloads: Vec<ShiftKind>,
    /// Seconds from one shift to the next; 0: it never shifts [default: 5]
    #[arg(long, value_name = "S")]
    period: Option<f64>,
    /// Hot records [default: a hundredth of the records, adversary 100]
    #[arg(long, value_name = "N")]
    hot_records: Option<u64>,
    /// The share of the operations that go to hot records [default: 0.9, crowd 0.5, slot, partition and worker 1]
    #[arg(long, value_name = "F")]
    hot_share: Option<f64>,
    /// Records of a group; worker has groups where it is above 1 [default: groups 10, worker 1]
    #[arg(long, value_name = "N")]
    group: Option<u32>,
    /// The share of the operations that read [default: 0.5, monotonic 0]
    #[arg(long, value_name = "F")]
    reads: Option<f64>,
    #[command(flatten)]
    run: RunOptions,
}

impl ShiftArgs {
    /// What is said and none of the workloads asks for, each in words: a script may say it in all of its benches.
    fn unused(&self) -> Vec<String> {
        type Asked = (&'static str, bool, fn(ShiftKind) -> bool);
        let all: [Asked; 4] = [
            // Never, as 0 says, is what the others do.
            ("--period", self.period.is_some_and(|seconds| seconds != 0.0), ShiftKind::has_periods),
            ("--group", self.group.is_some(), ShiftKind::has_groups),
            ("--hot-records", self.hot_records.is_some(), ShiftKind::has_hot_records),
            ("--hot-share", self.hot_share.is_some(), ShiftKind::has_hot_share),
        ];
        let unused = all.into_iter().filter(|(_, given, has)| *given && !self.workloads.iter().any(|kind| has(*kind)));
        let note = |(name, _, has): Asked| {
            let of: Vec<&str> = ShiftKind::ALL.into_iter().filter(|kind| has(*kind)).map(ShiftKind::name).collect();
            format!("{name} has no effect here: it is for {}", of.join(", "))
        };
        unused.map(note).collect()
    }
}

pub(super) fn run(args: ShiftArgs) -> Done {
    let mut unused = args.unused();
    let ShiftArgs { workloads, period, hot_records, hot_share, group, reads, run } = args;
    let partitions = run.partitions_max();
    let task = |kind: ShiftKind| {
        let usual = Shift::from(kind);
        let shift = Shift {
            period_seconds: period.unwrap_or(usual.period_seconds),
            hot_records,
            share: hot_share.unwrap_or(usual.share),
            group: group.unwrap_or(usual.group),
            reads: reads.unwrap_or(usual.reads),
            partitions,
            ..usual
        };
        Task::from(shift)
    };
    let tasks = workloads.into_iter().map(task).collect();
    let outputs = Outputs::of(&run);
    let (plan, more) = run.plan(tasks, &DEFAULTS)?;
    unused.extend(more);
    super::measure(outputs, plan, &unused)
}
