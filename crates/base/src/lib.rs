//! The ground floor of Biombo: what every other crate stands on and what knows none of them.
//!
//! - [`error`]: the one public error type of the project;
//! - [`io`]: files behind one [`Io`](io::Io) trait, so that the same code runs on a real disk and on a simulated one
//!   that loses, tears and refuses writes;
//! - [`published`]: values that are read with one load and replaced as a whole;
//! - [`mod@prefetch`]: asking for memory ahead of its use;
//! - [`coding`], [`checksum`], [`clock`]: integers in bytes, CRC-32C, time that only goes forward;
//! - [`size`]: numbers of bytes as people write them;
//! - [`topology`]: processors, NUMA nodes, pinning; [`numa`]: which nodes memory lies on.
#![deny(missing_docs)]

pub mod checksum;
pub mod clock;
pub mod coding;
pub mod error;
pub mod io;
pub mod numa;
pub mod prefetch;
pub mod published;
pub mod size;
pub mod topology;

pub use error::{Error, ErrorKind, Result};
