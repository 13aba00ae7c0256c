//! Betweenness centrality: Brandes' algorithm from any number of sources.
//!
//! From each source, levels come from the direction-optimising search. Then the number of shortest paths to each vertex is pulled from its
//! in-neighbours one level above, level by level, and the share of them that goes on through it is pulled from its out-neighbours one
//! level below, back again. A level is a set of bits, so that the look at a neighbour stays in the cache; nothing is written by two
//! threads, and sums follow the order of lists: the answer is the same, to the last bit, for any number of threads.
//!
//! Numbers of paths grow past what an `f64` holds, in a grid of 520 by 520 vertices already. Only their ratios between a level and the
//! next one count, so a level whose numbers get large is scaled down, by a power of two that the way back knows. Where those of one level lie too
//! far apart for that, in a grid of 1,010 by 1,010 vertices seen from a corner, each has an exponent of its own (`wide`).
//!
//! Sources: Brandes, "A Faster Algorithm for Betweenness Centrality", Journal of Mathematical Sociology 25(2), 2001; Madduri, Ediger, Jiang,
//! Bader, Chavarría-Miranda, "A faster parallel algorithm and efficient multithreaded implementations for evaluating betweenness
//! centrality on massive datasets", IPDPS 2009 (dependencies by levels).

mod wide;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use biombo_base::Result;

use super::bfs::{self, Frontier};
use super::check_source;
use crate::bitmap::Bitmap;
use crate::media::Array;
use crate::team::Team;
use crate::view::{Lists, View};
use wide::{Large, Wide};

/// Vertices of a level that a thread takes at once.
const LEVEL_GRAIN: usize = 128;

/// A level with more paths than this to a vertex is scaled by [`SCALE`].
const PATHS_MAX: f64 = power_of_two(500);
const SCALE: f64 = power_of_two(-500);
/// And after that no vertex has fewer.
const PATHS_MIN: f64 = power_of_two(-900);

const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

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
/// path is seen from both ends. O(vertices + edges) a source; 32 bytes a vertex, 8 more for a source as in the next paragraph.
///
/// Numbers of paths are `f64`: exact up to 2^53 of them, rounded beyond, without an upper limit. A source for which those to vertices equally
/// far from it lie further apart than 2^900 takes some times as long.
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
    let (paths, shares) = (Values(blocks.any(team)?), Values(blocks.any(team)?));
    let level = Bitmap::new(vertices, team)?;
    let (in_lists, out_lists) = (view.in_lists(), view.out_lists());
    // Taken when a source needs them.
    let mut exponents: Option<Array<AtomicU64>> = None;
    for &source in sources {
        let levels = bfs::levels(view, source, team)?;
        paths.set(source, 1.0);
        // By what each level is scaled beside the one above it.
        let mut scales = vec![1.0];
        for pair in levels.windows(2) {
            let (above, below) = (&pair[0], &pair[1]);
            above.insert_into(&level, team);
            let spans = team.gather(&below.shares, LEVEL_GRAIN, |range, span: &mut Span| {
                for &vertex in &below.vertices[range] {
                    let neighbors = in_lists.list(vertex).iter();
                    let count = neighbors.filter(|v| level.contains(**v)).map(|v| paths.get(*v)).sum();
                    paths.set(vertex, count);
                    span.add(count);
                }
            });
            above.clear_from(&level, team);
            match paths.scaled(below, spans, team) {
                Some(scale) => scales.push(scale),
                None => break,
            }
        }
        if scales.len() < levels.len() {
            let taken = exponents.take().map_or_else(|| blocks.any(team), Ok)?;
            let exponents = exponents.insert(taken);
            let wide = Wide { scores: &scores, mantissas: &paths, exponents, dependencies: &shares, level: &level };
            wide.add(view, source, &levels, team);
            continue;
        }
        let nothing = Frontier::default();
        for (at, here) in levels.iter().enumerate().rev() {
            let below = levels.get(at + 1).unwrap_or(&nothing);
            let scale = scales.get(at + 1).copied().unwrap_or(1.0);
            below.insert_into(&level, team);
            each(here, team, |vertex| {
                let neighbors = out_lists.list(vertex).iter();
                let given = neighbors.filter(|v| level.contains(**v)).map(|v| shares.get(*v)).sum::<f64>();
                let dependency = given * scale * paths.get(vertex);
                // What a vertex above takes of this one for each of its paths.
                shares.set(vertex, (1.0 + dependency) / paths.get(vertex));
                if vertex != source {
                    scores.set(vertex, scores.get(vertex) + dependency);
                }
            });
            below.clear_from(&level, team);
        }
    }
    let mut answer = blocks.any::<f64>(team)?;
    let parts = blocks.split(&mut answer).into_iter().enumerate();
    team.tasks_of(blocks.whole(), blocks.in_places(parts), |_, (block, part)| {
        part.iter_mut().zip(blocks.range(block)).for_each(|(answer, vertex)| *answer = scores.get(vertex));
    });
    Ok(answer)
}

/// The least and the most paths to some vertices.
#[derive(Clone, Copy)]
struct Span {
    least: f64,
    most: f64,
}

impl Default for Span {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: 0.0 }
    }
}

impl Span {
    #[inline]
    fn add(&mut self, count: f64) {
        self.least = self.least.min(count);
        self.most = self.most.max(count);
    }
}

impl Values {
    /// Make the numbers of paths to the vertices of a level smaller, if they are large: by which factor. `None` where they lie too far apart
    /// for one.
    fn scaled(&self, level: &Frontier, spans: Vec<Span>, team: &mut Team) -> Option<f64> {
        if spans.iter().all(|span| span.most <= PATHS_MAX) {
            return Some(1.0);
        }
        if spans.iter().any(|span| span.least * SCALE < PATHS_MIN) {
            return None;
        }
        each(level, team, |vertex| self.set(vertex, self.get(vertex) * SCALE));
        Some(SCALE)
    }
}

/// `work` on the vertices of a level.
fn each(level: &Frontier, team: &mut Team, work: impl Fn(u32) + Sync) {
    team.walk(&level.shares, LEVEL_GRAIN, |_, range| level.vertices[range].iter().for_each(|vertex| work(*vertex)));
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
        let (mut depths, mut shares) = (vec![-1i64; vertices], vec![0.0; vertices]);
        let mut paths = vec![Large::default(); vertices];
        (depths[source as usize], paths[source as usize]) = (0, Large::ONE);
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
                    paths[neighbor as usize] = paths[neighbor as usize].plus(paths[vertex as usize]);
                }
            }
        }
        while let Some(vertex) = stack.pop() {
            for &neighbor in view.out_neighbors(vertex) {
                if depths[neighbor as usize] == depths[vertex as usize] + 1 {
                    let part = paths[vertex as usize].by(paths[neighbor as usize]);
                    shares[vertex as usize] += part * (1.0 + shares[neighbor as usize]);
                }
            }
            if vertex != source {
                scores[vertex as usize] += shares[vertex as usize];
            }
        }
    }
    scores
}
