//! One instance: what it answers, and the way of a write.
//!
//! Invariants:
//!
//! 1. One writer at a time (`writer`): it appends to the journal, then changes the tree. The journal's order is the tree's history.
//! 2. Readers hold `tree` for reading, a writer for writing while it changes the tree, not while it waits for the journal.
//! 3. After a failed write or sync, or a panic of a writer, nothing is written any more. Where the tree is half changed, nothing is read either.
//! 4. Locks are taken in this order: writer, tree.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::combine::Combiner;
use biombo_engine::{Batch, Capabilities, Cursor, Damage, Durability, Engine, Op, OpenOptions, Snapshot, Stats, Value};
use biombo_journal::Journal;

use super::cursor::BtreeCursor;
use super::meta::Meta;
use super::open::{BtreeOptions, open_with};
use super::page::{PAGE_BYTES, Page, Stored};
use super::pages::Pages;
use super::tree::Tree;
use crate::Behaviour;
use crate::home::{Home, make_copy_target};
use crate::journaled;
use crate::poison::Poison;

/// Bytes of one batch of a copy.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// One open instance.
pub struct MicroBtree {
    pub(super) tree: RwLock<Tree>,
    pub(super) pages: Pages,
    pub(super) writer: Mutex<Writer>,
    /// `None`: published behaviour.
    pub(super) journal: Option<Journal>,
    pub(super) combiner: Combiner,
    pub(super) poison: Poison,
    pub(super) capabilities: Capabilities,
    pub(super) own: BtreeOptions,
    pub(super) behaviour: Behaviour,
    /// Last: the directory is free when all else is closed.
    pub(super) home: Home,
}

/// What belongs to the writer alone.
pub(super) struct Writer {
    /// The last checkpoint.
    pub meta: Meta,
    /// Bytes of records that the journal has taken since then.
    pub journaled_bytes: u64,
    /// Scratch.
    pub record: Vec<u8>,
}

impl MicroBtree {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for who looks for keys: not in a tree that is half changed.
    pub(super) fn sound(&self) -> Result<RwLockReadGuard<'_, Tree>> {
        let tree = self.tree.read().map_err(|_| {
            self.poison.torn(Error::new(ErrorKind::Poisoned, "a thread panicked while it changed the tree"))
        })?;
        self.poison.check_read()?;
        Ok(tree)
    }

    pub(super) fn change(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The role of the writer. One who panicked in it may have left the tree half changed.
    pub(super) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.lock().map_err(|_| {
            self.poison.after(Error::new(ErrorKind::Poisoned, "a thread panicked while it changed the tree"))
        })?;
        self.poison.check()?;
        Ok(writer)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut writer = self.lock_writer()?;
        match &self.journal {
            Some(journal) => self.write_journaled(journal, &mut writer, ops, durability),
            None => self.write_through(ops, durability),
        }
    }

    fn write_journaled(
        &self,
        journal: &Journal,
        writer: &mut Writer,
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<()> {
        if writer.journaled_bytes >= self.own.checkpoint_bytes {
            self.checkpoint_with(writer).map_err(|e| self.poison.after(e))?;
        }
        journaled::append(journal, &self.poison, ops, durability, &mut writer.record)?;
        writer.journaled_bytes += writer.record.len() as u64;
        let mut tree = self.change();
        apply_to(&mut tree, &self.pages, ops, self.own.dirty_pages_max).map_err(|cut| self.after(cut))
    }

    /// Published behaviour: every operation writes the pages that it changed.
    fn write_through(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut tree = self.change();
        apply_to(&mut tree, &self.pages, ops, 0).map_err(|cut| self.after(cut))?;
        match durability {
            Durability::Sync => self.pages.sync().map_err(|e| self.poison.after(e)),
            _ => Ok(()),
        }
    }

    /// Nothing is written any more; nor read, where only a part of the operations was done. The tree is held meanwhile.
    fn after(&self, Cut { error, is_torn }: Cut) -> Error {
        if is_torn { self.poison.torn(error) } else { self.poison.after(error) }
    }

    fn find(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.capabilities.check_key(key)?;
        into.clear();
        // A value's run is read before anybody can give its pages away.
        let tree = self.sound()?;
        let Some((leaf, at)) = tree.find(&self.pages, key)? else { return Ok(false) };
        read_value(&self.pages, &leaf, at, into)?;
        Ok(true)
    }

    fn fill(&self, dest: &Path) -> Result<()> {
        let copy = open_with(Arc::clone(self.home.io()), &OpenOptions::new(dest), &self.own, self.behaviour)?;
        let (mut batch, mut key, mut value) = (Batch::new(), Vec::new(), Vec::new());
        let tree = self.read();
        let mut found = tree.neighbour(&self.pages, Some(&[]), true)?;
        while let Some((leaf, first)) = found {
            for at in first..leaf.count() {
                read_value(&self.pages, &leaf, at, &mut value)?;
                batch.put(leaf.key(at), &value);
                if batch.bytes() > COPY_BATCH_BYTES {
                    copy.apply(&batch.to_ops(), Durability::Os)?;
                    batch.clear();
                }
            }
            key.clear();
            key.extend_from_slice(leaf.key(leaf.count() - 1));
            key.push(0);
            found = tree.neighbour(&self.pages, Some(&key), true)?;
        }
        copy.apply(&batch.to_ops(), Durability::Os)?;
        copy.close()
    }
}

/// Copy the value of a leaf's cell.
pub(super) fn read_value(pages: &Pages, leaf: &Page, at: usize, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    match leaf.value(at) {
        Stored::Inline(value) => into.extend_from_slice(value),
        Stored::Run(run) => pages.read_run(run, into)?,
    }
    Ok(())
}

/// Why not all was done, and whether the tree has part of it.
pub(super) struct Cut {
    pub error: Error,
    pub is_torn: bool,
}

/// Do operations to the tree, in order; after each, write pages back where too many are dirty.
pub(super) fn apply_to(tree: &mut Tree, pages: &Pages, ops: &[Op<'_>], dirty_max: usize) -> Result<(), Cut> {
    for (left, op) in (0..ops.len()).rev().zip(ops) {
        let done = match *op {
            Op::Put { key, value } => tree.put(pages, key, value),
            Op::Delete { key } => tree.delete(pages, key),
            Op::DeleteRange { from, to } => tree.delete_range(pages, from, to),
        };
        done.map_err(|error| Cut { error, is_torn: true })?;
        write_back(tree, pages, dirty_max).map_err(|error| Cut { error, is_torn: left > 0 })?;
    }
    Ok(())
}

/// Where more than `dirty_max` pages are dirty, write the older half of them, or all where none may be.
fn write_back(tree: &mut Tree, pages: &Pages, dirty_max: usize) -> Result<()> {
    if tree.dirty_pages() <= dirty_max {
        return Ok(());
    }
    let oldest = tree.oldest_dirty(tree.dirty_pages() - dirty_max / 2);
    pages.write(&oldest)?;
    tree.cleaned(pages, oldest);
    Ok(())
}

impl Engine for MicroBtree {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let mut value = Vec::new();
        Ok(self.find(key, &mut value)?.then(|| Value::owned(value)))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.find(key, into)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        Ok(self.sound()?.find(&self.pages, key)?.is_some())
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        match durability {
            Durability::Sync => self.combiner.commit(ops, durability, |ops, durability| self.write(ops, durability)),
            _ => self.write(ops, durability),
        }
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        let synced = match &self.journal {
            Some(journal) => journal.sync(),
            None => self.pages.sync(),
        };
        synced.map_err(|e| self.poison.after(e))
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Err(Error::unsupported("the engine micro-btree changes its pages in place and has no snapshots"))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(BtreeCursor::new(self)))
    }

    /// Reads go on; writes wait.
    fn checkpoint(&self, dest: &Path) -> Result<()> {
        let io = &**self.home.io();
        make_copy_target(io, dest)?;
        let _writer = self.lock_writer()?;
        self.fill(dest).inspect_err(|_| {
            // Best effort: the caller hears of the error that made the copy useless.
            let _ = io.remove_dir_all(dest);
        })
    }

    fn compact(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        if self.journal.is_some() {
            self.checkpoint_with(&mut writer).and_then(|()| self.cut_off()).map_err(|e| self.poison.after(e))?;
        }
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        let (file_bytes, figures) = (self.pages.file_bytes()?, &self.pages.figures);
        let journal = self.journal.as_ref().map(Journal::stats).unwrap_or_default();
        let tree = self.read();
        let page_bytes = PAGE_BYTES as u64;
        Ok(Stats {
            keys: Some(tree.keys),
            logical_bytes: Some(tree.logical_bytes),
            physical_bytes: Some(file_bytes + journal.file_bytes),
            written_bytes: Some(figures.written() + journal.written_bytes),
            unflushed_bytes: Some(tree.dirty_pages() as u64 * page_bytes + journal.ahead_bytes),
            cache_bytes: Some((self.pages.cached() + tree.dirty_pages()) as u64 * page_bytes),
            cache_hits_misses: Some(figures.hits_misses()),
            // Without a journal there are no checkpoints.
            compaction: self.journal.as_ref().map(|_| figures.compaction()),
            compaction_tail: self.journal.as_ref().map(|_| figures.tail()),
            options: self.own.describe(self.behaviour),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.verify_all(&writer.meta, report)
    }
}

impl Drop for MicroBtree {
    fn drop(&mut self) {
        // What cannot be said here is found on opening: the journal has what was acknowledged.
        let _ = self.close();
    }
}
