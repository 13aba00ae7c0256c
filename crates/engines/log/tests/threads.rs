//! Readers beside a writer: snapshots, cursors and single reads see whole batches only, a snapshot keeps its own version for as
//! long as it lives, and nothing is kept behind the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use biombo_base::io::RealIo;
use biombo_engine::{Batch, Durability, Engine, Op, OpenOptions};
use biombo_journal::LogOptions;
use biombo_log::{LogEngine, LogEngineOptions, open_with};

fn open(dir: &tempfile::TempDir) -> Arc<LogEngine> {
    let options = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    open_with(
        RealIo::shared(),
        &OpenOptions::new(dir.path()),
        &LogEngineOptions { log: options, ..LogEngineOptions::default() },
        true,
    )
    .expect("open")
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("8 bytes"))
}

/// What a cursor adds up, with the number of keys.
fn sum(engine: &Arc<LogEngine>, forward: bool) -> (u64, usize) {
    let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
    if forward { cursor.first() } else { cursor.last() }.expect("an end");
    let (mut sum, mut keys) = (0, 0);
    while let Some(value) = cursor.value() {
        sum += number(value);
        keys += 1;
        if forward { cursor.next() } else { cursor.prev() }.expect("a step");
    }
    (sum, keys)
}

/// A test that has not shown anything after so long fails.
const WAITED_MAX: Duration = Duration::from_secs(60);

/// Whether a test that began then has run for its time and has shown enough; or was waited for in vain.
fn is_over(begun: Instant, time: Duration, is_enough: impl FnOnce() -> bool) -> bool {
    let elapsed = begun.elapsed();
    elapsed >= WAITED_MAX || elapsed >= time && is_enough()
}

/// Ends the threads of a test, however the one that has it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

const ACCOUNTS: u64 = 300;
const EACH: u64 = 1000;

fn account(n: u64) -> Vec<u8> {
    format!("account {n:04}").into_bytes()
}

/// Writers move amounts between accounts in batches; some accounts are closed and their amount goes to another.
#[test]
fn no_reader_sees_half_a_batch() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(&dir);
    let mut batch = Batch::new();
    for n in 0..ACCOUNTS {
        batch.put(&account(n), &EACH.to_le_bytes());
    }
    engine.apply(&batch.to_ops(), Durability::Os).expect("apply");
    let (begun, time) = (Instant::now(), Duration::from_secs(3));
    let over = AtomicBool::new(false);
    let (batches, snapshots, cursors) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let counts = || [&batches, &snapshots, &cursors].map(|count| count.load(Ordering::Relaxed));
    let is_shown = || counts().iter().all(|count| *count > 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&over);
            let mut state = 1_u64;
            let mut below = |end: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % end
            };
            while !over.load(Ordering::Acquire) && !is_over(begun, time, is_shown) {
                let (from, to) = (below(ACCOUNTS), below(ACCOUNTS));
                if from == to {
                    continue;
                }
                let balance = |n| engine.get(&account(n)).expect("get").map_or(0, |value| number(&value));
                let amount = below(balance(from) + 1);
                let left = balance(from) - amount;
                let mut batch = Batch::new();
                match (left, below(2)) {
                    (0, 0) => batch.delete(&account(from)),
                    (0, _) => batch.delete_range(&account(from), Some(&account(from + 1))),
                    _ => batch.put(&account(from), &left.to_le_bytes()),
                };
                batch.put(&account(to), &(balance(to) + amount).to_le_bytes());
                engine.apply(&batch.to_ops(), Durability::Os).expect("apply");
                batches.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let _over = Over(&over);
            while !over.load(Ordering::Acquire) {
                let snapshot = Arc::clone(&engine).snapshot().expect("a snapshot");
                for _ in 0..2 {
                    let get = |n| snapshot.get(&account(n)).expect("get").map_or(0, |value| number(&value));
                    assert_eq!((0..ACCOUNTS).map(get).sum::<u64>(), ACCOUNTS * EACH, "a snapshot");
                }
                snapshots.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let _over = Over(&over);
            let mut forward = true;
            while !over.load(Ordering::Acquire) {
                assert_eq!(sum(&engine, forward).0, ACCOUNTS * EACH, "a cursor, forward: {forward}");
                forward = !forward;
                cursors.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    assert_eq!(sum(&engine, true).0, ACCOUNTS * EACH);
    assert_eq!(engine.kept_versions(), 0, "versions are kept for nobody");
    let [made, taken, passed] = counts();
    println!("{made} batches beside {taken} snapshots and {passed} cursors");
    assert!(is_shown(), "{:?}", counts());
}

/// A batch sets several keys to one number, which only grows: who has read a number from one key never reads a smaller one
/// from another.
#[test]
fn single_reads_beside_batches_are_linearizable() {
    const KEYS: [&[u8]; 6] = [b"a", b"b", b"bb", b"c long key, of its own", b"d", b"z"];
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(&dir);
    let write = |number: u64| {
        let mut batch = Batch::new();
        KEYS.iter().for_each(|key| {
            batch.put(key, &number.to_le_bytes());
        });
        engine.apply(&batch.to_ops(), Durability::Os).expect("apply");
    };
    write(0);
    let (begun, time) = (Instant::now(), Duration::from_secs(2));
    let (over, reads, moved) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let is_shown = || moved.load(Ordering::Relaxed) > 500;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&over);
            let goes_on = |_: &u64| !over.load(Ordering::Acquire) && !is_over(begun, time, is_shown);
            (1..).take_while(goes_on).for_each(write);
        });
        for reader in 0..2_usize {
            let (engine, over, reads, moved) = (&engine, &over, &reads, &moved);
            scope.spawn(move || {
                let _over = Over(over);
                let (mut newest, mut at, mut into) = (0, reader, Vec::new());
                while !over.load(Ordering::Acquire) {
                    at += 1 + 2 * reader;
                    let key = KEYS[at % KEYS.len()];
                    let found = if at % 2 == 0 {
                        number(&engine.get(key).expect("get").expect("always there"))
                    } else {
                        assert!(engine.get_into(key, &mut into).expect("get"));
                        number(&into)
                    };
                    assert!(found >= newest, "read {newest}, then {found} of {}", key.escape_ascii());
                    moved.fetch_add(u64::from(found > newest), Ordering::Relaxed);
                    newest = found;
                    // On few processors the writer has one at times, in the middle of what it does.
                    if reads.fetch_add(1, Ordering::Relaxed) % 512 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let is_shown = is_shown();
    let (reads, moved) = (reads.load(Ordering::Relaxed), moved.load(Ordering::Relaxed));
    println!("{reads} reads, {moved} of them of something newer");
    assert!(is_shown, "{moved} of {reads} reads met something newer: nothing is shown");
}

#[test]
fn snapshots_keep_their_versions_through_thousands_of_overwrites_and_nothing_stays_behind() {
    const KEYS: u64 = 40;
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(&dir);
    let key = |n: u64| format!("key {n}").into_bytes();
    let mut held: Vec<(u64, Arc<dyn biombo_engine::Snapshot>)> = Vec::new();
    let mut kept_max = 0;
    for round in 0..400_u64 {
        for n in 0..KEYS {
            let ops = if (round + n) % 7 == 3 {
                [Op::Delete { key: &key(n) }].map(|op| engine.apply(&[op], Durability::Os))
            } else {
                [Op::Put { key: &key(n), value: &(round * KEYS + n).to_le_bytes() }]
                    .map(|op| engine.apply(&[op], Durability::Os))
            };
            ops.into_iter().for_each(|applied| applied.expect("apply"));
        }
        if round % 20 == 0 {
            held.push((round, Arc::clone(&engine).snapshot().expect("a snapshot")));
        }
        if round % 20 == 10 && held.len() > 6 {
            held.swap_remove(3);
        }
        kept_max = kept_max.max(engine.kept_versions());
        if round % 50 != 49 {
            continue;
        }
        for (of, snapshot) in &held {
            let expected = |n: u64| ((of + n) % 7 != 3).then(|| of * KEYS + n);
            for n in 0..KEYS {
                let found = snapshot.get(&key(n)).expect("get").map(|value| number(&value));
                assert_eq!(found, expected(n), "key {n} of the snapshot of round {of}, in round {round}");
            }
            let mut cursor = Arc::clone(snapshot).cursor().expect("a cursor");
            cursor.last().expect("last");
            let mut seen = 0;
            while let (Some(at), Some(value)) = (cursor.key(), cursor.value()) {
                let n = std::str::from_utf8(&at[4..]).expect("digits").parse().expect("digits");
                assert_eq!(Some(number(value)), expected(n), "a cursor of round {of}, in round {round}");
                seen += 1;
                cursor.prev().expect("prev");
            }
            assert_eq!(seen, (0..KEYS).filter(|n| expected(*n).is_some()).count());
        }
    }
    // Each snapshot needs at most one version of a key; what none needs is purged in time.
    let snapshots_max = 400 / 20;
    println!("{kept_max} versions kept at most");
    assert!(kept_max > KEYS as usize && kept_max <= 2 * (snapshots_max * KEYS as usize) + 1024, "{kept_max}");
    while let Some(snapshot) = held.pop() {
        assert!(engine.kept_versions() > 0);
        drop(snapshot);
    }
    assert_eq!(engine.kept_versions(), 0);
}
