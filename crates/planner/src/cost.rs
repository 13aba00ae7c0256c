//! What a plan saves and what it costs, in nanoseconds of foreground work, and the best part of it within a budget.
//!
//! The model is linear: each crossing of an edge costs so much, each unit of load above the average waits so long, each byte moved slows
//! the foreground by so much. Its prices come from measuring; the [`Governor`](crate::Governor) corrects them by what came.

use crate::assess::{Assessment, Objective};
use crate::error::{PlanError, within};
use crate::graph::{AccessGraph, Part};
use crate::trim::trim;

/// What things cost, in nanoseconds of foreground work. All are finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// For a unit of edge weight that is cut: what two parts together cost more than one.
    pub crossing_ns: f64,
    /// For a unit of load that a part has above the average; 0 where parts have room.
    pub part_overload_ns: f64,
    /// For a unit of load that a worker has above the average; 0 where workers have room.
    pub worker_overload_ns: f64,
    /// For a byte that moves.
    pub byte_ns: f64,
    /// For each pair of parts that units move between: a pass over the source, which finds the units.
    pub pass_ns: f64,
}

/// Prices, the time that they are summed over, and how much one plan may move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    prices: Prices,
    window_ns: f64,
    horizon_ns: f64,
    budget_bytes: u64,
}

/// A plan with what it is predicted to give.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The part of each vertex.
    pub plan: Vec<Part>,
    /// What the present placement comes to.
    pub before: Assessment,
    /// What the plan comes to.
    pub after: Assessment,
    /// The foreground work that it saves over the horizon.
    pub saving_ns: f64,
    /// The foreground work that moving takes.
    pub cost_ns: f64,
    /// The horizon.
    pub horizon_ns: f64,
}

impl CostModel {
    /// `prices`, for graphs that were gathered over `window_ns`, with plans that are expected to serve for `horizon_ns` and may move
    /// `budget_bytes`.
    ///
    /// # Errors
    /// If a price is negative or no number, or a time is not from 1 ns to 10^18 ns.
    pub fn new(prices: Prices, window_ns: f64, horizon_ns: f64, budget_bytes: u64) -> Result<Self, PlanError> {
        let Prices { crossing_ns, part_overload_ns, worker_overload_ns, byte_ns, pass_ns } = prices;
        for (name, price) in [
            ("crossing_ns", crossing_ns),
            ("part_overload_ns", part_overload_ns),
            ("worker_overload_ns", worker_overload_ns),
            ("byte_ns", byte_ns),
            ("pass_ns", pass_ns),
        ] {
            within(name, price, 0.0, 1e18, "0 to 10^18")?;
        }
        within("window_ns", window_ns, 1.0, 1e18, "1 to 10^18")?;
        within("horizon_ns", horizon_ns, 1.0, 1e18, "1 to 10^18")?;
        Ok(Self { prices, window_ns, horizon_ns, budget_bytes })
    }

    /// What it is worth over the horizon to have one unit of edge weight less cut, and one unit of load less above the average of the
    /// parts and of the workers.
    pub(crate) fn worth_ns(&self) -> (f64, f64, f64) {
        let windows = self.horizon_ns / self.window_ns;
        let Prices { crossing_ns, part_overload_ns, worker_overload_ns, .. } = self.prices;
        (crossing_ns * windows, part_overload_ns * windows, worker_overload_ns * windows)
    }

    pub(crate) fn prices(&self) -> &Prices {
        &self.prices
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// What a placement costs over the horizon, moving apart.
    pub fn running_ns(&self, assessment: &Assessment) -> f64 {
        let (crossing, part, worker) = self.worth_ns();
        crossing * assessment.cut as f64 + part * assessment.part_overload + worker * assessment.worker_overload
    }

    /// What it costs to get there.
    pub fn moving_ns(&self, assessment: &Assessment) -> f64 {
        self.prices.byte_ns * assessment.moved_bytes as f64 + self.prices.pass_ns * assessment.ways as f64
    }

    /// The best of `plan` that the budget allows: all of it, or those of its moves that gain the most for a byte. A proposal may be to move
    /// nothing.
    ///
    /// Moves that a smaller number of parts forces are no proposals: carry the [relabelled](crate::relabel) plan out as it is.
    ///
    /// # Errors
    /// If the plan or the present owners do not fit the graph and the objective.
    pub fn propose(&self, graph: &AccessGraph, plan: &[Part], objective: &Objective) -> Result<Proposal, PlanError> {
        let before = objective.assess(graph, graph.owners())?;
        let whole = self.proposal(graph, plan.to_vec(), objective, &before)?;
        let trimmed = self.proposal(graph, trim(graph, plan, objective, self), objective, &before)?;
        let net = |proposal: &Proposal| proposal.saving_ns - proposal.cost_ns;
        let fits = whole.after.moved_bytes <= self.budget_bytes;
        Ok(if fits && net(&whole) > net(&trimmed) { whole } else { trimmed })
    }

    fn proposal(
        &self,
        graph: &AccessGraph,
        plan: Vec<Part>,
        objective: &Objective,
        before: &Assessment,
    ) -> Result<Proposal, PlanError> {
        let after = objective.assess(graph, &plan)?;
        Ok(Proposal {
            saving_ns: self.running_ns(before) - self.running_ns(&after),
            cost_ns: self.moving_ns(&after),
            horizon_ns: self.horizon_ns,
            before: before.clone(),
            after,
            plan,
        })
    }
}
