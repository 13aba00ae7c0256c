//! Keys of a fixed width, made of the record number.
//!
//! **Hashed**, for YCSB. YCSB names record `n` `"user" + fnv64(n)`: insert order is hashed, and two records can collide. Here a key is the
//! record number put through a bijection and written in hexadecimal, so insert order is hashed too, keys have one length,
//! and two records never share a key:
//!
//! - `key_bytes` of 16 and more: 16 hexadecimal digits of a 64-bit bijection (SplitMix64's), then digits of a second hash
//!   of the number up to the length;
//! - fewer: that many hexadecimal digits of a bijection of 4 * `key_bytes` bits, for at most 16^`key_bytes` records.
//!
//! Order of keys is then unrelated to the order of numbers, as in YCSB with `insertorder=hashed`.
//!
//! **Decimal**, for db_bench's benchmarks, as LevelDB's writes them: 16 decimal digits after as many letters `a` as the
//! length asks for (its `--key_prefix`; RocksDB's has 8 binary digits before zeros instead); shorter keys are that many
//! digits. Order of keys is the order of numbers.

use biombo_base::{Error, Result};

use super::random::mix64;
use super::shuffle::{Shuffle, mix_bits};

/// How keys are made of record numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFormat {
    /// Hexadecimal digits of a hash.
    Hashed,
    /// Decimal digits in the order of the numbers.
    Decimal,
}

/// Writes keys.
#[derive(Debug, Clone)]
pub struct Keys {
    format: KeyFormat,
    bytes: usize,
    order: Shuffle,
}

impl Keys {
    /// Keys of `key_bytes` for record numbers below `records`. `Invalid` when that many numbers do not fit.
    pub fn new(format: KeyFormat, key_bytes: u32, records: u64) -> Result<Self> {
        Self::with_room(format, key_bytes, records, 0)
    }

    /// As [`new`](Keys::new) for `records` that are loaded, and so many inserts behind them.
    pub fn with_room(format: KeyFormat, key_bytes: u32, loaded: u64, inserts: u64) -> Result<Self> {
        let records = loaded.saturating_add(inserts);
        if key_bytes == 0 {
            return Err(Error::invalid("keys must have at least one byte: give --key-bytes 1 or more"));
        }
        if key_bytes as usize > biombo_engine::capabilities::KEY_BYTES_MAX {
            return Err(Error::invalid(format!("keys of {key_bytes} bytes are longer than the limit of 65536")));
        }
        let names = match format {
            KeyFormat::Hashed => 16u64.checked_pow(key_bytes),
            KeyFormat::Decimal => Some(10u64.pow(key_bytes.min(16))),
        };
        if let Some(names) = names.filter(|names| records > *names) {
            return Err(Error::invalid(format!(
                "keys of {key_bytes} bytes name at most {names} records, and {records} are asked for: give a larger --key-bytes"
            )));
        }
        Ok(Self { format, bytes: key_bytes as usize, order: Shuffle::new(loaded) })
    }

    /// The number of the record that is loaded at `place` (below the records): keys are loaded in no order.
    #[inline]
    pub fn loaded(&self, place: u64) -> u64 {
        match self.format {
            // The hash is all the disorder that is needed.
            KeyFormat::Hashed => place,
            KeyFormat::Decimal => self.order.at(place),
        }
    }

    /// The length of every key.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Write the key of record `number` into `key` (cleared first; no allocation once it has grown).
    #[inline]
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        if self.format == KeyFormat::Decimal {
            key.resize(self.bytes.saturating_sub(16), b'a');
            let digits = decimal(number);
            key.extend_from_slice(&digits[16 - self.bytes.min(16)..]);
        } else if self.bytes == 16 {
            key.extend_from_slice(&hex(mix64(number)));
        } else if self.bytes < 16 {
            let bits = 4 * self.bytes as u32;
            key.extend_from_slice(&hex(mix_bits(number, bits))[16 - self.bytes..]);
        } else {
            let mut hash = mix64(number);
            while key.len() + 16 <= self.bytes {
                key.extend_from_slice(&hex(hash));
                hash = mix64(hash ^ 0x9E37_79B9_7F4A_7C15);
            }
            let rest = self.bytes - key.len();
            key.extend_from_slice(&hex(hash)[..rest]);
        }
    }
}

/// Sixteen digits, the high one first.
#[inline]
fn hex(value: u64) -> [u8; 16] {
    let mut digits = [0u8; 16];
    digits[..8].copy_from_slice(&hex_half((value >> 32) as u32));
    digits[8..].copy_from_slice(&hex_half(value as u32));
    digits
}

/// Eight digits at once, without a table: a key is written for every operation.
#[inline]
fn hex_half(value: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Every half byte into a byte of its own.
    let mut x = u64::from(value);
    x = (x | x << 16) & 0x0000_FFFF_0000_FFFF;
    x = (x | x << 8) & 0x00FF_00FF_00FF_00FF;
    x = (x | x << 4) & (EACH * 0x0F);
    // 1 in the bytes from 10 on.
    let letters = (x + EACH * 6) >> 4 & EACH;
    (x + EACH * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// Sixteen decimal digits of a number below 10^16.
#[inline]
fn decimal(mut number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(keys: &Keys, number: u64) -> Vec<u8> {
        let mut key = Vec::new();
        keys.write(number, &mut key);
        key
    }

    #[test]
    fn room_for_inserts_changes_no_record_that_is_loaded() {
        let keys = Keys::with_room(KeyFormat::Decimal, 16, 100, 1_000_000).unwrap();
        let mut loaded: Vec<_> = (0..100).map(|place| keys.loaded(place)).collect();
        loaded.sort_unstable();
        assert_eq!(loaded, (0..100).collect::<Vec<_>>());
        assert!(Keys::with_room(KeyFormat::Decimal, 2, 100, 1).is_err(), "a hundred names and one more");
    }

    #[test]
    fn every_number_has_its_own_key_of_the_asked_length() {
        for bytes in [1u32, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 40, 100] {
            let records = if bytes < 5 { 1u64 << (4 * bytes) } else { 100_000 };
            let keys = Keys::new(KeyFormat::Hashed, bytes, records).unwrap();
            let mut seen = HashSet::new();
            for number in 0..records {
                let key = key(&keys, number);
                assert_eq!(key.len(), bytes as usize);
                assert!(seen.insert(key), "{bytes} bytes: record {number} shares a key");
            }
        }
    }

    #[test]
    fn digits_are_those_of_hexadecimal() {
        let mut random = crate::workload::Random::new(1, 0);
        for value in [0, u64::MAX, 0x0123_4567_89AB_CDEF, 0xF0F0_0A9A_A9A9_9090]
            .into_iter()
            .chain((0..1_000).map(|_| random.bits()))
        {
            assert_eq!(hex(value), format!("{value:016x}").as_bytes());
        }
    }

    #[test]
    fn more_records_than_names_is_refused() {
        assert!(Keys::new(KeyFormat::Hashed, 4, 65_536).is_ok());
        assert!(Keys::new(KeyFormat::Hashed, 4, 65_537).is_err());
        assert!(Keys::new(KeyFormat::Hashed, 16, u64::MAX).is_ok());
        assert!(Keys::new(KeyFormat::Decimal, 4, 10_000).is_ok());
        assert!(Keys::new(KeyFormat::Decimal, 4, 10_001).is_err());
        assert!(Keys::new(KeyFormat::Decimal, 16, 10_000_000_000_000_001).is_err());
        for format in [KeyFormat::Hashed, KeyFormat::Decimal] {
            assert!(Keys::new(format, 0, 1).is_err());
            assert!(Keys::new(format, 70_000, 1).is_err());
        }
    }

    #[test]
    fn insert_order_is_hashed() {
        let keys = Keys::new(KeyFormat::Hashed, 16, 1_000).unwrap();
        let ascents = (0..999).filter(|&n| key(&keys, n) < key(&keys, n + 1)).count();
        // A random order ascends in half of the steps.
        assert!((400..600).contains(&ascents), "{ascents} of 999 steps ascend");
    }

    #[test]
    fn decimal_keys_are_those_of_leveldb_and_ordered_as_their_numbers() {
        let of = |bytes, number| key(&Keys::new(KeyFormat::Decimal, bytes, 1_000).unwrap(), number);
        assert_eq!(of(16, 42), b"0000000000000042");
        assert_eq!(of(20, 999), b"aaaa0000000000000999");
        assert_eq!(of(4, 42), b"0042");
        for bytes in [3u32, 16, 17, 64] {
            assert!((0..1_000).all(|n| of(bytes, n).len() == bytes as usize));
            assert!((0..999).all(|n| of(bytes, n) < of(bytes, n + 1)));
        }
    }

    #[test]
    fn every_record_is_loaded_once_and_in_no_order_of_keys() {
        for format in [KeyFormat::Hashed, KeyFormat::Decimal] {
            let keys = Keys::new(format, 16, 1_000).unwrap();
            let loaded: Vec<_> = (0..1_000).map(|place| key(&keys, keys.loaded(place))).collect();
            let ascents = loaded.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!((400..600).contains(&ascents), "{format:?}: {ascents} of 999 steps ascend");
            assert_eq!(loaded.iter().collect::<HashSet<_>>().len(), 1_000);
        }
    }
}
