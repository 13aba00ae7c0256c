//! A store that gets more partitions: what is refused, what is found, and what a crash at any instant leaves.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::sim::{Crash, Fault, FaultKind, SimIo};
use biombo_base::io::{Io, OpenMode};
use biombo_engine::{Batch, Durability, ErrorKind, Result};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Range, Store};

const KEYS: u32 = 60;

fn try_open(io: &SimIo, options: Options) -> Result<Store> {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let options = options.journal_segment_bytes(64 << 10).io(Arc::clone(&io));
    options.open(Path::new("db"), &common::registry(io, common::Commit::Apart))
}

fn open(io: &SimIo, options: Options) -> Store {
    try_open(io, options).expect("a store")
}

fn key(number: u32) -> Vec<u8> {
    [&[(number % 3) as u8][..], format!("key{number:03}").as_bytes()].concat()
}

fn filled(io: &SimIo, options: Options) -> Store {
    let store = open(io, options.engine("simulated"));
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(&key(number), &number.to_le_bytes());
    }
    store.write_with(&batch, Durability::Sync).expect("write");
    store
}

fn check(store: &Store, what: &str) {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next().expect("next") {
        found.push((key.to_vec(), value.to_vec()));
    }
    let mut expected: Vec<_> = (0..KEYS).map(|number| (key(number), number.to_le_bytes().to_vec())).collect();
    expected.sort();
    assert_eq!(found, expected, "{what}");
    for (key, value) in expected {
        assert_eq!(store.get(&key).expect("get").as_deref(), Some(&value[..]), "{what}");
    }
}

/// Directories of partitions, whoever names them.
fn partitions_on_disk(io: &SimIo) -> usize {
    let there = ["db", "/one", "/two"].map(Path::new).into_iter().filter(|dir| io.exists(dir).expect("a look"));
    let names = there.flat_map(|dir| io.read_dir(dir).expect("names"));
    let is_partition = |name: &str| name.starts_with("p0") || name.starts_with("biombo-");
    names.filter(|name| name.file_name().is_some_and(|name| is_partition(&name.to_string_lossy()))).count()
}

#[test]
fn partitions_that_are_added_get_their_share_and_keep_it() {
    let io = SimIo::new(1);
    drop(filled(&io, Options::new().partitions(3)));
    let store = open(&io, Options::new().partitions(7).reshape(true));
    assert_eq!(store.partitions(), 7);
    check(&store, "before");
    let moved = store.spread(Pace::default()).expect("spread");
    assert!(moved.cleaned && moved.keys > 20 && moved.keys < 50, "{moved:?}");
    check(&store, "spread");
    let counts = store.stats().expect("stats").units_by_partition;
    assert!(counts.iter().all(|count| (585..=586).contains(count)), "{counts:?}");
    let again = store.spread(Pace::default()).expect("nothing to do");
    assert_eq!(again.units, 0);
    store.put(b"later", b"1").expect("put");
    store.delete(b"later").expect("delete");
    drop(store);
    let store = open(&io, Options::new().partitions(7).reshape(true));
    check(&store, "opened again");
    assert_eq!(store.stats().expect("stats").units_by_partition, counts);
    assert_eq!(store.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), u64::from(KEYS));
}

/// Ranges are split where the shares end, by bytes; what is even stays, and so do few partitions after many.
#[test]
fn ranges_are_split_for_partitions_that_are_added_and_merged_for_those_that_leave() {
    let io = SimIo::new(7);
    drop(filled(&io, Options::new().partitions(3).placement(PlacementKind::Range)));
    for (partitions, least) in [(7, KEYS / 7 - 3), (7, KEYS / 7 - 3), (2, KEYS / 2 - 4), (5, KEYS / 5 - 3)] {
        let store = open(&io, Options::new().partitions(partitions).reshape(true));
        check(&store, "before");
        let before = store.placement();
        let moved = store.spread(Pace::default()).expect("spread");
        assert!(moved.cleaned, "{moved:?}");
        if partitions == before.units() as u32 && store.leaving().is_empty() {
            assert_eq!((moved.units, store.placement().ranges()), (0, before.ranges()), "it is even already");
        }
        check(&store, "spread");
        drop(store);
        let store = open(&io, Options::new());
        check(&store, "opened again");
        let ranges = store.placement();
        let ranges = ranges.ranges();
        assert_eq!((store.partitions(), ranges.len() as u32), (partitions, partitions), "{ranges:?}");
        let counts = ranges
            .iter()
            .map(|(_, owner)| (0..KEYS).filter(|number| store.route(&key(*number)) == *owner).count() as u32);
        let counts: Vec<_> = counts.collect();
        assert!(counts.iter().all(|count| *count >= least), "{counts:?} of {KEYS} keys");
        assert_eq!(store.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), u64::from(KEYS));
    }
}

/// What lies where a partition is added belongs to no store: an attempt that was cut short left it.
#[test]
fn nothing_that_an_earlier_attempt_left_gets_into_a_new_partition() {
    let io = SimIo::new(6);
    drop(filled(&io, Options::new().partitions(2)));
    let left = Path::new("db/p0002/left");
    io.create_dir_all(Path::new("db/p0002")).expect("a directory");
    drop(io.open(left, OpenMode::WRITE).expect("a file"));
    let store = open(&io, Options::new().partitions(3).reshape(true));
    assert!(!io.exists(left).expect("a look"));
    check(&store, "grown");
}

#[test]
fn partitions_on_several_devices_are_added_on_them_in_turn() {
    let io = SimIo::new(2);
    let dirs = ["/one", "/two"].map(Into::into).to_vec();
    drop(filled(&io, Options::new().partitions(2).dirs(dirs)));
    let store = open(&io, Options::new().partitions(5).reshape(true));
    store.spread(Pace::default()).expect("spread");
    check(&store, "spread");
    let in_dir = |dir: &str| io.read_dir(Path::new(dir)).expect("a directory").len();
    assert_eq!((in_dir("/one"), in_dir("/two")), (3, 2));
}

#[test]
fn what_cannot_grow_is_refused_with_a_reason_and_stays() {
    let grown = |options: Options, kind| {
        let io = SimIo::new(3);
        drop(filled(&io, options));
        let error = try_open(&io, Options::new().partitions(6).reshape(true)).expect_err("cannot grow");
        assert_eq!(error.kind(), kind, "{error}");
        let store = open(&io, Options::new());
        assert!(store.partitions() < 6);
        check(&store, "refused");
    };
    grown(Options::new(), ErrorKind::Unsupported);
    grown(Options::new().partitions(4).partitioning(Partitioning::Soft), ErrorKind::Unsupported);
    let io = SimIo::new(4);
    drop(filled(&io, Options::new().partitions(4)));
    for (options, says) in
        [(Options::new().partitions(5000).reshape(true), "5000"), (Options::new().partitions(6), "4")]
    {
        let error = try_open(&io, options).expect_err("no");
        assert!(error.kind() == ErrorKind::Invalid && error.message().contains(says), "{error}");
    }
}

/// Every instant of the growth and of the spreading is cut; the next opening finds all keys, in the old partitions or the new ones, and a
/// further attempt ends it.
#[test]
fn whatever_a_crash_cuts_while_partitions_are_added_the_next_attempt_ends_it() {
    every_cut(PlacementKind::Hash, Vec::new());
    every_cut(PlacementKind::Hash, ["/one", "/two"].map(Into::into).to_vec());
    every_cut(PlacementKind::Range, Vec::new());
}

fn every_cut(placement: PlacementKind, dirs: Vec<PathBuf>) {
    let io = SimIo::new(5);
    drop(filled(&io, Options::new().partitions(2).placement(placement).dirs(dirs)));
    let first = io.event_count();
    let store = open(&io, Options::new().partitions(4).reshape(true));
    store.spread(Pace { chunk_keys: 7, ..Pace::default() }).expect("spread");
    drop(store);
    let (mut old, mut new) = (0, 0);
    for cut in first..=io.event_count() {
        let crashes = [Crash::Kill, Crash::Nothing, Crash::Random(cut as u64)];
        for crash in crashes {
            let what = format!("cut at {cut} of {first} to {}, {crash:?}", io.event_count());
            let image = io.crash(cut, crash);
            let store = try_open(&image, Options::new()).unwrap_or_else(|e| panic!("{what}: {e}"));
            *(if store.partitions() == 2 { &mut old } else { &mut new }) += 1;
            check(&store, &what);
            // (Mutation: a partition that no manifest names before it is made.)
            assert_eq!(partitions_on_disk(&image), store.partitions() as usize, "{what}: {:?}", image.files());
            drop(store);
            if cut % 8 != 0 {
                continue;
            }
            let store = try_open(&image, Options::new().partitions(4).reshape(true));
            let store = store.unwrap_or_else(|e| panic!("{what}, again: {e}"));
            assert!(store.clean_leftovers(Pace::default()).expect("clean"), "{what}");
            store.spread(Pace::default()).expect("spread");
            check(&store, &what);
            let counts = store.stats().expect("stats").units_by_partition;
            assert_eq!(counts, [if placement == PlacementKind::Hash { 1024 } else { 1 }; 4], "{what}");
            assert_eq!(store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify"), u64::from(KEYS));
            assert_eq!(store.placement().units_of(PartitionId(3)).len(), counts[3], "{what}");
        }
    }
    println!("{old} images with two partitions, {new} with four");
    assert!(old > 20 && new > 100, "{old} images with two partitions, {new} with four");
}

/// A failed sync of a manifest's name may have lost that name for good, though it is seen, and a further sync succeeds. Nothing moves into a new
/// partition while a power cut can bring back the manifest that has it removed. (Mutations: an unsettled manifest that is not
/// written anew, or not as it is first.)
#[test]
fn no_key_moves_by_a_manifest_whose_name_was_lost_by_a_failed_sync() {
    let options = Options::new().partitions(4).reshape(true);
    let begun = || {
        let io = SimIo::new(8);
        drop(filled(&io, Options::new().partitions(2)));
        io
    };
    let io = begun();
    let first = io.event_count();
    drop(open(&io, options.clone()));
    let labels = io.labels();
    let renames: Vec<usize> =
        (first..labels.len()).filter(|at| labels[*at].starts_with("rename MANIFEST.tmp")).collect();
    // What is beside named, then as partitions, then settled.
    assert_eq!(renames.len(), 3, "{labels:?}");
    let failures = renames.iter().flat_map(|rename| (0..16).map(move |again| (*rename, again)));
    for (rename, again) in failures {
        let what = format!("sync of {rename} failed, and event {again} of the next opening");
        assert!(labels[rename + 1].starts_with("sync_dir"), "{}", labels[rename + 1]);
        let io = begun();
        io.inject(Fault::at(rename + 1, FaultKind::LostNames));
        try_open(&io, options.clone()).expect_err("the failure is told");
        io.clear_faults();
        // A power cut at once finds the store, in as many partitions as it has.
        let image = io.crash(io.event_count(), Crash::Nothing);
        let store = open(&image, Options::new());
        check(&store, &what);
        assert_eq!(partitions_on_disk(&image), store.partitions() as usize, "{what}: {:?}", image.files());
        drop(store);
        // So does the next opening, perhaps.
        io.inject(Fault::at(io.event_count() + again, FaultKind::LostNames));
        drop(try_open(&io, Options::new()));
        io.clear_faults();
        // Without a power cut, whoever comes next relies on what it sees, and moves.
        let store = open(&io, Options::new());
        store.spread(Pace::default()).expect("spread");
        store.put_with(b"after", b"1", Durability::Sync).expect("put");
        store.delete_with(b"after", Durability::Sync).expect("delete");
        let image = io.crash(io.event_count(), Crash::Nothing);
        drop(store);
        for io in [io, image] {
            let store = open(&io, Options::new());
            check(&store, &what);
            assert_eq!(partitions_on_disk(&io), store.partitions() as usize, "{what}: {:?}", io.files());
            drop(store);
            let store = open(&io, options.clone());
            store.spread(Pace::default()).expect("spread");
            check(&store, &what);
            assert_eq!((store.partitions(), partitions_on_disk(&io)), (4, 4), "{what}");
        }
    }
}
