//! What moves leave over: keys in a partition that does not own them.
//!
//! Found by a pass over the partition, deleted in small batches past its lane, and told to the placement journal when the deletions
//! are durable. Readers who routed before the units left find nothing here, see that the topology has changed, and route again.
//!
//! Crash argument: cut anywhere before the journal's record, what is left is found again by the next cleaning; after it nothing is left,
//! and nothing comes back (`migration` says why the sync comes first).

use std::sync::Arc;
use std::time::Duration;

use biombo_engine::{Batch, Result};

use super::{Mover, Pace};
use crate::placement::{MoveId, UnitSet};
use crate::store::Inner;
use crate::{PartitionId, seam};

/// Delete the keys of `units`, which `holder` does not own, and close the books on the move. False: a scan may be reading them.
pub(super) fn clean(
    inner: &Inner,
    mover: &Mover,
    id: MoveId,
    holder: PartitionId,
    units: &UnitSet,
    pace: Pace,
) -> Result<bool> {
    if !inner.capabilities.snapshots && !mover.older_scans_are_over() {
        return Ok(false);
    }
    let instance = &inner.instances[holder.index()];
    instance.sync(&inner.poison)?;
    let mut position = Vec::new();
    let mut deletions = Batch::new();
    loop {
        inner.poison.check()?;
        seam::pass(seam::Point::Clean);
        let is_over = find(inner, holder, units, &mut position, &mut deletions, pace)?;
        if !deletions.is_empty() {
            instance.apply_aside(&deletions.to_ops(), &inner.poison)?;
            if let Some(rate) = pace.bytes_per_second {
                std::thread::sleep(Duration::from_secs_f64(deletions.bytes() as f64 / rate.max(1) as f64));
            }
            deletions.clear();
        }
        if is_over {
            break;
        }
    }
    instance.sync(&inner.poison)?;
    mover.journal().clean(id)?;
    mover.replace(inner, mover.topology());
    Ok(true)
}

/// Gather deletions of the next keys of `units` after `position`, which moves on; says whether these were the last.
fn find(
    inner: &Inner,
    holder: PartitionId,
    units: &UnitSet,
    position: &mut Vec<u8>,
    deletions: &mut Batch,
    pace: Pace,
) -> Result<bool> {
    let mut cursor = Arc::clone(inner.instances[holder.index()].raw()).cursor()?;
    let mut looked = 0;
    let Some(begin) = units.seek(position) else { return Ok(true) };
    cursor.seek(&begin)?;
    // Looked at before: were it counted again, a chunk of one key would never get past it.
    if cursor.key() == Some(position) {
        cursor.next()?;
    }
    while let Some(key) = cursor.key() {
        if looked == pace.chunk_keys.max(1) || deletions.bytes() >= pace.chunk_bytes {
            return Ok(false);
        }
        looked += 1;
        position.clear();
        position.extend_from_slice(key);
        if units.holds(key) {
            deletions.delete(key);
            cursor.next()?;
            continue;
        }
        match units.seek(key) {
            None => return Ok(true),
            Some(next) if *next > *key => {
                let next = next.into_owned();
                cursor.seek(&next)?;
            }
            Some(_) => cursor.next()?,
        }
    }
    Ok(true)
}
