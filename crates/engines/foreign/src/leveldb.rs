//! The engine `leveldb`: Debian's LevelDB through its C API.
//!
//! Invariants:
//!
//! 1. `Os` is a write into the log file without a sync: LevelDB hands each record to the kernel before the write returns.
//!    `Sync` is the same with LevelDB's `sync`; `sync` is an empty write of that kind.
//! 2. LevelDB syncs the current log only. A log that was full and replaced may still hold unsynced `Os` writes until its
//!    memtable is a table; so a sync that follows `Os` writes also syncs the older log files itself (`sync_older_logs`).
//! 3. LevelDB has no range deletes. One is carried out as single deletes in one batch, under the write side of a lock whose
//!    read side every write takes: no write slips between the look and the deletes, and the batch stays atomic. It costs
//!    memory in proportion to the keys that it deletes.
//! 4. After a failed write or sync the instance is poisoned: LevelDB itself would go on writing behind a torn record.
//!
//! After a crash LevelDB replays its logs. A record cut by the end of the file is dropped. Where a log ends in a torn record
//! (a power cut in the middle of a write), `crate::log_tail` looks at it: if nothing valid follows, the log is replayed
//! without paranoia and the database is opened again with it; if something follows, the open fails with `Corruption`.

mod cursor;
mod ffi;
mod options;
mod stats;
mod table;
mod verify;

use std::ffi::c_char;
use std::ops::Deref;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use biombo_engine::capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Error, ErrorKind, Op, OpenOptions, Result, Snapshot,
    Stats, Value,
};

use crate::c;
use crate::home::{self, Home};
use crate::poison::Poison;
use cursor::{LevelCursor, LevelSnapshot, RawIter};
use options::{Handle, Settings};

/// The engine's name.
pub const NAME: &str = "leveldb";

/// The size of a batch while a checkpoint is written, in bytes.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "LevelDB: a small log-structured merge tree with one background thread",
        version,
        capabilities,
        open: Arc::new(|options| Ok(Arc::new(LevelDb::open(options)?))),
        io_modes: &[],
        repair: None,
    }
}

fn version() -> String {
    // SAFETY: (FC1) neither function takes or returns a handle.
    let (major, minor) = unsafe { (ffi::leveldb_major_version(), ffi::leveldb_minor_version()) };
    format!("{major}.{minor}")
}

fn capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: Some(Durability::Os),
        // With `Os` a power cut may lose the end of one log and keep the beginning of the next: a hole, not a prefix.
        survives_power_cut: Some(Durability::Sync),
        sync_apart: true,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// One open LevelDB database.
pub struct LevelDb {
    db: Handle,
    read: ReadOptions,
    write_os: WriteOptions,
    write_sync: WriteOptions,
    /// Writes take it shared, range deletes exclusively.
    writers: RwLock<()>,
    unsynced: Unsynced,
    /// Bytes of keys and values handed to the log.
    logged_bytes: AtomicU64,
    settings: Settings,
    capabilities: Capabilities,
    poison: Poison,
    home: Home,
}

/// Which `Os` writes may lie unsynced in an older log.
#[derive(Default)]
struct Unsynced {
    /// `Os` writes that returned.
    written: AtomicU64,
    /// Of those, how many a completed sync covers.
    synced: AtomicU64,
}

struct ReadOptions(*mut ffi::ReadOptions);

// SAFETY: (FC5) read options are only read once they were set up.
unsafe impl Send for ReadOptions {}
// SAFETY: (FC5) as above.
unsafe impl Sync for ReadOptions {}

impl ReadOptions {
    fn new(snapshot: *const ffi::Snap, fill_cache: bool) -> Self {
        // SAFETY: (FC1) created here, destroyed on drop; a snapshot outlives the options that name it.
        unsafe {
            let options = ffi::leveldb_readoptions_create();
            ffi::leveldb_readoptions_set_verify_checksums(options, 1);
            ffi::leveldb_readoptions_set_fill_cache(options, fill_cache.into());
            ffi::leveldb_readoptions_set_snapshot(options, snapshot);
            Self(options)
        }
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::leveldb_readoptions_destroy(self.0) }
    }
}

struct WriteOptions(*mut ffi::WriteOptions);

// SAFETY: (FC5) write options are only read once they were set up.
unsafe impl Send for WriteOptions {}
// SAFETY: (FC5) as above.
unsafe impl Sync for WriteOptions {}

impl WriteOptions {
    fn new(sync: bool) -> Self {
        // SAFETY: (FC1) created here, destroyed on drop.
        unsafe {
            let options = ffi::leveldb_writeoptions_create();
            ffi::leveldb_writeoptions_set_sync(options, sync.into());
            Self(options)
        }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::leveldb_writeoptions_destroy(self.0) }
    }
}

/// A write batch under construction.
struct WriteBatch(*mut ffi::Batch);

impl WriteBatch {
    fn new() -> Self {
        // SAFETY: (FC1) created here, destroyed on drop.
        Self(unsafe { ffi::leveldb_writebatch_create() })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: (FC2) the library copies key and value before it returns.
        unsafe { ffi::leveldb_writebatch_put(self.0, chars(key), key.len(), chars(value), value.len()) }
    }

    fn delete(&mut self, key: &[u8]) {
        // SAFETY: (FC2) the library copies the key before it returns.
        unsafe { ffi::leveldb_writebatch_delete(self.0, chars(key), key.len()) }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::leveldb_writebatch_destroy(self.0) }
    }
}

/// A value that the library allocated.
struct Allocated {
    ptr: *mut c_char,
    len: usize,
}

impl Deref for Allocated {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: (FC3) the allocation is ours until it is freed on drop.
        unsafe { c::bytes(self.ptr, self.len) }
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: (FC4) allocated by the library for us, freed once.
        unsafe { ffi::leveldb_free(self.ptr.cast()) }
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Call `f` with a place for an error message, and turn what it leaves there into an error.
fn call<T>(doing: &str, dir: &Path, f: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut message: *mut c_char = ptr::null_mut();
    let result = f(&raw mut message);
    // SAFETY: (FC4) null, or a string that the library allocated for us.
    match unsafe { c::take_string(message, ffi::leveldb_free) } {
        None => Ok(result),
        Some(message) => Err(crate::status::status_error(&message, doing, dir)),
    }
}

impl LevelDb {
    /// Open the database in `options.dir`, or create one in an empty directory.
    ///
    /// # Errors
    /// As [`Home::take`]; `Corruption` when files are lost or damaged.
    pub fn open(options: &OpenOptions) -> Result<Self> {
        let mut home = Home::take(&options.dir, NAME)?;
        let settings = Settings::new(options);
        let db = match Handle::open(home.dir(), &settings, home.is_new(), true) {
            Err(e) if e.kind() == ErrorKind::Corruption && crate::log_tail::only_tails_are_torn(home.dir())? => {
                // Replay what is whole into tables, which ends the torn logs; then open with all checks.
                drop(Handle::open(home.dir(), &settings, false, false)?);
                Handle::open(home.dir(), &settings, false, true)?
            }
            Err(e) if e.kind() == ErrorKind::Invalid && e.message().contains("does not exist") => {
                return Err(Error::corruption(
                    home.dir().join("CURRENT"),
                    0,
                    "it is missing although the database was created; restore the directory from a copy",
                ));
            }
            other => other?,
        };
        home.created()?;
        Ok(Self {
            db,
            read: ReadOptions::new(ptr::null(), true),
            write_os: WriteOptions::new(false),
            write_sync: WriteOptions::new(true),
            writers: RwLock::new(()),
            unsynced: Unsynced::default(),
            logged_bytes: AtomicU64::new(0),
            settings,
            capabilities: capabilities(),
            poison: Poison::default(),
            home,
        })
    }

    fn get_allocated(&self, read: &ReadOptions, key: &[u8]) -> Result<Option<Allocated>> {
        self.capabilities.check_key(key)?;
        let mut len = 0;
        // SAFETY: (FC1, FC2) the database and the options are live; the key is only read during the call.
        let ptr = call("read", self.home.dir(), |err| unsafe {
            ffi::leveldb_get(self.db.db, read.0, chars(key), key.len(), &raw mut len, err)
        })?;
        Ok((!ptr.is_null()).then_some(Allocated { ptr, len }))
    }

    fn write(&self, ops: &[Op<'_>], options: &WriteOptions) -> Result<()> {
        let dir = self.home.dir();
        let logged = |bytes| {
            self.logged_bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        if ops.iter().any(|op| matches!(op, Op::DeleteRange { .. })) {
            let _alone = self.writers.write().unwrap_or_else(PoisonError::into_inner);
            let (batch, bytes) = self.batch_with_ranges(ops)?;
            // SAFETY: (FC1) live handles.
            call("write", dir, |err| unsafe { ffi::leveldb_write(self.db.db, options.0, batch.0, err) })?;
            logged(bytes);
            return Ok(());
        }
        let _shared = self.writers.read().unwrap_or_else(PoisonError::into_inner);
        let written = match ops {
            // One operation: the library builds its batch on the stack.
            // SAFETY: (FC1, FC2) live handles; the bytes are copied before the call returns.
            [Op::Put { key, value }] => call("write", dir, |err| unsafe {
                let (value_ptr, value_len) = (chars(value), value.len());
                ffi::leveldb_put(self.db.db, options.0, chars(key), key.len(), value_ptr, value_len, err);
            }),
            // SAFETY: (FC1, FC2) as above.
            [Op::Delete { key }] => call("write", dir, |err| unsafe {
                ffi::leveldb_delete(self.db.db, options.0, chars(key), key.len(), err);
            }),
            ops => {
                let mut batch = WriteBatch::new();
                for op in ops {
                    match *op {
                        Op::Put { key, value } => batch.put(key, value),
                        Op::Delete { key } => batch.delete(key),
                        Op::DeleteRange { .. } => {}
                    }
                }
                // SAFETY: (FC1) live handles.
                call("write", dir, |err| unsafe { ffi::leveldb_write(self.db.db, options.0, batch.0, err) })
            }
        };
        written.inspect(|()| logged(ops.iter().map(Op::logical_bytes).sum()))
    }

    /// The batch in which every range delete is the deletes of the keys in it: those of the database and those that the
    /// batch itself put before; with the bytes of its keys and values. The caller keeps other writers out.
    fn batch_with_ranges(&self, ops: &[Op<'_>]) -> Result<(WriteBatch, u64)> {
        let (mut batch, mut bytes) = (WriteBatch::new(), 0);
        for (index, op) in ops.iter().enumerate() {
            match *op {
                Op::Put { key, value } => {
                    batch.put(key, value);
                    bytes += (key.len() + value.len()) as u64;
                }
                Op::Delete { key } => {
                    batch.delete(key);
                    bytes += key.len() as u64;
                }
                Op::DeleteRange { from, to } => {
                    let within = |key: &[u8]| key >= from && to.is_none_or(|to| key < to);
                    for before in &ops[..index] {
                        if let Op::Put { key, .. } = *before
                            && within(key)
                        {
                            batch.delete(key);
                            bytes += key.len() as u64;
                        }
                    }
                    let uncached = ReadOptions::new(ptr::null(), false);
                    let mut iter = RawIter::new(self, &uncached);
                    iter.seek(from);
                    while let Some(key) = iter.key().filter(|key| within(key)) {
                        batch.delete(key);
                        bytes += key.len() as u64;
                        iter.next();
                    }
                    iter.status(self.home.dir())?;
                }
            }
        }
        Ok((batch, bytes))
    }

    /// Make `Os` writes durable that lie in logs before the current one, which LevelDB has just synced.
    fn sync_older_logs(&self, covered: u64) -> Result<()> {
        let logs = crate::log_tail::log_files(self.home.dir())?;
        let (_current, older) = logs.split_last().map_or((None, &[][..]), |(last, older)| (Some(last), older));
        for log in older {
            match home::sync_file(log) {
                // Its memtable has become a synced table in between.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        self.unsynced.synced.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }

    /// A write with `sync`, after which everything before it is on the device.
    fn write_durably(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let covered = self.unsynced.written.load(Ordering::Acquire);
        write()?;
        if self.unsynced.synced.load(Ordering::Acquire) < covered { self.sync_older_logs(covered) } else { Ok(()) }
    }

    fn copy_to(&self, dest: &Path) -> Result<()> {
        let settings = Settings::new(&OpenOptions { cache_bytes: 32 << 20, ..OpenOptions::new(dest) });
        let copy = Handle::open(dest, &settings, true, true)?;
        let (write_os, uncached) = (WriteOptions::new(false), ReadOptions::new(ptr::null(), false));
        let write = |batch: &WriteBatch| {
            // SAFETY: (FC1) live handles.
            call("write the checkpoint", dest, |err| unsafe { ffi::leveldb_write(copy.db, write_os.0, batch.0, err) })
        };
        let mut iter = RawIter::new(self, &uncached);
        iter.first();
        let (mut batch, mut bytes) = (WriteBatch::new(), 0);
        while let (Some(key), Some(value)) = (iter.key(), iter.value()) {
            batch.put(key, value);
            bytes += key.len() + value.len();
            if bytes >= COPY_BATCH_BYTES {
                write(&batch)?;
                (batch, bytes) = (WriteBatch::new(), 0);
            }
            iter.next();
        }
        iter.status(self.home.dir())?;
        write(&batch)
    }
}

impl Engine for LevelDb {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(self.get_allocated(&self.read, key)?.map(Value::guarded))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self.get_allocated(&self.read, key)?;
        Ok(found.map(|value| into.extend_from_slice(&value)).is_some())
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_allocated(&self.read, key)?.is_some())
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        self.poison.check()?;
        if ops.is_empty() && durability != Durability::Sync {
            return Ok(());
        }
        let written = if durability == Durability::Sync {
            self.write_durably(|| self.write(ops, &self.write_sync))
        } else {
            let written = self.write(ops, &self.write_os);
            self.unsynced.written.fetch_add(1, Ordering::AcqRel);
            written
        };
        written.map_err(|e| self.poison.after(e))
    }

    fn sync(&self) -> Result<()> {
        self.apply(&[], Durability::Sync)
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(LevelSnapshot::new(self)))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        // An iterator sees the state of its creation.
        Ok(Box::new(LevelCursor::new(self)))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        home::copy_to(dest, NAME, || {
            self.copy_to(dest)?;
            // The copy is closed: its log and tables are whole in the kernel, and one pass makes them durable.
            home::sync_files_but(dest, &[])
        })
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: (FC1) the database is live; null bounds mean the whole range.
        unsafe { ffi::leveldb_compact_range(self.db.db, ptr::null(), 0, ptr::null(), 0) }
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        self.read_stats()
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.verify_files(report)
    }
}
