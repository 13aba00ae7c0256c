//! One instance: what it answers, and the way of a write.
//!
//! Invariants:
//!
//! 1. One writer at a time (`writer`): it appends to the journal, then changes the memtable. The journal's order is the history's.
//! 2. Readers hold a view, memtable and levels together, which is replaced as a whole.
//! 3. After a failed write or sync, or a panic of a writer, nothing is written any more.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::combine::Combiner;
use biombo_engine::{Batch, Capabilities, Cursor, Damage, Durability, Engine, Op, OpenOptions, Snapshot, Stats, Value};
use biombo_journal::Journal;

use super::bloom;
use super::levels::{Head, LEVELS, Levels, MANIFEST_BYTES};
use super::memtable::Memtable;
use super::open::{LsmOptions, open_with};
use super::table::Shared;
use super::view::{LsmSnapshot, merge_of};
use crate::Behaviour;
use crate::home::{Home, make_copy_target};
use crate::journaled;
use crate::poison::Poison;

/// Bytes of one batch of a copy.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// One open instance.
pub struct MicroLsm {
    pub(super) view: RwLock<Arc<View>>,
    pub(super) writer: Mutex<Writer>,
    pub(super) shared: Arc<Shared>,
    /// `None`: published behaviour.
    pub(super) journal: Option<Journal>,
    pub(super) combiner: Combiner,
    pub(super) poison: Poison,
    pub(super) capabilities: Capabilities,
    pub(super) own: LsmOptions,
    pub(super) behaviour: Behaviour,
    pub(super) me: Weak<MicroLsm>,
    /// Last: the directory is free when all else is closed.
    pub(super) home: Home,
}

/// What readers see.
pub(super) struct View {
    pub memtable: Arc<Memtable>,
    pub levels: Arc<Levels>,
}

/// What belongs to the writer alone.
pub(super) struct Writer {
    pub head: Head,
    /// Bytes of records in the journal that are in no table.
    pub journaled_bytes: u64,
    /// Of each level, the last key of the table that was compacted last.
    pub compacted_to: [Vec<u8>; LEVELS],
    /// Whether what is due at the beginning was compacted: closing leaves that to the next one who writes.
    pub has_compacted: bool,
    /// Scratch.
    pub record: Vec<u8>,
}

impl View {
    /// Copy what `key` was after batch `seq`, and say whether it was there.
    pub fn find(&self, key: &[u8], seq: u64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let mut take = |value: Option<&[u8]>| value.map(|value| into.extend_from_slice(value)).is_some();
        if let Some(found) = self.memtable.get(key, seq, &mut take) {
            return Ok(found);
        }
        let hash = bloom::hash(key);
        for (level, tables) in self.levels.0.iter().enumerate() {
            let candidates = match level {
                0 => &tables[..],
                _ => {
                    let at = tables.partition_point(|table| &table.last[..] < key);
                    &tables[at..tables.len().min(at + 1)]
                }
            };
            for table in candidates {
                if let Some((block, at)) = table.find(key, hash)? {
                    return Ok(take(block.entry(at).1));
                }
            }
        }
        Ok(false)
    }
}

impl MicroLsm {
    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on this is what readers see.
    pub(super) fn show(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// The role of the writer. One who panicked in it may have left something half done.
    fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.lock().map_err(|_| {
            self.poison.after(Error::new(ErrorKind::Poisoned, "a thread panicked while it changed the tables"))
        })?;
        self.poison.check()?;
        Ok(writer)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut writer = self.lock_writer()?;
        if !std::mem::replace(&mut writer.has_compacted, true) {
            self.compact_due(&mut writer).map_err(|e| self.poison.after(e))?;
        }
        if writer.journaled_bytes >= self.own.journaled_bytes_max
            || self.view().memtable.is_full(self.own.memtable_records_max, self.own.memtable_bytes_max)
        {
            self.flush(&mut writer).map_err(|e| self.poison.after(e))?;
        }
        let view = self.view();
        let resolved = resolve(&view, ops)?;
        let resolved = resolved.as_ref().map(Batch::to_ops);
        let ops = resolved.as_deref().unwrap_or(ops);
        if let Some(journal) = &self.journal {
            journaled::append(journal, &self.poison, ops, durability, &mut writer.record)?;
            writer.journaled_bytes += writer.record.len() as u64;
        }
        view.memtable.apply(ops);
        if self.journal.is_none() && durability == Durability::Sync {
            self.flush(&mut writer).map_err(|e| self.poison.after(e))?;
        }
        Ok(())
    }

    /// Write what is in memory, unless something has failed. What is to be compacted then is the next one's: whoever closes does not wait for it,
    /// and what was written is what was said to be still to be written.
    pub(super) fn close(&self) -> Result<()> {
        if self.poison.is_set() || self.writer.is_poisoned() {
            return Ok(());
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_memtable(&mut writer).map_err(|e| self.poison.after(e))
    }

    fn find(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.capabilities.check_key(key)?;
        self.view().find(key, u64::MAX, into)
    }

    fn fill(&self, snapshot: &LsmSnapshot, dest: &Path) -> Result<()> {
        let copy = open_with(Arc::clone(&self.shared.io), &OpenOptions::new(dest), &self.own, self.behaviour)?;
        let (mut batch, mut merge) = (Batch::new(), snapshot.merge());
        merge.seek(b"")?;
        while let (Some(key), Some(Some(value))) = (merge.key(), merge.value()) {
            batch.put(key, value);
            if batch.bytes() > COPY_BATCH_BYTES {
                copy.apply(&batch.to_ops(), Durability::Os)?;
                batch.clear();
            }
            merge.next()?;
        }
        copy.apply(&batch.to_ops(), Durability::Os)?;
        copy.close()
    }
}

/// The operations with each range replaced by the deletions of its keys; `None`: there is no range. Nobody writes meanwhile.
fn resolve(view: &View, ops: &[Op<'_>]) -> Result<Option<Batch>> {
    if !ops.iter().any(|op| matches!(op, Op::DeleteRange { .. })) {
        return Ok(None);
    }
    let mut batch = Batch::new();
    for (index, op) in ops.iter().enumerate() {
        let Op::DeleteRange { from, to } = *op else {
            batch.push(*op);
            continue;
        };
        let within = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
        for before in &ops[..index] {
            if let Op::Put { key, .. } = *before
                && within(key)
            {
                batch.delete(key);
            }
        }
        let mut merge = merge_of(view, u64::MAX);
        merge.seek(from)?;
        while let Some(key) = merge.key().filter(|key| within(key)) {
            batch.delete(key);
            merge.next()?;
        }
    }
    Ok(Some(batch))
}

impl Engine for MicroLsm {
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
        match &self.journal {
            Some(journal) => {
                self.poison.check()?;
                journal.sync().map_err(|e| self.poison.after(e))
            }
            None => {
                let mut writer = self.lock_writer()?;
                self.flush(&mut writer).map_err(|e| self.poison.after(e))
            }
        }
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(LsmSnapshot::take(self))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        LsmSnapshot::take(self).cursor()
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        let io = &*self.shared.io;
        make_copy_target(io, dest)?;
        let engine = self.me.upgrade().expect("invariant: whoever calls holds the engine");
        self.fill(&LsmSnapshot::take(engine), dest).inspect_err(|_| {
            // Best effort: the caller hears of the error that made the copy useless.
            let _ = io.remove_dir_all(dest);
        })
    }

    fn compact(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        self.compact_all(&mut writer).map_err(|e| self.poison.after(e))
    }

    fn stats(&self) -> Result<Stats> {
        let (view, figures) = (self.view(), &self.shared.figures);
        let journal = self.journal.as_ref().map(Journal::stats).unwrap_or_default();
        let count = |of: fn(&super::table::Table) -> u64| view.levels.all().map(|table| of(table)).sum::<u64>();
        let entries = count(|table| table.entries) + view.memtable.len() as u64;
        Ok(Stats {
            // A deletion hides a key, most of the time.
            keys: Some(entries.saturating_sub(2 * count(|table| table.tombstones))),
            keys_estimated: true,
            physical_bytes: Some(count(|table| table.bytes()) + journal.file_bytes),
            written_bytes: Some(figures.written() + journal.written_bytes),
            unflushed_bytes: Some(
                view.memtable.table_bytes().map_or(0, |bytes| bytes + MANIFEST_BYTES) + journal.ahead_bytes,
            ),
            cache_bytes: Some(
                self.shared.cache.weight() + view.levels.lead_bytes() + view.memtable.memory_bytes() as u64,
            ),
            cache_hits_misses: Some(figures.hits_misses()),
            compaction: Some(figures.compaction()),
            compaction_tail: Some(figures.tail()),
            options: self.own.describe(self.behaviour),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.verify_all(&writer.head, report)
    }
}

impl Drop for MicroLsm {
    fn drop(&mut self) {
        // What cannot be said here is found on opening: the journal has what was acknowledged.
        let _ = self.close();
    }
}
