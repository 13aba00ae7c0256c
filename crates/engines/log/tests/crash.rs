//! The crash campaign of the log engine (see [`biombo_engine::crash_suite`]): random histories through small segments, checkpoints,
//! cleaning and reopenings; repairs of damaged images cut as well.

mod subject;

use biombo_engine::crash_suite::{old_disks_are_found_out, run};
use subject::Subject;

const IMAGES_MIN: usize = 20_000;

/// What the engine does, and what it does to its disk meanwhile: each must have been cut.
const STEPS: [&str; 40] = [
    "append",
    "group commit",
    "segment switch",
    "sync",
    "checkpoint",
    "cleaning: copy",
    "cleaning: finish",
    "cleaning: settle",
    "cleaning: install",
    "cleaning: release",
    "cleaning: all",
    "closing",
    "recovery",
    "recovery cut",
    "repair",
    "written to after a crash",
    "refused while it recovered",
    "mkdir db",
    "mkdir log",
    "create LOCK",
    "create MANIFEST.new",
    "write MANIFEST.new",
    "sync MANIFEST.new",
    "rename MANIFEST.new -> MANIFEST",
    "write MANIFEST",
    "create #.new",
    "allocate #.new",
    "write #.new",
    "sync #.new",
    "rename #.new -> #.seg",
    "sync_dir log",
    "store #.seg",
    "write #.seg",
    "sync #.seg",
    "create #.index-new",
    "write #.index-new",
    "sync #.index-new",
    "rename #.index-new -> #.index",
    "sync_dir db",
    "remove #.index",
];

#[test]
fn whatever_a_crash_cuts_a_state_of_the_history_is_left_with_all_that_was_promised() {
    run("log engine", Subject::random, &STEPS, IMAGES_MIN);
}

#[test]
fn a_disk_that_went_back_in_time_is_found_out() {
    old_disks_are_found_out(Subject::random);
}
