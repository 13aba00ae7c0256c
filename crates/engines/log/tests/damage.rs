//! Bits that flip: in a store at rest, and in the files of one that is open. Damage is refused, or reported, or lies in bytes
//! that say nothing; it never comes back as data.

mod crash_model;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::RealIo;
use biombo_base::io::sim::{Crash, Random};
use biombo_engine::{Durability, Engine, Op, OpenOptions};
use biombo_journal::{Log, LogOptions, Lsn, Position};
use biombo_log::{LogEngineOptions, open_with};
use crash_model::{LOG_DIR, Model, agree, contents, disk, open, random_batch};

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 1, ..LogOptions::default() }
}

fn own() -> LogEngineOptions {
    LogEngineOptions { log: options(), ..LogEngineOptions::default() }
}

#[test]
fn a_bit_that_flips_at_rest_is_refused_on_opening_or_says_nothing() {
    let mut random = Random(5);
    let sim = disk(1);
    let mut model = Model::new();
    {
        let engine = open(&sim, &options()).expect("open");
        for number in 0..80 {
            let batch = random_batch(&mut random, number);
            let durability = if number / 10 % 2 == 0 { Durability::Os } else { Durability::Sync };
            model.begin(&batch.to_ops());
            engine.apply(&batch.to_ops(), durability).expect("apply");
        }
    }
    // What the engine stored: the bytes of records, with their headers.
    let mut records: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let file = format!("{LOG_DIR}/{:016x}.seg", at.segment().0);
        records.entry(file).or_default().push((at.offset().into(), u64::from(at.offset()) + 8 + record.len() as u64));
        Ok(())
    };
    Log::read(&sim, Path::new(LOG_DIR), &mut replay).expect("readable");
    let files: Vec<_> = sim.files().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    assert!(files.len() > 4, "{files:?}");
    let mut points = sim.crash_points();
    while points.advance() {}
    let (mut refused, mut silent) = (0, BTreeMap::<&str, u32>::new());
    for round in 0..4000u64 {
        let (path, bytes) = &files[random.below(files.len() as u64) as usize];
        let offset = if round % 8 == 0 { random.below(64) } else { random.below(*bytes) };
        let image = points.image(Crash::Kill);
        image.flip_bit(path, offset, random.next() as u8 & 7).expect("within the file");
        let what = format!("{} at {offset}", path.display());
        match open(&image, &options()) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                assert!(error.place().is_some_and(|(file, _)| file == path), "{what}: {error}");
                refused += 1;
            }
            Ok(engine) => {
                assert_eq!(contents(&engine), *model.last(), "{what}");
                agree(&engine, model.last(), &what);
                let records = records.get(path.to_str().expect("plain")).map_or(&[][..], |records| records);
                assert!(!records.iter().any(|(from, to)| (*from..*to).contains(&offset)), "{what}: within a record");
                let behind = records.last().is_none_or(|(_, end)| offset >= *end);
                let place = match path.extension().and_then(|extension| extension.to_str()) {
                    Some("seg") if behind => "segment, behind its records",
                    Some("seg") => "segment, between records",
                    _ => "other files",
                };
                *silent.entry(place).or_default() += 1;
            }
        }
    }
    println!("4000 bits flipped at rest: {refused} refused on opening; silent, and all data right: {silent:?}");
    assert!(refused > 1000, "{refused} refused, {silent:?}");
}

#[test]
fn a_bit_that_flips_under_an_open_instance_is_reported_and_never_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own(), false).expect("open");
    let mut random = Random(7);
    let mut model = Model::new();
    for number in 0..600u32 {
        let key = format!("key {:03}", random.below(400));
        let value = vec![number as u8; 20 + random.below(100) as usize];
        let ops = [Op::Put { key: key.as_bytes(), value: &value }];
        model.begin(&ops);
        engine.apply(&ops, Durability::Os).expect("apply");
    }
    engine.sync().expect("sync");
    let state = model.last();
    let log_dir = dir.path().join("log");
    // Every record, with the file it lies in. The last one of a key is live.
    let mut live: BTreeMap<Vec<u8>, (Position, usize)> = BTreeMap::new();
    let mut all = Vec::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let key_end = 16 + u32::from_le_bytes(record[4..8].try_into().expect("4 bytes")) as usize;
        live.insert(record[16..key_end].to_vec(), (at, 8 + record.len()));
        all.push((at, 8 + record.len()));
        Ok(())
    };
    Log::read(&*RealIo::shared(), &log_dir, &mut replay).expect("readable");
    let snapshot = Arc::clone(&engine).snapshot().expect("a snapshot");
    let (mut reported, mut other_keys) = (0, 0);
    for round in 0..1500 {
        let (at, bytes) = if round % 3 == 0 {
            all[random.below(all.len() as u64) as usize]
        } else {
            *live.values().nth(random.below(live.len() as u64) as usize).expect("within")
        };
        let is_live = live.values().any(|(live, _)| *live == at);
        // Headers, of the journal and the engine, and keys more often than values.
        let within = if round % 2 == 0 { random.below(31) } else { random.below(bytes as u64) };
        let offset = u64::from(at.offset()) + within;
        let bit = random.next() as u8 & 7;
        let file = log_dir.join(format!("{:016x}.seg", at.segment().0));
        flip(&file, offset, bit);
        let what = format!("round {round}: {within} bytes within the record at {at}, live: {is_live}");
        let mut damages = Vec::new();
        let verified = engine.verify(&mut |damage| damages.push(damage)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(verified, state.len() as u64 - u64::from(is_live), "{what}: {damages:?}");
        assert!(!damages.is_empty() && damages.len() <= 2, "{what}: {damages:?}");
        assert!(damages.iter().all(|damage| damage.file == file || damage.file == log_dir), "{what}: {damages:?}");
        reported += 1;
        for (key, value) in state {
            let (newest, seen) = (engine.get(key), snapshot.get(key));
            let both = [&newest, &seen].map(|found| found.as_ref().map(|found| found.as_deref()).map_err(|e| e.kind()));
            assert_eq!(both[0], both[1], "{what}: a snapshot sees something else");
            match newest {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{what}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}");
                    let damaged = live.get(key).is_some_and(|(damaged, _)| *damaged == at);
                    other_keys += u32::from(!damaged);
                }
            }
        }
        // A cursor gives right pairs up to the damage, or an error; it never passes over a key silently.
        let mut cursor = Arc::clone(&engine).cursor().expect("a cursor");
        let mut stepped = cursor.first();
        let mut expected = state.iter();
        while let (Ok(()), Some(key), Some(value)) = (&stepped, cursor.key(), cursor.value()) {
            assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())), "{what}");
            stepped = cursor.next();
        }
        match stepped {
            Ok(()) => assert!(expected.next().is_none() && !is_live, "{what}: the cursor ends early"),
            Err(error) => assert_eq!((error.kind(), is_live), (ErrorKind::Corruption, true), "{what}: {error}"),
        }
        flip(&file, offset, bit);
    }
    let verified = engine.verify(&mut |damage| panic!("{damage:?}")).expect("verify");
    assert_eq!(verified, state.len() as u64, "flipped back");
    println!(
        "1500 bits flipped in records of an open instance: {reported} reported, {other_keys} reads of other keys failed"
    );
    assert_eq!(other_keys, 0, "damage stays with its key");
}

/// A record that is damaged, then superseded while a snapshot needs it: the snapshot is told, and what was written is there or
/// refused.
#[test]
fn an_overwritten_damaged_version_is_damage_to_its_snapshot() {
    let (mut written, mut refused) = (0, 0);
    for within in 0..33 {
        for bit in [0, 6] {
            let what = format!("bit {bit} of byte {within}");
            let dir = tempfile::tempdir().expect("a directory");
            let engine = open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own(), false).expect("open");
            for (key, value) in [(b"key a", b"one"), (b"key b", b"two"), (b"key c", b"six")] {
                engine.apply(&[Op::Put { key, value }], Durability::Os).expect("apply");
            }
            let log_dir = dir.path().join("log");
            let mut places = Vec::new();
            let mut replay = |at: Position, _: Lsn, _: &[u8]| {
                places.push(at);
                Ok(())
            };
            Log::read(&*RealIo::shared(), &log_dir, &mut replay).expect("readable");
            let snapshot = Arc::clone(&engine).snapshot().expect("a snapshot");
            let at = places[1];
            flip(&log_dir.join(format!("{:016x}.seg", at.segment().0)), u64::from(at.offset()) + within % 32, bit);
            let found = engine.apply(&[Op::Put { key: b"key b", value: b"new" }], Durability::Os);
            match found {
                Ok(()) => {
                    written += 1;
                    assert_eq!(engine.get(b"key b").expect("new").as_deref(), Some(&b"new"[..]), "{what}");
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                    let again = engine.apply(&[Op::Put { key: b"key d", value: b"new" }], Durability::Os);
                    assert_eq!(again.expect_err("the index is behind").kind(), ErrorKind::Poisoned, "{what}");
                }
            }
            let seen = snapshot.get(b"key b").map(|found| found.as_deref().map(<[u8]>::to_vec));
            assert_eq!(seen.map_err(|e| e.kind()), Err(ErrorKind::Corruption), "{what}");
            for (key, value) in [(b"key a", b"one"), (b"key c", b"six")] {
                assert_eq!(snapshot.get(key).expect("whole").as_deref(), Some(&value[..]), "{what}");
            }
        }
    }
    println!("66 damaged records overwritten: {written} writes went through, {refused} were refused");
    assert!(written > 20 && refused > 0, "{written} written, {refused} refused");
}

/// Flip a bit of a file that an instance has mapped. Nobody has borrowed the byte meanwhile.
fn flip(path: &Path, offset: u64, bit: u8) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("a segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("a byte");
    file.write_all_at(&[byte[0] ^ 1 << bit], offset).expect("a byte");
}
