//! Zipfian ranks as YCSB draws them.
//!
//! The method is that of Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), which YCSB's
//! `ZipfianGenerator` uses: item `k` (from 0) has probability `1 / ((k + 1)^theta * zeta(n))`, exactly for the first two,
//! by a continuous approximation for the others.
//!
//! YCSB's scrambled generator draws a rank from a fixed space of 10^10 items, hashes it with FNV-1a 64 and takes it
//! modulo the number of records. So the popular records lie all over the key space, and which ones are popular does not
//! depend on how many records there are.

/// YCSB's skew.
pub const THETA: f64 = 0.99;
/// The items of YCSB's scrambled generator (it draws from 0 up to and including this).
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// The generalised harmonic number: the sum of `i^-theta` for `i` from 1 to `n`. The head is summed, the tail is
/// integrated with the Euler-Maclaurin corrections: right to 12 digits in constant time.
pub fn zeta(n: u64, theta: f64) -> f64 {
    const HEAD: u64 = 1_000;
    let head: f64 = (1..=n.min(HEAD)).map(|i| (i as f64).powf(-theta)).sum();
    if n <= HEAD {
        return head;
    }
    let term = |x: f64| x.powf(-theta);
    let (a, b) = (HEAD as f64, n as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let slope = |x: f64| -theta * x.powf(-theta - 1.0);
    head + integral + (term(b) - term(a)) / 2.0 + (slope(b) - slope(a)) / 12.0
}

/// Ranks from 0, the most popular, to `items - 1`.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    zeta_items: f64,
    eta: f64,
    alpha: f64,
    second: f64,
}

impl Zipfian {
    /// Over `items` items (at least 1) with YCSB's skew. Constant time.
    pub fn new(items: u64) -> Self {
        let mut zipfian =
            Self { items: 0, zeta_items: 0.0, eta: 0.0, alpha: 1.0 / (1.0 - THETA), second: 1.0 + 0.5f64.powf(THETA) };
        zipfian.set(items.max(1), zeta(items.max(1), THETA));
        zipfian
    }

    /// Take in items that came since, as far as `items`. Costs one term for each.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            let zeta_items = if items - self.items > 10_000 {
                zeta(items, THETA)
            } else {
                self.zeta_items + (self.items + 1..=items).map(|i| (i as f64).powf(-THETA)).sum::<f64>()
            };
            self.set(items, zeta_items);
        }
    }

    fn set(&mut self, items: u64, zeta_items: f64) {
        self.items = items;
        self.zeta_items = zeta_items;
        // With two items or fewer the first two branches of `rank` answer everything.
        self.eta = if items > 2 {
            (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - self.second / zeta_items)
        } else {
            0.0
        };
    }

    /// The rank for `u`, uniform in [0, 1).
    #[inline]
    pub fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zeta_items;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.second {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.items
    }
}

/// FNV-1a over the eight bytes of `value`, low byte first, made positive as YCSB's `Utils.fnvhash64` does.
#[inline]
pub fn fnv1a_64(value: u64) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    const PRIME_CUBED: u64 = PRIME.wrapping_mul(PRIME).wrapping_mul(PRIME);
    let [low @ .., b5, b6, b7] = value.to_le_bytes();
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in low {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    // YCSB's ranks have five bytes, and a zero byte only multiplies: one multiplication for three that wait for each other.
    hash = match [b5, b6, b7] {
        [0, 0, 0] => hash.wrapping_mul(PRIME_CUBED),
        high => high.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)),
    };
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    fn zeta_summed(n: u64) -> f64 {
        (1..=n).rev().map(|i| 1.0 / (i as f64).powf(THETA)).sum()
    }

    #[test]
    fn zeta_equals_the_sum_and_ycsb_own_constant() {
        for n in [1, 2, 10, 999, 1_000, 1_001, 5_000, 200_000] {
            let (fast, slow) = (zeta(n, THETA), zeta_summed(n));
            assert!((fast / slow - 1.0).abs() < 1e-11, "zeta({n}): {fast} against {slow}");
        }
        // ScrambledZipfianGenerator.ZETAN, printed in YCSB's source for 10^10 items.
        assert!((zeta(SCRAMBLED_ITEMS, THETA) - 26.469_028_201_783_02).abs() < 1e-7);
    }

    #[test]
    fn growing_equals_starting_larger() {
        let mut grown = Zipfian::new(1_000);
        grown.grow(1_001);
        grown.grow(50_000);
        let fresh = Zipfian::new(50_000);
        assert!((grown.zeta_items / fresh.zeta_items - 1.0).abs() < 1e-11);
        assert_eq!(grown.rank(0.77), fresh.rank(0.77));
    }

    #[test]
    fn ranks_follow_the_zipfian_formula() {
        let items = 10_000u64;
        let draws = 2_000_000u32;
        let zipfian = Zipfian::new(items);
        let mut random = Random::new(11, 0);
        let mut counts = vec![0u32; items as usize];
        for _ in 0..draws {
            counts[zipfian.rank(random.unit()) as usize] += 1;
        }
        let total = zeta_summed(items);
        let expected = |k: u64| f64::from(draws) / ((k + 1) as f64).powf(THETA) / total;
        // Exact for the first two: within five standard deviations.
        for k in 0..2 {
            let (seen, expected) = (f64::from(counts[k as usize]), expected(k));
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "rank {k}: {seen} against {expected}");
        }
        // Cumulated over decades, the approximation for the others stays within 2 % of all draws.
        for upto in [3u64, 10, 30, 100, 300, 1_000, 3_000, 10_000] {
            let seen: f64 = counts[..upto as usize].iter().map(|&n| f64::from(n)).sum();
            let expected: f64 = (0..upto).map(expected).sum();
            assert!((seen - expected).abs() < 0.02 * f64::from(draws), "first {upto}: {seen} against {expected}");
        }
    }

    #[test]
    fn the_method_is_grays_formula_to_the_rank() {
        // The formula written out once more, without any of the structure above.
        let n = 1_000_000f64;
        let zetan = zeta_summed(1_000_000);
        let zeta2 = 1.0 + 0.5f64.powf(0.99);
        let eta = (1.0 - (2.0 / n).powf(1.0 - 0.99)) / (1.0 - zeta2 / zetan);
        let zipfian = Zipfian::new(1_000_000);
        for step in 0..1_000 {
            let u = f64::from(step) / 1_000.0;
            let expected = if u * zetan < 1.0 {
                0
            } else if u * zetan < zeta2 {
                1
            } else {
                (n * (eta * u - eta + 1.0).powf(1.0 / (1.0 - 0.99))) as u64
            };
            assert!(zipfian.rank(u).abs_diff(expected) <= 1 + expected / 1_000_000, "u {u}");
        }
    }

    #[test]
    fn fnv_is_the_published_one() {
        // From the definition, byte for byte.
        let defined = |value: u64| {
            let hash = value.to_le_bytes().into_iter().fold(14_695_981_039_346_656_037_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
            });
            (hash as i64).unsigned_abs()
        };
        let mut random = Random::new(3, 0);
        for bits in 0..=64u32 {
            for _ in 0..100 {
                let value = random.bits().checked_shr(bits).unwrap_or(0);
                assert_eq!(fnv1a_64(value), defined(value), "{value:#x}");
            }
        }
        assert!(fnv1a_64(u64::MAX) <= i64::MAX as u64 + 1);
        assert_ne!(fnv1a_64(1), fnv1a_64(2));
    }

    #[test]
    fn tiny_spaces_stay_in_bounds() {
        for items in 1..6 {
            let zipfian = Zipfian::new(items);
            for step in 0..1_000 {
                assert!(zipfian.rank(f64::from(step) / 1_000.0) < items);
            }
        }
    }
}
