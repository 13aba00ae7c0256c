//! Disks that refuse under the engine: EIO, ENOSPC, half written and failed syncs, at every event of a workload, those of cleaning and
//! of checkpoints of the index among them. The caller is told the right thing, an engine that cannot know what is stored takes no
//! more, and nothing acknowledged is lost.

mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::IoMode;
use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo};
use biombo_engine::crash_suite::{Model, check, contents, disk, random_batch, write_on};
use biombo_engine::{Durability, Engine, Op};
use biombo_journal::{LogOptions, Modes};
use biombo_log::LogEngine;
use subject::{Subject, accounts, open, recount};

fn options(io: IoMode) -> LogOptions {
    LogOptions {
        segment_bytes: 24 << 10,
        recycle_segments_max: 1,
        modes: Modes::ByDurability,
        unsynced_segments_max: 1,
        first_segment_bytes: 8 << 10,
        small_segment_bytes: 12 << 10,
        segments_min: 3,
        io,
        cache_bytes: 4 << 10,
    }
}

/// Whether an engine in which something failed takes no more; then it says so to everybody.
fn is_poisoned(engine: &Arc<LogEngine>, model: &mut Model) -> bool {
    assert_eq!(contents(engine), *model.last(), "nothing that is read has changed");
    if engine.sync().is_ok() {
        model.synced(0);
        return false;
    }
    poisoned(engine);
    assert_eq!(contents(engine), *model.last(), "a poisoned engine can be read");
    true
}

/// Work until the first error that poisons; returns the kinds of all that were met. What cleaning did is noted in `stages`.
fn work(sim: &SimIo, model: &mut Model, stages: &mut BTreeSet<String>, io: IoMode) -> Vec<ErrorKind> {
    let mut random = Random(11);
    let mut met = Vec::new();
    let mut engine = match open(sim, &options(io)) {
        Ok(engine) => engine,
        Err(error) => return vec![error.kind()],
    };
    for number in 0..48 {
        if number == 20 {
            drop(engine);
            engine = match open(sim, &options(io)) {
                Ok(engine) => engine,
                Err(error) => {
                    met.push(error.kind());
                    return met;
                }
            };
            assert_eq!(contents(&engine), *model.last(), "opened again");
        }
        if number % 18 == 11 {
            match engine.save_index() {
                Ok(()) => model.synced(0),
                Err(error) => {
                    met.push(error.kind());
                    if is_poisoned(&engine, model) {
                        return met;
                    }
                }
            }
        }
        if number % 4 == 3 {
            for _ in 0..3 {
                match engine.clean_step(true) {
                    Ok(stage) => stages.extend(stage),
                    Err(error) => {
                        met.push(error.kind());
                        if is_poisoned(&engine, model) {
                            return met;
                        }
                    }
                }
            }
        }
        if number % 16 == 15 {
            match engine.sync() {
                Ok(()) => model.synced(0),
                Err(error) => {
                    met.push(error.kind());
                    poisoned(&engine);
                    assert_eq!(contents(&engine), *model.last(), "after a failed sync");
                    return met;
                }
            }
        }
        let batch = random_batch(&mut random, number);
        let durability = if number % 16 < 9 { Durability::Os } else { Durability::Sync };
        let before = model.last().clone();
        model.begin(&batch.to_ops());
        match engine.apply(&batch.to_ops(), durability) {
            Ok(()) => {
                model.acked(0);
                if durability == Durability::Sync {
                    model.synced(0);
                }
            }
            Err(error) => {
                met.push(error.kind());
                assert_eq!(contents(&engine), before, "what failed ({error}) is not seen");
                if error.kind() != ErrorKind::Full {
                    // The outcome is unknown: it may be there after opening again.
                    poisoned(&engine);
                    assert_eq!(contents(&engine), before, "a poisoned engine can be read");
                    return met;
                }
                model.refused();
            }
        }
    }
    assert_eq!(contents(&engine), *model.last());
    // In the middle of a pass the segments that it has replaced are still accounted for.
    loop {
        match engine.clean_step(false) {
            Ok(Some(stage)) => drop(stages.insert(stage)),
            Ok(None) => break,
            Err(error) => {
                met.push(error.kind());
                return met;
            }
        }
    }
    assert_eq!(contents(&engine), *model.last());
    assert_eq!(accounts(&engine), recount(sim));
    met
}

fn poisoned(engine: &Arc<LogEngine>) {
    let put = [Op::Put { key: b"a", value: b"refused" }];
    let batch = [put[0], Op::Delete { key: b"b" }];
    let refused = [
        engine.apply(&put, Durability::Os),
        engine.apply(&put, Durability::Sync),
        engine.apply(&batch, Durability::Os),
        engine.apply(&[], Durability::Sync),
        engine.sync(),
    ];
    for refused in refused {
        assert_eq!(refused.expect_err("it is poisoned").kind(), ErrorKind::Poisoned);
    }
}

#[test]
fn a_refusing_disk_loses_nothing_acknowledged_and_says_what_is_wrong() {
    let whole = disk(3);
    let begun = whole.event_count();
    let mut stages = BTreeSet::new();
    assert_eq!(work(&whole, &mut Model::new(), &mut stages, IoMode::Mmap), []);
    let named = ["copy", "finish", "settle", "install", "move", "release"].map(str::to_owned);
    assert_eq!(stages, BTreeSet::from(named), "what cleaning did");
    let labels = whole.labels();
    let steps = ["write #.seg", "allocate #.new", "sync #.seg", "sync #.new", "write MANIFEST", "set_len #.seg"];
    let saving = ["create #.index-new", "write #.index-new", "sync #.index-new", "rename #.index-new -> #.index"];
    for step in steps.into_iter().chain(saving).chain(["sync_dir db", "remove #.index"]) {
        assert!(labels.iter().any(|label| label == step), "the workload never came to {step}");
    }
    let (mut kinds, mut struck, mut random) = (BTreeMap::new(), 0, Random(5));
    for (event, label) in labels.iter().enumerate().skip(begun) {
        // Memory refuses nothing.
        if label.starts_with("store") {
            continue;
        }
        for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(700)] {
            for times in [1, u32::MAX] {
                let place = format!("{kind:?} at {event} ({label}) x{times}");
                let sim = disk(3);
                sim.inject(Fault { times, ..Fault::at(event, kind) });
                let mut model = Model::new();
                let io = IoMode::ALL[(event + usize::from(times == 1)) % 2];
                for met in work(&sim, &mut model, &mut stages, io) {
                    assert!(matches!(met, ErrorKind::Io | ErrorKind::Full | ErrorKind::Poisoned), "{place}: {met:?}");
                    *kinds.entry(format!("{met:?}")).or_insert(0) += 1;
                    struck += 1;
                }
                sim.clear_faults();
                let subject = Subject(options(io));
                for crash in [Crash::Kill, Crash::Nothing, Crash::Random(random.next()), Crash::Random(random.next())] {
                    let image = sim.crash(usize::MAX, crash);
                    let what = format!("{place}, {crash:?}");
                    check(&subject, &image, &model, usize::MAX - 1, crash == Crash::Kill, &what);
                }
                // The disk is well again, and the process goes on.
                let what = format!("{place}, opened again");
                let found = check(&subject, &sim, &model, usize::MAX - 1, true, &what);
                write_on(&subject, &sim, &model, found, &mut random, &what);
            }
        }
    }
    println!("{struck} errors: {kinds:?}");
    assert!(struck > labels.len(), "{struck} errors reached the caller");
    assert!(kinds.contains_key("Io") && kinds.contains_key("Full"), "{kinds:?}");
}

/// A disk that is full for a while: nothing is changed, and later the same writes go through.
#[test]
fn a_full_disk_refuses_and_an_emptied_one_goes_on() {
    let sim = disk(4);
    let engine = open(&sim, &options(IoMode::Mmap)).expect("open");
    let mut model = Model::new();
    let (mut refused, mut random) = (0, Random(9));
    for round in 0..60 {
        if round % 20 == 10 {
            let when = biombo_base::io::sim::When::Matches(Arc::new(|info| info.label.starts_with("allocate")));
            sim.inject(Fault { when, kind: FaultKind::Enospc, times: u32::MAX });
        }
        if round % 20 == 0 {
            sim.clear_faults();
        }
        let batch = random_batch(&mut random, round);
        model.begin(&batch.to_ops());
        match engine.apply(&batch.to_ops(), Durability::Sync) {
            Ok(()) => {
                model.acked(0);
                model.synced(0);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                model.refused();
                refused += 1;
            }
        }
        assert_eq!(contents(&engine), *model.last());
    }
    assert!(refused > 3 && refused < 40, "{refused} refused");
    assert_eq!(accounts(&engine), recount(&sim));
    let left = sim.crash(usize::MAX, Crash::Nothing);
    check(&Subject(options(IoMode::Mmap)), &left, &model, usize::MAX - 1, true, "after a full disk");
}
