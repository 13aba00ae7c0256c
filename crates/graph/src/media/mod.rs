//! Where a graph's arrays live.
//!
//! `dram`: [`Array`], memory that ends with the process. The static layout on `disk` is read into such arrays, and written through
//! [`Io`](biombo_base::io::Io), whose simulated disk sees every step.

#[expect(unsafe_code, reason = "memory of its own, under rules of SAFETY.md")]
mod array;

pub use array::{Array, Plain};
