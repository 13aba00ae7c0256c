//! Keys that live elsewhere than their unit says: hot ones, and such as are accessed together.
//!
//! Most stores have none, and many keys have no pin where there are some. So a look-up begins with one branch, and then meets control
//! bytes (one for each pin); only a pinned key, or one look-up in some twenty, waits for an entry, where a key of up to [`INLINE_BYTES`]
//! stands itself. Past a million pins that wait is nearly all that a look-up takes: entries are small, and asked for ahead.
//!
//! A value: to change it is to make another one, which shares all shards that did not change. Keys are compared in full: a hash that
//! collides sends nobody astray.

use std::slice;
use std::sync::Arc;

use biombo_base::prefetch::prefetch_item;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::PartitionId;

/// Longer keys cannot be pinned.
pub(crate) const PINNED_KEY_BYTES_MAX: usize = 1024;

const SHARDS: usize = 64;
/// Above the bits that a table takes its places from, below those that it tells entries apart by.
const SHARD_SHIFT: u32 = 40;
const INLINE_BYTES: usize = 16;

/// The keys of a store that are pinned.
#[derive(Clone, Default)]
pub(crate) struct Pins {
    /// None: no key is pinned.
    shards: Option<Arc<[Arc<Shard>]>>,
    len: usize,
    /// How many are pinned to each partition, up to the last one that has any.
    counts: Arc<[u32]>,
}

#[derive(Clone, Default)]
struct Shard {
    table: HashTable<Entry>,
    /// Keys that do not fit into their entries.
    long: Vec<u8>,
    /// Bytes of `long` that belong to no entry any more.
    wasted: usize,
    /// The bucket of the last entry that came: from where it lies the processor is told where others do.
    anchor: usize,
}

/// 20 bytes: a million of them, and what is free between them, fit into a last-level cache of 32 MB.
#[derive(Clone, Copy)]
struct Entry {
    /// The key; or, of a longer one, first where it begins among the long ones.
    bytes: [u8; INLINE_BYTES],
    partition: PartitionId,
    len: u16,
}

impl Entry {
    fn new(key: &[u8], partition: PartitionId, long: &mut Vec<u8>) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        if key.len() <= INLINE_BYTES {
            bytes[..key.len()].copy_from_slice(key);
        } else {
            bytes[..8].copy_from_slice(&(long.len() as u64).to_le_bytes());
            long.extend_from_slice(key);
        }
        Self { bytes, partition, len: key.len() as u16 }
    }

    #[inline]
    fn key<'a>(&'a self, long: &'a [u8]) -> &'a [u8] {
        let len = usize::from(self.len);
        if len <= INLINE_BYTES {
            return &self.bytes[..len];
        }
        let at = self.bytes.first_chunk().map_or(0, |at| u64::from_le_bytes(*at)) as usize;
        &long[at..at + len]
    }

    /// Whether it is that of `key`.
    fn is(&self, key: &[u8], long: &[u8]) -> bool {
        self.key(long) == key
    }

    /// Whether it is that of a key of as many bytes, 8 to 16, that begins and ends with these (which may overlap).
    #[inline]
    fn is_short(&self, len: usize, first: &[u8; 8], last: &[u8; 8]) -> bool {
        let Some(mine) = self.bytes.get(..len).filter(|_| usize::from(self.len) == len) else { return false };
        mine.first_chunk() == Some(first) && mine.last_chunk() == Some(last)
    }
}

impl Shard {
    /// Keys of 8 to 16 bytes are compared as two words, without a call: the fewer instructions a look-up takes, the earlier the
    /// processor begins the next one while this one waits for memory.
    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<PartitionId> {
        self.prefetch(hash);
        let (Some(first), Some(last), ..=INLINE_BYTES) = (key.first_chunk(), key.last_chunk(), key.len()) else {
            return self.find_any(hash, key);
        };
        self.table.find(hash, |entry| entry.is_short(key.len(), first, last)).map(|entry| entry.partition)
    }

    /// Ask for where the entry of `hash` stands if it is in the table, while the control bytes that say so are on their way. A table lays its
    /// entries out downwards, by bucket, and most stand in the first few from their home on; were it another order, nothing but time would
    /// be lost.
    #[inline]
    fn prefetch(&self, hash: u64) {
        let Some(anchor) = self.table.get_bucket(self.anchor) else { return };
        let home = hash as usize & self.table.num_buckets().wrapping_sub(1);
        let below = self.anchor.wrapping_sub(home);
        for ahead in [0, 3] {
            prefetch_item(slice::from_ref(anchor), below.wrapping_sub(ahead));
        }
    }

    #[inline(never)]
    fn find_any(&self, hash: u64, key: &[u8]) -> Option<PartitionId> {
        self.table.find(hash, |entry| entry.is(key, &self.long)).map(|entry| entry.partition)
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<PartitionId> {
        let found = self.table.find_entry(hash, |entry| entry.is(key, &self.long)).ok()?;
        let (entry, _) = found.remove();
        self.wasted += if usize::from(entry.len) > INLINE_BYTES { usize::from(entry.len) } else { 0 };
        Some(entry.partition)
    }

    fn insert(&mut self, hash: u64, key: &[u8], partition: PartitionId) {
        let entry = Entry::new(key, partition, &mut self.long);
        let entry = self.table.insert_unique(hash, entry, |entry| xxh3_64(entry.key(&self.long)));
        self.anchor = entry.bucket_index();
    }

    /// The same without what is wasted, if that is more than half of it.
    fn tidied(self) -> Self {
        if self.wasted * 2 <= self.long.len() {
            return self;
        }
        let mut tidy = Self { table: HashTable::with_capacity(self.table.len()), ..Self::default() };
        for entry in &self.table {
            let key = entry.key(&self.long);
            tidy.insert(xxh3_64(key), key, entry.partition);
        }
        tidy
    }
}

impl Pins {
    /// How many keys are pinned.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where `key`, of the hash `xxh3_64(key)`, is pinned to. O(1), no lock, no allocation.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<PartitionId> {
        let shards = self.shards.as_ref()?;
        shards[shard_of(hash)].find(hash, key)
    }

    /// With some keys pinned elsewhere, or (`None`) no more; of several changes to one key the last counts. O(changes + keys in the shards
    /// that change): pins change by moves alone.
    pub(crate) fn with<'k>(&self, changes: impl IntoIterator<Item = (&'k [u8], Option<PartitionId>)>) -> Self {
        #[cfg(test)]
        made::count();
        let mut shards: Vec<Arc<Shard>> = match &self.shards {
            Some(shards) => shards.to_vec(),
            None => (0..SHARDS).map(|_| Arc::default()).collect(),
        };
        let mut changed = [false; SHARDS];
        let mut len = self.len;
        let mut counts = self.counts.to_vec();
        for (key, partition) in changes {
            let hash = xxh3_64(key);
            let at = shard_of(hash);
            let shard = Arc::make_mut(&mut shards[at]);
            changed[at] = true;
            if let Some(former) = shard.remove(hash, key) {
                len -= 1;
                counts[former.index()] -= 1;
            }
            if let Some(partition) = partition {
                shard.insert(hash, key, partition);
                len += 1;
                counts.resize(counts.len().max(partition.index() + 1), 0);
                counts[partition.index()] += 1;
            }
        }
        if len == 0 {
            return Self::default();
        }
        for (shard, _) in shards.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
            *shard = Arc::new(std::mem::take(Arc::make_mut(shard)).tidied());
        }
        while counts.pop_if(|count| *count == 0).is_some() {}
        Self { shards: Some(shards.into()), len, counts: counts.into() }
    }

    /// The partitions that keys are pinned to, in order. O(partitions).
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(number, _)| PartitionId(number as u16))
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], PartitionId)> {
        let shards = self.shards.iter().flat_map(|shards| shards.iter());
        shards.flat_map(|shard| shard.table.iter().map(|entry| (entry.key(&shard.long), entry.partition)))
    }
}

fn shard_of(hash: u64) -> usize {
    (hash >> SHARD_SHIFT) as usize % SHARDS
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pins({})", self.len)
    }
}

impl PartialEq for Pins {
    fn eq(&self, other: &Self) -> bool {
        let are_same = |(a, b): (&Arc<[_]>, &Arc<[_]>)| Arc::ptr_eq(a, b);
        self.shards.as_ref().zip(other.shards.as_ref()).is_some_and(are_same)
            || self.len == other.len
                && self.iter().all(|(key, partition)| other.find(xxh3_64(key), key) == Some(partition))
    }
}

impl Eq for Pins {}

/// How often a thread has made pins of others, which takes as long as what it copies.
#[cfg(test)]
pub(crate) mod made {
    use std::cell::Cell;

    thread_local!(static MADE: Cell<u64> = const { Cell::new(0) });

    pub(super) fn count() {
        MADE.set(MADE.get() + 1);
    }

    pub(crate) fn so_far() -> u64 {
        MADE.get()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_no_larger_than_its_document_says() {
        assert_eq!(size_of::<Entry>(), 20);
    }

    #[test]
    fn what_is_unpinned_and_pinned_again_takes_no_more_memory_each_time() {
        let key = [7; 1000];
        let mut pins = Pins::default().with([(&b"short"[..], Some(PartitionId(1)))]);
        for round in 0..1000u16 {
            pins = pins.with([(&key[..], Some(PartitionId(round)))]);
        }
        let long: usize = pins.shards.iter().flat_map(|shards| shards.iter()).map(|shard| shard.long.len()).sum();
        assert!(long <= 3000, "{long} bytes for a key of 1,000");
        assert_eq!((pins.len(), pins.find(xxh3_64(&key), &key)), (2, Some(PartitionId(999))));
    }

    #[test]
    fn a_key_of_the_same_hash_is_another_key() {
        const HASH: u64 = 5;
        for len in 1..=24 {
            let key = &(1..=len).collect::<Vec<u8>>()[..];
            let mut shard = Shard::default();
            shard.insert(HASH, key, PartitionId(3));
            let one_byte_apart = (0..key.len()).map(|at| {
                let mut other = key.to_vec();
                other[at] ^= 0x80;
                other
            });
            // Shorter ones have zeros after them, as have entries of short keys.
            let shorter_and_longer =
                [key[1..].to_vec(), key[..key.len() - 1].to_vec(), [key, &[0]].concat(), [key, key].concat()];
            for other in one_byte_apart.chain(shorter_and_longer) {
                assert_eq!(
                    (shard.find(HASH, &other), shard.remove(HASH, &other)),
                    (None, None),
                    "{other:?} for {key:?}"
                );
            }
            assert_eq!((shard.find(HASH, key), shard.remove(HASH, key)), (Some(PartitionId(3)), Some(PartitionId(3))));
        }
    }

    proptest! {
        #[test]
        fn pins_are_a_map_and_leave_their_former_values_alone(
            steps in prop::collection::vec(prop::collection::vec(("[a-c]{1,2}|[ab]a{6}[ab]{1,2}|[ab]a{12}[ab]{2,4}", prop::option::of(0u16..4)), 0..20), 1..10),
        ) {
            let mut model = BTreeMap::new();
            let mut pins = Pins::default();
            for changes in &steps {
                let (before, model_before) = (pins.clone(), model.clone());
                pins = pins.with(changes.iter().map(|(key, to)| (key.as_bytes(), to.map(PartitionId))));
                for (key, to) in changes {
                    match to {
                        Some(to) => model.insert(key.clone(), *to),
                        None => model.remove(key),
                    };
                }
                for (pins, model) in [(&before, &model_before), (&pins, &model)] {
                    prop_assert_eq!((pins.len(), pins.shards.is_none()), (model.len(), model.is_empty()));
                    let all: BTreeMap<_, _> = pins.iter().map(|(key, to)| (String::from_utf8_lossy(key).into_owned(), to.0)).collect();
                    prop_assert_eq!(&all, model);
                    let partitions: std::collections::BTreeSet<_> = model.values().copied().collect();
                    prop_assert!(pins.partitions().map(|to| to.0).eq(partitions));
                    for (key, _) in steps.iter().flatten() {
                        let found = pins.find(xxh3_64(key.as_bytes()), key.as_bytes()).map(|to| to.0);
                        prop_assert_eq!(found, model.get(key).copied());
                    }
                }
                prop_assert_eq!(before == pins, model_before == model);
            }
        }
    }
}
