//! Snapshots and cursors of RocksDB.
//!
//! 1. Both hold the engine, so the database closes after the last of them.
//! 2. `next` and `prev` are called on the library's iterator only at a valid position: elsewhere they are undefined there.

use std::sync::Arc;

use biombo_engine::{Cursor, Result, Snapshot, Value};

use super::{ReadOptions, RocksDb, call, chars, ffi};
use crate::c;

/// One point in the history of the database.
pub(super) struct RocksSnapshot {
    // Dropped before `engine`: fields drop in order, and `Drop` runs first.
    read: ReadOptions,
    snapshot: *const ffi::Snap,
    engine: Arc<RocksDb>,
}

// SAFETY: (FC5) a snapshot is an immutable sequence number; reading at it and releasing it is thread-safe.
unsafe impl Send for RocksSnapshot {}
// SAFETY: (FC5) as above.
unsafe impl Sync for RocksSnapshot {}

impl RocksSnapshot {
    pub(super) fn new(engine: Arc<RocksDb>) -> Self {
        // SAFETY: (FC1) the database is live, and `engine` keeps it so.
        let snapshot = unsafe { ffi::rocksdb_create_snapshot(engine.db.0) };
        Self { read: ReadOptions::new(snapshot, true), snapshot, engine }
    }
}

impl Drop for RocksSnapshot {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, released once, while the database is live.
        unsafe { ffi::rocksdb_release_snapshot(self.engine.db.0, self.snapshot) }
    }
}

impl Snapshot for RocksSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(self.engine.get_pinned(&self.read, key)?.map(Value::guarded))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        // SAFETY: (FC1) live handles; the cursor holds the snapshot, which holds the engine.
        let iter = unsafe { ffi::rocksdb_create_iterator(self.engine.db.0, self.read.0) };
        Ok(Box::new(RocksCursor { iter, engine: Arc::clone(&self.engine), _snapshot: Some(self) }))
    }
}

/// A position in the ordered keys.
pub(super) struct RocksCursor {
    iter: *mut ffi::Iter,
    engine: Arc<RocksDb>,
    _snapshot: Option<Arc<RocksSnapshot>>,
}

// SAFETY: (FC5) an iterator may move between threads; it is used by one at a time (`&mut self`, and `&self` only reads).
unsafe impl Send for RocksCursor {}

impl Drop for RocksCursor {
    fn drop(&mut self) {
        // SAFETY: (FC1) created once, destroyed once, before the snapshot and the database.
        unsafe { ffi::rocksdb_iter_destroy(self.iter) }
    }
}

impl RocksCursor {
    pub(super) fn new(engine: Arc<RocksDb>) -> Self {
        // SAFETY: (FC1) live handles; the cursor holds the engine.
        let iter = unsafe { ffi::rocksdb_create_iterator(engine.db.0, engine.read.0) };
        Self { iter, engine, _snapshot: None }
    }

    fn is_valid(&self) -> bool {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::rocksdb_iter_valid(self.iter) != 0 }
    }

    /// After a movement: no position is either the end or an error.
    fn moved(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        // SAFETY: (FC1) the iterator is live.
        call("scan", self.engine.home.dir(), |err| unsafe { ffi::rocksdb_iter_get_error(self.iter, err) })
    }
}

impl Cursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: (FC1, FC2) the iterator is live; the key is copied.
        unsafe { ffi::rocksdb_iter_seek(self.iter, chars(key), key.len()) }
        self.moved()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: (FC1, FC2) the iterator is live; the key is copied.
        unsafe { ffi::rocksdb_iter_seek_for_prev(self.iter, chars(key), key.len()) }
        self.moved()?;
        if self.key() == Some(key) { self.prev() } else { Ok(()) }
    }

    fn first(&mut self) -> Result<()> {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::rocksdb_iter_seek_to_first(self.iter) }
        self.moved()
    }

    fn last(&mut self) -> Result<()> {
        // SAFETY: (FC1) the iterator is live.
        unsafe { ffi::rocksdb_iter_seek_to_last(self.iter) }
        self.moved()
    }

    fn next(&mut self) -> Result<()> {
        if !self.is_valid() {
            return Ok(());
        }
        // SAFETY: (FC1) the iterator is live and has a position.
        unsafe { ffi::rocksdb_iter_next(self.iter) }
        self.moved()
    }

    fn prev(&mut self) -> Result<()> {
        if !self.is_valid() {
            return Ok(());
        }
        // SAFETY: (FC1) the iterator is live and has a position.
        unsafe { ffi::rocksdb_iter_prev(self.iter) }
        self.moved()
    }

    fn key(&self) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: (FC3) the bytes stay until the next movement, which needs `&mut self`.
        self.is_valid().then(|| unsafe { c::bytes(ffi::rocksdb_iter_key(self.iter, &raw mut len), len) })
    }

    fn value(&self) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: (FC3) as for the key.
        self.is_valid().then(|| unsafe { c::bytes(ffi::rocksdb_iter_value(self.iter, &raw mut len), len) })
    }
}
