//! What live snapshots need beside the index, which has the newest versions only.
//!
//! Invariants:
//!
//! 1. A superseded version is kept exactly if a live snapshot's number lies between its own and that of what superseded it.
//! 2. It is here before the index forgets it: who finds a version too new (or none) in the index, and looks here then, misses
//!    nothing.
//! 3. It goes with the last snapshot that needs it: at once with the last snapshot of all, otherwise when as many entries have
//!    come as there were after the last purge.
//! 4. `held` of a segment is the sum of the stored bytes of the versions kept here that lie in it: they are live for cleaning.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use biombo_journal::{Position, SegmentNumber};

/// Entries up to which nothing is purged while snapshots live.
const PURGE_ENTRIES_MIN: usize = 1024;

/// The number of a version that may have any: whoever looks for it is led there, and must look whether it is not too new.
pub const UNKNOWN: u64 = 0;

/// One superseded version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Old {
    /// Its number; [`UNKNOWN`] where it could not be read when it was superseded.
    pub seq: u64,
    /// The number of what superseded it.
    pub until: u64,
    /// Where it lies.
    pub at: Position,
    /// The bytes that it takes there.
    pub stored_bytes: u64,
}

/// The numbers of the live snapshots, each with how many there are.
#[derive(Debug, Default)]
pub struct Live(BTreeMap<u64, usize>);

impl Live {
    /// A snapshot begins.
    pub fn enter(&mut self, seq: u64) {
        *self.0.entry(seq).or_default() += 1;
    }

    /// It ends.
    pub fn leave(&mut self, seq: u64) {
        if let Some(count) = self.0.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&seq);
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them sees a version that lived from `seq` up to `until` (excluded).
    pub fn need(&self, seq: u64, until: u64) -> bool {
        self.0.range(seq..until).next().is_some()
    }
}

/// Superseded versions by key, oldest first.
#[derive(Debug, Default)]
pub struct Versions {
    kept: RwLock<Kept>,
    /// Entries; 0 lets readers pass without the lock.
    count: AtomicUsize,
    purge_at: AtomicUsize,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: BTreeMap<Box<[u8]>, Vec<Old>>,
    held: HashMap<SegmentNumber, u64>,
}

/// A version is kept in its segment no more.
fn let_go(held: &mut HashMap<SegmentNumber, u64>, old: &Old) {
    if let Some(bytes) = held.get_mut(&old.at.segment()) {
        *bytes = bytes.saturating_sub(old.stored_bytes);
        if *bytes == 0 {
            held.remove(&old.at.segment());
        }
    }
}

impl Versions {
    /// Keep a version of `key`.
    pub fn keep(&self, key: &[u8], old: Old) {
        let mut kept = self.write();
        *kept.held.entry(old.at.segment()).or_default() += old.stored_bytes;
        match kept.by_key.get_mut(key) {
            Some(versions) => versions.push(old),
            None => drop(kept.by_key.insert(key.into(), vec![old])),
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Whether there is nothing here.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The version of `key` that a snapshot at `seq` sees, if it is here.
    pub fn at(&self, key: &[u8], seq: u64) -> Option<Position> {
        if self.is_empty() {
            return None;
        }
        self.read().by_key.get(key).and_then(|versions| seen(versions, seq)).map(|old| old.at)
    }

    /// Give `each` the versions that a snapshot at `seq` sees of the keys in a range.
    pub fn range(&self, range: (Bound<&[u8]>, Bound<&[u8]>), seq: u64, mut each: impl FnMut(&[u8], &Old)) {
        let is_empty = match range {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to) | Bound::Included(to)) => from >= to,
            _ => false,
        };
        if self.is_empty() || is_empty {
            return;
        }
        for (key, versions) in self.read().by_key.range::<[u8], _>(range) {
            if let Some(old) = seen(versions, seq) {
                each(key, old);
            }
        }
    }

    /// A record was moved: whoever needs it finds it at its new place. Whether somebody does.
    pub fn moved(&self, key: &[u8], from: Position, to: Position) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut kept = self.write();
        let found = kept.by_key.get_mut(key).and_then(|versions| versions.iter_mut().find(|old| old.at == from));
        let Some(found) = found else { return false };
        let old = *found;
        found.at = to;
        let_go(&mut kept.held, &old);
        *kept.held.entry(to.segment()).or_default() += old.stored_bytes;
        true
    }

    /// Whether a record is kept here.
    pub fn needs(&self, key: &[u8], at: Position) -> bool {
        !self.is_empty() && self.read().by_key.get(key).is_some_and(|versions| versions.iter().any(|old| old.at == at))
    }

    /// The bytes that are kept here, by segment.
    pub fn held(&self) -> HashMap<SegmentNumber, u64> {
        if self.is_empty() { HashMap::new() } else { self.read().held.clone() }
    }

    /// Forget what no snapshot needs any more.
    pub fn purge(&self, live: &Live) {
        let count = self.count.load(Ordering::Acquire);
        if count == 0 || (!live.is_empty() && count < self.purge_at.load(Ordering::Relaxed).max(PURGE_ENTRIES_MIN)) {
            return;
        }
        let mut kept = self.write();
        let Kept { by_key, held } = &mut *kept;
        let mut left = 0;
        by_key.retain(|_, versions| {
            versions.retain(|old| {
                let needed = live.need(old.seq, old.until);
                if !needed {
                    let_go(held, old);
                }
                needed
            });
            left += versions.len();
            !versions.is_empty()
        });
        self.count.store(left, Ordering::Release);
        self.purge_at.store(2 * left, Ordering::Relaxed);
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seen(versions: &[Old], seq: u64) -> Option<&Old> {
    versions.iter().find(|old| old.seq <= seq && seq < old.until)
}

#[cfg(test)]
mod tests {
    use super::*;
    fn at(offset: u32) -> Position {
        Position::new(SegmentNumber(1), offset * 8).unwrap()
    }

    #[test]
    fn each_snapshot_sees_its_version_and_the_last_one_takes_all_along() {
        let (mut live, versions) = (Live::default(), Versions::default());
        live.enter(10);
        live.enter(20);
        assert!(live.need(5, 11) && live.need(11, 21) && !live.need(11, 20) && !live.need(21, 30));
        versions.keep(b"k", Old { seq: 5, until: 11, at: at(1), stored_bytes: 8 });
        versions.keep(b"k", Old { seq: 11, until: 21, at: at(2), stored_bytes: 16 });
        assert_eq!(
            (versions.at(b"k", 10), versions.at(b"k", 20), versions.at(b"k", 21)),
            (Some(at(1)), Some(at(2)), None)
        );
        let elsewhere = Position::new(SegmentNumber(2), 72).unwrap();
        assert!(versions.needs(b"k", at(2)) && versions.moved(b"k", at(2), elsewhere));
        assert!(!versions.needs(b"k", at(2)) && !versions.moved(b"k", at(2), at(8)));
        assert_eq!(versions.at(b"k", 20), Some(elsewhere));
        assert_eq!(versions.held(), HashMap::from([(SegmentNumber(1), 8), (SegmentNumber(2), 16)]));
        live.leave(20);
        versions.purge(&live);
        live.leave(10);
        versions.purge(&live);
        assert!(versions.is_empty() && versions.at(b"k", 10).is_none());
    }

    #[test]
    fn a_long_snapshot_does_not_keep_what_only_short_ones_needed() {
        let (mut live, versions) = (Live::default(), Versions::default());
        live.enter(1);
        for seq in 1..100_000u64 {
            live.enter(seq);
            if live.need(seq, seq + 1) {
                versions.keep(b"k", Old { seq, until: seq + 1, at: at(1), stored_bytes: 8 });
            }
            live.leave(seq);
            versions.purge(&live);
        }
        assert!(
            versions.count.load(Ordering::SeqCst) <= 2 * PURGE_ENTRIES_MIN,
            "{}",
            versions.count.load(Ordering::SeqCst)
        );
        assert_eq!(versions.at(b"k", 1), Some(at(1)));
    }
}
