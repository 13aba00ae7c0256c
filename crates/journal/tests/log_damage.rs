//! Bits that flip at rest under a log: a read says so, opening says so below the watermark, and damage never comes back as
//! data.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod log_model;

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_base::io::{Io, IoMode};
use biombo_journal::{Durability, LogOptions, Mode, Modes};
use log_model::{Model, Taking, open};

fn filled(options: &LogOptions, random: &mut Random) -> (SimIo, Model) {
    let sim = SimIo::new(1);
    sim.create_dir_all(Path::new("store")).unwrap();
    let mut model = Model::new();
    let (mut log, _reader, _) = open(Arc::new(sim.clone()), options, Taking::Frames).unwrap();
    for i in 0..60u8 {
        let record = vec![i; random.below(3000) as usize];
        let mut at = Vec::new();
        log.append(&[&[&record]], if i % 5 == 4 { Durability::Sync } else { Durability::Os }, &mut at).unwrap();
        model.push(&at, &[record]);
    }
    log.sync().unwrap();
    model.durable_now(0);
    (sim, model)
}

#[test]
fn a_flipped_bit_is_corruption_on_opening_or_on_reading_or_harmless() {
    let mut random = Random(5);
    for (mode, io) in [
        (Mode::Direct, IoMode::Mmap),
        (Mode::Direct, IoMode::Direct),
        (Mode::Mapped, IoMode::Mmap),
        (Mode::Buffered, IoMode::Direct),
    ] {
        let modes = Modes::Always(mode);
        let options = LogOptions {
            segment_bytes: 64 << 10,
            recycle_segments_max: 1,
            modes,
            unsynced_segments_max: 1,
            io,
            ..LogOptions::default()
        };
        let (sim, model) = filled(&options, &mut random);
        let files: Vec<_> = sim.files().into_iter().filter(|(path, _)| path.extension().is_some()).collect();
        assert!(files.len() > 1);
        let (mut on_opening, mut on_reading, mut harmless) = (0, 0, 0);
        for round in 0..2000u64 {
            let (path, bytes) = &files[random.below(files.len() as u64) as usize];
            let offset = if round % 4 == 0 { random.below(64) } else { random.below(*bytes) };
            let image = sim.crash(usize::MAX, Crash::Kill);
            image.flip_bit(path, offset, random.next() as u8).unwrap();
            let taking = if round % 2 == 0 { Taking::Frames } else { Taking::Half };
            let place = format!("{path:?} at {offset}");
            match open(Arc::new(image), &options, taking) {
                Ok((_log, reader, seen)) => match model.check(usize::MAX - 1, true, &seen, &reader) {
                    Ok(()) => harmless += 1,
                    Err(what) => {
                        // What was not read on opening is found when it is.
                        assert!(taking == Taking::Half && what.contains("is damaged at offset"), "{place}: {what}");
                        assert!(what.contains("checksum of a record"), "{place}: {what}");
                        on_reading += 1;
                    }
                },
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{place}: {e}");
                    assert!(e.place().is_some_and(|(file, _)| file == path), "{place}: {e}");
                    on_opening += 1;
                }
            }
        }
        let found = format!("{mode:?}, {io}: {on_opening} on opening, {on_reading} on reading, {harmless} harmless");
        assert!(on_opening > 400 && on_reading > 100 && harmless > 50, "{found}");
    }
}

#[test]
fn a_hole_among_unsynced_records_is_the_end_and_what_lies_behind_it_is_never_taken_up() {
    let modes = Modes::Always(Mode::Mapped);
    let options = LogOptions {
        segment_bytes: 16 << 10,
        recycle_segments_max: 1,
        modes,
        unsynced_segments_max: 8,
        ..LogOptions::default()
    };
    let sim = SimIo::new(1);
    sim.create_dir_all(Path::new("store")).unwrap();
    let mut model = Model::new();
    let (mut first, _reader, _) = open(Arc::new(sim.clone()), &options, Taking::Frames).unwrap();
    let append = |log: &mut biombo_journal::Log, model: &mut Model, byte: u8| {
        let mut at = Vec::new();
        log.append(&[&[&[byte; 900]]], Durability::Os, &mut at).unwrap();
        model.push(&at, &[vec![byte; 900]]);
        at[0]
    };
    append(&mut first, &mut model, 0);
    first.sync().unwrap();
    model.durable_now(sim.event_count());
    let positions: Vec<_> = (1..40).map(|byte| append(&mut first, &mut model, byte)).collect();
    assert!(positions[38].segment().0 >= 3, "several segments wait for their sync");
    // The fifth record is lost, all others survived.
    let lost = positions[4];
    let image = sim.crash(sim.event_count(), Crash::Everything);
    let path = format!("store/log/{:016x}.seg", lost.segment().0);
    image.flip_bit(Path::new(&path), u64::from(lost.offset()) + 100, 0).unwrap();
    let (mut log, reader, seen) = open(Arc::new(image.clone()), &options, Taking::Frames).unwrap();
    assert_eq!(seen.next, 6, "it ends before the hole");
    model.check(sim.event_count(), false, &seen, &reader).unwrap();
    assert_eq!(log.segments().len(), 1, "segments behind the hole are discarded");
    assert!(reader.get(&reader.pin(), positions[38]).unwrap().is_none());
    let mut after = model.after(usize::MAX - 1, false, &seen);
    append(&mut log, &mut after, 99);
    drop((log, reader));
    let (_log, reader, seen) = open(Arc::new(image), &options, Taking::Frames).unwrap();
    after.check(usize::MAX - 1, true, &seen, &reader).unwrap();
    assert_eq!(seen.next, 7);
    // The same loss below the watermark is damage: when a log is closed, its manifest says that all of it is durable.
    drop(first);
    sim.flip_bit(Path::new(&path), u64::from(lost.offset()) + 100, 0).unwrap();
    let error = open(Arc::new(sim), &options, Taking::Frames).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_missing_segment_is_damage_and_a_dropped_one_is_not() {
    let options = LogOptions { segment_bytes: 8 << 10, recycle_segments_max: 0, ..LogOptions::default() };
    let (sim, _) = filled(&options, &mut Random(1));
    let (mut log, _reader, seen) = open(Arc::new(sim.clone()), &options, Taking::Frames).unwrap();
    let numbers: Vec<_> = seen.segments.iter().map(|info| info.number).collect();
    log.drop_segments(&[numbers[5], numbers[2]]).unwrap();
    drop((log, _reader));
    let reopened = open(Arc::new(sim.clone()), &options, Taking::Frames).unwrap();
    assert!(!reopened.2.segments.iter().any(|info| info.number == numbers[2]));
    drop(reopened);
    for number in [numbers[0], numbers[3], *numbers.last().unwrap()] {
        let image = sim.crash(usize::MAX, Crash::Kill);
        let path = format!("store/log/{:016x}.seg", number.0);
        image.remove_file(Path::new(&path)).unwrap();
        let error = open(Arc::new(image), &options, Taking::Frames).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Corruption, Some((Path::new(&path), 0))));
    }
    let image = sim.crash(usize::MAX, Crash::Kill);
    image.remove_file(Path::new("store/log/MANIFEST")).unwrap();
    assert_eq!(open(Arc::new(image), &options, Taking::Frames).map(drop).unwrap_err().kind(), ErrorKind::Corruption);
}
