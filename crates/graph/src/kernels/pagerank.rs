//! PageRank by pulling: each vertex adds up what its in-neighbours give.
//!
//! Every iteration computes all scores from those of the one before (Jacobi), and sums are taken in the order of lists and blocks, so
//! that the answer is the same, to the last bit, for any number of threads. What an in-neighbour gives is kept as `f32`, half the memory to
//! hop through; sums and scores are `f64`, but for sums of a few (`Sum`).
//!
//! Source: Brin, Page, "The Anatomy of a Large-Scale Hypertextual Web Search Engine", WWW 1998. The scores sum to 1: the score of vertices
//! without out-edges is shared evenly among all.

use std::ops::{AddAssign, Range};

use biombo_base::prefetch::prefetch_item;
use biombo_base::{Error, Result};

use crate::media::Array;
use crate::team::Team;
use crate::view::{Blocks, Lists, View};

/// The usual share of a score that follows an edge.
pub const DAMPING: f64 = 0.85;

/// How many sums of what gives nothing there are; see [`give`].
const GIVE_LANES: usize = 4;

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

/// The PageRank of all vertices. O(edges) an iteration; 20 bytes a vertex.
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
    // Nobody asks for the scores of an iteration: neither how far they are from those before, nor from those after.
    ranked(view, stop, stop.tolerance > 0.0, team)
}

/// As [`pagerank`]; `keeps`: with the scores of each iteration, but for the last two of which they always are.
pub(super) fn ranked<V: View>(view: &V, stop: Stop, keeps: bool, team: &mut Team) -> Result<Scores> {
    if stop.tolerance.is_nan() || stop.tolerance < 0.0 {
        return Err(Error::invalid(format!("the tolerance {} is no number from 0", stop.tolerance)));
    }
    let vertices = view.vertices();
    let blocks = view.blocks();
    let mut scores: Array<f64> = blocks.any(team)?;
    let mut given: Array<f32> = blocks.any(team)?;
    let mut next: Array<f32> = blocks.any(team)?;
    let mut shares: Array<f32> = blocks.any(team)?;
    let parts = blocks.in_places(blocks.split(&mut shares).into_iter().enumerate());
    team.tasks_of(blocks.whole(), parts, |_, (block, shares)| share(view.out_lists(), blocks.range(block), shares));

    let even = 1.0 / vertices as f64;
    let mut striped = Striped::over(blocks, vertices, team)?;
    let mut sums = over(blocks, team, &mut scores, &mut given, |block, scores, given| {
        scores.fill(even);
        Sums { change: 0.0, dangling: give(scores, &shares[indexes(&block)], given) }
    });
    let wants_change = stop.tolerance > 0.0;
    let (mut iterations, mut change) = (0, f64::INFINITY);
    while iterations < stop.iterations && change >= stop.tolerance {
        let base = (1.0 - DAMPING) * even + DAMPING * sums.dangling * even;
        // What round robin deals does not stand together: it is pulled where it belongs, and added up block by block as everywhere.
        let pulled = match wants_change {
            true => striped.pull::<f64, V>(view, &given, team),
            false => striped.pull::<f32, V>(view, &given, team),
        };
        let passes = !keeps && stop.iterations - iterations > 2;
        sums = over(blocks, team, &mut scores, &mut next, |block, scores, next| {
            let shares = &shares[indexes(&block)];
            let change = match pulled {
                None if passes => {
                    let dangling = pass(view.in_lists(), block, base, &given, shares, next);
                    return Sums { change: f64::INFINITY, dangling };
                }
                None if wants_change => pull::<f64>(view.in_lists(), block, base, &given, scores),
                None => pull::<f32>(view.in_lists(), block, base, &given, scores),
                Some(incoming) => take(incoming, block, blocks.owners().nodes(), base, scores),
            };
            Sums { change, dangling: give(scores, shares, next) }
        });
        std::mem::swap(&mut given, &mut next);
        (iterations, change) = (iterations + 1, sums.change);
    }
    Ok(Scores { scores, iterations, change })
}

/// New scores of a block from what in-neighbours give; by how much they change.
///
/// A function of its own, with all that its loop needs in arguments: what the processor has to do besides waiting for memory decides how
/// many reads it has under way.
#[inline(never)]
fn pull<S: Sum>(lists: impl Lists, block: Range<u32>, base: f64, given: &[f32], scores: &mut [f64]) -> f64 {
    let mut change = 0.0;
    let mut scores = scores.iter_mut();
    lists.each_ahead(block, |_, list, ahead| {
        let score = scores.next().expect("invariant: a block has a score for each vertex");
        let new = base + DAMPING * incoming::<S>(list, ahead, given);
        change += (new - *score).abs();
        *score = new;
    });
    change
}

/// As [`pull`] in `f32` and then [`give`], to the last bit, without keeping the scores: the scores of a block that give nothing.
#[inline(never)]
fn pass(lists: impl Lists, block: Range<u32>, base: f64, given: &[f32], shares: &[f32], next: &mut [f32]) -> f64 {
    let mut dangling = [0.0; GIVE_LANES];
    let mut vertices = shares.iter().zip(next).enumerate();
    lists.each_ahead(block, |_, list, ahead| {
        let (at, (share, next)) = vertices.next().expect("invariant: a block has a share for each vertex");
        let new = base + DAMPING * incoming::<f32>(list, ahead, given);
        *next = (new * f64::from(*share)) as f32;
        if *share == 0.0 {
            dangling[at % GIVE_LANES] += new;
        }
    });
    dangling.iter().sum()
}

/// How many are added up as `S` before they become `f64`.
const RUN: usize = 16;

/// What few sums are: `f32` where a number of iterations is asked for, which is a tenth faster, and `f64` where a change is, which rounding to `f32`
/// would keep from ever becoming small.
trait Sum: Default + AddAssign + From<f32> + Into<f64> + 'static {}

impl Sum for f32 {}
impl Sum for f64 {}

/// How many words further on than those that are asked about are asked for themselves: a kilobyte, so that gaps between lists are streamed past.
/// Tried on one machine with one graph, with no other distance beside it.
const STREAM: usize = 256;

/// What comes in from the neighbours of a list. In its order, [`RUN`] at a time: the sums of so many are `S`, and those of their sums `f64`,
/// whatever stands `ahead`. That is asked for meanwhile.
///
/// Short loops: where one ends is not foreseen as a rule, and what was asked for before is under way all the same.
#[inline]
fn incoming<S: Sum>(list: &[u32], ahead: &[u32], given: &[f32]) -> f64 {
    let mut sum = 0.0;
    let mut ahead = ahead.chunks(RUN);
    for run in list.chunks(RUN) {
        let mut few = S::default();
        match ahead.next() {
            Some(ahead) if ahead.len() >= run.len() => {
                prefetch_item(ahead, STREAM);
                for (neighbor, ahead) in run.iter().zip(ahead) {
                    prefetch_item(given, *ahead as usize);
                    few += given[*neighbor as usize].into();
                }
            }
            _ => run.iter().for_each(|neighbor| few += given[*neighbor as usize].into()),
        }
        sum += few.into();
    }
    sum
}

/// What comes in at each vertex, where vertices that follow each other are on different nodes: the vertices of each node together, so
/// that no two nodes write one cache line. Empty where blocks belong to nodes.
struct Striped {
    incoming: Vec<Array<f64>>,
}

impl Striped {
    fn over(blocks: &Blocks, vertices: usize, team: &Team) -> Result<Self> {
        let nodes = if blocks.owners().is_striped() { blocks.owners().nodes() } else { 0 };
        // Each sum is stored before it is read.
        let of = |node: usize| {
            let spare = Array::spare(vertices.saturating_sub(node).div_ceil(nodes), team.spares());
            spare.map(|(array, _)| array)
        };
        Ok(Self { incoming: (0..nodes).map(of).collect::<Result<_>>()? })
    }

    /// The sums of an iteration, each node's by its own threads; `None` where blocks belong to nodes.
    fn pull<S: Sum, V: View>(&mut self, view: &V, given: &[f32], team: &mut Team) -> Option<&[Array<f64>]> {
        if self.incoming.is_empty() {
            return None;
        }
        let blocks = view.blocks();
        let mut tasks = Vec::with_capacity(blocks.shares().iter().map(Range::len).sum());
        for (incoming, places) in self.incoming.iter_mut().zip(blocks.shares()) {
            let mut rest = &mut incoming[..];
            for place in places.clone() {
                let (part, after) = std::mem::take(&mut rest).split_at_mut(blocks.members(place).len());
                tasks.push((place, part));
                rest = after;
            }
        }
        team.tasks_of(blocks.shares(), tasks, |_, (place, sums)| {
            let lists = view.in_lists();
            for (sum, vertex) in sums.iter_mut().zip(blocks.members(place)) {
                *sum = incoming::<S>(lists.list(vertex), &[], given);
            }
        });
        Some(&self.incoming)
    }
}

/// New scores of a block from what came in, as [`pull`] makes them.
fn take(incoming: &[Array<f64>], block: Range<u32>, nodes: usize, base: f64, scores: &mut [f64]) -> f64 {
    let mut change = 0.0;
    for (score, vertex) in scores.iter_mut().zip(indexes(&block)) {
        let new = base + DAMPING * incoming[vertex % nodes][vertex / nodes];
        change += (new - *score).abs();
        *score = new;
    }
    change
}

/// Which part of its score each vertex of a block gives along an edge: 1 / degree, 0 where there is none.
fn share(lists: impl Lists, block: Range<u32>, shares: &mut [f32]) {
    for (share, vertex) in shares.iter_mut().zip(block) {
        let degree = lists.degree(vertex);
        *share = if degree == 0 { 0.0 } else { 1.0 / degree as f32 };
    }
}

/// What the vertices of a block give along each of their edges; the score of those that have none. Four sums, so that the compiler may
/// work on several vertices at once; their order is fixed.
#[inline(never)]
fn give(scores: &[f64], shares: &[f32], given: &mut [f32]) -> f64 {
    let mut dangling = [0.0; GIVE_LANES];
    let parts = scores.chunks(GIVE_LANES).zip(shares.chunks(GIVE_LANES)).zip(given.chunks_mut(GIVE_LANES));
    for ((scores, shares), given) in parts {
        for (((score, share), given), dangling) in scores.iter().zip(shares).zip(given).zip(&mut dangling) {
            *given = (*score * f64::from(*share)) as f32;
            *dangling += if *share == 0.0 { *score } else { 0.0 };
        }
    }
    dangling.iter().sum()
}

/// A block's vertices as indexes.
fn indexes(block: &Range<u32>) -> Range<usize> {
    block.start as usize..block.end as usize
}

/// `work` on every block with its part of both arrays; the blocks' sums in their order.
fn over(
    blocks: &Blocks,
    team: &mut Team,
    scores: &mut [f64],
    given: &mut [f32],
    work: impl Fn(Range<u32>, &mut [f64], &mut [f32]) -> Sums + Sync,
) -> Sums {
    let parts = blocks.split(scores).into_iter().zip(blocks.split(given)).enumerate();
    let mut parts: Vec<_> = parts.map(|(block, part)| (blocks.range(block), part, Sums::default())).collect();
    team.tasks_of(blocks.whole(), blocks.in_places(parts.iter_mut()), |_, (block, (scores, given), sums)| {
        *sums = work(block.clone(), scores, given);
    });
    parts.iter().fold(Sums::default(), |sum, (_, _, more)| Sums {
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
