//! Crashes of a whole store on a simulated disk: creation, manifest, placement, intents, slices, recovery itself, each cut at
//! every write and sync, with any subset of what was not synced lost or torn.
//!
//! The first campaign overwrites and deletes, every single write at `Sync`: what is found after a crash must be exactly what had
//! been acknowledged, or that and all of the one operation in flight. The second mixes `Os` writes in and writes every key once:
//! batches are whole or absent, and a `Sync` keeps everything that came before it in its partitions.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use biombo_base::io::Io;
use biombo_base::io::sim::{Campaign, Crash, Fault, FaultKind, Random, SimIo};
use biombo_engine::{Batch, Durability, ErrorKind};
use biombo_store::{Executor, Options, Range, Store, Update};
use common::Commit;

const DIR: &str = "db";
const PARTITIONS: u32 = 3;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(io: &SimIo, commit: Commit) -> biombo_engine::Result<Store> {
    open_by(io, commit, Executor::Direct)
}

fn open_by(io: &SimIo, commit: Commit, executor: Executor) -> biombo_engine::Result<Store> {
    open_on(Arc::new(io.clone()), commit, executor)
}

/// Half of the histories are written by workers: while one writes, its caller waits, so what happens follows from the seed all the same, but for
/// the instant at which a `Relaxed` write reaches its engine.
fn an_executor(random: &mut Random) -> Executor {
    if random.below(2) == 0 { Executor::Direct } else { Executor::Pinned { workers: 2 } }
}

fn open_on(io: Arc<dyn Io>, commit: Commit, executor: Executor) -> biombo_engine::Result<Store> {
    Options::new()
        .engine("simulated")
        .partitions(PARTITIONS)
        .executor(executor)
        .journal_segment_bytes(16 << 10)
        .io(Arc::clone(&io))
        .open(Path::new(DIR), &common::registry(io, commit))
}

fn contents(store: &Store) -> Model {
    let mut scan = store.scan(Range::all()).expect("scan");
    let mut model = Model::new();
    while let Some((key, value)) = scan.next().expect("scan") {
        model.insert(key.to_vec(), value.to_vec());
    }
    model
}

/// One acknowledged operation: the state after it, and the events after which it was acknowledged.
struct Step {
    acknowledged_at: usize,
    after: Model,
}

/// A random history on a new disk. Returns the states, the first of them the empty one of the finished creation.
fn history(io: &SimIo, random: &mut Random, commit: Commit) -> Vec<Step> {
    let executor = an_executor(random);
    let mut store = open_by(io, commit, executor).expect("create");
    let mut model = Model::new();
    let mut steps = vec![Step { acknowledged_at: io.event_count(), after: model.clone() }];
    for step in 0..24u32 {
        let value = |random: &mut Random| {
            let mut value = vec![b'.'; random.below(1500) as usize];
            value.extend_from_slice(format!("{step}").as_bytes());
            value
        };
        let key = |random: &mut Random| vec![0, b'a' + random.below(20) as u8][random.below(2) as usize..].to_vec();
        match random.below(12) {
            0..4 => {
                let (key, value) = (key(random), value(random));
                store.put_with(&key, &value, Durability::Sync).expect("put");
                model.insert(key, value);
            }
            4 => {
                let key = key(random);
                store.delete_with(&key, Durability::Sync).expect("delete");
                model.remove(&key);
            }
            5 => {
                let (a, b) = (key(random), key(random));
                let (from, to) = if a < b { (a, b) } else { (b, a) };
                let mut batch = Batch::new();
                batch.delete_range(&from, Some(&to));
                store.write_with(&batch, Durability::Sync).expect("delete range");
                model.retain(|key, _| !(from <= *key && *key < to));
            }
            6..10 => {
                let mut batch = Batch::new();
                for _ in 0..1 + random.below(6) {
                    let (key, value) = (key(random), value(random));
                    if random.below(4) == 0 {
                        batch.delete(&key);
                        model.remove(&key);
                    } else {
                        batch.put(&key, &value);
                        model.insert(key, value);
                    }
                }
                // A batch within one partition needs no intent: it is as durable as it asks.
                let owners: HashSet<_> = batch
                    .iter()
                    .map(|op| match op {
                        biombo_engine::Op::Put { key, .. } | biombo_engine::Op::Delete { key } => {
                            store.placement().owner(key)
                        }
                        biombo_engine::Op::DeleteRange { .. } => unreachable!("none in here"),
                    })
                    .collect();
                let os = owners.len() > 1 && commit != Commit::Costly && random.below(2) == 0;
                store.write_with(&batch, if os { Durability::Os } else { Durability::Sync }).expect("batch");
            }
            10 => store.flush().expect("flush"),
            _ => {
                drop(store);
                store = open_by(io, commit, executor).expect("reopen");
            }
        }
        // A scan brings deferred writes into their engines: most steps look with gets, so that writes wait for several steps.
        if random.below(6) == 0 {
            assert_eq!(contents(&store), model, "without a crash");
        } else {
            for key in (b'a'..=b't').flat_map(|key| [vec![key], vec![0, key]]) {
                let found = store.get(&key).expect("get");
                assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice), "{key:?} without a crash");
            }
        }
        steps.push(Step { acknowledged_at: io.event_count(), after: model.clone() });
    }
    steps
}

/// Open what a crash left and compare; then use it, so that a recovery which leaves something half done shows.
fn check(image: &SimIo, allowed: &[&Model], commit: Commit, what: &str) {
    let store = open(image, commit).unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
    let found = contents(&store);
    assert!(allowed.contains(&&found), "{what}: found {:?}\nallowed {allowed:?}", found);
    let mut batch = Batch::new();
    (b'a'..b'g').for_each(|key| {
        batch.put(&[key], b"after the crash");
    });
    store.write_with(&batch, Durability::Sync).unwrap_or_else(|e| panic!("{what}: not writable: {e}"));
    let expected = contents(&store);
    drop(store);
    let store = open(image, commit).unwrap_or_else(|e| panic!("{what}: does not open again: {e}"));
    assert_eq!(contents(&store), expected, "{what}: after another write and opening");
}

fn apart(campaign: &mut Campaign, seed: u64) {
    run(campaign, seed, Commit::Apart);
}

fn deferred(campaign: &mut Campaign, seed: u64) {
    run(campaign, seed, Commit::Costly);
}

fn alone(campaign: &mut Campaign, seed: u64) {
    run(campaign, seed, Commit::Alone);
}

fn run(campaign: &mut Campaign, seed: u64, commit: Commit) {
    let mut random = Random(seed);
    let io = SimIo::new(seed);
    let steps = history(&io, &mut random, commit);
    let mut points = io.crash_points();
    // The same image is another state where more had been acknowledged.
    let mut seen = HashSet::new();
    loop {
        let cut = points.cut();
        let acknowledged = steps.partition_point(|step| step.acknowledged_at <= cut);
        let empty = Model::new();
        let before = acknowledged.checked_sub(1).map_or(&empty, |last| &steps[last].after);
        let in_flight = steps.get(acknowledged).map_or(before, |step| &step.after);
        let allowed = [before, in_flight];
        let [a, b, c, d] = [(); 4].map(|()| Crash::Random(random.next()));
        let crashes = [Crash::Kill, Crash::Nothing, Crash::Everything, a, b, c, d];
        for crash in crashes {
            let image = points.image(crash);
            let what = format!("seed {seed}, cut {cut} ({}), {crash:?}", points.label());
            campaign.count(points.label(), &image);
            if !seen.insert((image.image_hash(), acknowledged)) {
                continue;
            }
            // Now and then the recovery is cut too.
            if random.below(16) == 0 {
                let again = points.image(crash);
                drop(open(&again, commit).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
                let second = random.below(again.event_count() as u64 + 1) as usize;
                let image = again.crash(second, Crash::Random(random.next()));
                campaign.count("recovery", &image);
                check(&image, &allowed, commit, &format!("{what}, cut again at {second} of its recovery"));
            }
            check(&image, &allowed, commit, &what);
        }
        if !points.advance() {
            return;
        }
    }
}

/// Run a campaign for its slice of time, and longer on a busy machine until it has seen so many different images.
fn reach(images_min: usize, name: &str, run: fn(&mut Campaign, u64)) -> Campaign {
    let mut campaign = Campaign::from_env(name);
    loop {
        while let Some(seed) = campaign.next_seed() {
            run(&mut campaign, seed);
        }
        if campaign.distinct_images() >= images_min {
            campaign.report();
            return campaign;
        }
        let extended = campaign.extend(Duration::from_secs(5));
        assert!(extended < Duration::from_secs(90), "fewer than {images_min} images: {campaign}");
    }
}

/// Every named step of the store was cut.
fn check_steps(campaign: &Campaign) {
    for step in [
        "write CREATING.tmp",
        "sync CREATING.tmp",
        "rename CREATING.tmp -> CREATING",
        "rename CREATING -> MANIFEST",
        "sync_dir db",
        "sync_dir intents",
        "sync_dir placement",
        "recovery",
    ] {
        assert!(campaign.labels().contains_key(step), "no crash at `{step}`: {campaign}");
    }
}

#[test]
fn whatever_a_crash_cuts_acknowledged_writes_stay_and_batches_are_whole() {
    check_steps(&reach(3000, "store", apart));
}

#[test]
fn writes_that_wait_for_their_engine_survive_whatever_a_crash_cuts() {
    check_steps(&reach(3000, "store, deferred writes", deferred));
}

#[test]
fn writes_that_share_the_syncs_of_the_journal_survive_whatever_a_crash_cuts() {
    check_steps(&reach(3000, "store, shared syncs", alone));
}

#[test]
fn mixed_durability_keeps_batches_whole_and_what_came_before_a_sync() {
    reach(3000, "store, mixed durability", mixed);
}

#[test]
fn mixed_durability_over_an_engine_that_gets_its_writes_later_keeps_as_much() {
    reach(3000, "store, mixed durability, deferred writes", mixed_deferred);
}

#[test]
fn mixed_durability_over_engines_that_share_the_syncs_of_the_journal_keeps_as_much() {
    reach(3000, "store, mixed durability, shared syncs", mixed_alone);
}

/// One write of unique keys.
struct Write {
    keys: Vec<Vec<u8>>,
    partitions: Vec<u16>,
    acknowledged_at: usize,
    sync: bool,
    /// It may be lost when the process is killed.
    relaxed: bool,
}

fn mixed(campaign: &mut Campaign, seed: u64) {
    mix(campaign, seed, Commit::Apart);
}

fn mixed_deferred(campaign: &mut Campaign, seed: u64) {
    mix(campaign, seed, Commit::Costly);
}

fn mixed_alone(campaign: &mut Campaign, seed: u64) {
    mix(campaign, seed, Commit::Alone);
}

/// What the writes of a history are: each kind brings the store to other places.
#[derive(Clone, Copy)]
struct Kind {
    writes: u32,
    value_bytes_max: u64,
    /// One write of so many is at `Sync`: one of these by the seed; the others, and so many at the beginning, are at `Os`.
    sync_in: [u64; 3],
    sync_from: u32,
    /// One of so many is a batch.
    batch_in: u64,
    /// One batch of so many deletes a range too, in which no key is: no engine may get it later.
    range_in: u64,
    /// One of so many is followed by a scan, which brings what waits into the engine, or by a flush.
    look_in: u64,
}

const NEVER: u64 = 1 << 40;

/// The kinds by the seed. Enough bytes, and the store drops intents while writes go on.
const KINDS: [Kind; 5] = [
    // A little of everything.
    Kind { writes: 40, value_bytes_max: 900, sync_in: [2, 12, 22], sync_from: 0, batch_in: 2, range_in: 4, look_in: 4 },
    // Single writes at `Os`: intents are dropped with no sync, and then there is one after all.
    Kind {
        writes: 120,
        value_bytes_max: 1400,
        sync_in: [4, 8, 16],
        sync_from: 90,
        batch_in: NEVER,
        range_in: NEVER,
        look_in: NEVER,
    },
    // Batches that their engines get at once, without a sync, until their intents are dropped.
    Kind {
        writes: 60,
        value_bytes_max: 900,
        sync_in: [20, 60, NEVER],
        sync_from: 0,
        batch_in: 1,
        range_in: 1,
        look_in: NEVER,
    },
    // Synced writes that all wait in the journal until it is trimmed.
    Kind {
        writes: 70,
        value_bytes_max: 2500,
        sync_in: [1, 1, 2],
        sync_from: 0,
        batch_in: 3,
        range_in: NEVER,
        look_in: NEVER,
    },
    // Small ones, closely looked at.
    Kind { writes: 30, value_bytes_max: 1, sync_in: [2, 12, 22], sync_from: 0, batch_in: 2, range_in: 8, look_in: 4 },
];

/// A key that no write has.
const NO_KEY: &[u8] = b"~";

fn mix(campaign: &mut Campaign, seed: u64, commit: Commit) {
    let mut random = Random(seed ^ 0xb10b0);
    let kind = KINDS[(seed % KINDS.len() as u64) as usize];
    let io = SimIo::new(seed);
    let executor = an_executor(&mut random);
    let store = open_by(&io, commit, executor).expect("create");
    // Elsewhere a `Relaxed` write is one at `Os`.
    let gathers = executor != Executor::Direct && commit != Commit::Costly;
    let mut writes: Vec<Write> = Vec::new();
    let sync_in = kind.sync_in[random.below(3) as usize];
    for number in 0..kind.writes {
        let count = if random.below(kind.batch_in) == 0 { 2 + random.below(4) } else { 1 };
        let keys: Vec<_> = (0..count).map(|i| format!("{number}/{i}").into_bytes()).collect();
        let sync = number >= kind.sync_from && random.below(sync_in) == 0;
        let relaxed = !sync && random.below(3) == 0;
        let durability = match (sync, relaxed) {
            (true, _) => Durability::Sync,
            (_, true) => Durability::Relaxed,
            _ => Durability::Os,
        };
        let value = |random: &mut Random| vec![b'x'; random.below(kind.value_bytes_max) as usize];
        match &keys[..] {
            [key] if random.below(2) == 0 => {
                let value = value(&mut random);
                store.update(key, durability, |_| Update::Put(value)).expect("update");
            }
            _ => {
                let mut batch = Batch::new();
                keys.iter().for_each(|key| {
                    batch.put(key, &value(&mut random));
                });
                if count > 1 && random.below(kind.range_in) == 0 {
                    batch.delete_range(NO_KEY, None);
                }
                store.write_with(&batch, durability).expect("write");
            }
        }
        let partitions = keys.iter().map(|key| store.placement().owner(key).0).collect();
        writes.push(Write { keys, partitions, acknowledged_at: io.event_count(), sync, relaxed: relaxed && gathers });
        if random.below(kind.look_in) == 0 {
            if random.below(3) == 0 {
                store.flush().expect("flush");
                let now = io.event_count();
                for write in &mut writes {
                    (write.sync, write.acknowledged_at) = (true, write.acknowledged_at.max(now));
                }
            } else {
                drop(store.scan(Range::all()).expect("scan"));
            }
        }
    }
    let mut points = io.crash_points();
    let mut seen = HashSet::new();
    loop {
        let acknowledged = writes.partition_point(|write| write.acknowledged_at <= points.cut());
        for crash in [Crash::Kill, Crash::Nothing, Crash::Random(random.next()), Crash::Random(random.next())] {
            let image = points.image(crash);
            campaign.count(points.label(), &image);
            if !seen.insert((image.image_hash(), acknowledged, crash == Crash::Kill)) {
                continue;
            }
            let what = format!("seed {seed}, cut {} ({}), {crash:?}", points.cut(), points.label());
            let found = contents(&open(&image, commit).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
            let mut synced = [false; PARTITIONS as usize];
            for write in writes.iter().rev() {
                let there = write.keys.iter().filter(|key| found.contains_key(*key)).count();
                assert!(there == 0 || there == write.keys.len(), "{what}: half a batch of {:?}", write.keys);
                let acknowledged = write.acknowledged_at <= points.cut();
                if acknowledged && write.sync {
                    write.partitions.iter().for_each(|p| synced[usize::from(*p)] = true);
                }
                // What outlives the process keeps what came before it, however relaxed that was.
                if acknowledged && crash == Crash::Kill && !write.relaxed {
                    write.partitions.iter().for_each(|p| synced[usize::from(*p)] = true);
                }
                let must = write.partitions.iter().any(|p| synced[usize::from(*p)]);
                assert!(!must || there > 0, "{what}: {:?} is lost", write.keys);
            }
        }
        if !points.advance() {
            return;
        }
    }
}

/// Every operation of the disk fails once, each way: what was acknowledged stays, and the store says what is wrong.
#[test]
fn no_failing_operation_of_the_disk_loses_what_was_acknowledged() {
    let labels = {
        let io = SimIo::new(7);
        fill(&io).0.expect("no fault");
        io.labels()
    };
    let total = labels.len();
    let mut struck = 0;
    for (number, label) in labels.iter().enumerate() {
        for kind in [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short(600)] {
            let io = SimIo::new(7);
            io.inject(Fault::at(number, kind));
            let (outcome, acknowledged) = fill(&io);
            io.clear_faults();
            if let Err(error) = outcome {
                struck += 1;
                assert!(
                    matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::Poisoned),
                    "event {number}, {kind:?}: {error}"
                );
            }
            // The process goes on to die; the machine may go down with it.
            for crash in [Crash::Kill, Crash::Nothing] {
                let image = io.crash(io.event_count(), crash);
                let what = format!("event {number} ({label}), {kind:?}, {crash:?}");
                let found =
                    contents(&open(&image, Commit::Apart).unwrap_or_else(|e| panic!("{what}: does not open: {e}")));
                for key in &acknowledged {
                    assert!(found.contains_key(key), "{what}: {} is lost", key.escape_ascii());
                }
            }
        }
    }
    assert!(struck > total, "{struck} faults of {total} events in three ways reached the caller");
}

/// A short history that stops at the first error; returns it and the acknowledged keys.
fn fill(io: &SimIo) -> (biombo_engine::Result<()>, Vec<Vec<u8>>) {
    let mut acknowledged = Vec::new();
    let outcome = (|| {
        let store = open(io, Commit::Apart)?;
        for number in 0..12 {
            let keys: Vec<_> = (0..1 + number % 3).map(|i| format!("{number}/{i}").into_bytes()).collect();
            let mut batch = Batch::new();
            keys.iter().for_each(|key| {
                batch.put(key, &[b'x'; 700]);
            });
            store.write_with(&batch, Durability::Sync)?;
            acknowledged.extend(keys);
            if number == 7 {
                store.flush()?;
            }
        }
        store.close()
    })();
    (outcome, acknowledged)
}

/// The checker must be able to fail: a disk that ignores syncs loses acknowledged writes, and the check says so.
#[test]
fn the_campaign_catches_a_disk_that_ignores_syncs() {
    let io = SimIo::new(1);
    let deaf: Arc<dyn Io> = Arc::new(common::Deaf(Arc::new(io.clone())));
    let store = open_on(deaf, Commit::Apart, Executor::Direct).expect("create");
    store.put_with(b"acknowledged", b"x", Durability::Sync).expect("put");
    let expected = contents(&store);
    let image = io.crash(io.event_count(), Crash::Nothing);
    let caught = std::panic::catch_unwind(|| check(&image, &[&expected], Commit::Apart, "on a deaf disk"));
    assert!(caught.is_err(), "a store on a disk that ignores syncs passed the check");
}
