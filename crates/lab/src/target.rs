//! What a driver drives: an engine used directly, or a store over it.

use std::sync::Arc;

use biombo_base::Result;
use biombo_engine::{Durability, Engine, EngineKind, Op, OpenOptions, Registry, Stats};

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

    /// Read up to `limit` records in order from `from` on, copying each key and value into `into`; returns how many.
    fn scan(&self, from: &[u8], limit: u32, into: &mut Vec<u8>) -> Result<u32>;

    /// Make everything durable.
    fn flush(&self) -> Result<()>;

    /// The engine's own figures, added up over partitions.
    fn stats(&self) -> Result<Stats>;

    /// Close cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One engine instance, used directly through the Engine contract: the layout `none`.
pub struct EngineTarget {
    engine: Arc<dyn Engine>,
    durability: Durability,
}

impl EngineTarget {
    /// Open an instance.
    pub fn open(kind: &EngineKind, options: &OpenOptions) -> Result<Self> {
        Ok(Self { engine: (kind.open)(options)?, durability: options.durability })
    }
}

impl Target for EngineTarget {
    #[inline]
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.engine.get_into(key, into)
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.apply(&[Op::Put { key, value }], self.durability)
    }

    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.apply(&[Op::Put { key, value }], Durability::Os)
    }

    fn scan(&self, from: &[u8], limit: u32, into: &mut Vec<u8>) -> Result<u32> {
        let mut cursor = Arc::clone(&self.engine).cursor()?;
        cursor.seek(from)?;
        let mut count = 0;
        while count < limit {
            let (Some(key), Some(value)) = (cursor.key(), cursor.value()) else { break };
            consume(key, value, into);
            count += 1;
            if count < limit {
                cursor.next()?;
            }
        }
        Ok(count)
    }

    fn flush(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> Result<Stats> {
        self.engine.stats()
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Dropping the last reference closes the engine.
        Ok(())
    }
}

/// Copy one scanned record into the reused buffer, as every engine's are.
#[inline]
pub(crate) fn consume(key: &[u8], value: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(key);
    into.extend_from_slice(value);
}

/// Open what `spec` asks for in its directory.
pub(crate) fn open(registry: &Registry, spec: &RunSpec, _keys: &Keys) -> Result<Box<dyn Target>> {
    let durability = spec.durability.parse()?;
    match spec.partitioning {
        Partitioning::None => {
            let options = OpenOptions {
                dir: spec.dir.clone(),
                cache_bytes: spec.cache_bytes,
                instances: 1,
                durability,
                value_bytes: Some(spec.value_bytes),
            };
            Ok(Box::new(EngineTarget::open(registry.get(&spec.engine)?, &options)?))
        }
        Partitioning::Soft | Partitioning::Hard => {
            Err(biombo_base::Error::unsupported("this build of the laboratory measures engines used directly only"))
        }
    }
}
