//! Every run of a plan, each in its own process.

use std::path::Path;

use biombo_base::{Error, Result};
use biombo_engine::Registry;

use super::plan::impossible;
use super::{Observer, Plan, is_over};
use crate::driver::SLOWED;
use crate::measure::disk;
use crate::process::{RunDir, WorkerCommand, launch, rundir};
use crate::record::Record;
use crate::spec::RunSpec;
use crate::turns::{RUN, Seat};

/// What came out of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One for each run that was done, in order.
    pub records: Vec<Record>,
    /// The runs that were not, and why.
    pub failures: Vec<(RunSpec, Error)>,
    /// The runs that were not begun or not ended because the observer interrupted them.
    pub interrupted: usize,
}

/// Do every run of `plan`, each in a process started by `worker`. A run that fails (or whose process crashes or hangs) is
/// noted, and the others go on; a plan that cannot be run at all is an error before anything is started. When the observer
/// says so, the present run is given up and no other is begun.
pub fn run(plan: &Plan, registry: &Registry, worker: &WorkerCommand, observer: &mut dyn Observer) -> Result<Outcome> {
    plan.check(registry)?;
    let base = plan.base_dir();
    plan.more_dirs.iter().chain([&base]).for_each(|base| rundir::sweep(base));
    let runs = plan.runs();
    let count = runs.len();
    let mut outcome = Outcome::default();
    observer.plan(&runs);
    for (index, mut spec) in runs.into_iter().enumerate() {
        observer.begin(index, &spec);
        let mut worker = worker.clone();
        worker.env.extend(Seat::taken().map(|_| (RUN.to_owned(), index.to_string())));
        let result = one(registry, &worker, &base, &mut spec, observer);
        if result.is_err() && is_over(observer) {
            outcome.interrupted = count - index;
            break;
        }
        observer.end(&spec, result.as_ref());
        match result {
            Ok(record) => outcome.records.push(record),
            Err(error) => outcome.failures.push((spec, error)),
        }
        if is_over(observer) {
            outcome.interrupted = count - index - 1;
            break;
        }
    }
    Ok(outcome)
}

/// One run; `spec` gets the directory that it was done in.
pub(crate) fn one(
    registry: &Registry,
    worker: &WorkerCommand,
    base: &Path,
    spec: &mut RunSpec,
    observer: &mut dyn Observer,
) -> Result<Record> {
    if let Some(error) = impossible(registry, spec) {
        return Err(error);
    }
    let dir = RunDir::create(base)?;
    let others = spec.dirs.iter().map(|base| RunDir::create(base)).collect::<Result<Vec<_>>>()?;
    if (registry.get(&spec.engine)?.capabilities)().persistent {
        let dirs: Vec<&Path> = [&dir].into_iter().chain(&others).map(|dir| dir.path()).collect();
        // A run of the build that this one takes turns with is there at the same time.
        let runs = 1 + u64::from(Seat::taken().is_some());
        disk::check_all_free(&dirs, spec.instances(), spec.disk_bytes_needed().saturating_mul(runs))?;
    }
    spec.dir = dir.path().to_owned();
    spec.dirs = others.iter().map(|other| other.path().to_owned()).collect();
    disk::link(&spec.dir, &spec.dirs)?;
    let mut record = launch(worker, spec, observer)?;
    // Nobody shall take it for what the engine does.
    record.engine_options.extend(std::env::var(SLOWED).map(|share| (SLOWED.to_owned(), share)));
    Ok(record)
}
