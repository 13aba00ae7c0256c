//! The chunks of an arena for loom, in the place of `src/index/memory.rs`: a few small ones.

use std::sync::OnceLock;

use super::arena::CHUNK_WORDS;
use super::sync::AtomicU64;

pub type Chunk = [AtomicU64];

pub struct Table(Vec<OnceLock<Vec<AtomicU64>>>);

impl Table {
    pub fn new() -> Self {
        Self((0..8).map(|_| OnceLock::new()).collect())
    }

    pub fn get(&self, number: usize) -> Option<&Chunk> {
        self.0.get(number)?.get().map(Vec::as_slice)
    }

    pub fn get_or_fill<E>(&self, number: usize, fill: impl FnOnce(&Chunk) -> Result<(), E>) -> Result<&Chunk, E> {
        let chunk = self.0[number].get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        fill(chunk)?;
        Ok(chunk)
    }

    pub fn memory_bytes(&self) -> usize {
        0
    }
}

pub fn prefetch(_: &Chunk, _: usize, _: usize) {}
