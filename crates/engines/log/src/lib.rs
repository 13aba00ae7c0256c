//! The native engine of Biombo: the log is the data.
//!
//! Records are written once, to an append-only log ([`biombo_journal::Log`]); there is no other copy and no log beside it. An
//! index in memory ([`index`]) leads from each key to the newest record; what snapshots need of older ones is kept beside it.
//!
//! ```
//! use biombo_engine::{Durability, Engine, Op, OpenOptions};
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let dir = dir.path();
//! let engine = (biombo_log::kind().open)(&OpenOptions::new(dir))?;
//! engine.apply(&[Op::Put { key: b"screen", value: b"folding" }], Durability::Sync)?;
//! assert_eq!(engine.get(b"screen")?.as_deref(), Some(&b"folding"[..]));
//! # Ok::<(), biombo_engine::Error>(())
//! ```
//!
//! Modules: `record` (what stands in a record), [`index`], `versions` (what snapshots need), `accounts` (what is live),
//! `engine` (one instance), `write`, `read`, `cursor`, `keys` (the footers of segments), `checkpoint` (images of the index),
//! `recover`, `copy`, `clean` (getting space back), `verify`, `repair`, `inspect` (figures).

#![deny(unsafe_code)]

mod accounts;
mod checkpoint;
mod clean;
mod copy;
mod cursor;
mod engine;
pub mod index;
mod inspect;
mod keys;
#[cfg(test)]
mod model;
mod open;
mod options;
mod read;
mod record;
mod recover;
mod repair;
mod verify;
mod versions;
mod write;

pub use engine::LogEngine;
pub use open::{NAME, kind, open, open_with};
pub use options::LogEngineOptions;
