//! The writer: insert, replace, remove, clear. There is one at a time; readers see each change by one store.
//!
//! Whatever can fail (a record that cannot be read, memory that is used up) does so before the first store that a reader can
//! see: an operation that returns an error has changed nothing.

use biombo_base::{Error, Result};

use super::KEY_BYTES_MAX;
use super::arena::heap::Heap;
use super::arena::{Walk, damage};
use super::node::{Entries, Kind, Node, NodeMut, PREFIX_BYTES};
use super::sync::{MutexGuard, Ordering, order};
use super::tree::{Index, Keys, unbox};
use super::walk::{self, Place, Step, Tail};
use super::word::{Leaf, NodeWord, Slot, Word};

/// The right to change an [`Index`]; see [`Index::writer`].
pub struct Writer<'i> {
    index: &'i Index,
    heap: MutexGuard<'i, Heap>,
    path: Vec<Step>,
    entries: Entries,
}

/// A writer's buffers, which stay with the heap from one writer to the next.
#[derive(Default)]
pub struct Scratch {
    path: Vec<Step>,
    entries: Entries,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let (path, entries) = (std::mem::take(&mut self.path), std::mem::take(&mut self.entries));
        self.heap.scratch = Scratch { path, entries };
    }
}

impl<'i> Writer<'i> {
    pub(super) fn new(index: &'i Index, mut heap: MutexGuard<'i, Heap>) -> Self {
        let Scratch { path, entries } = std::mem::take(&mut heap.scratch);
        Self { index, heap, path, entries }
    }

    /// Let `key` lead to `leaf`; gives the leaf that it led to before.
    ///
    /// # Errors
    /// `Invalid` for an empty key or one past [`KEY_BYTES_MAX`]; `Full` at 64 GiB; `Corruption` for a damaged image; what
    /// [`Keys::with_key`] says for the one record that is read.
    pub fn insert<K: Keys>(&mut self, key: &[u8], leaf: Leaf, keys: &K) -> Result<Option<Leaf>> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Error::invalid(format!("a key of {} bytes; 1 to {KEY_BYTES_MAX} are allowed", key.len())));
        }
        unbox(self.insert_at(key, leaf, keys))
    }

    /// Let `key` lead to `new` if it leads to `old`: what a cleaner does with a record that it has moved. Reads no record: that
    /// the leaf is there says that the key is.
    ///
    /// # Errors
    /// `Corruption` for a damaged image.
    pub fn replace(&mut self, key: &[u8], old: Leaf, new: Leaf) -> Result<bool> {
        unbox(self.replace_at(key, old, new))
    }

    /// Forget `key`; gives the leaf that it led to.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove<K: Keys>(&mut self, key: &[u8], keys: &K) -> Result<Option<Leaf>> {
        unbox(self.remove_at(key, keys))
    }

    /// Forget all keys.
    pub fn clear(&mut self) {
        self.index.root.store(Word::EMPTY.0, order::publish());
        self.index.len.store(0, Ordering::Relaxed);
        self.heap.retire_all(&self.index.arena, &self.index.epochs);
    }

    fn node(&self, node: NodeWord) -> Walk<Node<'i>> {
        Ok(Node::new(node.kind(), self.index.arena.words(node)?))
    }

    fn edit(&mut self, node: NodeWord) -> Walk<NodeMut<'i>> {
        self.heap.before_change(&self.index.arena, node.chunk());
        Ok(NodeMut::new(node.kind(), self.index.arena.words(node)?))
    }

    /// Room for a node.
    fn allocate(&mut self, kind: Kind, prefix_len: usize) -> Walk<(NodeWord, NodeMut<'i>)> {
        let prefix_len = u16::try_from(prefix_len).map_err(|_| damage("a prefix longer than any key"))?;
        let reference = self.heap.allocate(&self.index.arena, kind)?;
        let node = NodeWord::new(reference, kind, prefix_len);
        Ok((node, self.edit(node)?))
    }

    /// Store what the edge of the last of `path` leads to; with no path, the root.
    fn publish(&mut self, path: usize, word: Word) -> Walk<()> {
        let Some(step) = path.checked_sub(1).map(|at| self.path[at]) else {
            self.index.root.store(word.0, order::publish());
            return Ok(());
        };
        let at = self.node(step.node)?.find(step.edge).ok_or_else(|| damage("a child that is gone"))?;
        self.edit(step.node)?.replace(at, word)
    }

    fn retire(&mut self, node: NodeWord) -> Walk<()> {
        self.heap.retire(&self.index.arena, &self.index.epochs, node)
    }

    fn count(&self, more: isize) {
        let len = self.index.len.load(Ordering::Relaxed);
        self.index.len.store(len.saturating_add_signed(more), Ordering::Relaxed);
    }

    fn insert_at<K: Keys>(&mut self, key: &[u8], leaf: Leaf, keys: &K) -> Walk<Option<Leaf>> {
        let place = walk::locate(self.index, key, keys, &mut self.path)?;
        let depth = self.path.len();
        match place {
            Place::Found(old) => {
                self.publish(depth, leaf.into())?;
                return Ok(Some(old));
            }
            Place::Nowhere => self.publish(0, leaf.into())?,
            Place::BesideLeaf { leaf: beside, common, other } => {
                let start =
                    self.path.last().map_or(0, |step| step.branch() + usize::from(step.node.kind() != Kind::Fork));
                let both = self.pair(key, start, common, leaf.into(), (other, beside.into()))?;
                self.publish(depth, both)?;
            }
            Place::NoChild => self.add_child(depth, leaf)?,
            Place::InPrefix { common, tail } => self.split_prefix(key, depth, common, tail, leaf)?,
        }
        self.count(1);
        Ok(None)
    }

    /// A new node over two children whose keys share `key[start..common]` and differ from there on.
    fn pair(
        &mut self,
        key: &[u8],
        start: usize,
        common: usize,
        new: Word,
        (other, old): (Option<u8>, Word),
    ) -> Walk<Word> {
        let (kind, entries) = match (key.get(common), other) {
            (Some(new_byte), Some(old_byte)) => (Kind::L2, [(old_byte, old), (*new_byte, new)]),
            (None, _) => (Kind::Fork, [(0, new), (1, old)]),
            (_, None) => (Kind::Fork, [(0, old), (1, new)]),
        };
        let (node, words) = self.allocate(kind, common - start)?;
        words.fill(walk::bytes_at(key, start), &entries);
        Ok(node.into())
    }

    /// Give the last node of the path a child for its edge, in place or in a larger copy.
    fn add_child(&mut self, depth: usize, leaf: Leaf) -> Walk<()> {
        let step = self.path[depth - 1];
        let byte = step.edge as u8;
        if self.edit(step.node)?.add(byte, leaf.into())? {
            return Ok(());
        }
        let old = self.node(step.node)?;
        let mut entries = std::mem::take(&mut self.entries);
        old.entries(&mut entries);
        entries.push((byte, leaf.into()));
        let rebuilt = self.rebuild(step.node, Kind::fitting(entries.len()), old.prefix(), &entries);
        self.entries = entries;
        let rebuilt = rebuilt?;
        self.publish(depth - 1, rebuilt)?;
        self.retire(step.node)
    }

    fn rebuild(&mut self, node: NodeWord, kind: Kind, prefix: u64, entries: &[(u8, Word)]) -> Walk<Word> {
        if entries.is_empty() || entries.len() > kind.capacity() {
            return Err(damage("a node with a wrong number of children"));
        }
        let (new, words) = self.allocate(kind, node.prefix_len())?;
        words.fill(prefix, entries);
        Ok(new.into())
    }

    /// Put a node before the last node of the path, where `key` leaves its prefix.
    fn split_prefix(&mut self, key: &[u8], depth: usize, common: usize, tail: Tail, leaf: Leaf) -> Walk<()> {
        let step = self.path[depth - 1];
        let ends = common == key.len();
        // Behind an L2, the byte that tells the two apart is no longer part of the lower node's prefix.
        let rest = step.branch() - common;
        let (rest, prefix) = if ends { (rest, tail.here) } else { (rest - 1, tail.behind) };
        let lower = self.copy(step.node, rest, prefix)?;
        let other = (!ends).then_some(tail.byte);
        let both = self.pair(key, step.start, common, leaf.into(), (other, lower))?;
        self.publish(depth - 1, both)?;
        self.retire(step.node)
    }

    /// A copy of `node` under another prefix.
    fn copy(&mut self, node: NodeWord, prefix_len: usize, prefix: u64) -> Walk<Word> {
        let from = self.node(node)?;
        let (copy, words) = self.allocate(node.kind(), prefix_len)?;
        words.copy(from, prefix);
        Ok(copy.into())
    }

    fn replace_at(&mut self, key: &[u8], old: Leaf, new: Leaf) -> Walk<bool> {
        let there = walk::path_to(self.index, key, old, &mut self.path)?;
        if there {
            self.publish(self.path.len(), new.into())?;
        }
        Ok(there)
    }

    fn remove_at<K: Keys>(&mut self, key: &[u8], keys: &K) -> Walk<Option<Leaf>> {
        let Place::Found(leaf) = walk::locate(self.index, key, keys, &mut self.path)? else { return Ok(None) };
        let depth = self.path.len();
        let Some(step) = self.path.last().copied() else {
            self.publish(0, Word::EMPTY)?;
            self.count(-1);
            return Ok(Some(leaf));
        };
        let node = self.node(step.node)?;
        match (step.node.kind(), node.live()) {
            (Kind::Fork, _) => {
                let other = 1 - step.edge;
                self.merge(depth, step.node, None, node.child(other))?;
            }
            (_, 0..=2) => {
                let mut entries = std::mem::take(&mut self.entries);
                node.entries(&mut entries);
                let other = entries.iter().find(|(byte, _)| u16::from(*byte) != step.edge).copied();
                self.entries = entries;
                let (byte, word) = other.ok_or_else(|| damage("a node with one child"))?;
                self.merge(depth, step.node, Some(byte), word)?;
            }
            (kind, live) => {
                let at = node.find(step.edge).ok_or_else(|| damage("a child that is gone"))?;
                let smaller = Kind::fitting((live - 1) * 3 / 2);
                if smaller >= kind && self.edit(step.node)?.empty(at)? {
                    self.count(-1);
                    return Ok(Some(leaf));
                }
                let mut entries = std::mem::take(&mut self.entries);
                node.entries(&mut entries);
                entries.retain(|(byte, _)| u16::from(*byte) != step.edge);
                let rebuilt = self.rebuild(step.node, smaller.min(kind), node.prefix(), &entries);
                self.entries = entries;
                let rebuilt = rebuilt?;
                self.publish(depth - 1, rebuilt)?;
                self.retire(step.node)?;
            }
        }
        self.count(-1);
        Ok(Some(leaf))
    }

    /// Put the only child that is left in its node's place: the node's prefix, the child's byte (none under a Fork) and the
    /// child's own prefix become one.
    fn merge(&mut self, depth: usize, node: NodeWord, byte: Option<u8>, child: Word) -> Walk<()> {
        match child.slot() {
            Slot::Leaf(_) => self.publish(depth - 1, child)?,
            Slot::Node(below) => {
                let mut prefix = Prefix::of(self.node(node)?.prefix(), node.prefix_len());
                if let Some(byte) = byte {
                    prefix.push(u64::from(byte), 1);
                }
                prefix.push(self.node(below)?.prefix(), below.prefix_len());
                let merged = self.copy(below, prefix.len, prefix.bytes)?;
                self.publish(depth - 1, merged)?;
                self.retire(below)?;
            }
            Slot::Empty | Slot::Damaged => return Err(damage("a node with one child")),
        }
        self.retire(node)
    }
}

/// A prefix under construction: its length and the bytes of it that stand in a node.
struct Prefix {
    bytes: u64,
    len: usize,
}

impl Prefix {
    fn of(bytes: u64, len: usize) -> Self {
        let mut prefix = Self { bytes: 0, len: 0 };
        prefix.push(bytes, len);
        prefix
    }

    fn push(&mut self, bytes: u64, len: usize) {
        if self.len < PREFIX_BYTES && len > 0 {
            let bytes = if len < PREFIX_BYTES { bytes & ((1 << (len * 8)) - 1) } else { bytes };
            self.bytes |= bytes << (self.len * 8);
        }
        self.len += len;
    }
}
