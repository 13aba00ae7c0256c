//! A cursor over the leaves in the order of their keys, both ways.
//!
//! The cursor keeps the path of nodes from the root to where it stands, under a pin. Nodes of the path that the writer has
//! replaced in the meantime still show all keys that were there when the cursor came: a key that is in the index from the
//! cursor's start to its end is found exactly once and in order; one that comes or goes meanwhile may be found or not.
//!
//! To go on after a pause without holding memory, drop the pin and later [`seek_after`](Cursor::seek_after) the key of the
//! last leaf.

use biombo_base::Result;

use super::KEY_BYTES_MAX;
use super::arena::{Walk, damage};
use super::node::{Kind, Node};
use super::tree::{Keys, Pin, unbox};
use super::walk::{self, Place, Step};
use super::word::{Leaf, NodeWord, Slot, Word};

/// Children ahead of the one being read whose memory is asked for.
const AHEAD: usize = 4;

/// Above every edge.
const PAST: i32 = 256;

/// A position between the leaves or at one of them; see [`Pin::cursor`].
pub struct Cursor<'p, K> {
    pin: &'p Pin<'p>,
    keys: K,
    path: Vec<Step>,
    state: State,
    slots: [u8; 256],
    /// Whether many leaves will be read: then memory is asked for ahead.
    bulk: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    At,
    After,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl<'p, K: Keys> Cursor<'p, K> {
    pub(super) fn new(pin: &'p Pin<'p>, keys: K) -> Self {
        Self { pin, keys, path: Vec::with_capacity(16), state: State::Before, slots: [0; 256], bulk: false }
    }

    /// Go to the first key.
    ///
    /// # Errors
    /// `Corruption`, as all functions here, if the index was loaded from an image that is damaged.
    pub fn first(&mut self) -> Result<Option<Leaf>> {
        unbox(self.end(Way::Forward))
    }

    /// Go to the last key.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn last(&mut self) -> Result<Option<Leaf>> {
        unbox(self.end(Way::Backward))
    }

    /// Go to the first key that is not below `key`.
    ///
    /// # Errors
    /// As [`first`](Self::first), and what [`Keys::with_key`] says.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Leaf>> {
        unbox(self.seek_to(key, Way::Forward, true))
    }

    /// Go to the first key above `key`.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn seek_after(&mut self, key: &[u8]) -> Result<Option<Leaf>> {
        unbox(self.seek_to(key, Way::Forward, false))
    }

    /// Go to the last key below `key`.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn seek_before(&mut self, key: &[u8]) -> Result<Option<Leaf>> {
        unbox(self.seek_to(key, Way::Backward, false))
    }

    /// Go to the next key; after the last one, `None`.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot turn round, nor say what went wrong once")]
    pub fn next(&mut self) -> Result<Option<Leaf>> {
        match self.state {
            State::Before => self.first(),
            State::At => unbox(self.advance(Way::Forward)),
            State::After => Ok(None),
        }
    }

    /// Go to the previous key; before the first one, `None`.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn prev(&mut self) -> Result<Option<Leaf>> {
        match self.state {
            State::Before => Ok(None),
            State::At => unbox(self.advance(Way::Backward)),
            State::After => self.last(),
        }
    }

    /// Append up to `n` next leaves to `out`, and stand at the last of them. Fewer than `n`: there are no more, and the cursor
    /// stands behind the last key.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn next_n(&mut self, n: usize, out: &mut Vec<Leaf>) -> Result<usize> {
        self.bulk = n > AHEAD;
        let gathered = self.gather(n, out, Way::Forward);
        self.bulk = false;
        unbox(gathered)
    }

    /// Append up to `n` previous leaves to `out`, in descending order, and stand at the last of them. Fewer than `n`: there
    /// are no more, and the cursor stands before the first key.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn prev_n(&mut self, n: usize, out: &mut Vec<Leaf>) -> Result<usize> {
        self.bulk = n > AHEAD;
        let gathered = self.gather(n, out, Way::Backward);
        self.bulk = false;
        unbox(gathered)
    }

    fn node(&self, node: NodeWord) -> Walk<Node<'p>> {
        Ok(Node::new(node.kind(), self.pin.index.arena.words(node)?))
    }

    fn end(&mut self, way: Way) -> Walk<Option<Leaf>> {
        self.path.clear();
        self.state = if way == Way::Forward { State::After } else { State::Before };
        match self.pin.index.root() {
            Word::EMPTY => Ok(None),
            root => self.descend(root, way),
        }
    }

    /// Go to the first (last) leaf below `word`, or past it if there is none.
    fn descend(&mut self, word: Word, way: Way) -> Walk<Option<Leaf>> {
        match self.dive(word, way)? {
            None => self.advance(way),
            leaf => Ok(leaf),
        }
    }

    /// Go down to the first (last) leaf below `word`. `None`: the last node of the path has no further child. A node is never
    /// empty, but a reader may look at each slot just before its child comes or after it went.
    fn dive(&mut self, mut word: Word, way: Way) -> Walk<Option<Leaf>> {
        loop {
            match word.slot() {
                Slot::Leaf(leaf) => {
                    self.state = State::At;
                    return Ok(Some(leaf));
                }
                Slot::Node(node) => {
                    self.push(node, way)?;
                    match self.step(way)? {
                        Some(child) => word = child,
                        None => return Ok(None),
                    }
                }
                Slot::Empty | Slot::Damaged => return Err(damage("a slot that holds no possible word")),
            }
        }
    }

    fn push(&mut self, node: NodeWord, way: Way) -> Walk<()> {
        if self.path.len() > 2 * KEY_BYTES_MAX + 2 {
            return Err(damage("a path without an end"));
        }
        // No edge is taken yet; an edge outside 0..256 says so to `step`.
        self.path.push(Step { node, start: 0, edge: if way == Way::Forward { NONE } else { PAST as u16 } });
        Ok(())
    }

    /// Take the next edge of the last node.
    #[inline]
    fn step(&mut self, way: Way) -> Walk<Option<Word>> {
        let Some(last) = self.path.last().copied() else { return Ok(None) };
        let words = self.node(last.node)?;
        let taken = match way {
            Way::Forward => words.next(after(last.edge)),
            Way::Backward => words.previous(i32::from(last.edge)),
        };
        let Some((edge, word)) = taken else { return Ok(None) };
        if let Some(last) = self.path.last_mut() {
            last.edge = edge;
        }
        if self.bulk {
            self.look_ahead(last.node, if last.edge == NONE { -1 } else { i32::from(last.edge) }, edge)?;
        }
        Ok(Some(word))
    }

    /// From where the path stands to the next leaf.
    fn advance(&mut self, way: Way) -> Walk<Option<Leaf>> {
        while !self.path.is_empty() {
            match self.step(way)? {
                Some(word) => {
                    if let Some(leaf) = self.dive(word, way)? {
                        return Ok(Some(leaf));
                    }
                }
                None => drop(self.path.pop()),
            }
        }
        self.state = if way == Way::Forward { State::After } else { State::Before };
        Ok(None)
    }

    /// The first leaf not below `key` (above it, if not `inclusive`), or the last one below it.
    fn seek_to(&mut self, key: &[u8], way: Way, inclusive: bool) -> Walk<Option<Leaf>> {
        let place = walk::locate(self.pin.index, key, &self.keys, &mut self.path)?;
        // Where the key stands beside what the last step leads to.
        let beside = match place {
            Place::Nowhere => {
                self.state = if way == Way::Forward { State::After } else { State::Before };
                return Ok(None);
            }
            Place::Found(leaf) if inclusive => {
                self.state = State::At;
                return Ok(Some(leaf));
            }
            Place::Found(_) | Place::NoChild => return self.advance(way),
            Place::BesideLeaf { leaf, common, other } => {
                if (key.get(common).copied() < other) == (way == Way::Forward) {
                    self.state = State::At;
                    return Ok(Some(leaf));
                }
                return self.advance(way);
            }
            Place::InPrefix { common, tail } => key.get(common).copied() < Some(tail.byte),
        };
        // All keys below the last node are above the wanted one, or all are below it.
        let last = self.path.pop();
        match last {
            Some(last) if beside == (way == Way::Forward) => self.descend(Word::from(last.node), way),
            _ => self.advance(way),
        }
    }

    fn gather(&mut self, n: usize, out: &mut Vec<Leaf>, way: Way) -> Walk<usize> {
        let begin = out.len();
        let n = n.min(usize::MAX - begin);
        if n == 0 {
            return Ok(0);
        }
        let first = match (self.state, way) {
            (State::Before, Way::Forward) | (State::After, Way::Backward) => self.end(way)?,
            (State::At, _) => self.advance(way)?,
            _ => None,
        };
        let Some(first) = first else { return Ok(0) };
        out.push(first);
        while out.len() - begin < n {
            if let Some(last) = self.path.last().copied() {
                let words = self.node(last.node)?;
                if words.is_linear() {
                    self.gather_linear(words, last.edge, begin + n, out, way)?;
                    if out.len() - begin == n {
                        break;
                    }
                }
            }
            match self.advance(way)? {
                Some(leaf) => out.push(leaf),
                None => break,
            }
        }
        Ok(out.len() - begin)
    }

    /// The leaves of a linear node from the edge on, up to a child that is a node or to `until` leaves in `out`.
    fn gather_linear(&mut self, words: Node<'p>, edge: u16, until: usize, out: &mut Vec<Leaf>, way: Way) -> Walk<()> {
        let mut bytes = Bytes(words.ordered(&mut self.slots), way);
        bytes.drop_up_to(edge);
        let mut ahead = bytes;
        let mut taken = edge;
        while let Some(byte) = bytes.take() {
            let word = words.slot(self.slots[usize::from(byte)].into());
            match word.slot() {
                Slot::Empty => continue,
                Slot::Leaf(leaf) if out.len() < until => out.push(leaf),
                _ => break,
            }
            taken = byte;
            ahead = bytes;
        }
        if let Some(last) = self.path.last_mut() {
            last.edge = taken;
        }
        // The nodes that come next.
        for _ in 0..AHEAD {
            let Some(byte) = ahead.take() else { break };
            self.prefetch(words.slot(self.slots[usize::from(byte)].into()));
        }
        Ok(())
    }

    fn prefetch(&self, word: Word) {
        if let Slot::Node(node) = word.slot() {
            self.pin.index.arena.prefetch(node, 0);
        }
    }

    /// Ask for the children of a node with a slot for every byte that come into sight as the edge goes from `from` to `to`.
    fn look_ahead(&self, node: NodeWord, from: i32, to: u16) -> Walk<()> {
        if node.kind() < Kind::X80 {
            return Ok(());
        }
        let words = self.node(node)?;
        let (to, ahead) = (i32::from(to), AHEAD as i32);
        let edges = if to > from {
            let begin = if from < 0 { to + 1 } else { from + ahead + 1 };
            begin..to + ahead + 1
        } else {
            to - ahead..if from == PAST { to } else { from - ahead }
        };
        for edge in edges {
            if let Ok(byte) = u8::try_from(edge) {
                self.prefetch(words.child(byte.into()));
            }
        }
        Ok(())
    }
}

/// A set of bytes that is taken in order, one way or the other.
#[derive(Clone, Copy)]
struct Bytes([u64; 4], Way);

impl Bytes {
    /// Drop the bytes up to and with `edge`.
    fn drop_up_to(&mut self, edge: u16) {
        for (i, word) in (0i32..).zip(&mut self.0) {
            let keep = match self.1 {
                Way::Forward => match after(edge) + 1 - i * 64 {
                    ..=0 => u64::MAX,
                    n @ 1..64 => u64::MAX << n,
                    _ => 0,
                },
                Way::Backward => match i32::from(edge) - i * 64 {
                    ..=0 => 0,
                    n @ 1..64 => (1 << n) - 1,
                    _ => u64::MAX,
                },
            };
            *word &= keep;
        }
    }

    #[inline]
    fn take(&mut self) -> Option<u16> {
        match self.1 {
            Way::Forward => {
                let (i, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                Some((i * 64) as u16 + bit as u16)
            }
            Way::Backward => {
                let (i, word) = self.0.iter_mut().enumerate().rfind(|(_, word)| **word != 0)?;
                let bit = 63 - word.leading_zeros();
                *word &= !(1 << bit);
                Some((i * 64) as u16 + bit as u16)
            }
        }
    }
}

/// No edge taken yet, on the way forward.
const NONE: u16 = u16::MAX;

fn after(edge: u16) -> i32 {
    if edge == NONE { -1 } else { i32::from(edge) }
}
