//! `pma` beside `csr`: kernels over both in turns, trial by trial, ingest, bytes per edge. `GRAPH THREADS TRIALS [KERNEL..]`, as in
//! `cargo bench -p biombo-graph --bench layouts -- kron:20:16 2 5 bfs pagerank`.

use std::time::Instant;

use biombo_base::Result;
use biombo_graph::Edge;
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::generate::Synthetic;
use biombo_graph::ids::Ids;
use biombo_graph::kernels::pagerank::Stop;
use biombo_graph::kernels::{afforest, bfs, brandes, pagerank, shiloach_vishkin};
use biombo_graph::pma::{Pma, Update};
use biombo_graph::team::Team;
use biombo_graph::view::View;

const KERNELS: [&str; 5] = ["bfs", "pagerank", "cc", "cc-sv", "bc"];

/// Updates of a batch.
const BATCH: usize = 100_000;

fn timed<V: View>(kernel: &str, view: &V, team: &mut Team) -> Result<f64> {
    let begun = Instant::now();
    match kernel {
        "bfs" => drop(bfs(view, 1, team)?),
        "pagerank" => drop(pagerank(view, Stop { iterations: 20, tolerance: 0.0 }, team)?),
        "cc" => drop(afforest(view, team)?),
        "cc-sv" => drop(shiloach_vishkin(view, team)?),
        _ => drop(brandes(view, &[1], team)?),
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn shuffle(edges: &mut [Edge]) {
    let mut state = 1u64;
    for at in (1..edges.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        edges.swap(at, ((u128::from(state) * (at as u128 + 1)) >> 64) as usize);
    }
}

/// Apply `update` of each edge, in batches that the threads take in turns; seconds.
fn apply(graph: &Pma, edges: &[Edge], threads: usize, update: fn(u64, u64) -> Update) -> Result<f64> {
    let begun = Instant::now();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let begin = next.fetch_add(BATCH, std::sync::atomic::Ordering::Relaxed);
            if begin >= edges.len() {
                return Ok(());
            }
            batch.clear();
            let share = &edges[begin..(begin + BATCH).min(edges.len())];
            batch.extend(share.iter().map(|[a, b]| update((*a).into(), (*b).into())));
            graph.apply(&batch)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    // Without words it is a test run: once, and small.
    let word = |at: usize, default: &'static str| words.get(at).map_or(default, String::as_str).to_owned();
    let synthetic: Synthetic = word(0, "kron:12:16").parse()?;
    let threads = word(1, "1").parse().unwrap_or(1);
    let mut team = Team::pinned(threads)?;
    let trials = word(2, "1").parse().unwrap_or(1).max(1);
    let asked: Vec<&str> = words.iter().skip(3).map(String::as_str).collect();

    let mut edges = synthetic.draw(&mut team)?;
    shuffle(&mut edges);
    let ids = Ids::dense(synthetic.vertices());
    let csr = Csr::build(synthetic.vertices(), &edges, Shape::GAP, &mut team)?;
    let stored = csr.edges() as f64;
    let bytes = |bytes: usize| bytes as f64 / stored;
    println!("{synthetic}: {stored} stored edges; csr {:.2} bytes an edge", bytes(csr.memory_bytes()));

    let begun = Instant::now();
    let loaded = Pma::from_view(&csr, &ids, false, &mut team)?;
    println!(
        "loaded from csr in {:.3} s, {:.2} bytes an edge",
        begun.elapsed().as_secs_f64(),
        bytes(loaded.memory_bytes())
    );
    let (base, streamed) = edges.split_at(edges.len() / 10);
    let base = Csr::build(synthetic.vertices(), base, Shape::GAP, &mut team)?;
    for writers in 1..=threads {
        let graph = Pma::from_view(&base, &ids, false, &mut team)?;
        let seconds = apply(&graph, streamed, writers, Update::InsertEdge)?;
        let begun = Instant::now();
        let snapshot = graph.snapshot(&mut team)?;
        let cut = begun.elapsed().as_secs_f64();
        println!(
            "{} edges inserted by {writers} threads in {seconds:.2} s, {:.2} M/s; snapshot in {cut:.3} s; {} stored, {:.2} bytes an edge",
            streamed.len(),
            streamed.len() as f64 / seconds / 1e6,
            snapshot.edges(),
            bytes(graph.memory_bytes())
        );
    }
    drop(base);
    let churned = Pma::from_view(&csr, &ids, false, &mut team)?;
    let tenth = &mut edges[..synthetic.edges() / 10];
    apply(&churned, tenth, threads, Update::DeleteEdge)?;
    churned.snapshot(&mut team)?;
    shuffle(tenth);
    apply(&churned, tenth, threads, Update::InsertEdge)?;
    let (loaded, churned_snapshot) = (loaded.snapshot(&mut team)?, churned.snapshot(&mut team)?);
    println!("after churn {:.2} bytes an edge, {} stored", bytes(churned.memory_bytes()), churned_snapshot.edges());
    loaded.blocks();
    churned_snapshot.blocks();
    for kernel in KERNELS.iter().filter(|kernel| asked.is_empty() || asked.contains(kernel)) {
        let mut seconds = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..trials {
            seconds[0].push(timed(kernel, &csr, &mut team)?);
            seconds[1].push(timed(kernel, &loaded, &mut team)?);
            seconds[2].push(timed(kernel, &churned_snapshot, &mut team)?);
        }
        let medians = seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[trials / 2]
        });
        let [csr, loaded, churned] = medians;
        println!(
            "{kernel:10} csr {csr:.4}  pma {loaded:.4} ({:.3})  churned {churned:.4} ({:.3})",
            loaded / csr,
            churned / csr
        );
    }
    Ok(())
}
