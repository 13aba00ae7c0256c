//! A whole move between what a thread decided and what it does, at every such place, each way to read and to write, over each way
//! of executing; and writers who meet units that are changing hands.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use biombo_engine::memory::{self, Memory};
use biombo_engine::{
    Batch, Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind, Op, Registry, Result,
    Snapshot, Stats, Value,
};

use super::{Outgoing, Pace, Step};
use crate::placement::{UnitSet, made};
use crate::seam::{Point, at_each, step_in};
use crate::{Executor, Options, PartitionId, PlacementKind, Range, Store, Update, keyspace};

/// A value for which the engine has no room.
const TOO_MUCH: &[u8] = b"too much";

/// The engine `memory`, declared to be another: each leads to another way of executing writes.
struct Declared(Arc<Memory>, Capabilities);

impl Engine for Declared {
    fn capabilities(&self) -> &Capabilities {
        &self.1
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.0.get(key)
    }
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        if ops.iter().any(|op| matches!(op, Op::Put { value: TOO_MUCH, .. })) {
            return Err(Error::new(ErrorKind::Full, "too much"));
        }
        self.0.apply(ops, durability)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Arc::clone(&self.0).snapshot()
    }
    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Arc::clone(&self.0).cursor()
    }
    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.0.checkpoint(dest)
    }
    fn compact(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> Result<Stats> {
        self.0.stats()
    }
    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.0.verify(report)
    }
}

fn direct() -> Capabilities {
    (memory::kind().capabilities)()
}

fn combined() -> Capabilities {
    Capabilities { sync_apart: false, ..direct() }
}

pub(crate) fn deferred() -> Capabilities {
    Capabilities { costly_transactions: true, sync_apart: false, persistent: true, ..direct() }
}

fn without_batches() -> Capabilities {
    Capabilities { atomic_batches: false, ..direct() }
}

fn without_snapshots() -> Capabilities {
    Capabilities { snapshots: false, ..direct() }
}

const WAYS: [fn() -> Capabilities; 4] = [direct, combined, deferred, without_batches];
const KEYS: [&[u8]; 6] = [b"a", b"\0b", b"m", b"n", b"x", b"y"];

struct Fixture {
    store: Store,
    _dir: tempfile::TempDir,
}

/// The engine `memory` under the name `declared`.
pub(crate) fn declared(way: fn() -> Capabilities) -> EngineKind {
    EngineKind {
        name: "declared",
        capabilities: way,
        open: Arc::new(move |_| Ok(Arc::new(Declared(Arc::new(Memory::new()), way())))),
        ..memory::kind()
    }
}

fn fixture(way: fn() -> Capabilities, placement: PlacementKind, executor: Executor) -> Fixture {
    let mut registry = Registry::new();
    registry.add(declared(way));
    let dir = tempfile::tempdir().expect("a directory");
    let sample = ["", "f", "p"].map(|key| key.as_bytes().to_vec()).to_vec();
    let options = Options::new().engine("declared").partitions(3).placement(placement).range_sample(sample);
    let options = options.executor(executor);
    let store = options.journal_segment_bytes(64 << 10).open(dir.path().join("db"), &registry).expect("a store");
    for key in KEYS {
        store.put_with(key, b"old", Durability::Os).expect("put");
    }
    Fixture { store, _dir: dir }
}

impl Fixture {
    /// Move the units of `keys` to the next partition when this thread next comes to `point`.
    fn move_at(&self, point: Point, keys: &'static [&'static [u8]]) {
        let store = self.store.clone();
        step_in(point, move || move_on(&store, keys));
    }

    /// Values of `key` in all partitions, as their engines have them.
    fn places(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let stored = keyspace::encode(key);
        let instances = self.store.inner.instances.iter();
        instances.filter_map(|instance| instance.get(&stored).expect("get").map(Value::into_vec)).collect()
    }

    fn check(&self, key: &[u8], expected: Option<&[u8]>, what: &str) {
        assert_eq!(self.store.get(key).expect("get").as_deref(), expected, "{what}: {}", key.escape_ascii());
        let expected: Vec<_> = expected.iter().map(|value| value.to_vec()).collect();
        assert_eq!(self.places(key), expected, "{what}: {} in all partitions", key.escape_ascii());
    }
}

fn move_on(store: &Store, keys: &[&[u8]]) {
    let placement = store.placement();
    for key in keys {
        let to = PartitionId((placement.owner(key).0 + 1) % 3);
        let moved = store.move_units(&[placement.unit_of(key)], to, Pace::default()).expect("move");
        assert_eq!((moved.units, moved.cleaned), (1, true));
    }
}

fn each(test: impl Fn(&Fixture, &str)) {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        for (number, way) in WAYS.iter().enumerate() {
            for executor in [Executor::Direct, Executor::Pinned { workers: 2 }] {
                test(&fixture(*way, placement, executor), &format!("{placement}, way {number}, {executor}"));
            }
        }
    }
}

type Action = fn(&Store) -> Result<()>;

#[test]
fn a_write_whose_keys_move_before_it_has_the_lock_lands_where_they_went() {
    let put: [(&str, Action); 6] = [
        ("put at relaxed", |store| store.put_with(b"m", b"new", Durability::Relaxed)),
        ("put at os", |store| store.put_with(b"m", b"new", Durability::Os)),
        ("put at sync", |store| store.put_with(b"m", b"new", Durability::Sync)),
        ("update", |store| {
            store.update(b"m", Durability::Os, |old| {
                assert_eq!(old, Some(&b"old"[..]), "it reads what it replaces");
                Update::Put(b"new".to_vec())
            })
        }),
        ("swap", |store| store.compare_and_swap(b"m", Some(b"old"), Some(b"new")).map(|swapped| assert!(swapped))),
        ("each for itself", |store| {
            let mut batch = Batch::new();
            batch.put(b"a", b"old").put(b"m", b"new");
            store.write_each(&batch, Durability::Os)
        }),
    ];
    for (name, put) in put {
        each(|fixture, what| {
            fixture.move_at(Point::Lock, &[b"m"]);
            put(&fixture.store).expect(name);
            fixture.check(b"m", Some(b"new"), &format!("{what}, {name}"));
            fixture.check(b"n", Some(b"old"), &format!("{what}, {name}"));
        });
    }
}

#[test]
fn a_batch_whose_keys_move_before_it_has_the_locks_lands_whole_where_they_went() {
    for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
        each(|fixture, what| {
            let mut batch = Batch::new();
            for key in KEYS {
                batch.put(key, b"new");
            }
            batch.delete(b"y");
            fixture.move_at(Point::Lock, &[b"m", b"y"]);
            fixture.store.write_with(&batch, durability).expect("write");
            KEYS[..5].iter().for_each(|key| fixture.check(key, Some(b"new"), what));
            fixture.check(b"y", None, what);
        });
        // Of one partition, before and after.
        each(|fixture, what| {
            let mut batch = Batch::new();
            batch.put(b"m", b"new").put(b"m", b"newer");
            fixture.move_at(Point::Lock, &[b"m"]);
            fixture.store.write_with(&batch, durability).expect("write");
            fixture.check(b"m", Some(b"newer"), what);
        });
    }
}

/// (Mutation: each operation routed by the placement of its own moment.)
#[test]
fn operations_for_themselves_whose_keys_move_while_they_are_routed_keep_their_order() {
    for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
        each(|fixture, what| {
            let mut batch = Batch::new();
            batch.put(b"m", b"1").put(b"y", b"1").delete(b"b").put(b"m", b"2").delete(b"y").put(b"b", b"2");
            for passed in 1..6 {
                let (mut left, moving) = (passed, fixture.store.clone());
                at_each(Some(Box::new(move |point| {
                    if point == Point::Route {
                        left -= 1;
                        if left == 0 {
                            move_on(&moving, &[b"b", b"m", b"y"]);
                        }
                    }
                })));
                fixture.store.write_each(&batch, durability).expect("write");
                at_each(None);
                let what = format!("{what}, {durability:?}, moved after {passed}");
                fixture.check(b"m", Some(b"2"), &what);
                fixture.check(b"y", None, &what);
                fixture.check(b"b", Some(b"2"), &what);
            }
        });
    }
}

#[test]
fn a_range_whose_keys_move_before_it_has_the_locks_is_deleted_where_they_went() {
    each(|fixture, what| {
        fixture.move_at(Point::Lock, &[b"m"]);
        fixture.store.delete_range(b"l", Some(b"o")).expect("delete");
        fixture.check(b"m", None, what);
        fixture.check(b"n", None, what);
        fixture.check(b"x", Some(b"old"), what);
    });
}

#[test]
fn a_read_whose_key_moved_before_it_reads_finds_it_and_an_absent_one_stays_absent() {
    each(|fixture, what| {
        for _ in 0..2 {
            fixture.move_at(Point::Read, &[b"m"]);
            assert_eq!(fixture.store.get(b"m").expect("get").as_deref(), Some(&b"old"[..]), "{what}");
            fixture.move_at(Point::Read, &[b"\0b"]);
            let mut value = b"before".to_vec();
            assert!(fixture.store.get_into(b"\0b", &mut value).expect("get") && value == b"old", "{what}");
            fixture.move_at(Point::Read, &[b"absent"]);
            assert!(!fixture.store.contains(b"absent").expect("get"), "{what}");
        }
    });
}

fn scanned(store: &Store, range: Range) -> Vec<Vec<u8>> {
    let mut scan = store.scan(range).expect("scan");
    let mut keys = Vec::new();
    while let Some((key, _)) = scan.next().expect("next") {
        keys.push(key.to_vec());
    }
    keys
}

fn all_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = KEYS.iter().map(|key| key.to_vec()).collect();
    keys.sort();
    keys
}

#[test]
fn a_scan_that_opens_while_units_move_sees_every_key_once() {
    each(|fixture, what| {
        for reverse in [false, true] {
            fixture.move_at(Point::Open, &[b"m", b"a"]);
            let mut keys = scanned(&fixture.store, Range { reverse, ..Range::all() });
            keys.sort();
            assert_eq!(keys, all_keys(), "{what}");
            // Of one partition under range placement: no lock.
            fixture.move_at(Point::Open, &[b"m"]);
            assert_eq!(scanned(&fixture.store, Range::prefix(b"m")), [b"m".to_vec()], "{what}");
        }
    });
}

/// Copies in the next partition, and the topology that tells of them: what a move has done before its flip.
fn half_a_move(store: &Store, key: &[u8], tell: bool) {
    let (inner, mover) = (&store.inner, store.mover().expect("hard"));
    let placement = store.placement();
    let from = placement.owner(key);
    let to = PartitionId((from.0 + 1) % 3);
    let units = Arc::new(UnitSet::of(&placement, &[placement.unit_of(key)]).expect("a unit"));
    if tell {
        mover.journal().begin(units, from, to).expect("begin");
        mover.replace(mover.topology());
    }
    let stored = keyspace::encode(key);
    inner.instances[to.index()].apply_aside(&[Op::Put { key: &stored, value: b"copy" }], &inner.poison).expect("copy");
}

#[test]
fn copies_that_are_not_owned_yet_are_in_no_view_and_what_was_given_up_is_cleaned() {
    each(|fixture, what| {
        let store = fixture.store.clone();
        step_in(Point::Open, move || half_a_move(&store, b"m", true));
        let snapshot = fixture.store.snapshot().expect("snapshot");
        let before = fixture.store.clone();
        step_in(Point::Open, move || half_a_move(&before, b"x", true));
        let mut scans = [
            snapshot.scan(Range::all()).expect("scan"),
            fixture.store.scan(Range::all()).expect("scan"),
            fixture.store.scan(Range { reverse: true, ..Range::all() }).expect("scan"),
        ];
        for scan in &mut scans {
            let mut keys = Vec::new();
            while let Some((key, value)) = scan.next().expect("next") {
                assert_eq!(value, b"old", "{what}");
                keys.push(key.to_vec());
            }
            keys.sort();
            assert_eq!(keys, all_keys(), "{what}");
        }
        let mut damage = Vec::new();
        fixture.store.verify(&mut |found| damage.push(found)).expect("verify");
        assert!(damage.is_empty(), "{what}: {damage:?}");
        assert!(fixture.store.stats().expect("stats").keys_estimated, "{what}");
        assert!(fixture.store.clean_leftovers(Pace::default()).expect("clean"));
        KEYS.iter().for_each(|key| fixture.check(key, Some(b"old"), what));
        assert_eq!(fixture.store.verify(&mut |found| panic!("{found:?}")).expect("verify"), 6, "{what}");
        assert!(!fixture.store.stats().expect("stats").keys_estimated, "{what}");
    });
}

/// Over an engine whose cursors read the present, what a scan may still pass is not deleted under it.
#[test]
fn a_scan_that_reads_the_present_keeps_what_it_may_pass_from_being_cleaned() {
    for placement in [PlacementKind::Hash, PlacementKind::Range] {
        let fixture = fixture(without_snapshots, placement, Executor::Direct);
        let store = &fixture.store;
        let mut scan = store.scan(Range::all()).expect("scan");
        assert!(scan.next().expect("next").is_some());
        let unit = store.placement().unit_of(b"m");
        let (from, to) = (store.route(b"m"), PartitionId((store.route(b"m").0 + 1) % 3));
        let moved = store.move_units(&[unit], to, Pace::default()).expect("move");
        assert_eq!((moved.units, moved.cleaned), (1, false));
        assert!(!store.clean_leftovers(Pace::default()).expect("clean"));
        assert_eq!(fixture.places(b"m").len(), 2, "{placement}");
        let back = store.move_units(&[unit], from, Pace::default()).expect_err("in the way of the scan");
        assert_eq!(back.kind(), ErrorKind::Busy, "{back}");
        let mut keys = 1;
        while scan.next().expect("next").is_some() {
            keys += 1;
        }
        assert_eq!(keys, 6, "{placement}");
        drop(scan);
        assert!(store.clean_leftovers(Pace::default()).expect("clean"));
        fixture.check(b"m", Some(b"old"), "after the scan");
    }
}

#[test]
fn verification_tells_of_keys_that_no_move_has_left_over() {
    let fixture = fixture(direct, PlacementKind::Hash, Executor::Direct);
    half_a_move(&fixture.store, b"m", false);
    let mut damage = 0;
    fixture.store.verify(&mut |_| damage += 1).expect("verify");
    assert_eq!(damage, 1);
}

/// What is left over of a move that was given up is in the way of the next one to the same place, and goes first.
#[test]
fn a_move_to_where_one_was_given_up_begins_with_nothing_there() {
    each(|fixture, what| {
        half_a_move(&fixture.store, b"m", true);
        fixture.store.delete_with(b"m", Durability::Os).expect("delete");
        move_on(&fixture.store, &[b"m"]);
        fixture.check(b"m", None, what);
    });
}

/// What its partition's engine has not got yet goes along, all around the partitions, and nothing of it comes up again where it was before.
#[test]
fn what_was_written_at_relaxed_moves_with_its_unit() {
    each(|fixture, what| {
        for value in 1..=6u8 {
            fixture.store.put_with(b"m", &[value], Durability::Relaxed).expect("put");
            if value % 2 == 0 {
                fixture.store.put_with(b"x", &[value], Durability::Relaxed).expect("put");
            } else {
                fixture.store.delete_with(b"x", Durability::Relaxed).expect("delete");
            }
            move_on(&fixture.store, &[b"m", b"x"]);
            fixture.check(b"m", Some(&[value]), what);
            fixture.check(b"x", (value % 2 == 0).then_some(&[value][..]), what);
        }
    });
}

#[test]
fn writers_of_units_that_change_hands_wait_and_nobody_else_does() {
    each(|fixture, what| {
        let (store, mover) = (&fixture.store, fixture.store.mover().expect("hard"));
        let placement = store.placement();
        let units = Arc::new(UnitSet::of(&placement, &[placement.unit_of(b"m")]).expect("a unit"));
        let lane = &store.inner.lanes[placement.owner(b"m").index()];
        mover.handover.begin(&units);
        let mut outgoing = Outgoing::new(Arc::clone(&units));
        outgoing.close();
        *lane.lock().0 = Some(outgoing);
        // Another key of the same partition, but of another unit.
        let is_neighbour = |key: &[u8]| placement.owner(key) == placement.owner(b"m") && !units.holds(key);
        let other = (0..=u8::MAX).map(|byte| vec![b'1', byte]).find(|key| is_neighbour(key));
        let through = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let actions: [Action; 6] = [
                |store| store.put_with(b"m", b"new", Durability::Relaxed),
                |store| store.put_with(b"m", b"new", Durability::Os),
                |store| store.put_with(b"m", b"new", Durability::Sync),
                |store| store.update(b"m", Durability::Os, |_| Update::Put(b"new".to_vec())),
                |store| {
                    let mut batch = Batch::new();
                    batch.put(b"m", b"new").put(b"a", b"new").put(b"x", b"new");
                    store.write_with(&batch, Durability::Sync)
                },
                |store| store.delete_range(b"m1", Some(b"m2")),
            ];
            for action in actions {
                let through = &through;
                scope.spawn(move || {
                    action(store).expect("write");
                    through.store(true, Ordering::SeqCst);
                });
            }
            for durability in [Durability::Relaxed, Durability::Os, Durability::Sync] {
                if let Some(other) = &other {
                    store.put_with(other, b"1", durability).expect("put");
                }
                store.put_with(b"zz", b"1", durability).expect("put");
            }
            std::thread::sleep(Duration::from_millis(30));
            assert!(!through.load(Ordering::SeqCst), "{what}: a write passed by the hand-over");
            assert_eq!(store.get(b"m").expect("get").as_deref(), Some(&b"old"[..]), "{what}: reads go on");
            *lane.lock().0 = None;
            mover.handover.end();
        });
        fixture.check(b"m", Some(b"new"), what);
    });
}

/// Of a million pins a copy takes milliseconds: it is made before the units are closed, and given back after they were opened again.
#[test]
fn no_pins_are_copied_while_writers_are_held_back() {
    let fixture = fixture(direct, PlacementKind::Hash, Executor::Direct);
    let passed = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let watcher = {
        let passed = std::rc::Rc::clone(&passed);
        move |point| {
            if let Point::Step(step) = point {
                passed.borrow_mut().push((step, made::so_far()));
            }
        }
    };
    at_each(Some(Box::new(watcher)));
    let to = PartitionId(0);
    fixture.store.move_keys(&KEYS, to, Pace::default()).expect("move");
    at_each(None);
    assert!(KEYS.iter().all(|key| fixture.store.route(key) == to));
    let at = |wanted: Step| {
        let passed = passed.borrow();
        passed.iter().filter(|(step, _)| *step == wanted).map(|(_, made)| *made).collect::<Vec<u64>>()
    };
    let (begun, closed, published) = (at(Step::Begin), at(Step::Close), at(Step::Publish));
    assert!(!closed.is_empty() && closed == published, "{closed:?} when they were closed, then {published:?}");
    assert!(begun.iter().zip(&closed).all(|(begun, closed)| begun < closed), "{begun:?}, then {closed:?}");
}

/// What is written again and again while it leaves is forwarded once. (Mutation: all that was taken is forwarded.)
#[test]
fn of_many_writes_to_a_key_the_last_is_forwarded() {
    let fixture = fixture(direct, PlacementKind::Range, Executor::Direct);
    let (store, writer) = (&fixture.store, fixture.store.clone());
    let to = PartitionId((store.route(b"m").0 + 1) % 3);
    step_in(Point::Step(Step::Close), move || {
        for number in 0..1_000_u32 {
            writer.put_with(b"m", &number.to_le_bytes(), Durability::Os).expect("put");
        }
    });
    let moved = store.move_units(&[store.placement().unit_of(b"m")], to, Pace::default()).expect("move");
    assert_eq!(moved.forwarded, 1, "{moved:?}");
    fixture.check(b"m", Some(&999_u32.to_le_bytes()), "the last of them");
}

/// What is refused for want of room changed nothing: the move that makes room goes on. (Mutation: it breaks the move.)
#[test]
fn a_write_that_a_full_partition_refuses_breaks_no_move() {
    for way in [direct, combined] {
        let fixture = fixture(way, PlacementKind::Range, Executor::Direct);
        let (store, writer) = (&fixture.store, fixture.store.clone());
        step_in(Point::Step(Step::Read), move || {
            let refused = writer.put_with(b"m", TOO_MUCH, Durability::Os).expect_err("no room");
            assert_eq!(refused.kind(), ErrorKind::Full);
            writer.put_with(b"n", b"new", Durability::Os).expect("put");
        });
        move_on(store, &[b"m"]);
        fixture.check(b"m", Some(b"old"), "refused");
        fixture.check(b"n", Some(b"new"), "after it");
    }
}

/// Fails if the rest of the units is copied first. (Mutation: where little waits it is not asked whether the move is broken.)
#[test]
fn a_move_that_is_broken_ends_with_the_chunk_that_was_read() {
    let fixture = fixture(direct, PlacementKind::Range, Executor::Direct);
    let store = &fixture.store;
    for number in 0..40_u32 {
        store.put_with(format!("m{number}").as_bytes(), &[7; 100_000], Durability::Os).expect("put");
    }
    let (breaking, from) = (store.clone(), store.route(b"m").index());
    step_in(Point::Step(Step::Read), move || {
        let failed: Result<()> = Err(Error::new(ErrorKind::Io, "nobody knows how much of it"));
        breaking.inner.lanes[from].lock().published(&[Op::Delete { key: &keyspace::encode(b"m") }], &failed);
    });
    let loads = std::rc::Rc::new(std::cell::Cell::new(0));
    let watcher = {
        let loads = std::rc::Rc::clone(&loads);
        move |point| loads.set(loads.get() + u32::from(point == Point::Step(Step::Load)))
    };
    at_each(Some(Box::new(watcher)));
    let to = PartitionId((from as u16 + 1) % 3);
    let given_up = store.move_units(&[store.placement().unit_of(b"m")], to, Pace::default()).expect_err("broken");
    at_each(None);
    assert_eq!((given_up.kind(), loads.get()), (ErrorKind::Busy, 0));
}

/// A range of many keys that is deleted just before the units are closed: whoever is held back does not wait until all of them are deleted from the target,
/// one by one. (Mutations: no bound of keys while closed; what Close took forgotten when it is reopened.)
#[test]
fn a_range_of_many_keys_that_is_deleted_last_holds_nobody_back_for_all_of_them() {
    const MANY: u32 = 20_000;
    for way in [direct, without_snapshots] {
        let fixture = fixture(way, PlacementKind::Range, Executor::Direct);
        let store = &fixture.store;
        let key = |number: u32| format!("m{number:06}").into_bytes();
        let mut batch = Batch::new();
        for number in 0..MANY {
            batch.put(&key(number), b"value");
        }
        store.write_each(&batch, Durability::Os).expect("write");
        let (deleting, to) = (store.clone(), PartitionId((store.route(b"m").0 + 1) % 3));
        step_in(Point::Step(Step::Close), move || {
            deleting.delete_range(b"m", Some(b"n")).expect("delete");
            deleting.put_with(b"m-after", b"it", Durability::Os).expect("put");
        });
        let passed = std::rc::Rc::new(std::cell::RefCell::new((Vec::new(), 0, 0)));
        let watcher = {
            let passed = std::rc::Rc::clone(&passed);
            move |point| {
                let (steps, all, closed) = &mut *passed.borrow_mut();
                match point {
                    Point::Step(step) => steps.push(step),
                    Point::Key => {
                        let hold = [Step::Close, Step::Reopen, Step::Publish];
                        let last = steps.iter().rev().find(|step| hold.contains(step));
                        *all += 1;
                        *closed += u32::from(last == Some(&Step::Close));
                    }
                    _ => {}
                }
            }
        };
        at_each(Some(Box::new(watcher)));
        let moved = store.move_units(&[store.placement().unit_of(b"m")], to, Pace::default()).expect("move");
        at_each(None);
        let (steps, all, closed) = passed.take();
        assert!(steps.contains(&Step::Reopen), "{steps:?}");
        assert!(all >= MANY && closed <= super::machine::CLOSE_KEYS_MAX as u32, "{closed} of {all} keys");
        assert!(moved.forwarded > u64::from(MANY), "{moved:?}");
        fixture.check(b"m", None, "deleted");
        fixture.check(&key(77), None, "deleted");
        fixture.check(b"m-after", Some(b"it"), "put after it");
        fixture.check(b"n", Some(b"old"), "beside it");
        assert_eq!(store.verify(&mut |found| panic!("{found:?}")).expect("verify"), KEYS.len() as u64);
    }
}
