//! Nanoseconds of one route, key to partition, by hash slots and by ranges, at several numbers of partitions: `cargo bench
//! --bench route`. One line each: median and spread of nine repetitions over a million different keys of 16 bytes.

use std::hint::black_box;
use std::time::Instant;

use biombo_engine::{Registry, memory};
use biombo_store::{Options, Partitioning, PlacementKind};

const KEYS: u64 = 1_000_000;
const REPETITIONS: usize = 9;

fn main() {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let keys: Vec<[u8; 16]> = (0..KEYS)
        .map(|n| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            key[8..].copy_from_slice(&n.to_be_bytes());
            key
        })
        .collect();
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        for partitions in [1, 8, 64, 1024] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let store = Options::new()
                .engine("memory")
                .partitions(partitions)
                .partitioning(Partitioning::Hard)
                .placement(placement)
                .open(dir.path(), &registry)
                .expect("a store");
            let mut times: Vec<f64> = (0..REPETITIONS)
                .map(|_| {
                    let begin = Instant::now();
                    let sum: u64 = keys.iter().map(|key| u64::from(store.route(black_box(key)).0)).sum();
                    black_box(sum);
                    begin.elapsed().as_nanos() as f64 / KEYS as f64
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let (median, least, most) = (times[REPETITIONS / 2], times[0], times[REPETITIONS - 1]);
            println!("route {placement} {partitions:4} partitions: {median:5.1} ns ({least:.1}..{most:.1})");
        }
    }
}
