//! The layout `pma`: a packed memory array of neighbour lists that changes while it is read; and what all dynamic layouts have alike.
//!
//! # The array
//!
//! Vertices have dense numbers; 1,024 in sequence are a *section*. A section is one block of memory (its `Image`): a word for
//! each vertex that says where its list is and how long, and the lists in the order of their vertices, sorted, 4 bytes a neighbour, each
//! with a gap behind it. So a list is a slice, as in `csr`, and kernels that go from vertex to vertex read memory in its order.
//!
//! As in a packed memory array, an insertion moves what is behind it within the gap; what finds none moves its list to the section's
//! free tail; a section without room, or with too much of it, is rewritten with its gaps spread anew. There is no tree of densities above
//! the sections: each is a block of its own of whatever size it needs, out of a [`Pool`](crate::media::Pool), so that a section that
//! grows moves nobody else's edges. It costs a look at the table of sections at each list, and buys snapshots: a section is replaced
//! as a whole.
//!
//! # Changes
//!
//! [`Changing::apply`] takes a batch in, all of it or nothing: numbers of ids are looked up and changes are sorted into sections outside of any
//! lock; then, under the *gate*, they are appended to the sections' logs, 8 bytes a change, and the batch has its sequence number. The
//! writer then merges the logs that have become long (a sixteenth of their section), each section by itself: two writers merge
//! different sections at once. Deleted edges are gone after that; deleted vertices too: the last vertex gets the number that has become
//! free, so that kernels never see a hole.
//!
//! # Snapshots
//!
//! [`Changing::snapshot`] makes a *cut* under the gate, a few instructions for each section, and then brings all sections up to it while
//! writers go on. What comes out is the image of each section, shared and not copied: a writer copies or rewrites a section before changing
//! it as long as a snapshot has it. A snapshot is exactly the graph after the first n batches, for n = [`Snapshot::sequence`].
//!
//! # Other layouts
//!
//! All of this but the array is the same of [`adjacency`](crate::adjacency) and [`buffered`](crate::buffered): a [`Changing`] graph is in some
//! [`Layout`], which is a type of sections, says when changes are merged into them, and may let changes wait elsewhere too: in one log of the
//! graph's edges before they come to the logs of sections, or beside a section's image afterwards.
//!
//! # Invariants
//!
//! 1. Every edge of an undirected graph is in the lists of both its ends (a loop once), of a directed one in the source's list of
//!    `out` and in the target's of `inward`: changes of both come in under one hold of the gate.
//! 2. Batches are taken in one after the other (the gate); `sequence` counts them.
//! 3. Numbers of vertices are `0..names.len()`, sections there are for all of them, and lists of others are empty.
//! 4. Names change only under the gate; `Names::renumberings` counts the times when a number came to mean another vertex.
//! 5. What is in the log of edges, or in the hands of who archives it, has the numbers that vertices have now: all of it is archived before
//!    one goes.
//!
//! # Complexity and space
//!
//! A change: O(1) to append, then O(log changes) to sort, and its share of rewriting a section once a sixteenth of it has changed: some
//! sixteen moves of 4 bytes. 12 bytes a vertex, 4.25 an edge and the rounding to pages after loading; up to half a byte an edge of logs.
//!
//! # Sources
//!
//! Bender, Demaine, Farach-Colton, "Cache-Oblivious B-Trees", FOCS 2000 (packed memory array); Bender, Hu, "An Adaptive Packed-Memory
//! Array", PODS 2006; Wheatman, Xu, "Packed Compressed Sparse Row", HPEC 2018; Islam, Dai, "DGAP", SC 2023 (a log for each section);
//! De Leo, Boncz, "Teseo and the Analysis of Structural Dynamic Graphs", PVLDB 2021 (large leaves that are packed memory arrays);
//! Dhulipala, Blelloch, Shun, "Low-Latency Graph Streaming Using Compressed Purely-Functional Trees", PLDI 2019 (snapshots by sharing).

mod archive;
pub(crate) mod changes;
mod durable;
mod edge_log;
mod few;
mod image;
mod kept;
pub(crate) mod layout;
mod names;
mod record;
mod saver;
mod side;
mod snapshot;
mod spread;
pub(crate) mod tuning;
mod turn;
mod update;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use biombo_base::{Error, Result};

use crate::csr::Shape;
use crate::ids::Ids;
use crate::team::Team;
use crate::view::View;
use crate::{Edge, VERTICES_MAX};
pub use biombo_journal::Durability;
pub use durable::{Durable, DurableChanging, DurableOptions};
use edge_log::EdgeLog;
pub use image::Image;
pub use kept::Media;
pub use layout::Layout;
use layout::{Scratch, VERTICES};
use names::{Names, NamesView};
use side::{Grouped, Side, Stored};
pub use snapshot::Snapshot;
use tuning::Tuning;
pub use update::Update;

/// A graph that changes, in the layout `pma`; see the module.
///
/// ```
/// use biombo_graph::csr::Shape;
/// use biombo_graph::kernels::bfs;
/// use biombo_graph::pma::{Pma, Update};
/// use biombo_graph::team::Team;
/// use biombo_graph::view::View;
///
/// let mut team = Team::new(1)?;
/// let graph = Pma::new(Shape::UNDIRECTED)?;
/// graph.apply(&[Update::InsertEdge(7, 1 << 40), Update::InsertEdge(7, 9)])?;
/// let before = graph.snapshot(&mut team)?;
/// graph.apply(&[Update::DeleteEdge(7, 9)])?;
///
/// assert_eq!(graph.neighbors(7), Some(vec![1 << 40]));
/// let nine = before.vertex(9).expect("it was there");
/// assert_eq!(bfs(&before, nine, &mut team)?.depths().into_iter().max(), Some(2), "the snapshot stays as it was");
/// assert_eq!((before.edges(), before.sequence()), (4, 1));
/// # Ok::<(), biombo_base::Error>(())
/// ```
pub type Pma = Changing<Image>;

/// A graph that changes, in the layout `L`. All methods may be called by any number of threads.
#[derive(Debug)]
pub struct Changing<L: Layout> {
    shape: Shape,
    names: Arc<RwLock<Names>>,
    out: Side<L>,
    /// Of a directed graph.
    inward: Option<Side<L>>,
    /// Who holds it brings what is in the log of edges into the logs of sections. Taken before the gate.
    archiving: Mutex<()>,
    gate: Mutex<Gate>,
    /// How many vertices there were when the last ones came, for a look without a lock. Others may be on their way.
    seen: AtomicUsize,
    tuning: Tuning,
}

/// Who holds it takes a batch in, or cuts.
#[derive(Debug)]
struct Gate {
    sequence: u64,
    /// Edges that are in no section's log yet, where the layout has such a log.
    log: EdgeLog,
}

/// A batch as far as it can be prepared without the gate.
struct Prepared<'u> {
    /// Changes of edges between vertices that are there. `None` for a batch that deletes vertices: it needs the gate for all of it,
    /// since their edges must be known.
    edges: Option<Ready>,
    /// The others, in their order.
    rest: Vec<&'u Update>,
    renumberings: u64,
}

/// Changes of edges between vertices that are there, for the logs of sections, outward and inward, or for the log of edges.
enum Ready {
    Grouped([Grouped; 2]),
    Packed(Vec<Edge>),
}

/// What is worth merging.
#[derive(Default)]
struct Due {
    /// Sections whose logs have become long, outward and inward.
    sections: [Vec<u32>; 2],
    /// The log of edges has become long.
    archives: bool,
}

impl Gate {
    /// Append changes to the log of edges.
    fn log(&mut self, edges: &[Edge], due: &mut Due) {
        self.log.append(edges);
        due.archives |= self.log.is_due();
    }
}

impl<L: Layout> Changing<L> {
    /// A graph without vertices.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn new(shape: Shape) -> Result<Self> {
        Self::tuned(shape, L::TUNING)
    }

    fn tuned(shape: Shape, tuning: Tuning) -> Result<Self> {
        let inward = if shape.is_directed { Some(Side::new(tuning)?) } else { None };
        Ok(Self::made_of(shape, Names::default(), Side::new(tuning)?, inward, tuning))
    }

    fn made_of(shape: Shape, names: Names, out: Side<L>, inward: Option<Side<L>>, tuning: Tuning) -> Self {
        let gate = Gate { sequence: 0, log: EdgeLog::new(tuning.edges_due(out.edges())) };
        let (archiving, gate) = (Mutex::new(()), Mutex::new(gate));
        let seen = AtomicUsize::new(names.len());
        Self { shape, names: Arc::new(RwLock::new(names)), out, inward, archiving, gate, seen, tuning }
    }

    /// The graph that `view` shows, whose vertices have the ids `ids`. Whether loops are kept is said for changes to come.
    /// O(vertices + edges), shared by the team.
    ///
    /// # Errors
    /// `Invalid` when there are not as many ids as vertices, `Io` when there is no memory.
    pub fn from_view<V: View>(view: &V, ids: &Ids, keeps_loops: bool, team: &mut Team) -> Result<Self> {
        Self::from_view_tuned(view, ids, keeps_loops, L::TUNING, team)
    }

    fn from_view_tuned<V: View>(
        view: &V,
        ids: &Ids,
        keeps_loops: bool,
        tuning: Tuning,
        team: &mut Team,
    ) -> Result<Self> {
        if ids.len() != view.vertices() {
            return Err(Error::invalid(format!("there are {} ids of {} vertices", ids.len(), view.vertices())));
        }
        let out = Side::of(view, V::out_neighbors, tuning, team)?;
        let inward = match view.is_directed() {
            true => Some(Side::of(view, V::in_neighbors, tuning, team)?),
            false => None,
        };
        let shape = Shape { is_directed: view.is_directed(), keeps_loops };
        Ok(Self::made_of(shape, Names::of(ids), out, inward, tuning))
    }

    /// The vertices have other names than they were made with, before anybody else knows the graph.
    fn rename(&mut self, names: Names) {
        *self.names_mut() = names;
    }

    /// Take `updates` in, one after the other and all together: no snapshot has some of them. What they say is so already changes
    /// nothing. The number of batches with this one.
    ///
    /// # Errors
    /// `Invalid` for too many vertices: the batch counts as an empty one. `Io` and `Invalid` when a section that had become due could not
    /// be merged, for want of memory: the batch was taken in, and merging is tried again later.
    pub fn apply(&self, updates: &[Update]) -> Result<u64> {
        let (sequence, due) = match Self::are_few(updates) {
            true => self.admit_few(updates)?,
            false => self.admit(updates, self.prepare(updates))?,
        };
        self.merge(&due)?;
        Ok(sequence)
    }

    /// Take a batch in. Its number, and what is worth merging now.
    fn admit(&self, updates: &[Update], prepared: Prepared<'_>) -> Result<(u64, Due)> {
        let mut due = Due::default();
        // A vertex goes with its edges: nobody else may have some of those in hand.
        let _archiving = (L::LOGS_EDGES && prepared.edges.is_none()).then(|| self.archiving());
        let mut gate = self.gate();
        gate.sequence += 1;
        self.check_room(updates)?;
        let Prepared { edges, rest, renumberings } = prepared;
        match edges {
            Some(edges) if renumberings == self.names().renumberings() => {
                match edges {
                    Ready::Grouped(grouped) => self.append(&grouped, &mut due),
                    Ready::Packed(edges) => gate.log(&edges, &mut due),
                }
                if !rest.is_empty() {
                    self.take_in(&mut gate, rest.into_iter(), &mut due);
                }
            }
            _ => self.take_in(&mut gate, updates.iter(), &mut due),
        }
        Ok((gate.sequence, due))
    }

    /// Without the gate.
    fn merge(&self, due: &Due) -> Result<()> {
        if due.archives {
            self.merge_sections(&self.archive_due())?;
        }
        self.merge_sections(due)
    }

    fn merge_sections(&self, due: &Due) -> Result<()> {
        let mut scratch = Scratch::default();
        self.out.merge_due(&due.sections[0], &mut scratch)?;
        self.inward.as_ref().map_or(Ok(()), |side| side.merge_due(&due.sections[1], &mut scratch))
    }

    /// The graph as it is after all batches that were taken in. The log of edges is archived, where there is one, and what came to it meanwhile
    /// under the gate; with that O(vertices / 1,024). Then what waits is merged, shared by the team. Others go on applying but for the gate.
    ///
    /// # Errors
    /// `Io` when there is no memory.
    pub fn snapshot(&self, team: &mut Team) -> Result<Snapshot<L>> {
        let (sequence, names, out, inward) = {
            // What becomes due is merged below, with everything else.
            let mut due = Due::default();
            let _archiving = self.archive_ahead(&mut due);
            let mut gate = self.gate();
            self.archive(&mut gate, &mut due);
            (
                gate.sequence,
                NamesView::of(&self.names),
                self.out.cut(),
                self.inward.as_ref().map(|side| (side, side.cut())),
            )
        };
        let out = self.out.collect(&out, team);
        let inward = inward.map(|(side, cut)| side.collect(&cut, team));
        Ok(Snapshot::new(sequence, names, out?, inward.transpose()?))
    }

    /// The ids of the vertices that edges of `id` lead to, in no particular order; `None` where there is no such vertex. O(degree) and a
    /// look at its section's log.
    pub fn neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.list(&self.out, id)
    }

    /// The ids of the vertices that edges to `id` come from, likewise.
    pub fn in_neighbors(&self, id: u64) -> Option<Vec<u64>> {
        self.list(self.inward.as_ref().unwrap_or(&self.out), id)
    }

    fn list(&self, side: &Side<L>, id: u64) -> Option<Vec<u64>> {
        let mut due = Due::default();
        let archiving = self.archive_ahead(&mut due);
        // Numbers mean the same vertices as long as this is held.
        let names = self.names();
        let list = names.number(id).map(|number| side.current(number));
        let list = list.map(|list| list.into_iter().map(|neighbor| names.id(neighbor)).collect());
        drop(names);
        drop(archiving);
        // What cannot be merged waits, and is looked at.
        _ = self.merge_sections(&due);
        list
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.names().len()
    }

    /// What kind of graph it is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How much memory it takes, in bytes: sections with their gaps in each direction, also those that only snapshots have still, logs
    /// and names.
    pub fn memory_bytes(&self) -> usize {
        let inward = self.in_edges_memory_bytes().unwrap_or(0);
        let log = self.gate().log.memory_bytes();
        self.out.memory_bytes() + inward + log + self.names().memory_bytes()
    }

    /// How much of that the in-edges of a directed graph take; `None` for an undirected one, whose edges are stored at both ends anyway.
    pub fn in_edges_memory_bytes(&self) -> Option<usize> {
        self.inward.as_ref().map(Side::memory_bytes)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn names_mut(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuse a batch that might bring more vertices than a graph can have. Under the gate.
    fn check_room(&self, updates: &[Update]) -> Result<()> {
        let names = self.names();
        if names.len() + 2 * updates.len() <= VERTICES_MAX {
            return Ok(());
        }
        let brought = updates.iter().flat_map(Update::brings).filter(|id| names.number(*id).is_none());
        let new = brought.collect::<HashSet<u64>>().len();
        match names.len() + new <= VERTICES_MAX {
            true => Ok(()),
            false => Err(Error::invalid(format!("the graph would have more than {VERTICES_MAX} vertices"))),
        }
    }

    /// Look up the numbers of ids and sort changes by sections, without the gate.
    fn prepare<'u>(&self, updates: &'u [Update]) -> Prepared<'u> {
        let names = self.names();
        if updates.iter().any(|update| matches!(update, Update::DeleteVertex(_))) {
            return Prepared { edges: None, rest: Vec::new(), renumberings: names.renumberings() };
        }
        let (mut edges, mut rest) = (Vec::with_capacity(updates.len()), Vec::new());
        for update in updates {
            let known = update
                .edge()
                .and_then(|(source, target, is_there)| Some((names.number(source)?, names.number(target)?, is_there)));
            match known {
                Some(edge) if self.is_kept(edge) => edges.push(edge),
                Some(_) => {}
                None => rest.push(update),
            }
        }
        let (vertices, renumberings) = (names.len(), names.renumberings());
        drop(names);
        let edges = match L::LOGS_EDGES {
            true => Ready::Packed(EdgeLog::packed(edges.into_iter())),
            false => Ready::Grouped(self.grouped(&edges, vertices)),
        };
        Prepared { edges: Some(edges), rest, renumberings }
    }

    /// Whether a user's change counts. A loop that the graph began with may go, whether or not new ones come. Asked where updates come in
    /// and nowhere else: that loop also moves with its vertex, when that gets another number.
    fn is_kept(&self, (source, target, appears): Stored) -> bool {
        self.shape.keeps_loops || source != target || !appears
    }

    /// Changes of `edges` between the first `vertices` vertices, as the lists of both ends see them.
    fn grouped(&self, edges: &[Stored], vertices: usize) -> [Grouped; 2] {
        let sections = vertices.div_ceil(VERTICES);
        let turned = |edge: &Stored| (edge.1, edge.0, edge.2);
        if self.shape.is_directed {
            let inward: Vec<Stored> = edges.iter().map(turned).collect();
            return [Grouped::of(edges, sections), Grouped::of(&inward, sections)];
        }
        // Both directions of an edge one after the other: it may come from either end in the same batch, and the last one decides.
        let mut out = Vec::with_capacity(2 * edges.len());
        for edge in edges {
            out.push(*edge);
            if edge.0 != edge.1 {
                out.push(turned(edge));
            }
        }
        [Grouped::of(&out, sections), Grouped::default()]
    }

    /// Append changes to the logs of sections. Under the gate, or by whoever archives.
    fn append(&self, grouped: &[Grouped; 2], due: &mut Due) {
        self.out.append(&grouped[0], &mut due.sections[0]);
        if let Some(inward) = &self.inward {
            inward.append(&grouped[1], &mut due.sections[1]);
        }
    }

    /// Take updates in one after the other, new vertices and vanishing ones among them. Under the gate; nobody else archives where a vertex goes.
    fn take_in<'u>(&self, gate: &mut Gate, updates: impl Iterator<Item = &'u Update>, due: &mut Due) {
        let mut names = self.names_mut();
        let mut edges: Vec<Stored> = Vec::new();
        for update in updates {
            match *update {
                Update::InsertEdge(source, target) => {
                    let edge = (names.intern(source), names.intern(target), true);
                    if self.is_kept(edge) {
                        edges.push(edge);
                    }
                }
                Update::DeleteEdge(source, target) => {
                    if let (Some(source), Some(target)) = (names.number(source), names.number(target)) {
                        edges.push((source, target, false));
                    }
                }
                Update::InsertVertex(id) => _ = names.intern(id),
                Update::DeleteVertex(id) => {
                    if let Some(number) = names.number(id) {
                        self.append_edges(gate, &edges, names.len(), due);
                        edges.clear();
                        // What is in the log has numbers that come to mean other vertices.
                        self.archive(gate, due);
                        self.remove(&mut names, id, number, due);
                    }
                }
            }
        }
        self.append_edges(gate, &edges, names.len(), due);
        self.seen.store(names.len(), Relaxed);
    }

    fn append_edges(&self, gate: &mut Gate, edges: &[Stored], vertices: usize, due: &mut Due) {
        self.grow(vertices);
        match L::LOGS_EDGES {
            true => gate.log(&EdgeLog::packed(edges.iter().copied()), due),
            false => self.append_now(edges, vertices, due),
        }
    }

    /// There are `vertices` vertices now. Under the gate.
    fn grow(&self, vertices: usize) {
        self.out.grow(vertices);
        if let Some(inward) = &self.inward {
            inward.grow(vertices);
        }
    }

    /// Append changes to the logs of sections, past the log of edges, which is empty. Under the gate.
    fn append_now(&self, edges: &[Stored], vertices: usize, due: &mut Due) {
        let grouped = self.grouped(edges, vertices);
        if !grouped[0].is_empty() {
            self.append(&grouped, due);
        }
    }

    /// A vertex goes with its edges, and the last one gets its number. Under the gate.
    fn remove(&self, names: &mut Names, id: u64, number: u32, due: &mut Due) {
        let vertices = names.len();
        let edges = |of: u32| {
            let outward = self.out.current(of).into_iter().map(move |target| (of, target));
            let inward = self.inward.iter().flat_map(move |side| side.current(of)).map(move |source| (source, of));
            outward.chain(inward).collect::<Vec<_>>()
        };
        let gone: Vec<Stored> = edges(number).into_iter().map(|(source, target)| (source, target, false)).collect();
        self.append_now(&gone, vertices, due);
        let last = names.remove(id, number);
        if last == number {
            return;
        }
        let renamed = |end: u32| if end == last { number } else { end };
        let mut moved: Vec<Stored> = Vec::new();
        for (source, target) in edges(last) {
            moved.push((source, target, false));
            moved.push((renamed(source), renamed(target), true));
        }
        self.append_now(&moved, vertices, due);
    }
}

#[cfg(test)]
mod tests;
