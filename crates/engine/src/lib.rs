//! The Engine contract: what a storage engine must do to carry a Biombo partition, and the suite that tests it.
//!
//! - [`Engine`], [`Snapshot`], [`Cursor`]: the contract itself;
//! - [`Op`], [`Batch`], [`Durability`], [`Value`]: what goes in and out;
//! - [`Capabilities`]: what an engine declares; the rest must answer `Unsupported`;
//! - [`EngineKind`], [`Registry`]: engines by name, so that nothing above knows a concrete one;
//! - [`combine`]: where concurrent writers meet to share a run and its sync;
//! - [`memory`]: the ordered map in memory, the model's own engine;
//! - `conformance` (feature `conformance`): the suite that any implementation runs as its tests;
//! - `crash_suite` (the same feature): crashes of any engine that works on a simulated disk.

#![forbid(unsafe_code)]

pub mod batch;
pub mod capabilities;
pub mod combine;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
#[cfg(feature = "conformance")]
pub mod crash_suite;
pub mod durability;
pub mod memory;
pub mod registry;
pub mod stats;
pub mod value;

pub use batch::{Batch, Op};
pub use biombo_base::{Error, ErrorKind, Result};
pub use capabilities::Capabilities;
pub use contract::{Cursor, Damage, Engine, Loss, Repaired, Snapshot};
pub use durability::Durability;
pub use registry::{EngineKind, OpenOptions, Registry, Repair, RepairMode};
pub use stats::{Compaction, CompactionTail, IndexFigures, Segments, Stats};
pub use value::Value;

/// What the directories begin with that the laboratory makes for a run and removes after it. An engine that keeps something elsewhere (a
/// table on a server) may remove what belongs to such a directory once it is gone, and of no other: a device that is not mounted looks
/// like a directory that is gone.
pub const RUN_DIR_PREFIX: &str = "biombo-bench-";
