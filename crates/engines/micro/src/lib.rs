//! Two small engines for the laboratory: a B+tree ([`btree`]) and an LSM-tree ([`lsm`]), complete, and with every byte counted where
//! it is put and where it is written.
//!
//! They are there to be measured and read, beside engines that are there to be used: one file of pages or tables each, past the
//! system's cache, no thread of their own. Each comes in two behaviours, under a name each:
//!
//! - *honest* (`micro-btree`, `micro-lsm`): a journal before everything ([`biombo_journal::Journal`]), so that what was
//!   acknowledged survives;
//! - *published* (`micro-btree-published`, `micro-lsm-published`): as such engines are often built for a comparison, without any log. The
//!   tree writes its page at each put; the LSM-tree keeps 1,000 records in memory. Nothing survives but a clean close.
//!
//! ```
//! use biombo_engine::{Durability, Engine, Op, OpenOptions};
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let dir = dir.path();
//! let engine = (biombo_micro::btree::kind(biombo_micro::Behaviour::Honest).open)(&OpenOptions::new(dir))?;
//! engine.apply(&[Op::Put { key: b"screen", value: b"folding" }], Durability::Sync)?;
//! assert_eq!(engine.get(b"screen")?.as_deref(), Some(&b"folding"[..]));
//! # Ok::<(), biombo_engine::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod btree;
mod figures;
mod heap;
mod home;
mod journaled;
pub mod lsm;
mod poison;
mod record;

use biombo_engine::Registry;

/// What is done for what was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Behaviour {
    /// A journal, write-back, checkpoints: it survives.
    Honest,
    /// No log at all.
    Published,
}

/// Add the engines of this crate.
pub fn register(registry: &mut Registry) {
    for behaviour in [Behaviour::Honest, Behaviour::Published] {
        registry.add(btree::kind(behaviour));
        registry.add(lsm::kind(behaviour));
    }
}
