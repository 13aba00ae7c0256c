//! The engine `postgres`: a table of PostgreSQL with a key of bytes and a value of bytes, for the laboratory.
//!
//! Invariants:
//!
//! 1. An instance has a PostgreSQL server of its own in its directory, which lives as long as the instance is open ([`cluster`]), or,
//!    where `BIOMBO_POSTGRES` says so when it is created, a table of its own on an existing server ([`remote`]).
//! 2. A call has a connection for its length ([`pool`]); what an `apply` says is one transaction ([`write`]).
//! 3. `Sync` is a commit that waits for the log to be on the device (`synchronous_commit = on`), `Os` one that does not wait (`off`). One log
//!    holds all commits in order, so a later `Sync` covers all before it, and waiting sessions share one device sync: `sync_apart` is true.
//! 4. Rows are found and walked by the index of the primary key, which has bytewise order; a cursor reads one state of the table ([`cursor`]).
//! 5. A server that is gone poisons the instance: every later call says what the server said last.
//!
//! Crash argument: PostgreSQL's own. A page is written only after the log that changes it, a page's first change after a checkpoint is
//! logged whole, and recovery replays the log up to its first record that is not whole: a prefix of the commits. When this process
//! dies, however it dies, the server is told to write what it has and stop, and the next opening waits for that: so `Os` survives
//! the process. A kill of the server itself may cost the `Os` commits of its last 600 ms, as PostgreSQL documents.
//!
//! What is still to be written (`Stats::unflushed_bytes`) are the dirty pages of the server's cache: without them a run that ends before a
//! checkpoint would show its log alone. To count them takes a look at every buffer, some 50 ms for each GiB of cache (an estimate).
//!
//! What it does not do: checkpoints (copies) of an instance.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{
    Capabilities, Compaction, Cursor, Damage, Durability, Engine, EngineKind, Op, OpenOptions, Snapshot, Stats, Value,
};

use crate::home::Home;
use crate::poison::Poison;

mod cluster;
mod cursor;
mod damage;
mod errors;
mod figures;
mod pool;
mod programs;
mod remote;
mod settings;
mod write;

use cluster::Cluster;
use cursor::View;
use errors::{is_refusal, kind_of, one_line, refused};
use figures::Figures;
use pool::{Pool, Sql, Taken};
use remote::Remote;

/// The engine's one name.
pub const NAME: &str = "postgres";

/// The table of a server of the instance's own.
const TABLE: &str = "kv";

/// An entry of a B-tree page has at most 2,704 bytes: the key, its length and the entry's header.
const KEY_BYTES_MAX: usize = 2_690;
/// A message and a row have less than 1 GiB, and the server holds several copies of a value while it takes it.
const VALUE_BYTES_MAX: usize = 256 << 20;

/// Bytes that a group of rows should not pass, by the largest value seen.
const GROUP_BYTES: usize = 8 << 20;

/// A checkpoint that was asked for is counted within this, after which nobody waits for it.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// The entry for the registry.
pub fn kind() -> EngineKind {
    EngineKind {
        name: NAME,
        summary: "PostgreSQL, for comparison: on a server of the instance's own, or on the one that BIOMBO_POSTGRES names",
        version: programs::version,
        capabilities,
        open: Arc::new(|options| Ok(Arc::new(Postgres::open(options)?))),
        io_modes: &[],
        repair: None,
    }
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
        checkpoints: false,
        persistent: true,
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
    }
}

/// One table, in a server of its own or not.
struct Postgres {
    capabilities: Capabilities,
    // Fields are dropped in this order: connections end before the server, which stops before the directory is given up.
    pool: Pool,
    server: Option<Cluster>,
    poison: Poison,
    /// The largest value seen, by which cursors choose how many rows they fetch at once.
    largest: AtomicUsize,
    table: String,
    /// The server's figures when this was opened.
    before: Figures,
    /// Whether the server, of the instance's own, tells which of its pages are still to be written.
    tells_dirty: bool,
    options: Vec<(String, String)>,
    home: Home,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What a run of the laboratory has on somebody's server goes with the run; of one that was killed, with the next.
        if self.server.is_none()
            && remote::is_of_run(self.home.dir())
            && let Ok(mut link) = self.link()
        {
            let _ = link.batch(&format!("DROP TABLE IF EXISTS {}", self.table));
        }
    }
}

impl Postgres {
    fn open(options: &OpenOptions) -> Result<Self> {
        let home = Home::take(&options.dir, NAME)?;
        let dir = &options.dir;
        let is_new = home.is_new();
        let (pool, server, table, mut described) = match Remote::of(dir, is_new)? {
            Some(remote) => {
                let pool = Pool::new(remote.config.clone(), &remote.table);
                (pool, None, remote.table, vec![("server".to_owned(), "existing".to_owned())])
            }
            None => {
                if is_new {
                    cluster::create(dir)?;
                }
                let settings = settings::server(options);
                let server = Cluster::start(dir, &settings)?;
                (Pool::new(server.address(), TABLE), Some(server), TABLE.to_owned(), settings)
            }
        };
        described.push(("session".to_owned(), settings::SESSION.to_owned()));
        let mut opened = Self {
            capabilities: capabilities(),
            pool,
            server,
            poison: Poison::default(),
            largest: AtomicUsize::new(0),
            table,
            before: Figures::default(),
            tells_dirty: false,
            options: described,
            home,
        };
        if is_new {
            opened.create_table()?;
        } else {
            opened.check_table()?;
        }
        // Pages of an existing server's are dirty for anybody.
        opened.tells_dirty = opened.server.is_some() && opened.watch_pages()?;
        opened.before = opened.figures()?;
        if opened.server.is_none() {
            let known = figures::settings(&mut opened.link()?).map_err(|e| opened.after(e, "read the settings of"))?;
            opened.capabilities.survives_power_cut = figures::survives_power_cut(&known);
            opened.options.extend(known);
        }
        opened.home.created()?;
        Ok(opened)
    }

    /// The table of a new instance, in the place of what a cut creation left.
    fn create_table(&self) -> Result<()> {
        let comment = remote::comment(self.home.dir()).replace('\'', "''");
        let text = format!(
            "DROP TABLE IF EXISTS {0}; CREATE TABLE {0} (k bytea PRIMARY KEY, v bytea NOT NULL); COMMENT ON TABLE {0} IS '{comment}'",
            self.table
        );
        self.link()?.batch(&text).map_err(|e| self.after(e, "create"))
    }

    /// Have the server tell of its pages; `false` where it was installed without what it takes.
    fn watch_pages(&self) -> Result<bool> {
        match self.link()?.batch(figures::WATCH_PAGES) {
            Ok(()) => Ok(true),
            Err(error) if is_refusal(&error) => Ok(false),
            Err(error) => Err(self.after(error, "watch the pages of")),
        }
    }

    /// Bytes of pages that were changed and are not written yet; `None` where the server does not tell.
    fn dirty_bytes(&self, page_bytes: u64) -> Result<Option<u64>> {
        if !self.tells_dirty {
            return Ok(None);
        }
        let pages = figures::dirty_pages(&mut self.link()?).map_err(|e| self.after(e, "read the figures of"))?;
        Ok(Some(pages * page_bytes))
    }

    /// `Corruption` unless the table is there.
    fn check_table(&self) -> Result<()> {
        let mut link = self.link()?;
        let there = link.figures(&format!("SELECT (to_regclass('{}') IS NOT NULL)::text", self.table));
        match there.map_err(|e| self.after(e, "look for"))?.first().map(String::as_str) {
            Some("true") => Ok(()),
            _ => Err(Error::corruption(
                self.home.dir(),
                0,
                format!("its table {} is gone from the server; restore both from a copy", self.table),
            )),
        }
    }

    /// A connection for a call.
    fn link(&self) -> Result<Taken<'_>> {
        self.pool.take().map_err(|e| self.after(e, "connect to the server of"))
    }

    /// What `error` means: a statement that was refused, or the loss of the server, which poisons.
    fn after(&self, error: postgres::Error, doing: &str) -> Error {
        if is_refusal(&error) {
            return refused(&error, doing, self.home.dir());
        }
        self.pool.clear();
        let why = self.server.as_ref().and_then(Cluster::obituary);
        let why =
            why.unwrap_or_else(|| format!("the connection to PostgreSQL was lost: {}", one_line(&error.to_string())));
        let kind = kind_of(&why, ErrorKind::Poisoned);
        let what = match kind {
            ErrorKind::Full => "; free room and open the store again",
            _ => "; open the store again",
        };
        self.poison.after(Error::new(kind, why + what))
    }

    /// Remember the length of a value.
    fn saw(&self, bytes: usize) {
        if bytes > self.largest.load(Ordering::Relaxed) {
            self.largest.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// How many rows to ask for at once where `wanted` are: fewer where values are large.
    fn rows_at_once(&self, wanted: usize) -> i64 {
        wanted.min(GROUP_BYTES / self.largest.load(Ordering::Relaxed).max(1)).max(1) as i64
    }

    /// The value in the first column of a row.
    fn value<'v>(&self, row: &postgres::Row) -> Result<Value<'v>> {
        let value: Vec<u8> = row.try_get(0).map_err(|e| refused(&e, "read", self.home.dir()))?;
        self.saw(value.len());
        Ok(Value::owned(value))
    }

    fn figures(&self) -> Result<Figures> {
        Figures::read(&mut self.link()?, &self.table).map_err(|e| self.after(e, "read the figures of"))
    }
}

impl Engine for Postgres {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.capabilities.check_key(key)?;
        let row = self.link()?.row(Sql::Get, key).map_err(|e| self.after(e, "read"))?;
        row.map(|row| self.value(&row)).transpose()
    }

    fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.capabilities.check_key(key)?;
        let row = self.link()?.row(Sql::Get, key).map_err(|e| self.after(e, "read"))?;
        let Some(row) = row else { return Ok(false) };
        let value: &[u8] = row.try_get(0).map_err(|e| refused(&e, "read", self.home.dir()))?;
        into.extend_from_slice(value);
        Ok(true)
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        self.capabilities.check_key(key)?;
        self.link()?.row(Sql::Has, key).map(|row| row.is_some()).map_err(|e| self.after(e, "read"))
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.poison.check()?;
        for op in ops {
            self.capabilities.check(op)?;
            if let Op::Put { value, .. } = op {
                self.saw(value.len());
            }
        }
        self.write(ops, durability)
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        let mut link = self.link()?;
        let done = link.commit_at(Durability::Sync).and_then(|()| link.execute(Sql::Sync, &[]));
        done.map(drop).map_err(|e| self.after(e, "sync"))
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(View::open(self)?))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(Arc::new(View::open(self)?).cursor_of()))
    }

    fn checkpoint(&self, _dest: &Path) -> Result<()> {
        Err(Error::unsupported(
            "the engine postgres makes no checkpoints: use PostgreSQL's own pg_basebackup or pg_dump",
        ))
    }

    fn compact(&self) -> Result<()> {
        self.poison.check()?;
        let counted = self.figures()?.checkpoints;
        // Without FULL: that one waits for every snapshot and cursor to end.
        let mut link = self.link()?;
        let mut done = link.batch(&format!("VACUUM (ANALYZE) {}", self.table));
        if self.server.is_some() {
            // What stands before it in the log is not needed any more.
            done = done.and_then(|()| link.batch("CHECKPOINT"));
        }
        done.map_err(|e| self.after(e, "compact"))?;
        drop(link);
        // The server answers a moment before it counts the checkpoint.
        let begun = Instant::now();
        while self.server.is_some() && self.figures()?.checkpoints == counted && begun.elapsed() < COUNTED_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        let now = self.figures()?;
        let page = now.page_bytes;
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let pages = since(now.pages_written, self.before.pages_written) * page;
        let physical = match self.server {
            Some(_) => physical_bytes(self.home.dir())?,
            None => now.table_bytes,
        };
        Ok(Stats {
            physical_bytes: Some(physical),
            written_bytes: Some(since(now.log_bytes, self.before.log_bytes) + pages),
            // Closing writes them, in a last checkpoint.
            unflushed_bytes: self.dirty_bytes(page)?,
            cache_bytes: None,
            cache_hits_misses: Some((since(now.hits, self.before.hits), since(now.misses, self.before.misses))),
            compaction: Some(Compaction {
                count: since(now.checkpoints, self.before.checkpoints),
                seconds: (now.checkpoint_seconds - self.before.checkpoint_seconds).max(0.0),
                latency_ns_p50: None,
                bytes: since(now.checkpoint_pages, self.before.checkpoint_pages) * page,
                moves: 0,
            }),
            elsewhere: self.server.is_none(),
            options: self.options.clone(),
            ..Stats::default()
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        damage::verify(self, report)
    }
}

/// Bytes on the device of all files below `dir`; files that vanish meanwhile count nothing.
fn physical_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).map_err(|e| Error::io(format_args!("read the directory {}", dir.display()), e))?;
    let mut bytes = 0;
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes += physical_bytes(&entry.path()).unwrap_or(0),
            Ok(meta) => bytes += meta.blocks() * 512,
            Err(_) => {}
        }
    }
    Ok(bytes)
}
