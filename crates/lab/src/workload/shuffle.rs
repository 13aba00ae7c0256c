//! Permutations of record numbers that need no memory.

/// A bijection of the numbers below 2^`bits` (`bits` from 1 to 63) that mixes them: shifts to the right folded in and
/// multiplications by odd numbers are each invertible within `bits` bits.
pub(crate) fn mix_bits(number: u64, bits: u32) -> u64 {
    let mask = (1u64 << bits) - 1;
    let shift = bits.div_ceil(2);
    let mut x = number & mask;
    for factor in [0x9E37_79B9_7F4A_7C15_u64, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        x = (x ^ (x >> shift)).wrapping_mul(factor) & mask;
    }
    x ^ (x >> shift)
}

/// The numbers `0..count` in a mixed order, the same on every machine: every number once.
///
/// It walks the cycles of [`mix_bits`] (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002): a number past
/// the end is mixed again until it falls inside, less than twice on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shuffle {
    count: u64,
    bits: u32,
}

impl Shuffle {
    /// Of `0..count`, `count` at most 2^63.
    pub(crate) fn new(count: u64) -> Self {
        Self { count, bits: (u64::BITS - count.saturating_sub(1).leading_zeros()).clamp(1, 63) }
    }

    /// The number at `place` (below `count`).
    #[inline]
    pub(crate) fn at(self, place: u64) -> u64 {
        let mut number = mix_bits(place, self.bits);
        while number >= self.count {
            number = mix_bits(number, self.bits);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_and_in_no_order() {
        for count in [1u64, 2, 3, 5, 64, 65, 1_000, 1_025, 100_000] {
            let shuffle = Shuffle::new(count);
            let numbers: Vec<_> = (0..count).map(|place| shuffle.at(place)).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count), "{count} numbers are no permutation");
            if count >= 1_000 {
                // A random order ascends in half of the steps and leaves about one number in its place.
                let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64 / count as f64;
                let fixed = numbers.iter().enumerate().filter(|(place, number)| **number == *place as u64).count();
                assert!((0.4..0.6).contains(&ascents) && fixed < 12, "{count}: {ascents} ascend, {fixed} stay");
            }
        }
    }
}
