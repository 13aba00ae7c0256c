//! Segments that are prepared before it is known what they begin with: used, in vain, cut at every event.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod log_model;

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, SimIo};
use biombo_journal::{Durability, Log, LogOptions, Mode, Modes};
use log_model::{Model, Taking, open};

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 8192,
        first_segment_bytes: 8192,
        recycle_segments_max: 1,
        modes: Modes::Always(Mode::Mapped),
        unsynced_segments_max: 2,
        ..LogOptions::default()
    }
}

fn store(seed: u64) -> SimIo {
    let sim = SimIo::new(seed);
    sim.create_dir_all(Path::new("store")).unwrap();
    sim.sync_dir(Path::new("")).unwrap();
    sim
}

fn append(sim: &SimIo, log: &mut Log, model: &mut Model, durability: Durability) {
    let record = vec![model.next() as u8; 700];
    let mut at = Vec::new();
    log.append(&[&[&record]], durability, &mut at).unwrap();
    model.push(&at, &[record]);
    match durability {
        Durability::Os => model.written_now(sim.event_count()),
        Durability::Sync => model.durable_now(sim.event_count()),
    }
}

#[test]
fn a_writer_goes_on_in_a_prepared_segment_without_touching_the_disk_and_no_crash_takes_what_it_promised() {
    for seed in 0..4 {
        let sim = store(seed);
        let (mut log, reader, _) = open(Arc::new(sim.clone()), &options(), Taking::Frames).unwrap();
        let _preparer = log.preparer();
        let mut model = Model::new();
        let (mut switches, mut prepared) = (0, false);
        for round in 0..60 {
            // What a thread of its own does elsewhere.
            if round % 3 == 1
                && let Some(preparing) = log.begin_preparing()
            {
                preparing.run().unwrap();
                prepared = true;
            }
            let (before, segment) = (sim.event_count(), log.active());
            append(&sim, &mut log, &mut model, Durability::Os);
            let is_switch = segment.is_some() && log.active().map(|a| a.0) != segment.map(|a| a.0);
            if is_switch && std::mem::take(&mut prepared) && log.segments().iter().filter(|s| !s.durable).count() <= 2 {
                let labels = sim.labels();
                assert!(labels[before..].iter().all(|label| label.starts_with("store")), "{:?}", &labels[before..]);
                switches += 1;
            }
            if round % 7 == 6 {
                log.flusher().flush_one().unwrap();
            }
        }
        assert!(switches > 2, "{switches} segments were prepared in time");
        drop((log, reader));
        model.durable_now(sim.event_count());
        let mut points = sim.crash_points();
        loop {
            let crashes = [Crash::Kill, Crash::Nothing, Crash::Everything].into_iter().chain((0..6).map(Crash::Random));
            for crash in crashes {
                let place = format!("seed {seed}, cut at {} ({}), {crash:?}", points.cut(), points.label());
                let image = points.image(crash);
                image.create_dir_all(Path::new("store")).unwrap();
                image.sync_dir(Path::new("")).unwrap();
                let (killed, io) = (crash == Crash::Kill, Arc::new(image.clone()));
                let opened = open(io, &options(), Taking::Frames);
                let (mut log, reader, seen) = opened.unwrap_or_else(|e| panic!("{place}: {e}"));
                model.check(points.cut(), killed, &seen, &reader).unwrap_or_else(|what| panic!("{place}: {what}"));
                // It goes on, and is killed again: what was found out is said in time.
                let mut after = model.after(points.cut(), killed, &seen);
                append(&image, &mut log, &mut after, Durability::Sync);
                let again = image.crash(image.event_count(), Crash::Nothing);
                std::mem::forget((log, reader));
                let opened = open(Arc::new(again), &options(), Taking::Footers);
                let (_log, reader, seen) = opened.unwrap_or_else(|e| panic!("{place}, then: {e}"));
                after
                    .check(usize::MAX - 1, false, &seen, &reader)
                    .unwrap_or_else(|what| panic!("{place}, then: {what}"));
            }
            if !points.advance() {
                break;
            }
        }
    }
}

#[test]
fn a_segment_prepared_in_vain_is_dropped_by_another_mode_and_by_closing() {
    let sim = store(1);
    let options = LogOptions { modes: Modes::ByDurability, ..options() };
    let (mut log, reader, _) = open(Arc::new(sim.clone()), &options, Taking::Frames).unwrap();
    let _preparer = log.preparer();
    let mut model = Model::new();
    for closing in [false, true] {
        // Some are written direct before the mode changes.
        for _ in 0..40 {
            append(&sim, &mut log, &mut model, Durability::Os);
        }
        log.begin_preparing().expect("most of a segment is written").run().unwrap();
        assert!(log.begin_preparing().is_none(), "one is prepared already");
        if !closing {
            for _ in 0..40 {
                append(&sim, &mut log, &mut model, Durability::Sync);
            }
        }
    }
    drop((log, reader));
    model.durable_now(sim.event_count());
    let (log, reader, seen) = open(Arc::new(sim.clone()), &options, Taking::Frames).unwrap();
    model.check(usize::MAX - 1, true, &seen, &reader).unwrap();
    assert!(log.segments().iter().all(|info| info.base_lsn < info.end_lsn), "{:?}", log.segments());
}

/// The simulated disk refuses to fill what was written.
#[test]
fn the_room_ahead_that_is_filled_is_behind_what_was_written() {
    let sim = store(5);
    let options = LogOptions { segment_bytes: 8 << 20, first_segment_bytes: 8 << 20, ..options() };
    let (mut log, _reader, _) = open(Arc::new(sim), &options, Taking::Frames).unwrap();
    let (record, mut at) = (vec![7; 3 << 20], Vec::new());
    // Nobody works ahead of this one.
    log.append(&[&[&record]], Durability::Os, &mut at).unwrap();
    let preparer = log.preparer();
    log.append(&[&[&record[..100]]], Durability::Os, &mut at).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let working = preparer.clone();
        scope.spawn(move || {
            working.run(|| {
                let _ = done.send(());
                None
            })
        });
        let filled = is_done.recv();
        preparer.close();
        filled.expect("it worked ahead");
    });
}
