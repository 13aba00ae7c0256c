//! A graph as it was at one point in its history, for kernels.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::image::Image;
use super::layout::{Layout, SHIFT, VERTICES};
use super::names::NamesView;
use crate::media::Lent;
use crate::view::{Blocks, Lists, View, WORD_VERTICES, ahead};

/// The graph after its first [`sequence`](Self::sequence) batches; it stays so whatever becomes of the graph. Keeping one costs memory
/// for what changes meanwhile, and copies of it for who changes it.
#[derive(Debug)]
pub struct Snapshot<L: Layout = Image> {
    sequence: u64,
    pub(super) names: NamesView,
    out: Lent<L>,
    /// Of a directed graph.
    inward: Option<Lent<L>>,
    edges: u64,
    /// Made when a kernel asks for them.
    blocks: OnceLock<Blocks>,
}

/// The lists of a snapshot in one direction: in the memory of its sections, all of which begin with where each list is.
#[derive(Clone, Copy)]
struct Rows<'s> {
    sections: &'s [&'s [u32]],
}

/// The words of the vertex `local` of a section: where in its memory the list begins, and how long it is.
#[inline]
fn words(section: &[u32], local: usize) -> (usize, usize) {
    let words: &[u32; 2 * VERTICES] =
        section.first_chunk().expect("invariant: a section begins with the words of its vertices");
    (words[2 * local] as usize, words[2 * local + 1] as usize)
}

impl Lists for Rows<'_> {
    #[inline]
    fn list<'a>(self, vertex: u32) -> &'a [u32]
    where
        Self: 'a,
    {
        let section = self.sections[vertex as usize >> SHIFT];
        let (start, length) = words(section, vertex as usize % VERTICES);
        &section[start..start + length]
    }

    #[inline]
    fn degree(self, vertex: u32) -> usize {
        words(self.sections[vertex as usize >> SHIFT], vertex as usize % VERTICES).1
    }

    #[inline]
    fn each(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32])) {
        self.each_place(vertices, |vertex, section, start, length| work(vertex, &section[start..start + length]));
    }

    #[inline]
    fn each_ahead(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32], &[u32])) {
        self.each_place(vertices, |vertex, section, start, length| {
            let (list, ahead) = ahead(section, start, length);
            work(vertex, list, ahead);
        });
    }
}

impl Rows<'_> {
    /// `work` on each vertex of a range with its section, and where in there its list begins and how long it is.
    #[inline]
    fn each_place(self, vertices: Range<u32>, mut work: impl FnMut(u32, &[u32], usize, usize)) {
        let (mut at, end) = (vertices.start as usize, vertices.end as usize);
        while at < end {
            let (section, local) = (self.sections[at >> SHIFT], at % VERTICES);
            let locals = local..VERTICES.min(local + end - at);
            let words = &section[2 * locals.start..2 * locals.end];
            for (vertex, at) in (at as u32..).zip(words.chunks_exact(2)) {
                work(vertex, section, at[0] as usize, at[1] as usize);
            }
            at += locals.len();
        }
    }
}

impl<L: Layout> Snapshot<L> {
    pub(super) fn new(sequence: u64, names: NamesView, out: Vec<Arc<L>>, inward: Option<Vec<Arc<L>>>) -> Self {
        let edges = out.iter().map(|image| image.edges()).sum();
        let lent = |images| Lent::new(images, L::memory);
        Self { sequence, names, out: lent(out), inward: inward.map(lent), edges, blocks: OnceLock::new() }
    }

    /// How many batches it has.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the vertex with this id; `None` where there was none. O(1), but O(vertices) for one that has another number since.
    pub fn vertex(&self, id: u64) -> Option<u32> {
        self.names.number(id)
    }

    /// The id of a vertex by its number.
    pub fn id(&self, vertex: u32) -> Option<u64> {
        self.names.id(vertex)
    }

    /// Check everything that must hold: the order of lists, where they stand in their sections, that both ends of an edge know it, and
    /// counts. O(edges log degree).
    ///
    /// # Errors
    /// What does not hold.
    pub fn verify(&self) -> Result<(), String> {
        let vertices = self.vertices();
        for images in self.sides() {
            if images.len() < vertices.div_ceil(VERTICES) {
                return Err(format!("there are {} sections for {vertices} vertices", images.len()));
            }
            for (image, first) in images.iter().zip((0..).step_by(VERTICES)) {
                image.verify(vertices.saturating_sub(first), vertices)?;
            }
            if images.iter().map(|image| image.edges()).sum::<u64>() != self.edges {
                return Err("there are not as many edges inward as outward".to_owned());
            }
        }
        for vertex in 0..vertices as u32 {
            let unknown = |neighbor: &&u32| self.in_neighbors(**neighbor).binary_search(&vertex).is_err();
            if let Some(neighbor) = self.out_neighbors(vertex).iter().find(unknown) {
                return Err(format!("vertex {neighbor} does not know the edge from {vertex}"));
            }
        }
        Ok(())
    }

    /// Its sections, in each direction.
    pub(super) fn sides(&self) -> impl Iterator<Item = &[Arc<L>]> {
        std::iter::once(self.out.owners()).chain(self.inward.as_ref().map(Lent::owners))
    }

    fn pulled(&self) -> Rows<'_> {
        Rows { sections: self.inward.as_ref().unwrap_or(&self.out).numbers() }
    }
}

impl<L: Layout> View for Snapshot<L> {
    fn vertices(&self) -> usize {
        self.names.len()
    }

    fn edges(&self) -> u64 {
        self.edges
    }

    fn is_directed(&self) -> bool {
        self.inward.is_some()
    }

    #[inline]
    fn out_lists(&self) -> impl Lists + '_ {
        Rows { sections: self.out.numbers() }
    }

    #[inline]
    fn in_lists(&self) -> impl Lists + '_ {
        self.pulled()
    }

    /// O(vertices) the first time.
    fn blocks(&self) -> &Blocks {
        self.blocks.get_or_init(|| {
            let (vertices, lists) = (self.vertices(), self.pulled());
            // Of the words of vertices, at whose beginnings blocks begin.
            let mut before = Vec::with_capacity(vertices / WORD_VERTICES + 1);
            let mut sum = 0;
            for word in (0..vertices).step_by(WORD_VERTICES) {
                before.push(sum);
                let members = word..(word + WORD_VERTICES).min(vertices);
                sum += members.map(|vertex| lists.degree(vertex as u32) as u64).sum::<u64>();
            }
            Blocks::new(vertices, self.edges, |vertex| before[vertex / WORD_VERTICES])
        })
    }
}
