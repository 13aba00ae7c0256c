//! The part of Tkrzw's C API (`tkrzw_langc.h`) that the adapter calls, as declared there for 1.0.25.

use std::ffi::{c_char, c_void};

/// A database; only ever behind a pointer.
#[repr(C)]
pub struct Dbm {
    _private: [u8; 0],
}

/// An iterator; only ever behind a pointer.
#[repr(C)]
pub struct DbmIter {
    _private: [u8; 0],
}

/// `TkrzwStatus`: the outcome of this thread's last call.
#[repr(C)]
pub struct Status {
    pub code: i32,
    pub message: *const c_char,
}

/// `TkrzwKeyValuePair`.
#[repr(C)]
pub struct KeyValue {
    pub key_ptr: *const c_char,
    pub key_size: i32,
    pub value_ptr: *const c_char,
    pub value_size: i32,
}

/// `tkrzw_record_processor`: argument, key and its size, value (null if absent) and its size (-1 if absent), size of the
/// result. The result is one of the two special strings or a new value.
pub type Processor =
    unsafe extern "C" fn(*mut c_void, *const c_char, i32, *const c_char, i32, *mut i32) -> *const c_char;

/// `tkrzw_file_processor`.
pub type FileProcessor = unsafe extern "C" fn(*mut c_void, *const c_char);

pub const SYSTEM_ERROR: i32 = 2;
pub const NOT_FOUND_ERROR: i32 = 7;
pub const INFEASIBLE_ERROR: i32 = 9;
pub const BROKEN_DATA_ERROR: i32 = 11;

unsafe extern "C" {
    pub static TKRZW_PACKAGE_VERSION: *const c_char;
    pub static TKRZW_REC_PROC_NOOP: *const c_char;
    pub static TKRZW_REC_PROC_REMOVE: *const c_char;

    pub fn tkrzw_get_last_status() -> Status;
    pub fn tkrzw_free_str_map(array: *mut KeyValue, size: i32);

    pub fn tkrzw_dbm_open(path: *const c_char, writable: bool, params: *const c_char) -> *mut Dbm;
    pub fn tkrzw_dbm_close(dbm: *mut Dbm) -> bool;
    pub fn tkrzw_dbm_process(
        dbm: *mut Dbm,
        key: *const c_char,
        key_size: i32,
        proc: Processor,
        arg: *mut c_void,
        writable: bool,
    ) -> bool;
    pub fn tkrzw_dbm_check(dbm: *mut Dbm, key: *const c_char, key_size: i32) -> bool;
    pub fn tkrzw_dbm_set(
        dbm: *mut Dbm,
        key: *const c_char,
        key_size: i32,
        value: *const c_char,
        value_size: i32,
        overwrite: bool,
    ) -> bool;
    pub fn tkrzw_dbm_remove(dbm: *mut Dbm, key: *const c_char, key_size: i32) -> bool;
    pub fn tkrzw_dbm_process_each(dbm: *mut Dbm, proc: Processor, arg: *mut c_void, writable: bool) -> bool;
    pub fn tkrzw_dbm_count(dbm: *mut Dbm) -> i64;
    pub fn tkrzw_dbm_rebuild(dbm: *mut Dbm, params: *const c_char) -> bool;
    pub fn tkrzw_dbm_synchronize(
        dbm: *mut Dbm,
        hard: bool,
        proc: Option<FileProcessor>,
        arg: *mut c_void,
        params: *const c_char,
    ) -> bool;
    pub fn tkrzw_dbm_copy_file_data(dbm: *mut Dbm, dest: *const c_char, sync_hard: bool) -> bool;
    pub fn tkrzw_dbm_inspect(dbm: *mut Dbm, count: *mut i32) -> *mut KeyValue;
    pub fn tkrzw_dbm_is_healthy(dbm: *mut Dbm) -> bool;

    pub fn tkrzw_dbm_make_iterator(dbm: *mut Dbm) -> *mut DbmIter;
    pub fn tkrzw_dbm_iter_free(iter: *mut DbmIter);
    pub fn tkrzw_dbm_iter_first(iter: *mut DbmIter) -> bool;
    pub fn tkrzw_dbm_iter_jump_lower(iter: *mut DbmIter, key: *const c_char, key_size: i32, inclusive: bool) -> bool;
    pub fn tkrzw_dbm_iter_jump_upper(iter: *mut DbmIter, key: *const c_char, key_size: i32, inclusive: bool) -> bool;
    pub fn tkrzw_dbm_iter_next(iter: *mut DbmIter) -> bool;
    pub fn tkrzw_dbm_iter_process(iter: *mut DbmIter, proc: Processor, arg: *mut c_void, writable: bool) -> bool;
}
