use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::VERTICES_MAX;
use crate::generate::Synthetic;

/// All stored edges, by a set.
fn model(edges: &[Edge], shape: Shape) -> BTreeSet<Edge> {
    let kept = edges.iter().filter(|edge| shape.keeps_loops || edge[0] != edge[1]);
    kept.flat_map(|[a, b]| if shape.is_directed { vec![[*a, *b]] } else { vec![[*a, *b], [*b, *a]] }).collect()
}

fn stored(graph: &Csr, list: impl Fn(&Csr, u32) -> Vec<u32>) -> Vec<Edge> {
    (0..graph.vertices() as u32).flat_map(|v| list(graph, v).into_iter().map(move |to| [v, to])).collect()
}

fn check(vertices: usize, edges: &[Edge], shape: Shape, team: &mut Team) {
    let graph = Csr::build(vertices, edges, shape, team).unwrap();
    let expected = model(edges, shape);
    assert_eq!(graph.vertices(), vertices);
    assert_eq!(graph.edges(), expected.len() as u64);
    assert!(stored(&graph, |graph, v| graph.out_neighbors(v).to_vec()).into_iter().eq(expected.iter().copied()));
    let turned: BTreeSet<Edge> = expected.iter().map(|[a, b]| [*b, *a]).collect();
    assert!(stored(&graph, |graph, v| graph.in_neighbors(v).to_vec()).into_iter().eq(turned));
    assert_eq!(graph.is_directed(), shape.is_directed);
}

#[test]
fn graphs_without_vertices_or_edges_are_graphs() {
    let mut team = Team::new(2).unwrap();
    for shape in [Shape::DIRECTED, Shape::UNDIRECTED, Shape::GAP] {
        check(0, &[], shape, &mut team);
        check(1, &[], shape, &mut team);
        check(1000, &[], shape, &mut team);
        check(1, &[[0, 0], [0, 0]], shape, &mut team);
    }
}

#[test]
fn an_edge_to_nowhere_is_refused() {
    let mut team = Team::new(1).unwrap();
    for (vertices, edge) in [(0, [0, 0]), (5, [5, 0]), (5, [0, u32::MAX])] {
        let error = Csr::build(vertices, &[edge], Shape::DIRECTED, &mut team).unwrap_err();
        assert_eq!(error.kind(), biombo_base::ErrorKind::Invalid);
    }
    let error = Csr::build(VERTICES_MAX + 1, &[], Shape::DIRECTED, &mut team).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
}

#[test]
fn a_hub_and_many_buckets_come_out_right() {
    let mut team = Team::new(3).unwrap();
    let vertices = 270_000;
    let hub = (0..vertices as u32).map(|v| [v, 12_345]);
    let ring = (0..vertices as u32).map(|v| [v, (v + 1) % vertices as u32]);
    let edges: Vec<Edge> = hub.chain(ring).collect();
    check(vertices, &edges, Shape::UNDIRECTED, &mut team);
    check(vertices, &edges, Shape::DIRECTED, &mut team);
}

/// What the GAP benchmark itself wrote (its `converter -b`, built with GCC 12): how many edges are stored, and the CRC-32 of all offsets
/// and neighbours. It leaves out isolated vertices behind the last one that has an edge.
const GAP_GRAPHS: [(&str, u64, u32); 5] = [
    ("kron:10:16", 20_992, 0x61a8_f451),
    ("uniform:10:16", 32_250, 0x831a_cf83),
    ("kron:17:4", 999_946, 0xea4c_6650),
    ("uniform:17:5", 1_310_650, 0x79da_82e0),
    ("kron:15:3", 185_288, 0x9537_7360),
];

#[test]
fn synthetic_graphs_are_those_of_the_gap_benchmark() {
    let mut team = Team::new(2).unwrap();
    for (name, edges, crc) in GAP_GRAPHS {
        let synthetic: Synthetic = name.parse().unwrap();
        let drawn = synthetic.draw(&mut team).unwrap();
        let graph = Csr::build(synthetic.vertices(), &drawn, Shape::GAP, &mut team).unwrap();
        let mut found = flate2::Crc::new();
        let last = graph.out.offsets.iter().position(|offset| *offset == graph.edges()).unwrap();
        graph.out.offsets[..=last].iter().for_each(|offset| found.update(&offset.to_le_bytes()));
        graph.out.targets.iter().for_each(|target| found.update(&target.to_le_bytes()));
        assert_eq!((graph.edges(), found.sum()), (edges, crc), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_edges_are_stored_once_in_ascending_lists(
        vertices in 1..2000usize,
        ends in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..3000),
        threads in 1..4usize,
        is_directed in any::<bool>(),
        keeps_loops in any::<bool>(),
        narrow in any::<bool>(),
    ) {
        // Few vertices make loops and repeated edges common.
        let vertices = if narrow { vertices % 20 + 1 } else { vertices };
        let edges: Vec<Edge> = ends.iter().map(|(a, b)| [a % vertices as u32, b % vertices as u32]).collect();
        check(vertices, &edges, Shape { is_directed, keeps_loops }, &mut Team::new(threads).unwrap());
    }
}
