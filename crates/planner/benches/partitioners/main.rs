//! All planners on the same graphs: the share of the edges that is cut, the balance, the time.
//!
//! `cargo bench -p biombo-planner --features metis --bench partitioners` prints one table for each graph of the folder `BIOMBO_GRAPHS` (else of
//! `../shared/data/graphs` beside the project), and the access graph of co-access groups, which needs no file. Units have load 1 and
//! edges the number of their lines as weight; slack 0.05, seed 1. Under `cargo test --benches`, few groups and the smallest file alone.

#[path = "../../tests/common/mod.rs"]
mod common;
mod real;

use std::time::Instant;

use biombo_planner::{AccessGraph, Assessment, CostModel, Objective, Prices, Request, planner, planners, relabel};

/// One table.
fn compare(name: &str, graph: &AccessGraph, parts: &[u32]) {
    println!("\n{name}: {} units, {} edges", graph.len(), graph.edge_count());
    print!("| planner |");
    parts.iter().for_each(|parts| print!(" {parts} parts: cut % | balance | ms |"));
    print!("\n|---|");
    parts.iter().for_each(|_| print!("---|---|---|"));
    println!();
    for planner in planners() {
        print!("| `{}` |", planner.name());
        for parts in parts {
            let request = Request::new(*parts).expect("parts").seed(1);
            let begin = Instant::now();
            let plan = planner.plan(graph, &request).expect("a plan");
            let took_ms = begin.elapsed().as_secs_f64() * 1e3;
            let found = Objective::new(*parts).and_then(|objective| objective.assess(graph, &plan)).expect("it fits");
            print!(" {:.1} | {:.2} | {took_ms:.0} |", 100.0 * found.cut_share(), found.part_balance);
        }
        println!();
    }
}

fn main() {
    let small = !std::env::args().any(|arg| arg == "--bench");
    // Units as many as a store has slots, in groups of ten that hashing dealt over the parts.
    let groups = common::scattered_groups(if small { 40 } else { 410 }, 10, 8);
    compare("co-access groups of 10", &groups, &[8, 64]);
    let files = real::files();
    if files.is_empty() {
        println!("no real graphs here: BIOMBO_GRAPHS names a folder of them");
    }
    for path in files.iter().take(if small { 1 } else { usize::MAX }) {
        compare(&real::name(path), &real::read(path), &[8, 64]);
    }
    weigh(&groups);
}

/// What comes after the planner: labels, and the best of the plan within a budget of a tenth of its bytes and without one.
fn weigh(graph: &AccessGraph) {
    let objective = Objective::new(8).expect("parts");
    let request = Request::new(8).expect("parts").seed(1);
    let plan = planner("ldg").and_then(|ldg| ldg.plan(graph, &request)).expect("a plan");
    let begin = Instant::now();
    let plan = relabel(graph, &plan, 8).expect("labels");
    let labels_ms = begin.elapsed().as_secs_f64() * 1e3;
    let moved_bytes = objective.assess(graph, &plan).expect("it fits").moved_bytes;
    println!("\nco-access groups of 10 in 8 parts: labels in {labels_ms:.2} ms");
    let prices =
        Prices { crossing_ns: 1000.0, part_overload_ns: 1000.0, worker_overload_ns: 0.0, byte_ns: 1.0, pass_ns: 0.0 };
    for budget_bytes in [None, Some(moved_bytes / 10)] {
        let model = CostModel::new(prices, 1e9, 1e9, budget_bytes.unwrap_or(u64::MAX)).expect("a model");
        let begin = Instant::now();
        let proposal = model.propose(graph, &plan, &objective).expect("a proposal");
        let took_ms = begin.elapsed().as_secs_f64() * 1e3;
        let cut = |found: &Assessment| 100.0 * found.cut_share();
        let (moved, before, after) = (proposal.after.moved_units, cut(&proposal.before), cut(&proposal.after));
        let budget = budget_bytes.map_or("with no limit".to_owned(), |bytes| format!("within {bytes} bytes"));
        println!(
            "proposal {budget}: {moved} units move, {before:.1} % cut before, {after:.1} % after, {took_ms:.1} ms"
        );
    }
}
