//! Cleaning against a model: every step of it, with snapshots, reopening, crashes at every event, full disks and damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use biombo_base::ErrorKind;
use biombo_base::io::RealIo;
use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo, When};
use biombo_engine::{Durability, Engine, Op, OpenOptions, Snapshot};

use super::Beginning;
use super::pass::Stage;
use crate::engine::Core;
use crate::model::{DIR, Did, Model, Past, all, contents, open, options, recount};
use crate::record::{Kind, Record};

#[test]
fn keys_and_snapshots_stay_what_they_are_through_every_step_and_reopening() {
    let mut stages = BTreeSet::new();
    let (mut superseded, mut dropped_tombstones) = (0, 0);
    for seed in 0..6 {
        let mut random = Random(seed);
        let own = options(8192 << random.below(2), 1.2);
        let io = SimIo::new(seed);
        let mut engine = open(&io, &own).unwrap();
        let mut model = Model::new();
        let mut snapshots: Vec<(Arc<dyn Snapshot>, Model)> = Vec::new();
        for round in 0..900 {
            match random.below(100) {
                0..=59 => {
                    let count = if random.below(6) == 0 { random.below(5) } else { 1 };
                    let did: Vec<_> = (0..count).map(|_| Did::random(&mut random, 60)).collect();
                    let level = if random.below(30) == 0 { Durability::Sync } else { Durability::Os };
                    engine.apply(&did.iter().map(Did::op).collect::<Vec<_>>(), level).unwrap();
                    did.iter().for_each(|did| did.apply_to(&mut model));
                }
                60..=91 => {
                    let everything = random.below(2) == 0;
                    stages.extend(engine.clean_a_step(everything).unwrap());
                    recount(&engine);
                }
                92..=94 if snapshots.len() < 3 => {
                    snapshots.push((Arc::clone(&engine).snapshot().unwrap(), model.clone()));
                }
                92..=95 if !snapshots.is_empty() => {
                    let (snapshot, then) = snapshots.swap_remove(random.below(snapshots.len() as u64) as usize);
                    for key in (0..60).map(|n| format!("key{n:03}").into_bytes()) {
                        let got = snapshot.get(&key).unwrap();
                        assert_eq!(got.as_deref(), then.get(&key).map(Vec::as_slice), "seed {seed}, round {round}");
                    }
                    assert_eq!(all(snapshot.cursor().unwrap()), then, "seed {seed}, round {round}");
                }
                96 => {
                    engine.compact().unwrap();
                    recount(&engine);
                }
                97 if snapshots.is_empty() => {
                    drop(engine);
                    engine = open(&io, &own).unwrap();
                    recount(&engine);
                }
                _ => {}
            }
            if round % 16 == 0 {
                assert_eq!(contents(&engine), model, "seed {seed}, round {round}");
            }
        }
        superseded += kinds(&engine, |kind| kind == Kind::Superseded);
        drop(snapshots);
        let tombstones = kinds(&engine, Kind::is_tombstone);
        engine.compact().unwrap();
        recount(&engine);
        let left = kinds(&engine, |_| true);
        assert!(left <= model.len() + 2 + kinds(&engine, Kind::is_tombstone), "seed {seed}: {left} records");
        dropped_tombstones += tombstones.saturating_sub(kinds(&engine, Kind::is_tombstone));
        drop(engine);
        let engine = open(&io, &own).unwrap();
        assert_eq!(contents(&engine), model, "seed {seed}, reopened");
        recount(&engine);
    }
    assert!(superseded > 0 && dropped_tombstones > 0, "{superseded}, {dropped_tombstones}");
    let named = [Stage::Copy, Stage::Finish, Stage::Settle, Stage::Install, Stage::Move, Stage::Release];
    assert_eq!(stages, BTreeSet::from(named));
}

/// Records of sealed segments that are of a kind (`Begin` is none).
fn kinds(core: &Core, of: impl Fn(Kind) -> bool) -> usize {
    let writer = core.lock_writer();
    let active = writer.log.active().map(|(number, _)| number);
    let mut count = 0;
    for info in writer.log.segments().iter().filter(|info| Some(info.number) != active) {
        let mut walk = core.reader.walk(info.number).unwrap();
        while let Some((_, bytes)) = walk.next_record().unwrap() {
            let kind = Record::parse(bytes).unwrap().kind;
            count += usize::from(kind != Kind::Begin && of(kind));
        }
    }
    count
}

#[test]
fn a_crash_at_any_step_of_cleaning_leaves_a_prefix_with_all_that_was_synced() {
    let mut cut_in = BTreeMap::new();
    for seed in 0..6 {
        let mut random = Random(1000 + seed);
        let own = options(8192, 1.2);
        let io = SimIo::new(seed);
        let engine = open(&io, &own).unwrap();
        let begun = io.event_count();
        let mut past = Past::begun(&io);
        let mut steps: Vec<(usize, usize, Stage)> = Vec::new();
        for _ in 0..300 {
            if random.below(3) == 0 {
                let before = io.event_count();
                if let Some(stage) = engine.clean_a_step(random.below(2) == 0).unwrap() {
                    steps.push((before, io.event_count(), stage));
                }
                continue;
            }
            past.apply(&engine, &io, &Did::random(&mut random, 25), &mut random);
        }
        let mut points = io.crash_points();
        drop(engine);
        let end = steps.last().map_or(0, |step| step.1);
        while points.advance() {
            let cut = points.cut();
            let in_step = steps.iter().find(|(from, to, _)| (*from..*to).contains(&cut));
            // Every event of cleaning, and some of the others.
            if cut < begun || cut > end || (in_step.is_none() && random.below(40) > 0) {
                continue;
            }
            for crash in [Crash::Kill, Crash::Nothing, Crash::Everything, Crash::Random(random.next())] {
                let image = points.image(crash);
                let place = format!("seed {seed}, cut at {cut} ({}), {in_step:?}, {crash:?}", points.label());
                let engine = open(&image, &own).unwrap_or_else(|e| panic!("{place}: {e}"));
                let found = past.check(&engine, cut, crash, &place);
                recount(&engine);
                engine.compact().unwrap();
                assert!(contents(&engine) == found, "{place}, after cleaning");
            }
            if let Some((_, _, stage)) = in_step {
                *cut_in.entry(*stage).or_insert(0) += 1;
            }
        }
    }
    for stage in [Stage::Copy, Stage::Finish, Stage::Settle, Stage::Install, Stage::Release] {
        assert!(cut_in.get(&stage).is_some_and(|count| *count > 0), "nothing was cut in {stage:?}: {cut_in:?}");
    }
}

#[test]
fn a_full_disk_drops_the_attempt_and_a_damaged_segment_is_left_alone() {
    let own = options(8192, 1.2);
    let io = SimIo::new(3);
    let engine = open(&io, &own).unwrap();
    let value = vec![7; 200];
    let put = |n: u32| engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &value }], Durability::Os).unwrap();
    (0..600).for_each(|n| put(n % 97));
    engine.sync().unwrap();
    let before = contents(&engine);
    let is_cold = |label: &str| label.contains("#.new") || label.contains("MANIFEST");
    for skipped in 0..6 {
        let left = std::sync::atomic::AtomicU32::new(skipped);
        let when = When::Matches(Arc::new(move |event| {
            is_cold(&event.label)
                && left
                    .fetch_update(std::sync::atomic::Ordering::SeqCst, std::sync::atomic::Ordering::SeqCst, |n| {
                        n.checked_sub(1)
                    })
                    .is_err()
        }));
        io.inject(Fault { when, kind: FaultKind::Enospc, times: 1 });
        let failed = loop {
            match engine.clean_a_step(true) {
                Ok(None) => break None,
                Ok(Some(_)) => {}
                Err(error) => break Some(error),
            }
        };
        io.clear_faults();
        if let Some(error) = failed {
            // Once something refers to the file, a failure is the log's.
            assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Io), "{error}");
            if engine.sync().is_err() {
                return;
            }
            assert!(engine.lock_cleaner().pass.is_none());
        }
        assert!(contents(&engine) == before);
        recount(&engine);
        (0..60).for_each(|n| put(n % 97));
    }
    let victim = {
        let writer = engine.lock_writer();
        engine.survey(&writer, &Default::default()).candidates.first().map(|one| one.number)
    };
    let Some(victim) = victim else { return };
    let path = Path::new(DIR).join(format!("log/{:016x}.seg", victim.0));
    io.flip_bit(&path, 4096 + 40 + 8 + 60, 1).unwrap();
    let failed = loop {
        match engine.clean_a_step(true) {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.kind()),
        }
    };
    if failed == Some(ErrorKind::Corruption) {
        assert!(engine.lock_cleaner().spoiled.contains(&victim));
        assert!(engine.compact().is_ok(), "the others are cleaned");
        assert!(engine.reader.walk(victim).is_some());
    }
}

#[test]
fn the_bound_holds_over_a_long_skewed_overwrite_on_a_busy_machine() {
    let dir = tempfile::tempdir().unwrap();
    // As many segments as a store of some gigabytes has, each of them small.
    let own = options(64 << 10, 1.33);
    let engine = crate::open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, true).unwrap();
    let bound = engine.lock_cleaner().bound(super::Space::default());
    let mut random = Random(5);
    let value = vec![1; 400];
    let keys = 5000u64;
    let (mut worst, mut over, mut longest) = (0.0f64, 0, Duration::ZERO);
    // The thread that cleans gets little of the processors.
    let busy = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let spinners: Vec<_> = (0..2)
        .map(|_| {
            let busy = Arc::clone(&busy);
            std::thread::spawn(move || while busy.load(std::sync::atomic::Ordering::Relaxed) {})
        })
        .collect();
    for n in 0..20_000u64 {
        // Half of the writes go to a hundredth of the keys.
        let key = if n < keys {
            n
        } else if random.below(2) == 0 {
            random.below(keys / 100)
        } else {
            random.below(keys)
        };
        let begun = std::time::Instant::now();
        engine.apply(&[Op::Put { key: &key.to_be_bytes(), value: &value }], Durability::Os).unwrap();
        longest = longest.max(begun.elapsed());
        if n % 50 == 0 {
            let writer = engine.lock_writer();
            let space = engine.survey(&writer, &Default::default()).space;
            worst = worst.max(bound.pressure(space));
            let dead = space.data_bytes.saturating_sub(space.live_bytes);
            over = over.max(dead.saturating_sub(bound.allowed_bytes(space)));
        }
    }
    busy.store(false, std::sync::atomic::Ordering::Relaxed);
    spinners.into_iter().for_each(|spinner| spinner.join().unwrap());
    println!("dead by what may be dead, at worst: {worst:.3}, {over} bytes more; the longest write: {longest:?}");
    // A writer waits for a moment and then writes: what comes through while the cleaner has no processor is some 100 KiB,
    // however much the store holds.
    assert!(over <= 2 * own.log.segment_bytes, "{worst:.3} of what may be dead was dead: {over} bytes too many");
    let stats = engine.stats().unwrap();
    let cleaned = stats.compaction.unwrap();
    assert!(cleaned.count > 10 && cleaned.latency_ns_p50.is_some() && cleaned.bytes > 0, "{cleaned:?}");
    let tail = stats.compaction_tail.unwrap();
    let (p99, slowest) = (tail.latency_ns_p99.unwrap(), tail.latency_ns_max.unwrap());
    assert!(cleaned.latency_ns_p50.unwrap() <= p99 && p99 <= slowest, "{cleaned:?}, {tail:?}");
    assert!(slowest as f64 <= cleaned.seconds * 1e9 + 1.0, "{cleaned:?}, {tail:?}");
    assert!(stats.physical_bytes.unwrap() < 3 * stats.logical_bytes.unwrap());
    engine.compact().unwrap();
    recount(&engine);
    let writer = engine.lock_writer();
    let space = engine.survey(&writer, &Default::default()).space;
    assert_eq!(space.data_bytes, space.live_bytes.max(space.data_bytes.min(space.live_bytes + 64)), "all dead is gone");
}

/// Fails if the slowest of all passes is forgotten with the times that make room for later ones, or if there is one where nothing was cleaned.
#[test]
fn the_slowest_pass_is_kept_when_its_time_is_not() {
    let engine = open(&SimIo::new(3), &options(8192, 1.2)).unwrap();
    let nothing = engine.stats().unwrap().compaction_tail.unwrap();
    assert_eq!((nothing.latency_ns_p99, nothing.latency_ns_max), (None, None));
    let mut cleaner = engine.lock_cleaner();
    (cleaner.count, cleaner.slowest_ns) = (5_000, 9_000);
    cleaner.times = (1..=super::TIMES_MAX as u64).rev().collect();
    let (cleaned, tail) = cleaner.figures();
    assert_eq!(
        (cleaned.latency_ns_p50, tail.latency_ns_p99, tail.latency_ns_max),
        (Some(512), Some(1_014), Some(9_000))
    );
}

#[test]
fn what_lies_beside_the_bound_is_little_where_little_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { instances: 8, ..OpenOptions::new(dir.path()) };
    let own = crate::LogEngineOptions::of(&options);
    let engine = crate::open_with(RealIo::shared(), &options, &own, true).unwrap();
    let value = vec![1; 1000];
    // 2 MB, and 200 MB written over them.
    for n in 0..200_000u64 {
        engine.apply(&[Op::Put { key: &(n % 2000).to_be_bytes(), value: &value }], Durability::Os).unwrap();
    }
    let files = |dir: &Path| -> u64 {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let bytes = files(&dir.path().join("log"));
    // Dead ones, free ones, the one that is written, the next one; and as many again that were dropped a moment ago.
    let segments = super::choose::SLACK_SEGMENTS + own.log.recycle_segments_max as u64 + 2;
    let most = 3_500_000 + 2 * segments * own.log.segment_bytes_at(0);
    assert!(bytes <= most, "{bytes} bytes of files for 2 MB of records: more than {most}");
    let stats = engine.stats().unwrap();
    assert!(stats.compaction.unwrap().count > 0, "it was cleaned meanwhile");
}

#[test]
fn cleaning_that_was_due_while_the_index_was_saved_is_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let own = options(64 << 10, 1.33);
    let engine = crate::open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, true).unwrap();
    let bound = engine.lock_cleaner().bound(super::Space::default());
    let pressure = || bound.pressure(engine.survey(&engine.lock_writer(), &Default::default()).space);
    engine.freezing.store(true, Ordering::Release);
    for n in (0..200u64).cycle() {
        engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &[1; 400] }], Durability::Os).unwrap();
        if pressure() > 0.8 {
            break;
        }
    }
    // Time for the cleaner to see it; nobody writes any more who would tell it.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(engine.lock_cleaner().figures().0.count, 0);
    engine.freezing.store(false, Ordering::Release);
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while engine.lock_cleaner().figures().0.count == 0 {
        assert!(std::time::Instant::now() < until, "nothing is cleaned");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn who_has_to_wait_wakes_the_cleaner_which_looks_how_far_writers_may_go() {
    let dir = tempfile::tempdir().unwrap();
    let own = options(1 << 20, 1.33);
    let engine = crate::open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, true).unwrap();
    let put = || engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Os).unwrap();
    put();
    // The cleaner has seen to the first segment and sleeps until the next one, which is far.
    std::thread::sleep(Duration::from_millis(300));
    let written_bytes = || engine.lock_writer().log.appended_bytes();
    engine.allowance.set(written_bytes(), 1 << 20, 1 << 20);
    let waits = || engine.allowance.wait_ns(written_bytes(), &mut Default::default()) > 0;
    assert!(waits());
    put();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while waits() {
        assert!(std::time::Instant::now() < until, "writers wait for what is not so");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Fails if writers are let go without an end before the cleaner comes for the first time: on a busy machine they wrote three times what may be
/// dead.
#[test]
fn writers_are_told_an_end_before_the_cleaner_has_begun() {
    let dir = tempfile::tempdir().unwrap();
    let engine =
        crate::open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &options(64 << 10, 1.33), true).unwrap();
    // However late it comes: with nothing written it says the same.
    let written_bytes = engine.lock_writer().log.appended_bytes();
    assert_eq!(engine.allowance.wait_ns(written_bytes + (64 << 10), &mut Default::default()), 0);
    assert!(engine.allowance.wait_ns(written_bytes + (1 << 20), &mut Default::default()) > 0);
}

/// Fails if writers are let go without an end where no pass is begun: the cleaner may get no processor for as long as they would write.
#[test]
fn writers_are_told_an_end_wherever_the_cleaner_stops() {
    let io = SimIo::new(3);
    let engine = open(&io, &options(8192, 1.2)).unwrap();
    let put = |n: u64| engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &[1; 400] }], Durability::Os).unwrap();
    let goes_on = |bytes| {
        engine.allowance.wait_ns(engine.lock_writer().log.appended_bytes() + bytes, &mut Default::default()) == 0
    };
    let begin = || engine.begin_if_due(&mut engine.lock_cleaner());
    (0..200).for_each(put);
    assert_eq!(begin(), Beginning::NotDue, "nothing is dead");
    assert!(goes_on(16 << 10) && !goes_on(1 << 20));
    (0..400).for_each(|n| put(n % 200));
    engine.sync().unwrap();
    engine.freezing.store(true, Ordering::Release);
    assert_eq!(begin(), Beginning::Later);
    assert!(goes_on(16 << 10), "waiting would help nobody");
    assert!(!goes_on(1 << 20));
    engine.freezing.store(false, Ordering::Release);
    assert_eq!(begin(), Beginning::UnderWay);
    engine.compact().unwrap();
    assert_eq!(begin(), Beginning::NotDue);
    assert!(!goes_on(1 << 20));
}

/// Fails if what is deleted at once is seen when the next segment is full: by then every writer would wait for it.
#[test]
fn a_range_that_is_deleted_is_cleaned_though_nothing_more_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let own = options(1 << 20, 1.33);
    let engine = crate::open_with(RealIo::shared(), &OpenOptions::new(dir.path()), &own, true).unwrap();
    for n in 0..6_000u64 {
        engine.apply(&[Op::Put { key: &n.to_be_bytes(), value: &[1; 1_000] }], Durability::Os).unwrap();
    }
    engine.sync().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let cleaned = || engine.lock_cleaner().figures().0.count;
    assert_eq!(cleaned(), 0, "nothing is dead");
    let range = Op::DeleteRange { from: &0u64.to_be_bytes(), to: Some(&4_000u64.to_be_bytes()) };
    engine.apply(&[range], Durability::Os).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while cleaned() == 0 {
        assert!(std::time::Instant::now() < until, "nothing is cleaned");
        std::thread::sleep(Duration::from_millis(10));
    }
}
