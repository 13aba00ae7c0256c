//! What is done: YCSB's core workloads, db_bench's benchmarks, workloads that shift, recorded operations, and the generators under
//! them.
//!
//! - [`Workload`], [`Mix`], [`Benchmark`], [`Shift`], [`OpKind`], [`Distribution`]: the definitions; [`trace`]: recorded operations;
//!   [`Task`]: any of them;
//! - [`Stream`], [`Numbers`], [`ShiftStream`]: the operations of one client thread, reproducible by seed;
//! - [`Keys`], [`Values`]: the bytes of a record;
//! - [`Inserts`]: which records exist;
//! - [`zipfian`], [`Chooser`], [`Random`]: the distributions.

pub mod chooser;
pub mod core;
pub mod db;
pub mod inserts;
pub mod keys;
pub mod mix;
pub mod random;
pub mod shift;
mod shuffle;
pub mod stream;
pub mod task;
pub mod trace;
pub mod values;
pub mod zipfian;

pub use chooser::Chooser;
pub use core::{Distribution, OpKind, Workload};
pub use db::{Benchmark, Numbers};
pub use inserts::Inserts;
pub use keys::{KeyFormat, Keys};
pub use mix::Mix;
pub use random::Random;
pub use shift::{Shift, ShiftKind, ShiftOperation, ShiftStream};
pub use stream::{Operation, Stream};
pub use task::Task;
pub use values::Values;
