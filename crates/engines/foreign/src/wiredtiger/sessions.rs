//! A pool of sessions, each with one cursor.
//!
//! A session is used by one thread at a time (WiredTiger's rule) and costs too much to open for each call. Idle ones are
//! kept in slots of which each thread has its own (threads past [`SLOTS`] share).
//!
//! 1. An idle session has no transaction and its cursor no position: it pins neither a page nor an old version.
//! 2. A session taken out of its slot has one owner.
//! 3. Each slot has cache lines of its own, so threads write no line in common.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::ffi;

const SLOTS: usize = 64;

/// The one table.
pub const TABLE: &CStr = c"table:kv";

/// A session and its cursor over the table.
pub struct Worker {
    pub session: *mut ffi::Session,
    pub cursor: *mut ffi::Cursor,
}

// Two lines: the processor fetches them in pairs.
#[repr(align(128))]
struct Slot(AtomicPtr<Worker>);

/// The pool of one connection.
pub struct Sessions {
    connection: *mut ffi::Connection,
    slots: Box<[Slot]>,
}

// SAFETY: (FW1) connections are thread-safe, and idle sessions may move between threads.
unsafe impl Send for Sessions {}
// SAFETY: (FW1) as above; a slot's session is taken by an atomic exchange.
unsafe impl Sync for Sessions {}

fn thread_slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    MINE.with(|slot| *slot)
}

impl Sessions {
    /// An empty pool; `connection` must be open for as long as the pool lives.
    pub fn new(connection: *mut ffi::Connection) -> Self {
        Self { connection, slots: (0..SLOTS).map(|_| Slot(AtomicPtr::new(ptr::null_mut()))).collect() }
    }

    /// A session for this thread; WiredTiger's code if there is none.
    #[inline]
    pub fn take(&self) -> Result<Taken<'_>, c_int> {
        Ok(Taken { sessions: self, worker: Some(self.take_out()?) })
    }

    /// As [`take`](Sessions::take), to be given back by [`give_back`](Sessions::give_back).
    #[inline]
    pub fn take_out(&self) -> Result<Box<Worker>, c_int> {
        let worker = self.slots[thread_slot()].0.swap(ptr::null_mut(), Ordering::Acquire);
        if worker.is_null() {
            return self.open().map(Box::new);
        }
        // SAFETY: (FW2) slots hold boxes that were turned into pointers, and this one was taken out.
        Ok(unsafe { Box::from_raw(worker) })
    }

    #[cold]
    fn open(&self) -> Result<Worker, c_int> {
        let mut worker = Worker { session: ptr::null_mut(), cursor: ptr::null_mut() };
        // SAFETY: (FC2) the connection is open and the out-parameter is live.
        match unsafe { ffi::biombo_wt_session(self.connection, &mut worker.session) } {
            0 => {}
            code => return Err(code),
        }
        // SAFETY: (FW2) the session is open and this thread's.
        match unsafe { ffi::biombo_wt_cursor(worker.session, TABLE.as_ptr(), ptr::null(), &mut worker.cursor) } {
            0 => Ok(worker),
            code => {
                Self::close(&worker);
                Err(code)
            }
        }
    }

    /// End a session with its cursors; an open transaction is rolled back.
    fn close(worker: &Worker) {
        // SAFETY: (FW2) the caller owns the session and gives it up.
        unsafe { ffi::biombo_wt_session_close(worker.session) };
    }

    /// Keep the session for later; it has no transaction and no cursor but its own.
    pub fn give_back(&self, worker: Box<Worker>) {
        // SAFETY: (FW2) the session is this thread's until it is in its slot.
        if unsafe { ffi::biombo_wt_reset(worker.cursor) } != 0 {
            return Self::close(&worker);
        }
        let worker = Box::into_raw(worker);
        let slot = &self.slots[thread_slot()].0;
        if slot.compare_exchange(ptr::null_mut(), worker, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: (FW2) it is in no slot: the pointer has no other owner.
            Self::close(&unsafe { *Box::from_raw(worker) });
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let worker = *slot.0.get_mut();
            if !worker.is_null() {
                // SAFETY: (FW2) the pool is being dropped: the slot was the only owner.
                Self::close(&unsafe { *Box::from_raw(worker) });
            }
        }
    }
}

/// A session in use; dropping it gives it back.
pub struct Taken<'a> {
    sessions: &'a Sessions,
    worker: Option<Box<Worker>>,
}

impl std::ops::Deref for Taken<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        self.worker.as_ref().expect("invariant: there until it is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.sessions.give_back(worker);
        }
    }
}

impl Worker {
    /// The value of `key`; valid until the cursor is used again.
    ///
    /// # Safety
    /// (FW2) The worker must be used by no other thread meanwhile, and the bytes not beyond its next use.
    #[inline]
    pub unsafe fn find<'b>(&self, key: &[u8]) -> Result<Option<&'b [u8]>, c_int> {
        let (mut value, mut bytes) = (ptr::null(), 0);
        // SAFETY: (FW2) by the caller; (FC2) the key lives through the call and the out-parameters are live.
        let code = unsafe { ffi::biombo_wt_get(self.cursor, key.as_ptr().cast(), key.len(), &mut value, &mut bytes) };
        match code {
            // SAFETY: (FC3) WiredTiger says that so many bytes are there, until the cursor moves.
            0 => Ok(Some(unsafe { slice(value.cast(), bytes) })),
            ffi::NOTFOUND => Ok(None),
            code => Err(code),
        }
    }
}

/// The bytes at `data`, which may be null when there are none.
///
/// # Safety
/// (FC3) `bytes` bytes must be readable at `data` for as long as the slice is used.
pub unsafe fn slice<'b>(data: *const u8, bytes: usize) -> &'b [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: (FC3) by the caller.
    unsafe { std::slice::from_raw_parts(data, bytes) }
}
