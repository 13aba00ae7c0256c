//! An engine on the simulated disk, for tests that crash a whole store: a journal and the ordered map that it replays into.
//!
//! It declares what real engines declare, as the [`Commit`] says. (Those write past the simulation; what they promise is tested by killing
//! processes and by tracing their syncs.)

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use biombo_base::io::{File, Io, Lock, Mapping, OpenMode};
use biombo_engine::memory::Memory;
use biombo_engine::{
    Batch, Capabilities, Cursor, Damage, Durability, Engine, EngineKind, Op, Registry, Result, Snapshot, Stats, Value,
    memory,
};
use biombo_journal::{Durability as JournalDurability, Journal, JournalOptions, Mode, Modes};

/// How the engine commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// As RocksDB and LevelDB: a sync can be done apart, and covers all writes before it.
    Apart,
    /// As LMDB: a transaction costs much, and is synced by itself.
    Costly,
    /// As the log: a write is synced by itself, and a prefix of those that are not survives.
    Alone,
}

/// A registry with the one engine `simulated`, whose files are on `io`.
pub fn registry(io: Arc<dyn Io>, commit: Commit) -> Registry {
    let mut registry = Registry::new();
    registry.add(kind("simulated", io, commit));
    registry
}

/// One engine by a name.
pub fn kind(name: &'static str, io: Arc<dyn Io>, commit: Commit) -> EngineKind {
    EngineKind {
        name,
        summary: "a journal on a simulated disk",
        version: || "1".to_owned(),
        capabilities: || capabilities(Commit::Apart),
        open: Arc::new(move |options| Ok(Arc::new(Simulated::open(&io, &options.dir, commit)?))),
        io_modes: &[],
        repair: None,
    }
}

fn capabilities(commit: Commit) -> Capabilities {
    Capabilities {
        persistent: true,
        survives_kill: Some(Durability::Os),
        // Of LMDB only synced writes keep its file whole.
        survives_power_cut: Some(if commit == Commit::Costly { Durability::Sync } else { Durability::Os }),
        sync_apart: commit == Commit::Apart,
        costly_transactions: commit == Commit::Costly,
        ..(memory::kind().capabilities)()
    }
}

struct Simulated {
    map: Arc<Memory>,
    journal: Journal,
    order: Mutex<()>,
    capabilities: Capabilities,
}

impl Simulated {
    fn open(io: &Arc<dyn Io>, dir: &Path, commit: Commit) -> Result<Self> {
        let map = Arc::new(Memory::new());
        let options = JournalOptions {
            segment_bytes: 64 << 10,
            modes: Modes::Always(Mode::Buffered),
            ..JournalOptions::default()
        };
        let journal = Journal::open(Arc::clone(io), dir, options, &mut |_, record| {
            map.apply(&decode(record).to_ops(), Durability::Os)
        })?;
        Ok(Self { map, journal, order: Mutex::new(()), capabilities: capabilities(commit) })
    }
}

fn encode(ops: &[Op<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut field = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    for op in ops {
        match *op {
            Op::Put { key, value } => {
                field(b'p', key);
                field(b'v', value);
            }
            Op::Delete { key } => field(b'd', key),
            Op::DeleteRange { from, to } => {
                field(if to.is_some() { b'r' } else { b'R' }, from);
                field(b't', to.unwrap_or_default());
            }
        }
    }
    out
}

fn decode(mut record: &[u8]) -> Batch {
    let mut field = || {
        let (head, rest) = record.split_at_checked(5)?;
        let length = u32::from_le_bytes(head[1..].try_into().expect("four bytes")) as usize;
        let (bytes, rest) = rest.split_at(length);
        record = rest;
        Some((head[0], bytes))
    };
    let mut batch = Batch::new();
    while let Some((tag, bytes)) = field() {
        match tag {
            b'd' => batch.delete(bytes),
            b'p' => batch.put(bytes, field().expect("a value").1),
            b'r' => batch.delete_range(bytes, Some(field().expect("an end").1)),
            _ => batch.delete_range(bytes, field().map(|_| None).expect("an end")),
        };
    }
    batch
}

impl Engine for Simulated {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.map.get(key)
    }

    fn apply(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let level = if durability == Durability::Sync { JournalDurability::Sync } else { JournalDurability::Os };
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.journal.append(&encode(ops), level)?;
        self.map.apply(ops, durability)
    }

    fn sync(&self) -> Result<()> {
        self.journal.sync()
    }

    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Arc::clone(&self.map).snapshot()
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Arc::clone(&self.map).cursor()
    }

    fn checkpoint(&self, dest: &Path) -> Result<()> {
        self.map.checkpoint(dest)
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<Stats> {
        self.map.stats()
    }

    fn verify(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        self.map.verify(report)
    }
}

/// A disk that says that it synced and did not: what a checker of crashes must catch.
pub struct Deaf(pub Arc<dyn Io>);

struct DeafFile(Arc<dyn File>);

impl Io for Deaf {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DeafFile(self.0.open(path, OpenMode { direct_sync: false, ..mode })?)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir_all(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.read_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.0.try_lock(path)
    }
    fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }
}

impl File for DeafFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }
    fn fill(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.fill(offset, bytes)
    }
    fn map(&self, bytes: u64, committed: u64, writable: bool) -> io::Result<Arc<Mapping>> {
        self.0.map(bytes, committed, writable)
    }
}
