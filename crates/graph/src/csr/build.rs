//! Lists of neighbours out of edges in any order.
//!
//! 1. Count and scatter edges into buckets of neighbouring sources, few enough that each has its own place in the cache to be
//!    written to. Threads scatter equal shares of the edges, each to places of its own.
//! 2. Each bucket by itself, in cache: scatter its edges to their sources, sort each list, drop repeated ones.
//! 3. Add up the degrees and copy the lists to where they belong.
//!
//! Which thread does what changes nothing in the result.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use biombo_base::{Error, Result};

use super::{Adjacency, Shape};
use crate::media::Array;
use crate::team::Team;
use crate::{Edge, VERTICES_MAX};

/// Buckets to scatter into, at most.
const BUCKETS_MAX: usize = 1024;

/// Sources of a bucket, at least.
const BUCKET_VERTICES_MIN: usize = 256;

/// Which end of an edge is the source of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

/// Every end of every edge is a vertex, and there are not too many of those.
pub(super) fn check(vertices: usize, edges: &[Edge], team: &mut Team) -> Result<()> {
    if vertices > VERTICES_MAX {
        return Err(Error::invalid(format!("a graph has at most {VERTICES_MAX} vertices, not {vertices}")));
    }
    let chunks: Vec<&[Edge]> = edges.chunks(1 << 16).collect();
    let largest = team.map(chunks.len(), |_, chunk| chunks[chunk].iter().flatten().copied().max().unwrap_or(0));
    match largest.into_iter().max() {
        Some(largest) if largest as usize >= vertices => Err(Error::invalid(format!(
            "an edge ends at vertex {largest}; the graph has the vertices 0 to {vertices} - 1"
        ))),
        _ => Ok(()),
    }
}

/// Lists of neighbours of `0..vertices`, which all ends of `edges` are among.
pub(super) fn adjacency(
    vertices: usize,
    edges: &[Edge],
    shape: Shape,
    direction: Direction,
    team: &mut Team,
) -> Result<Adjacency> {
    let buckets = Buckets::over(vertices);
    let keep = |edge: &Edge| shape.keeps_loops || edge[0] != edge[1];
    // An edge as source and target, once or, undirected, from both ends.
    let ends = move |edge: &Edge| {
        let [source, target] = *edge;
        let turned = (!shape.is_directed).then_some((target, source));
        match direction {
            Direction::Out => (Some((source, target)), turned),
            Direction::In => (Some((target, source)), turned),
        }
    };
    let each = |share: &[Edge], visit: &mut dyn FnMut(u32, u32)| {
        for edge in share.iter().filter(|edge| keep(edge)) {
            let (first, second) = ends(edge);
            first.into_iter().chain(second).for_each(|(source, target)| visit(source, target));
        }
    };

    let scattered = Scattered::new(&buckets, edges, each, team)?;
    let lists = team.map(buckets.count, |_, bucket| buckets.lists(bucket, vertices, scattered.bucket(bucket)));
    drop(scattered);
    join(vertices, lists, team)
}

/// How sources are dealt into buckets: by their high bits.
struct Buckets {
    shift: u32,
    count: usize,
}

impl Buckets {
    fn over(vertices: usize) -> Self {
        let vertices_each = vertices.div_ceil(BUCKETS_MAX).max(BUCKET_VERTICES_MIN).next_power_of_two();
        Self { shift: vertices_each.trailing_zeros(), count: vertices.div_ceil(vertices_each) }
    }

    fn of(&self, source: u32) -> usize {
        (source >> self.shift) as usize
    }

    /// The degrees of a bucket's vertices and their lists, one after the other.
    fn lists(&self, bucket: usize, vertices: usize, packed: &[AtomicU64]) -> (Vec<u32>, Vec<u32>) {
        let first = bucket << self.shift;
        let count = (vertices - first).min(1 << self.shift);
        let mut ends = vec![0usize; count];
        let of = |edge: &AtomicU64| {
            let edge = edge.load(Relaxed);
            ((edge >> 32) as usize - first, edge as u32)
        };
        packed.iter().for_each(|edge| ends[of(edge).0] += 1);
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        let mut targets = vec![0u32; packed.len()];
        for edge in packed {
            let (source, target) = of(edge);
            targets[ends[source]] = target;
            ends[source] += 1;
        }
        let (mut begin, mut kept) = (0, 0);
        let mut degrees = Vec::with_capacity(count);
        for end in ends {
            targets[begin..end].sort_unstable();
            let list = kept;
            for at in begin..end {
                if kept == list || targets[kept - 1] != targets[at] {
                    targets[kept] = targets[at];
                    kept += 1;
                }
            }
            degrees.push((kept - list) as u32);
            begin = end;
        }
        targets.truncate(kept);
        (degrees, targets)
    }
}

/// Edges as `source << 32 | target`, bucket by bucket.
struct Scattered {
    packed: Array<AtomicU64>,
    /// Where each bucket begins, and the end.
    begins: Vec<usize>,
}

impl Scattered {
    fn new(
        buckets: &Buckets,
        edges: &[Edge],
        each: impl Fn(&[Edge], &mut dyn FnMut(u32, u32)) + Sync,
        team: &mut Team,
    ) -> Result<Self> {
        let share = edges.len().div_ceil(team.threads()).max(1);
        let shares: Vec<&[Edge]> = edges.chunks(share).collect();
        let mut places = team.map(shares.len(), |_, share| {
            let mut counts = vec![0usize; buckets.count];
            each(shares[share], &mut |source, _| counts[buckets.of(source)] += 1);
            counts
        });
        // Within a bucket, the shares' parts follow each other.
        let (mut begins, mut sum) = (vec![0], 0);
        for bucket in 0..buckets.count {
            for counts in &mut places {
                (counts[bucket], sum) = (sum, sum + counts[bucket]);
            }
            begins.push(sum);
        }
        let packed = Array::<AtomicU64>::zeroed(sum)?;
        let tasks: Vec<_> = shares.into_iter().zip(places).collect();
        team.tasks(tasks, |_, (share, mut places)| {
            each(share, &mut |source, target| {
                let place = &mut places[buckets.of(source)];
                packed[*place].store(u64::from(source) << 32 | u64::from(target), Relaxed);
                *place += 1;
            });
        });
        Ok(Self { packed, begins })
    }

    fn bucket(&self, bucket: usize) -> &[AtomicU64] {
        &self.packed[self.begins[bucket]..self.begins[bucket + 1]]
    }
}

/// All buckets' lists in one array.
fn join(vertices: usize, lists: Vec<(Vec<u32>, Vec<u32>)>, team: &mut Team) -> Result<Adjacency> {
    let mut offsets = Array::<u64>::zeroed(vertices + 1)?;
    let mut sum = 0u64;
    let degrees = lists.iter().flat_map(|(degrees, _)| degrees);
    for (offset, degree) in offsets[1..].iter_mut().zip(degrees) {
        sum += u64::from(*degree);
        *offset = sum;
    }
    let mut targets = Array::<u32>::zeroed(sum as usize)?;
    let mut rest = &mut targets[..];
    let mut copies = Vec::with_capacity(lists.len());
    for (_, list) in lists {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(list.len());
        copies.push((part, list));
        rest = after;
    }
    team.tasks(copies, |_, (part, list)| part.copy_from_slice(&list));
    Ok(Adjacency { offsets: offsets.into(), targets: targets.into() })
}
