//! Which records are hot: a window of numbers that jumps or moves on from period to period.

use crate::workload::Random;
use crate::workload::random::mix64;

/// Tells these draws from those of the clients' operations.
const SALT: u64 = 0x5348_4946_5453_2121;

/// `bits`, uniform over all 64-bit numbers, scaled to `0..bound` (`bound` at least 1).
#[inline]
pub fn scale(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// Random numbers that all threads of a run share: those of `stream` under `seed`.
pub fn shared_random(seed: u64, stream: u64) -> Random {
    Random::new(mix64(seed ^ SALT), stream)
}

/// The first hot record of each period: one step further, by a step that is drawn once. No two periods in a row share a hot record as
/// long as no more than half of the records are hot.
#[derive(Debug, Clone, Copy)]
pub struct Jumps {
    base: u64,
    step: u64,
    records: u64,
}

impl Jumps {
    /// Of `hot` among `records` records (at least 1).
    pub fn new(seed: u64, hot: u64, records: u64) -> Self {
        let mut random = shared_random(seed, 0);
        let base = random.below(records);
        // From `hot` to `records - hot`, both included.
        let step = if 2 * hot <= records { hot + random.below(records - 2 * hot + 1) } else { records / 2 };
        Self { base, step: step % records, records }
    }

    /// The first hot record of `period`.
    #[inline]
    pub fn start(&self, period: u64) -> u64 {
        let here = u128::from(self.base) + u128::from(self.step) * u128::from(period);
        (here % u128::from(self.records)) as u64
    }
}

/// The first hot record of `period` where the range of `hot` records moves on by its own length, and begins anew past the last.
#[inline]
pub fn rotated(period: u64, hot: u64, records: u64) -> u64 {
    (period % records.div_ceil(hot)) * hot
}

/// The hot records `start..start + hot`, which go on with 0 after the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub start: u64,
    /// How many.
    pub hot: u64,
    /// Of how many in all.
    pub records: u64,
}

impl Window {
    /// A record for `bits`, which are uniform: one of the hot ones, or one of the others (of the hot ones where there are no others).
    #[inline]
    pub fn choose(&self, hot: bool, bits: u64) -> u64 {
        let cold = self.records - self.hot;
        let offset = if hot || cold == 0 { scale(bits, self.hot) } else { self.hot + scale(bits, cold) };
        let number = self.start + offset;
        if number >= self.records { number - self.records } else { number }
    }

    /// Whether `record` is hot.
    pub fn holds(&self, record: u64) -> bool {
        (record + self.records - self.start) % self.records < self.hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_in_a_row_share_no_hot_record() {
        for (hot, records) in [(1u64, 2u64), (1, 1_000), (10, 1_000), (500, 1_000), (333, 1_000), (7, 1_000_003)] {
            for seed in 0..20 {
                let jumps = Jumps::new(seed, hot, records);
                let window = |period| Window { start: jumps.start(period), hot, records };
                for period in 0..50 {
                    let (here, next) = (window(period), window(period + 1));
                    let shared = (0..hot).filter(|i| next.holds((here.start + i) % records)).count();
                    assert_eq!(shared, 0, "{hot} of {records}, seed {seed}, period {period}");
                }
            }
        }
        let starts = |seed| (0..20).map(|period| Jumps::new(seed, 10, 100_000).start(period)).collect::<Vec<_>>();
        assert!(starts(1) == starts(1) && starts(1) != starts(2));
    }

    #[test]
    fn a_range_moves_on_by_its_length_and_begins_anew() {
        let starts: Vec<_> = (0..6).map(|period| rotated(period, 30, 100)).collect();
        assert_eq!(starts, [0, 30, 60, 90, 0, 30]);
        assert_eq!(rotated(5, 100, 100), 0);
    }

    #[test]
    fn a_window_gives_each_of_its_records_and_each_of_the_others_alike() {
        let window = Window { start: 90, hot: 20, records: 100 };
        let mut random = Random::new(1, 1);
        for hot in [true, false] {
            let mut counts = [0u32; 100];
            (0..200_000).for_each(|_| counts[window.choose(hot, random.bits()) as usize] += 1);
            let members: Vec<u64> = (0..100).filter(|record| window.holds(*record) == hot).collect();
            assert_eq!(members.len(), if hot { 20 } else { 80 });
            let expected = 200_000.0 / members.len() as f64;
            let chi: f64 = members.iter().map(|r| (f64::from(counts[*r as usize]) - expected).powi(2) / expected).sum();
            // 79 degrees of freedom at most: 130 is passed three times in ten thousand; the seed is fixed.
            assert!(chi < 130.0, "hot {hot}: chi-square {chi}");
            let inside: u32 = members.iter().map(|r| counts[*r as usize]).sum();
            assert_eq!(inside, 200_000, "all draws are {} the window", if hot { "in" } else { "outside" });
        }
        let all = Window { start: 3, hot: 5, records: 5 };
        assert!((0..100).all(|i| all.choose(false, i << 57) < 5), "where all are hot there are no others");
    }
}
