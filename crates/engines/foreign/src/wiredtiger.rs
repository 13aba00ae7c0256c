//! The engine `wiredtiger`: a B-tree with its own cache and a write-ahead log (Debian's libwiredtiger).
//!
//! Invariants:
//!
//! 1. A thread has a session of the pool for the length of a call ([`sessions`]).
//! 2. `apply` commits a transaction (a single operation commits by itself) whose log record is in the kernel's hands when the
//!    commit returns; `Sync` then flushes the log to the device. A sync thus covers all commits before it and is shared by
//!    the threads that wait for one, so `sync_apart` is true.
//! 3. Transactions that conflict are repeated, so callers never see it unless a batch does not fit into the cache.
//! 4. Values are copied out: a value by reference would pin its page and its session.
//! 5. Nobody writes while a range is deleted: the log names a deleted range by its ends, so what another transaction puts into it meanwhile
//!    would be there until the log is replayed, and gone then (`WT_SESSION::truncate`).
//!
//! Crash argument: tables change only at checkpoints, to free places, and the turtle file names the last one; the log since
//! then is replayed at opening, up to the first record whose checksum fails. Log files are written in order, so what is
//! replayed is a prefix; a flush returns when the log and its directory are on the device.
//!
//! What the library does not give: a count of its keys; a full disk met while it writes its log ends the connection
//! (`Poisoned`, reopen); a damaged block ends it too, so `verify` names the first damage and cannot go on past it.

use std::ffi::{CStr, CString, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{
    Capabilities, Compaction, CompactionTail, Cursor, Damage, Durability, Engine, EngineKind, Op, OpenOptions,
    Snapshot, Stats, Value,
    capabilities::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
};

use crate::home::{self, Home, MARKER};
use crate::poison::Poison;

mod backup;
mod cursor;
mod ffi;
mod options;
mod sessions;
#[cfg(test)]
mod tests;
mod write;

use cursor::View;
use options::Config;
use sessions::{Sessions, TABLE, Taken};

/// The engine's one name.
pub const NAME: &str = "wiredtiger";
const TABLE_FILE: &str = "kv.wt";

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "WiredTiger: a B-tree with a cache, a write-ahead log and many writers at a time",
        version,
        capabilities,
        open: Arc::new(|options| Ok(Arc::new(WiredTiger::open(options)?))),
        io_modes: &[],
        repair: None,
    }
}

/// Such as `3.2.1`, out of `WiredTiger 3.2.1: (August 27, 2019)`.
fn version() -> String {
    // SAFETY: (FC4) a terminated static string.
    let all = unsafe { CStr::from_ptr(ffi::biombo_wt_version()) }.to_string_lossy().into_owned();
    all.split_whitespace().nth(1).map_or(all.clone(), |version| version.trim_end_matches(':').to_owned())
}

fn capabilities() -> Capabilities {
    Capabilities {
        ordered: true,
        snapshots: true,
        atomic_batches: true,
        survives_kill: Some(Durability::Os),
        survives_power_cut: Some(Durability::Os),
        sync_apart: true,
        costly_transactions: false,
        checkpoints: true,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// The open connection; closed, with a checkpoint, when dropped.
struct Connection(*mut ffi::Connection);

// SAFETY: (FW1) a connection may be used from any thread.
unsafe impl Send for Connection {}
// SAFETY: (FW1) as above.
unsafe impl Sync for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: (FC1) the handle is valid, this is its last use, and the pool's sessions are closed.
        unsafe { ffi::biombo_wt_close(self.0) };
        drop(ffi::message(0));
    }
}

/// One WiredTiger connection with one table, in a directory of its own.
struct WiredTiger {
    capabilities: Capabilities,
    // Fields are dropped in this order: sessions end before the connection, which closes before the directory is given up.
    sessions: Sessions,
    connection: Connection,
    poison: Poison,
    // Writers that lost several conflicts take turns.
    conflicts: Mutex<()>,
    // Batches that delete ranges are alone; the others share.
    ranges: RwLock<()>,
    // WiredTiger allows one backup at a time.
    backups: Mutex<()>,
    options: Vec<(String, String)>,
    home: Home,
}

impl Drop for WiredTiger {
    fn drop(&mut self) {
        // A log write that failed (a full disk) leaves its transaction behind, and closing waits for that one for ever. The
        // connection stays until the process ends, and the files as a kill would leave them; a later process recovers them.
        if self.poison.check().is_err() {
            self.connection.0 = std::ptr::null_mut();
        }
    }
}

impl WiredTiger {
    fn open(options: &OpenOptions) -> Result<Self> {
        let mut home = Home::take(&options.dir, NAME)?;
        let config = Config::choose(options);
        if home.is_new() {
            clear(&options.dir)?;
        } else {
            check_files(&options.dir)?;
        }
        let connection = connect(&options.dir, &config.connection(home.is_new()), home.is_new())?;
        let error = |code| ffi::translate(code, "create the table in", &options.dir);
        if home.is_new() {
            create_table(&connection, &config.table()).map_err(error)?;
            home.created()?;
        }
        let sessions = Sessions::new(connection.0);
        // A damaged table shows itself here, not at the first read.
        if let Err(code) = sessions.take().map(drop) {
            let what = format!("cannot open it: {}", ffi::message(code));
            return Err(Error::corruption(options.dir.join(TABLE_FILE), 0, what));
        }
        Ok(Self {
            capabilities: capabilities(),
            sessions,
            connection,
            poison: Poison::default(),
            conflicts: Mutex::new(()),
            ranges: RwLock::new(()),
            backups: Mutex::new(()),
            options: config.describe(),
            home,
        })
    }

    fn error(&self, code: c_int, doing: &str) -> Error {
        ffi::translate(code, doing, self.home.dir())
    }

    fn session(&self) -> Result<Taken<'_>> {
        self.sessions.take().map_err(|code| match code {
            // ENOMEM is also how WiredTiger says that session_max is reached.
            12 => Error::new(
                ErrorKind::Busy,
                format!("{} sessions are open at once, the limit: drop snapshots or cursors", options::SESSIONS_MAX),
            ),
            code => self.error(code, "open a session of"),
        })
    }

    /// Make the log durable; a failure poisons.
    fn flush_log(&self, session: &Taken<'_>) -> Result<()> {
        // SAFETY: (FW2) the session is this thread's.
        match unsafe { ffi::biombo_wt_log_flush(session.session, c"sync=on".as_ptr()) } {
            0 => Ok(()),
            code => Err(self.poison.after(Error::poisoned(self.error(code, "sync the log of")))),
        }
    }
}

impl Engine for WiredTiger {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        let session = self.session()?;
        // SAFETY: (FW2) the session is this thread's while the bytes are copied.
        let found = unsafe { session.find(key) };
        found.map(|found| found.map(|bytes| Value::owned(bytes.to_vec()))).map_err(|code| self.error(code, "read"))
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.capabilities.check_key(key)?;
        let session = self.session()?;
        // SAFETY: (FW2) the session is this thread's while the bytes are copied.
        match unsafe { session.find(key) } {
            Ok(Some(bytes)) => {
                into.extend_from_slice(bytes);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(code) => Err(self.error(code, "read")),
        }
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        let session = self.session()?;
        // SAFETY: (FW2) the session is this thread's.
        unsafe { session.find(key) }.map(|found| found.is_some()).map_err(|code| self.error(code, "read"))
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.poison.check()?;
        for op in ops {
            self.capabilities.check(op)?;
        }
        let session = self.session()?;
        self.write(&session, ops)?;
        if durability == Durability::Sync { self.flush_log(&session) } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        let session = self.session()?;
        self.flush_log(&session)
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(View::open(self)?))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(Arc::new(View::open(self)?).alone()))
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        let _one = self.backups.lock().unwrap_or_else(PoisonError::into_inner);
        let session = self.session()?;
        home::copy_to(dest, NAME, || self.copy_to(&session, dest))
    }

    fn compact(&self) -> Result<()> {
        self.poison.check()?;
        let session = self.session()?;
        // SAFETY: (FW2) the session is this thread's.
        match unsafe { ffi::biombo_wt_compact(session.session, TABLE.as_ptr()) } {
            // Busy, out of time or out of cache: what was not moved stays where it is.
            0 | 16 | 110 | ffi::ROLLBACK => {
                drop(ffi::message(0));
                Ok(())
            }
            code => Err(self.error(code, "compact")),
        }
    }

    fn stats(&self) -> Result<Stats> {
        let session = self.session()?;
        let mut figures = [0; 9];
        // SAFETY: (FW2) the session is this thread's; (FC2) the array is live.
        match unsafe { ffi::biombo_wt_statistics(session.session, &mut figures) } {
            0 => {}
            code => return Err(self.error(code, "read the statistics of")),
        }
        let [cache, asked, read, blocks, log, checkpoints, milliseconds, slowest, dirty] =
            figures.map(|n| u64::try_from(n).unwrap_or(0));
        Ok(Stats {
            physical_bytes: Some(self.home.physical_bytes()?),
            written_bytes: Some(blocks + log),
            // As large as they are in memory; closing writes them, in a last checkpoint.
            unflushed_bytes: Some(dirty),
            cache_bytes: Some(cache),
            cache_hits_misses: Some((asked.saturating_sub(read), read)),
            // Of its checkpoints' times it keeps the sum and the extremes, no median.
            compaction: Some(Compaction {
                count: checkpoints,
                seconds: milliseconds as f64 / 1e3,
                latency_ns_p50: None,
                bytes: blocks,
                moves: 0,
            }),
            compaction_tail: Some(CompactionTail {
                latency_ns_p99: None,
                latency_ns_max: (checkpoints > 0).then_some(slowest * 1_000_000),
            }),
            options: self.options.clone(),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let session = self.session()?;
        let mut keys = 0;
        let mut last: Vec<u8> = Vec::new();
        let file = self.home.dir().join(TABLE_FILE);
        loop {
            let (mut key, mut value) = ((ptr::null(), 0), (ptr::null(), 0));
            // SAFETY: (FW2) the session is this thread's; (FC2) the out-parameters are live.
            let code = unsafe {
                match ffi::biombo_wt_next(session.cursor) {
                    0 => ffi::biombo_wt_here(session.cursor, &mut key.0, &mut key.1, &mut value.0, &mut value.1),
                    code => code,
                }
            };
            match code {
                0 => {}
                ffi::NOTFOUND => return Ok(keys),
                code => {
                    let what = ffi::message(code);
                    report(Damage { file, offset: offset_in(&what), what });
                    return Ok(keys);
                }
            }
            // SAFETY: (FC3) the key is the cursor's until it moves.
            let key: &[u8] = unsafe { sessions::slice(key.0.cast(), key.1) };
            if keys > 0 && last.as_slice() >= key {
                report(Damage { file: file.clone(), offset: 0, what: format!("key number {keys} is out of order") });
            }
            last.clear();
            last.extend_from_slice(key);
            keys += 1;
        }
    }
}

/// The offset that a message of a failed read names ("... block at offset 4096: ..."), else 0.
fn offset_in(message: &str) -> u64 {
    let after = message.split("offset ").nth(1).unwrap_or("");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn connect(dir: &Path, config: &str, is_new: bool) -> Result<Connection> {
    let path = c_string(dir.as_os_str().as_bytes())?;
    let config = c_string(config.as_bytes())?;
    let mut connection = ptr::null_mut();
    // SAFETY: (FC2) both strings are terminated and the out-parameter is live.
    match unsafe { ffi::biombo_wt_open(path.as_ptr(), config.as_ptr(), &mut connection) } {
        0 => {
            drop(ffi::message(0));
            Ok(Connection(connection))
        }
        // Short of memory, files or room: nothing is wrong with the files.
        code @ (12 | 13 | 23 | 24 | 28) => Err(ffi::translate(code, "open", dir)),
        // Mostly an engine of this process that a failure ended: its connection stays.
        16 => Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{} is open already, in another program or in this process, where writing to it failed: end that, then open it ({})",
                dir.display(),
                ffi::message(16)
            ),
        )),
        code if !is_new => Err(Error::corruption(dir, 0, format!("cannot open it: {}", ffi::message(code)))),
        code => Err(ffi::translate(code, "create", dir)),
    }
}

fn create_table(connection: &Connection, config: &str) -> std::result::Result<(), c_int> {
    let check = |code| if code == 0 { Ok(()) } else { Err(code) };
    let config = CString::new(config).expect("invariant: the options have no zero byte");
    let mut session = ptr::null_mut();
    // SAFETY: (FC2) the connection is open, strings are terminated, the out-parameter is live; (FW2) the session is this
    // thread's, and a session that is left open is closed with its connection.
    unsafe {
        check(ffi::biombo_wt_session(connection.0, &mut session))?;
        check(ffi::biombo_wt_create(session, TABLE.as_ptr(), config.as_ptr()))?;
        // From here on the table is there at every opening, not only after recovery.
        check(ffi::biombo_wt_checkpoint(session, ptr::null()))?;
        check(ffi::biombo_wt_session_close(session))
    }
}

/// Refuse a directory that lost one of its main files: WiredTiger would fail less clearly or begin a new one.
fn check_files(dir: &Path) -> Result<()> {
    // A copy that was never opened has its meta data in one file, from which the first opening makes the other two.
    let metadata: &[_] = match dir.join("WiredTiger.backup").exists() {
        true => &["WiredTiger", TABLE_FILE],
        false => &["WiredTiger", "WiredTiger.turtle", "WiredTiger.wt", TABLE_FILE],
    };
    for name in metadata {
        let path = dir.join(name);
        match fs::metadata(&path) {
            Ok(meta) if meta.len() > 0 => {}
            Ok(_) => return Err(Error::corruption(path, 0, "it is empty; restore the directory from a copy")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corruption(path, 0, "it is gone; restore the directory from a copy"));
            }
            Err(e) => return Err(Error::io(format_args!("open {}", path.display()), e)),
        }
    }
    Ok(())
}

/// Remove what a cut creation or copy left, but for the marker.
fn clear(dir: &Path) -> Result<()> {
    let doing = |e| Error::io(format_args!("clear the directory {}", dir.display()), e);
    for entry in fs::read_dir(dir).map_err(doing)? {
        let entry = entry.map_err(doing)?;
        if entry.file_name() != MARKER {
            fs::remove_file(entry.path()).map_err(doing)?;
        }
    }
    Ok(())
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::invalid("a path must not have a zero byte in it"))
}
