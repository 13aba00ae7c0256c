//! Betweenness centrality: Brandes' algorithm from any number of sources.
//!
//! From each source, depths come from the direction-optimising search. Then the number of shortest paths to each vertex is pulled from its
//! in-neighbours one level above, level by level, and the share of them that goes on through it is pulled from its out-neighbours one
//! level below, back again. A level is a set of bits, so that the look at a neighbour stays in the cache; nothing is written by two
//! threads, and sums follow the order of lists: the answer is the same, to the last bit, for any number of threads.
//!
//! Sources: Brandes, "A Faster Algorithm for Betweenness Centrality", Journal of Mathematical Sociology 25(2), 2001; Madduri, Ediger, Jiang,
//! Bader, Chavarría-Miranda, "A faster parallel algorithm and efficient multithreaded implementations for evaluating betweenness
//! centrality on massive datasets", IPDPS 2009 (dependencies by levels).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use biombo_base::Result;

use super::bfs::bfs;
use super::check_source;
use crate::bitmap::Bitmap;
use crate::media::Array;
use crate::numa::Owners;
use crate::team::Team;
use crate::view::{Lists, View};

/// Vertices of a level that a thread takes at once.
const LEVEL_GRAIN: usize = 128;

/// An `f64` that one thread writes and many read, in another round of the team.
#[derive(Debug)]
struct Values(Array<AtomicU64>);

impl Values {
    #[inline]
    fn get(&self, vertex: u32) -> f64 {
        f64::from_bits(self.0[vertex as usize].load(Relaxed))
    }

    #[inline]
    fn set(&self, vertex: u32, value: f64) {
        self.0[vertex as usize].store(value.to_bits(), Relaxed);
    }
}

/// For each vertex, the sum over `sources` of the shares of shortest paths from there to each other vertex that go through it; the
/// ends of a path do not count. With all vertices as sources that is the betweenness centrality, in an undirected graph twice: each
/// path is seen from both ends. O(vertices + edges) a source; 32 bytes a vertex.
///
/// Numbers of paths are `f64`: exact up to 2^53 of them, rounded beyond.
///
/// ```
/// use biombo_graph::csr::{Csr, Shape};
/// use biombo_graph::{kernels::brandes, team::Team};
/// let mut team = Team::new(1)?;
/// let path = Csr::build(3, &[[0, 1], [1, 2]], Shape::UNDIRECTED, &mut team)?;
/// assert_eq!(*brandes(&path, &[0, 1, 2], &mut team)?, [0.0, 2.0, 0.0]);
/// # Ok::<(), biombo_base::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for a source that is no vertex; `Io` when there is no memory.
pub fn brandes<V: View>(view: &V, sources: &[u32], team: &mut Team) -> Result<Array<f64>> {
    let vertices = view.vertices();
    sources.iter().try_for_each(|source| check_source(*source, vertices))?;
    let blocks = view.blocks();
    let scores = Values(blocks.zeroed(team)?);
    let (paths, shares) = (Values(blocks.zeroed(team)?), Values(blocks.zeroed(team)?));
    let level = Bitmap::new(vertices)?;
    let (in_lists, out_lists) = (view.in_lists(), view.out_lists());
    for &source in sources {
        let Levels { order, levels, shares: nodes } = levels(bfs(view, source, team)?.depths(), blocks.owners());
        paths.set(source, 1.0);
        for (pair, below) in levels.windows(2).zip(&nodes[1..]) {
            let above = &order[pair[0].clone()];
            above.iter().for_each(|vertex| level.insert(*vertex));
            each(&order, below, team, |vertex| {
                let neighbors = in_lists.list(vertex).iter();
                paths.set(vertex, neighbors.filter(|v| level.contains(**v)).map(|v| paths.get(*v)).sum());
            });
            level.clear_words_of(above);
        }
        for at in (0..levels.len()).rev() {
            let below = levels.get(at + 1).map_or(&[][..], |range| &order[range.clone()]);
            below.iter().for_each(|vertex| level.insert(*vertex));
            each(&order, &nodes[at], team, |vertex| {
                let neighbors = out_lists.list(vertex).iter();
                let given = neighbors.filter(|v| level.contains(**v)).map(|v| shares.get(*v)).sum::<f64>();
                let dependency = given * paths.get(vertex);
                // What a vertex above takes of this one for each of its paths.
                shares.set(vertex, (1.0 + dependency) / paths.get(vertex));
                if vertex != source {
                    scores.set(vertex, scores.get(vertex) + dependency);
                }
            });
            level.clear_words_of(below);
        }
    }
    let mut answer = Array::<f64>::zeroed(vertices)?;
    answer.iter_mut().zip(0..).for_each(|(answer, vertex)| *answer = scores.get(vertex));
    Ok(answer)
}

/// The vertices that are reached.
struct Levels {
    /// By depth, those of a depth by their nodes, and ascending within each.
    order: Vec<u32>,
    /// Which part of them each depth has.
    levels: Vec<Range<usize>>,
    /// And of that each node.
    shares: Vec<Vec<Range<usize>>>,
}

fn levels(depths: Vec<i64>, owners: &Owners) -> Levels {
    let nodes = owners.nodes();
    // Where the vertices of a depth and a node are.
    let place = |depth: usize, vertex: u32| depth * nodes + owners.node(vertex);
    let mut ends: Vec<usize> = Vec::new();
    for (depth, vertex) in depths.iter().zip(0..) {
        if let Ok(depth) = usize::try_from(*depth) {
            if (depth + 1) * nodes > ends.len() {
                ends.resize((depth + 1) * nodes, 0);
            }
            ends[place(depth, vertex)] += 1;
        }
    }
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    let mut order = vec![0; sum];
    for (depth, vertex) in depths.into_iter().zip(0..) {
        if let Ok(depth) = usize::try_from(depth) {
            let end = &mut ends[place(depth, vertex)];
            order[*end] = vertex;
            *end += 1;
        }
    }
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let ranges: Vec<Range<usize>> = begins.zip(&ends).map(|(begin, end)| begin..*end).collect();
    let shares: Vec<Vec<Range<usize>>> = ranges.chunks(nodes).map(<[_]>::to_vec).collect();
    let levels = shares.iter().map(|level| level[0].start..level[nodes - 1].end).collect();
    Levels { order, levels, shares }
}

/// `work` on the vertices of a level.
fn each(order: &[u32], shares: &[Range<usize>], team: &mut Team, work: impl Fn(u32) + Sync) {
    team.walk(shares, LEVEL_GRAIN, |_, range| order[range].iter().for_each(|vertex| work(*vertex)));
}

/// Checks scores against those of Brandes' own formulation, with a queue and a stack. The tolerance is relative to the largest score.
///
/// # Errors
/// What is wrong.
pub fn verify<V: View>(view: &V, sources: &[u32], scores: &[f64], tolerance: f64) -> Result<(), String> {
    let expected = scores_plainly(view, sources);
    if scores.len() != expected.len() {
        return Err(format!("there are {} scores of {} vertices", scores.len(), expected.len()));
    }
    let largest = expected.iter().copied().fold(1.0, f64::max);
    for (vertex, (score, expected)) in scores.iter().zip(&expected).enumerate() {
        let is_right = (score - expected).abs() <= tolerance * largest;
        if !is_right {
            return Err(format!("vertex {vertex} has the score {score}, not {expected}"));
        }
    }
    Ok(())
}

fn scores_plainly<V: View>(view: &V, sources: &[u32]) -> Vec<f64> {
    let vertices = view.vertices();
    let mut scores = vec![0.0; vertices];
    for &source in sources {
        let (mut depths, mut paths, mut shares) = (vec![-1i64; vertices], vec![0.0; vertices], vec![0.0; vertices]);
        (depths[source as usize], paths[source as usize]) = (0, 1.0);
        let mut stack = vec![source];
        let mut at = 0;
        while let Some(&vertex) = stack.get(at) {
            at += 1;
            for &neighbor in view.out_neighbors(vertex) {
                if depths[neighbor as usize] < 0 {
                    depths[neighbor as usize] = depths[vertex as usize] + 1;
                    stack.push(neighbor);
                }
                if depths[neighbor as usize] == depths[vertex as usize] + 1 {
                    paths[neighbor as usize] += paths[vertex as usize];
                }
            }
        }
        while let Some(vertex) = stack.pop() {
            for &neighbor in view.out_neighbors(vertex) {
                if depths[neighbor as usize] == depths[vertex as usize] + 1 {
                    shares[vertex as usize] +=
                        paths[vertex as usize] / paths[neighbor as usize] * (1.0 + shares[neighbor as usize]);
                }
            }
            if vertex != source {
                scores[vertex as usize] += shares[vertex as usize];
            }
        }
    }
    scores
}
