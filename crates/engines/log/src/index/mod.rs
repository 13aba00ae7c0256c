//! The index of the log engine: an ordered map from byte strings to positions in the log, without the byte strings.
//!
//! An adaptive radix tree (Leis, Kemper, Neumann, ICDE 2013) with one writer at a time and readers that take no lock, never
//! wait for the writer and never start over: the ROWEX discipline of Leis, Scheibner, Kemper, Neumann (DaMoN 2016), reduced
//! to one writer. Keys are 1 B to 64 KiB of any bytes; a key may be a prefix of another. A leaf is an opaque number of 61
//! bits; the key of a leaf is asked from the caller ([`Keys`]), who has it in the log.
//!
//! Invariants of the tree:
//!
//! 1. A node stands for a fixed string: what all keys below it begin with. That string never changes while the node lives, so
//!    its prefix is immutable; a change of prefix makes a copy.
//! 2. A node has at least two children, and its first child is never emptied in place: every node leads to a leaf at any time.
//! 3. Every change that a reader can see is one store of one word: a slot, a node's count, a word of a sparse node's table.
//!    A reader therefore sees the tree before or after each change, whatever it has walked before.
//! 4. A node that was unlinked is written again only after every reader that could have reached it has gone (`epoch`).
//! 5. All memory of the tree is words of an `arena` that are read and written atomically: a wrong reference (a damaged
//!    image) gives a wrong word, which is checked before use, and never undefined behaviour.
//!
//! What a reader gets is a candidate: bytes of a prefix past the first `node::PREFIX_BYTES` are not compared on the way
//! down, so the caller compares the key in the log, which it reads anyway.
//!
//! Not here: versions of a key (the engine keeps what snapshots need beside the index), and files (the engine writes the
//! [images](Image) where it likes).

mod arena;
mod cursor;
mod epoch;
mod frozen;
mod image;
mod memory;
mod node;
mod sync;
mod tree;
mod verify;
mod walk;
mod word;
mod write;

pub use cursor::Cursor;
pub use image::{CHUNK_BYTES, Header, Image, Loader};
pub use tree::{Index, Keys, Pin};
pub use word::Leaf;
pub use write::Writer;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65536;
