//! What this layout has alone: buffers that grow with the degree.

use super::*;
use crate::csr::{Csr, Shape};
use crate::ids::Ids;
use crate::pma::Update;
use crate::team::Team;
use crate::view::View;

#[test]
fn buffers_grow_with_the_degree_up_to_a_bound() {
    assert_eq!([0, 1, 63, 64, 65, 1000, 1 << 20, 1 << 30].map(limit), [4, 4, 4, 4, 4, 64, 1 << 16, SORTED_MAX / 2]);
    assert!((0..1 << 12).all(|degree| limit(degree) <= limit(degree + 1)));
    // A merge moves some sixteen neighbours for each change, and no more than thirty-two.
    assert!((64..1 << 18).all(|degree| degree / limit(degree) <= 32));
}

#[test]
fn what_waits_for_a_list_is_flushed_alone_and_a_section_that_is_shared_is_copied() {
    let (pool, mut scratch) = (Pool::new(), Scratch::default());
    let list = |local: usize, lists: &mut Vec<u32>| lists.extend((0..100u32).map(|n| n * 10 + local as u32 % 10));
    let mut section = Arc::new(Section::build(&pool, &mut Vec::new(), list).unwrap());
    let (shared, mut buffers) = (section.clone(), Buffers::default());
    let limit = limit(100);
    let changes: Vec<Change> = (0..limit as u32).map(|n| Change::new(7, 5000 + n, true)).collect();
    Section::bring_in(&mut section, &mut buffers, &changes, &pool, &mut scratch).unwrap();
    assert!(Arc::ptr_eq(&section, &shared), "changes that wait touch no list");
    assert_eq!((buffers.length(7), section.degree(7)), (limit, 100));
    Section::bring_in(&mut section, &mut buffers, &[Change::new(8, 1, true)], &pool, &mut scratch).unwrap();
    Section::bring_in(&mut section, &mut buffers, &[Change::new(7, 5000, false)], &pool, &mut scratch).unwrap();
    assert_eq!(
        (buffers.length(7), section.degree(7)),
        (1, 100 + limit),
        "a full buffer is flushed, and the next change waits"
    );
    assert_eq!((buffers.length(8), section.degree(8)), (1, 100), "others wait on");
    Section::settle(&mut section, &mut buffers, &pool, &mut scratch).unwrap();
    assert_eq!((buffers.waiting(), section.degree(7), section.degree(8)), (0, 99 + limit, 101));
    section.verify(VERTICES, 6000).unwrap();
    assert_eq!(
        (shared.degree(7), shared.degree(8), shared.edges()),
        (100, 100, 102_400),
        "the shared one is as it was"
    );
}

#[test]
fn what_waits_is_seen_by_who_asks_for_a_vertex() {
    let mut team = Team::new(1).unwrap();
    let csr = Csr::build(10, &[[0, 1], [0, 2]], Shape::DIRECTED, &mut team).unwrap();
    let graph = Buffered::from_view(&csr, &Ids::dense(10), true, &mut team).unwrap();
    // Enough of other vertices' changes that the section's log goes to the buffers.
    for n in 0..1000u64 {
        graph.apply(&[Update::InsertEdge(1 + n % 9, n * 3 % 10)]).unwrap();
        if n == 10 {
            graph.apply(&[Update::DeleteEdge(0, 1), Update::InsertEdge(0, 5)]).unwrap();
        }
    }
    let mut neighbors = graph.neighbors(0).unwrap();
    neighbors.sort_unstable();
    assert_eq!(neighbors, [2, 5]);
    assert_eq!(graph.snapshot(&mut team).unwrap().out_neighbors(0), [2, 5]);
}
