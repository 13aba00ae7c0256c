//! The one append-only log of Biombo: segments, checksummed frames, group commit, recycling, recovery.
//!
//! The bytes on disk, and why they survive a crash, are described in `docs/format/journal.md`. This crate knows nothing
//! of what is in a record.
//!
//! ```
//! use std::sync::Arc;
//! use biombo_base::io::RealIo;
//! use biombo_journal::{Durability, Journal, JournalOptions};
//!
//! # fn main() -> biombo_base::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| biombo_base::Error::io("make a directory", e))?;
//! # let dir = dir.path().join("journal");
//! let options = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::default() };
//! let journal = Journal::open(RealIo::shared(), &dir, options.clone(), &mut |_, _| Ok(()))?;
//! let first = journal.append(b"one", Durability::Sync)?;
//! journal.append_batch(&[b"two", b"three"], Durability::Sync)?;
//! drop(journal);
//!
//! let mut seen = Vec::new();
//! let journal = Journal::open(RealIo::shared(), &dir, options, &mut |lsn, record| {
//!     seen.push((lsn, record.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(seen.len(), 3);
//! assert_eq!(seen[0], (first, b"one".to_vec()));
//! assert_eq!(journal.next_lsn().0, first.0 + 3);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, from the bytes up: [`mod@format`] (headers and frames), `names` (files), `reader` (one segment), `recovery`
//! (the chain of segments), `segments` (trim and recycling), `writer` (the active segment), `group` (what is gathered for
//! the next write), `journal` (group commit).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod format;
mod group;
mod journal;
mod names;
mod options;
mod reader;
mod recovery;
mod segments;
#[cfg(test)]
mod tests;
mod writer;

pub use format::BATCH_BYTES_MAX;
pub use journal::Journal;
pub use options::{Durability, JournalOptions, JournalStats, Lsn, Mode};
