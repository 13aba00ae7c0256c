//! What kernels see of a graph, whatever its layout.

use std::ops::Range;

/// Vertices per bit set word: blocks of vertices begin at multiples, so that no two threads write one word.
pub const WORD_VERTICES: usize = 64;

/// Lists of neighbours in one direction. A copy of it is a few words: a kernel that holds one in its loop finds lists without going
/// through the graph again.
pub trait Lists: Copy + Sync {
    /// The neighbours of `vertex`.
    fn list<'a>(self, vertex: u32) -> &'a [u32]
    where
        Self: 'a;

    /// How many it has.
    fn degree(self, vertex: u32) -> usize;
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
/// They depend on the degrees alone, not on threads or layout: sums over blocks are the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// Where each block begins, and the number of vertices at last.
    bounds: Vec<u32>,
}

impl Blocks {
    /// How many blocks there are at most, but for their whole words.
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
        let mut bounds = vec![0];
        let mut word = 0;
        while word < words {
            let target = weight_before(word * WORD_VERTICES) + weight;
            // The first word boundary, after at least one word, with all of that weight before it.
            let (mut low, mut high) = (word + 1, words);
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
        Self { bounds }
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
    }
}
