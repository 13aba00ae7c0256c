//! All planners on the same graphs: the share of the edges that is cut, the balance, the time.
//!
//! `cargo bench -p biombo-planner --features metis --bench partitioners` prints one table for each graph of the folder `BIOMBO_GRAPHS` (else of
//! `../shared/data/graphs` beside the project), and the access graph of co-access groups, which needs no file. Units have load 1 and
//! edges the number of their lines as weight; slack 0.05, seed 1. Under `cargo test --benches`, few groups and the smallest file alone.

#[path = "../../tests/common/mod.rs"]
mod common;
mod real;

use std::time::Instant;

use biombo_planner::{AccessGraph, Objective, Request, planners, relabel};

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
    let begin = Instant::now();
    let plan: Vec<_> = groups.vertices().map(|v| biombo_planner::Part(v.0 * 7 % 64)).collect();
    relabel(&groups, &plan, 64).expect("labels");
    println!("\nrelabelling 64 parts: {:.2} ms", begin.elapsed().as_secs_f64() * 1e3);
}
