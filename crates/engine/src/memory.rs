//! The engine `memory`: an ordered map in memory, the model's own engine.
//!
//! A persistent (path-copying) map would make snapshots cheap; this one keeps a `BTreeMap` behind a read-write lock and
//! copies it for a snapshot, because its purpose is to be obviously right, not fast. Nothing outlives the instance.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, Op, Result, Snapshot, Stats, Value};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: "memory",
        summary: "an ordered map in memory; nothing is kept on disk",
        version: || env!("CARGO_PKG_VERSION").to_owned(),
        capabilities,
        open: Arc::new(|_| Ok(Arc::new(Memory::new()))),
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

/// An ordered map in memory.
pub struct Memory {
    // The map is shared with snapshots; a write after a snapshot copies it once (`Arc::make_mut`).
    map: RwLock<Arc<Map>>,
    capabilities: Capabilities,
}

impl Memory {
    /// An empty one.
    pub fn new() -> Self {
        Self { map: RwLock::default(), capabilities: capabilities() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Arc<Map>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Arc<Map>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Memory {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        Ok(self.read().get(key).map(|value| Value::owned(value.clone())))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.capabilities.check_key(key)?;
        into.clear();
        Ok(self.read().get(key).map(|value| into.extend_from_slice(value)).is_some())
    }

    fn apply(&self, ops: &[Op<'_>], _durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        let mut shared = self.write();
        let map = Arc::make_mut(&mut shared);
        for op in ops {
            match *op {
                Op::Put { key, value } => {
                    map.insert(key.to_vec(), value.to_vec());
                }
                Op::Delete { key } => {
                    map.remove(key);
                }
                Op::DeleteRange { from, to } => {
                    let mut tail = map.split_off(from);
                    if let Some(to) = to.filter(|to| *to > from) {
                        map.append(&mut tail.split_off(to));
                    } else if to.is_some() {
                        map.append(&mut tail);
                    }
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(MemorySnapshot { map: Arc::clone(&self.read()), capabilities: self.capabilities.clone() }))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(MemoryCursor { map: Arc::clone(&self.read()), here: None }))
    }

    fn checkpoint(&self, _dest: &Path) -> Result<()> {
        Err(Error::unsupported("the engine memory keeps nothing on disk: there is nothing to copy"))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        let map = self.read();
        Ok(Stats {
            keys: Some(map.len() as u64),
            logical_bytes: Some(map.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()),
            physical_bytes: Some(0),
            written_bytes: Some(0),
            ..Stats::default()
        })
    }

    fn verify(&self, _report: &mut dyn FnMut(Damage)) -> Result<u64> {
        Ok(self.read().len() as u64)
    }
}

struct MemorySnapshot {
    map: Arc<Map>,
    capabilities: Capabilities,
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        Ok(self.map.get(key).map(|value| Value::borrowed(value)))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(MemoryCursor { map: Arc::clone(&self.map), here: None }))
    }
}

struct MemoryCursor {
    map: Arc<Map>,
    here: Option<Vec<u8>>,
}

impl MemoryCursor {
    fn at(&mut self, found: Option<Vec<u8>>) -> Result<()> {
        self.here = found;
        Ok(())
    }
}

impl Cursor for MemoryCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let found =
            self.map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).next().map(|(key, _)| key.clone());
        self.at(found)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let found =
            self.map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).next_back().map(|(key, _)| key.clone());
        self.at(found)
    }

    fn first(&mut self) -> Result<()> {
        let found = self.map.first_key_value().map(|(key, _)| key.clone());
        self.at(found)
    }

    fn last(&mut self) -> Result<()> {
        let found = self.map.last_key_value().map(|(key, _)| key.clone());
        self.at(found)
    }

    fn next(&mut self) -> Result<()> {
        let Some(here) = self.here.take() else { return Ok(()) };
        let found = self
            .map
            .range::<[u8], _>((Bound::Excluded(&here[..]), Bound::Unbounded))
            .next()
            .map(|(key, _)| key.clone());
        self.at(found)
    }

    fn prev(&mut self) -> Result<()> {
        let Some(here) = self.here.take() else { return Ok(()) };
        self.seek_before(&here)
    }

    fn key(&self) -> Option<&[u8]> {
        self.here.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.here.as_ref().and_then(|here| self.map.get(here)).map(Vec::as_slice)
    }
}
