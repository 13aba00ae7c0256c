//! Views of one point in history: snapshots and cursors.

use std::sync::Arc;

use biombo_base::Result;
use biombo_engine::{Cursor, Engine, Snapshot, Value};

use super::compact::sources;
use super::engine::{MicroLsm, View};
use super::merge::{Merge, Source};

/// What the instance was after some batch.
pub(super) struct LsmSnapshot {
    engine: Arc<MicroLsm>,
    view: Arc<View>,
    seq: u64,
}

impl LsmSnapshot {
    pub fn take(engine: Arc<MicroLsm>) -> Arc<Self> {
        // Whoever replaces the view meanwhile has put all of its memtable into a table: it is the same history up to its last batch.
        let view = engine.view();
        let seq = view.memtable.take_snapshot();
        Arc::new(Self { engine, view, seq })
    }

    pub fn merge(&self) -> Merge {
        merge_of(&self.view, self.seq)
    }
}

/// All that a view says as of batch `seq`, without what was deleted.
pub(super) fn merge_of(view: &View, seq: u64) -> Merge {
    let memtable = Source::memtable(Arc::clone(&view.memtable), seq);
    let tables = sources(&view.levels).into_iter().map(Source::tables);
    Merge::new(std::iter::once(memtable).chain(tables).collect(), false)
}

impl Snapshot for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.engine.capabilities().check_key(key)?;
        let mut value = Vec::new();
        Ok(self.view.find(key, self.seq, &mut value)?.then(|| Value::owned(value)))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        let merge = self.merge();
        Ok(Box::new(LsmCursor { _snapshot: self, merge }))
    }
}

struct LsmCursor {
    /// Holds the instance open.
    _snapshot: Arc<LsmSnapshot>,
    merge: Merge,
}

impl Cursor for LsmCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek_before(Some(key))
    }

    fn first(&mut self) -> Result<()> {
        self.merge.seek(b"")
    }

    fn last(&mut self) -> Result<()> {
        self.merge.seek_before(None)
    }

    fn next(&mut self) -> Result<()> {
        self.merge.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.merge.prev()
    }

    fn key(&self) -> Option<&[u8]> {
        self.merge.key()
    }

    fn value(&self) -> Option<&[u8]> {
        self.merge.value().flatten()
    }
}
