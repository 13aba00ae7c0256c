//! Progress of a bench on standard error: bars on a terminal, plain lines at a low rate elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use biombo_base::Error;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::bench::Observer;
use crate::record::Record;
use crate::spec::RunSpec;
use crate::units::{count, duration_ns};

/// Bars when standard error is a terminal, else plain lines.
pub fn stderr() -> Box<dyn Observer> {
    if std::io::stderr().is_terminal() { Box::new(Bars::new()) } else { Box::new(Lines::new(std::io::stderr())) }
}

/// One line for the whole bench, one for the phase of the present run.
struct Bars {
    all: MultiProgress,
    runs: ProgressBar,
    phase: ProgressBar,
    label: String,
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let style = |template: &str| {
            ProgressStyle::with_template(template)
                .expect("invariant: the template is constant")
                .progress_chars("█▉▊▋▌▍▎▏ ")
        };
        let runs = all.add(ProgressBar::new(0).with_style(style("{bar:24} {pos}/{len} runs  {elapsed} (eta {eta})")));
        let phase = all.add(ProgressBar::new(0).with_style(style("{bar:24} {percent:>3} %  {msg}")));
        Self { all, runs, phase, label: String::new() }
    }
}

impl Observer for Bars {
    fn plan(&mut self, runs: &[RunSpec]) {
        // Another plan may follow one that came to its end.
        if self.runs.is_finished() {
            self.runs.reset();
        }
        self.runs.set_length(runs.len() as u64);
    }

    fn begin(&mut self, index: usize, spec: &RunSpec) {
        self.runs.set_position(index as u64);
        self.label = spec.label();
        self.phase.set_message(self.label.clone());
        self.runs.tick();
    }

    fn phase(&mut self, phase: &str, operations: Option<u64>, _seconds: Option<f64>) {
        self.phase.reset();
        self.phase.set_length(operations.unwrap_or(0));
        self.phase.set_message(format!("{}: {phase}", self.label));
    }

    fn progress(&mut self, done: u64) {
        // A phase by seconds has no known length: its operations are told as they come.
        if self.phase.length() == Some(0) {
            self.phase.set_message(format!("{}: {} operations", self.label, count(done as f64)));
        }
        self.phase.set_position(done);
        self.runs.tick();
    }

    fn end(&mut self, spec: &RunSpec, result: Result<&Record, &Error>) {
        let line = ending(spec, result);
        self.all.suspend(|| eprintln!("{line}"));
        self.runs.inc(1);
        if self.runs.position() >= self.runs.length().unwrap_or(0) {
            self.phase.finish_and_clear();
            self.runs.finish_and_clear();
        }
    }
}

/// A line at the end of each run, and one in between for those that take long.
struct Lines<W> {
    output: W,
    runs: usize,
    index: usize,
    label: String,
    phase: String,
    operations: Option<u64>,
    spoke: Instant,
}

const LINE_EVERY: Duration = Duration::from_secs(10);

impl<W: Write> Lines<W> {
    fn new(output: W) -> Self {
        Self {
            output,
            runs: 0,
            index: 0,
            label: String::new(),
            phase: String::new(),
            operations: None,
            spoke: Instant::now(),
        }
    }

    fn say(&mut self, line: &str) {
        // Progress that nobody can read is no reason to end a bench.
        let _ = writeln!(self.output, "[{}/{}] {line}", self.index + 1, self.runs);
        self.spoke = Instant::now();
    }
}

impl<W: Write> Observer for Lines<W> {
    fn plan(&mut self, runs: &[RunSpec]) {
        self.runs = runs.len();
    }

    fn begin(&mut self, index: usize, spec: &RunSpec) {
        self.index = index;
        self.label = spec.label();
        self.spoke = Instant::now();
    }

    fn phase(&mut self, phase: &str, operations: Option<u64>, _seconds: Option<f64>) {
        phase.clone_into(&mut self.phase);
        self.operations = operations;
    }

    fn progress(&mut self, done: u64) {
        if self.spoke.elapsed() >= LINE_EVERY {
            let of = self.operations.map_or(String::new(), |all| format!(" of {}", count(all as f64)));
            let line = format!("{}: {} {}{of} operations", self.label, self.phase, count(done as f64));
            self.say(&line);
        }
    }

    fn end(&mut self, spec: &RunSpec, result: Result<&Record, &Error>) {
        let line = ending(spec, result);
        self.say(&line);
    }
}

fn ending(spec: &RunSpec, result: Result<&Record, &Error>) -> String {
    match result {
        Ok(record) => {
            let slowest = record.latency_ns.values().map(|l| l.p99).max().unwrap_or(0);
            let errors = if record.errors > 0 { format!(", {} errors", record.errors) } else { String::new() };
            format!("{}: {} ops/s, p99 {}{errors}", spec.label(), count(record.ops_per_s), duration_ns(slowest as f64))
        }
        // The message begins with the run's label already, or says what was wrong before it began.
        Err(error) => format!("FAILED {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Plan;
    use crate::record::tests::record;

    #[test]
    fn plain_lines_say_each_run_once_and_not_more() {
        let plan = Plan { engines: vec!["lmdb".into()], ..Plan::default() };
        let runs = plan.runs();
        let mut lines = Lines::new(Vec::new());
        lines.plan(&runs);
        lines.begin(0, &runs[0]);
        lines.phase("run", Some(1_000), None);
        for done in 0..100 {
            lines.progress(done);
        }
        lines.end(&runs[0], Ok(&record("lmdb", "none", 1, 2_000.0)));
        lines.end(&runs[0], Err(&Error::invalid("no such thing")));
        let text = String::from_utf8(lines.output).unwrap();
        assert_eq!(
            text,
            "[1/1] a lmdb, 16 + 1000 bytes, 2 threads, repetition 1: 2.00 k ops/s, p99 1.40 µs\n[1/1] FAILED no such thing\n"
        );
    }
}
