//! Units that move, as a user sees it: what is refused, what a move says, what is found after opening again.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use biombo_base::io::Io;
use biombo_base::io::sim::{EventInfo, Fault, FaultKind, SimIo, When};
use biombo_engine::{Batch, Durability, ErrorKind};
use biombo_store::{Options, Pace, PartitionId, Partitioning, PlacementKind, Range, Store, UnitId};

fn open(io: &SimIo, options: Options) -> Store {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let options = options.journal_segment_bytes(64 << 10).io(Arc::clone(&io));
    options.open(Path::new("db"), &common::registry(io, common::Commit::Apart)).expect("a store")
}

fn options(placement: PlacementKind) -> Options {
    let sample = (0..100).map(key).collect();
    Options::new().engine("simulated").partitions(4).placement(placement).range_sample(sample)
}

fn key(number: u32) -> Vec<u8> {
    [&[(number % 3) as u8][..], format!("key{number:03}").as_bytes()].concat()
}

fn filled(io: &SimIo, placement: PlacementKind) -> Store {
    let store = open(io, options(placement));
    let mut batch = Batch::new();
    for number in 0..100 {
        batch.put(&key(number), &number.to_le_bytes());
    }
    store.write_with(&batch, Durability::Sync).expect("write");
    store
}

fn check(store: &Store) {
    check_answers(store);
    assert_eq!(store.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), 100);
}

/// Every key once, whatever a move that broke off left behind.
fn check_answers(store: &Store) {
    let mut expected: Vec<_> = (0..100).map(|number: u32| (key(number), number.to_le_bytes().to_vec())).collect();
    expected.sort();
    for reverse in [false, true] {
        let mut scan = store.scan(Range { reverse, ..Range::all() }).expect("scan");
        let mut found = Vec::new();
        while let Some((key, value)) = scan.next().expect("next") {
            found.push((key.to_vec(), value.to_vec()));
        }
        if reverse {
            found.reverse();
        }
        assert_eq!(found, expected);
    }
    for (key, value) in expected {
        assert_eq!(store.get(&key).expect("get").as_deref(), Some(&value[..]));
    }
}

/// What a placement journal has that failed is not known: nothing is written by it any more. (Mutation: a begin, a clean or cuts that are not
/// watched.)
#[test]
fn a_store_whose_placement_journal_fails_says_so_and_loses_nothing() {
    type Change = fn(&Store) -> biombo_engine::Result<()>;
    let moves: Change = |store| {
        let units = store.placement().units_of(PartitionId(1));
        store.move_units(&units, PartitionId(2), Pace::default()).map(drop)
    };
    let cuts: Change = |store| store.move_range(&key(7), Some(&key(13)), PartitionId(3), Pace::default()).map(drop);
    let ways = [(PlacementKind::Hash, moves), (PlacementKind::Range, moves), (PlacementKind::Range, cuts)];
    for (placement, change) in ways {
        // The writes and syncs of that journal, by their numbers.
        let seen = Arc::new(Mutex::new(Vec::new()));
        let io = SimIo::new(1);
        let store = filled(&io, placement);
        let noted = Arc::clone(&seen);
        let note = move |event: &EventInfo| {
            if event.path.to_string_lossy().contains("placement") && event.label.ends_with(".seg") {
                noted.lock().expect("a list").push((event.number, event.label.clone()));
            }
            false
        };
        io.inject(Fault { when: When::Matches(Arc::new(note)), kind: FaultKind::Eio, times: u32::MAX });
        change(&store).expect("nothing fails");
        let events = seen.lock().expect("a list").clone();
        drop(store);
        assert!(events.len() >= 3, "begin, flip and clean: {events:?}");
        for (number, label) in events {
            let what = format!("{placement}, {label} fails at {number}");
            let io = SimIo::new(1);
            let store = filled(&io, placement);
            io.inject(Fault::at(number, FaultKind::Eio));
            let _ = change(&store);
            io.clear_faults();
            let refused = store.put_with(b"after", b"1", Durability::Os).expect_err(&what);
            assert_eq!(refused.kind(), ErrorKind::Poisoned, "{what}: {refused}");
            drop(store);
            check_answers(&open(&io, Options::new()));
        }
    }
}

#[test]
fn all_units_of_a_partition_move_out_and_back_and_stay_there_after_opening_again() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let io = SimIo::new(1);
        let mut store = filled(&io, placement);
        let (a, b) = (PartitionId(1), PartitionId(2));
        let units = store.placement().units_of(a);
        for (from, to) in [(a, b), (b, a), (a, b)] {
            let epoch = store.placement().epoch();
            let moved = store.move_units(&units, to, Pace::default()).expect("move");
            assert_eq!((moved.units, moved.cleaned), (units.len(), true));
            assert!(moved.keys > 10 && moved.bytes > 100, "{moved:?}");
            assert!(store.placement().epoch() > epoch && store.placement().units_of(to).len() >= units.len());
            assert!(store.placement().units_of(from).iter().all(|unit| !units.contains(unit)));
            check(&store);
            let placement = store.placement();
            drop(store);
            store = open(&io, Options::new());
            assert_eq!(store.placement(), placement);
            check(&store);
        }
        let again = store.move_units(&units, b, Pace::default()).expect("nothing to do");
        assert_eq!((again.units, again.keys), (0, 0));
    }
}

#[test]
fn units_of_several_partitions_gather_in_one() {
    let io = SimIo::new(2);
    let store = filled(&io, PlacementKind::Hash);
    let all: Vec<_> = (0..store.placement().units() as u32).map(UnitId).collect();
    let moved = store.move_units(&all, PartitionId(3), Pace::default()).expect("move");
    assert_eq!(moved.units, all.len() / 4 * 3);
    assert_eq!(store.stats().expect("stats").units_by_partition, [0, 0, 0, all.len()]);
    check(&store);
}

/// Keys go by their bounds, whatever ranges there are, and no key that lies outside goes along.
#[test]
fn ranges_are_split_moved_by_their_bounds_and_merged_and_stay_so_after_opening_again() {
    let io = SimIo::new(6);
    let mut store = filled(&io, PlacementKind::Range);
    let mut expected = store.placement();
    let mut all: Vec<_> = (0..100).map(key).collect();
    all.sort();
    let (first, last) = (all[20].clone(), all[70].clone());
    let owners = |store: &Store| all.iter().map(|key| store.route(key)).collect::<Vec<_>>();
    let before = owners(&store);
    assert_eq!(store.split_ranges(&[&first, &last]).expect("split"), 2);
    assert_eq!(store.split_ranges(&[&first, &all[50]]).expect("they begin there"), 0);
    assert_eq!(owners(&store), before, "nothing changes its owner");
    check(&store);
    for (from, to, partition) in [(20, 70, 3), (30, 40, 0), (0, 100, 1), (69, 71, 2), (20, 70, 3)] {
        let end = all.get(to).map(Vec::as_slice);
        let wanted = owners(&store).into_iter().enumerate();
        let wanted = wanted.map(|(at, owner)| if (from..to).contains(&at) { PartitionId(partition) } else { owner });
        let moved = store.move_range(&all[from], end, PartitionId(partition), Pace::default()).expect("move");
        assert!(moved.cleaned && moved.keys <= (to - from) as u64, "{moved:?}");
        assert_eq!(owners(&store), wanted.collect::<Vec<_>>());
        check(&store);
        expected = store.placement();
        drop(store);
        store = open(&io, Options::new());
        assert_eq!(store.placement(), expected);
    }
    let (owned, merged) = (owners(&store), store.merge_ranges().expect("merge"));
    assert!(merged > 0 && store.placement().units() == expected.units() - merged);
    assert_eq!((owners(&store), store.merge_ranges().expect("nothing to do")), (owned, 0));
    let again = store.move_range(&first, Some(&last), PartitionId(3), Pace::default()).expect("nothing to do");
    assert_eq!((again.units, again.keys), (0, 0));
    drop(store);
    check(&open(&io, Options::new()));
    for (from, to) in [(b"m", Some(&b"m"[..])), (b"m", Some(b"a"))] {
        let store = open(&io, Options::new());
        let error = store.move_range(from, to, PartitionId(0), Pace::default()).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let hash = filled(&SimIo::new(7), PlacementKind::Hash);
    let error = hash.move_range(b"a", None, PartitionId(0), Pace::default()).expect_err("slots");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(hash.split_ranges(&[b"a"]).expect_err("slots").kind(), ErrorKind::Unsupported);
    assert_eq!(hash.merge_ranges().expect_err("slots").kind(), ErrorKind::Unsupported);
}

#[test]
fn what_cannot_move_is_refused_with_a_reason_and_nothing_changes() {
    let store = filled(&SimIo::new(3), PlacementKind::Range);
    let refused = |units: &[UnitId], to| {
        let error = store.move_units(units, PartitionId(to), Pace::default()).expect_err("cannot be");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    };
    refused(&[], 1);
    refused(&[UnitId(4)], 1);
    refused(&[UnitId(0)], 4);
    assert_eq!(store.placement().epoch().0, 1);
    check(&store);
    for partitioning in [Partitioning::None, Partitioning::Soft] {
        let partitions = if partitioning == Partitioning::None { 1 } else { 4 };
        let options = Options::new().engine("simulated").partitioning(partitioning).partitions(partitions);
        let store = open(&SimIo::new(4), options);
        let error = store.move_units(&[UnitId(0)], PartitionId(0), Pace::default()).expect_err("cannot be");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(store.clean_leftovers(Pace::default()).expect("nothing to clean"));
    }
}

#[test]
fn a_pace_is_kept() {
    let store = filled(&SimIo::new(5), PlacementKind::Hash);
    let units = store.placement().units_of(PartitionId(0));
    let begun = Instant::now();
    let pace = Pace { bytes_per_second: Some(2000), chunk_bytes: 100, ..Pace::default() };
    let moved = store.move_units(&units, PartitionId(1), pace).expect("move");
    let least = Duration::from_secs_f64(moved.bytes as f64 / 2000.0);
    assert!(moved.bytes > 100 && begun.elapsed() >= least, "{moved:?} in {:?}", begun.elapsed());
    check(&store);
}
