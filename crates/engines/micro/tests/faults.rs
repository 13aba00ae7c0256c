//! A disk that refuses: what fails is not acknowledged, a write or sync whose outcome is unknown ends the writing, reads go on, and what
//! was acknowledged is there after opening again.

mod subject;

use std::collections::HashMap;
use std::sync::Arc;

use biombo_base::io::sim::{Crash, Fault, FaultKind, Random, SimIo, When};
use biombo_base::{ErrorKind, Result};
use biombo_engine::crash_suite::{DIR, Model, State, check, contents, disk, random_batch};
use biombo_engine::{Durability, Engine, Op, OpenOptions};
use biombo_micro::{Behaviour, btree, lsm};
use subject::Subject;

fn btree_of(random: &mut Random) -> Subject {
    let mut own = btree::BtreeOptions {
        cache_pages: [1, 64][random.below(2) as usize],
        dirty_pages_max: [1, 1000][random.below(2) as usize],
        checkpoint_bytes: 8 << 10,
        ..btree::BtreeOptions::of(&OpenOptions::new(DIR))
    };
    own.journal.segment_bytes = 16 << 10;
    Subject::new(move |io| btree::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest))
}

fn lsm_of(random: &mut Random) -> Subject {
    lsm_with([0, 1 << 20][random.below(2) as usize], [4 << 10, 32 << 10][random.below(2) as usize])
}

fn lsm_with(cache_bytes: u64, memtable_bytes_max: usize) -> Subject {
    let mut own = lsm::LsmOptions {
        cache_bytes,
        memtable_bytes_max,
        table_bytes: 12 << 10,
        level0_tables_max: 2,
        level1_bytes_max: 24 << 10,
        level_factor: 2,
        ..lsm::LsmOptions::of(&OpenOptions::new(DIR), Behaviour::Honest)
    };
    own.journal.segment_bytes = 16 << 10;
    Subject::new(move |io| lsm::open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest))
}

/// Work until something is refused and ends the writing; returns what was met.
fn work(sim: &SimIo, subject: &Subject, model: &mut Model, random: &mut Random) -> Option<(ErrorKind, bool)> {
    let engine = match subject.open(sim) {
        Ok(engine) => engine,
        Err(error) => return Some((error.kind(), true)),
    };
    let mut met = None;
    for number in 0..60 {
        let batch = random_batch(random, number);
        let durability = if random.below(3) == 0 { Durability::Sync } else { Durability::Os };
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
                if engine.sync().is_err() {
                    assert_ne!(error.kind(), ErrorKind::Full, "that says that one may try again: {error}");
                    poisoned(&engine, [&before, model.last()]);
                    return Some((error.kind(), true));
                }
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                met = Some((error.kind(), false));
                assert_eq!(contents(&engine), before, "what was refused is not seen");
                model.refused();
                model.synced(0);
            }
        }
    }
    assert_eq!(contents(&engine), *model.last());
    met
}

/// Nothing is written any more. What is read is what was there before the batch that failed, or with all of it; or nothing is read either.
fn poisoned(engine: &Arc<dyn Engine>, allowed: [&State; 2]) {
    let put = [Op::Put { key: b"a", value: b"refused" }];
    for durability in [Durability::Os, Durability::Sync] {
        let refused = engine.apply(&put, durability).expect_err("nothing is written any more");
        assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
        assert!(refused.to_string().contains("reopen"), "it says what to do: {refused}");
    }
    assert_eq!(engine.sync().expect_err("nor synced").kind(), ErrorKind::Poisoned);
    assert_eq!(engine.compact().expect_err("nor compacted").kind(), ErrorKind::Poisoned);
    match engine.get(b"a") {
        Ok(found) => {
            assert_ne!(found.as_deref(), Some(&b"refused"[..]));
            let found = contents(engine);
            assert!(allowed.contains(&&found), "part of a batch is read");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
            assert_eq!(cursor.first().expect_err("nor walked").kind(), ErrorKind::Poisoned);
            assert_eq!(engine.contains(b"a").expect_err("nor looked for").kind(), ErrorKind::Poisoned);
        }
    }
}

fn refused_anywhere(subject_of: impl Fn(&mut Random) -> Subject, seeds: u64) {
    let mut met = HashMap::new();
    for seed in 0..seeds {
        let mut random = Random(seed);
        let subject = subject_of(&mut random);
        let sim = disk(seed);
        let mut model = Model::new();
        drop(subject.open(&sim).expect("a new one"));
        let at = sim.event_count() + random.below(400) as usize;
        let kind = [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(700)][random.below(3) as usize];
        sim.inject(Fault { when: When::Event(at), kind, times: 1 });
        let outcome = work(&sim, &subject, &mut model, &mut random);
        *met.entry(outcome).or_insert(0) += 1;
        sim.clear_faults();
        let what = format!("seed {seed}, {kind:?} at event {at}, {outcome:?}");
        let (image, killed) = match random.below(3) {
            0 => (sim.crash(sim.event_count(), Crash::Kill), true),
            1 => (sim.crash(sim.event_count(), Crash::Nothing), false),
            _ => (sim.crash(sim.event_count(), Crash::Random(seed)), false),
        };
        check(&subject, &image, &model, 0, killed, &what);
    }
    // What was met, and whether it ended the writing.
    for outcome in [Some((ErrorKind::Io, true)), Some((ErrorKind::Full, false)), None] {
        assert!(met.contains_key(&outcome), "never met: {outcome:?}; {met:?}");
    }
}

#[test]
fn a_btree_that_is_refused_something_keeps_what_it_acknowledged() {
    refused_anywhere(btree_of, 1500);
}

#[test]
fn an_lsm_tree_that_is_refused_something_keeps_what_it_acknowledged() {
    refused_anywhere(lsm_of, 1500);
}

/// Each sync fails while an instance is created and worked on, as a disk fails: what it should have made durable is seen, and no later sync writes
/// it. Whoever opens it next writes by what it sees, and a power cut takes none of that.
///
/// Mutations: the marker, the head of the tree or the manifest not written once more on opening.
fn each_failed_sync(subject: &Subject) {
    let attempt = |sim: &SimIo, random: &mut Random| -> Result<()> {
        let engine = subject.open(sim)?;
        (0..40).try_for_each(|number| engine.apply(&random_batch(random, number).to_ops(), Durability::Sync))
    };
    let whole = disk(5);
    attempt(&whole, &mut Random(5)).expect("nothing fails");
    let syncs: Vec<usize> =
        whole.labels().iter().enumerate().filter(|(_, label)| label.starts_with("sync")).map(|(at, _)| at).collect();
    assert!(syncs.len() > 20, "{syncs:?}");
    let mut survived = 0;
    for (at, kind) in syncs.into_iter().flat_map(|at| [(at, FaultKind::Eio), (at, FaultKind::LostNames)]) {
        let what = format!("{kind:?} at event {at}, {}", whole.labels()[at]);
        let sim = disk(5);
        sim.inject(Fault::at(at, kind));
        let _ = attempt(&sim, &mut Random(5));
        sim.clear_faults();
        // What is there now is what the next one builds on.
        let engine = subject.open(&sim).unwrap_or_else(|error| panic!("{what}: {error}"));
        let begun = sim.event_count();
        // After each put when it was acknowledged, and everything that is there then.
        let mut states = vec![(begun, contents(&engine))];
        for number in 0..16u32 {
            // Values that have pages of their own, too.
            let (key, value) = (number.to_be_bytes(), vec![number as u8; if number % 2 == 0 { 2_000 } else { 20 }]);
            engine.apply(&[Op::Put { key: &key, value: &value }], Durability::Sync).expect("put");
            let mut state = states.last().expect("the first").1.clone();
            state.insert(key.to_vec(), value);
            states.push((sim.event_count(), state));
        }
        for cut in (begun + at % 3..=sim.event_count()).step_by(3) {
            let what = format!("{what}, cut {cut}, {}", sim.labels()[cut - 1]);
            let crash = [Crash::Nothing, Crash::Everything, Crash::Random(cut as u64)][cut / 3 % 3];
            let engine = subject.open(&sim.crash(cut, crash)).unwrap_or_else(|error| panic!("{what}: {error}"));
            let acknowledged = states.partition_point(|(event, _)| *event <= cut).saturating_sub(1);
            let (state, found) = (&states[acknowledged].1, contents(&engine));
            let next = states.get(acknowledged + 1).is_some_and(|(_, next)| found == *next);
            assert!(next || found == *state, "{what}: something is lost");
            survived += 1;
        }
        engine.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
    }
    assert!(survived > 1_000, "{survived}");
}

#[test]
fn a_btree_builds_on_nothing_that_a_failed_sync_may_have_lost() {
    each_failed_sync(&btree_of(&mut Random(1)));
}

#[test]
fn an_lsm_tree_builds_on_nothing_that_a_failed_sync_may_have_lost() {
    each_failed_sync(&lsm_with(1 << 20, 4 << 10));
}

/// Fails if what an opening takes up from the journal counts for nothing: each life ends before a checkpoint is due, and the journal would grow
/// by all that it puts, for ever.
#[test]
fn a_b_tree_that_is_killed_again_and_again_journals_no_more_than_its_bound() {
    const BOUND: u64 = 64 << 10;
    let mut own = btree::BtreeOptions { checkpoint_bytes: BOUND, ..btree::BtreeOptions::of(&OpenOptions::new(DIR)) };
    own.journal.segment_bytes = 16 << 10;
    own.journal.recycle_segments_max = 0;
    let mut sim = disk(7);
    let mut counts = Vec::new();
    for life in 0..12u32 {
        let engine =
            btree::open_with(Arc::new(sim.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest).expect("open");
        for put in 0..40u32 {
            let op = Op::Put { key: &(life * 1_000 + put).to_be_bytes(), value: &[7; 1_000] };
            engine.apply(&[op], Durability::Os).expect("put");
        }
        let journal = sim.files().into_iter().filter(|(path, _)| path.starts_with(format!("{DIR}/journal")));
        counts.push(journal.map(|(_, bytes)| bytes).sum::<u64>());
        sim = {
            let killed = sim.crash(sim.event_count(), Crash::Kill);
            drop(engine);
            killed
        };
    }
    // The bound, what one life puts beyond it, and the segments that are made ahead.
    assert!(
        counts.iter().all(|bytes| *bytes <= 2 * BOUND + 4 * (16 << 10)),
        "bytes of the journal, by life: {counts:?}"
    );
    let engine =
        btree::open_with(Arc::new(sim.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest).expect("open");
    assert_eq!(engine.stats().expect("stats").keys, Some(12 * 40));
}
