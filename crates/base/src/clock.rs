//! Time that only goes forward.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process. Never goes back; tens of nanoseconds a call.
pub fn monotonic_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    // 584 years fit.
    elapsed.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_never_goes_back() {
        let mut last = super::monotonic_ns();
        for _ in 0..10_000 {
            let now = super::monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
