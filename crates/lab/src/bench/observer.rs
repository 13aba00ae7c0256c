//! Who watches a bench.

use biombo_base::Error;

use crate::record::Record;
use crate::spec::RunSpec;
use crate::turns::Seat;

/// Hears how a bench goes. Every method has an empty default.
pub trait Observer {
    /// These runs will be done, in this order.
    fn plan(&mut self, _runs: &[RunSpec]) {}
    /// Run `index` begins.
    fn begin(&mut self, _index: usize, _spec: &RunSpec) {}
    /// It enters a phase: `open`, `load`, `settle`, `run` or `close`, with its operations or seconds where they are known.
    fn phase(&mut self, _phase: &str, _operations: Option<u64>, _seconds: Option<f64>) {}
    /// Operations finished in the phase.
    fn progress(&mut self, _done: u64) {}
    /// It ended.
    fn end(&mut self, _spec: &RunSpec, _result: Result<&Record, &Error>) {}
    /// Whether the bench should be given up. Asked often: a run under way is killed.
    fn interrupted(&mut self) -> bool {
        false
    }
}

/// Whether nobody wants what is left of a bench: its observer does not, or the comparison that it is part of is gone.
pub(crate) fn is_over(observer: &mut dyn Observer) -> bool {
    observer.interrupted() || Seat::taken().is_some_and(Seat::is_left)
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
