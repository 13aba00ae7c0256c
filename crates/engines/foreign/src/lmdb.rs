//! The engine `lmdb`: a copy-on-write B+tree in one memory-mapped file (LMDB, bundled).
//!
//! Invariants:
//!
//! 1. Reads take a read transaction from a pool ([`readers`]) and write nothing shared but LMDB's own reader slot.
//! 2. Writes run one at a time, each in a transaction of its own ([`write`]); `Sync` is LMDB's own synced commit, `Os` the
//!    same commit without syncs (the flags are per transaction, so both may be mixed).
//! 3. The directory belongs to one instance ([`Home`]): LMDB must not open a file twice within one process.
//!
//! Crash argument: a commit writes new pages to places that no recent snapshot uses, syncs them, then writes one of two
//! meta pages through an O_DSYNC descriptor. Cut anywhere before the meta page, the older meta page and its pages are
//! whole; after it, the newer ones are. Without the first sync the device may take the meta page before the pages that it
//! names: a power cut may then leave a damaged tree, also after `sync`, if it comes before that sync ended. Hence
//! `survives_power_cut` is `Sync` alone and `sync_apart` is false. A killed process loses nothing: the kernel has it all.
//!
//! Choices, as LMDB's users make them:
//!
//! - No WRITEMAP: it saves a copy per page, but a stray write of the program then damages the file, a full disk becomes
//!   SIGBUS instead of an error, and a sync through the mapping costs ten times one of the file (each sync msyncs the map).
//! - NORDAHEAD only if the data of all instances would not fit in half of the memory at opening: the kernel's readahead
//!   warms up small data quickly and only evicts useful pages of large data.
//! - NOMEMINIT: pages hold no other secrets than the keys and values of this same file.
//! - The map is sparse and far larger than the data (it costs address space only), because it cannot grow under readers.
//! - `longer-keys`: LMDB's customary limit of 511 bytes is a compile-time choice; 1,982 is what a 4 KiB page allows.
//!
//! It does not shrink its file; a checkpoint copies the free pages too.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{
    Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Op, OpenOptions, Snapshot, Stats, Value,
    capabilities::VALUE_BYTES_MAX,
};
use lmdb_master_sys as ffi;

use crate::home::{self, Home};

mod cursor;
mod error;
mod pages;
mod readers;
#[cfg(test)]
mod tests;
mod write;

use cursor::View;
use readers::{Pinned, Readers};

/// The engine's one name.
pub const NAME: &str = "lmdb";
/// LMDB's unnamed database, which is always open.
const MAIN: ffi::MDB_dbi = 1;
const DATA: &str = "data.mdb";
const READERS_MAX: u32 = 2048;

const GIB: u64 = 1 << 30;

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "LMDB: a copy-on-write B+tree in one memory-mapped file; the fastest reads, one writer at a time",
        version,
        capabilities: || capabilities(key_bytes_max(page_bytes())),
        open: Arc::new(|options| Ok(Arc::new(Lmdb::open(options, None)?))),
        io_modes: &[biombo_base::io::IoMode::Mmap],
        repair: None,
    }
}

fn version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: (FC2) the three pointers are to live integers.
    unsafe { ffi::mdb_version(&mut major, &mut minor, &mut patch) };
    format!("{major}.{minor}.{patch}")
}

fn capabilities(key_bytes_max: usize) -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: Some(Durability::Os),
        survives_power_cut: Some(Durability::Sync),
        sync_apart: false,
        costly_transactions: true,
        checkpoints: true,
        persistent: true,
        key_bytes_max,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// The page size of a new file: the system's, at most 32 KiB.
fn page_bytes() -> usize {
    // SAFETY: (FC2) sysconf takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096).min(32 << 10)
}

/// What `mdb_env_get_maxkeysize` will say of a file with such pages: two nodes must fit on a page, each with a node header
/// and room for the record of a named database.
fn key_bytes_max(page_bytes: usize) -> usize {
    const PAGE_HEADER: usize = 16;
    const INDEX: usize = 2;
    const NODE_HEADER: usize = 8;
    const DATABASE: usize = 48;
    (((page_bytes - PAGE_HEADER) / 2) & !1) - INDEX - NODE_HEADER - DATABASE
}

/// The open environment; closed when dropped, after everything that uses it.
struct Env(*mut ffi::MDB_env);

// SAFETY: (FL1) an environment opened with MDB_NOTLS may be used from any thread.
unsafe impl Send for Env {}
// SAFETY: (FL1) as above: LMDB locks what its calls share.
unsafe impl Sync for Env {}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: (FC1) the handle is valid and this is its last use; all transactions have ended.
        unsafe { ffi::mdb_env_close(self.0) };
    }
}

/// One LMDB environment in a directory of its own.
struct Lmdb {
    capabilities: Capabilities,
    // Fields are dropped in this order: transactions end before the environment, which closes before the directory is
    // given up.
    readers: Readers,
    env: Env,
    // An own descriptor of the data file: it reports failed writeback even after LMDB's descriptor has reported it.
    data: File,
    data_path: PathBuf,
    // One writer at a time; LMDB's own lock is never contended behind it.
    writer: Mutex<()>,
    // Unsynced commits so far, and how many of them a sync has covered.
    commits: AtomicU64,
    synced: AtomicU64,
    // One sync at a time: the kernel tells a failed writeback to one of two, and the other must see that it poisoned.
    syncs: Mutex<()>,
    poison: OnceLock<String>,
    options: Vec<(String, String)>,
    home: Home,
}

impl Lmdb {
    /// Open or create. `map_bytes` overrides the size of the map (for tests).
    fn open(options: &OpenOptions, map_bytes: Option<u64>) -> Result<Self> {
        let mut home = Home::take(&options.dir, NAME)?;
        let data_path = options.dir.join(DATA);
        let old_bytes = if home.is_new() {
            // A creation that was cut starts again.
            for name in [DATA, "lock.mdb"] {
                remove_if_there(&options.dir.join(name))?;
            }
            0
        } else {
            pages::check_before_open(&data_path)?
        };

        let flags = Flags::choose(options, old_bytes);
        let (env, map_bytes) = match map_bytes {
            Some(bytes) => (open_env(&options.dir, bytes, flags.bits)?, bytes),
            None => open_with_room(&options.dir, options.instances, old_bytes, flags.bits)?,
        };
        // SAFETY: (FC2) the environment is open.
        let key_bytes_max = unsafe { ffi::mdb_env_get_maxkeysize(env.0) };
        let data = File::options()
            .read(true)
            .write(true)
            .open(&data_path)
            .map_err(|e| Error::io(format_args!("open {}", data_path.display()), e))?;
        let is_old = !home.is_new();
        if home.is_new() {
            home::sync_file(&data_path)?;
            home.created()?;
        }
        Ok(Self {
            capabilities: capabilities(usize::try_from(key_bytes_max).unwrap_or(0)),
            readers: Readers::new(env.0),
            env,
            data,
            data_path,
            writer: Mutex::new(()),
            // The last life's commits may not be synced.
            commits: AtomicU64::new(u64::from(is_old)),
            synced: AtomicU64::new(0),
            syncs: Mutex::new(()),
            poison: OnceLock::new(),
            options: flags.describe(map_bytes),
            home,
        })
    }

    fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(why) => Err(Error::poisoned(why)),
        }
    }

    /// Read-only from now on, because of `why`.
    fn poisoned(&self, why: impl std::fmt::Display) -> Error {
        let why = self.poison.get_or_init(|| why.to_string());
        Error::poisoned(why)
    }

    fn error(&self, code: i32, doing: &str) -> Error {
        error::translate(code, doing, &self.data_path)
    }

    /// Sync what commits without syncs have left behind, if anything.
    fn sync_commits(&self) -> Result<()> {
        let wanted = self.commits.load(Ordering::Acquire);
        let _one = self.syncs.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_poison()?;
        // Somebody's meanwhile may have covered them.
        if self.synced.load(Ordering::Acquire) >= wanted {
            return Ok(());
        }
        let commits = self.commits.load(Ordering::Acquire);
        // SAFETY: (FC2) the environment is open; this call is thread-safe.
        let code = unsafe { ffi::mdb_env_sync(self.env.0, 1) };
        if code != 0 {
            return Err(self.poisoned(self.error(code, "sync")));
        }
        self.synced.fetch_max(commits, Ordering::AcqRel);
        Ok(())
    }

    fn copy_to(&self, dest: &Path) -> Result<()> {
        let path = c_path(dest)?;
        // SAFETY: (FC2) the environment is open and the path is terminated; the copy has a read transaction of its own.
        let code = unsafe { ffi::mdb_env_copy2(self.env.0, path.as_ptr(), 0) };
        let copy = dest.join(DATA);
        if code != 0 {
            return Err(error::translate(code, "write the checkpoint", &copy));
        }
        home::sync_file(&copy)
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // A clean close leaves nothing to a power cut. Its failure can be told to nobody.
        if self.poison.get().is_none() {
            let _ = self.sync_commits();
        }
    }
}

impl Engine for Lmdb {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        let reading = self.readers.begin().map_err(|code| self.error(code, "begin a read"))?;
        match reading.find(key) {
            Ok(Some(bytes)) => Ok(Some(Value::guarded(Pinned::new(reading, bytes)))),
            Ok(None) => Ok(None),
            Err(code) => Err(self.error(code, "read")),
        }
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.capabilities.check_key(key)?;
        let reading = self.readers.begin().map_err(|code| self.error(code, "begin a read"))?;
        match reading.find(key) {
            Ok(Some(bytes)) => {
                // SAFETY: (FL2) the bytes are in the map and `reading` keeps their transaction open.
                into.extend_from_slice(unsafe { bytes.as_ref() });
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(code) => Err(self.error(code, "read")),
        }
    }

    /// In one transaction, which ends with the last of the values. One for each value would be one at a time from the pool, and the others begun
    /// and ended for this call alone.
    fn multi_get<'v>(&'v self, keys: &[&[u8]], values: &mut Vec<Option<Value<'v>>>) -> Result<()> {
        let reading = self.readers.begin().map_err(|code| self.error(code, "begin a read"))?;
        let reading = Rc::new(reading);
        for key in keys {
            self.capabilities.check_key(key)?;
            let found = reading.find(key).map_err(|code| self.error(code, "read"))?;
            values.push(found.map(|bytes| Value::guarded(Pinned::new(Rc::clone(&reading), bytes))));
        }
        Ok(())
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        let reading = self.readers.begin().map_err(|code| self.error(code, "begin a read"))?;
        reading.find(key).map(|found| found.is_some()).map_err(|code| self.error(code, "read"))
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.check_poison()?;
        for op in ops {
            self.capabilities.check(op)?;
        }
        self.write(ops, durability)
    }

    fn sync(&self) -> Result<()> {
        self.check_poison()?;
        self.sync_commits()
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(View::open(self)?))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(Arc::new(View::open(self)?).alone()?))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        home::copy_to(dest, NAME, || self.copy_to(dest))
    }

    fn compact(&self) -> Result<()> {
        // Free pages are used again, but the file of an open environment never shrinks.
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        // SAFETY: (FC2) all zeros are a valid MDB_stat.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: (FC2) the environment is open and `stat` is live.
        let code = unsafe { ffi::mdb_env_stat(self.env.0, &mut stat) };
        if code != 0 {
            return Err(self.error(code, "read the statistics"));
        }
        Ok(Stats {
            keys: Some(stat.ms_entries as u64),
            physical_bytes: Some(self.home.physical_bytes()?),
            options: self.options.clone(),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        loop {
            let reading = self.readers.begin().map_err(|code| self.error(code, "begin a read"))?;
            // Two commits later the meta page of this read is overwritten (its pages are not): begin again then.
            if let Some(meta) = pages::find_meta(&self.data, &self.data_path, reading.txn_id())? {
                return pages::walk(&self.data, &self.data_path, &meta, report);
            }
        }
    }
}

/// The flags that depend on the machine and the data.
struct Flags {
    bits: u32,
    is_random: bool,
    durability: Durability,
}

impl Flags {
    fn choose(options: &OpenOptions, old_bytes: u64) -> Self {
        // SAFETY: (FC2) sysconf takes no pointer.
        let memory_pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        let memory_bytes = u64::try_from(memory_pages).unwrap_or(0) * page_bytes() as u64;
        let all_bytes = old_bytes.saturating_mul(u64::from(options.instances.max(1)));
        let is_random = all_bytes > memory_bytes / 2;
        let random = if is_random { ffi::MDB_NORDAHEAD } else { 0 };
        Self { bits: ffi::MDB_NOTLS | ffi::MDB_NOMEMINIT | random, is_random, durability: options.durability }
    }

    fn describe(&self, map_bytes: u64) -> Vec<(String, String)> {
        [
            ("map_bytes", map_bytes.to_string()),
            ("readers_max", READERS_MAX.to_string()),
            ("NOTLS", "on".to_owned()),
            ("NOMEMINIT", "on".to_owned()),
            ("NORDAHEAD", if self.is_random { "on" } else { "off" }.to_owned()),
            ("WRITEMAP", "off".to_owned()),
            ("commit at os", "NOSYNC|NOMETASYNC".to_owned()),
            ("commit at sync", "fdatasync, then the meta page with O_DSYNC".to_owned()),
            ("durability", self.durability.name().to_owned()),
            ("cache", "the kernel's page cache".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// Open with the largest map that the process may have.
fn open_with_room(dir: &Path, instances: u32, old_bytes: u64, flags: u32) -> Result<(Env, u64)> {
    // Generous, but close together, so that instances share upper page-table entries: reads over eight of them were a few
    // per cent faster so, within the noise of the runs. A reopened instance gets twice its size again.
    let share = 512 * GIB / u64::from(instances.max(1));
    let least = GIB.max(old_bytes.saturating_mul(2).checked_next_multiple_of(GIB).unwrap_or(u64::MAX));
    let mut bytes = share.clamp(64 * GIB, 1024 * GIB).max(least);
    loop {
        match open_env(dir, bytes, flags) {
            // The address space is limited (ulimit -v).
            Err(error) if error.kind() == ErrorKind::Full && bytes > least => bytes = (bytes / 2).max(least),
            other => return Ok((other?, bytes)),
        }
    }
}

fn open_env(dir: &Path, map_bytes: u64, flags: u32) -> Result<Env> {
    let path = c_path(dir)?;
    let data = dir.join(DATA);
    let check = |code: i32| match code {
        0 => Ok(()),
        libc::ENOMEM => Err(Error::new(
            ErrorKind::Full,
            format!(
                "no room in the address space for a map of {map_bytes} bytes of {}; raise `ulimit -v`",
                data.display()
            ),
        )),
        code => Err(error::translate(code, "open", &data)),
    };
    let mut env = ptr::null_mut();
    // SAFETY: (FC1) the handle is written before it is used, and owned by `Env` from here on.
    check(unsafe { ffi::mdb_env_create(&mut env) })?;
    let env = Env(env);
    let map = usize::try_from(map_bytes).unwrap_or(usize::MAX);
    // SAFETY: (FC2) the environment was created and is not open yet.
    check(unsafe { ffi::mdb_env_set_mapsize(env.0, map as _) })?;
    // SAFETY: (FC2) as above.
    check(unsafe { ffi::mdb_env_set_maxreaders(env.0, READERS_MAX) })?;
    // SAFETY: (FC2) the path is terminated; `Home` says that nobody else in this process has this environment open.
    check(unsafe { ffi::mdb_env_open(env.0, path.as_ptr(), flags, 0o644) })?;
    // Slots of readers that were killed would keep old pages from being used again.
    let mut dead = 0;
    // SAFETY: (FC2) the environment is open.
    check(unsafe { ffi::mdb_reader_check(env.0, &mut dead) })?;
    // Opening the unnamed database gives it its order; without that LMDB calls a null pointer.
    let (mut txn, mut main) = (ptr::null_mut(), 0);
    // SAFETY: (FC2) the environment is open and `txn` is live.
    check(unsafe { ffi::mdb_txn_begin(env.0, ptr::null_mut(), ffi::MDB_RDONLY, &mut txn) })?;
    // SAFETY: (FL3) the transaction is open and this thread's; a null name means the unnamed database.
    let opened = unsafe { ffi::mdb_dbi_open(txn, ptr::null(), 0, &mut main) };
    // SAFETY: (FL3) as above; this is its last use.
    unsafe { ffi::mdb_txn_abort(txn) };
    check(opened)?;
    debug_assert_eq!(main, MAIN);
    Ok(env)
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("the path {} has a zero byte in it", path.display())))
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", path.display()), e))
        }
        _ => Ok(()),
    }
}
