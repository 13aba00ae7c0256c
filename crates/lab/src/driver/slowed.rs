//! A build that is slower on purpose: what a comparison that is to catch a loss is tried with.
//!
//! `BIOMBO_LAB_SLOWED=0.05` takes a twentieth of every client's throughput, by busy work of the client after each operation: in a closed
//! loop for as long as the operation and the driver's own work before it took, times 0.05 / 0.95. The work counts as the operation's, so
//! latencies grow too. Runs that are slowed so have it among their options.

use biombo_base::{Error, Result};

use super::clock::RunClock;

/// The variable that asks for it: a share of throughput, from 0 to below 1.
pub const SLOWED: &str = "BIOMBO_LAB_SLOWED";

/// By how much the clients are slowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowed {
    /// What takes one nanosecond takes so many.
    times: f64,
}

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
        Ok(Self { times: 1.0 / (1.0 - share.ok_or_else(refused)?) })
    }

    /// Work until what began at `from_ns` has taken as long as it should, and say when that is.
    #[cold]
    pub(super) fn end_ns(self, clock: &RunClock, from_ns: u64) -> u64 {
        let mut now_ns = clock.now_ns();
        let until_ns = from_ns + (now_ns.saturating_sub(from_ns) as f64 * self.times) as u64;
        while now_ns < until_ns {
            std::hint::spin_loop();
            now_ns = clock.now_ns();
        }
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
        assert_eq!(Slowed::of("0.05").unwrap(), Slowed { times: 1.0 / 0.95 });
    }
}
