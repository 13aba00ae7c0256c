//! Scans and snapshots over all partitions.
//!
//! A scan is over one point in history: its cursors are opened while the lanes of all partitions that it touches are held, an
//! instant without a sync or a read in it. A scan within one partition, or over one engine, needs no lock. (Engines without
//! snapshots give cursors over the present: their capabilities say so.)
//!
//! While units move, a partition may hold keys of others: those are left out ([`Owned`]). A view whose cursors were opened while the topology
//! was replaced is opened again: all of it stands for one placement.

use std::sync::Arc;

use biombo_engine::{Cursor, Result, Snapshot as EngineSnapshot, Value};

use crate::chain::ChainCursor;
use crate::merge::MergeCursor;
use crate::options::{Partitioning, PlacementKind};
use crate::owned::Owned;
use crate::planning::Way;
use crate::store::Inner;
use crate::topology::Topology;
use crate::{PartitionId, Store, keyspace, seam};

/// Which keys, and in which direction.
///
/// ```
/// use biombo_store::Range;
/// let last_ten = Range { limit: Some(10), reverse: true, ..Range::prefix(b"user/") };
/// assert_eq!(last_ten.to.as_deref(), Some(&b"user0"[..]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// The first key (included); empty: from the beginning.
    pub from: Vec<u8>,
    /// The end (excluded); `None`: to the end.
    pub to: Option<Vec<u8>>,
    /// At most so many keys.
    pub limit: Option<u64>,
    /// From the last key to the first.
    pub reverse: bool,
}

impl Range {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// From `from` (included) on.
    pub fn from(from: &[u8]) -> Self {
        Self { from: from.to_vec(), ..Self::default() }
    }

    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut to = prefix.to_vec();
        while to.pop_if(|last| *last == u8::MAX).is_some() {}
        let to = to.last_mut().map(|last| *last += 1).map(|()| to);
        Self { from: prefix.to_vec(), to, ..Self::default() }
    }
}

/// A scan under way. Not an `Iterator`, because it lends its keys and values without a copy.
pub struct Scan {
    cursor: Box<dyn Cursor>,
    range: Range,
    left: u64,
    started: bool,
    /// Whether it tells in the end what it went over.
    spans: bool,
    // Keeps the store open for as long as the scan lives.
    store: Arc<Inner>,
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let (true, Some(watch), Some(last)) = (self.spans && self.started, &self.store.watch, self.cursor.key()) {
            let (first, end) = (self.range.from.as_slice(), self.range.to.as_deref());
            // Forward it began at `from` and stands on the last key, or on one past its end; backward it began before `to`.
            match (self.range.reverse, end) {
                (false, _) => watch.tracker.read_span(first, last),
                (true, Some(to)) => watch.tracker.read_span(last.max(first), to),
                (true, None) => watch.tracker.read(last),
            }
        }
    }
}

impl Scan {
    /// The next key and value, valid until the next call; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "it lends: an Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.left == 0 {
            return Ok(None);
        }
        if !self.started && self.range.limit.is_some() {
            self.cursor.expect(self.left);
        }
        match (self.started, self.range.reverse) {
            (true, false) => self.cursor.next()?,
            (true, true) => self.cursor.prev()?,
            (false, is_reverse) => {
                self.store.pulse.timed(self.store.pulse.look(), Way::Read, || match (is_reverse, &self.range.to) {
                    (false, _) => self.cursor.seek(&self.range.from),
                    (true, Some(to)) => self.cursor.seek_before(to),
                    (true, None) => self.cursor.last(),
                })?
            }
        }
        self.started = true;
        let inside = self.cursor.key().is_some_and(|key| {
            if self.range.reverse {
                key >= self.range.from.as_slice()
            } else {
                self.range.to.as_deref().is_none_or(|to| key < to)
            }
        });
        if !inside {
            self.left = 0;
            return Ok(None);
        }
        self.left -= 1;
        Ok(self.cursor.key().zip(self.cursor.value()))
    }
}

/// One point in the store's history, across all partitions. It holds the store open, and may hold disk space: drop it when
/// done.
#[derive(Clone)]
pub struct Snapshot {
    parts: Arc<[Arc<dyn EngineSnapshot>]>,
    topology: Arc<Topology>,
    store: Arc<Inner>,
}

impl Snapshot {
    /// The value of `key` at that point.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.store.check_held(key)?;
        if self.store.partitioning != Partitioning::Hard {
            return self.parts[0].get(key);
        }
        let (stored, owner) = (keyspace::encode(key), self.topology.placement.owner(key).index());
        let can_hold = self.store.can_hold(&self.store.instances[owner], &stored);
        if can_hold { self.parts[owner].get(&stored) } else { Ok(None) }
    }

    /// A scan of that point.
    pub fn scan(&self, range: Range) -> Result<Scan> {
        let cursor = self.cursor_over(&range)?;
        Ok(Scan::new(cursor, range, Arc::clone(&self.store)))
    }

    /// A cursor over all keys of that point.
    pub fn cursor(&self) -> Result<Box<dyn Cursor>> {
        self.cursor_over(&Range::all())
    }

    fn cursor_over(&self, range: &Range) -> Result<Box<dyn Cursor>> {
        self.store.cursor_over(&self.topology, range, |owners| {
            owners.iter().map(|owner| Arc::clone(&self.parts[owner.index()]).cursor()).collect()
        })
    }
}

impl Store {
    /// Scan a range in order, over one point in history. `Unsupported` on an engine without order.
    pub fn scan(&self, range: Range) -> Result<Scan> {
        let inner = &self.inner;
        let cursor = inner.pulse.timed(inner.pulse.look(), Way::Read, || inner.cursor_over_present(&range))?;
        let mut scan = Scan::new(cursor, range, Arc::clone(&self.inner));
        scan.spans = self.inner.watch.as_ref().is_some_and(|watch| watch.spans);
        Ok(scan)
    }

    /// A cursor over all keys, at one point in history.
    pub fn cursor(&self) -> Result<Box<dyn Cursor>> {
        self.inner.cursor_over_present(&Range::all())
    }

    /// One point in history, across all partitions. Closes the gate for an instant: no write is published while it is taken.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let inner = &self.inner;
        if !inner.capabilities.snapshots {
            return Err(inner.lacks("snapshots"));
        }
        let hard = inner.partitioning == Partitioning::Hard;
        // What is left to do behind the gate is then little. An engine that takes no more is read under what waits for it.
        inner.instances.iter().for_each(|instance| drop(instance.drain(&inner.poison)));
        loop {
            let gate: Vec<_> = inner.lanes.iter().filter(|_| hard).map(|lane| lane.lock()).collect();
            let (version, topology) = inner.topology.get();
            seam::pass(seam::Point::Open);
            let parts = inner
                .instances
                .iter()
                .map(|instance| Arc::clone(&instance.engine).snapshot())
                .collect::<Result<_>>()?;
            drop(gate);
            if inner.topology.version() == version {
                return Ok(Snapshot { parts, topology, store: Arc::clone(inner) });
            }
        }
    }
}

impl Scan {
    fn new(cursor: Box<dyn Cursor>, range: Range, store: Arc<Inner>) -> Self {
        Self { cursor, left: range.limit.unwrap_or(u64::MAX), range, started: false, spans: false, store }
    }
}

impl Inner {
    /// Cursors over the present state of partitions, at one point in history.
    fn cursors(&self, owners: &[PartitionId]) -> Result<Vec<Box<dyn Cursor>>> {
        let several = owners.len() > 1 && self.partitioning == Partitioning::Hard;
        let mut lanes: Vec<_> = owners.iter().filter(|_| several).map(|owner| owner.index()).collect();
        lanes.sort_unstable();
        lanes.iter().for_each(|lane| drop(self.instances[*lane].drain(&self.poison)));
        let gate: Vec<_> = lanes.into_iter().map(|lane| self.lanes[lane].lock()).collect();
        let cursors = owners.iter().map(|owner| Arc::clone(&self.instances[owner.index()].engine).cursor()).collect();
        drop(gate);
        cursors
    }

    fn cursor_over_present(&self, range: &Range) -> Result<Box<dyn Cursor>> {
        loop {
            let (version, topology) = self.topology.get();
            seam::pass(seam::Point::Open);
            let cursor = self.cursor_over(&topology, range, |owners| self.cursors(owners))?;
            if self.topology.version() == version {
                return Ok(cursor);
            }
        }
    }

    fn cursor_over(
        &self,
        topology: &Arc<Topology>,
        range: &Range,
        open: impl FnOnce(&[PartitionId]) -> Result<Vec<Box<dyn Cursor>>>,
    ) -> Result<Box<dyn Cursor>> {
        if !self.capabilities.ordered {
            return Err(self.lacks("order of keys: scans are not available"));
        }
        if self.partitioning != Partitioning::Hard {
            let mut cursors = open(&[PartitionId(0)])?;
            return Ok(cursors.pop().expect("invariant: one partition was asked for"));
        }
        let placement = &topology.placement;
        let owners = placement.owners_of_range(&range.from, range.to.as_deref());
        // A chain of ranges asks each source for its own ranges only.
        let is_merge = placement.kind() == PlacementKind::Hash;
        let filter = |(source, owner): (Box<dyn Cursor>, &PartitionId)| -> Box<dyn Cursor> {
            if !self.capabilities.snapshots || (is_merge && topology.may_hold_strangers(*owner)) {
                Box::new(Owned::new(source, topology, *owner))
            } else {
                source
            }
        };
        let sources = open(&owners)?.into_iter().zip(&owners).map(filter);
        if is_merge {
            return Ok(Box::new(MergeCursor::new(sources.collect())));
        }
        let sources = owners.iter().copied().zip(sources).collect();
        Ok(Box::new(ChainCursor::new(topology, &range.from, range.to.as_deref(), sources)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_prefix_even_at_the_highest_bytes() {
        assert_eq!(Range::prefix(b"a\xff").to.as_deref(), Some(&b"b"[..]));
        assert_eq!(Range::prefix(b"\xff\xff").to, None);
        assert_eq!(Range::prefix(b"").to, None);
    }
}
