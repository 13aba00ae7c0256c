//! When an operation should begin: at once (closed loop), or at its place in a schedule (open loop).
//!
//! In an open loop latency counts from the intended beginning, so that the operations which had to wait behind a slow one
//! show it: no coordinated omission (Tene, "How NOT to Measure Latency").

use std::time::{Duration, Instant};

/// The schedule of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Closed,
    Open { origin: Instant, interval_ns: f64, offset_ns: f64, issued: u64 },
}

/// Sleeping shorter than this is left to yielding: a timer's wake-up is that late.
const SLEEP_SLACK: Duration = Duration::from_micros(150);

impl Pace {
    /// For `thread` of `threads` that share `rate` operations per second, evenly staggered.
    pub(crate) fn new(rate: Option<f64>, origin: Instant, thread: u32, threads: u32) -> Self {
        match rate {
            None => Self::Closed,
            Some(rate) => Self::Open {
                origin,
                interval_ns: f64::from(threads) / rate * 1e9,
                offset_ns: f64::from(thread) / rate * 1e9,
                issued: 0,
            },
        }
    }

    /// Wait for the next beginning and return it.
    #[inline]
    pub(crate) fn begin(&mut self) -> Instant {
        match self {
            Self::Closed => Instant::now(),
            Self::Open { origin, interval_ns, offset_ns, issued } => {
                let intended = *origin + Duration::from_nanos((*offset_ns + *issued as f64 * *interval_ns) as u64);
                *issued += 1;
                loop {
                    let wait = intended.saturating_duration_since(Instant::now());
                    if wait.is_zero() {
                        return intended;
                    }
                    if wait > SLEEP_SLACK {
                        std::thread::sleep(wait - SLEEP_SLACK);
                    } else {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }
}
