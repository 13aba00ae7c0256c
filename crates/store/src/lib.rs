//! Partitions over any engine: one ordered, consistent, crash-proof store out of many engine instances.
//!
//! | room | idea |
//! |---|---|
//! | [`Options`], [`Config`], `open`, `manifest`, `owner` | creating and opening a directory, its options from a file, who owns it |
//! | `contradictions` | what a store was created with against the options of a later opening |
//! | `reshape`, `retire` | more partitions, fewer, or of another engine; those that own nothing any more taken away |
//! | `replace` | another placement: all keys copied into new partitions |
//! | [`Placement`], `bounds`, `topology`, `present` | which partition owns a key; the placement of this moment |
//! | [`Store`], `write` | what a user holds: reads on the calling thread, writes through `lane` |
//! | `lane`, `shared_sync` | the executor `direct`: one logical writer for each partition, group commit |
//! | [`Executor`], `pinned` | the executor `pinned`: the lanes run by a few threads, each bound to a processor |
//! | `intent` | atomic batches across partitions, through any crash |
//! | [`Scan`], [`Snapshot`], `merge`, `chain`, `owned`, `overlaid` | one ordered view, one point in history |
//! | `migration` | units that move from one partition to another while reads and writes go on, through any crash |
//! | `pulse` | how long users' operations take, for who must not slow them down |
//! | [`Repartition`], [`Plans`], `planning` | partitions that move by themselves: what is watched, planned, moved, and what came of it |
//! | [`Update`], `stripes` | read-modify-write |
//! | `copy`, `backup`, [`StoreStats`] | checkpoints, backups, figures, verification |
//! | `repair` | what is sound of a damaged store, and what is not |
//! | [`StoreEngine`] | a store as an engine, for the conformance suite |
//! | `keyspace` | room for the store's own keys |
//! | `sync` | the locks and atomics that loom tests replace |
//! | `seam` | where tests step in between a decision and the deed |
//!
//! The crate knows no concrete engine: they come by name from a [`Registry`](biombo_engine::Registry).
#![forbid(unsafe_code)]

mod as_engine;
mod backup;
mod bounds;
mod chain;
mod config;
mod contradictions;
mod copy;
mod deferred;
mod intent;
mod keyspace;
mod lane;
mod manifest;
mod merge;
mod migration;
mod open;
mod options;
mod overlaid;
mod owned;
mod owner;
mod pinned;
mod placement;
mod planning;
mod poison;
mod present;
#[cfg(test)]
mod present_tests;
mod pulse;
mod repair;
mod replace;
mod reshape;
mod retire;
mod retirer;
mod rmw;
mod scan;
mod seam;
mod shared_sync;
mod stats;
mod store;
mod stripes;
mod sync;
mod topology;
mod write;

pub use as_engine::StoreEngine;
pub use config::Config;
pub use migration::{Moved, Pace};
pub use options::{Executor, Options, PARTITIONS_MAX, Partitioning, PlacementKind};
pub use placement::{Epoch, PartitionId, Placement, SLOTS, UnitId};
pub use planning::{Level, PlanReport, Plans, Refused, Repartition, planner_names};
pub use rmw::Update;
pub use scan::{Range, Scan, Snapshot};
pub use stats::{Moves, StoreStats};
pub use store::Store;
