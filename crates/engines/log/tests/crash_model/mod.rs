//! What the crash and fault tests of the engine share: histories on a simulated disk, the states that they went through, and
//! what must hold of an instance that was opened on what is left.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::io::Io;
use biombo_base::io::IoMode;
use biombo_base::io::sim::{Crash, Random, SimIo};
use biombo_engine::{Batch, Durability, Engine, Op, OpenOptions};
use biombo_journal::{Log, LogOptions, Lsn, Modes, Position};
use biombo_log::{LogEngine, LogEngineOptions, open_with};

pub const DIR: &str = "db";
pub const LOG_DIR: &str = "db/log";

pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

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

pub fn open(io: &SimIo, options: &LogOptions) -> Result<Arc<LogEngine>> {
    let own = LogEngineOptions { log: options.clone(), space_amplification: 1.2, ..LogEngineOptions::default() };
    open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, false)
}

/// Small segments, so that a short history fills some.
pub fn random_options(random: &mut Random) -> LogOptions {
    LogOptions {
        segment_bytes: [8 << 10, 12 << 10, 32 << 10][random.below(3) as usize],
        recycle_segments_max: random.below(2) as usize,
        modes: Modes::ByDurability,
        unsynced_segments_max: random.below(4) as usize,
        // As the engine has it: the first one is smaller.
        first_segment_bytes: 8 << 10,
        io: IoMode::ALL[random.below(2) as usize],
        cache_bytes: [0, 8 << 10, 1 << 20][random.below(3) as usize],
    }
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

    /// All keys of the history.
    pub fn keys(&self) -> std::collections::BTreeSet<Vec<u8>> {
        self.states.iter().flat_map(|state| state.keys().cloned()).collect()
    }

    pub fn last(&self) -> &State {
        self.states.last().expect("the empty one is there")
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
    pub fn stepped(&mut self, name: impl Into<String>, begun: usize, ended: usize) {
        if begun < ended {
            self.steps.push((begun..ended, name.into()));
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

/// A key of a small universe, in which some are prefixes of others.
pub fn key(random: &mut Random) -> Vec<u8> {
    let mut key = vec![b'a' + random.below(8) as u8];
    key.extend_from_slice(
        [&b""[..], b"\0", b"a common middle", b"a common middle, and more"][random.below(4) as usize],
    );
    key
}

fn value(random: &mut Random, number: usize) -> Vec<u8> {
    let bytes = match random.below(40) {
        // Larger than a small segment: it gets one of its own.
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
    let count = if random.below(2) == 0 { 1 } else { 2 + random.below(6) };
    for _ in 0..count {
        match random.below(12) {
            0..8 => batch.put(&key(random), &value(random, number)),
            8..10 => batch.delete(&key(random)),
            10 => batch.delete_range(&key(random), Some(&key(random))),
            _ => batch.delete_range(&key(random), (random.below(2) == 0).then_some(&b"z"[..])),
        };
    }
    batch
}

/// Work on `sim` for some steps: single operations, batches, both levels in runs, so that modes change, syncs, checkpoints, cleaning
/// step by step with writes between, reopenings.
pub fn work(sim: &SimIo, options: &LogOptions, model: &mut Model, steps: usize, random: &mut Random) {
    let begun = sim.event_count();
    let mut engine = open(sim, options).expect("open");
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
                // A log that is closed is durable.
                model.synced(sim.event_count());
                model.stepped("closing", begun, sim.event_count());
                let begun = sim.event_count();
                engine = open(sim, options).expect("reopen");
                model.stepped("recovery", begun, sim.event_count());
            }
            2 => mostly_sync = !mostly_sync,
            3 => {
                // It ends a cleaning pass that is under way, and has made everything before it durable.
                engine.save_index().expect("a checkpoint");
                model.synced(sim.event_count());
                model.stepped("checkpoint", begun, sim.event_count());
            }
            4 if random.below(4) == 0 => {
                engine.compact().expect("cleaning");
                model.stepped("cleaning: all", begun, sim.event_count());
            }
            4..9 => {
                for _ in 0..1 + random.below(4) {
                    let begun = sim.event_count();
                    if let Some(stage) = engine.clean_step(random.below(2) == 0).expect("cleaning") {
                        model.stepped(format!("cleaning: {stage}"), begun, sim.event_count());
                    }
                }
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
                let name = if sync && batch.len() > 1 { "group commit" } else { "append" };
                model.stepped(name, begun, sim.event_count());
            }
        }
    }
    assert_eq!(contents(&engine), *model.last(), "without a crash");
    if random.below(2) == 0 {
        // In the middle of a pass the segments that it has replaced are still accounted for.
        let begun = sim.event_count();
        while engine.clean_step(false).expect("cleaning").is_some() {}
        model.stepped("cleaning: all", begun, sim.event_count());
        assert_eq!(accounts(&engine), recount(sim), "accounts of the writer");
    }
    let begun = sim.event_count();
    drop(engine);
    model.synced(sim.event_count());
    model.stepped("closing", begun, sim.event_count());
}

/// Open what a crash left; returns which state it is. Panics when it is none of those that may be.
pub fn check(image: &SimIo, model: &Model, cut: usize, killed: bool, options: &LogOptions, what: &str) -> usize {
    make_home(image);
    let engine = open(image, options).unwrap_or_else(|e| panic!("{what}: does not open: {:?}: {e}", e.kind()));
    let state = contents(&engine);
    let allowed = model.allowed(cut, killed);
    let Some(found) = model.find(allowed.clone(), &state) else {
        panic!("{what}: none of the states {allowed:?} but {:?}", model.find(0..=*allowed.end(), &state));
    };
    agree(&engine, &state, what);
    assert_eq!(accounts(&engine), recount(image), "{what}: accounts after recovery");
    found
}

/// Write to what a crash left, at `Sync`, and lose the power: a recovery that leaves something half done shows. `left` is told what
/// that leaves.
pub fn write_on(
    image: &SimIo,
    model: &Model,
    found: usize,
    options: &LogOptions,
    random: &mut Random,
    left: impl FnOnce(&SimIo),
    what: &str,
) {
    let mut after = model.after(0, false, found);
    {
        let engine = open(image, options).unwrap_or_else(|e| panic!("{what}: does not open again: {e}"));
        let mut batch = Batch::new();
        batch.put(b"a", b"after the crash").put(b"ba common middle", b"too").delete(b"c");
        after.begin(&batch.to_ops());
        engine.apply(&batch.to_ops(), Durability::Sync).unwrap_or_else(|e| panic!("{what}: not writable: {e}"));
        after.acked(0);
        after.synced(0);
        assert_eq!(accounts(&engine), recount(image), "{what}: accounts after a write");
        // The process dies here: no destructor has closed anything.
        let crash = if random.below(2) == 0 { Crash::Nothing } else { Crash::Random(random.next()) };
        let cut = image.crash(image.event_count(), crash);
        left(&cut);
        check(&cut, &after, 0, true, options, &format!("{what}, written to, {crash:?}"));
    }
}

/// What a cursor finds, going forward.
pub fn contents(engine: &Arc<LogEngine>) -> State {
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
pub fn agree(engine: &Arc<LogEngine>, state: &State, what: &str) {
    let mut cursor = Arc::clone(engine).cursor().expect("a cursor");
    cursor.last().expect("last");
    for (key, value) in state.iter().rev() {
        assert_eq!((cursor.key(), cursor.value()), (Some(&key[..]), Some(&value[..])), "{what}: going backward");
        cursor.prev().expect("prev");
    }
    assert_eq!(cursor.key(), None, "{what}: more than there is, going backward");
    let snapshot = Arc::clone(engine).snapshot().expect("a snapshot");
    for number in 0..32 {
        let mut key = vec![b'a' + number / 4];
        key.extend_from_slice(
            [&b""[..], b"\0", b"a common middle", b"a common middle, and more"][usize::from(number % 4)],
        );
        let expected = state.get(&key).map(|value| &value[..]);
        assert_eq!(engine.get(&key).expect("get").as_deref(), expected, "{what}: get {}", key.escape_ascii());
        assert_eq!(engine.contains(&key).expect("contains"), expected.is_some(), "{what}: contains");
        assert_eq!(snapshot.get(&key).expect("get").as_deref(), expected, "{what}: get of a snapshot");
    }
    let stats = engine.stats().expect("stats");
    assert_eq!(stats.keys, Some(state.len() as u64), "{what}: keys");
    let logical: usize = state.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(stats.logical_bytes, Some(logical as u64), "{what}: logical bytes");
    let verified = engine.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
    assert_eq!(verified, state.len() as u64, "{what}: verified keys");
}

pub fn accounts(engine: &LogEngine) -> BTreeMap<u32, u64> {
    engine.live_bytes().into_iter().map(|(segment, bytes)| (segment.0, bytes)).collect()
}

/// Live bytes by segment, from nothing but the log's records and `docs/format/log.md`.
pub fn recount(io: &SimIo) -> BTreeMap<u32, u64> {
    struct Entry {
        kind: u8,
        segment: u32,
        stored: u64,
        key: Vec<u8>,
        value: Vec<u8>,
    }
    let mut records = BTreeMap::new();
    let mut replay = |at: Position, _: Lsn, record: &[u8]| {
        let key_end = 16 + u32::from_le_bytes(record[4..8].try_into().expect("4 bytes")) as usize;
        let seq = u64::from_le_bytes(record[8..16].try_into().expect("8 bytes"));
        if record[0] == 6 {
            // It only says where a segment begins.
            return Ok(());
        }
        let entry = Entry {
            kind: record[0],
            segment: at.segment().0,
            // The journal's record header, and padding to 8.
            stored: (8 + record.len() as u64).next_multiple_of(8),
            key: record[16..key_end].to_vec(),
            value: record[key_end..].to_vec(),
        };
        assert!(records.insert(seq, entry).is_none(), "two records have the number {seq}");
        Ok(())
    };
    Log::read(io, Path::new(LOG_DIR), &mut replay).expect("the log can be read");
    let mut live: BTreeMap<Vec<u8>, (u32, u64)> = BTreeMap::new();
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for record in records.into_values() {
        let Entry { kind, segment, stored, key, value } = record;
        if kind == 1 {
            live.insert(key, (segment, stored));
            continue;
        }
        *sums.entry(segment).or_default() += stored;
        match kind {
            2 => drop(live.remove(&key)),
            3 => live.retain(|found, _| *found < key || *found >= value),
            4 => live.retain(|found, _| *found < key),
            _ => panic!("a record of kind {kind}"),
        }
    }
    for (segment, stored) in live.into_values() {
        *sums.entry(segment).or_default() += stored;
    }
    sums
}
