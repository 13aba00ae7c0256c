//! Student's t distribution.

use std::f64::consts::FRAC_2_PI;

/// The probability that a figure of Student's distribution with `freedom` (at least 1) degrees is larger than `t`.
///
/// By the finite sums for whole degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4). Probabilities below some 1e-15 are rounding.
pub(super) fn tail(t: f64, freedom: u32) -> f64 {
    let (v, x) = (f64::from(freedom), t.abs());
    let cos2 = v / (v + x * x);
    let (sin, cos) = ((1.0 - cos2).max(0.0).sqrt(), cos2.sqrt());
    // Every term is the one before by cos² and the next even number by the next odd one, or the other way round.
    let sum = |first: f64, from: u32, to: u32, factor: fn(f64) -> f64| {
        let mut term = first;
        let mut sum = term;
        for i in (from..=to).step_by(2) {
            term *= factor(f64::from(i)) * cos2;
            sum += term;
        }
        sum
    };
    let within = match freedom {
        0 | 1 => FRAC_2_PI * (x / v.sqrt()).atan(),
        odd if odd % 2 == 1 => {
            FRAC_2_PI * ((x / v.sqrt()).atan() + sin * sum(cos, 2, odd.saturating_sub(3), |even| even / (even + 1.0)))
        }
        even => sin * sum(1.0, 1, even.saturating_sub(3), |odd| odd / (odd + 1.0)),
    };
    let beyond = ((1.0 - within) / 2.0).clamp(0.0, 0.5);
    if t < 0.0 { 1.0 - beyond } else { beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_printed_tables() {
        // Degrees of freedom, upper tail, quantile.
        for (freedom, probability, t) in [
            (1, 0.05, 6.314),
            (1, 0.001, 318.309),
            (2, 0.025, 4.303),
            (2, 0.0005, 31.599),
            (3, 0.05, 2.353),
            (3, 0.0005, 12.924),
            (4, 0.01, 3.747),
            (5, 0.005, 4.032),
            (6, 0.0005, 5.959),
            (9, 0.025, 2.262),
            (10, 0.001, 4.144),
            (30, 0.01, 2.457),
            (60, 0.0005, 3.460),
        ] {
            let found = tail(t, freedom);
            assert!((found / probability - 1.0).abs() < 2e-3, "{freedom} degrees, {t}: {found}, not {probability}");
            assert!((found + tail(-t, freedom) - 1.0).abs() < 1e-12);
        }
        for freedom in 1..40 {
            assert_eq!(tail(0.0, freedom), 0.5);
            assert!(tail(1e9, freedom) < 1e-9 && tail(f64::INFINITY, freedom) <= 1e-15);
        }
    }

    #[test]
    fn a_larger_figure_is_less_likely_and_more_degrees_have_a_thinner_tail() {
        for freedom in 1..30 {
            let tails: Vec<f64> = (0..40).map(|i| tail(f64::from(i) / 4.0, freedom)).collect();
            assert!(tails.windows(2).all(|pair| pair[1] < pair[0]), "{freedom}: {tails:?}");
            assert!(tail(3.0, freedom + 1) < tail(3.0, freedom), "{freedom}");
        }
    }
}
