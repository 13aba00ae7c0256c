//! The governor moves where it pays and stays where it does not, whatever the workload does.

use biombo_planner::{Assessment, Governor, Proposal, Rules, Verdict};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const HORIZON_NS: f64 = 60e9;

fn assessment(moved_units: u64) -> Assessment {
    Assessment {
        part_loads: vec![],
        worker_loads: vec![],
        part_balance: 1.0,
        worker_balance: 1.0,
        part_overload: 0.0,
        worker_overload: 0.0,
        cut: 0,
        weight_total: 0,
        moved_bytes: moved_units,
        moved_units,
        ways: moved_units,
    }
}

/// A proposal to save a share of the time over the horizon, for a cost.
fn proposal(saving_share: f64, cost_ns: f64) -> Proposal {
    Proposal {
        plan: vec![],
        before: assessment(0),
        after: assessment(1),
        saving_ns: saving_share * HORIZON_NS,
        cost_ns,
        horizon_ns: HORIZON_NS,
    }
}

fn governor() -> Governor {
    Governor::new(Rules::default(), 0).expect("rules")
}

/// Runs `seconds` of a world that answers each second's plan: what a second of the present placement saves of what was predicted.
struct Run {
    plans: Vec<u64>,
    spent_ns: f64,
    saved_ns: f64,
}

fn run(
    governor: &mut Governor,
    seconds: u64,
    mut world: impl FnMut(u64, Option<u64>) -> (Option<Proposal>, f64),
) -> Run {
    let mut run = Run { plans: Vec::new(), spent_ns: 0.0, saved_ns: 0.0 };
    for second in 1..=seconds {
        let now = second * SECOND;
        let (proposal, saved_ns) = world(second, run.plans.last().copied());
        governor.observe(now, saved_ns);
        run.saved_ns += saved_ns;
        if let Some(proposal) = proposal
            && governor.decide(now, &proposal) == Verdict::Go
        {
            governor.moved(now, proposal.cost_ns);
            run.plans.push(second);
            run.spent_ns += proposal.cost_ns;
        }
    }
    run
}

#[test]
fn a_gain_that_lasts_is_taken_at_once_and_once() {
    let mut governor = governor();
    let run = run(&mut governor, 600, |_, planned| match planned {
        None => (Some(proposal(0.2, 0.2e9)), 0.0),
        // Noise proposes a little all the time.
        Some(_) => (Some(proposal(0.001, 1e6)), 0.2e9),
    });
    assert_eq!(run.plans, [1]);
    assert!(governor.trust() > 0.9 && governor.trust() < 1.1, "{}", governor.trust());
}

#[test]
fn hot_sets_that_jump_are_followed_each_time() {
    // Every 20 seconds the placement is worthless; a plan then saves 30 % of the time.
    let mut governor = governor();
    let run = run(&mut governor, 600, |second, planned| {
        let epoch = second / 20;
        let good = planned.is_some_and(|at| at / 20 == epoch);
        if good { (None, 0.3e9) } else { (Some(proposal(0.3, 0.3e9)), 0.0) }
    });
    assert!(run.plans.len() >= 28, "only {} of 30 jumps were followed", run.plans.len());
    assert!(run.saved_ns > 10.0 * run.spent_ns);
}

#[test]
fn somebody_who_undoes_every_plan_makes_it_back_off() {
    let rules = Rules::default();
    for hours in [1u64, 10, 100] {
        let mut governor = governor();
        let seconds = hours * 3600;
        // Promises much each time, gives nothing, and even takes.
        for taken in [0.0, -0.1e9] {
            let run = run(&mut governor, seconds, |_, planned| {
                (Some(proposal(0.5, 0.05e9)), if planned.is_some() { taken } else { 0.0 })
            });
            let doublings = (rules.rest_max_ns / rules.rest_ns).ilog2() as u64;
            let bound = 2 + doublings + seconds * SECOND / rules.rest_max_ns;
            assert!(run.plans.len() as u64 <= bound, "{} plans in {hours} h, at most {bound}", run.plans.len());
            assert!(!run.plans.is_empty());
            let loss = rules.allowance_ns + rules.loss_share * (seconds * SECOND) as f64;
            assert!(run.spent_ns <= loss, "{} ns of {loss}", run.spent_ns);
            // The gaps grow.
            let gaps: Vec<u64> = run.plans.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps[..6].is_sorted(), "{gaps:?}");
            governor = Governor::new(rules, 0).expect("rules");
        }
    }
}

#[test]
fn after_an_adversary_a_workload_that_can_be_helped_is_helped_again() {
    let mut governor = governor();
    run(&mut governor, 3600, |_, _| (Some(proposal(0.5, 0.05e9)), 0.0));
    let mut later = governor.clone();
    let begin = 3600;
    let mut planned = None;
    for second in begin + 1..=begin + 600 {
        let now = second * SECOND;
        later.observe(now, if planned.is_some() { 0.5e9 } else { 0.0 });
        if planned.is_none() && later.decide(now, &proposal(0.5, 0.05e9)) == Verdict::Go {
            later.moved(now, 0.05e9);
            planned = Some(second - begin);
        }
    }
    assert!(planned.is_some_and(|after| after <= 260), "{planned:?}");
}

#[test]
fn each_reason_to_stay_is_named() {
    let mut governor = governor();
    let mut idle = proposal(0.5, 1e6);
    idle.after = assessment(0);
    assert_eq!(governor.decide(0, &idle), Verdict::NothingToMove);
    assert_eq!(governor.decide(0, &proposal(0.001, 0.0)), Verdict::TooLittle);
    assert_eq!(governor.decide(0, &proposal(f64::NAN, 0.0)), Verdict::TooLittle);
    assert_eq!(governor.decide(0, &proposal(0.005, 0.29e9)), Verdict::NotWorthIt);
    assert_eq!(governor.decide(0, &proposal(0.5, f64::NAN)), Verdict::NotWorthIt);
    assert_eq!(governor.decide(0, &proposal(0.5, 0.6e9)), Verdict::NoCredit);
    assert_eq!(governor.decide(0, &proposal(0.5, 0.4e9)), Verdict::Go);
    assert_eq!(governor.decide(0, &proposal(0.5, 1e6)), Verdict::OneAtATime);
    governor.moved(SECOND, 0.4e9);
    assert_eq!(governor.decide(2 * SECOND, &proposal(0.5, 1e6)), Verdict::OneAtATime);
    let outcome = governor.observe(3 * SECOND, 0.0).expect("the end of the trial");
    assert!(!outcome.kept);
    assert_eq!(outcome.predicted_ns, 1e9);
    assert_eq!(governor.decide(3 * SECOND, &proposal(0.5, 1e6)), Verdict::Resting { until_ns: 4 * SECOND });
}

#[test]
fn predictions_are_corrected_within_bounds_and_errors_are_forgotten() {
    let mut governor = governor();
    // Saves a tenth of the prediction, costs five times it.
    for at in 0..40 {
        let now = at * 1000 * SECOND;
        if governor.decide(now, &proposal(0.5, 1e6)) == Verdict::Go {
            governor.moved(now, 5e6);
            governor.observe(now + 2 * SECOND, 0.1e9);
        }
        assert!((1.0 / 16.0..=2.0).contains(&governor.trust()) && (0.25..=16.0).contains(&governor.price()));
    }
    assert!(governor.trust() < 0.6 && governor.price() > 2.5, "{governor:?}");
    governor.decide(1_000_000 * SECOND, &proposal(0.0, 0.0));
    assert!((governor.trust() - 1.0).abs() < 0.01 && (governor.price() - 1.0).abs() < 0.01, "{governor:?}");
}

#[test]
fn a_plan_that_is_given_up_is_paid_for_and_followed_by_a_rest() {
    let mut governor = governor();
    assert_eq!(governor.decide(0, &proposal(0.5, 0.2e9)), Verdict::Go);
    governor.given_up(0, 0.1e9);
    assert!((governor.credit_ns() - 0.4e9).abs() < 1.0);
    assert_eq!(governor.decide(0, &proposal(0.5, 1e6)), Verdict::Resting { until_ns: SECOND });
}

/// (Mutations: what was taken for the whole plan kept, a cost that is compared with the whole plan's, a trial of the part, no rest.)
#[test]
fn what_is_moved_to_learn_from_is_paid_for_and_judged_by_nobody_and_followed_by_a_rest_where_it_taught_nothing() {
    let mut governor = governor();
    assert_eq!(governor.decide(0, &proposal(0.5, 0.2e9)), Verdict::Go);
    governor.probed(0, 0.01e9);
    assert!((governor.credit_ns() - 0.49e9).abs() < 1.0, "{}", governor.credit_ns());
    assert_eq!((governor.price(), governor.trust(), governor.observe(0, 0.0)), (1.0, 1.0, None));
    assert_eq!(governor.decide(0, &proposal(0.5, 0.2e9)), Verdict::Go);
    governor.probed(0, 0.01e9);
    governor.learnt_nothing(0);
    assert_eq!(governor.decide(0, &proposal(0.5, 1e6)), Verdict::Resting { until_ns: SECOND });
    // A margin of 1.5 as before, not of 3, and a longer rest the next time.
    assert_eq!(governor.decide(SECOND, &proposal(0.005, 0.3e9 / 1.7)), Verdict::Go);
    governor.probed(SECOND, 0.0);
    governor.learnt_nothing(SECOND);
    assert_eq!(governor.decide(SECOND, &proposal(0.5, 1e6)), Verdict::Resting { until_ns: 3 * SECOND });
}

/// Carries out a plan at `now`, of which a share of the promise comes true, and gives the end of the trial.
fn carry_out(governor: &mut Governor, now: u64, share: f64, cost_times: f64) -> u64 {
    assert_eq!(governor.decide(now, &proposal(0.5, 1e6)), Verdict::Go);
    governor.moved(now, cost_times * 1e6);
    let end = now + Rules::default().trial_ns;
    assert!(governor.observe(end, share * 1e9).is_some());
    end
}

#[test]
fn what_was_learnt_decides() {
    // Saves 1.7 times its cost: enough for a margin of 1.5 as long as the model is trusted.
    let narrow = proposal(0.005, 0.3e9 / 1.7);
    assert_eq!(governor().decide(0, &narrow), Verdict::Go);
    let mut doubted = governor();
    let end = carry_out(&mut doubted, 0, 0.6, 1.0);
    assert_eq!(doubted.decide(end, &narrow), Verdict::NotWorthIt);
    let mut dear = governor();
    let end = carry_out(&mut dear, 0, 1.0, 2.0);
    assert_eq!(dear.decide(end, &narrow), Verdict::NotWorthIt);
}

#[test]
fn disappointments_raise_margin_and_rest_and_kept_promises_lower_them() {
    // Corrections are forgotten at once, so that only the margin is seen.
    let mut governor = Governor::new(Rules { forget_ns: 1, ..Rules::default() }, 0).expect("rules");
    let twice = proposal(0.005, 0.15e9);
    let rest_of = |governor: &mut Governor, now: u64| match governor.decide(now, &twice) {
        Verdict::Resting { until_ns } => (until_ns - now) / SECOND,
        verdict => panic!("{verdict:?}"),
    };
    let mut now = carry_out(&mut governor, 0, 0.0, 1.0);
    assert_eq!(rest_of(&mut governor, now), 1);
    assert_eq!(governor.decide(now + SECOND, &twice), Verdict::NotWorthIt);
    now = carry_out(&mut governor, now + SECOND, 0.0, 1.0);
    assert_eq!(rest_of(&mut governor, now), 2);
    // Margin 6 and a next rest of 4: two promises kept bring 1.5 and 1.
    now = carry_out(&mut governor, now + 2 * SECOND, 1.0, 1.0);
    assert_eq!(governor.decide(now + SECOND, &twice), Verdict::NotWorthIt);
    now = carry_out(&mut governor, now + SECOND, 1.0, 1.0);
    let mut other = governor.clone();
    assert_eq!(other.decide(now + SECOND, &twice), Verdict::Go);
    now = carry_out(&mut governor, now + SECOND, 0.0, 1.0);
    assert_eq!(rest_of(&mut governor, now), 1);
}

#[test]
fn time_fills_the_account_up_to_the_allowance_and_savings_that_are_no_number_do_nothing() {
    let rules = Rules::default();
    let mut governor = governor();
    assert_eq!(governor.decide(0, &proposal(0.5, 0.4e9)), Verdict::Go);
    governor.moved(0, 0.4e9);
    assert_eq!(governor.observe(SECOND, f64::NAN), None);
    assert!((governor.credit_ns() - 0.1e9 - rules.loss_share * 1e9).abs() < 1.0, "{}", governor.credit_ns());
    governor.decide(1_000_000 * SECOND, &proposal(0.0, 0.0));
    assert_eq!(governor.credit_ns(), rules.allowance_ns);
    // A great loss is not carried further than an allowance below nothing.
    governor.observe(1_000_001 * SECOND, -1e15);
    assert!(governor.credit_ns() >= -rules.allowance_ns);
}

#[test]
fn rules_out_of_range_are_refused() {
    let good = Rules::default();
    for bad in [
        Rules { margin: 0.5, ..good },
        Rules { margin: f64::NAN, ..good },
        Rules { saving_share_min: -0.1, ..good },
        Rules { allowance_ns: f64::INFINITY, ..good },
        Rules { loss_share: 1.5, ..good },
        Rules { trial_ns: 0, ..good },
        Rules { rest_ns: 0, ..good },
        Rules { rest_max_ns: 1, ..good },
        Rules { forget_ns: 0, ..good },
    ] {
        assert!(Governor::new(bad, 0).is_err(), "{bad:?}");
    }
}

#[derive(Debug, Clone)]
enum Event {
    Decide { saving_share: f64, cost_ns: f64 },
    Moved { times: f64 },
    GivenUp { times: f64 },
    Observe { saved_ns: f64 },
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => (0.0f64..1.0, 0.0f64..0.6e9).prop_map(|(saving_share, cost_ns)| Event::Decide { saving_share, cost_ns }),
        3 => (0.0f64..3.0).prop_map(|times| Event::Moved { times }),
        1 => (0.0f64..3.0).prop_map(|times| Event::GivenUp { times }),
        4 => prop_oneof![-1e9f64..1e9, Just(f64::NAN), Just(0.0)].prop_map(|saved_ns| Event::Observe { saved_ns }),
    ];
    proptest::collection::vec((0..5 * SECOND, event), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever happens, in whatever order: the account bounds what is spent, and one plan runs at a time.
    #[test]
    fn no_history_spends_more_than_the_allowance_the_share_of_time_and_the_savings(events in events()) {
        let rules = Rules { margin: 1.0, rest_ns: 1, rest_max_ns: 1, trial_ns: 1, ..Rules::default() };
        let mut governor = Governor::new(rules, 0).expect("rules");
        let (mut now, mut spent, mut saved, mut moving) = (0, 0.0, 0.0, None);
        let mut overshoot = 0.0f64;
        for (step, event) in events {
            now += step;
            match event {
                Event::Decide { saving_share, cost_ns } => {
                    if governor.decide(now, &proposal(saving_share, cost_ns)) == Verdict::Go {
                        prop_assert!(moving.is_none(), "two plans at a time");
                        moving = Some(cost_ns);
                    }
                }
                Event::Moved { times } | Event::GivenUp { times } => {
                    // Costs come up without a plan, too, but the bound is one for plans.
                    let Some(cost) = moving.take() else { continue };
                    let cost_ns = times * cost;
                    let before = governor.price();
                    match event {
                        Event::Moved { .. } => governor.moved(now, cost_ns),
                        _ => governor.given_up(now, cost_ns),
                    }
                    spent += cost_ns;
                    overshoot = overshoot.max(cost_ns - before.min(governor.price()) * cost);
                    prop_assert!(overshoot <= 3.0 * 0.6e9);
                }
                Event::Observe { saved_ns } => {
                    governor.observe(now, saved_ns);
                    saved += if saved_ns > 0.0 { saved_ns } else { 0.0 };
                }
            }
            let bound = rules.allowance_ns + rules.loss_share * now as f64 + saved + 3.0 * 0.6e9;
            prop_assert!(spent <= bound * (1.0 + 1e-9), "spent {spent} of {bound}");
            prop_assert!(governor.trust() >= 1.0 / 16.0 && governor.trust() <= 2.0);
            prop_assert!(governor.price() >= 0.25 && governor.price() <= 16.0);
        }
    }
}
