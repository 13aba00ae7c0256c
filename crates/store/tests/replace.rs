//! A store that gets another placement, at an opening: all of it or nothing, through any crash.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, EventInfo, Fault, FaultKind, SimIo, When};
use biombo_engine::{Batch, Durability, ErrorKind, Registry, Result, memory};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Range, Store};

const KEYS: u32 = 300;

fn open(io: &SimIo, options: Options) -> Result<Store> {
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    let mut registry = common::registry(Arc::clone(&disk), common::Commit::Apart);
    registry.add(common::kind("other", Arc::clone(&disk), common::Commit::Costly));
    options.journal_segment_bytes(64 << 10).io(disk).open(Path::new("db"), &registry)
}

fn key(number: u32) -> Vec<u8> {
    [&[(number % 3) as u8][..], format!("key{number:04}").as_bytes()].concat()
}

/// A store that has been moved about.
fn filled(io: &SimIo, placement: PlacementKind) -> (Store, BTreeMap<Vec<u8>, Vec<u8>>) {
    let sample = (0..KEYS).map(key).collect();
    let options = Options::new().engine("simulated").partitions(3).placement(placement).range_sample(sample);
    let store = open(io, options).expect("create");
    let (mut batch, mut model) = (Batch::new(), BTreeMap::new());
    for number in 0..KEYS {
        let value = number.to_le_bytes().repeat(10);
        batch.put(&key(number), &value);
        model.insert(key(number), value);
    }
    store.write_with(&batch, Durability::Sync).expect("write");
    match placement {
        PlacementKind::Hash => store.move_keys(&[key(5), key(6)], PartitionId(1), Pace::default()),
        PlacementKind::Range => store.move_range(&key(9), Some(&key(99)), PartitionId(0), Pace::default()),
    }
    .expect("a move");
    store.delete(&key(7)).expect("delete");
    model.remove(&key(7));
    (store, model)
}

fn check(store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut found = BTreeMap::new();
    while let Some((key, value)) = scan.next().expect("next") {
        found.insert(key.to_vec(), value.to_vec());
    }
    assert_eq!(&found, model, "{what}");
    for (key, value) in model {
        assert_eq!(store.get(key).expect("get").as_deref(), Some(&value[..]), "{what}");
    }
    assert_eq!(store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify"), model.len() as u64);
}

/// What lies in the store's directory is what it needs: nothing of an attempt, nor of what was before.
fn check_directory(io: &SimIo, store: &Store, what: &str) {
    let names = io.read_dir(Path::new("db")).expect("a directory");
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let count = |is: fn(&str) -> bool| names.iter().filter(|name| is(name)).count();
    let partitions = count(|name| name.starts_with("p0"));
    let journals = count(|name| name.starts_with("placement") || name.starts_with("intents"));
    assert_eq!((partitions, journals), (store.partitions() as usize, 2), "{what}: {names:?}");
}

fn other(placement: PlacementKind) -> PlacementKind {
    if placement == PlacementKind::Hash { PlacementKind::Range } else { PlacementKind::Hash }
}

#[test]
fn a_store_gets_the_other_placement_other_partitions_and_another_engine_and_keeps_its_keys() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let io = SimIo::new(1);
        let (store, mut model) = filled(&io, placement);
        drop(store);
        let options = Options::new().placement(other(placement));
        open(&io, options.clone()).expect_err("a contradiction, unless it is to be changed");
        let options = options.partitions(5).engine("other").reshape(true);
        let store = open(&io, options.clone()).expect("a store");
        let copied = store.copied();
        assert_eq!((copied.keys, copied.cleaned), (u64::from(KEYS) - 1, true));
        assert_eq!((store.placement_kind(), store.partitions(), store.engine()), (other(placement), 5, "other"));
        check(&store, &model, "after it");
        let mut counts = [0; 5];
        model.keys().for_each(|key| counts[store.route(key).index()] += 1);
        assert!(counts.iter().all(|count| (30..=90).contains(count)), "{counts:?}");
        // It is a store as any other.
        store.put(b"new", b"value").expect("put");
        model.insert(b"new".to_vec(), b"value".to_vec());
        store.move_units(&store.placement().units_of(PartitionId(0)), PartitionId(4), Pace::default()).expect("move");
        check(&store, &model, "and moved");
        drop(store);
        let store = open(&io, options).expect("it is so already");
        assert_eq!(store.copied().keys, 0);
        check(&store, &model, "opened again");
        let names = io.read_dir(Path::new("db")).expect("a directory");
        let partitions =
            names.iter().filter(|name| name.to_string_lossy().starts_with('p') && !name.starts_with("placement-1"));
        assert_eq!(partitions.count(), 5, "{names:?}");
    }
}

#[test]
fn cut_short_it_is_the_store_that_was_or_the_one_that_shall_be() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let io = SimIo::new(2);
        let (store, model) = filled(&io, placement);
        drop(store);
        let first = io.event_count();
        let options = Options::new().placement(other(placement)).partitions(2).reshape(true);
        drop(open(&io, options.clone()).expect("a store"));
        let last = io.event_count();
        let (mut before, mut after) = (0, 0);
        for cut in first..=last {
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(cut as u64)] {
                let what = format!("from {placement}, cut at {cut} of {first} to {last}, {crash:?}");
                let image = io.crash(cut, crash);
                let store = open(&image, Options::new().create(false)).unwrap_or_else(|e| panic!("{what}: {e}"));
                check(&store, &model, &what);
                // (Mutation: copies that no manifest names before they are made.)
                check_directory(&image, &store, &what);
                if store.placement_kind() == placement {
                    before += 1
                } else {
                    after += 1
                }
                drop(store);
                if cut % 8 == 0 {
                    let store = open(&image, options.clone()).unwrap_or_else(|e| panic!("{what}, again: {e}"));
                    assert_eq!((store.placement_kind(), store.partitions()), (other(placement), 2), "{what}, again");
                    check(&store, &model, &what);
                }
            }
        }
        println!("from {placement}: {before} images of the store that was, {after} of the other");
        assert!(before > 50 && after > 0, "from {placement}: {before} and {after}");
    }
}

#[test]
fn stores_that_have_no_partitions_or_keep_nothing_are_refused_and_left_as_they_are() {
    let io = SimIo::new(3);
    drop(open(&io, Options::new().engine("simulated").partitioning(Partitioning::Soft).partitions(2)).expect("create"));
    let ranges = Options::new().placement(PlacementKind::Range).reshape(true);
    let error = open(&io, ranges.clone()).expect_err("soft partitions");
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("hard"), "{error}");
    open(&io, Options::new().create(false)).expect("as it was");
    let dir = tempfile::tempdir().expect("a directory");
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let options = Options::new().engine("memory").partitions(2);
    drop(options.open(dir.path().join("db"), &registry).expect("create"));
    let error = ranges.open(dir.path().join("db"), &registry).expect_err("nothing is kept");
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("keeps nothing"), "{error}");
}

/// A failed sync of a manifest's name may have lost that name for good, though it is seen, and a further sync succeeds. Whatever such an attempt and the
/// opening after it remove, a power cut then finds a whole store. (Mutations: the error taken for success where the new manifest is seen; a
/// sweep that does not write the manifest anew.)
#[test]
fn a_manifest_whose_name_was_lost_by_a_failed_sync_is_not_relied_on() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let options = Options::new().placement(other(placement)).partitions(2).reshape(true);
        let begun = || {
            let io = SimIo::new(4);
            let (store, model) = filled(&io, placement);
            drop(store);
            (io, model)
        };
        let (io, _) = begun();
        let first = io.event_count();
        drop(open(&io, options.clone()).expect("a store"));
        let labels = io.labels();
        let renames: Vec<usize> =
            (first..labels.len()).filter(|at| labels[*at].starts_with("rename MANIFEST.tmp")).collect();
        // What is beside named, the commit, written anew, settled, and forgotten.
        assert_eq!(renames.len(), 5, "{labels:?}");
        let mut failed = 0;
        for rename in renames {
            assert!(labels[rename + 1].starts_with("sync_dir"), "{}", labels[rename + 1]);
            let (io, model) = begun();
            io.inject(Fault::at(rename + 1, FaultKind::LostNames));
            let outcome = open(&io, options.clone());
            failed += u32::from(outcome.is_err());
            drop(outcome);
            io.clear_faults();
            for openings in 0..3 {
                let what = format!("from {placement}, sync of {rename} failed, {openings} openings, then a power cut");
                let image = io.crash(io.event_count(), Crash::Nothing);
                let store = open(&image, Options::new().create(false)).unwrap_or_else(|e| panic!("{what}: {e}"));
                check(&store, &model, &what);
                drop(store);
                let store = open(&io, Options::new().create(false)).unwrap_or_else(|e| panic!("{what}: {e}"));
                check(&store, &model, &what);
            }
        }
        assert_eq!(failed, 2, "from {placement}: naming what is beside, and the commit, must not be taken for done");
    }
}

/// Every operation of the disk fails once: the store is whole at the next opening, and after a power cut, one way or the other.
#[test]
fn no_failing_operation_of_the_disk_loses_a_key_while_all_are_copied() {
    let options = Options::new().placement(PlacementKind::Range).partitions(2).reshape(true);
    let (io, mut struck) = (SimIo::new(5), 0);
    drop(filled(&io, PlacementKind::Hash));
    let first = io.event_count();
    drop(open(&io, options.clone()).expect("a store"));
    let labels = io.labels();
    for (at, label) in labels.iter().enumerate().skip(first) {
        let kind = [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(300), FaultKind::LostNames][at % 4];
        let io = SimIo::new(5);
        let (store, model) = filled(&io, PlacementKind::Hash);
        drop(store);
        io.inject(Fault::at(at, kind));
        struck += u32::from(open(&io, options.clone()).is_err());
        io.clear_faults();
        let what = format!("event {at} ({label}) fails ({kind:?})");
        let image = io.crash(io.event_count(), Crash::Nothing);
        for io in [io, image] {
            let store = open(&io, Options::new().create(false)).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&store, &model, &what);
            drop(store);
            let store = open(&io, options.clone()).unwrap_or_else(|e| panic!("{what}, again: {e}"));
            assert_eq!((store.placement_kind(), store.partitions()), (PlacementKind::Range, 2), "{what}, again");
            check(&store, &model, &what);
        }
    }
    assert!(struck > 20, "{struck} faults reached the caller");
}

/// Room that there is not is asked for before anything is made. (Mutation: no look at what is free.)
#[test]
fn what_finds_no_room_is_refused_before_anything_is_copied() {
    let io = SimIo::new(6);
    let (store, model) = filled(&io, PlacementKind::Hash);
    drop(store);
    let options = Options::new().placement(PlacementKind::Range).partitions(2).reshape(true);
    io.set_free_bytes(Some(1000));
    let before = io.read_dir(Path::new("db")).expect("a directory");
    let error = open(&io, options.clone()).expect_err("no room");
    assert!(error.kind() == ErrorKind::Full && error.message().contains("free room"), "{error}");
    assert_eq!(io.read_dir(Path::new("db")).expect("a directory"), before);
    check(&open(&io, Options::new()).expect("as it was"), &model, "refused");
    io.set_free_bytes(Some(1 << 30));
    check(&open(&io, options).expect("room"), &model, "with room");
}

/// What an opening has to say of the store that it copies is not lost with that: here of the machine that went down. (Mutation: the warnings of the
/// first of the two openings dropped.)
#[test]
fn warnings_of_a_store_that_is_copied_are_told() {
    let io = SimIo::new(7);
    let (store, model) = filled(&io, PlacementKind::Hash);
    // What was left behind by another change, and cannot be removed.
    drop(store);
    let options = Options::new().placement(PlacementKind::Range).reshape(true);
    let is_removal = |event: &EventInfo| event.label.starts_with("remove") && event.path.starts_with("db/p0000");
    io.inject(Fault { when: When::Matches(Arc::new(is_removal)), kind: FaultKind::Eio, times: 1 });
    let store = open(&io, options).expect("a store");
    assert!(store.warnings().iter().any(|warning| warning.contains("still there")), "{:?}", store.warnings());
    drop(store);
    // The way back: the opening that is asked for it says so again, of what it cannot remove then, and the one after it has removed it.
    io.inject(Fault { when: When::Matches(Arc::new(is_removal)), kind: FaultKind::Eio, times: 1 });
    let store = open(&io, Options::new().placement(PlacementKind::Hash).reshape(true)).expect("a store");
    assert!(store.warnings().iter().any(|warning| warning.contains("still there")), "{:?}", store.warnings());
    check(&store, &model, "there and back");
    check_directory(&io, &store, "there and back");
}
