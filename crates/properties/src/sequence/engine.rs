//! The log engine through reopenings, crashes, checkpoints and cleaning: what it holds is a state of its history that keeps what
//! was promised, and a snapshot stays as it was.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::sim::SimIo;
use biombo_engine::{Batch, Cursor, Durability, Engine, Op, OpenOptions, Snapshot};
use biombo_log::{LogEngine, LogEngineOptions, open_with};

use super::State;
use super::history::{History, crash};
use crate::Property;
use crate::decode::journal::small;
use crate::input::Input;

/// The instance's directory.
pub const DIR: &str = "db";

/// Operations, one after the other.
pub const PROPERTY: Property = Property { name: "engine_ops", holds, examples, cases: 60 };

/// Make the instance's directory, as a store does.
pub fn home(sim: &SimIo) {
    let fine = "invariant: nothing is refused";
    sim.create_dir_all(Path::new(DIR)).expect(fine);
    sim.sync_dir(Path::new("")).expect(fine);
}

/// Open or create the instance, with small segments and no threads.
///
/// # Errors
/// As the engine says.
pub fn open(sim: &SimIo) -> Result<Arc<LogEngine>> {
    let own = LogEngineOptions { log: small(), space_amplification: 1.2, ..LogEngineOptions::default() };
    open_with(Arc::new(sim.clone()), &OpenOptions::new(DIR), &own, false)
}

/// All keys and values.
///
/// # Errors
/// As the cursor says.
pub fn contents(engine: &Arc<LogEngine>) -> Result<State> {
    all(Arc::clone(engine).cursor()?)
}

fn all(mut cursor: Box<dyn Cursor>) -> Result<State> {
    let mut state = State::new();
    cursor.first()?;
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        if let Some((last, _)) = state.last_key_value() {
            assert!(&last[..] < key, "the cursor goes back from {last:?} to {key:?}");
        }
        state.insert(key.to_vec(), value.to_vec());
        cursor.next()?;
    }
    Ok(state)
}

/// What `ops` make of `state`.
pub(crate) fn applied(state: &State, ops: &[Op<'_>]) -> State {
    let mut state = state.clone();
    for op in ops {
        match *op {
            Op::Put { key, value } => drop(state.insert(key.to_vec(), value.to_vec())),
            Op::Delete { key } => drop(state.remove(key)),
            Op::DeleteRange { from, to } => {
                state.retain(|key, _| &key[..] < from || to.is_some_and(|to| &key[..] >= to));
            }
        }
    }
    state
}

/// A batch of some operations; `number` is in its values.
pub(crate) fn batch(input: &mut Input<'_>, number: usize) -> Batch {
    let mut batch = Batch::new();
    let count = if input.once_in(3) { 1 + input.below(6) } else { 1 };
    for _ in 0..count {
        match input.below(12) {
            0..8 => batch.put(&input.key(), &input.value(number)),
            8..10 => batch.delete(&input.key()),
            10 => batch.delete_range(&input.key(), Some(&input.key())),
            _ => {
                let from = input.key();
                let to = input.key();
                batch.delete_range(&from, input.once_in(2).then_some(&to[..]))
            }
        };
    }
    batch
}

struct Run {
    sim: SimIo,
    engine: Option<Arc<LogEngine>>,
    history: History<State>,
    /// Snapshots with what they must show.
    snapshots: Vec<(Arc<dyn Snapshot>, State)>,
}

const FINE: &str = "the disk refuses nothing";

impl Run {
    fn engine(&self) -> &Arc<LogEngine> {
        self.engine.as_ref().expect("invariant: it is open but within a step")
    }

    fn apply(&mut self, batch: &Batch, level: Durability) {
        let ops = batch.to_ops();
        self.history.begin(applied(self.history.last(), &ops));
        self.engine().apply(&ops, level).expect(FINE);
        self.history.acked(&self.sim);
        if level == Durability::Sync {
            self.history.synced(&self.sim);
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.engine = None;
        // A log that is closed is durable.
        self.history.synced(&self.sim);
        self.engine = Some(open(&self.sim).expect("what was closed opens"));
        self.check();
    }

    fn crash(&mut self, input: &mut Input<'_>) {
        // The process dies: no destructor has run. What it holds stays on the old disk.
        let (image, cut, crash) = crash(&self.sim, input);
        self.snapshots.clear();
        home(&image);
        let engine = open(&image).unwrap_or_else(|e| panic!("after {crash:?} at event {cut} it does not open: {e}"));
        let found = contents(&engine).expect("what was recovered can be read");
        let history = std::mem::replace(&mut self.history, History::of(State::new()));
        self.history = history.crashed(cut, crash, &found);
        (self.sim, self.engine) = (image, Some(engine));
        self.check();
    }

    /// Every way of reading agrees with the history, and with what snapshots were.
    fn check(&self) {
        let (engine, state) = (self.engine(), self.history.last());
        assert_eq!(contents(engine).expect(FINE), *state);
        let stats = engine.stats().expect(FINE);
        assert_eq!(stats.keys, Some(state.len() as u64));
        let logical: usize = state.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(stats.logical_bytes, Some(logical as u64));
        let mut cursor = Arc::clone(engine).cursor().expect(FINE);
        cursor.last().expect(FINE);
        for (key, value) in state.iter().rev() {
            assert_eq!((cursor.key(), cursor.value()), (Some(&key[..]), Some(&value[..])), "backward");
            cursor.prev().expect(FINE);
        }
        assert_eq!(cursor.key(), None);
        for (snapshot, state) in &self.snapshots {
            assert_eq!(all(Arc::clone(snapshot).cursor().expect(FINE)).expect(FINE), *state, "a snapshot");
        }
        let verified = engine.verify(&mut |damage| panic!("{damage:?}")).expect(FINE);
        assert_eq!(verified, state.len() as u64);
    }

    fn look(&self, key: &[u8], input: &mut Input<'_>) {
        let (engine, state) = (self.engine(), self.history.last());
        assert_eq!(engine.get(key).expect(FINE).as_deref(), state.get(key).map(Vec::as_slice), "get {key:?}");
        for (snapshot, state) in &self.snapshots {
            assert_eq!(snapshot.get(key).expect(FINE).as_deref(), state.get(key).map(Vec::as_slice), "of a snapshot");
        }
        let mut cursor = Arc::clone(engine).cursor().expect(FINE);
        let before = input.once_in(2);
        if before { cursor.seek_before(key) } else { cursor.seek(key) }.expect(FINE);
        let mut expected =
            if before { state.range(..key.to_vec()).next_back() } else { state.range(key.to_vec()..).next() };
        for _ in 0..input.below(5) {
            assert_eq!(cursor.key(), expected.map(|(key, _)| &key[..]), "near {key:?}");
            assert_eq!(cursor.value(), expected.map(|(_, value)| &value[..]), "near {key:?}");
            let Some((at, _)) = expected else { break };
            if input.once_in(2) {
                cursor.next().expect(FINE);
                expected = state.range((Bound::Excluded(at.clone()), Bound::Unbounded)).next();
            } else {
                cursor.prev().expect(FINE);
                expected = state.range(..at.clone()).next_back();
            }
        }
    }
}

fn holds(data: &[u8]) {
    let mut input = Input::new(data);
    let sim = SimIo::new(1);
    home(&sim);
    let engine = Some(open(&sim).expect(FINE));
    let mut history = History::of(State::new());
    history.synced(&sim);
    let mut run = Run { sim, engine, history, snapshots: Vec::new() };
    for number in 0..80 {
        if input.is_over() {
            break;
        }
        match input.below(32) {
            0..16 => {
                let batch = batch(&mut input, number);
                let level = if input.once_in(4) { Durability::Sync } else { Durability::Os };
                run.apply(&batch, level);
            }
            16..19 => {
                // Enough to fill segments, most of it overwritten soon.
                let (count, first) = (1 + input.below(24), input.byte());
                for n in 0..count {
                    let mut batch = Batch::new();
                    batch.put(&[b'f', first.wrapping_add(n as u8 % 5)], &[n as u8; 700]);
                    run.apply(&batch, Durability::Os);
                }
            }
            19 | 20 => {
                let key = input.key();
                run.look(&key, &mut input);
            }
            21 => {
                run.engine().sync().expect(FINE);
                run.history.synced(&run.sim);
            }
            22 | 23 if run.snapshots.len() < 4 => {
                let snapshot = Arc::clone(run.engine()).snapshot().expect(FINE);
                run.snapshots.push((snapshot, run.history.last().clone()));
            }
            22..24 => drop(run.snapshots.swap_remove(input.below(4))),
            24 => run.engine().compact().expect(FINE),
            25 | 26 => run.engine().save_index().expect(FINE),
            27 => run.reopen(),
            28 => run.check(),
            _ => run.crash(&mut input),
        }
    }
    run.check();
    run.reopen();
}

fn examples() -> Vec<Vec<u8>> {
    (0..8u8).map(|n| (0..240u32).map(|i| ((i * 43 + u32::from(n) * 97) >> 1) as u8).collect()).collect()
}
