//! Crashes of a store whose units move all the time, on a simulated disk: over the engine `log`, over one that gets its writes later,
//! and over one whose sync is apart. Users' writes, scans and snapshots come between the steps of the moves; histories are cut at
//! every write and sync (every so many, the longer ones), with any subset of what was not synced lost or torn, and so are recovery and
//! cleaning.
//!
//! What is looked at in each image: the keys are exactly those that were acknowledged, or those and all of the one write in flight; a
//! scan, point reads and verification agree; after cleaning every key lies in exactly one partition, and nothing else does; and the
//! store goes on, moves included. Histories with `Os` writes are held to that after a mere kill, and after a power cut to what was synced.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use biombo_base::io::Io;
use biombo_base::io::sim::{Campaign, Crash, Fault, FaultKind, Random, SimIo};
use biombo_engine::{Batch, Durability, EngineKind, ErrorKind, Registry, Result};
use biombo_log::{LogEngineOptions, kind, open_with};

use super::judge::{Acknowledged, State, refusal};
use super::{Pace, Step};
use crate::seam::{Point, at_each};
use crate::{Executor, Options, PartitionId, PlacementKind, Range, Store, UnitId, Update, keyspace};

#[path = "../../tests/common/mod.rs"]
#[allow(dead_code, reason = "each user takes a part of it")]
pub(super) mod common;

const PARTITIONS: u16 = 3;

/// What a store of a history is made of.
#[derive(Clone, Copy)]
struct Shape {
    engine: &'static str,
    commit: common::Commit,
    placement: PlacementKind,
    /// Whether some writes are at `Os`, and under workers at `Relaxed`.
    mixed: bool,
    executor: Executor,
}

fn open(io: &SimIo, shape: Shape) -> Result<Store> {
    let sim = io.clone();
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let mut registry: Registry = common::registry(Arc::clone(&io), shape.commit);
    registry.add(EngineKind {
        open: Arc::new(move |options| {
            let mut own = LogEngineOptions::default();
            (own.log.segment_bytes, own.log.first_segment_bytes) = (8 << 10, 8 << 10);
            (own.log.recycle_segments_max, own.log.unsynced_segments_max) = (1, 1);
            Ok(open_with(Arc::new(sim.clone()), options, &own, false)?)
        }),
        repair: None,
        ..kind()
    });
    let options = Options::new().journal_segment_bytes(16 << 10).executor(shape.executor).io(io);
    let is_new = !options.io.as_ref().is_some_and(|io| io.exists(Path::new("db/MANIFEST")).unwrap_or(false));
    let options = if is_new {
        let sample = ["", "\0m", "g", "n"].map(|key| key.as_bytes().to_vec()).to_vec();
        let options = options.engine(shape.engine).partitions(PARTITIONS.into());
        options.placement(shape.placement).range_sample(sample)
    } else {
        options
    };
    options.open("db", &registry)
}

fn contents(store: &Store) -> State {
    look(store).expect("scan")
}

fn look(store: &Store) -> Result<State> {
    let mut scan = store.scan(Range::all())?;
    let mut state = State::new();
    while let Some((key, value)) = scan.next()? {
        assert!(state.insert(key.to_vec(), value.to_vec()).is_none(), "{} twice", key.escape_ascii());
    }
    Ok(state)
}

fn all_keys() -> impl Iterator<Item = Vec<u8>> {
    (b'a'..=b't').map(|byte| if byte.is_multiple_of(4) { vec![0, byte] } else { vec![byte] })
}

/// Acts that find a move in its last steps. (A range that the target has a part of, too, loses its copies there at once.)
const DELETES_MOVING: u64 = 10;
const PUTS_BATCH: u64 = 11;

/// A history under way: what was acknowledged when.
struct History {
    io: SimIo,
    random: Random,
    shape: Shape,
    /// What was acknowledged, in its order.
    states: Vec<Acknowledged>,
    /// Of a range that moves: its keys, and where to.
    moving: Option<(Vec<Vec<u8>>, PartitionId)>,
    /// One of so many writes is at `Sync`.
    sync_every: u64,
    /// The state after a write that was not acknowledged.
    trying: Option<State>,
    /// What the store was doing from which event on.
    doing: Vec<(usize, String)>,
    writes: u32,
}

impl History {
    fn last(&self) -> &State {
        &self.states.last().expect("the first").state
    }

    fn acknowledged(&mut self, state: State, durability: Durability, keys: Vec<Vec<u8>>) {
        self.trying = None;
        self.states.push(Acknowledged { at: self.io.event_count(), state, durability, keys });
    }

    fn doing(&mut self, what: String) {
        self.doing.push((self.io.event_count(), what));
    }

    fn doing_at(&self, cut: usize) -> &str {
        let at = self.doing.partition_point(|(from, _)| *from <= cut);
        at.checked_sub(1).map_or("create", |at| &self.doing[at].1)
    }

    fn key(&mut self) -> Vec<u8> {
        all_keys().nth(self.random.below(20) as usize).expect("twenty")
    }

    fn value(&mut self) -> Vec<u8> {
        self.writes += 1;
        let mut value = vec![b'.'; self.random.below(400) as usize];
        value.extend_from_slice(self.writes.to_string().as_bytes());
        value
    }

    /// One write, or a look.
    fn act(&mut self, store: &Store) -> Result<()> {
        let what = self.random.below(10);
        self.act_as(what, store)
    }

    fn act_as(&mut self, what: u64, store: &Store) -> Result<()> {
        let mut state = self.last().clone();
        let durability = match self.random.below(3 * self.sync_every) {
            0..3 => Durability::Sync,
            of if of % 3 == 0 => Durability::Relaxed,
            _ => Durability::Os,
        };
        let key = self.key();
        let mut keys = vec![key.clone()];
        match what {
            0..3 => {
                let value = self.value();
                self.trying = Some(with(&state, [(&key, &value)]));
                store.put_with(&key, &value, durability)?;
                state.insert(key, value);
            }
            3 => {
                self.trying = Some(without(&state, |other| *other == key));
                store.delete_with(&key, durability)?;
                state.remove(&key);
            }
            4 => {
                let value = self.value();
                self.trying = Some(with(&state, [(&key, &value)]));
                store.update(&key, durability, |old| {
                    assert_eq!(old, state.get(&key).map(Vec::as_slice), "an update reads what was written");
                    Update::Put(value.clone())
                })?;
                state.insert(key, value);
            }
            5 | DELETES_MOVING => {
                let of_move = self.moving.as_ref().filter(|_| what == DELETES_MOVING);
                let of_move = of_move.and_then(|(keys, to)| stretch(store, keys, *to));
                let (key, end) = of_move.unwrap_or_else(|| (key, self.key()));
                let (from, to) = if key < end { (key, end) } else { (end, key) };
                let mut batch = Batch::new();
                batch.delete_range(&from, Some(&to));
                self.trying = Some(without(&state, |key| from <= *key && *key < to));
                store.write_with(&batch, durability)?;
                state.retain(|key, _| !(from <= *key && *key < to));
                keys = all_keys().filter(|key| from <= *key && *key < to).collect();
            }
            6..=8 | PUTS_BATCH => {
                let mut batch = Batch::new();
                keys.clear();
                for _ in 0..2 + self.random.below(5) {
                    let (key, value) = (self.key(), self.value());
                    batch.put(&key, &value);
                    keys.push(key.clone());
                    state.insert(key, value);
                }
                self.trying = Some(state.clone());
                store.write_with(&batch, durability)?;
            }
            _ => {
                assert_eq!(look(store)?, state, "a scan while units move");
                let snapshot = store.snapshot()?;
                for key in all_keys() {
                    let expected = state.get(&key).map(Vec::as_slice);
                    assert_eq!(snapshot.get(&key)?.as_deref(), expected, "{} in a snapshot", key.escape_ascii());
                    assert_eq!(store.get(&key)?.as_deref(), expected, "{} while units move", key.escape_ascii());
                }
                return Ok(());
            }
        }
        self.acknowledged(state, durability, keys);
        Ok(())
    }
}

fn with<'a>(state: &State, puts: impl IntoIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> State {
    let mut state = state.clone();
    state.extend(puts.into_iter().map(|(key, value)| (key.clone(), value.clone())));
    state
}

/// The bounds of most of what one partition, not this one, owns of ascending keys.
fn stretch(store: &Store, keys: &[Vec<u8>], not: PartitionId) -> Option<(Vec<u8>, Vec<u8>)> {
    let stretches = keys.chunk_by(|a, b| store.route(a) == store.route(b));
    let longest = stretches.filter(|keys| store.route(&keys[0]) != not).max_by_key(|keys| keys.len())?;
    Some((longest.first()?.clone(), longest.last()?.clone()))
}

fn without(state: &State, gone: impl Fn(&Vec<u8>) -> bool) -> State {
    state.iter().filter(|(key, _)| !gone(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What a move is asked for.
enum Asked {
    Units(Vec<UnitId>),
    Keys(Vec<Vec<u8>>),
    /// By its bounds; and whether all that can be one range is one before.
    Range(Vec<u8>, Option<Vec<u8>>, bool),
}

impl Asked {
    fn carry_out(&self, store: &Store, to: PartitionId, pace: Pace) -> Result<()> {
        match self {
            Self::Units(units) if units.is_empty() => Ok(()),
            Self::Keys(keys) if keys.is_empty() => Ok(()),
            Self::Units(units) => store.move_units(units, to, pace).map(drop),
            Self::Keys(keys) => store.move_keys(keys, to, pace).map(drop),
            Self::Range(from, end, merged) => {
                if *merged {
                    store.merge_ranges()?;
                }
                store.move_range(from, end.as_deref(), to, pace).map(drop)
            }
        }
    }
}

/// Units of some keys that one partition owns, some keys alone or a stretch of keys, another partition, and a pace that makes many small steps.
fn random_move(store: &Store, random: &mut Random) -> (Asked, PartitionId, Pace) {
    let placement = store.placement();
    let from = PartitionId(random.below(PARTITIONS.into()) as u16);
    let to = PartitionId((from.0 + 1 + random.below(u64::from(PARTITIONS) - 1) as u16) % PARTITIONS);
    let mut units: Vec<_> = all_keys().map(|key| placement.unit_of(&key)).collect();
    units.retain(|unit| placement.owner_of(*unit) == Some(from) && random.below(3) > 0);
    let chunk_keys = 1 + random.below(8) as usize;
    let pace = Pace { bytes_per_second: None, chunk_bytes: 1 + random.below(900) as usize, chunk_keys };
    if placement.kind() == PlacementKind::Hash && random.below(2) == 0 {
        let keys = all_keys().filter(|_| random.below(4) == 0).collect();
        return (Asked::Keys(keys), to, pace);
    }
    if placement.kind() == PlacementKind::Range && random.below(3) > 0 {
        let mut keys: Vec<_> = all_keys().collect();
        keys.sort_unstable();
        let from = random.below(19) as usize;
        let end = keys.get(from + 1 + random.below(12) as usize).cloned();
        return (Asked::Range(keys[from].clone(), end, random.below(2) == 0), to, pace);
    }
    (Asked::Units(units), to, pace)
}

/// Moves one after the other, with writes and looks between their steps.
fn work(history: History, store: &Store, moves: u32) -> (History, Result<()>) {
    let history = Rc::new(RefCell::new(history));
    let failed: Rc<RefCell<Option<biombo_engine::Error>>> = Rc::default();
    let (watched, worker, failure) = (Rc::clone(&history), store.clone(), Rc::clone(&failed));
    let given_up = Rc::new(Cell::new(false));
    let (mover, givers) = (store.inner.mover.clone(), Rc::clone(&given_up));
    let mut is_closed = false;
    at_each(Some(Box::new(move |point| {
        let what = match point {
            Point::Step(step) => format!("{step:?}"),
            Point::Clean => "Clean".to_owned(),
            _ => return,
        };
        let mut history = watched.borrow_mut();
        match point {
            Point::Step(Step::Publish | Step::Detach) => is_closed = true,
            Point::Step(Step::Begin | Step::Attach) | Point::Clean => is_closed = false,
            _ => {}
        }
        // While the units change hands their writers wait, and this thread is the one they wait for.
        if !is_closed && failure.borrow().is_none() && history.random.below(3) > 0 {
            history.doing(format!("a write before {what}"));
            let what = match history.random.below(8) {
                // That may be too much to hold writers back for.
                0..2 if point == Point::Step(Step::Close) => DELETES_MOVING,
                2..5 if point == Point::Step(Step::Close) => PUTS_BATCH,
                _ => history.random.below(10),
            };
            *failure.borrow_mut() = history.act_as(what, &worker).err();
        }
        is_closed = (is_closed || point == Point::Step(Step::Close)) && point != Point::Step(Step::Reopen);
        // As if the store began to close, some moves are given up.
        if let (Point::Step(Step::Attach | Step::Detach), Some(mover)) = (point, &mover) {
            let gives_up = point == Point::Step(Step::Attach) && history.random.below(12) == 0;
            mover.closing.store(gives_up, Ordering::Relaxed);
            givers.set(givers.get() || gives_up);
        }
        history.doing(what);
    })));
    let mut outcome = Ok(());
    for _ in 0..moves {
        let (asked, to, pace) = random_move(store, &mut history.borrow_mut().random);
        history.borrow_mut().moving = match &asked {
            Asked::Range(from, end, _) => {
                let is_inside = |key: &Vec<u8>| from <= key && end.as_ref().is_none_or(|end| key < end);
                let mut keys: Vec<_> = all_keys().filter(is_inside).collect();
                keys.sort_unstable();
                Some((keys, to))
            }
            _ => None,
        };
        let moved = match asked.carry_out(store, to, pace) {
            Err(error) if given_up.take() && error.kind() == ErrorKind::Busy => Ok(()),
            moved => moved,
        };
        let acted = match failed.borrow_mut().take() {
            Some(error) => Err(error),
            None => history.borrow_mut().act(store),
        };
        outcome = moved.and(acted);
        if outcome.is_err() {
            break;
        }
    }
    at_each(None);
    let history = Rc::into_inner(history).expect("the watcher is gone").into_inner();
    (history, outcome)
}

fn begin(io: &SimIo, seed: u64, shape: Shape) -> Result<(History, Store)> {
    let store = open(io, shape)?;
    let mut history = History {
        io: io.clone(),
        random: Random(seed ^ 0x6d6f_7665),
        shape,
        states: vec![Acknowledged::first(State::new())],
        moving: None,
        sync_every: if shape.mixed { 2 + seed / 2 % 2 * 8 } else { 1 },
        trying: None,
        doing: Vec::new(),
        writes: 0,
    };
    history.acknowledged(State::new(), Durability::Sync, Vec::new());
    history.doing("a write".to_owned());
    let mut batch = Batch::new();
    let mut state = State::new();
    for key in all_keys().step_by(2) {
        let value = history.value();
        batch.put(&key, &value);
        state.insert(key, value);
    }
    store.write_with(&batch, Durability::Sync)?;
    history.acknowledged(state, Durability::Sync, all_keys().step_by(2).collect());
    Ok((history, store))
}

fn check(image: &SimIo, history: &History, cut: usize, killed: bool, random: &mut Random, what: &str) {
    let shape = history.shape;
    let store = open(image, shape).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
    let found = contents(&store);
    let level = match (killed, shape.executor) {
        _ if !shape.mixed => Durability::Relaxed,
        (true, Executor::Direct) => Durability::Relaxed,
        (true, _) => Durability::Os,
        (false, _) => Durability::Sync,
    };
    if let Some(why) = refusal(&history.states, cut, level, all_keys(), &found) {
        panic!("{what}: {why}: {found:?}");
    }
    // Few images are looked at in every way, so that many are looked at: what cleaning and further moves find wrong, they find in one of some.
    if random.below(3) > 0 {
        return;
    }
    store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
    let clean = |store: &Store| {
        assert!(store.clean_leftovers(Pace::default()).expect("clean"), "{what}");
        let keys = store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
        assert_eq!(keys, contents(store).len() as u64, "{what}: keys in all partitions");
        for key in all_keys() {
            let stored = keyspace::encode(&key);
            let instances = store.inner.instances.iter();
            let places = instances.filter(|instance| instance.get(&stored).expect("get").is_some()).count();
            assert_eq!(places, usize::from(store.contains(&key).expect("get")), "{what}: {}", key.escape_ascii());
        }
    };
    if random.below(4) > 0 {
        clean(&store);
        assert_eq!(contents(&store), found, "{what}: after cleaning");
    }
    if random.below(3) > 0 {
        return;
    }
    let again = History {
        io: image.clone(),
        random: Random(random.next()),
        shape,
        states: vec![Acknowledged::first(found)],
        moving: None,
        sync_every: 1 + u64::from(shape.mixed),
        trying: None,
        doing: Vec::new(),
        writes: 1000,
    };
    let (again, outcome) = work(again, &store, 2);
    outcome.unwrap_or_else(|e| panic!("{what}: does not go on: {e}"));
    drop(store);
    let store = open(image, shape).unwrap_or_else(|e| panic!("{what}: does not open again: {e}"));
    assert_eq!(&contents(&store), again.last(), "{what}: after more moves");
    clean(&store);
}

fn run(campaign: &Campaign, seed: u64) {
    use common::Commit::{Apart, Costly};
    let engines = [("log", Apart), ("simulated", Apart), ("simulated", Costly)];
    let (engine, commit) = engines[(seed % 3) as usize];
    let placement = if seed / 3 % 3 == 2 { PlacementKind::Range } else { PlacementKind::Hash };
    // While a worker writes, its caller waits, so what happens follows from the seed all the same, but for the instant at which a `Relaxed` write
    // reaches its engine.
    let executor = if seed / 5 % 3 == 2 { Executor::Pinned { workers: 2 } } else { Executor::Direct };
    let shape = Shape { engine, commit, placement, mixed: seed % 2 == 1, executor };
    let io = SimIo::new(seed);
    let (history, store) = begin(&io, seed, shape).expect("no fault");
    let (history, outcome) = work(history, &store, 3);
    outcome.expect("no fault");
    drop(store);
    for (_, what) in &history.doing {
        campaign.count_step(&format!("done {what}"));
    }
    let mut random = Random(seed);
    let mut points = io.crash_points();
    let mut seen = HashSet::new();
    // Few cuts of many histories find more than all of few.
    let (stride, offset) = (1 + random.below(4) as usize, random.below(4) as usize);
    loop {
        let cut = points.cut();
        if cut % stride != offset % stride {
            if !points.advance() {
                return;
            }
            continue;
        }
        let [a, b] = [(); 2].map(|()| Crash::Random(random.next()));
        for crash in [Crash::Kill, Crash::Nothing, Crash::Everything, a, b] {
            let image = points.image(crash);
            campaign.count(points.label(), &image);
            campaign.count_step(&format!("step {}", history.doing_at(cut)));
            let killed = crash == Crash::Kill;
            let acknowledged = history.states.partition_point(|write| write.at <= cut);
            if !seen.insert((image.image_hash(), acknowledged, killed)) {
                continue;
            }
            let what = format!(
                "seed {seed} ({engine}, {commit:?}, {placement}, {executor:?}), cut {cut} ({} in {}), {crash:?}",
                points.label(),
                history.doing_at(cut)
            );
            if random.below(12) == 0 {
                let image = points.image(crash);
                let store = open(&image, shape).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
                store.clean_leftovers(Pace { chunk_keys: 2, ..Pace::default() }).expect("clean");
                drop(store);
                let second = random.below(image.event_count() as u64 + 1) as usize;
                let crash = [Crash::Kill, Crash::Nothing, Crash::Random(random.next())][random.below(3) as usize];
                let image = image.crash(second, crash);
                campaign.count("recovery", &image);
                let killed = killed && crash == Crash::Kill;
                check(&image, &history, cut, killed, &mut random, &format!("{what}, again at {second}, {crash:?}"));
            }
            check(&image, &history, cut, killed, &mut random, &what);
        }
        if !points.advance() || campaign.is_over() {
            return;
        }
    }
}

#[test]
fn whatever_a_crash_cuts_while_units_move_every_acknowledged_write_is_there_once() {
    let campaign = Campaign::from_env("store, moving units");
    loop {
        campaign.run_on_all_processors(|seed| run(&campaign, seed));
        let labels = campaign.labels();
        let steps =
            ["Begin", "Load", "Forward", "Sync", "Flip", "Clean", "a write before Load", "a write before Close"];
        let is_missing = |label: &String| !labels.contains_key(label);
        let cut = steps.map(|step| format!("step {step}"));
        // They write nothing, so no crash cuts them: it cuts what comes after them.
        let done = [Step::Reopen, Step::Detach].map(|step| format!("done {step:?}"));
        let missing: Vec<_> = cut.into_iter().chain(done).filter(is_missing).collect();
        if campaign.distinct_images() >= 20_000 && missing.is_empty() && labels.contains_key("recovery") {
            campaign.report();
            return;
        }
        assert!(campaign.extend(Duration::from_secs(5)) < Duration::from_secs(300), "too few: {campaign}, {missing:?}");
    }
}

/// Every operation of the disk fails once while units move, each way: what was acknowledged stays where it is found.
#[test]
fn no_failing_operation_of_the_disk_loses_what_was_acknowledged_while_units_move() {
    let mut struck = 0;
    for (engine, commit) in [("log", common::Commit::Apart), ("simulated", common::Commit::Costly)] {
        let shape = Shape { engine, commit, placement: PlacementKind::Hash, mixed: false, executor: Executor::Direct };
        let io = SimIo::new(7);
        let (history, store) = begin(&io, 7, shape).expect("no fault");
        let first = io.event_count();
        let (_, outcome) = work(history, &store, 2);
        outcome.expect("no fault");
        drop(store);
        for number in first..io.event_count() {
            let kind = [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(300)][number % 3];
            let io = SimIo::new(7);
            let (history, store) = begin(&io, 7, shape).expect("no fault");
            io.inject(Fault::at(number, kind));
            let (history, outcome) = work(history, &store, 2);
            io.clear_faults();
            // The write that failed may be there, whole.
            let mut allowed = vec![history.last().clone()];
            allowed.extend(history.trying.clone());
            if let Err(error) = outcome {
                struck += 1;
                let kinds = [ErrorKind::Io, ErrorKind::Full, ErrorKind::Poisoned, ErrorKind::Busy];
                assert!(kinds.contains(&error.kind()), "event {number}, {kind:?}: {error}");
                // What the store takes after a failure it keeps: nowhere may it be left undecided who owns a key.
                for key in all_keys() {
                    let after: Vec<State> =
                        allowed.iter().map(|state| with(state, [(&key, &b"after".to_vec())])).collect();
                    if store.put_with(&key, b"after", Durability::Sync).is_err() {
                        allowed.extend(after);
                        break;
                    }
                    allowed = after;
                }
            }
            drop(store);
            for crash in [Crash::Kill, Crash::Nothing] {
                let image = io.crash(io.event_count(), crash);
                let what = format!("{engine}, event {number} fails ({kind:?}), then {crash:?}");
                let store = open(&image, shape).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
                let found = contents(&store);
                assert!(allowed.contains(&found), "{what}: found {found:?}, not one of {allowed:?}");
                store.clean_leftovers(Pace::default()).expect("clean");
                assert_eq!(contents(&store), found, "{what}: after cleaning");
                store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
            }
        }
    }
    assert!(struck > 50, "{struck} faults reached the caller");
}
