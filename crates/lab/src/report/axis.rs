//! Axes: round ticks for people.

/// A linear axis from zero.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    pub(crate) max: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Linear {
    /// That holds figures up to `max`, with about `ticks` steps of 1, 2 or 5 times a power of ten.
    pub(crate) fn new(max: f64, ticks: u32) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let rough = max / f64::from(ticks);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999).unwrap_or(rough);
        let count = (max / step * 0.999).ceil() as u32;
        Self { max: step * f64::from(count), ticks: (0..=count).map(|i| step * f64::from(i)).collect() }
    }

    /// Where `figure` lies, in percent of the width.
    pub(crate) fn at(&self, figure: f64) -> f64 {
        (figure / self.max * 100.0).clamp(0.0, 100.0)
    }
}

/// A logarithmic axis over whole powers of ten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Log {
    /// That holds figures from `min` to `max` (at least 1 each).
    pub(crate) fn new(min: f64, max: f64) -> Self {
        let low = min.max(1.0).log10().floor();
        let high = max.max(1.0).log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| 10f64.powi(power)).collect();
        Self { low, high, ticks }
    }

    /// Where `figure` lies, in percent of the width.
    pub(crate) fn at(&self, figure: f64) -> f64 {
        ((figure.max(1.0).log10() - self.low) / (self.high - self.low) * 100.0).clamp(0.0, 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_hold_the_figures() {
        assert_eq!(Linear::new(480_000.0, 5).ticks, [0.0, 1e5, 2e5, 3e5, 4e5, 5e5]);
        assert_eq!(Linear::new(1.0, 4).max, 1.0);
        for max in [0.0, 1.0, 3.0, 99.0, 1_234_567.0, f64::NAN] {
            let axis = Linear::new(max, 4);
            assert!(axis.max >= max || max.is_nan());
            assert!((2..=7).contains(&axis.ticks.len()), "{max}: {:?}", axis.ticks);
        }
    }

    #[test]
    fn log_ticks_are_decades() {
        let axis = Log::new(310.0, 210_000.0);
        assert_eq!(axis.ticks, [1e2, 1e3, 1e4, 1e5, 1e6]);
        assert!((axis.at(1e4) - 50.0).abs() < 1e-9);
        assert_eq!(Log::new(0.0, 0.0).ticks, [1.0, 10.0]);
    }
}
