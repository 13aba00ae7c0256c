//! Which node has which vertex.

use super::Placement;
use crate::team::Team;
use crate::view::{Lists, View, unit_shift};

/// The most nodes: those of a `biombo_base::topology::Spread`.
const NODES_MAX: usize = 64;

/// How many edges the vertices of each unit have, and how many vertices there are: what placements are made from. The edges are those
/// that lead to a vertex, which pulling kernels read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    vertices: usize,
    by_unit: Vec<u64>,
}

/// The node of each vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    nodes: usize,
    /// Each vertex for itself, by its number modulo the nodes.
    is_striped: bool,
    shift: u32,
    /// Of each unit, unless vertices are striped or there is one node.
    by_unit: Vec<u8>,
}

impl Load {
    /// Of a graph. O(vertices), shared by the team.
    pub fn of<V: View>(view: &V, team: &mut Team) -> Self {
        let (vertices, lists) = (view.vertices(), view.in_lists());
        let unit = 1usize << unit_shift(vertices);
        let by_unit = team.map(vertices.div_ceil(unit), |_, number| {
            let members = number * unit..((number + 1) * unit).min(vertices);
            members.map(|vertex| lists.degree(vertex as u32) as u64).sum()
        });
        Self { vertices, by_unit }
    }

    /// All edges.
    pub fn edges(&self) -> u64 {
        self.by_unit.iter().sum()
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    #[cfg(test)]
    pub(super) fn of_units(vertices: usize, by_unit: Vec<u64>) -> Self {
        Self { vertices, by_unit }
    }

    /// The edges of each node under a placement of whole units: all but [`Placement::RoundRobin`]. O(units).
    pub(super) fn by_node(&self, owners: &Owners) -> Vec<u64> {
        let mut edges = vec![0; owners.nodes];
        for (unit, more) in self.by_unit.iter().enumerate() {
            edges[owners.node((unit << owners.shift) as u32)] += more;
        }
        edges
    }
}

impl Owners {
    /// One node has all of them.
    pub fn one() -> Self {
        Self { nodes: 1, is_striped: false, shift: 0, by_unit: Vec::new() }
    }

    /// Deal vertices to `nodes` nodes, of which there are at least one and at most 64 (others count as the next of these). O(units).
    pub fn new(placement: Placement, nodes: usize, load: &Load) -> Self {
        let nodes = nodes.clamp(1, NODES_MAX);
        let (units, shift) = (load.by_unit.len(), unit_shift(load.vertices));
        if nodes == 1 {
            return Self::one();
        }
        let total = u128::from(load.edges()).max(1);
        let mut before = 0u128;
        let by_edges = |edges: u64| {
            // A unit is where its middle edge is, at the border of two nodes on the first one.
            let middle = (2 * before + u128::from(edges)) * nodes as u128;
            before += u128::from(edges);
            (middle.saturating_sub(1) / (2 * total)).min(nodes as u128 - 1) as u8
        };
        let by_unit: Vec<u8> = match placement {
            Placement::RoundRobin => Vec::new(),
            Placement::BlockCyclic => (0..units).map(|unit| (unit % nodes) as u8).collect(),
            Placement::Degree if load.edges() > 0 => load.by_unit.iter().copied().map(by_edges).collect(),
            Placement::Block | Placement::Degree => (0..units).map(|unit| (unit * nodes / units) as u8).collect(),
        };
        Self { nodes, is_striped: placement == Placement::RoundRobin, shift, by_unit }
    }

    /// How many nodes there are.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Whether vertices that follow each other are on different nodes, so that they share pages and cache lines.
    #[inline]
    pub fn is_striped(&self) -> bool {
        self.is_striped
    }

    /// The node of a vertex. Vertices that came since the load was taken are the last node's, until it is taken anew.
    #[inline]
    pub fn node(&self, vertex: u32) -> usize {
        if self.nodes == 1 {
            0
        } else if self.is_striped {
            vertex as usize % self.nodes
        } else {
            self.by_unit.get(vertex as usize >> self.shift).map_or(self.nodes - 1, |node| usize::from(*node))
        }
    }

    /// Stretches of vertices below `vertices` that belong to one node, ascending, and that node. Nothing where vertices are striped.
    pub(super) fn stretches(&self, vertices: usize) -> Vec<(std::ops::Range<usize>, usize)> {
        if self.nodes == 1 {
            return vec![(0..vertices, 0)];
        }
        let mut stretches: Vec<(std::ops::Range<usize>, usize)> = Vec::new();
        let there = vertices.div_ceil(1 << self.shift);
        for (unit, node) in self.by_unit.iter().enumerate().take(there) {
            let end = ((unit + 1) << self.shift).min(vertices);
            match stretches.last_mut() {
                Some((range, of)) if *of == usize::from(*node) => range.end = end,
                _ => stretches.push((unit << self.shift..end, usize::from(*node))),
            }
        }
        stretches
    }

    /// How many edges lead to the vertices of each node. O(vertices), shared by the team.
    pub fn edges_by_node<V: View>(&self, view: &V, team: &mut Team) -> Vec<u64> {
        let (blocks, lists) = (view.blocks(), view.in_lists());
        let parts = team.map(blocks.len(), |_, block| {
            let mut edges = vec![0u64; self.nodes];
            blocks.range(block).for_each(|vertex| edges[self.node(vertex)] += lists.degree(vertex) as u64);
            edges
        });
        let mut sum = vec![0; self.nodes];
        parts.iter().for_each(|part| sum.iter_mut().zip(part).for_each(|(sum, more)| *sum += more));
        sum
    }

    #[cfg(test)]
    pub(crate) fn of_degrees(placement: Placement, nodes: usize, degrees: &[u64]) -> Self {
        let by_unit = degrees.chunks(1 << unit_shift(degrees.len())).map(|unit| unit.iter().sum()).collect();
        Self::new(placement, nodes, &Load { vertices: degrees.len(), by_unit })
    }
}
