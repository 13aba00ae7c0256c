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
//! The layer below is the [`Log`]: one writer, and readers by [`Position`] who take no lock.
//!
//! ```
//! use biombo_base::io::RealIo;
//! use biombo_journal::{Durability, Log, LogOptions, Lsn, Position};
//!
//! # fn main() -> biombo_base::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| biombo_base::Error::io("make a directory", e))?;
//! # let dir = dir.path().join("log");
//! let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
//! let (mut log, reader) = Log::open(RealIo::shared(), &dir, options.clone(), &mut |_: Position, _: Lsn, _: &[u8]| Ok(()))?;
//! let mut at = Vec::new();
//! log.append(&[&[b"key", b"=", b"value"], &[b"other"]], Durability::Os, &mut at)?;
//! let guard = reader.pin();
//! assert_eq!(reader.get(&guard, at[0])?.as_deref(), Some(&b"key=value"[..]));
//! assert_eq!(*reader.read_verified(&guard, at[1])?, *b"other");
//! drop((guard, reader, log));
//!
//! let mut found = Vec::new();
//! Log::open(RealIo::shared(), &dir, options, &mut |at: Position, _: Lsn, _: &[u8]| {
//!     found.push(at);
//!     Ok(())
//! })?;
//! assert_eq!(found, at);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, from the bytes up: [`mod@format`] (headers and records), `frame` (laying out a batch), `footer`, `names`
//! (files), `manifest` (which segments exist), `reader` (one segment's file), `recovery` and `replay` (opening), `files`
//! (the segments in use), `supply` (their files: made, kept, removed), `edits` (of the manifest, from any thread), `prepare` (work ahead
//! of the writer), `sealing` (what is left to do when a segment is written no more), `table` (readers), `direct` and `cache` (records
//! read past the page cache), `flush` (what is sealed and not synced), `chooser` (modes),
//! `active` (the segment that is written), `cold` (segments written apart), `walk` (their records in order), `log`, `install` (segments that go and come), `group` (what is gathered for the next
//! write), `journal` (group commit), `repair` (of what is damaged).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod active;
mod ahead;
mod cache;
mod chooser;
mod cold;
mod direct;
mod edits;
mod failure;
mod files;
mod flush;
mod footer;
pub mod format;
mod frame;
mod group;
mod install;
mod journal;
mod log;
mod manifest;
mod names;
mod options;
mod position;
mod prepare;
mod reader;
mod recovery;
mod repair;
mod replay;
mod sealing;
mod supply;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub use cold::{ColdSegment, ColdWriter};
pub use direct::Loaded;
pub use flush::Flusher;
pub use format::BATCH_BYTES_MAX;
pub use install::{Installing, Replaced};
pub use journal::Journal;
pub use log::{Footers, Log, Parts};
pub use options::{
    Durability, JournalOptions, JournalStats, LogOptions, LogStats, Lsn, Mode, Modes, SegmentInfo, SegmentKind,
};
pub use position::{Position, SegmentNumber};
pub use prepare::{Preparer, Preparing};
pub use repair::{Loss, Repaired, Salvage};
pub use replay::{Replay, Wants};
pub use table::{Ahead, Found, Kept, LogReader, Segment};
pub use walk::Walk;
