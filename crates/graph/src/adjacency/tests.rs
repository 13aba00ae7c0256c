//! What this layout has alone: the log of edges.

use super::*;
use crate::csr::{Csr, Shape};
use crate::ids::Ids;
use crate::pma::Update;
use crate::team::Team;
use crate::view::View;

/// A graph of 3,000 vertices in a ring, with every one of which it is known that it is there.
fn ring() -> Adjacency {
    let edges: Vec<[u32; 2]> = (0..3000).map(|v| [v, (v + 1) % 3000]).collect();
    let mut team = Team::new(1).unwrap();
    let csr = Csr::build(3000, &edges, Shape::UNDIRECTED, &mut team).unwrap();
    Adjacency::from_view(&csr, &Ids::dense(3000), true, &mut team).unwrap()
}

#[test]
fn an_edge_waits_once_and_in_8_bytes_until_somebody_looks() {
    let graph = ring();
    let before = graph.memory_bytes();
    let batch: Vec<Update> = (0..10_000).map(|n| Update::InsertEdge(n % 3000, n * 7 % 3000)).collect();
    graph.apply(&batch).unwrap();
    let logged = graph.memory_bytes() - before;
    assert!((8 * batch.len()..17 * batch.len()).contains(&logged), "{logged} bytes of {} edges", batch.len());
    // Whoever asks for one vertex sees everything that was logged, the last change of an edge before all.
    graph.apply(&[Update::DeleteEdge(5, 4), Update::InsertEdge(5, 2000)]).unwrap();
    let neighbors = graph.neighbors(5).unwrap();
    assert!(neighbors.contains(&2000) && neighbors.contains(&6) && !neighbors.contains(&4), "{neighbors:?}");
    assert!(graph.neighbors(2000).unwrap().contains(&5));
}

#[test]
fn a_log_that_is_due_is_archived_by_whoever_made_it_so() {
    let graph = ring();
    let batch: Vec<Update> = (0..70_000u64).map(|n| Update::InsertEdge(n % 3000, n * n % 3000)).collect();
    let before = graph.memory_bytes();
    graph.apply(&batch).unwrap();
    // Of 70,000 logged edges, nothing is left but the room for as many as are due the next time.
    assert!(graph.memory_bytes() - before < 2 * 8 * 16_384 + before, "{}", graph.memory_bytes());
    let mut team = Team::new(1).unwrap();
    let edges: Vec<[u32; 2]> = (0..3000u64)
        .map(|v| [v, (v + 1) % 3000])
        .chain((0..70_000).map(|n| [n % 3000, n * n % 3000]))
        .map(|edge| edge.map(|end| end as u32))
        .collect();
    let csr = Csr::build(3000, &edges, Shape::UNDIRECTED, &mut team).unwrap();
    let snapshot = graph.snapshot(&mut team).unwrap();
    assert!((0..3000).all(|vertex| snapshot.out_neighbors(vertex) == csr.out_neighbors(vertex)));
}

#[test]
fn asking_between_single_changes_lets_no_log_grow() {
    let graph = ring();
    graph.neighbors(0);
    let before = graph.memory_bytes();
    for n in 0..200_000u64 {
        let update = if n % 2 == 0 { Update::InsertEdge(1, 1000) } else { Update::DeleteEdge(1, 1000) };
        graph.apply(&[update]).unwrap();
        if n % 63 == 0 {
            assert_eq!(graph.neighbors(1).unwrap().contains(&1000), n % 2 == 0);
        }
    }
    assert!(graph.memory_bytes() < before + (1 << 16), "{} bytes and {before} before", graph.memory_bytes());
}
