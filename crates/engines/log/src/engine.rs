//! One instance of the engine: a log, an index over it, and what live snapshots need beside the index.
//!
//! Invariants:
//!
//! 1. One writer at a time (`writer`): it appends to the log, then changes the index. The log's order is the order of the
//!    engine's history; `seq` numbers it.
//! 2. The index leads from each key to its newest record. It is changed under `snapshots`, so that a snapshot, which is taken
//!    under it too, is one point in the history.
//! 3. Readers take no lock: they pin the log, then the index, and what they find stays readable while they are pinned. A batch
//!    of several operations makes `changing` odd while the index has only some of them; a reader that meets that reads again.
//! 4. Every record is verified when its value is given out, or was when it was read from its file into the cache that it is given out
//!    of.
//! 5. Locks are taken in this order: checkpointing, cleaner, writer, snapshots, index.
//!
//! Crash argument: the log's. What `apply` acknowledged is in the log, whole batches or nothing; the index follows from it, whether
//! by taking up all of it or by going on from a checkpoint.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use biombo_base::io::Io;
use biombo_base::published::Guard;
use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Capabilities;
use biombo_engine::combine::Combiner;
use biombo_journal::{Found, Kept, Log, LogReader, Position, Preparer, SegmentNumber};

use crate::accounts::Accounts;
use crate::checkpoint::{Checkpointing, Standing};
use crate::clean::pace::{Allowance, Felt};
use crate::clean::{Cleaner, Cleaning};
use crate::index::{Index, Keys, Leaf};
use crate::keys::Lister;
use crate::record::Record;
use crate::recover::Used;
use crate::versions::{Live, Versions};

/// One open instance: what its threads share, and the threads.
pub struct LogEngine {
    // In this order: nobody makes checkpoints, cleans or works ahead any more, then the log is closed, then the thread that syncs its segments ends.
    pub(crate) indexing: Option<Checkpointing>,
    pub(crate) cleaning: Option<Cleaning>,
    pub(crate) _preparing: Option<PreparingAhead>,
    pub(crate) core: Arc<Core>,
    pub(crate) _flushing: Option<Flushing>,
    pub(crate) me: Weak<LogEngine>,
    /// Where those meet who wait for a sync: they share a write.
    pub(crate) combiner: Combiner,
    pub(crate) io: Arc<dyn Io>,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: Vec<(String, String)>,
    /// What opening used and how long it took, in seconds.
    pub(crate) opened: (Used, f64),
    pub(crate) dir: PathBuf,
    /// See `checkpoint`.
    pub(crate) checkpoint_records: u64,
}

impl Deref for LogEngine {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

/// The state of an instance.
pub struct Core {
    /// Taken before `writer`. Dropped before the log: what is unfinished removes its file while the directory is locked.
    pub(crate) cleaner: Mutex<Cleaner>,
    pub(crate) writer: Mutex<Writer>,
    /// How far writers may go before they have to wait for cleaning.
    pub(crate) allowance: Allowance,
    /// Held by who makes a checkpoint; taken before all other locks.
    pub(crate) checkpointing: Mutex<()>,
    /// A checkpoint waits for the pass under way: no other one is to begin.
    pub(crate) freezing: AtomicBool,
    /// All of the index is in memory.
    pub(crate) loaded: AtomicBool,
    pub(crate) reader: LogReader,
    pub(crate) index: Index,
    pub(crate) versions: Versions,
    pub(crate) snapshots: Mutex<Live>,
    /// The number of the newest record that the index leads to.
    pub(crate) visible: AtomicU64,
    /// Odd while a batch of several operations is on its way into the index.
    pub(crate) changing: AtomicU64,
    /// The size of the last value appended: how much of a record to ask memory for ahead.
    pub(crate) typical_bytes: AtomicU64,
}

/// What belongs to the writer alone.
pub(crate) struct Writer {
    pub log: Log,
    /// The number of the last record.
    pub seq: u64,
    pub accounts: Accounts,
    /// What checkpoints there are.
    pub standing: Standing,
    /// The log has records that the index does not know.
    pub is_broken: bool,
    /// Scratch: where the records of an append went.
    pub at: Vec<Position>,
    /// The segment of the last append.
    pub segment: Option<SegmentNumber>,
    /// What it has waited for.
    pub felt: Felt,
    /// Lists the records of the segment that is written, for its footer.
    pub lister: Lister,
    /// Which segment that is.
    pub listed: Option<SegmentNumber>,
}

impl Writer {
    /// A record was appended: the footer of its segment will name it.
    #[inline]
    pub fn list(&mut self, at: Position, record: &Record<'_>) {
        if self.listed != Some(at.segment()) {
            self.listed = Some(at.segment());
            self.lister.restart();
        }
        self.lister.push(self.log.footer(), at, record);
    }
}

/// The thread that syncs sealed segments.
pub(crate) struct Flushing(pub Option<JoinHandle<()>>);

impl Drop for Flushing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // Its failures have poisoned the log.
            let _ = thread.join();
        }
    }
}

/// The thread that works ahead of the writer: makes the next segment, has pages present, removes what was dropped.
pub(crate) struct PreparingAhead {
    preparer: Preparer,
    thread: Option<JoinHandle<()>>,
}

impl PreparingAhead {
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        let preparer = core.lock_writer().log.preparer();
        let (for_thread, core) = (preparer.clone(), Arc::clone(core));
        let run = move || for_thread.run(|| core.lock_writer().log.begin_preparing());
        let thread = std::thread::Builder::new().name("biombo-log-ahead".to_owned()).spawn(run);
        let thread = thread.map_err(|e| Error::io("start the thread that prepares segments", e))?;
        Ok(Self { preparer, thread: Some(thread) })
    }
}

impl Drop for PreparingAhead {
    fn drop(&mut self) {
        self.preparer.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Core {
    pub(crate) fn lock_cleaner(&self) -> MutexGuard<'_, Cleaner> {
        self.cleaner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_snapshots(&self) -> MutexGuard<'_, Live> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// The keys that the index asks for, on its way to `sought`.
    #[inline]
    pub(crate) fn keys<'g, 'k>(&'g self, guard: &'g Guard, sought: &'k [u8]) -> LogKeys<'g, 'k> {
        LogKeys { reader: &self.reader, guard, sought: Some(sought) }
    }

    /// The record at `at`, unverified. The index led there, so that something else in its place is damage.
    #[inline]
    pub(crate) fn peek<'g>(&self, guard: &'g Guard, at: Position) -> Result<Stored<'g>> {
        peek(&self.reader, guard, at)
    }

    /// The record at `at`, verified, which is one that has a value: whatever else stands where the index leads is damage of the
    /// index.
    #[inline]
    pub(crate) fn read<'g>(&self, guard: &'g Guard, at: Position) -> Result<Stored<'g>> {
        let stored = read(&self.reader, guard, at)?;
        if stored.record().kind.has_value() { Ok(stored) } else { Err(foreign(at)) }
    }
}

/// A record of the engine as it was found in the log.
#[derive(Debug)]
pub(crate) struct Stored<'g>(Found<'g>);

impl<'g> Stored<'g> {
    #[inline]
    fn of(found: Found<'g>) -> Option<Self> {
        Record::parse(&found).is_some().then_some(Self(found))
    }

    #[inline]
    pub fn record(&self) -> Record<'_> {
        Record::parse(&self.0).expect("invariant: it was parsed when it was found, and does not change")
    }

    /// Its bytes for longer than a guard should live.
    pub fn keep(self) -> Kept {
        self.0.keep()
    }
}

#[inline]
pub(crate) fn peek<'g>(reader: &LogReader, guard: &'g Guard, at: Position) -> Result<Stored<'g>> {
    reader.get(guard, at)?.and_then(Stored::of).ok_or_else(|| not_there(reader, guard, at))
}

#[inline]
pub(crate) fn read<'g>(reader: &LogReader, guard: &'g Guard, at: Position) -> Result<Stored<'g>> {
    Stored::of(reader.read_verified(guard, at)?).ok_or_else(|| foreign(at))
}

/// The position that a leaf stands for.
#[inline]
pub(crate) fn position(leaf: Leaf) -> Position {
    Position::unpack(leaf.get()).expect("invariant: leaves have as many bits as positions")
}

/// The leaf that stands for a position.
#[inline]
pub(crate) fn leaf(at: Position) -> Leaf {
    Leaf::new(at.pack()).expect("invariant: leaves have as many bits as positions")
}

/// What is wrong with a record that is none.
#[cold]
fn not_there(reader: &LogReader, guard: &Guard, at: Position) -> Error {
    reader.read_verified(guard, at).err().unwrap_or_else(|| foreign(at))
}

#[cold]
pub(crate) fn foreign(at: Position) -> Error {
    Error::new(ErrorKind::Corruption, format!("there is no record of this engine at {at} (segment:offset) of its log"))
}

/// The log as the index sees it: keys by their leaves.
///
/// A record with another key than the one that is looked for decides where that belongs, so it is verified first: a damaged
/// key would lead past others, or be split off at the wrong place and hide them.
#[derive(Clone, Copy)]
pub(crate) struct LogKeys<'g, 'k> {
    pub reader: &'g LogReader,
    pub guard: &'g Guard,
    /// What is looked for; `None`: nothing is verified, because all was just now.
    pub sought: Option<&'k [u8]>,
}

impl Keys for LogKeys<'_, '_> {
    #[inline]
    fn with_key<R>(&self, leaf: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let at = position(leaf);
        let found = peek(self.reader, self.guard, at)?;
        let key = found.record().key;
        if self.sought.is_some_and(|sought| key != sought) {
            self.reader.read_verified(self.guard, at)?;
        }
        Ok(f(key))
    }

    #[inline]
    fn prefetch(&self, leaf: Leaf) {
        self.reader.prefetch(self.guard, position(leaf), 64);
    }
}
