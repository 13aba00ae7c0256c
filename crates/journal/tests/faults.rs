//! Disks that refuse: EIO, ENOSPC, half written and failed syncs, at every event of a workload.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::Path;
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo};
use biombo_journal::{Durability, JournalOptions, Lsn, Mode, Modes};
use common::{Model, open};

/// Open and append until the first error. Returns whether the fault was met, and with which kind.
fn work(sim: &SimIo, options: &JournalOptions, model: &mut Model, random: &mut Random) -> Option<ErrorKind> {
    let journal = match open(Arc::new(sim.clone()), options) {
        Ok((journal, seen)) => {
            model.check(usize::MAX, true, &seen).unwrap();
            journal
        }
        Err(e) => return Some(e.kind()),
    };
    model.durable_now(sim.event_count());
    let mut met = None;
    for i in 0..16 {
        let bytes = if i % 5 == 4 { 5000 } else { random.below(900) };
        let batch: Vec<Vec<u8>> = (0..1 + i % 3).map(|j| vec![i * 16 + j; bytes as usize]).collect();
        let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        let durability = if i % 4 == 1 { Durability::Os } else { Durability::Sync };
        match journal.append_batch(&slices, durability) {
            Ok(lsn) => {
                assert_eq!(lsn.0, model.next());
                model.push(&batch);
                if durability == Durability::Sync { model.durable_now(0) } else { model.written_now(0) }
            }
            Err(e) if e.kind() == ErrorKind::Full => {
                met = Some(e.kind());
                assert_eq!(journal.next_lsn().0, model.next(), "a full disk changes nothing");
            }
            Err(e) => {
                // The outcome is unknown: it may be there.
                model.push(&batch);
                for refused in [journal.append(b"x", Durability::Os).map(drop), journal.sync(), journal.trim(Lsn(1))] {
                    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned);
                }
                return Some(e.kind());
            }
        }
        if i == 9 {
            let before = model.next().saturating_sub(3).max(1);
            model.trimmed_now(0, before);
            if let Err(e) = journal.trim(Lsn(before)) {
                assert_eq!(journal.sync().unwrap_err().kind(), ErrorKind::Poisoned);
                return Some(e.kind());
            }
        }
    }
    met
}

fn disk() -> SimIo {
    let sim = SimIo::new(3);
    sim.create_dir_all(Path::new("store")).unwrap();
    sim.sync_dir(Path::new("")).unwrap();
    sim
}

#[test]
fn a_refusing_disk_loses_nothing_acknowledged_and_poisons_the_journal() {
    for (mode, recycle) in [(Mode::Direct, 1), (Mode::Buffered, 0), (Mode::Buffered, 2)] {
        let options = JournalOptions {
            segment_bytes: 12 << 10,
            recycle_segments_max: recycle,
            modes: Modes::Always(mode),
            unsynced_segments_max: 0,
        };
        let whole = disk();
        assert_eq!(work(&whole, &options, &mut Model::new(), &mut Random(1)), None);
        let mut kinds = std::collections::BTreeMap::new();
        for event in 2..whole.event_count() {
            for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(0), FaultKind::Short(700)] {
                for times in [1, u32::MAX] {
                    let place = format!("{mode:?} {kind:?} at {event} ({}) x{times}", whole.labels()[event]);
                    let sim = disk();
                    sim.inject(Fault { times, ..Fault::at(event, kind) });
                    let mut model = Model::new();
                    let met = work(&sim, &options, &mut model, &mut Random(1));
                    *kinds.entry(format!("{met:?}")).or_insert(0) += 1;
                    sim.clear_faults();
                    // The machine stops here, in several ways; or goes on and the journal is opened again, and stops then.
                    for seed in 0..4 {
                        check(&sim, &options, &model, Crash::Random(seed), &place);
                    }
                    check(&sim, &options, &model, Crash::Nothing, &place);
                    check(&sim, &options, &model, Crash::Kill, &place);
                    let (journal, seen) = open(Arc::new(sim.clone()), &options).expect(&place);
                    model.check(usize::MAX, true, &seen).expect(&place);
                    let mut after = model.after(usize::MAX, false, &seen);
                    check(&sim, &options, &after, Crash::Nothing, &format!("{place}, opened again"));
                    journal.append(&[9], Durability::Sync).expect(&place);
                    after.push(&[vec![9]]);
                    after.durable_now(0);
                    check(&sim, &options, &after, Crash::Nothing, &format!("{place}, opened and appended again"));
                }
            }
        }
        println!("{mode:?}: {kinds:?}");
        assert!(kinds.contains_key("Some(Io)") && kinds.contains_key("Some(Full)"), "{kinds:?}");
    }
}

fn check(sim: &SimIo, options: &JournalOptions, model: &Model, crash: Crash, place: &str) {
    let image = sim.crash(usize::MAX, crash);
    let (_, seen) = open(Arc::new(image), options).map_err(|e| format!("{place}, {crash:?}: {e}")).unwrap();
    let checked = model.check(usize::MAX, crash == Crash::Kill, &seen);
    checked.map_err(|what| format!("{place}, {crash:?}: {what}")).unwrap();
}

#[test]
fn a_read_error_while_opening_is_an_error_and_changes_nothing() {
    let options = JournalOptions {
        segment_bytes: 12 << 10,
        recycle_segments_max: 1,
        modes: Modes::Always(Mode::Direct),
        unsynced_segments_max: 0,
    };
    let sim = disk();
    let mut model = Model::new();
    work(&sim, &options, &mut model, &mut Random(1));
    let before = sim.image_hash();
    let mut failed = 0;
    for n in 0..50 {
        let image = sim.crash(usize::MAX, Crash::Kill);
        image.inject(Fault { when: biombo_base::io::sim::When::Read(n), kind: FaultKind::Eio, times: 1 });
        match open(Arc::new(image.clone()), &options) {
            Ok(_) => break,
            Err(e) => assert_eq!(e.kind(), ErrorKind::Io),
        }
        failed += 1;
        assert_eq!(image.image_hash(), before);
    }
    assert!((2..50).contains(&failed), "{failed}");
}
