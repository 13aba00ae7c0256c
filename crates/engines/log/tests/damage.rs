//! Bits that flip: in a store at rest, and in the files of one that is open. Damage is refused, or reported, or lies in bytes
//! that say nothing; it never comes back as data.

mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_base::io::{Io, IoMode, OpenMode, RealIo};
use biombo_engine::crash_suite::{Model, State, agree, contents, disk, random_batch};
use biombo_engine::{Durability, Engine, Op, OpenOptions};
use biombo_journal::{Log, LogOptions, Lsn, Position};
use biombo_log::{LogEngine, LogEngineOptions, open_with};
use subject::{LOG_DIR, accounts, open, recount};

/// Bits that are flipped at rest, and the seed of the places.
const PLACES: u64 = 10_000;
const SEED: u64 = 5;

fn options() -> LogOptions {
    reading(IoMode::Mmap)
}

/// Without a cache: every read meets what is on the disk.
fn reading(io: IoMode) -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 1, io, cache_bytes: 0, ..LogOptions::default() }
}

fn own() -> LogEngineOptions {
    LogEngineOptions { log: options(), ..LogEngineOptions::default() }
}

#[test]
fn a_bit_that_flips_at_rest_is_refused_on_opening_or_reported_or_says_nothing() {
    let mut random = Random(SEED);
    let (sim, model) = store_of_every_kind_of_file(&mut random);
    let records = stored(&sim);
    let files: Vec<_> = sim.files().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    let said = said(&sim, &records, &files);
    let kinds: BTreeSet<_> = said.iter().map(|said| said.kind).collect();
    assert_eq!(kinds.len(), 8, "not all kinds of files: {kinds:?}");
    let mut points = sim.crash_points();
    while points.advance() {}
    let (mut refused, mut repaired, mut silent) = (0, 0, BTreeMap::<&str, u32>::new());
    let mut reported_in = BTreeMap::<&str, u32>::new();
    for round in 0..PLACES {
        // Now and then anywhere; mostly where something is said.
        let (path, offset) = if round % 16 == 0 {
            let (path, bytes) = &files[random.below(files.len() as u64) as usize];
            (path, random.below(*bytes))
        } else {
            let Said { path, bytes, .. } = &said[random.below(said.len() as u64) as usize];
            (path, bytes.start + random.below(bytes.end - bytes.start))
        };
        let says = said.iter().find(|said| said.path == *path && said.bytes.contains(&offset));
        let image = points.image(Crash::Kill);
        image.flip_bit(path, offset, random.next() as u8 & 7).expect("within the file");
        let what = format!("{} at {offset}", path.display());
        match open(&image, &options()) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                assert!(error.place().is_some_and(|(file, _)| file == path), "{what}: {error}");
                refused += 1;
                *reported_in.entry(says.map_or("elsewhere", |said| said.kind)).or_default() += 1;
                if refused % 16 == 0 {
                    repaired += 1;
                    repair(&image, &records, (path, offset), &what);
                }
            }
            Ok(engine) => {
                // A sealed segment is taken up by its footer: nobody has looked at its records yet.
                let mut reported = 0;
                let verified = engine.verify(&mut |damage| {
                    assert_eq!(damage.file, *path, "{what}: {damage:?}");
                    reported += 1;
                });
                let verified = verified.unwrap_or_else(|e| panic!("{what}: {e}"));
                if reported > 0 {
                    let damaged = damaged_keys(&engine, &model, &what);
                    assert!(
                        damaged <= 1 && verified + damaged == model.last().len() as u64,
                        "{what}: {damaged} damaged"
                    );
                    drop(engine);
                    refused += 1;
                    *reported_in.entry(says.map_or("elsewhere", |said| said.kind)).or_default() += 1;
                    if refused % 16 == 0 {
                        repaired += 1;
                        repair(&image, &records, (path, offset), &what);
                    }
                    continue;
                }
                // Its verification, among others, finds nothing.
                agree(&engine, model.last(), &what);
                assert_eq!(contents(&engine), *model.last(), "{what}");
                let mut records = records.iter().filter(|record| record.file == *path);
                assert!(records.clone().all(|record| !record.bytes.contains(&offset)), "{what}: within a record");
                // The last edit may be a torn one: it says that all is durable, and so does the last frame.
                let is_last = says.is_some() && losable(&sim, path, offset);
                assert!(says.is_none() || is_last, "{what}: not reported, {says:?}");
                let behind = records.next_back().is_none_or(|record| offset >= record.bytes.end);
                let place = match path.extension().and_then(|extension| extension.to_str()) {
                    Some("seg") if behind => "segment, behind its records",
                    Some("seg") => "segment, between records",
                    _ => "other files",
                };
                *silent.entry(place).or_default() += 1;
            }
        }
    }
    println!(
        "{PLACES} bits flipped at rest (seed {SEED}): {refused} reported ({reported_in:?}), {repaired} of them repaired; in \
         bytes that say nothing, and all data right: {silent:?}"
    );
    assert!(kinds.iter().all(|kind| reported_in.get(kind).is_some_and(|count| *count >= 30)), "{reported_in:?}");
    assert!(refused > PLACES * 8 / 10 && repaired > 500, "{refused} refused, {silent:?}");
}

/// A damaged end of the log looks as if it had never been durable, and only the checkpoint knows better.
#[test]
fn repair_tells_of_records_that_only_a_checkpoint_knows_and_drops_it() {
    let sim = disk(1);
    let engine = open(&sim, &options()).expect("open");
    for number in 0..4u8 {
        engine.apply(&[Op::Put { key: &[b'a' + number], value: &[number; 50] }], Durability::Os).expect("apply");
    }
    engine.save_index().expect("a checkpoint");
    let places = stored(&sim);
    // The power goes, so that no last frame says what was durable.
    let image = sim.crash(sim.event_count(), Crash::Nothing);
    drop(engine);
    let damaged = &places[2];
    image.flip_bit(&damaged.file, damaged.bytes.start + 30, 1).expect("within the file");
    let opened = open(&image, &options()).expect("it ends there");
    let mut damages = Vec::new();
    opened.verify(&mut |damage| damages.push(damage)).expect("verify");
    assert!(damages.iter().any(|damage| damage.what.contains("covers records to 5")), "{damages:?}");
    drop(opened);
    let io: Arc<dyn Io> = Arc::new(image.clone());
    let mut losses = Vec::new();
    let home = Path::new(LOG_DIR).parent().expect("the instance");
    let mut told = Vec::new();
    assert_eq!(LogEngine::inspect(&io, home, &mut |loss| told.push(loss)).expect("inspect"), 1);
    let done = LogEngine::repair(&io, home, &mut |loss| losses.push(loss)).expect("repair");
    assert_eq!(told, losses);
    assert!(done.losses == 1 && losses[0].what.contains("covers records to 5"), "{losses:?}");
    let engine = open(&image, &options()).expect("repaired");
    assert_eq!(contents(&engine).len(), 2, "what is before the damage");
    assert_eq!(engine.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), 2);
    drop(engine);
    assert_eq!(LogEngine::repair(&io, home, &mut |loss| panic!("{loss:?}")).expect("repair").losses, 0);
}

/// Its checksum holds, so opening believes it: the way to the record is that of another key.
#[test]
fn a_list_that_names_another_key_than_its_record_has_is_reported_and_dropped_by_repair() {
    let sim = disk(1);
    let io: Arc<dyn Io> = Arc::new(sim.clone());
    let home = Path::new(LOG_DIR).parent().expect("the instance");
    let mut nothing = |_: Position, _: Lsn, _: &[u8]| Ok(());
    let (mut log, _) = Log::open(Arc::clone(&io), Path::new(LOG_DIR), options(), &mut nothing).expect("open");
    let mut record = vec![1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    record.extend_from_slice(b"keyvalue");
    log.append(&[&[&record[..]]], biombo_journal::Durability::Sync, &mut Vec::new()).expect("append");
    // A put, 40 bytes after the header, number 1, a key of 3 bytes, a value of 5.
    log.seal_with(b"BKEY\x01\0\0\0\x01\x05\x02\x03\x05kez").expect("seal");
    drop(log);
    let engine = open(&sim, &options()).expect("open");
    let mut damages = Vec::new();
    engine.verify(&mut |damage| damages.push(damage)).expect("verify");
    assert!(damages.len() == 1 && damages[0].what.contains("other keys than its records"), "{damages:?}");
    drop(engine);
    let mut losses = Vec::new();
    LogEngine::repair(&io, home, &mut |loss| losses.push(loss)).expect("repair");
    assert_eq!(losses.len(), 1, "{losses:?}");
    let engine = open(&sim, &options()).expect("repaired");
    assert_eq!(engine.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    assert_eq!(engine.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), 1);
}

/// Fails when a deletion of a record that cannot be read any more ends writing, or keeps the store from opening again.
#[test]
fn a_damaged_record_that_is_deleted_costs_no_other() {
    for is_range in [false, true] {
        let (sim, key_of) = (disk(1), |number: usize| format!("key{number:03}").into_bytes());
        let engine = open(&sim, &options()).expect("open");
        for number in 0..80 {
            engine.apply(&[Op::Put { key: &key_of(number), value: &[7; 600] }], Durability::Os).expect("apply");
        }
        engine.sync().expect("sync");
        drop(engine);
        let victim = &stored(&sim)[3];
        sim.flip_bit(&victim.file, victim.bytes.end - 10, 1).expect("within its value");
        let mut engine = open(&sim, &options()).expect("the list of its segment is believed");
        assert_eq!(engine.get(&key_of(3)).expect_err("damaged").kind(), ErrorKind::Corruption);
        let (key, to) = (key_of(3), key_of(5));
        let deletion = match is_range {
            true => Op::DeleteRange { from: &key, to: Some(&to) },
            false => Op::Delete { key: &key },
        };
        engine.apply(&[deletion], Durability::Sync).expect("deleted");
        for state in ["now", "opened again"] {
            if state != "now" {
                engine.apply(&[Op::Put { key: b"more", value: b"1" }], Durability::Sync).expect("it goes on");
                drop(engine);
                engine = open(&sim, &options()).expect("it opens");
            }
            for number in (0..80).filter(|number| *number != 3) {
                let is_deleted = is_range && number == 4;
                let found = engine.get(&key_of(number)).expect("sound");
                assert_eq!(found.is_none(), is_deleted, "{state}, range {is_range}: {number}");
            }
            // Of a range nobody can tell whether it was in there.
            let found = engine.get(&key);
            let is_told = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corruption);
            assert!(if is_range { is_told } else { found.is_ok_and(|found| found.is_none()) }, "{state}, {is_range}");
        }
    }
}

/// How many keys cannot be read; the others are as they should be.
fn damaged_keys(engine: &Arc<LogEngine>, model: &Model, what: &str) -> u64 {
    let mut damaged = 0;
    for key in model.keys() {
        match engine.get(&key) {
            Ok(found) => assert_eq!(found.as_deref(), model.last().get(&key).map(|value| &value[..]), "{what}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                // The way of a key that is not there may end at the damaged record, which nobody can tell from it.
                damaged += u64::from(model.last().contains_key(&key));
            }
        }
    }
    damaged
}

/// A closed store with segments of the log's own order and cold ones, both with footers, a checkpoint of the index, and records
/// behind that.
fn store_of_every_kind_of_file(random: &mut Random) -> (SimIo, Model) {
    let sim = disk(1);
    let mut model = Model::new();
    let engine = open(&sim, &options()).expect("open");
    for number in 0..160 {
        let batch = random_batch(random, number);
        let durability = if number / 10 % 2 == 0 { Durability::Os } else { Durability::Sync };
        model.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), durability).expect("apply");
        match number {
            60 | 110 => engine.compact().expect("cleaning"),
            130 => engine.save_index().expect("a checkpoint"),
            _ => {}
        }
    }
    drop(engine);
    (sim, model)
}

/// Bytes that say something.
#[derive(Debug)]
struct Said {
    kind: &'static str,
    path: PathBuf,
    bytes: Range<u64>,
}

/// All of them: headers of segments and of frames, records, footers, the manifest up to the end of its last edit, a checkpoint.
fn said(sim: &SimIo, records: &[Stored], files: &[(PathBuf, u64)]) -> Vec<Said> {
    let mut all = Vec::new();
    for (path, bytes) in files {
        let mut say = |kind, bytes| all.push(Said { kind, path: path.clone(), bytes });
        let file = sim.open(path, OpenMode::READ).expect("a file");
        let mut data = vec![0; *bytes as usize];
        file.read_at(&mut data, 0).expect("readable");
        let word = |at: u64| u32::from_le_bytes(data[at as usize..][..4].try_into().expect("4 bytes"));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("seg") => {
                say("header of a segment", 0..64);
                let is_cold = word(12) >> 8 & 1 == 1;
                let mut end = 4096;
                for Stored { bytes, .. } in records.iter().filter(|stored| stored.file == *path) {
                    let head = bytes.start - 40;
                    if data[head as usize + 4..][..4] == *b"JFRM" {
                        say("header of a frame", head..bytes.start);
                    }
                    say(if is_cold { "cold record" } else { "record" }, bytes.clone());
                    end = bytes.end;
                }
                let is_footer = |at: &u64| data[*at as usize + 4..][..4] == *b"JFRM" && word(at + 8) & 2 != 0;
                let at = (end.next_multiple_of(4096)..*bytes).step_by(4096).find(is_footer);
                at.into_iter().for_each(|at| say("footer", at..at + 48 + u64::from(word(at + 40))));
            }
            Some("index") => {
                let tail = u64::from(word(24));
                say("checkpoint", 0..48);
                for _ in 0..20 {
                    say("checkpoint", 4096..tail);
                    say("checkpoint's tail", tail..*bytes);
                }
            }
            None if path.ends_with("MANIFEST") => {
                say("manifest", 0..64);
                for at in (4096..*bytes).step_by(4096).filter(|at| word(at + 4) > 0) {
                    say("manifest", at..at + 16 + u64::from(word(at + 4)));
                }
            }
            _ => {}
        }
    }
    all
}

/// Whether `offset` lies in the last edit of the manifest.
fn losable(sim: &SimIo, path: &Path, offset: u64) -> bool {
    if !path.ends_with("MANIFEST") {
        return false;
    }
    let file = sim.open(path, OpenMode::READ).expect("a file");
    let mut head = [0; 8];
    let next = (offset / 4096 + 1) * 4096;
    file.read_at(&mut head, next).expect("readable") < 8 || head == [0; 8]
}

/// A record as it lies in the log.
struct Stored {
    file: PathBuf,
    /// With its header.
    bytes: Range<u64>,
    record: Vec<u8>,
}

fn stored(sim: &SimIo) -> Vec<Stored> {
    let mut records = Vec::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let from = u64::from(at.offset());
        records.push(Stored {
            file: PathBuf::from(format!("{LOG_DIR}/{:016x}.seg", at.segment().0)),
            bytes: from..from + 8 + record.len() as u64,
            record: record.to_vec(),
        });
        Ok(())
    };
    Log::read(sim, Path::new(LOG_DIR), &mut replay).expect("readable");
    records
}

/// Repair the image: what is found is what the records that are not damaged say, in the order of their numbers.
fn repair(image: &SimIo, records: &[Stored], (damaged, at): (&Path, u64), what: &str) {
    let io: Arc<dyn Io> = Arc::new(image.clone());
    let mut losses = Vec::new();
    let home = Path::new(LOG_DIR).parent().expect("the instance");
    let (before, mut told) = (image.image_hash(), 0);
    let inspected = LogEngine::inspect(&io, home, &mut |_| told += 1).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(image.image_hash(), before, "{what}: an inspection changed something");
    assert!(inspected > 0 && inspected == told, "{what}: {inspected} damages, told of {told}");
    let done = LogEngine::repair(&io, home, &mut |loss| losses.push(loss)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(done.losses > 0 && losses.iter().any(|loss| loss.file == damaged), "{what}: {losses:?}");
    let mut expected = State::new();
    let is_whole = |stored: &&Stored| stored.file != damaged || !stored.bytes.contains(&at);
    let mut whole: Vec<_> = records.iter().filter(is_whole).collect();
    whole.sort_by_key(|stored| u64::from_le_bytes(stored.record[8..16].try_into().expect("8 bytes")));
    for Stored { record, .. } in whole {
        let key_end = 16 + u32::from_le_bytes(record[4..8].try_into().expect("4 bytes")) as usize;
        let (key, value) = (&record[16..key_end], &record[key_end..]);
        match record[0] {
            1 => drop(expected.insert(key.to_vec(), value.to_vec())),
            2 => drop(expected.remove(key)),
            3 => expected.retain(|found, _| &found[..] < key || &found[..] >= value),
            4 => expected.retain(|found, _| &found[..] < key),
            _ => {}
        }
    }
    let engine = open(image, &options()).unwrap_or_else(|e| panic!("{what}, repaired: {e}"));
    assert_eq!(contents(&engine), expected, "{what}, repaired");
    agree(&engine, &expected, &format!("{what}, repaired"));
    assert_eq!(accounts(&engine), recount(image), "{what}, repaired");
}

#[test]
fn a_bit_that_flips_under_an_open_instance_is_reported_and_never_read() {
    flip_under(IoMode::Mmap, 1500);
}

#[test]
fn a_bit_that_flips_under_an_instance_that_reads_directly_is_reported_and_never_read() {
    flip_under(IoMode::Direct, 150);
}

fn flip_under(io: IoMode, rounds: u32) {
    let dir = tempfile::tempdir().expect("a directory");
    let own = LogEngineOptions { log: reading(io), ..own() };
    let engine = open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, false).expect("open");
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
    for round in 0..rounds {
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
        "{rounds} bits flipped in records of an open instance, {io}: {reported} reported, {other_keys} reads of other keys failed"
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
