//! The kernels over `csr`: seconds a trial. `GRAPH THREADS TRIALS [KERNEL..]`, as in
//! `cargo bench -p biombo-graph --bench kernels -- kron:20:16 2 5 bfs pagerank`. The source is vertex 1, as a rule in the largest component.

use std::time::Instant;

use biombo_base::Result;
use biombo_graph::csr::{Csr, Shape};
use biombo_graph::generate::Synthetic;
use biombo_graph::kernels::pagerank::Stop;
use biombo_graph::kernels::{afforest, bfs, brandes, pagerank, shiloach_vishkin};
use biombo_graph::team::Team;
use biombo_graph::view::View;

const KERNELS: [&str; 5] = ["bfs", "pagerank", "cc", "cc-sv", "bc"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    // Without words it is a test run: once, and small.
    let word = |at: usize, default: &'static str| words.get(at).map_or(default, String::as_str).to_owned();
    let synthetic: Synthetic = word(0, "kron:12:16").parse()?;
    let mut team = Team::pinned(word(1, "1").parse().unwrap_or(1))?;
    let trials = word(2, "1").parse().unwrap_or(1).max(1);
    let asked: Vec<&str> = words.iter().skip(3).map(String::as_str).collect();

    let begun = Instant::now();
    let edges = synthetic.draw(&mut team)?;
    let drawn = begun.elapsed().as_secs_f64();
    let graph = Csr::build(synthetic.vertices(), &edges, Shape::GAP, &mut team)?;
    drop(edges);
    let built = begun.elapsed().as_secs_f64() - drawn;
    let bytes_per_edge = graph.memory_bytes() as f64 / graph.edges() as f64;
    println!(
        "{synthetic}: {} edges, drawn in {drawn:.2} s, built in {built:.2} s, {bytes_per_edge:.2} bytes per edge",
        graph.edges()
    );
    for kernel in KERNELS.iter().filter(|kernel| asked.is_empty() || asked.contains(kernel)) {
        let mut seconds = Vec::new();
        for _ in 0..trials {
            let begun = Instant::now();
            match *kernel {
                "bfs" => drop(bfs(&graph, 1, &mut team)?),
                "pagerank" => drop(pagerank(&graph, Stop { iterations: 20, tolerance: 0.0 }, &mut team)?),
                "cc" => drop(afforest(&graph, &mut team)?),
                "cc-sv" => drop(shiloach_vishkin(&graph, &mut team)?),
                _ => drop(brandes(&graph, &[1], &mut team)?),
            }
            seconds.push(begun.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let (least, median, most) = (seconds[0], seconds[trials / 2], seconds[trials - 1]);
        println!("{kernel:10} median {median:.4}  least {least:.4}  most {most:.4}");
    }
    Ok(())
}
