//! The nodes of the tree: their kinds, their layout, and what a reader finds in them.
//!
//! A node is a run of words of the arena. Its kind and the length of its prefix stand in the slot that refers to it.
//!
//! ```text
//! word 0   what grows: count and keys of small nodes, count of the others
//! word 1   the first 8 bytes of the prefix, the first in the lowest byte
//! then     linear nodes: key bytes (8 a word, none for the small kinds), then a slot for each key
//!          sparse nodes: a table of 256 bytes (slot number + 1, or 0), then slots
//!          N256: 256 slots          Fork: two slots
//! ```
//!
//! | kind | children | bytes | word 0 |
//! |---|---|---|---|
//! | Fork | a key that ends here, and the longer ones | 32 | unused |
//! | L2, L4, L6 | up to 2, 4, 6 | 32, 48, 64 | count (8 bits), keys (7 bytes) |
//! | L10, L16, L24, L32, L48 | up to that many, keys unordered | 112, 160, 240, 304, 448 | count |
//! | X80, X128 | up to that many, by table | 912, 1296 | used slots (16 bits), first byte (8 bits at 16), live (16 bits at 24) |
//! | N256 | any, by byte | 2064 | unused (16 bits), first byte (8 bits at 16), live (16 bits at 24) |
//!
//! Invariants:
//!
//! 1. Word 1, the keys of used slots and the table's entries that are not 0 never change while a node lives.
//! 2. A slot becomes visible by one store: of word 0 with the greater count (linear), of the table's word (sparse), of the slot
//!    itself (N256), after everything that it makes reachable.
//! 3. An emptied slot is used again only for the same byte, so that a reader that has matched the byte never takes another
//!    byte's child.
//! 4. The first child (of slot 0; of the first byte in N256; the end of a Fork) is never emptied in place: a reader that needs any
//!    leaf below a node finds one without a search.

mod build;
mod search;

use super::sync::{AtomicU64, Ordering, order};
use super::word::Word;

pub use build::{Entries, NodeMut};

/// Bytes of a prefix that stand in the node.
pub const PREFIX_BYTES: usize = 8;

/// Number of kinds.
pub const KINDS: usize = 12;

/// The edge of a Fork to the key that ends there.
pub const EDGE_END: u16 = 0;
/// The edge of a Fork to the longer keys.
pub const EDGE_LONGER: u16 = 1;

/// The kinds of nodes, in the order of their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A key ends here and others go on.
    Fork,
    /// Up to 2 children.
    L2,
    /// Up to 4 children.
    L4,
    /// Up to 6 children.
    L6,
    /// Up to 10 children.
    L10,
    /// Up to 16 children.
    L16,
    /// Up to 24 children.
    L24,
    /// Up to 32 children.
    L32,
    /// Up to 48 children.
    L48,
    /// Up to 80 children, found by a table.
    X80,
    /// Up to 128 children, found by a table.
    X128,
    /// A slot for every byte.
    N256,
}

const ALL: [Kind; KINDS] = [
    Kind::Fork,
    Kind::L2,
    Kind::L4,
    Kind::L6,
    Kind::L10,
    Kind::L16,
    Kind::L24,
    Kind::L32,
    Kind::L48,
    Kind::X80,
    Kind::X128,
    Kind::N256,
];

const CAPACITY: [usize; KINDS] = [2, 2, 4, 6, 10, 16, 24, 32, 48, 80, 128, 256];
/// The word of the first slot.
const SLOTS: [usize; KINDS] = [2, 2, 2, 2, 4, 4, 5, 6, 8, 34, 34, 2];
/// Words, a multiple of 2 (references count 16 bytes).
const WORDS: [usize; KINDS] = {
    let mut words = [0; KINDS];
    let mut i = 0;
    while i < KINDS {
        words[i] = (SLOTS[i] + CAPACITY[i]).next_multiple_of(2);
        i += 1;
    }
    words
};

/// The word of the table's first eight entries.
const TABLE: usize = 2;

impl Kind {
    /// The kind of these bits of a slot word.
    #[inline(always)]
    pub fn from_bits(bits: u64) -> Option<Kind> {
        ALL.get(bits as usize).copied()
    }

    /// Children that it has room for.
    #[inline(always)]
    pub fn capacity(self) -> usize {
        CAPACITY[self as usize]
    }

    /// Words that it takes.
    #[inline(always)]
    pub fn words(self) -> usize {
        WORDS[self as usize]
    }

    #[inline(always)]
    fn slots(self) -> usize {
        SLOTS[self as usize]
    }

    /// The smallest kind by bytes that has room for `children`; no more than 256 are needed.
    pub fn fitting(children: usize) -> Kind {
        ALL[1..].iter().copied().find(|kind| kind.capacity() >= children).unwrap_or(Kind::N256)
    }

    /// Where to fetch from (in words) and how much (in bytes) before a reader comes that will follow `byte`.
    #[inline(always)]
    pub fn lines(self, byte: u8) -> (usize, usize) {
        match self {
            Kind::N256 => (2 + byte as usize, 8),
            Kind::X80 | Kind::X128 => (TABLE + byte as usize / 8, 8),
            kind => (0, (kind.words() * 8).min(256)),
        }
    }
}

/// A node as readers see it.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    kind: Kind,
    words: &'a [AtomicU64],
}

impl<'a> Node<'a> {
    /// The node of `kind` in `words`, which are as many as the kind has.
    #[inline(always)]
    pub fn new(kind: Kind, words: &'a [AtomicU64]) -> Self {
        debug_assert_eq!(words.len(), kind.words());
        Self { kind, words }
    }

    /// The first bytes of the prefix.
    #[inline(always)]
    pub fn prefix(self) -> u64 {
        self.words[1].load(Ordering::Relaxed)
    }

    /// The index of the word that is the slot of `edge`: a byte, or an edge of a Fork.
    #[inline(always)]
    pub fn find(self, edge: u16) -> Option<usize> {
        let byte = edge as u8;
        match self.kind {
            Kind::L2 | Kind::L4 | Kind::L6 => {
                let head = self.words[0].load(order::observe());
                search::in_word(head >> 8, byte, (head & 0xff) as usize).map(|i| i + 2)
            }
            Kind::L10 | Kind::L16 => self.find_linear::<2>(byte),
            Kind::L24 => self.find_linear::<3>(byte),
            Kind::L32 => self.find_linear::<4>(byte),
            Kind::L48 => self.find_linear::<6>(byte),
            Kind::X80 | Kind::X128 => {
                let entries = self.words[TABLE + byte as usize / 8].load(order::observe());
                let number = (entries >> (byte % 8 * 8) & 0xff) as usize;
                (number != 0).then(|| self.kind.slots() + number - 1)
            }
            Kind::N256 => Some(2 + byte as usize),
            Kind::Fork => Some(2 + edge as usize),
        }
    }

    #[inline(always)]
    fn find_linear<const N: usize>(self, byte: u8) -> Option<usize> {
        let count = self.words[0].load(order::observe()) as usize & 0xff;
        let mut keys = [0u64; N];
        for (i, key) in keys.iter_mut().enumerate() {
            *key = self.words[2 + i].load(Ordering::Relaxed);
        }
        search::in_words(&keys, byte, count).map(|i| i + 2 + N)
    }

    /// What the slot at this word holds.
    #[inline(always)]
    pub fn slot(self, at: usize) -> Word {
        // A damaged table can name a slot past the end.
        self.words.get(at).map_or(Word(u64::MAX), |word| Word(word.load(order::observe())))
    }

    /// The child of `edge`.
    #[inline(always)]
    pub fn child(self, edge: u16) -> Word {
        self.find(edge).map_or(Word::EMPTY, |at| self.slot(at))
    }

    /// Some child, at any time.
    #[inline]
    pub fn any_child(self) -> Word {
        match self.kind {
            Kind::N256 => {
                let first = self.words[0].load(Ordering::Relaxed) >> 16 & 0xff;
                self.slot(2 + first as usize)
            }
            kind => self.slot(kind.slots()),
        }
    }

    /// The first edge above `after` (-1: from the first on) with a child.
    pub fn next(self, after: i32) -> Option<(u16, Word)> {
        match self.kind {
            Kind::Fork | Kind::N256 => {
                let edges = self.kind.capacity() as i32;
                (after + 1..edges).map(|edge| (edge as u16, self.slot(2 + edge as usize))).find(|(_, w)| !w.is_empty())
            }
            Kind::X80 | Kind::X128 => {
                (after + 1..256).map(|edge| (edge as u16, self.child(edge as u16))).find(|(_, w)| !w.is_empty())
            }
            _ => self.nearest::<false>(after, 256),
        }
    }

    /// The last edge below `before` (256: from the last on) with a child.
    pub fn previous(self, before: i32) -> Option<(u16, Word)> {
        match self.kind {
            Kind::Fork | Kind::N256 => {
                let edges = before.min(self.kind.capacity() as i32);
                (0..edges).rev().map(|edge| (edge as u16, self.slot(2 + edge as usize))).find(|(_, w)| !w.is_empty())
            }
            Kind::X80 | Kind::X128 => {
                (0..before.min(256)).rev().map(|e| (e as u16, self.child(e as u16))).find(|(_, w)| !w.is_empty())
            }
            _ => self.nearest::<true>(-1, before),
        }
    }

    /// The child of a linear node at the first edge above `above` and below `below`, or at the `LAST` one: the keys are
    /// compared before any slot is read.
    fn nearest<const LAST: bool>(self, mut above: i32, mut below: i32) -> Option<(u16, Word)> {
        let head = self.words[0].load(order::observe());
        let has_inline_keys = self.kind.slots() == 2;
        let count = (head as usize & 0xff).min(self.kind.capacity());
        loop {
            let none = if LAST { above } else { below };
            let (mut found, mut keys) = (none, head >> 8);
            for i in 0..count {
                if !has_inline_keys && i % 8 == 0 {
                    keys = self.words[2 + i / 8].load(Ordering::Relaxed);
                }
                let edge = i32::from(keys as u8);
                keys >>= 8;
                let (low, high) = if LAST { (found, below) } else { (above, found) };
                found = if edge > low && edge < high { edge } else { found };
            }
            if found == none {
                return None;
            }
            let word = self.child(found as u16);
            if !word.is_empty() {
                return Some((found as u16, word));
            }
            // Emptied: the next one.
            *(if LAST { &mut below } else { &mut above }) = found;
        }
    }

    /// Whether bulk reading should gather the node's children at once: they are not in order.
    #[inline(always)]
    pub fn is_linear(self) -> bool {
        !matches!(self.kind, Kind::Fork | Kind::X80 | Kind::X128 | Kind::N256)
    }

    /// The bytes of a linear node's children as a bitmap; `slots` gets the word of the slot of each.
    #[inline]
    pub fn ordered(self, slots: &mut [u8; 256]) -> [u64; 4] {
        let head = self.words[0].load(order::observe());
        let first = self.kind.slots();
        let count = (head as usize & 0xff).min(self.kind.capacity());
        let mut bytes = [0u64; 4];
        let mut keys = head >> 8;
        for i in 0..count {
            if first != 2 && i % 8 == 0 {
                keys = self.words[2 + i / 8].load(Ordering::Relaxed);
            }
            let byte = keys as u8;
            keys >>= 8;
            slots[byte as usize] = (first + i) as u8;
            bytes[byte as usize / 64] |= 1 << (byte % 64);
        }
        bytes
    }

    /// The children of a linear node in the order of their slots.
    #[inline]
    pub fn linear(self) -> impl Iterator<Item = (u16, Word)> + 'a {
        let head = self.words[0].load(order::observe());
        let slots = self.kind.slots();
        let count = (head as usize & 0xff).min(self.kind.capacity());
        (0..count)
            .map(move |i| {
                let keys = if slots == 2 { head >> 8 } else { self.words[2 + i / 8].load(Ordering::Relaxed) };
                ((keys >> (i % 8 * 8) & 0xff) as u16, self.slot(slots + i))
            })
            .filter(|(_, word)| !word.is_empty())
    }

    /// All children, the first one first: what a copy of the node needs.
    pub fn entries(self, into: &mut Entries) {
        into.clear();
        if self.is_linear() {
            into.extend(self.linear().map(|(byte, word)| (byte as u8, word)));
            return;
        }
        let first = self.words[0].load(Ordering::Relaxed) >> 16 & 0xff;
        let first = (first as u16, self.child(first as u16));
        let mut edge = -1;
        into.push((first.0 as u8, first.1));
        while let Some((next, word)) = self.next(edge) {
            edge = i32::from(next);
            if next != first.0 {
                into.push((next as u8, word));
            }
        }
    }

    /// Children that are not empty, counted by the writer.
    pub fn live(self) -> usize {
        match self.kind {
            Kind::Fork => 2,
            Kind::X80 | Kind::X128 | Kind::N256 => (self.words[0].load(Ordering::Relaxed) >> 24 & 0xffff) as usize,
            _ => self.linear().count(),
        }
    }
}
