//! Names for the parts of a plan so that the fewest bytes move.
//!
//! A planner's labels are arbitrary: what it calls part 3 may be nearly what is part 7 now. Naming is an assignment problem: each of the
//! plan's parts gets one label, and giving part `i` the label `j` keeps the bytes of those of `i`'s units that are in `j` already. Solved by
//! the Hungarian method in the form of shortest augmenting paths (Kuhn, "The Hungarian method for the assignment problem", 1955; Jonker and
//! Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems", Computing 1987), O(k^3) in time
//! and O(k^2) in memory for k parts.

use crate::error::PlanError;
use crate::graph::{AccessGraph, Part};
use crate::request::PARTS_MAX;

/// The same plan under the labels that keep the most bytes where they are, and of those the one that keeps the most units. Present
/// owners of `parts` or more keep nothing: those parts are no more.
///
/// # Errors
/// If the plan has another length than the graph or names a part of `parts` or more.
///
/// ```
/// use biombo_planner::{GraphBuilder, Part, relabel};
///
/// let mut builder = GraphBuilder::new();
/// for owner in [0, 0, 1] {
///     builder.vertex(1, 1000, Part(owner))?;
/// }
/// let graph = builder.build();
/// // Only the second unit has to move.
/// assert_eq!(relabel(&graph, &[Part(1), Part(0), Part(0)], 2)?, [Part(0), Part(1), Part(1)]);
/// # Ok::<(), biombo_planner::PlanError>(())
/// ```
pub fn relabel(graph: &AccessGraph, plan: &[Part], parts: u32) -> Result<Vec<Part>, PlanError> {
    check(graph, plan, parts)?;
    let k = parts as usize;
    // Bytes first, then units: a unit weighs less than any byte, since there are fewer than 2^32 of them.
    let mut kept = vec![0i128; k * k];
    for vertex in graph.vertices() {
        let owner = graph.owner(vertex);
        if owner.0 < parts {
            kept[plan[vertex.index()].index() * k + owner.index()] += (i128::from(graph.bytes(vertex)) << 32) + 1;
        }
    }
    let labels = assign(k, |row, column| -kept[row * k + column]);
    Ok(plan.iter().map(|part| labels[part.index()]).collect())
}

/// Refuses a plan that is not one of `graph` into `parts`.
pub(crate) fn check(graph: &AccessGraph, plan: &[Part], parts: u32) -> Result<(), PlanError> {
    if parts == 0 || parts > PARTS_MAX {
        return Err(PlanError::Parts(parts));
    }
    if plan.len() != graph.len() {
        return Err(PlanError::Length { what: "the plan", given: plan.len(), wanted: graph.len() });
    }
    plan.iter().find(|part| part.0 >= parts).map_or(Ok(()), |part| Err(PlanError::UnknownPart(part.0)))
}

/// The column of each row in the assignment of least cost. Rows are taken up one by one; each finds the cheapest path of changes to a free
/// column, by reduced costs that the potentials keep non-negative. Numbers from 1, 0 is the row to place and its unreal column.
fn assign(k: usize, cost: impl Fn(usize, usize) -> i128) -> Vec<Part> {
    let (mut row_potential, mut column_potential) = (vec![0i128; k + 1], vec![0i128; k + 1]);
    let mut row_of = vec![0; k + 1];
    let (mut least, mut from, mut done) = (vec![0; k + 1], vec![0; k + 1], vec![false; k + 1]);
    for row in 1..=k {
        least.fill(i128::MAX);
        done.fill(false);
        row_of[0] = row;
        let mut column = 0;
        while row_of[column] != 0 {
            done[column] = true;
            let at = row_of[column];
            let (mut step, mut next) = (i128::MAX, 0);
            for other in 1..=k {
                if done[other] {
                    continue;
                }
                let reduced = cost(at - 1, other - 1) - row_potential[at] - column_potential[other];
                if reduced < least[other] {
                    (least[other], from[other]) = (reduced, column);
                }
                if least[other] < step {
                    (step, next) = (least[other], other);
                }
            }
            for other in 0..=k {
                if done[other] {
                    row_potential[row_of[other]] += step;
                    column_potential[other] -= step;
                } else if other > 0 {
                    least[other] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[from[column]];
            column = from[column];
        }
    }
    let mut labels = vec![Part(0); k];
    for column in 1..=k {
        labels[row_of[column] - 1] = Part(column as u32 - 1);
    }
    labels
}
