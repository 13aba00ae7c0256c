//! Relabelling moves the fewest bytes that any names of the same parts could.

mod common;

use biombo_planner::{AccessGraph, Part, PlanError, relabel};
use common::{graph, graphs};
use proptest::prelude::*;

/// Bytes and units that move, the order of preference.
fn moved(graph: &AccessGraph, plan: &[Part]) -> (u64, usize) {
    let movers: Vec<_> = graph.vertices().filter(|v| graph.owner(*v) != plan[v.index()]).collect();
    (movers.iter().map(|v| graph.bytes(*v)).sum(), movers.len())
}

/// All orders of the labels below `k`.
fn permutations(k: u32) -> Vec<Vec<Part>> {
    if k == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(k - 1);
    let insert = |order: &Vec<Part>, at: usize| {
        let mut longer = order.clone();
        longer.insert(at, Part(k - 1));
        longer
    };
    shorter.iter().flat_map(|order| (0..k as usize).map(move |at| insert(order, at))).collect()
}

proptest! {
    #[test]
    fn no_other_names_move_less(
        graph in graphs(25, 7),
        parts in 1u32..=5,
        random in proptest::collection::vec(any::<u32>(), 25),
    ) {
        let plan: Vec<Part> = graph.vertices().map(|v| Part(random[v.index()] % parts)).collect();
        let ours = relabel(&graph, &plan, parts).expect("a plan");
        let best = permutations(parts)
            .into_iter()
            .map(|names| moved(&graph, &plan.iter().map(|part| names[part.index()]).collect::<Vec<_>>()))
            .min()
            .expect("names");
        prop_assert_eq!(moved(&graph, &ours), best);
        // The same parts under other names: who was together is, and who was not is not.
        for a in graph.vertices() {
            for b in graph.vertices() {
                prop_assert_eq!(plan[a.index()] == plan[b.index()], ours[a.index()] == ours[b.index()]);
            }
        }
    }

    #[test]
    fn names_that_were_only_shuffled_come_back(
        shuffled in Just((0..64u32).collect::<Vec<_>>()).prop_shuffle(),
        sizes in proptest::collection::vec(1u64..1_000_000, 64 * 4),
    ) {
        let graph = graph(&sizes.iter().enumerate().map(|(n, bytes)| (1, *bytes, n as u32 % 64)).collect::<Vec<_>>(), &[]);
        let plan: Vec<Part> = graph.owners().iter().map(|owner| Part(shuffled[owner.index()])).collect();
        prop_assert_eq!(relabel(&graph, &plan, 64).expect("a plan"), graph.owners());
    }
}

#[test]
fn the_largest_sums_and_many_parts_are_named_too() {
    let units: Vec<_> = (0..1024).map(|n| (1, 1 << 52, (n * 7) % 1024)).collect();
    let graph = graph(&units, &[]);
    let plan: Vec<Part> = (0..1024).map(|n| Part((n * 3 + 1) % 1024)).collect();
    assert_eq!(relabel(&graph, &plan, 1024).expect("a plan"), graph.owners());
}

#[test]
fn where_bytes_are_equal_the_fewest_units_move() {
    let graph = graph(&[(1, 0, 1), (1, 0, 1), (1, 5, 0), (1, 5, 1)], &[]);
    // Either name moves 5 bytes; the plan's part 0 has two of part 1's units.
    let plan = [Part(0), Part(0), Part(0), Part(0)];
    assert_eq!(moved(&graph, &relabel(&graph, &plan, 2).expect("labels")), (5, 1));
}

#[test]
fn a_plan_that_does_not_fit_is_refused() {
    let graph = graph(&[(1, 1, 0), (1, 1, 5)], &[]);
    assert_eq!(relabel(&graph, &[Part(0)], 2), Err(PlanError::Length { what: "the plan", given: 1, wanted: 2 }));
    assert_eq!(relabel(&graph, &[Part(0), Part(2)], 2), Err(PlanError::UnknownPart(2)));
    assert_eq!(relabel(&graph, &[], 0), Err(PlanError::Parts(0)));
    // An owner that is no more.
    assert_eq!(relabel(&graph, &[Part(1), Part(0)], 2), Ok(vec![Part(0), Part(1)]));
}
