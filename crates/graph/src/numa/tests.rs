//! Placements give every answer bit by bit, balance what they promise, and leave out what the machine cannot do.

use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::topology::{Node, Spread, Topology};

use super::*;
use crate::csr::{Csr, Shape};
use crate::generate::Synthetic;
use crate::ids::Ids;
use crate::kernels::tests::answers;
use crate::pma::{Changing, Image, Layout, Pma, Update};
use crate::team::{Bind, Team};
use crate::view::View;
use crate::{Edge, adjacency, buffered};

fn team() -> Team {
    Team::new(2).unwrap()
}

/// Edges that lead to small numbers more often than to large ones, as in graphs whose first vertices are the oldest.
fn skewed(vertices: u64, edges: u64) -> Vec<Edge> {
    let mut state = 7u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(limit)) >> 64) as u64
    };
    let mut edge = || {
        let (source, one, two) = (below(vertices), below(vertices), below(vertices));
        [source as u32, (one * two / vertices) as u32]
    };
    (0..edges).map(|_| edge()).collect()
}

fn graphs() -> Vec<(&'static str, Csr)> {
    let mut team = team();
    let kron: Synthetic = "kron:12:12".parse().unwrap();
    let edges = kron.draw(&mut team).unwrap();
    let kron = Csr::build(kron.vertices(), &edges, Shape::GAP, &mut team).unwrap();
    let skewed = skewed(5003, 40_000);
    let directed = Csr::build(5003, &skewed, Shape::DIRECTED, &mut team).unwrap();
    // A long path with a core, so that searches go down, up and down again, past several units.
    let mut edges: Vec<Edge> = (0..300u32).flat_map(|a| (1..40).map(move |b| [a, (a + b * 7) % 300])).collect();
    edges.extend((299..2500u32).map(|v| [v, v + 1]));
    let path = Csr::build(2600, &edges, Shape::UNDIRECTED, &mut team).unwrap();
    vec![("kron", kron), ("directed", directed), ("path", path)]
}

/// Fails for a sum that follows nodes instead of blocks, a place that is left out or visited twice, and a word written by two nodes.
#[test]
fn answers_are_the_same_bits_for_every_placement_and_number_of_nodes_and_threads() {
    for (name, graph) in graphs() {
        let expected = answers(&graph, &[1, 299], &mut Team::new(1).unwrap());
        let load = Load::of(&graph, &mut team());
        for placement in Placement::ALL {
            for (nodes, threads) in [(1, 2), (2, 1), (2, 2), (3, 2), (2, 3), (5, 4)] {
                let placed = Placed::new(&graph, placement, nodes, &load);
                let found = answers(&placed, &[1, 299], &mut Team::new(threads).unwrap());
                assert!(found == expected, "{name}: {placement}, {nodes} nodes, {threads} threads");
            }
        }
    }
}

#[test]
fn answers_are_the_same_bits_over_graphs_that_change_under_every_placement() {
    changes_under_every_placement::<Image>();
    changes_under_every_placement::<adjacency::Section>();
    changes_under_every_placement::<buffered::Section>();
}

fn changes_under_every_placement<L: Layout>() {
    let edges = skewed(3000, 20_000);
    let mut team = team();
    let graph = Csr::build(3000, &edges, Shape::DIRECTED, &mut team).unwrap();
    let expected = answers(&graph, &[1, 77], &mut team);
    let changing = Changing::<L>::from_view(&graph, &Ids::dense(3000), true, &mut team).unwrap();
    let mut gone: Vec<Edge> = edges.iter().step_by(7).copied().collect();
    gone.sort_unstable();
    gone.dedup();
    for placement in Placement::ALL {
        let update = |kind: fn(u64, u64) -> Update| {
            let each = gone.iter().map(|[source, target]| kind((*source).into(), (*target).into()));
            changing.apply(&each.collect::<Vec<_>>()).unwrap();
        };
        update(Update::DeleteEdge);
        let less = changing.snapshot(&mut team).unwrap();
        assert_eq!(less.edges(), graph.edges() - gone.len() as u64);
        let load = Load::of(&less, &mut team);
        let plain = answers(&less, &[1], &mut team);
        assert!(answers(&Placed::new(&less, placement, 2, &load), &[1], &mut team) == plain, "{placement}");
        update(Update::InsertEdge);
        let whole = changing.snapshot(&mut team).unwrap();
        let placed = Placed::new(&whole, placement, 2, &Load::of(&whole, &mut team));
        assert!(answers(&placed, &[1, 77], &mut team) == expected, "{placement}");
    }
}

/// Fails for memory that is written, and not only moved, and for a refusal that becomes an error of a kernel.
#[test]
fn answers_are_the_same_bits_wherever_memory_lies_and_threads_run() {
    let (_, graph) = graphs().swap_remove(1);
    let expected = answers(&graph, &[1], &mut team());
    let load = Load::of(&graph, &mut team());
    let topology = Topology::detect();
    let there = topology.nodes.iter().find(|node| !node.cpus.is_empty()).unwrap().id;
    for (nodes, allocation, may_fail) in [
        ([there; 2], Allocation::Bind, false),
        ([there; 2], Allocation::Interleave, false),
        ([there; 2], Allocation::FirstTouch, false),
        ([1023; 2], Allocation::Bind, true),
    ] {
        for placement in Placement::ALL {
            let home = Arc::new(Home::of_nodes(&nodes, allocation));
            let placed = Placed::new(&graph, placement, 2, &load).at_home(home.clone());
            let owners = placed.blocks().owners().clone();
            let snapshot = Pma::from_view(&graph, &Ids::dense(graph.vertices()), true, &mut team()).unwrap();
            let snapshot = snapshot.snapshot(&mut team()).unwrap();
            for outcome in [
                home.place_lists(&graph, graph.vertices(), &owners),
                home.place_lists(&snapshot, graph.vertices(), &owners),
            ] {
                let is_fine = match outcome {
                    Ok(()) => !may_fail,
                    Err(error) => may_fail || error.kind() == ErrorKind::Unsupported,
                };
                assert!(is_fine, "{allocation:?}, {placement}");
            }
            let touched = graph.touched_first(placed.blocks(), &mut team()).unwrap();
            let binds = if placement == Placement::BlockCyclic { &Bind::ALL[..] } else { &[Bind::RoundRobin] };
            for bind in binds {
                let mut team = Team::on(&topology.spread(2).unwrap(), *bind, 2).unwrap();
                assert!(answers(&placed, &[1], &mut team) == expected, "{allocation:?}, {placement}, {bind:?}");
                let moved = Placed::new(&touched, placement, 2, &load).at_home(home.clone());
                assert!(answers(&moved, &[1], &mut team) == expected, "touched first: {placement}, {bind:?}");
            }
        }
    }
}

/// Fails when results are mapped anew in each run, so that the time of a run with nodes has the mapping in it and that of one without has not;
/// and when an array gets memory that lies elsewhere.
#[test]
fn kernels_that_run_again_map_nothing_anew_with_nodes_or_without() {
    use crate::kernels::bfs;
    use crate::kernels::pagerank::{Stop, pagerank};
    use crate::media::MAPPED;

    let (_, graph) = graphs().swap_remove(1);
    let load = Load::of(&graph, &mut team());
    for allocation in Allocation::ALL {
        let real = Arc::new(Home::of_nodes(&[0, 0], allocation));
        for home in [Arc::new(Home::of_virtual_nodes(&[0, 0], allocation)), real.clone()] {
            let mut team = team();
            let place = |placement: Placement| Placed::new(&graph, placement, 2, &load).at_home(home.clone());
            let run = |placement: Placement, team: &mut Team| {
                let before = MAPPED.get();
                bfs(&place(placement), 1, team).unwrap();
                pagerank(&place(placement), Stop { iterations: 3, tolerance: 0.0 }, team).unwrap();
                MAPPED.get() - before
            };
            assert!(run(Placement::Block, &mut team) > 0);
            assert_eq!(run(Placement::Block, &mut team), 0, "{allocation:?}, {home:?}");
            // Elsewhere, but where any memory will do.
            assert_eq!(run(Placement::BlockCyclic, &mut team) > 0, home == real, "{allocation:?}");
            assert_eq!(run(Placement::BlockCyclic, &mut team) + run(Placement::Block, &mut team), 0);
        }
    }
}

#[test]
fn what_the_machine_cannot_do_is_said_and_contradictions_are_refused() {
    let node = |id: u32, cpu: u32| Node { id, cpus: vec![cpu] };
    let real = Spread { nodes: vec![node(0, 0), node(1, 1)], machine_nodes: 2 };
    let played = Spread { nodes: vec![node(0, 0), node(0, 1)], machine_nodes: 1 };
    let one = Spread { nodes: vec![node(0, 0)], machine_nodes: 1 };
    for allocation in Allocation::ALL {
        for bind in Bind::ALL {
            let is_sound = allocation == Allocation::Bind || matches!(bind, Bind::None | Bind::RoundRobin);
            for (spread, is_done) in [(&real, true), (&played, false), (&one, true)] {
                match Home::new(spread, bind, allocation) {
                    Ok(home) => {
                        // On one node, nothing is left to do but for what is to be remote.
                        let is_done = is_done && (spread != &one || bind != Bind::Remote);
                        assert!(is_sound && home.why_not().is_none() == is_done, "{bind:?} {allocation:?}");
                    }
                    Err(error) => assert!(!is_sound && error.kind() == ErrorKind::Invalid, "{error}"),
                }
            }
        }
    }
    let home = |bind: Bind| Home::new(&real, bind, Allocation::Bind).unwrap();
    assert_eq!(home(Bind::Local), Home::of_nodes(&[0, 0], Allocation::Bind));
    assert_eq!(home(Bind::Remote), Home::of_nodes(&[1, 1], Allocation::Bind));
    assert_eq!(home(Bind::RoundRobin), Home::of_nodes(&[0, 1], Allocation::Bind));
    assert!(Home::new(&played, Bind::None, Allocation::Bind).unwrap().why_not().unwrap().contains("virtual"));
}

/// Fails for a round robin over units and for a `degree` that counts vertices.
#[test]
fn round_robin_balances_edges_where_block_does_not() {
    let mut team = team();
    let graph = Csr::build(60_000, &skewed(60_000, 600_000), Shape::DIRECTED, &mut team).unwrap();
    let load = Load::of(&graph, &mut team);
    assert_eq!((load.edges(), load.vertices()), (graph.edges(), 60_000));
    let shares = |placement: Placement, nodes: usize, team: &mut Team| -> Vec<f64> {
        let edges = Placed::new(&graph, placement, nodes, &load).edges_by_node(team);
        assert_eq!((edges.len(), edges.iter().sum::<u64>()), (nodes, graph.edges()));
        edges.iter().map(|of| *of as f64 / graph.edges() as f64).collect()
    };
    assert!(shares(Placement::Block, 2, &mut team)[0] > 0.6);
    let near = |share: f64, within: f64| (share - 0.5).abs() <= within;
    assert!(near(shares(Placement::RoundRobin, 2, &mut team)[0], 0.005));
    assert!(near(shares(Placement::BlockCyclic, 2, &mut team)[0], 0.03));
    assert!(near(shares(Placement::Degree, 2, &mut team)[0], 0.02));
    for nodes in [1, 3, 4] {
        let most =
            |placement: Placement, team: &mut Team| shares(placement, nodes, team).into_iter().fold(0.0, f64::max);
        let even = 1.0 / nodes as f64;
        assert!(most(Placement::Degree, &mut team) < 1.1 * even, "{nodes} nodes");
        assert!(most(Placement::RoundRobin, &mut team) < 1.02 * even, "{nodes} nodes");
    }
}

#[test]
fn vertices_belong_to_nodes_as_their_placement_says() {
    let nodes_of = |placement: Placement, nodes: usize, degrees: &[u64]| -> Vec<usize> {
        let owners = Owners::of_degrees(placement, nodes, degrees);
        (0..degrees.len() as u32).map(|vertex| owners.node(vertex)).collect()
    };
    // Four units, the last one shorter.
    let mut degrees = vec![1u64; 3 * 1024 + 100];
    degrees[5] = 4096;
    let of_unit = |nodes: &[usize]| [0, 1024, 2048, 3072].map(|vertex| nodes[vertex]);
    assert_eq!(of_unit(&nodes_of(Placement::Block, 2, &degrees)), [0, 0, 1, 1]);
    assert_eq!(of_unit(&nodes_of(Placement::BlockCyclic, 2, &degrees)), [0, 1, 0, 1]);
    assert_eq!(of_unit(&nodes_of(Placement::Degree, 2, &degrees)), [0, 1, 1, 1]);
    assert_eq!(nodes_of(Placement::RoundRobin, 3, &degrees)[..5], [0, 1, 2, 0, 1]);
    assert!(nodes_of(Placement::RoundRobin, 1, &degrees).iter().all(|node| *node == 0));
    for placement in Placement::ALL {
        assert!(nodes_of(placement, 2, &[]).is_empty());
        assert_eq!(placement.name().parse::<Placement>().unwrap(), placement);
        assert!(nodes_of(placement, 70, &degrees).iter().all(|node| *node < 64));
        // Without edges there is nothing to balance but vertices.
        assert!(nodes_of(placement, 2, &vec![0; 4096]).contains(&1), "{placement}");
    }
    assert!("blocks".parse::<Placement>().unwrap_err().to_string().contains("block-cyclic"));
    let owners = Owners::of_degrees(Placement::Degree, 2, &degrees);
    assert_eq!(owners.stretches(degrees.len()), [(0..1024, 0), (1024..degrees.len(), 1)]);
    // Vertices came or went since.
    assert_eq!((owners.node(9000), owners.stretches(500), owners.stretches(0)), (1, vec![(0..500, 0)], Vec::new()));
}

/// Fails for a choice that does not look at density, at the algorithm or at the balance.
#[test]
fn the_placement_is_chosen_by_density_algorithm_and_balance() {
    let choice = |work: Work, degrees: &[u64]| {
        let by_unit: Vec<u64> = degrees.chunks(1024).map(|unit| unit.iter().sum()).collect();
        assert!(by_unit.len() <= 256);
        let choice = choose(work, 2, &Load::of_units(degrees.len(), by_unit));
        assert!(!choice.why.is_empty());
        choice
    };
    let even = vec![10u64; 64 * 1024];
    let slope = |scale: u64| -> Vec<u64> { (0..64 * 1024u64).rev().map(|v| v * scale / (64 * 1024)).collect() };
    for work in [Work::Search, Work::Sweep] {
        assert_eq!(choice(work, &even).placement, Placement::Block);
    }
    assert_eq!(choice(Work::Search, &slope(20)).placement, Placement::Degree);
    assert_eq!(choice(Work::Sweep, &slope(20)).placement, Placement::BlockCyclic);
    let dense = choice(Work::Search, &slope(200));
    assert_eq!(dense.placement, Placement::BlockCyclic);
    assert!(dense.why.contains("dense") && dense.why.contains("99.5 edges a vertex"), "{}", dense.why);
    // Every second unit of the first half is full: neither block nor turns are even.
    let turns: Vec<u64> = (0..64 * 1024).map(|v| if v < 32 * 1024 && v / 1024 % 2 == 0 { 50 } else { 1 }).collect();
    assert_eq!(choice(Work::Sweep, &turns).placement, Placement::Degree);
    assert_eq!(choose(Work::Sweep, 1, &Load::of_units(10, vec![5])).placement, Placement::Block);
    assert!(choose(Work::Sweep, 2, &Load::of_units(10, vec![0])).why.contains("no edges"));
}
