//! The shim's functions (`wiredtiger_shim.c`) and WiredTiger's error codes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::path::Path;

use biombo_base::{Error, ErrorKind};

/// One of WiredTiger's handles, known by its address only.
#[repr(C)]
pub struct Opaque<T> {
    _bytes: [u8; 0],
    _marker: PhantomData<(*mut u8, T, PhantomPinned)>,
}
pub enum ConnectionTag {}
pub enum SessionTag {}
pub enum CursorTag {}
pub type Connection = Opaque<ConnectionTag>;
pub type Session = Opaque<SessionTag>;
pub type Cursor = Opaque<CursorTag>;

pub const ROLLBACK: c_int = -31800;
pub const NOTFOUND: c_int = -31803;
pub const PANIC: c_int = -31804;
pub const CACHE_FULL: c_int = -31807;
pub const TRY_SALVAGE: c_int = -31809;

unsafe extern "C" {
    pub fn biombo_wt_version() -> *const c_char;
    fn biombo_wt_strerror(error: c_int) -> *const c_char;
    fn biombo_wt_take_message() -> *const c_char;
    pub fn biombo_wt_open(home: *const c_char, config: *const c_char, out: *mut *mut Connection) -> c_int;
    pub fn biombo_wt_close(connection: *mut Connection) -> c_int;
    pub fn biombo_wt_session(connection: *mut Connection, out: *mut *mut Session) -> c_int;
    pub fn biombo_wt_session_close(session: *mut Session) -> c_int;
    pub fn biombo_wt_create(session: *mut Session, uri: *const c_char, config: *const c_char) -> c_int;
    pub fn biombo_wt_checkpoint(session: *mut Session, config: *const c_char) -> c_int;
    pub fn biombo_wt_compact(session: *mut Session, uri: *const c_char) -> c_int;
    pub fn biombo_wt_log_flush(session: *mut Session, config: *const c_char) -> c_int;
    pub fn biombo_wt_begin(session: *mut Session) -> c_int;
    pub fn biombo_wt_commit(session: *mut Session) -> c_int;
    pub fn biombo_wt_rollback(session: *mut Session) -> c_int;
    pub fn biombo_wt_truncate(
        session: *mut Session,
        uri: *const c_char,
        start: *mut Cursor,
        stop: *mut Cursor,
    ) -> c_int;
    pub fn biombo_wt_cursor(
        session: *mut Session,
        uri: *const c_char,
        config: *const c_char,
        out: *mut *mut Cursor,
    ) -> c_int;
    pub fn biombo_wt_cursor_close(cursor: *mut Cursor) -> c_int;
    pub fn biombo_wt_reset(cursor: *mut Cursor) -> c_int;
    pub fn biombo_wt_put(
        cursor: *mut Cursor,
        key: *const c_void,
        key_bytes: usize,
        value: *const c_void,
        value_bytes: usize,
    ) -> c_int;
    pub fn biombo_wt_remove(cursor: *mut Cursor, key: *const c_void, key_bytes: usize) -> c_int;
    pub fn biombo_wt_get(
        cursor: *mut Cursor,
        key: *const c_void,
        key_bytes: usize,
        value: *mut *const c_void,
        value_bytes: *mut usize,
    ) -> c_int;
    pub fn biombo_wt_search_near(
        cursor: *mut Cursor,
        key: *const c_void,
        key_bytes: usize,
        compared: *mut c_int,
    ) -> c_int;
    pub fn biombo_wt_next(cursor: *mut Cursor) -> c_int;
    pub fn biombo_wt_prev(cursor: *mut Cursor) -> c_int;
    pub fn biombo_wt_here(
        cursor: *mut Cursor,
        key: *mut *const c_void,
        key_bytes: *mut usize,
        value: *mut *const c_void,
        value_bytes: *mut usize,
    ) -> c_int;
    pub fn biombo_wt_backup_next(cursor: *mut Cursor, name: *mut *const c_char) -> c_int;
    pub fn biombo_wt_statistics(session: *mut Session, out: *mut [i64; 9]) -> c_int;
}

/// What WiredTiger said of the last failure on this thread, or what the code means.
pub fn message(code: c_int) -> String {
    // SAFETY: (FC4) both are terminated strings that are valid until the next call on this thread; they are copied.
    let said = unsafe { CStr::from_ptr(biombo_wt_take_message()) }.to_string_lossy().into_owned();
    if !said.is_empty() {
        return said.replace('\n', " ");
    }
    // SAFETY: (FC4) as above.
    unsafe { CStr::from_ptr(biombo_wt_strerror(code)) }.to_string_lossy().into_owned()
}

/// What `code`, met while `doing` something (a phrase such as "read") in `dir`, means for the caller.
pub fn translate(code: c_int, doing: &str, dir: &Path) -> Error {
    let said = message(code);
    let place = dir.display();
    match code {
        code if code > 0 && code != 16 && code != 22 => {
            Error::io(format_args!("{doing} {place} ({said})"), std::io::Error::from_raw_os_error(code))
        }
        // EBUSY
        16 => Error::new(ErrorKind::Busy, format!("cannot {doing} {place}: {said}; try again")),
        // EINVAL
        22 => Error::invalid(format!("cannot {doing} {place}: {said}")),
        ROLLBACK => Error::new(
            ErrorKind::Conflict,
            format!(
                "cannot {doing} {place}: the batch conflicts with others, or does not fit into the cache; split it"
            ),
        ),
        CACHE_FULL => Error::new(ErrorKind::Full, format!("cannot {doing} {place}: the cache is full")),
        TRY_SALVAGE => Error::corruption(dir, 0, said),
        PANIC if said.contains("checksum") || said.contains("read") => Error::corruption(dir, 0, said),
        PANIC => Error::poisoned(format_args!("WiredTiger gave up {place}: {said}")),
        code => Error::new(ErrorKind::Io, format!("cannot {doing} {place}: {said} ({code})")),
    }
}
