//! A small persistent engine over the memory engine, sound with [`Fault::None`] and broken in one way with any other.
//!
//! It saves its map to one file when it is closed. That is enough for what the suite can see: no check kills a process.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use biombo_engine::memory::Memory;
use biombo_engine::{
    Batch, Capabilities, Cursor, Damage, Durability, Engine, Error, ErrorKind, Op, Result, Snapshot, Stats, Value,
};

use super::fault::Fault;
use super::views::{FaultyCursor, FaultySnapshot, HeldValue};

/// What this engine declares; some faults declare less.
pub fn capabilities(fault: Fault) -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: fault != Fault::TakesUndeclaredSnapshots,
        atomic_batches: true,
        survives_kill: None,
        survives_power_cut: None,
        sync_apart: true,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: 1000,
        value_bytes_max: if fault == Fault::TakesTooLongValues { 1 << 16 } else { 128 << 20 },
    }
}

/// The engine.
pub struct Faulty {
    pub fault: Fault,
    pub map: Arc<Memory>,
    /// Writes so far.
    pub writes: Arc<AtomicU64>,
    /// Values and snapshots that are held.
    pub held: Arc<AtomicU64>,
    capabilities: Capabilities,
    declared: Capabilities,
    dir: PathBuf,
    _lock: Option<File>,
    /// What the last sync saw.
    synced: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The value before the last one, for stale reads.
    previous: Mutex<HashMap<Vec<u8>, Option<Vec<u8>>>>,
}

/// Everything in a map, in order.
pub fn entries(map: &Arc<Memory>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = Arc::clone(map).cursor().unwrap();
    let mut entries = Vec::new();
    cursor.first().unwrap();
    while let (Some(key), Some(value)) = (cursor.key(), cursor.value()) {
        entries.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    entries
}

/// A map of its own with these entries.
pub fn map_of(entries: &[(Vec<u8>, Vec<u8>)]) -> Arc<Memory> {
    let map = Memory::new();
    let ops: Vec<Op<'_>> = entries.iter().map(|(key, value)| Op::Put { key, value }).collect();
    map.apply(&ops, Durability::Os).unwrap();
    Arc::new(map)
}

fn save(dir: &Path, entries: &[(Vec<u8>, Vec<u8>)]) {
    let mut bytes = Vec::new();
    for part in entries.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    std::fs::write(dir.join("map"), bytes).unwrap();
}

fn load(dir: &Path) -> Arc<Memory> {
    let bytes = std::fs::read(dir.join("map")).unwrap_or_default();
    let mut parts = Vec::new();
    let mut rest = &bytes[..];
    while let Some((len, tail)) = rest.split_first_chunk() {
        let (part, tail) = tail.split_at(u64::from_le_bytes(*len) as usize);
        parts.push(part.to_vec());
        rest = tail;
    }
    map_of(&parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect::<Vec<_>>())
}

impl Faulty {
    /// Open or create.
    pub fn open(dir: &Path, fault: Fault) -> Result<Arc<dyn Engine>> {
        let names: Vec<_> = std::fs::read_dir(dir).map_err(|e| Error::io("list", e))?.flatten().collect();
        let ours = names.iter().any(|entry| entry.file_name() == "lock");
        if !names.is_empty() && !ours && fault != Fault::TakesForeignDirectories {
            return Err(Error::invalid("the directory holds something else"));
        }
        let lock = File::options().create(true).truncate(false).write(true).open(dir.join("lock"));
        let lock = lock.map_err(|e| Error::io("open the lock", e))?;
        if fault != Fault::OpensTwice && lock.try_lock().is_err() {
            return Err(Error::new(ErrorKind::Busy, "another instance is open"));
        }
        let map = load(dir);
        let declared = capabilities(fault);
        let mut capabilities = declared.clone();
        if fault == Fault::DeclaresOtherwise {
            capabilities.key_bytes_max -= 1;
        }
        Ok(Arc::new(Self {
            fault,
            synced: Mutex::new(entries(&map)),
            map,
            writes: Arc::default(),
            held: Arc::default(),
            capabilities,
            declared,
            dir: dir.to_owned(),
            _lock: Some(lock),
            previous: Mutex::default(),
        }))
    }

    fn check(&self, op: &Op<'_>) -> Result<()> {
        match *op {
            Op::Put { key, .. } if self.fault == Fault::TakesTooLongValues => self.declared.check_key(key),
            Op::DeleteRange { from, to } if self.fault == Fault::RefusesLongBounds => {
                let max = self.declared.key_bytes_max;
                if from.len() > max || to.is_some_and(|to| to.len() > max) {
                    return Err(Error::invalid("a bound is too long"));
                }
                Ok(())
            }
            Op::Delete { key } if self.fault == Fault::TakesEmptyKeys && key.is_empty() => Ok(()),
            op => self.declared.check(&op),
        }
    }

    /// The operations as the fault changes them.
    fn changed(&self, ops: &[Op<'_>]) -> Batch {
        let mut batch = Batch::new();
        let put_in = |batch: &mut Batch, op: &Op<'_>| match (self.fault, *op) {
            (Fault::ForgetsEmptyValues, Op::Put { key, value: b"" }) => {
                batch.delete(key);
            }
            (Fault::CutsKeysAt255, Op::Put { key, value }) => {
                batch.put(&key[..key.len().min(255)], value);
            }
            (Fault::CutsValuesAt65535, Op::Put { key, value }) => {
                batch.put(key, &value[..value.len().min(65_535)]);
            }
            (Fault::RangeEndIncluded, Op::DeleteRange { from, to }) => {
                batch.delete_range(from, to);
                to.filter(|to| !to.is_empty() && *to >= from).map(|to| batch.delete(to));
            }
            (Fault::RangesStopAt10000, Op::DeleteRange { from, to }) => {
                let inside = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
                entries(&self.map).iter().filter(|(key, _)| inside(key)).take(10_000).for_each(|(key, _)| {
                    batch.delete(key);
                });
            }
            (Fault::TakesEmptyKeys, Op::Delete { key: b"" }) => {}
            (_, op) => {
                batch.push(op);
            }
        };
        match self.fault {
            Fault::LosesLastOfBatch if ops.len() > 1 => {
                ops[..ops.len() - 1].iter().for_each(|op| put_in(&mut batch, op))
            }
            Fault::CutsLargeBatches => ops.iter().take(10_000).for_each(|op| put_in(&mut batch, op)),
            Fault::FirstOfBatchWins => ops.iter().rev().for_each(|op| put_in(&mut batch, op)),
            Fault::RangesGoFirst => {
                let is_range = |op: &&Op<'_>| matches!(op, Op::DeleteRange { .. });
                ops.iter().filter(is_range).for_each(|op| put_in(&mut batch, op));
                ops.iter().filter(|op| !is_range(op)).for_each(|op| put_in(&mut batch, op));
            }
            _ => ops.iter().for_each(|op| put_in(&mut batch, op)),
        }
        batch
    }

    /// The map of one instant, or of two where that is the fault.
    fn point(&self, of_two_instants: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut first = entries(&self.map);
        if of_two_instants {
            std::thread::sleep(Duration::from_micros(500));
            let half = |key: &[u8]| key.iter().fold(0u8, |sum, byte| sum ^ byte).count_ones() % 2 == 0;
            first.retain(|(key, _)| half(key));
            first.extend(entries(&self.map).into_iter().filter(|(key, _)| !half(key)));
        }
        first
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let entries = match self.fault {
            Fault::LosesUnsynced => self.synced.lock().unwrap().clone(),
            _ => entries(&self.map),
        };
        save(&self.dir, &entries);
    }
}

impl Engine for Faulty {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        if self.fault == Fault::TakesEmptyKeys && key.is_empty() {
            return Ok(None);
        }
        self.declared.check_key(key)?;
        let key = if self.fault == Fault::CutsKeysAt255 { &key[..key.len().min(255)] } else { key };
        let count = self.held.fetch_add(1, Ordering::SeqCst);
        if self.fault == Fault::Takes100ValuesAtMost && count >= 100 {
            self.held.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Busy, "too many values are held"));
        }
        let mut found = self.map.get(key)?.map(Value::into_vec);
        if self.fault == Fault::ReadsStale
            && key.len() > 5
            && self.writes.load(Ordering::Relaxed) % 64 == 7
            && let Some(previous) = self.previous.lock().unwrap().get(key)
        {
            found.clone_from(previous);
        }
        let held = |bytes| HeldValue::new(bytes, self.fault, Arc::clone(&self.writes), Arc::clone(&self.held));
        Ok(match found {
            Some(bytes) => Some(Value::guarded(held(bytes))),
            None => {
                self.held.fetch_sub(1, Ordering::SeqCst);
                None
            }
        })
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        if self.fault != Fault::GetIntoKeepsTheOld {
            into.clear();
        }
        Ok(self.get(key)?.map(|value| into.extend_from_slice(&value)).is_some())
    }

    fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        let mut keys = keys.to_vec();
        if self.fault == Fault::SortsKeysOfMultiGet {
            keys.sort_unstable();
        }
        keys.into_iter().try_for_each(|key| self.get(key).map(|value| values.push(value)))
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for (i, op) in ops.iter().enumerate() {
            if let Err(error) = self.check(op) {
                if self.fault == Fault::AppliesPartOfInvalidBatches {
                    self.map.apply(&ops[..i], durability)?;
                }
                return Err(error);
            }
        }
        if self.fault == Fault::ReadsStale {
            let mut previous = self.previous.lock().unwrap();
            for op in ops {
                if let Op::Put { key, .. } | Op::Delete { key } = op {
                    previous.insert(key.to_vec(), self.map.get(key)?.map(Value::into_vec));
                }
            }
        }
        let batch = self.changed(ops);
        if self.fault == Fault::ShowsHalfBatches {
            batch.iter().try_for_each(|op| self.map.apply(&[op], durability))?;
        } else {
            self.map.apply(&batch.to_ops(), durability)?;
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        if durability == Durability::Sync {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        if self.fault == Fault::LosesUnsynced {
            *self.synced.lock().unwrap() = entries(&self.map);
        }
        Ok(())
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        let count = self.held.fetch_add(1, Ordering::SeqCst);
        if self.fault == Fault::Takes100SnapshotsAtMost && count >= 100 {
            self.held.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Busy, "too many snapshots are held"));
        }
        let view = match self.fault {
            Fault::SnapshotSeesNewWrites => Arc::clone(&self.map),
            fault => map_of(&self.point(fault == Fault::SnapshotsOfTwoInstants)),
        };
        let keeps_open = (self.fault != Fault::SnapshotsEndWithHandles).then(|| Arc::clone(&self));
        Ok(Arc::new(FaultySnapshot {
            view,
            engine: Arc::downgrade(&self),
            _keeps_open: keeps_open,
            held: Arc::clone(&self.held),
        }))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        let inner = Arc::clone(&self.map).cursor()?;
        let weak = Arc::downgrade(&self);
        let keeps_open = (self.fault != Fault::SnapshotsEndWithHandles).then_some(self);
        Ok(Box::new(FaultyCursor::new(inner, keeps_open, weak)))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        let empty = !dest.exists() || std::fs::read_dir(dest).is_ok_and(|mut names| names.next().is_none());
        if !empty && self.fault != Fault::OverwritesDestinations {
            return Err(Error::invalid("the destination is not empty"));
        }
        std::fs::create_dir_all(dest).map_err(|e| Error::io("create the destination", e))?;
        std::fs::write(dest.join("lock"), "").map_err(|e| Error::io("create the lock", e))?;
        save(dest, &self.point(self.fault == Fault::CheckpointsOfTwoInstants));
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        if self.fault == Fault::CompactsAKeyAway
            && let Some((key, _)) = entries(&self.map).last()
        {
            self.map.apply(&[Op::Delete { key }], Durability::Os)?;
        }
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        let mut stats = Stats { physical_bytes: None, written_bytes: None, ..self.map.stats()? };
        stats.options.push(("fault".to_owned(), format!("{:?}", self.fault)));
        if self.fault == Fault::CountsOneTooMany {
            stats.keys = stats.keys.map(|keys| keys + 1);
        }
        Ok(stats)
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        Ok(self.map.verify(report)? + u64::from(self.fault == Fault::VerifiesOneTooMany))
    }
}
