//! Graphs: directed or undirected, with any 64-bit numbers as vertex ids, and the kernels of the GAP benchmark over them.
//!
//! - [`input`] reads edges from files, [`generate`] draws them; [`ids`] numbers vertices densely; [`edges`] gathers all of it;
//! - [`media`] is where arrays live; [`team`] is the threads that work on them; [`numa`] deals vertices to nodes;
//! - [`view`] is what a kernel sees of a graph; [`csr`] is the static layout, [`pma`], [`adjacency`] and [`buffered`] are those that change;
//!   [`kernels`] are the analyses.
#![deny(unsafe_code)]

pub mod adjacency;
mod bitmap;
pub mod buffered;
pub mod csr;
pub mod edges;
pub mod generate;
pub mod ids;
pub mod input;
pub mod kernels;
pub mod media;
pub mod numa;
pub mod owner;
pub mod pma;
mod slots;
mod sync;
pub mod team;
pub mod view;

/// An edge from the first vertex to the second, by their dense numbers.
pub type Edge = [u32; 2];

/// The most vertices of a graph: dense numbers have 31 bits, the 32nd is for marks.
pub const VERTICES_MAX: usize = 1 << 31;
