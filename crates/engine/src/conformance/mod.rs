//! The conformance suite of the Engine contract, for any engine and for anything that claims to be one (a partitioned
//! store behind an adapter).
//!
//! A [`Subject`] is something that opens an [`Engine`](crate::Engine) in a directory. Each check is a function from a
//! subject to nothing that panics with what the engine did and what it should have done. [`conformance_tests!`](crate::conformance_tests) makes one
//! `#[test]` of each, so that a failure has a name and tests run in parallel; [`run_all`] runs them one after another.
//!
//! ```
//! use biombo_engine::conformance::{Subject, check_points_put_overwrite_delete};
//!
//! fn memory() -> Subject {
//!     Subject::from_kind(&biombo_engine::memory::kind())
//! }
//!
//! // In a test: a module `all_checks` with one `#[test]` for each check.
//! biombo_engine::conformance_tests!(all_checks, memory());
//!
//! fn main() {
//!     check_points_put_overwrite_delete(&memory());
//! }
//! ```
//!
//! What holds for every check:
//!
//! 1. It assumes nothing beyond the contract and the declared [`Capabilities`](crate::Capabilities); what is not declared
//!    must answer `Unsupported`, and is not tested further.
//! 2. It works in a temporary directory of its own.
//! 3. It ends: random checks stop after [`Subject::budget`], and every check fails after a minute or two without an answer
//!    (an engine that waits for itself would otherwise hold up all tests).
//!
//! `BIOMBO_CAMPAIGN_SECONDS` replaces the budget of each random check, `PROPTEST_CASES` the number of its cases. Failing
//! seeds are kept under `proptest-regressions/` of the crate whose test ran, and are tried first from then on.
//!
//! What it cannot see, and other tests must: a missing device sync, the death of a process; a power cut is in
//! [`crash_suite`](crate::crash_suite).

pub mod history;
pub mod model;
pub mod sequence;
pub mod subject;

mod batches;
mod checkpoints;
mod cursors;
mod declared;
mod figures;
mod limits;
mod ownership;
mod points;
mod random;
mod ranges;
mod reopen;
mod snapshots;
mod threads;

pub use batches::*;
pub use checkpoints::*;
pub use cursors::*;
pub use declared::*;
pub use figures::*;
pub use limits::*;
pub use ownership::*;
pub use points::*;
pub use random::*;
pub use ranges::*;
pub use reopen::*;
pub use snapshots::*;
pub use subject::{Instance, Opener, Subject};
pub use threads::*;

/// One check by name.
pub type Check = (&'static str, fn(&Subject));

/// Hands the names of all checks to another macro: the one place where they are listed.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_checks {
    ($callback:ident { $($args:tt)* }) => {
        $crate::$callback! {
            { $($args)* }
            check_declared_capabilities_are_the_opened_ones
            check_undeclared_is_unsupported
            check_points_put_overwrite_delete
            check_get_into_clears_and_fills
            check_multi_get_reads_each_in_order
            check_nasty_keys_are_distinct
            check_held_value_survives_later_writes
            check_later_operation_of_a_batch_wins
            check_empty_and_large_batches
            check_range_deletes_inside_batches_keep_their_place
            check_delete_range_bounds
            check_delete_range_with_bounds_past_the_longest_key
            check_delete_range_of_many_keys
            check_cursor_without_position_stays_nowhere
            check_cursor_walks_both_ways
            check_cursor_seeks_between_keys
            check_cursor_seeks_past_the_longest_key
            check_cursor_keeps_the_view_of_its_beginning
            check_snapshot_held_across_writes
            check_snapshots_and_cursors_outlive_handles
            check_many_snapshots_and_cursors_at_once
            check_key_limits
            check_value_limits
            check_invalid_operation_leaves_its_batch_unapplied
            check_large_values
            check_random_operations
            check_random_cursor_walks
            check_random_snapshots
            check_random_reopens
            check_reads_follow_acknowledged_writes
            check_single_keys_are_linearizable
            check_batches_are_atomic_to_snapshots
            check_snapshots_are_one_point_in_history
            check_cursors_under_concurrent_writes
            check_many_threads_hold_values
            check_cursors_and_snapshots_move_between_threads
            check_reopen_after_each_durability
            check_reopen_many_times
            check_second_instance_is_refused
            check_directory_of_another_program_is_refused
            check_checkpoint_is_one_point_under_writes
            check_checkpoint_destination_must_be_empty
            check_stats_are_plausible
            check_verify_counts_the_live_keys
            check_compact_keeps_everything
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_table {
    ({} $($check:ident)*) => {
        /// All checks, in the order in which [`run_all`] runs them.
        pub const CHECKS: &[$crate::conformance::Check] = &[$((stringify!($check), $check)),*];
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    ({ $(#[$attribute:meta])* $module:ident, $subject:expr } $($check:ident)*) => {
        $(#[$attribute])*
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $check() {
                    match ::core::convert::Into::<Option<$crate::conformance::Subject>>::into($subject) {
                        Some(subject) => $crate::conformance::$check(&subject),
                        None => println!("skipped: this machine lacks what the engine needs"),
                    }
                }
            )*
        }
    };
}

/// A module `$module` with one `#[test]` for each check of the suite. `$subject` is an expression of type [`Subject`](crate::conformance::Subject)
/// or `Option<Subject>`, evaluated once in each test; `None` where this machine lacks what the engine needs, which the tests say and pass.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])* $module:ident, $subject:expr $(,)?) => {
        $crate::__conformance_checks! { __conformance_module { $(#[$attribute])* $module, $subject } }
    };
}

__conformance_checks! { __conformance_table {} }

/// Run every check and panic at the end with the names of those that failed (each has said why on stderr).
pub fn run_all(subject: &Subject) {
    let failed: Vec<&str> = CHECKS
        .iter()
        .filter(|(_, check)| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(subject))).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert!(
        failed.is_empty(),
        "{}: {} of {} checks failed: {}",
        subject.name,
        failed.len(),
        CHECKS.len(),
        failed.join(", ")
    );
}
