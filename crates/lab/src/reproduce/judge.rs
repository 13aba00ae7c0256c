//! What is to be said of figures that were published to go one way.

use super::Verdict;
use crate::statistics::Spread;
use crate::units::{count, plural, times};

/// With fewer repetitions nobody knows how far figures scatter: that two lie apart says nothing.
pub(crate) const RUNS_MIN: usize = 3;

/// A verdict that rests on `runs` repetitions lying on one side of something.
pub(crate) fn of_runs(runs: usize, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Holds | Verdict::Refuted if runs < RUNS_MIN => Verdict::Mixed,
        other => other,
    }
}

/// `3.10 (2.90 to 3.30)`, where `show` writes a figure; of too few repetitions, how many they are.
pub(crate) fn spread_text(spread: Spread, show: impl Fn(f64) -> String) -> String {
    let Spread { median, min, max, runs } = spread;
    let extremes = match runs {
        ..RUNS_MIN => format!("of {}, too few to judge", plural(runs as u64, "run")),
        _ => format!("{} to {}", show(min), show(max)),
    };
    format!("{} ({extremes})", show(median))
}

/// `large` by `small` with the extremes that their repetitions allow.
pub(crate) fn quotient(large: Spread, small: Spread) -> Spread {
    Spread {
        median: large.median / small.median,
        min: large.min / small.max,
        max: large.max / small.min,
        runs: large.runs.min(small.runs),
    }
}

/// How a figure goes from the small end of a series to the large one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) small: Spread,
    pub(crate) large: Spread,
}

impl Trend {
    /// The large end by the small one.
    pub(crate) fn ratio(&self) -> f64 {
        self.large.median / self.small.median
    }

    /// The repetitions of the end that has fewer.
    pub(crate) fn runs(&self) -> usize {
        self.large.runs.min(self.small.runs)
    }

    pub(crate) fn rises(&self) -> bool {
        self.large.min > self.small.max
    }

    pub(crate) fn falls(&self) -> bool {
        self.large.max < self.small.min
    }
}

/// What is to be said of a figure that was published to rise, or to fall.
pub(crate) fn judge(trends: &[Trend], published_rises: bool) -> Verdict {
    let all = |way: fn(&Trend) -> bool| trends.iter().all(way);
    let Some(runs) = trends.iter().map(Trend::runs).min() else { return Verdict::Unknown };
    let verdict = match (all(Trend::rises), all(Trend::falls)) {
        (true, _) if published_rises => Verdict::Holds,
        (_, true) if !published_rises => Verdict::Holds,
        (false, false) => Verdict::Mixed,
        _ => Verdict::Refuted,
    };
    of_runs(runs, verdict)
}

/// What the sides of a trend are called where it leads from small to large.
pub(crate) const ENDS: [&str; 2] = ["the large end", "the small one"];

/// `3 of 4 series rise, 0 fall; the large end has 0.32 to 0.41 times the small one`, where the sides are called so.
pub(crate) fn describe(trends: &[Trend], [large, small]: [&str; 2]) -> String {
    if trends.is_empty() {
        return "no figures".to_owned();
    }
    let (rise, fall) = (trends.iter().filter(|t| t.rises()).count(), trends.iter().filter(|t| t.falls()).count());
    let ratios = || trends.iter().map(Trend::ratio);
    let (low, high) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let text = |ratio: f64| if ratio < 1.0 { times(ratio) } else { count(ratio) };
    let (all, low, high) = (trends.len(), text(low), text(high));
    let few = trends.iter().map(Trend::runs).min().filter(|runs| *runs < RUNS_MIN);
    let few = few.map_or(String::new(), |runs| {
        format!("; with {} of each nobody can tell that from chance", plural(runs as u64, "run"))
    });
    format!("of {all} series {rise} rise and {fall} fall; {large} has {low} to {high} times {small}{few}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if figures that were taken once or twice are judged: of two and two, the larger ones are all on one side in one of three orders.
    #[test]
    fn what_was_not_repeated_is_not_clear_however_far_it_lies_apart() {
        let of = |runs: usize, low: f64| Spread { median: low, min: 0.9 * low, max: 1.1 * low, runs };
        let verdict = |small, large| judge(&[Trend { small: of(small, 1.0), large: of(large, 10.0) }], true);
        assert_eq!([(1, 1), (2, 2), (2, 5), (5, 2)].map(|(small, large)| verdict(small, large)), [Verdict::Mixed; 4]);
        assert_eq!((verdict(3, 3), verdict(5, 3)), (Verdict::Holds, Verdict::Holds));
        let fall = |runs| judge(&[Trend { small: of(runs, 10.0), large: of(runs, 1.0) }], true);
        assert_eq!((fall(2), fall(3)), (Verdict::Mixed, Verdict::Refuted));
        // One series that was cut short makes the whole unclear.
        let whole = Trend { small: of(3, 1.0), large: of(3, 10.0) };
        assert_eq!(judge(&[whole, Trend { small: of(1, 1.0), ..whole }], true), Verdict::Mixed);
        let said = describe(&[whole, Trend { small: of(1, 1.0), ..whole }], ENDS);
        assert!(said.ends_with("with 1 run of each nobody can tell that from chance"), "{said}");
        assert!(describe(&[whole], ENDS).ends_with("times the small one"));
        assert!(describe(&[whole], ["a", "b"]).ends_with("; a has 10 to 10 times b"));
        assert_eq!(quotient(of(1, 1.0), of(3, 1.0)).runs, 1);
        let text = |runs| spread_text(of(runs, 1.0), |figure: f64| format!("{figure:.1}"));
        assert_eq!([1, 3].map(text), ["1.0 (of 1 run, too few to judge)", "1.0 (0.9 to 1.1)"]);
    }
}
