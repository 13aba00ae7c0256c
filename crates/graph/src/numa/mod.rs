//! Vertices dealt to NUMA nodes: where they are walked over, and where their memory lies.
//!
//! A [`Placement`] says which node has which vertex ([`Owners`]); [`Placed`] is a view of any layout whose blocks are dealt accordingly;
//! a [`Standing`] placement follows a graph that changes;
//! a [`Team`](crate::team::Team) whose threads are bound to nodes ([`Bind`](crate::team::Bind)) walks over each node's vertices there;
//! an [`Allocation`] says how lists and results come to lie on the nodes of their vertices.
//!
//! Invariants:
//! 1. Placement, nodes, binding and allocation change who does what and where memory lies, never an answer: sums follow
//!    [`Blocks`](crate::view::Blocks), which depend on degrees alone.
//! 2. What a machine cannot do, for want of nodes or of permission, is left out and said; nothing fails for it.
//!
//! Sources: the comparison of placements and bindings is that of a dissertation on DGAP and NUMA (2025), whose round robin deals single
//! vertices. Blocks of at least 1,024 vertices dealt in turn balance about as well, and no two nodes write one cache line.

mod auto;
mod memory;
mod owners;
mod placed;
mod standing;

use std::fmt;
use std::str::FromStr;

use biombo_base::{Error, Result};

pub use auto::{Choice, Work, choose};
pub(crate) use memory::Place;
pub use memory::{Allocation, Home, Memory, Spreading};
pub use owners::{Load, Owners};
pub use placed::Placed;
pub use standing::{Kept, Standing};

/// Which node has which vertex, as a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The first share of the vertices, the second one, ...
    Block,
    /// Vertex v belongs to node v modulo the number of nodes.
    RoundRobin,
    /// Units of at least 1,024 vertices in turn.
    BlockCyclic,
    /// The first share, the second one, ..., each with about as many edges.
    Degree,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Block, Self::RoundRobin, Self::BlockCyclic, Self::Degree];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::RoundRobin => "round-robin",
            Self::BlockCyclic => "block-cyclic",
            Self::Degree => "degree",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no placement {name:?}: there are {names}"))
        })
    }
}

#[cfg(test)]
mod tests;
