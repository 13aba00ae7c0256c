//! What a plan comes to: how even the loads are over parts and workers, what is cut, what has to move.

use std::collections::BTreeSet;

use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::relabel::check;
use crate::request::PARTS_MAX;

/// What a plan is judged by: how many parts there are, and which worker runs each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// The worker of each part.
    workers: Vec<u32>,
    count: u32,
}

impl Objective {
    /// `parts` parts, each with a worker of its own: callers run to completion.
    ///
    /// # Errors
    /// Unless `parts` is from 1 to [`PARTS_MAX`].
    pub fn new(parts: u32) -> Result<Self, PlanError> {
        if parts == 0 || parts > PARTS_MAX {
            return Err(PlanError::Parts(parts));
        }
        Ok(Self { workers: (0..parts).collect(), count: parts })
    }

    /// The same parts on `count` workers: `of_part[i]` runs part `i`. Which worker is best for which part is a plan, too: of a graph whose
    /// units are the parts, with their loads, and whose parts are the workers; `greedy` and [`relabel`](crate::relabel) answer it.
    ///
    /// # Errors
    /// If `of_part` has another length than there are parts, or names a worker of `count` or more.
    pub fn workers(self, of_part: &[u32], count: u32) -> Result<Self, PlanError> {
        if of_part.len() != self.workers.len() {
            let (given, wanted) = (of_part.len(), self.workers.len());
            return Err(PlanError::Length { what: "the table of workers", given, wanted });
        }
        if let Some(worker) = of_part.iter().find(|worker| **worker >= count) {
            let (name, value) = ("a part's worker", f64::from(*worker));
            return Err(PlanError::Setting { name, value, range: "a number below the count of workers" });
        }
        Ok(Self { workers: of_part.to_vec(), count })
    }

    /// How many parts there are.
    pub fn parts(&self) -> u32 {
        self.workers.len() as u32
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> u32 {
        self.count
    }

    /// Who runs a part.
    pub(crate) fn worker(&self, part: Part) -> usize {
        self.workers[part.index()] as usize
    }

    /// What `plan` comes to on `graph`. O(V + E + parts).
    ///
    /// # Errors
    /// If the plan has another length than the graph or names a part that there is not.
    pub fn assess(&self, graph: &AccessGraph, plan: &[Part]) -> Result<Assessment, PlanError> {
        check(graph, plan, self.parts())?;
        let part_loads = graph.loads_of(plan, self.parts());
        let mut worker_loads = vec![0; self.count as usize];
        for (part, load) in part_loads.iter().enumerate() {
            worker_loads[self.workers[part] as usize] += load;
        }
        let mut cut_twice = 0u64;
        let (mut moved_bytes, mut moved_units, mut ways) = (0, 0, BTreeSet::new());
        for vertex in graph.vertices() {
            let part = plan[vertex.index()];
            let cut: u64 = graph
                .neighbours(vertex)
                .filter(|(other, _)| plan[other.index()] != part)
                .map(|(_, weight)| weight)
                .sum();
            cut_twice += cut;
            if graph.owner(vertex) != part {
                moved_bytes += graph.bytes(vertex);
                moved_units += 1;
                ways.insert((graph.owner(vertex), part));
            }
        }
        Ok(Assessment {
            part_balance: balance(&part_loads),
            worker_balance: balance(&worker_loads),
            part_overload: overload(&part_loads),
            worker_overload: overload(&worker_loads),
            cut: cut_twice / 2,
            weight_total: graph.weight_total(),
            moved_bytes,
            moved_units,
            ways: ways.len() as u64,
            part_loads,
            worker_loads,
        })
    }
}

/// What a plan comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// The load of each part.
    pub part_loads: Vec<u64>,
    /// The load of each worker.
    pub worker_loads: Vec<u64>,
    /// The heaviest part's load over the average; 1 is even.
    pub part_balance: f64,
    /// The heaviest worker's load over the average; 1 is even.
    pub worker_balance: f64,
    /// The load above the average, summed over the parts: what would have to move for evenness.
    pub part_overload: f64,
    /// The load above the average, summed over the workers.
    pub worker_overload: f64,
    /// The weight of the edges whose ends are in different parts.
    pub cut: u64,
    /// The weight of all edges.
    pub weight_total: u64,
    /// The bytes of the units that change their part.
    pub moved_bytes: u64,
    /// How many units change their part.
    pub moved_units: u64,
    /// How many pairs of parts units move between: each is a pass over its source.
    pub ways: u64,
}

impl Assessment {
    /// The share of the edge weight that is cut, 0 to 1.
    pub fn cut_share(&self) -> f64 {
        if self.weight_total == 0 { 0.0 } else { self.cut as f64 / self.weight_total as f64 }
    }
}

fn mean(loads: &[u64]) -> f64 {
    loads.iter().sum::<u64>() as f64 / loads.len() as f64
}

/// The largest over the average; 1 where there is no load.
fn balance(loads: &[u64]) -> f64 {
    let mean = mean(loads);
    if mean == 0.0 { 1.0 } else { loads.iter().copied().max().unwrap_or(0) as f64 / mean }
}

fn overload(loads: &[u64]) -> f64 {
    let mean = mean(loads);
    loads.iter().map(|load| (*load as f64 - mean).max(0.0)).sum()
}
