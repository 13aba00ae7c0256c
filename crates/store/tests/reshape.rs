//! A store that gets fewer partitions, or partitions of another engine: what is refused, what is found meanwhile, what is taken away, and what a
//! crash at any instant, or a failing disk, leaves. (More partitions: `grow.rs`.)
//!
//! In each image: the keys are exactly those that were acknowledged, or those and all of the one batch in flight; and a further attempt ends the
//! change, with nothing left on disk that belongs to nobody.

#[allow(dead_code, reason = "shared with the crash tests, which use all of it")]
mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::io::sim::{Crash, EventInfo, Fault, FaultKind, Random, SimIo, When};
use biombo_engine::{Batch, Durability, ErrorKind, Op, OpenOptions, Registry, Result};
use biombo_store::{Options, Pace, PartitionId, PlacementKind, Range, Store, Update};

const KEYS: u32 = 40;
const DIR: &str = "db";
/// An engine whose writes come to it at once, and one that gets them later.
const ENGINES: [&str; 2] = ["simulated", "late"];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn registry(io: &SimIo) -> Registry {
    let io: Arc<dyn Io> = Arc::new(io.clone());
    let mut registry = common::registry(Arc::clone(&io), common::Commit::Apart);
    registry.add(common::kind(ENGINES[1], io, common::Commit::Costly));
    registry
}

fn try_open(io: &SimIo, options: Options) -> Result<Store> {
    let options = options.journal_segment_bytes(32 << 10).io(Arc::new(io.clone()));
    options.open(Path::new(DIR), &registry(io))
}

fn open(io: &SimIo, options: Options) -> Store {
    try_open(io, options).expect("a store")
}

fn key(number: u32) -> Vec<u8> {
    [&[(number % 3) as u8][..], format!("key{number:03}").as_bytes()].concat()
}

fn contents(store: &Store) -> Model {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut model = Model::new();
    while let Some((key, value)) = scan.next().expect("next") {
        assert!(model.insert(key.to_vec(), value.to_vec()).is_none(), "{} twice", key.escape_ascii());
    }
    for (key, value) in &model {
        assert_eq!(store.get(key).expect("get").as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    model
}

/// A change of a store, with writes before, between and after its steps.
#[derive(Clone)]
struct Change {
    before: Options,
    after: Options,
    /// Partitions and the engine that it ends with.
    ends: (u32, &'static str),
}

impl Change {
    fn fewer(engine: &'static str, placement: PlacementKind, dirs: Vec<PathBuf>) -> Self {
        let sample = ["", "\0", "\u{1}key", "\u{2}"].map(|key| key.as_bytes().to_vec()).to_vec();
        let before = Options::new().engine(engine).partitions(4).placement(placement).range_sample(sample).dirs(dirs);
        Self { before, after: Options::new().partitions(2).reshape(true), ends: (2, engine) }
    }

    fn engine(from: usize, placement: PlacementKind) -> Self {
        let (from, to) = (ENGINES[from], ENGINES[1 - from]);
        let before = Options::new().engine(from).partitions(2).placement(placement);
        Self { before, after: Options::new().engine(to).reshape(true), ends: (2, to) }
    }

    fn all() -> Vec<Self> {
        let dirs = ["/one", "/two"].map(PathBuf::from).to_vec();
        vec![
            Self::fewer(ENGINES[0], PlacementKind::Hash, Vec::new()),
            Self::fewer(ENGINES[1], PlacementKind::Range, dirs),
            Self::engine(0, PlacementKind::Hash),
            Self::engine(1, PlacementKind::Hash),
            Self::engine(1, PlacementKind::Range),
        ]
    }

    /// Spread, and open again: whatever there was before.
    fn end(&self, io: &SimIo, what: &str) -> Store {
        let store = try_open(io, self.after.clone()).unwrap_or_else(|e| panic!("{what}, again: {e}"));
        assert!(store.clean_leftovers(Pace::default()).expect("clean"), "{what}");
        store.spread(Pace::default()).unwrap_or_else(|e| panic!("{what}, again: {e}"));
        drop(store);
        let store = try_open(io, Options::new()).unwrap_or_else(|e| panic!("{what}, ended: {e}"));
        assert_eq!((store.partitions(), store.engine()), self.ends, "{what}");
        assert!(store.leaving().is_empty() && store.warnings().is_empty(), "{what}: {:?}", store.warnings());
        let counts = store.stats().expect("stats").units_by_partition;
        assert!(counts[0].abs_diff(counts[1]) <= 1 && counts.len() == 2, "{what}: {counts:?}");
        let keys = store.verify(&mut |damage| panic!("{what}: {damage:?}")).expect("verify");
        assert_eq!(keys, contents(&store).len() as u64, "{what}: keys in all partitions");
        check_directory(io, &store, what);
        store
    }
}

/// What lies in the store's directories is what it needs.
fn check_directory(io: &SimIo, store: &Store, what: &str) {
    let mut journals = 0;
    let mut instances = 0;
    for dir in [DIR, "/one", "/two"] {
        let names = if io.exists(Path::new(dir)).expect("a look") {
            io.read_dir(Path::new(dir)).expect("names")
        } else {
            Vec::new()
        };
        for name in names {
            let name = name.to_string_lossy().into_owned();
            journals += usize::from(name.starts_with("placement") || name.starts_with("intents"));
            instances += usize::from(name.starts_with("p0") || name.starts_with("biombo-"));
        }
    }
    assert_eq!((journals, instances), (2, store.partitions() as usize), "{what}: {:?}", io.files());
}

/// Acknowledged states, each with the events after which it was one.
struct History {
    io: SimIo,
    states: Vec<(usize, Model)>,
    /// The state after a batch that was not acknowledged.
    trying: Option<Model>,
    /// The events before the change.
    began: usize,
}

impl History {
    fn write(&mut self, store: &Store, batch: &Batch) -> Result<()> {
        let mut model = self.states.last().expect("the first").1.clone();
        for op in batch.iter() {
            match op {
                Op::Put { key, value } => drop(model.insert(key.to_vec(), value.to_vec())),
                Op::Delete { key } => drop(model.remove(key)),
                Op::DeleteRange { .. } => unreachable!("none in here"),
            }
        }
        self.trying = Some(model.clone());
        store.write_with(batch, Durability::Sync)?;
        self.trying = None;
        self.states.push((self.io.event_count(), model));
        Ok(())
    }

    /// Put and delete keys of all partitions at once.
    fn round(&mut self, store: &Store, round: u32) -> Result<()> {
        let mut batch = Batch::new();
        for number in 0..KEYS {
            match (number + round) % 7 {
                0 => batch.delete(&key(number)),
                1 | 2 => batch.put(&key(number), format!("{round} {number}").as_bytes()),
                _ => continue,
            };
        }
        self.write(store, &batch)?;
        self.write(store, Batch::new().put(&key(round), b"alone"))
    }
}

fn begin(io: &SimIo, change: &Change) -> (History, Store) {
    let store = open(io, change.before.clone());
    let mut history = History { io: io.clone(), states: vec![(0, Model::new())], trying: None, began: 0 };
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(&key(number), &number.to_le_bytes());
    }
    history.write(&store, &batch).expect("write");
    if store.placement_kind() == PlacementKind::Hash {
        // Pinned to a partition that will leave, some of them, and to one that may stay.
        let pinned: Vec<_> = (0..6).map(key).collect();
        store.move_keys(&pinned[..4], PartitionId(store.partitions() as u16 - 1), Pace::default()).expect("pinned");
        store.move_keys(&pinned[4..], PartitionId(0), Pace::default()).expect("pinned");
    }
    history.began = io.event_count();
    (history, store)
}

/// The change, from the opening that asks for it to the one that takes away what has left.
fn work(history: &mut History, change: &Change) -> Result<()> {
    let io = history.io.clone();
    let store = try_open(&io, change.after.clone())?;
    history.round(&store, 1)?;
    store.spread(Pace { chunk_keys: 7, ..Pace::default() })?;
    history.round(&store, 2)?;
    drop(store);
    let store = try_open(&io, Options::new())?;
    history.round(&store, 3)?;
    store.close()
}

#[test]
fn partitions_that_leave_give_all_they_own_and_are_taken_away() {
    for change in Change::all() {
        let io = SimIo::new(1);
        let (mut history, store) = begin(&io, &change);
        let before = store.partitions();
        drop(store);
        work(&mut history, &change).expect("no fault");
        let store = change.end(&io, "changed");
        assert_eq!(contents(&store), history.states.last().expect("some").1);
        assert!(before >= store.partitions());
        // What was pinned to what left is at home.
        assert!(store.stats().expect("stats").pins <= 2);
        drop(store);
        // And more partitions again, beside the names that are there.
        if store_is_hash(&change) {
            let store = open(&io, Options::new().partitions(5).reshape(true));
            store.spread(Pace::default()).expect("spread");
            assert_eq!(contents(&store), history.states.last().expect("some").1);
            drop(store);
            let store = open(&io, Options::new().partitions(5));
            assert_eq!(contents(&store), history.states.last().expect("some").1);
        }
    }
}

fn store_is_hash(change: &Change) -> bool {
    let io = SimIo::new(1);
    open(&io, change.before.clone()).placement_kind() == PlacementKind::Hash
}

/// While two engines serve one store, all that a store does works over both, and somebody may change their mind.
#[test]
fn a_store_of_two_engines_does_all_that_a_store_does_and_goes_back() {
    for from in 0..2 {
        let change = Change::engine(from, PlacementKind::Hash);
        let io = SimIo::new(2);
        let (history, store) = begin(&io, &change);
        drop(store);
        let mut model = history.states.last().expect("some").1.clone();
        let store = open(&io, change.after.clone());
        assert_eq!((store.partitions(), store.leaving().len(), store.engine()), (4, 2, ENGINES[1 - from]));
        // Half of what is to move.
        let units = store.placement().units_of(PartitionId(0));
        store.move_units(&units, PartitionId(2), Pace::default()).expect("move");
        let refused = store.move_units(&units[..1], PartitionId(1), Pace::default()).expect_err("it leaves");
        assert!(refused.kind() == ErrorKind::Invalid && refused.message().contains("leaves"), "{refused}");
        let snapshot = store.snapshot().expect("snapshot");
        let before = model.clone();
        for (round, durability) in [Durability::Sync, Durability::Os, Durability::Relaxed].into_iter().enumerate() {
            for number in 0..KEYS {
                let (key, value) = (key(number), format!("{round} {number}").into_bytes());
                match number % 4 {
                    0 => store.put_with(&key, &value, durability).expect("put"),
                    1 => store.update(&key, durability, |_| Update::Put(value.clone())).expect("update"),
                    2 => {
                        let mut batch = Batch::new();
                        batch.put(&key, &value).delete(b"not there");
                        store.write_with(&batch, durability).expect("batch");
                    }
                    _ => {
                        store.delete_with(&key, durability).expect("delete");
                        model.remove(&key);
                        continue;
                    }
                }
                model.insert(key, value);
            }
            let (from, to) = (key(5), key(8));
            store.delete_range(&from, Some(&to)).expect("range");
            model.retain(|key, _| !(from <= *key && *key < to));
            assert_eq!(contents(&store), model, "round {round}");
        }
        for (key, value) in &before {
            assert_eq!(snapshot.get(key).expect("get").as_deref(), Some(&value[..]), "as it was");
        }
        drop((snapshot, store));
        for options in [Options::new().engine(ENGINES[from]), Options::new().partitions(4)] {
            let error = try_open(&io, options).expect_err("not any more");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        let store = open(&io, Options::new().engine(ENGINES[from]).reshape(true));
        assert_eq!((store.partitions(), store.leaving()), (4, vec![PartitionId(2), PartitionId(3)]));
        store.spread(Pace::default()).expect("spread");
        drop(store);
        let store = open(&io, Options::new());
        assert_eq!((store.partitions(), store.engine()), (2, ENGINES[from]));
        assert_eq!(contents(&store), model, "back");
        check_directory(&io, &store, "back");
    }
}

/// Where a mistake had left a key in a partition that owns nothing, the partition is not removed with it.
#[test]
fn a_partition_that_holds_a_key_is_not_taken_away() {
    let change = Change::fewer(ENGINES[0], PlacementKind::Hash, Vec::new());
    let io = SimIo::new(3);
    drop(begin(&io, &change));
    let store = open(&io, change.after.clone());
    store.spread(Pace::default()).expect("spread");
    drop(store);
    let engine = |op: Op<'_>| {
        let kind = common::kind(ENGINES[0], Arc::new(io.clone()), common::Commit::Apart);
        let engine = (kind.open)(&OpenOptions::new(Path::new(DIR).join("p0003"))).expect("an engine");
        engine.apply(&[op], Durability::Sync).expect("write");
    };
    engine(Op::Put { key: b"lost", value: b"and found" });
    let store = open(&io, Options::new());
    assert!(store.warnings().iter().any(|warning| warning.contains("lost")), "{:?}", store.warnings());
    assert_eq!(store.partitions(), 4);
    drop(store);
    engine(Op::Delete { key: b"lost" });
    change.end(&io, "without it");
}

/// A manifest that finds no room must not keep a store from opening that serves without it.
#[test]
fn partitions_that_cannot_be_taken_away_for_want_of_room_are_told_and_wait() {
    let change = Change::fewer(ENGINES[0], PlacementKind::Hash, Vec::new());
    let io = SimIo::new(8);
    let (mut history, store) = begin(&io, &change);
    drop(store);
    let store = open(&io, change.after.clone());
    store.spread(Pace::default()).expect("spread");
    drop(store);
    // The first manifest names the journal beside; the second is that without the partitions. The next attempt writes the first once more before it
    // removes that journal, forgets it, and writes both again; then the last once more, before anything is removed, and settled; then one without the
    // names of what was.
    let each = [(0, 4, "still there"), (1, 4, "still there"), (4, 2, "still there"), (2, 2, "may still name")];
    for (round, (passes, ends, says)) in (1..).zip(each) {
        let seen = std::sync::atomic::AtomicU32::new(0);
        let is_full = move |event: &EventInfo| {
            event.label == "write MANIFEST.tmp" && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= passes
        };
        io.inject(Fault { when: When::Matches(Arc::new(is_full)), kind: FaultKind::Enospc, times: u32::MAX });
        let store = open(&io, Options::new());
        let told = store.warnings();
        assert!(told.len() == 1 && told[0].contains(says), "{told:?}");
        assert_eq!((store.partitions(), store.leaving().len()), (ends, ends as usize - 2));
        history.round(&store, round).expect("it serves");
        assert_eq!(contents(&store), history.states.last().expect("some").1);
        if ends == 4 {
            // The journal that the attempt left aside knows nothing of this.
            let units = store.placement().units_of(PartitionId(0));
            store.move_units(&units[..units.len() / 4], PartitionId(1), Pace::default()).expect("move");
        }
        drop(store);
        io.clear_faults();
    }
    let store = change.end(&io, "with room");
    assert_eq!(contents(&store), history.states.last().expect("some").1);
}

#[test]
fn a_store_with_partitions_that_leave_does_not_repartition_itself_and_says_so() {
    let change = Change::fewer(ENGINES[0], PlacementKind::Hash, Vec::new());
    let io = SimIo::new(4);
    drop(begin(&io, &change));
    let every: biombo_store::Repartition = "1s".parse().expect("an interval");
    let store = open(&io, change.after.clone().repartition(every));
    assert!(store.warnings().iter().any(|warning| warning.contains("leaving")), "{:?}", store.warnings());
    assert_eq!(store.stats().expect("stats").leaving, [PartitionId(2), PartitionId(3)]);
    store.spread(Pace::default()).expect("spread");
    drop(store);
    let store = open(&io, Options::new().repartition(every));
    assert!(store.warnings().is_empty(), "{:?}", store.warnings());
}

/// Every instant of the change is cut, and some of what comes after the crash.
#[test]
fn whatever_a_crash_cuts_while_partitions_leave_the_next_attempt_ends_it() {
    for (number, change) in Change::all().into_iter().enumerate() {
        let io = SimIo::new(5);
        let (mut history, store) = begin(&io, &change);
        let all = store.partitions();
        drop(store);
        work(&mut history, &change).expect("no fault");
        let mut random = Random(number as u64);
        // Images before the change, during it and after it.
        let mut met = [0u32; 3];
        // Of those during it: what leaves owns nothing, and waits for what is left over to be cleaned.
        let mut waiting = 0;
        let mut points = io.crash_points();
        while points.advance() {
            let cut = points.cut();
            if cut < history.began {
                continue;
            }
            let last = history.states.partition_point(|(at, _)| *at <= cut) - 1;
            let allowed = &history.states[last..(last + 2).min(history.states.len())];
            for crash in [Crash::Kill, Crash::Nothing, Crash::Random(random.next())] {
                let image = points.image(crash);
                let what =
                    format!("change {number}, cut at {cut} ({}) of {}, {crash:?}", points.label(), io.event_count());
                let store = try_open(&image, Options::new()).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = contents(&store);
                assert!(allowed.iter().any(|(_, state)| *state == found), "{what}: {found:?}");
                // (Mutation: an instance that no manifest names before it is made.)
                check_directory(&image, &store, &what);
                let stage = match store.leaving().is_empty() {
                    false => 1,
                    true if (store.partitions(), store.engine()) == change.ends => 2,
                    true => 0,
                };
                met[stage] += 1;
                let owners = store.placement().owners_of_range(b"", None);
                waiting += u32::from(stage == 1 && store.leaving().iter().all(|leaving| !owners.contains(leaving)));
                assert!(stage > 0 || store.partitions() == all, "{what}");
                drop(store);
                if random.below(6) > 0 {
                    continue;
                }
                // What ends it is cut too.
                let first = image.event_count();
                let store = change.end(&image, &what);
                assert_eq!(contents(&store), found, "{what}: ended");
                drop(store);
                let cut = first + random.below((image.event_count() - first) as u64 + 1) as usize;
                let crash = [Crash::Kill, Crash::Nothing, Crash::Random(random.next())][random.below(3) as usize];
                let image = image.crash(cut, crash);
                let what = format!("{what}, again at {cut} ({crash:?})");
                let store = change.end(&image, &what);
                assert_eq!(contents(&store), found, "{what}: ended");
            }
        }
        println!("change {number}: {met:?} images before, during and after, {waiting} of them waiting");
        assert!(met[1] > 200 && met[2] > 50 && waiting > 0, "{met:?}, {waiting}");
    }
}

/// What the store's journal alone has of acknowledged batches is in the engines, durably, before partitions are taken away and the journal with them;
/// so is the next journal before a manifest names it.
#[test]
fn a_power_cut_while_partitions_are_taken_away_finds_all_that_was_acknowledged_before_a_kill() {
    let mut tried = 0;
    for (number, change) in Change::all().into_iter().enumerate() {
        let io = SimIo::new(9);
        let (mut history, store) = begin(&io, &change);
        drop(store);
        let store = open(&io, change.after.clone());
        assert!(store.spread(Pace::default()).expect("spread").cleaned);
        history.round(&store, 2).expect("write");
        let expected = &history.states.last().expect("some").1;
        // Killed: nothing is closed.
        let killed = io.crash(io.event_count(), Crash::Kill);
        drop(store);
        let first = killed.event_count();
        let store = open(&killed, Options::new());
        assert!(store.leaving().is_empty() && store.partitions() == change.ends.0);
        let mut random = Random(number as u64);
        for cut in first..=killed.event_count() {
            for crash in [Crash::Nothing, Crash::Random(random.next()), Crash::Random(random.next())] {
                let image = killed.crash(cut, crash);
                let what = format!("change {number}, cut at {cut} of {first} to {}, {crash:?}", killed.event_count());
                let store = try_open(&image, Options::new()).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(&contents(&store), expected, "{what}");
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried} images");
}

/// A process that is killed right after it renamed a manifest leaves one whose name is not durable. The next opening makes it so before it
/// acknowledges anything: without that, a power cut brings back the one before, which knows nothing of the partitions that own keys by then, or
/// a creation that is not finished, which begins anew.
#[test]
fn a_power_cut_after_a_kill_takes_no_manifest_that_was_relied_on() {
    let create = Options::new().engine(ENGINES[0]).partitions(2);
    let io = SimIo::new(7);
    drop(open(&io, create.clone()));
    let created = io.event_count();
    let change =
        Change { before: create, after: Options::new().engine(ENGINES[1]).reshape(true), ends: (2, ENGINES[1]) };
    let mut met = [0u32; 2];
    for (number, options) in [change.before.clone(), change.after.clone()].into_iter().enumerate() {
        let io = SimIo::new(7);
        if number == 1 {
            drop(begin(&io, &change));
        }
        let first = io.event_count();
        drop(open(&io, options.clone()));
        for cut in first..=io.event_count() {
            let image = io.crash(cut, Crash::Kill);
            let what = format!("change {number}, killed at {cut} of {first} to {}", io.event_count());
            // Whoever comes next asks for nothing new, where there is a store.
            let is_there = image.exists(&Path::new(DIR).join("MANIFEST")).expect("a look");
            let asked = if is_there { Options::new() } else { options.clone() };
            let store = try_open(&image, asked).unwrap_or_else(|e| panic!("{what}: {e}"));
            met[number] += u32::from(is_there);
            store.spread(Pace::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
            store.put_with(b"after", b"the kill", Durability::Sync).unwrap_or_else(|e| panic!("{what}: {e}"));
            let expected = contents(&store);
            let image = image.crash(image.event_count(), Crash::Nothing);
            drop(store);
            let store = try_open(&image, Options::new()).unwrap_or_else(|e| panic!("{what}, then cut: {e}"));
            assert_eq!(contents(&store), expected, "{what}, then cut");
        }
    }
    assert!(created > 20 && met[0] > 0 && met[1] > 20, "{created} events, {met:?} images with a manifest");
}

/// Every operation of the disk fails once while partitions leave: nothing is lost, and the next attempt ends it.
#[test]
fn no_failing_operation_of_the_disk_loses_a_key_while_partitions_leave() {
    let mut struck = 0;
    for change in [Change::all().remove(0), Change::all().remove(3)] {
        let io = SimIo::new(6);
        let (mut history, store) = begin(&io, &change);
        drop(store);
        work(&mut history, &change).expect("no fault");
        // All steps that are about directories and manifests, and some of the many writes.
        let labels = io.labels();
        for number in history.began..io.event_count() {
            let is_step = ["MANIFEST", "remove", "sync_dir", "create"].iter().any(|word| labels[number].contains(word));
            if !is_step && number % 3 > 0 {
                continue;
            }
            let kind = [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(300)][number / 3 % 3];
            let io = SimIo::new(6);
            let (mut history, store) = begin(&io, &change);
            drop(store);
            io.inject(Fault::at(number, kind));
            let outcome = work(&mut history, &change);
            io.clear_faults();
            struck += usize::from(outcome.is_err());
            let last = history.states.last().expect("some").1.clone();
            for crash in [Crash::Kill, Crash::Nothing] {
                let image = io.crash(io.event_count(), crash);
                let what = format!("event {number} ({}) fails ({kind:?}), then {crash:?}", labels[number]);
                let store = try_open(&image, Options::new()).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = contents(&store);
                // The batch that failed may be there, whole.
                let is_allowed = found == last || history.trying.as_ref() == Some(&found);
                assert!(is_allowed, "{what}: {found:?}, not {last:?}");
                drop(store);
                assert_eq!(contents(&change.end(&image, &what)), found, "{what}: ended");
            }
        }
    }
    assert!(struck > 50, "{struck} faults reached the caller");
}
