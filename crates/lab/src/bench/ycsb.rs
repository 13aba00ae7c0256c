//! `bench ycsb`: every run of a plan, each in its own process.

use biombo_base::{Error, Result};
use biombo_engine::Registry;

use super::plan::impossible;
use super::{Observer, Plan};
use crate::measure::disk;
use crate::process::{Event, RunDir, WorkerCommand, launch, rundir};
use crate::record::Record;
use crate::spec::RunSpec;

/// What came out of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One for each run that was done, in order.
    pub records: Vec<Record>,
    /// The runs that were not, and why.
    pub failures: Vec<(RunSpec, Error)>,
}

/// Do every run of `plan`, each in a process started by `worker`. A run that fails (or whose process crashes) is noted, and
/// the others go on; a plan that cannot be run at all is an error before anything is started.
pub fn run(plan: &Plan, registry: &Registry, worker: &WorkerCommand, observer: &mut dyn Observer) -> Result<Outcome> {
    plan.check(registry)?;
    let base = plan.base_dir();
    rundir::sweep(&base);
    let runs = plan.runs();
    let mut outcome = Outcome::default();
    observer.plan(&runs);
    for (index, mut spec) in runs.into_iter().enumerate() {
        observer.begin(index, &spec);
        match one(registry, worker, &base, &mut spec, observer) {
            Ok(record) => {
                observer.end(&spec, Ok(&record));
                outcome.records.push(record);
            }
            Err(error) => {
                observer.end(&spec, Err(&error));
                outcome.failures.push((spec, error));
            }
        }
    }
    Ok(outcome)
}

fn one(
    registry: &Registry,
    worker: &WorkerCommand,
    base: &std::path::Path,
    spec: &mut RunSpec,
    observer: &mut dyn Observer,
) -> Result<Record> {
    if let Some(error) = impossible(registry, spec) {
        return Err(error);
    }
    let dir = RunDir::create(base)?;
    if (registry.get(&spec.engine)?.capabilities)().persistent {
        disk::check_free(dir.path(), spec.disk_bytes_needed())?;
    }
    spec.dir = dir.path().to_owned();
    launch(worker, spec, |event| match event {
        Event::Phase { phase, operations, seconds } => observer.phase(phase, *operations, *seconds),
        Event::Progress { done } => observer.progress(*done),
        Event::Result { .. } | Event::Error { .. } => {}
    })
}
