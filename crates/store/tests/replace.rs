//! A store that gets another placement, at an opening: all of it or nothing, through any crash.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, SimIo};
use biombo_engine::{Batch, Durability, ErrorKind, Registry, Result, memory};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Range, Store};

const KEYS: u32 = 300;

fn open(io: &SimIo, options: Options) -> Result<Store> {
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    let mut registry = common::registry(Arc::clone(&disk), true);
    registry.add(common::kind("other", Arc::clone(&disk), false));
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
