//! Values: slices of one pool of random bytes, at random places.
//!
//! No compressor can shrink them (two values of one block hardly ever overlap), and a value costs one random number and no
//! copy, so the generator is not what a run measures.

use super::Random;

/// How far apart the beginnings of values may lie, in bytes.
const SPREAD_BYTES: usize = 4 << 20;

/// The pool, shared by all threads.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
}

impl Values {
    /// A pool for values of `value_bytes`, filled from `seed`.
    pub fn new(value_bytes: u32, seed: u64) -> Self {
        let value_bytes = value_bytes as usize;
        let mut pool = vec![0; SPREAD_BYTES + value_bytes];
        Random::new(seed, u64::MAX).fill(&mut pool);
        Self { pool, value_bytes }
    }

    /// A value.
    #[inline]
    pub fn next(&self, random: &mut Random) -> &[u8] {
        let at = random.below(SPREAD_BYTES as u64) as usize;
        &self.pool[at..at + self.value_bytes]
    }

    /// The length of each.
    pub fn bytes(&self) -> usize {
        self.value_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_length_and_look_random() {
        for bytes in [0u32, 1, 100, 1_000] {
            let values = Values::new(bytes, 3);
            let mut random = Random::new(3, 0);
            assert_eq!(values.next(&mut random).len(), bytes as usize);
        }
        let values = Values::new(100_000, 3);
        let mut counts = [0u32; 256];
        for &byte in values.next(&mut Random::new(3, 0)) {
            counts[usize::from(byte)] += 1;
        }
        let expected = 100_000.0 / 256.0;
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 330.5, "chi-square {chi} with 255 degrees of freedom");
    }
}
