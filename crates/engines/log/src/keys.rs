//! The key list of a segment: what the index and the accounts need of its records, without their values. It stands in the
//! segment's footer, so that opening reads it instead of the records. `docs/format/log.md` draws it.
//!
//! Invariants:
//!
//! 1. A list names every record of its segment, in their order; one with another count than the segment's is refused.
//! 2. A list is at most about a third of its segment: where keys are most of the data, it is given up, since reading the
//!    records costs as much.

use biombo_base::coding::get_u32;
use biombo_journal::Position;
use biombo_journal::format::{SEGMENT_HEADER_BYTES, record_bytes};

use crate::accounts::Item;
use crate::record::{HEADER_BYTES, Kind, Record};

const MAGIC: [u8; 4] = *b"BKEY";
const VERSION: u32 = 1;
/// Bytes before the first entry.
const START: usize = 8;
/// A list may have so many bytes in any case.
const BYTES_MIN: usize = 4096;

/// How far the entries of a list have come.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Behind the last record.
    end: u64,
    seq: u64,
}

const BEGUN: State = State { end: SEGMENT_HEADER_BYTES as u64, seq: 0 };

/// A list in the making.
#[derive(Debug, Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    lister: Lister,
}

impl KeyList {
    /// One that is kept whatever its size.
    pub fn unbounded() -> Self {
        let lister = Lister { bytes_min: usize::MAX, ..Lister::default() };
        Self { bytes: Vec::new(), lister }
    }

    /// Add the next record of the segment.
    pub fn push(&mut self, at: Position, record: &Record<'_>) {
        self.lister.push(&mut self.bytes, at, record);
    }

    /// Its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// As a footer; empty where it was given up.
    pub fn as_footer(&self) -> &[u8] {
        &self.bytes
    }
}

/// Makes a list in a buffer of somebody else's, which is empty when a segment begins.
#[derive(Debug)]
pub struct Lister {
    state: State,
    given_up: bool,
    bytes_min: usize,
}

impl Default for Lister {
    fn default() -> Self {
        Self { state: BEGUN, given_up: false, bytes_min: BYTES_MIN }
    }
}

impl Lister {
    /// Another segment begins.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Add the next record.
    #[inline]
    pub fn push(&mut self, bytes: &mut Vec<u8>, at: Position, record: &Record<'_>) {
        if self.given_up {
            return;
        }
        let end = if record.kind == Kind::DeleteRange { record.value } else { &[] };
        self.state.push(bytes, at.offset(), record, end);
        if bytes.len() > self.bytes_min.saturating_add(at.offset() as usize / 3) {
            bytes.clear();
            self.given_up = true;
        }
    }
}

impl State {
    #[inline]
    fn push(&mut self, bytes: &mut Vec<u8>, offset: u32, record: &Record<'_>, end: &[u8]) {
        if bytes.is_empty() {
            bytes.extend_from_slice(&MAGIC);
            bytes.extend_from_slice(&VERSION.to_le_bytes());
        }
        let between = (u64::from(offset) - self.end) / 8;
        // Mostly one more than the record before.
        let step = record.seq.wrapping_sub(self.seq) as i64;
        let zigzag = (step << 1 ^ step >> 63) as u64;
        let (keys, values) = (record.key.len() as u64, record.value.len() as u64);
        let short = [record.kind.code(), between as u8, zigzag as u8, keys as u8, values as u8];
        if (between | zigzag | keys | values) < 0x80 {
            bytes.extend_from_slice(&short);
        } else {
            bytes.push(record.kind.code());
            [between, zigzag, keys, values].into_iter().for_each(|number| put_varint(bytes, number));
        }
        bytes.extend_from_slice(record.key);
        bytes.extend_from_slice(end);
        self.end = u64::from(offset) + record_bytes(HEADER_BYTES + record.key.len() + record.value.len()) as u64;
        self.seq = record.seq;
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// One record of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where its header is in the segment.
    pub offset: u32,
    pub kind: Kind,
    pub seq: u64,
    pub key: &'a [u8],
    /// Where a deleted range ends.
    pub end: &'a [u8],
    /// The length of the value, or of `end`.
    pub value_bytes: usize,
}

impl From<&Entry<'_>> for Item {
    fn from(entry: &Entry<'_>) -> Self {
        Self::of(entry.kind, entry.seq, entry.key.len() + entry.value_bytes)
    }
}

/// The entries of a list; an `Err` where it is none, after which nothing comes.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: Option<&'a [u8]>,
    state: State,
}

/// What is no list of keys.
#[derive(Debug, PartialEq, Eq)]
pub struct NoList;

impl<'a> Entries<'a> {
    pub fn of(list: &'a [u8]) -> Self {
        let is_one = list.get(..4) == Some(&MAGIC) && get_u32(list, 4) == Some(VERSION);
        // An empty segment has an empty list.
        let rest = if list.is_empty() { Some(list) } else { list.get(START..).filter(|_| is_one) };
        Self { rest, state: BEGUN }
    }

    /// How many there are.
    pub fn count_all(list: &'a [u8]) -> Result<u64, NoList> {
        let mut count = 0;
        for entry in Self::of(list) {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    fn parse(&mut self, mut rest: &'a [u8]) -> Option<Entry<'a>> {
        let kind = Kind::from_code(take(&mut rest, 1)?[0])?;
        let [between, zigzag, keys, values] = match rest.first_chunk::<4>() {
            Some(short) if short.iter().all(|byte| *byte < 0x80) => {
                rest = &rest[4..];
                short.map(u64::from)
            }
            _ => {
                let mut numbers = [0; 4];
                for number in &mut numbers {
                    *number = take_varint(&mut rest)?;
                }
                numbers
            }
        };
        let seq = self.state.seq.wrapping_add((zigzag >> 1) as i64 as u64 ^ (zigzag & 1).wrapping_neg());
        let key = take(&mut rest, usize::try_from(keys).ok()?)?;
        let end = if kind == Kind::DeleteRange { take(&mut rest, usize::try_from(values).ok()?)? } else { &[] };
        let value_bytes = usize::try_from(values).ok().filter(|bytes| *bytes <= u32::MAX as usize)?;
        let offset = self.state.end.checked_add(between.checked_mul(8)?)?;
        self.state.end = offset.checked_add(record_bytes(HEADER_BYTES + key.len() + value_bytes) as u64)?;
        self.state.seq = seq;
        let needs_key = matches!(kind, Kind::Put | Kind::Delete);
        let offset = u32::try_from(offset).ok().filter(|_| !(needs_key && key.is_empty()))?;
        self.rest = Some(rest);
        Some(Entry { offset, kind, seq, key, end, value_bytes })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, NoList>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(rest) = self.rest.take() else {
            // Reported once.
            let refused = self.state.end > 0;
            self.state.end = 0;
            return refused.then_some(Err(NoList));
        };
        if rest.is_empty() {
            self.state.end = 0;
            return None;
        }
        let entry = self.parse(rest);
        if entry.is_none() {
            self.state.end = 0;
        }
        Some(entry.ok_or(NoList))
    }
}

#[inline]
fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_journal::SegmentNumber;
    use proptest::prelude::*;

    fn at(offset: u64) -> Position {
        Position::new(SegmentNumber(3), u32::try_from(offset).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn lists_come_back_and_cut_ones_are_refused(
            records in proptest::collection::vec(
                (1..7u8, 0..300u64, any::<u32>(), 1..200usize, 0..70_000usize), 1..40),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut list = KeyList::default();
            let mut expected = Vec::new();
            let (mut offset, value) = (4096 + 40, vec![7; 70_000]);
            for (kind, between, seq, keys, values) in &records {
                let kind = Kind::from_code(*kind).unwrap();
                offset += between * 8;
                let is_begin = kind == Kind::Begin;
                let key = vec![5; if is_begin { 0 } else { *keys }];
                let value = if is_begin { &[][..] } else { &value[..*values] };
                let record = Record { kind, seq: (*seq).into(), key: &key, value };
                list.push(at(offset), &record);
                let end = if kind == Kind::DeleteRange { value.to_vec() } else { Vec::new() };
                expected.push((offset as u32, kind, record.seq, key.clone(), end, value.len()));
                offset += record.stored_bytes();
            }
            let bytes = list.as_footer();
            prop_assume!(!list.lister.given_up);
            let found: Vec<_> = Entries::of(bytes)
                .map(|entry| entry.map(|e| (e.offset, e.kind, e.seq, e.key.to_vec(), e.end.to_vec(), e.value_bytes)))
                .collect::<Result<_, _>>()
                .unwrap();
            prop_assert_eq!(found, expected);
            let cut = cut.index(bytes.len());
            prop_assert_ne!(Entries::count_all(&bytes[..cut.max(1)]), Ok(records.len() as u64));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read_and_end(bytes: Vec<u8>) {
            let _ = Entries::count_all(&bytes);
            let mut list = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
            list.extend_from_slice(&bytes);
            let _ = Entries::count_all(&list);
        }
    }

    #[test]
    fn a_list_that_is_most_of_its_segment_is_given_up() {
        let (mut list, key) = (KeyList::default(), [1; 600]);
        for n in 0..100u64 {
            let record = Record { kind: Kind::Put, seq: n, key: &key, value: &[] };
            list.push(at(4096 + n * (40 + record.stored_bytes()) + 40), &record);
        }
        assert!(list.lister.given_up && list.as_footer().is_empty());
        assert_eq!(Entries::count_all(&[]), Ok(0));
        assert_eq!(Entries::of(b"something else").count(), 1);
    }
}
