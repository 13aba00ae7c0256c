//! Readers beside a writer: a key that is there all the time is found at every moment, by every way of reading, exactly once
//! and in order.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use biombo_log::index::{Index, Leaf, Pin};
use common::{Log, Random};

/// How long each shape of keys is tested, and longer until readers have got to work so often, up to a bound.
const TEST_MS: u64 = 700;
const ROUNDS_MIN: usize = 5;
const TEST_MS_MAX: u64 = 60_000;

struct Shape {
    name: &'static str,
    stable: Vec<Vec<u8>>,
    churning: Vec<Vec<u8>>,
}

fn shapes() -> Vec<Shape> {
    let mut random = Random(5);
    let mut split = |name, mut keys: Vec<Vec<u8>>| {
        keys.sort();
        keys.dedup();
        for i in (1..keys.len()).rev() {
            keys.swap(i, random.below(i + 1));
        }
        let churning = keys.split_off(keys.len() / 3);
        Shape { name, stable: keys, churning }
    };
    let mut numbers = Random(6);
    vec![
        // Full nodes of every kind, which grow and shrink all the time.
        split("dense", (0..2000u32).map(|i| i.to_be_bytes()[2..].to_vec()).collect()),
        split("random", (0..3000).map(|_| numbers.next().to_be_bytes().to_vec()).collect()),
        // Each key is a prefix of others: forks come and go.
        split("prefixes", (0..300).map(|n| (0..=n % 100).map(|i| (i / 7 + n / 100) as u8).collect()).collect()),
        // Prefixes longer than what nodes hold, split and merged again.
        split("long", (0..900u32).map(|i| format!("{:030}/{:030}", i / 30, i % 30).into_bytes()).collect()),
    ]
}

fn check_reads(shape: &Shape, stable: &BTreeSet<&[u8]>, pin: &Pin<'_>, log: &Log, random: &mut Random) {
    let right = |leaf: Option<Leaf>, key: &[u8]| leaf.is_some_and(|leaf| log.key(leaf) == key);
    let wanted: Vec<&[u8]> = (0..19).map(|_| &shape.stable[random.below(shape.stable.len())][..]).collect();
    for key in &wanted {
        assert!(right(pin.get(key).expect("whole"), key), "{}: get lost {key:?}", shape.name);
    }
    let mut found = vec![None; wanted.len()];
    pin.get_batch(&wanted, &mut found).expect("whole");
    for (key, leaf) in wanted.iter().zip(found) {
        assert!(right(leaf, key), "{}: get_batch lost {key:?}", shape.name);
    }
    let from = wanted[0];
    let mut cursor = pin.cursor(log);
    let mut leaves: Vec<Leaf> = cursor.seek(from).expect("whole").into_iter().collect();
    match random.below(3) {
        0 => while cursor.next().expect("whole").map(|leaf| leaves.push(leaf)).is_some() {},
        1 => while cursor.next_n(1 + random.below(50), &mut leaves).expect("whole") > 0 {},
        _ => drop(cursor.next_n(usize::MAX, &mut leaves).expect("whole")),
    }
    in_order(shape.name, stable.range(from..).copied(), &leaves, log);
    let mut leaves: Vec<Leaf> = cursor.seek_before(from).expect("whole").into_iter().collect();
    match random.below(3) {
        0 => while cursor.prev().expect("whole").map(|leaf| leaves.push(leaf)).is_some() {},
        1 => while cursor.prev_n(1 + random.below(50), &mut leaves).expect("whole") > 0 {},
        _ => drop(cursor.prev_n(usize::MAX, &mut leaves).expect("whole")),
    }
    leaves.reverse();
    in_order(shape.name, stable.range(..from).copied(), &leaves, log);
}

fn in_order<'a>(name: &str, stable: impl Iterator<Item = &'a [u8]>, leaves: &[Leaf], log: &Log) {
    let keys: Vec<Vec<u8>> = leaves.iter().map(|leaf| log.key(*leaf)).collect();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] >= pair[1]) {
        panic!("{name}: out of order: {pair:?}");
    }
    let mut keys = keys.iter();
    for key in stable {
        assert!(keys.any(|found| found == key), "{name}: a scan lost {key:?}");
    }
}

#[test]
fn what_is_there_all_the_time_is_always_found_once_and_in_order() {
    for shape in shapes() {
        let (index, log, stop) = (Index::new(), Log::default(), AtomicBool::new(false));
        for key in &shape.stable {
            index.writer().insert(key, log.append(key), &log).expect("good");
        }
        let stable: BTreeSet<&[u8]> = shape.stable.iter().map(Vec::as_slice).collect();
        let rounds = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let (shape, stable, index, log, stop, rounds) = (&shape, &stable, &index, &log, &stop, &rounds);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        // If this reader fails, the writer must not go on for ever.
                        let stopper = Stopper(stop);
                        check_reads(shape, stable, &index.pin(), log, &mut random);
                        std::mem::forget(stopper);
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let stopper = Stopper(&stop);
            let (mut random, begin) = (Random(77), Instant::now());
            let mut there = BTreeSet::new();
            let is_over = |elapsed: Duration| {
                let is_enough = rounds.load(Ordering::Relaxed) >= ROUNDS_MIN;
                elapsed >= Duration::from_millis(if is_enough { TEST_MS } else { TEST_MS_MAX })
            };
            while !is_over(begin.elapsed()) && !stop.load(Ordering::Relaxed) {
                // Runs of one kind of change, so that nodes grow and shrink through all their kinds.
                let run = random.below(shape.churning.len());
                let adding = random.below(2) == 0;
                for _ in 0..run {
                    let key = &shape.churning[random.below(shape.churning.len())];
                    if adding && there.insert(key) {
                        index.writer().insert(key, log.append(key), &log).expect("good");
                    } else if !adding && there.remove(key) {
                        index.writer().remove(key, &log).expect("whole").expect("there");
                    }
                }
                let moved = &shape.stable[random.below(shape.stable.len())];
                let old = index.writer().insert(moved, log.append(moved), &log).expect("good").expect("there");
                assert!(index.writer().replace(moved, log_of(&index, moved), old).expect("whole"));
            }
            drop(stopper);
        });
        index.verify().expect("whole");
        assert!(rounds.into_inner() >= ROUNDS_MIN, "{}: the readers did not get to work", shape.name);
    }
}

fn log_of(index: &Index, key: &[u8]) -> Leaf {
    index.pin().get(key).expect("whole").expect("there")
}

/// Tells the other threads to stop when this one ends, however it ends.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_of_an_index_that_is_cleared_again_and_again_sees_whole_trees() {
    let (index, log, stop) = (Index::new(), Log::default(), AtomicBool::new(false));
    let mut random = Random(3);
    let keys: Vec<Vec<u8>> = (0..3000).map(|_| random.next().to_be_bytes()[..5].to_vec()).collect();
    let leaves: Vec<Leaf> = keys.iter().map(|key| log.append(key)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stopper = Stopper(&stop);
            let mut random = Random(4);
            while !stop.load(Ordering::Relaxed) {
                let pin = index.pin();
                let key = &keys[random.below(keys.len())];
                if let Some(leaf) = pin.get(key).expect("whole") {
                    assert!(keys.contains(&log.key(leaf)), "a candidate that was never there");
                }
                let mut found = Vec::new();
                pin.cursor(&log).next_n(usize::MAX, &mut found).expect("whole");
                in_order("cleared", [].into_iter(), &found, &log);
            }
            drop(stopper);
        });
        let stopper = Stopper(&stop);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(TEST_MS) && !stop.load(Ordering::Relaxed) {
            for (key, leaf) in keys.iter().zip(&leaves) {
                index.writer().insert(key, *leaf, &log).expect("good");
            }
            index.writer().clear();
        }
        drop(stopper);
    });
}
