//! How large a trial is, so that the budget has room for some rounds of all candidates.

use serde::Serialize;

/// Rounds of all candidates that the budget has room for. Two tell who is far behind; those that drop out leave theirs to the others.
const ROUNDS: f64 = 4.0;
/// What a slow engine loads in a second.
const LOADED_RECORDS_PER_S: f64 = 150_000.0;
const LOADED_BYTES_PER_S: f64 = 60e6;
/// The fewest records that are worth a trial, and the shortest and the longest run.
const RECORDS_MIN: u64 = 1_000;
const RUN_SECONDS: (f64, f64) = (0.2, 10.0);

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Size {
    /// Records that it loads.
    pub records: u64,
    /// For how long it then runs, in seconds.
    pub seconds: f64,
}

impl Size {
    /// Of each of `candidates`, where all together may take `budget` seconds: a third of a trial is for loading, a third for the run,
    /// the rest for starting, flushing and closing. Never more records than the `records` that are asked about, of `record_bytes` each.
    pub fn of(budget: f64, candidates: usize, records: u64, record_bytes: u64) -> Self {
        let third = budget / (ROUNDS * candidates.max(1) as f64) / 3.0;
        let loaded = LOADED_RECORDS_PER_S.min(LOADED_BYTES_PER_S / record_bytes.max(1) as f64) * third;
        Self {
            records: (loaded as u64).max(RECORDS_MIN).min(records),
            seconds: third.clamp(RUN_SECONDS.0, RUN_SECONDS.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_has_room_for_four_rounds_of_all_and_no_trial_is_larger_than_the_question() {
        for (budget, candidates) in [(120.0, 21), (30.0, 4), (600.0, 35), (3_600.0, 2)] {
            let size = Size::of(budget, candidates, u64::MAX, 1_016);
            let load = size.records as f64 * 1_016.0 / LOADED_BYTES_PER_S;
            let all = (load + size.seconds) * ROUNDS * candidates as f64;
            assert!(
                all <= 0.67 * budget && (all > 0.6 * budget || size.seconds == 10.0),
                "{budget} s: {size:?}, {all} s"
            );
        }
        // Small records are bounded by their number.
        assert_eq!(Size::of(120.0, 10, u64::MAX, 16), Size { records: 150_000, seconds: 1.0 });
        assert_eq!(Size::of(3_600.0, 2, 5_000, 1_016), Size { records: 5_000, seconds: 10.0 });
        // However small the budget, a trial is one.
        assert_eq!(Size::of(0.001, 50, 2_000_000, 1 << 20), Size { records: 1_000, seconds: 0.2 });
        assert_eq!(Size::of(0.001, 0, 7, 1), Size { records: 7, seconds: 0.2 });
    }
}
