//! Intents: who empties their journal, what a failure leaves, and what a `Sync` write holds on to. (Power cuts: `tests/crash.rs`.)

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;
use crate::pinned::tests::{Script, fixture_of, fixture_over};
use crate::{Options, PartitionId, Store};
use biombo_engine::Capabilities;
use proptest::prelude::*;

/// Fails if each of them syncs all partitions once more, one after the other.
#[test]
fn callers_who_find_the_journal_full_at_once_have_it_emptied_once() {
    let fixture = fixture_of(Script::default(), Options::new().partitions(2));
    let inner = &fixture.store.inner;
    let intents = inner.intents.as_ref().expect("hard");
    let full = intents.outstanding_bytes_max + 1;
    *intents.outstanding() = Outstanding { bytes: full, synced_bytes: full };
    let before = fixture.script.syncs.load(Ordering::SeqCst);
    let (busy, asking) = (intents.retiring(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                asking.fetch_add(1, Ordering::SeqCst);
                intents.make_room(&inner.lanes, &inner.instances, &inner.poison).expect("room");
                intents.note(1, Durability::Sync);
            });
        }
        while asking.load(Ordering::SeqCst) < 8 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        drop(busy);
    });
    let syncs = fixture.script.syncs.load(Ordering::SeqCst) - before;
    assert_eq!((syncs, intents.outstanding_bytes()), (2, 8), "one for each partition");
}

/// An engine that gets its writes later.
fn costly() -> Capabilities {
    Capabilities {
        persistent: true,
        costly_transactions: true,
        sync_apart: false,
        ..(biombo_engine::memory::kind().capabilities)()
    }
}

/// A key of a partition.
fn key_of(store: &Store, partition: u16) -> Vec<u8> {
    let keys = (0u32..).map(|number| format!("key{number}").into_bytes());
    keys.into_iter().find(|key| store.route(key) == PartitionId(partition)).expect("numbers do not end")
}

/// A decided batch that an engine refuses is no batch that was refused: the next opening finishes it. Until then nothing may be written over it, and
/// nobody may drop it. (Mutations: the engine's own error for the caller; a retiring thread that goes on.)
#[test]
fn a_decided_batch_that_an_engine_refuses_poisons_the_store_and_stays_in_the_journal() {
    let fixture = fixture_of(Script::default(), Options::new().partitions(2));
    let (store, inner) = (&fixture.store, &fixture.store.inner);
    let (a, b) = (key_of(store, 0), key_of(store, 1));
    store.put_with(&a, b"before", Durability::Os).expect("put");
    fixture.script.fail(Some(ErrorKind::Full));
    let mut batch = Batch::new();
    batch.put(&a, b"1").put(&b, b"1");
    let error = store.write_with(&batch, Durability::Os).expect_err("no room");
    assert!(error.kind() == ErrorKind::Poisoned && error.message().contains("as the script says"), "{error}");
    fixture.script.fail(None);
    let intents = inner.intents.as_ref().expect("hard");
    let error = intents.retire(&inner.lanes, &inner.instances, &inner.poison).expect_err("it has a decided batch");
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert_eq!(store.put_with(&b, b"2", Durability::Os).expect_err("read-only").kind(), ErrorKind::Poisoned);
}

/// Fails when a full device is found only by an engine whose slice is decided: the store would be read-only, and would not open before there is room.
#[test]
fn a_batch_for_which_an_engine_has_no_room_is_refused_and_the_store_goes_on() {
    let fixture = fixture_of(Script::default(), Options::new().partitions(2));
    let (store, inner) = (&fixture.store, &fixture.store.inner);
    let (a, b) = (key_of(store, 0), key_of(store, 1));
    let mut batch = Batch::new();
    batch.put(&a, b"1").put(&b, b"1");
    fixture.script.is_full.store(true, Ordering::SeqCst);
    assert_eq!(store.write_with(&batch, Durability::Os).expect_err("no room").kind(), ErrorKind::Full);
    let intents = inner.intents.as_ref().expect("hard");
    assert_eq!((intents.outstanding_bytes(), store.get(&a).expect("get").is_none()), (0, true), "nothing is decided");
    fixture.script.is_full.store(false, Ordering::SeqCst);
    store.write_with(&batch, Durability::Os).expect("room");
    assert!([&a, &b].iter().all(|key| store.get(key).expect("get").is_some()));
}

/// The same where writes wait for their engine, of a batch that cannot wait. (Mutation: `Deferred` that asks nobody.)
#[test]
fn room_is_asked_for_behind_what_waits_too() {
    let fixture = fixture_over(Script::default(), Options::new().partitions(2), costly());
    let (store, inner) = (&fixture.store, &fixture.store.inner);
    assert!(inner.instances.iter().all(|instance| instance.deferred.is_some()), "their writes wait");
    let (a, b) = (key_of(store, 0), key_of(store, 1));
    let mut batch = Batch::new();
    batch.put(&a, b"1").put(&b, b"1").delete_range(&[0xff], Some(&[0xff, 0xff]));
    fixture.script.is_full.store(true, Ordering::SeqCst);
    assert_eq!(store.write_with(&batch, Durability::Os).expect_err("no room").kind(), ErrorKind::Full);
    fixture.script.is_full.store(false, Ordering::SeqCst);
    store.write_with(&batch, Durability::Os).expect("it is not poisoned, and there is room");
    assert!([&a, &b].iter().all(|key| store.get(key).expect("get").is_some()));
}

/// A store that a failure has made read-only takes nothing, a write neither that waited for its turn when it happened.
#[test]
fn a_write_that_waited_for_its_lane_while_the_store_was_poisoned_is_refused() {
    let fixture = fixture_of(Script::default(), Options::new().partitions(2));
    let (store, inner) = (&fixture.store, &fixture.store.inner);
    let key = key_of(store, 1);
    let held = inner.lanes[1].lock();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| store.put_with(&key, b"2", Durability::Os));
        std::thread::sleep(Duration::from_millis(50));
        inner.poison.set(&Error::new(ErrorKind::Full, "an intent that is decided"));
        drop(held);
        assert_eq!(waits.join().expect("it ends").expect_err("read-only").kind(), ErrorKind::Poisoned);
    });
    assert!(store.get(&key).expect("get").is_none());
}

/// A `Sync` write that comes while the `Os` writes before it are on their way into the engine, without a sync, is acknowledged by the journal; these
/// must not go from there before a sync. (Mutation: a retiring that looks at what it was to sync when it began.)
#[test]
fn what_came_before_a_sync_write_is_synced_before_the_journal_drops_it() {
    let fixture = fixture_over(Script::default(), Options::new().partitions(2), costly());
    let (store, inner, script) = (&fixture.store, &fixture.store.inner, &fixture.script);
    let key = key_of(store, 0);
    let intents = inner.intents.as_ref().expect("hard");
    let deferred = inner.instances[0].deferred.as_ref().expect("it suits");
    script.hold(true);
    store.put_with(&key, b"1", Durability::Os).expect("put");
    std::thread::scope(|scope| {
        let retires = scope.spawn(|| intents.retire(&inner.lanes, &inner.instances, &inner.poison));
        while deferred.gathering_bytes() > 0 {
            std::thread::yield_now();
        }
        store.put_with(&key, b"2", Durability::Sync).expect("the journal has it");
        let before = script.syncs.load(Ordering::SeqCst);
        script.hold(false);
        retires.join().expect("it ends").expect("room");
        assert!(script.syncs.load(Ordering::SeqCst) > before);
    });
}

/// A move lets go of units when what it copied of them is safe where they were, too; what waits there must not go from the journal to the engine
/// without a sync. (Mutation: its level left as it was.)
#[test]
fn what_a_move_has_settled_is_brought_in_by_a_sync() {
    let fixture = fixture_over(Script::default(), Options::new().partitions(2), costly());
    let (store, inner, script) = (&fixture.store, &fixture.store.inner, &fixture.script);
    store.put_with(&key_of(store, 0), b"1", Durability::Os).expect("put");
    inner.instances[0].settle_published(&inner.poison).expect("settled");
    inner.instances[0].drain(&inner.poison).expect("room");
    // Where the thread that brings in what is left was faster, it is the engine's own sync.
    assert!(script.syncs.load(Ordering::SeqCst) + script.applied_at_sync.load(Ordering::SeqCst) > 0);
}

fn slices() -> impl Strategy<Value = Slices> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let op = (0..4u8, bytes(), bytes());
    proptest::collection::vec((0..8u16, proptest::collection::vec(op, 0..5)), 0..4).prop_map(|slices| {
        let slice = |ops: Vec<(u8, Vec<u8>, Vec<u8>)>| {
            let mut batch = Batch::new();
            for (kind, a, b) in ops {
                match kind {
                    0 => batch.put(&a, &b),
                    1 => batch.delete(&a),
                    2 => batch.delete_range(&a, Some(&b)),
                    _ => batch.delete_range(&a, None),
                };
            }
            batch
        };
        slices.into_iter().map(|(partition, ops)| (partition, slice(ops))).collect()
    })
}

proptest! {
    #[test]
    fn intents_come_back_and_their_truncations_are_refused(number: u64, slices in slices()) {
        let record = encode(number, &slices);
        let (number_back, back) = decode(&record, 8).expect("decodes");
        prop_assert_eq!(number_back, number);
        prop_assert_eq!(back.len(), slices.len());
        for (a, b) in back.iter().zip(&slices) {
            prop_assert_eq!(a.0, b.0);
            prop_assert_eq!(a.1.to_ops(), b.1.to_ops());
        }
        for cut in 0..record.len() {
            prop_assert!(decode(&record[..cut], 8).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(record in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&record, 8);
    }
}
