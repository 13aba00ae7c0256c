//! Write transactions, and what to do when one fails.
//!
//! 1. A transaction that fails before its meta page was written changed nothing: its pages are free pages of the snapshot
//!    that stays.
//! 2. A full disk is `Full` and the engine goes on. LMDB reports it as ENOSPC, or as EIO without an errno when a write came
//!    out short; but ENOSPC can also come from the sync, when pages acknowledged earlier at `Os` may be lost with it. The
//!    instance's own descriptor of the data file tells them apart: its fdatasync fails if any writeback failed.
//! 3. Whatever else fails in a commit poisons.

use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{Durability, Op};
use lmdb_master_sys as ffi;

use super::readers::{bytes, val};
use super::{Lmdb, MAIN};

impl Lmdb {
    /// Apply checked operations in one transaction.
    pub(super) fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let is_sync = durability == Durability::Sync;
        let _held = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_poison()?;
        if ops.is_empty() {
            return if is_sync { self.sync_commits() } else { Ok(()) };
        }

        let flags = if is_sync { 0 } else { ffi::MDB_NOSYNC | ffi::MDB_NOMETASYNC };
        let mut txn = ptr::null_mut();
        // SAFETY: (FC2) the environment is open and `txn` is live.
        let code = unsafe { ffi::mdb_txn_begin(self.env.0, ptr::null_mut(), flags, &mut txn) };
        if code != 0 {
            return Err(self.failed(code, 0));
        }
        set_errno(0);
        let mut changed = false;
        for op in ops {
            // SAFETY: (FL3) the transaction is open and this thread's.
            match unsafe { apply(txn, op) } {
                Ok(did) => changed |= did,
                Err(code) => {
                    let errno = errno();
                    // SAFETY: (FL3) as above; this is its last use.
                    unsafe { ffi::mdb_txn_abort(txn) };
                    return Err(self.failed(code, errno));
                }
            }
        }
        // SAFETY: (FL3) the transaction is open and this thread's.
        let number = unsafe { ffi::mdb_txn_id(txn) as u64 };
        let one = (is_sync && changed).then(|| self.syncs.lock().unwrap_or_else(PoisonError::into_inner));
        if one.is_some()
            && let Err(poisoned) = self.check_poison()
        {
            // SAFETY: (FL3) the transaction is open and this thread's; this is its last use.
            unsafe { ffi::mdb_txn_abort(txn) };
            return Err(poisoned);
        }
        // SAFETY: (FL3) as above; it is freed whatever the outcome.
        let commit = || unsafe { ffi::mdb_txn_commit(txn) };
        let code = if changed { self.readers.commit(number, commit) } else { commit() };
        if code != 0 {
            return Err(self.failed(code, errno()));
        }
        if !is_sync {
            self.commits.fetch_add(u64::from(changed), Ordering::AcqRel);
            Ok(())
        } else if changed {
            // The commit's fdatasync took along all pages of the file.
            self.synced.fetch_max(self.commits.load(Ordering::Acquire), Ordering::AcqRel);
            Ok(())
        } else {
            // LMDB syncs nothing for a transaction that changed nothing.
            self.sync_commits()
        }
    }

    /// The error for a transaction that ended with `code`, and poison where the outcome is unknown.
    #[cold]
    pub(super) fn failed(&self, code: i32, errno: i32) -> Error {
        let error = self.error(code, "write");
        match code {
            libc::ENOSPC | libc::EDQUOT | libc::EIO if errno != libc::EIO => match self.check_writeback() {
                Ok(()) if code == libc::EIO => Error::io(
                    format_args!("write {}", self.data_path.display()),
                    std::io::Error::from_raw_os_error(libc::ENOSPC),
                ),
                Ok(()) => error,
                Err(sync) => self.poisoned(format_args!("{error}; then {sync}")),
            },
            // Refused before anything was written.
            libc::ENOMEM | ffi::MDB_MAP_FULL | ffi::MDB_TXN_FULL | ffi::MDB_BAD_VALSIZE => error,
            _ if error.kind() == ErrorKind::Corruption => error,
            _ => self.poisoned(error),
        }
    }

    /// Whether the kernel has lost any page of the data file since it was opened.
    #[expect(clippy::disallowed_methods, reason = "the file is LMDB's: it never goes through Io")]
    fn check_writeback(&self) -> std::io::Result<()> {
        self.data.sync_data()
    }
}

/// Apply one operation; whether it changed anything.
///
/// # Safety
/// (FL3) `txn` must be an open write transaction of this thread.
unsafe fn apply(txn: *mut ffi::MDB_txn, op: &Op<'_>) -> Result<bool, i32> {
    match op {
        Op::Put { key, value } => {
            let (mut key, mut value) = (val(key), val(value));
            // SAFETY: (FL3) by the caller; (FC2) LMDB copies the key and the value and keeps no pointer.
            match unsafe { ffi::mdb_put(txn, MAIN, &mut key, &mut value, 0) } {
                0 => Ok(true),
                code => Err(code),
            }
        }
        Op::Delete { key } => {
            let mut key = val(key);
            // SAFETY: (FL3) by the caller; (FC2) the key lives through the call.
            match unsafe { ffi::mdb_del(txn, MAIN, &mut key, ptr::null_mut()) } {
                0 => Ok(true),
                ffi::MDB_NOTFOUND => Ok(false),
                code => Err(code),
            }
        }
        Op::DeleteRange { from: [], to: None } => {
            // SAFETY: (FL3) by the caller. Emptying the tree frees its pages without looking for keys.
            match unsafe { ffi::mdb_drop(txn, MAIN, 0) } {
                0 => Ok(true),
                code => Err(code),
            }
        }
        // SAFETY: (FL3) by the caller.
        Op::DeleteRange { from, to } => unsafe { delete_range(txn, from, *to) },
    }
}

/// Delete with a cursor, key by key; whether there was any.
///
/// # Safety
/// (FL3) `txn` must be an open write transaction of this thread.
unsafe fn delete_range(txn: *mut ffi::MDB_txn, from: &[u8], to: Option<&[u8]>) -> Result<bool, i32> {
    let mut cursor = ptr::null_mut();
    // SAFETY: (FL3) by the caller.
    match unsafe { ffi::mdb_cursor_open(txn, MAIN, &mut cursor) } {
        0 => {}
        code => return Err(code),
    }
    let mut changed = false;
    let mut op = if from.is_empty() { ffi::MDB_FIRST } else { ffi::MDB_SET_RANGE };
    let outcome = loop {
        let (mut key, mut value) = (val(from), val(&[]));
        // SAFETY: (FL3) the cursor is the transaction's and open; (FC2) both values are live.
        match unsafe { ffi::mdb_cursor_get(cursor, &mut key, &mut value, op) } {
            0 => {}
            ffi::MDB_NOTFOUND => break Ok(changed),
            code => break Err(code),
        }
        // SAFETY: (FL2) the key is valid until the next change in this transaction.
        let is_past = to.is_some_and(|to| unsafe { bytes(&key).as_ref() } >= to);
        if is_past {
            break Ok(changed);
        }
        // SAFETY: (FL3) the cursor stands on a key.
        match unsafe { ffi::mdb_cursor_del(cursor, 0) } {
            0 => changed = true,
            code => break Err(code),
        }
        // After a deletion the cursor stands on the next key already, and MDB_NEXT gives that one.
        op = ffi::MDB_NEXT;
    };
    // SAFETY: (FL3) the cursor is open and its transaction too.
    unsafe { ffi::mdb_cursor_close(cursor) };
    outcome
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn set_errno(value: i32) {
    // SAFETY: (FC2) the C library gives each thread a valid errno of its own.
    #[cfg(target_os = "linux")]
    unsafe {
        *libc::__errno_location() = value;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = value;
}
