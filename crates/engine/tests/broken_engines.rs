//! Engines that are broken on purpose, each in one way, and the checks of the suite that must fail on each: a check that
//! no broken engine fails would prove nothing. The same engine without a fault passes all of them.

#![allow(clippy::unwrap_used, reason = "the broken engine serves these tests only")]

#[path = "broken/engine.rs"]
mod engine;
#[path = "broken/fault.rs"]
mod fault;
#[path = "broken/views.rs"]
mod views;

use std::time::Duration;

use biombo_engine::conformance::{CHECKS, Subject};

use engine::{Faulty, capabilities};
use fault::Fault;

fn subject(fault: Fault) -> Subject {
    Subject::new(format!("{fault:?}"), capabilities(fault), move |dir| Faulty::open(dir, fault))
        .without_regressions()
        .with_budget(Duration::from_millis(500))
}

biombo_engine::conformance_tests!(sound, subject(Fault::None));

fn fails(fault: Fault, name: &str) -> bool {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no check {name}"));
    std::panic::catch_unwind(|| check(&subject(fault))).is_err()
}

/// One test for each fault, and the table of what catches it.
macro_rules! caught {
    ($($test:ident: $fault:ident by $($check:ident)+;)*) => {
        $(#[test]
        fn $test() {
            let slept: Vec<&str> = [$(stringify!($check)),+].into_iter().filter(|check| !fails(Fault::$fault, check)).collect();
            assert!(slept.is_empty(), "{:?} passes {slept:?}", Fault::$fault);
        })*

        const CATCHERS: &[&str] = &[$($(stringify!($check)),+),*];
    };
}

caught! {
    other_capabilities_than_declared: DeclaresOtherwise by check_declared_capabilities_are_the_opened_ones;
    undeclared_snapshots: TakesUndeclaredSnapshots by check_undeclared_is_unsupported;
    empty_values_taken_for_absent: ForgetsEmptyValues by check_points_put_overwrite_delete check_random_operations;
    get_into_that_does_not_clear: GetIntoKeepsTheOld by check_get_into_clears_and_fills check_random_operations;
    multi_get_in_the_order_of_keys: SortsKeysOfMultiGet by check_multi_get_reads_each_in_order;
    keys_cut_at_a_length_byte: CutsKeysAt255 by check_nasty_keys_are_distinct check_key_limits;
    held_values_that_change: HeldValuesChange by check_held_value_survives_later_writes;
    last_operation_of_a_batch_lost: LosesLastOfBatch by check_later_operation_of_a_batch_wins check_random_operations;
    first_operation_of_a_batch_wins: FirstOfBatchWins by check_later_operation_of_a_batch_wins check_random_operations;
    large_batches_cut: CutsLargeBatches by check_empty_and_large_batches;
    range_deletes_before_their_batch: RangesGoFirst by check_range_deletes_inside_batches_keep_their_place;
    range_delete_with_its_end: RangeEndIncluded by check_delete_range_bounds check_random_operations;
    range_bounds_taken_for_keys: RefusesLongBounds by check_delete_range_with_bounds_past_the_longest_key;
    range_deletes_that_stop: RangesStopAt10000 by check_delete_range_of_many_keys;
    cursor_that_comes_round: CursorComesRound by check_cursor_without_position_stays_nowhere check_random_cursor_walks;
    cursor_that_stays_when_turning: CursorStaysWhenTurning by check_cursor_walks_both_ways check_random_cursor_walks;
    seek_off_by_one: SeekExcludesItsKey by check_cursor_seeks_between_keys check_random_cursor_walks;
    seek_targets_taken_for_keys: RefusesLongSeeks by check_cursor_seeks_past_the_longest_key;
    cursor_that_sees_new_writes: CursorSeesNewWrites by check_cursor_keeps_the_view_of_its_beginning check_random_snapshots;
    snapshot_that_sees_new_writes: SnapshotSeesNewWrites by check_snapshot_held_across_writes check_random_snapshots;
    snapshots_that_end_with_the_handle: SnapshotsEndWithHandles by check_snapshots_and_cursors_outlive_handles;
    too_few_snapshots: Takes100SnapshotsAtMost by check_many_snapshots_and_cursors_at_once;
    empty_keys_taken: TakesEmptyKeys by check_key_limits check_invalid_operation_leaves_its_batch_unapplied;
    too_long_values_taken: TakesTooLongValues by check_value_limits;
    invalid_batches_applied_in_part: AppliesPartOfInvalidBatches by check_invalid_operation_leaves_its_batch_unapplied;
    values_cut_at_a_length_field: CutsValuesAt65535 by check_large_values;
    stale_reads: ReadsStale by check_reads_follow_acknowledged_writes check_single_keys_are_linearizable;
    half_batches_visible: ShowsHalfBatches by check_batches_are_atomic_to_snapshots;
    snapshots_of_two_instants: SnapshotsOfTwoInstants by check_snapshots_are_one_point_in_history check_batches_are_atomic_to_snapshots;
    cursor_that_skips_under_writes: CursorSkipsWhenWritten by check_cursors_under_concurrent_writes;
    too_few_held_values: Takes100ValuesAtMost by check_many_threads_hold_values;
    writes_lost_at_a_clean_close: LosesUnsynced by check_reopen_after_each_durability check_reopen_many_times check_random_reopens;
    two_instances_at_once: OpensTwice by check_second_instance_is_refused;
    directories_of_others_taken: TakesForeignDirectories by check_directory_of_another_program_is_refused;
    checkpoints_of_two_instants: CheckpointsOfTwoInstants by check_checkpoint_is_one_point_under_writes;
    checkpoints_over_other_files: OverwritesDestinations by check_checkpoint_destination_must_be_empty;
    one_key_too_many_in_stats: CountsOneTooMany by check_stats_are_plausible;
    one_key_too_many_in_verify: VerifiesOneTooMany by check_verify_counts_the_live_keys;
    cursors_bound_to_their_thread: CursorsBoundToThreads by check_cursors_and_snapshots_move_between_threads;
    a_key_lost_in_compaction: CompactsAKeyAway by check_compact_keeps_everything check_random_operations;
}

#[test]
fn every_check_catches_a_broken_engine() {
    let idle: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).filter(|name| !CATCHERS.contains(name)).collect();
    assert!(idle.is_empty(), "no broken engine fails {idle:?}");
}

#[test]
#[should_panic(expected = "1 of 45 checks failed: check_stats_are_plausible")]
fn run_all_names_every_check_that_failed() {
    biombo_engine::conformance::run_all(&subject(Fault::CountsOneTooMany).with_budget(Duration::from_millis(10)));
}
