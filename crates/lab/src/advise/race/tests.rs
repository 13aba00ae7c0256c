//! Races over synthetic figures, and what the promise of the race means in hundreds of them.

use super::*;
use crate::workload::Random;

const ERROR: f64 = 0.05;

/// Rounds of trials that are alike and have all the data.
fn alike(rounds: usize) -> Vec<Round> {
    vec![Round { weight: 1.0, margin: 0.0 }; rounds]
}

/// A race over synthetic figures; the candidates that are left, and how many trials it took.
fn run(candidates: usize, rounds: usize, mut figure: impl FnMut(usize, usize) -> f64) -> (Vec<usize>, usize) {
    let mut trials: Vec<Trials> = vec![Vec::new(); candidates];
    let mut running: Vec<usize> = (0..candidates).collect();
    let alike = alike(rounds);
    for round in 0..rounds {
        if running.len() == 1 {
            break;
        }
        running.iter().for_each(|&at| trials[at].push(figure(at, round)));
        let out: Vec<usize> = beaten(&trials, &alike, ERROR).into_iter().map(|(slow, _)| slow).collect();
        running.retain(|at| !out.contains(at));
    }
    (running, trials.iter().map(Vec::len).sum())
}

/// A normal figure, by Box and Muller.
pub(in crate::advise) fn normal(random: &mut Random) -> f64 {
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
    assert!(beaten(&[vec![100.0], vec![1.0], vec![90.0]], &alike(1), ERROR).is_empty());
    assert!(beaten(&[vec![100.0, 110.0], vec![50.0, 50.0]], &alike(2), ERROR).is_empty());
    // Among many that agree it is another matter.
    let mut many: Vec<Trials> = (0..10).map(|at| vec![100.0 + f64::from(at), 101.0 + f64::from(at % 3)]).collect();
    many.push(vec![50.0, 51.0]);
    assert_eq!(beaten(&many, &alike(2), ERROR).into_iter().map(|(slow, _)| slow).collect::<Vec<_>>(), [10]);
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
    let logarithms = logarithms(&trials);
    let all: Vec<&[f64]> = logarithms.iter().map(Vec::as_slice).collect();
    let (variance, freedom) = scatter(&all, &[]);
    let expected: usize = trials.iter().skip(1).map(|trials| trials.len() - 1).sum();
    // Some 600 degrees of freedom: three deviations are 9 % of the deviation.
    assert_eq!(freedom as usize, expected);
    assert!((variance.sqrt() / 0.3 - 1.0).abs() < 0.09, "{}", variance.sqrt());
    assert!((noise(&trials).unwrap() / (0.3 * 2f64.sqrt()).exp() - 1.0).abs() < 0.05);
    assert_eq!(scatter(&all[..2], &[0, 1]), (0.0, 0));
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
    assert_eq!(beaten(&trials, &alike(6), ERROR), [(2, 0), (3, 0)]);
    assert_eq!(order(&trials, &alike(6), &[0, 1, 2, 3]), [0, 2, 3, 1]);
    let all = alike(6);
    assert!((by(&trials[1], &trials[0], &all) - 0.01).abs() < 1e-12 && by(&[], &trials[0], &all) == 1.0);
    assert!(beaten(&[], &all, ERROR).is_empty() && beaten(&[vec![], vec![]], &all, ERROR).is_empty());
    assert!(beaten(&[vec![5.0; 9]], &alike(9), ERROR).is_empty());
    // Whatever the figures: one that beats is never itself beaten, so that somebody is left.
    let alike_figures = vec![vec![7.0, 8.0, 9.0]; 4];
    assert!(beaten(&alike_figures, &all, ERROR).is_empty());
}

#[test]
fn levels_add_up_to_the_error_over_all_rivals_and_rounds() {
    let spent: f64 = (1..100_000).map(|round| 11.0 * level(round, 12, ERROR)).sum();
    assert!(spent <= ERROR && spent > 0.999 * ERROR, "{spent}");
}

/// How many of 600 races lose the first of `candidates` that are all alike, where a round's figures scatter by `spread(round)`.
fn lost_where(candidates: usize, rounds: usize, spread: impl Fn(usize) -> f64) -> usize {
    let once = |seed| {
        let mut random = Random::new(seed, 5);
        !run(candidates, rounds, |_, round| (10.0 + spread(round) * normal(&mut random)).exp()).0.contains(&0)
    };
    (0..600).filter(|seed| once(*seed)).count()
}

#[test]
fn rounds_that_scatter_less_and_less_or_in_turns_cost_the_best_no_more() {
    // As trials grow; as where one round in three is disturbed; and as where all but the first rounds are exact.
    let halving = |round: usize| 0.3 * 0.7f64.powi(round as i32);
    let disturbed = |round: usize| if round.is_multiple_of(3) { 0.5 } else { 0.05 };
    let exact = |round: usize| if round < 2 { 0.5 } else { 0.01 };
    for (candidates, rounds) in [(2, 20), (3, 20), (12, 12), (20, 6)] {
        let lost = [
            lost_where(candidates, rounds, halving),
            lost_where(candidates, rounds, disturbed),
            lost_where(candidates, rounds, exact),
        ];
        assert!(
            lost.iter().all(|lost| *lost <= 46),
            "{candidates} candidates, {rounds} rounds: lost in {lost:?} of 600"
        );
    }
}

#[test]
fn whoever_is_ahead_by_less_than_the_margin_drops_nobody() {
    let ahead = |by: f64| -> Vec<Trials> {
        let noise = [0.001, -0.001, 0.0012, -0.0008, 0.0004, -0.0009];
        let quick = noise.iter().map(|noise| (by + noise).exp()).collect();
        vec![quick, noise.iter().map(|noise| (noise / 2.0).exp()).collect()]
    };
    let rounds = |margin: f64| vec![Round { weight: 1.0, margin }; 6];
    assert_eq!(beaten(&ahead(0.2), &rounds(0.0), ERROR), [(1, 0)]);
    assert!(beaten(&ahead(0.2), &rounds(0.3), ERROR).is_empty());
    assert_eq!(beaten(&ahead(0.5), &rounds(0.3), ERROR), [(1, 0)]);
    // Margins that fall are met by their mean, of all rounds or of the later half.
    let falling: Vec<Round> = (0..6).map(|i| Round { weight: 1.0, margin: 0.4 - 0.08 * f64::from(i) }).collect();
    assert_eq!(beaten(&ahead(0.15), &falling, ERROR), [(1, 0)], "the later half has a margin of 0.08");
    let early: Vec<Trials> = ahead(0.15).iter().map(|figures| figures[..3].to_vec()).collect();
    assert!(beaten(&early, &falling, ERROR).is_empty(), "the first rounds have more");
}

#[test]
fn what_short_rounds_hide_the_later_half_shows() {
    // Two disturbed rounds, against the faster one, then five exact ones.
    let fast = [0.2, 1.4, 1.31, 1.30, 1.30, 1.31, 1.30];
    let slow = [1.0, 1.0, 1.00, 1.01, 1.00, 1.00, 1.01];
    let window = |from: usize| {
        let logarithms = logarithms(&[fast.to_vec(), slow.to_vec()]);
        Window::new(&logarithms, &alike(7), from).doubt(0, 1)
    };
    assert!(window(0) > 0.2 && window(3) < 1e-5, "{} and {}", window(0), window(3));
    // The weights put the faster one first, as the test demands of whoever beats.
    let rounds: Vec<Round> =
        [1.0, 1.0, 4.0, 4.0, 8.0, 8.0, 8.0].into_iter().map(|weight| Round { weight, margin: 0.0 }).collect();
    assert_eq!(beaten(&[fast.to_vec(), slow.to_vec()], &rounds, ERROR), [(1, 0)]);
    assert!(by(&fast, &slow, &rounds) > 1.15 && by(&fast, &slow, &alike(7)) < 1.1);
    assert_eq!(beginnings(3).collect::<Vec<_>>(), [0]);
    assert_eq!(beginnings(7).collect::<Vec<_>>(), [0, 3]);
}
