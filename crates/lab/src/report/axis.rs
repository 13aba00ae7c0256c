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

/// A logarithmic axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Log {
    /// Over whole powers of ten that hold figures from `min` to `max` (at least 1 each).
    pub(crate) fn new(min: f64, max: f64) -> Self {
        let low = min.max(1.0).log10().floor();
        let high = max.max(1.0).log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| 10f64.powi(power)).collect();
        Self { low, high, ticks }
    }

    /// No longer than figures from `min` to `max` (at least 1 each) need: from and to 1, 2 or 5 times a power of ten, with
    /// ticks at those or, where they are too many, at the powers.
    pub(crate) fn fitted(min: f64, max: f64) -> Self {
        const TICKS_MAX: usize = 6;
        let (min, max) = (min.max(1.0), max.max(1.0));
        let round: Vec<f64> = (0..=max.log10().ceil() as i32 + 1)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)))
            .collect();
        let low = round.iter().rposition(|tick| *tick <= min).unwrap_or(0);
        let high = round.iter().position(|tick| *tick >= max).unwrap_or(round.len() - 1).max(low + 1);
        let all = &round[low..=high];
        let ticks = if all.len() <= TICKS_MAX {
            all.to_vec()
        } else {
            all.iter().copied().filter(|tick| round.iter().step_by(3).any(|power| power == tick)).collect()
        };
        Self { low: round[low].log10(), high: round[high].log10(), ticks }
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

    #[test]
    fn a_fitted_log_axis_holds_the_figures_closely() {
        assert_eq!(Log::fitted(310.0, 4_100.0).ticks, [200.0, 500.0, 1e3, 2e3, 5e3]);
        let wide = Log::fitted(310.0, 2_100_000.0);
        assert_eq!(wide.ticks, [1e3, 1e4, 1e5, 1e6]);
        assert!(wide.at(200.0) == 0.0 && wide.at(5e6) == 100.0 && wide.at(310.0) > 0.0);
        for (min, max) in [(0.0, 0.0), (1.0, 1.0), (10.0, 10.0), (999.0, 1_001.0), (1.0, 1e15)] {
            let axis = Log::fitted(min, max);
            assert!(!axis.ticks.is_empty() && axis.at(max) > axis.at(min) || max <= min, "{min} {max}: {axis:?}");
        }
    }
}
