//! How large a trial is.

use serde::Serialize;

/// What a slow engine loads in a second.
const LOADED_RECORDS_PER_S: f64 = 150_000.0;
const LOADED_BYTES_PER_S: f64 = 60e6;
/// The fewest records that are worth a trial: of large ones fewer, as many as make so many bytes. The shortest and the longest run.
const RECORDS_MIN: u64 = 1_000;
const LARGE_RECORDS_MIN: u64 = 100;
const BYTES_MIN: u64 = 16_000_000;
const RUN_SECONDS: (f64, f64) = (0.2, 10.0);
/// By how much the ratio of two stores is taken to change at most when a trial has twice the data, as a logarithm.
pub(super) const MARGIN_PER_DOUBLING: f64 = 0.05;

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Size {
    /// Records that it loads.
    pub records: u64,
    /// For how long it then runs, in seconds.
    pub seconds: f64,
}

impl Size {
    /// Of a trial that may take `seconds`: a third of it is for loading, a third for the run, the rest for starting, flushing and closing.
    /// Never more records than the `asked` ones, of `record_bytes` each.
    pub fn within(seconds: f64, asked: u64, record_bytes: u64) -> Self {
        let third = seconds / 3.0;
        let loaded = LOADED_RECORDS_PER_S.min(LOADED_BYTES_PER_S / record_bytes.max(1) as f64) * third;
        let least = (BYTES_MIN / record_bytes.max(1)).clamp(LARGE_RECORDS_MIN, RECORDS_MIN);
        Self { records: (loaded as u64).max(least).min(asked), seconds: third.clamp(RUN_SECONDS.0, RUN_SECONDS.1) }
    }

    /// So many times as large, but with no more than the `asked` records, and no longer than a trial needs to be.
    pub fn grown(self, factor: f64, asked: u64) -> Self {
        Self {
            records: ((self.records as f64 * factor) as u64).clamp(self.records.min(asked), asked),
            seconds: (self.seconds * factor).min(RUN_SECONDS.1.max(self.seconds)),
        }
    }

    /// By how much the logarithm of the ratio of two stores may differ in such a trial from what it is over all the `asked` records.
    pub fn margin(self, asked: u64) -> f64 {
        MARGIN_PER_DOUBLING * (asked as f64 / self.records.max(1) as f64).log2().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_trial_is_for_loading_and_none_is_larger_than_the_question() {
        let size = Size::within(3.0, u64::MAX, 1_016);
        assert_eq!(size.seconds, 1.0);
        assert!((size.records as f64 * 1_016.0 / LOADED_BYTES_PER_S - 1.0).abs() < 1e-3, "{size:?}");
        // Small records are bounded by their number.
        assert_eq!(Size::within(3.0, u64::MAX, 16), Size { records: 150_000, seconds: 1.0 });
        assert_eq!(Size::within(450.0, 5_000, 1_016), Size { records: 5_000, seconds: 10.0 });
        // However little time there is, a trial is one.
        assert_eq!(Size::within(1e-6, 2_000_000, 1_016), Size { records: 1_000, seconds: 0.2 });
        assert_eq!(Size::within(1e-6, 2_000_000, 100_016), Size { records: 159, seconds: 0.2 });
        assert_eq!(Size::within(1e-6, 2_000_000, 1 << 20), Size { records: 100, seconds: 0.2 });
        assert_eq!(Size::within(1e-6, 7, 1), Size { records: 7, seconds: 0.2 });
    }

    #[test]
    fn a_trial_grows_up_to_the_question_and_to_ten_seconds_and_never_shrinks() {
        let size = Size { records: 1_000, seconds: 0.5 };
        assert_eq!(size.grown(1.5, u64::MAX), Size { records: 1_500, seconds: 0.75 });
        assert_eq!(size.grown(1.0, 5_000), size);
        assert_eq!(size.grown(100.0, 5_000), Size { records: 5_000, seconds: 10.0 });
    }

    #[test]
    fn every_halving_of_the_data_adds_to_the_margin_and_all_of_it_has_none() {
        let of = |records| Size { records, seconds: 1.0 }.margin(8_000);
        assert_eq!([8_000, 4_000, 2_000, 1_000].map(|records| (of(records) * 100.0).round()), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(of(9_000), 0.0);
    }
}
