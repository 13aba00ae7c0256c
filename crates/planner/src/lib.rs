//! Which unit belongs to which part, and whether moving it is worth its while.
//!
//! Pure: no files, no threads, no clock; nothing is known of stores or engines. A unit is a vertex of an [`AccessGraph`] with a load, a
//! size and a present owner; an edge says how often two units are touched together. From there to a decision:
//!
//! 1. a [`Planner`], chosen by name ([`planner`]), gives each unit a part;
//! 2. [`relabel`] names the parts so that the fewest bytes move;
//! 3. [`Objective::assess`] says what a plan comes to: load over parts and workers, edges cut, bytes to move;
//! 4. [`CostModel::propose`] drops moves that gain nothing and keeps the best ones that a budget of bytes allows;
//! 5. a [`Governor`] lets a plan pass only if what it is predicted to save exceeds what it will cost, and corrects itself by what came.

#![forbid(unsafe_code)]

mod assess;
mod cost;
mod error;
mod govern;
mod graph;
mod planners;
mod random;
mod relabel;
mod request;
mod trim;

pub use assess::{Assessment, Objective};
pub use cost::{CostModel, Prices, Proposal};
pub use error::PlanError;
pub use govern::{Governor, Outcome, Rules, Verdict};
pub use graph::{AccessGraph, GraphBuilder, Part, TOTAL_MAX, Vertex};
pub use planners::{Planner, planner, planners};
pub use relabel::relabel;
pub use request::{PARTS_MAX, Request, Start};
pub use trim::tied_moves;
