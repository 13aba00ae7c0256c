//! Reading directly: what a read costs, what the cache keeps, and a device that refuses to read.

mod subject;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Fault, FaultKind, Random, SimIo, When};
use biombo_base::io::{Io, IoMode, RealIo};
use biombo_engine::crash_suite::{Model, contents, disk, random_batch};
use biombo_engine::{Batch, Damage, Durability, Engine, Op, OpenOptions};
use biombo_journal::LogOptions;
use biombo_log::{LogEngine, LogEngineOptions, open_with};
use subject::open;

const BLOCK: u64 = 4096;

fn options(cache_bytes: u64) -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, io: IoMode::Direct, cache_bytes, ..LogOptions::default() }
}

fn key(n: u32) -> Vec<u8> {
    format!("key {:08}", n.wrapping_mul(0x9e37_79b1)).into_bytes()
}

/// 1,000 records of 1,000 bytes, all of them sealed and durable.
fn filled(io: &RealIo, dir: &Path, cache_bytes: u64) -> Arc<LogEngine> {
    let own = LogEngineOptions { log: options(cache_bytes), ..LogEngineOptions::default() };
    let shared: Arc<dyn Io> = Arc::new(io.clone());
    let open = || open_with(Arc::clone(&shared), &OpenOptions::new(dir), &own, false).expect("open");
    let engine = open();
    for n in 0..1000 {
        engine.apply(&[Op::Put { key: &key(n), value: &[n as u8; 1000] }], Durability::Os).expect("apply");
    }
    drop(engine);
    let engine = open();
    // What its last owner left unsettled is read through a mapping until it is synced once more.
    engine.sync().expect("sync");
    engine
}

#[test]
fn a_get_reads_the_blocks_of_its_record_in_one_look_and_then_finds_it_in_the_cache() {
    let (io, dir) = (RealIo::new(), tempfile::tempdir().expect("a directory"));
    let engine = filled(&io, dir.path(), 16 << 20);
    // Opening looked at some, to tell keys from each other.
    let known = engine.stats().expect("stats").cache_hits_misses.expect("it has a cache");
    let mut blocks = [0u64; 3];
    for n in 0..1000 {
        let before = io.counts().read_bytes;
        let held = engine.get(&key(n)).expect("get").expect("there");
        let read = io.counts().read_bytes - before;
        assert_eq!(*held, [n as u8; 1000]);
        assert!([0, BLOCK, 2 * BLOCK].contains(&read), "{read} bytes for a record of 1,040");
        blocks[(read / BLOCK) as usize] += 1;
    }
    assert_eq!(blocks[0], known.1, "each is read once: {blocks:?}");
    assert!(blocks[1] > 2 * blocks[2] && blocks[2] > 50, "one block where it lies in one: {blocks:?}");
    let before = io.counts().read_bytes;
    let mut value = Vec::new();
    for n in 0..1000 {
        assert!(engine.get_into(&key(n), &mut value).expect("get") && value == [n as u8; 1000]);
    }
    assert_eq!(io.counts().read_bytes, before, "all are in the cache");
    let stats = engine.stats().expect("stats");
    assert_eq!(stats.cache_hits_misses, Some((known.0 + known.1 + 1000, 1000)));
    assert!(stats.cache_bytes.is_some_and(|bytes| (1_000_000..1_300_000).contains(&bytes)), "{stats:?}");
}

#[test]
fn a_cursor_reads_neighbours_together_and_leaves_the_cache_alone() {
    let (io, dir) = (RealIo::new(), tempfile::tempdir().expect("a directory"));
    let engine = filled(&io, dir.path(), 16 << 20);
    let (before, cached) = (io.counts().read_bytes, engine.stats().expect("stats").cache_bytes);
    let mut cursor = Arc::clone(&engine).cursor().expect("a cursor");
    cursor.first().expect("first");
    let mut count = 0;
    while cursor.key().is_some() {
        count += 1;
        cursor.next().expect("next");
    }
    assert_eq!(count, 1000);
    // The keys are in another order than the records: a group of 256 of 1,000 spares more than half of the blocks.
    let read = io.counts().read_bytes - before;
    assert!(read < 5 * 1_040_000, "{read} bytes read for 1,040,000");
    // To find where a group begins, the index asks for a key or two.
    let more = engine.stats().expect("stats").cache_bytes.zip(cached).map(|(after, before)| after - before);
    assert!(more.is_some_and(|bytes| bytes < 20 * 1_200), "{more:?} bytes more in the cache");
}

#[test]
fn values_of_any_size_come_back_and_stay_while_they_are_held() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = LogEngineOptions { log: options(1 << 20), ..LogEngineOptions::default() };
    let engine = open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, false).expect("open");
    let sizes = [0, 1, 7, 4000, 4096, 8192, 65_000, 65_536, 70_000, 200_000, 3_000_000];
    let mut held = Vec::new();
    for round in 0..3u8 {
        for (n, bytes) in sizes.iter().enumerate() {
            let value: Vec<u8> = (0..*bytes).map(|i| (i as u8).wrapping_mul(31) ^ round).collect();
            let durability = if round == 1 { Durability::Sync } else { Durability::Os };
            engine.apply(&[Op::Put { key: &[b'k', n as u8], value: &value }], durability).expect("apply");
        }
        engine.sync().expect("sync");
        for (n, bytes) in sizes.iter().enumerate() {
            let value = engine.get(&[b'k', n as u8]).expect("get").expect("there");
            assert_eq!(value.len(), *bytes);
            held.push((round, value));
        }
    }
    engine.compact().expect("compact");
    for (round, value) in &held {
        assert!(value.iter().enumerate().all(|(i, byte)| *byte == (i as u8).wrapping_mul(31) ^ round));
    }
}

/// Every read in turn is refused, once or for ever: what needs it is told, no answer is wrong, and all is there afterwards.
#[test]
fn a_device_that_refuses_to_read_is_an_error_of_that_read_and_never_a_wrong_answer() {
    let sim: SimIo = disk(7);
    let (mut model, mut random) = (Model::new(), Random(13));
    let engine = open(&sim, &options(2 << 10)).expect("open");
    for number in 0..120usize {
        let mut batch = if number < 60 { random_batch(&mut random, number) } else { Batch::new() };
        batch.put(&[b'z', number as u8], &vec![number as u8; 3000 + number % 3 * 40_000]);
        model.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), Durability::Sync).expect("apply");
    }
    drop(engine);
    let engine = open(&sim, &options(2 << 10)).expect("open");
    engine.sync().expect("sync");
    let state = model.last();
    assert!(state.len() > 20, "{} keys", state.len());
    let (mut refused, mut answered) = (0, 0);
    for n in 0..200 {
        let times = if n % 2 == 0 { 1 } else { u32::MAX };
        sim.inject(Fault { when: When::Read(n % 40), kind: FaultKind::Eio, times });
        let (mut gets, mut steps) = (0, 0);
        for (key, value) in state {
            match engine.get(key) {
                Ok(found) => {
                    assert_eq!(found.as_deref(), Some(&value[..]), "get of {}", key.escape_ascii());
                    answered += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert!(error.to_string().contains(".seg"), "it names the file: {error}");
                    gets += 1;
                }
            }
        }
        let mut cursor = Arc::clone(&engine).cursor().expect("a cursor");
        let mut expected = state.iter();
        let mut stepped = cursor.first();
        while let (Ok(()), Some(key), Some(value)) = (&stepped, cursor.key(), cursor.value()) {
            assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())), "a cursor");
            stepped = cursor.next();
        }
        match stepped {
            Ok(()) => assert!(expected.next().is_none(), "the cursor ends early"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                steps += 1;
            }
        }
        refused += gets + steps;
        sim.clear_faults();
    }
    assert!(refused > 50 && answered > 1000, "{refused} refused, {answered} answered");
    assert_eq!(contents(&engine), *state, "the device is well again");
}

/// The cache keeps nothing that is damaged, whoever read it first: a key is compared before its record is verified.
#[test]
fn damage_that_a_get_has_met_is_damage_to_the_next_one_and_to_verification() {
    let (io, dir) = (RealIo::new(), tempfile::tempdir().expect("a directory"));
    let engine = filled(&io, dir.path(), 16 << 20);
    let verify = || {
        let mut damages = Vec::new();
        let keys = engine.verify(&mut |damage| damages.push(damage)).expect("verify");
        (keys, damages)
    };
    let misses = || engine.stats().expect("stats").cache_hits_misses.map(|(_, misses)| misses);
    let mut met = Vec::new();
    for n in (0..1000).step_by(97) {
        let key = key(n);
        let (path, at) = place_of(dir.path(), &key);
        let damaged = at + key.len() as u64 + 500;
        flip(&path, damaged);
        let before = misses();
        let get = || engine.get(&key).map(|value| value.map(|value| value.to_vec()));
        let first = get();
        if misses() == before {
            // Opening had looked at it, when it was sound.
            assert_eq!(first.expect("get").as_deref(), Some(&[n as u8; 1000][..]));
            flip(&path, damaged);
            continue;
        }
        assert_eq!(first.expect_err("a damaged value was given out").kind(), ErrorKind::Corruption);
        assert_eq!(get().expect_err("a damaged value was kept").kind(), ErrorKind::Corruption);
        met.push((n, path, damaged));
    }
    assert!(met.len() > 5, "{met:?} were read");
    let (keys, damages) = verify();
    assert_eq!(keys, 1000 - met.len() as u64, "{damages:?}");
    for (n, path, damaged) in &met {
        let is_reported =
            |damage: &Damage| damage.file == *path && (damage.offset..damage.offset + 1100).contains(damaged);
        assert!(damages.iter().any(is_reported), "record {n} in {damages:?}");
        flip(path, *damaged);
        assert_eq!(*engine.get(&key(*n)).expect("get").expect("there"), [*n as u8; 1000]);
    }
    let (keys, damages) = verify();
    assert!(keys == 1000 && damages.is_empty(), "{damages:?}");
}

/// The segment in which this key begins, and where.
fn place_of(dir: &Path, key: &[u8]) -> (PathBuf, u64) {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("list") {
            let path = entry.expect("list").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "seg") {
                let bytes = std::fs::read(&path).expect("read");
                // A list of keys in a footer has it without its value.
                let is_record = |at: &usize| {
                    bytes[*at..].starts_with(key) && {
                        let value = &bytes[at + key.len()..];
                        value.len() >= 1000 && value[..1000].iter().all(|byte| *byte == value[0])
                    }
                };
                found.extend((0..bytes.len()).filter(is_record).map(|at| (path.clone(), at as u64)));
            }
        }
    }
    assert_eq!(found.len(), 1, "{}", key.escape_ascii());
    found.remove(0)
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("open");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 4], at).expect("write");
}
