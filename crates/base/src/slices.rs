//! Background work in short slices.
//!
//! Where every processor has something to do, a kernel lets a thread that was woken run until its share is used up: 4 ms where the clock
//! ticks 250 times a second. Whoever is in the foreground on that processor waits for so long. A thread that sleeps after each short
//! slice gives the processor back there and then, whatever the scheduler thinks of shares, and needs no privilege for it.
//!
//! A thread that gets no processor for long after a rest works for longer after it, half as long: whatever the others do, its work takes
//! some three times as long as without rests, no more. Others may wait for it in the end.
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
    length_ns: u64,
}

impl Slices {
    /// A slice begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self { begun_ns: monotonic_ns(), length_ns: SLICE_NS }
    }

    /// Between two pieces of work, with no lock held: sleep a little if the slice is over, after which the next one begins.
    pub fn rest(&mut self) {
        let now_ns = monotonic_ns();
        if self.is_over(now_ns) {
            std::thread::sleep(REST);
            *self = Self::after_rest(now_ns, monotonic_ns());
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= self.length_ns
    }

    fn after_rest(from_ns: u64, to_ns: u64) -> Self {
        Self { begun_ns: to_ns, length_ns: (to_ns.saturating_sub(from_ns) / 2).max(SLICE_NS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_worked_through_before_there_is_a_rest() {
        let slice = Slices { begun_ns: 1_000, ..Slices::begin() };
        assert!(!slice.is_over(1_000 + SLICE_NS - 1));
        assert!(slice.is_over(1_000 + SLICE_NS));
        assert!(!slice.is_over(0));
    }

    #[test]
    fn who_rests_for_long_works_for_half_as_long_after_it() {
        let after = |rest_ns: u64| Slices::after_rest(7, 7 + rest_ns);
        assert_eq!((after(100_000).length_ns, after(8_000_000).length_ns), (SLICE_NS, 4_000_000));
        assert!(!after(8_000_000).is_over(7 + 11_999_999) && after(8_000_000).is_over(7 + 12_000_000));
    }

    #[test]
    fn who_works_on_and_on_rests_after_each_slice() {
        let mut slices = Slices::begin();
        let begun_ns = monotonic_ns();
        for _ in 0..20 {
            let worked_ns = monotonic_ns();
            while !slices.is_over(monotonic_ns()) {}
            slices.rest();
            let took_ns = monotonic_ns() - worked_ns;
            assert!(took_ns >= REST.as_nanos() as u64, "{took_ns} ns");
        }
        let took_ns = monotonic_ns() - begun_ns;
        assert!(took_ns >= 19 * (SLICE_NS + REST.as_nanos() as u64), "{took_ns} ns");
    }
}
