//! An embedded store for key-values whose partitions move to where the load is, while it goes on answering.
//!
//! This is the face: what an application depends on. It re-exports the store and the contract, and knows which engines the
//! build has (a Cargo feature each).
//!
//! ```
//! use biombo::{Batch, Options, Range};
//!
//! # fn main() -> biombo::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path().join("inventory");
//! let store = Options::new().partitions(4).open(&path, &biombo::registry())?; // all cores write; `biombo::open` for one partition
//! store.put(b"chair/1", b"oak")?; // on the device when this returns
//!
//! let mut batch = Batch::new();
//! batch.put(b"chair/2", b"ash").put(b"table/1", b"elm").delete(b"chair/1");
//! store.write(&batch)?; // all or nothing, through any crash, though the keys live in several partitions
//!
//! let mut chairs = store.scan(Range::prefix(b"chair/"))?;
//! while let Some((key, value)) = chairs.next()? {
//!     println!("{} is of {}", key.escape_ascii(), value.escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

use std::path::Path;

pub use biombo_base::io::IoMode;
pub use biombo_engine::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use biombo_engine::{
    Batch, Capabilities, Compaction, CompactionTail, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind,
    IndexFigures, Loss, Op, OpenOptions, Registry, Repaired, Result, Segments, Stats, Value, memory,
};
pub use biombo_graph as graph;
pub use biombo_store::{
    Config, Epoch, Executor, Level, Moved, Moves, Options, PARTITIONS_MAX, Pace, PartitionId, Partitioning, Placement,
    PlacementKind, PlanReport, Plans, Range, Refused, Repartition, SLOTS, Scan, Snapshot, Store, StoreEngine,
    StoreStats, UnitId, Update,
};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The store in `path` with all defaults, created when it is missing: see [`Options::new`]; more than those in [`Options`].
///
/// ```
/// # fn main() -> biombo::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let path = dir.path().join("fruit");
/// let store = biombo::open(&path)?;
/// store.put(b"apple", b"red")?;
/// assert_eq!(store.engine(), "log");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Options::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Store> {
    Options::new().open(path, &registry())
}

/// Every engine that this build has, by name. The first one, `log` in builds with default features, is that of new stores which
/// name none.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    #[cfg(feature = "log")]
    registry.add(biombo_log::kind());
    biombo_foreign::register(&mut registry);
    #[cfg(feature = "micro")]
    biombo_micro::register(&mut registry);
    registry.add(memory::kind());
    registry
}
