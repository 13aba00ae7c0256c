//! What kernels see of a graph, whatever its layout.

use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

use biombo_base::Result;

use crate::media::{Array, Plain};
use crate::numa::{Allocation, Home, Owners, Place};
use crate::team::Team;

/// Vertices per bit set word: blocks of vertices begin at multiples, so that no two threads write one word.
pub const WORD_VERTICES: usize = 64;

/// Vertices of a *unit*, as a power of two: no block has vertices of two units, so that whole blocks belong to one NUMA node however units
/// are dealt. At least 1,024, which are a page of 4-byte values; larger ones in large graphs, of which there are at most 256.
pub fn unit_shift(vertices: usize) -> u32 {
    vertices.div_ceil(256).next_power_of_two().trailing_zeros().max(10)
}

/// How many words further on a kernel may ask for memory ahead of its use: what a processor has under way at once, and not so many that what came
/// is gone again.
pub(crate) const AHEAD: usize = 80;

/// The list of `length` words at `start` of some memory, and what stands [`AHEAD`] further on.
#[inline]
pub(crate) fn ahead(memory: &[u32], start: usize, length: usize) -> (&[u32], &[u32]) {
    let from = &memory[start..];
    (&from[..length], from.get(AHEAD..).unwrap_or_default())
}

/// Lists of neighbours in one direction. A copy of it is a few words: a kernel that holds one in its loop finds lists without going
/// through the graph again.
pub trait Lists: Copy + Sync {
    /// The neighbours of `vertex`.
    fn list<'a>(self, vertex: u32) -> &'a [u32]
    where
        Self: 'a;

    /// How many it has.
    fn degree(self, vertex: u32) -> usize;

    /// `work` on each vertex of a range with its neighbours, in their order. What several vertices have in common is looked up once.
    #[inline]
    fn each(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32])) {
        vertices.for_each(|vertex| work(vertex, self.list(vertex)));
    }

    /// As [`each`](Self::each), and with each list the words of memory that stand some way further on than its own, as far as there are any.
    /// They are neighbours of the vertices that follow, as a rule, and what nobody relies on otherwise: for prefetching.
    #[inline]
    fn each_ahead(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32], &[u32])) {
        self.each(vertices, |vertex, list| work(vertex, list, ahead(list, 0, list.len()).1));
    }
}

/// One state of a graph, to be read by many threads. Vertices have the numbers `0..vertices()`; lists of neighbours ascend, without
/// repetitions.
pub trait View: Sync {
    /// How many vertices there are.
    fn vertices(&self) -> usize;

    /// How many edges are stored: both directions of an undirected one, a loop once.
    fn edges(&self) -> u64;

    /// Whether edges have a direction. Of an undirected graph, in-neighbours are the same as out-neighbours.
    fn is_directed(&self) -> bool;

    /// The vertices that edges of each vertex lead to.
    fn out_lists(&self) -> impl Lists + '_;

    /// The vertices that edges to each vertex come from.
    fn in_lists(&self) -> impl Lists + '_;

    /// The vertices that edges of `vertex` lead to.
    fn out_neighbors(&self, vertex: u32) -> &[u32] {
        self.out_lists().list(vertex)
    }

    /// The vertices that edges to `vertex` come from.
    fn in_neighbors(&self, vertex: u32) -> &[u32] {
        self.in_lists().list(vertex)
    }

    /// How many edges leave `vertex`.
    fn out_degree(&self, vertex: u32) -> usize {
        self.out_lists().degree(vertex)
    }

    /// The vertices in blocks of about equal work.
    fn blocks(&self) -> &Blocks;
}

/// All vertices in blocks of about as many edges each, so that threads that take them in turn get equal work though degrees differ.
///
/// They depend on the degrees alone, not on threads, layout or NUMA nodes: sums over blocks are the same everywhere. Who works on them in
/// which order does depend on the nodes that vertices belong to ([`dealt`](Self::dealt)): a kernel walks over *places*, the blocks
/// of each node one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// Where each block begins, and the number of vertices at last.
    bounds: Vec<u32>,
    owners: Owners,
    /// Blocks, those of each node one after the other, and where each node's are.
    order: Vec<u32>,
    whole: Vec<Range<usize>>,
    /// Where each node's vertices are; other than `whole` for striped vertices alone.
    shares: Vec<Range<usize>>,
    /// Of striped vertices: the bits of a word that are 0, 1, 2.. modulo the number of nodes; otherwise empty.
    stripes: Vec<u64>,
    /// Where the memory of the nodes is.
    home: Option<Arc<Home>>,
}

impl Blocks {
    /// How many blocks there are at most, but for their whole words and for units.
    const COUNT_MAX: u64 = 512;

    /// The least weight of a block: below it, handing it out costs more than it saves.
    const WEIGHT_MIN: u64 = 8192;

    /// How much a vertex weighs beside its edges.
    const VERTEX_WEIGHT: u64 = 4;

    /// Of `vertices` vertices with `edges` edges together, `edges_before(v)` of them at vertices before `v`.
    /// O(blocks log vertices).
    pub fn new(vertices: usize, edges: u64, edges_before: impl Fn(usize) -> u64) -> Self {
        let weight_before = |vertex: usize| edges_before(vertex) + vertex as u64 * Self::VERTEX_WEIGHT;
        let total = edges + vertices as u64 * Self::VERTEX_WEIGHT;
        let weight = total.div_ceil(Self::COUNT_MAX).max(Self::WEIGHT_MIN);
        let words = vertices.div_ceil(WORD_VERTICES);
        let unit_words = (1usize << unit_shift(vertices)) / WORD_VERTICES;
        let mut bounds = vec![0];
        let mut word = 0;
        while word < words {
            let target = weight_before(word * WORD_VERTICES) + weight;
            // The first word boundary, after at least one word, with all of that weight before it, or the end of the unit.
            let (mut low, mut high) = (word + 1, ((word / unit_words + 1) * unit_words).min(words));
            while low < high {
                let middle = low + (high - low) / 2;
                if weight_before((middle * WORD_VERTICES).min(vertices)) < target {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            word = low;
            bounds.push((word * WORD_VERTICES).min(vertices) as u32);
        }
        let order = Vec::new();
        let (whole, shares, stripes) = (Vec::new(), Vec::new(), Vec::new());
        Self { bounds, owners: Owners::one(), order, whole, shares, stripes, home: None }.dealt(Owners::one())
    }

    /// The same blocks, dealt to the nodes that `owners` gives their vertices to. Striped vertices (round robin) are dealt each for itself,
    /// their blocks as wholes in turn. O(blocks).
    pub fn dealt(self, owners: Owners) -> Self {
        let (count, nodes) = (self.len(), owners.nodes());
        let node = |block: usize| match owners.is_striped() {
            true => block % nodes,
            false => owners.node(self.bounds[block]),
        };
        let mut order = Vec::with_capacity(count);
        let mut whole = Vec::with_capacity(nodes);
        for owner in 0..nodes {
            let begin = order.len();
            order.extend((0..count).filter(|block| node(*block) == owner).map(|block| block as u32));
            whole.push(begin..order.len());
        }
        let (mut shares, mut stripes) = (whole.clone(), Vec::new());
        if owners.is_striped() {
            shares = (0..nodes).map(|node| node * count..(node + 1) * count).collect();
            let bits = |rest: usize| (rest..WORD_VERTICES).step_by(nodes).fold(0, |bits, bit| bits | 1u64 << bit);
            stripes = (0..nodes).map(bits).collect();
        }
        Self { bounds: self.bounds, owners, order, whole, shares, stripes, home: self.home }
    }

    /// Results of kernels go to the memory of the nodes.
    pub(crate) fn at_home(self, home: Arc<Home>) -> Self {
        Self { home: Some(home), ..self }
    }

    /// An array with a number for each vertex, whichever: for kernels that give each one before they look.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(crate) fn any<T: Plain + Default>(&self, team: &mut Team) -> Result<Array<T>> {
        Ok(self.spare(team)?.0)
    }

    /// An array with a zero for each vertex, in the memory of its node where that makes a difference.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(crate) fn zeroed<T: Plain + Default>(&self, team: &mut Team) -> Result<Array<T>> {
        let (mut array, is_zero) = self.spare(team)?;
        if !is_zero {
            let parts = self.in_places(self.split(&mut array));
            team.tasks_of(&self.whole, parts, |_, part| part.iter_mut().for_each(|item| *item = T::default()));
        }
        Ok(array)
    }

    /// An array with a number for each vertex out of what the team has spare, whether or not memory has a place: a kernel that is run again maps
    /// and brings nowhere what it had before, so that runs with nodes and without do the same. And whether it is zeros.
    fn spare<T: Plain + Default>(&self, team: &mut Team) -> Result<(Array<T>, bool)> {
        let vertices = self.bounds[self.len()] as usize;
        let spares = team.spares().clone();
        match self.home.as_ref().filter(|home| !home.takes_any()) {
            None => Array::spare(vertices, &spares),
            Some(home) => {
                let place = Place::new(home.clone(), self.owners.clone(), size_of::<T>());
                Array::spare_in(vertices, &spares, place, || self.brought(home, vertices, team))
            }
        }
    }

    /// Zeros, in the memory of the nodes.
    fn brought<T: Plain + Default>(&self, home: &Home, vertices: usize, team: &mut Team) -> Result<Array<T>> {
        let mut array = match home.needs_small_pages(size_of::<T>() << unit_shift(vertices)) {
            true => Array::zeroed_on_small_pages(vertices)?,
            false => Array::zeroed(vertices)?,
        };
        if home.allocation() == Allocation::FirstTouch {
            let parts = self.in_places(self.split(&mut array));
            team.tasks_at_home(&self.whole, parts, |_, part| part.iter_mut().for_each(|item| *item = T::default()));
        } else {
            // Refused for one array, refused for all: who placed the graph's lists was told.
            let _ = home.place(&array, &self.owners);
        }
        Ok(array)
    }

    /// Which node has which vertex.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// The places of each node's vertices, for [`Team::walk`](crate::team::Team::walk): [`members`](Self::members) are at each.
    pub fn shares(&self) -> &[Range<usize>] {
        &self.shares
    }

    /// The vertices at a place of [`shares`](Self::shares).
    #[inline]
    pub fn members(&self, place: usize) -> StepBy<Range<u32>> {
        if self.stripes.is_empty() {
            return self.range(self.block(place)).step_by(1);
        }
        let (nodes, range) = (self.owners.nodes() as u32, self.range(place % self.len()));
        let node = (place / self.len()) as u32;
        let first = range.start + (node + nodes - range.start % nodes) % nodes;
        (first.min(range.end)..range.end).step_by(nodes as usize)
    }

    /// `work` on each vertex at some places of [`shares`](Self::shares).
    #[inline]
    pub(crate) fn each_member(&self, places: Range<usize>, mut work: impl FnMut(u32)) {
        for place in places {
            // Two loops, for that of a plain range costs nothing beside its work.
            match self.stripes.is_empty() {
                true => self.range(self.block(place)).for_each(&mut work),
                false => self.members(place).for_each(&mut work),
            }
        }
    }

    /// `work` on each vertex at some places of [`shares`](Self::shares), with its neighbours.
    #[inline]
    pub(crate) fn each_list(&self, places: Range<usize>, lists: impl Lists, mut work: impl FnMut(u32, &[u32])) {
        for place in places {
            match self.stripes.is_empty() {
                true => lists.each(self.range(self.block(place)), &mut work),
                false => self.members(place).for_each(|vertex| work(vertex, lists.list(vertex))),
            }
        }
    }

    /// Which bits of the word number `word` are those of vertices at a place of [`shares`](Self::shares).
    #[inline]
    pub(crate) fn mask(&self, place: usize, word: usize) -> u64 {
        if self.stripes.is_empty() {
            return !0;
        }
        let nodes = self.stripes.len();
        self.stripes[(place / self.len() + nodes - word * WORD_VERTICES % nodes) % nodes]
    }

    /// The block of a place of [`shares`](Self::shares).
    #[inline]
    pub(crate) fn block_of_share(&self, place: usize) -> usize {
        if self.stripes.is_empty() { self.block(place) } else { place % self.len() }
    }

    /// The places of each node's blocks: [`block`](Self::block) is at each.
    pub fn whole(&self) -> &[Range<usize>] {
        &self.whole
    }

    /// The block at a place of [`whole`](Self::whole).
    #[inline]
    pub fn block(&self, place: usize) -> usize {
        self.order[place] as usize
    }

    /// Something of each block, in the order of [`whole`](Self::whole).
    pub fn in_places<T>(&self, by_block: impl IntoIterator<Item = T>) -> Vec<T> {
        if self.whole.len() == 1 {
            return by_block.into_iter().collect();
        }
        let mut by_block: Vec<Option<T>> = by_block.into_iter().map(Some).collect();
        let at = |block: &u32| by_block[*block as usize].take().expect("invariant: each block has one place");
        self.order.iter().map(at).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Whether there is none: no vertex.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The vertices of a block.
    pub fn range(&self, block: usize) -> Range<u32> {
        self.bounds[block]..self.bounds[block + 1]
    }

    /// The vertices of a block, as indexes.
    pub fn indexes(&self, block: usize) -> Range<usize> {
        self.bounds[block] as usize..self.bounds[block + 1] as usize
    }

    /// An array with an element a vertex, cut into the blocks' parts.
    pub fn split<'a, T>(&self, mut items: &'a mut [T]) -> Vec<&'a mut [T]> {
        let mut parts = Vec::with_capacity(self.len());
        for pair in self.bounds.windows(2) {
            let (part, rest) = items.split_at_mut((pair[1] - pair[0]) as usize);
            parts.push(part);
            items = rest;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::numa::Placement;

    fn blocks(degrees: &[u64]) -> Blocks {
        let mut before = vec![0];
        for degree in degrees {
            before.push(before[before.len() - 1] + degree);
        }
        Blocks::new(degrees.len(), before[degrees.len()], |vertex| before[vertex])
    }

    #[test]
    fn no_vertex_no_block() {
        assert!(blocks(&[]).is_empty());
        assert_eq!(blocks(&[0]).range(0), 0..1);
    }

    #[test]
    fn blocks_are_even_in_edges() {
        let degrees: Vec<u64> = (0..100_000u64).map(|n| if n < 1000 { 1000 } else { 1 }).collect();
        let blocks = blocks(&degrees);
        let weights: Vec<u64> =
            (0..blocks.len()).map(|block| blocks.indexes(block).map(|v| degrees[v] + 4).sum()).collect();
        let most = *weights.iter().max().unwrap();
        // One word of the heaviest vertices more than the least weight.
        assert!(most <= Blocks::WEIGHT_MIN + 64 * 1004, "{most}");
        assert!((50..600).contains(&blocks.len()), "{} blocks", blocks.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn blocks_cover_every_vertex_once_and_begin_at_words(
            degrees in proptest::collection::vec(prop_oneof![9 => 0..20u64, 1 => 0..100_000u64], 0..2000),
        ) {
            let blocks = blocks(&degrees);
            let mut items = vec![0u8; degrees.len()];
            blocks.split(&mut items).into_iter().for_each(|part| part.iter_mut().for_each(|item| *item += 1));
            prop_assert!(items.iter().all(|item| *item == 1));
            let mut next = 0;
            for block in 0..blocks.len() {
                let range = blocks.indexes(block);
                prop_assert_eq!(range.start, next);
                prop_assert!(range.start.is_multiple_of(WORD_VERTICES) && !range.is_empty());
                next = range.end;
            }
            prop_assert_eq!(next, degrees.len());
        }

        #[test]
        fn every_vertex_is_at_one_place_of_its_node_and_no_block_is_cut(
            degrees in proptest::collection::vec(prop_oneof![9 => 0..20u64, 1 => 0..9000u64], 0..9000),
            placement in proptest::sample::select(Placement::ALL.to_vec()),
            nodes in 1..7usize,
        ) {
            let plain = blocks(&degrees);
            let owners = Owners::of_degrees(placement, nodes, &degrees);
            let dealt = plain.clone().dealt(owners.clone());
            prop_assert_eq!(&dealt.bounds, &plain.bounds);
            let mut seen = vec![0; degrees.len()];
            for (node, share) in dealt.shares().iter().enumerate() {
                for place in share.clone() {
                    let block = dealt.range(dealt.block_of_share(place));
                    let members: Vec<u32> = dealt.members(place).collect();
                    for vertex in &members {
                        prop_assert_eq!(owners.node(*vertex), node);
                        prop_assert!(block.contains(vertex));
                        seen[*vertex as usize] += 1;
                    }
                    let marked = block.filter(|v| dealt.mask(place, *v as usize / 64) >> (v % 64) & 1 == 1);
                    prop_assert!(marked.eq(members));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
            let mut order: Vec<usize> = dealt.whole().iter().cloned().flatten().map(|at| dealt.block(at)).collect();
            prop_assert_eq!(&dealt.in_places(0..plain.len()), &order);
            order.sort_unstable();
            prop_assert!(order.into_iter().eq(0..plain.len()));
        }
    }
}
