//! The crash campaign of `micro-btree` (see [`biombo_engine::crash_suite`]).

mod subject;

use std::sync::Arc;

use biombo_base::io::sim::Random;
use biombo_engine::OpenOptions;
use biombo_engine::crash_suite::{DIR, old_disks_are_found_out, run};
use biombo_micro::Behaviour;
use biombo_micro::btree::{BtreeOptions, open_with};
use subject::Subject;

/// Few pages in memory, checkpoints often, journals of small segments.
fn random_subject(random: &mut Random) -> Subject {
    let mut own = BtreeOptions {
        cache_pages: [1, 4, 64][random.below(3) as usize],
        dirty_pages_max: [0, 2, 8, 1000][random.below(4) as usize],
        checkpoint_bytes: [1 << 10, 8 << 10, 32 << 10][random.below(3) as usize],
        ..BtreeOptions::of(&OpenOptions::new(DIR))
    };
    own.journal.segment_bytes = [8 << 10, 16 << 10, 64 << 10][random.below(3) as usize];
    own.journal.recycle_segments_max = random.below(2) as usize;
    own.journal.unsynced_segments_max = random.below(3) as usize;
    Subject::new(move |io| open_with(Arc::new(io.clone()), &OpenOptions::new(DIR), &own, Behaviour::Honest))
}

/// What the engine does, and what it does to its disk meanwhile: each must have been cut.
const STEPS: [&str; 34] = [
    "append",
    "group commit",
    "sync",
    "compact",
    "head",
    "closing",
    "recovery",
    "recovery cut",
    "written to after a crash",
    "refused while it recovered",
    "create BIOMBO-MICRO",
    "write BIOMBO-MICRO",
    "sync BIOMBO-MICRO",
    "sync_dir db",
    "create tree.pages",
    "write tree.pages",
    "sync tree.pages",
    "set_len tree.pages",
    "mkdir journal",
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
    "sync_dir journal",
    "store #.seg",
    "write #.seg",
    "sync #.seg",
];

#[test]
fn whatever_a_crash_cuts_a_state_of_the_history_is_left_with_all_that_was_promised() {
    run("micro-btree", random_subject, &STEPS, 5_000);
}

#[test]
fn a_disk_that_went_back_in_time_is_found_out() {
    old_disks_are_found_out(random_subject);
}
