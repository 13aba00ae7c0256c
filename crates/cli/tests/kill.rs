//! SIGKILL at random times: no acknowledged line is lost, and no batch is halved.
//!
//! A kill leaves the kernel's memory in place, so that it shows what the process itself had not yet handed on; the device is
//! the simulated disk's business (in `crates/store`) and the traced syncs'. `BIOMBO_KILL_ROUNDS` is the number of
//! kills for each of the main cases, 20 unless set; `make crash` sets 100.

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use biombo::{Batch, Durability, Executor, Options, Pace, PartitionId, PlacementKind, Range, Store, UnitId};
use common::kill::{Dice, MORE_ROUNDS, ROUNDS_A_STORE, kill_soon, report, this_program};
use common::{biombo_with, command, has_engine, run, words};
use tempfile::tempdir;

/// The environment variable that turns this test program into the child that writes batches.
const CHILD: &str = "BIOMBO_KILL_CHILD";

fn rounds() -> u64 {
    common::kill::rounds("BIOMBO_KILL_ROUNDS", 20)
}

/// Of many kinds each has a part of the rounds; where rounds are asked for (`make crash`), all of them.
fn part_of_rounds(parts: u64) -> u64 {
    common::kill::rounds("BIOMBO_KILL_ROUNDS", (rounds() / parts).max(1))
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
    let (mut fed, mut busy, mut checked, mut round) = (0_u64, 0, 0, 0);
    while round < rounds || (busy * 2 < rounds && round < rounds * MORE_ROUNDS) {
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
        round += 1;
    }
    report(&format!(
        "{engine} {durability} {options}: {round} kills, {busy} of a loader at work; {checked} look-ups of acknowledged lines in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(busy * 2 >= rounds, "{engine}: only {busy} of {round} kills hit a loader at work: nothing is shown");
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

/// What happens to a store while batches are written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Slots move; also under the executor `pinned`.
    Slots,
    Pinned,
    /// Single keys are pinned.
    Keys,
    /// Ranges are split, moved and merged.
    Ranges,
    /// The store repartitions itself.
    Plans,
}

impl Meanwhile {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Nothing, "still"),
        (Self::Slots, "moving"),
        (Self::Pinned, "pinned"),
        (Self::Keys, "keys"),
        (Self::Ranges, "ranges"),
        (Self::Plans, "plans"),
    ];

    fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|(_, of)| *of == name).expect("a name").0
    }

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(other, _)| *other == self).expect("all are named").1
    }

    fn options(self) -> Options {
        let options = Options::new().partitions(8);
        match self {
            Self::Pinned => options.executor(Executor::Pinned { workers: 2 }),
            Self::Ranges => options.placement(PlacementKind::Range).range_sample((0..80).map(key_near).collect()),
            Self::Plans => options.repartition("0.1s".parse().expect("a time")),
            _ => options,
        }
    }

    fn run(self, store: &Store, durability: Durability) {
        match self {
            Self::Nothing => {}
            Self::Slots | Self::Pinned => keep_moving(store),
            Self::Keys => keep_pinning(store),
            Self::Ranges => keep_cutting(store),
            Self::Plans => keep_grouping(store, durability),
        }
    }
}

/// Not a test: the child of the batch tests. It writes batches until it is killed, and prints `ack writer number` for each that is
/// acknowledged; while something moves, also `moved units`.
#[test]
fn child_that_writes_batches() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (engine, durability, meanwhile, dir) = {
        let mut words = task.splitn(4, ' ');
        let mut next = || words.next().expect("engine, durability, what happens meanwhile, directory").to_owned();
        (next(), next().parse::<Durability>().expect("a durability"), Meanwhile::of(&next()), next())
    };
    let store = meanwhile.options().engine(engine).open(dir, &biombo::registry()).expect("the store opens");
    std::thread::scope(|scope| {
        scope.spawn(|| meanwhile.run(&store, durability));
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

/// Pin keys of batches, the counters among them, to one partition after the other.
fn keep_pinning(store: &Store) {
    let mut dice = Dice(u64::from(std::process::id()));
    loop {
        let keys: Vec<_> = (0..20).map(|_| key_near(dice.below(400))).collect();
        let moved = store.move_keys(&keys, PartitionId(dice.below(8) as u16), Pace::default()).expect("a move");
        println!("moved {}", moved.units);
    }
}

/// Split ranges, move what lies between two keys, and merge what belongs together.
fn keep_cutting(store: &Store) {
    let mut dice = Dice(u64::from(std::process::id()));
    loop {
        let mut ends = [key_near(dice.below(400)), key_near(dice.below(400))];
        ends.sort();
        let [from, to] = ends;
        store.split_ranges(&[key_near(dice.below(400))]).expect("a split");
        if from < to {
            let to_partition = PartitionId(dice.below(8) as u16);
            let moved = store.move_range(&from, Some(&to), to_partition, Pace::default()).expect("a move");
            println!("moved {}", moved.units);
        }
        if dice.below(4) == 0 {
            store.merge_ranges().expect("merges");
        }
    }
}

/// Keys of [`keep_grouping`]: as many in each group, and as many groups.
const MEMBERS: u64 = 10;
const GROUPS: u64 = 40;
/// So long after something moved first, a whole plan has begun to.
const WHOLE_PLAN: Duration = Duration::from_millis(400);

/// The keys that batch `number` of [`keep_grouping`] puts.
fn grouped(number: u64, stride: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..MEMBERS).map(move |member| (member, (number + member * stride) % GROUPS))
}

/// What the keys of groups hold: by member and place, the number and the stride of the last batch.
type Groups = BTreeMap<(u64, u64), (u64, u64)>;

fn groups_of(store: &Store) -> Groups {
    let mut scan = store.scan(Range::prefix(b"group ")).expect("a scan");
    let mut groups = Groups::new();
    let numbers = |bytes: &[u8]| {
        let words = std::str::from_utf8(bytes).expect("text").split(' ');
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    };
    while let Some((key, value)) = scan.next().expect("a step") {
        assert!(groups.insert(numbers(key), numbers(value)).is_none(), "a key twice");
    }
    groups
}

/// Write groups of keys that lie apart, others than the process before, so that plans are made; tell each that is acknowledged, as
/// `grouped number stride`, and when they move something. Numbers go on from those of the process before.
fn keep_grouping(store: &Store, durability: Durability) {
    let stride = u64::from(std::process::id()) % (GROUPS - 1) + 1;
    let mut number = groups_of(store).values().map(|(number, _)| *number).max().unwrap_or(0);
    let mut told = 0;
    loop {
        number += 1;
        let mut batch = Batch::new();
        for (member, place) in grouped(number, stride) {
            batch.put(format!("group {member} {place}").as_bytes(), format!("{number} {stride}").as_bytes());
        }
        store.write_with(&batch, durability).expect("a write");
        println!("grouped {number} {stride}");
        if number % 16 == 0 {
            let moved = store.stats().expect("figures").moves.units;
            if moved > told {
                println!("moved {}", moved - told);
                told = moved;
            }
        }
    }
}

/// Keys of groups, which plans have moved, hold the last batch that was acknowledged for them, or a later one; and of each batch that any of them
/// holds, all others do, or a later one. Returns how many there are.
fn check_groups(store: &Store, engine: &str, acked: &Groups) -> u64 {
    let groups = groups_of(store);
    assert!(groups.len() as u64 <= MEMBERS * GROUPS, "{engine}: {} keys of groups", groups.len());
    let number_at = |key: &(u64, u64)| groups.get(key).map(|(number, _)| *number);
    for (key, (number, _)) in acked {
        let found = number_at(key);
        assert!(found >= Some(*number), "{engine}: batch {number} was acknowledged, group {key:?} has {found:?}");
    }
    for (number, stride) in groups.values() {
        for key in grouped(*number, *stride) {
            let found = number_at(&key);
            assert!(found >= Some(*number), "{engine}: batch {number} is halved: group {key:?} has {found:?}");
        }
    }
    groups.len() as u64
}

/// One of the keys that batches write, of a small number.
fn key_near(number: u64) -> Vec<u8> {
    let (writer, key, batch) = (number % WRITERS, number / WRITERS % BATCH_KEYS, number / WRITERS / BATCH_KEYS);
    match batch {
        0 => format!("counter {writer} {key}").into_bytes(),
        _ => format!("batch {writer} {} {key}", batch * 7).into_bytes(),
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

/// The last batch of each writer, and for each key of groups, that was acknowledged, and how many units have moved.
#[derive(Default)]
struct Heard {
    acked: [Option<u64>; WRITERS as usize],
    groups: Groups,
    moved: u64,
}

fn kill_batch_writers(engine: &str, durability: &str, meanwhile: Meanwhile, rounds: u64) {
    if !has_engine(engine) {
        println!("skipped: this build has no {engine}");
        return;
    }
    let begin = Instant::now();
    let mut dice = Dice(77 + durability.len() as u64);
    let mut dir = tempdir().expect("a directory");
    // Of all rounds on the present store.
    let mut groups = Groups::new();
    let (mut busy, mut batches, mut moved, mut round) = (0, 0, 0, 0);
    let is_shown = |busy: u64, moved: u64| busy * 2 >= rounds && (meanwhile == Meanwhile::Nothing || moved > rounds);
    let name = meanwhile.name();
    while round < rounds || (!is_shown(busy, moved) && round < rounds * MORE_ROUNDS) {
        if round % ROUNDS_A_STORE == 0 {
            (dir, groups) = (tempdir().expect("a directory"), Groups::new());
        }
        let task = format!("{engine} {durability} {name}");
        let child = this_program("child_that_writes_batches", CHILD, &task, &dir.path().join("s"));
        // Where plans are made, what moves first is a few keys to learn from: every other kill meets that, and the others what comes later.
        let (late, mut first_moved) = (round % 2 == 1, None);
        let heard = kill_soon(child, &mut dice, &format!("{task}, round {round}"), move |heard: &mut Heard, line| {
            let is_plan_due = late && first_moved.is_some_and(|at: Instant| at.elapsed() > WHOLE_PLAN);
            if let Some(units) = line.strip_prefix("moved ") {
                heard.moved += units.parse::<u64>().unwrap_or(0);
                first_moved.get_or_insert_with(Instant::now);
                // A plan takes its time: what is waited for is that it moves something.
                return meanwhile == Meanwhile::Plans && (!late || is_plan_due);
            }
            let numbers_after = |said: &'static str| {
                line.split(' ').skip_while(move |word| *word != said).skip(1).map(str::parse::<u64>)
            };
            let mut words = numbers_after("grouped");
            if let (Some(Ok(number)), Some(Ok(stride))) = (words.next(), words.next()) {
                heard.groups.extend(grouped(number, stride).map(|key| (key, (number, stride))));
                return is_plan_due;
            }
            let mut words = numbers_after("ack");
            let (Some(Ok(writer)), Some(Ok(number))) = (words.next(), words.next()) else { return false };
            heard.acked[writer as usize] = Some(number);
            meanwhile != Meanwhile::Plans || is_plan_due
        });
        moved += heard.moved;
        groups.extend(heard.groups);
        if heard.acked.iter().any(Option::is_some) {
            busy += 1;
            batches += check_batches(&dir.path().join("s"), engine, &heard.acked, &groups);
        }
        round += 1;
    }
    report(&format!(
        "{engine} {durability} {name}: {round} kills, {busy} of a writer at work; {batches} whole batches seen, {moved} units moved in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(
        is_shown(busy, moved),
        "{engine}: {busy} of {round} kills hit a writer at work, {moved} units moved: nothing is shown"
    );
}

fn check_batches(dir: &Path, engine: &str, acked: &[Option<u64>], acked_groups: &Groups) -> u64 {
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
    let groups = check_groups(&store, engine, acked_groups);
    assert_eq!(keys, (batches + counters) * BATCH_KEYS + groups, "{engine}: keys in all partitions");
    seen
}

#[test]
fn no_batch_over_lmdb_is_halved() {
    kill_batch_writers("lmdb", "sync", Meanwhile::Nothing, rounds());
}

#[test]
fn no_batch_over_rocksdb_is_halved() {
    kill_batch_writers("rocksdb", "sync", Meanwhile::Nothing, rounds());
}

#[test]
fn no_batch_over_the_other_engines_is_halved() {
    for engine in ["leveldb", "wiredtiger", "log"] {
        kill_batch_writers(engine, "sync", Meanwhile::Nothing, part_of_rounds(4));
    }
    kill_batch_writers("lmdb", "os", Meanwhile::Nothing, part_of_rounds(4));
    kill_batch_writers("rocksdb", "os", Meanwhile::Nothing, part_of_rounds(4));
    kill_batch_writers("log", "os", Meanwhile::Nothing, part_of_rounds(4));
}

#[test]
fn no_batch_is_halved_or_lost_while_units_move() {
    kill_batch_writers("log", "os", Meanwhile::Slots, rounds());
    for engine in ["lmdb", "rocksdb"] {
        kill_batch_writers(engine, "sync", Meanwhile::Slots, part_of_rounds(4));
    }
    kill_batch_writers("lmdb", "os", Meanwhile::Slots, part_of_rounds(4));
}

#[test]
fn no_batch_is_halved_or_lost_while_keys_are_pinned_ranges_cut_workers_write_and_plans_move() {
    for (meanwhile, engine, durability) in [
        (Meanwhile::Keys, "log", "os"),
        (Meanwhile::Keys, "lmdb", "sync"),
        (Meanwhile::Ranges, "log", "os"),
        (Meanwhile::Ranges, "lmdb", "os"),
        (Meanwhile::Pinned, "log", "sync"),
        (Meanwhile::Pinned, "lmdb", "os"),
        (Meanwhile::Plans, "log", "os"),
        (Meanwhile::Plans, "lmdb", "sync"),
        (Meanwhile::Plans, "rocksdb", "os"),
    ] {
        kill_batch_writers(engine, durability, meanwhile, part_of_rounds(5));
    }
}

/// `biombo repartition`, killed and begun again with other figures and another engine: every line is there each time, once, and the last one
/// ends what all before it began.
#[test]
fn a_killed_repartition_loses_nothing_and_the_next_one_goes_on() {
    const LINES: u64 = 20_000;
    let engines: Vec<_> = ["log", "lmdb"].into_iter().filter(|engine| has_engine(engine)).collect();
    for placement in ["hash", "range"] {
        let begin = Instant::now();
        let (dir, mut dice) = (tempdir().expect("a directory"), Dice(placement.len() as u64));
        let all = [std::ops::Range { start: 0, end: LINES }];
        let lines: String = (0..LINES).map(|line| format!("key{line:09}\t{}\n", value(line))).collect();
        let line =
            format!("load DIR/s - --durability os --partitions 4 --placement {placement} --engine {}", engines[0]);
        biombo_with(words(&line, dir.path()), lines.as_bytes()).ok();
        let (wanted, mut busy, mut round) = ((rounds() / 4).max(1), 0, 0);
        while round < wanted || (busy == 0 && round < wanted * MORE_ROUNDS) {
            let engine = engines[dice.below(engines.len() as u64) as usize];
            let mut line = format!("repartition DIR/s --partitions {} --engine {engine}", 2 + dice.below(6));
            // At times all keys are copied into partitions that are placed otherwise.
            if dice.below(3) == 0 {
                line += [" --placement hash", " --placement range"][dice.below(2) as usize];
            }
            let mut child = command()
                .args(words(&line, dir.path()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the command runs");
            std::thread::sleep(Duration::from_micros(dice.below(400_000)));
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child ends");
            let store = Options::new().create(false).open(dir.path().join("s"), &biombo::registry()).expect("it opens");
            busy += u64::from(!store.leaving().is_empty());
            let names = std::fs::read_dir(dir.path().join("s")).expect("a directory").flatten();
            let made = names.filter(|name| name.file_name().to_string_lossy().starts_with("p0")).count();
            assert_eq!(made, store.partitions() as usize, "round {round}: {line}: directories that nobody names");
            store.clean_leftovers(Pace::default()).expect("nothing is in the way");
            assert_eq!(
                store.verify(&mut |damage| panic!("{damage:?}")).expect("whole"),
                LINES,
                "round {round}: {line}"
            );
            drop(store);
            assert_eq!(check_lines(dir.path(), placement, &all, LINES), LINES);
            round += 1;
        }
        let said = run(&format!("repartition DIR/s --partitions 3 --engine {}", engines[0]), dir.path()).ok();
        assert!(said.text().contains("3 partitions"), "{}", said.text());
        assert_eq!(check_lines(dir.path(), placement, &all, LINES), LINES);
        report(&format!(
            "repartition {placement}: {round} kills, {busy} before all had left, in {:.1} s",
            begin.elapsed().as_secs_f64()
        ));
        assert!(busy > 0, "{placement}: none of {round} kills hit a repartition at work: nothing is shown");
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
