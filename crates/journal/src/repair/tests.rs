//! Repair against a list of what was written: damage at many places, one at a time and several; cut at every event.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo};
use biombo_base::io::{Io, OpenMode};

use super::{Loss, Repaired, Salvage};
use crate::{Durability, Log, LogOptions, Lsn, Position};

const DIR: &str = "log";

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, recycle_segments_max: 1, ..LogOptions::default() }
}

#[derive(Default)]
struct Owner(Vec<Loss>);

impl Salvage for Owner {
    fn accepts(&mut self, record: &[u8]) -> bool {
        record.starts_with(b"record")
    }

    fn lost(&mut self, loss: Loss) {
        self.0.push(loss);
    }
}

/// Repair it. An inspection before that tells the same (what nothing but a contradiction shows in other words), and changes nothing.
fn repair(sim: &SimIo) -> biombo_base::Result<(Repaired, Vec<Loss>)> {
    let (mut told, mut owner) = (Owner::default(), Owner::default());
    let io: Arc<dyn Io> = Arc::new(sim.clone());
    // Whose file an image may lack.
    drop(io.try_lock(&Path::new(DIR).join("LOCK")));
    let before = sim.image_hash();
    let inspected = Log::inspect(&io, Path::new(DIR), &mut told)?;
    assert_eq!((sim.image_hash(), inspected), (before, told.0.len() as u64), "{:?}", told.0);
    let repaired = Log::repair(&io, Path::new(DIR), &mut owner)?;
    assert_eq!(repaired.losses, owner.0.len() as u64);
    assert_eq!(told.0.is_empty(), owner.0.is_empty(), "{:?}, {:?}", told.0, owner.0);
    assert!(told.0.len() == 1 || owner.0.starts_with(&told.0), "{:?}, {:?}", told.0, owner.0);
    Ok((repaired, owner.0))
}

/// What was written ever, and where the records of the closed log lie, headers included.
struct Written {
    all: BTreeSet<Vec<u8>>,
    places: BTreeMap<Vec<u8>, (PathBuf, u64, u64)>,
}

/// A log with segments of every kind, closed.
fn written(seed: u64) -> (SimIo, Written) {
    let sim = SimIo::new(seed);
    let mut random = Random(seed);
    let mut all = BTreeSet::new();
    let (mut log, reader) =
        Log::open(Arc::new(sim.clone()), Path::new(DIR), options(), &mut |_: Position, _, _: &[u8]| Ok(())).unwrap();
    log.set_footers(Box::new(|info, footer| footer.extend_from_slice(format!("footer {}", info.number).as_bytes())));
    let mut number = 0;
    for round in 0..60 {
        let batch: Vec<Vec<u8>> = (0..1 + random.below(4))
            .map(|_| {
                number += 1;
                let mut record = format!("record {number} ").into_bytes();
                record.extend((0..random.below(700)).map(|_| random.next() as u8));
                record
            })
            .collect();
        let parts: Vec<[&[u8]; 1]> = batch.iter().map(|record| [&record[..]]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
        let durability = if round / 20 == 1 { Durability::Sync } else { Durability::Os };
        log.append(&parts, durability, &mut Vec::new()).unwrap();
        all.extend(batch);
        if round == 45 {
            let victims: Vec<_> =
                log.segments().iter().filter(|info| info.sealed).map(|info| info.number).take(2).collect();
            let mut cold = log.cold_writer().unwrap();
            for victim in &victims {
                let mut walk = reader.walk(*victim).unwrap();
                while let Some((_, record)) = walk.next_record().unwrap() {
                    cold.append(&[record]).unwrap();
                }
            }
            let cold = cold.finish(b"footer of a cold one").unwrap();
            let replaced = log.install(cold, &victims).unwrap();
            log.release(replaced);
        }
    }
    drop(log);
    let mut places = BTreeMap::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let file = PathBuf::from(format!("{DIR}/{:016x}.seg", at.segment().0));
        let from = u64::from(at.offset());
        places.insert(record.to_vec(), (file, from, from + 8 + record.len() as u64));
        Ok(())
    };
    Log::read(&sim, Path::new(DIR), &mut replay).unwrap();
    assert_eq!(places.len(), all.len());
    (sim, Written { all, places })
}

/// All records of the log, which opens.
fn records(sim: &SimIo, what: &str) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut replay = |_: Position, _: Lsn, record: &[u8]| {
        found.insert(record.to_vec());
        Ok(())
    };
    let opened = Log::open(Arc::new(sim.clone()), Path::new(DIR), options(), &mut replay);
    let (mut log, _reader) = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
    log.append(&[&[b"record after"]], Durability::Sync, &mut Vec::new()).unwrap_or_else(|e| panic!("{what}: {e}"));
    found
}

impl Written {
    /// Panics unless `found` has every record that none of the damages lies in, and none that was never written.
    fn check(&self, found: &BTreeSet<Vec<u8>>, damages: &[(PathBuf, u64)], what: &str) -> usize {
        let mut hit = 0;
        for (record, (file, from, to)) in &self.places {
            let is_hit = damages.iter().any(|(damaged, at)| damaged == file && (*from..*to).contains(at));
            hit += usize::from(is_hit);
            let name = String::from_utf8_lossy(&record[..record.len().min(11)]);
            assert!(is_hit || found.contains(record), "{what}: {name} at {} {from} is lost", file.display());
            assert!(!is_hit || !found.contains(record), "{what}: {name} is damaged and was kept");
        }
        assert!(found.is_subset(&self.all), "{what}: something was made up");
        hit
    }
}

fn random_place(random: &mut Random, files: &[(PathBuf, u64)]) -> (PathBuf, u64) {
    let (path, bytes) = &files[random.below(files.len() as u64) as usize];
    let offset = match random.below(4) {
        0 => random.below(64),
        // Headers of frames of direct segments, and edits.
        1 => random.below(bytes / 4096) * 4096 + random.below(64),
        _ => random.below(*bytes),
    };
    (path.clone(), offset)
}

fn damageable(sim: &SimIo) -> Vec<(PathBuf, u64)> {
    let files = sim.files().into_iter();
    files.filter(|(path, bytes)| *bytes > 0 && path.extension().is_none_or(|extension| extension == "seg")).collect()
}

#[test]
fn one_damage_anywhere_costs_the_record_that_it_lies_in() {
    let (mut repaired, mut untouched, mut lost) = (0, 0, 0);
    for seed in 0..4 {
        let (sim, written) = written(seed);
        let files = damageable(&sim);
        let mut random = Random(seed);
        let mut points = sim.crash_points();
        while points.advance() {}
        for round in 0..400 {
            let (path, offset) = random_place(&mut random, &files);
            let what = format!("seed {seed}, round {round}: {} at {offset}", path.display());
            let image = points.image(Crash::Kill);
            image.flip_bit(&path, offset, random.next() as u8 & 7).unwrap();
            let before = image.image_hash();
            let (done, losses) = repair(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
            if losses.is_empty() {
                assert_eq!((image.image_hash(), done), (before, Repaired::default()), "{what}: changed");
                untouched += 1;
            } else {
                let is_near = |loss: &Loss| {
                    let manifest = loss.file.file_name().is_some_and(|name| name == "MANIFEST");
                    loss.file == path
                        && (manifest || (loss.offset <= offset && offset <= loss.offset + loss.bytes.max(4096)))
                };
                assert!(losses.iter().any(is_near), "{what}: {losses:?}");
                repaired += 1;
                let again = repair(&image).unwrap();
                assert_eq!(again.0, Repaired::default(), "{what}: {:?}", again.1);
            }
            lost += written.check(&records(&image, &what), &[(path, offset)], &what);
        }
    }
    println!("{repaired} repaired, {lost} records lost, {untouched} damages that no opening sees");
    assert!(repaired > 500 && lost > 100, "{repaired} {lost}");
}

#[test]
fn many_damages_leave_a_log_that_opens_with_what_is_sound() {
    let (sim, written) = written(7);
    let files = damageable(&sim);
    let mut random = Random(3);
    let mut points = sim.crash_points();
    while points.advance() {}
    let (mut partly, mut told) = (0, 0);
    for round in 0..300 {
        let image = points.image(Crash::Kill);
        let damages: Vec<_> = (0..2 + random.below(30)).map(|_| random_place(&mut random, &files)).collect();
        for (path, offset) in &damages {
            image.flip_bit(path, *offset, random.next() as u8 & 7).unwrap();
        }
        match random.below(8) {
            0 => image.remove_file(Path::new("log/MANIFEST")).unwrap(),
            1 => {
                let (path, bytes) = &files[random.below(files.len() as u64) as usize];
                image.open(path, OpenMode::WRITE).unwrap().set_len(random.below(*bytes)).unwrap();
            }
            2 => image.remove_file(&files[random.below(files.len() as u64) as usize].0).unwrap(),
            _ => {}
        }
        let what = format!("round {round}");
        let (_, losses) = repair(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
        told += usize::from(!losses.is_empty());
        let found = records(&image, &what);
        assert!(found.is_subset(&written.all), "{what}");
        partly += usize::from(found.len() * 2 > written.all.len());
    }
    assert!(partly > 200 && told > 270, "{partly} of 300 kept more than half, {told} were told of");
}

#[test]
fn a_repair_cut_anywhere_or_refused_by_the_disk_can_be_run_again_and_loses_nothing_more() {
    let (mut cuts, mut random) = (0, Random(11));
    for seed in 0..6 {
        let (sim, written) = written(20 + seed);
        let files = damageable(&sim);
        let damages: Vec<_> = loop {
            // Such that something is rewritten, and everything sound can be kept for sure.
            let damages = vec![random_place(&mut random, &files), random_place(&mut random, &files)];
            let segments = damages.iter().all(|(path, offset)| path.extension().is_some() && *offset >= 4096);
            if segments && damages[0].0 != damages[1].0 {
                break damages;
            }
        };
        for (path, offset) in &damages {
            sim.flip_bit(path, *offset, 3).unwrap();
        }
        let begun = sim.event_count();
        let before = sim.crash(begun, Crash::Kill);
        let (done, _) = repair(&sim).unwrap();
        if done == Repaired::default() {
            continue;
        }
        let mut points = sim.crash_points();
        while points.cut() < begun && points.advance() {}
        loop {
            let crashes = [Crash::Kill, Crash::Nothing, Crash::Everything];
            for crash in crashes.into_iter().chain((0..3).map(|_| Crash::Random(random.next()))) {
                let what = format!("seed {seed}, cut at {} ({}), {crash:?}", points.cut(), points.label());
                let image = points.image(crash);
                repair(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
                written.check(&records(&image, &what), &damages, &what);
                cuts += 1;
            }
            if !points.advance() {
                break;
            }
        }
        for event in 0..sim.event_count() - begun {
            for kind in [FaultKind::Eio, FaultKind::Enospc] {
                let what = format!("seed {seed}, {kind:?} at {event}");
                let image = before.crash(0, Crash::Kill);
                image.inject(Fault { times: 1, ..Fault::at(event, kind) });
                let first = repair(&image);
                assert!(first.is_err() || event > 0, "{what}");
                if let Err(error) = first {
                    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Full), "{what}: {error}");
                }
                image.clear_faults();
                repair(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
                written.check(&records(&image, &what), &damages, &what);
            }
        }
    }
    assert!(cuts > 200, "{cuts}");
}

/// The manifest comes before the originals go aside. The other way round, a cut between the two leaves a manifest that names a
/// missing file, for which every file counts that is there: those of segments that were dropped a moment before the crash too.
#[test]
fn a_repair_cut_anywhere_brings_no_dropped_segment_back() {
    let sim = SimIo::new(3);
    let (mut log, _reader) =
        Log::open(Arc::new(sim.clone()), Path::new(DIR), options(), &mut |_: Position, _, _: &[u8]| Ok(())).unwrap();
    let mut all = BTreeSet::new();
    for number in 0..80 {
        let mut record = format!("record {number} ").into_bytes();
        record.resize(900, b'r');
        log.append(&[&[&record]], Durability::Sync, &mut Vec::new()).unwrap();
        all.insert(record);
    }
    let first: Vec<_> = log.segments().iter().map(|info| info.number).take(2).collect();
    log.drop_segments(&first).unwrap();
    // The power goes before the removed names are.
    let crashed = sim.crash(sim.event_count(), Crash::Nothing);
    drop(log);
    let path_of = |number| PathBuf::from(format!("{DIR}/{number:016x}.seg"));
    assert!(first.iter().all(|number| crashed.exists(&path_of(number.0)).unwrap()), "files of dropped segments");
    let mut kept = BTreeMap::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        kept.insert(record.to_vec(), (path_of(at.segment().0), u64::from(at.offset())));
        Ok(())
    };
    Log::read(&crashed, Path::new(DIR), &mut replay).unwrap();
    assert!(kept.len() > 20 && kept.len() < all.len(), "{} of {} are kept", kept.len(), all.len());
    let (damaged, (path, at)) = kept.iter().nth(2).map(|(record, place)| (record.clone(), place.clone())).unwrap();
    crashed.flip_bit(&path, at + 100, 1).unwrap();
    let expected: BTreeSet<_> = kept.into_keys().filter(|record| *record != damaged).collect();
    let sim = crashed.crash(usize::MAX, Crash::Kill);
    let (done, _) = repair(&sim).unwrap();
    assert_eq!((done.losses, done.replaced.len()), (1, 1));
    let (mut points, mut random) = (sim.crash_points(), Random(5));
    loop {
        let crashes = [Crash::Kill, Crash::Nothing, Crash::Everything];
        for crash in crashes.into_iter().chain((0..8).map(|_| Crash::Random(random.next()))) {
            let what = format!("cut at {} ({}), {crash:?}", points.cut(), points.label());
            let image = points.image(crash);
            repair(&image).unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = records(&image, &what);
            let back: Vec<_> =
                found.difference(&expected).map(|record| record[..10].escape_ascii().to_string()).collect();
            assert!(found == expected, "{what}: {} of {} are there, and {back:?}", found.len(), expected.len());
        }
        if !points.advance() {
            break;
        }
    }
}

#[test]
fn a_log_that_is_open_or_missing_or_newer_is_refused_and_a_torn_tail_is_no_damage() {
    let (sim, _) = written(1);
    {
        let _open = Log::open(Arc::new(sim.clone()), Path::new(DIR), options(), &mut |_: Position, _, _: &[u8]| Ok(()))
            .unwrap();
        assert_eq!(repair(&sim).unwrap_err().kind(), ErrorKind::Busy);
    }
    assert_eq!(repair(&SimIo::new(1)).unwrap_err().kind(), ErrorKind::NotFound);
    let mut points = sim.crash_points();
    let mut random = Random(2);
    while points.advance() {
        if points.cut() % 3 > 0 {
            continue;
        }
        let image = points.image(Crash::Random(random.next()));
        if image.exists(Path::new(DIR)).unwrap() {
            let (done, losses) = repair(&image).unwrap();
            assert_eq!(done, Repaired::default(), "cut at {}: {losses:?}", points.cut());
        }
    }
}
