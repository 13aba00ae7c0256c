//! What moves leave over: keys in a partition that does not own them.
//!
//! Found by a pass over the partition, deleted in small batches past its lane, and told to the placement journal when the deletions
//! are durable. Readers who routed before the units left find nothing here, see that the topology has changed, and route again.
//!
//! Crash argument: cut anywhere before the journal's record, what is left is found again by the next cleaning; after it nothing is left,
//! and nothing comes back (`migration` says why the sync comes first).

use std::sync::Arc;

use biombo_engine::{Batch, Cursor, Result};

use super::rests::Owed;
use super::walk::walk;
use super::{Mover, Pace};
use crate::placement::{MoveId, UnitSet};
use crate::{PartitionId, Placement, keyspace, seam};

/// What came of cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleaned {
    Whole,
    /// A scan may be reading what is left.
    InUse,
    /// It was asked to stop.
    Stopped,
}

/// Deletes the keys of `units`, which `holder` does not own, and closes the books on the move.
pub(super) struct Cleaning<'a> {
    pub(super) mover: &'a Mover,
    pub(super) id: MoveId,
    pub(super) holder: PartitionId,
    pub(super) units: &'a UnitSet,
    pub(super) pace: Pace,
}

impl Cleaning<'_> {
    /// Go on after `position`, where an earlier run was stopped: nothing has come there since. Asks before each chunk whether to go on.
    pub(super) fn run(&self, position: &mut Vec<u8>, go_on: &mut dyn FnMut() -> bool) -> Result<Cleaned> {
        let mover = self.mover;
        if !mover.has_snapshots && !mover.older_scans_are_over() {
            return Ok(Cleaned::InUse);
        }
        let instance = &mover.instances[self.holder.index()];
        // No move changes it meanwhile.
        let placement = mover.journal().placement().clone();
        let mut owed = Owed::at(self.pace);
        instance.sync(&mover.poison)?;
        let mut deletions = Batch::new();
        loop {
            mover.poison.check()?;
            seam::pass(seam::Point::Clean);
            if !go_on() {
                return Ok(Cleaned::Stopped);
            }
            let is_over = self.find(&placement, position, &mut deletions)?;
            if !deletions.is_empty() {
                instance.apply_aside(&deletions.to_ops(), &mover.poison)?;
            }
            // Also after keys of which none was to go: to look at them is work.
            mover.rest(&mut owed, deletions.bytes());
            deletions.clear();
            if is_over {
                break;
            }
        }
        instance.sync(&mover.poison)?;
        mover.poison.watch(mover.journal().clean(self.id, self.holder))?;
        mover.replace(mover.topology());
        Ok(Cleaned::Whole)
    }

    /// Gather deletions of the next keys after `position` that the holder does not own; the position moves on. Says whether these were the last.
    fn find(&self, placement: &Placement, position: &mut Vec<u8>, deletions: &mut Batch) -> Result<bool> {
        let instance = &self.mover.instances[self.holder.index()];
        let mut cursor = Arc::clone(instance.raw()).cursor()?;
        let bounds = self.mover.cut(self.pace, instance);
        let mut scratch = Vec::new();
        let take = |key: &[u8], _: &dyn Cursor| {
            // One that is pinned here stays.
            if placement.owner(keyspace::decode(key, &mut scratch)) != self.holder {
                deletions.delete(key);
            }
            Ok(deletions.bytes())
        };
        let may_hold = |key: &[u8]| self.units.may_hold(key);
        Ok(!walk(&mut *cursor, self.units, position, bounds, may_hold, take)?)
    }
}
