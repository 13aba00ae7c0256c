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
//! 3. However a save ends, also by a panic, another one is due some time, and why it failed is kept.
//! 4. Once a record may be there or not (a failed write or sync), or a thread ended between a record and the end of its batch, no later batch
//!    is kept or taken in, and the graph is not saved: half a batch may be left in memory.
//!
//! Crash argument: at any time there is one image, and durable records reach from its `applied`, or from before, without a gap to the last batch
//! that was acknowledged as `Sync`. Opening reads the one and replays the others, each batch whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{BATCH_BYTES_MAX, Durability, JournalOptions};

use super::kept::{Disk, Kept, Media, Pmem, Visit};
use super::names::Names;
use super::saver::Saver;
use super::turn::Turn;
use super::{Changing, Due, Image, Layout, Snapshot, Update, record};
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
    /// That is done by a thread of its own, and no batch waits for it, unless it falls far behind. Otherwise by who brings the batch.
    pub saves_aside: bool,
}

impl Default for DurableOptions {
    /// Segments of 16 MiB, saved every 256 MiB, aside.
    fn default() -> Self {
        Self { journal: JournalOptions::default(), checkpoint_bytes: 256 << 20, saves_aside: true }
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
    /// Ends before anything else goes.
    saver: Option<Saver>,
    inner: Arc<Inner<L>>,
    _owner: Option<Owner>,
}

/// Who brings batches waits for a save that is under way when this many times the bytes that make one due have come.
const BEHIND_MAX: u64 = 4;

/// When the next save is due: somebody is at it.
const UNDER_WAY: u64 = u64::MAX;

/// What the saver shares.
struct Inner<L: Layout> {
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
    /// Why the last save failed.
    failure: Mutex<Option<(ErrorKind, String)>>,
    /// What others do while the next save is under way.
    #[cfg(test)]
    meanwhile: Mutex<Option<Meanwhile<L>>>,
}

#[cfg(test)]
type Meanwhile<L> = Box<dyn FnOnce(&Inner<L>) + Send>;

/// A save that somebody found to be due.
struct Attempt<'i, L: Layout> {
    inner: &'i Inner<L>,
    has_saved: bool,
}

impl<L: Layout> Drop for Attempt<'_, L> {
    /// A failure is no batch's, for those are kept. It is tried again after as many bytes more.
    fn drop(&mut self) {
        if !self.has_saved {
            let wait = self.inner.logged.load(Relaxed);
            self.inner.save_at.store(wait.saturating_add(self.inner.checkpoint_bytes), Relaxed);
        }
        if std::thread::panicking() {
            *self.inner.failure() = Some((ErrorKind::Io, "a panic ended it".to_owned()));
        }
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
        Self::create_owned(&Self::claim(io, dir, view, ids)?, io, dir, view, ids, keeps_loops)
    }

    /// The same for who has the directory already, as `owner` says, and keeps other things beside the graph: nobody comes in between.
    ///
    /// # Errors
    /// As [`create_from`](Self::create_from), but for `Busy`.
    pub fn create_owned<V: View>(
        _owner: &Owner,
        io: &Arc<dyn Io>,
        dir: &Path,
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
    ) -> Result<()> {
        Self::check_new(io, dir, view, ids)?;
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
        Self::create_owned_on_pmem(&Self::claim(io, dir, view, ids)?, io, dir, view, ids, keeps_loops)
    }

    /// The same for who has the directory already, as `owner` says: see [`create_owned`](Self::create_owned).
    ///
    /// # Errors
    /// As [`create_owned`](Self::create_owned).
    pub fn create_owned_on_pmem<V: View>(
        _owner: &Owner,
        io: &Arc<dyn Io>,
        dir: &Path,
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
    ) -> Result<Backing> {
        Self::check_new(io, dir, view, ids)?;
        let medium = Arc::new(Mapped::new(io.clone(), dir.to_owned()));
        Pmem::create(medium, dir, io.random_u64(), view, ids, keeps_loops)
    }

    /// The directory for a graph to be made, which has none.
    fn claim<V: View>(io: &Arc<dyn Io>, dir: &Path, view: &V, ids: &Ids) -> Result<Owner> {
        Self::check_ids(view, ids)?;
        Owner::make(&**io, dir)
    }

    fn check_ids<V: View>(view: &V, ids: &Ids) -> Result<()> {
        match ids.len() == view.vertices() {
            true => Ok(()),
            false => Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), view.vertices()))),
        }
    }

    fn check_new<V: View>(io: &Arc<dyn Io>, dir: &Path, view: &V, ids: &Ids) -> Result<()> {
        Self::check_ids(view, ids)?;
        if Self::exists(&**io, dir)? || file::exists(&**io, dir)? {
            let dir = dir.display();
            return Err(Error::invalid(format!("{dir} has a graph already: name another directory or remove it")));
        }
        Ok(())
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
        let (segment_bytes, aside) = (options.journal.segment_bytes, options.saves_aside);
        let open = |visit: &mut Visit<'_>| Ok(Kept::Pmem(Box::new(Pmem::open(found, segment_bytes, aside, visit)?)));
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
        let turn = Turn::from(next);
        let inner = Arc::new(Inner {
            graph: changing,
            kept,
            turn,
            checkpoint_bytes: options.checkpoint_bytes,
            first: applied,
            logged: AtomicU64::new(logged),
            save_at: AtomicU64::new(options.checkpoint_bytes),
            saving: Mutex::new(()),
            failure: Mutex::new(None),
            #[cfg(test)]
            meanwhile: Mutex::new(None),
        });
        let of_saver = inner.clone();
        let saver = options.saves_aside.then(|| Saver::start(move || of_saver.save_due()));
        Ok(Self { saver: saver.transpose()?, inner, _owner: owner })
    }

    /// Take `updates` in, one after the other and all together, as durably as asked: batches of several threads share a write and a sync.
    /// The number of batches since the graph was made, with this one. Now and then it saves the graph.
    ///
    /// # Errors
    /// `Invalid` for a batch of more than 2 GiB or too many vertices; `Full` when the disk is: nothing was taken in. `Poisoned` after a
    /// failed write or sync: the graph is read-only until it is opened again. Others mean that the batch may or may not be there then.
    /// That it could not be saved is no error of a batch: [`last_save_error`](Self::last_save_error).
    pub fn apply(&self, updates: &[Update], durability: Durability) -> Result<u64> {
        let (number, bytes, merged) = self.inner.bring(updates, durability)?;
        self.count(bytes);
        merged.map(|()| number)
    }

    /// So many bytes of batches more: see to it that the graph is saved when that is due.
    fn count(&self, bytes: u64) {
        let inner = &*self.inner;
        let logged = inner.logged.fetch_add(bytes, Relaxed) + bytes;
        let due = inner.save_at.load(Relaxed);
        if logged >= due && inner.save_at.compare_exchange(due, UNDER_WAY, Relaxed, Relaxed).is_ok() {
            match &self.saver {
                Some(saver) => saver.ask(),
                None => inner.save_due(),
            }
        } else if due == UNDER_WAY && logged >= inner.checkpoint_bytes.saturating_mul(BEHIND_MAX) {
            match &self.saver {
                Some(saver) => saver.until_done(),
                None => drop(inner.saving()),
            }
        }
    }

    /// Make everything that was taken in durable.
    ///
    /// # Errors
    /// `Poisoned`, `Full`, `Io`.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// Save the graph, so that opening it has nothing to replay, and forget the records up to here. Others go on applying.
    ///
    /// # Errors
    /// `Full`, `Io`: what was saved before, and the records since, are still there.
    pub fn checkpoint(&self) -> Result<()> {
        let _saving = self.inner.saving();
        self.inner.save()
    }

    /// See [`Changing::snapshot`].
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn snapshot(&self, team: &mut Team) -> Result<Snapshot<L>> {
        self.inner.graph.snapshot(team)
    }

    /// See [`Changing::neighbors`].
    pub fn neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.inner.graph.neighbors(id)
    }

    /// See [`Changing::in_neighbors`].
    pub fn in_neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.inner.graph.in_neighbors(id)
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.inner.graph.vertices()
    }

    /// What kind of graph it is.
    pub fn shape(&self) -> Shape {
        self.inner.graph.shape()
    }

    /// What it is kept on.
    pub fn media(&self) -> Media {
        self.inner.kept.media()
    }

    /// How much memory the graph takes, in bytes; see [`Changing::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.inner.graph.memory_bytes()
    }

    /// How much of that in-edges take; see [`Changing::in_edges_memory_bytes`].
    pub fn in_edges_memory_bytes(&self) -> Option<usize> {
        self.inner.graph.in_edges_memory_bytes()
    }

    /// Why the graph could not be saved the last time that this was tried, by whomever; `None` when it was, or never tried. Nothing is lost by
    /// that, and it is tried again; but opening replays more and more.
    pub fn last_save_error(&self) -> Option<Error> {
        let failure = self.inner.failure();
        failure.as_ref().map(|(kind, why)| Error::new(*kind, format!("the graph could not be saved: {why}")))
    }

    /// How many bytes of batches came since the graph was saved: what opening it replays.
    pub fn logged_bytes(&self) -> u64 {
        self.inner.logged.load(Relaxed)
    }
}

impl<L: Layout> Inner<L> {
    fn saving(&self) -> MutexGuard<'_, ()> {
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<(ErrorKind, String)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keep a batch and take it in: its number, how many bytes were kept, and whether what became due could be merged.
    fn bring(&self, updates: &[Update], durability: Durability) -> Result<(u64, u64, Result<()>)> {
        if Changing::<L>::are_few(updates) && self.kept.is_quick() {
            return self.bring_few(updates, durability);
        }
        let bytes = record::encode(updates);
        if bytes.len() > BATCH_BYTES_MAX - 8 {
            return Err(Error::invalid(format!("a batch of {} updates is too large: split it", updates.len())));
        }
        self.turn.check()?;
        self.graph.check_room(updates)?;
        let prepared = self.graph.prepare(updates);
        let bytes_kept = bytes.len() as u64;
        let (number, due) = self.turn.through(|| {
            let kept = self.kept.append(bytes, durability);
            let number = kept.inspect_err(|error| self.append_failed(error))?;
            let (_, due) = self.turn.take(number, || self.graph.admit(updates, prepared))??;
            Ok::<_, Error>((number, due))
        })?;
        Ok((number, bytes_kept, self.merge(&due)))
    }

    /// The same for few updates, where durability costs some instructions and no call: without memory of its own, and as a rule nobody's record
    /// comes between a batch's record and its turn, so that two threads take turns at one lock and need not sleep.
    fn bring_few(&self, updates: &[Update], durability: Durability) -> Result<(u64, u64, Result<()>)> {
        self.turn.check()?;
        self.graph.check_room_for_few(updates)?;
        let mut record = record::Few::of(updates);
        let bytes_kept = record.batch().len() as u64;
        let admit = || self.graph.admit_few(updates);
        let (number, due) = self.turn.through(|| {
            let kept = self.kept.append_few(&mut record, durability, |number| self.turn.take_now(number, admit));
            let (number, taken) = kept.inspect_err(|error| self.append_failed(error))?;
            let (_, due) = taken.map_or_else(|| self.turn.take(number, admit), Ok)??;
            Ok::<_, Error>((number, due))
        })?;
        Ok((number, bytes_kept, self.merge(&due)))
    }

    /// Merge what became due by a batch that was taken in.
    fn merge(&self, due: &Due) -> Result<()> {
        self.graph.merge(due).map_err(|error| match error.kind() {
            // It was taken in, and that would say that it was not.
            ErrorKind::Invalid => Error::new(ErrorKind::Io, error.to_string()),
            _ => error,
        })
    }

    /// A record may be there or not, unless there was no room for it.
    fn append_failed(&self, error: &Error) {
        if error.kind() != ErrorKind::Full {
            self.turn.fail(error);
        }
    }

    fn sync(&self) -> Result<()> {
        self.kept.sync().inspect_err(|error| self.turn.fail(error))
    }

    /// What somebody found to be due.
    fn save_due(&self) {
        let _saving = self.saving();
        if self.logged.load(Relaxed) < self.checkpoint_bytes {
            // Somebody has saved it meanwhile.
            self.save_at.store(self.checkpoint_bytes, Relaxed);
            return;
        }
        let mut attempt = Attempt { inner: self, has_saved: false };
        attempt.has_saved = self.save().is_ok();
    }

    /// Its snapshot is made and its records are durable; neither image nor root are there.
    #[cfg(test)]
    fn meanwhile(&self) {
        let work = self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work(self));
    }

    /// With `saving` held.
    fn save(&self) -> Result<()> {
        let saved = self.save_now();
        *self.failure() = saved.as_ref().err().map(|error| (error.kind(), error.to_string()));
        if saved.is_ok() {
            // Also where it had failed before, and was to be tried again later.
            self.save_at.store(self.checkpoint_bytes, Relaxed);
        }
        saved
    }

    fn save_now(&self) -> Result<()> {
        self.turn.check()?;
        let logged = self.logged.load(Relaxed);
        let snapshot = self.graph.snapshot(&mut Team::new(1)?)?;
        // Invariant 4: the last batch of the snapshot was taken in as a whole, or nothing comes of it.
        self.turn.settle()?;
        let applied = self.first + snapshot.sequence();
        // Invariant 2: what the image says is applied must not be lost with the last records.
        self.sync()?;
        #[cfg(test)]
        self.meanwhile();
        self.kept.save(&snapshot, self.graph.shape().keeps_loops, applied)?;
        self.logged.fetch_sub(logged, Relaxed);
        Ok(())
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
#[path = "durable_save_tests.rs"]
mod save_tests;

#[cfg(test)]
#[path = "durable_soak_tests.rs"]
mod soak_tests;

#[cfg(test)]
#[path = "durable_pmem_tests.rs"]
mod pmem_tests;

#[cfg(test)]
#[path = "durable_pmem_fault_tests.rs"]
mod pmem_fault_tests;
