//! Disks that refuse under a log: EIO, ENOSPC, half written and failed syncs, at every event of a workload that meets every
//! kind of step.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod log_model;

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo, When};
use biombo_journal::{Durability, LogOptions, Modes, SegmentKind};
use log_model::{Model, Taking, footer_of, open};

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 12 << 10,
        recycle_segments_max: 1,
        modes: Modes::ByDurability,
        unsynced_segments_max: 1,
        first_segment_bytes: 8 << 10,
        ..LogOptions::default()
    }
}

fn disk() -> SimIo {
    let sim = SimIo::new(3);
    sim.create_dir_all(Path::new("store")).unwrap();
    sim.sync_dir(Path::new("")).unwrap();
    sim
}

/// Work until the first error that poisons. Returns the kinds of errors that were met.
fn work(sim: &SimIo, model: &mut Model) -> Vec<ErrorKind> {
    let mut met = Vec::new();
    let (mut log, reader, seen) = match open(Arc::new(sim.clone()), &options(), Taking::Frames) {
        Ok(opened) => opened,
        Err(e) => return vec![e.kind()],
    };
    model.check(usize::MAX - 1, true, &seen, &reader).unwrap();
    // Os in sequence, then Sync, so that segments of both modes are written, sealed and dropped.
    for i in 0..60u64 {
        let durability = if i % 30 < 20 { Durability::Os } else { Durability::Sync };
        let batch: Vec<Vec<u8>> =
            (0..1 + i % 2).map(|j| vec![(2 * i + j) as u8; 300 + 150 * (i % 4) as usize]).collect();
        let parts: Vec<[&[u8]; 1]> = batch.iter().map(|record| [&record[..]]).collect();
        let parts: Vec<&[&[u8]]> = parts.iter().map(|parts| &parts[..]).collect();
        let mut at = Vec::new();
        let before = (log.next_lsn(), log.durable_lsn());
        match log.append(&parts, durability, &mut at) {
            Ok(_) => {
                model.push(&at, &batch);
                if durability == Durability::Sync { model.durable_now(0) } else { model.written_now(0) }
            }
            Err(e) => {
                assert!(at.is_empty());
                met.push(e.kind());
                if e.kind() == ErrorKind::Full {
                    assert_eq!(log.next_lsn(), before.0, "a full disk changes nothing");
                } else {
                    // The outcome is unknown: it may be there. Nobody is told where.
                    model.unknown(&batch);
                    let mut at = Vec::new();
                    let refused = [
                        log.append(&parts, Durability::Os, &mut at).map(drop),
                        log.sync(),
                        log.seal(),
                        log.drop_segments(&[]),
                        log.cold_writer().map(drop),
                        log.flusher().flush_one().map(drop),
                    ];
                    for refused in refused {
                        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned);
                    }
                    return met;
                }
            }
        }
        if i == 25 || i == 50 {
            // Move the oldest segments of the log to a cold one.
            let hot: Vec<_> = log.segments().into_iter().filter(|info| info.kind == SegmentKind::Hot).collect();
            let replaces: Vec<_> = hot[..hot.len().saturating_sub(1).min(2)].iter().map(|info| info.number).collect();
            let moved = log.cold_writer().and_then(|mut cold| {
                for record in model.records_in(&replaces) {
                    cold.append(&[&record])?;
                }
                cold.finish(b"")
            });
            match moved {
                Ok(finished) => {
                    model.gone_now(&replaces);
                    match log.install(finished, &replaces) {
                        Ok(replaced) => log.release(replaced),
                        Err(e) => met.push(e.kind()),
                    }
                }
                Err(e) => met.push(e.kind()),
            }
        }
    }
    met
}

fn check(sim: &SimIo, model: &Model, crash: Crash, place: &str) {
    let image = sim.crash(usize::MAX, crash);
    let opened = open(Arc::new(image), &options(), Taking::Footers);
    let (_log, reader, seen) = opened.unwrap_or_else(|e| panic!("{place}, {crash:?}: {e}"));
    let checked = model.check(usize::MAX - 1, crash == Crash::Kill, &seen, &reader);
    checked.unwrap_or_else(|what| panic!("{place}, {crash:?}: {what}"));
}

#[test]
fn a_refusing_disk_loses_nothing_promised_and_poisons_the_log() {
    let whole = disk();
    assert_eq!(work(&whole, &mut Model::new()), []);
    let labels = whole.labels();
    for step in [
        "write #.seg",
        "store #.seg",
        "rename #.seg -> #.free",
        "rename #.free -> #.seg",
        "sync #.seg",
        "write MANIFEST",
    ] {
        assert!(labels.iter().any(|label| label == step), "the workload never came to {step}");
    }
    let mut kinds = std::collections::BTreeMap::new();
    for (event, label) in labels.iter().enumerate().skip(2) {
        for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(700)] {
            for times in [1, u32::MAX] {
                if label.starts_with("store") {
                    continue;
                }
                let place = format!("{kind:?} at {event} ({label}) x{times}");
                let sim = disk();
                sim.inject(Fault { times, ..Fault::at(event, kind) });
                let mut model = Model::new();
                for kind in work(&sim, &mut model) {
                    *kinds.entry(format!("{kind:?}")).or_insert(0) += 1;
                }
                sim.clear_faults();
                // The machine stops here; or goes on and the log is opened again.
                for seed in 0..2 {
                    check(&sim, &model, Crash::Random(seed), &place);
                }
                check(&sim, &model, Crash::Nothing, &place);
                check(&sim, &model, Crash::Kill, &place);
                let (mut log, reader, seen) = open(Arc::new(sim.clone()), &options(), Taking::Frames).expect(&place);
                model.check(usize::MAX - 1, true, &seen, &reader).expect(&place);
                let mut after = model.after(usize::MAX - 1, true, &seen);
                let mut at = Vec::new();
                log.append(&[&[b"on"]], Durability::Sync, &mut at).expect(&place);
                after.push(&at, &[b"on".to_vec()]);
                after.durable_now(0);
                check(&sim, &after, Crash::Nothing, &format!("{place}, opened and appended again"));
            }
        }
    }
    println!("{kinds:?}");
    assert!(kinds.contains_key("Io") && kinds.contains_key("Full"), "{kinds:?}");
}

#[test]
fn a_damaged_footer_is_corruption_to_who_asks_and_costs_only_time_on_opening() {
    let sim = disk();
    let (mut log, _reader, _) = open(Arc::new(sim.clone()), &options(), Taking::Frames).unwrap();
    let mut model = Model::new();
    let mut at = Vec::new();
    for i in 0..3u8 {
        log.append(&[&[&[i; 500]]], Durability::Os, &mut at).unwrap();
        model.push(&at[i as usize..], &[vec![i; 500]]);
        if i < 2 {
            log.seal().unwrap();
        }
    }
    model.durable_now(0);
    let footer = footer_of(&log.segments()[0]);
    log.sync().unwrap();
    // The manifest learns that all is durable with the next segment.
    log.seal().unwrap();
    log.append(&[&[b"last"]], Durability::Os, &mut at).unwrap();
    model.push(&at[3..], &[b"last".to_vec()]);
    model.durable_now(0);
    drop(log);
    let path = Path::new("store/log/0000000000000001.seg");
    let mut data = vec![0; 12 << 10];
    sim.open(path, biombo_base::io::OpenMode::READ).unwrap().read_at(&mut data, 0).unwrap();
    let offset = data.windows(footer.len()).position(|window| window == footer).unwrap();
    let (_, reader, seen) = open(Arc::new(sim.crash(usize::MAX, Crash::Kill)), &options(), Taking::Footers).unwrap();
    assert_eq!((seen.footers, seen.hot.len()), (3, 1), "footers of the sealed ones, records of the last");
    assert_eq!(reader.footer(seen.segments[0].number).unwrap(), Some(footer));
    sim.flip_bit(path, offset as u64 + 3, 1).unwrap();
    let (_log, reader, seen) = open(Arc::new(sim.clone()), &options(), Taking::Footers).unwrap();
    assert_eq!((seen.footers, seen.hot.len()), (2, 2), "the records instead of a damaged footer");
    model.check(usize::MAX - 1, true, &seen, &reader).unwrap();
    let error = reader.footer(seen.segments[0].number).unwrap_err();
    assert_eq!((error.kind(), error.place().unwrap().0), (ErrorKind::Corruption, path));
}

/// Fails when what was reserved has to be taken from the device after all, or when a reservation that is refused changes anything.
#[test]
fn what_was_reserved_is_appended_to_a_full_device() {
    for durability in [Durability::Os, Durability::Sync] {
        let sim = disk();
        let (mut log, _reader, _) = open(Arc::new(sim.clone()), &options(), Taking::Frames).unwrap();
        let fill = || {
            // Within a segment there is room, and syncs take none.
            let takes = |label: &str| !label.starts_with("write #.seg") && !label.starts_with("sync");
            let when = When::Matches(Arc::new(move |event| takes(&event.label)));
            sim.inject(Fault { when, kind: FaultKind::Enospc, times: u32::MAX });
        };
        let mut refused = 0;
        for i in 0..200usize {
            let record = vec![i as u8; 100 + 37 * (i % 40)];
            let before = log.next_lsn();
            fill();
            if let Err(error) = log.reserve([record.len()].into_iter(), durability) {
                assert_eq!((error.kind(), log.next_lsn()), (ErrorKind::Full, before), "{error}");
                refused += 1;
                sim.clear_faults();
                log.reserve([record.len()].into_iter(), durability).unwrap();
                fill();
            }
            log.append(&[&[&record]], durability, &mut Vec::new()).unwrap();
            sim.clear_faults();
        }
        assert!(refused > 10, "{refused} segments were begun");
    }
}
