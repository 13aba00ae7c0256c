//! A store as an [`Engine`]: what passes for an engine passes for the store.
//!
//! The conformance suite runs over it for every engine and layout; and a store can stand wherever an engine can.

use std::path::Path;
use std::sync::Arc;

use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, Op, Registry, Result, Snapshot as EngineSnapshot, Stats, Value,
};

use crate::options::Partitioning;
use crate::scan::Snapshot;
use crate::{Options, Store};

/// A store behind the Engine contract.
pub struct StoreEngine {
    store: Store,
    registry: Registry,
}

impl StoreEngine {
    /// Open a store as an engine.
    pub fn open(options: Options, dir: &Path, registry: &Registry) -> Result<Self> {
        Ok(Self { store: options.open(dir, registry)?, registry: registry.clone() })
    }
}

impl Engine for StoreEngine {
    fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.store.get(key)
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.store.get_into(key, into)
    }

    fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        values.extend(self.store.multi_get(keys)?);
        Ok(())
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.store.inner.write(ops, durability)
    }

    fn sync(&self) -> Result<()> {
        self.store.flush()
    }

    fn written_back(&self) {
        self.store.written_back();
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn EngineSnapshot>> {
        Ok(Arc::new(self.store.snapshot()?))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        self.store.cursor()
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.store.checkpoint(dest, &self.registry)
    }

    fn compact(&self) -> Result<()> {
        self.store.compact()
    }

    fn stats(&self) -> Result<Stats> {
        let stats = self.store.stats()?;
        Ok(Stats {
            keys: stats.keys,
            keys_estimated: stats.keys_estimated,
            // Under `hard` partitioning the engines count stored keys, some of which are a byte longer than the users'.
            logical_bytes: stats.logical_bytes.filter(|_| self.store.partitioning() != Partitioning::Hard),
            physical_bytes: stats.physical_bytes,
            written_bytes: stats.written_bytes(),
            options: stats.instances.first().map(|instance| instance.options.clone()).unwrap_or_default(),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.store.verify(report)
    }
}

impl EngineSnapshot for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        Snapshot::get(self, key)
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Snapshot::cursor(&self)
    }
}
