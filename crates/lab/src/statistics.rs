//! Medians, spreads, and ratios with their uncertainty.

mod signed_ranks;

use crate::workload::Random;

/// The median and the extremes of some figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of the middle two of an even number.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub runs: usize,
}

impl Spread {
    /// Of `figures`; `None` when there are none. Figures that are no numbers do not count.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().filter(|x| !x.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self { median: middle(&sorted)?, min: *sorted.first()?, max: *sorted.last()?, runs: sorted.len() })
    }
}

/// The median of sorted figures.
fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[sorted.len() / 2 - 1] + upper) / 2.0 })
}

/// The ratio of two interleaved series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The median of the pairs' ratios.
    pub median: f64,
    /// The smallest and the largest ratio of a pair.
    pub min: f64,
    /// As above.
    pub max: f64,
    /// The pairs that have a ratio.
    pub pairs: usize,
    /// The 95 % interval of the median, from [`PAIRS_MIN`] pairs on.
    pub interval: Option<(f64, f64)>,
}

/// With fewer pairs no interval can hold 95 %: even from the smallest to the largest of five ratios the true median is
/// missed once in sixteen.
pub const PAIRS_MIN: usize = 6;

/// Resamples of every interval, at least.
pub const RESAMPLES: usize = 5_000;

/// The ratio `a` to `b` of each pair `(a, b)` of figures that were taken side by side, its median, and an interval that holds the true
/// median with a probability of at least 95 %, whatever the distribution: of nine ratios, from the second to the eighth (the sign test
/// turned round; Thompson 1936). The percentile bootstrap's is too narrow for so few: of nine, it misses the truth once in six. A drift
/// of the machine meets both of a pair and leaves their ratio alone. A pair of which `a` is 0 counts, with a ratio of 0; one of which `b`
/// is not above 0 has none and is left out. `None` without a usable pair.
///
/// ```
/// let pairs: Vec<_> = (0..9).map(|i| (100.0 + f64::from(i), 100.0)).collect();
/// let ratio = biombo_lab::statistics::ratio(&pairs).expect("nine pairs");
/// assert_eq!((ratio.median, ratio.interval), (1.04, Some((1.01, 1.07))));
/// ```
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    ratio_with(pairs, |sorted| {
        let at = place(sorted.len(), 0.95)?;
        Some((sorted[at], sorted[sorted.len() - 1 - at]))
    })
}

/// The same with the interval of the percentile bootstrap (Efron): 5,000 resamples of whole pairs, as studies of graphs that change
/// publish it. The same pairs always give the same interval.
pub fn resampled_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    ratio_with(pairs, |sorted| {
        (sorted.len() >= PAIRS_MIN).then(|| {
            let mut resample = Resample::new(sorted, 0);
            bootstrap(0.95, || resample.median())
        })
    })
}

/// The ratios of usable pairs, with the interval that is drawn from them in their order. Who did nothing in a run is 0 times as fast in
/// it, and would be flattered without it.
fn ratio_with(pairs: &[(f64, f64)], interval: impl FnOnce(&[f64]) -> Option<(f64, f64)>) -> Option<Ratio> {
    let usable = pairs.iter().filter(|(a, b)| *a >= 0.0 && *b > 0.0 && b.is_finite());
    let mut ratios: Vec<f64> = usable.map(|(a, b)| a / b).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let spread = Spread::of(ratios.iter().copied())?;
    let interval = interval(&ratios);
    Some(Ratio { median: spread.median, min: spread.min, max: spread.max, pairs: ratios.len(), interval })
}

/// How the median of one series stands to that of another, which was taken at another time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The median of the new figures by that of the old ones.
    pub ratio: f64,
    /// The interval of that ratio, where both have figures enough for it ([`runs_needed`]).
    pub interval: Option<(f64, f64)>,
}

/// The figures that each of two series needs to differ at `level`. Where every figure of one lies beyond every figure of the other,
/// chance alone does that in 2 of the C(2n, n) orders in which 2n figures may come: with fewer, an interval promises more than they can
/// tell. Never less than [`PAIRS_MIN`].
///
/// ```
/// use biombo_lab::statistics::runs_needed;
/// // One row, and fifty that are judged together (Bonferroni).
/// assert_eq!((runs_needed(0.95), runs_needed(1.0 - 0.05 / 50.0)), (6, 7));
/// ```
pub fn runs_needed(level: f64) -> usize {
    (PAIRS_MIN..).find(|runs| can_differ(*runs, *runs, level)).expect("invariant: the orders outgrow every level")
}

/// Whether so many figures of one series and of another can show at `level` that they differ.
fn can_differ(one: usize, other: usize, level: f64) -> bool {
    let orders: f64 = (1..=one).map(|i| (other + i) as f64 / i as f64).product();
    one.min(other) >= PAIRS_MIN && 2.0 / orders <= 1.0 - level
}

/// The median of `new` by the median of `old`, and the interval that holds the true ratio with probability `level`, by the percentile
/// bootstrap: both series are resampled on their own, 5,000 times, as their figures are no pairs. The same figures always give the
/// same interval. Levels whose tails would hold less than one of 5,000 resamples get as many as it takes. `None` where a series has no
/// figure, or one that is not above 0.
///
/// ```
/// let (old, new) = ([100.0, 101.0, 99.0, 100.0, 102.0, 98.0], [90.0, 91.0, 89.0, 90.0, 92.0, 88.0]);
/// let change = biombo_lab::statistics::change(&new, &old, 0.95).expect("figures of both");
/// let (low, high) = change.interval.expect("six of each are enough");
/// assert!(change.ratio == 0.9 && 0.85 < low && high < 0.95);
/// ```
pub fn change(new: &[f64], old: &[f64], level: f64) -> Option<Change> {
    if new.iter().chain(old).any(|figure| !figure.is_finite() || *figure <= 0.0) {
        return None;
    }
    let median = |figures: &[f64]| Spread::of(figures.iter().copied()).map(|spread| spread.median);
    let ratio = median(new)? / median(old)?;
    let interval = can_differ(new.len(), old.len(), level).then(|| {
        let (mut new, mut old) = (Resample::new(new, 1), Resample::new(old, 2));
        bootstrap(level, || new.median() / old.median())
    });
    Some(Change { ratio, interval })
}

/// The pairs that it takes to differ at `level`: where each is on one side of 1, chance alone does that in 2 of 2^n. Never less than [`PAIRS_MIN`].
///
/// ```
/// use biombo_lab::statistics::pairs_needed;
/// assert_eq!([1.0, 12.0, 13.0, 102.0, 103.0].map(|figures| pairs_needed(1.0 - 0.05 / figures)), [6, 9, 10, 12, 13]);
/// ```
pub fn pairs_needed(level: f64) -> usize {
    let is_enough = |pairs: &usize| place(*pairs, level).is_some();
    (PAIRS_MIN..).find(is_enough).expect("invariant: the powers of two outgrow every level")
}

/// How the new figure of each pair `(new, old)` stands to the old one, which was taken beside it: the median of the ratios, and the interval that
/// holds the true median with probability `level` at least, whatever their distribution: between two of the ratios in their order (the sign
/// test turned round; Thompson 1936). The bootstrap's is too narrow for so few: of nine, it would be wrong once in six. `None` where there is
/// no pair, or a figure that is not above 0.
///
/// ```
/// // The machine slows down to a third; beside it, the new one is always 5 % slower.
/// let pairs: Vec<_> = (0..9).map(|i| 100.0 / (1.0 + 0.25 * f64::from(i))).map(|old| (0.95 * old, old)).collect();
/// let change = biombo_lab::statistics::change_in_pairs(&pairs, 0.95).expect("figures of both");
/// let (low, high) = change.interval.expect("nine are enough");
/// assert!(0.949 < low && high < 0.951);
/// ```
pub fn change_in_pairs(pairs: &[(f64, f64)], level: f64) -> Option<Change> {
    if pairs.iter().any(|(new, old)| !(new.is_finite() && old.is_finite() && *new > 0.0 && *old > 0.0)) {
        return None;
    }
    let mut ratios: Vec<f64> = pairs.iter().map(|(new, old)| new / old).collect();
    ratios.sort_by(f64::total_cmp);
    let at = place(ratios.len(), level);
    Some(Change { ratio: middle(&ratios)?, interval: at.map(|at| (ratios[at], ratios[ratios.len() - 1 - at])) })
}

/// How the new figure of each round `(new, old)` stands to the old one, where old and new are two builds that were measured by turns: the middle
/// of the ratios, and the interval that holds it with probability `level` at least, by the signed ranks of their logarithms
/// (Hodges and Lehmann 1963). Two figures of one build may change places, so their ratio is as likely to lie above 1 as below it by so
/// much, which is all that it takes. Takes as many rounds as
/// [`pairs_needed`] says. `None` where there is no round, or a figure that is not above 0.
///
/// ```
/// // The machine slows down to a third; beside it, the new one is always 5 % slower.
/// let rounds: Vec<_> = (0..9).map(|i| 100.0 / (1.0 + 0.25 * f64::from(i))).map(|old| (0.95 * old, old)).collect();
/// let change = biombo_lab::statistics::change_by_turns(&rounds, 0.98).expect("figures of both");
/// let (low, high) = change.interval.expect("nine are enough");
/// assert!(0.949 < low && high < 0.951);
/// ```
pub fn change_by_turns(rounds: &[(f64, f64)], level: f64) -> Option<Change> {
    if rounds.iter().any(|(new, old)| !(new.is_finite() && old.is_finite() && *new > 0.0 && *old > 0.0)) {
        return None;
    }
    let ratios: Vec<f64> = rounds.iter().map(|(new, old)| (new / old).ln()).collect();
    let (middle, interval) = signed_ranks::middle_and_interval(&ratios, level)?;
    let interval = interval.filter(|_| rounds.len() >= PAIRS_MIN);
    Some(Change { ratio: middle.exp(), interval: interval.map(|(low, high)| (low.exp(), high.exp())) })
}

/// So many are taken off orders and halvings at once.
const HALVINGS: i32 = 512;

/// The greatest place in the order of so many figures, from 0, such that between it and its counterpart from the other end the median lies
/// with probability `level`; `None` where even the extremes do not hold it so surely.
fn place(figures: usize, level: f64) -> Option<usize> {
    // Of either tail: how likely it is that at most so many figures lie below the median. Exactly so many do in so many orders of
    // 2^halvings; of a thousand figures and more a float holds neither, and both are made less together.
    let (mut orders, mut halvings) = (1.0, figures as i32);
    let (mut tail, mut found) = (0.0, None);
    for at in 0..figures / 2 {
        tail += orders / 2f64.powi(halvings);
        if 2.0 * tail > 1.0 - level {
            break;
        }
        found = Some(at);
        orders *= (figures - at) as f64 / (at + 1) as f64;
        if orders > 2f64.powi(HALVINGS) {
            (orders, halvings) = (orders / 2f64.powi(HALVINGS), halvings - HALVINGS);
        }
    }
    found.filter(|_| figures >= PAIRS_MIN)
}

/// Resamples of figures: as many of them, drawn with repetition.
struct Resample<'a> {
    figures: &'a [f64],
    sample: Vec<f64>,
    random: Random,
}

impl<'a> Resample<'a> {
    fn new(figures: &'a [f64], stream: u64) -> Self {
        let random = Random::new(0xB00 + stream, figures.len() as u64);
        Self { figures, sample: vec![0.0; figures.len()], random }
    }

    /// The median of the next one.
    fn median(&mut self) -> f64 {
        let Self { figures, sample, random } = self;
        sample.iter_mut().for_each(|x| *x = figures[random.below(figures.len() as u64) as usize]);
        sample.sort_by(f64::total_cmp);
        middle(sample).expect("invariant: a resample is as long as the figures, which are not empty")
    }
}

/// The percentiles of what resamples give, between which lies a share of `level`.
fn bootstrap(level: f64, resampled: impl FnMut() -> f64) -> (f64, f64) {
    let resamples = ((2.0 / (1.0 - level)).ceil() as usize).clamp(RESAMPLES, 200 * RESAMPLES);
    let mut all: Vec<f64> = std::iter::repeat_with(resampled).take(resamples).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((resamples - 1) as f64 * share).round() as usize];
    let tail = (1.0 - level) / 2.0;
    (at(tail), at(1.0 - tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal figure, by the sum of twelve uniform ones.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0, runs: 3 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn pairs_cancel_a_drift_that_would_drown_the_difference() {
        // The machine slows to a third over nine pairs; in each the first is 5 % faster.
        let pairs: Vec<_> = (0..9).map(|i| 100.0 / (1.0 + 0.25 * f64::from(i))).map(|b| (1.05 * b, b)).collect();
        let ratio = ratio(&pairs).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.median - 1.05).abs() < 1e-12 && (low - 1.05).abs() < 1e-12 && (high - 1.05).abs() < 1e-12);
    }

    #[test]
    fn the_interval_of_nine_known_ratios_is_that_of_the_median() {
        let pairs: Vec<_> = (1..=9).rev().map(|i| (f64::from(i), 1.0)).collect();
        assert_eq!(ratio(&pairs).unwrap().interval, Some((2.0, 8.0)));
        // Resampled medians of 1..9: by the binomial distribution the 2.5th percentile is 3 and the 97.5th is 7 or, by
        // the resamples' luck, one further out.
        let (low, high) = resampled_ratio(&pairs).unwrap().interval.unwrap();
        assert!((2.0..=3.0).contains(&low) && (7.0..=8.0).contains(&high), "{low} {high}");
    }

    /// How many of 400 intervals, each of so many pairs without a difference, hold 1.
    fn held(pairs: u32, of: fn(&[(f64, f64)]) -> Option<Ratio>) -> usize {
        let mut random = Random::new(4, 2);
        let tries = (0..400).filter(|_| {
            let mut figure = || 100.0 * (1.0 + 0.05 * normal(&mut random));
            let pairs: Vec<_> = (0..pairs).map(|_| (figure(), figure())).collect();
            let (low, high) = of(&pairs).unwrap().interval.unwrap();
            low <= 1.0 && 1.0 <= high
        });
        tries.count()
    }

    #[test]
    fn the_interval_holds_the_truth_at_least_95_times_in_100() {
        for pairs in [6, 9, 12] {
            // At least 380 of 400, but for four deviations of 4.4 by chance.
            assert!(held(pairs, ratio) >= 362, "{} of 400 intervals of {pairs} pairs", held(pairs, ratio));
        }
        // Those of so many pairs are no wider than they have to be: of nine, 96.1 % hold it.
        assert!(held(9, ratio) <= 398);
    }

    /// Of 200 tries with nine runs of each build, of which single runs spread by 2 %: how often a change is seen, and how often it is
    /// a loss.
    fn tries(factor: f64) -> (u32, u32) {
        let mut random = Random::new(9, 4);
        let (mut seen, mut lost) = (0, 0);
        for _ in 0..200 {
            let mut runs = |scale: f64| (0..9).map(|_| scale * (1.0 + 0.02 * normal(&mut random))).collect::<Vec<_>>();
            let (old, new) = (runs(100.0), runs(100.0 * factor));
            let (low, high) = change(&new, &old, 0.95).unwrap().interval.unwrap();
            seen += u32::from(low > 1.0 || high < 1.0);
            lost += u32::from(high < 1.0);
        }
        (seen, lost)
    }

    #[test]
    fn two_series_of_one_build_rarely_differ_and_a_loss_of_five_percent_is_seen() {
        let (seen, _) = tries(1.0);
        assert!(seen <= 10, "{seen} of 200 tries found a difference where there is none");
        let (_, lost) = tries(0.95);
        assert!(lost >= 190, "{lost} of 200 tries found the loss");
    }

    #[test]
    fn a_change_needs_figures_above_zero_and_enough_of_them_for_an_interval() {
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let doubled = six.map(|x| 2.0 * x);
        assert_eq!(change(&doubled, &six, 0.95).map(|change| change.ratio), Some(2.0));
        assert!(change(&six, &six[1..], 0.95).is_some_and(|change| change.interval.is_none()));
        assert_eq!(change(&[], &six, 0.95), None);
        assert_eq!(change(&[0.0; 6], &six, 0.95), None);
        let (wide, narrow) = (change(&six, &six, 0.99).unwrap(), change(&six, &six, 0.5).unwrap());
        let width = |change: Change| change.interval.map(|(low, high)| high / low).unwrap();
        assert!(width(wide) > width(narrow), "the surer, the wider");
    }

    #[test]
    fn figures_that_cannot_differ_at_a_level_give_no_interval() {
        let (six, beyond) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [11.0, 12.0, 13.0, 14.0, 15.0, 16.0]);
        let at = |rows: f64| change(&beyond, &six, 1.0 - 0.05 / rows).unwrap().interval.is_some();
        // 2 / C(12, 6) is 0.05 / 23.1.
        assert!(at(1.0) && at(23.0) && !at(24.0));
        assert_eq!([1.0, 23.0, 24.0, 85.0, 86.0].map(|rows| runs_needed(1.0 - 0.05 / rows)), [6, 6, 7, 7, 8]);
        assert!(runs_needed(1.0) > 100 && !can_differ(5, 900, 0.5) && can_differ(6, 7, 1.0 - 0.05 / 24.0));
    }

    /// Fails if a run that did nothing drops out, which flatters, or if one beside it that did nothing gives a ratio.
    #[test]
    fn who_did_nothing_has_a_ratio_of_0_and_who_is_beside_nothing_has_none() {
        let none = [(3.0, 0.0), (0.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY), (0.0, f64::INFINITY)];
        let pairs = [[(0.0, 10.0), (20.0, 10.0), (0.0, 10.0), (5.0, 10.0)].as_slice(), none.as_slice()].concat();
        for found in [ratio(&pairs).unwrap(), resampled_ratio(&pairs).unwrap()] {
            assert_eq!((found.min, found.median, found.max, found.pairs), (0.0, 0.25, 2.0, 4));
        }
        assert_eq!(ratio(&none), None);
        assert_eq!(ratio(&[(0.0, 10.0); 6]).unwrap().interval, Some((0.0, 0.0)));
    }

    /// Fails if the powers of two outgrow a float, from 1,024 pairs on, and leave an interval of the middle two.
    #[test]
    fn the_interval_of_thousands_of_pairs_is_that_of_the_normal_distribution() {
        for figures in [500, 1_000, 1_023, 1_024, 1_100, 2_000, 10_000, 100_000] {
            let at = place(figures, 0.95).unwrap() as f64;
            let normal = figures as f64 / 2.0 - 0.98 * (figures as f64).sqrt();
            assert!((at - normal).abs() < 2.0, "{figures}: {at} and not about {normal}");
        }
    }

    #[test]
    fn too_few_pairs_give_no_interval() {
        let pairs = [(1.0, 1.0); PAIRS_MIN];
        assert!(ratio(&pairs).unwrap().interval.is_some());
        assert!(ratio(&pairs[1..]).unwrap().interval.is_none());
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
    }
}
