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

    /// This moment, to be skipped from.
    pub(crate) fn stamp(&self) -> u64 {
        self.clock.raw()
    }

    /// It stood still from one moment to another. Copies of it did not.
    pub(crate) fn skip(&mut self, since: u64, until: u64) {
        self.origin += until.saturating_sub(since);
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
    fn what_is_skipped_is_not_its_time() {
        let (mut clock, hand) = RunClock::by_hand();
        hand.increment(1_000);
        let (copy, stamp) = (clock.clone(), clock.stamp());
        hand.increment(500);
        clock.skip(stamp, copy.stamp());
        clock.skip(copy.stamp(), stamp);
        assert_eq!((clock.now_ns(), copy.now_ns()), (1_000, 1_500));
        hand.increment(3);
        assert_eq!(clock.now_ns(), 1_003);
    }

    #[test]
    fn it_agrees_with_the_clock_of_the_system() {
        // The first one takes its time.
        let first = RunClock::start();
        // Ours is begun, and read, between two readings of the system's, however busy the machine is.
        let (before, clock, after) = (Instant::now(), first.restart(), Instant::now());
        std::thread::sleep(Duration::from_millis(300));
        let (least, ours, most) = (after.elapsed(), clock.now_ns() as f64, before.elapsed());
        let [least, most] = [least, most].map(|time| time.as_nanos() as f64);
        let near = most / 1_000.0;
        assert!(least - near < ours && ours < most + near, "{ours} against {least} to {most}");
    }
}
