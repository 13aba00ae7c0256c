//! What happens beside a bench: progress for people, each run's JSON line the moment it is done, and Ctrl-C.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo::Error;
use biombo_lab::bench::Observer;
use biombo_lab::record::{Record, to_lines};
use biombo_lab::spec::RunSpec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Done, Failure};
use crate::out::is_stdout;

/// A file that is created before the work, so that one which cannot be written is found out then; `-` is the standard output.
pub(in crate::commands) struct Output {
    sink: Box<dyn Write + Send>,
    path: PathBuf,
}

impl Output {
    pub(in crate::commands) fn create(path: &Path) -> Done<Self> {
        let sink: Box<dyn Write + Send> = match is_stdout(path) {
            true => Box::new(std::io::stdout()),
            false => Box::new(File::create(path).map_err(|e| refused(path, &e))?),
        };
        Ok(Self { sink, path: path.to_owned() })
    }

    pub(in crate::commands) fn write(&mut self, text: &str) -> Done {
        let written = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush());
        written.map_err(|e| refused(&self.path, &e))
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    match is_stdout(path) {
        true => Failure::output(error),
        false => Failure::failed(format!("cannot write {}: {error}", path.display())),
    }
}

/// What is set by the first of the signals that end a program, so that the work ends in good order; the second one ends the program at once.
pub(super) fn listen() -> Done<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    }
    Ok(stop)
}

/// Watches a bench.
pub(in crate::commands) struct Watch {
    progress: Box<dyn Observer>,
    json: Option<Output>,
    broken: Option<Failure>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// From here on the signals that end a program end the bench in good order.
    pub(in crate::commands) fn new(json: Option<Output>) -> Done<Self> {
        Ok(Self { progress: biombo_lab::progress::stderr(), json, broken: None, stop: listen()? })
    }

    /// The end of it: an error where the lines could not be written.
    pub(in crate::commands) fn finish(self) -> Done {
        self.broken.map_or(Ok(()), Err)
    }
}

impl Observer for Watch {
    fn plan(&mut self, runs: &[RunSpec]) {
        self.progress.plan(runs);
    }

    fn begin(&mut self, index: usize, spec: &RunSpec) {
        self.progress.begin(index, spec);
    }

    fn phase(&mut self, phase: &str, operations: Option<u64>, seconds: Option<f64>) {
        self.progress.phase(phase, operations, seconds);
    }

    fn progress(&mut self, done: u64) {
        self.progress.progress(done);
    }

    fn end(&mut self, spec: &RunSpec, result: Result<&Record, &Error>) {
        if let (Ok(record), Some(json)) = (result, &mut self.json) {
            self.broken = json.write(&to_lines([record])).err();
        }
        self.progress.end(spec, result);
    }

    /// Runs whose lines go nowhere are not worth their time.
    fn interrupted(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.broken.is_some()
    }
}
