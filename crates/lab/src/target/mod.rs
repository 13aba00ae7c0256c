//! What a driver drives: an engine used directly, or a store over it.

mod engine;
mod store;

use biombo_base::Result;
use biombo_engine::{Batch, OpenOptions, Registry, Stats};

pub use engine::EngineTarget;
pub use store::StoreTarget;

use crate::record::Moves;
use crate::spec::{Partitioning, RunSpec};
use crate::workload::Keys;

/// The operations of a workload. All methods may be called from any number of threads at once.
pub trait Target: Send + Sync {
    /// Copy the value of `key` into `into` and say whether there is one.
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// Set `key` to `value`, acknowledged at the durability of the run.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// As [`put`](Target::put) in the load phase: acknowledged at `os` whatever the run's durability is (the load phase is
    /// made durable as a whole by [`flush`](Target::flush)).
    fn load(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Read the records of `keys`, put their values into `into`, one behind the other, and return how many there are.
    fn read_group(&self, keys: &[Vec<u8>], into: &mut Vec<u8>) -> Result<u32>;

    /// Apply `batch`, all or nothing, acknowledged at the durability of the run.
    fn write_group(&self, batch: &Batch) -> Result<()>;

    /// How many partitions there are; an engine used directly is one.
    fn partitions(&self) -> u32 {
        1
    }

    /// The partition that holds `key` at this moment, from 0.
    fn partition_of(&self, _key: &[u8]) -> u32 {
        0
    }

    /// Read up to `limit` records in order from `from` on, copying each key and value into `into`; returns how many.
    fn scan(&self, from: &[u8], limit: u32, into: &mut Vec<u8>) -> Result<u32>;

    /// A walk over all records in the order of keys, from the first one; of a point in time where the engine has snapshots.
    fn walk(&self) -> Result<Box<dyn Walk>>;

    /// Make everything durable.
    fn flush(&self) -> Result<()>;

    /// The file system was synced.
    fn written_back(&self) {}

    /// The engine's own figures, added up over partitions.
    fn stats(&self) -> Result<Stats>;

    /// As [`stats`](Target::stats), of what has reached the engine: it is asked for beside clients that work, and so brings nothing about.
    fn counters(&self) -> Result<Stats> {
        self.stats()
    }

    /// What moved between its partitions by its own plans.
    fn moved(&self) -> Result<Moved> {
        Ok(Moved::default())
    }

    /// Close cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What moved between partitions.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// How much.
    pub moves: Moves,
    /// Who planned it; `None`: nobody plans.
    pub planner: Option<String>,
    /// Seconds that the store's own thread has watched and planned.
    pub planning_seconds: f64,
    /// The plans that were carried out.
    pub plans: Vec<Carried>,
}

/// A plan that was carried out; times by [`monotonic_ns`](biombo_base::clock::monotonic_ns).
#[derive(Debug, Clone)]
pub struct Carried {
    /// When it began to move.
    pub begun_ns: u64,
    /// When all was moved.
    pub ended_ns: u64,
    /// Why, and what was predicted.
    pub plan: String,
    /// What moved.
    pub moved: String,
}

/// A walk over records in order.
pub trait Walk: Send {
    /// Copy the next key and value into `into`; `false` at the end.
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool>;
}

/// Copy one scanned record into the reused buffer, as every engine's are.
#[inline]
pub(crate) fn consume(key: &[u8], value: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(key);
    into.extend_from_slice(value);
}

/// Open what `spec` asks for in its directory.
pub(crate) fn open(registry: &Registry, spec: &RunSpec, keys: &Keys) -> Result<Box<dyn Target>> {
    match spec.partitioning {
        Partitioning::None if !spec.in_store => {
            let options = OpenOptions {
                dir: spec.dir.clone(),
                cache_bytes: spec.cache_bytes,
                instances: 1,
                durability: spec.durability.parse()?,
                value_bytes: Some(spec.value_bytes),
                space_amplification: spec.space_amplification,
                io: spec.io()?,
            };
            let kind = registry.get(&spec.engine)?;
            kind.check_io(options.io)?;
            Ok(Box::new(EngineTarget::open(kind, &options)?))
        }
        _ => Ok(Box::new(StoreTarget::open(registry, spec, keys)?)),
    }
}
