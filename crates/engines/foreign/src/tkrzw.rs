//! The engines `tkrzw-tree`, `tkrzw-tree-zlib` and `tkrzw-hash`: Debian's Tkrzw through its C API.
//!
//! Invariants:
//!
//! 1. What Tkrzw has is what is declared: no snapshots (a cursor is live), no atomic batches (the operations of an `apply`
//!    become visible one by one), no order in the hash.
//! 2. `Sync` is the write and then `synchronize(hard)`: all dirty pages go to the file and the file to the device before it
//!    returns. `Os` is the write alone. The hash writes into the mapped file, which is the kernel's; the tree keeps dirty
//!    pages in its own memory until they are evicted or synced.
//! 3. Tkrzw updates its file in place. After a crash it scans the file and keeps every record that it can read
//!    (`auto_restored` in the statistics says that it did). For the tree that is no promise: a page may have been split with only
//!    one half in the file, so even synced records can be lost when the process dies later. The hash lost no acknowledged record
//!    in twenty kills, but a record that was being overwritten in its place can be torn. So nothing is declared to survive.
//! 4. After a failed write or sync the instance is poisoned. A full device is seen before the write (`room`), because the
//!    mapping would answer with SIGBUS.
//!
//! Dropping the last reference closes the file, which writes all pages to the kernel.

mod courtesy;
mod cursor;
mod ffi;
mod options;
mod room;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use biombo_engine::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind, Op, OpenOptions, Result, Snapshot,
    Stats, Value,
};

use crate::c;
use crate::home::{self, Home};
use crate::poison::Poison;
use courtesy::Courtesy;
use cursor::TreeCursor;
pub use options::Flavor;
use room::Room;

/// The entry for the registry.
pub fn kind(flavor: Flavor) -> EngineKind {
    EngineKind {
        name: flavor.name(),
        summary: flavor.summary(),
        version,
        capabilities: match flavor {
            Flavor::Tree | Flavor::TreeZlib => tree_capabilities,
            Flavor::Hash => hash_capabilities,
        },
        open: Arc::new(move |options| Ok(Arc::new(Tkrzw::open(flavor, options)?))),
        io_modes: &[],
        repair: None,
    }
}

fn version() -> String {
    // SAFETY: (FC3) a constant string of the library.
    unsafe { CStr::from_ptr(ffi::TKRZW_PACKAGE_VERSION).to_string_lossy().into_owned() }
}

fn tree_capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: false,
        atomic_batches: false,
        survives_kill: None,
        survives_power_cut: None,
        sync_apart: true,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

fn hash_capabilities() -> Capabilities {
    Capabilities { ordered: false, ..tree_capabilities() }
}

/// One open Tkrzw file.
pub struct Tkrzw {
    dbm: Handle,
    flavor: Flavor,
    path: PathBuf,
    params: Vec<(String, String)>,
    capabilities: Capabilities,
    /// What the engine may hold back from the file, in bytes.
    dirty_bytes_max: u64,
    courtesy: Courtesy,
    room: Room,
    poison: Poison,
    home: Home,
}

/// The database, closed with its owner.
struct Handle(*mut ffi::Dbm);

// SAFETY: (FC5) Tkrzw: all operations except for open and close are thread-safe.
unsafe impl Send for Handle {}
// SAFETY: (FC5) as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: (FC1) opened once, closed once; cursors hold the engine, so none is left.
        unsafe { ffi::tkrzw_dbm_close(self.0) };
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// A length for the library; lengths were checked against the limits, which fit.
fn size(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

/// The code and the error of this thread's last call, which failed.
fn last_error(doing: &str, path: &Path) -> (i32, Error) {
    // SAFETY: (FC3) the message is a string of this thread's status, valid until its next call.
    let (code, message) = unsafe {
        let status = ffi::tkrzw_get_last_status();
        let text = if status.message.is_null() { c"" } else { CStr::from_ptr(status.message) };
        (status.code, text.to_string_lossy().replace('\n', " "))
    };
    let text = format!("cannot {doing} in {}: {message}", path.display());
    let error = match code {
        ffi::BROKEN_DATA_ERROR => Error::corruption(path, 0, format!("{message} (while trying to {doing})")),
        ffi::SYSTEM_ERROR if message.contains("No space left") => Error::new(ErrorKind::Full, text),
        ffi::INFEASIBLE_ERROR if message.contains("too large") || message.contains("offset") => {
            Error::new(ErrorKind::Full, format!("{text}; a Tkrzw file ends at 32 GiB"))
        }
        _ => Error::new(ErrorKind::Io, text),
    };
    (code, error)
}

/// Copy the value into the vector behind `arg`, and note that there is one.
unsafe extern "C" fn copy_value(
    arg: *mut c_void,
    _key: *const c_char,
    _key_size: i32,
    value: *const c_char,
    value_size: i32,
    _result_size: *mut i32,
) -> *const c_char {
    // SAFETY: (FC3, FC6) `arg` is the pair that the caller lends for this call; the bytes are valid during it.
    unsafe {
        let found = &mut *arg.cast::<Found<'_>>();
        if value_size >= 0 && !value.is_null() {
            found.value.extend_from_slice(c::bytes(value, value_size as usize));
            found.is_there = true;
        }
        ffi::TKRZW_REC_PROC_NOOP
    }
}

/// How often in sequence a record that is not of the range may be met instead of one.
const LOOKS_MAX: u32 = 1_000;

struct Found<'a> {
    value: &'a mut Vec<u8>,
    is_there: bool,
}

/// Remove the record if its key lies in the range behind `arg`, and say where it lies.
unsafe extern "C" fn remove_within(
    arg: *mut c_void,
    key: *const c_char,
    key_size: i32,
    _value: *const c_char,
    _value_size: i32,
    _result_size: *mut i32,
) -> *const c_char {
    // SAFETY: (FC3, FC6) `arg` is the range that the caller lends for this call; the bytes are valid during it.
    unsafe {
        let range = &mut *arg.cast::<Removal<'_>>();
        let key = c::bytes(key, key_size.max(0) as usize);
        range.met = match range.to {
            _ if key < range.from => Met::Before,
            Some(to) if key >= to => Met::Past,
            _ => Met::Within,
        };
        if range.met == Met::Within { ffi::TKRZW_REC_PROC_REMOVE } else { ffi::TKRZW_REC_PROC_NOOP }
    }
}

struct Removal<'a> {
    from: &'a [u8],
    to: Option<&'a [u8]>,
    met: Met,
}

/// Where the record lies that an iterator has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    Nothing,
    Before,
    Within,
    Past,
}

/// Count the record in the `u64` behind `arg`. The library also calls it before and after all records, without a value.
unsafe extern "C" fn count_record(
    arg: *mut c_void,
    _key: *const c_char,
    _key_size: i32,
    value: *const c_char,
    value_size: i32,
    _result_size: *mut i32,
) -> *const c_char {
    // SAFETY: (FC6) `arg` is the count that the caller lends for this call.
    unsafe {
        *arg.cast::<u64>() += u64::from(value_size >= 0 && !value.is_null());
        ffi::TKRZW_REC_PROC_NOOP
    }
}

impl Tkrzw {
    /// Open the file in `options.dir`, or create one in an empty directory.
    ///
    /// # Errors
    /// As [`Home::take`]; `Corruption` when the file is lost or damaged beyond what Tkrzw restores.
    pub fn open(flavor: Flavor, options: &OpenOptions) -> Result<Self> {
        let mut home = Home::take(&options.dir, flavor.name())?;
        let path = home.dir().join(flavor.file_name());
        if !home.is_new() && !path.is_file() {
            return Err(Error::corruption(
                path,
                0,
                "it is missing although the database was created; restore the directory from a copy",
            ));
        }
        let params = flavor.params(options);
        // A creation that was cut begins again; nothing was acknowledged before it was completed.
        let how = if home.is_new() { "truncate=true" } else { "no_create=true" };
        let text: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let text = CString::new(format!("{},no_wait=true,{how}", text.join(",")))
            .map_err(|_| Error::invalid("a parameter holds a zero byte"))?;
        let name = c::path(&path)?;
        // SAFETY: (FC1, FC2) zero-terminated strings; null is a failure.
        let dbm = unsafe { ffi::tkrzw_dbm_open(name.as_ptr(), true, text.as_ptr()) };
        if dbm.is_null() {
            return Err(last_error("open the database", &path).1);
        }
        let engine = Self {
            dbm: Handle(dbm),
            flavor,
            path,
            params,
            capabilities: if flavor.is_ordered() { tree_capabilities() } else { hash_capabilities() },
            dirty_bytes_max: if flavor.is_ordered() { options.cache_bytes } else { 0 },
            courtesy: Courtesy::default(),
            room: Room::default(),
            poison: Poison::default(),
            home: {
                // The file must be on the device before the marker says so.
                if home.is_new() {
                    // SAFETY: (FC1) the database is open.
                    if !unsafe { ffi::tkrzw_dbm_synchronize(dbm, true, None, ptr::null_mut(), c"".as_ptr()) } {
                        let error = last_error("sync the new database", home.dir()).1;
                        // SAFETY: (FC1) opened above, given to nobody.
                        unsafe { ffi::tkrzw_dbm_close(dbm) };
                        return Err(error);
                    }
                    home.created()?;
                }
                home
            },
        };
        // SAFETY: (FC1) the database is open.
        if !unsafe { ffi::tkrzw_dbm_is_healthy(engine.dbm.0) } {
            return Err(Error::corruption(&engine.path, 0, "Tkrzw finds it unhealthy and could not restore it"));
        }
        Ok(engine)
    }

    /// Copy the value of `key` behind what is in `into`.
    fn read_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.capabilities.check_key(key)?;
        self.courtesy.read();
        let mut found = Found { value: into, is_there: false };
        // SAFETY: (FC1, FC2, FC6) the database is open; `found` outlives the call, in which alone the callback runs.
        let ok = unsafe {
            let arg = (&raw mut found).cast();
            ffi::tkrzw_dbm_process(self.dbm.0, chars(key), size(key), copy_value, arg, false)
        };
        if ok { Ok(found.is_there) } else { Err(last_error("read", &self.path).1) }
    }

    fn apply_one(&self, op: &Op<'_>) -> Result<()> {
        let ok = match *op {
            // SAFETY: (FC1, FC2) the database is open; key and value are copied.
            Op::Put { key, value } => unsafe {
                ffi::tkrzw_dbm_set(self.dbm.0, chars(key), size(key), chars(value), size(value), true)
            },
            Op::Delete { key } => {
                // SAFETY: (FC1, FC2) the database is open; the key is only read.
                let ok = unsafe { ffi::tkrzw_dbm_remove(self.dbm.0, chars(key), size(key)) };
                // SAFETY: (FC1) only reads this thread's status.
                ok || unsafe { ffi::tkrzw_get_last_status().code } == ffi::NOT_FOUND_ERROR
            }
            Op::DeleteRange { from, to } => return self.delete_range(from, to),
        };
        if ok { Ok(()) } else { Err(last_error("write", &self.path).1) }
    }

    /// Remove record by record; what other threads put into the range meanwhile may stay. An iterator may stand elsewhere by the time that it is
    /// read, or nowhere (module [`cursor`]): then the range is looked for again, until some looks in sequence have found nothing in it.
    fn delete_range(&self, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let mut range = Removal { from, to, met: Met::Nothing };
        // SAFETY: (FC1, FC2, FC6) the iterator is made from the open database and freed here; `range` outlives the calls
        // in which the callback runs.
        unsafe {
            let iter = ffi::tkrzw_dbm_make_iterator(self.dbm.0);
            // Looks in sequence that have removed nothing, whether or not a record was met.
            let mut looks = 0;
            let outcome = loop {
                if !ffi::tkrzw_dbm_iter_jump_upper(iter, chars(from), size(from), true) {
                    match last_error("delete a range", &self.path) {
                        (ffi::NOT_FOUND_ERROR, _) => break Ok(()),
                        (_, error) => break Err(error),
                    }
                }
                looks += 1;
                let mut ok = true;
                while ok {
                    range.met = Met::Nothing;
                    // Removing moves the iterator to the next record.
                    ok = ffi::tkrzw_dbm_iter_process(iter, remove_within, (&raw mut range).cast(), true);
                    if range.met != Met::Within {
                        break;
                    }
                    looks = 0;
                }
                match (!ok).then(|| last_error("delete a range", &self.path)) {
                    Some((code, error)) if code != ffi::NOT_FOUND_ERROR => break Err(error),
                    // The end of the records: a search upwards that finds none leaves the iterator there.
                    Some(_) if looks >= cursor::ATTEMPTS => break Ok(()),
                    Some(_) => {}
                    None if range.met == Met::Past => break Ok(()),
                    None if looks >= LOOKS_MAX => {
                        let what = "a range cannot be deleted: its pages are never found as they are".to_owned();
                        break Err(Error::new(ErrorKind::Io, format!("{}: {what}", self.path.display())));
                    }
                    None => {}
                }
            };
            ffi::tkrzw_dbm_iter_free(iter);
            outcome
        }
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: (FC1) the database is open.
        if unsafe { ffi::tkrzw_dbm_synchronize(self.dbm.0, true, None, ptr::null_mut(), c"".as_ptr()) } {
            self.room.synced();
            Ok(())
        } else {
            Err(last_error("sync", &self.path).1)
        }
    }

    /// Tkrzw's own properties.
    fn inspect(&self) -> Vec<(String, String)> {
        let mut count = 0;
        // SAFETY: (FC1, FC4) the database is open; the map is copied and then freed once.
        unsafe {
            let map = ffi::tkrzw_dbm_inspect(self.dbm.0, &raw mut count);
            let text = |ptr, size: i32| String::from_utf8_lossy(c::bytes(ptr, size.max(0) as usize)).into_owned();
            let pairs = (0..count.max(0) as usize)
                .map(|index| &*map.add(index))
                .map(|pair| (text(pair.key_ptr, pair.key_size), text(pair.value_ptr, pair.value_size)))
                .collect();
            ffi::tkrzw_free_str_map(map, count);
            pairs
        }
    }
}

impl Engine for Tkrzw {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let mut value = Vec::new();
        Ok(self.read_into(key, &mut value)?.then(|| Value::owned(value)))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.read_into(key, into)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        self.courtesy.read();
        // SAFETY: (FC1, FC2) the database is open; the key is only read.
        if unsafe { ffi::tkrzw_dbm_check(self.dbm.0, chars(key), size(key)) } {
            return Ok(true);
        }
        match last_error("read", &self.path) {
            (ffi::NOT_FOUND_ERROR, _) => Ok(false),
            (_, error) => Err(error),
        }
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        self.poison.check()?;
        self.room.check(self.home.dir(), ops.iter().map(Op::logical_bytes).sum(), self.dirty_bytes_max)?;
        let writing = self.courtesy.write();
        ops.iter().try_for_each(|op| self.apply_one(op)).map_err(|e| self.poison.after(e))?;
        drop(writing);
        if durability == Durability::Sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        let _writing = self.courtesy.write();
        self.synchronize().map_err(|e| self.poison.after(e))
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Err(Error::unsupported(format!("the engine {} has no snapshots", self.flavor.name())))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        if !self.flavor.is_ordered() {
            return Err(Error::unsupported("the engine tkrzw-hash keeps no order of keys: cursors are not available"));
        }
        Ok(Box::new(TreeCursor::new(self)))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        home::copy_to(dest, self.flavor.name(), || {
            let name = c::path(&dest.join(self.flavor.file_name()))?;
            // The library writes all pages, then copies the file while it holds writers off.
            // SAFETY: (FC1, FC2) the database is open; the name is zero-terminated.
            if !unsafe { ffi::tkrzw_dbm_copy_file_data(self.dbm.0, name.as_ptr(), true) } {
                return Err(last_error("copy the database", dest).1);
            }
            home::sync_files_but(dest, &[])
        })
    }

    fn compact(&self) -> Result<()> {
        self.poison.check()?;
        // SAFETY: (FC1) the database is open; the parameters are zero-terminated.
        if unsafe { ffi::tkrzw_dbm_rebuild(self.dbm.0, c"".as_ptr()) } {
            Ok(())
        } else {
            Err(self.poison.after(last_error("rebuild the database", &self.path).1))
        }
    }

    fn stats(&self) -> Result<Stats> {
        // SAFETY: (FC1) the database is open.
        let keys = unsafe { ffi::tkrzw_dbm_count(self.dbm.0) };
        let mut options = self.params.clone();
        let shown =
            |name: &str| ["auto_restored", "num_buckets", "max_page_size", "offset_width", "align_pow"].contains(&name);
        options.extend(
            self.inspect()
                .into_iter()
                .filter(|(name, _)| shown(name))
                .map(|(name, value)| (format!("file.{name}"), value)),
        );
        Ok(Stats {
            keys: u64::try_from(keys).ok(),
            physical_bytes: Some(self.home.physical_bytes()?),
            options,
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let mut keys = 0u64;
        // SAFETY: (FC1, FC6) the database is open; `keys` outlives the call, in which alone the callback runs.
        let ok = unsafe { ffi::tkrzw_dbm_process_each(self.dbm.0, count_record, (&raw mut keys).cast(), false) };
        if !ok {
            let (code, error) = last_error("verify", &self.path);
            if code != ffi::BROKEN_DATA_ERROR {
                return Err(error);
            }
            report(Damage { file: self.path.clone(), offset: 0, what: error.message().to_owned() });
        }
        Ok(keys)
    }
}
