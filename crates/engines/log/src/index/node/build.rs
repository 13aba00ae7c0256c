//! What the writer does with a node: fill a new one, add a child, replace or empty one. The order of the stores is the
//! publication protocol of the [module](super); the loom tests check it.

use super::{Kind, Node, TABLE};
use crate::index::arena::{Walk, damage};
use crate::index::sync::{AtomicU64, Ordering, order};
use crate::index::word::Word;

/// Children by byte, the first one first.
pub type Entries = Vec<(u8, Word)>;

/// A node as the writer sees it: the only way to change one. There is one writer.
pub struct NodeMut<'a> {
    kind: Kind,
    words: &'a [AtomicU64],
}

impl<'a> NodeMut<'a> {
    /// The node of `kind` in `words`, which are as many as the kind has.
    pub fn new(kind: Kind, words: &'a [AtomicU64]) -> Self {
        debug_assert_eq!(words.len(), kind.words());
        Self { kind, words }
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    fn store(&self, at: usize, value: u64) {
        self.words[at].store(value, Ordering::Relaxed);
    }

    /// Let readers see a child in the slot at word `at`. A damaged table can name one past the end, and so can a sound one when a damaged
    /// reference leads to it a second time, as a node of another kind.
    fn publish(&self, at: usize, child: Word) -> Walk<()> {
        self.words.get(at).ok_or_else(|| damage("a slot past a node's end"))?.store(child.0, order::publish());
        Ok(())
    }

    /// Fill a node that nobody can reach yet.
    pub fn fill(&self, prefix: u64, entries: &[(u8, Word)]) {
        debug_assert!(entries.len() <= self.kind.capacity() && !entries.is_empty());
        self.store(1, prefix);
        let slots = self.kind.slots();
        let first = u64::from(entries[0].0);
        let n = entries.len() as u64;
        match self.kind {
            Kind::Fork => self.store(0, 0),
            Kind::L2 | Kind::L4 | Kind::L6 => {
                let keys = entries.iter().rev().fold(0, |keys, (byte, _)| keys << 8 | u64::from(*byte));
                self.store(0, keys << 8 | n);
            }
            Kind::X80 | Kind::X128 => {
                let mut table = [0u64; 32];
                for (i, (byte, _)) in entries.iter().enumerate() {
                    table[*byte as usize / 8] |= (i as u64 + 1) << (byte % 8 * 8);
                }
                for (i, word) in table.into_iter().enumerate() {
                    self.store(TABLE + i, word);
                }
                self.store(0, n << 24 | first << 16 | n);
            }
            Kind::N256 => {
                for at in 2..self.words.len() {
                    self.store(at, 0);
                }
                for (byte, word) in entries {
                    self.store(2 + *byte as usize, word.0);
                }
                self.store(0, n << 24 | first << 16);
                return;
            }
            _ => {
                for at in 2..slots {
                    let keys = entries.iter().skip((at - 2) * 8).take(8).rev();
                    self.store(at, keys.fold(0, |keys, (byte, _)| keys << 8 | u64::from(*byte)));
                }
                self.store(0, n);
            }
        }
        for (i, (_, word)) in entries.iter().enumerate() {
            self.store(slots + i, word.0);
        }
    }

    /// Fill a node that nobody can reach yet with a copy of `from`, under another prefix.
    pub fn copy(&self, from: Node<'_>, prefix: u64) {
        debug_assert_eq!(self.kind, from.kind);
        for (to, word) in self.words.iter().zip(from.words) {
            to.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.store(1, prefix);
    }

    /// Add a child for a byte that has none. False: there is no room, and nothing was done. An error: the node is damaged.
    pub fn add(&self, byte: u8, child: Word) -> Walk<bool> {
        let head = self.load(0);
        let slots = self.kind.slots();
        match self.kind {
            Kind::Fork => return Ok(false),
            Kind::N256 => {
                self.store(0, head.wrapping_add(1 << 24));
                self.publish(2 + byte as usize, child)?;
            }
            Kind::X80 | Kind::X128 => {
                let at = TABLE + byte as usize / 8;
                let table = self.load(at);
                let number = (table >> (byte % 8 * 8) & 0xff) as usize;
                let used = (head & 0xffff) as usize;
                if number != 0 {
                    self.store(0, head.wrapping_add(1 << 24));
                    self.publish(slots + number - 1, child)?;
                } else if used < self.kind.capacity() {
                    self.store(slots + used, child.0);
                    self.store(0, head.wrapping_add((1 << 24) + 1));
                    let entry = (used as u64 + 1) << (byte % 8 * 8);
                    self.words[at].store(table | entry, order::publish());
                } else {
                    return Ok(false);
                }
            }
            _ => {
                if let Some(at) = Node::new(self.kind, self.words).find(u16::from(byte)) {
                    self.publish(at, child)?;
                    return Ok(true);
                }
                let count = (head & 0xff) as usize;
                if count >= self.kind.capacity() {
                    return Ok(false);
                }
                self.store(slots + count, child.0);
                let shift = count % 8 * 8;
                let head = if slots == 2 {
                    head & !(0xff << (shift + 8)) | u64::from(byte) << (shift + 8)
                } else {
                    let at = 2 + count / 8;
                    self.store(at, self.load(at) & !(0xff << shift) | u64::from(byte) << shift);
                    head
                };
                self.words[0].store(head + 1, order::publish());
            }
        }
        Ok(true)
    }

    /// Replace what the slot at word `at` holds.
    pub fn replace(&self, at: usize, child: Word) -> Walk<()> {
        self.publish(at, child)
    }

    /// Empty the slot at word `at`. False: it is the first child, which is never emptied in place, and nothing was done.
    pub fn empty(&self, at: usize) -> Walk<bool> {
        let head = self.load(0);
        let first = match self.kind {
            Kind::Fork => return Ok(false),
            Kind::N256 => 2 + (head >> 16 & 0xff) as usize,
            kind => kind.slots(),
        };
        if at == first {
            return Ok(false);
        }
        if self.kind >= Kind::X80 {
            self.store(0, head.wrapping_sub(1 << 24));
        }
        self.publish(at, Word::EMPTY)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::word::Leaf;

    fn leaf(n: usize) -> Word {
        Leaf::new(n as u64).expect("small").into()
    }

    fn check(node: Node<'_>, model: &BTreeMap<u8, Word>) {
        for byte in 0..=255u8 {
            assert_eq!(node.child(byte.into()), model.get(&byte).copied().unwrap_or(Word::EMPTY), "byte {byte}");
            let next = model.range(byte..).find(|(b, _)| **b > byte).map(|(b, w)| (u16::from(*b), *w));
            assert_eq!(node.next(byte.into()), next);
            let previous = model.range(..byte).next_back().map(|(b, w)| (u16::from(*b), *w));
            assert_eq!(node.previous(byte.into()), previous);
        }
        assert_eq!(node.live(), model.len());
        let mut entries = Entries::new();
        node.entries(&mut entries);
        assert_eq!(entries[0].1, node.any_child());
        assert_eq!(entries.into_iter().collect::<BTreeMap<_, _>>(), *model);
    }

    #[test]
    fn every_kind_holds_what_was_added_and_not_what_was_emptied() {
        for kind in (1..super::super::KINDS as u64).filter_map(Kind::from_bits) {
            for step in [1usize, 7, 251] {
                // What stood there before must not show.
                let words: Vec<AtomicU64> = (0..kind.words()).map(|_| AtomicU64::new(u64::MAX)).collect();
                let node = NodeMut::new(kind, &words);
                let byte = |i: usize| (i * step + 3) as u8;
                let mut model: BTreeMap<u8, Word> = [(byte(0), leaf(0)), (byte(1), leaf(1))].into();
                node.fill(9, &[(byte(0), leaf(0)), (byte(1), leaf(1))]);
                for i in 2..kind.capacity() {
                    assert!(node.add(byte(i), leaf(i)).unwrap());
                    model.insert(byte(i), leaf(i));
                }
                check(Node::new(kind, &words), &model);
                if kind != Kind::N256 {
                    assert!(!node.add(byte(kind.capacity()), leaf(7)).unwrap(), "a full node takes no more");
                }
                for i in (1..kind.capacity()).step_by(2) {
                    let at = Node::new(kind, &words).find(byte(i).into()).expect("was added");
                    assert!(node.empty(at).unwrap());
                    model.remove(&byte(i));
                }
                check(Node::new(kind, &words), &model);
                let first = Node::new(kind, &words).find(byte(0).into()).expect("was added");
                assert!(!node.empty(first).unwrap(), "the first child stays");
                assert!(node.add(byte(1), leaf(99)).unwrap(), "an emptied slot takes the same byte");
                model.insert(byte(1), leaf(99));
                check(Node::new(kind, &words), &model);
                assert_eq!(Node::new(kind, &words).prefix(), 9);
            }
        }
    }
}
