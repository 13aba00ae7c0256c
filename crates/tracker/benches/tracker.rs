//! What tracking costs those who access, and how right it is: `cargo bench -p biombo-tracker --bench tracker`.
//!
//! Cost: nanoseconds that one access has more than the same loop without a tracker; the median of nine interleaved pairs.
//! Accuracy: log-uniform keys (rank r with weight 1/r), sampled, against exact counts.

#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use biombo_tracker::{Limits, Rates, Tracker, Window};

const ACCESSES: u64 = 4_000_000;
const PAIRS: usize = 9;

fn main() {
    // `cargo test --benches` asks for nothing.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!("{:<44} {:>10} {:>10}", "cost", "ns", "lost");
    for (name, every, group) in [
        ("read of a key, 1 in 64", 64, 1),
        ("read of a key, 1 in 8", 8, 1),
        ("write of 10 keys, 1 in 8", 8, 10),
        ("write of 10 keys, 1 in 2, as a store samples", 2, 10),
        ("write of 10 keys, 1 in 1", 1, 10),
    ] {
        let (ns, lost) = cost(every, group);
        println!("{name:<44} {ns:>10.2} {lost:>10}");
    }
    println!(
        "\n{:<44} {:>10} {:>10} {:>10} {:>10}",
        "accuracy: 10 M reads of 1 M keys", "1 in 8", "1 in 64", "1 in 256", "in a store"
    );
    // The table of a store that repartitions itself is smaller.
    let in_store = Limits { half_life_ns: 3_000_000_000, keys_max: 1 << 16, ..Limits::default() };
    let rates = [8, 64, 256].map(|every| (every, Limits::default()));
    let found: Vec<_> =
        rates.into_iter().chain([(64, in_store)]).map(|(every, limits)| accuracy(every, limits)).collect();
    for (row, name) in ["hot 100, mean error", "hot 1000, mean error", "units (4096), mean error"].iter().enumerate() {
        print!("{name:<44}");
        found.iter().for_each(|column| print!(" {:>9.1}%", column[row] * 100.0));
        println!();
    }
}

fn keys() -> Vec<Vec<u8>> {
    (0..1000u64).map(|n| format!("user{n:020}").into_bytes()).collect()
}

/// Nanoseconds of an access, and how many samples were lost. The rings are drained between stretches that fit into them, off the clock: a
/// loop that does nothing else would fill them thousands of times faster than a store that works between its accesses.
fn cost(every: u32, group: usize) -> (f64, u64) {
    let keys = keys();
    let tracker = Tracker::new(Rates { singles: every, groups: every, ..Rates::default() });
    let mut window = Window::new(Limits::default());
    let mut lost = 0;
    let stretch = 64 * u64::from(every);
    let stretches = ACCESSES / group as u64 / stretch;
    let mut time = |tracked: bool| {
        let mut spent = Duration::ZERO;
        for at in 0..stretches {
            let begun = Instant::now();
            for i in at * stretch..(at + 1) * stretch {
                let at = (i * 7) as usize % (keys.len() - group);
                let slice = black_box(&keys[at..at + group]);
                if tracked && group == 1 {
                    tracker.read(&slice[0]);
                } else if tracked {
                    tracker.write_group(group, || slice.iter().map(Vec::as_slice));
                }
            }
            spent += begun.elapsed();
            lost += tracker.drain(|sample| window.note(sample, |key| u32::from(key[key.len() - 1]))).lost;
        }
        spent.as_nanos() as f64 / (stretches * stretch) as f64
    };
    let mut more: Vec<f64> =
        (0..PAIRS).map(|_| (time(false), time(true))).map(|(without, with)| with - without).collect();
    more.sort_by(f64::total_cmp);
    (more[PAIRS / 2], lost)
}

/// Mean relative errors of the hottest hundred and thousand keys, and of all units: of all 10 M accesses, as if no time passed.
fn accuracy(every: u32, limits: Limits) -> [f64; 3] {
    const KEYS: f64 = 1e6;
    let tracker = Tracker::new(Rates { singles: every, ring_bytes: 1 << 20, ..Rates::default() });
    let mut window = Window::new(limits);
    let mut random = fastrand::Rng::with_seed(5);
    let unit = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u32;
    let (mut keys, mut units) = (HashMap::new(), HashMap::new());
    for i in 0..10_000_000u32 {
        let n = KEYS.powf(random.f64()) as u64;
        *keys.entry(n).or_insert(0u64) += 1;
        *units.entry(unit(n)).or_insert(0u64) += 1;
        tracker.read(&n.to_be_bytes());
        if i % 10_000 == 0 {
            tracker.drain(|sample| window.note(sample, |key| unit(u64::from_be_bytes(key.try_into().unwrap()))));
        }
    }
    let known: HashMap<u64, f64> =
        window.keys().map(|k| (u64::from_be_bytes(k.key.try_into().unwrap()), k.load.reads)).collect();
    let known_units: HashMap<u32, f64> = window.units().map(|(unit, load)| (unit, load.reads)).collect();
    let error = |truth: u64, found: f64| (found - truth as f64).abs() / truth as f64;
    let mut hottest: Vec<(u64, u64)> = keys.into_iter().collect();
    hottest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mean = |count: usize| {
        let errors = hottest[..count].iter().map(|(n, count)| error(*count, known.get(n).copied().unwrap_or(0.0)));
        errors.sum::<f64>() / count as f64
    };
    let of_units = units.iter().map(|(unit, count)| error(*count, known_units.get(unit).copied().unwrap_or(0.0)));
    [mean(100), mean(1000), of_units.sum::<f64>() / units.len() as f64]
}
