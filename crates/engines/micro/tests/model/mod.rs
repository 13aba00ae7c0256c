//! What the crash and fault tests of both engines share: histories on a simulated disk, the states that they went through, and what
//! must hold of an instance that was opened on what is left.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::sim::{Random, SimIo};
use biombo_engine::{Batch, Cursor, Durability, Engine, Op};

pub const DIR: &str = "db";

pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Opens the engine on a disk, as one history has it.
pub type Opener = Arc<dyn Fn(&SimIo) -> Result<Arc<dyn Engine>> + Send + Sync>;

/// An empty disk with the instance's directory.
pub fn disk(seed: u64) -> SimIo {
    let sim = SimIo::new(seed);
    make_home(&sim);
    sim
}

/// The store makes this directory before it opens an engine in it.
pub fn make_home(sim: &SimIo) {
    sim.create_dir_all(Path::new(DIR)).expect("no fault yet");
    sim.sync_dir(Path::new("")).expect("no fault yet");
}

/// The states of a history, each after one call of `apply`, and what was promised of them when.
pub struct Model {
    states: Vec<State>,
    /// For each state the number of events after which it was acknowledged.
    acked_at: Vec<usize>,
    /// Numbers of events, and the state that was durable then.
    synced: Vec<(usize, usize)>,
    /// The steps that the engine went through, each with the events that it took, in order.
    steps: Vec<(Range<usize>, String)>,
}

impl Model {
    pub fn new() -> Self {
        Self { states: vec![State::new()], acked_at: vec![0], synced: Vec::new(), steps: Vec::new() }
    }

    pub fn last(&self) -> &State {
        self.states.last().expect("the empty one is there")
    }

    /// The state before the last operation.
    pub fn before_last(&self) -> &State {
        &self.states[self.states.len() - 2]
    }

    /// An operation begins; it is acknowledged when [`acked`](Self::acked) says so.
    pub fn begin(&mut self, ops: &[Op<'_>]) {
        let mut state = self.last().clone();
        for op in ops {
            match *op {
                Op::Put { key, value } => drop(state.insert(key.to_vec(), value.to_vec())),
                Op::Delete { key } => drop(state.remove(key)),
                Op::DeleteRange { from, to } => {
                    state.retain(|key, _| &key[..] < from || to.is_some_and(|to| &key[..] >= to))
                }
            }
        }
        self.states.push(state);
        self.acked_at.push(usize::MAX);
    }

    pub fn acked(&mut self, events: usize) {
        *self.acked_at.last_mut().expect("the empty one is there") = events;
    }

    /// It was refused, and changed nothing.
    pub fn refused(&mut self) {
        self.states.pop();
        self.acked_at.pop();
    }

    /// All that is acknowledged is durable from now on.
    pub fn synced(&mut self, events: usize) {
        let acked = self.acked_at.partition_point(|at| *at <= events) - 1;
        self.synced.push((events, acked));
    }

    /// The engine took a step: the events from `begun` to `ended`.
    pub fn stepped(&mut self, name: &str, begun: usize, ended: usize) {
        if begun < ended {
            self.steps.push((begun..ended, name.to_owned()));
        }
    }

    /// The step that event `cut` is of.
    pub fn step(&self, cut: usize) -> Option<&str> {
        let at = self.steps.partition_point(|(events, _)| events.end <= cut);
        self.steps.get(at).filter(|(events, _)| events.contains(&cut)).map(|(_, name)| &**name)
    }

    /// Which states a crash at `cut` may leave. After a mere kill that is all that was acknowledged, or one operation more.
    pub fn allowed(&self, cut: usize, killed: bool) -> RangeInclusive<usize> {
        let acked = self.acked_at.partition_point(|at| *at <= cut) - 1;
        let synced = self.synced.iter().filter(|(at, _)| *at <= cut).map(|(_, state)| *state).max().unwrap_or(0);
        (if killed { acked } else { synced })..=(acked + 1).min(self.states.len() - 1)
    }

    /// Which state was found: the last of those allowed that equals it.
    pub fn find(&self, allowed: RangeInclusive<usize>, found: &State) -> Option<usize> {
        allowed.rev().find(|at| self.states[*at] == *found)
    }

    /// Keys whose values are not those of a state, with the beginnings and lengths of what is found and of what should be.
    fn difference(&self, at: usize, found: &State) -> String {
        let show = |value: Option<&Vec<u8>>| {
            value.map_or("none".to_owned(), |value| {
                let end = &value[value.len().saturating_sub(4)..];
                format!("{} bytes, ..{}", value.len(), end.escape_ascii())
            })
        };
        let expected = &self.states[at];
        let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
        let differing = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
        let each = differing.map(|key| {
            let short = &key[..key.len().min(20)];
            let (found, expected) = (show(found.get(key)), show(expected.get(key)));
            format!("{}({}): {found} for {expected}", short.escape_ascii(), key.len())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// The model of what goes on after a crash at `cut` that left `found`. What survived a kill may still be lost later.
    pub fn after(&self, cut: usize, killed: bool, found: usize) -> Self {
        let durable = if killed { *self.allowed(cut, false).start() } else { found };
        Self {
            states: self.states[..=found].to_vec(),
            acked_at: vec![0; found + 1],
            synced: vec![(0, durable)],
            steps: Vec::new(),
        }
    }
}

const LETTERS: u64 = 10;

/// A key of a small universe; some are prefixes of others, some so long that few fit a page.
fn key_of(letter: u64, kind: u64) -> Vec<u8> {
    let mut key = vec![b'a' + letter as u8];
    match kind {
        0 => {}
        1 => key.push(0),
        2 => key.extend_from_slice(b"a common middle"),
        long => {
            key.resize(400, b'm');
            key.push(b'0' + long as u8);
        }
    }
    key
}

pub fn key(random: &mut Random) -> Vec<u8> {
    let letter = random.below(LETTERS);
    key_of(letter, random.below(6))
}

fn value(random: &mut Random, number: usize) -> Vec<u8> {
    let bytes = match random.below(40) {
        // So large that it does not share a page or block.
        0 => 9000,
        1..8 => 2000,
        _ => 300,
    };
    let mut value = vec![b'.'; random.below(bytes) as usize];
    value.extend_from_slice(number.to_string().as_bytes());
    value
}

/// Random operations for one call of `apply`.
pub fn random_batch(random: &mut Random, number: usize) -> Batch {
    let mut batch = Batch::new();
    let count = if random.below(2) == 0 { 1 } else { 2 + random.below(9) };
    for _ in 0..count {
        match random.below(24) {
            0..18 => batch.put(&key(random), &value(random, number)),
            18..22 => batch.delete(&key(random)),
            22 => batch.delete_range(&key(random), Some(&key(random))),
            _ => batch.delete_range(&key(random), (random.below(4) > 0).then_some(&b"e"[..])),
        };
    }
    batch
}

/// Work on `sim` for some steps: single operations, batches, both levels in runs, syncs, checkpoints or compactions, reopenings.
pub fn work(sim: &SimIo, open: &Opener, model: &mut Model, steps: usize, random: &mut Random) {
    let begun = sim.event_count();
    let mut engine = open(sim).expect("open");
    model.stepped("recovery", begun, sim.event_count());
    assert_eq!(contents(&engine), *model.last(), "opened anew");
    let mut mostly_sync = random.below(2) == 0;
    for number in 0..steps {
        let begun = sim.event_count();
        match random.below(24) {
            0 => {
                engine.sync().expect("sync");
                model.synced(sim.event_count());
                model.stepped("sync", begun, sim.event_count());
            }
            1 => {
                drop(engine);
                // An instance that is closed is durable.
                model.synced(sim.event_count());
                model.stepped("closing", begun, sim.event_count());
                let begun = sim.event_count();
                engine = open(sim).expect("reopen");
                model.stepped("recovery", begun, sim.event_count());
            }
            2 => mostly_sync = !mostly_sync,
            3 => {
                engine.compact().expect("compact");
                model.synced(sim.event_count());
                model.stepped("compact", begun, sim.event_count());
            }
            _ => {
                let batch = random_batch(random, number);
                let sync = mostly_sync != (random.below(8) == 0);
                model.begin(&batch.to_ops());
                engine.apply(&batch.to_ops(), if sync { Durability::Sync } else { Durability::Os }).expect("apply");
                model.acked(sim.event_count());
                if sync {
                    model.synced(sim.event_count());
                }
                model.stepped("apply", begun, sim.event_count());
            }
        }
    }
    assert_eq!(contents(&engine), *model.last(), "without a crash");
    let begun = sim.event_count();
    drop(engine);
    model.synced(sim.event_count());
    model.stepped("closing", begun, sim.event_count());
}

/// Open what a crash left; returns which state it is. Panics when it is none of those that may be.
pub fn check(image: &SimIo, model: &Model, cut: usize, killed: bool, open: &Opener, what: &str) -> usize {
    make_home(image);
    let engine = open(image).unwrap_or_else(|e| panic!("{what}: does not open: {:?}: {e}", e.kind()));
    let state = contents(&engine);
    let allowed = model.allowed(cut, killed);
    let Some(found) = model.find(allowed.clone(), &state) else {
        let earlier = model.find(0..=*allowed.end(), &state);
        let difference = model.difference(*allowed.end(), &state);
        panic!("{what}: none of the states {allowed:?} but {earlier:?}; of the last one differ {difference}");
    };
    agree(&engine, &state, what);
    found
}

/// What a cursor finds, going forward.
pub fn contents(engine: &Arc<dyn Engine>) -> State {
    let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
    let mut state = State::new();
    cursor.first().expect("first");
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        let before = state.last_key_value().is_none_or(|(last, _)| &last[..] < key);
        assert!(before, "the cursor goes back to {}", key.escape_ascii());
        state.insert(key.to_vec(), value.to_vec());
        cursor.next().expect("next");
    }
    state
}

/// Panics unless every way of reading agrees with `state`.
pub fn agree(engine: &Arc<dyn Engine>, state: &State, what: &str) {
    let mut cursor: Box<dyn Cursor> = Arc::clone(engine).cursor().expect("a cursor");
    cursor.last().expect("last");
    for (key, value) in state.iter().rev() {
        assert_eq!((cursor.key(), cursor.value()), (Some(&key[..]), Some(&value[..])), "{what}: going backward");
        cursor.prev().expect("prev");
    }
    assert_eq!(cursor.key(), None, "{what}: more than there is, going backward");
    for letter in 0..LETTERS {
        for kind in 0..6 {
            let key = key_of(letter, kind);
            let expected = state.get(&key).map(|value| &value[..]);
            assert_eq!(engine.get(&key).expect("get").as_deref(), expected, "{what}: get {}", key.escape_ascii());
        }
    }
    let stats = engine.stats().expect("stats");
    if !stats.keys_estimated {
        assert_eq!(stats.keys, Some(state.len() as u64), "{what}: keys");
        let logical: usize = state.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(stats.logical_bytes, Some(logical as u64), "{what}: logical bytes");
    }
    let verified = engine.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
    assert_eq!(verified, state.len() as u64, "{what}: verified keys");
}
