//! What it costs a store to be watched: one that takes samples of all that is done to it and plans nothing (there is an hour between two plans),
//! beside one that does not repartition itself.
//!
//! Small by default, a trial of itself. To measure:
//!
//! ```text
//! BIOMBO_WATCH_RECORDS=50000 BIOMBO_WATCH_ROUNDS=9 BIOMBO_WATCH_SLICES=40 cargo bench -p biombo --all-features --bench watching
//! ```
//!
//! Two stores of eight hard partitions with the same records (16-byte keys, 1,000-byte values) take turns in one process, a slice of 50 ms each, so that
//! the machine's moods meet both. In the next slices the other one goes first; in each round both are made anew, the other one first: where their
//! memory lies is chance, too. Two threads do A (half reads, half updates at `os`) and C (reads alone) on zipfian records (0.99), and atomic batches of ten
//! that lie apart (nine of ten over 50 hot groups), and time nothing but the slice. `BIOMBO_WATCH_ENGINES` names others than log and lmdb, `BIOMBO_WATCH_DIR` another directory.

mod common;
#[path = "common/draws.rs"]
mod draws;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use biombo::{Batch, Durability, Options, Partitioning, Repartition, Store};

use common::{key, mixed, variable};
use draws::draws;

const VALUE_BYTES: usize = 1_000;
const THREADS: u64 = 2;
const SLICE: Duration = Duration::from_millis(50);
/// Records that each thread draws before anything is timed; it goes over them again and again.
const DRAWS: usize = 240_000;
/// So many of them between two looks at the clock.
const STRETCH: usize = 60;
const GROUP: usize = 10;

#[derive(Clone, Copy, PartialEq)]
enum Work {
    A,
    C,
    Batches,
}

const WORKS: [(Work, &str); 3] = [(Work::A, "A"), (Work::C, "C"), (Work::Batches, "batches")];

fn load(engine: &str, dir: &Path, records: u64, is_watched: bool) -> Store {
    let hour = Repartition::every(Duration::from_secs(3600)).expect("an hour");
    let options = Options::new().engine(engine).partitioning(Partitioning::Hard).partitions(8).cache_bytes(2 << 30);
    let options = options.durability(Durability::Os).value_bytes(VALUE_BYTES as u32);
    let options = options.repartition(if is_watched { hour } else { Repartition::Off });
    let store = options.open(dir, &biombo::registry()).unwrap_or_else(|e| panic!("open {engine}: {e}"));
    for record in 0..records {
        store.put_with(&key(record), &[record as u8; VALUE_BYTES], Durability::Os).expect("put");
    }
    store
}

/// The keys of groups, one group after another.
fn groups(records: u64, thread: u64) -> Vec<[u8; 16]> {
    let count = records / GROUP as u64;
    let group = |i: u64| match mixed(i ^ thread << 50) {
        cold if cold % 10 == 0 => cold / 10 % count,
        hot => hot / 10 % 50.min(count),
    };
    (0..(DRAWS / GROUP) as u64)
        .map(group)
        .flat_map(|group| (0..GROUP as u64).map(move |i| key(group * GROUP as u64 + i)))
        .collect()
}

/// Operations a second of all threads together, in one slice that begins somewhere.
fn slice(store: &Store, keys: &[Vec<[u8; 16]>], work: Work, number: usize) -> f64 {
    let user = |keys: &[[u8; 16]]| {
        let (mut buffer, value, mut count, mut sum) = (Vec::new(), [number as u8; VALUE_BYTES], 0_usize, 0);
        let mut batch = Batch::new();
        let begun = Instant::now();
        for keys in keys.chunks(STRETCH).cycle().skip(number * 97 % (DRAWS / STRETCH)) {
            if work == Work::Batches {
                for group in keys.chunks(GROUP) {
                    batch.clear();
                    for key in group {
                        batch.put(key, &value);
                    }
                    store.write_with(&batch, Durability::Os).expect("a batch");
                    count += 1;
                }
            } else {
                for (i, key) in keys.iter().enumerate() {
                    if work == Work::A && i % 2 == 1 {
                        store.put_with(key, &value, Durability::Os).expect("put");
                    } else {
                        assert!(store.get_into(key, &mut buffer).expect("get"), "a record");
                        sum += usize::from(buffer[VALUE_BYTES / 2]);
                    }
                }
                count += keys.len();
            }
            if begun.elapsed() >= SLICE {
                break;
            }
        }
        black_box(sum);
        count as f64 / begun.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let users: Vec<_> = keys.iter().map(|keys| scope.spawn(move || user(keys))).collect();
        users.into_iter().map(|user| user.join().expect("a user")).sum()
    })
}

fn main() {
    let records: u64 = variable("BIOMBO_WATCH_RECORDS", "2000").parse().expect("a number of records");
    let rounds: usize = variable("BIOMBO_WATCH_ROUNDS", "1").parse().expect("a number of rounds");
    assert!(rounds > 0, "BIOMBO_WATCH_ROUNDS is from 1");
    let slices: usize = variable("BIOMBO_WATCH_SLICES", "2").parse().expect("a number of slices");
    let home = tempfile::tempdir_in(variable("BIOMBO_WATCH_DIR", &std::env::temp_dir().to_string_lossy()))
        .expect("a directory");
    let registry = biombo::registry();
    let names = variable("BIOMBO_WATCH_ENGINES", "log,lmdb");
    let singles: Vec<Vec<_>> =
        (0..THREADS).map(|thread| draws(records, DRAWS as u64, thread).map(key).collect()).collect();
    let grouped: Vec<_> = (0..THREADS).map(|thread| groups(records, thread)).collect();
    println!(
        "watched by not, {THREADS} threads, {records} records, os: {rounds} rounds of {slices} slices each; the second least and the second largest\n\
         ratio of nine rounds enclose their median in 96 of 100 cases"
    );
    for engine in names.split(',').filter(|engine| registry.get(engine).is_ok()) {
        let (mut ratios, mut rates) = (WORKS.map(|_| Vec::new()), WORKS.map(|_| Vec::new()));
        for round in 0..rounds {
            let dirs = [false, true].map(|is_watched| home.path().join(format!("{engine}-{round}-{is_watched}")));
            let mut stores = [None, None];
            for which in [round % 2, 1 - round % 2] {
                stores[which] = Some(load(engine, &dirs[which], records, which == 1));
            }
            let stores = stores.map(|store| store.expect("both are loaded"));
            for (workload, (work, _)) in WORKS.into_iter().enumerate() {
                let keys = if work == Work::Batches { &grouped } else { &singles };
                let mut sums = [0.0, 0.0];
                for number in 0..slices {
                    for which in [number % 2, 1 - number % 2] {
                        sums[which] += slice(&stores[which], keys, work, number);
                    }
                }
                rates[workload].push(sums[0] / slices as f64);
                ratios[workload].push(sums[1] / sums[0]);
            }
            drop(stores);
            for dir in dirs {
                std::fs::remove_dir_all(&dir).expect("remove a store");
            }
        }
        for (workload, (_, name)) in WORKS.into_iter().enumerate() {
            let (ratios, rates) = (&mut ratios[workload], &mut rates[workload]);
            ratios.sort_by(f64::total_cmp);
            rates.sort_by(f64::total_cmp);
            let (middle, last) = (ratios.len() / 2, ratios.len() - 1);
            let outer = usize::from(last > 2);
            let (low, high) = (ratios[outer], ratios[last - outer]);
            println!(
                "{engine:12} {name:8} {:.3} M/s not watched   x {:.3} [{low:.3}, {high:.3}]",
                rates[middle] / 1e6,
                ratios[middle]
            );
        }
    }
}
