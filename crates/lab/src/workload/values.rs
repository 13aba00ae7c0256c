//! Values: slices of one pool of random bytes, at random places.
//!
//! The pool is made as db_bench makes it: pieces of 100 bytes, each the same random bytes over and over, so many different
//! ones that a compressor leaves `compression_ratio` of a piece. Values begin where a piece does. With a ratio of 1 no
//! compressor can shrink them (two values of one block hardly ever overlap). A value costs one random number and no copy,
//! so the generator is not what a run measures.

use super::Random;

/// How far apart the beginnings of values may lie, in bytes.
const SPREAD_BYTES: usize = 4 << 20;
/// db_bench's length of a piece that repeats itself.
const PIECE_BYTES: usize = 100;

/// The pool, shared by all threads.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
    step_bytes: usize,
}

impl Values {
    /// A pool for values of `value_bytes` that a compressor shrinks to `compression_ratio` (at most 1) of their length,
    /// filled from `seed`.
    pub fn new(value_bytes: u32, compression_ratio: f64, seed: u64) -> Self {
        let value_bytes = value_bytes as usize;
        let mut pool = vec![0; SPREAD_BYTES + value_bytes];
        let mut random = Random::new(seed, u64::MAX);
        let fresh = ((PIECE_BYTES as f64 * compression_ratio) as usize).clamp(1, PIECE_BYTES);
        if fresh == PIECE_BYTES {
            random.fill(&mut pool);
            return Self { pool, value_bytes, step_bytes: 1 };
        }
        for piece in pool.chunks_mut(PIECE_BYTES) {
            let (first, again) = piece.split_at_mut(fresh.min(piece.len()));
            random.fill(first);
            again.iter_mut().zip(first.iter().cycle()).for_each(|(byte, same)| *byte = *same);
        }
        Self { pool, value_bytes, step_bytes: PIECE_BYTES }
    }

    /// A value.
    #[inline]
    pub fn next(&self, random: &mut Random) -> &[u8] {
        let at = random.below((SPREAD_BYTES / self.step_bytes) as u64) as usize * self.step_bytes;
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
            for ratio in [0.5, 1.0] {
                let values = Values::new(bytes, ratio, 3);
                assert_eq!(values.next(&mut Random::new(3, 0)).len(), bytes as usize);
            }
        }
        let values = Values::new(100_000, 1.0, 3);
        let mut counts = [0u32; 256];
        for &byte in values.next(&mut Random::new(3, 0)) {
            counts[usize::from(byte)] += 1;
        }
        let expected = 100_000.0 / 256.0;
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 330.5, "chi-square {chi} with 255 degrees of freedom");
    }

    /// The bytes that a compressor which finds every repetition has to keep: those that do not repeat the bytes before them
    /// by some distance for a length that is worth a reference.
    fn incompressible(bytes: &[u8]) -> usize {
        const WORTH: usize = 8;
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            let longest = (1..=at.min(65_535))
                .map(|distance| bytes[at..].iter().zip(&bytes[at - distance..]).take_while(|(a, b)| a == b).count())
                .max()
                .unwrap_or(0);
            if longest >= WORTH {
                at += longest;
            } else {
                kept += 1;
                at += 1;
            }
        }
        kept
    }

    #[test]
    fn a_compressor_finds_what_the_ratio_says() {
        for (ratio, bytes) in [(0.5, 100u32), (0.5, 256), (0.5, 1_000), (0.25, 1_000), (1.0, 1_000)] {
            let values = Values::new(bytes, ratio, 3);
            let mut random = Random::new(3, 0);
            let block: Vec<u8> =
                (0..4_000 / bytes.min(1_000)).flat_map(|_| values.next(&mut random).to_vec()).collect();
            let left = incompressible(&block) as f64 / block.len() as f64;
            // A value's end may cut a piece short of its repetition.
            assert!((ratio - 0.01..ratio + 0.12).contains(&left), "{bytes} bytes at {ratio}: {left} is left");
        }
    }
}
