//! A section whose lists stand in adjacency blocks: one block of memory of 1,024 vertices, cut into blocks of many sizes.
//!
//! ```text
//! block: [start, length] of each vertex's list | first free adjacency block of each class | adjacency blocks ... | free tail
//! ```
//!
//! An adjacency block is of a *class*, its capacity: multiples of 4 up to 64 neighbours, from there on eight sizes from each power of two
//! to the next. A list of `n` neighbours is at the beginning of a block of the smallest class that holds it. When it comes into another class it
//! moves: to a free block of that, or to the tail. Its old block is free from then on, and its first number says where the next free one of the
//! class is. When the tail has no room, the section is rewritten without free blocks.
//!
//! Invariants:
//! 1. `block[2 v]..` for `block[2 v + 1]` numbers is the list of `v`, ascending without repetitions.
//! 2. Blocks of lists that are not empty and free blocks do not overlap, and cover `HEAD..used` without a hole.
//! 3. `edges` is the sum of the lengths.
//! 4. A section that somebody else has too (its `Arc` is shared) does not change: snapshots are sections.

use std::marker::PhantomData;
use std::sync::Arc;

use biombo_base::{Error, Result};

use crate::media::{Block, PAGE_LEN, Pool};
use crate::pma::changes::{Change, merge_list, position};
use crate::pma::layout::VERTICES;

/// Up to here, capacities are multiples of 4.
const SMALL: usize = 64;
/// Classes of small capacities; class 0 is that of the empty list, which has no block.
const SMALL_CLASSES: usize = SMALL / 4;
/// Classes from a power of two to the next, beyond.
const STEPS: usize = 8;
/// All classes: lists have less than 2^31 neighbours.
const CLASSES: usize = 1 + SMALL_CLASSES + STEPS * (31 - SMALL.ilog2() as usize);

/// Where the first free blocks stand.
const FREE: usize = 2 * VERTICES;
/// Where adjacency blocks begin: never at 0, which therefore means none.
const HEAD: usize = FREE + CLASSES;

/// A rewritten section has a free tail of this share of its blocks.
const TAIL_SHARE: usize = 16;
/// Changes are made in place when they are fewer than this share of a section's edges; otherwise rewriting it is cheaper.
const IN_PLACE_SHARE: u64 = 24;

/// The class of the blocks of lists of `length` neighbours.
fn class(length: usize) -> usize {
    if length <= SMALL {
        return length.div_ceil(4);
    }
    let power = (length - 1).ilog2() as usize;
    let step = (1 << power) / STEPS;
    SMALL_CLASSES + (power - SMALL.ilog2() as usize) * STEPS + (length - (1 << power)).div_ceil(step)
}

/// How many neighbours a block of a class holds.
fn capacity(class: usize) -> usize {
    if class <= SMALL_CLASSES {
        return class * 4;
    }
    let (power, step) = ((class - SMALL_CLASSES - 1) / STEPS, (class - SMALL_CLASSES - 1) % STEPS + 1);
    let power = power + SMALL.ilog2() as usize;
    (1 << power) + step * ((1 << power) / STEPS)
}

/// A section; `W` is what waits beside it, and tells layouts apart.
#[derive(Debug)]
pub struct Blocks<W> {
    block: Block,
    used: usize,
    edges: u64,
    waits: PhantomData<fn() -> W>,
}

impl<W> Blocks<W> {
    /// A section without edges.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(crate) fn without_edges(pool: &Pool) -> Result<Self> {
        let mut block = pool.block(HEAD)?;
        block[..HEAD].fill(0);
        Ok(Self { block, used: HEAD, edges: 0, waits: PhantomData })
    }

    /// A section with the lists that `append` appends, vertex by vertex. O(edges).
    ///
    /// # Errors
    /// `Invalid` for more than 2^32 edges with their blocks, `Io` when there is no memory.
    pub(crate) fn of_lists(
        pool: &Pool,
        scratch: &mut Vec<u32>,
        append: impl FnMut(usize, &mut Vec<u32>),
    ) -> Result<Self> {
        let edges = lay_out(scratch, append)?;
        Self::laid_out(pool, scratch, edges)
    }

    fn laid_out(pool: &Pool, laid_out: &[u32], edges: u64) -> Result<Self> {
        let mut block = pool.block(laid_out.len() + tail(laid_out.len()))?;
        block[..laid_out.len()].copy_from_slice(laid_out);
        Ok(Self { block, used: laid_out.len(), edges, waits: PhantomData })
    }

    /// The words of all vertices.
    #[inline]
    fn words(&self) -> &[u32; FREE] {
        self.block.first_chunk().expect("invariant: a block begins with the words")
    }

    /// The neighbours of the vertex `local` of the section.
    #[inline]
    pub(crate) fn neighbors(&self, local: usize) -> &[u32] {
        let words = self.words();
        let (start, length) = (words[2 * local] as usize, words[2 * local + 1] as usize);
        &self.block[start..start + length]
    }

    /// How many there are.
    #[inline]
    pub(crate) fn length(&self, local: usize) -> usize {
        self.words()[2 * local + 1] as usize
    }

    /// All of its memory.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.block
    }

    /// How many edges it has.
    pub(crate) fn count(&self) -> u64 {
        self.edges
    }

    /// The section to be changed: a copy of its own where somebody else has it too.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub(crate) fn own<'s>(section: &'s mut Arc<Self>, pool: &Pool) -> Result<&'s mut Self> {
        if Arc::get_mut(section).is_none() {
            let mut block = pool.block(section.block.len())?;
            block[..section.used].copy_from_slice(&section.block[..section.used]);
            *section = Arc::new(Self { block, used: section.used, edges: section.edges, waits: PhantomData });
        }
        Ok(Arc::get_mut(section).expect("invariant: it was just made or nobody else had it"))
    }

    /// A block of a class, if there is room; where it begins.
    fn take(&mut self, class: usize) -> Option<usize> {
        if class == 0 {
            return Some(0);
        }
        let free = self.block[FREE + class] as usize;
        if free != 0 {
            self.block[FREE + class] = self.block[free];
            return Some(free);
        }
        let (start, end) = (self.used, self.used + capacity(class));
        (end <= self.block.len()).then(|| {
            self.used = end;
            start
        })
    }

    /// A block is free.
    fn give(&mut self, class: usize, start: usize) {
        if class != 0 {
            self.block[start] = self.block[FREE + class];
            self.block[FREE + class] = start as u32;
        }
    }

    /// Make `changes` of the vertex `local`, at least one, sorted by neighbour. Whether there was room; otherwise nothing was changed.
    pub(crate) fn change(&mut self, local: usize, changes: &[Change], scratch: &mut Vec<u32>) -> bool {
        let (start, length) = (self.words()[2 * local] as usize, self.length(local));
        let list = &self.block[start..start + length];
        // What is below the first change stays where it is.
        let kept = position(list, changes[0].neighbor());
        scratch.clear();
        merge_list(&list[kept..], changes, scratch);
        let longer = kept + scratch.len();
        let (from, to) = (class(length), class(longer));
        let mut target = start;
        if from != to {
            let Some(taken) = self.take(to) else { return false };
            self.block.copy_within(start..start + kept, taken);
            self.give(from, start);
            target = taken;
        }
        self.block[target + kept..target + longer].copy_from_slice(scratch);
        self.block[2 * local] = target as u32;
        self.block[2 * local + 1] = longer as u32;
        self.edges = self.edges - length as u64 + longer as u64;
        true
    }

    /// Whether lists fill less than half of it, and it would be smaller rewritten.
    pub(crate) fn is_sparse(&self) -> bool {
        self.block.len() > HEAD + 2 * self.edges as usize + 4 * VERTICES + 2 * PAGE_LEN
    }

    /// Whether so many changes are better made in place than by rewriting.
    pub(crate) fn is_for_few(&self, changes: usize) -> bool {
        changes as u64 * IN_PLACE_SHARE < self.edges
    }

    /// Bring in `changes`: sorted by vertex and neighbour, one for each edge. Making changes once more that were made already changes
    /// nothing.
    ///
    /// # Errors
    /// As [`of_lists`](Self::of_lists): some of the changes may have been made.
    pub(crate) fn merge(
        section: &mut Arc<Self>,
        changes: &[Change],
        pool: &Pool,
        scratch: &mut Vec<u32>,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if section.is_for_few(changes.len()) {
            let own = Self::own(section, pool)?;
            let mut groups = changes.chunk_by(|a, b| a.vertex() == b.vertex());
            if groups.all(|group| own.change(group[0].vertex(), group, scratch)) && !own.is_sparse() {
                return Ok(());
            }
        }
        let mut rest = changes;
        Self::rewrite(section, pool, scratch, |local, list, lists| {
            let count = rest.iter().take_while(|change| change.vertex() == local).count();
            let (group, after) = rest.split_at(count);
            rest = after;
            merge_list(list, group, lists);
        })
    }

    /// Rewrite the section with the lists that `append` appends, vertex by vertex, given the ones that there are. O(edges).
    ///
    /// # Errors
    /// As [`of_lists`](Self::of_lists): the section is as it was.
    pub(crate) fn rewrite(
        section: &mut Arc<Self>,
        pool: &Pool,
        scratch: &mut Vec<u32>,
        mut append: impl FnMut(usize, &[u32], &mut Vec<u32>),
    ) -> Result<()> {
        let edges = lay_out(scratch, |local, lists| append(local, section.neighbors(local), lists))?;
        let needs = scratch.len() + tail(scratch.len());
        match Arc::get_mut(section) {
            // Its own block again, unless that is too small or much too large.
            Some(own) if (needs..needs + needs / 4 + 2 * PAGE_LEN).contains(&own.block.len()) => {
                own.block[..scratch.len()].copy_from_slice(scratch);
                (own.used, own.edges) = (scratch.len(), edges);
            }
            _ => *section = Arc::new(Self::laid_out(pool, scratch, edges)?),
        }
        Ok(())
    }

    /// Check the invariants for a graph of `vertices` vertices, of which `present` are this section's.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn check(&self, present: usize, vertices: usize) -> Result<(), String> {
        let (mut stretches, mut edges) = (Vec::new(), 0);
        for local in 0..VERTICES {
            let (start, length) = (self.words()[2 * local] as usize, self.length(local));
            if length > 0 {
                stretches.push((start, capacity(class(length))));
            }
            if length > 0 && (start < HEAD || start + capacity(class(length)) > self.used) {
                return Err(format!("vertex {local} of a section has {length} neighbours at {start}"));
            }
            let list = self.neighbors(local);
            if list.windows(2).any(|pair| pair[0] >= pair[1])
                || list.last().is_some_and(|last| *last as usize >= vertices)
            {
                return Err(format!("the neighbours of vertex {local} of a section do not ascend below {vertices}"));
            }
            if local >= present && length > 0 {
                return Err(format!("vertex {local} of a section has neighbours and is not there"));
            }
            edges += length as u64;
        }
        for class in 1..CLASSES {
            let mut free = self.block[FREE + class] as usize;
            while free != 0 {
                if free < HEAD || free + capacity(class) > self.used || stretches.len() > self.used {
                    return Err(format!("a free block of class {class} of a section is said to be at {free}"));
                }
                stretches.push((free, capacity(class)));
                free = self.block[free] as usize;
            }
        }
        stretches.sort_unstable();
        let mut end = HEAD;
        for (start, room) in stretches {
            if start != end {
                return Err(format!("the blocks of a section overlap or leave a hole between {end} and {start}"));
            }
            end = start + room;
        }
        if end != self.used || self.used > self.block.len() {
            return Err(format!("the blocks of a section end at {end} and not at {}", self.used));
        }
        if edges != self.edges {
            return Err(format!("a section has {edges} edges and counts {}", self.edges));
        }
        Ok(())
    }
}

/// Lists one after the other, each in its block, behind the words that say where they are. How many edges they have.
fn lay_out(scratch: &mut Vec<u32>, mut append: impl FnMut(usize, &mut Vec<u32>)) -> Result<u64> {
    scratch.clear();
    scratch.resize(HEAD, 0);
    let mut edges = 0;
    for local in 0..VERTICES {
        let start = scratch.len();
        append(local, scratch);
        let length = scratch.len() - start;
        if length == 0 {
            continue;
        }
        scratch.resize(start + capacity(class(length)), 0);
        scratch[2 * local] = start as u32;
        scratch[2 * local + 1] = length as u32;
        edges += length as u64;
    }
    // Places have 32 bits; what is moved to the tail later must have one too.
    if scratch.len() + tail(scratch.len()) + PAGE_LEN > u32::MAX as usize {
        return Err(Error::invalid(format!(
            "{VERTICES} vertices numbered in sequence have {edges} edges: more than fit a section of adjacency blocks; use csr"
        )));
    }
    Ok(edges)
}

/// Free room behind adjacency blocks.
fn tail(laid_out: usize) -> usize {
    (laid_out - HEAD) / TAIL_SHARE + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_the_smallest_class_that_holds_it_and_little_room_to_spare() {
        let lengths = (0..5000).chain((12..31).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
        for length in lengths {
            let class = class(length);
            assert!(class < CLASSES && capacity(class) >= length, "{length}");
            assert!(class == 0 || capacity(class - 1) < length, "{length} would fit class {}", class - 1);
            assert!(capacity(class) < length + 4 || capacity(class) <= length + length / 8, "{length}");
        }
        assert_eq!(capacity(CLASSES - 1), 1 << 31);
    }
}
