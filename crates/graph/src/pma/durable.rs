//! A changing graph that survives: batches are recorded before they are taken in, and the graph is saved as a whole from time to time.
//!
//! The directory has `LOCK`, held while the graph is open; an *image*, the graph at some point in its history with the number of the
//! first record that is not in it (`applied`); and a record for each batch since. On `disk` these are a file and a journal, on
//! `pmem` regions of persistent memory: [`kept`](super::kept).
//!
//! Invariants:
//! 1. A batch is taken in after its record was kept, as durably as was asked, and batches in the order of their records: replaying
//!    gives the same graph.
//! 2. The image is replaced once everything before its `applied` is durable, at once; records go only after that is durable.
//! 3. Once a record may be there or not (a failed write or sync), no later batch is taken in.
//!
//! Crash argument: at any time there is one image, and durable records reach from its `applied`, or from before, without a gap to the last batch
//! that was acknowledged as `Sync`. Opening reads the one and replays the others, each batch whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{BATCH_BYTES_MAX, Durability, JournalOptions};

use super::kept::{Disk, Kept, Media, Pmem, Visit};
use super::names::Names;
use super::{Changing, Image, Layout, Snapshot, Update, record};
use crate::csr::file::{self, Contents};
use crate::csr::{Csr, Shape};
use crate::ids::Ids;
use crate::media::Backing;
use crate::media::persistent::{Mapped, Medium};
use crate::owner::Owner;
use crate::team::Team;
use crate::view::View;

/// How a graph is kept.
#[derive(Debug, Clone)]
pub struct DurableOptions {
    /// The journal's on `disk`. On `pmem` segments of the log have its `segment_bytes`, and the rest means nothing.
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

/// A graph that changes and survives, in the layout `pma`; see the module.
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
pub type Durable = DurableChanging<Image>;

/// A graph that changes and survives, in memory in the layout `L`. What is kept is the same for every layout, so that a graph may be opened in
/// another one than it was made in. All methods may be called by any number of threads.
pub struct DurableChanging<L: Layout> {
    graph: Changing<L>,
    kept: Kept,
    turn: Turn,
    checkpoint_bytes: u64,
    /// The record of the batch after which `graph` has the sequence 0.
    first: u64,
    /// Bytes of batches since the graph was saved.
    logged: AtomicU64,
    /// When they are so many, it is saved again.
    save_at: AtomicU64,
    saving: Mutex<()>,
    _owner: Option<Owner>,
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

impl<L: Layout> DurableChanging<L> {
    /// Whether `dir` has such a graph, on whatever medium.
    ///
    /// # Errors
    /// `Io`.
    pub fn exists(io: &dyn Io, dir: &Path) -> Result<bool> {
        Ok(Disk::exists(io, dir)? || is_on_pmem(io, dir)?)
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
        let _owner = Self::claim(io, dir, view, ids)?;
        Disk::create(io, dir, view, ids, keeps_loops)
    }

    /// The same on persistent memory: in files that are mapped, on a DAX file system with MAP_SYNC. On any other one it is played; what is
    /// returned, and [`media`](Self::media) later, says so. `io` is the real file system.
    ///
    /// ```
    /// use biombo_base::io::RealIo;
    /// use biombo_graph::csr::{Csr, Shape};
    /// use biombo_graph::ids::Ids;
    /// use biombo_graph::pma::{Durability, Durable, DurableOptions, Update};
    /// use biombo_graph::team::Team;
    /// # let dir = tempfile::tempdir().map_err(|e| biombo_base::Error::io("make a directory", e))?;
    /// # let dir = dir.path().join("graph");
    /// let mut team = Team::new(1)?;
    /// let triangle = Csr::build(3, &[[0, 1], [1, 2], [2, 0]], Shape::UNDIRECTED, &mut team)?;
    /// let backing = Durable::create_on_pmem(&RealIo::shared(), &dir, &triangle, &Ids::dense(3), true)?;
    /// println!("{backing}");
    /// let graph = Durable::open(RealIo::shared(), &dir, DurableOptions::default(), &mut team)?;
    /// graph.apply(&[Update::InsertEdge(0, 3)], Durability::Sync)?;
    /// assert_eq!(graph.neighbors(3), Some(vec![0]));
    /// # Ok::<(), biombo_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`create_from`](Self::create_from).
    pub fn create_on_pmem<V: View>(
        io: &Arc<dyn Io>,
        dir: &Path,
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
    ) -> Result<Backing> {
        let _owner = Self::claim(io, dir, view, ids)?;
        let medium = Arc::new(Mapped::new(io.clone(), dir.to_owned()));
        Pmem::create(medium, dir, io.random_u64(), view, ids, keeps_loops)
    }

    /// The directory for a graph to be made, which has none.
    fn claim<V: View>(io: &Arc<dyn Io>, dir: &Path, view: &V, ids: &Ids) -> Result<Owner> {
        if ids.len() != view.vertices() {
            return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), view.vertices())));
        }
        let owner = Owner::make(&**io, dir)?;
        if Self::exists(&**io, dir)? || file::exists(&**io, dir)? {
            let dir = dir.display();
            return Err(Error::invalid(format!("{dir} has a graph already: name another directory or remove it")));
        }
        Ok(owner)
    }

    /// Open the graph in `dir`, on the medium that it was made on: read it, and replay what came since it was saved.
    /// O(vertices + edges + records).
    ///
    /// # Errors
    /// `NotFound`, `Busy` when somebody else has it open, `Corruption` with the file and what is wrong, `Unsupported` when a newer version
    /// wrote it, `Io`.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: DurableOptions, team: &mut Team) -> Result<Self> {
        if !Self::exists(&*io, dir)? {
            let dir = dir.display();
            let message = format!("there is no graph of the layout pma in {dir}: `biombo graph load` makes one");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let owner = Some(Owner::make(&*io, dir)?);
        if is_on_pmem(&*io, dir)? {
            let medium = Arc::new(Mapped::new(io, dir.to_owned()));
            return Self::open_on(medium, dir, &options, owner, team);
        }
        let read = Disk::read(&*io, dir)?;
        let journal = options.journal.clone();
        let open = |visit: &mut Visit<'_>| Ok(Kept::Disk(Box::new(Disk::open(io, dir, journal, visit)?)));
        Self::replay(read, &Disk::journal(dir), &options, owner, team, open)
    }

    /// Open the graph on a medium that nobody else has.
    fn open_on(
        medium: Arc<dyn Medium>,
        dir: &Path,
        options: &DurableOptions,
        owner: Option<Owner>,
        team: &mut Team,
    ) -> Result<Self> {
        let (found, contents, path) = Pmem::read(medium, dir)?;
        let segment_bytes = options.journal.segment_bytes;
        let open = |visit: &mut Visit<'_>| Ok(Kept::Pmem(Box::new(Pmem::open(found, segment_bytes, visit)?)));
        Self::replay((contents, path), dir, options, owner, team, open)
    }

    /// The graph of an image and of the records that `open` goes through. `records` is where those are.
    fn replay(
        (image, path): (Contents, PathBuf),
        records: &Path,
        options: &DurableOptions,
        owner: Option<Owner>,
        team: &mut Team,
        open: impl FnOnce(&mut Visit<'_>) -> Result<Kept>,
    ) -> Result<Self> {
        let Contents { graph, ids, keeps_loops, applied } = image;
        let mut changing = Changing::from_view(&graph, &Ids::dense(graph.vertices()), keeps_loops, team)?;
        drop(graph);
        if let Some(ids) = ids {
            let names = Names::in_order(ids);
            let names = names.ok_or_else(|| Error::corruption(&path, 4096, "two vertices have the same id"))?;
            changing.rename(names);
        }
        let (mut next, mut logged) = (applied, 0);
        let gap = |found: u64, wanted: u64| {
            let what = format!("the journal goes on at record {found}, and the graph lacks those from {wanted} on");
            Error::corruption(records, 0, what)
        };
        let kept = open(&mut |number, bytes| {
            if number < applied {
                return Ok(());
            }
            if number != next {
                return Err(gap(number, next));
            }
            let updates = record::decode(bytes);
            let updates = updates.ok_or_else(|| {
                Error::corruption(records, 0, format!("record {number} of the journal is no batch of a graph"))
            })?;
            (next, logged) = (next + 1, logged + bytes.len() as u64);
            match changing.apply(&updates) {
                // As when it came first: refused, and counted.
                Err(error) if error.kind() == ErrorKind::Invalid => Ok(()),
                other => other.map(drop),
            }
        })?;
        if kept.next() != next {
            return Err(gap(kept.next(), next));
        }
        let turn = Turn { state: Mutex::new(Turns { next, failed: None }), moved: Condvar::new() };
        Ok(Self {
            graph: changing,
            kept,
            turn,
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
        let bytes_kept = bytes.len() as u64;
        let number = self.kept.append(bytes, durability).inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.turn.fail(error);
            }
        })?;
        let (_, due) = self.turn.take(number, || self.graph.admit(updates, prepared))??;
        self.graph.merge(&due)?;
        let logged = self.logged.fetch_add(bytes_kept, Relaxed) + bytes_kept;
        // Somebody else is at it? Then there is nothing to do.
        if logged >= self.save_at.load(Relaxed)
            && let Ok(_saving) = self.saving.try_lock()
        {
            // A failure is not the batch's, which is kept: who asks for a checkpoint hears of it. Try again later.
            let saved = self.save();
            let wait = if saved.is_ok() { 0 } else { logged };
            self.save_at.store(wait + self.checkpoint_bytes, Relaxed);
        }
        Ok(number)
    }

    /// Make everything that was taken in durable.
    ///
    /// # Errors
    /// `Poisoned`, `Full`, `Io`.
    pub fn sync(&self) -> Result<()> {
        self.kept.sync().inspect_err(|error| self.turn.fail(error))
    }

    /// Save the graph, so that opening it has nothing to replay, and forget the records up to here. Others go on applying.
    ///
    /// # Errors
    /// `Full`, `Io`: what was saved before, and the records since, are still there.
    pub fn checkpoint(&self) -> Result<()> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.save()
    }

    /// With `saving` held.
    fn save(&self) -> Result<()> {
        let logged = self.logged.load(Relaxed);
        let snapshot = self.graph.snapshot(&mut Team::new(1)?)?;
        let applied = self.first + snapshot.sequence();
        // Invariant 2: what the image says is applied must not be lost with the last records.
        self.sync()?;
        self.kept.save(&snapshot, self.graph.shape().keeps_loops, applied)?;
        self.logged.fetch_sub(logged, Relaxed);
        Ok(())
    }

    /// See [`Changing::snapshot`].
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn snapshot(&self, team: &mut Team) -> Result<Snapshot<L>> {
        self.graph.snapshot(team)
    }

    /// See [`Changing::neighbors`].
    pub fn neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.graph.neighbors(id)
    }

    /// See [`Changing::in_neighbors`].
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

    /// What it is kept on.
    pub fn media(&self) -> Media {
        self.kept.media()
    }

    /// How much memory the graph takes, in bytes; see [`Changing::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.graph.memory_bytes()
    }

    /// How much of that in-edges take; see [`Changing::in_edges_memory_bytes`].
    pub fn in_edges_memory_bytes(&self) -> Option<usize> {
        self.graph.in_edges_memory_bytes()
    }

    /// How many bytes of batches came since the graph was saved: what opening it replays.
    pub fn logged_bytes(&self) -> u64 {
        self.logged.load(Relaxed)
    }
}

fn is_on_pmem(io: &dyn Io, dir: &Path) -> Result<bool> {
    let path = dir.join(Pmem::NAME);
    io.exists(&path).map_err(|e| Error::io(format_args!("look for {}", path.display()), e))
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "durable_pmem_tests.rs"]
mod pmem_tests;

#[cfg(test)]
#[path = "durable_pmem_fault_tests.rs"]
mod pmem_fault_tests;
