//! The structures that are compared, behind one trait.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use artmap::ArtMap;
use biombo_base::Result;
use biombo_log::index::{Index, Keys, Leaf};
use crossbeam_skiplist::SkipMap;

/// Bytes of a record of the log.
const RECORD_BYTES: usize = 1024;
/// Keys that one long scan gathers at a time.
const GATHER: usize = 1024;

/// Records of 1 KB: key length, key, value.
pub struct Log(Vec<u8>);

impl Log {
    pub fn new(keys: &[Vec<u8>]) -> Self {
        let mut log = vec![7u8; keys.len() * RECORD_BYTES];
        for (record, key) in log.chunks_exact_mut(RECORD_BYTES).zip(keys) {
            record[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
            record[2..2 + key.len()].copy_from_slice(key);
        }
        Self(log)
    }

    #[inline]
    fn key(&self, leaf: Leaf) -> &[u8] {
        let record = &self.0[leaf.get() as usize * RECORD_BYTES..][..RECORD_BYTES];
        &record[2..2 + usize::from(u16::from_le_bytes([record[0], record[1]]))]
    }
}

impl Keys for &Log {
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        Ok(f(self.key(leaf)))
    }
}

/// A structure under test.
pub trait Subject: Sync {
    const NAME: &'static str;
    fn new(keys: &[Vec<u8>]) -> Self;
    fn insert(&mut self, log: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>);
    /// Insert and remove through a shared reference until told to stop.
    fn churn(&self, log: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>, stop: &AtomicBool) -> usize;
    fn get(&self, log: &Log, key: &[u8]) -> bool;
    fn get_batch(&self, log: &Log, keys: &[&[u8]]) -> usize {
        keys.iter().filter(|key| self.get(log, key)).count()
    }
    /// A look-up without the look into the log, where the two can be told apart.
    fn walk(&self, _key: &[u8]) -> bool {
        false
    }
    /// None: there is no order.
    fn scan(&self, log: &Log) -> Option<usize>;
    fn memory_bytes(&self) -> Option<usize> {
        None
    }
}

impl Subject for Index {
    const NAME: &'static str = "index";

    fn new(_: &[Vec<u8>]) -> Self {
        Index::new()
    }

    fn insert(&mut self, log: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>) {
        let mut writer = self.writer();
        for i in range {
            let leaf = Leaf::new(i as u64).expect("small");
            writer.insert(&keys[i], leaf, &log).expect("a good key");
        }
    }

    fn churn(&self, log: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>, stop: &AtomicBool) -> usize {
        let mut done = 0;
        while !stop.load(Ordering::Relaxed) {
            for i in range.clone() {
                let leaf = Leaf::new(i as u64).expect("small");
                self.writer().insert(&keys[i], leaf, &log).expect("a good key");
            }
            for i in range.clone() {
                self.writer().remove(&keys[i], &log).expect("whole");
            }
            done += 2 * range.len();
        }
        done
    }

    #[inline]
    fn get(&self, log: &Log, key: &[u8]) -> bool {
        self.pin().get(key).expect("whole").is_some_and(|leaf| log.key(leaf) == key)
    }

    #[inline]
    fn walk(&self, key: &[u8]) -> bool {
        self.pin().get(key).expect("whole").is_some()
    }

    fn get_batch(&self, log: &Log, keys: &[&[u8]]) -> usize {
        let mut found = [None; 8];
        self.pin().get_batch(keys, &mut found).expect("whole");
        let right = |(key, leaf): &(&&[u8], &Option<Leaf>)| leaf.is_some_and(|leaf| log.key(leaf) == **key);
        keys.iter().zip(&found).filter(right).count()
    }

    fn scan(&self, log: &Log) -> Option<usize> {
        let pin = self.pin();
        let mut cursor = pin.cursor(log);
        let (mut n, mut leaves) = (0, Vec::with_capacity(GATHER));
        loop {
            leaves.clear();
            n += cursor.next_n(GATHER, &mut leaves).expect("whole");
            black_box(&leaves);
            if leaves.len() < GATHER {
                return Some(n);
            }
        }
    }

    fn memory_bytes(&self) -> Option<usize> {
        Some(Index::memory_bytes(self))
    }
}

/// A map that holds its keys and is changed through a shared reference.
pub trait Map: Default + Sync {
    const NAME: &'static str;
    fn put(&self, key: &[u8], value: u64);
    fn take(&self, key: &[u8]);
    fn has(&self, key: &[u8]) -> bool;
    /// The values in the order of their keys; None: there is no order.
    fn values(&self) -> Option<usize>;
}

/// A map as a subject.
pub struct Holding<M>(M);

impl<M: Map> Subject for Holding<M> {
    const NAME: &'static str = M::NAME;

    fn new(_: &[Vec<u8>]) -> Self {
        Self(M::default())
    }

    fn insert(&mut self, _: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>) {
        range.for_each(|i| self.0.put(&keys[i], i as u64));
    }

    fn churn(&self, _: &Log, keys: &[Vec<u8>], range: std::ops::Range<usize>, stop: &AtomicBool) -> usize {
        let mut done = 0;
        while !stop.load(Ordering::Relaxed) {
            range.clone().for_each(|i| self.0.put(&keys[i], i as u64));
            range.clone().for_each(|i| self.0.take(&keys[i]));
            done += 2 * range.len();
        }
        done
    }

    #[inline]
    fn get(&self, _: &Log, key: &[u8]) -> bool {
        self.0.has(key)
    }

    fn scan(&self, _: &Log) -> Option<usize> {
        self.0.values()
    }
}

/// The values counted, none left unread.
fn count<'a>(values: impl Iterator<Item = &'a u64>) -> Option<usize> {
    Some(values.filter(|value| **black_box(value) != u64::MAX).count())
}

impl Map for RwLock<BTreeMap<Vec<u8>, u64>> {
    const NAME: &'static str = "BTreeMap, lock";

    fn put(&self, key: &[u8], value: u64) {
        self.write().expect("no panic").insert(key.to_vec(), value);
    }

    fn take(&self, key: &[u8]) {
        self.write().expect("no panic").remove(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.read().expect("no panic").get(key).is_some()
    }

    fn values(&self) -> Option<usize> {
        count(self.read().expect("no panic").values())
    }
}

impl Map for RwLock<hashbrown::HashMap<Vec<u8>, u64>> {
    const NAME: &'static str = "hashbrown, lock";

    fn put(&self, key: &[u8], value: u64) {
        self.write().expect("no panic").insert(key.to_vec(), value);
    }

    fn take(&self, key: &[u8]) {
        self.write().expect("no panic").remove(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.read().expect("no panic").get(key).is_some()
    }

    fn values(&self) -> Option<usize> {
        None
    }
}

impl Map for SkipMap<Vec<u8>, u64> {
    const NAME: &'static str = "crossbeam SkipMap";

    fn put(&self, key: &[u8], value: u64) {
        self.insert(key.to_vec(), value);
    }

    fn take(&self, key: &[u8]) {
        self.remove(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    fn values(&self) -> Option<usize> {
        Some(self.iter().filter(|entry| *black_box(entry.value()) != u64::MAX).count())
    }
}

impl Map for ArtMap<Vec<u8>, u64> {
    const NAME: &'static str = "artmap";

    fn put(&self, key: &[u8], value: u64) {
        self.insert(key.to_vec(), value);
    }

    fn take(&self, key: &[u8]) {
        self.remove_by_slice(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.get_by_slice(key).is_some()
    }

    fn values(&self) -> Option<usize> {
        Some(self.iter().filter(|entry| *black_box(entry.value()) != u64::MAX).count())
    }
}
