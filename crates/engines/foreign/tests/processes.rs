//! Several processes on one directory: the second is refused while the first lives, and once the first was killed the
//! directory opens with everything that was acknowledged at the level that the engine declares to survive it.
//!
//! The other process is this same test program, told by the environment to be the writer.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use biombo_engine::{Durability, Engine, EngineKind, ErrorKind, Op, OpenOptions, Registry};

/// Keys of one batch; each gets the number of the batch.
const KEYS: [&str; 3] = ["left", "middle", "right"];

fn persistent() -> Vec<EngineKind> {
    let mut registry = Registry::new();
    biombo_foreign::register(&mut registry);
    registry.iter().filter(|kind| (kind.capabilities)().persistent && kind.is_installed()).cloned().collect()
}

fn entry(n: u64) -> (String, Vec<u8>) {
    (format!("entry {n:08}"), n.to_be_bytes().repeat(1 + n as usize % 40))
}

/// The child's part: numbered batches, each named on stdout once it is acknowledged, until it is killed. Without its
/// environment it is no test at all.
#[test]
fn writer_that_is_killed() {
    let (Ok(name), Ok(dir), Ok(level)) = (
        std::env::var("BIOMBO_KILLED_ENGINE"),
        std::env::var("BIOMBO_KILLED_DIR"),
        std::env::var("BIOMBO_KILLED_LEVEL"),
    ) else {
        return;
    };
    let level: Durability = level.parse().expect("a level");
    let kind = persistent().into_iter().find(|kind| kind.name == name).expect("the parent has it too");
    let engine = (kind.open)(&OpenOptions::new(dir)).expect("open");
    let mut out = std::io::stdout();
    let first = last(&engine) + 1;
    // The kill may have come between a batch and the deletion that follows it.
    let follow = |n: u64| {
        if n > 0 && n.is_multiple_of(50) {
            let old = entry(n - 25).0;
            engine.apply(&[Op::Delete { key: old.as_bytes() }], level).expect("delete");
        }
    };
    follow(first - 1);
    for n in first.. {
        let (key, value) = entry(n);
        let number = n.to_be_bytes();
        let mut ops = vec![Op::Put { key: key.as_bytes(), value: &value }];
        ops.extend(KEYS.iter().map(|key| Op::Put { key: key.as_bytes(), value: &number }));
        engine.apply(&ops, level).expect("apply");
        follow(n);
        // The parent may be gone: then so is the reason to go on.
        if writeln!(out, "ack {n}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// The number of the last batch, by its first key.
fn last(engine: &Arc<dyn Engine>) -> u64 {
    number(engine, KEYS[0])
}

fn number(engine: &Arc<dyn Engine>, key: &str) -> u64 {
    let value = engine.get(key.as_bytes()).expect("get").map(|value| value.into_vec());
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("8 bytes")))
}

fn spawn(kind: &EngineKind, dir: &std::path::Path, level: Durability) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "writer_that_is_killed", "--test-threads", "1", "--nocapture"])
        .env("BIOMBO_KILLED_ENGINE", kind.name)
        .env("BIOMBO_KILLED_DIR", dir)
        .env("BIOMBO_KILLED_LEVEL", level.name())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("run this program")
}

/// Rounds of write, refuse a second process, kill, reopen, check; the levels that the engine says survive it, in turn.
fn killed(kind: &EngineKind, rounds: u64) {
    let declared = (kind.capabilities)();
    let levels: Vec<Durability> = [Durability::Relaxed, Durability::Os, Durability::Sync]
        .into_iter()
        .filter(|level| declared.survives_kill.is_some_and(|weakest| *level >= weakest))
        .collect();
    if levels.is_empty() {
        println!("{}: declares no level that survives a kill", kind.name);
        return;
    }
    let home = tempfile::TempDir::with_prefix("biombo-killed-").expect("a temporary directory");
    let dir = home.path().join("instance");
    std::fs::create_dir(&dir).expect("a directory");
    for round in 0..rounds {
        let level = levels[round as usize % levels.len()];
        let mut child = spawn(kind, &dir, level);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut acknowledged = 0;
        let mut note = |line: String| {
            let (_, number) = line.rsplit_once("ack ").unwrap_or(("", ""));
            number.parse().inspect(|n| acknowledged = *n).is_ok()
        };
        while !lines.next().map(&mut note).expect("the writer writes until it is killed") {}
        match (kind.open)(&OpenOptions::new(&dir)) {
            Ok(_) => panic!("{}: two processes have one directory open", kind.name),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{}: {error}", kind.name),
        }
        std::thread::sleep(Duration::from_millis(20 + 37 * round % 90));
        child.kill().expect("kill the writer");
        child.wait().expect("the writer ends");
        lines.for_each(|line| {
            note(line);
        });
        let engine = (kind.open)(&OpenOptions::new(&dir)).unwrap_or_else(|e| panic!("{} after a kill: {e}", kind.name));
        let last = last(&engine);
        let name = kind.name;
        assert!(last >= acknowledged, "{name} at {level}: {acknowledged} was acknowledged, {last} is the last one");
        let numbers = KEYS.map(|key| number(&engine, key));
        if declared.atomic_batches {
            assert_eq!(numbers, [last; 3], "{name} at {level}: half a batch survived");
        }
        for n in 1..=last + 1 {
            let (key, value) = entry(n);
            // The delete that follows batch n + 25 may be lost with it only if that batch was the last one.
            let deleted = n % 50 == 25 && n + 25 <= last;
            let doubtful = n + 25 == last && last > acknowledged;
            let due = (n <= last && !deleted).then_some(value);
            let got = engine.get(key.as_bytes()).expect("get").map(|value| value.into_vec());
            assert!(got == due || doubtful && deleted, "{name} at {level}: entry {n} of {last}");
        }
        let mut damages = Vec::new();
        engine.verify(&mut |damage| damages.push(damage)).expect("verify");
        assert_eq!(damages, [], "{name} at {level}, after a kill");
        println!("{name} at {level}: killed after {acknowledged}, {last} survived");
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_living_writer_keeps_others_out() {
    for kind in persistent() {
        killed(&kind, 4);
    }
}

#[test]
fn no_engine_opens_the_directory_of_another_one() {
    let kinds = persistent();
    for owner in &kinds {
        let home = tempfile::TempDir::with_prefix("biombo-owned-").expect("a temporary directory");
        let engine = (owner.open)(&OpenOptions::new(home.path())).expect("open");
        engine.apply(&[Op::Put { key: b"k", value: b"v" }], Durability::Sync).expect("put");
        drop(engine);
        for other in kinds.iter().filter(|kind| kind.name != owner.name) {
            match (other.open)(&OpenOptions::new(home.path())) {
                Ok(_) => panic!("{} opened a directory of {}", other.name, owner.name),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{} on {}: {error}", other.name, owner.name),
            }
        }
        let engine = (owner.open)(&OpenOptions::new(home.path())).expect("its owner opens it still");
        assert_eq!(engine.get(b"k").expect("get").as_deref(), Some(&b"v"[..]), "{}", owner.name);
    }
}
