//! The engine `rocksdb`: Debian's RocksDB through its C API.
//!
//! Invariants:
//!
//! 1. `Os` is a write into the log file without a sync: it is in the kernel when `apply` returns. `Sync` is the same write
//!    with RocksDB's `sync`, which makes all log files durable that hold earlier writes; `sync` is `FlushWAL(sync)`, which
//!    does the same apart from any write.
//! 2. Every batch is one RocksDB write batch, one record of the log: whole or not at all, through any crash.
//! 3. After a failed write or sync the instance is poisoned. RocksDB itself turns read-only on most of these failures and
//!    may try to resume after a full disk; the adapter never does, because half a record may stand in the log.
//! 4. `DeleteRange` without an end is a tombstone up to a key that is greater than every key the contract allows.
//!
//! After a crash RocksDB replays its log. A record cut by the end of the file is dropped. Where a log ends in a torn record
//! (a power cut in the middle of a write), `crate::log_tail` looks at it: if nothing valid follows, nothing acknowledged
//! with `Sync` is affected and replay stops there; if something follows, the open fails with `Corruption`.

mod cursor;
mod ffi;
mod options;
mod stats;
mod verify;

use std::ffi::{c_char, c_int};
use std::ops::Deref;
use std::path::Path;
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
use cursor::{RocksCursor, RocksSnapshot};
use options::{OwnedOptions, Settings};

/// The engine's name.
pub const NAME: &str = "rocksdb";

/// Greater than every key: longer than the longest, and all ones.
static PAST_EVERY_KEY: [u8; KEY_BYTES_MAX + 1] = [0xff; KEY_BYTES_MAX + 1];

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "RocksDB: a log-structured merge tree with bloom filters and background compaction",
        version: || env!("BIOMBO_ROCKSDB_VERSION").to_owned(),
        capabilities,
        open: Arc::new(|options| Ok(Arc::new(RocksDb::open(options)?))),
        io_modes: &[biombo_base::io::IoMode::Direct],
        repair: None,
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: Some(Durability::Os),
        // With `Os` a power cut may lose pages of one log file and keep later ones of the next: a hole, not a prefix.
        survives_power_cut: Some(Durability::Sync),
        sync_apart: true,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// One open RocksDB database.
pub struct RocksDb {
    db: Handle,
    read: ReadOptions,
    write_os: WriteOptions,
    write_sync: WriteOptions,
    options: OwnedOptions,
    settings: Settings,
    capabilities: Capabilities,
    poison: Poison,
    home: Home,
}

/// The database, closed with its owner.
struct Handle(*mut ffi::Db);

// SAFETY: (FC5) RocksDB's DB is safe to use from any number of threads.
unsafe impl Send for Handle {}
// SAFETY: (FC5) as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: (FC1) opened once, closed once; iterators and snapshots hold the engine, so none is left.
        unsafe { ffi::rocksdb_close(self.0) }
    }
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
            let options = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_verify_checksums(options, 1);
            ffi::rocksdb_readoptions_set_fill_cache(options, fill_cache.into());
            ffi::rocksdb_readoptions_set_snapshot(options, snapshot);
            Self(options)
        }
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::rocksdb_readoptions_destroy(self.0) }
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
            let options = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(options, sync.into());
            Self(options)
        }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::rocksdb_writeoptions_destroy(self.0) }
    }
}

/// A write batch under construction.
struct WriteBatch(*mut ffi::Batch);

impl WriteBatch {
    fn new() -> Self {
        // SAFETY: (FC1) created here, destroyed on drop.
        Self(unsafe { ffi::rocksdb_writebatch_create() })
    }

    fn add(&mut self, op: &Op<'_>) {
        // SAFETY: (FC2) the library copies keys and values before it returns.
        unsafe {
            match *op {
                Op::Put { key, value } => {
                    ffi::rocksdb_writebatch_put(self.0, chars(key), key.len(), chars(value), value.len());
                }
                Op::Delete { key } => ffi::rocksdb_writebatch_delete(self.0, chars(key), key.len()),
                Op::DeleteRange { from, to } => {
                    let to = to.unwrap_or(&PAST_EVERY_KEY);
                    // RocksDB refuses a range whose end lies before its beginning; here it is empty.
                    if from < to {
                        ffi::rocksdb_writebatch_delete_range(self.0, chars(from), from.len(), chars(to), to.len());
                    }
                }
            }
        }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `new`, destroyed once.
        unsafe { ffi::rocksdb_writebatch_destroy(self.0) }
    }
}

/// A value pinned in the block cache or the memtable.
struct Pinned(*mut ffi::Pinned);

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: (FC3) the bytes stay until the slice is destroyed, which needs this borrow to end.
        unsafe {
            let ptr = ffi::rocksdb_pinnableslice_value(self.0, &raw mut len);
            c::bytes(ptr, len)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: (FC1) handed out once, destroyed once, before the database (the value borrows the engine).
        unsafe { ffi::rocksdb_pinnableslice_destroy(self.0) }
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
    match unsafe { c::take_string(message, ffi::rocksdb_free) } {
        None => Ok(result),
        Some(message) => Err(crate::status::status_error(&message, doing, dir)),
    }
}

impl RocksDb {
    /// Open the database in `options.dir`, or create one in an empty directory.
    ///
    /// # Errors
    /// As [`Home::take`]; `Corruption` when files are lost or damaged.
    pub fn open(options: &OpenOptions) -> Result<Self> {
        let mut home = Home::take(&options.dir, NAME)?;
        let settings = Settings::new(options);
        let (db, built) = match open_with(&home, &settings, ffi::RECOVER_TOLERATE_TAIL) {
            Err(e) if e.kind() == ErrorKind::Corruption && crate::log_tail::only_tails_are_torn(home.dir())? => {
                open_with(&home, &settings, ffi::RECOVER_POINT_IN_TIME)?
            }
            other => other?,
        };
        home.created()?;
        Ok(Self {
            db,
            read: ReadOptions::new(ptr::null(), true),
            write_os: WriteOptions::new(false),
            write_sync: WriteOptions::new(true),
            options: built,
            settings,
            capabilities: capabilities(),
            poison: Poison::default(),
            home,
        })
    }

    fn get_pinned(&self, read: &ReadOptions, key: &[u8]) -> Result<Option<Pinned>> {
        self.capabilities.check_key(key)?;
        // SAFETY: (FC1, FC2) the database and the options are live; the key is only read during the call.
        let pinned = call("read", self.home.dir(), |err| unsafe {
            ffi::rocksdb_get_pinned(self.db.0, read.0, chars(key), key.len(), err)
        })?;
        Ok((!pinned.is_null()).then(|| Pinned(pinned)))
    }

    fn property(&self, name: &std::ffi::CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: (FC1) the database is live; the name is zero-terminated.
        let status = unsafe { ffi::rocksdb_property_int(self.db.0, name.as_ptr(), &raw mut value) };
        (status == 0).then_some(value)
    }

    fn write(&self, ops: &[Op<'_>], options: &WriteOptions) -> Result<()> {
        let dir = self.home.dir();
        match ops {
            // One operation: the library builds its batch on the stack.
            // SAFETY: (FC1, FC2) live handles; the bytes are copied before the call returns.
            [Op::Put { key, value }] => call("write", dir, |err| unsafe {
                let (value_ptr, value_len) = (chars(value), value.len());
                ffi::rocksdb_put(self.db.0, options.0, chars(key), key.len(), value_ptr, value_len, err);
            }),
            // SAFETY: (FC1, FC2) as above.
            [Op::Delete { key }] => call("write", dir, |err| unsafe {
                ffi::rocksdb_delete(self.db.0, options.0, chars(key), key.len(), err);
            }),
            ops => {
                let mut batch = WriteBatch::new();
                ops.iter().for_each(|op| batch.add(op));
                // SAFETY: (FC1) live handles.
                call("write", dir, |err| unsafe { ffi::rocksdb_write(self.db.0, options.0, batch.0, err) })
            }
        }
    }
}

fn open_with(home: &Home, settings: &Settings, recovery: c_int) -> Result<(Handle, OwnedOptions)> {
    let options = settings.build(home.is_new(), recovery);
    let name = c::path(home.dir())?;
    // SAFETY: (FC1, FC2) live options, a zero-terminated name.
    let opened =
        call("open the database", home.dir(), |err| unsafe { ffi::rocksdb_open(options.0, name.as_ptr(), err) });
    match opened {
        Ok(db) => Ok((Handle(db), options)),
        // Without leave to create, a missing CURRENT is an invalid argument to RocksDB; here the instance lost its files.
        Err(e) if e.kind() == ErrorKind::Invalid && e.message().contains("does not exist") => Err(Error::corruption(
            home.dir().join("CURRENT"),
            0,
            "it is missing although the database was created; restore the directory from a copy",
        )),
        Err(e) => Err(e),
    }
}

impl Engine for RocksDb {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        Ok(self.get_pinned(&self.read, key)?.map(Value::guarded))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self.get_pinned(&self.read, key)?;
        Ok(found.map(|value| into.extend_from_slice(&value)).is_some())
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_pinned(&self.read, key)?.is_some())
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            self.capabilities.check(op)?;
        }
        self.poison.check()?;
        if ops.is_empty() {
            return if durability == Durability::Sync { self.sync() } else { Ok(()) };
        }
        let options = if durability == Durability::Sync { &self.write_sync } else { &self.write_os };
        self.write(ops, options).map_err(|e| self.poison.after(e))
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        // SAFETY: (FC1) the database is live.
        call("sync the log", self.home.dir(), |err| unsafe { ffi::rocksdb_flush_wal(self.db.0, 1, err) })
            .map_err(|e| self.poison.after(e))
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(RocksSnapshot::new(self)))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        // An iterator sees the state of its creation.
        Ok(Box::new(RocksCursor::new(self)))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        home::copy_to(dest, NAME, || {
            // RocksDB wants to create the directory itself.
            std::fs::remove_dir(dest)
                .map_err(|e| Error::io(format_args!("replace the empty directory {}", dest.display()), e))?;
            let name = c::path(dest)?;
            let dir = self.home.dir();
            // SAFETY: (FC1, FC2) the object is created from the live database and destroyed after its one use.
            let checkpoint = call("begin a checkpoint", dir, |err| unsafe {
                ffi::rocksdb_checkpoint_object_create(self.db.0, err)
            })?;
            // A log size of 0 flushes the memtables: the copy holds everything applied before, in synced tables.
            // SAFETY: (FC1, FC2) as above.
            let done = call("write the checkpoint", dest, |err| unsafe {
                ffi::rocksdb_checkpoint_create(checkpoint, name.as_ptr(), 0, err);
                ffi::rocksdb_checkpoint_object_destroy(checkpoint);
            });
            done?;
            home::sync_files_but(dest, &["sst"])
        })
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: (FC1) the database is live; null bounds mean the whole range.
        unsafe { ffi::rocksdb_compact_range(self.db.0, ptr::null(), 0, ptr::null(), 0) }
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        self.read_stats()
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.verify_files(report)
    }
}
