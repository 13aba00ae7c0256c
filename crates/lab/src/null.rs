//! The engine `null`: it keeps nothing and every operation succeeds at once.
//!
//! A run over it measures the driver itself: choosing an operation and a key, a value to put, two readings of the clock,
//! one latency recorded. Under a store it measures the store's own part as well. A read into a buffer reports a record and
//! leaves the buffer as it is; every other look finds nothing, so that a store takes it for new and empty. It is for
//! measuring only and registered by the laboratory.

use std::path::Path;
use std::sync::Arc;

use biombo_base::{Error, Result};
use biombo_engine::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use biombo_engine::{Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Op, Snapshot, Stats, Value};

/// The engine's name.
pub const NAME: &str = "null";

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "keeps nothing: what the laboratory's driver itself costs",
        version: || env!("CARGO_PKG_VERSION").to_owned(),
        capabilities,
        open: Arc::new(|_| Ok(Arc::new(Null { capabilities: capabilities() }))),
        io_modes: &[],
        repair: None,
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: None,
        survives_power_cut: None,
        sync_apart: true,
        costly_transactions: false,
        checkpoints: false,
        persistent: false,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

struct Null {
    capabilities: Capabilities,
}

impl Engine for Null {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, _key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(None)
    }

    fn get_into(&self, _key: &[u8], _into: &mut Vec<u8>) -> Result<bool> {
        Ok(true)
    }

    fn contains(&self, _key: &[u8]) -> Result<bool> {
        Ok(false)
    }

    fn apply(&self, _ops: &[Op<'_>], _durability: Durability) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(NullSnapshot))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(NullCursor))
    }

    fn checkpoint(&self, _dest: &Path) -> Result<()> {
        Err(Error::unsupported("the engine null keeps nothing: there is nothing to copy"))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        Ok(Stats::default())
    }

    fn verify(&self, _report: &mut dyn FnMut(Damage)) -> Result<u64> {
        Ok(0)
    }
}

struct NullSnapshot;

impl Snapshot for NullSnapshot {
    fn get(&self, _key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(None)
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(NullCursor))
    }
}

struct NullCursor;

impl Cursor for NullCursor {
    fn seek(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        Ok(())
    }

    fn key(&self) -> Option<&[u8]> {
        None
    }

    fn value(&self) -> Option<&[u8]> {
        None
    }
}
