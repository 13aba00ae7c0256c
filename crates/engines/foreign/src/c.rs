//! What the adapters of C libraries share: bytes and strings across the border.

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
use std::ffi::{CStr, c_void};
use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use biombo_base::{Error, Result};

/// A path as the library wants it.
pub(crate) fn path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("the path {} holds a zero byte; choose another", path.display())))
}

/// Bytes that a library handed out. A null pointer is an empty slice.
///
/// # Safety
/// `ptr` must be valid for `len` bytes, unchanged, for as long as the caller lets `'a` last.
pub(crate) unsafe fn bytes<'a>(ptr: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: (FC3) the caller vouches for `ptr` and `len`.
    unsafe { std::slice::from_raw_parts(ptr.cast(), len) }
}

/// A string that a library allocated, as an owned one; the library's is freed. `None` for a null pointer.
///
/// # Safety
/// `ptr` must be null or a zero-terminated string that `free` may free and nobody else will.
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
pub(crate) unsafe fn take_string(ptr: *mut c_char, free: unsafe extern "C" fn(*mut c_void)) -> Option<String> {
    if ptr.is_null() {
        return None;
    }
    // SAFETY: (FC4) the caller vouches for `ptr`; it is freed once, after the copy was made.
    unsafe {
        let text = CStr::from_ptr(ptr).to_string_lossy().into_owned();
        free(ptr.cast());
        Some(text)
    }
}
