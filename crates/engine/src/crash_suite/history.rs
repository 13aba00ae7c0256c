//! Random histories of one instance.

use biombo_base::io::sim::{Random, SimIo};

use super::found::contents;
use super::{Model, Subject};
use crate::{Batch, Durability, Engine};

const LETTERS: u64 = 10;
const KINDS: u64 = 6;

/// A key of a small universe; some are prefixes of others, some so long that few fit a page.
fn key_of(letter: u64, kind: u64) -> Vec<u8> {
    let mut key = vec![b'a' + letter as u8];
    match kind {
        0 => {}
        1 => key.push(0),
        2 => key.extend_from_slice(b"a common middle"),
        3 => key.extend_from_slice(b"a common middle, and more"),
        long => {
            key.resize(400, b'm');
            key.push(b'0' + long as u8);
        }
    }
    key
}

/// All keys that histories have.
pub(super) fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..LETTERS).flat_map(|letter| (0..KINDS).map(move |kind| key_of(letter, kind)))
}

/// A random one of them.
pub fn key(random: &mut Random) -> Vec<u8> {
    let letter = random.below(LETTERS);
    key_of(letter, random.below(KINDS))
}

fn value(random: &mut Random, number: usize) -> Vec<u8> {
    let bytes = match random.below(40) {
        // So large that it shares no page, block or segment with others.
        0 => 9000,
        1..8 => 2000,
        _ => 300,
    };
    let mut value = vec![b'.'; random.below(bytes) as usize];
    value.extend_from_slice(number.to_string().as_bytes());
    value
}

/// Random operations for one call of `apply`, the `number`th, which the values tell.
pub fn random_batch(random: &mut Random, number: usize) -> Batch {
    let mut batch = Batch::new();
    let count = if random.below(2) == 0 { 1 } else { 2 + random.below(8) };
    for _ in 0..count {
        match random.below(24) {
            0..17 => batch.put(&key(random), &value(random, number)),
            17..21 => batch.delete(&key(random)),
            21..23 => batch.delete_range(&key(random), Some(&key(random))),
            _ => batch.delete_range(&key(random), (random.below(3) > 0).then_some(&b"e"[..])),
        };
    }
    batch
}

/// Work on `disk` for some steps: single operations, batches, both levels in runs, so that modes change, syncs, what the engine does
/// beside the contract, reopenings.
pub fn work<S: Subject>(subject: &S, disk: &SimIo, model: &mut Model, steps: usize, random: &mut Random) {
    let begun = disk.event_count();
    let mut engine = subject.open(disk).expect("open");
    model.stepped("recovery", begun, disk.event_count());
    assert_eq!(contents(&engine), *model.last(), "opened anew");
    let mut mostly_sync = random.below(2) == 0;
    for number in 0..steps {
        let begun = disk.event_count();
        match random.below(24) {
            0 => {
                engine.sync().expect("sync");
                model.synced(disk.event_count());
                model.stepped("sync", begun, disk.event_count());
            }
            1 => {
                drop(engine);
                // An instance that is closed is durable.
                model.synced(disk.event_count());
                model.stepped("closing", begun, disk.event_count());
                let begun = disk.event_count();
                engine = subject.open(disk).expect("reopen");
                model.stepped("recovery", begun, disk.event_count());
            }
            2 => mostly_sync = !mostly_sync,
            3..9 if subject.maintain(&engine, disk, model, random) => {}
            _ => {
                let batch = random_batch(random, number);
                let sync = mostly_sync != (random.below(8) == 0);
                model.begin(&batch.to_ops());
                engine.apply(&batch.to_ops(), if sync { Durability::Sync } else { Durability::Os }).expect("apply");
                model.acked(disk.event_count());
                if sync {
                    model.synced(disk.event_count());
                }
                let name = if sync && batch.len() > 1 { "group commit" } else { "append" };
                model.stepped(name, begun, disk.event_count());
            }
        }
    }
    assert_eq!(contents(&engine), *model.last(), "without a crash");
    if random.below(2) == 0 {
        subject.settle(&engine, disk, model);
        subject.audit(&engine, disk, "without a crash");
    }
    let begun = disk.event_count();
    drop(engine);
    model.synced(disk.event_count());
    model.stepped("closing", begun, disk.event_count());
}
