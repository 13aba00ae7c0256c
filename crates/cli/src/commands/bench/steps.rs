//! Steps over graphs as they are measured: each one's JSON line the moment it is there, progress for people, and Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biombo_base::Error;
use biombo_lab::graph::{Plan, Record, Step, run};

use super::watch::{Output, listen};
use crate::failure::{Done, Failure};
use crate::progress::Progress;

/// What was measured.
pub(in crate::commands) struct Steps {
    /// All of it, however it ended.
    pub(in crate::commands) records: Vec<Record>,
    lines: Option<Output>,
    stop: Arc<AtomicBool>,
}

impl Steps {
    /// From here on the signals that end a program end the work after the step that is under way.
    pub(in crate::commands) fn new(lines: Option<Output>) -> Done<Self> {
        Ok(Self { records: Vec::new(), lines, stop: listen()? })
    }

    /// Measure one plan after the other.
    ///
    /// # Errors
    /// That of the first plan that cannot be done, or of a line that cannot be written, which ends it; and how much was not done, where
    /// somebody ended it.
    pub(in crate::commands) fn measure(&mut self, plans: &[Plan]) -> Done {
        let mut is_ended = false;
        for plan in plans {
            is_ended = self.measure_one(plan)?;
            if is_ended {
                break;
            }
        }
        let planned: u64 = plans.iter().map(Plan::runs).sum();
        let done = self.records.iter().filter(|record| record.step == Step::Kernel).count() as u64;
        let left = planned.saturating_sub(done);
        if is_ended && left > 0 {
            return Err(Failure::failed(format!("interrupted: {left} of {planned} runs were not done")));
        }
        self.lines.as_mut().map_or(Ok(()), Output::finish)
    }

    /// Whether somebody ended it.
    fn measure_one(&mut self, plan: &Plan) -> Done<bool> {
        let Self { records, lines, stop } = self;
        let mut progress = Progress::of_runs(plan.graph.clone(), plan.runs());
        let (mut done, mut is_ended, mut refused) = (0, false, None);
        let measured = run(plan, &mut |record| {
            records.push(record.clone());
            if let Some(Err(failure)) = lines.as_mut().map(|lines| keep(lines, record)) {
                refused = Some(failure);
                return Err(Error::invalid("what was measured cannot be written"));
            }
            done += u64::from(record.step == Step::Kernel);
            progress.at(done);
            is_ended = stop.load(Ordering::Relaxed);
            if is_ended { Err(Error::invalid("interrupted")) } else { Ok(()) }
        });
        match (refused, measured) {
            (Some(failure), _) => Err(failure),
            (None, Err(error)) if !is_ended => Err(error.into()),
            _ => Ok(is_ended),
        }
    }
}

fn keep(lines: &mut Output, record: &Record) -> Done {
    let line = serde_json::to_string(record).map_err(|e| Failure::output(&e.into()))?;
    lines.write(&format!("{line}\n"))
}
