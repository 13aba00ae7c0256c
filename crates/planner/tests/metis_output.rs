//! METIS prints to standard output when it is asked to halve what cannot be halved: it never is.

#![cfg(feature = "metis")]

mod common;

use std::process::Command;

use biombo_planner::{AccessGraph, Request, planner};
use common::graph;

/// Graphs that the library would complain about: heavy units, hubs that nearly all hangs on, few units for many parts.
fn awkward() -> Vec<AccessGraph> {
    let chain = |count: usize| (1..count).map(|n| (n, n - 1, 1)).collect::<Vec<_>>();
    let star = |count: usize| (1..count).map(|n| (0, n, 1)).collect::<Vec<_>>();
    let mut graphs = Vec::new();
    for count in [1, 2, 7, 40, 300] {
        // Units without load are never heavy.
        graphs.push(graph(&vec![(0, 1, 0); count], &chain(count)));
        graphs.push(graph(&vec![(0, 1, 0); count], &star(count)));
        for heavy in [1, 3, 20] {
            let load = |n: usize| if n < heavy { 1 << (50 - n) } else { (n % 3) as u64 };
            let units: Vec<_> = (0..count).map(|n| (load(n), 1, 0)).collect();
            graphs.push(graph(&units, &chain(count)));
            graphs.push(graph(&units, &star(count)));
            graphs.push(graph(&units, &[]));
        }
    }
    graphs
}

/// Run alone it is a test of no error; the other one runs it as a child.
#[test]
fn awkward_graphs_are_planned() {
    for graph in awkward() {
        for parts in [1, 2, 3, 8, 64, 1024] {
            let request = Request::new(parts).expect("a request");
            let plan = planner("metis").and_then(|metis| metis.plan(&graph, &request)).expect("a plan");
            let heaviest = graph.loads_of(&plan, parts).into_iter().max().unwrap_or(0) as f64;
            assert!(heaviest <= request.load_bound(&graph) * (1.0 + 1e-9));
        }
    }
}

#[test]
fn the_library_prints_nothing() {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program).args(["--exact", "awkward_graphs_are_planned", "--nocapture"]).output();
    let child = child.expect("the child runs");
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    let of_others = |line: &&str| !line.is_empty() && !line.starts_with("running") && !line.starts_with("test ");
    let strange: Vec<_> = text.lines().filter(of_others).collect();
    assert!(strange.is_empty(), "{strange:?}");
}
