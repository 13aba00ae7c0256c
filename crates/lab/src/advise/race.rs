//! Which candidates go on, as a function of what was measured, and of nothing else.
//!
//! In every round each candidate that is still in the race has one trial, one after the other, so that a drift of the machine meets all
//! alike; two candidates are compared by the logarithm of the ratio of their figures within a round (blocking: Moore and Lee, "Efficient
//! algorithms for minimizing cross validation error", 1994). A candidate is out as soon as some other is ahead of it beyond doubt, after
//! any round, and the rest go on: successive elimination (Even-Dar, Mannor and Mansour, "Action elimination and stopping conditions for
//! the multi-armed bandit and reinforcement learning problems", 2006).
//!
//! **Trials grow** from round to round ([`Schedule`](super::schedule::Schedule)), so that those that are far behind cost little and those
//! that are close get the time (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", 2013, there with a fixed
//! number of trials). Two things change with their length, and neither may cost the best its place:
//!
//! - *What is measured.* A short trial has less data, and two stores may stand otherwise to each other over more. So whoever drops a
//!   candidate must be ahead of it by the round's **margin** at least, which is 0 where a trial has all the data: an envelope about what
//!   longer trials can change, as in Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016.
//! - *How far figures scatter.* The test below takes the mean of all rounds alike, and does not ask how exact each was. For Student's test
//!   that is safe: over independent normal differences of unequal variances it errs less often than its level, at all levels up to 4 %
//!   on one side (Bakirov and Székely, "Student's t-test for Gaussian scale mixtures", 2006; used in this way by Ibragimov and Müller,
//!   "t-statistic based correlation and heterogeneity robust inference", 2010), and none here is as high.
//!   So that short rounds do not hide for ever what the long ones show, it is made twice from the fourth round on, each time at half the
//!   level: over all rounds, and over the later half of them.
//!
//! **The promise**: a candidate that no other truly beats is dropped with a probability of at most `error`, over the whole race, however
//! long it goes on. After round n a rival may drop it at the level `error` · 6 / (π² n²) / (candidates − 1); these levels add up to `error`
//! over all rivals and rounds. The promise rests on logarithms of figures that scatter normally and independently about what a candidate
//! does and what the round lets all do, on margins that hold, and on no candidate that scatters many times as far as the rest. That the
//! length of a trial follows from who is left and from the time it took, not from how a pair stands, is taken for independence; the tests
//! run whole races by the schedule.
//!
//! **The test** is Student's, over the differences of a pair. How far trials scatter depends on the machine, its other tenants and the
//! length of a trial: nothing is taken for known. The spread that the pair has shown is moderated by that which the
//! other candidates have shown in the same rounds (as Smyth does, "Linear models and empirical Bayes methods for assessing differential
//! expression", 2004), which counts as `OTHERS_WEIGHT` observations at most. So one round drops nobody, since it shows no spread; many
//! candidates tell the spread within two rounds; and with more rounds the pair speaks for itself.

use std::f64::consts::PI;

use super::student::tail;

/// Degrees of freedom that the spread of the other candidates is worth at most, beside those of the pair.
const OTHERS_WEIGHT: u32 = 6;

/// From this round on the later half of the rounds is looked at on its own too.
const HALVES_FROM: usize = 4;

/// Figures of one candidate, one of each round that it was in, from the first; larger is better, and all are above 0.
pub type Trials = Vec<f64>;

/// What the trials of a round have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// How much its figures count where candidates are put in order: the seconds of a trial.
    pub weight: f64,
    /// By how much the logarithm of a ratio may differ from what it would be over all the data.
    pub margin: f64,
}

/// Who is beaten beyond doubt, and by whom: pairs of places in `trials`, after the latest of `rounds`. Candidates with fewer trials than the
/// most that any has are out already, and neither beat nor are beaten. Of several that beat it, the best is named. The first in the
/// [`order`] is never among the beaten, so that somebody is left whatever the figures are.
pub fn beaten(trials: &[Trials], rounds: &[Round], error: f64) -> Vec<(usize, usize)> {
    let latest = trials.iter().map(Vec::len).max().unwrap_or(0);
    let running: Vec<usize> = (0..trials.len()).filter(|at| trials[*at].len() == latest && latest > 0).collect();
    let best_first = order(trials, rounds, &running);
    let logarithms = logarithms(trials);
    let windows: Vec<Window<'_>> = beginnings(latest).map(|from| Window::new(&logarithms, rounds, from)).collect();
    let level = level(latest, trials.len(), error) / windows.len().max(1) as f64;
    let beats = |fast: usize, slow: usize| windows.iter().any(|window| window.doubt(fast, slow) < level);
    best_first
        .iter()
        .enumerate()
        .filter_map(|(place, &slow)| Some((slow, *best_first[..place].iter().find(|fast| beats(**fast, slow))?)))
        .collect()
}

/// The rounds from which on the figures are looked at, after so many.
fn beginnings(rounds: usize) -> impl Iterator<Item = usize> {
    [0, rounds / 2].into_iter().take(if rounds < HALVES_FROM { 1 } else { 2 })
}

/// How likely it is at most that a rival drops a candidate wrongly after round `round` of `candidates`.
fn level(round: usize, candidates: usize, error: f64) -> f64 {
    let rivals = candidates.saturating_sub(1).max(1) as f64;
    error * 6.0 / (PI * PI * (round * round).max(1) as f64) / rivals
}

/// The logarithms of all figures from some round on, and the mean margin of those rounds.
struct Window<'a> {
    logarithms: Vec<&'a [f64]>,
    margin: f64,
}

impl<'a> Window<'a> {
    fn new(logarithms: &'a [Vec<f64>], rounds: &[Round], from: usize) -> Self {
        let logarithms: Vec<&[f64]> = logarithms.iter().map(|all| all.get(from..).unwrap_or_default()).collect();
        let length = logarithms.iter().map(|figures| figures.len()).max().unwrap_or(0);
        let margins: f64 = rounds.iter().skip(from).take(length).map(|round| round.margin).sum();
        Self { logarithms, margin: margins / length.max(1) as f64 }
    }

    /// How likely figures as these are where `fast` is ahead of `slow` by no more than the margin.
    fn doubt(&self, fast: usize, slow: usize) -> f64 {
        let (ahead, behind) = (self.logarithms[fast], self.logarithms[slow]);
        let differences: Vec<f64> = ahead.iter().zip(behind).map(|(fast, slow)| fast - slow).collect();
        let n = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / n;
        let beyond = mean - self.margin;
        // No rounds have no mean.
        if differences.len() < 2 || beyond <= 0.0 {
            return 1.0;
        }
        let (others, freedom) = scatter(&self.logarithms, &[fast, slow]);
        let weight = freedom.min(OTHERS_WEIGHT);
        let freedom = weight + differences.len() as u32 - 1;
        // The difference of two has twice the variance of one.
        let known = 2.0 * f64::from(weight) * others;
        let own: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
        let variance = (known + own) / f64::from(freedom);
        tail(beyond / (variance / n).sqrt(), freedom)
    }
}

/// Of all figures.
fn logarithms(trials: &[Trials]) -> Vec<Vec<f64>> {
    trials.iter().map(|figures| figures.iter().map(|figure| figure.ln()).collect()).collect()
}

/// The variance of a logarithm about what its candidate does and what the round lets all do, from all candidates but `without`, and the
/// degrees of freedom that it has; 0 and 0 where nothing shows it.
///
/// By Helmert's contrasts: each candidate against the mean of those that were in at least as many rounds, about the mean of that
/// difference. These are independent of each other, whoever dropped out when.
fn scatter(logarithms: &[&[f64]], without: &[usize]) -> (f64, u32) {
    let among = (0..logarithms.len()).filter(|at| !without.contains(at) && logarithms[*at].len() > 1);
    let mut longest_first: Vec<&[f64]> = among.map(|at| logarithms[at]).collect();
    longest_first.sort_by_key(|figures| std::cmp::Reverse(figures.len()));
    let mut sums = vec![0.0; longest_first.first().map_or(0, |figures| figures.len())];
    let (mut squares, mut freedom) = (0.0, 0);
    for (before, figures) in longest_first.into_iter().enumerate() {
        let before = before as f64;
        if before > 0.0 {
            let differences = || figures.iter().zip(&sums).map(|(figure, sum)| figure - sum / before);
            let mean = differences().sum::<f64>() / figures.len() as f64;
            squares += differences().map(|d| (d - mean).powi(2)).sum::<f64>() * before / (before + 1.0);
            freedom += figures.len() as u32 - 1;
        }
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
    }
    (squares / f64::from(freedom.max(1)), freedom)
}

/// By what factor two trials of one candidate usually differ, as all candidates together have shown it; `None` while nothing shows it.
pub fn noise(trials: &[Trials]) -> Option<f64> {
    let (variance, freedom) = scatter(&Window::new(&logarithms(trials), &[], 0).logarithms, &[]);
    (freedom > 0).then(|| (2.0 * variance).sqrt().exp())
}

/// How fast `one` is by `other`: the geometric mean of the ratios of the rounds that both were in, by their weights. 1 where there are none.
pub fn by(one: &[f64], other: &[f64], rounds: &[Round]) -> f64 {
    let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    mean_logarithm(&ratios, rounds).exp()
}

/// Those of `among` from the best to the worst: by the rounds that they were in, then by their mean.
pub fn order(trials: &[Trials], rounds: &[Round], among: &[usize]) -> Vec<usize> {
    let mut order = among.to_vec();
    let mean = |at: usize| mean_logarithm(&trials[at], rounds);
    order.sort_by(|&a, &b| trials[b].len().cmp(&trials[a].len()).then(mean(b).total_cmp(&mean(a))));
    order
}

/// The mean logarithm of figures by the weights of their rounds, from the first; 0 of none.
fn mean_logarithm(figures: &[f64], rounds: &[Round]) -> f64 {
    let (sum, weights) = figures
        .iter()
        .zip(rounds)
        .fold((0.0, 0.0), |(sum, weights), (figure, round)| (sum + round.weight * figure.ln(), weights + round.weight));
    if weights > 0.0 { sum / weights } else { 0.0 }
}

#[cfg(test)]
pub(super) mod tests;
