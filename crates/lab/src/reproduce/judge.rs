//! What is to be said of figures that were published to go one way.

use super::Verdict;
use crate::statistics::Spread;
use crate::units::count;

/// `large` by `small` with the extremes that their repetitions allow.
pub(crate) fn quotient(large: Spread, small: Spread) -> Spread {
    Spread { median: large.median / small.median, min: large.min / small.max, max: large.max / small.min }
}

/// How a figure goes from the small end of a series to the large one, both with their extremes `(median, min, max)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) small: (f64, f64, f64),
    pub(crate) large: (f64, f64, f64),
}

impl Trend {
    /// The large end by the small one.
    pub(crate) fn ratio(&self) -> f64 {
        self.large.0 / self.small.0
    }

    fn rises(&self) -> bool {
        self.large.1 > self.small.2
    }

    fn falls(&self) -> bool {
        self.large.2 < self.small.1
    }
}

/// What is to be said of a figure that was published to rise, or to fall.
pub(crate) fn judge(trends: &[Trend], published_rises: bool) -> Verdict {
    let all = |way: fn(&Trend) -> bool| !trends.is_empty() && trends.iter().all(way);
    match (trends.is_empty(), all(Trend::rises), all(Trend::falls)) {
        (true, ..) => Verdict::Unknown,
        (_, true, _) => {
            if published_rises {
                Verdict::Holds
            } else {
                Verdict::Refuted
            }
        }
        (_, _, true) => {
            if published_rises {
                Verdict::Refuted
            } else {
                Verdict::Holds
            }
        }
        _ => Verdict::Mixed,
    }
}

/// `3 of 4 series rise, 0 fall; the large end has 0.32 to 0.41 times the small one`.
pub(crate) fn describe(trends: &[Trend]) -> String {
    if trends.is_empty() {
        return "no figures".to_owned();
    }
    let (rise, fall) = (trends.iter().filter(|t| t.rises()).count(), trends.iter().filter(|t| t.falls()).count());
    let ratios = || trends.iter().map(Trend::ratio);
    let (low, high) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let (all, low, high) = (trends.len(), count(low), count(high));
    format!("of {all} series {rise} rise and {fall} fall; the large end has {low} to {high} times the small one")
}
