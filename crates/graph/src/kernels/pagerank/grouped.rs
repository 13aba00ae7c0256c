//! Lists whose neighbours are renamed so that those that are read most stand together.
//!
//! PageRank reads one small number for each edge, at a place that nobody foresees. Of a skewed graph, few vertices are at most of these
//! places, but as they are numbered they share their cache lines with others that hardly anybody reads. Here vertices are in groups by their
//! degree, each of twice the degree of the next, the largest first; within a group they stay in their order. What most edges
//! read then fits the processor's own cache. The lists stand as often as there are iterations: copying them once pays.
//!
//! Names change and nothing else: lists keep their order, so that sums are the same, to the last bit, as without.
//!
//! Source: Faldu, Diamond, Grot, "A Closer Look at Lightweight Graph Reordering", IISWC 2019 (groups by degree); there, the graph is
//! renumbered and its lists with it, here neighbours alone.

use std::sync::atomic::{AtomicU32, Ordering};

use biombo_base::Result;
use biombo_base::prefetch::prefetch_item;

use super::{Given, indexes};
use crate::csr::Rows;
use crate::media::Array;
use crate::team::Team;
use crate::view::{Lists, View};

/// Groups of vertices, by how many bits their degree has.
const GROUPS: usize = 33;
/// What of a processor's own cache such numbers may take, in bytes: half of what the smallest ones of servers have.
const CACHE_BYTES: usize = 512 << 10;
/// So many iterations pay for the copy.
const ITERATIONS_MIN: u32 = 8;

/// In-lists with other names for the neighbours, and what the vertices give, by their other names.
pub(super) struct Grouped {
    /// The other name of each vertex.
    names: Array<u32>,
    offsets: Array<u64>,
    targets: Array<u32>,
    /// What is read and what comes next, in turns; `f32` in bits.
    given: [Array<AtomicU32>; 2],
}

/// How many vertices there are of each group, and how many edges leave them.
#[derive(Clone, Copy)]
struct Census {
    vertices: [u32; GROUPS],
    edges: [u64; GROUPS],
    /// How many edges come in.
    incoming: u64,
}

impl Grouped {
    /// `None` where it would not pay.
    pub(super) fn of<V: View>(view: &V, iterations: u32, team: &mut Team) -> Result<Option<Self>> {
        let (vertices, blocks) = (view.vertices(), view.blocks());
        let fits = vertices * size_of::<f32>() <= CACHE_BYTES;
        if fits || iterations < ITERATIONS_MIN || blocks.owners().nodes() > 1 {
            return Ok(None);
        }
        let mut censuses = team.map(blocks.len(), |_, block| {
            let mut census = Census { vertices: [0; GROUPS], edges: [0; GROUPS], incoming: 0 };
            for vertex in blocks.range(block) {
                let degree = view.out_lists().degree(vertex);
                census.vertices[group(degree)] += 1;
                census.edges[group(degree)] += degree as u64;
                census.incoming += view.in_lists().degree(vertex) as u64;
            }
            census
        });
        if !pays(&censuses, view.edges()) {
            return Ok(None);
        }
        // From how many there are to where each block's begin.
        let mut next = 0;
        for group in (0..GROUPS).rev() {
            for census in &mut censuses {
                next += std::mem::replace(&mut census.vertices[group], next);
            }
        }
        let mut names: Array<u32> = blocks.any(team)?;
        let parts: Vec<_> = blocks.split(&mut names).into_iter().zip(censuses.iter().copied()).enumerate().collect();
        team.tasks(parts, |_, (block, (names, mut census))| {
            for (name, vertex) in names.iter_mut().zip(blocks.range(block)) {
                let next = &mut census.vertices[group(view.out_lists().degree(vertex))];
                *name = *next;
                *next += 1;
            }
        });
        let edges: u64 = censuses.iter().map(|census| census.incoming).sum();
        let mut offsets = Array::<u64>::spare(vertices + 1, team.spares())?.0;
        let mut targets = Array::<u32>::spare(edges as usize, team.spares())?.0;
        let (mut rest, mut begin) = (&mut targets[..], 0);
        let mut parts = Vec::with_capacity(blocks.len());
        offsets[0] = 0;
        for ((block, ends), census) in blocks.split(&mut offsets[1..]).into_iter().enumerate().zip(&censuses) {
            let (targets, after) = std::mem::take(&mut rest).split_at_mut(census.incoming as usize);
            parts.push((block, begin, ends, targets));
            (rest, begin) = (after, begin + census.incoming);
        }
        team.tasks(parts, |_, (block, begin, ends, targets)| {
            let (mut ends, mut at) = (ends.iter_mut(), 0);
            view.in_lists().each_ahead(blocks.range(block), |_, list, ahead| {
                let targets = &mut targets[at..at + list.len()];
                for (target, neighbor) in targets.iter_mut().zip(list) {
                    *target = names[*neighbor as usize];
                }
                ahead.iter().take(list.len()).for_each(|ahead| prefetch_item(&names, *ahead as usize));
                at += list.len();
                *ends.next().expect("invariant: a block has an end for each vertex") = begin + at as u64;
            });
        });
        let given = [blocks.any(team)?, blocks.any(team)?];
        Ok(Some(Self { names, offsets, targets, given }))
    }

    /// The lists.
    pub(super) fn lists(&self) -> impl Lists + '_ {
        Rows { offsets: &self.offsets, targets: &self.targets }
    }

    /// What is read in an iteration.
    pub(super) fn given(&self, iteration: u32) -> &[AtomicU32] {
        &self.given[iteration as usize % 2]
    }

    /// What the vertices of a block give in an iteration.
    pub(super) fn give(&self, iteration: u32, block: &std::ops::Range<u32>, given: &[f32]) {
        let places = self.given(iteration);
        for (name, given) in self.names[indexes(block)].iter().zip(given) {
            places[*name as usize].store(given.to_bits(), Ordering::Relaxed);
        }
    }
}

impl Given for &[AtomicU32] {
    #[inline]
    fn of(self, neighbor: u32) -> f32 {
        f32::from_bits(self[neighbor as usize].load(Ordering::Relaxed))
    }

    #[inline]
    fn ask(self, neighbor: u32) {
        prefetch_item(self, neighbor as usize);
    }
}

fn group(degree: usize) -> usize {
    (usize::BITS - degree.leading_zeros()) as usize
}

/// Whether half of the edges read what fits the cache.
fn pays(censuses: &[Census], edges: u64) -> bool {
    let (mut room, mut near) = ((CACHE_BYTES / size_of::<f32>()) as u64, 0);
    for group in (0..GROUPS).rev() {
        let vertices: u64 = censuses.iter().map(|census| u64::from(census.vertices[group])).sum();
        let leaving: u64 = censuses.iter().map(|census| census.edges[group]).sum();
        let fit = vertices.min(room);
        near += if vertices > 0 { leaving / vertices * fit } else { 0 };
        room -= fit;
    }
    near * 2 > edges
}
