//! Nanoseconds of one route, key to partition, by hash slots and by ranges, at several numbers of partitions, and past a million
//! pinned keys: `cargo bench --bench route`. One line each: median and spread of nine repetitions over a million different keys of
//! 16 bytes.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use biombo_engine::{Registry, memory};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Store};

const KEYS: u64 = 1_000_000;
const REPETITIONS: usize = 9;

fn main() {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let (keys, others) = (keys(0), keys(KEYS));
    let open = |placement, partitions, dir: &Path| {
        let options = Options::new().engine("memory").partitions(partitions).partitioning(Partitioning::Hard);
        options.placement(placement).open(dir, &registry).expect("a store")
    };
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        for partitions in [1, 8, 64, 1024] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let store = open(placement, partitions, dir.path());
            time(&store, &keys, &format!("{placement} {partitions:4} partitions"));
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(PlacementKind::Hash, 8, dir.path());
    for (at, part) in keys.chunks(KEYS as usize / 8).enumerate() {
        store.move_keys(part, PartitionId(at as u16), Pace::default()).expect("a move");
    }
    let pins = store.placement().pins();
    time(&store, &keys, &format!("hash    8 partitions, {pins} pins, pinned or asked to be"));
    time(&store, &others, &format!("hash    8 partitions, {pins} pins, other keys"));
}

fn keys(from: u64) -> Vec<[u8; 16]> {
    let key = |n: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key[8..].copy_from_slice(&n.to_be_bytes());
        key
    };
    (from..from + KEYS).map(key).collect()
}

fn time(store: &Store, keys: &[[u8; 16]], what: &str) {
    let once = || {
        let begin = Instant::now();
        let sum: u64 = keys.iter().map(|key| u64::from(store.route(black_box(key)).0)).sum();
        black_box(sum);
        begin.elapsed().as_nanos() as f64 / KEYS as f64
    };
    let mut times: Vec<f64> = (0..REPETITIONS).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    let (median, least, most) = (times[REPETITIONS / 2], times[0], times[REPETITIONS - 1]);
    println!("route {what}: {median:5.1} ns ({least:.1}..{most:.1})");
}
