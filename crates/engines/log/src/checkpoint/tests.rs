//! Checkpoints against a model: made in steps while writes and cleaning go on, cut at every event, damaged, and refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::ErrorKind;
use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo, When};
use biombo_engine::{Durability, Engine, Op};

use super::making::{Making, Stage};
use crate::engine::LogEngine;
use crate::model::{DIR, Did, Model, Past, contents, open, options, recount};
use crate::options::LogEngineOptions;

fn small() -> LogEngineOptions {
    // Only when a test says so.
    LogEngineOptions { checkpoint_records: u64::MAX, ..options(8192, 1.2) }
}

/// What opening made of the checkpoint.
#[derive(Debug, Default, Clone, Copy)]
struct Openings {
    from_the_log: u64,
    from_a_checkpoint: u64,
    /// With segments that were cleaned after it.
    gone: u64,
    /// A range was deleted, and segments were cleaned.
    ranges: u64,
}

impl Openings {
    fn count(&mut self, engine: &LogEngine, place: &str) {
        let writer = engine.lock_writer();
        match (writer.standing.gone, &writer.standing.distrusted) {
            (Some(gone), None) => {
                self.from_a_checkpoint += 1;
                self.gone += u64::from(gone > 0);
            }
            (None, None) if writer.standing.number > 0 => self.ranges += 1,
            (None, None) => self.from_the_log += 1,
            both => panic!("{place}: {both:?}"),
        }
    }
}

/// A history, with the events that each call and each step took.
struct History {
    io: SimIo,
    own: LogEngineOptions,
    begun: usize,
    past: Past,
    steps: Vec<(usize, usize, Stage)>,
}

impl History {
    fn of(seed: u64, rounds: usize, ranges: bool) -> Self {
        let mut random = Random(seed);
        let (io, own) = (SimIo::new(seed), small());
        let engine = open(&io, &own).unwrap();
        let sim: Arc<dyn Io> = Arc::new(io.clone());
        let begun = io.event_count();
        let (mut past, mut steps) = (Past::begun(&io), Vec::new());
        let mut making: Option<Making<'_>> = None;
        for _ in 0..rounds {
            let before = io.event_count();
            match random.below(12) {
                0..=2 => drop(engine.clean_a_step(random.below(2) == 0).unwrap()),
                3 | 4 => match &mut making {
                    None => making = Making::begin(&engine, &sim, Path::new(DIR)).unwrap(),
                    Some(one) => {
                        let (stage, _) = one.step().unwrap();
                        steps.push((before, io.event_count(), stage));
                        if stage == Stage::Remove {
                            making = None;
                        }
                    }
                },
                _ => {
                    let did = loop {
                        let did = Did::random(&mut random, 40);
                        if ranges || !matches!(did, Did::DeleteRange(..)) {
                            break did;
                        }
                    };
                    past.apply(&engine, &io, &did, &mut random);
                }
            }
        }
        drop(making);
        recount(&engine);
        drop(engine);
        Self { io, own, begun, past, steps }
    }

    /// Cut at every event of a checkpoint's making and at one in `sparse` others.
    fn cut(&self, seed: u64, sparse: u64, openings: &mut Openings, cut_in: &mut BTreeMap<Stage, u32>) -> u64 {
        let mut random = Random(seed ^ 77);
        let mut points = self.io.crash_points();
        let mut images = 0;
        while points.advance() {
            let cut = points.cut();
            let in_step = self.steps.iter().find(|(from, to, _)| (*from..*to).contains(&cut));
            if cut < self.begun || (in_step.is_none() && random.below(sparse) > 0) {
                continue;
            }
            for crash in [Crash::Kill, Crash::Nothing, Crash::Everything, Crash::Random(random.next())] {
                let image = points.image(crash);
                let place = format!("seed {seed}, cut at {cut} ({}), {in_step:?}, {crash:?}", points.label());
                let engine = open(&image, &self.own).unwrap_or_else(|e| panic!("{place}: {e}"));
                openings.count(&engine, &place);
                images += 1;
                let is_installed = |(_, to, stage): &(usize, usize, Stage)| *stage == Stage::Install && *to <= cut;
                let has_one = engine.lock_writer().standing.number > 0;
                assert!(has_one || !self.steps.iter().any(is_installed), "{place}: no checkpoint is left");
                let found = self.past.check(&engine, cut, crash, &place);
                let logical: usize = found.iter().map(|(key, value)| key.len() + value.len()).sum();
                let stats = engine.stats().unwrap();
                let keys = (found.len() as u64, logical as u64);
                assert_eq!((stats.keys.unwrap(), stats.logical_bytes.unwrap()), keys, "{place}");
                recount(&engine);
                engine.index.verify().unwrap_or_else(|e| panic!("{place}: {e}"));
                if random.below(4) == 0 {
                    Self::go_on(&image, &self.own, engine, found, &mut random, openings, &place);
                }
            }
            if let Some((_, _, stage)) = in_step {
                *cut_in.entry(*stage).or_default() += 1;
            }
        }
        images
    }

    /// What opening left is worked on, saved, cleaned, and opened again.
    fn go_on(
        io: &SimIo,
        own: &LogEngineOptions,
        mut engine: Arc<LogEngine>,
        mut model: Model,
        random: &mut Random,
        openings: &mut Openings,
        place: &str,
    ) {
        for _ in 0..2 {
            for _ in 0..random.below(30) {
                let did = Did::random(random, 40);
                engine.apply(&[did.op()], Durability::Os).unwrap();
                did.apply_to(&mut model);
            }
            match random.below(4) {
                0 => engine.save_index().unwrap(),
                1 => engine.compact().unwrap(),
                _ => {}
            }
            let verified = engine.verify(&mut |damage| panic!("{place}: {damage:?}")).unwrap();
            assert_eq!(verified, model.len() as u64);
            drop(engine);
            engine = open(io, own).unwrap_or_else(|e| panic!("{place}, opened again: {e}"));
            openings.count(&engine, place);
            assert!(contents(&engine) == model, "{place}, opened again");
            recount(&engine);
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_checkpoint_or_of_cleaning_beside_it_leaves_a_prefix_with_all_that_was_synced() {
    let (mut openings, mut cut_in, mut images) = (Openings::default(), BTreeMap::new(), 0);
    for seed in 0..8 {
        let history = History::of(seed, 420, seed % 4 == 3);
        images += history.cut(seed, 12, &mut openings, &mut cut_in);
    }
    println!("{images} images; {openings:?}; cut in {cut_in:?}");
    for stage in [Stage::Write, Stage::Settle, Stage::Finish, Stage::Install, Stage::Remove] {
        assert!(cut_in.get(&stage).is_some_and(|count| *count > 0), "nothing was cut in {stage:?}: {cut_in:?}");
    }
    let Openings { from_the_log, from_a_checkpoint, gone, ranges } = openings;
    assert!(from_the_log > 0 && from_a_checkpoint > gone && gone > 100 && ranges > 0 && ranges < gone, "{openings:?}");
}

/// A store with two segments of data behind a checkpoint, and its keys.
fn saved(io: &SimIo) -> Model {
    let engine = open(io, &small()).unwrap();
    let mut model = Model::new();
    let mut put = |n: u32| {
        let (key, value) = (format!("key{:03}", n % 70).into_bytes(), vec![n as u8; 100 + n as usize % 50]);
        engine.apply(&[Op::Put { key: &key, value: &value }], Durability::Os).unwrap();
        model.insert(key, value);
    };
    (0..300).for_each(&mut put);
    engine.save_index().unwrap();
    (300..420).for_each(&mut put);
    engine.sync().unwrap();
    model
}

fn file(io: &SimIo) -> (PathBuf, u64) {
    io.files().into_iter().find(|(path, _)| path.extension().is_some_and(|e| e == "index")).expect("a checkpoint")
}

#[test]
fn a_damaged_checkpoint_is_not_used_and_is_reported_until_another_takes_its_place() {
    let io = SimIo::new(9);
    let model = saved(&io);
    let (path, bytes) = file(&io);
    let mut points = io.crash_points();
    while points.advance() {}
    let mut random = Random(4);
    let (mut ignored, mut silent) = (0, 0);
    for round in 0..500 {
        let offset = match round % 4 {
            0 => random.below(48),
            1 => bytes - 1 - random.below(500),
            2 => 4096 + random.below(8192),
            _ => random.below(bytes),
        };
        let image = points.image(Crash::Kill);
        image.flip_bit(&path, offset, random.next() as u8 & 7).unwrap();
        let engine = open(&image, &small()).unwrap();
        assert_eq!(contents(&engine), model);
        recount(&engine);
        let mut reported = 0;
        let verified = engine.verify(&mut |damage| {
            assert_eq!(damage.file, path, "{damage:?}");
            reported += 1;
        });
        assert_eq!(verified.unwrap(), model.len() as u64);
        let used = engine.lock_writer().standing.gone.is_some();
        // The rest of the header's block says nothing.
        assert_eq!((used, reported), if (48..4096).contains(&offset) { (true, 0) } else { (false, 1) }, "at {offset}");
        if used {
            silent += 1
        } else {
            ignored += 1
        }
        if round % 20 == 0 && !used {
            engine.save_index().unwrap();
            assert_eq!(engine.verify(&mut |damage| panic!("{damage:?}")).unwrap(), model.len() as u64);
            drop(engine);
            let engine = open(&image, &small()).unwrap();
            assert!(engine.lock_writer().standing.gone.is_some());
            assert_eq!(contents(&engine), model);
        }
    }
    println!("{ignored} ignored and reported, {silent} silent");
    assert!(ignored > 400, "{ignored} ignored, {silent} silent");
}

#[test]
fn a_checkpoint_of_another_time_or_another_log_is_not_used() {
    let io = SimIo::new(9);
    let model = saved(&io);
    let (path, bytes) = file(&io);
    let mut checkpoint = vec![0; bytes as usize];
    io.open(&path, biombo_base::io::OpenMode::READ).unwrap().read_at(&mut checkpoint, 0).unwrap();
    // Another store's directory gets it: one that is shorter, one that is longer.
    for (puts, seed) in [(10u32, 5), (900, 6)] {
        let other = SimIo::new(seed);
        let engine = open(&other, &small()).unwrap();
        for n in 0..puts {
            engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &[1; 200] }], Durability::Os).unwrap();
        }
        let expected = contents(&engine);
        drop(engine);
        other.open(&path, biombo_base::io::OpenMode::WRITE).unwrap().write_at(&checkpoint, 0).unwrap();
        let engine = open(&other, &small()).unwrap();
        assert_eq!(contents(&engine), expected);
        let error = engine.lock_writer().standing.distrusted.as_ref().map(|e| e.kind());
        assert_eq!(error, Some(ErrorKind::Corruption));
        let mut reported = 0;
        engine.verify(&mut |_| reported += 1).unwrap();
        assert_eq!(reported, 1);
    }
    assert_eq!(contents(&open(&io, &small()).unwrap()), model);
}

#[test]
fn a_disk_that_refuses_leaves_the_older_checkpoint_in_use_and_tombstones_where_they_are_needed() {
    for at in 0..12 {
        for kind in [FaultKind::Eio, FaultKind::Enospc] {
            let io = SimIo::new(20 + at);
            let mut model = saved(&io);
            let engine = open(&io, &small()).unwrap();
            let before = engine.lock_writer().standing.limit();
            assert!(before < u64::MAX);
            engine.apply(&[Op::Delete { key: b"key001" }], Durability::Sync).unwrap();
            model.remove(&b"key001"[..]);
            let when = When::Event(io.event_count() + at as usize);
            io.inject(Fault { when, kind, times: 1 });
            let saved = engine.save_index();
            io.clear_faults();
            if let Err(error) = &saved {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::Poisoned), "{error}");
                assert!(engine.lock_writer().standing.limit() <= before.max(421), "{kind:?} at {at}");
            }
            assert_eq!(contents(&engine), model);
            // The log is poisoned where it was its own sync that failed.
            if engine.sync().is_ok() {
                engine.compact().unwrap();
                engine.save_index().unwrap();
            }
            drop(engine);
            let image = io.crash(io.event_count(), Crash::Nothing);
            let engine = open(&image, &small()).unwrap();
            assert_eq!(contents(&engine), model, "{kind:?} at {at}");
            recount(&engine);
        }
    }
}

/// Killed while a checkpoint gets its name, opened and cleaned, and then the power goes: an older checkpoint that came back would lead to what
/// is gone.
#[test]
fn a_checkpoint_that_is_relied_on_has_a_durable_name() {
    let io = SimIo::new(3);
    let mut model = saved(&io);
    let begun = io.event_count();
    let engine = open(&io, &small()).unwrap();
    engine.apply(&[Op::Delete { key: b"key001" }], Durability::Sync).unwrap();
    model.remove(&b"key001"[..]);
    let deleted = io.event_count();
    engine.save_index().unwrap();
    drop(engine);
    let mut points = io.crash_points();
    let (mut from_both, mut tried) = ([0; 2], 0);
    while points.advance() {
        if points.cut() < deleted.max(begun) {
            continue;
        }
        let killed = points.image(Crash::Kill);
        let engine = open(&killed, &small()).unwrap();
        from_both[usize::from(engine.lock_writer().standing.number > 1)] += 1;
        // When nothing is left that is older than the deletion, it goes too.
        for _ in 0..2 {
            for (key, value) in &model {
                engine.apply(&[Op::Put { key, value }], Durability::Os).unwrap();
            }
            engine.compact().unwrap();
        }
        let image = killed.crash(killed.event_count(), Crash::Nothing);
        let place = format!("killed at {} ({})", points.cut(), points.label());
        let engine = open(&image, &small()).unwrap();
        assert_eq!(contents(&engine), model, "{place}");
        engine.verify(&mut |damage| panic!("{place}: {damage:?}")).unwrap();
        tried += 1;
    }
    assert!(tried >= 5 && from_both.iter().all(|n| *n > 0), "{tried} kills, opened from each: {from_both:?}");
}

/// The same where the process goes on to its end after a sync that failed and lost the name, though it is seen: the next opening syncs in vain.
#[test]
fn a_checkpoint_whose_name_was_lost_by_a_failed_sync_leaves_no_older_one_behind() {
    let begun = || {
        let io = SimIo::new(3);
        let mut model = saved(&io);
        let engine = open(&io, &small()).unwrap();
        engine.apply(&[Op::Delete { key: b"key001" }], Durability::Sync).unwrap();
        model.remove(&b"key001"[..]);
        (io, model, engine)
    };
    let (io, _, engine) = begun();
    let deleted = io.event_count();
    engine.save_index().unwrap();
    let labels = io.labels();
    let named =
        (deleted..labels.len()).find(|at| labels[*at].starts_with("rename") && labels[*at].contains("index-new"));
    let named = named.unwrap_or_else(|| panic!("no name is given: {:?}", &labels[deleted..]));
    assert!(labels[named + 1].starts_with("sync_dir"), "{}", labels[named + 1]);
    drop(engine);
    let (io, model, engine) = begun();
    io.inject(Fault::at(named + 1, FaultKind::LostNames));
    engine.save_index().unwrap_err();
    io.clear_faults();
    drop(engine);
    let engine = open(&io, &small()).unwrap();
    assert!(engine.lock_writer().standing.number > 1, "its name is seen");
    for _ in 0..2 {
        for (key, value) in &model {
            engine.apply(&[Op::Put { key, value }], Durability::Os).unwrap();
        }
        engine.compact().unwrap();
    }
    let image = io.crash(io.event_count(), Crash::Nothing);
    let engine = open(&image, &small()).unwrap();
    assert_eq!(contents(&engine), model);
    engine.verify(&mut |damage| panic!("{damage:?}")).unwrap();
}

#[test]
fn checkpoints_come_when_they_are_due_and_on_closing_when_it_pays() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |checkpoint_records| {
        let own = LogEngineOptions { checkpoint_records, ..options(64 << 10, 1.5) };
        crate::open_with(biombo_base::io::RealIo::shared(), &biombo_engine::OpenOptions::new(dir.path()), &own, true)
            .unwrap()
    };
    let engine = opened(2000);
    let put = |engine: &LogEngine, n: u32| {
        let key = (n.wrapping_mul(2_654_435_761) % 5000).to_be_bytes();
        engine.apply(&[Op::Put { key: &key, value: &n.to_be_bytes() }], Durability::Os).unwrap();
    };
    let count = |engine: &LogEngine| engine.lock_writer().standing.count;
    let mut n = 0;
    while count(&engine) < 3 {
        put(&engine, n);
        n += 1;
        assert!(n < 2_000_000, "{} checkpoints after {n} records", count(&engine));
    }
    let told = engine.stats().unwrap().index.unwrap();
    assert!(told.checkpoints >= 3 && told.checkpoint_seconds > 0.0, "{told:?}");
    // Each wrote an image and what stands around it; the last ones are the largest.
    assert!(told.checkpoint_written_bytes > told.checkpoint_bytes, "{told:?}");
    assert!(told.checkpoint_written_bytes < (told.checkpoints + 1) * (told.checkpoint_bytes + (1 << 20)), "{told:?}");
    let model = contents(&engine);
    drop(engine);
    // None is due from here on: what comes is the closing's.
    let engine = opened(40_000);
    assert!(engine.lock_writer().standing.gone.is_some());
    assert!(contents(&engine) == model);
    assert!((0..2000).any(|_| engine.is_loaded() || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        false
    }));
    // So many that taking them up is dearer than an image of this size.
    (0..3000).for_each(|n| put(&engine, n));
    let model = contents(&engine);
    let lsn = engine.lock_writer().log.next_lsn();
    drop(engine);
    let engine = opened(40_000);
    assert_eq!(engine.lock_writer().standing.lsn.0, lsn, "closing saved all");
    assert!(contents(&engine) == model);
}

/// What a pass copied before the freeze may have been deleted before it too, and only the checkpoint would know.
#[test]
fn the_index_is_not_frozen_while_a_pass_is_under_way() {
    let io = SimIo::new(5);
    let engine = open(&io, &small()).unwrap();
    for n in 0..400u32 {
        let key = format!("key{:03}", n % 90);
        engine.apply(&[Op::Put { key: key.as_bytes(), value: &[n as u8; 90] }], Durability::Os).unwrap();
    }
    engine.sync().unwrap();
    let sim: Arc<dyn Io> = Arc::new(io.clone());
    let mut refused = 0;
    assert!(Making::begin(&engine, &sim, Path::new(DIR)).unwrap().is_some());
    while engine.clean_a_step(true).unwrap().is_some() && refused < 5 {
        assert!(Making::begin(&engine, &sim, Path::new(DIR)).unwrap().is_none(), "after {refused} steps");
        refused += 1;
    }
    assert_eq!(refused, 5);
}

/// Of an image nothing is in memory at first: what is free in it is not known. (Mutation: chunks that are not in memory have nothing that is free.)
#[test]
fn an_index_near_its_end_that_began_from_a_checkpoint_takes_keys_where_others_are_gone() {
    let (io, own) = (SimIo::new(3), small());
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    {
        let engine = open(&io, &own).unwrap();
        for i in 0..20_000 {
            engine.apply(&[Op::Put { key: &key(i), value: b"" }], Durability::Os).unwrap();
        }
        for i in 0..15_000 {
            engine.apply(&[Op::Delete { key: &key(i) }], Durability::Os).unwrap();
        }
        let sim: Arc<dyn Io> = Arc::new(io.clone());
        let mut making = Making::begin(&engine, &sim, Path::new(DIR)).unwrap().unwrap();
        while making.step().unwrap().0 != Stage::Remove {}
    }
    let engine = open(&io, &own).unwrap();
    assert!(engine.lock_writer().standing.gone.is_some(), "opened from the log");
    engine.index.limit(40);
    engine.apply(&[Op::Put { key: &key(1), value: b"" }], Durability::Os).expect("room that others have left");
    assert!(engine.contains(&key(15_000)).unwrap());
}
