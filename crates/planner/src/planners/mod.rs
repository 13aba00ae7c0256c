//! The planners, one file and one source each, behind one trait and one table of names.

mod fennel;
mod greedy;
mod hash;
mod ldg;
#[cfg(feature = "metis")]
mod metis;
mod multilevel;
mod range;
mod stream;

use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::request::Request;

/// Gives each unit a part.
pub trait Planner: Send + Sync {
    /// What it is called: in options, in records, on the command line.
    fn name(&self) -> &'static str;

    /// The part of each vertex, in the order of the vertices. The same graph and request give the same plan.
    ///
    /// Labels are arbitrary: [`relabel`](crate::relabel) matches them to the present owners. No part but of `hash` carries more than
    /// [`Request::load_bound`]; parts may be empty.
    ///
    /// # Errors
    /// Only `metis` fails: for graphs past its 32-bit numbers, and when it has no memory.
    fn plan(&self, graph: &AccessGraph, request: &Request) -> Result<Vec<Part>, PlanError>;
}

/// All that are built in: the sturdiest first, the baselines last.
pub fn planners() -> &'static [&'static dyn Planner] {
    &[
        #[cfg(feature = "metis")]
        &metis::Metis,
        &multilevel::Multilevel,
        &fennel::Fennel,
        &ldg::Ldg,
        &greedy::Greedy,
        &hash::Hash,
        &range::Range,
    ]
}

/// The planner of a name.
///
/// ```
/// use biombo_planner::{GraphBuilder, Part, Request, planner};
///
/// let mut builder = GraphBuilder::new();
/// for load in [5, 4, 3, 3, 3] {
///     builder.vertex(load, 0, Part(0))?;
/// }
/// let graph = builder.build();
/// let plan = planner("greedy")?.plan(&graph, &Request::new(2)?)?;
/// assert_eq!(graph.loads_of(&plan, 2).into_iter().max(), Some(10));
/// # Ok::<(), biombo_planner::PlanError>(())
/// ```
///
/// # Errors
/// If none has it; the message lists those that there are.
pub fn planner(name: &str) -> Result<&'static dyn Planner, PlanError> {
    let found = planners().iter().find(|planner| planner.name() == name);
    found.copied().ok_or_else(|| PlanError::UnknownPlanner(name.to_owned()))
}
