//! What an instance counts, and what it leaves to its cache.

use std::sync::Arc;

use biombo_base::io::sim::{Crash, SimIo};
use biombo_base::io::{Io, RealIo};
use biombo_engine::{Durability, Engine, Op, OpenOptions};

use super::{LsmOptions, MicroLsm, open_with};
use crate::Behaviour;

const CACHE_BYTES: u64 = 1 << 20;

/// An instance with small tables that has `records` of 104 bytes, in the order of their keys.
fn loaded(dir: &std::path::Path, records: u32) -> Arc<MicroLsm> {
    let options = OpenOptions::new(dir);
    let own = LsmOptions {
        cache_bytes: CACHE_BYTES,
        memtable_bytes_max: 16 << 10,
        table_bytes: 8 << 10,
        level0_tables_max: 2,
        level1_bytes_max: 32 << 10,
        level_factor: 2,
        ..LsmOptions::of(&options, Behaviour::Honest)
    };
    let engine = open_with(RealIo::shared(), &options, &own, Behaviour::Honest).unwrap();
    for number in 0..records {
        let put = Op::Put { key: &number.to_be_bytes(), value: &[7; 100] };
        engine.apply(&[put], Durability::Os).unwrap();
    }
    engine
}

/// Were they compactions, most would be of no bytes and of no time, and so would the median.
#[test]
fn a_table_that_goes_a_level_down_as_it_is_is_no_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), 4_000);
    // In the order of keys nothing overlaps what is below: two tables of level 0 are merged at a time, all else moves.
    let figures = engine.stats().unwrap().compaction.unwrap();
    assert!(figures.count > 10 && figures.moves > figures.count, "{figures:?}");
    // A compaction writes both tables of level 0 anew, some 12 KB.
    assert!(figures.bytes / figures.count >= 8 << 10, "{figures:?}");
}

#[test]
fn filters_and_fences_are_taken_out_of_the_blocks_cache() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), 8_000);
    let (view, capacity) = (engine.view(), || engine.shared.cache.capacity());
    let lead_bytes = view.levels.lead_bytes();
    // A filter of 10 bits for each key, and the first key of each block of 4 KiB.
    assert!((8_000 * 10 / 8..200_000).contains(&lead_bytes), "{lead_bytes}");
    // In steps of a sixty-fourth.
    let due = CACHE_BYTES - lead_bytes;
    assert!((due - CACHE_BYTES / 64..=due + 64).contains(&capacity()), "{} of {due}", capacity());
    // Where they take nearly all, some is left to blocks; without a cache nothing is.
    view.levels.leave_room(&engine.shared, lead_bytes + (32 << 10));
    assert!(capacity().abs_diff(64 << 10) <= 64, "{}", capacity());
    view.levels.leave_room(&engine.shared, 0);
    assert_eq!(capacity(), 0);
}

/// The memtable alone does not grow by keys that are put again and again: their journal would, to the end of the disk, and so would the time of an
/// opening. (Mutations: the bound not looked at; what an opening takes up not counted.)
#[test]
fn a_journal_of_few_keys_is_bounded_whoever_is_killed() {
    const BOUND: u64 = 64 << 10;
    let options = OpenOptions::new("db");
    let own = LsmOptions { journaled_bytes_max: BOUND, ..LsmOptions::of(&options, Behaviour::Honest) };
    let open = |io: &SimIo| {
        let io: Arc<dyn Io> = Arc::new(io.clone());
        open_with(io, &options, &own, Behaviour::Honest).unwrap()
    };
    let io = SimIo::new(1);
    io.create_dir_all(&options.dir).unwrap();
    let engine = open(&io);
    let journaled = |engine: &MicroLsm| engine.writer.lock().unwrap().journaled_bytes;
    let (mut flushes, mut before) = (0, 0);
    for number in 0..400u32 {
        let put = Op::Put { key: b"key", value: &number.to_be_bytes().repeat(250) };
        engine.apply(&[put], Durability::Os).unwrap();
        let now = journaled(&engine);
        assert!(now < BOUND + (2 << 10), "{now}");
        flushes += u32::from(now < before);
        before = now;
    }
    assert!((4..=7).contains(&flushes), "{flushes}");
    let killed = open(&io.crash(io.event_count(), Crash::Kill));
    assert!(before > 1 << 10 && journaled(&killed) == before, "{} of {before}", journaled(&killed));
    assert_eq!(killed.get(b"key").unwrap().unwrap().into_vec(), 399u32.to_be_bytes().repeat(250));
}

/// Closing leaves what is to be compacted to the next one's first write: whoever opens, writes little and closes again and again has no more tables in
/// level 0 than that. (Mutation: nobody looks on the first write.)
#[test]
fn instances_that_are_closed_early_again_and_again_have_few_tables_in_level_0() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..12 {
        let engine = loaded(dir.path(), 20 + life);
        engine.close().unwrap();
        let tables = engine.view().levels.0[0].len();
        assert!(tables <= 2, "life {life}: {tables}");
    }
    assert_eq!(loaded(dir.path(), 0).stats().unwrap().keys.map(|keys| keys >= 31), Some(true));
}
