//! SIGKILL at random times of the engine `log` at work: small segments, a tight bound on space and overwrites, so that segments
//! are cleaned and the index is saved all the time. Nothing acknowledged is lost, no batch is halved, and verification finds
//! nothing.
//!
//! `BIOMBO_KILL_LOG_ROUNDS` is the number of kills, 10 unless set; `make crash` sets 200.
#![cfg(feature = "log")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use biombo::{Batch, Durability, Engine, EngineKind, Options, Registry, Store};
use biombo_base::io::RealIo;
use biombo_journal::LogOptions;
use biombo_log::LogEngineOptions;
use common::kill::{Dice, ROUNDS_A_STORE, kill_soon, report, rounds, this_program};
use common::run;
use tempfile::tempdir;

/// The environment variable that turns this test program into the child that writes: a durability and a directory.
const CHILD: &str = "BIOMBO_KILL_LOG_CHILD";
/// Threads that write keys of their own.
const WRITERS: u64 = 2;
/// Keys that each batch sets to its number; with 8 partitions they lie in nearly all of them.
const COUNTERS: u64 = 12;
/// Keys that single writes overwrite in turns, and how many between two batches.
const SLOTS: u64 = 400;
const SINGLES: u64 = 40;
/// Batches after which the child tells its figures.
const TOLD_EVERY: u64 = 4;

/// The engine with segments so small that some are cleaned between any two kills.
fn small() -> Registry {
    let mut registry = Registry::new();
    let open = |options: &biombo::OpenOptions| -> biombo::Result<Arc<dyn Engine>> {
        let own = LogEngineOptions {
            log: LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() },
            space_amplification: options.space_amplification.unwrap_or(1.5),
            checkpoint_records: 30,
            cleaning: true,
        };
        Ok(biombo_log::open_with(RealIo::shared(), options, &own, true)?)
    };
    registry.add(EngineKind { open: Arc::new(open), ..biombo_log::kind() });
    registry
}

fn value(number: u64, salt: u64) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.resize(value.len() + (number.wrapping_mul(2_654_435_761).wrapping_add(salt * 977) % 900) as usize, b'v');
    value
}

fn counter_key(writer: u64, counter: u64) -> Vec<u8> {
    format!("counter {writer} {counter}").into_bytes()
}

fn slot_key(writer: u64, slot: u64) -> Vec<u8> {
    format!("slot {writer} {slot}").into_bytes()
}

/// The single writes that come before batch `number`: their slots.
fn slots(number: u64) -> impl Iterator<Item = u64> {
    (0..SINGLES).map(move |i| (number * SINGLES + i) % SLOTS)
}

/// Which batch a counter says was the last.
fn last(store: &Store, writer: u64, counter: u64) -> Option<u64> {
    let found = store.get(&counter_key(writer, counter)).expect("a read")?;
    let digits = found.iter().position(|byte| *byte == b':').expect("a value ends its number");
    let number = std::str::from_utf8(&found[..digits]).expect("digits").parse().expect("digits");
    assert!(*found == value(number, counter)[..], "counter {counter} of {writer} has another value");
    Some(number)
}

/// Not a test: the child. It overwrites until it is killed, prints `ack writer number` for each batch, and now and then `did`
/// with the passes of cleaning and the checkpoints of the index that `stat` counts.
#[test]
fn child_that_overwrites() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (durability, dir) = task.split_once(' ').expect("a durability and a directory");
    let durability = durability.parse::<Durability>().expect("a durability");
    let options = Options::new().engine("log").partitions(8).space_amplification(1.2);
    let store = options.open(dir, &small()).expect("the store opens");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut number = last(store, writer, 0).map_or(0, |number| number + 1);
                loop {
                    for slot in slots(number) {
                        store.put_with(&slot_key(writer, slot), &value(number, slot), durability).expect("a write");
                    }
                    let mut batch = Batch::new();
                    for counter in 0..COUNTERS {
                        batch.put(&counter_key(writer, counter), &value(number, counter));
                    }
                    store.write_with(&batch, durability).expect("a batch");
                    println!("ack {writer} {number}");
                    if number % TOLD_EVERY == writer {
                        let (cleaned, saved) = figures(store);
                        println!("did {cleaned} {saved}");
                    }
                    number += 1;
                }
            });
        }
    });
}

/// Passes of cleaning and checkpoints of the index since the store was opened, of all partitions together.
fn figures(store: &Store) -> (u64, u64) {
    let stats = store.stats().expect("figures");
    let cleaned = stats.instances.iter().filter_map(|stats| stats.compaction.as_ref()).map(|done| done.count).sum();
    let saved = stats.instances.iter().filter_map(|stats| stats.index).map(|index| index.checkpoints).sum();
    (cleaned, saved)
}

/// What a child was heard to say before it died.
#[derive(Default)]
struct Heard {
    acked: BTreeMap<u64, u64>,
    cleaned: u64,
    saved: u64,
}

impl Heard {
    /// Take a line of the child's in; whether it acknowledges a batch.
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<_> = line.split(' ').skip_while(|word| !["ack", "did"].contains(word)).collect();
        let [word, a, b] = words[..] else { return false };
        let (Ok(a), Ok(b)) = (a.parse::<u64>(), b.parse::<u64>()) else { return false };
        if word == "ack" {
            self.acked.insert(a, b);
        } else {
            (self.cleaned, self.saved) = (self.cleaned.max(a), self.saved.max(b));
        }
        word == "ack"
    }
}

#[test]
fn a_log_that_is_cleaned_and_saved_while_it_is_killed_loses_nothing_acknowledged() {
    let rounds = rounds("BIOMBO_KILL_LOG_ROUNDS", 10);
    let begin = Instant::now();
    let mut dice = Dice(4711);
    let mut dir = tempdir().expect("a directory");
    let (mut done, mut busy, mut batches, mut cleaned, mut saved, mut with_both) = (0u64, 0, 0, 0, 0, 0u64);
    // A machine that is busy with other things cleans less before each kill: then there are more rounds, up to three times as many.
    for round in 0..3 * rounds {
        if round >= rounds && with_both * 4 >= rounds {
            break;
        }
        done = round + 1;
        if round % ROUNDS_A_STORE == 0 {
            dir = tempdir().expect("a directory");
        }
        let durability = if round % 2 == 0 { "os" } else { "sync" };
        let child = this_program("child_that_overwrites", CHILD, durability, &dir.path().join("s"));
        let what = format!("{durability}, round {round}");
        let heard = kill_soon(child, &mut dice, &what, Heard::hear);
        if !heard.acked.is_empty() {
            busy += 1;
            batches += check(&dir.path().join("s"), &heard.acked, &what);
            run("verify DIR/s", dir.path()).ok();
        }
        cleaned += heard.cleaned;
        saved += heard.saved;
        with_both += u64::from(heard.cleaned > 0 && heard.saved > 0);
    }
    report(&format!(
        "log, cleaned and saved: {done} kills, {busy} of a writer at work; {batches} batches, at least {cleaned} passes of \
         cleaning and {saved} checkpoints of the index, both in {with_both} rounds, in {:.1} s",
        begin.elapsed().as_secs_f64()
    ));
    assert!(busy * 2 >= done, "only {busy} of {done} kills hit a writer at work: nothing is shown");
    assert!(with_both * 4 >= rounds, "cleaned and saved in {with_both} of {done} rounds only: nothing is shown");
}

/// Open what the kill left and look at every key; returns how many batches there were.
fn check(dir: &Path, acked: &BTreeMap<u64, u64>, what: &str) -> u64 {
    let store = Options::new().create(false).open(dir, &biombo::registry()).expect("the store opens");
    let mut batches = 0;
    for writer in 0..WRITERS {
        let counters: Vec<_> = (0..COUNTERS).map(|counter| last(&store, writer, counter)).collect();
        assert!(counters.iter().all(|c| *c == counters[0]), "{what}: a batch is halved: counters {counters:?}");
        let acked = acked.get(&writer).copied();
        assert!(counters[0] >= acked, "{what}: batch {acked:?} was acknowledged, the store has {:?}", counters[0]);
        // The batch that was under way had some of its single writes done.
        let next = counters[0].map_or(0, |last| last + 1);
        batches += next;
        let mut expected = BTreeMap::new();
        let turns = SLOTS / SINGLES + 1;
        for number in next.saturating_sub(turns)..next {
            expected.extend(slots(number).map(|slot| (slot, number)));
        }
        for slot in 0..SLOTS {
            let found = store.get(&slot_key(writer, slot)).expect("a read");
            let before = expected.get(&slot).map(|number| value(*number, slot));
            let is_next = slots(next).any(|s| s == slot) && found.as_deref() == Some(&value(next, slot)[..]);
            assert!(
                is_next || found.as_deref() == before.as_deref(),
                "{what}: slot {slot} of writer {writer} has {:?} instead of {:?} after batch {:?}",
                found.as_deref().map(|value| value.escape_ascii().take(20).map(char::from).collect::<String>()),
                expected.get(&slot),
                counters[0]
            );
        }
    }
    batches
}
