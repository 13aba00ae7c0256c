//! Snapshots and cursors of LevelDB.
//!
//! 1. Both hold the engine, so the database closes after the last of them.
//! 2. `next` and `prev` are called on the library's iterator only at a valid position: elsewhere they are undefined there.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use biombo_engine::{Cursor, Result, Snapshot, Value};

use super::{LevelDb, ReadOptions, call, chars, ffi};
use crate::c;

/// LevelDB's iterator, borrowing what it reads from.
pub(super) struct RawIter<'a> {
    iter: *mut ffi::Iter,
    engine: PhantomData<&'a LevelDb>,
}

// SAFETY: (FC5) an iterator may move between threads; it is used by one at a time (`&mut self`, and `&self` only reads).
unsafe impl Send for RawIter<'_> {}

impl Drop for RawIter<'_> {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once, before the database and the snapshot.
        unsafe { ffi::leveldb_iter_destroy(self.iter) }
    }
}

impl<'a> RawIter<'a> {
    pub(super) fn new(engine: &'a LevelDb, read: &ReadOptions) -> Self {
        // SAFETY: (FC1) live handles; the database outlives the borrow, and the options are copied.
        let iter = unsafe { ffi::leveldb_create_iterator(engine.db.db, read.0) };
        Self { iter, engine: PhantomData }
    }

    fn is_valid(&self) -> bool {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::leveldb_iter_valid(self.iter) != 0 }
    }

    pub(super) fn first(&mut self) {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::leveldb_iter_seek_to_first(self.iter) }
    }

    fn last(&mut self) {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::leveldb_iter_seek_to_last(self.iter) }
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        // SAFETY: (FC1, FC2) the iterator is live; the key is copied.
        unsafe { ffi::leveldb_iter_seek(self.iter, chars(key), key.len()) }
    }

    pub(super) fn next(&mut self) {
        if self.is_valid() {
            // SAFETY: (FC1) the iterator is live and has a position.
            unsafe { ffi::leveldb_iter_next(self.iter) }
        }
    }

    fn prev(&mut self) {
        if self.is_valid() {
            // SAFETY: (FC1) the iterator is live and has a position.
            unsafe { ffi::leveldb_iter_prev(self.iter) }
        }
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: (FC3) the bytes stay until the next movement, which needs `&mut self`.
        self.is_valid().then(|| unsafe { c::bytes(ffi::leveldb_iter_key(self.iter, &raw mut len), len) })
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: (FC3) as for the key.
        self.is_valid().then(|| unsafe { c::bytes(ffi::leveldb_iter_value(self.iter, &raw mut len), len) })
    }

    /// The first error that the iterator met, if any; it skips damaged blocks.
    pub(super) fn status(&self, dir: &Path) -> Result<()> {
        // SAFETY: (FC1) the iterator is live.
        call("scan", dir, |err| unsafe { ffi::leveldb_iter_get_error(self.iter, err) })
    }
}

/// One point in the history of the database.
pub(super) struct LevelSnapshot {
    read: ReadOptions,
    snapshot: *const ffi::Snap,
    engine: Arc<LevelDb>,
}

// SAFETY: (FC5) a snapshot is an immutable sequence number; reading at it and releasing it is thread-safe.
unsafe impl Send for LevelSnapshot {}
// SAFETY: (FC5) as above.
unsafe impl Sync for LevelSnapshot {}

impl LevelSnapshot {
    pub(super) fn new(engine: Arc<LevelDb>) -> Self {
        // SAFETY: (FC1) the database is live, and `engine` keeps it so.
        let snapshot = unsafe { ffi::leveldb_create_snapshot(engine.db.db) };
        Self { read: ReadOptions::new(snapshot, true), snapshot, engine }
    }
}

impl Drop for LevelSnapshot {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, released once, while the database is live.
        unsafe { ffi::leveldb_release_snapshot(self.engine.db.db, self.snapshot) }
    }
}

impl Snapshot for LevelSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(self.engine.get_allocated(&self.read, key)?.map(Value::guarded))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(LevelCursor::over(Arc::clone(&self.engine), Some(self))))
    }
}

/// A position in the ordered keys.
pub(super) struct LevelCursor {
    // Declared, so dropped, before what it reads from.
    iter: RawIter<'static>,
    _snapshot: Option<Arc<LevelSnapshot>>,
    engine: Arc<LevelDb>,
}

impl LevelCursor {
    pub(super) fn new(engine: Arc<LevelDb>) -> Self {
        Self::over(engine, None)
    }

    fn over(engine: Arc<LevelDb>, snapshot: Option<Arc<LevelSnapshot>>) -> Self {
        let read = snapshot.as_ref().map_or(&engine.read, |snapshot| &snapshot.read);
        // SAFETY: (FC1) live handles; the cursor holds the engine and the snapshot, and drops its iterator first.
        let iter = unsafe { ffi::leveldb_create_iterator(engine.db.db, read.0) };
        Self { iter: RawIter { iter, engine: PhantomData }, _snapshot: snapshot, engine }
    }

    /// After a movement. LevelDB's iterator skips damaged blocks and remembers that it did, so the status counts at
    /// every position, not only at the end: a scan must not pass over lost keys in silence.
    fn moved(&self) -> Result<()> {
        self.iter.status(self.engine.home.dir())
    }
}

impl Cursor for LevelCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek(key);
        self.moved()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek(key);
        if self.iter.is_valid() {
            self.iter.prev();
        } else {
            self.moved()?;
            self.iter.last();
        }
        self.moved()
    }

    fn first(&mut self) -> Result<()> {
        self.iter.first();
        self.moved()
    }

    fn last(&mut self) -> Result<()> {
        self.iter.last();
        self.moved()
    }

    fn next(&mut self) -> Result<()> {
        self.iter.next();
        self.moved()
    }

    fn prev(&mut self) -> Result<()> {
        self.iter.prev();
        self.moved()
    }

    fn key(&self) -> Option<&[u8]> {
        self.iter.key()
    }

    fn value(&self) -> Option<&[u8]> {
        self.iter.value()
    }
}
