//! PageRank by pulling: each vertex adds up what its in-neighbours give.
//!
//! Every iteration computes all scores from those of the one before (Jacobi), and sums are taken in the order of lists and blocks, so
//! that the answer is the same, to the last bit, for any number of threads. What an in-neighbour gives is kept as `f32`, half the memory to
//! hop through; sums and scores are `f64`.
//!
//! Source: Brin, Page, "The Anatomy of a Large-Scale Hypertextual Web Search Engine", WWW 1998. The scores sum to 1: the score of vertices
//! without out-edges is shared evenly among all.

use biombo_base::{Error, Result};

use crate::media::Array;
use crate::team::Team;
use crate::view::{Blocks, View};

/// The usual share of a score that follows an edge.
pub const DAMPING: f64 = 0.85;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// After so many iterations at most.
    pub iterations: u32,
    /// Once an iteration changes the scores by less than this, all changes added up. 0: never.
    pub tolerance: f64,
}

/// Scores, and how they came about.
pub struct Scores {
    /// Of each vertex.
    pub scores: Array<f64>,
    /// How many iterations were made.
    pub iterations: u32,
    /// By how much the last one changed the scores, all changes added up.
    pub change: f64,
}

/// What a block of vertices adds to an iteration.
#[derive(Default, Clone, Copy)]
struct Sums {
    change: f64,
    /// The score of vertices without out-edges.
    dangling: f64,
}

/// The PageRank of all vertices. O(edges) an iteration; 16 bytes a vertex.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::kernels::pagerank::{Stop, pagerank};
/// use biombo_graph::team::Team;
/// let mut team = Team::new(1)?;
/// let graph = Csr::build(3, &[[0, 2], [1, 2]], Shape::DIRECTED, &mut team)?;
/// let ranked = pagerank(&graph, Stop { iterations: 100, tolerance: 1e-9 }, &mut team)?;
/// assert!(ranked.scores[2] > ranked.scores[0]);
/// assert!((ranked.scores.iter().sum::<f64>() - 1.0).abs() < 1e-6);
/// # Ok::<(), biombo_base::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for a tolerance below 0; `Io` when there is no memory.
pub fn pagerank<V: View>(view: &V, stop: Stop, team: &mut Team) -> Result<Scores> {
    if stop.tolerance.is_nan() || stop.tolerance < 0.0 {
        return Err(Error::invalid(format!("the tolerance {} is no number from 0", stop.tolerance)));
    }
    let vertices = view.vertices();
    let mut scores = Array::<f64>::zeroed(vertices)?;
    let mut given = Array::<f32>::zeroed(vertices)?;
    let mut next = Array::<f32>::zeroed(vertices)?;
    let even = 1.0 / vertices as f64;
    let mut sums = over(view.blocks(), team, &mut scores, &mut given, |vertex, score, give| {
        *score = even;
        let degree = view.out_degree(vertex);
        *give = share(even, degree);
        Sums { change: 0.0, dangling: if degree == 0 { even } else { 0.0 } }
    });
    let (mut iterations, mut change) = (0, f64::INFINITY);
    while iterations < stop.iterations && change >= stop.tolerance {
        let base = (1.0 - DAMPING) * even + DAMPING * sums.dangling * even;
        sums = over(view.blocks(), team, &mut scores, &mut next, |vertex, score, give| {
            let new = base + DAMPING * sum_of(view.in_neighbors(vertex), &given);
            let degree = view.out_degree(vertex);
            *give = share(new, degree);
            let change = (new - *score).abs();
            *score = new;
            Sums { change, dangling: if degree == 0 { new } else { 0.0 } }
        });
        std::mem::swap(&mut given, &mut next);
        (iterations, change) = (iterations + 1, sums.change);
    }
    Ok(Scores { scores, iterations, change })
}

/// What a vertex gives along each of its edges.
#[inline]
fn share(score: f64, degree: usize) -> f32 {
    if degree == 0 { 0.0 } else { (score / degree as f64) as f32 }
}

/// What `neighbors` give together, added up in the order of the list.
#[inline]
fn sum_of(neighbors: &[u32], given: &[f32]) -> f64 {
    neighbors.iter().map(|neighbor| f64::from(given[*neighbor as usize])).sum()
}

/// `work` on every vertex of every block; the blocks' sums in their order.
fn over(
    blocks: &Blocks,
    team: &mut Team,
    scores: &mut [f64],
    given: &mut [f32],
    work: impl Fn(u32, &mut f64, &mut f32) -> Sums + Sync,
) -> Sums {
    let parts = blocks.split(scores).into_iter().zip(blocks.split(given)).enumerate();
    let mut parts: Vec<_> = parts.map(|(block, part)| ((part, blocks.range(block)), Sums::default())).collect();
    team.tasks(parts.iter_mut().collect(), |_, (((scores, given), vertices), sums)| {
        for ((score, give), vertex) in scores.iter_mut().zip(given.iter_mut()).zip(vertices.clone()) {
            let more = work(vertex, score, give);
            sums.change += more.change;
            sums.dangling += more.dangling;
        }
    });
    parts.iter().fold(Sums::default(), |sum, (_, more)| Sums {
        change: sum.change + more.change,
        dangling: sum.dangling + more.dangling,
    })
}

/// Checks scores: they sum to 1, and one more iteration, pushed along the edges in `f64` by one thread, changes them by less than
/// `tolerance`, all changes added up.
///
/// # Errors
/// What is wrong.
pub fn verify<V: View>(view: &V, scores: &[f64], tolerance: f64) -> Result<(), String> {
    let vertices = view.vertices();
    if scores.len() != vertices {
        return Err(format!("there are {} scores of {vertices} vertices", scores.len()));
    }
    if vertices == 0 {
        return Ok(());
    }
    let sum: f64 = scores.iter().sum();
    if (sum - 1.0).abs() > 1e-5 {
        return Err(format!("the scores sum to {sum}"));
    }
    let pushed = push_plainly(view, scores);
    let change: f64 = scores.iter().zip(&pushed).map(|(score, new)| (score - new).abs()).sum();
    if change < tolerance { Ok(()) } else { Err(format!("one more iteration changes the scores by {change}")) }
}

/// One iteration by the textbook.
fn push_plainly<V: View>(view: &V, scores: &[f64]) -> Vec<f64> {
    let vertices = view.vertices();
    let mut incoming = vec![0.0; vertices];
    let mut dangling = 0.0;
    for (vertex, score) in (0u32..).zip(scores) {
        let neighbors = view.out_neighbors(vertex);
        if neighbors.is_empty() {
            dangling += score;
        }
        neighbors.iter().for_each(|neighbor| incoming[*neighbor as usize] += score / neighbors.len() as f64);
    }
    let base = (1.0 - DAMPING + DAMPING * dangling) / vertices as f64;
    incoming.into_iter().map(|incoming| base + DAMPING * incoming).collect()
}
