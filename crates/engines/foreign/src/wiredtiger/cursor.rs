//! Snapshots and cursors: a session of their own with an open transaction.
//!
//! 1. A session and its cursors are used by one thread at a time: a [`View`] that several cursors or threads may share has a
//!    lock, held for a movement, not while the caller looks at what it found.
//! 2. The bytes under a cursor stay valid until that cursor moves: it pins their page.
//!
//! A view that is kept open pins in the cache, or spills to WiredTiger's lookaside file, every version that it may need.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::Result;
use biombo_engine::{Cursor, Engine, Snapshot, Value};

use super::WiredTiger;
use super::ffi;
use super::sessions::{TABLE, Worker, slice};

/// One point in the history, held by a transaction.
pub struct View {
    // There until it is dropped.
    worker: Option<Box<Worker>>,
    lock: Mutex<()>,
    engine: Arc<WiredTiger>,
}

// SAFETY: (FW1) a session may move between threads.
unsafe impl Send for View {}
// SAFETY: (FW2) shared uses of the session take the lock.
unsafe impl Sync for View {}

impl View {
    /// The present state.
    pub fn open(engine: Arc<WiredTiger>) -> Result<Self> {
        let worker = engine.sessions.take_out().map_err(|code| engine.error(code, "open a snapshot of"))?;
        // SAFETY: (FW2) the session is this thread's.
        match unsafe { ffi::biombo_wt_begin(worker.session) } {
            0 => Ok(Self { worker: Some(worker), lock: Mutex::new(()), engine }),
            code => {
                engine.sessions.give_back(worker);
                Err(engine.error(code, "open a snapshot of"))
            }
        }
    }

    /// A cursor over a view that nobody else has.
    pub fn alone(self: Arc<Self>) -> WiredTigerCursor {
        // The view's own cursor serves: nobody else will use it.
        WiredTigerCursor { cursor: self.worker().cursor, here: None, is_alone: true, view: self }
    }

    fn worker(&self) -> &Worker {
        self.worker.as_ref().expect("invariant: there until it is dropped")
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            // SAFETY: (FW2) nobody shares the view any more; ending a transaction that only read cannot fail usefully.
            unsafe { ffi::biombo_wt_rollback(worker.session) };
            self.engine.sessions.give_back(worker);
        }
    }
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.engine.capabilities().check_key(key)?;
        let _held = self.hold();
        // SAFETY: (FW2) the lock is held, also while the bytes are copied.
        let found = unsafe { self.worker().find(key) }.map(|found| found.map(|bytes| Value::owned(bytes.to_vec())));
        // SAFETY: (FW2) the lock is held.
        unsafe { ffi::biombo_wt_reset(self.worker().cursor) };
        found.map_err(|code| self.engine.error(code, "read"))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        let mut cursor = ptr::null_mut();
        let code = {
            let _held = self.hold();
            // SAFETY: (FW2) the lock is held; (FC2) the out-parameter is live.
            unsafe { ffi::biombo_wt_cursor(self.worker().session, TABLE.as_ptr(), ptr::null(), &mut cursor) }
        };
        if code != 0 {
            return Err(self.engine.error(code, "open a cursor in"));
        }
        Ok(Box::new(WiredTigerCursor { cursor, here: None, is_alone: false, view: self }))
    }
}

#[derive(Clone, Copy)]
struct Entry {
    key: (*const u8, usize),
    value: (*const u8, usize),
}

/// A position in a view.
pub struct WiredTigerCursor {
    cursor: *mut ffi::Cursor,
    here: Option<Entry>,
    is_alone: bool,
    view: Arc<View>,
}

// SAFETY: (FW1) a session and its cursors may move between threads.
unsafe impl Send for WiredTigerCursor {}

impl Drop for WiredTigerCursor {
    fn drop(&mut self) {
        if !self.is_alone {
            let _held = self.view.hold();
            // SAFETY: (FW2) the lock is held, and this is the cursor's last use.
            unsafe { ffi::biombo_wt_cursor_close(self.cursor) };
        }
    }
}

impl WiredTigerCursor {
    /// Move by `step`, which answers WiredTiger's code, and look where that led.
    fn go(&mut self, step: impl FnOnce(*mut ffi::Cursor) -> c_int) -> Result<()> {
        self.here = None;
        let held = (!self.is_alone).then(|| self.view.hold());
        let mut code = step(self.cursor);
        if code == 0 {
            let (mut key, mut value) = ((ptr::null(), 0), (ptr::null(), 0));
            // SAFETY: (FW2) the view is not shared or its lock is held; (FC2) the out-parameters are live.
            code = unsafe { ffi::biombo_wt_here(self.cursor, &mut key.0, &mut key.1, &mut value.0, &mut value.1) };
            if code == 0 {
                self.here = Some(Entry { key: (key.0.cast(), key.1), value: (value.0.cast(), value.1) });
            }
        }
        drop(held);
        match code {
            0 | ffi::NOTFOUND => Ok(()),
            code => Err(self.view.engine.error(code, "move a cursor in")),
        }
    }
}

/// To the first key at or after `key`.
///
/// # Safety
/// (FW2) The cursor's session must be used by no other thread meanwhile.
pub unsafe fn seek(cursor: *mut ffi::Cursor, key: &[u8]) -> c_int {
    if key.is_empty() {
        // SAFETY: (FW2) by the caller.
        return unsafe { edge(cursor, ffi::biombo_wt_next) };
    }
    let mut compared = 0;
    // SAFETY: (FW2) by the caller; (FC2) the key lives through the call.
    unsafe {
        match ffi::biombo_wt_search_near(cursor, key.as_ptr().cast(), key.len(), &mut compared) {
            0 if compared < 0 => ffi::biombo_wt_next(cursor),
            code => code,
        }
    }
}

/// To the last key before `key`.
///
/// # Safety
/// (FW2) The cursor's session must be used by no other thread meanwhile.
pub unsafe fn seek_before(cursor: *mut ffi::Cursor, key: &[u8]) -> c_int {
    if key.is_empty() {
        return ffi::NOTFOUND;
    }
    let mut compared = 0;
    // SAFETY: (FW2) by the caller; (FC2) the key lives through the call.
    unsafe {
        match ffi::biombo_wt_search_near(cursor, key.as_ptr().cast(), key.len(), &mut compared) {
            0 if compared >= 0 => ffi::biombo_wt_prev(cursor),
            code => code,
        }
    }
}

/// To the first or last key: a step from nowhere.
///
/// # Safety
/// (FW2) The cursor's session must be used by no other thread meanwhile.
unsafe fn edge(cursor: *mut ffi::Cursor, step: unsafe extern "C" fn(*mut ffi::Cursor) -> c_int) -> c_int {
    // SAFETY: (FW2) by the caller.
    match unsafe { ffi::biombo_wt_reset(cursor) } {
        // SAFETY: (FW2) by the caller.
        0 => unsafe { step(cursor) },
        code => code,
    }
}

impl Cursor for WiredTigerCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: (FW2) `go` sees to it that nobody else uses the session.
        self.go(|cursor| unsafe { seek(cursor, key) })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: (FW2) as above.
        self.go(|cursor| unsafe { seek_before(cursor, key) })
    }

    fn first(&mut self) -> Result<()> {
        // SAFETY: (FW2) as above.
        self.go(|cursor| unsafe { edge(cursor, ffi::biombo_wt_next) })
    }

    fn last(&mut self) -> Result<()> {
        // SAFETY: (FW2) as above.
        self.go(|cursor| unsafe { edge(cursor, ffi::biombo_wt_prev) })
    }

    fn next(&mut self) -> Result<()> {
        if self.here.is_none() {
            return Ok(());
        }
        // SAFETY: (FW2) as above.
        self.go(|cursor| unsafe { ffi::biombo_wt_next(cursor) })
    }

    fn prev(&mut self) -> Result<()> {
        if self.here.is_none() {
            return Ok(());
        }
        // SAFETY: (FW2) as above.
        self.go(|cursor| unsafe { ffi::biombo_wt_prev(cursor) })
    }

    fn key(&self) -> Option<&[u8]> {
        // SAFETY: (FC3) the bytes are the cursor's until it moves, which needs `&mut self`.
        self.here.map(|here| unsafe { slice(here.key.0, here.key.1) })
    }

    fn value(&self) -> Option<&[u8]> {
        // SAFETY: (FC3) as above.
        self.here.map(|here| unsafe { slice(here.value.0, here.value.1) })
    }
}
