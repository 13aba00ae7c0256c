//! What can be wrong with what a planner is given, and what to do about it.

use std::fmt;

use crate::graph::TOTAL_MAX;
use crate::request::PARTS_MAX;

/// Why there is no graph, no plan or no governor. New kinds may come: match with a wildcard.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// An edge names a vertex that was not added before.
    UnknownVertex(u32),
    /// An edge from a vertex to itself: it can never be cut, so leave it out.
    SelfLoop(u32),
    /// An edge of weight 0 says nothing: leave it out.
    EmptyEdge(u32, u32),
    /// More vertices or edges than 32-bit numbers tell apart.
    TooMany(&'static str),
    /// The sum of all loads, bytes or edge weights passes [`TOTAL_MAX`]: scale them down.
    TotalTooLarge(&'static str),
    /// A part number of [`PARTS_MAX`] or more.
    UnknownPart(u32),
    /// A request for no part or for more than [`PARTS_MAX`].
    Parts(u32),
    /// A plan or a table of workers for another number of vertices or parts than asked for.
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// The length that it has.
        given: usize,
        /// The length that it should have.
        wanted: usize,
    },
    /// A setting out of its range.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it was set to.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// No planner of this name is built in.
    UnknownPlanner(String),
    /// The library METIS refused or ran out of memory.
    Metis(&'static str),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVertex(vertex) => write!(f, "vertex {vertex} is not in the graph: add it before its edges"),
            Self::SelfLoop(vertex) => {
                write!(f, "an edge from vertex {vertex} to itself can never be cut: leave it out")
            }
            Self::EmptyEdge(a, b) => write!(f, "the edge {a} - {b} has weight 0: leave it out"),
            Self::TooMany(what) => write!(f, "more than {} {what}", u32::MAX),
            Self::TotalTooLarge(what) => write!(f, "the sum of all {what} passes {TOTAL_MAX}: scale them down"),
            Self::UnknownPart(part) => write!(f, "part {part}: parts are numbered from 0 to {}", PARTS_MAX - 1),
            Self::Parts(parts) => write!(f, "a plan has 1 to {PARTS_MAX} parts, not {parts}"),
            Self::Length { what, given, wanted } => write!(f, "{what} has {given} entries instead of {wanted}"),
            Self::Setting { name, value, range } => write!(f, "{name} is {value}: give {range}"),
            Self::UnknownPlanner(name) => {
                let known: Vec<_> = crate::planners().iter().map(|planner| planner.name()).collect();
                write!(f, "no planner is called {name:?}: there are {}", known.join(", "))
            }
            Self::Metis(what) => write!(f, "METIS: {what}"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Refuses `value` out of `least..=most`, and what is no number.
pub(crate) fn within(
    name: &'static str,
    value: f64,
    least: f64,
    most: f64,
    range: &'static str,
) -> Result<f64, PlanError> {
    if value >= least && value <= most { Ok(value) } else { Err(PlanError::Setting { name, value, range }) }
}
