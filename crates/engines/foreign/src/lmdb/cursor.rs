//! Snapshots and cursors: a read transaction that stays open.
//!
//! 1. A transaction and its cursors are used by one thread at a time (LMDB's rule): a [`View`] that several cursors or
//!    threads may share has a lock, held for a movement, not while the caller looks at what it found.
//! 2. What was found stays valid, without a copy, as long as the view is open: the pages of an open snapshot are neither
//!    changed nor used again.
//!
//! A view that is kept open makes the file grow by what is overwritten meanwhile.

use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::Result;
use biombo_engine::{Cursor, Engine, Snapshot, Value};
use lmdb_master_sys as ffi;

use super::readers::{self, bytes, val};
use super::{Lmdb, MAIN};

/// One point in the history, held by a read transaction.
pub struct View {
    engine: Arc<Lmdb>,
    txn: *mut ffi::MDB_txn,
    lock: Mutex<()>,
}

// SAFETY: (FL1) MDB_NOTLS lets a read transaction move between threads.
unsafe impl Send for View {}
// SAFETY: (FL3) shared uses of the transaction take the lock.
unsafe impl Sync for View {}

impl View {
    /// The present state.
    pub fn open(engine: Arc<Lmdb>) -> Result<Self> {
        let txn = engine.readers.take().map_err(|code| engine.error(code, "begin a read"))?;
        Ok(Self { engine, txn, lock: Mutex::new(()) })
    }

    /// A cursor over a view that nobody else has.
    pub fn alone(self: Arc<Self>) -> Result<LmdbCursor> {
        let is_alone = Arc::strong_count(&self) == 1;
        self.open_cursor(is_alone)
    }

    fn open_cursor(self: Arc<Self>, is_alone: bool) -> Result<LmdbCursor> {
        let mut cursor = ptr::null_mut();
        let code = {
            let _held = self.hold();
            // SAFETY: (FL3) the transaction is open and the lock is held.
            unsafe { ffi::mdb_cursor_open(self.txn, MAIN, &mut cursor) }
        };
        if code != 0 {
            return Err(self.engine.error(code, "open a cursor"));
        }
        Ok(LmdbCursor { cursor, here: None, is_alone, view: self })
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.engine.readers.give_back(self.txn);
    }
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.engine.capabilities().check_key(key)?;
        let found = {
            let _held = self.hold();
            // SAFETY: (FL3) the transaction is open and the lock is held.
            unsafe { readers::find(self.txn, key) }
        };
        match found {
            // SAFETY: (FL2) the bytes are in the map, and `self`, which the value borrows, keeps the transaction open.
            Ok(found) => Ok(found.map(|bytes| Value::borrowed(unsafe { bytes.as_ref() }))),
            Err(code) => Err(self.engine.error(code, "read")),
        }
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(self.open_cursor(false)?))
    }
}

/// A key and its value in the map, valid while the view is open.
#[derive(Clone, Copy)]
struct Entry {
    key: NonNull<[u8]>,
    value: NonNull<[u8]>,
}

/// A position in a view.
pub struct LmdbCursor {
    cursor: *mut ffi::MDB_cursor,
    here: Option<Entry>,
    is_alone: bool,
    view: Arc<View>,
}

// SAFETY: (FL1) MDB_NOTLS lets a read transaction and its cursors move between threads.
unsafe impl Send for LmdbCursor {}

impl Drop for LmdbCursor {
    fn drop(&mut self) {
        // SAFETY: (FL3) the cursor is valid; closing one of a read transaction touches nothing else.
        unsafe { ffi::mdb_cursor_close(self.cursor) };
    }
}

impl LmdbCursor {
    fn go(&mut self, key: &[u8], op: ffi::MDB_cursor_op) -> Result<()> {
        self.here = None;
        let mut key = val(key);
        let mut value = val(&[]);
        let code = {
            let _held = (!self.is_alone).then(|| self.view.hold());
            // SAFETY: (FL3) the view is open, and either not shared or its lock is held; (FC2) both values are live.
            unsafe { ffi::mdb_cursor_get(self.cursor, &mut key, &mut value, op) }
        };
        match code {
            0 => self.here = Some(Entry { key: bytes(&key), value: bytes(&value) }),
            ffi::MDB_NOTFOUND => {}
            code => return Err(self.view.engine.error(code, "move a cursor")),
        }
        Ok(())
    }
}

impl Cursor for LmdbCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if key.is_empty() { self.first() } else { self.go(key, ffi::MDB_SET_RANGE) }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if key.is_empty() {
            self.here = None;
            return Ok(());
        }
        self.go(key, ffi::MDB_SET_RANGE)?;
        if self.here.is_some() { self.prev() } else { self.last() }
    }

    fn first(&mut self) -> Result<()> {
        self.go(&[], ffi::MDB_FIRST)
    }

    fn last(&mut self) -> Result<()> {
        self.go(&[], ffi::MDB_LAST)
    }

    fn next(&mut self) -> Result<()> {
        if self.here.is_none() { Ok(()) } else { self.go(&[], ffi::MDB_NEXT) }
    }

    fn prev(&mut self) -> Result<()> {
        if self.here.is_none() { Ok(()) } else { self.go(&[], ffi::MDB_PREV) }
    }

    fn key(&self) -> Option<&[u8]> {
        // SAFETY: (FL2) the key is in the map and the view keeps the transaction open.
        self.here.as_ref().map(|here| unsafe { here.key.as_ref() })
    }

    fn value(&self) -> Option<&[u8]> {
        // SAFETY: (FL2) the value is in the map and the view keeps the transaction open.
        self.here.as_ref().map(|here| unsafe { here.value.as_ref() })
    }
}
