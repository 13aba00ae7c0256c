//! Records read by O_DIRECT from a sealed segment: no page cache, no fault that ends the process.
//!
//! Invariants:
//! 1. Reads are of whole blocks, at multiples of a block, into memory aligned to one.
//! 2. What is read here is verified here, once. A record whose checksum differs is marked (`is_sound`) and not kept: who does
//!    not ask for verified bytes gets them as they are, as from a mapping.
//! 3. A record is read in one call if it is not larger than those that were read of its segment lately.

use std::cell::RefCell;
use std::fmt;
use std::io::Result;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use biombo_base::io::{AlignedBuf, BLOCK_BYTES, File};

use crate::format::{RECORD_HEADER_BYTES, record_at, record_crc};

/// Larger records are not copied out of what was read, and not cached: one would take the place of many.
pub(crate) const COPIED_BYTES_MAX: usize = 64 << 10;

/// Records that lie no further apart are read in one call, and so many bytes at most.
const GAP_BYTES: usize = 16 << 10;
const PIECE_BYTES: usize = 256 << 10;

thread_local! {
    /// What small reads go to.
    static SCRATCH: RefCell<AlignedBuf> = const { RefCell::new(AlignedBuf::new()) };
}

/// The file of a sealed segment.
pub(crate) struct DirectFile {
    file: Arc<dyn File>,
    seed: u32,
    /// Where its frames end.
    data_bytes: u64,
    /// How many bytes a record is expected to have, with its header.
    expected: AtomicU32,
}

/// A record that was read.
#[derive(Clone)]
pub struct Loaded {
    bytes: Bytes,
    is_sound: bool,
}

#[derive(Clone)]
enum Bytes {
    Copied(Arc<[u8]>),
    /// Where it lies in the blocks that were read.
    Large(Arc<AlignedBuf>, usize, usize),
}

impl Loaded {
    /// From the cache, where only sound ones are.
    pub(crate) fn cached(bytes: Arc<[u8]>) -> Self {
        Self { bytes: Bytes::Copied(bytes), is_sound: true }
    }

    /// Whether its checksum held.
    pub(crate) fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// What the cache may keep.
    pub(crate) fn cacheable(&self) -> Option<&Arc<[u8]>> {
        match &self.bytes {
            Bytes::Copied(bytes) if self.is_sound => Some(bytes),
            _ => None,
        }
    }

    fn copied(seed: u32, record: &[u8], crc: u32) -> Self {
        let is_sound = record_crc(seed, record.len() as u32, &[record]) == crc;
        Self { bytes: Bytes::Copied(record.into()), is_sound }
    }
}

impl Deref for Loaded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(bytes) => bytes,
            Bytes::Large(blocks, from, to) => &blocks[*from..*to],
        }
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({} bytes)", self.len())
    }
}

/// The block that `offset` lies in.
fn block_of(offset: u64) -> u64 {
    offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

impl DirectFile {
    /// `file` is open for direct reads; its records have `expected` bytes on average.
    pub fn new(file: Arc<dyn File>, seed: u32, data_bytes: u64, expected: u64) -> Self {
        let expected = AtomicU32::new(expected.min(COPIED_BYTES_MAX as u64) as u32);
        Self { file, seed, data_bytes, expected }
    }

    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The record whose header is at `offset`; `None` when there is none that lies in what is written.
    pub fn load(&self, offset: u32) -> Result<Option<Loaded>> {
        let expected = self.expected.load(Relaxed) as usize;
        let start = block_of(offset.into());
        let inside = (u64::from(offset) - start) as usize;
        SCRATCH.with_borrow_mut(|scratch| {
            let got = self.read(scratch, start, inside + RECORD_HEADER_BYTES.max(expected))?;
            let blocks = &scratch[..got];
            if let Some((record, crc)) = record_at(blocks, inside)
                && record.len() <= COPIED_BYTES_MAX
            {
                self.expect(expected, RECORD_HEADER_BYTES + record.len());
                return Ok(Some(Loaded::copied(self.seed, record, crc)));
            }
            let Some(length) = blocks.get(inside..).and_then(<[u8]>::first_chunk::<4>) else { return Ok(None) };
            let bytes = RECORD_HEADER_BYTES + u32::from_le_bytes(*length) as usize;
            if u64::from(offset) + bytes as u64 > self.data_bytes {
                return Ok(None);
            }
            self.expect(expected, bytes);
            self.load_large(start, inside, bytes)
        })
    }

    /// One that is larger than was thought: into a buffer of its own.
    fn load_large(&self, start: u64, inside: usize, bytes: usize) -> Result<Option<Loaded>> {
        let mut blocks = AlignedBuf::new();
        let got = self.read(&mut blocks, start, inside + bytes)?;
        let Some((record, crc)) = record_at(&blocks[..got], inside) else { return Ok(None) };
        if record.len() <= COPIED_BYTES_MAX {
            return Ok(Some(Loaded::copied(self.seed, record, crc)));
        }
        let is_sound = record_crc(self.seed, record.len() as u32, &[record]) == crc;
        let (from, to) = (inside + RECORD_HEADER_BYTES, inside + RECORD_HEADER_BYTES + record.len());
        Ok(Some(Loaded { bytes: Bytes::Large(Arc::new(blocks), from, to), is_sound }))
    }

    /// Records at `offsets`, ascending, those that lie near each other in one read. `each` gets them in order, `None` where
    /// [`load`](Self::load) alone can tell what is there.
    pub fn load_all(&self, offsets: &[u32], each: &mut dyn FnMut(u32, Option<Loaded>)) -> Result<()> {
        let mut rest = offsets;
        while let Some(first) = rest.first() {
            let expected = (self.expected.load(Relaxed) as usize).max(RECORD_HEADER_BYTES);
            let start = block_of((*first).into());
            let end_of = |offset: u32| (u64::from(offset) - start) as usize + expected;
            let mut end = end_of(*first);
            let mut count = 1;
            while let Some(next) = rest.get(count) {
                let next_end = end_of(*next);
                if next_end - expected > end + GAP_BYTES || next_end > PIECE_BYTES {
                    break;
                }
                (end, count) = (next_end, count + 1);
            }
            let (these, others) = rest.split_at(count);
            rest = others;
            SCRATCH.with_borrow_mut(|scratch| -> Result<()> {
                let got = self.read(scratch, start, end)?;
                for offset in these {
                    let inside = (u64::from(*offset) - start) as usize;
                    let record = record_at(&scratch[..got], inside);
                    let record = record.filter(|(record, _)| record.len() <= COPIED_BYTES_MAX);
                    each(*offset, record.map(|(record, crc)| Loaded::copied(self.seed, record, crc)));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Fill the front of `into` with the blocks from `start` on that have `bytes`; returns how many of the data's were read.
    pub fn read(&self, into: &mut AlignedBuf, start: u64, bytes: usize) -> Result<usize> {
        let within = self.data_bytes.saturating_sub(start).min(bytes as u64) as usize;
        let blocks = within.next_multiple_of(BLOCK_BYTES);
        if into.len() < blocks {
            into.resize(blocks);
        }
        let got = self.file.read_at(&mut into[..blocks], start)?;
        Ok(got.min((self.data_bytes - start.min(self.data_bytes)) as usize))
    }

    /// Learn from a record's size: at once that they are larger, slowly that they are smaller.
    #[inline]
    fn expect(&self, expected: usize, bytes: usize) {
        let bytes = bytes.min(COPIED_BYTES_MAX);
        let next = if bytes >= expected { bytes } else { expected - (expected - bytes).div_ceil(16) };
        if next != expected {
            self.expected.store(next as u32, Relaxed);
        }
    }
}

impl fmt::Debug for DirectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectFile({} bytes)", self.data_bytes)
    }
}
