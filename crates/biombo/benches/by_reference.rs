//! YCSB C with each value looked at where it lies, beside the same with each value copied into the reader's buffer: what a copy
//! costs, and who can do without one.
//!
//! Small by default, a trial of itself. To measure:
//!
//! ```text
//! BIOMBO_READ_RECORDS=1000000 BIOMBO_READ_ROUNDS=9 BIOMBO_READ_SECONDS=1.5 cargo bench -p biombo --all-features --bench by_reference
//! ```
//!
//! Records have 16-byte keys in random order and 1,000-byte values; two threads read zipfian ones (0.99) of each engine used
//! directly. Both ways of reading and all engines take turns; every byte of every value is read either way. `BIOMBO_READ_ENGINES`
//! names others, `BIOMBO_READ_DIR` another directory.

mod common;
#[path = "common/draws.rs"]
mod draws;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use biombo::{Durability, Options, Partitioning, Store};

use common::{key, mixed, variable};
use draws::draws;

const VALUE_BYTES: usize = 1_000;
const THREADS: u64 = 2;
/// Records that each thread draws before it is timed; it reads them over and over.
const DRAWS: u64 = 1 << 20;

fn load(engine: &str, dir: &Path, records: u64) -> Store {
    let options = Options::new().engine(engine).partitioning(Partitioning::None).partitions(1).cache_bytes(2 << 30);
    let options = options.durability(Durability::Os).value_bytes(VALUE_BYTES as u32);
    let store = options.open(dir, &biombo::registry()).unwrap_or_else(|e| panic!("open {engine}: {e}"));
    let mut value = [0; VALUE_BYTES];
    for record in 0..records {
        for (i, word) in value.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mixed(record ^ (i as u64) << 40).to_le_bytes());
        }
        store.put_with(&key(record), &value, Durability::Os).expect("put");
    }
    store
}

/// Reads every byte.
fn consume(value: &[u8]) -> u64 {
    value.chunks_exact(8).fold(0, |sum, word| sum ^ u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

/// Reads a second, of all threads together.
fn rate(store: &Store, keys: &[Vec<[u8; 16]>], by_reference: bool, seconds: f64) -> f64 {
    let reader = |keys: &[[u8; 16]]| {
        let (begin, mut buffer, mut sum, mut count) = (Instant::now(), Vec::new(), 0, 0);
        for keys in keys.chunks(256).cycle() {
            for key in keys {
                sum ^= if by_reference {
                    consume(&store.get(key).expect("get").expect("a record"))
                } else {
                    assert!(store.get_into(key, &mut buffer).expect("get"), "a record");
                    consume(&buffer)
                };
            }
            count += keys.len();
            if begin.elapsed() > Duration::from_secs_f64(seconds) {
                break;
            }
        }
        black_box(sum);
        count as f64 / begin.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = keys.iter().map(|keys| scope.spawn(move || reader(keys))).collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader")).sum()
    })
}

fn main() {
    let records: u64 = variable("BIOMBO_READ_RECORDS", "2000").parse().expect("a number of records");
    let rounds: u32 = variable("BIOMBO_READ_ROUNDS", "1").parse().expect("a number of rounds");
    let seconds: f64 = variable("BIOMBO_READ_SECONDS", "0.05").parse().expect("a time in seconds");
    let home = tempfile::tempdir_in(variable("BIOMBO_READ_DIR", &std::env::temp_dir().to_string_lossy()))
        .expect("a directory");
    let registry = biombo::registry();
    let names = variable("BIOMBO_READ_ENGINES", "log,lmdb");
    let names: Vec<&str> = names.split(',').filter(|engine| registry.get(engine).is_ok()).collect();
    let stores: Vec<Store> = names.iter().map(|engine| load(engine, &home.path().join(engine), records)).collect();
    let keys: Vec<Vec<_>> = (0..THREADS).map(|thread| draws(records, DRAWS, thread).map(key).collect()).collect();
    let mut rates = vec![Vec::new(); 2 * names.len()];
    for _ in 0..rounds {
        for (i, rates) in rates.iter_mut().enumerate() {
            rates.push(rate(&stores[i / 2], &keys, i % 2 == 0, seconds));
        }
    }
    println!(
        "C, {THREADS} threads, {records} records: million reads a second, median of {rounds} rounds (least..most)"
    );
    for (i, rates) in rates.iter_mut().enumerate() {
        rates.sort_by(f64::total_cmp);
        let of = |i: usize| rates[i] / 1e6;
        let way = if i % 2 == 0 { "by reference" } else { "copied" };
        println!("{:12} {way:12} {:.3} ({:.3}..{:.3})", names[i / 2], of(rates.len() / 2), of(0), of(rates.len() - 1));
    }
}
