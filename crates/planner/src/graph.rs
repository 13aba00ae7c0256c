//! The graph of accesses: units that carry load, and how often two of them are touched together.
//!
//! Invariants:
//! 1. The graph is undirected: each edge stands at both of its ends with the same weight.
//! 2. No vertex is its own neighbour, no two neighbours of a vertex are the same, neighbours are sorted, no weight is 0.
//! 3. The loads together, the bytes together and the edge weights together are at most [`TOTAL_MAX`], so that sums of them fit
//!    into 64 bits everywhere.

use crate::error::PlanError;
use crate::request::PARTS_MAX;

/// The largest sum of all loads, of all bytes and of all edge weights of a graph.
pub const TOTAL_MAX: u64 = 1 << 62;

/// A part's number, from 0: what the store calls a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(pub u32);

impl Part {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A vertex' number, from 0 in the order of adding: a unit of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vertex(pub u32);

impl Vertex {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A weighted undirected graph in compressed sparse rows.
///
/// ```
/// use biombo_planner::{GraphBuilder, Part, Vertex};
///
/// let mut builder = GraphBuilder::new();
/// let hot = builder.vertex(90, 4096, Part(0))?;
/// let cold = builder.vertex(10, 1024, Part(1))?;
/// builder.edge(hot, cold, 5)?;
/// builder.edge(cold, hot, 2)?;
/// let graph = builder.build();
/// assert_eq!(graph.load_total(), 100);
/// assert_eq!(graph.neighbours(hot).collect::<Vec<_>>(), [(cold, 7)]);
/// # Ok::<(), biombo_planner::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessGraph {
    /// The neighbours of vertex `v` are `ends[offsets[v]..offsets[v + 1]]`.
    offsets: Vec<u32>,
    ends: Vec<u32>,
    weights: Vec<u64>,
    loads: Vec<u64>,
    bytes: Vec<u64>,
    owners: Vec<Part>,
    load_total: u64,
    bytes_total: u64,
    weight_total: u64,
}

impl AccessGraph {
    /// How many vertices there are.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// All vertices, in order.
    pub fn vertices(&self) -> impl ExactSizeIterator<Item = Vertex> + use<> {
        (0..self.loads.len() as u32).map(Vertex)
    }

    /// How many edges there are, each counted once.
    pub fn edge_count(&self) -> usize {
        self.ends.len() / 2
    }

    /// The load of a vertex, in whatever the tracker counts.
    pub fn load(&self, vertex: Vertex) -> u64 {
        self.loads[vertex.index()]
    }

    /// What has to be copied to move a vertex, in bytes.
    pub fn bytes(&self, vertex: Vertex) -> u64 {
        self.bytes[vertex.index()]
    }

    /// Where a vertex is now.
    pub fn owner(&self, vertex: Vertex) -> Part {
        self.owners[vertex.index()]
    }

    /// Where each vertex is now.
    pub fn owners(&self) -> &[Part] {
        &self.owners
    }

    /// The neighbours of a vertex, in order, with the weight of the edge to each.
    pub fn neighbours(&self, vertex: Vertex) -> impl Iterator<Item = (Vertex, u64)> + '_ {
        let row = self.offsets[vertex.index()] as usize..self.offsets[vertex.index() + 1] as usize;
        self.ends[row.clone()].iter().map(|end| Vertex(*end)).zip(self.weights[row].iter().copied())
    }

    /// How many neighbours a vertex has.
    pub fn degree(&self, vertex: Vertex) -> usize {
        (self.offsets[vertex.index() + 1] - self.offsets[vertex.index()]) as usize
    }

    /// The loads of all vertices together.
    pub fn load_total(&self) -> u64 {
        self.load_total
    }

    /// The largest load of one vertex.
    pub fn load_max(&self) -> u64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    /// The bytes of all vertices together.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// The weights of all edges together, each counted once.
    pub fn weight_total(&self) -> u64 {
        self.weight_total
    }

    /// The load of each part under a plan.
    ///
    /// # Panics
    /// If `plan` is shorter than the graph or names a part of `parts` or more.
    pub fn loads_of(&self, plan: &[Part], parts: u32) -> Vec<u64> {
        let mut sums = vec![0; parts as usize];
        for vertex in self.vertices() {
            sums[plan[vertex.index()].index()] += self.load(vertex);
        }
        sums
    }
}

/// Collects vertices and edges; parallel edges, in whichever direction, become one with the sum of their weights.
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    loads: Vec<u64>,
    bytes: Vec<u64>,
    owners: Vec<Part>,
    /// The smaller vertex in the upper half.
    edges: Vec<(u64, u64)>,
    load_total: u64,
    bytes_total: u64,
    weight_total: u64,
}

/// Adds to a sum that stays within [`TOTAL_MAX`].
fn add(sum: &mut u64, more: u64, what: &'static str) -> Result<(), PlanError> {
    *sum = sum.checked_add(more).filter(|total| *total <= TOTAL_MAX).ok_or(PlanError::TotalTooLarge(what))?;
    Ok(())
}

impl GraphBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a unit: its load, the bytes that moving it would copy, and where it is.
    ///
    /// # Errors
    /// Past 2^32 - 1 vertices, past [`TOTAL_MAX`] in sum, or for a part past [`PARTS_MAX`].
    pub fn vertex(&mut self, load: u64, bytes: u64, owner: Part) -> Result<Vertex, PlanError> {
        if owner.0 >= PARTS_MAX {
            return Err(PlanError::UnknownPart(owner.0));
        }
        let number = u32::try_from(self.loads.len()).ok().filter(|n| *n < u32::MAX);
        let number = number.ok_or(PlanError::TooMany("vertices"))?;
        let (mut loads, mut sizes) = (self.load_total, self.bytes_total);
        add(&mut loads, load, "loads")?;
        add(&mut sizes, bytes, "bytes")?;
        (self.load_total, self.bytes_total) = (loads, sizes);
        self.loads.push(load);
        self.bytes.push(bytes);
        self.owners.push(owner);
        Ok(Vertex(number))
    }

    /// Adds `weight` to the edge between two vertices.
    ///
    /// # Errors
    /// For vertices that were not added, equal ones, weight 0, too many edges, or past [`TOTAL_MAX`] in sum.
    pub fn edge(&mut self, a: Vertex, b: Vertex, weight: u64) -> Result<(), PlanError> {
        let unknown = [a, b].into_iter().find(|v| v.index() >= self.loads.len());
        if let Some(unknown) = unknown {
            return Err(PlanError::UnknownVertex(unknown.0));
        }
        if a == b {
            return Err(PlanError::SelfLoop(a.0));
        }
        if weight == 0 {
            return Err(PlanError::EmptyEdge(a.0, b.0));
        }
        // Each takes two places in the rows, which 32-bit offsets count.
        if self.edges.len() >= (u32::MAX / 2) as usize {
            return Err(PlanError::TooMany("places for edges"));
        }
        add(&mut self.weight_total, weight, "edge weights")?;
        let (low, high) = (a.0.min(b.0), a.0.max(b.0));
        self.edges.push((u64::from(low) << 32 | u64::from(high), weight));
        Ok(())
    }

    /// The graph. O(E log E).
    pub fn build(mut self) -> AccessGraph {
        self.edges.sort_unstable_by_key(|(ends, _)| *ends);
        self.edges.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        let count = self.loads.len();
        let mut offsets = vec![0u32; count + 1];
        let split = |ends: u64| ((ends >> 32) as usize, ends as u32 as usize);
        for (ends, _) in &self.edges {
            let (low, high) = split(*ends);
            offsets[low + 1] += 1;
            offsets[high + 1] += 1;
        }
        for at in 1..=count {
            offsets[at] += offsets[at - 1];
        }
        let mut next = offsets.clone();
        let (mut ends, mut weights) = (vec![0; 2 * self.edges.len()], vec![0; 2 * self.edges.len()]);
        // Sorted by (low, high): first the lower neighbours of each vertex, then the higher ones, so that rows come out sorted.
        for lower in [true, false] {
            for (pair, weight) in &self.edges {
                let (low, high) = split(*pair);
                let (row, end) = if lower { (high, low) } else { (low, high) };
                ends[next[row] as usize] = end as u32;
                weights[next[row] as usize] = *weight;
                next[row] += 1;
            }
        }
        AccessGraph {
            offsets,
            ends,
            weights,
            loads: self.loads,
            bytes: self.bytes,
            owners: self.owners,
            load_total: self.load_total,
            bytes_total: self.bytes_total,
            weight_total: self.weight_total,
        }
    }
}
