//! What each segment holds: exact, because the writer knows each record that it supersedes.
//!
//! Invariants:
//!
//! 1. `live` of a segment is the sum of the stored bytes of its records that the index leads to, and of its tombstones.
//! 2. `stored` is the sum of all its records' but those that only say where it begins.
//! 3. `logical` is the sum of the keys' and values' lengths of its records that the index leads to.
//! 4. `first_seq` is the number of its first record: no tombstone numbered so or lower deletes anything in it.

use biombo_journal::SegmentNumber;

use crate::record::{HEADER_BYTES, Kind, Record};

/// What one segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Bytes of records that are live.
    pub live: u64,
    /// Bytes of all records.
    pub stored: u64,
    /// The number of the first record; 0 when there is none.
    pub first_seq: u64,
    /// The greatest number of a record.
    pub last_seq: u64,
    /// Of `live`: tombstones.
    pub tombstones: u64,
    /// The least number of a tombstone; the greatest `u64` when there is none.
    pub oldest_tombstone: u64,
    /// The greatest number of one.
    pub youngest_tombstone: u64,
    /// Bytes of keys and values that the index leads to.
    pub logical: u64,
}

const NOTHING: Content = Content {
    live: 0,
    stored: 0,
    first_seq: 0,
    last_seq: 0,
    tombstones: 0,
    oldest_tombstone: u64::MAX,
    youngest_tombstone: 0,
    logical: 0,
};

/// What the segments hold, by number. It takes memory for those that are there, however many there have been: what never changes keeps an old one for
/// good.
#[derive(Debug, Default, Clone)]
pub struct Accounts {
    /// Ascending.
    numbers: Vec<u32>,
    /// What each of these holds.
    contents: Vec<Content>,
}

/// What the accounts have to know of a record.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub kind: Kind,
    pub seq: u64,
    pub stored_bytes: u64,
    pub logical_bytes: u64,
}

impl Item {
    /// What a record with a key and a value (or end) of these lengths is.
    #[inline]
    pub fn of(kind: Kind, seq: u64, bytes: usize) -> Self {
        let stored_bytes = biombo_journal::format::record_bytes(HEADER_BYTES + bytes) as u64;
        Self { kind, seq, stored_bytes, logical_bytes: if kind == Kind::Put { bytes as u64 } else { 0 } }
    }
}

impl From<&Record<'_>> for Item {
    #[inline]
    fn from(record: &Record<'_>) -> Self {
        Self::of(record.kind, record.seq, record.key.len() + record.value.len())
    }
}

impl Accounts {
    /// A segment has a first record, which says that all tombstones up to `seq` delete nothing in it.
    pub fn begin(&mut self, segment: SegmentNumber, seq: u64) {
        self.entry(segment).first_seq = seq;
    }

    /// A segment got a record, which is live.
    #[inline]
    pub fn add(&mut self, segment: SegmentNumber, record: impl Into<Item>) {
        let record = record.into();
        let bytes = record.stored_bytes;
        let entry = self.entry(segment);
        if entry.first_seq == 0 {
            entry.first_seq = record.seq;
        }
        entry.last_seq = entry.last_seq.max(record.seq);
        entry.live += bytes;
        entry.stored += bytes;
        entry.logical += record.logical_bytes;
        if record.kind.is_tombstone() {
            entry.tombstones += bytes;
            entry.oldest_tombstone = entry.oldest_tombstone.min(record.seq);
            entry.youngest_tombstone = entry.youngest_tombstone.max(record.seq);
        }
    }

    /// A record is live no more. Counts that a checkpoint brought are believed, and may be too small if somebody wrote them who knows how to
    /// compute its checksum; then nothing is left live here at the least, and cleaning, which asks the index, copies what is.
    #[inline]
    pub fn remove(&mut self, segment: SegmentNumber, record: impl Into<Item>) {
        let Item { stored_bytes, logical_bytes, .. } = record.into();
        if let Ok(at) = self.find(segment) {
            let entry = &mut self.contents[at];
            entry.live = entry.live.saturating_sub(stored_bytes);
            entry.logical = entry.logical.saturating_sub(logical_bytes);
        }
    }

    /// Live bytes by segment, where there are any.
    pub fn all(&self) -> impl Iterator<Item = (SegmentNumber, u64)> {
        let numbers = self.numbers.iter().copied().map(SegmentNumber);
        let live = numbers.zip(self.contents.iter().map(|content| content.live));
        live.filter(|(_, live)| *live > 0)
    }

    /// A segment is no more.
    pub fn forget(&mut self, segment: SegmentNumber) {
        if let Ok(at) = self.find(segment) {
            self.numbers.remove(at);
            self.contents.remove(at);
        }
    }

    /// What a segment holds.
    pub fn content(&self, segment: SegmentNumber) -> Content {
        self.find(segment).map_or(NOTHING, |at| self.contents[at])
    }

    /// Bytes of live keys and values.
    pub fn logical_bytes(&self) -> u64 {
        self.contents.iter().map(|content| content.logical).sum()
    }

    /// A segment has this in it: what a checkpoint carries.
    pub fn carry(&mut self, segment: SegmentNumber, content: Content) {
        *self.entry(segment) = content;
    }

    /// Where a segment is, or is to be. O(1) where no number is missing between it and the first one or the last one, as nearly always.
    #[inline]
    fn find(&self, segment: SegmentNumber) -> Result<usize, usize> {
        let (Some(first), Some(last)) = (self.numbers.first(), self.numbers.last()) else { return Err(0) };
        let from_first = segment.0.wrapping_sub(*first) as usize;
        let from_last = (self.numbers.len() - 1).wrapping_sub(last.wrapping_sub(segment.0) as usize);
        let is_at = |at: &usize| self.numbers.get(*at) == Some(&segment.0);
        match [from_last, from_first].into_iter().find(is_at) {
            Some(at) => Ok(at),
            None => self.numbers.binary_search(&segment.0),
        }
    }

    #[inline]
    fn entry(&mut self, segment: SegmentNumber) -> &mut Content {
        let at = self.find(segment).unwrap_or_else(|at| {
            self.numbers.insert(at, segment.0);
            self.contents.insert(at, NOTHING);
            at
        });
        &mut self.contents[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_counted_each_for_itself_in_any_order() {
        let mut accounts = Accounts::default();
        let put = |seq| Record { kind: Kind::Put, seq, key: b"k", value: &[] };
        let bytes = put(1).stored_bytes();
        for (segment, seq) in [(7, 3), (5, 1), (9, 8), (7, 4)] {
            accounts.add(SegmentNumber(segment), &put(seq));
        }
        accounts.remove(SegmentNumber(7), &put(3));
        let live = |accounts: &Accounts| (4..=10).map(|n| accounts.content(SegmentNumber(n)).live / bytes).collect();
        let lives: Vec<_> = live(&accounts);
        assert_eq!(lives, [0, 1, 0, 1, 0, 1, 0]);
        let seven = accounts.content(SegmentNumber(7));
        assert_eq!((seven.first_seq, seven.last_seq, seven.stored), (3, 4, 2 * bytes));
        assert_eq!((seven.logical, accounts.logical_bytes()), (1, 3));
        accounts.add(SegmentNumber(9), &Record { kind: Kind::Delete, ..put(9) });
        accounts.forget(SegmentNumber(5));
        accounts.forget(SegmentNumber(7));
        let lives: Vec<_> = live(&accounts);
        assert_eq!(lives, [0, 0, 0, 0, 0, 2, 0]);
        assert_eq!((&accounts.numbers[..], accounts.content(SegmentNumber(9)).oldest_tombstone), (&[9][..], 9));
    }

    /// Fails when a segment that stays for good costs memory for all that come and go after it.
    #[test]
    fn only_segments_that_are_there_take_memory() {
        let mut accounts = Accounts::default();
        let put = Record { kind: Kind::Put, seq: 1, key: b"k", value: &[] };
        accounts.add(SegmentNumber(1), &put);
        for number in 2..100_000 {
            accounts.add(SegmentNumber(number), &put);
            assert_eq!(accounts.content(SegmentNumber(number)).stored, put.stored_bytes());
            accounts.forget(SegmentNumber(number - 1).max(SegmentNumber(2)));
        }
        assert!(accounts.numbers.len() <= 2 && accounts.contents.capacity() < 100, "{:?}", accounts.numbers);
        assert_eq!(accounts.content(SegmentNumber(1)).live, put.stored_bytes());
    }
}
