//! A store of some partitions over the log engine through reopenings and crashes: batches over several partitions are there whole or
//! not at all, and what was promised is kept.

use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_engine::{Durability, EngineKind, Registry};
use biombo_log::{LogEngineOptions, kind, open_with};
use biombo_store::{Options, Partitioning, PlacementKind, Range, Snapshot, Store};

use super::State;
use super::engine::{applied, batch};
use super::history::{History, crash};
use crate::Property;
use crate::decode::journal::small;
use crate::input::Input;

/// The store's directory.
pub const DIR: &str = "store";

/// A byte of choices, then operations.
pub const PROPERTY: Property = Property { name: "store_ops", holds, examples, cases: 30 };

/// The engine `log` with its files on `io`, small segments and no threads.
pub fn registry(io: &SimIo) -> Registry {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let own = LogEngineOptions { log: small(), ..LogEngineOptions::default() };
    let mut registry = Registry::new();
    registry.add(EngineKind {
        open: Arc::new(move |options| Ok(open_with(Arc::clone(&io), options, &own, false)?)),
        repair: None,
        ..kind()
    });
    registry
}

/// Two `hard` partitions of it, unless told otherwise.
pub fn options(io: &SimIo) -> Options {
    Options::new().engine("log").journal_segment_bytes(16 << 10).io(Arc::new(io.clone()))
}

/// Open or create the store.
///
/// # Errors
/// As the store says.
pub fn open(io: &SimIo, options: Options) -> Result<Store> {
    let is_new = !io.exists(&Path::new(DIR).join("MANIFEST")).unwrap_or(false);
    let options = if is_new { options.partitions(2).partitioning(Partitioning::Hard) } else { options };
    options.open(DIR, &registry(io))
}

/// All keys and values.
///
/// # Errors
/// As the scan says.
pub fn contents(store: &Store) -> Result<State> {
    let mut scan = store.scan(Range::all())?;
    let mut state = State::new();
    while let Some((key, value)) = scan.next()? {
        state.insert(key.to_vec(), value.to_vec());
    }
    Ok(state)
}

const FINE: &str = "the disk refuses nothing";

struct Run {
    sim: SimIo,
    kind: PlacementKind,
    store: Option<Store>,
    history: History<State>,
    snapshots: Vec<(Snapshot, State)>,
}

impl Run {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("invariant: it is open but within a step")
    }

    fn open(&mut self) {
        let store = open(&self.sim, options(&self.sim).placement(self.kind));
        self.store = Some(store.unwrap_or_else(|e| panic!("it does not open: {e}")));
    }

    fn check(&self) {
        assert_eq!(contents(self.store()).expect(FINE), *self.history.last());
        for (snapshot, state) in &self.snapshots {
            let mut scan = snapshot.scan(Range::all()).expect(FINE);
            let mut found = State::new();
            while let Some((key, value)) = scan.next().expect(FINE) {
                found.insert(key.to_vec(), value.to_vec());
            }
            assert_eq!(found, *state, "a snapshot");
        }
    }
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let kind = if choice & 1 == 0 { PlacementKind::Hash } else { PlacementKind::Range };
    // Of `Os` writes each partition keeps a prefix of its own through a power cut; a store of several keeps no one state of all.
    let level = if choice & 2 == 0 { Durability::Sync } else { Durability::Os };
    let mut run =
        Run { sim: SimIo::new(2), kind, store: None, history: History::of(State::new()), snapshots: Vec::new() };
    run.open();
    run.history.synced(&run.sim);
    for number in 0..50 {
        if input.is_over() {
            break;
        }
        match input.below(16) {
            0..8 => {
                let batch = batch(&mut input, number);
                run.history.begin(applied(run.history.last(), &batch.to_ops()));
                run.store().write_with(&batch, level).expect(FINE);
                run.history.acked(&run.sim);
                if level == Durability::Sync {
                    run.history.synced(&run.sim);
                }
            }
            8 | 9 => {
                let key = input.key();
                let found = run.store().get(&key).expect(FINE);
                assert_eq!(found.as_deref(), run.history.last().get(&key).map(Vec::as_slice), "get {key:?}");
            }
            10 => {
                let (from, to) = (input.key(), input.key());
                let mut scan =
                    run.store().scan(Range { from: from.clone(), to: Some(to.clone()), ..Range::all() }).expect(FINE);
                for (key, value) in run.history.last().range(from.clone()..).take_while(|(key, _)| **key < to) {
                    assert_eq!(scan.next().expect(FINE), Some((&key[..], &value[..])), "scan");
                }
                assert_eq!(scan.next().expect(FINE), None, "scan");
            }
            11 if run.snapshots.len() < 3 => {
                let snapshot = run.store().snapshot().expect(FINE);
                run.snapshots.push((snapshot, run.history.last().clone()));
            }
            11 => run.snapshots.clear(),
            12 => run.check(),
            13 => {
                run.snapshots.clear();
                run.store = None;
                run.history.synced(&run.sim);
                run.open();
                run.check();
            }
            _ => {
                let (image, cut, crash) = crash(&run.sim, &mut input);
                if level == Durability::Os && crash != biombo_base::io::sim::Crash::Kill {
                    continue;
                }
                // The process dies: nothing of it is closed before its disk is looked at.
                let (snapshots, store) = (std::mem::take(&mut run.snapshots), run.store.take());
                run.sim = image;
                run.open();
                let found = contents(run.store()).expect("what was recovered can be read");
                let history = std::mem::replace(&mut run.history, History::of(State::new()));
                run.history = history.crashed(cut, crash, &found);
                drop((snapshots, store));
                run.check();
            }
        }
    }
    run.check();
}

fn examples() -> Vec<Vec<u8>> {
    (0..8u8).map(|n| (0..160u32).map(|i| ((i * 47 + u32::from(n) * 103) >> 1) as u8).collect()).collect()
}
