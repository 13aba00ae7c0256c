//! A progress bar on standard error, for a person who waits: only at a terminal, only after two seconds.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a command may take before it shows how far it is.
const QUIET: Duration = Duration::from_secs(2);

/// A bar that appears when the work turns out to take its time. Dropping it clears the line.
pub(crate) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    shown: bool,
}

impl Progress {
    /// For work of `total_bytes`, where known.
    pub(crate) fn of_bytes(what: &'static str, total_bytes: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::hidden());
        let template = match total_bytes {
            Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
            None => "{msg} {spinner} {bytes}, {bytes_per_sec}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("invariant: the template is well formed"));
        bar.set_message(what);
        Self { bar, begin: Instant::now(), shown: false }
    }

    /// For so many runs, each of which may take its time.
    pub(crate) fn of_runs(what: String, runs: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {pos} of {len} runs, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("invariant: the template is well formed"));
        bar.set_message(what);
        Self { bar, begin: Instant::now(), shown: false }
    }

    /// How many bytes, or runs, are done.
    pub(crate) fn at(&mut self, done: u64) {
        if !self.shown && self.begin.elapsed() >= QUIET {
            self.shown = true;
            // Nothing is drawn where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            self.bar.reset_eta();
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
