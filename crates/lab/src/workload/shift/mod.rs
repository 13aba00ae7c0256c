//! Workloads that shift: where the load is changes while they run.
//!
//! - [`Shift`]: which one, with all its parameters; [`ShiftKind`]: the exact definitions;
//! - [`clock`]: which period a moment lies in, and the [`Mark`]s of a run;
//! - [`ShiftStream`]: the operations of one client thread; [`hot`], [`groups`]: which records they are for;
//! - [`Common`]: what the threads share: chosen records, and the [`Adversary`].
//!
//! Invariants:
//!
//! 1. No clock is read here. Every function is given the nanoseconds since the run phase began; a test gives what it likes.
//! 2. What a thread draws depends on the seed, the thread and the position alone; which record a draw names, also on the
//!    period it falls into (and for the adversary on where the records are then).
//! 3. The same records are hot over every engine and layout: those in one slot or partition are chosen by hash placement,
//!    whatever the layout is.

pub mod adversary;
pub mod clock;
mod common;
mod definition;
pub mod groups;
pub mod hot;
mod kind;
mod stream;

pub use adversary::{Adversary, Whereabouts};
pub use clock::{Mark, MarkKind};
pub use common::Common;
pub use definition::Shift;
pub use kind::ShiftKind;
pub use stream::{ShiftOperation, ShiftStream};
