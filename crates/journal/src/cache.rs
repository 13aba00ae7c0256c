//! Records in memory that were read from the device: a cache by position, bounded in bytes.
//!
//! Its unit is the record, not the block that it lies in: what lies beside a record in a log was written at the same time and
//! has nothing else in common with it, so that a block kept for the sake of one record would be mostly waste.
//!
//! Invariants:
//! 1. Only records whose checksum held are here. A log gives no position twice (a segment has a new number in every life of its file;
//!    this cache does not outlive the log that is open), and records never change, so nothing here is ever out of date. Who asks has
//!    found the segment in the table, so that what was dropped is not asked for any more; it ages out.
//! 2. The records and what the cache itself needs for each (`ENTRY_BYTES`) are at most as many bytes as it was made with.
//!
//! Which record goes is decided by `quick_cache`: sharded, and resistant to scans (what was asked for once goes before what was
//! asked for again; what comes back soon after it went counts as asked for again).

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::Position;

/// What an entry takes beside the record's bytes: key, pointer, the policy's links and its ghosts, two counters, the
/// allocator's rounding.
const ENTRY_BYTES: u64 = 80;
/// Records are expected to be so large on average: how many places are made at once; more come as needed.
const RECORD_BYTES: u64 = 512;

/// See the module.
pub(crate) struct RecordCache {
    entries: Cache<u64, Arc<[u8]>, Bytes, Spread>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<u64, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &u64, record: &Arc<[u8]>) -> u64 {
        record.len() as u64 + ENTRY_BYTES
    }
}

/// Positions are in sequence; all bits of the hash count.
#[derive(Clone, Default)]
struct Spread(u64);

impl BuildHasher for Spread {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    /// The finaliser of MurmurHash3.
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mut hash = self.0 ^ number;
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.0 = hash ^ hash >> 33;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

impl RecordCache {
    /// One for so many bytes; 0 keeps nothing.
    pub fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / (RECORD_BYTES + ENTRY_BYTES)).unwrap_or(usize::MAX);
        let mut options = OptionsBuilder::new();
        options.weight_capacity(bytes).estimated_items_capacity(items.max(1));
        let options = options.build().expect("invariant: both capacities are given");
        let entries = Cache::with_options(options, Bytes, Spread::default(), DefaultLifecycle::default());
        Self { entries, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The record at `at`, if it is here.
    #[inline]
    pub fn get(&self, at: Position) -> Option<Arc<[u8]>> {
        let found = self.entries.get(&at.pack());
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
        found
    }

    /// Keep a record whose checksum held.
    pub fn keep(&self, at: Position, record: &Arc<[u8]>) {
        self.entries.insert(at.pack(), Arc::clone(record));
    }

    /// Bytes in use, hits and misses.
    pub fn figures(&self) -> (u64, u64, u64) {
        (self.entries.weight(), self.hits.load(Relaxed), self.misses.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SegmentNumber;

    fn at(n: u64) -> Position {
        Position::new(SegmentNumber(n as u32 >> 10), (n as u32 & 1023) * 1040).unwrap()
    }

    #[test]
    fn it_keeps_to_its_bytes_and_what_is_asked_for_again_stays_through_a_scan() {
        let cache = RecordCache::new(4 << 20);
        let record: Arc<[u8]> = vec![7; 1024].into();
        let hot = 0..800;
        for _ in 0..4 {
            for n in hot.clone() {
                if cache.get(at(n)).is_none() {
                    cache.keep(at(n), &record);
                }
            }
        }
        for n in 10_000..40_000 {
            assert!(cache.get(at(n)).is_none());
            cache.keep(at(n), &record);
        }
        let (bytes, _, _) = cache.figures();
        assert!(bytes <= 4 << 20 && bytes > 3 << 20, "{bytes}");
        let stayed = hot.filter(|n| cache.get(at(*n)).is_some()).count();
        assert!(stayed > 700, "only {stayed} of 800 stayed");
    }

    #[test]
    fn one_without_room_keeps_nothing() {
        let cache = RecordCache::new(0);
        cache.keep(at(1), &vec![1; 10].into());
        assert!(cache.get(at(1)).is_none());
    }
}
