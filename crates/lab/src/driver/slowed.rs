//! A build that is slower on purpose: what a comparison that is to catch a loss is tried with.
//!
//! `BIOMBO_LAB_SLOWED=0.05` takes a twentieth of every client's throughput, by busy work of the client after each operation: in a closed
//! loop for as long as the operation and the driver's own work before it took, times 0.05 / 0.95. The work counts as the operation's, so
//! latencies grow too. Runs that are slowed so have it among their options.

use biombo_base::{Error, Result};

use super::clock::RunClock;

/// The variable that asks for it: a share of throughput, from 0 to below 1.
pub const SLOWED: &str = "BIOMBO_LAB_SLOWED";

/// By how much a client is slowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowed {
    /// What each nanosecond owes, in parts of one.
    owes: u64,
    /// The parts of nanoseconds that it has yet to be slowed by; below 0: that it was slowed by too much.
    owed: i64,
}

/// Parts of a nanosecond, so that a client that is slowed by a twentieth is not slowed by arithmetic, too.
const PARTS: u64 = 1 << 16;
/// Less than this is owed until there is more of it: no work is shorter than a look at the clock, which would be a tenth of a quick operation.
const LEAST: i64 = 1_000 * PARTS as i64;

impl Slowed {
    /// What the environment asks for; `None`: nothing.
    ///
    /// # Errors
    /// `Invalid` for what is no share.
    pub(super) fn asked() -> Result<Option<Self>> {
        std::env::var(SLOWED).map_or(Ok(None), |text| Self::of(&text).map(Some))
    }

    fn of(text: &str) -> Result<Self> {
        let share = text.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share));
        let refused = || Error::invalid(format!("{SLOWED}={text} is no share from 0 to below 1, such as 0.05"));
        let share = share.ok_or_else(refused)?;
        Ok(Self { owes: (share / (1.0 - share) * PARTS as f64) as u64, owed: 0 })
    }

    /// Work until what began at `from_ns`, and all before it, has taken as long as it should, to within a microsecond; say when that is.
    #[inline]
    pub(super) fn end_ns(&mut self, clock: &RunClock, from_ns: u64) -> u64 {
        let ended_ns = clock.now_ns();
        self.owed = self.owed.saturating_add_unsigned(ended_ns.saturating_sub(from_ns).saturating_mul(self.owes));
        if self.owed < LEAST { ended_ns } else { self.work_off(clock, ended_ns) }
    }

    #[cold]
    fn work_off(&mut self, clock: &RunClock, from_ns: u64) -> u64 {
        let (mut now_ns, until_ns) = (from_ns, from_ns + self.owed as u64 / PARTS);
        while now_ns < until_ns {
            std::hint::spin_loop();
            now_ns = clock.now_ns();
        }
        self.owed = self.owed.saturating_sub_unsigned((now_ns - from_ns).saturating_mul(PARTS));
        now_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_half_of_the_throughput_doubles_the_time() {
        let (clock, begun) = (RunClock::start(), Instant::now());
        // On a busy machine others may have the processor at the end.
        loop {
            let from_ns = clock.now_ns();
            std::thread::sleep(Duration::from_millis(20));
            let slept_ns = clock.now_ns() - from_ns;
            let took_ns = Slowed::of("0.5").unwrap().end_ns(&clock, from_ns) - from_ns;
            assert!(took_ns >= 2 * slept_ns, "{took_ns} for {slept_ns}");
            if took_ns < 4 * slept_ns {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{took_ns} for {slept_ns}");
        }
        assert!(Slowed::of("0").unwrap().end_ns(&clock, clock.now_ns()) <= clock.now_ns());
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "1", "-0.1", "five", "nan", "5%"] {
            let said = Slowed::of(text).unwrap_err().to_string();
            assert!(said.contains(SLOWED) && said.contains("0.05"), "{said}");
        }
        assert_eq!(Slowed::of("0.05").unwrap(), Slowed { owes: 3_449, owed: 0 });
    }

    /// Fails if what is too short to be slowed is not, or if each is slowed by a look at the clock more.
    #[test]
    fn short_operations_are_slowed_together_by_as_much_as_they_took() {
        let (clock, begun) = (RunClock::start(), Instant::now());
        loop {
            let mut slowed = Slowed::of("0.2").unwrap();
            let (start_ns, mut ended_ns, mut worked_ns, mut paid) = (clock.now_ns(), clock.now_ns(), 0, 0);
            for _ in 0..20_000 {
                let mut now_ns = clock.now_ns();
                while now_ns < ended_ns + 1_000 {
                    now_ns = clock.now_ns();
                }
                worked_ns += now_ns - ended_ns;
                ended_ns = slowed.end_ns(&clock, ended_ns);
                paid += u32::from(ended_ns > now_ns + 900);
            }
            // A fifth of the throughput: a quarter of the time more. On a busy machine others may have the processor meanwhile.
            let times = (ended_ns - start_ns) as f64 / worked_ns as f64;
            if (1.2..1.4).contains(&times) && (500..15_000).contains(&paid) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{times}, {paid} times");
        }
    }
}
