//! What was written last, in memory: a sorted map, with older versions for the snapshots that see them.
//!
//! Invariants:
//!
//! 1. Batches are numbered (`seq`); the operations of one share a number and come under one lock, so nobody sees part of it.
//! 2. A version is kept for as long as the memtable lives, unless it was replaced before anybody took a snapshot that sees it.
//!
//! It is full by the memory that it takes, which for small entries is many times their bytes: keys and values have a buffer each, and a node
//! of the map ([`BTreeMap`], 11 slots) is filled to 6 in 11 where keys come in order and to 7 or 8 where they do not.
//! `tests/memory.rs` holds the estimate against what the kernel counts.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use biombo_engine::Op;

use super::block::{ENTRY_BYTES, UNIT_BYTES, entries_of, units_of};
use super::bloom;
use crate::heap::heap_bytes;

/// A value, or that it was deleted.
pub(super) type Slot = Option<Vec<u8>>;

/// See the module.
#[derive(Default)]
pub(super) struct Memtable(RwLock<Inner>);

#[derive(Default)]
struct Inner {
    map: BTreeMap<Vec<u8>, Versions>,
    /// Of keys and newest values, as a table has them.
    bytes: usize,
    /// Memory that all of it takes, older versions too.
    memory_bytes: usize,
    /// Older versions.
    older: usize,
    seq: u64,
    /// The greatest number that a snapshot was taken at.
    snapshot: u64,
}

struct Versions {
    newest: (u64, Slot),
    /// Newest last.
    older: Vec<(u64, Slot)>,
}

impl Versions {
    fn at(&self, seq: u64) -> Option<&Slot> {
        if self.newest.0 <= seq {
            return Some(&self.newest.1);
        }
        self.older.iter().rev().find(|(number, _)| *number <= seq).map(|(_, slot)| slot)
    }
}

/// One version in a list of them.
const VERSION_BYTES: usize = size_of::<(u64, Slot)>();
/// A key's share of the map's nodes: of its slots, nearly as many again are empty, and nodes above the leaves add a tenth.
const NODE_BYTES: usize = (size_of::<Vec<u8>>() + size_of::<Versions>()) * 15 / 8;

/// What leads to a block in a table: where it begins, and its first key, of which the length is not known here.
const LEAD_BYTES: usize = 8 + 16;

fn slot_bytes(slot: &Slot) -> usize {
    slot.as_ref().map_or(0, Vec::len)
}

fn slot_memory(slot: &Slot) -> usize {
    heap_bytes(slot_bytes(slot))
}

impl Memtable {
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a batch of puts and deletions, in order.
    pub fn apply(&self, ops: &[Op<'_>]) {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        inner.seq += 1;
        for op in ops {
            let (key, slot) = match *op {
                Op::Put { key, value } => (key, Some(value.to_vec())),
                Op::Delete { key } => (key, None),
                Op::DeleteRange { .. } => unreachable!("invariant: ranges were resolved into their keys"),
            };
            inner.bytes += slot_bytes(&slot);
            inner.memory_bytes += slot_memory(&slot);
            let newest = (inner.seq, slot);
            let Some(versions) = inner.map.get_mut(key) else {
                inner.bytes += ENTRY_BYTES + key.len();
                inner.memory_bytes += NODE_BYTES + heap_bytes(key.len());
                inner.map.insert(key.to_vec(), Versions { newest, older: Vec::new() });
                continue;
            };
            let replaced = std::mem::replace(&mut versions.newest, newest);
            inner.bytes -= slot_bytes(&replaced.1);
            if replaced.0 > inner.snapshot {
                inner.memory_bytes -= slot_memory(&replaced.1);
                continue;
            }
            let room = versions.older.capacity();
            versions.older.push(replaced);
            inner.memory_bytes += (versions.older.capacity() - room) * VERSION_BYTES;
            inner.older += 1;
        }
    }

    /// The number of the last batch; from now on what it sees is kept.
    pub fn take_snapshot(&self) -> u64 {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.snapshot = inner.seq;
        inner.seq
    }

    /// What `key` was after batch `seq`; `None`: nothing is known of it here.
    pub fn get<R>(&self, key: &[u8], seq: u64, found: impl FnOnce(Option<&[u8]>) -> R) -> Option<R> {
        let inner = self.read();
        inner.map.get(key)?.at(seq).map(|slot| found(slot.as_deref()))
    }

    /// The first key in `bounds` as of batch `seq`, or the last one.
    pub fn find(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), seq: u64, first: bool) -> Option<(Vec<u8>, Slot)> {
        let inner = self.read();
        let mut range = inner.map.range::<[u8], _>(bounds);
        let next = || if first { range.next() } else { range.next_back() };
        let visible = |(key, versions): (&Vec<u8>, &Versions)| versions.at(seq).map(|slot| (key.clone(), slot.clone()));
        std::iter::from_fn(next).find_map(visible)
    }

    /// Keys in it, deleted ones too.
    pub fn len(&self) -> usize {
        self.read().map.len()
    }

    /// Bytes of a table's entries of them.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.read().bytes
    }

    /// Memory that it takes, what only snapshots see included.
    pub fn memory_bytes(&self) -> usize {
        self.read().memory_bytes
    }

    /// Whether it takes so many records or so much memory, what only snapshots see included.
    pub fn is_full(&self, records_max: usize, bytes_max: usize) -> bool {
        let inner = self.read();
        inner.map.len() + inner.older >= records_max || inner.memory_bytes >= bytes_max
    }

    /// Bytes of the table that it will become, roughly, as if its entries were of one size; `None`: there is nothing to become one.
    pub fn table_bytes(&self) -> Option<u64> {
        let inner = self.read();
        let entries = inner.map.len();
        let entry_bytes = inner.bytes / NonZero::new(entries)?;
        // Whole entries in a unit, or whole units for an entry; then what leads to them, and the footer.
        let (blocks, block_units) = match entries_of(entry_bytes) {
            0 => (entries, units_of(entry_bytes)),
            several => (entries.div_ceil(several), 1),
        };
        let lead_bytes = blocks * LEAD_BYTES + bloom::filter_bytes(entries);
        Some((blocks * block_units + lead_bytes.div_ceil(UNIT_BYTES) + 1) as u64 * UNIT_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(table: &Memtable, key: &[u8], seq: u64) -> Option<Slot> {
        table.get(key, seq, |slot| slot.map(<[u8]>::to_vec))
    }

    #[test]
    fn a_snapshot_sees_its_versions_and_what_nobody_sees_is_not_kept() {
        let table = Memtable::default();
        let put = |key, value| Op::Put { key, value };
        table.apply(&[put(b"k", b"1"), put(b"k", b"2")]);
        table.apply(&[put(b"k", b"3")]);
        let first = table.take_snapshot();
        table.apply(&[Op::Delete { key: b"k" }, put(b"l", b"4")]);
        table.apply(&[put(b"k", b"5")]);
        let second = table.take_snapshot();
        table.apply(&[put(b"k", b"6")]);
        assert_eq!(get(&table, b"k", first), Some(Some(b"3".to_vec())));
        assert_eq!(get(&table, b"k", second), Some(Some(b"5".to_vec())));
        assert_eq!(get(&table, b"k", u64::MAX), Some(Some(b"6".to_vec())));
        assert_eq!((get(&table, b"l", first), get(&table, b"m", second)), (None, None));
        assert_eq!(table.read().map[&b"k"[..]].older.len(), 2);
        assert_eq!(table.bytes(), 2 * ENTRY_BYTES + 2 + 2);
        // However often a key is put between snapshots, the memtable becomes full: two keys, two values, two older ones in a list that has
        // room for four.
        let memory = 2 * NODE_BYTES + (2 + 2 + 2) * 32 + 4 * VERSION_BYTES;
        assert_eq!(table.memory_bytes(), memory);
        assert!(table.is_full(4, usize::MAX) && !table.is_full(5, usize::MAX));
        assert!(table.is_full(9, memory) && !table.is_full(9, memory + 1));
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(table.find(all, first, false), Some((b"k".to_vec(), Some(b"3".to_vec()))), "`l` is not there yet");
        assert_eq!(table.find(all, second, false), Some((b"l".to_vec(), Some(b"4".to_vec()))));
    }
}
