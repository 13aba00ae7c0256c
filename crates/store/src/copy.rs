//! Openable copies of a store, while it serves.
//!
//! Over one engine instance, the engine's own checkpoint is one point in history. Over several, a snapshot is: its keys are
//! copied into a new store of the same shape. Either way the copy becomes a store by the last rename of its creation, after
//! everything in it was synced; a copy that is cut short is not a store, and the next one into the same place begins anew.

use std::path::Path;
use std::sync::Arc;

use biombo_engine::{Batch, Durability, Error, Registry, Result};

use crate::options::{Partitioning, PlacementKind};
use crate::scan::{Range, Scan};
use crate::{Options, Store, open};

/// Bytes of one batch of a copy.
const BATCH_BYTES: usize = 1 << 20;

impl Store {
    /// Write an openable copy of one point in history into the directory `dest`, which must be missing or empty. Reads and
    /// writes go on meanwhile.
    pub fn checkpoint(&self, dest: &Path, registry: &Registry) -> Result<()> {
        let inner = &self.inner;
        if !inner.capabilities.checkpoints {
            return Err(inner.lacks("checkpoints"));
        }
        let options = self.same_shape()?.io(Arc::clone(&inner.io)).create_new(true).named_later(true);
        // Asked here, so that only what this call makes is ever removed.
        let copy = options.open(dest, registry)?;
        let copied = match inner.partitioning {
            Partitioning::Hard => self.fill_copy(copy),
            _ => self.replace_instance(copy, dest),
        };
        copied.and_then(|()| open::name(&*inner.io, dest)).inspect_err(|_| remove(inner, dest))
    }

    fn fill_copy(&self, copy: Store) -> Result<()> {
        let snapshot = self.snapshot()?;
        fill(&copy, &mut snapshot.scan(Range::all())?)?;
        copy.close()
    }

    /// The skeleton of a store gets the engine's own copy in the place of its empty instance.
    fn replace_instance(&self, copy: Store, dest: &Path) -> Result<()> {
        let inner = &self.inner;
        drop(copy);
        let dir = dest.join("p0000");
        inner.io.remove_dir_all(&dir).map_err(|e| Error::io(format_args!("remove {}", dir.display()), e))?;
        inner.instances[0].engine.checkpoint(&dir)?;
        inner.io.sync_dir(dest).map_err(|e| Error::io(format_args!("sync {}", dest.display()), e))
    }

    /// Options for a new store that is divided like this one, in one directory, where every key has the owner that it has here. Where partitions are
    /// leaving there are others: then slots are dealt anew, and ranges cut by their bytes, which takes a pass over all keys.
    fn same_shape(&self) -> Result<Options> {
        let placement = self.placement();
        let partitions = self.inner.manifest.partitions_to_stay();
        let options = Options::new()
            .engine(self.engine())
            .partitions(partitions)
            .partitioning(self.partitioning())
            .placement(placement.kind());
        Ok(match placement.kind() {
            _ if self.leaving().is_empty() => options.placed(Arc::unwrap_or_clone(placement)),
            PlacementKind::Hash => options,
            PlacementKind::Range => options.range_sample(self.even_starts(partitions)?),
        })
    }
}

/// Put all of a scan into an empty store, durably; returns the number of keys.
pub(crate) fn fill(copy: &Store, scan: &mut Scan) -> Result<u64> {
    let mut batch = Batch::new();
    let mut keys = 0;
    while let Some((key, value)) = scan.next()? {
        batch.put(key, value);
        keys += 1;
        if batch.bytes() > BATCH_BYTES {
            copy.write_each(&batch, Durability::Os)?;
            batch.clear();
        }
    }
    copy.write_each(&batch, Durability::Os)?;
    copy.flush()?;
    Ok(keys)
}

/// Best effort: the caller reports the error that made the copy useless.
fn remove(inner: &crate::store::Inner, dest: &Path) {
    let _ = inner.io.remove_dir_all(dest);
}
