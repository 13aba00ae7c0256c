//! Where a graph's arrays live.
//!
//! `dram`: [`Array`], memory that ends with the process.

#[expect(unsafe_code, reason = "memory of its own, under rules of SAFETY.md")]
mod array;

pub use array::{Array, Plain};
