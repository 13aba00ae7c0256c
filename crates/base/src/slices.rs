//! Background work in short slices.
//!
//! Where every processor has something to do, a kernel lets a thread that was woken run until its share is used up: 4 ms where the clock
//! ticks 250 times a second. Whoever is in the foreground on that processor waits for so long. A thread that sleeps after each short
//! slice gives the processor back there and then, whatever the scheduler thinks of shares, and needs no privilege for it.
//!
//! Who uses this decides when there is no time to rest: work that others are going to wait for goes on.

use std::time::Duration;

use crate::clock::monotonic_ns;

/// How long a slice is: the foreground is held up for so long and one piece of work more.
const SLICE_NS: u64 = 50_000;
/// The rest after it; kernels make some 100 us of it.
const REST: Duration = Duration::from_micros(50);

/// The present slice of a thread.
#[derive(Debug)]
pub struct Slices {
    begun_ns: u64,
}

impl Slices {
    /// A slice begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self { begun_ns: monotonic_ns() }
    }

    /// Between two pieces of work, with no lock held: sleep a little if the slice is over, after which the next one begins.
    pub fn rest(&mut self) {
        if is_over(self.begun_ns, monotonic_ns()) {
            std::thread::sleep(REST);
            *self = Self::begin();
        }
    }
}

fn is_over(begun_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(begun_ns) >= SLICE_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_worked_through_before_there_is_a_rest() {
        assert!(!is_over(1_000, 1_000 + SLICE_NS - 1));
        assert!(is_over(1_000, 1_000 + SLICE_NS));
        assert!(!is_over(1_000, 0));
    }

    #[test]
    fn who_works_on_and_on_rests_after_each_slice() {
        let mut slices = Slices::begin();
        let begun_ns = monotonic_ns();
        for _ in 0..20 {
            let worked_ns = monotonic_ns();
            while !is_over(worked_ns, monotonic_ns()) {}
            slices.rest();
        }
        let took_ns = monotonic_ns() - begun_ns;
        assert!(took_ns >= 20 * (SLICE_NS + REST.as_nanos() as u64), "{took_ns} ns");
    }
}
