//! What is asked of a planner.

use crate::error::{PlanError, within};
use crate::graph::{AccessGraph, Part};

/// The most parts of a plan.
pub const PARTS_MAX: u32 = 1024;

/// Where a planner that goes on from a plan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With nothing placed.
    Fresh,
    /// With every unit where it is now.
    Present,
}

/// What is asked of a planner: how many parts, how even, with which seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    parts: u32,
    slack: f64,
    seed: u64,
    start: Start,
}

impl Request {
    /// A plan with `parts` parts; slack 0.05, seed 0, a fresh start.
    ///
    /// # Errors
    /// Unless `parts` is from 1 to [`PARTS_MAX`].
    pub fn new(parts: u32) -> Result<Self, PlanError> {
        if parts == 0 || parts > PARTS_MAX {
            return Err(PlanError::Parts(parts));
        }
        Ok(Self { parts, slack: 0.05, seed: 0, start: Start::Fresh })
    }

    /// How much more than the average a part may carry, as a share of the average.
    ///
    /// # Errors
    /// Unless it is from 0.001 to 10.
    pub fn slack(self, slack: f64) -> Result<Self, PlanError> {
        Ok(Self { slack: within("slack", slack, 0.001, 10.0, "0.001 to 10")?, ..self })
    }

    /// The seed of every random choice: the same graph, request and seed give the same plan.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Where `fennel` and `ldg` begin; the others begin afresh always.
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// How many parts.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    pub(crate) fn seed_value(&self) -> u64 {
        self.seed
    }

    #[cfg(feature = "metis")]
    pub(crate) fn slack_value(&self) -> f64 {
        self.slack
    }

    /// Where each unit begins, if not nowhere: owners that the plan has no part for count as nowhere.
    pub(crate) fn first(&self, graph: &AccessGraph) -> Vec<Option<Part>> {
        match self.start {
            Start::Fresh => vec![None; graph.len()],
            Start::Present => graph.owners().iter().map(|owner| Some(*owner).filter(|o| o.0 < self.parts)).collect(),
        }
    }

    /// The load that the slack allows a part.
    pub(crate) fn capacity(&self, graph: &AccessGraph) -> f64 {
        (1.0 + self.slack) * graph.load_total() as f64 / f64::from(self.parts)
    }

    /// The load that no part of a plan passes, whichever planner but `hash` made it: the larger of what the slack allows,
    /// `(1 + slack) * average`, and what one indivisible unit may need, `average + the largest load`.
    pub fn load_bound(&self, graph: &AccessGraph) -> f64 {
        let average = graph.load_total() as f64 / f64::from(self.parts);
        self.capacity(graph).max(average + graph.load_max() as f64)
    }
}
