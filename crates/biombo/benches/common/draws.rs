//! Zipfian draws of records, made before anything is timed.

use super::common::mixed;

/// `count` records of `records`, for one thread: zipfian by rank (0.99), ranks spread over all records.
pub fn draws(records: u64, count: u64, thread: u64) -> impl Iterator<Item = u64> {
    let mut sum = 0.0;
    let mut until = Vec::new();
    for rank in 1..=records {
        sum += (rank as f64).powf(-0.99);
        until.push(sum);
    }
    let uniform = |i: u64| (mixed(i) >> 11) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(move |i| until.partition_point(|until| *until < uniform(i ^ thread << 50) * sum) as u64)
        .map(move |rank| mixed(rank) % records)
}
