//! Sorted sources as one: the memtable and the levels, both ways.
//!
//! Invariants:
//!
//! 1. Sources come in the order of precedence: what an earlier one says of a key hides what later ones say.
//! 2. Going forward, every source stands at its first key at or after the current one; going backward, at its last key at or before.

use std::ops::Bound;
use std::sync::Arc;

use biombo_base::Result;

use super::block::Block;
use super::memtable::{Memtable, Slot};
use super::table::Table;

/// One sorted source.
pub(super) enum Source {
    /// The memtable as of a batch.
    Memtable { table: Arc<Memtable>, seq: u64, here: Option<(Vec<u8>, Slot)> },
    /// Tables in the order of their keys.
    Tables { tables: Vec<Arc<Table>>, here: Option<Place> },
}

/// An entry: which table and block, the block itself, which of its entries.
pub(super) struct Place {
    table: usize,
    index: usize,
    block: Arc<Block>,
    entry: usize,
}

impl Source {
    pub fn memtable(table: Arc<Memtable>, seq: u64) -> Self {
        Self::Memtable { table, seq, here: None }
    }

    pub fn tables(tables: Vec<Arc<Table>>) -> Self {
        Self::Tables { tables, here: None }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable { here, .. } => here.as_ref().map(|(key, _)| &key[..]),
            Self::Tables { here, .. } => here.as_ref().map(|place| place.block.entry(place.entry).0),
        }
    }

    /// The value here; the inner `None`: it was deleted.
    fn value(&self) -> Option<Option<&[u8]>> {
        match self {
            Self::Memtable { here, .. } => here.as_ref().map(|(_, slot)| slot.as_deref()),
            Self::Tables { here, .. } => here.as_ref().map(|place| place.block.entry(place.entry).1),
        }
    }

    /// To the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Self::Memtable { table, seq, here } => {
                *here = table.find((Bound::Included(key), Bound::Unbounded), *seq, true);
            }
            Self::Tables { tables, here } => {
                *here = None;
                let at = tables.partition_point(|table| &table.last[..] < key);
                let Some(table) = tables.get(at) else { return Ok(()) };
                let index = table.block_of(key);
                let block = table.block(index)?;
                let entry = block.search(key).unwrap_or_else(|before| before);
                *here = settle(tables, at, index, block, entry)?;
            }
        }
        Ok(())
    }

    /// To the last key before `key`; `None`: the last one of all.
    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        match self {
            Self::Memtable { table, seq, here } => {
                let end = key.map_or(Bound::Unbounded, Bound::Excluded);
                *here = table.find((Bound::Unbounded, end), *seq, false);
            }
            Self::Tables { tables, here } => {
                *here = None;
                let count = tables.partition_point(|table| key.is_none_or(|key| table.first() < key));
                let Some(at) = count.checked_sub(1) else { return Ok(()) };
                let table = &tables[at];
                let index = key.map_or(table.blocks() - 1, |key| table.block_of(key));
                let block = table.block(index)?;
                let count = key.map_or(block.count(), |key| block.search(key).unwrap_or_else(|before| before));
                *here = match count.checked_sub(1) {
                    Some(entry) => Some(Place { table: at, index, block, entry }),
                    None => before_block(tables, at, index)?,
                };
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        match self {
            Self::Memtable { table, seq, here } => {
                if let Some((key, _)) = here.take() {
                    *here = table.find((Bound::Excluded(&key[..]), Bound::Unbounded), *seq, true);
                }
            }
            Self::Tables { tables, here } => {
                if let Some(Place { table, index, block, entry }) = here.take() {
                    *here = settle(tables, table, index, block, entry + 1)?;
                }
            }
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        match self {
            Self::Memtable { table, seq, here } => {
                if let Some((key, _)) = here.take() {
                    *here = table.find((Bound::Unbounded, Bound::Excluded(&key[..])), *seq, false);
                }
            }
            Self::Tables { tables, here } => {
                if let Some(Place { table, index, block, entry }) = here.take() {
                    *here = match entry.checked_sub(1) {
                        Some(entry) => Some(Place { table, index, block, entry }),
                        None => before_block(tables, table, index)?,
                    };
                }
            }
        }
        Ok(())
    }
}

/// That entry of a block, or the first one of what follows it.
fn settle(tables: &[Arc<Table>], table: usize, index: usize, block: Arc<Block>, entry: usize) -> Result<Option<Place>> {
    if entry < block.count() {
        return Ok(Some(Place { table, index, block, entry }));
    }
    let (table, index) = if index + 1 < tables[table].blocks() { (table, index + 1) } else { (table + 1, 0) };
    match tables.get(table) {
        Some(found) => Ok(Some(Place { table, index, block: found.block(index)?, entry: 0 })),
        None => Ok(None),
    }
}

/// The last entry of the block before.
fn before_block(tables: &[Arc<Table>], table: usize, index: usize) -> Result<Option<Place>> {
    let (table, index) = match (index, table) {
        (0, 0) => return Ok(None),
        (0, _) => (table - 1, tables[table - 1].blocks() - 1),
        _ => (table, index - 1),
    };
    let block = tables[table].block(index)?;
    let entry = block.count() - 1;
    Ok(Some(Place { table, index, block, entry }))
}

/// See the module.
pub(super) struct Merge {
    sources: Vec<Source>,
    current: Option<usize>,
    is_forward: bool,
    /// Deleted keys are shown too.
    with_deleted: bool,
    /// Scratch: the key that is left.
    left: Vec<u8>,
}

impl Merge {
    pub fn new(sources: Vec<Source>, with_deleted: bool) -> Self {
        Self { sources, current: None, is_forward: true, with_deleted, left: Vec::new() }
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.sources[self.current?].key()
    }

    /// The value here; the inner `None`: it was deleted.
    pub fn value(&self) -> Option<Option<&[u8]>> {
        self.sources[self.current?].value()
    }

    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        self.is_forward = true;
        self.sources.iter_mut().try_for_each(|source| source.seek(key))?;
        self.settle()
    }

    pub fn seek_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        self.current = None;
        self.is_forward = false;
        self.sources.iter_mut().try_for_each(|source| source.seek_before(key))?;
        self.settle()
    }

    pub fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    pub fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        self.leave(current);
        if self.is_forward != forward {
            let Self { sources, left, .. } = self;
            match forward {
                true => sources.iter_mut().try_for_each(|source| source.seek(left))?,
                false => sources.iter_mut().try_for_each(|source| source.seek_before(Some(left)))?,
            }
            self.is_forward = forward;
        }
        self.pass()?;
        self.settle()
    }

    fn leave(&mut self, current: usize) {
        self.left.clear();
        self.left.extend_from_slice(self.sources[current].key().unwrap_or_default());
    }

    /// Move every source on that stands at the key that is left.
    fn pass(&mut self) -> Result<()> {
        let Self { sources, left, is_forward, .. } = self;
        for source in sources.iter_mut().filter(|source| source.key() == Some(&left[..])) {
            if *is_forward { source.next() } else { source.prev() }?;
        }
        Ok(())
    }

    /// To the nearest key that is to be shown.
    fn settle(&mut self) -> Result<()> {
        loop {
            let keys = self.sources.iter().enumerate().filter_map(|(at, source)| Some((source.key()?, at)));
            // Of equal keys the source that comes first: `min` takes it by its number, going backward it has to be the greater one.
            let nearest = match self.is_forward {
                true => keys.min(),
                false => keys.max_by(|(a, at), (b, other)| a.cmp(b).then(other.cmp(at))),
            };
            let Some((_, at)) = nearest else { return Ok(()) };
            if self.with_deleted || self.sources[at].value().is_some_and(|value| value.is_some()) {
                self.current = Some(at);
                return Ok(());
            }
            self.leave(at);
            self.pass()?;
        }
    }
}
