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

/// The node with the fewest edges, the first of several.
fn least(edges: &[u64]) -> usize {
    (0..edges.len()).min_by_key(|node| edges[*node]).unwrap_or(0)
}

/// The node with the most.
fn most(edges: &[u64]) -> usize {
    (0..edges.len()).max_by_key(|node| edges[*node]).unwrap_or(0)
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

    /// The same owners for a graph that has changed, of which `load` was taken: vertices that came since belong to nodes with the fewest edges.
    /// And when a node has more than `1 + drift` times its share, units go from the fullest to the least full until none has more than half of
    /// that excess, or no unit fits: the fewest, for each one is the largest that does. How many went. Striped vertices stay as they are.
    /// O(units + moves * units).
    pub fn rebalanced(&self, load: &Load, drift: f64) -> (Self, usize) {
        let mut owners = self.clone();
        if self.nodes == 1 || self.is_striped {
            return (owners, 0);
        }
        let shift = unit_shift(load.vertices);
        if shift != self.shift {
            // Units have become larger or smaller: each belongs where its first vertex did.
            let of = |unit: usize| self.by_unit.get((unit << shift) >> self.shift).copied();
            owners.by_unit = (0..load.by_unit.len()).map_while(of).collect();
            owners.shift = shift;
        }
        owners.by_unit.truncate(load.by_unit.len());
        let mut edges = vec![0u64; self.nodes];
        owners.by_unit.iter().zip(&load.by_unit).for_each(|(node, more)| edges[usize::from(*node)] += more);
        for more in &load.by_unit[owners.by_unit.len()..] {
            let least = least(&edges);
            owners.by_unit.push(least as u8);
            edges[least] += more;
        }
        let share = load.edges() as f64 / self.nodes as f64;
        let mut goal = 1.0 + drift;
        let mut moved = 0;
        loop {
            let (fullest, least) = (most(&edges), least(&edges));
            if edges[fullest] as f64 <= share * goal {
                return (owners, moved);
            }
            goal = 1.0 + drift / 2.0;
            // Whatever is larger would only change who is the fullest.
            let room = (edges[fullest] - edges[least]) / 2;
            let fits =
                |(unit, of): &(usize, &u64)| usize::from(owners.by_unit[*unit]) == fullest && (1..=room).contains(*of);
            let largest = load.by_unit.iter().enumerate().filter(fits).max_by_key(|(unit, of)| (**of, *unit));
            let Some((unit, of)) = largest else { return (owners, moved) };
            owners.by_unit[unit] = least as u8;
            edges[fullest] -= of;
            edges[least] += of;
            moved += 1;
        }
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
