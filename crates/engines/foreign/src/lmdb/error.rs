//! LMDB's error codes as the one error type.

use std::ffi::CStr;
use std::path::Path;

use biombo_base::{Error, ErrorKind};
use lmdb_master_sys as ffi;

use super::READERS_MAX;

/// What `code`, met while `doing` something (a phrase such as "read") with `file`, means for the caller.
pub fn translate(code: i32, doing: &str, file: &Path) -> Error {
    let name = file.display();
    match code {
        ffi::MDB_MAP_FULL => Error::new(
            ErrorKind::Full,
            format!("the map of {name} is full: close and open the store, which gives it twice its size"),
        ),
        ffi::MDB_TXN_FULL => Error::invalid(format!("the batch changes too many pages of {name} at once: split it")),
        ffi::MDB_READERS_FULL => Error::new(
            ErrorKind::Busy,
            format!("{READERS_MAX} reads of {name} are open at once, its limit: drop snapshots, cursors or values"),
        ),
        ffi::MDB_CORRUPTED | ffi::MDB_PAGE_NOTFOUND | ffi::MDB_BAD_TXN | ffi::MDB_PROBLEM => {
            Error::corruption(file, 0, format!("cannot {doing}: {}; verify says more", message(code)))
        }
        ffi::MDB_INVALID => Error::corruption(file, 0, format!("cannot {doing}: {}", message(code))),
        ffi::MDB_VERSION_MISMATCH => {
            Error::unsupported(format!("{name} has a format that this version of LMDB does not know"))
        }
        ffi::MDB_INCOMPATIBLE => {
            Error::invalid(format!("{name} holds databases of another program: {}", message(code)))
        }
        ffi::MDB_PANIC => Error::poisoned(format_args!("LMDB gave up {name}: {}", message(code))),
        ffi::MDB_BAD_VALSIZE => Error::invalid(format!("LMDB refuses the length of a key or value in {name}")),
        code if code > 0 => Error::io(format_args!("{doing} {name}"), std::io::Error::from_raw_os_error(code)),
        code => Error::new(ErrorKind::Io, format!("cannot {doing} {name}: {} ({code})", message(code))),
    }
}

fn message(code: i32) -> String {
    // SAFETY: (FC2) mdb_strerror answers a terminated static string for LMDB's own codes.
    unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) }.to_string_lossy().into_owned()
}
