//! Writes: borrowed operations for the call, and an owned batch that gathers them.

use std::ops::Range;

/// One write, borrowing its bytes. In a slice of operations the later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// Set `key` to `value`.
    Put {
        /// 1 B to the engine's `key_bytes_max`.
        key: &'a [u8],
        /// 0 B to the engine's `value_bytes_max`.
        value: &'a [u8],
    },
    /// Remove `key`; one that is absent is no error.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Remove all keys from `from` (included) up to `to` (excluded; `None`: to the end). An empty range is no error.
    DeleteRange {
        /// The first key of the range.
        from: &'a [u8],
        /// The first key after the range.
        to: Option<&'a [u8]>,
    },
}

impl Op<'_> {
    /// Bytes of keys and values that the caller asked to put (deletes count their keys): the denominator of WAF.
    pub fn logical_bytes(&self) -> u64 {
        match self {
            Self::Put { key, value } => (key.len() + value.len()) as u64,
            Self::Delete { key } => key.len() as u64,
            Self::DeleteRange { from, to } => (from.len() + to.map_or(0, <[u8]>::len)) as u64,
        }
    }
}

/// An owned sequence of writes, applied as a whole. One buffer holds all bytes, so gathering costs no allocation per
/// operation once it has grown; [`clear`](Batch::clear) keeps the room.
///
/// ```
/// use biombo_engine::{Batch, Op};
/// let mut batch = Batch::new();
/// batch.put(b"k", b"v").delete(b"old");
/// assert_eq!(batch.len(), 2);
/// assert_eq!(batch.iter().next(), Some(Op::Put { key: b"k", value: b"v" }));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<Stored>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stored {
    Put { key: Range<usize>, value: Range<usize> },
    Delete { key: Range<usize> },
    DeleteRange { from: Range<usize>, to: Option<Range<usize>> },
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        let (key, value) = (self.keep(key), self.keep(value));
        self.ops.push(Stored::Put { key, value });
        self
    }

    /// Add a delete.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        let key = self.keep(key);
        self.ops.push(Stored::Delete { key });
        self
    }

    /// Add a range delete: `from` included, `to` excluded, `None` to the end.
    pub fn delete_range(&mut self, from: &[u8], to: Option<&[u8]>) -> &mut Self {
        let from = self.keep(from);
        let to = to.map(|to| self.keep(to));
        self.ops.push(Stored::DeleteRange { from, to });
        self
    }

    /// Add an operation.
    pub fn push(&mut self, op: Op<'_>) -> &mut Self {
        match op {
            Op::Put { key, value } => self.put(key, value),
            Op::Delete { key } => self.delete(key),
            Op::DeleteRange { from, to } => self.delete_range(from, to),
        }
    }

    /// The operations in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Op<'_>> + '_ {
        self.ops.iter().map(|stored| match stored {
            Stored::Put { key, value } => Op::Put { key: &self.bytes[key.clone()], value: &self.bytes[value.clone()] },
            Stored::Delete { key } => Op::Delete { key: &self.bytes[key.clone()] },
            Stored::DeleteRange { from, to } => {
                Op::DeleteRange { from: &self.bytes[from.clone()], to: to.as_ref().map(|to| &self.bytes[to.clone()]) }
            }
        })
    }

    /// The operations as a vector, the form that [`Engine::apply`](crate::Engine::apply) takes.
    pub fn to_ops(&self) -> Vec<Op<'_>> {
        self.iter().collect()
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it holds no operation.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes that it has room for without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forget all operations and keep the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
