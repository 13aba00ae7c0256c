//! Batches of which units have a part when they change hands: what is noted of them, and what becomes of the rest before the flip. (Power cuts:
//! `crash_tests`.)

use std::sync::Arc;

use biombo_engine::{Batch, Durability, Op, Registry, Result, memory};

use super::{Outgoing, Pace, Step};
use crate::placement::UnitSet;
use crate::seam::{Point, at_each};
use crate::{Executor, Options, PartitionId, Store, keyspace};

fn open(dir: &tempfile::TempDir) -> Store {
    let mut registry = Registry::new();
    registry.add(memory::kind());
    let options = Options::new().engine("memory").partitions(2).executor(Executor::Pinned { workers: 1 });
    options.open(dir.path().join("db"), &registry).expect("a store")
}

/// A key of the same partition as `key`, but of another unit.
fn neighbour(store: &Store, key: &[u8]) -> Vec<u8> {
    let placement = store.placement();
    let is_neighbour = |other: &[u8]| {
        placement.owner(other) == placement.owner(key) && placement.unit_of(other) != placement.unit_of(key)
    };
    (0..=u8::MAX).map(|byte| vec![b'n', byte]).find(|other| is_neighbour(other)).expect("one of 256")
}

/// Fails if writes of single keys of the units, or of others alone, are noted, each of which would cost a sync while writers wait; and for each
/// kind of write that is not noted.
#[test]
fn writes_of_which_a_part_stays_are_noted_and_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let (lane, placement) = (&store.inner.lanes[store.route(b"m").index()], store.placement());
    let units = Arc::new(UnitSet::of(&placement, &[placement.unit_of(b"m")]).expect("a unit"));
    *lane.lock().0 = Some(Outgoing::new(units));
    let other = neighbour(&store, b"m");
    let (mine, others) = (Op::Put { key: b"m", value: b"1" }, Op::Delete { key: &other });
    let range = Op::DeleteRange { from: b"a", to: None };
    let writes: [(&str, &[Op<'_>], bool, bool); 8] = [
        ("a key", &[mine], false, false),
        ("a key twice", &[mine, mine], false, false),
        ("another key", &[others], false, false),
        ("a part without the units", &[others], true, false),
        ("a batch", &[mine, others], false, true),
        ("a batch, the other way round", &[others, mine], false, true),
        ("a part of a batch", &[mine], true, true),
        ("a range", &[range], false, true),
    ];
    for (what, ops, is_part, expected) in writes {
        let mut batch = Batch::new();
        ops.iter().for_each(|op| _ = batch.push(*op));
        let mut held = lane.lock();
        let landed: Result<()> = Ok(());
        if is_part {
            held.published_part(&batch, &landed)
        } else {
            held.published_batch(&batch, &landed)
        }
        let mut divided = || held.0.as_mut().is_some_and(Outgoing::take_divided);
        assert_eq!((divided(), divided()), (expected, false), "{what}");
    }
    *lane.lock().0 = None;
}

/// Fails if what a batch at `Relaxed` left in its partition is in memory alone when its other part has another owner for good: a killed process
/// would leave half of it.
#[test]
fn the_rest_of_a_relaxed_batch_is_in_its_engine_before_the_units_part_is_somewhere_else() {
    for written_before in [Step::Attach, Step::Close] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        let other = neighbour(&store, b"m");
        let from = store.route(b"m");
        let (inner, rest) = (Arc::clone(&store.inner), other.clone());
        at_each(Some(Box::new(move |point| {
            let (lane, instance) = (&inner.lanes[from.index()], &inner.instances[from.index()]);
            if point == Point::Step(written_before) {
                // As a caller does, while the worker that is to bring it in is kept by others.
                let mut batch = Batch::new();
                batch.put(&keyspace::encode(b"m"), b"new").put(&keyspace::encode(&rest), b"new");
                let mut held = lane.lock();
                instance.relaxed.as_ref().expect("it gathers").gather(&batch.to_ops());
                held.published_batch(&batch, &Ok(()));
            }
            if point == Point::Step(Step::Flip) {
                let in_engine = instance.raw().get(&keyspace::encode(&rest)).expect("get");
                assert_eq!(in_engine.as_deref(), Some(&b"new"[..]), "written before {written_before:?}");
            }
        })));
        let to = PartitionId(1 - from.0);
        store.move_units(&[store.placement().unit_of(b"m")], to, Pace::default()).expect("move");
        at_each(None);
        store.put_with(b"n", b"", Durability::Os).expect("put");
        for key in [b"m", &other[..]] {
            assert_eq!(store.get(key).expect("get").as_deref(), Some(&b"new"[..]));
        }
    }
}
