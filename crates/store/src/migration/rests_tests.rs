//! Moves of a store rest as its users bear: time is played, and users do in each sleep of a move what the test says.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use biombo_engine::{Batch, Durability, Registry, memory};

use super::forward::{FORWARD_BYTES_MAX, REST_BYTES_MAX};
use super::rests::played::{self, Played};
use super::rests::{Owed, cut};
use super::throttle::{SHARE_FIRST, SHARE_MIN};
use super::{Mover, Pace};
use crate::planning::Way;
use crate::{Options, PartitionId, Range, Store, UnitId, Update};

const KEYS: u32 = 20_000;
/// What a look sleeps at a time; rests of this test are shorter.
const LOOK_SLICE: Duration = Duration::from_millis(10);
const PACE: Pace = Pace { bytes_per_second: Some(64 << 20), chunk_bytes: 64 << 10, chunk_keys: 1024 };

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn open(dir: &tempfile::TempDir) -> Store {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let options = Options::new().engine("memory").partitions(2).durability(Durability::Os);
    options.open(dir.path().join("db"), &registry).expect("a store")
}

/// A store of many keys of which one unit has two, and that unit.
fn with_two_wanted(dir: &tempfile::TempDir) -> (Store, UnitId) {
    let store = open(dir);
    let placement = store.placement();
    let unit = placement.unit_of(&key(0));
    let (wanted, others): (Vec<_>, Vec<_>) = (0..KEYS).map(key).partition(|key| placement.unit_of(key) == unit);
    assert!(wanted.len() >= 2);
    let mut batch = Batch::new();
    wanted.iter().take(2).chain(&others).for_each(|key| _ = batch.put(key, b"value"));
    store.write_each(&batch, Durability::Os).expect("write");
    (store, unit)
}

/// The share that many moves of next to nothing come to, and how long the last of them rested, where a write of users takes `slow_ns` in every rest.
fn after_moves(slow_ns: u64) -> (f64, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, unit) = with_two_wanted(&dir);
    let mover = Arc::clone(store.inner.mover.as_ref().expect("hard"));
    let pulse = Arc::clone(&store.inner.pulse);
    let looked = Rc::new(Cell::new(Duration::ZERO));
    let looks = Rc::clone(&looked);
    let _played = Played::begin(move |slept| {
        assert!(!pulse.look().is_nothing(), "operations are timed while something moves");
        (0..20).for_each(|_| pulse.count(Way::Write, 10_000));
        if slept == LOOK_SLICE {
            looks.set(looks.get() + slept);
        } else {
            pulse.count(Way::Write, slow_ns);
        }
    });
    let mut last_ns = 0;
    for _ in 0..40 {
        let (before_ns, looked_before) = (mover.rested_ns(), looked.get());
        let to = PartitionId(1 - store.route(&key(0)).0);
        let moved = store.move_units(&[unit], to, PACE).expect("a move");
        assert_eq!((moved.keys, moved.cleaned), (2, true));
        assert!(store.inner.pulse.look().is_nothing(), "at rest nothing is timed");
        last_ns = mover.rested_ns() - before_ns - (looked.get() - looked_before).as_nanos() as u64;
    }
    assert!(looked.get() >= Duration::from_millis(200), "{:?}", looked.get());
    (mover.throttle.get().expect("it is governed").share(), last_ns)
}

/// Fails if moves by hand have no throttle or do not begin with a look, if its pulse is not that of the store's users, and if a chunk of which no key
/// is wanted rests for nothing.
#[test]
fn a_pass_that_wants_two_of_many_keys_rests_and_longer_while_users_feel_it() {
    let (share, rested_ns) = after_moves(10_000);
    let (least, rested_longer_ns) = after_moves(5_000_000);
    assert!(share >= SHARE_FIRST && least == SHARE_MIN, "{share} and {least}");
    // More than a chunk for every quarter of 1,024 keys, in two passes, each of which looks at the clock.
    let work_ns = 2 * 2 * u64::from(KEYS / 2 / 1024) * played::LOOK_NS;
    assert!(rested_ns > work_ns, "{rested_ns} ns for {work_ns} of work");
    assert!(rested_longer_ns as f64 > 1.5 * rested_ns as f64, "{rested_longer_ns} ns and {rested_ns} ns");
}

#[test]
fn chunks_are_smaller_the_less_is_taken_and_larger_where_commits_are_dear() {
    let keys_and_bytes = |share, is_costly| {
        let chunk = cut(PACE, share, is_costly);
        (chunk.keys, chunk.bytes >> 10)
    };
    assert_eq!(
        [1.0, 0.5, 0.25, SHARE_MIN].map(|share| keys_and_bytes(share, false)),
        [(1024, 64), (256, 32), (64, 16), (64, 16)]
    );
    assert_eq!([1.0, 0.5, 0.25].map(|share| keys_and_bytes(share, true)), [(1024, 256), (1024, 128), (256, 64)]);
}

/// Fails if a rest is one sleep, if it does not ask whether the store is closing, and if what is left of a long one is forgotten.
#[test]
fn a_long_rest_is_cut_into_slices_ends_when_the_store_closes_and_goes_on_after_the_next_chunk() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let mover: Arc<Mover> = Arc::clone(store.inner.mover.as_ref().expect("hard"));
    let slept = Rc::new(Cell::new(Duration::ZERO));
    let (adds, closes) = (Rc::clone(&slept), Arc::clone(&mover));
    let _played = Played::begin(move |time| {
        assert!(time <= LOOK_SLICE, "{time:?}");
        adds.set(adds.get() + time);
        closes.closing.store(adds.get() >= Duration::from_millis(2_500), Ordering::Relaxed);
    });
    let mut owed = Owed::at(Pace { bytes_per_second: Some(1 << 20), ..Pace::default() });
    for (bytes, least_ms) in [(64 << 20, 900), (1, 1_800), (1, 2_400), (1, 2_500)] {
        mover.rest(&mut owed, bytes);
        assert!(slept.get() >= Duration::from_millis(least_ms), "{:?}", slept.get());
    }
    assert!(slept.get() < Duration::from_millis(2_550), "it went on for {:?}", slept.get());
}

/// Fails if a mover sleeps on while what it must forward outgrows its bound: the move would be given up.
#[test]
fn a_rest_ends_early_while_writers_of_what_moves_are_faster_than_it_lasts() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let unit = store.placement().unit_of(&key(0));
    store.put(&key(0), b"value").expect("put");
    let writer = store.clone();
    let written = Rc::new(Cell::new(0));
    let (adds, value) = (Rc::clone(&written), vec![7; 1 << 20]);
    let _played = Played::begin(move |_| {
        // A mebibyte in each slice: in a whole rest more than may wait.
        let is_moving = writer.inner.lanes.iter().any(|lane| lane.lock().0.is_some());
        if is_moving && adds.get() < 2 * FORWARD_BYTES_MAX {
            writer.put_with(&key(0), &value, Durability::Os).expect("put");
            adds.set(adds.get() + value.len());
        }
    });
    let to = PartitionId(1 - store.route(&key(0)).0);
    // One byte is owed for a second.
    let pace = Pace { bytes_per_second: Some(1), chunk_bytes: 1, ..PACE };
    let moved = store.move_units(&[unit], to, pace).expect("what may wait is not outgrown");
    let rest_max = REST_BYTES_MAX + (2 << 20);
    assert!(written.get() >= REST_BYTES_MAX && written.get() <= rest_max, "{} bytes in one rest", written.get());
    assert_eq!((moved.keys, store.get(&key(0)).expect("get").map(|value| value.len())), (1, Some(1 << 20)));
}

/// Fails for each that is done past the pulse.
#[test]
fn operations_of_every_kind_are_timed_while_something_moves_and_none_at_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let pulse = &store.inner.pulse;
    pulse.time_each();
    let mut batch = Batch::new();
    batch.put(b"a", b"1");
    batch.put(b"b", b"2");
    type Operation<'a> = (&'a str, [f64; 2], Box<dyn Fn() + 'a>);
    let operations: Vec<Operation<'_>> = vec![
        ("put", [0.0, 1.0], Box::new(|| store.put(b"a", b"0").expect("put"))),
        ("delete", [0.0, 1.0], Box::new(|| store.delete(b"c").expect("delete"))),
        ("delete_range", [0.0, 1.0], Box::new(|| store.delete_range(b"x", None).expect("delete"))),
        ("write", [0.0, 1.0], Box::new(|| store.write(&batch).expect("write"))),
        ("write_each", [0.0, 1.0], Box::new(|| store.write_each(&batch, Durability::Os).expect("write"))),
        ("update", [0.0, 1.0], Box::new(|| store.update(b"a", Durability::Os, |_| Update::Keep).expect("update"))),
        ("get", [1.0, 0.0], Box::new(|| assert!(store.get(b"a").expect("get").is_some()))),
        ("get_into", [1.0, 0.0], Box::new(|| assert!(store.get_into(b"a", &mut Vec::new()).expect("get")))),
        ("multi_get", [1.0, 0.0], Box::new(|| assert_eq!(store.multi_get(&[b"a", b"b"]).expect("get").len(), 2))),
        // Its opening, and its first step.
        ("scan", [2.0, 0.0], {
            Box::new(|| {
                let mut scan = store.scan(Range::all()).expect("scan");
                assert!(scan.next().expect("next").is_some() && scan.next().expect("next").is_some());
            })
        }),
    ];
    for is_timed in [true, false] {
        pulse.set_timed(is_timed);
        for (name, counts, run) in &operations {
            run();
            let counted = pulse.take().map(|times| times.count());
            assert_eq!(counted, if is_timed { *counts } else { [0.0; 2] }, "{name}");
        }
    }
}
