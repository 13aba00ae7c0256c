//! A changing graph on `disk`: batches go through a journal, and the graph is saved as a whole from time to time.
//!
//! The directory has `LOCK`, held while the graph is open; `graph.pma`, the graph at some point in its history with the number of the
//! first record that is not in it (`applied`); and `journal/`, a record for each batch.
//!
//! Invariants:
//! 1. A batch is taken in after its record was written, as durably as was asked, and batches in the order of their records: replaying
//!    gives the same graph.
//! 2. `graph.pma` is replaced by one rename, once everything before its `applied` is durable in the journal; the journal is trimmed only
//!    after that rename is durable.
//! 3. Once a record may be there or not (a failed write or sync), no later batch is taken in.
//!
//! Crash argument: at any time the directory has one `graph.pma`, and a journal whose durable records reach from its `applied`, or from
//! before, without a gap to the last batch that was acknowledged as `Sync`. Opening reads the one and replays the other, each batch whole
//! or not at all (the journal's frames). A crash between the rename and the trimming leaves records that are in the graph already; they
//! are passed over by their numbers. The journal never forgets which number comes next, since the segment that is written is never
//! dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{BATCH_BYTES_MAX, Durability, Journal, JournalOptions, Lsn};

use super::names::Names;
use super::{Pma, Snapshot, Update, record};
use crate::csr::file::{self, Contents, Kind};
use crate::csr::{Csr, Shape};
use crate::ids::Ids;
use crate::owner::Owner;
use crate::team::Team;
use crate::view::View;

/// The journal's directory.
const JOURNAL: &str = "journal";

/// How a graph is kept.
#[derive(Debug, Clone)]
pub struct DurableOptions {
    /// The journal's.
    pub journal: JournalOptions,
    /// The graph is saved anew when so many bytes of batches have come since.
    pub checkpoint_bytes: u64,
}

impl Default for DurableOptions {
    /// Segments of 16 MiB, saved every 256 MiB.
    fn default() -> Self {
        Self { journal: JournalOptions::default(), checkpoint_bytes: 256 << 20 }
    }
}

/// A graph that changes and survives; see the module. All methods may be called by any number of threads.
///
/// ```
/// use biombo_base::io::RealIo;
/// use biombo_graph::csr::Shape;
/// use biombo_graph::pma::{Durability, Durable, DurableOptions, Update};
/// use biombo_graph::team::Team;
/// # let dir = tempfile::tempdir().map_err(|e| biombo_base::Error::io("make a directory", e))?;
/// # let dir = dir.path().join("graph");
/// let mut team = Team::new(1)?;
/// Durable::create(&RealIo::shared(), &dir, Shape::DIRECTED)?;
/// let graph = Durable::open(RealIo::shared(), &dir, DurableOptions::default(), &mut team)?;
/// graph.apply(&[Update::InsertEdge(1, 2)], Durability::Sync)?;
/// drop(graph);
/// let graph = Durable::open(RealIo::shared(), &dir, DurableOptions::default(), &mut team)?;
/// assert_eq!(graph.neighbors(1), Some(vec![2]));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub struct Durable {
    graph: Pma,
    journal: Journal,
    turn: Turn,
    io: Arc<dyn Io>,
    dir: PathBuf,
    checkpoint_bytes: u64,
    /// The record of the batch after which `graph` has the sequence 0.
    first: u64,
    /// Bytes of batches since the graph was saved.
    logged: AtomicU64,
    /// When they are so many, it is saved again.
    save_at: AtomicU64,
    saving: Mutex<()>,
    _owner: Owner,
}

/// Lets threads through in the order of their numbers.
struct Turn {
    state: Mutex<Turns>,
    moved: Condvar,
}

struct Turns {
    next: u64,
    /// Why nobody comes through any more.
    failed: Option<String>,
}

impl Turn {
    /// Do `work` when all before `number` have done theirs.
    fn take<T>(&self, number: u64, work: impl FnOnce() -> T) -> Result<T> {
        let mut turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while turns.next != number {
            if let Some(why) = &turns.failed {
                return Err(Error::poisoned(why));
            }
            turns = self.moved.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        let done = work();
        turns.next += 1;
        self.moved.notify_all();
        Ok(done)
    }

    fn fail(&self, why: &Error) {
        let mut turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        turns.failed.get_or_insert_with(|| why.to_string());
        self.moved.notify_all();
    }
}

impl Durable {
    /// Whether `dir` has such a graph.
    ///
    /// # Errors
    /// `Io`.
    pub fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
        file::exists_as(&Kind::CHANGING, io, dir)
    }

    /// Make a graph without vertices in `dir`. It is durable when this returns.
    ///
    /// # Errors
    /// `Invalid` when there is a graph already, `Busy` when somebody else is making one, `Full`, `Io`.
    pub fn create(io: &Arc<dyn Io>, dir: &Path, shape: Shape) -> Result<()> {
        let nothing = Csr::build(0, &[], shape, &mut Team::new(1)?)?;
        Self::create_from(io, dir, &nothing, &Ids::dense(0), shape.keeps_loops)
    }

    /// Make the graph that `view` shows in `dir`, its vertices with the ids `ids`. It is durable when this returns; before, nothing of it
    /// is there.
    ///
    /// # Errors
    /// As [`create`](Self::create); `Invalid` also when there are not as many ids as vertices.
    pub fn create_from<V: View>(io: &Arc<dyn Io>, dir: &Path, view: &V, ids: &Ids, keeps_loops: bool) -> Result<()> {
        if ids.len() != view.vertices() {
            return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), view.vertices())));
        }
        let _owner = Owner::make(&**io, dir)?;
        if Self::exists(&**io, dir)? || file::exists(&**io, dir)? {
            let dir = dir.display();
            return Err(Error::invalid(format!("{dir} has a graph already: name another directory or remove it")));
        }
        let mut table = ids.table().iter().copied();
        let table: Option<&mut dyn Iterator<Item = u64>> = if ids.are_dense() { None } else { Some(&mut table) };
        // The journal first: a graph without one is damaged.
        let journal = Journal::open(io.clone(), &dir.join(JOURNAL), JournalOptions::default(), &mut |_, _| Ok(()))?;
        file::save_as(&Kind::CHANGING, &**io, dir, view, table, keeps_loops, journal.next_lsn().0)
    }

    /// Open the graph in `dir`: read it, and replay what came since it was saved. O(vertices + edges + journal).
    ///
    /// # Errors
    /// `NotFound`, `Busy` when somebody else has it open, `Corruption` with the file and what is wrong, `Unsupported` when a newer version
    /// wrote it, `Io`.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: DurableOptions, team: &mut Team) -> Result<Self> {
        if !Self::exists(&*io, dir)? {
            let message =
                format!("there is no graph of the layout pma in {}: `biombo graph load` makes one", dir.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let owner = Owner::make(&*io, dir)?;
        // Who made the graph may have died before its name was durable.
        io.sync_dir(dir).map_err(|e| Error::io(format_args!("open {}", dir.display()), e))?;
        let path = dir.join("graph.pma");
        let Contents { graph, ids, keeps_loops, applied } = file::read(&Kind::CHANGING, &*io, dir)?;
        let mut changing = Pma::from_view(&graph, &Ids::dense(graph.vertices()), keeps_loops, team)?;
        drop(graph);
        if let Some(ids) = ids {
            let names = Names::in_order(ids);
            let names = names.ok_or_else(|| Error::corruption(&path, 4096, "two vertices have the same id"))?;
            changing.rename(names);
        }
        let (mut next, mut logged) = (applied, 0);
        let journal_dir = dir.join(JOURNAL);
        if !io.exists(&journal_dir).map_err(|e| Error::io(format_args!("open {}", journal_dir.display()), e))? {
            return Err(Error::corruption(&journal_dir, 0, "the graph's journal is missing"));
        }
        let gap = |found: u64, wanted: u64| {
            let what = format!("the journal goes on at record {found}, and the graph lacks those from {wanted} on");
            Error::corruption(&journal_dir, 0, what)
        };
        let journal = Journal::open(io.clone(), &journal_dir, options.journal, &mut |lsn, bytes| {
            if lsn.0 < applied {
                return Ok(());
            }
            if lsn.0 != next {
                return Err(gap(lsn.0, next));
            }
            let updates = record::decode(bytes);
            let updates = updates.ok_or_else(|| {
                Error::corruption(&journal_dir, 0, format!("record {} of the journal is no batch of a graph", lsn.0))
            })?;
            (next, logged) = (next + 1, logged + bytes.len() as u64);
            match changing.apply(&updates) {
                // As when it came first: refused, and counted.
                Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
                other => other.map(drop),
            }
        })?;
        if journal.next_lsn().0 != next {
            return Err(gap(journal.next_lsn().0, next));
        }
        let turn = Turn { state: Mutex::new(Turns { next, failed: None }), moved: Condvar::new() };
        Ok(Self {
            graph: changing,
            journal,
            turn,
            io,
            dir: dir.to_owned(),
            checkpoint_bytes: options.checkpoint_bytes,
            first: applied,
            logged: AtomicU64::new(logged),
            save_at: AtomicU64::new(options.checkpoint_bytes),
            saving: Mutex::new(()),
            _owner: owner,
        })
    }

    /// Take `updates` in, one after the other and all together, as durably as asked: batches of several threads share a write and a sync.
    /// The number of batches since the graph was made, with this one. Now and then it saves the graph.
    ///
    /// # Errors
    /// `Invalid` for a batch of more than 2 GiB or too many vertices; `Full` when the disk is: nothing was taken in. `Poisoned` after a
    /// failed write or sync: the graph is read-only until it is opened again. Others mean that the batch may or may not be there then.
    pub fn apply(&self, updates: &[Update], durability: Durability) -> Result<u64> {
        let bytes = record::encode(updates);
        if bytes.len() > BATCH_BYTES_MAX - 8 {
            return Err(Error::invalid(format!("a batch of {} updates is too large: split it", updates.len())));
        }
        self.graph.check_room(updates)?;
        let prepared = self.graph.prepare(updates);
        let lsn = self.journal.append(&bytes, durability).inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.turn.fail(error);
            }
        })?;
        let (_, due) = self.turn.take(lsn.0, || self.graph.admit(updates, prepared))??;
        self.graph.merge(&due)?;
        let logged = self.logged.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64;
        // Somebody else is at it? Then there is nothing to do.
        if logged >= self.save_at.load(Relaxed)
            && let Ok(_saving) = self.saving.try_lock()
        {
            // A failure is not the batch's, which the journal has: who asks for a checkpoint hears of it. Try again later.
            let saved = self.save();
            let wait = if saved.is_ok() { 0 } else { logged };
            self.save_at.store(wait + self.checkpoint_bytes, Relaxed);
        }
        Ok(lsn.0)
    }

    /// Make everything that was taken in durable.
    ///
    /// # Errors
    /// `Poisoned`, `Full`, `Io`.
    pub fn sync(&self) -> Result<()> {
        self.journal.sync().inspect_err(|error| self.turn.fail(error))
    }

    /// Save the graph, so that opening it has nothing to replay, and forget the journal up to here. Others go on applying.
    ///
    /// # Errors
    /// `Full`, `Io`: what was saved before, and the journal since, are still there.
    pub fn checkpoint(&self) -> Result<()> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.save()
    }

    /// With `saving` held.
    fn save(&self) -> Result<()> {
        let logged = self.logged.load(Relaxed);
        let snapshot = self.graph.snapshot(&mut Team::new(1)?)?;
        let applied = self.first + snapshot.sequence();
        // Invariant 2: what the file says is applied must not be lost with the journal's end.
        self.sync()?;
        let mut table = snapshot.names.table();
        let table = table.as_mut().map(|table| table as &mut dyn Iterator<Item = u64>);
        let keeps_loops = self.graph.shape().keeps_loops;
        file::save_as(&Kind::CHANGING, &*self.io, &self.dir, &snapshot, table, keeps_loops, applied)?;
        self.journal.trim(Lsn(applied))?;
        self.logged.fetch_sub(logged, Relaxed);
        Ok(())
    }

    /// See [`Pma::snapshot`].
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn snapshot(&self, team: &mut Team) -> Result<Snapshot> {
        self.graph.snapshot(team)
    }

    /// See [`Pma::neighbors`].
    pub fn neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.graph.neighbors(id)
    }

    /// See [`Pma::in_neighbors`].
    pub fn in_neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.graph.in_neighbors(id)
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.graph.vertices()
    }

    /// What kind of graph it is.
    pub fn shape(&self) -> Shape {
        self.graph.shape()
    }

    /// How much memory the graph takes, in bytes; see [`Pma::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.graph.memory_bytes()
    }

    /// How many bytes of batches came since the graph was saved: what opening it replays.
    pub fn logged_bytes(&self) -> u64 {
        self.logged.load(Relaxed)
    }
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;
