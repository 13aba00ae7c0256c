//! Which record an operation is for.
//!
//! A choice has two steps: a *draw*, which holds all the costly arithmetic and can be made ahead, and its *resolution*
//! against the records that exist at the moment of the operation.

use super::core::SHIFT_PERIOD_SECONDS;
use super::shift::clock::period_at;
use super::shift::hot::Jumps;
use super::zipfian::{SCRAMBLED_ITEMS, Zipfian, fnv1a_64};
use super::{Distribution, Random};

/// YCSB's `hotspotdatafraction` and `hotspotopnfraction`.
const HOTSPOT_DATA: f64 = 0.2;
const HOTSPOT_OPERATIONS: f64 = 0.8;

/// Chooses records by a distribution.
#[derive(Debug, Clone)]
pub struct Chooser {
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    // The space is YCSB's: the records loaded, one more, and twice the inserts to expect, so that the modulus and with it
    // the popular records stay the same while records are added. A number that does not exist yet is drawn again.
    Scrambled { zipfian: Zipfian, space: u64 },
    Uniform { records: u64 },
    // Over the acknowledged records, from the newest backwards. As in YCSB record 0 is never the one.
    Latest { zipfian: Zipfian },
    Hotspot { hot: u64, records: u64 },
    // As scrambled, the numbers moved on around the space in every period.
    Shifting { zipfian: Zipfian, space: u64, jumps: Jumps },
}

/// How long popular records stay popular.
const PERIOD_NS: u64 = (SHIFT_PERIOD_SECONDS * 1e9) as u64;

impl Chooser {
    /// By `distribution`, over `records` loaded ones (at least 1) and `inserts` that are to be expected in the run.
    pub fn new(distribution: Distribution, records: u64, inserts: u64) -> Self {
        let records = records.max(1);
        let how = match distribution {
            Distribution::Zipfian => {
                How::Scrambled { zipfian: Zipfian::new(SCRAMBLED_ITEMS), space: records + 1 + 2 * inserts }
            }
            Distribution::Uniform => How::Uniform { records },
            Distribution::Latest => How::Latest { zipfian: Zipfian::new((records - 1).max(1)) },
            Distribution::Hotspot => How::Hotspot { hot: (records as f64 * HOTSPOT_DATA) as u64, records },
            // Which records are popular does not depend on the seed, as in zipfian.
            Distribution::Shift => {
                let space = records + 1 + 2 * inserts;
                How::Shifting { zipfian: Zipfian::new(SCRAMBLED_ITEMS), space, jumps: Jumps::new(0, 1, space) }
            }
        };
        Self { how }
    }

    /// Take in that the records `0..end` exist. Cheap; call it before a group of draws.
    pub fn grow(&mut self, end: u64) {
        if let How::Latest { zipfian } = &mut self.how {
            zipfian.grow(end.saturating_sub(1));
        }
    }

    /// The costly part.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.how {
            How::Scrambled { zipfian, space } | How::Shifting { zipfian, space, .. } => {
                fnv1a_64(zipfian.rank(random.unit())) % space
            }
            How::Uniform { records } => random.below(*records),
            How::Latest { zipfian } => zipfian.rank(random.unit()),
            How::Hotspot { hot, records } => {
                let cold = records - hot;
                if *hot > 0 && random.unit() < HOTSPOT_OPERATIONS {
                    random.below(*hot)
                } else {
                    hot + random.below(cold.max(1))
                }
            }
        }
    }

    /// The record for `draw` when `0..end` exist, `at_ns` after the run phase began; `spare` draws again where the draw names none
    /// of them.
    #[inline]
    pub fn resolve(&self, mut draw: u64, end: u64, at_ns: u64, spare: &mut Random) -> u64 {
        match &self.how {
            How::Scrambled { .. } => {
                while draw >= end {
                    draw = self.draw(spare);
                }
                draw
            }
            How::Shifting { space, jumps, .. } => loop {
                let number = (draw + jumps.start(period_at(PERIOD_NS, at_ns))) % space;
                if number < end {
                    break number;
                }
                draw = self.draw(spare);
            },
            How::Latest { .. } => (end - 1).saturating_sub(draw),
            How::Uniform { .. } | How::Hotspot { .. } => draw,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::zipfian::THETA;

    fn counts(chooser: &Chooser, records: u64, draws: u32) -> Vec<u32> {
        let (mut random, mut spare) = (Random::new(5, 0), Random::new(5, 1));
        let mut counts = vec![0u32; records as usize];
        for _ in 0..draws {
            let draw = chooser.draw(&mut random);
            counts[chooser.resolve(draw, records, 0, &mut spare) as usize] += 1;
        }
        counts
    }

    /// The share that each record should get, computed from the definition alone: every rank's probability goes to the
    /// record that its hash names; ranks past the first two million are spread evenly.
    fn scrambled_shares(records: u64, space: u64) -> Vec<f64> {
        let zetan = 26.469_028_201_783_02_f64;
        let eta = (1.0 - (2.0 / 1e10_f64).powf(0.01)) / (1.0 - (1.0 + 0.5f64.powf(THETA)) / zetan);
        // The chance that Gray's method gives a rank below k: the inverse of its formula.
        let below = |k: u64| match k {
            0 => 0.0,
            1 => 1.0 / zetan,
            2 => (1.0 + 0.5f64.powf(THETA)) / zetan,
            k => 1.0 - (1.0 - (k as f64 / 1e10).powf(0.01)) / eta,
        };
        let mut shares = vec![0.0; space as usize];
        let summed = 2_000_000u64;
        for rank in 0..summed {
            shares[(fnv1a_64(rank) % space) as usize] += (below(rank + 1) - below(rank)).max(0.0);
        }
        let rest = 1.0 - below(summed);
        shares.iter_mut().for_each(|share| *share += rest / space as f64);
        let existing: f64 = shares[..records as usize].iter().sum();
        shares.truncate(records as usize);
        shares.iter_mut().for_each(|share| *share /= existing);
        shares
    }

    #[test]
    fn scrambled_zipfian_frequencies_agree_with_the_definition() {
        for (records, inserts) in [(1_000u64, 0u64), (1_000, 400)] {
            let chooser = Chooser::new(Distribution::Zipfian, records, inserts);
            let draws = 1_000_000u32;
            let counts = counts(&chooser, records, draws);
            let shares = scrambled_shares(records, records + 1 + 2 * inserts);
            let chi: f64 = counts
                .iter()
                .zip(&shares)
                .map(|(&seen, share)| (f64::from(seen) - share * f64::from(draws)).powi(2) / (share * f64::from(draws)))
                .sum();
            // 999 degrees of freedom: mean 999, deviation 45.
            assert!(chi < 1_250.0, "chi-square {chi} over {records} records");
            let top = counts.iter().max().copied().unwrap_or(0);
            assert!((f64::from(top) / f64::from(draws) - 1.0 / 26.469).abs() < 0.003, "the most popular: {top}");
        }
    }

    #[test]
    fn latest_prefers_the_newest_by_the_zipfian_formula_and_follows_inserts() {
        let records = 10_001u64;
        let mut chooser = Chooser::new(Distribution::Latest, records, 0);
        let draws = 1_000_000u32;
        let seen = counts(&chooser, records, draws);
        let zeta: f64 = (1..records).map(|i| (i as f64).powf(-THETA)).sum();
        for age in 0..2u64 {
            let expected = f64::from(draws) / ((age + 1) as f64).powf(THETA) / zeta;
            let seen = f64::from(seen[(records - 1 - age) as usize]);
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "age {age}: {seen} against {expected}");
        }
        let newest: u32 = seen[(records - 100) as usize..].iter().sum();
        let expected: f64 = (1..=100).map(|i| f64::from(i).powf(-THETA)).sum::<f64>() / zeta;
        assert!((f64::from(newest) / f64::from(draws) - expected).abs() < 0.02);
        chooser.grow(20_000);
        let (mut random, mut spare) = (Random::new(1, 1), Random::new(1, 2));
        let drawn: Vec<_> = (0..10_000)
            .map(|_| {
                let draw = chooser.draw(&mut random);
                chooser.resolve(draw, 20_000, 0, &mut spare)
            })
            .collect();
        assert!(drawn.contains(&19_999) && drawn.iter().any(|&n| n < 10_000));
    }

    #[test]
    fn uniform_and_hotspot_agree_with_their_definitions() {
        let seen = counts(&Chooser::new(Distribution::Uniform, 100, 0), 100, 1_000_000);
        let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 148.2, "uniform: chi-square {chi} with 99 degrees of freedom");
        let seen = counts(&Chooser::new(Distribution::Hotspot, 1_000, 0), 1_000, 1_000_000);
        let hot: u32 = seen[..200].iter().sum();
        assert!((f64::from(hot) / 1e6 - 0.8).abs() < 0.003, "{hot} of a million in the hot fifth");
        assert!(seen.iter().all(|&n| n > 0));
    }

    #[test]
    fn a_shifting_zipfian_has_other_popular_records_in_every_period_and_the_same_within_one() {
        let (records, draws) = (1_000u64, 300_000);
        let chooser = Chooser::new(Distribution::Shift, records, 0);
        let popular = |at_ns| {
            let (mut random, mut spare) = (Random::new(5, 0), Random::new(5, 1));
            let mut counts = vec![0u32; records as usize];
            for _ in 0..draws {
                let draw = chooser.draw(&mut random);
                counts[chooser.resolve(draw, records, at_ns, &mut spare) as usize] += 1;
            }
            let top = (0..counts.len()).max_by_key(|i| counts[*i]).unwrap();
            let share = f64::from(counts[top]) / f64::from(draws);
            assert!((share - 1.0 / 26.469).abs() < 0.003, "the most popular: {share}");
            top
        };
        assert_eq!(popular(0), popular(4_999_999_999));
        assert_ne!(popular(0), popular(5_000_000_000));
        assert_ne!(popular(5_000_000_000), popular(10_000_000_000));
    }

    #[test]
    fn a_single_record_is_always_the_one() {
        for distribution in Distribution::ALL {
            assert_eq!(counts(&Chooser::new(distribution, 1, 0), 1, 1_000), [1_000]);
        }
    }
}
