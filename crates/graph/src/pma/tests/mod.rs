//! The graph is what a model says, in every dynamic layout: now, in snapshots that are kept, and while several write.

mod archive;
pub(super) mod concurrent;
mod layout;
pub(super) mod model;
mod section;
mod turn;

use proptest::prelude::*;

use super::*;
use crate::csr::Csr;
use crate::{adjacency, buffered};
use model::Model;

/// A check of each dynamic layout.
macro_rules! over_layouts {
    ($check:ident($($argument:expr),*)) => {{
        $check::<Image>($($argument),*);
        $check::<adjacency::Section>($($argument),*);
        $check::<buffered::Section>($($argument),*);
    }};
}
use over_layouts;

fn team() -> Team {
    Team::new(2).unwrap()
}

/// The graph of some edges between dense ids, and its model.
fn loaded<L: Layout>(vertices: usize, edges: &[Edge], shape: Shape, tuning: Tuning) -> (Changing<L>, Model) {
    let csr = Csr::build(vertices, edges, shape, &mut team()).unwrap();
    let graph = Changing::from_view_tuned(&csr, &Ids::dense(vertices), shape.keeps_loops, tuning, &mut team()).unwrap();
    let mut model = Model::new(shape);
    let insertions = edges.iter().map(|[a, b]| Update::InsertEdge((*a).into(), (*b).into()));
    model.apply(&(0..vertices as u64).map(Update::InsertVertex).chain(insertions).collect::<Vec<_>>());
    (graph, model)
}

#[test]
fn a_graph_begins_without_anything() {
    over_layouts!(begins_without_anything());
}

fn begins_without_anything<L: Layout>() {
    for shape in [Shape::DIRECTED, Shape::UNDIRECTED, Shape::GAP] {
        let graph = Changing::<L>::new(shape).unwrap();
        let snapshot = graph.snapshot(&mut team()).unwrap();
        assert_eq!((snapshot.vertices(), snapshot.edges(), snapshot.sequence()), (0, 0, 0));
        Model::new(shape).check(&snapshot).unwrap();
        assert_eq!((graph.neighbors(0), snapshot.vertex(0), snapshot.id(0)), (None, None, None));
        assert!(snapshot.blocks().is_empty());
        graph.apply(&[Update::DeleteEdge(1, 2), Update::DeleteVertex(3)]).unwrap();
        assert_eq!(graph.vertices(), 0, "deleting what is not there makes nothing");
    }
}

#[test]
fn vertex_0_loops_repeated_edges_and_huge_ids_are_as_good_as_others() {
    over_layouts!(takes_any_ids());
}

fn takes_any_ids<L: Layout>() {
    let batch = [
        Update::InsertEdge(0, 0),
        Update::InsertEdge(0, u64::MAX),
        Update::InsertEdge(u64::MAX, 0),
        Update::InsertEdge(0, u64::MAX),
        Update::InsertVertex(1 << 33),
        Update::InsertEdge(1 << 32, 0),
        Update::DeleteEdge(0, 5),
    ];
    for shape in [Shape::DIRECTED, Shape::UNDIRECTED, Shape::GAP] {
        let (graph, mut model) = (Changing::<L>::new(shape).unwrap(), Model::new(shape));
        for batch in [&batch[..], &[Update::DeleteEdge(0, 0)], &[Update::DeleteVertex(0)], &batch[..]] {
            graph.apply(batch).unwrap();
            model.apply(batch);
            model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_vertex_that_goes_leaves_no_hole_and_may_come_back() {
    over_layouts!(leaves_no_hole());
}

fn leaves_no_hole<L: Layout>() {
    let edges: Vec<Edge> = (0..3000u32).flat_map(|v| [[v, (v * 7 + 1) % 3000], [v, v], [0, v]]).collect();
    for shape in [Shape::DIRECTED, Shape::UNDIRECTED] {
        let (graph, mut model) = loaded::<L>(3000, &edges, shape, L::TUNING);
        for id in [0, 2999, 1500, 2998, 0] {
            let before = graph.snapshot(&mut team()).unwrap();
            let kept = model.clone();
            let batch = [Update::InsertEdge(id, 17), Update::DeleteVertex(id), Update::InsertEdge(9, 10)];
            graph.apply(&batch).unwrap();
            model.apply(&batch);
            model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
            kept.check(&before).unwrap();
            graph.apply(&[Update::InsertEdge(id, 3)]).unwrap();
            model.apply(&[Update::InsertEdge(id, 3)]);
        }
        model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
    }
}

#[test]
fn an_edge_may_be_named_from_either_end_in_one_batch() {
    over_layouts!(takes_edges_from_either_end());
}

fn takes_edges_from_either_end<L: Layout>() {
    for shape in [Shape::UNDIRECTED, Shape::DIRECTED] {
        let (graph, mut model) = loaded::<L>(3, &[[0, 2]], shape, L::TUNING);
        for batch in [
            [Update::DeleteEdge(2, 0), Update::InsertEdge(0, 2)],
            [Update::InsertEdge(0, 2), Update::DeleteEdge(2, 0)],
            [Update::InsertEdge(2, 0), Update::InsertEdge(0, 2)],
        ] {
            graph.apply(&batch).unwrap();
            model.apply(&batch);
            model.check(&graph.snapshot(&mut team()).unwrap()).unwrap();
        }
    }
}

#[test]
fn ids_of_another_number_are_refused() {
    let csr = Csr::build(3, &[], Shape::DIRECTED, &mut team()).unwrap();
    let refused = Pma::from_view(&csr, &Ids::dense(4), true, &mut team()).unwrap_err();
    assert!(refused.to_string().contains("4 ids of 3 vertices"), "{refused}");
}

/// Few ids make loops, repeated edges and deletions of what is there common; others fill several sections.
pub(super) fn id() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..12u64, 4 => 0..2500u64, 1 => (1 << 40)..(1u64 << 40) + 4, 1 => Just(u64::MAX)]
}

pub(super) fn update() -> impl Strategy<Value = Update> {
    prop_oneof![
        8 => (id(), id()).prop_map(|(a, b)| Update::InsertEdge(a, b)),
        5 => (id(), id()).prop_map(|(a, b)| Update::DeleteEdge(a, b)),
        1 => id().prop_map(Update::InsertVertex),
        1 => id().prop_map(Update::DeleteVertex),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<Update>),
    Keep,
    LetGo,
    Ask(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec(update(), 0..60).prop_map(Step::Apply),
        2 => proptest::collection::vec((id(), id()), 1..200)
            .prop_map(|edges| Step::Apply(edges.into_iter().map(|(a, b)| Update::InsertEdge(a, b)).collect())),
        2 => Just(Step::Keep),
        1 => Just(Step::LetGo),
        1 => id().prop_map(Step::Ask),
    ]
}

/// The graph of some edges between dense ids, changed step by step, is what a model says, and so are snapshots that are kept.
fn model_holds<L: Layout>(
    vertices: usize,
    edges: &[Edge],
    steps: Vec<Step>,
    shape: Shape,
    is_eager: bool,
) -> Result<(), TestCaseError> {
    let tuning = if is_eager { Tuning::EAGER } else { L::TUNING };
    let (graph, mut model) = loaded::<L>(vertices, edges, shape, tuning);
    let (mut team, mut kept, mut sequence) = (Team::new(1).unwrap(), Vec::new(), 0);
    for step in steps {
        match step {
            Step::Apply(updates) => {
                sequence += 1;
                prop_assert_eq!(graph.apply(&updates).unwrap(), sequence);
                model.apply(&updates);
            }
            Step::Keep => kept.push((graph.snapshot(&mut team).unwrap(), model.clone())),
            Step::LetGo => _ = kept.pop(),
            Step::Ask(id) => model.check_vertex(&graph, id).map_err(TestCaseError::fail)?,
        }
    }
    kept.push((graph.snapshot(&mut team).unwrap(), model));
    for (snapshot, model) in kept {
        model.check(&snapshot).map_err(TestCaseError::fail)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_graph_is_what_a_model_says_and_snapshots_stay_as_they_were(
        vertices in prop_oneof![Just(0..1u32), Just(1..2400u32)].prop_flat_map(|range| range),
        ends in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4000),
        steps in proptest::collection::vec(step(), 1..40),
        is_directed in any::<bool>(),
        keeps_loops in any::<bool>(),
        is_eager in any::<bool>(),
        layout in 0..3u8,
    ) {
        let shape = Shape { is_directed, keeps_loops };
        let ends = if vertices == 0 { Vec::new() } else { ends };
        let edges: Vec<Edge> = ends.iter().map(|(a, b)| [a % vertices, b % vertices]).collect();
        let holds = match layout {
            0 => model_holds::<Image>,
            1 => model_holds::<adjacency::Section>,
            _ => model_holds::<buffered::Section>,
        };
        holds(vertices as usize, &edges, steps, shape, is_eager)?;
    }
}

#[test]
fn loops_that_a_graph_began_with_go_though_it_keeps_no_new_ones() {
    over_layouts!(loops_go());
}

fn loops_go<L: Layout>() {
    for is_directed in [false, true] {
        let shape = Shape { is_directed, keeps_loops: true };
        let edges = [[0, 0], [1, 1], [2, 2], [0, 1], [2, 1]];
        let csr = Csr::build(3, &edges, shape, &mut team()).unwrap();
        let graph = Changing::<L>::from_view(&csr, &Ids::dense(3), false, &mut team()).unwrap();
        graph.apply(&[Update::InsertEdge(1, 1), Update::DeleteEdge(0, 0), Update::InsertEdge(0, 0)]).unwrap();
        assert_eq!(graph.neighbors(0), Some(vec![1]), "the one that went does not come again");
        graph.apply(&[Update::DeleteVertex(2)]).unwrap();
        graph.apply(&[Update::InsertVertex(9)]).unwrap();
        assert_eq!(graph.neighbors(9), Some(vec![]), "what has its number now has nothing of it");
        let snapshot = graph.snapshot(&mut team()).unwrap();
        snapshot.verify().unwrap();
        assert!(snapshot.out_neighbors(1).contains(&1), "one that nobody deleted is there");
    }
}

#[test]
fn a_loop_that_a_graph_began_with_moves_with_its_vertex() {
    over_layouts!(loop_moves());
}

/// Fails when loops are left out where a vertex gets another number, and not where updates come in.
fn loop_moves<L: Layout>() {
    for is_directed in [false, true] {
        let csr = Csr::build(3, &[[2, 2], [0, 1]], Shape { is_directed, keeps_loops: true }, &mut team()).unwrap();
        let graph = Changing::<L>::from_view(&csr, &Ids::dense(3), false, &mut team()).unwrap();
        graph.apply(&[Update::DeleteVertex(0), Update::InsertEdge(1, 1)]).unwrap();
        assert_eq!(graph.neighbors(2), Some(vec![2]), "vertex 2 has another number, and its loop");
        assert_eq!(graph.in_neighbors(2), Some(vec![2]));
        assert_eq!(graph.neighbors(1), Some(vec![]), "new ones are left out");
        // Both ends are new, so that it comes in where vertices are made.
        graph.apply(&[Update::InsertEdge(7, 7)]).unwrap();
        assert_eq!(graph.neighbors(7), Some(vec![]));
        let snapshot = graph.snapshot(&mut team()).unwrap();
        snapshot.verify().unwrap();
        assert_eq!(snapshot.edges(), 1);
        graph.apply(&[Update::DeleteEdge(2, 2)]).unwrap();
        assert_eq!(graph.neighbors(2), Some(vec![]));
    }
}
