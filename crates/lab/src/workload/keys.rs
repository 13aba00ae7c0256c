//! Keys of a fixed width, hashed from the record number.
//!
//! YCSB names record `n` `"user" + fnv64(n)`: insert order is hashed, and two records can collide. Here a key is the
//! record number put through a bijection and written in hexadecimal, so insert order is hashed too, keys have one length,
//! and two records never share a key:
//!
//! - `key_bytes` of 16 and more: 16 hexadecimal digits of a 64-bit bijection (SplitMix64's), then digits of a second hash
//!   of the number up to the length;
//! - fewer: that many hexadecimal digits of a bijection of 4 * `key_bytes` bits, for at most 16^`key_bytes` records.
//!
//! Order of keys is then unrelated to the order of numbers, as in YCSB with `insertorder=hashed`.

use biombo_base::{Error, Result};

use super::random::mix64;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes keys.
#[derive(Debug, Clone)]
pub struct Keys {
    bytes: usize,
}

impl Keys {
    /// Keys of `key_bytes` for record numbers below `records`. `Invalid` when that many numbers do not fit.
    pub fn new(key_bytes: u32, records: u64) -> Result<Self> {
        if key_bytes == 0 {
            return Err(Error::invalid("keys must have at least one byte: give --key-bytes 1 or more"));
        }
        if key_bytes as usize > biombo_engine::capabilities::KEY_BYTES_MAX {
            return Err(Error::invalid(format!("keys of {key_bytes} bytes are longer than the limit of 65536")));
        }
        if key_bytes < 16 && records > 1u64 << (4 * key_bytes) {
            return Err(Error::invalid(format!(
                "keys of {key_bytes} bytes name at most {} records, and {records} are asked for: give a larger --key-bytes",
                1u64 << (4 * key_bytes)
            )));
        }
        Ok(Self { bytes: key_bytes as usize })
    }

    /// The length of every key.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Write the key of record `number` into `key` (cleared first; no allocation once it has grown).
    #[inline]
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        if self.bytes == 16 {
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

/// A bijection of the numbers below 2^`bits` (`bits` at most 63): shifts to the right folded in and multiplications by
/// odd numbers are each invertible within `bits` bits.
fn mix_bits(number: u64, bits: u32) -> u64 {
    let mask = (1u64 << bits) - 1;
    let shift = bits.div_ceil(2);
    let mut x = number & mask;
    for factor in [0x9E37_79B9_7F4A_7C15_u64, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        x = (x ^ (x >> shift)).wrapping_mul(factor) & mask;
    }
    x ^ (x >> shift)
}

/// Sixteen digits, the high one first.
#[inline]
fn hex(value: u64) -> [u8; 16] {
    let mut digits = [0u8; 16];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
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
    fn every_number_has_its_own_key_of_the_asked_length() {
        for bytes in [1u32, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 40, 100] {
            let records = if bytes < 5 { 1u64 << (4 * bytes) } else { 100_000 };
            let keys = Keys::new(bytes, records).unwrap();
            let mut seen = HashSet::new();
            for number in 0..records {
                let key = key(&keys, number);
                assert_eq!(key.len(), bytes as usize);
                assert!(seen.insert(key), "{bytes} bytes: record {number} shares a key");
            }
        }
    }

    #[test]
    fn more_records_than_names_is_refused() {
        assert!(Keys::new(4, 65_536).is_ok());
        assert!(Keys::new(4, 65_537).is_err());
        assert!(Keys::new(0, 1).is_err());
        assert!(Keys::new(70_000, 1).is_err());
    }

    #[test]
    fn insert_order_is_hashed() {
        let keys = Keys::new(16, 1_000).unwrap();
        let ascents = (0..999).filter(|&n| key(&keys, n) < key(&keys, n + 1)).count();
        // A random order ascends in half of the steps.
        assert!((400..600).contains(&ascents), "{ascents} of 999 steps ascend");
    }
}
