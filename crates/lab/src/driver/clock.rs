//! The clock of a run.
//!
//! Two readings an operation are most of what the driver itself costs: a call of the system's clock takes some 45 ns on a
//! virtual machine, the processor's counter a fifth of that. `quanta` reads the counter where the processor says that it is
//! steady, calibrated against the system's clock, and falls back to that clock elsewhere.

use quanta::Clock;

/// Nanoseconds since a run began, the same for all its threads.
#[derive(Clone)]
pub(crate) struct RunClock {
    clock: Clock,
    origin: u64,
}

impl RunClock {
    /// The run begins. The first call in a process takes a fifth of a second, for calibration.
    pub(crate) fn start() -> Self {
        let clock = Clock::new();
        let origin = clock.raw();
        Self { clock, origin }
    }

    /// The same clock, for a run that begins now.
    pub(crate) fn restart(&self) -> Self {
        Self { clock: self.clock.clone(), origin: self.clock.raw() }
    }

    /// A clock that stands still but for what a test adds.
    #[cfg(test)]
    pub(crate) fn by_hand() -> (Self, std::sync::Arc<quanta::Mock>) {
        let (clock, hand) = Clock::mock();
        let origin = clock.raw();
        (Self { clock, origin }, hand)
    }

    /// Nanoseconds since it began.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.delta_as_nanos(self.origin, self.clock.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_agrees_with_the_clock_of_the_system() {
        let (clock, system) = (RunClock::start(), Instant::now());
        std::thread::sleep(Duration::from_millis(300));
        let (ours, theirs) = (clock.now_ns() as f64, system.elapsed().as_nanos() as f64);
        // A thousandth, and what a busy machine may put between the two readings.
        assert!((ours - theirs).abs() < theirs / 1_000.0 + 3e6, "{ours} against {theirs}");
    }
}
