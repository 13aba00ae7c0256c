//! The crash campaign of `micro-lsm` (see [`biombo_engine::crash_suite`]).

mod subject;

use std::sync::Arc;

use biombo_base::io::sim::Random;
use biombo_engine::OpenOptions;
use biombo_engine::crash_suite::{DIR, old_disks_are_found_out, run};
use biombo_micro::Behaviour;
use biombo_micro::lsm::{LsmOptions, open_with};
use subject::Subject;

/// Small memtables and tables, so that a short history fills several levels; journals of small segments.
fn random_subject(random: &mut Random) -> Subject {
    let mut own = LsmOptions {
        cache_bytes: [0, 16 << 10, 1 << 20][random.below(3) as usize],
        memtable_bytes_max: [2 << 10, 8 << 10, 32 << 10][random.below(3) as usize],
        table_bytes: [4 << 10, 12 << 10][random.below(2) as usize],
        level0_tables_max: 1 + random.below(3) as usize,
        level1_bytes_max: [12 << 10, 40 << 10][random.below(2) as usize],
        level_factor: 2,
        ..LsmOptions::of(&OpenOptions::new(DIR), Behaviour::Honest)
    };
    own.journal.segment_bytes = [8 << 10, 16 << 10, 64 << 10][random.below(3) as usize];
    own.journal.recycle_segments_max = random.below(2) as usize;
    own.journal.unsynced_segments_max = random.below(3) as usize;
    Subject::new(move |io| open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest))
}

/// What the engine does, and what it does to its disk meanwhile: each must have been cut.
const STEPS: [&str; 29] = [
    "append",
    "group commit",
    "sync",
    "compact",
    "closing",
    "recovery",
    "recovery cut",
    "written to after a crash",
    "refused while it recovered",
    "create BIOMBO-MICRO",
    "write BIOMBO-MICRO",
    "sync BIOMBO-MICRO",
    "sync_dir db",
    "create TABLES.new",
    "write TABLES.new",
    "sync TABLES.new",
    "rename TABLES.new -> TABLES",
    "create #.table",
    "set_len #.table",
    "write #.table",
    "sync #.table",
    "remove #.table",
    "mkdir journal",
    "create #.new",
    "sync #.new",
    "rename #.new -> #.seg",
    "store #.seg",
    "write #.seg",
    "sync #.seg",
];

#[test]
fn whatever_a_crash_cuts_a_state_of_the_history_is_left_with_all_that_was_promised() {
    run("micro-lsm", random_subject, &STEPS, 5_000);
}

#[test]
fn a_disk_that_went_back_in_time_is_found_out() {
    old_disks_are_found_out(random_subject);
}
