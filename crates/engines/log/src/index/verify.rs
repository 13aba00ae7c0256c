//! A check of the whole index: that its nodes are a tree, that it has as many leaves as it says, and that the chunks' bitmaps
//! name the places of exactly its nodes.

use std::sync::PoisonError;

use biombo_base::Result;

use super::KEY_BYTES_MAX;
use super::arena::{BITMAP_UNITS, BITMAP_WORDS, CHUNK_UNITS, Walk, damage};
use super::node::Node;
use super::sync::{CHUNK_UNITS_LOG2, Ordering};
use super::tree::{Index, unbox};
use super::word::{NodeWord, Slot, Word};

impl Index {
    /// Look at every node. The writer waits meanwhile; readers do not. Of an index that began from an image, all chunks that
    /// its nodes stand in are loaded.
    ///
    /// # Errors
    /// `Corruption`, saying what is wrong; what the image's loader says.
    pub fn verify(&self) -> Result<()> {
        let heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = unbox(self.check_nodes());
        drop(heap);
        checked
    }

    fn check_nodes(&self) -> Walk<()> {
        let mut found = vec![[0u64; BITMAP_WORDS]; self.arena.chunks()];
        let mut leaves = 0;
        let mut open: Vec<(Word, usize)> = match self.root() {
            Word::EMPTY => Vec::new(),
            root => vec![(root, 0)],
        };
        while let Some((word, depth)) = open.pop() {
            match word.slot() {
                Slot::Leaf(_) => leaves += 1,
                Slot::Node(node) if depth <= 2 * KEY_BYTES_MAX + 2 => {
                    let words = Node::new(node.kind(), self.arena.words(node)?);
                    take_place(&mut found, node)?;
                    let mut edge = -1;
                    let mut children = 0;
                    while let Some((next, child)) = words.next(edge) {
                        edge = i32::from(next);
                        children += 1;
                        open.push((child, depth + 1));
                    }
                    if children < 2 || children != words.live() || words.any_child().is_empty() {
                        return Err(damage("a node with a wrong number of children"));
                    }
                }
                _ => return Err(damage("a slot that holds no possible word")),
            }
        }
        if leaves != self.len() {
            return Err(damage(&format!("{leaves} leaves, where {} are said to be", self.len())));
        }
        for (number, found) in found.iter().enumerate() {
            // Of a chunk that no node led to, nothing is known before it is loaded.
            let Some(chunk) = self.arena.resident(number) else { continue };
            for (at, (found, word)) in found.iter().zip(chunk).enumerate() {
                let own = (BITMAP_UNITS.saturating_sub(at * 64)).min(64);
                let own = if own == 64 { u64::MAX } else { (1 << own) - 1 };
                let said = word.load(Ordering::Relaxed);
                if said != found | own {
                    let first = number * CHUNK_UNITS + at * 64 + (said ^ (found | own)).trailing_zeros() as usize;
                    return Err(damage(&format!("unit {first} is in use and marked free, or the reverse")));
                }
            }
        }
        Ok(())
    }
}

/// Note that a node stands here; two in one place are damage.
fn take_place(found: &mut [[u64; BITMAP_WORDS]], node: NodeWord) -> Walk<()> {
    let first = node.reference() as usize & (CHUNK_UNITS - 1);
    let chunk = found.get_mut((node.reference() >> CHUNK_UNITS_LOG2) as usize);
    let chunk = chunk.ok_or_else(|| damage("a reference past the end of the memory"))?;
    for unit in first..first + node.kind().words() / 2 {
        let (word, bit) = (&mut chunk[unit / 64], 1 << (unit % 64));
        if *word & bit != 0 {
            return Err(damage("two nodes in one place"));
        }
        *word |= bit;
    }
    Ok(())
}
