//! What is left over goes by itself: after a crash, after a scan that was in its way, and in pieces when a store is closed meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biombo_engine::memory::Memory;
use biombo_engine::{
    Batch, Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind, Op, Registry, Result,
    Snapshot, Stats, Value, memory,
};

use super::tidy::LATER;
use super::{Pace, Step};
use crate::placement::UnitSet;
use crate::seam::{Point, step_in};
use crate::{Options, PartitionId, Range, Store, UnitId, keyspace};

const KEYS: u32 = 6000;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn open(dir: &Path) -> Store {
    let mut registry = Registry::new();
    registry.add(biombo_log::kind());
    let options = Options::new().engine("log").partitions(2).cache_bytes(8 << 20).durability(Durability::Os);
    options.open(dir.join("db"), &registry).expect("a store")
}

/// Keys, and copies of all those of partition 0 in partition 1, as a crash in the midst of a move leaves them.
fn with_copies(dir: &Path) {
    let store = open(dir);
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(&key(number), b"value");
    }
    store.write_each(&batch, Durability::Os).expect("write");
    let (mover, placement) = (store.mover().expect("hard"), store.placement());
    let units = Arc::new(UnitSet::of(&placement, &placement.units_of(PartitionId(0))).expect("units"));
    mover.journal().begin(Arc::clone(&units), PartitionId(0), PartitionId(1)).expect("begin");
    let mut copies = Batch::new();
    for stored in (0..KEYS).map(key).filter(|key| units.holds(&keyspace::encode(key))) {
        copies.put(&stored, b"copy");
    }
    assert!(copies.len() > 2000, "{} copies", copies.len());
    mover.instances[1].apply_aside(&copies.to_ops(), &mover.poison).expect("copy");
    store.flush().expect("flush");
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_tidy(store: &Store) -> bool {
    (0..2).all(|number| store.mover().expect("hard").leftovers_in(PartitionId(number)).is_empty())
}

/// How many of the keys lie in partitions that do not own them.
fn strangers(store: &Store) -> usize {
    let is_strange = |key: &Vec<u8>| {
        let other = &store.inner.instances[1 - store.route(key).index()];
        other.get(&keyspace::encode(key)).expect("get").is_some()
    };
    (0..KEYS).map(key).filter(is_strange).count()
}

fn check(store: &Store) {
    let mut scan = store.scan(Range::all()).expect("scan");
    for number in 0..KEYS {
        let (found, value) = scan.next().expect("next").expect("a key");
        assert_eq!((found, value), (&key(number)[..], &b"value"[..]));
    }
    assert!(scan.next().expect("next").is_none());
}

#[test]
fn what_a_crash_left_over_is_cleaned_after_opening_while_units_move() {
    let dir = tempfile::tempdir().expect("a directory");
    with_copies(dir.path());
    let store = open(dir.path());
    check(&store);
    let mut moves = 0u16;
    // Those who move units do not wait for the thread.
    while !is_tidy(&store) && moves < 20 {
        let moved = store.move_units(&[UnitId(0)], PartitionId(moves % 2), Pace::default()).expect("move");
        assert!(moved.cleaned);
        moves += 1;
    }
    wait_for("what was left over goes", || is_tidy(&store));
    assert_eq!(strangers(&store), 0);
    check(&store);
    assert_eq!(store.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), u64::from(KEYS));
}

#[test]
fn a_store_that_is_closed_while_it_cleans_goes_on_with_it_when_it_is_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    with_copies(dir.path());
    let mut openings = 0;
    loop {
        let store = open(dir.path());
        openings += 1;
        assert!(openings < 200, "no opening cleans");
        if is_tidy(&store) {
            assert_eq!(strangers(&store), 0);
            return check(&store);
        }
        check(&store);
        std::thread::sleep(Duration::from_millis(openings));
    }
}

#[test]
fn what_a_scan_was_reading_goes_when_the_scan_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut registry = Registry::new();
    // Its cursors keep what they saw, which is more than is said here.
    fn capabilities() -> Capabilities {
        Capabilities { snapshots: false, ..(memory::kind().capabilities)() }
    }
    registry.add(EngineKind { capabilities, ..memory::kind() });
    let options = Options::new().engine("memory").partitions(2).durability(Durability::Os);
    let store = options.open(dir.path().join("db"), &registry).expect("a store");
    (0..KEYS).for_each(|number| store.put(&key(number), b"value").expect("put"));
    let scan = store.scan(Range::all()).expect("scan");
    let units = store.placement().units_of(PartitionId(0));
    let moved = store.move_units(&units, PartitionId(1), Pace::default()).expect("move");
    assert!(!moved.cleaned && !is_tidy(&store));
    std::thread::sleep(Duration::from_millis(100));
    assert!(strangers(&store) > 2000, "the scan may be reading them");
    drop(scan);
    wait_for("what the scan was reading goes", || is_tidy(&store));
    assert_eq!(strangers(&store), 0);
    check(&store);
}

/// The thread has seen a move in its beginning, when it left copies in its target, and comes to clean once it has flipped, when its source holds what is left.
/// (Mutation: who holds what is not looked up again.)
#[test]
fn what_a_move_left_over_is_cleaned_where_it_is_and_not_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut registry = Registry::new();
    fn capabilities() -> Capabilities {
        Capabilities { snapshots: false, ..(memory::kind().capabilities)() }
    }
    registry.add(EngineKind { capabilities, ..memory::kind() });
    let options = Options::new().engine("memory").partitions(2).durability(Durability::Os);
    let store = options.open(dir.path().join("db"), &registry).expect("a store");
    (0..KEYS).for_each(|number| store.put(&key(number), b"value").expect("put"));
    let scan = store.scan(Range::all()).expect("scan");
    let units = store.placement().units_of(PartitionId(0));
    let (some, others) = units.split_at(units.len() / 2);
    // Something for the thread to come back to.
    let moved = store.move_units(some, PartitionId(1), Pace::default()).expect("move");
    assert!(!moved.cleaned && !is_tidy(&store));
    let mover = store.mover().expect("hard");
    let role = mover.take_role();
    step_in(Point::Step(Step::Flip), || std::thread::sleep(LATER * 6));
    let moved = mover.move_units_in_role(others, PartitionId(1), Pace::default()).expect("move");
    assert!(!moved.cleaned);
    drop(scan);
    drop(role);
    wait_for("what both left over", || is_tidy(&store));
    assert_eq!(strangers(&store), 0);
    check(&store);
    assert_eq!(store.verify(&mut |damage| panic!("{damage:?}")).expect("verify"), u64::from(KEYS));
}

/// The engine `memory` on a disk that may be full.
struct OnDisk(Arc<Memory>, Arc<AtomicBool>);

impl Engine for OnDisk {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.0.get(key)
    }
    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        if self.1.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Full, "no room"));
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

/// Nobody moves, cleans or opens anything after the disk was full, and what is left over goes all the same, once there is room. (Mutation: the
/// thread ends at the first error.)
#[test]
fn what_a_full_disk_kept_from_being_cleaned_goes_once_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let mut registry = Registry::new();
    registry.add(EngineKind {
        open: Arc::new(move |_| Ok(Arc::new(OnDisk(Arc::new(Memory::new()), Arc::clone(&full))))),
        ..memory::kind()
    });
    let options = Options::new().engine("memory").partitions(2).durability(Durability::Os);
    let store = options.open(dir.path().join("db"), &registry).expect("a store");
    (0..KEYS).for_each(|number| store.put(&key(number), b"value").expect("put"));
    let filling = Arc::clone(&is_full);
    step_in(Point::Clean, move || filling.store(true, Ordering::SeqCst));
    let units = store.placement().units_of(PartitionId(0));
    let moved = store.move_units(&units, PartitionId(1), Pace::default()).expect("move");
    assert!(!moved.cleaned);
    // The thread has met it, more than once.
    std::thread::sleep(LATER * 5);
    assert!(!is_tidy(&store) && strangers(&store) > 2000);
    assert!(store.stats().expect("stats").poisoned.is_none(), "want of room ends no store");
    is_full.store(false, Ordering::SeqCst);
    wait_for("what a full disk kept", || is_tidy(&store));
    assert_eq!(strangers(&store), 0);
    check(&store);
}
