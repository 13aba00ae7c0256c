//! Transactions that write, and their conflicts.

use std::ffi::c_int;
use std::ptr;

use biombo_engine::Op;

use super::cursor::{seek, seek_before};
use super::sessions::{Worker, slice};
use super::*;

/// How long a transaction is repeated while others conflict with it, or the cache throws it out.
const PATIENCE: Duration = Duration::from_secs(20);
/// Conflicts after which a writer takes turns with the others that had as many.
const CONFLICTS: u32 = 8;

impl WiredTiger {
    /// Apply checked operations in one transaction whose log record is with the kernel when this returns.
    pub(super) fn write(&self, session: &Worker, ops: &[Op<'_>]) -> Result<()> {
        let lock = &self.ranges;
        let (_shared, _alone);
        if ops.iter().any(|op| matches!(op, Op::DeleteRange { .. })) {
            _alone = lock.write().unwrap_or_else(PoisonError::into_inner);
        } else {
            _shared = lock.read().unwrap_or_else(PoisonError::into_inner);
        }
        let begun = Instant::now();
        let mut turn = None;
        for attempt in 0u32.. {
            // SAFETY: (FW2) the session is this thread's.
            let outcome = unsafe {
                match ops {
                    [] => Ok(()),
                    // One put or delete commits by itself, without the calls around it.
                    [op @ (Op::Put { .. } | Op::Delete { .. })] => apply(session, op),
                    ops => apply_all(session, ops),
                }
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(ffi::ROLLBACK) if begun.elapsed() < PATIENCE => {
                    drop(ffi::message(0));
                    if attempt == CONFLICTS {
                        turn = Some(self.conflicts.lock().unwrap_or_else(PoisonError::into_inner));
                    }
                    std::thread::yield_now();
                }
                Err(code) => return Err(self.poison.after(self.error(code, "write to"))),
            }
        }
        drop(turn);
        unreachable!("the attempts have no end")
    }
}

/// All operations or none.
///
/// # Safety
/// (FW2) The session must be this thread's.
unsafe fn apply_all(session: &Worker, ops: &[Op<'_>]) -> Result<(), c_int> {
    // SAFETY: (FW2) by the caller.
    unsafe {
        match ffi::biombo_wt_begin(session.session) {
            0 => {}
            code => return Err(code),
        }
        for op in ops {
            if let Err(code) = apply(session, op) {
                ffi::biombo_wt_rollback(session.session);
                return Err(code);
            }
        }
        // A commit that fails has rolled back.
        match ffi::biombo_wt_commit(session.session) {
            0 => Ok(()),
            code => Err(code),
        }
    }
}

/// One operation.
///
/// # Safety
/// (FW2) The session must be this thread's.
unsafe fn apply(session: &Worker, op: &Op<'_>) -> Result<(), c_int> {
    // SAFETY: (FW2) by the caller; (FC2) keys and values live through the call.
    let code = unsafe {
        match op {
            Op::Put { key, value } => {
                ffi::biombo_wt_put(session.cursor, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len())
            }
            Op::Delete { key } => ffi::biombo_wt_remove(session.cursor, key.as_ptr().cast(), key.len()),
            Op::DeleteRange { from, to } => delete_range(session, from, *to),
        }
    };
    match code {
        0 | ffi::NOTFOUND => Ok(()),
        code => Err(code),
    }
}

/// Remove what lies between the first key at or after `from` and the last one before `to`.
///
/// # Safety
/// (FW2) The session must be this thread's.
unsafe fn delete_range(session: &Worker, from: &[u8], to: Option<&[u8]>) -> c_int {
    let start = session.cursor;
    // SAFETY: (FW2) by the caller; (FC2) the out-parameters are live.
    unsafe {
        let code = seek(start, from);
        let Some(to) = to else {
            return if code == 0 {
                ffi::biombo_wt_truncate(session.session, TABLE.as_ptr(), start, ptr::null_mut())
            } else {
                code
            };
        };
        if code != 0 {
            return code;
        }
        let mut stop = ptr::null_mut();
        match ffi::biombo_wt_cursor(session.session, TABLE.as_ptr(), ptr::null(), &mut stop) {
            0 => {}
            code => return code,
        }
        let mut code = seek_before(stop, to);
        if code == 0 {
            code = match in_order(start, stop) {
                Ok(true) => ffi::biombo_wt_truncate(session.session, TABLE.as_ptr(), start, stop),
                Ok(false) => 0,
                Err(code) => code,
            };
        }
        match ffi::biombo_wt_cursor_close(stop) {
            0 => code,
            closed => closed,
        }
    }
}

/// Whether `start` stands at or before `stop`.
///
/// # Safety
/// (FW2) The cursors' session must be this thread's, and both must have a position.
unsafe fn in_order(start: *mut ffi::Cursor, stop: *mut ffi::Cursor) -> Result<bool, c_int> {
    // SAFETY: (FW2) by the caller.
    unsafe { Ok(key_of(start)? <= key_of(stop)?) }
}

/// The key under a cursor.
///
/// # Safety
/// (FW2) The cursor's session must be this thread's; (FC3) the bytes must not be used after the cursor moved.
unsafe fn key_of<'b>(cursor: *mut ffi::Cursor) -> Result<&'b [u8], c_int> {
    let (mut key, mut value) = ((ptr::null(), 0), (ptr::null(), 0));
    // SAFETY: (FW2) by the caller; (FC2) the out-parameters are live; (FC3) by the caller.
    unsafe {
        match ffi::biombo_wt_here(cursor, &mut key.0, &mut key.1, &mut value.0, &mut value.1) {
            0 => Ok(slice(key.0.cast(), key.1)),
            code => Err(code),
        }
    }
}
