//! Which candidates go on, as a function of what was measured, and of nothing else.
//!
//! In every round each candidate that is still in the race has one trial, one after the other, so that a drift of the machine meets all
//! alike; two candidates are compared by the logarithm of the ratio of their figures within a round (blocking: Moore and Lee, "Efficient
//! algorithms for minimizing cross validation error", 1994). A candidate is out as soon as some other is ahead of it beyond doubt, after
//! any round, and the rest go on: successive elimination (Even-Dar, Mannor and Mansour, "Action elimination and stopping conditions for
//! the multi-armed bandit and reinforcement learning problems", 2006).
//!
//! **The promise**: a candidate that no other truly beats is dropped with a probability of at most `error`, over the whole race, however
//! long it goes on. After round n a rival may drop it at the level `error` · 6 / (π² n²) / (candidates − 1); these levels add up to `error`
//! over all rivals and rounds. The promise rests on logarithms of figures that scatter normally and independently about what a candidate
//! does and what the round lets all do, and on no candidate that scatters many times as far as the rest.
//!
//! **The test** is Student's, over the differences of a pair. How far trials scatter depends on the machine, its other tenants and the
//! length of a trial: nothing is taken for known. The spread that the pair has shown is moderated by that which the
//! other candidates have shown (as Smyth does, "Linear models and empirical Bayes methods for assessing differential expression", 2004),
//! which counts as `OTHERS_WEIGHT` observations at most. So one round drops nobody, since it shows no spread; many candidates tell the
//! spread within two rounds; and with more rounds the pair speaks for itself.

use std::f64::consts::PI;

use super::student::tail;

/// Degrees of freedom that the spread of the other candidates is worth at most, beside those of the pair.
const OTHERS_WEIGHT: u32 = 6;

/// Figures of one candidate, one of each round that it was in, from the first; larger is better, and all are above 0.
pub type Trials = Vec<f64>;

/// Who is beaten beyond doubt, and by whom: pairs of places in `trials`, after the latest round. Candidates with fewer trials than the most
/// that any has are out already, and neither beat nor are beaten. Of several that beat it, the best is named.
pub fn beaten(trials: &[Trials], error: f64) -> Vec<(usize, usize)> {
    let rounds = trials.iter().map(Vec::len).max().unwrap_or(0);
    let running: Vec<usize> = (0..trials.len()).filter(|at| trials[*at].len() == rounds && rounds > 0).collect();
    let level = level(rounds, trials.len(), error);
    let best_first = order(trials, &running);
    let logarithms = logarithms(trials);
    running
        .iter()
        .filter_map(|&slow| {
            let beats = |fast: &usize| *fast != slow && doubt(&logarithms, *fast, slow) < level;
            Some((slow, *best_first.iter().find(|fast| beats(fast))?))
        })
        .collect()
}

/// How likely it is at most that a rival drops a candidate wrongly after round `round` of `candidates`.
fn level(round: usize, candidates: usize, error: f64) -> f64 {
    let rivals = candidates.saturating_sub(1).max(1) as f64;
    error * 6.0 / (PI * PI * (round * round).max(1) as f64) / rivals
}

/// How likely figures as these are where `fast` is not faster than `slow`.
fn doubt(logarithms: &[Vec<f64>], fast: usize, slow: usize) -> f64 {
    let differences: Vec<f64> =
        logarithms[fast].iter().zip(&logarithms[slow]).map(|(fast, slow)| fast - slow).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    if mean <= 0.0 || differences.len() < 2 {
        return 1.0;
    }
    let (others, freedom) = scatter(logarithms, &[fast, slow]);
    let weight = freedom.min(OTHERS_WEIGHT);
    let freedom = weight + differences.len() as u32 - 1;
    // The difference of two has twice the variance of one.
    let known = 2.0 * f64::from(weight) * others;
    let own: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    let variance = (known + own) / f64::from(freedom);
    tail(mean / (variance / n).sqrt(), freedom)
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
fn scatter(logarithms: &[Vec<f64>], without: &[usize]) -> (f64, u32) {
    let among = (0..logarithms.len()).filter(|at| !without.contains(at) && logarithms[*at].len() > 1);
    let mut longest_first: Vec<&Vec<f64>> = among.map(|at| &logarithms[at]).collect();
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
    let (variance, freedom) = scatter(&logarithms(trials), &[]);
    (freedom > 0).then(|| (2.0 * variance).sqrt().exp())
}

/// How fast `one` is by `other`: the geometric mean of the ratios of the rounds that both were in. 1 where there are none.
pub fn by(one: &[f64], other: &[f64]) -> f64 {
    let rounds = one.len().min(other.len());
    let sum: f64 = one.iter().zip(other).map(|(one, other)| (one / other).ln()).sum();
    if rounds == 0 { 1.0 } else { (sum / rounds as f64).exp() }
}

/// Those of `among` from the best to the worst: by the rounds that they were in, then by their mean.
pub fn order(trials: &[Trials], among: &[usize]) -> Vec<usize> {
    let mut order = among.to_vec();
    let mean = |at: usize| trials[at].iter().map(|figure| figure.ln()).sum::<f64>() / trials[at].len().max(1) as f64;
    order.sort_by(|&a, &b| trials[b].len().cmp(&trials[a].len()).then(mean(b).total_cmp(&mean(a))));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    const ERROR: f64 = 0.05;

    /// A race over synthetic figures; the candidates that are left, and how many trials it took.
    fn run(candidates: usize, rounds: usize, mut figure: impl FnMut(usize, usize) -> f64) -> (Vec<usize>, usize) {
        let mut trials: Vec<Trials> = vec![Vec::new(); candidates];
        let mut running: Vec<usize> = (0..candidates).collect();
        for round in 0..rounds {
            if running.len() == 1 {
                break;
            }
            running.iter().for_each(|&at| trials[at].push(figure(at, round)));
            let out: Vec<usize> = beaten(&trials, ERROR).into_iter().map(|(slow, _)| slow).collect();
            running.retain(|at| !out.contains(at));
        }
        (running, trials.iter().map(Vec::len).sum())
    }

    /// A normal figure, by Box and Muller.
    fn normal(random: &mut Random) -> f64 {
        (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (2.0 * PI * random.unit()).cos()
    }

    /// How many of `seeds` races lose the first candidate, which is `gap` ahead of the others. The logarithms of two trials side by side
    /// differ by `spread`, and the machine drifts three times as far from round to round.
    fn lost(seeds: u64, candidates: usize, rounds: usize, gap: f64, spread: f64) -> usize {
        let once = |seed| {
            let mut random = Random::new(seed, 0);
            let drift: Vec<f64> = (0..rounds).map(|_| 3.0 * spread * normal(&mut random)).collect();
            let figure = |at: usize, round: usize| {
                let ahead = if at == 0 { gap } else { 0.0 };
                (10.0 + ahead + drift[round] + spread / 2f64.sqrt() * normal(&mut random)).exp()
            };
            !run(candidates, rounds, figure).0.contains(&0)
        };
        (0..seeds).filter(|seed| once(*seed)).count()
    }

    #[test]
    fn the_best_is_lost_in_no_more_races_than_promised() {
        // As good as all the others, it is in the greatest danger. 600 races lose 30 by the promise; three deviations more are 46.
        for (candidates, rounds, spread) in
            [(2, 30, 0.15), (3, 20, 0.15), (12, 12, 0.15), (21, 8, 0.15), (12, 12, 0.01), (23, 6, 1.2)]
        {
            let lost = lost(600, candidates, rounds, 0.0, spread);
            assert!(lost <= 46, "{candidates} candidates, {rounds} rounds, spread {spread}: lost in {lost} of 600");
        }
        // A little ahead it is nearly safe.
        assert!(lost(300, 12, 20, 0.1, 0.15) <= 3);
    }

    #[test]
    fn unequal_noise_costs_the_best_no_more() {
        // Every other candidate, the best among them, is three times as noisy as the rest.
        let once = |seed| {
            let mut random = Random::new(seed, 1);
            let figure = |at: usize, _| {
                let spread = if at.is_multiple_of(2) { 0.15 } else { 0.05 };
                (10.0 + spread * normal(&mut random)).exp()
            };
            !run(10, 15, figure).0.contains(&0)
        };
        let lost = (0..600).filter(|seed| once(*seed)).count();
        assert!(lost <= 46, "lost in {lost} of 600");
    }

    #[test]
    fn one_round_drops_nobody_and_two_that_agree_by_chance_prove_little() {
        assert!(beaten(&[vec![100.0], vec![1.0], vec![90.0]], ERROR).is_empty());
        assert!(beaten(&[vec![100.0, 110.0], vec![50.0, 50.0]], ERROR).is_empty());
        // Among many that agree it is another matter.
        let mut many: Vec<Trials> = (0..10).map(|at| vec![100.0 + f64::from(at), 101.0 + f64::from(at % 3)]).collect();
        many.push(vec![50.0, 51.0]);
        assert_eq!(beaten(&many, ERROR).into_iter().map(|(slow, _)| slow).collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn the_scatter_is_what_it_was_made_with_whoever_dropped_out() {
        let mut random = Random::new(3, 4);
        let drift: Vec<f64> = (0..40).map(|_| normal(&mut random)).collect();
        let trials: Vec<Trials> = (0..30)
            .map(|at| {
                let rounds = 40 / (1 + at % 4);
                drift[..rounds].iter().map(|drift| (at as f64 + drift + 0.3 * normal(&mut random)).exp()).collect()
            })
            .collect();
        let (variance, freedom) = scatter(&logarithms(&trials), &[]);
        let expected: usize = trials.iter().skip(1).map(|trials| trials.len() - 1).sum();
        // Some 600 degrees of freedom: three deviations are 9 % of the deviation.
        assert_eq!(freedom as usize, expected);
        assert!((variance.sqrt() / 0.3 - 1.0).abs() < 0.09, "{}", variance.sqrt());
        assert!((noise(&trials).unwrap() / (0.3 * 2f64.sqrt()).exp() - 1.0).abs() < 0.05);
        assert_eq!(scatter(&logarithms(&trials[..2]), &[0, 1]), (0.0, 0));
        assert_eq!(noise(&[vec![1.0], vec![2.0]]), None);
    }

    #[test]
    fn the_slow_are_out_early_and_the_close_go_on() {
        // Half as fast, a third, a tenth; and two that are alike.
        let speeds = [100.0, 99.0, 50.0, 33.0, 10.0];
        let mut left = Vec::new();
        for seed in 0..100 {
            let mut random = Random::new(seed, 2);
            let (mut last, mut figure) = ([0; 5], |at: usize, _| speeds[at] * (0.05 * normal(&mut random)).exp());
            let (running, _) = run(5, 8, |at, round| {
                last[at] = round + 1;
                figure(at, round)
            });
            assert!(last[4] <= 3 && last[3] <= 4 && last[2] <= 5, "trials {last:?} of seed {seed}");
            left.push(running);
        }
        assert!(left.iter().filter(|running| **running == [0, 1]).count() > 90, "{left:?}");
    }

    #[test]
    fn drift_that_meets_all_alike_hides_nothing() {
        // The machine becomes a hundred times slower; one candidate stays 40 % ahead.
        let mut random = Random::new(7, 3);
        let (running, _) = run(2, 12, |at, round| {
            let speed = if at == 0 { 1.4 } else { 1.0 };
            speed * 0.01f64.powf(round as f64 / 11.0) * (0.03 * normal(&mut random)).exp()
        });
        assert_eq!(running, [0]);
    }

    #[test]
    fn who_is_out_neither_beats_nor_is_beaten_and_the_best_is_named() {
        let trials = vec![vec![100.0; 6], vec![1.0; 2], vec![60.0; 6], vec![20.0; 6]];
        assert_eq!(beaten(&trials, ERROR), [(2, 0), (3, 0)]);
        assert_eq!(order(&trials, &[0, 1, 2, 3]), [0, 2, 3, 1]);
        assert!((by(&trials[1], &trials[0]) - 0.01).abs() < 1e-12 && by(&[], &trials[0]) == 1.0);
        assert!(beaten(&[], ERROR).is_empty() && beaten(&[vec![], vec![]], ERROR).is_empty());
        assert!(beaten(&[vec![5.0; 9]], ERROR).is_empty());
        // Whatever the figures: one that beats is never itself beaten, so that somebody is left.
        let alike = vec![vec![7.0, 8.0, 9.0]; 4];
        assert!(beaten(&alike, ERROR).is_empty());
    }

    #[test]
    fn levels_add_up_to_the_error_over_all_rivals_and_rounds() {
        let spent: f64 = (1..100_000).map(|round| 11.0 * level(round, 12, ERROR)).sum();
        assert!(spent <= ERROR && spent > 0.999 * ERROR, "{spent}");
    }
}
