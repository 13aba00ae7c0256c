//! Openable copies of a store, while it serves.
//!
//! Over one engine instance, the engine's own checkpoint is one point in history. Over several, a snapshot is: its keys are
//! copied into a new store of the same shape. Either way the copy becomes a store by the last rename of its creation, after
//! everything in it was synced; a copy that is cut short is not a store.

use std::path::Path;
use std::sync::Arc;

use biombo_engine::{Batch, Durability, Error, Registry, Result};

use crate::options::Partitioning;
use crate::scan::{Range, Scan};
use crate::{Options, Store};

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
        let options = self.same_shape().io(Arc::clone(&inner.io)).create_new(true);
        if inner.partitioning == Partitioning::Hard {
            let snapshot = self.snapshot()?;
            let copy = options.open(dest, registry)?;
            return match fill(&copy, &mut snapshot.scan(Range::all())?) {
                Ok(_) => copy.close(),
                Err(error) => {
                    drop(copy);
                    remove(inner, dest);
                    Err(error)
                }
            };
        }
        // The skeleton of a store, with the engine's own copy in the place of its empty instance.
        drop(options.open(dest, registry)?);
        let engine_dir = dest.join("p0000");
        let copied = inner
            .io
            .remove_dir_all(&engine_dir)
            .map_err(|e| Error::io(format_args!("remove {}", engine_dir.display()), e))
            .and_then(|()| inner.instances[0].engine.checkpoint(&engine_dir))
            .and_then(|()| inner.io.sync_dir(dest).map_err(|e| Error::io(format_args!("sync {}", dest.display()), e)));
        copied.inspect_err(|_| remove(inner, dest))
    }

    /// Options for a new store that is divided and placed like this one, in one directory.
    pub(crate) fn same_shape(&self) -> Options {
        let placement = self.placement();
        // Its own boundaries as the sample give the same boundaries: each is the quantile of its range.
        let starts = placement.ranges().into_iter().map(|(start, _)| start.to_vec()).collect();
        Options::new()
            .engine(self.engine())
            .partitions(self.inner.manifest.partitions_to_stay())
            .partitioning(self.partitioning())
            .placement(placement.kind())
            .range_sample(starts)
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
