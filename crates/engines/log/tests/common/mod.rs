//! What the tests of the index share: a log that is a vector of keys, and a small generator of random numbers.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::RwLock;

use biombo_base::{Error, ErrorKind, Result};
use biombo_log::index::{Keys, Leaf};

/// A log that keeps keys only; a leaf is a place in it.
#[derive(Default)]
pub struct Log(RwLock<Vec<Vec<u8>>>);

impl Log {
    pub fn append(&self, key: &[u8]) -> Leaf {
        let mut keys = self.0.write().expect("no test panics under it");
        keys.push(key.to_vec());
        Leaf::new(keys.len() as u64 - 1).expect("small")
    }

    pub fn key(&self, leaf: Leaf) -> Vec<u8> {
        self.with_key(leaf, <[u8]>::to_vec).expect("there")
    }
}

impl Keys for Log {
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let keys = self.0.read().expect("no test panics under it");
        match keys.get(leaf.get() as usize) {
            Some(key) => Ok(f(key)),
            None => Err(Error::new(ErrorKind::Corruption, format!("no record at {leaf:?}"))),
        }
    }
}

/// Splitmix64: enough to shuffle, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
