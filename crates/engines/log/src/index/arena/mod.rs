//! The memory of an index: chunks of 256 KiB, named by number; a reference of 32 bits counts units of 16 bytes, so an index
//! grows to 64 GiB.
//!
//! 1. A chunk is an array of atomic words. Every access is an atomic access to a whole word that was checked to lie within the
//!    chunk: a wrong reference reads a wrong word and nothing else.
//! 2. A chunk begins with the bitmap of its units that hold nodes which are reachable (the bitmap's own units count as
//!    such), so that a chunk's bytes alone are enough to go on allocating in it.
//! 3. A chunk stays where it is until the arena goes.

pub mod heap;

use biombo_base::Error;

pub use super::memory::Chunk;

use super::image::Source;
use super::memory;
use super::node::Kind;
use super::sync::{AtomicU64, AtomicUsize, CHUNK_UNITS_LOG2, Ordering};
use super::word::NodeWord;

/// Units of 16 bytes in a chunk.
pub const CHUNK_UNITS: usize = 1 << CHUNK_UNITS_LOG2;
/// Words of 8 bytes in a chunk.
pub const CHUNK_WORDS: usize = CHUNK_UNITS * 2;
/// Bytes in a chunk.
pub const CHUNK_BYTES: usize = CHUNK_WORDS * 8;
/// Chunks that a reference can name; of small ones so few that their table is small too.
pub const CHUNKS_MAX: usize = 1 << if cfg!(biombo_small_chunks) { 10 } else { 32 - CHUNK_UNITS_LOG2 };
/// Words of a chunk's bitmap.
pub const BITMAP_WORDS: usize = CHUNK_UNITS / 64;
/// Units that the bitmap takes.
pub const BITMAP_UNITS: usize = BITMAP_WORDS.div_ceil(2);

/// An error of a walk; boxed, so that the answer of a look-up fits into two registers.
pub type Fault = Box<Error>;
/// The answer of anything that follows references.
pub type Walk<T> = Result<T, Fault>;

/// The chunks of one index.
pub struct Arena {
    table: memory::Table,
    chunks: AtomicUsize,
    /// Chunks that there may be: all that references can name; fewer in tests.
    most: AtomicUsize,
    /// Where chunks come from that are not yet in memory.
    source: Option<Source>,
}

impl Arena {
    pub fn new() -> Self {
        Self {
            table: memory::Table::new(),
            chunks: AtomicUsize::new(0),
            most: AtomicUsize::new(CHUNKS_MAX),
            source: None,
        }
    }

    /// The arena of an image of `chunks` chunks.
    pub fn over(source: Source, chunks: usize) -> Self {
        Self { chunks: AtomicUsize::new(chunks), source: Some(source), ..Self::new() }
    }

    /// Chunk numbers in use.
    pub fn chunks(&self) -> usize {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Chunks that can still be taken.
    #[inline]
    pub fn room(&self) -> usize {
        self.most.load(Ordering::Relaxed).saturating_sub(self.chunks())
    }

    /// No more than `room` chunks can be taken from now on.
    #[cfg(test)]
    pub fn limit(&self, room: usize) {
        self.most.store(self.chunks() + room, Ordering::Relaxed);
    }

    /// The words of a node.
    #[inline(always)]
    pub fn words(&self, node: NodeWord) -> Walk<&[AtomicU64]> {
        let reference = node.reference();
        let at = (reference as usize & (CHUNK_UNITS - 1)) * 2;
        if let Some(chunk) = self.table.get((reference >> CHUNK_UNITS_LOG2) as usize)
            && let Some(words) = chunk.get(at..at + node.kind().words())
        {
            return Ok(words);
        }
        self.words_of_absent(node)
    }

    #[cold]
    #[inline(never)]
    fn words_of_absent(&self, node: NodeWord) -> Walk<&[AtomicU64]> {
        let reference = node.reference();
        let at = (reference as usize & (CHUNK_UNITS - 1)) * 2;
        let chunk = self.chunk((reference >> CHUNK_UNITS_LOG2) as usize)?;
        chunk.get(at..at + node.kind().words()).ok_or_else(|| damage("a node that crosses the end of its chunk"))
    }

    /// The chunk, by number; from the image, if it was not needed before.
    pub fn chunk(&self, number: usize) -> Walk<&Chunk> {
        if let Some(chunk) = self.table.get(number) {
            return Ok(chunk);
        }
        let loaded = match &self.source {
            Some(source) => source.load(number)?,
            None => None,
        };
        // Two who need the chunk at the same time read it twice, and wait for one another only while it is put in its place.
        let bytes = loaded.ok_or_else(|| damage("a reference past the end of the memory"))?;
        self.table.get_or_fill(number, |chunk| {
            for (to, word) in chunk.iter().zip(bytes.as_chunks().0) {
                to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
            Ok(())
        })
    }

    /// The chunk, if it is in memory.
    pub fn resident(&self, number: usize) -> Option<&Chunk> {
        self.table.get(number)
    }

    /// Take memory for one more chunk; `None` if no reference could name it. Only the writer calls this.
    pub fn grow(&self) -> Option<usize> {
        let number = self.chunks();
        if self.room() == 0 {
            return None;
        }
        let filled: Result<_, std::convert::Infallible> = self.table.get_or_fill(number, |chunk| {
            for unit in 0..BITMAP_UNITS {
                let word = &chunk[unit / 64];
                word.store(word.load(Ordering::Relaxed) | 1 << (unit % 64), Ordering::Relaxed);
            }
            Ok(())
        });
        let Ok(_) = filled;
        self.chunks.store(number + 1, Ordering::Release);
        Some(number)
    }

    /// Ask the processor for the first bytes of a node, and for the child's slot where it can be told from `byte` alone.
    #[inline(always)]
    pub fn prefetch(&self, node: NodeWord, byte: u8) {
        let reference = node.reference();
        let at = (reference as usize & (CHUNK_UNITS - 1)) * 2;
        if let Some(chunk) = self.table.get((reference >> CHUNK_UNITS_LOG2) as usize) {
            let (from, bytes) = node.kind().lines(byte);
            memory::prefetch(chunk, at + from, bytes);
        }
    }

    /// Ask the processor for the slots of a linear node that begin a line after its keys.
    #[inline(always)]
    pub fn prefetch_slots(&self, node: NodeWord) {
        if let Kind::L10 | Kind::L16 | Kind::L24 | Kind::L32 | Kind::L48 = node.kind() {
            let reference = node.reference();
            let at = (reference as usize & (CHUNK_UNITS - 1)) * 2;
            if let Some(chunk) = self.table.get((reference >> CHUNK_UNITS_LOG2) as usize) {
                memory::prefetch(chunk, at + 8, (node.kind().words() * 8 - 64).min(192));
            }
        }
    }

    /// Bytes taken from the system for chunks.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// What a chunk holds.
pub fn copy(chunk: &Chunk) -> Vec<u64> {
    chunk.iter().map(|word| word.load(Ordering::Relaxed)).collect()
}

/// The fault of a tree that is not one.
#[cold]
pub fn damage(what: &str) -> Fault {
    Box::new(Error::new(biombo_base::ErrorKind::Corruption, format!("the index is damaged: {what}")))
}
