//! `biombo bench`: the laboratory from the command line.

mod builds;
mod compare;
mod db;
mod graph;
mod graph_table;
mod one_bench;
pub(super) mod options;
pub(super) mod page;
mod shift;
mod show;
pub(super) mod steps;
mod trace;
pub(super) mod watch;
pub(super) mod ycsb;

use biombo_lab::bench::{Outcome, Plan};
use biombo_lab::driver::SLOWED;
use biombo_lab::process::{WorkerCommand, worker};
use biombo_lab::units::plural;
use clap::Subcommand;

use self::compare::CompareArgs;
use self::db::DbArgs;
use self::graph::GraphArgs;
use self::options::Outputs;
use self::page::{Page, print_path, write_then_print};
use self::shift::ShiftArgs;
use self::show::ShowArgs;
use self::trace::TraceArgs;
use self::watch::{Output, Watch};
use self::ycsb::YcsbArgs;
use crate::failure::{Done, Failure};
use crate::out::is_stdout;

/// Measure engines and layouts under a workload
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Ycsb(YcsbArgs),
    Db(DbArgs),
    Shift(ShiftArgs),
    Trace(TraceArgs),
    Graph(GraphArgs),
    Compare(CompareArgs),
    Show(ShowArgs),
}

/// Run it.
pub(crate) fn bench(command: BenchCommand) -> Done {
    biombo_lab::turns::take_seat()?;
    match command {
        BenchCommand::Ycsb(args) => ycsb::run(args),
        BenchCommand::Db(args) => db::run(args),
        BenchCommand::Shift(args) => shift::run(args),
        BenchCommand::Trace(args) => trace::run(args),
        BenchCommand::Graph(args) => graph::run(&args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::Show(args) => show::run(&args),
    }
}

/// A run in a process of its own, started by another `biombo`: its description comes on standard input.
pub(crate) fn bench_worker() -> Done {
    worker::main(&registry(), std::io::stdin().lock(), std::io::stdout()).map_err(Failure::from)
}

/// The engines that can be measured: those of this build, and the null engine that shows what the driver itself costs.
pub(super) fn registry() -> biombo::Registry {
    let mut registry = biombo::registry();
    registry.add(biombo_lab::null::kind());
    registry
}

/// Do every run; write its line after each, and a table and a report of all at the end. Options in `unused` have no effect, which is noted
/// where there is no other complaint.
fn measure(outputs: Outputs, plan: Plan, unused: &[String]) -> Done {
    outputs.check(&[], "")?;
    let Outputs { json, html } = outputs;
    let registry = registry();
    plan.check(&registry).map_err(|e| Failure::usage(e.to_string()))?;
    if let Ok(share) = std::env::var(SLOWED) {
        crate::note(format_args!("{SLOWED}={share}: every client is slowed by that share, to try a comparison with"));
    }
    // The lines are what is printed then, and no table.
    let prints_lines = json.as_deref().is_some_and(is_stdout);
    let html = html.as_deref().map(Page::create).transpose()?;
    let json = json.as_deref().map(Output::create).transpose()?;
    for why in unused {
        crate::note(format_args!("note: {why}"));
    }
    let mut watch = Watch::new(json)?;
    let outcome = biombo_lab::bench::run(&plan, &registry, &WorkerCommand::this_program()?, &mut watch)?;
    // What was measured is shown, whatever became of the file.
    let kept = watch.finish();
    let html = html.filter(|_| !outcome.records.is_empty());
    let (written, printed) = write_then_print(
        html,
        || biombo_lab::report::html(&outcome),
        |out, report| {
            if prints_lines || outcome.records.is_empty() {
                return Ok(());
            }
            let tables = biombo_lab::summary::tables(&outcome.records);
            biombo_lab::table::print(&tables, out).map_err(|e| Failure::output(&e))?;
            print_path(out, report)
        },
    );
    kept?;
    written?;
    ended(&outcome)?;
    printed
}

/// How a bench ended: an error with the first cause where a run failed or was not done, or where operations failed or gave wrong answers.
/// Everything is printed and written by then.
pub(super) fn ended(outcome: &Outcome) -> Done {
    let runs = outcome.records.len() + outcome.failures.len() + outcome.interrupted;
    if outcome.interrupted > 0 {
        return Err(Failure::failed(format!("interrupted: {} of {runs} runs were not done", outcome.interrupted)));
    }
    if let Some((_, error)) = outcome.failures.first() {
        return Err(Failure::failed(format!("{} of {runs} runs failed: {error}", outcome.failures.len())));
    }
    let wrong: Vec<_> = outcome.records.iter().filter(|record| record.errors > 0).collect();
    let Some(first) = wrong.first() else { return Ok(()) };
    let errors = wrong.iter().map(|record| record.errors).sum();
    Err(Failure::failed(format!(
        "{} in {} of {runs} runs failed or gave a wrong answer; the first run is {} {}: {}",
        plural(errors, "operation"),
        wrong.len(),
        first.workload,
        first.label(),
        first.first_error.as_deref().unwrap_or("it does not say what failed"),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of a file that a bench wrote, of which some have errors.
    fn outcome(errors: [u64; 3]) -> Outcome {
        let line = include_str!("../../../../../docs/record.jsonl").lines().next().expect("a run");
        let run = |errors| {
            let mut record = biombo_lab::record::parse_lines(line).expect("a record").remove(0);
            (record.errors, record.first_error) = (errors, (errors > 0).then(|| "read of record 3".to_owned()));
            record
        };
        Outcome { records: errors.map(run).into(), failures: Vec::new(), interrupted: 0 }
    }

    #[test]
    fn wrong_answers_are_a_failure_that_says_how_many_and_the_first() {
        assert!(ended(&outcome([0; 3])).is_ok());
        let failure = ended(&outcome([0, 5, 2])).expect_err("seven wrong answers");
        let said = failure.to_string();
        assert!(said.contains("7 operations in 2 of 3 runs") && said.contains("read of record 3"), "{said}");
        assert_eq!(failure.status(), 1);
    }
}
