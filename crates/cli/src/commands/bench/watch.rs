//! What happens beside a bench: progress for people, each run's JSON line the moment it is done, and Ctrl-C.

use std::fs::{File, OpenOptions};
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

/// A file that is opened before the work, so that one which cannot be written is found out then; `-` is the standard output. What was in it
/// stays until there is something to write.
pub(in crate::commands) struct Output {
    sink: Box<dyn Write + Send>,
    /// The same file, while it has what was in it.
    old: Option<File>,
    path: PathBuf,
}

impl Output {
    pub(in crate::commands) fn create(path: &Path) -> Done<Self> {
        if is_stdout(path) {
            return Ok(Self { sink: Box::new(std::io::stdout()), old: None, path: path.to_owned() });
        }
        let open = || -> std::io::Result<(File, Option<File>)> {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            // A pipe or a device has nothing to be cut.
            let old = if file.metadata()?.is_file() { Some(file.try_clone()?) } else { None };
            Ok((file, old))
        };
        let (file, old) = open().map_err(|e| refused(path, &e))?;
        Ok(Self { sink: Box::new(file), old, path: path.to_owned() })
    }

    /// What is written first takes the place of all that was there.
    pub(in crate::commands) fn write(&mut self, text: &str) -> Done {
        self.finish()?;
        let written = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush());
        written.map_err(|e| refused(&self.path, &e))
    }

    /// The end of work that was done: what was there before goes, whether anything came in its place or not.
    pub(in crate::commands) fn finish(&mut self) -> Done {
        match self.old.take() {
            Some(file) => file.set_len(0).map_err(|e| refused(&self.path, &e)),
            None => Ok(()),
        }
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
    /// Whether a run failed.
    has_failed: bool,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// From here on the signals that end a program end the bench in good order.
    pub(in crate::commands) fn new(json: Option<Output>) -> Done<Self> {
        Ok(Self { progress: biombo_lab::progress::stderr(), json, broken: None, has_failed: false, stop: listen()? })
    }

    /// The end of it: an error where the lines could not be written.
    pub(in crate::commands) fn finish(self) -> Done {
        let is_done = !self.has_failed && !self.stop.load(Ordering::Relaxed);
        match (self.broken, self.json) {
            (Some(failure), _) => Err(failure),
            (None, Some(mut json)) if is_done => json.finish(),
            _ => Ok(()),
        }
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
        self.has_failed |= result.is_err();
        self.progress.end(spec, result);
    }

    /// Runs whose lines go nowhere are not worth their time.
    fn interrupted(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.broken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if lines of before are gone before there are new ones, if some of them stay behind those, or if a device must be cut.
    #[test]
    fn what_was_in_the_file_stays_until_the_first_line_and_goes_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lines");
        let text = || std::fs::read_to_string(&path).expect("it is there");
        drop(Output::create(&path).expect("it can be made"));
        assert_eq!(text(), "", "where none was there is one");
        std::fs::write(&path, "the lines of before\n").expect("written");
        drop(Output::create(&path).expect("it can be opened"));
        assert_eq!(text(), "the lines of before\n");
        let mut output = Output::create(&path).expect("it can be opened");
        assert_eq!(text(), "the lines of before\n");
        output.write("one\n").expect("it is written");
        assert_eq!(text(), "one\n");
        output.write("two\n").and_then(|()| output.finish()).expect("it is written");
        assert_eq!(text(), "one\ntwo\n");
        // Work that was done and gave no line leaves none.
        Output::create(&path).and_then(|mut output| output.finish()).expect("it is cut");
        assert_eq!(text(), "");
        let mut device = Output::create(Path::new("/dev/null")).expect("it can be opened");
        device.write("gone\n").and_then(|()| device.finish()).expect("it takes everything");
    }
}
