//! What the builder makes of vertices and edges, and what it refuses.

mod common;

use std::collections::BTreeMap;

use biombo_planner::{
    GraphBuilder, Objective, PARTS_MAX, Part, PlanError, Request, TOTAL_MAX, Vertex, planner, planners,
};
use proptest::prelude::*;

#[test]
fn what_makes_no_graph_is_refused_and_changes_nothing() {
    let mut builder = GraphBuilder::new();
    let a = builder.vertex(1, 1, Part(0)).expect("a vertex");
    let b = builder.vertex(1, 1, Part(PARTS_MAX - 1)).expect("a vertex");
    let before = builder.clone().build();
    assert_eq!(builder.edge(a, a, 1), Err(PlanError::SelfLoop(0)));
    assert_eq!(builder.edge(a, Vertex(2), 1), Err(PlanError::UnknownVertex(2)));
    assert_eq!(builder.edge(a, b, 0), Err(PlanError::EmptyEdge(0, 1)));
    assert_eq!(builder.edge(a, b, u64::MAX), Err(PlanError::TotalTooLarge("edge weights")));
    assert_eq!(builder.vertex(1, 1, Part(PARTS_MAX)), Err(PlanError::UnknownPart(PARTS_MAX)));
    assert_eq!(builder.vertex(TOTAL_MAX, 1, Part(0)), Err(PlanError::TotalTooLarge("loads")));
    assert_eq!(builder.vertex(1, TOTAL_MAX, Part(0)), Err(PlanError::TotalTooLarge("bytes")));
    assert_eq!(builder.clone().build(), before);
    builder.edge(a, b, TOTAL_MAX).expect("the largest weight");
    assert_eq!(builder.edge(b, a, 1), Err(PlanError::TotalTooLarge("edge weights")));
}

#[test]
fn requests_and_objectives_out_of_range_are_refused() {
    assert_eq!(Request::new(0), Err(PlanError::Parts(0)));
    assert_eq!(Request::new(PARTS_MAX + 1), Err(PlanError::Parts(PARTS_MAX + 1)));
    for slack in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Request::new(2).expect("two parts").slack(slack).is_err(), "{slack}");
    }
    assert!(Objective::new(0).is_err());
    let two = Objective::new(2).expect("two parts");
    assert!(two.clone().workers(&[0], 1).is_err());
    assert!(two.clone().workers(&[0, 1], 1).is_err());
    let graph = common::graph(&[(1, 1, 0), (1, 1, 1)], &[]);
    assert!(two.assess(&graph, &[Part(0)]).is_err());
    assert!(two.assess(&graph, &[Part(0), Part(2)]).is_err());
}

#[test]
fn a_planner_that_is_not_there_is_answered_with_those_that_are() {
    let message = planner("kahip").err().map(|error| error.to_string()).expect("no such planner");
    for known in planners() {
        assert!(message.contains(known.name()), "{message}");
        assert_eq!(planner(known.name()).map(|found| found.name()), Ok(known.name()));
    }
    assert_eq!(planner("metis").is_ok(), cfg!(feature = "metis"));
}

proptest! {
    #[test]
    fn the_rows_hold_each_edge_at_both_ends_with_the_sum_of_its_parallels(
        count in 1usize..30,
        edges in proptest::collection::vec((0usize..30, 0usize..30, 1u64..100), 0..100),
    ) {
        let edges: Vec<_> = edges.into_iter().map(|(a, b, w)| (a % count, b % count, w)).collect();
        let graph = common::graph(&vec![(1, 1, 0); count], &edges);
        let mut model: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for (a, b, weight) in edges.iter().filter(|(a, b, _)| a != b) {
            *model.entry((*a, *b)).or_default() += weight;
            *model.entry((*b, *a)).or_default() += weight;
        }
        let rows: Vec<_> = graph
            .vertices()
            .flat_map(|v| graph.neighbours(v).map(move |(u, w)| ((v.index(), u.index()), w)))
            .collect();
        prop_assert_eq!(2 * graph.edge_count(), model.len());
        prop_assert_eq!(2 * graph.weight_total(), model.values().sum::<u64>());
        prop_assert_eq!(rows, model.into_iter().collect::<Vec<_>>());
    }
}
