//! Who watches the trials of an advice: what a bench has too, and each trial as a JSON line.

use std::path::{Path, PathBuf};
use std::time::Instant;

use biombo::Error;
use biombo_lab::advise::failure;
use biombo_lab::bench::Observer;
use biombo_lab::record::Record;
use biombo_lab::spec::RunSpec;
use serde::Serialize;

use crate::commands::bench::watch::{Output, Watch};
use crate::failure::{Done, Failure};

/// A trial that came to its end: the record of a bench, and what is said of it here.
#[derive(Serialize)]
struct Ended<'a> {
    part: &'a str,
    trial_seconds: f64,
    /// Why it does not count: wrong answers are fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(flatten)]
    record: &'a Record,
}

/// A trial that failed: what it was to be, and why it is not.
#[derive(Serialize)]
struct Failed<'a> {
    part: &'a str,
    trial_seconds: f64,
    failed: String,
    #[serde(flatten)]
    spec: RunSpec,
}

/// Watches trials.
pub(super) struct Trials {
    watch: Watch,
    output: Option<Output>,
    broken: Option<Failure>,
    /// Of what they are a part: `race` or `exhaustive`.
    pub(super) part: &'static str,
    begun: Instant,
}

impl Trials {
    /// With a line for each in `file`, if one is named; one that is there is written over, as by a bench.
    pub(super) fn new(file: Option<&Path>) -> Done<Self> {
        let output = file.map(Output::create).transpose()?;
        Ok(Self { watch: Watch::new(None)?, output, broken: None, part: "race", begun: Instant::now() })
    }

    /// The end of it: an error where the lines could not be written.
    pub(super) fn finish(self) -> Done {
        self.broken.map_or(Ok(()), Err).and_then(|()| self.watch.finish())
    }

    fn line(&self, spec: &RunSpec, result: Result<&Record, &Error>) -> serde_json::Result<String> {
        let (part, trial_seconds) = (self.part, self.begun.elapsed().as_secs_f64());
        match result {
            Ok(record) => serde_json::to_string(&Ended { part, trial_seconds, failed: failure(record), record }),
            Err(error) => {
                // Its directory is gone.
                let spec = RunSpec { dir: PathBuf::new(), ..spec.clone() };
                serde_json::to_string(&Failed { part, trial_seconds, failed: error.to_string(), spec })
            }
        }
    }
}

impl Observer for Trials {
    fn plan(&mut self, runs: &[RunSpec]) {
        self.watch.plan(runs);
    }

    fn begin(&mut self, index: usize, spec: &RunSpec) {
        self.begun = Instant::now();
        self.watch.begin(index, spec);
    }

    fn phase(&mut self, phase: &str, operations: Option<u64>, seconds: Option<f64>) {
        self.watch.phase(phase, operations, seconds);
    }

    fn progress(&mut self, done: u64) {
        self.watch.progress(done);
    }

    fn end(&mut self, spec: &RunSpec, result: Result<&Record, &Error>) {
        if self.output.is_some() {
            let line = self.line(spec, result);
            let line = line.map_err(|e| Failure::failed(format!("cannot tell of a trial as JSON: {e}")));
            let written = line.and_then(|line| match &mut self.output {
                Some(output) => output.write(&format!("{line}\n")),
                None => Ok(()),
            });
            self.broken = written.err();
        }
        self.watch.end(spec, result);
    }

    /// Trials whose lines go nowhere are not worth their time.
    fn interrupted(&mut self) -> bool {
        self.broken.is_some() || self.watch.interrupted()
    }
}
