//! db_bench's benchmarks, as LevelDB and RocksDB define them.
//!
//! LevelDB `benchmarks/db_bench.cc`, RocksDB `tools/db_bench_tool.cc`. There are N keys, the numbers `0..N`:
//!
//! - `fillseq` puts them in order into an empty store, `fillrandom` puts random ones of them, drawn with replacement (so that
//!   about a third is missing at the end of N puts);
//! - `overwrite` puts random ones over a loaded store;
//! - `readseq` reads in the order of keys from the first one, `readrandom` gets random ones;
//! - `readwhilewriting` is `readrandom` by all threads, with one more thread that puts random ones for as long as they read.
//!   Throughput is the readers'.
//!
//! Where threads are many, db_bench gives each its own N operations. Here the operations are those of all together, as in
//! every other bench: `fillseq` hands the numbers out to the threads in order.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use biombo_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{OpKind, Random};

/// One of db_bench's benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// Put every key in order.
    FillSeq,
    /// Put random keys.
    FillRandom,
    /// Put random keys that are there.
    Overwrite,
    /// Read in order.
    ReadSeq,
    /// Get random keys.
    ReadRandom,
    /// Get random keys while one more thread puts some.
    ReadWhileWriting,
}

impl Benchmark {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FillSeq, Self::FillRandom, Self::Overwrite, Self::ReadSeq, Self::ReadRandom, Self::ReadWhileWriting];

    /// The name in options, records and reports, which is db_bench's.
    pub fn name(self) -> &'static str {
        match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::ReadSeq => "readseq",
            Self::ReadRandom => "readrandom",
            Self::ReadWhileWriting => "readwhilewriting",
        }
    }

    /// What it does, for people.
    pub fn summary(self) -> &'static str {
        match self {
            Self::FillSeq => "puts every key in order into an empty store",
            Self::FillRandom => "puts random keys into an empty store",
            Self::Overwrite => "puts random keys over a loaded store",
            Self::ReadSeq => "reads a loaded store in order",
            Self::ReadRandom => "gets random keys of a loaded store",
            Self::ReadWhileWriting => "gets random keys of a loaded store while one more thread puts some",
        }
    }

    /// What its clients do.
    pub fn kind(self) -> OpKind {
        match self {
            Self::FillSeq | Self::FillRandom => OpKind::Insert,
            Self::Overwrite => OpKind::Update,
            Self::ReadSeq | Self::ReadRandom | Self::ReadWhileWriting => OpKind::Read,
        }
    }

    /// Whether keys are taken in their order; at random otherwise.
    pub fn in_order(self) -> bool {
        matches!(self, Self::FillSeq | Self::ReadSeq)
    }

    /// Whether it begins with an empty store; over all keys, loaded before, otherwise.
    pub fn fills(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Benchmark {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|benchmark| benchmark.name() == name).ok_or_else(|| {
            Error::invalid(format!("benchmark `{name}` is none of {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// The key numbers of one client thread.
#[derive(Debug, Clone)]
pub enum Numbers {
    /// The next one of all threads together; after the last one the first again.
    InOrder,
    /// Each equally likely, whatever was drawn before.
    Uniform(Random),
}

impl Numbers {
    /// Of `thread` under `seed`.
    pub fn new(benchmark: Benchmark, seed: u64, thread: u32) -> Self {
        if benchmark.in_order() { Self::InOrder } else { Self::Uniform(Random::new(seed, 2 * u64::from(thread))) }
    }

    /// The next of the numbers `0..records`; `turn` is shared by all threads.
    #[inline]
    pub fn next(&mut self, records: u64, turn: &AtomicU64) -> u64 {
        match self {
            Self::InOrder => turn.fetch_add(1, Ordering::Relaxed) % records,
            Self::Uniform(random) => random.below(records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(benchmark: Benchmark, seed: u64, thread: u32, records: u64, count: usize) -> Vec<u64> {
        let (mut numbers, turn) = (Numbers::new(benchmark, seed, thread), AtomicU64::new(0));
        (0..count).map(|_| numbers.next(records, &turn)).collect()
    }

    #[test]
    fn fillseq_takes_every_key_once_in_order_and_then_begins_anew() {
        let numbers = take(Benchmark::FillSeq, 1, 0, 1_000, 2_500);
        assert!(numbers.iter().enumerate().all(|(i, number)| *number == i as u64 % 1_000));
        // Threads share the order: what one has taken no other takes.
        let (turn, benchmark) = (AtomicU64::new(0), Benchmark::FillSeq);
        let (mut a, mut b) = (Numbers::new(benchmark, 1, 0), Numbers::new(benchmark, 1, 1));
        let taken = [a.next(9, &turn), b.next(9, &turn), b.next(9, &turn), a.next(9, &turn)];
        assert_eq!(taken, [0, 1, 2, 3]);
    }

    #[test]
    fn random_benchmarks_draw_uniformly_with_replacement() {
        for benchmark in Benchmark::ALL.into_iter().filter(|benchmark| !benchmark.in_order()) {
            let numbers = take(benchmark, 1, 0, 100, 1_000_000);
            let mut counts = [0u32; 100];
            numbers.iter().for_each(|number| counts[*number as usize] += 1);
            let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
            assert!(chi < 148.2, "{benchmark}: chi-square {chi} with 99 degrees of freedom");
            // N draws from N keys leave out (1 - 1/N)^N, which is 1/e of them: a shuffle would leave out none.
            let drawn: std::collections::BTreeSet<_> = take(benchmark, 1, 0, 100_000, 100_000).into_iter().collect();
            let missing = 1.0 - drawn.len() as f64 / 100_000.0;
            assert!((missing - (-1.0f64).exp()).abs() < 0.005, "{benchmark}: {missing} are missing");
        }
    }

    #[test]
    fn draws_are_set_by_seed_and_thread() {
        let of = |seed, thread| take(Benchmark::ReadRandom, seed, thread, 1_000_000, 100);
        assert_eq!(of(1, 0), of(1, 0));
        assert!(of(1, 0) != of(1, 1) && of(1, 0) != of(2, 0));
    }

    #[test]
    fn names_are_those_of_db_bench() {
        for benchmark in Benchmark::ALL {
            assert_eq!(benchmark.name().parse::<Benchmark>().unwrap(), benchmark);
        }
        assert!("readmissing".parse::<Benchmark>().is_err_and(|e| e.to_string().contains("readwhilewriting")));
    }
}
