//! SIGKILL at random times: no acknowledged line is lost, and no batch is halved.
//!
//! A kill leaves the kernel's memory in place, so that it shows what the process itself had not yet handed on; the device is
//! the simulated disk's business (in `crates/store`) and the traced syncs'. `BIOMBO_KILL_ROUNDS` is the number of
//! kills for each of the main cases, 20 unless set; `make crash` sets 100.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use biombo::{Batch, Durability, Options, Pace, PartitionId, Range, Store, UnitId};
use common::kill::{Dice, ROUNDS_A_STORE, kill_soon, report, this_program};
use common::{command, has_engine, run, words};
use tempfile::tempdir;

/// The environment variable that turns this test program into the child that writes batches.
const CHILD: &str = "BIOMBO_KILL_CHILD";

fn rounds() -> u64 {
    common::kill::rounds("BIOMBO_KILL_ROUNDS", 20)
}

fn value(line: u64) -> String {
    let length = (line.wrapping_mul(2_654_435_761) % 400) as usize;
    format!("{line}:{}", "v".repeat(length))
}

/// Feed lines to `biombo load --acks`, kill it, and look for every acknowledged line, round after round.
fn kill_loaders(engine: &str, durability: &str, options: &str, rounds: u64) {
    if !has_engine(engine) {
        println!("skipped: this build has no {engine}");
        return;
    }
    let begin = Instant::now();
    let mut dice = Dice(durability.len() as u64 * 1000 + engine.len() as u64);
    let mut dir = tempdir().expect("a directory");
    // The lines that each round on the present store has acknowledged; of the others up to `fed` each may be there.
    let mut acked: Vec<std::ops::Range<u64>> = Vec::new();
    let (mut fed, mut busy, mut checked) = (0_u64, 0, 0);
    for round in 0..rounds {
        if round % ROUNDS_A_STORE == 0 {
            (dir, fed) = (tempdir().expect("a directory"), 0);
            acked.clear();
        }
        let line = format!("load DIR/s - --acks --durability {durability} --engine {engine} --partitions 8 {options}");
        let mut child = command()
            .args(words(&line, dir.path()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let from = fed;
        let feeder = std::thread::spawn(move || {
            let mut next = from;
            // The pipe breaks when the reader is killed.
            while writeln!(stdin, "key{next:09}\t{}", value(next)).is_ok() {
                next += 1;
            }
            next + 1
        });
        let what = format!("{engine} {durability}, round {round}");
        let new = kill_soon(child, &mut dice, &what, |acked: &mut u64, line| {
            let told = line.strip_prefix("acked ").and_then(|lines| lines.parse().ok());
            told.inspect(|lines| *acked = *lines).is_some()
        });
        fed = feeder.join().expect("the feeder ends");
        busy += u64::from(new > 0);
        acked.push(from..from + new);
        checked += check_lines(dir.path(), engine, &acked, fed);
    }
    report(&format!(
        "{engine} {durability} {options}: {rounds} kills, {busy} of a loader at work; {checked} look-ups of acknowledged lines in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(busy * 2 >= rounds, "{engine}: only {busy} of {rounds} kills hit a loader at work: nothing is shown");
}

fn check_lines(dir: &Path, engine: &str, acked: &[std::ops::Range<u64>], fed: u64) -> u64 {
    let wanted: u64 = acked.iter().map(|lines| lines.end - lines.start).sum();
    if wanted == 0 {
        return 0;
    }
    let store = Options::new().create(false).open(dir.join("s"), &biombo::registry()).expect("the store opens");
    if !store.capabilities().ordered {
        let mut bytes = Vec::new();
        for line in acked.iter().cloned().flatten() {
            let there = store.get_into(format!("key{line:09}").as_bytes(), &mut bytes).expect("a read");
            assert!(there, "{engine}: line {line}, which was acknowledged, is lost");
            assert_eq!(bytes, value(line).as_bytes(), "{engine}: line {line} has another value");
        }
        return wanted;
    }
    // One pass sees every line; those that were not acknowledged must at least be what was fed.
    let mut there = vec![false; usize::try_from(fed).expect("a count that fits")];
    let mut scan = store.scan(Range::all()).expect("a scan");
    while let Some((key, found)) = scan.next().expect("a step") {
        let line: u64 = std::str::from_utf8(&key[3..]).expect("digits").parse().expect("digits");
        assert!(line < fed, "{engine}: line {line} was never fed");
        assert_eq!(found, value(line).as_bytes(), "{engine}: line {line} has another value");
        there[line as usize] = true;
    }
    for line in acked.iter().cloned().flatten() {
        assert!(there[line as usize], "{engine}: line {line}, which was acknowledged, is lost");
    }
    wanted
}

#[test]
fn sync_on_lmdb_loses_no_acknowledged_line() {
    kill_loaders("lmdb", "sync", "", rounds());
}

#[test]
fn sync_on_rocksdb_loses_no_acknowledged_line() {
    kill_loaders("rocksdb", "sync", "--placement range", rounds());
}

#[test]
fn sync_on_the_other_engines_loses_no_acknowledged_line() {
    // Not Tkrzw: it declares that no level survives a kill, because it updates pages in place, and a kill in the middle of one
    // was seen to leave a damaged value that had been acknowledged.
    for engine in ["leveldb", "wiredtiger", "log"] {
        kill_loaders(engine, "sync", "", (rounds() / 4).max(1));
    }
}

#[test]
fn os_survives_the_process_where_the_engine_says_so() {
    // Not PostgreSQL, of which this would start eight servers: the tests of its adapter kill a writer over one.
    for kind in biombo::registry().iter().filter(|kind| kind.name != "postgres") {
        let can = (kind.capabilities)();
        if can.persistent && can.survives_kill.is_some_and(|level| level <= Durability::Os) {
            kill_loaders(kind.name, "os", "", (rounds() / 4).max(1));
        }
    }
}

// ---- Atomic batches ----

/// Keys of one batch; with 8 partitions nearly every batch spans several.
const BATCH_KEYS: u64 = 12;
/// Threads that write batches of their own.
const WRITERS: u64 = 2;

/// Not a test: the child of the batch tests. It writes batches until it is killed, and prints `ack writer number` for each that is
/// acknowledged; while units move, also `moved units` for each move.
#[test]
fn child_that_writes_batches() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (engine, durability, moving, dir) = {
        let mut words = task.splitn(4, ' ');
        let mut next = || words.next().expect("engine, durability, still or moving, directory").to_owned();
        (next(), next().parse::<Durability>().expect("a durability"), next() == "moving", next())
    };
    let store = Options::new().engine(engine).partitions(8).open(dir, &biombo::registry()).expect("the store opens");
    std::thread::scope(|scope| {
        if moving {
            scope.spawn(|| keep_moving(&store));
        }
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut number = counter(store, writer, 0).map_or(0, |number| number + 1);
                loop {
                    store.write_with(&batch(writer, number), durability).expect("a write");
                    println!("ack {writer} {number}");
                    number += 1;
                }
            });
        }
    });
}

/// Move slots from all partitions to one after the other.
fn keep_moving(store: &Store) {
    let mut dice = Dice(u64::from(std::process::id()));
    loop {
        let units: Vec<_> = (0..64).map(|_| UnitId(dice.below(4096) as u32)).collect();
        let moved = store.move_units(&units, PartitionId(dice.below(8) as u16), Pace::default()).expect("a move");
        println!("moved {}", moved.units);
    }
}

/// Batch `number` sets all counters of its writer, and puts as many keys of its own.
fn batch(writer: u64, number: u64) -> Batch {
    let mut batch = Batch::new();
    for key in 0..BATCH_KEYS {
        batch.put(format!("counter {writer} {key}").as_bytes(), format!("{number}").as_bytes());
        batch.put(format!("batch {writer} {number} {key}").as_bytes(), value(number).as_bytes());
    }
    batch
}

fn counter(store: &Store, writer: u64, key: u64) -> Option<u64> {
    let value = store.get(format!("counter {writer} {key}").as_bytes()).expect("a read")?;
    Some(std::str::from_utf8(&value).expect("digits").parse().expect("digits"))
}

/// Rounds for which a test goes on until something is shown, by those asked for.
const MORE_ROUNDS: u64 = 10;

/// The last batch of each writer that was acknowledged, and how many units have moved.
#[derive(Default)]
struct Heard {
    acked: [Option<u64>; WRITERS as usize],
    moved: u64,
}

fn kill_batch_writers(engine: &str, durability: &str, moving: &str, rounds: u64) {
    if !has_engine(engine) {
        println!("skipped: this build has no {engine}");
        return;
    }
    let begin = Instant::now();
    let mut dice = Dice(77 + durability.len() as u64);
    let mut dir = tempdir().expect("a directory");
    let (mut busy, mut batches, mut moved, mut round) = (0, 0, 0, 0);
    // A machine that is busy otherwise may need more rounds until something is shown.
    let is_shown = |busy: u64, moved: u64| busy * 2 >= rounds && (moving == "still" || moved > rounds);
    while round < rounds || (!is_shown(busy, moved) && round < rounds * MORE_ROUNDS) {
        if round % ROUNDS_A_STORE == 0 {
            dir = tempdir().expect("a directory");
        }
        let task = format!("{engine} {durability} {moving}");
        let child = this_program("child_that_writes_batches", CHILD, &task, &dir.path().join("s"));
        let heard = kill_soon(child, &mut dice, &format!("{task}, round {round}"), |heard: &mut Heard, line| {
            if let Some(units) = line.strip_prefix("moved ") {
                heard.moved += units.parse::<u64>().unwrap_or(0);
                return false;
            }
            let mut words = line.split(' ').skip_while(|word| *word != "ack").skip(1).map(str::parse::<u64>);
            let (Some(Ok(writer)), Some(Ok(number))) = (words.next(), words.next()) else { return false };
            heard.acked[writer as usize] = Some(number);
            true
        });
        moved += heard.moved;
        if heard.acked.iter().any(Option::is_some) {
            busy += 1;
            batches += check_batches(&dir.path().join("s"), engine, &heard.acked);
        }
        round += 1;
    }
    report(&format!(
        "{engine} {durability} {moving}: {round} kills, {busy} of a writer at work; {batches} whole batches seen, {moved} units moved in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(
        is_shown(busy, moved),
        "{engine}: {busy} of {round} kills hit a writer at work, {moved} units moved: nothing is shown"
    );
}

fn check_batches(dir: &Path, engine: &str, acked: &[Option<u64>]) -> u64 {
    let store = Options::new().create(false).open(dir, &biombo::registry()).expect("the store opens");
    let mut seen = 0;
    for (writer, acked) in (0..).zip(acked) {
        let counters: Vec<_> = (0..BATCH_KEYS).map(|key| counter(&store, writer, key)).collect();
        assert!(counters.iter().all(|c| *c == counters[0]), "{engine}: a batch is halved: counters {counters:?}");
        assert!(counters[0] >= *acked, "{engine}: batch {acked:?} was acknowledged, the store has {:?}", counters[0]);
        let Some(last) = counters[0] else { continue };
        seen += last + 1;
        for number in 0..=last {
            for key in 0..BATCH_KEYS {
                let found = store.get(format!("batch {writer} {number} {key}").as_bytes()).expect("a read");
                assert_eq!(
                    found.as_deref(),
                    Some(value(number).as_bytes()),
                    "{engine}: batch {number} lacks key {key}"
                );
            }
        }
        for key in 0..BATCH_KEYS {
            let next = store.contains(format!("batch {writer} {} {key}", last + 1).as_bytes()).expect("a read");
            assert!(!next, "{engine}: key {key} of a batch that did not happen");
        }
    }
    // Each key lies in one partition, its own, once what moves have left over is gone.
    store.clean_leftovers(Pace::default()).expect("nothing is in the way");
    let keys = store.verify(&mut |damage| panic!("{engine}: {damage:?}")).expect("whole");
    let batches: u64 = (0..WRITERS).filter_map(|writer| counter(&store, writer, 0)).map(|last| last + 1).sum();
    let counters = (0..WRITERS).filter(|writer| counter(&store, *writer, 0).is_some()).count() as u64;
    assert_eq!(keys, (batches + counters) * BATCH_KEYS, "{engine}: keys in all partitions");
    seen
}

#[test]
fn no_batch_over_lmdb_is_halved() {
    kill_batch_writers("lmdb", "sync", "still", rounds());
}

#[test]
fn no_batch_over_rocksdb_is_halved() {
    kill_batch_writers("rocksdb", "sync", "still", rounds());
}

#[test]
fn no_batch_over_the_other_engines_is_halved() {
    for engine in ["leveldb", "wiredtiger", "log"] {
        kill_batch_writers(engine, "sync", "still", (rounds() / 4).max(1));
    }
    kill_batch_writers("lmdb", "os", "still", (rounds() / 4).max(1));
    kill_batch_writers("rocksdb", "os", "still", (rounds() / 4).max(1));
    kill_batch_writers("log", "os", "still", (rounds() / 4).max(1));
}

#[test]
fn no_batch_is_halved_or_lost_while_units_move() {
    kill_batch_writers("log", "os", "moving", rounds());
    for engine in ["lmdb", "rocksdb"] {
        kill_batch_writers(engine, "sync", "moving", (rounds() / 4).max(1));
    }
}

#[test]
fn a_killed_creation_leaves_a_store_or_nothing() {
    let dir = tempdir().expect("a directory");
    let mut dice = Dice(5);
    for round in 0..rounds() {
        let name = format!("s{round}");
        let mut child = command()
            .args(words(&format!("put DIR/{name} k v --partitions 8"), dir.path()))
            .stderr(Stdio::null())
            .spawn()
            .expect("the command runs");
        std::thread::sleep(Duration::from_micros(dice.below(12_000)));
        child.kill().expect("a child can be killed");
        child.wait().expect("a killed child ends");
        // Either there is no store yet, and this makes it, or there is one of the same shape.
        run(&format!("put DIR/{name} k w --partitions 8"), dir.path()).ok();
        assert_eq!(run(&format!("get DIR/{name} k"), dir.path()).ok().stdout, b"w", "round {round}");
    }
}
