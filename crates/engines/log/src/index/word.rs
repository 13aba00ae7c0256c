//! What a slot holds, in 64 bits: nothing, a leaf, or a node with its kind and the length of its prefix.
//!
//! ```text
//! empty   0
//! leaf    number (61 bits) | 001
//! node    reference (32) | 0 (8) | prefix length (16) | kind (5) | 010
//! ```
//!
//! Kind and prefix length stand in the slot, not in the node: a reader knows which of the node's cache lines it needs before
//! it has touched the node.

use std::num::NonZeroU64;

use super::node::Kind;
use super::sync::CHUNK_UNITS_LOG2;

const TAG_BITS: u32 = 3;
const LEAF: u64 = 0b001;
const NODE: u64 = 0b010;

/// A leaf of the index: an opaque number of 61 bits, in the log engine a position in the log.
///
/// ```
/// use biombo_log::index::Leaf;
/// assert_eq!(Leaf::new(7).map(Leaf::get), Some(7));
/// assert_eq!(Leaf::new(1 << 61), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Leaf(NonZeroU64);

impl Leaf {
    /// The greatest number that a leaf can hold.
    pub const MAX: u64 = (1 << (64 - TAG_BITS)) - 1;

    /// The leaf that holds `number`; `None` above [`Leaf::MAX`].
    #[inline]
    pub const fn new(number: u64) -> Option<Self> {
        if number > Self::MAX {
            return None;
        }
        match NonZeroU64::new(number << TAG_BITS | LEAF) {
            Some(word) => Some(Self(word)),
            None => None,
        }
    }

    /// The number that it holds.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get() >> TAG_BITS
    }
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leaf({})", self.get())
    }
}

/// A slot's content as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

/// A slot's content, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// No child.
    Empty,
    /// A leaf.
    Leaf(Leaf),
    /// A node.
    Node(NodeWord),
    /// No word that this code ever stores.
    Damaged,
}

impl Word {
    /// An empty slot.
    pub const EMPTY: Word = Word(0);

    /// What the word says.
    #[inline(always)]
    pub fn slot(self) -> Slot {
        match self.0 & 0b111 {
            NODE => match Kind::from_bits(self.0 >> TAG_BITS & 31) {
                Some(kind) => Slot::Node(NodeWord { word: self.0, kind }),
                None => Slot::Damaged,
            },
            LEAF => match NonZeroU64::new(self.0) {
                Some(word) => Slot::Leaf(Leaf(word)),
                None => Slot::Damaged,
            },
            0 if self.0 == 0 => Slot::Empty,
            _ => Slot::Damaged,
        }
    }

    /// Whether nothing is there.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Leaf> for Word {
    #[inline(always)]
    fn from(leaf: Leaf) -> Word {
        Word(leaf.0.get())
    }
}

impl From<NodeWord> for Word {
    #[inline(always)]
    fn from(node: NodeWord) -> Word {
        Word(node.word)
    }
}

/// The slot word of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeWord {
    word: u64,
    kind: Kind,
}

impl NodeWord {
    /// The word for a node at `reference` (in units of 16 bytes).
    pub fn new(reference: u32, kind: Kind, prefix_len: u16) -> Self {
        let word = u64::from(reference) << 32 | u64::from(prefix_len) << 8 | (kind as u64) << TAG_BITS | NODE;
        Self { word, kind }
    }

    /// Where the node stands in the arena, in units of 16 bytes.
    #[inline(always)]
    pub fn reference(self) -> u32 {
        (self.word >> 32) as u32
    }

    /// The chunk that it stands in.
    #[inline(always)]
    pub fn chunk(self) -> usize {
        (self.reference() >> CHUNK_UNITS_LOG2) as usize
    }

    /// Which kind of node it is.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// How many bytes all keys below share from the node's own depth on.
    #[inline(always)]
    pub fn prefix_len(self) -> usize {
        (self.word >> 8 & 0xffff) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_coding_and_others_are_damage() {
        for number in [0, 1, Leaf::MAX] {
            let leaf = Leaf::new(number).expect("in range");
            assert_eq!(Word::from(leaf).slot(), Slot::Leaf(leaf));
            assert_eq!(leaf.get(), number);
        }
        let node = NodeWord::new(u32::MAX, Kind::N256, u16::MAX);
        assert_eq!(Word::from(node).slot(), Slot::Node(node));
        assert_eq!((node.reference(), node.prefix_len()), (u32::MAX, 65535));
        assert_eq!(Word::EMPTY.slot(), Slot::Empty);
        for word in [8, 3, 4, 7, 31 << 3 | 2] {
            assert_eq!(Word(word).slot(), Slot::Damaged, "{word:#x}");
        }
    }
}
