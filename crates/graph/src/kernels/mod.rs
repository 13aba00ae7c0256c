//! The kernels of the GAP benchmark, over any layout: a file each, with its paper and its verifier.
//!
//! Each works by blocks of about equal edges, gives the same answer for any number of threads where the algorithm has one answer
//! (depths, scores, components; of several parents of the same depth any may be named), and takes its memory at the start.
//!
//! A verifier checks an answer against what defines it, by one thread and as plainly as possible: `Err` says what is wrong.

pub mod afforest;
pub mod bfs;
pub mod brandes;
pub mod components;
pub mod pagerank;
pub mod shiloach_vishkin;

pub use afforest::afforest;
pub use bfs::bfs;
pub use brandes::brandes;
pub use components::Components;
pub use pagerank::pagerank;
pub use shiloach_vishkin::shiloach_vishkin;

use biombo_base::{Error, Result};

/// Refuse a source that the graph does not have.
fn check_source(source: u32, vertices: usize) -> Result<()> {
    if (source as usize) < vertices {
        return Ok(());
    }
    Err(Error::invalid(format!("there is no vertex {source}: the graph has {vertices}")))
}

#[cfg(test)]
pub(crate) mod tests;
