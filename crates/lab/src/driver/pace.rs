//! When an operation should begin: at once (closed loop), or at its place in a schedule (open loop).
//!
//! In an open loop latency counts from the intended beginning, so that the operations which had to wait behind a slow one
//! show it: no coordinated omission (Tene, "How NOT to Measure Latency").

use std::time::Duration;

use super::clock::RunClock;

/// The schedule of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Closed,
    Open { interval_ns: f64, offset_ns: f64, issued: u64 },
}

/// Sleeping shorter than this is left to yielding: a timer's wake-up is that late.
const SLEEP_SLACK_NS: u64 = 150_000;

impl Pace {
    /// For `thread` of `threads` that share `rate` operations per second, evenly staggered.
    pub(crate) fn new(rate: Option<f64>, thread: u32, threads: u32) -> Self {
        match rate {
            None => Self::Closed,
            Some(rate) => Self::Open {
                interval_ns: f64::from(threads) / rate * 1e9,
                offset_ns: f64::from(thread) / rate * 1e9,
                issued: 0,
            },
        }
    }

    /// When the next operation should begin, in nanoseconds since the run began, where the one before ended at `ended_ns`: what a
    /// workload that changes with time goes by. In an open loop it is the schedule's time however late the clients are.
    #[inline]
    pub(crate) fn next_ns(&self, ended_ns: u64) -> u64 {
        match self {
            Self::Closed => ended_ns,
            Self::Open { interval_ns, offset_ns, issued } => (*offset_ns + *issued as f64 * *interval_ns) as u64,
        }
    }

    /// Wait for the next beginning and return it, in nanoseconds since the run began.
    #[inline]
    pub(crate) fn begin(&mut self, clock: &RunClock) -> u64 {
        let intended_ns = self.next_ns(0);
        match self {
            Self::Closed => clock.now_ns(),
            Self::Open { issued, .. } => {
                *issued += 1;
                wait_until(clock, intended_ns);
                intended_ns
            }
        }
    }

    /// Whether an open loop wants nothing more before `deadline_ns`. A closed one has its next operation at once.
    pub(crate) fn is_over(&self, deadline_ns: u64) -> bool {
        matches!(self, Self::Open { .. }) && self.next_ns(0) >= deadline_ns
    }
}

/// Wait until so long after the run began.
#[inline]
pub(crate) fn wait_until(clock: &RunClock, at_ns: u64) {
    loop {
        let wait_ns = at_ns.saturating_sub(clock.now_ns());
        if wait_ns == 0 {
            return;
        }
        if wait_ns > SLEEP_SLACK_NS {
            std::thread::sleep(Duration::from_nanos(wait_ns - SLEEP_SLACK_NS));
        } else {
            std::thread::yield_now();
        }
    }
}
