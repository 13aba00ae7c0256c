//! The verifiers find what they look for, and the kernels give the answers that definitions give.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use super::pagerank::{Stop, pagerank};
use super::*;
use crate::Edge;
use crate::csr::{Csr, Shape};
use crate::generate::Synthetic;
use crate::team::Team;
use crate::view::View;

fn team() -> Team {
    Team::new(2).unwrap()
}

fn synthetic(name: &str) -> Csr {
    let synthetic: Synthetic = name.parse().unwrap();
    let edges = synthetic.draw(&mut team()).unwrap();
    Csr::build(synthetic.vertices(), &edges, Shape::GAP, &mut team()).unwrap()
}

/// A path 0 - 1 - 2 - 3, a loop at 4, and 5 alone.
fn small(is_directed: bool) -> Csr {
    let shape = if is_directed { Shape::DIRECTED } else { Shape::UNDIRECTED };
    Csr::build(6, &[[0, 1], [1, 2], [2, 3], [4, 4]], shape, &mut team()).unwrap()
}

#[test]
fn the_verifier_of_bfs_refuses_every_wrong_parent() {
    let graph = small(false);
    let tree = bfs(&graph, 0, &mut team()).unwrap();
    assert_eq!(tree.depths(), [0, 1, 2, 3, -1, -1]);
    bfs::verify(&graph, 0, &tree).unwrap();
    for (vertex, parent) in [(0, 1), (1, 2), (2, 0), (3, 1), (4, 4), (5, 0)] {
        let tree = bfs(&graph, 0, &mut team()).unwrap();
        tree.parents[vertex].store(parent + 1, Relaxed);
        assert!(bfs::verify(&graph, 0, &tree).is_err(), "{vertex} from {parent}");
    }
    for vertex in 0..4 {
        let tree = bfs(&graph, 0, &mut team()).unwrap();
        tree.parents[vertex].store(0, Relaxed);
        assert!(bfs::verify(&graph, 0, &tree).is_err(), "{vertex} unreached");
    }
}

#[test]
fn the_verifier_of_components_refuses_every_wrong_label() {
    let graph = small(true);
    for (vertex, label) in [(0, 1), (3, 3), (1, 1), (5, 0), (4, 5)] {
        let components = afforest(&graph, &mut team()).unwrap();
        components::verify(&graph, &components).unwrap();
        components.labels[vertex].store(label, Relaxed);
        assert!(components::verify(&graph, &components).is_err(), "{vertex} with {label}");
    }
}

#[test]
fn the_verifiers_of_scores_refuse_what_is_off() {
    let graph = small(false);
    let stop = Stop { iterations: 100, tolerance: 1e-7 };
    let mut scores = pagerank(&graph, stop, &mut team()).unwrap().scores;
    pagerank::verify(&graph, &scores, 1e-6).unwrap();
    scores[1] += 1e-3;
    assert!(pagerank::verify(&graph, &scores, 1e-6).expect_err("a sum").contains("sum to"));
    scores[2] -= 1e-3;
    assert!(pagerank::verify(&graph, &scores, 1e-6).expect_err("a change").contains("one more iteration"));

    let mut scores = brandes(&graph, &[0, 3], &mut team()).unwrap();
    // From each end of the path, the first inner vertex leads to two others and the second one to one.
    assert_eq!(*scores, [0.0, 3.0, 3.0, 0.0, 0.0, 0.0]);
    brandes::verify(&graph, &[0, 3], &scores, 1e-12).unwrap();
    scores[3] += 1e-9;
    assert!(brandes::verify(&graph, &[0, 3], &scores, 1e-12).is_err());
}

#[test]
fn pagerank_of_a_star_is_what_its_equations_say() {
    // Three leaves point at the hub, which points nowhere: h = b + 3dl, l = b, b = (1 - d + dh) / 4, h + 3l = 1.
    let graph = Csr::build(4, &[[1, 0], [2, 0], [3, 0]], Shape::DIRECTED, &mut team()).unwrap();
    let ranked = pagerank(&graph, Stop { iterations: 1000, tolerance: 1e-12 }, &mut team()).unwrap();
    let leaf = 1.0 / (4.0 + 3.0 * pagerank::DAMPING);
    assert!((ranked.scores[1] - leaf).abs() < 1e-7 && (ranked.scores[0] - (1.0 - 3.0 * leaf)).abs() < 1e-7);
    assert!(ranked.iterations < 100 && ranked.change < 1e-12, "{} iterations", ranked.iterations);
    let once = pagerank(&graph, Stop { iterations: 1, tolerance: 0.0 }, &mut team()).unwrap();
    assert_eq!(once.iterations, 1);
    assert!(pagerank(&graph, Stop { iterations: 1, tolerance: f64::NAN }, &mut team()).is_err());
}

/// Fails when a long list is added up in `f32`, of which a million additions leave three digits.
#[test]
fn pagerank_of_a_hub_with_a_million_leaves_is_exact_to_a_millionth() {
    const LEAVES: u32 = 1_000_000;
    let edges: Vec<Edge> = (1..=LEAVES).map(|leaf| [leaf, 0]).collect();
    let graph = Csr::build(LEAVES as usize + 1, &edges, Shape::DIRECTED, &mut team()).unwrap();
    // The equations of the star above, with so many leaves.
    let leaves = f64::from(LEAVES);
    let leaf = 1.0 / (leaves + 1.0 + leaves * pagerank::DAMPING);
    let hub = 1.0 - leaves * leaf;
    // With and without scores that are kept in between.
    for tolerance in [0.0, f64::MIN_POSITIVE] {
        let ranked = pagerank(&graph, Stop { iterations: 150, tolerance }, &mut team()).unwrap();
        for (vertex, expected) in [(0, hub), (1, leaf), (LEAVES as usize, leaf)] {
            let relative = (ranked.scores[vertex] - expected).abs() / expected;
            assert!(relative < 1e-6, "vertex {vertex}: {} and not {expected}", ranked.scores[vertex]);
        }
    }
}

#[test]
fn graphs_with_nothing_in_them_have_answers() {
    let mut team = team();
    let empty = Csr::build(0, &[], Shape::DIRECTED, &mut team).unwrap();
    assert!(bfs(&empty, 0, &mut team).is_err());
    assert!(brandes(&empty, &[0], &mut team).is_err());
    assert_eq!(afforest(&empty, &mut team).unwrap().count(), 0);
    assert_eq!(shiloach_vishkin(&empty, &mut team).unwrap().count(), 0);
    assert!(pagerank(&empty, Stop { iterations: 5, tolerance: 0.0 }, &mut team).unwrap().scores.is_empty());
    let alone = Csr::build(70, &[], Shape::UNDIRECTED, &mut team).unwrap();
    assert_eq!(bfs(&alone, 69, &mut team).unwrap().depths().iter().filter(|depth| **depth == 0).count(), 1);
    assert_eq!(afforest(&alone, &mut team).unwrap().count(), 70);
    let ranked = pagerank(&alone, Stop { iterations: 5, tolerance: 0.0 }, &mut team).unwrap();
    assert!(ranked.scores.iter().all(|score| (score - 1.0 / 70.0).abs() < 1e-12));
    assert!(brandes(&alone, &[3], &mut team).unwrap().iter().all(|score| *score == 0.0));
}

/// Every kernel's answer on `graph`, verified, as bits.
pub(crate) fn answers<V: View>(graph: &V, sources: &[u32], team: &mut Team) -> Vec<u64> {
    let mut answers = Vec::new();
    for source in sources {
        let tree = bfs(graph, *source, team).unwrap();
        bfs::verify(graph, *source, &tree).unwrap();
        answers.extend(tree.depths().iter().map(|depth| *depth as u64));
    }
    for components in [afforest(graph, team).unwrap(), shiloach_vishkin(graph, team).unwrap()] {
        components::verify(graph, &components).unwrap();
        answers.extend((0..graph.vertices() as u32).map(|vertex| u64::from(components.label(vertex))));
    }
    let ranked = pagerank(graph, Stop { iterations: 60, tolerance: 1e-6 }, team).unwrap();
    pagerank::verify(graph, &ranked.scores, 1e-4).unwrap();
    answers.extend(ranked.scores.iter().map(|score| score.to_bits()));
    let scores = brandes(graph, sources, team).unwrap();
    brandes::verify(graph, sources, &scores, 1e-9).unwrap();
    answers.extend(scores.iter().map(|score| score.to_bits()));
    answers
}

#[test]
fn answers_are_right_and_the_same_bits_for_any_number_of_threads_and_in_every_run() {
    for name in ["kron:13:16", "uniform:12:4", "kron:9:1"] {
        let graph = synthetic(name);
        let expected = answers(&graph, &[1, 77], &mut Team::new(1).unwrap());
        for threads in [2, 3, 2] {
            assert!(
                answers(&graph, &[1, 77], &mut Team::new(threads).unwrap()) == expected,
                "{name}, {threads} threads"
            );
        }
    }
}

#[test]
fn a_search_goes_up_and_down_again() {
    // A dense core, where bottom up pays, with long tails, where it does not, and a second core behind one of them.
    let mut edges: Vec<Edge> = Vec::new();
    for core in [0, 3000] {
        edges.extend((0..300u32).flat_map(|a| (1..60).map(move |b| [core + a, core + (a + b * 7) % 300])));
    }
    edges.extend((300..3000u32).map(|v| [v, v + 1]));
    edges.push([0, 300]);
    for shape in [Shape::UNDIRECTED, Shape::DIRECTED] {
        let graph = Csr::build(3300, &edges, shape, &mut team()).unwrap();
        for source in [0, 299, 1000, 3299] {
            bfs::verify(&graph, source, &bfs(&graph, source, &mut team()).unwrap()).unwrap();
        }
    }
}

#[test]
fn scores_that_nobody_asks_for_need_not_be_kept() {
    for (name, shape) in [("kron:10:8", Shape::DIRECTED), ("uniform:11:3", Shape::GAP)] {
        let synthetic: Synthetic = name.parse().unwrap();
        let edges = synthetic.draw(&mut team()).unwrap();
        let graph = Csr::build(synthetic.vertices(), &edges, shape, &mut team()).unwrap();
        for iterations in [0, 1, 2, 3, 9] {
            let stop = Stop { iterations, tolerance: 0.0 };
            let [passed, kept] = [false, true].map(|keeps| pagerank::ranked(&graph, stop, keeps, &mut team()).unwrap());
            assert!(*passed.scores == *kept.scores, "{name}, {iterations} iterations");
            assert_eq!((passed.iterations, passed.change), (iterations, kept.change), "{name}");
        }
    }
}

/// A chain of diamonds from vertex 0 on: from each joint, two ways to the next one. The number of its vertices.
fn diamonds(count: u32) -> (u32, Vec<Edge>) {
    let of = |at: u32| [[3 * at, 3 * at + 1], [3 * at, 3 * at + 2], [3 * at + 1, 3 * at + 3], [3 * at + 2, 3 * at + 3]];
    (3 * count + 1, (0..count).flat_map(of).collect())
}

#[test]
fn more_paths_than_a_number_holds_are_no_matter() {
    const COUNT: u32 = 1400;
    let (vertices, edges) = diamonds(COUNT);
    let graph = Csr::build(vertices as usize, &edges, Shape::GAP, &mut team()).unwrap();
    let scores = brandes(&graph, &[0], &mut team()).unwrap();
    for at in 1..COUNT {
        // All that is behind a joint is reached through it, and half of it through either way to it.
        let behind = f64::from(vertices - 1 - 3 * at);
        let (joint, way) = (scores[3 * at as usize], scores[3 * at as usize - 1]);
        assert!((joint - behind).abs() < 1e-9 * behind.max(1.0), "joint {at}: {joint}, not {behind}");
        assert!((way - (behind + 1.0) / 2.0).abs() < 1e-9 * behind.max(1.0), "way {at}: {way}");
    }
    brandes::verify(&graph, &[0], &scores, 1e-9).unwrap();

    // A single path beside them, as long: the numbers lie too far apart.
    let (first, length) = (vertices, 2 * COUNT);
    let mut edges = edges;
    edges.push([0, first]);
    edges.extend((first..first + length - 1).map(|vertex| [vertex, vertex + 1]));
    let graph = Csr::build((first + length) as usize, &edges, Shape::GAP, &mut team()).unwrap();
    // Twice, with an easy one between: memory is used again.
    let scores = brandes(&graph, &[0, vertices - 1, 0], &mut team()).unwrap();
    brandes::verify(&graph, &[0, vertices - 1, 0], &scores, 1e-9).unwrap();
    // From its other end everything is well.
    let end = first + length - 1;
    let scores = brandes(&graph, &[end], &mut team()).unwrap();
    brandes::verify(&graph, &[end], &scores, 1e-9).unwrap();
}

/// Fails when a source from which numbers of paths lie further apart than any scale brings near is refused, or gets other scores.
#[test]
fn a_large_grid_seen_from_a_corner_has_scores() {
    const SIDE: u32 = 1100;
    let rows = (0..SIDE).flat_map(|row| (0..SIDE - 1).map(move |at| [row * SIDE + at, row * SIDE + at + 1]));
    let columns = (0..SIDE).flat_map(|at| (0..SIDE - 1).map(move |row| [row * SIDE + at, (row + 1) * SIDE + at]));
    let edges: Vec<Edge> = rows.chain(columns).collect();
    let graph = Csr::build((SIDE * SIDE) as usize, &edges, Shape::UNDIRECTED, &mut team()).unwrap();
    let scores = brandes(&graph, &[0], &mut team()).unwrap();
    brandes::verify(&graph, &[0], &scores, 1e-9).unwrap();
    assert!(*scores == *brandes(&graph, &[0], &mut Team::new(1).unwrap()).unwrap(), "for any number of threads");
    // Whatever the numbers of paths are: each path goes through one vertex of each level above its end.
    let mut by_level = vec![(0u32, 0.0); 2 * SIDE as usize - 1];
    for (vertex, score) in (0..SIDE * SIDE).zip(scores.iter()) {
        let (count, sum) = &mut by_level[(vertex / SIDE + vertex % SIDE) as usize];
        (*count, *sum) = (*count + 1, *sum + score);
    }
    let mut behind = 0u32;
    for (count, sum) in by_level[1..].iter().rev() {
        assert!((sum - f64::from(behind)).abs() < 1e-9 * f64::from(behind.max(1)), "{sum}, and {behind} are behind");
        behind += count;
    }
    let mirrored = |vertex: u32| scores[(vertex % SIDE * SIDE + vertex / SIDE) as usize];
    for vertex in (0..SIDE * SIDE).step_by(997) {
        let (score, other) = (scores[vertex as usize], mirrored(vertex));
        assert!((score - other).abs() <= 1e-9 * score.max(1.0), "{vertex}: {score} and {other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_right_on_any_graph(
        vertices in 1..400u32,
        ends in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..800),
        source in any::<u32>(),
        is_directed in any::<bool>(),
        keeps_loops in any::<bool>(),
    ) {
        let edges: Vec<Edge> = ends.iter().map(|(a, b)| [a % vertices, b % vertices]).collect();
        let mut team = Team::new(2).unwrap();
        let graph = Csr::build(vertices as usize, &edges, Shape { is_directed, keeps_loops }, &mut team).unwrap();
        answers(&graph, &[source % vertices, 0], &mut team);
    }
}
