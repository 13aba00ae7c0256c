//! What a killed process left and no sync covers yet, and what is written after it: a `Sync` write makes durable what came before it in its partition,
//! whoever wrote that.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, SimIo};
use biombo_engine::{Durability, EngineKind, Registry};
use biombo_log::{LogEngineOptions, kind, open_with};
use biombo_store::{Options, Pace, PartitionId, Store};

fn open(io: &SimIo) -> Store {
    let sim = io.clone();
    let mut registry = Registry::new();
    registry.add(EngineKind {
        open: Arc::new(move |options| {
            Ok(open_with(Arc::new(sim.clone()), options, &LogEngineOptions::default(), false)?)
        }),
        repair: None,
        ..kind()
    });
    let disk: Arc<dyn Io> = Arc::new(io.clone());
    Options::new().engine("log").partitions(2).io(disk).open(Path::new("db"), &registry).expect("a store")
}

/// Two keys of one partition, of different units.
fn keys(store: &Store) -> (Vec<u8>, Vec<u8>) {
    let placement = store.placement();
    let first = b"key".to_vec();
    let is_neighbour = |key: &Vec<u8>| {
        placement.owner(key) == placement.owner(&first) && placement.unit_of(key) != placement.unit_of(&first)
    };
    let second = (0u32..).map(|number| format!("key{number}").into_bytes()).find(is_neighbour);
    (first, second.expect("numbers do not end"))
}

/// (Mutation: what an opening finds, taken for synced.)
#[test]
fn a_sync_write_after_a_kill_keeps_what_was_written_before_the_kill() {
    for moves in [false, true] {
        let io = SimIo::new(1);
        let store = open(&io);
        let (before, after) = keys(&store);
        // No intent is behind it: an opening that finishes one syncs.
        store.put_with(&before, b"1", Durability::Os).expect("put");
        let killed = io.crash(io.event_count(), Crash::Kill);
        let store = open(&killed);
        assert_eq!(store.get(&before).expect("get").as_deref(), Some(&b"1"[..]), "a kill takes nothing");
        if moves {
            // What the rest of the partition had is as durable as what was moved.
            let to = PartitionId(1 - store.route(&after).0);
            store.move_units(&[store.placement().unit_of(&after)], to, Pace::default()).expect("move");
        } else {
            store.put_with(&after, b"2", Durability::Sync).expect("put");
        }
        let cut = killed.crash(killed.event_count(), Crash::Nothing);
        let store = open(&cut);
        assert_eq!(store.get(&before).expect("get").as_deref(), Some(&b"1"[..]), "moves: {moves}");
        assert_eq!(store.get(&after).expect("get").is_some(), !moves);
    }
}
