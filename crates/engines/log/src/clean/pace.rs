//! How fast to clean, and when writers have to wait: pure arithmetic.
//!
//! Cleaning begins at [`BEGIN`] of what may be dead, at a rate in proportion to that of appending, so that it is spread over
//! time instead of coming in bursts; the rate rises with the pressure until, where the bound is broken, it is free. Writers are
//! slowed only far beyond the bound, each by a little, in proportion to its bytes.

/// The pressure from which on segments are cleaned.
pub(crate) const BEGIN: f64 = 0.8;
/// The pressure from which on cleaning is as fast as it can be.
const FREE: f64 = 1.05;
/// The pressure from which on writers wait.
const BRAKE: f64 = 1.2;
/// The least rate, in bytes per second.
const BYTES_PER_SECOND_MIN: f64 = 32e6;
/// Bytes after which a writer feels the brake, so that it sleeps seldom and long enough.
const BRAKED_BYTES: u64 = 64 << 10;

/// Bytes per second to copy at; `None` without a limit.
pub(crate) fn bytes_per_second(pressure: f64, appended_per_second: f64) -> Option<f64> {
    if pressure >= FREE {
        return None;
    }
    let shortage = ((pressure - BEGIN) / (FREE - BEGIN)).clamp(0.0, 1.0);
    Some(BYTES_PER_SECOND_MIN.max(appended_per_second * (0.5 + 4.0 * shortage)))
}

/// Nanoseconds to wait for each KiB that is written.
pub(crate) fn brake(pressure: f64) -> u64 {
    // From half as much again on, writers have 33 MB/s left.
    let beyond = ((pressure - BRAKE) / (BRAKE / 2.0)).clamp(0.0, 1.0);
    (beyond * 30_000.0) as u64
}

/// How long a writer waits that finds `written_bytes` in the log, of which the brake was felt up to `felt_bytes`.
pub(crate) fn wait_ns(brake: u64, written_bytes: u64, felt_bytes: &mut u64) -> u64 {
    let bytes = written_bytes.saturating_sub(*felt_bytes);
    if bytes < BRAKED_BYTES {
        return 0;
    }
    *felt_bytes = written_bytes;
    // What was written before the brake was put on is not paid for.
    brake * bytes.min(2 * BRAKED_BYTES) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_with_the_pressure_until_it_is_free() {
        let rates: Vec<_> = [0.8, 0.9, 1.0, 1.04].iter().map(|p| bytes_per_second(*p, 1e9).unwrap()).collect();
        assert!(rates.is_sorted() && rates[0] == 5e8 && rates[3] > 4e9, "{rates:?}");
        assert_eq!(bytes_per_second(1.1, 1e9), None);
        assert_eq!(bytes_per_second(0.9, 0.0), Some(BYTES_PER_SECOND_MIN));
    }

    #[test]
    fn writers_wait_only_far_beyond_the_bound_and_never_long() {
        assert_eq!((brake(1.0), brake(1.2)), (0, 0));
        assert!(brake(1.25) > 0 && brake(1.25) < 3000 && brake(100.0) == 30_000);
        let mut felt = 0;
        assert_eq!(wait_ns(1000, 1000, &mut felt), 0);
        assert_eq!(wait_ns(1000, 65_536, &mut felt), 64_000);
        assert_eq!(wait_ns(1000, 65_537, &mut felt), 0);
        assert!(wait_ns(30_000, 1 << 40, &mut felt) < 4_000_000);
    }
}
