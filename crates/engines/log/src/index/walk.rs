//! Walks from the root: to a candidate leaf ([`get`], [`get_batch`]), and to the exact place of a key ([`locate`]), which
//! writers and cursors need.
//!
//! A walk compares the bytes of prefixes that stand in the nodes and skips the rest. [`locate`] then asks the log for the key
//! of one leaf below the end of the walk: it shares with all others there what the nodes on the path stand for, so comparing
//! it with the wanted key gives the byte where that key leaves the tree, and the node of the path in which it does. One
//! record is read, and none where every byte on the way was compared.

use biombo_base::Error;

use super::KEY_BYTES_MAX;
use super::arena::{Walk, damage};
use super::node::{EDGE_END, EDGE_LONGER, Kind, Node, PREFIX_BYTES};
use super::tree::{Index, Keys};
use super::word::{Leaf, NodeWord, Slot, Word};

/// Walks that go on side by side.
pub const BATCH: usize = 8;

/// More nodes than this on one path are damage: a node takes a byte of the key, but for a Fork, which precedes one that does.
const DEPTH_MAX: usize = 2 * KEY_BYTES_MAX + 2;

/// Up to eight bytes of `bytes` from `at` on, the first in the lowest byte.
#[inline(always)]
pub fn bytes_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8) {
        Some(eight) => u64::from_le_bytes(eight.try_into().expect("invariant: the slice has eight bytes")),
        None => bytes.iter().skip(at).take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// How many of the prefix bytes that stand in the node differ not from `key` at `depth`, at most the prefix's length.
#[inline(always)]
fn matched(node: Node<'_>, prefix_len: usize, key: &[u8], depth: usize) -> usize {
    let inline = prefix_len.min(PREFIX_BYTES);
    let differing = node.prefix() ^ bytes_at(key, depth);
    (differing.trailing_zeros() as usize / 8).min(inline).min(key.len().saturating_sub(depth))
}

#[inline(always)]
fn step(index: &Index, node: NodeWord, key: &[u8], depth: &mut usize) -> Walk<Word> {
    let words = Node::new(node.kind(), index.arena.words(node)?);
    // Keys and slots lie on different lines: the second is asked for while the first is on its way.
    index.arena.prefetch_slots(node);
    let prefix_len = node.prefix_len();
    if prefix_len > 0 {
        if matched(words, prefix_len, key, *depth) < prefix_len.min(PREFIX_BYTES) {
            return Ok(Word::EMPTY);
        }
        *depth += prefix_len;
    }
    match key.get(*depth) {
        Some(_) if node.kind() == Kind::Fork => Ok(words.child(EDGE_LONGER)),
        Some(byte) => {
            *depth += 1;
            Ok(words.child(u16::from(*byte)))
        }
        None if node.kind() == Kind::Fork && *depth == key.len() => Ok(words.child(EDGE_END)),
        None => Ok(Word::EMPTY),
    }
}

/// The candidate leaf of `key`.
#[inline(always)]
pub fn get(index: &Index, key: &[u8]) -> Walk<Option<Leaf>> {
    let mut word = index.root();
    let mut depth = 0;
    let mut nodes = 0;
    loop {
        match word.slot() {
            Slot::Node(node) => word = step(index, node, key, &mut depth)?,
            Slot::Leaf(leaf) => return Ok(Some(leaf)),
            Slot::Empty => return Ok(None),
            Slot::Damaged => return Err(damage("a slot that holds no possible word")),
        }
        nodes += 1;
        if nodes > DEPTH_MAX {
            return Err(damage("a path without an end"));
        }
    }
}

/// The candidate leaves of up to [`BATCH`] keys: each walk takes one step and asks for the memory of its next one, then the
/// next walk goes on.
pub fn get_batch(index: &Index, keys: &[&[u8]], found: &mut [Option<Leaf>]) -> Walk<()> {
    let mut words = [Word::EMPTY; BATCH];
    let mut depths = [0; BATCH];
    let n = keys.len().min(BATCH);
    words[..n].fill(index.root());
    found[..n].fill(None);
    let mut going = (1u32 << n) - 1;
    let mut rounds = 0;
    while going != 0 {
        let mut left = going;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            match words[i].slot() {
                Slot::Node(node) => {
                    let (key, depth) = (keys[i], &mut depths[i]);
                    let word = step(index, node, key, depth)?;
                    if let Slot::Node(next) = word.slot() {
                        let byte = key.get(*depth + next.prefix_len()).copied().unwrap_or(0);
                        index.arena.prefetch(next, byte);
                    }
                    words[i] = word;
                    continue;
                }
                Slot::Leaf(leaf) => found[i] = Some(leaf),
                Slot::Empty => {}
                Slot::Damaged => return Err(damage("a slot that holds no possible word")),
            }
            going &= !(1 << i);
        }
        rounds += 1;
        if rounds > DEPTH_MAX {
            return Err(damage("a path without an end"));
        }
    }
    Ok(())
}

/// A node on the way to a key.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The node.
    pub node: NodeWord,
    /// The depth at which its prefix begins.
    pub start: usize,
    /// The edge that was taken: a byte, or an edge of a Fork.
    pub edge: u16,
}

impl Step {
    /// The depth at which its children differ.
    pub fn branch(&self) -> usize {
        self.start + self.node.prefix_len()
    }
}

/// Where a key belongs, after the last of the path's steps.
#[derive(Debug)]
pub enum Place {
    /// The tree is empty.
    Nowhere,
    /// It is there: the last edge leads to its leaf.
    Found(Leaf),
    /// The last edge leads to a leaf whose key shares `common` bytes and goes on with `other`, or ends.
    BesideLeaf {
        /// The other key's leaf.
        leaf: Leaf,
        /// Bytes that both share.
        common: usize,
        /// The other key's next byte.
        other: Option<u8>,
    },
    /// The last step's node has no child for its edge.
    NoChild,
    /// It leaves the last step's node within its prefix or, if it ends there, right behind it.
    InPrefix {
        /// Bytes that it shares with what the node stands for.
        common: usize,
        /// What the keys below go on with.
        tail: Tail,
    },
}

/// Nine bytes of a key from the place on where another one leaves it: the byte that tells them apart, and a prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    /// The first byte.
    pub byte: u8,
    /// Up to eight bytes from the first on.
    pub here: u64,
    /// Up to eight bytes from the second on.
    pub behind: u64,
}

impl Tail {
    fn of(key: &[u8], at: usize) -> Self {
        let here = bytes_at(key, at);
        Self { byte: here as u8, here, behind: bytes_at(key, at + 1) }
    }
}

enum End {
    Leaf(Leaf),
    NoChild,
    /// Left the last node's prefix at this depth.
    Left(usize),
}

/// The place of `key`; `path` gets the nodes on the way.
pub fn locate<K: Keys>(index: &Index, key: &[u8], keys: &K, path: &mut Vec<Step>) -> Walk<Place> {
    let reached = descend(index, key, path)?;
    resolve(index, key, keys, path, reached)
}

/// The path to `key`, if the candidate at its end is `leaf`.
pub fn path_to(index: &Index, key: &[u8], leaf: Leaf, path: &mut Vec<Step>) -> Walk<bool> {
    Ok(matches!(descend(index, key, path)?.end, End::Leaf(found) if found == leaf))
}

/// How far the bytes in the nodes lead.
struct Reached {
    end: End,
    /// The depth at the end.
    depth: usize,
    /// Whether bytes of prefixes were skipped.
    skipped: bool,
}

fn descend(index: &Index, key: &[u8], path: &mut Vec<Step>) -> Walk<Reached> {
    path.clear();
    let (mut word, mut depth, mut skipped) = (index.root(), 0, false);
    let end = loop {
        let node = match word.slot() {
            Slot::Node(node) => node,
            Slot::Leaf(leaf) => break End::Leaf(leaf),
            Slot::Empty => break End::NoChild,
            Slot::Damaged => return Err(damage("a slot that holds no possible word")),
        };
        let words = Node::new(node.kind(), index.arena.words(node)?);
        let prefix_len = node.prefix_len();
        let matched = matched(words, prefix_len, key, depth);
        let mut step = Step { node, start: depth, edge: 0 };
        if path.len() > DEPTH_MAX {
            return Err(damage("a path without an end"));
        }
        if matched < prefix_len.min(PREFIX_BYTES) || depth + prefix_len > key.len() {
            path.push(step);
            break End::Left(depth + matched);
        }
        skipped |= prefix_len > PREFIX_BYTES;
        depth += prefix_len;
        match key.get(depth) {
            Some(_) if node.kind() == Kind::Fork => step.edge = EDGE_LONGER,
            Some(byte) => {
                step.edge = u16::from(*byte);
                depth += 1;
            }
            None if node.kind() == Kind::Fork => step.edge = EDGE_END,
            None => {
                path.push(step);
                break End::Left(depth);
            }
        }
        word = words.child(step.edge);
        path.push(step);
    };
    Ok(Reached { end, depth, skipped })
}

/// Turn the end of a walk into the exact place.
fn resolve<K: Keys>(
    index: &Index,
    key: &[u8],
    keys: &K,
    path: &mut Vec<Step>,
    Reached { end, depth, skipped }: Reached,
) -> Walk<Place> {
    let sample = match (&end, path.last()) {
        (End::Leaf(leaf), _) => *leaf,
        (End::NoChild, Some(_)) if !skipped => return Ok(Place::NoChild),
        (End::Left(common), Some(last)) if !skipped && last.node.prefix_len() <= PREFIX_BYTES => {
            let words = Node::new(last.node.kind(), index.arena.words(last.node)?);
            let bytes = words.prefix().to_le_bytes();
            return Ok(Place::InPrefix { common: *common, tail: Tail::of(&bytes, common - last.start) });
        }
        (_, Some(last)) => any_leaf(index, last.node)?,
        (_, None) => return Ok(Place::Nowhere),
    };
    let (common, other, tail, same) = keys
        .with_key(sample, |other| {
            let common = common_prefix(key, other);
            (common, other.get(common).copied(), Tail::of(other, common), common == key.len() && common == other.len())
        })
        .map_err(Box::new)?;
    if let (End::Leaf(leaf), true) = (&end, same) {
        return Ok(Place::Found(*leaf));
    }
    // The first node of the path whose branch lies behind the last common byte: the key leaves in its prefix.
    if let Some(at) = path.iter().position(|step| common < step.branch()) {
        path.truncate(at + 1);
        return if common >= path[at].start && other.is_some() {
            Ok(Place::InPrefix { common, tail })
        } else {
            Err(strange(sample))
        };
    }
    match end {
        End::Leaf(leaf) if common >= depth => Ok(Place::BesideLeaf { leaf, common, other }),
        End::NoChild if common + 1 == depth => Ok(Place::NoChild),
        End::Left(at) if at == common && at == key.len() && other.is_some() => Ok(Place::InPrefix { common, tail }),
        _ => Err(strange(sample)),
    }
}

/// The record at a leaf has a key that does not belong there.
#[cold]
fn strange(leaf: Leaf) -> Box<Error> {
    damage(&format!("the record at {leaf:?} has a key that does not belong there"))
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    words + a[words..].iter().zip(&b[words..]).take_while(|(a, b)| a == b).count()
}

/// Some leaf below `node`: through first children, which are never empty.
pub fn any_leaf(index: &Index, mut node: NodeWord) -> Walk<Leaf> {
    for _ in 0..DEPTH_MAX {
        match Node::new(node.kind(), index.arena.words(node)?).any_child().slot() {
            Slot::Node(next) => node = next,
            Slot::Leaf(leaf) => return Ok(leaf),
            Slot::Empty | Slot::Damaged => return Err(damage("a node without a first child")),
        }
    }
    Err(damage("a path without an end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_past_the_end_are_zeros() {
        let bytes: Vec<u8> = (1..=9).collect();
        assert_eq!(bytes_at(&bytes, 0), 0x0807_0605_0403_0201);
        assert_eq!(bytes_at(&bytes, 1), 0x0908_0706_0504_0302);
        assert_eq!(bytes_at(&bytes, 7), 0x0908);
        assert_eq!(bytes_at(&bytes, 9), 0);
        assert_eq!(bytes_at(&bytes, 90), 0);
    }

    #[test]
    fn the_common_prefix_is_exact_at_every_length() {
        for n in 0..40 {
            let a: Vec<u8> = (0..n).collect();
            for m in 0..40 {
                let b: Vec<u8> = (0..m).collect();
                assert_eq!(common_prefix(&a, &b), n.min(m) as usize);
            }
            for at in 0..n as usize {
                let mut b = a.clone();
                b[at] ^= 1;
                assert_eq!(common_prefix(&a, &b), at);
            }
        }
    }
}
