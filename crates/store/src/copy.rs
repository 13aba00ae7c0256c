//! Openable copies of a store, while it serves.
//!
//! Over one engine instance, the engine's own checkpoint is one point in history. Over several, a snapshot is: its keys are
//! copied into a new store of the same shape. Either way the copy becomes a store by the last rename of its creation, after
//! everything in it was synced; a copy that is cut short is not a store, and the next one into the same place begins anew.
//!
//! Whoever makes a copy has the lock of its directory until it is a store, or takes it again and looks whether it still is its own: nothing that
//! somebody else has made there meanwhile is named or removed.

use std::path::Path;
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_engine::{Batch, Durability, Error, ErrorKind, Registry, Result};

use crate::manifest::{CREATING, MANIFEST, Manifest};
use crate::options::{Partitioning, PlacementKind};
use crate::owner::Owner;
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
        let id = copy.inner.manifest.store_id.clone();
        let copied = match inner.partitioning {
            Partitioning::Hard => self.fill_copy(copy, dest),
            _ => self.replace_instance(copy, dest, &id),
        };
        copied.inspect_err(|_| {
            // Best effort: the error is what made the copy useless.
            if let Ok(_owner) = retake(&*inner.io, dest, &id) {
                let _ = inner.io.remove_dir_all(dest);
            }
        })
    }

    fn fill_copy(&self, copy: Store, dest: &Path) -> Result<()> {
        let snapshot = self.snapshot()?;
        fill(&copy, &mut snapshot.scan(Range::all())?)?;
        open::name(&*self.inner.io, dest)?;
        copy.close()
    }

    /// The skeleton of a store gets the engine's own copy in the place of its empty instance.
    fn replace_instance(&self, copy: Store, dest: &Path, id: &str) -> Result<()> {
        let inner = &self.inner;
        drop(copy);
        let owner = retake(&*inner.io, dest, id)?;
        let dir = dest.join("p0000");
        inner.io.remove_dir_all(&dir).map_err(|e| Error::io(format_args!("remove {}", dir.display()), e))?;
        inner.instances[0].engine.checkpoint(&dir)?;
        inner.io.sync_dir(dest).map_err(|e| Error::io(format_args!("sync {}", dest.display()), e))?;
        open::name(&*inner.io, dest)?;
        owner.closed();
        Ok(())
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

/// The lock of the directory `dest` again, in which this process has made the store `id` and closed it: since then it was anybody's.
///
/// # Errors
/// `Busy` while somebody else has it, or where it is another store by now.
pub(crate) fn retake(io: &dyn Io, dest: &Path, id: &str) -> Result<Owner> {
    let owner = Owner::take(io, dest)?;
    for name in [CREATING, MANIFEST] {
        if Manifest::read(io, dest, name)?.is_some_and(|found| found.store_id == id) {
            return Ok(owner);
        }
    }
    Err(Error::new(
        ErrorKind::Busy,
        format!("somebody else has made a store in {} meanwhile: name another place", dest.display()),
    ))
}
