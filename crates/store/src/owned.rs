//! A cursor that leaves out what its partition does not own.
//!
//! While units move, and until what they leave behind is cleaned, a partition holds keys of others. One route for each key passed, and
//! only where such keys may be.
//!
//! Invariants: a position is a key that the partition owns by the placement, or one of the store's own (which the cursors above pass over).
//! Stored keys go in and come out.

use std::sync::Arc;

use biombo_engine::{Cursor, Result};

use crate::topology::{Counted, Topology};
use crate::{PartitionId, keyspace};

/// The owned keys of a partition.
pub(crate) struct Owned {
    cursor: Box<dyn Cursor>,
    topology: Arc<Topology>,
    partition: PartitionId,
    scratch: Vec<u8>,
    /// Keeps what this cursor passes from being cleaned: it may read the present.
    _scan: Counted,
}

impl Owned {
    pub(crate) fn new(cursor: Box<dyn Cursor>, topology: &Arc<Topology>, partition: PartitionId) -> Self {
        let scan = topology.count_scan();
        Self { cursor, topology: Arc::clone(topology), partition, scratch: Vec::new(), _scan: scan }
    }

    fn is_strange(&mut self) -> bool {
        let Some(stored) = self.cursor.key() else { return false };
        !keyspace::is_own(stored)
            && self.topology.placement.owner(keyspace::decode(stored, &mut self.scratch)) != self.partition
    }

    fn forward(&mut self) -> Result<()> {
        while self.is_strange() {
            self.cursor.next()?;
        }
        Ok(())
    }

    fn back(&mut self) -> Result<()> {
        while self.is_strange() {
            self.cursor.prev()?;
        }
        Ok(())
    }
}

impl Cursor for Owned {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        self.forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)?;
        self.back()
    }

    fn first(&mut self) -> Result<()> {
        self.cursor.first()?;
        self.forward()
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.last()?;
        self.back()
    }

    fn expect(&mut self, keys: u64) {
        self.cursor.expect(keys);
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()?;
        self.forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()?;
        self.back()
    }

    fn key(&self) -> Option<&[u8]> {
        self.cursor.key()
    }

    fn value(&self) -> Option<&[u8]> {
        self.cursor.value()
    }
}
