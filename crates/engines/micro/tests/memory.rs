//! What an engine says that its memory takes is what it takes, by the kernel's count: otherwise data of four times the cache would be of
//! less. Each case is a process of its own, because the kernel counts for the whole process.
//!
//! They fail where entries of a memtable count as their bytes in a table, where blocks or pages are kept in aligned buffers (which take
//! twice their bytes), and where filters are not taken out of the cache.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use biombo_base::io::RealIo;
use biombo_engine::{Durability, Engine, EngineKind, Op, OpenOptions};
use biombo_micro::Behaviour::Honest;
use biombo_micro::{btree, lsm};

/// Set in the process of one case.
const ALONE: &str = "BIOMBO_MEMORY_ALONE";

/// Do `work` in a process of its own: this program again, asked for the test `name` alone.
fn alone(name: &str, work: impl FnOnce(&Path)) {
    if std::env::var_os(ALONE).is_some() {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        return work(home.path());
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let done = command.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("the case runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
}

/// Memory of this process that no file stands behind.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the kernel counts");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a field");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

fn told(engine: &Arc<impl Engine + ?Sized>) -> u64 {
    engine.stats().expect("stats").cache_bytes.expect("it counts")
}

/// Spread over all keys, each number another one.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn memtable_of(dir: &Path, key: impl Fn(u64) -> [u8; 8]) {
    let options = OpenOptions::new(dir);
    let own = lsm::LsmOptions { memtable_bytes_max: usize::MAX, ..lsm::LsmOptions::of(&options, Honest) };
    let engine = lsm::open_with(RealIo::shared(), &options, &own, Honest).expect("open");
    let (before, value) = (memory_bytes(), [7; 8]);
    for number in 0..200_000 {
        engine.apply(&[Op::Put { key: &key(number), value: &value }], Durability::Os).expect("put");
    }
    let (told, taken) = (told(&engine), memory_bytes().saturating_sub(before));
    println!("{told} bytes told, {taken} taken: {} by entry", taken / 200_000);
    assert!((0.85..1.25).contains(&(told as f64 / taken as f64)), "{told} bytes told, {taken} taken");
}

#[test]
fn a_memtable_of_small_entries_takes_what_it_says_in_any_order_of_keys() {
    alone("a_memtable_of_small_entries_takes_what_it_says_in_any_order_of_keys", |dir| memtable_of(dir, key));
}

#[test]
fn a_memtable_that_is_filled_in_the_order_of_keys_takes_what_it_says() {
    alone("a_memtable_that_is_filled_in_the_order_of_keys_takes_what_it_says", |dir| {
        memtable_of(dir, u64::to_be_bytes)
    });
}

/// The cache of the cases below, and records whose bytes are four times it.
const CACHE_BYTES: u64 = 8 << 20;
/// A quarter more for what the allocator cannot fill, and buffers of writes and merges.
const MEMORY_BYTES_MAX: u64 = CACHE_BYTES / 4 * 5 + (2 << 20);
const VALUE: [u8; 92] = [7; 92];
const RECORDS: u64 = CACHE_BYTES * 4 / 100;

/// Load and read all over data of four times the cache: never more memory than the cache and what writing needs.
fn within_its_cache(kind: &EngineKind, dir: &Path) {
    let before = memory_bytes();
    let options = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::new(dir) };
    let engine = (kind.open)(&options).expect("open");
    let mut most = 0;
    let mut look = |number: u64| {
        if number.is_multiple_of(1_000) {
            let (told, taken) = (told(&engine), memory_bytes().saturating_sub(before));
            most = most.max(taken);
            assert!(told <= CACHE_BYTES * 21 / 20, "after {number}: it says {told} bytes of {CACHE_BYTES}");
            assert!(
                taken <= MEMORY_BYTES_MAX,
                "after {number}: it took {taken} bytes of {CACHE_BYTES}, and says {told}"
            );
        }
    };
    for number in 0..RECORDS {
        engine.apply(&[Op::Put { key: &key(number), value: &VALUE }], Durability::Os).expect("put");
        look(number);
    }
    for number in 0..10_000 {
        assert!(engine.contains(&key(number * 31)).expect("get"));
        look(number);
    }
    println!("{}: at most {most} bytes with a cache of {CACHE_BYTES}", kind.name);
    let (hits, misses) = engine.stats().expect("stats").cache_hits_misses.expect("it counts");
    assert!(misses > 5_000, "the data is not larger than the cache: {hits} hits, {misses} misses");
}

#[test]
fn a_btree_takes_no_more_than_its_cache() {
    alone("a_btree_takes_no_more_than_its_cache", |dir| within_its_cache(&btree::kind(Honest), dir));
}

#[test]
fn an_lsm_tree_takes_no_more_than_its_cache() {
    alone("an_lsm_tree_takes_no_more_than_its_cache", |dir| within_its_cache(&lsm::kind(Honest), dir));
}
