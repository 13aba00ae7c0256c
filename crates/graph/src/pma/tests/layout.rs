//! How lists stand in memory: the same answers as `csr`, room that is bounded, sections that are shared and not copied.

use super::*;
use crate::generate::Synthetic;
use crate::kernels::tests::answers;
use crate::view::Lists;

fn synthetic(name: &str) -> (usize, Vec<Edge>) {
    let synthetic: Synthetic = name.parse().unwrap();
    (synthetic.vertices(), synthetic.draw(&mut team()).unwrap().to_vec())
}

/// `edges` in an order that has nothing to do with what they are.
fn shuffled(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable_by_key(|[a, b]| {
        (u64::from(*a) << 32 | u64::from(*b)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    });
    edges
}

fn inserted(edges: &[Edge]) -> Vec<Update> {
    edges.iter().map(|[a, b]| Update::InsertEdge((*a).into(), (*b).into())).collect()
}

fn deleted(edges: &[Edge]) -> Vec<Update> {
    edges.iter().map(|[a, b]| Update::DeleteEdge((*a).into(), (*b).into())).collect()
}

fn same<L: Layout>(csr: &Csr, graph: &Changing<L>, what: &str) {
    let what = format!("{what} in {}", L::NAME);
    let snapshot = graph.snapshot(&mut team()).unwrap();
    snapshot.verify().unwrap();
    assert_eq!(snapshot.blocks(), csr.blocks(), "{what}");
    assert!((0..csr.vertices() as u32).all(|v| snapshot.out_neighbors(v) == csr.out_neighbors(v)), "{what}");
    assert!((0..csr.vertices() as u32).all(|v| snapshot.in_neighbors(v) == csr.in_neighbors(v)), "{what}");
    for range in [0..csr.vertices() as u32, 1..csr.vertices() as u32 - 1, 1000..1030, 1024..1024, 7..8] {
        let mut expected = range.clone();
        snapshot.out_lists().each(range.clone(), |vertex, list| {
            assert_eq!(Some(vertex), expected.next(), "{what}");
            assert_eq!(list, csr.out_neighbors(vertex), "{what}");
        });
        assert!(expected.is_empty(), "{what}: {range:?}");
    }
    for threads in [1, 2] {
        let mut team = Team::new(threads).unwrap();
        assert!(
            answers(&snapshot, &[1, 77], &mut team) == answers(csr, &[1, 77], &mut team),
            "{what}, {threads} threads"
        );
    }
}

#[test]
fn all_kernels_answer_as_over_csr_after_loading_streaming_and_churn() {
    over_layouts!(answers_as_over_csr());
}

fn answers_as_over_csr<L: Layout>() {
    for (name, shape) in
        [("kron:12:16", Shape::GAP), ("uniform:12:4", Shape::UNDIRECTED), ("kron:11:8", Shape::DIRECTED)]
    {
        let (vertices, edges) = synthetic(name);
        let edges = shuffled(edges);
        let csr = Csr::build(vertices, &edges, shape, &mut team()).unwrap();
        let ids = Ids::dense(vertices);
        for tuning in [L::TUNING, Tuning::EAGER] {
            let (base, streamed) = edges.split_at(edges.len() / 10);
            let base = Csr::build(vertices, base, shape, &mut team()).unwrap();
            let graph = Changing::<L>::from_view_tuned(&base, &ids, shape.keeps_loops, tuning, &mut team()).unwrap();
            streamed.chunks(1000).for_each(|batch| _ = graph.apply(&inserted(batch)).unwrap());
            same(&csr, &graph, name);
            // A tenth goes and comes back in another order.
            let churned = &edges[edges.len() / 2..][..edges.len() / 10];
            let ordered =
                |edge: &Edge| if shape.is_directed { *edge } else { [edge[0].min(edge[1]), edge[0].max(edge[1])] };
            let gone: HashSet<Edge> = churned.iter().map(ordered).collect();
            churned.chunks(700).for_each(|batch| _ = graph.apply(&deleted(batch)).unwrap());
            let fewer: Vec<Edge> = edges.iter().filter(|edge| !gone.contains(&ordered(edge))).copied().collect();
            same(&Csr::build(vertices, &fewer, shape, &mut team()).unwrap(), &graph, name);
            let back = shuffled(churned.iter().map(|[a, b]| [*b, *a]).collect());
            let back: Vec<Edge> = back.into_iter().map(|[a, b]| [b, a]).collect();
            back.chunks(300).for_each(|batch| _ = graph.apply(&inserted(batch)).unwrap());
            same(&csr, &graph, name);
        }
        let graph = Changing::<L>::from_view(&csr, &ids, shape.keeps_loops, &mut team()).unwrap();
        same(&csr, &graph, name);
    }
}

#[test]
fn an_edge_takes_less_than_7_bytes_after_loading_and_after_streaming() {
    over_layouts!(takes_less_than_7_bytes());
}

fn takes_less_than_7_bytes<L: Layout>() {
    let (vertices, edges) = synthetic("kron:15:16");
    let edges = shuffled(edges);
    let csr = Csr::build(vertices, &edges, Shape::GAP, &mut team()).unwrap();
    let graph = Changing::<L>::from_view(&csr, &Ids::dense(vertices), false, &mut team()).unwrap();
    let bytes = graph.memory_bytes() as f64 / csr.edges() as f64;
    assert!(bytes < 5.5, "{bytes} bytes an edge after loading {}", L::NAME);
    let base = Csr::build(vertices, &edges[..edges.len() / 10], Shape::GAP, &mut team()).unwrap();
    let graph = Changing::<L>::from_view(&base, &Ids::dense(vertices), false, &mut team()).unwrap();
    edges.chunks(10_000).for_each(|batch| _ = graph.apply(&inserted(batch)).unwrap());
    let snapshot = graph.snapshot(&mut team()).unwrap();
    let bytes = graph.memory_bytes() as f64 / snapshot.edges() as f64;
    assert_eq!(snapshot.edges(), csr.edges());
    assert!(bytes < 7.0, "{bytes} bytes an edge after streaming into {}", L::NAME);
}

#[test]
fn memory_of_edges_that_went_is_used_again() {
    over_layouts!(uses_memory_again());
}

fn uses_memory_again<L: Layout>() {
    let (vertices, edges) = synthetic("kron:14:16");
    let edges = shuffled(edges);
    let (graph, _) = loaded::<L>(vertices, &[], Shape::GAP, L::TUNING);
    let mut most = Vec::new();
    for _ in 0..3 {
        edges.chunks(10_000).for_each(|batch| _ = graph.apply(&inserted(batch)).unwrap());
        graph.snapshot(&mut team()).unwrap().verify().unwrap();
        most.push(graph.memory_bytes());
        edges.chunks(10_000).for_each(|batch| _ = graph.apply(&deleted(batch)).unwrap());
        assert_eq!(graph.snapshot(&mut team()).unwrap().edges(), 0);
    }
    assert!(most[2] < most[0] + most[0] / 4, "memory grows: {most:?}");
}

#[test]
fn a_snapshot_shares_what_did_not_change() {
    over_layouts!(shares_what_did_not_change());
}

fn shares_what_did_not_change<L: Layout>() {
    let (vertices, edges) = synthetic("kron:14:16");
    let (graph, _) = loaded::<L>(vertices, &edges, Shape::GAP, L::TUNING);
    let first = graph.snapshot(&mut team()).unwrap();
    let before = graph.memory_bytes();
    graph.apply(&[Update::InsertEdge(5, 6), Update::DeleteEdge(5, 6)]).unwrap();
    let second = graph.snapshot(&mut team()).unwrap();
    let shared = (0..vertices as u32).filter(|v| first.out_neighbors(*v).as_ptr() == second.out_neighbors(*v).as_ptr());
    assert!(shared.count() >= vertices - 2 * VERTICES);
    assert!(graph.memory_bytes() < before + before / 4);
}
