//! What is done: the YCSB core workloads and the generators under them.
//!
//! - [`Workload`], [`OpKind`], [`Distribution`]: the definitions;
//! - [`Stream`]: the operations of one client thread, reproducible by seed;
//! - [`Keys`], [`Values`]: the bytes of a record;
//! - [`Inserts`]: which records exist;
//! - [`zipfian`], [`Chooser`], [`Random`]: the distributions.

pub mod chooser;
pub mod core;
pub mod inserts;
pub mod keys;
pub mod random;
pub mod stream;
pub mod values;
pub mod zipfian;

pub use chooser::Chooser;
pub use core::{Distribution, OpKind, Workload};
pub use inserts::Inserts;
pub use keys::Keys;
pub use random::Random;
pub use stream::{Operation, Stream};
pub use values::Values;
