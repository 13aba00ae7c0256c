//! The graph in a directory, whatever its layout.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use biombo::graph::csr::{Csr, Shape, file};
use biombo::graph::ids::Ids;
use biombo::graph::pma::{self, Changing, Durable, DurableOptions, Media, Snapshot};
use biombo::graph::team::Team;
use biombo::graph::view::View;
use biombo::graph::{Edge, adjacency, buffered};
use biombo_base::io::{Io, RealIo};
use biombo_base::{Error, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{Done, Failure};

/// How a graph stands in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// Compressed sparse rows: static
    Csr,
    /// A packed memory array: edges come and go
    Pma,
    /// An edge log over adjacency blocks, in memory only
    Adjacency,
    /// Buffers of vertices over adjacency blocks, in memory only
    Buffered,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csr => "csr",
            Self::Pma => "pma",
            Self::Adjacency => "adjacency",
            Self::Buffered => "buffered",
        }
    }
}

/// What a graph is kept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MediaArg {
    /// Memory that ends with the command: for `bench graph` only
    Dram,
    /// An ordinary file system
    Disk,
    /// Persistent memory: a DAX file system; on any other one it is played
    Pmem,
}

/// What a graph is kept on, as JSON says it.
#[derive(Debug, Serialize)]
pub(super) struct Kept {
    media: &'static str,
    /// The persistent memory, or what plays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pmem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pmem_is_played: Option<bool>,
}

impl Kept {
    pub(super) fn on(media: Media) -> Self {
        let (pmem, pmem_is_played) = match media {
            Media::Disk => (None, None),
            Media::Pmem(backing) => (Some(backing.to_string()), Some(backing.is_played())),
        };
        Self { media: media.name(), pmem, pmem_is_played }
    }
}

/// A graph to be asked.
pub(super) struct Graph {
    pub(super) lists: Lists,
    pub(super) memory: Memory,
    /// What it is kept on.
    pub(super) media: Media,
}

/// What it takes in memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// All of it.
    pub(super) bytes: u64,
    /// What of it the in-edges of a directed graph take.
    pub(super) in_edges: Option<u64>,
}

impl Memory {
    fn of(bytes: usize, in_edges: Option<usize>) -> Self {
        Self { bytes: bytes as u64, in_edges: in_edges.map(|bytes| bytes as u64) }
    }
}

/// Where its lists are.
pub(super) enum Lists {
    Csr(Csr, Ids),
    Pma(Snapshot),
    Adjacency(adjacency::Snapshot),
    Buffered(buffered::Snapshot),
}

/// One expression over any layout.
macro_rules! over {
    ($graph:expr, $view:ident => $do:expr) => {
        match &$graph.lists {
            Lists::Csr($view, _) => $do,
            Lists::Pma($view) => $do,
            Lists::Adjacency($view) => $do,
            Lists::Buffered($view) => $do,
        }
    };
}
pub(super) use over;

/// Whether `dir` has a static graph, on whatever medium.
pub(super) fn has_static(io: &dyn Io, dir: &Path) -> Result<bool> {
    Ok(file::exists(io, dir)? || file::pmem::exists(io, dir)?)
}

/// Open the static graph in `dir`: one on disk is read into memory, one on persistent memory read where it is.
fn open_static(io: &Arc<dyn Io>, dir: &Path) -> Result<(Csr, Ids, Media)> {
    if !file::exists(&**io, dir)? && file::pmem::exists(&**io, dir)? {
        let (csr, ids, backing) = file::pmem::open(io, dir)?;
        return Ok((csr, ids, Media::Pmem(backing)));
    }
    let (csr, ids) = file::open(&**io, dir)?;
    Ok((csr, ids, Media::Disk))
}

/// Open the changing graph in `dir`, to ask it or to change it.
pub(super) fn open_changing(dir: &Path, team: &mut Team) -> Result<Durable> {
    let io = RealIo::shared();
    if has_static(&*io, dir)? {
        let dir = dir.display();
        let message = format!("{dir} has a static graph (csr): `graph load` it with --layout pma to change it");
        return Err(Error::invalid(message));
    }
    Durable::open(io, dir, DurableOptions::default(), team)
}

impl Graph {
    /// The graph in `dir` in the layout that it has there.
    pub(super) fn open(dir: &Path, team: &mut Team) -> Result<Self> {
        let io = RealIo::shared();
        if Durable::exists(&*io, dir)? {
            let graph = open_changing(dir, team)?;
            let snapshot = graph.snapshot(team)?;
            let memory = Memory::of(graph.memory_bytes(), graph.in_edges_memory_bytes());
            return Ok(Self { memory, media: graph.media(), lists: Lists::Pma(snapshot) });
        }
        let (csr, ids, media) = open_static(&io, dir)?;
        let memory = Memory::of(csr.memory_bytes(), csr.in_edges_memory_bytes());
        Ok(Self { memory, media, lists: Lists::Csr(csr, ids) })
    }

    /// Whether its lists are read where they are kept, and not in memory.
    pub(super) fn is_read_in_place(&self) -> bool {
        matches!(&self.lists, Lists::Csr(csr, _) if csr.backing().is_some())
    }

    /// The same graph in another layout.
    pub(super) fn into_layout(self, layout: Layout, team: &mut Team) -> Done<Self> {
        if self.layout() == layout {
            return Ok(self);
        }
        let (csr, ids) = match self.lists {
            Lists::Csr(csr, ids) => (csr, ids),
            Lists::Pma(snapshot) => as_static(&snapshot, team)?,
            Lists::Adjacency(snapshot) => as_static(&snapshot, team)?,
            Lists::Buffered(snapshot) => as_static(&snapshot, team)?,
        };
        let (memory, lists) = match layout {
            Layout::Csr => (Memory::of(csr.memory_bytes(), csr.in_edges_memory_bytes()), Lists::Csr(csr, ids)),
            Layout::Pma => as_changing(&csr, &ids, Lists::Pma, team)?,
            Layout::Adjacency => as_changing(&csr, &ids, Lists::Adjacency, team)?,
            Layout::Buffered => as_changing(&csr, &ids, Lists::Buffered, team)?,
        };
        Ok(Self { lists, memory, media: self.media })
    }

    pub(super) fn layout(&self) -> Layout {
        match self.lists {
            Lists::Csr(..) => Layout::Csr,
            Lists::Pma(_) => Layout::Pma,
            Lists::Adjacency(_) => Layout::Adjacency,
            Lists::Buffered(_) => Layout::Buffered,
        }
    }

    pub(super) fn vertices(&self) -> usize {
        over!(self, view => view.vertices())
    }

    pub(super) fn edges(&self) -> u64 {
        over!(self, view => view.edges())
    }

    pub(super) fn is_directed(&self) -> bool {
        over!(self, view => view.is_directed())
    }

    pub(super) fn out_neighbors(&self, vertex: u32) -> &[u32] {
        over!(self, view => view.out_neighbors(vertex))
    }

    pub(super) fn in_neighbors(&self, vertex: u32) -> &[u32] {
        over!(self, view => view.in_neighbors(vertex))
    }

    /// The number of a vertex that was named on the command line.
    pub(super) fn vertex(&self, id: u64) -> Done<u32> {
        let found = match &self.lists {
            Lists::Csr(_, ids) => ids.vertex(id),
            Lists::Pma(snapshot) => snapshot.vertex(id),
            Lists::Adjacency(snapshot) => snapshot.vertex(id),
            Lists::Buffered(snapshot) => snapshot.vertex(id),
        };
        found.ok_or_else(|| Failure::failed(format!("the graph has no vertex {id}")))
    }

    /// The id of a vertex that the graph has.
    pub(super) fn id(&self, vertex: u32) -> u64 {
        let found = match &self.lists {
            Lists::Csr(_, ids) => ids.id(vertex),
            Lists::Pma(snapshot) => snapshot.id(vertex),
            Lists::Adjacency(snapshot) => snapshot.id(vertex),
            Lists::Buffered(snapshot) => snapshot.id(vertex),
        };
        found.expect("invariant: kernels and lists name the graph's vertices only")
    }

    /// The numbers of all vertices in the order of their ids.
    pub(super) fn by_id(&self) -> Vec<u32> {
        match &self.lists {
            Lists::Csr(graph, _) => (0..graph.vertices() as u32).collect(),
            Lists::Pma(snapshot) => order(snapshot),
            Lists::Adjacency(snapshot) => order(snapshot),
            Lists::Buffered(snapshot) => order(snapshot),
        }
    }

    /// The ids of vertices, ascending.
    pub(super) fn ids(&self, vertices: &[u32]) -> Vec<u64> {
        let mut ids: Vec<u64> = vertices.iter().map(|vertex| self.id(*vertex)).collect();
        ids.sort_unstable();
        ids
    }

    /// The smallest id of the vertices with each of `labels`, by label.
    pub(super) fn smallest_ids(&self, labels: &[u32]) -> BTreeMap<u32, u64> {
        let mut smallest: BTreeMap<u32, u64> = BTreeMap::new();
        for (label, vertex) in labels.iter().zip(0..) {
            let id = self.id(vertex);
            smallest.entry(*label).and_modify(|known| *known = id.min(*known)).or_insert(id);
        }
        smallest
    }
}

/// The same graph as a static one, numbered by the order of ids.
fn as_static<L: pma::Layout>(snapshot: &Snapshot<L>, team: &mut Team) -> Done<(Csr, Ids)> {
    let order = order(snapshot);
    let edges = edges_by_place(snapshot, &order);
    let shape = Shape { is_directed: snapshot.is_directed(), keeps_loops: true };
    let csr = Csr::build(order.len(), &edges, shape, team)?;
    let named = order.iter().map(|number| snapshot.id(*number)).collect::<Option<Vec<u64>>>();
    let ids = Ids::ascending(named.unwrap_or_default());
    Ok((csr, ids.expect("invariant: each vertex has an id of its own, and they were sorted")))
}

/// The edges between vertices that are numbered by their places in `order`; an undirected one once, as whoever builds a graph of them doubles it.
fn edges_by_place<V: View>(view: &V, order: &[u32]) -> Vec<Edge> {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(number, place)| places[*number as usize] = place);
    let is_directed = view.is_directed();
    let numbers = 0..view.vertices() as u32;
    let edges = numbers.flat_map(|v| view.out_neighbors(v).iter().map(move |to| [v, *to]));
    edges.filter(|[v, to]| is_directed || to >= v).map(|edge| edge.map(|end| places[end as usize])).collect()
}

/// A static graph in the layout `L`: the memory that it takes, and its lists.
fn as_changing<L: pma::Layout>(
    csr: &Csr,
    ids: &Ids,
    lists: fn(Snapshot<L>) -> Lists,
    team: &mut Team,
) -> Done<(Memory, Lists)> {
    let graph = Changing::<L>::from_view(csr, ids, true, team)?;
    let memory = Memory::of(graph.memory_bytes(), graph.in_edges_memory_bytes());
    Ok((memory, lists(graph.snapshot(team)?)))
}

fn order<L: pma::Layout>(snapshot: &Snapshot<L>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..snapshot.vertices() as u32).collect();
    order.sort_unstable_by_key(|number| snapshot.id(*number));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when both directions of an undirected edge are handed on, which would take twice the memory, or when one of them is lost.
    #[test]
    fn an_undirected_edge_is_handed_on_once_and_a_directed_one_as_it_is() {
        let mut team = Team::new(1).expect("a thread");
        let edges = [[0, 1], [2, 1], [2, 0], [3, 3]];
        // The places of the numbers 0 to 3 are 3, 2, 1, 0.
        for (shape, stored) in [(Shape::UNDIRECTED, 7), (Shape::DIRECTED, 4)] {
            let csr = Csr::build(4, &edges, shape, &mut team).expect("a graph");
            assert_eq!(csr.edges(), stored);
            let handed = edges_by_place(&csr, &[3, 2, 1, 0]);
            assert_eq!(handed.len(), 4, "{handed:?}");
            let again = Csr::build(4, &handed, shape, &mut team).expect("a graph");
            let turned = |v: u32| again.out_neighbors(3 - v).iter().rev().map(|to| 3 - to).collect::<Vec<_>>();
            assert!((0..4).all(|v| turned(v) == csr.out_neighbors(v)), "{handed:?}");
        }
    }
}
