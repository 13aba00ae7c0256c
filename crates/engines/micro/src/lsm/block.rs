//! A block of a table: sorted entries in one unit of 4 KiB, or one entry in as many units as it needs. `docs/format/micro.md` draws it.
//!
//! Invariant: what [`Block::check`] has passed is never read past its end, whatever its bytes are.

use biombo_base::checksum::crc32c_append;
use biombo_base::coding::{get_u32, put_u32};
use biombo_base::io::AlignedBuf;

/// The unit of tables, in bytes.
pub(super) const UNIT_BYTES: usize = 4096;
const HEADER_BYTES: usize = 12;
/// What an entry takes beside its key and value: lengths and slot.
pub(super) const ENTRY_BYTES: usize = 8;
const SLOT_BYTES: usize = 2;
const ENTRY_HEADER_BYTES: usize = ENTRY_BYTES - SLOT_BYTES;
/// In an entry's length of key: it was deleted.
const DELETED: u16 = 1 << 15;

/// A block that was read and verified. Its memory is not aligned for direct reads: that would take twice as much ([`crate::heap`]).
#[derive(Debug)]
pub(super) struct Block(Box<[u8]>);

/// Units that so many bytes of entries take together, if they are a block's.
pub(super) fn units_of(entries_bytes: usize) -> usize {
    (HEADER_BYTES + entries_bytes).div_ceil(UNIT_BYTES)
}

/// Entries of so many bytes that go into one unit; 0: not one of them.
pub(super) fn entries_of(entry_bytes: usize) -> usize {
    (UNIT_BYTES - HEADER_BYTES) / entry_bytes.max(1)
}

/// The checksum of a block in unit `unit` of a table: of all but its own place.
fn checksum(seed: u32, unit: u32, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(seed, &unit.to_le_bytes()), &bytes[4..])
}

impl Block {
    /// The block that was read as `bytes`, or what is wrong with it.
    pub fn check(bytes: &[u8], seed: u32, unit: u32) -> Result<Self, &'static str> {
        if bytes.len() < UNIT_BYTES || get_u32(bytes, 0) != Some(checksum(seed, unit, bytes)) {
            return Err("the checksum of the block differs");
        }
        let block = Self(bytes.into());
        if block.is_sound() { Ok(block) } else { Err("the block's entries do not lie within it in order") }
    }

    fn is_sound(&self) -> bool {
        let entry = |index: usize| {
            let slot = self.0.get(HEADER_BYTES + index * SLOT_BYTES..)?.first_chunk()?;
            let at = usize::from(u16::from_le_bytes(*slot));
            let key_bytes = usize::from(u16::from_le_bytes(*self.0.get(at..)?.first_chunk()?) & !DELETED);
            let value_bytes = get_u32(&self.0, at + 2)? as usize;
            self.0.get(at + ENTRY_HEADER_BYTES..)?.get(..key_bytes.checked_add(value_bytes)?)?.get(..key_bytes)
        };
        let mut before: Option<&[u8]> = None;
        (0..self.count()).all(|index| {
            let key = entry(index);
            let is_sound = key.is_some() && before < key;
            before = key;
            is_sound
        })
    }

    /// Entries in it.
    pub fn count(&self) -> usize {
        get_u32(&self.0, 4).expect("invariant: a block has a header") as usize
    }

    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// An entry: key, and value unless it was deleted.
    pub fn entry(&self, index: usize) -> (&[u8], Option<&[u8]>) {
        let u16_at = |at: usize| u16::from_le_bytes([self.0[at], self.0[at + 1]]);
        let at = usize::from(u16_at(HEADER_BYTES + index * SLOT_BYTES));
        let head = u16_at(at);
        let value_bytes = get_u32(&self.0, at + 2).expect("invariant: it was checked") as usize;
        let key_at = at + ENTRY_HEADER_BYTES;
        let value_at = key_at + usize::from(head & !DELETED);
        let value = &self.0[value_at..value_at + value_bytes];
        (&self.0[key_at..value_at], (head & DELETED == 0).then_some(value))
    }

    /// Where `key` is, or where it would be.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.entry(middle).0.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

/// Gathers the entries of one block after the other.
#[derive(Default)]
pub(super) struct BlockBuilder {
    /// Of each entry, where it begins in `entries`.
    starts: Vec<usize>,
    entries: Vec<u8>,
}

impl BlockBuilder {
    /// Whether an entry still goes into the block; the first one always does.
    pub fn has_room(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        let bytes = self.bytes() + ENTRY_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        self.starts.is_empty() || bytes <= UNIT_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn bytes(&self) -> usize {
        HEADER_BYTES + self.starts.len() * SLOT_BYTES + self.entries.len()
    }

    /// Add an entry, whose key is after those before.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.starts.push(self.entries.len());
        let deleted = if value.is_none() { DELETED } else { 0 };
        let value = value.unwrap_or_default();
        self.entries.extend_from_slice(&(key.len() as u16 | deleted).to_le_bytes());
        self.entries.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.entries.extend_from_slice(key);
        self.entries.extend_from_slice(value);
    }

    /// Append the block to `into`, sealed as the one in unit `unit`, and begin anew. Returns its units.
    pub fn finish(&mut self, seed: u32, unit: u32, into: &mut AlignedBuf) -> u32 {
        let at = into.len();
        into.resize(at + HEADER_BYTES);
        put_u32(&mut into[at..], 4, self.starts.len() as u32);
        let entries_at = HEADER_BYTES + self.starts.len() * SLOT_BYTES;
        for start in self.starts.drain(..) {
            into.extend_from_slice(&((entries_at + start) as u16).to_le_bytes());
        }
        into.extend_from_slice(&self.entries);
        self.entries.clear();
        into.pad_to(UNIT_BYTES);
        let crc = checksum(seed, unit, &into[at..]);
        put_u32(&mut into[at..], 0, crc);
        ((into.len() - at) / UNIT_BYTES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_base::io::sim::Random;

    fn block(entries: &[(Vec<u8>, Option<Vec<u8>>)]) -> AlignedBuf {
        let mut builder = BlockBuilder::default();
        for (key, value) in entries {
            assert!(builder.has_room(key, value.as_deref()));
            builder.add(key, value.as_deref());
        }
        let mut bytes = AlignedBuf::new();
        builder.finish(5, 9, &mut bytes);
        assert!(builder.is_empty());
        bytes
    }

    #[test]
    fn the_example_of_the_format_page_is_what_is_written() {
        let bytes = block(&[(b"k".to_vec(), Some(b"v1".to_vec()))]);
        assert_eq!(bytes[4..23], *b"\x01\0\0\0\0\0\0\0\x0e\0\x01\0\x02\0\0\0kv1");
        assert!(bytes.len() == UNIT_BYTES && bytes[23..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn entries_come_back_and_any_flipped_bit_is_seen() {
        let large = vec![(b"key".to_vec(), Some(vec![7; 10_000]))];
        let small: Vec<_> = (0..90u8).map(|n| (vec![n, 1], (n % 3 > 0).then(|| vec![n; usize::from(n) / 3]))).collect();
        for entries in [large, small, vec![]] {
            let bytes = block(&entries);
            let read = Block::check(&block(&entries), 5, 9).unwrap();
            assert_eq!(read.count(), entries.len());
            for (index, (key, value)) in entries.iter().enumerate() {
                assert_eq!(read.entry(index), (&key[..], value.as_deref()));
                assert_eq!(read.search(key), Ok(index));
                assert_eq!(read.search(&[&key[..], b"\0"].concat()), Err(index + 1));
            }
            assert!(Block::check(&block(&entries), 5, 10).is_err() && Block::check(&block(&entries), 6, 9).is_err());
            for bit in (0..8 * bytes.len()).step_by(7) {
                let mut flipped = block(&entries);
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Block::check(&flipped, 5, 9).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_block_of_any_bytes_under_a_right_checksum_is_refused_or_safe_to_read() {
        let entries: Vec<_> = (0..90u8).map(|n| (vec![n, 1], Some(vec![n; 20]))).collect();
        let (mut random, mut passed) = (Random(3), 0);
        for _ in 0..20_000 {
            let mut bytes = block(&entries);
            for _ in 0..1 + random.below(4) {
                let among = if random.below(3) == 0 { 4092 } else { 240 };
                bytes[4 + random.below(among) as usize] = random.next() as u8;
            }
            let crc = checksum(5, 9, &bytes);
            put_u32(&mut bytes, 0, crc);
            if let Ok(block) = Block::check(&bytes, 5, 9) {
                passed += 1;
                (0..block.count()).for_each(|index| assert_eq!(block.search(block.entry(index).0), Ok(index)));
            }
        }
        assert!(passed > 100, "{passed} passed: the test reaches nothing");
    }
}
