//! What reads and writes find their way by: the placement, and where keys may lie that their partition does not own.
//!
//! One immutable value, replaced as a whole ([`Present`](crate::present::Present)). Instances and lanes are not part of it: `get` lends a value
//! for as long as the store is borrowed, and from an instance that might be replaced it could do so only by counting its
//! references, a line that all threads would write at each read.
//!
//! Who may rely on what, while units move from partition A to B (the flip is the replacement, under A's lane's lock):
//!
//! - *A writer* routes, takes the lane's lock, and goes on only if the version is still the one it routed by. Under the lock no unit
//!   leaves the lane. A batch over several lanes does the same under all its locks.
//! - *A read that finds its key* is right, whatever moved meanwhile. It read the version at an instant s and A's engine at r > s. If the
//!   flip lies between, A's value is the last one before the flip, because A takes no writes of the units after it: the value was current at the
//!   flip, which is between s and r. If A has become the target of a later move, what it holds was copied from, or forwarded by, an owner
//!   after s. Nothing older can be there: what an earlier move left is cleaned before the next begins.
//! - *A read that finds nothing* looks at the version again. If it is the same, A owned the key all the time, and the key was absent.
//!   If not, A may have been cleaned: the read begins anew.
//! - *A scan or snapshot* opens its cursors, then looks at the version again: the same, and they stand for one placement. Where a
//!   partition may hold keys that it does not own, they are left out by the placement ([`Owned`](crate::owned::Owned)). The flag is raised before the
//!   first copy is made: a view that was opened without it holds none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::thread::LocalKey;

use crate::placement::Leftover;
use crate::present::{Kept, Mine, nothing_kept};
use crate::{PartitionId, Placement};

/// The placement of a moment, and what moves have left over.
pub(crate) struct Topology {
    pub(crate) placement: Placement,
    /// Partitions that may hold keys which others own, in order.
    strangers: Vec<PartitionId>,
    /// Live scans of this placement over engines without snapshots.
    scans: Arc<Scans>,
}

/// How many scans go on reading the present by one placement.
///
/// Who opens one counts itself, then looks whether the placement is still the present one; who cleans what a placement knew has
/// replaced it, then looks for scans. Both with a fence in between: one of them sees the other.
#[derive(Default)]
pub(crate) struct Scans(AtomicUsize);

impl Scans {
    /// Whether there is none. For placements that were replaced: no other will come.
    pub(crate) fn is_over(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// A scan that is counted for as long as this lives.
pub(crate) struct Counted(Arc<Scans>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Topology {
    pub(crate) fn new<'a>(placement: Placement, leftovers: impl Iterator<Item = &'a Leftover>) -> Self {
        let mut strangers: Vec<_> = leftovers.map(Leftover::holder).collect();
        strangers.sort_unstable();
        strangers.dedup();
        Self { placement, strangers, scans: Arc::default() }
    }

    /// Whether `partition` may hold keys that others own.
    pub(crate) fn may_hold_strangers(&self, partition: PartitionId) -> bool {
        self.strangers.binary_search(&partition).is_ok()
    }

    /// Whether any partition may.
    pub(crate) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// Its scans, for who waits for their end.
    pub(crate) fn scans(&self) -> &Arc<Scans> {
        &self.scans
    }

    /// Count a scan, before it looks again whether this is the present topology.
    pub(crate) fn count_scan(&self) -> Counted {
        self.scans.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Counted(Arc::clone(&self.scans))
    }
}

impl Kept for Topology {
    fn mine() -> &'static LocalKey<Mine<Self>> {
        thread_local!(static MINE: Mine<Topology> = const { nothing_kept() });
        &MINE
    }
}
