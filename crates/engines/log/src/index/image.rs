//! Images of an index: all of it as it was at one instant, written while the writer goes on, and an index that begins from such
//! an image without reading it first.
//!
//! [`Index::freeze`] marks the instant. From then on whoever comes first to a chunk of the arena copies it as it still is: the
//! checkpointer, who wants its bytes, or the writer, who is about to change it and leaves the copy for the checkpointer. Each
//! waits for the other only while a chunk is being copied; readers wait for nobody. Memory for as many copies as the writer
//! is ahead of the checkpointer is taken meanwhile.
//!
//! 1. A chunk is copied exactly once for an image, and before its first change after the freeze.
//! 2. The image holds the root of that instant, so it holds nothing that came later, and all nodes that the root reaches.
//! 3. Nodes that were unlinked before the freeze are not in the chunks' bitmaps: after a restart, their places are free.
//! 4. Bytes of an image are used only after their checksum was found right: the header's on decoding, a chunk's when a walk
//!    first comes to it. What an image with right checksums says is checked all the same, node by node.
//!
//! An image is two parts, whose place in files is the caller's business: chunks in any order, and a header. The header is made
//! last, since it holds the chunks' checksums: an image exists when its header does.
//!
//! ```text
//! header  "BIOMBOIX" | version u32 | log2 of a chunk's units u32 | root u64 | keys u64 | chunks u64
//!         | checksum of each chunk u32 ... | checksum of all before u32              (little-endian, CRC-32C)
//! ```

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use biombo_base::checksum::crc32c;
use biombo_base::coding::{get_u32, get_u64};
use biombo_base::{Error, ErrorKind, Result};

use super::arena::{self, Arena, CHUNKS_MAX};
use super::frozen::Frozen;
use super::sync::{CHUNK_UNITS_LOG2, Ordering, order};
use super::tree::{Index, unbox};
use super::word::{Slot, Word};

/// Bytes of a chunk of an image.
pub const CHUNK_BYTES: usize = arena::CHUNK_BYTES;

const MAGIC: &[u8; 8] = b"BIOMBOIX";
const VERSION: u32 = 1;
/// Bytes of a header before the chunks' checksums.
const FIXED_BYTES: usize = 40;

/// Where the chunks of an image are.
pub trait Loader: Send + Sync {
    /// Read chunk `number` into `bytes`, which is [`CHUNK_BYTES`] long.
    ///
    /// # Errors
    /// Whatever keeps it from being read; the walk that needed the chunk fails with it, and the next one tries again.
    fn load(&self, number: usize, bytes: &mut [u8]) -> Result<()>;

    /// The file and the offset of chunk `number`, for messages.
    fn place(&self, number: usize) -> (PathBuf, u64);
}

/// An image in the making: see [`Index::freeze`]. Dropping it ends it; until then the index can make no other one.
pub struct Image<'i> {
    index: &'i Index,
    frozen: Arc<Frozen>,
    root: u64,
    len: usize,
    checksums: Vec<Option<u32>>,
}

/// The part of an image that is needed to begin from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    root: u64,
    len: u64,
    checksums: Vec<u32>,
}

/// The chunks that an index was not yet asked for.
pub struct Source {
    checksums: Vec<u32>,
    loader: Box<dyn Loader>,
}

impl Index {
    /// Begin an image of the index as it is now. Waits for the writer's current operation only: the guard that is its
    /// right to write must not be held by the caller.
    ///
    /// # Errors
    /// `Busy` while another image is being made.
    pub fn freeze(&self) -> Result<Image<'_>> {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(frozen) = heap.freeze() else {
            return Err(Error::new(ErrorKind::Busy, "another image of this index is being written"));
        };
        let root = self.root.load(order::observe());
        let checksums = vec![None; frozen.chunks()];
        Ok(Image { index: self, frozen, root, len: self.len(), checksums })
    }

    /// The index of which `header` and the chunks that `loader` reads are the image: searchable at once, writable at once.
    /// A chunk is read and verified when a walk first needs it.
    pub fn from_image(header: Header, loader: Box<dyn Loader>) -> Index {
        let chunks = header.checksums.len();
        let mut index = Index::over(Arena::over(Source { checksums: header.checksums, loader }, chunks));
        index.heap.get_mut().unwrap_or_else(PoisonError::into_inner).adopt_later(chunks);
        index.root.store(header.root, order::publish());
        index.len.store(header.len as usize, Ordering::Relaxed);
        index
    }

    /// Have chunk `number` of the image that the index began from in memory, instead of when a walk needs it; false when there
    /// is no such chunk.
    ///
    /// # Errors
    /// As for a walk that needs it.
    pub fn load(&self, number: usize) -> Result<bool> {
        let is_there = number < self.arena.chunks();
        if is_there {
            unbox(self.arena.chunk(number))?;
        }
        Ok(is_there)
    }
}

impl Image<'_> {
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.checksums.len()
    }

    /// The bytes of chunk `number`, once.
    ///
    /// # Errors
    /// `Invalid` past the last chunk and the second time; what the loader says, in an index that began from an image and was not yet
    /// asked for this chunk.
    pub fn chunk(&mut self, number: usize) -> Result<Vec<u8>> {
        if self.checksums.get(number).is_none_or(Option::is_some) {
            return Err(Error::invalid(format!("chunk {number} of the image is not there any more")));
        }
        let words = match self.frozen.left(number) {
            Some(words) => words,
            None => {
                let chunk = unbox(self.index.arena.chunk(number))?;
                self.frozen.take(number, || arena::copy(chunk))
            }
        };
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        words.into_iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        self.checksums[number] = Some(crc32c(&bytes));
        Ok(bytes)
    }

    /// The header, once all chunks have been taken.
    ///
    /// # Errors
    /// `Invalid` before.
    pub fn finish(self) -> Result<Header> {
        let checksums: Option<Vec<u32>> = self.checksums.iter().copied().collect();
        let checksums =
            checksums.ok_or_else(|| Error::invalid("an image is finished when all its chunks were taken"))?;
        Ok(Header { root: self.root, len: self.len as u64, checksums })
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        self.frozen.end();
    }
}

impl Header {
    /// Number of chunks of the image.
    pub fn chunks(&self) -> usize {
        self.checksums.len()
    }

    /// Number of keys of the image.
    pub fn keys(&self) -> u64 {
        self.len
    }

    /// Whether `bytes` are those of chunk `number`, by their checksum.
    pub fn is_chunk(&self, number: usize, bytes: &[u8]) -> bool {
        bytes.len() == CHUNK_BYTES && self.checksums.get(number) == Some(&crc32c(bytes))
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.checksums.len() * 4 + 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&CHUNK_UNITS_LOG2.to_le_bytes());
        for number in [self.root, self.len, self.checksums.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.checksums.iter().for_each(|checksum| bytes.extend_from_slice(&checksum.to_le_bytes()));
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The header of these bytes.
    ///
    /// # Errors
    /// `Corruption` if they are not what [`encode`](Self::encode) gave; `Unsupported` for another version.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let damaged = |what: &str| Error::new(ErrorKind::Corruption, format!("the header of an index image: {what}"));
        let end = bytes.len().checked_sub(4).ok_or_else(|| damaged("too short"))?;
        if bytes.get(..8) != Some(MAGIC) {
            return Err(damaged("not one"));
        }
        if get_u32(bytes, end) != Some(crc32c(&bytes[..end])) {
            return Err(damaged("its checksum differs"));
        }
        if (get_u32(bytes, 8), get_u32(bytes, 12)) != (Some(VERSION), Some(CHUNK_UNITS_LOG2)) {
            return Err(Error::unsupported("an index image of another version"));
        }
        let (Some(root), Some(len), Some(chunks)) = (get_u64(bytes, 16), get_u64(bytes, 24), get_u64(bytes, 32)) else {
            return Err(damaged("too short"));
        };
        let checksums = &bytes[FIXED_BYTES..end];
        if chunks > CHUNKS_MAX as u64 || checksums.len() as u64 != chunks * 4 || Word(root).slot() == Slot::Damaged {
            return Err(damaged("it contradicts itself"));
        }
        let checksums = (0..chunks as usize).filter_map(|i| get_u32(checksums, i * 4)).collect();
        Ok(Header { root, len, checksums })
    }
}

impl Source {
    /// The bytes of a chunk, verified; `None` if it has none of that number.
    pub fn load(&self, number: usize) -> Result<Option<Vec<u8>>> {
        let Some(checksum) = self.checksums.get(number) else { return Ok(None) };
        let mut bytes = vec![0; CHUNK_BYTES];
        self.loader.load(number, &mut bytes)?;
        if crc32c(&bytes) != *checksum {
            let (file, offset) = self.loader.place(number);
            return Err(Error::corruption(file, offset, format!("chunk {number} of the index has a wrong checksum")));
        }
        Ok(Some(bytes))
    }
}
