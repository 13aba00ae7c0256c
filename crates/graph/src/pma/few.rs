//! Batches of few updates: taken in under the gate at once, without memory of their own.
//!
//! A larger batch is looked up and sorted by sections before it takes the gate, so that it holds that for a copy only. With few updates that
//! costs more than it spares: memory for lists of one, and names locked twice.
//!
//! Invariant: a batch leaves what [`Changing::apply`] would leave. What is not an edge between vertices that are there goes the same way as there.

use std::sync::atomic::Ordering::Relaxed;

use biombo_base::Result;

use super::edge_log::EdgeLog;
use super::record::FEW;
use super::side::Stored;
use super::{Changing, Due, Gate, Layout, Update};
use crate::VERTICES_MAX;

impl<L: Layout> Changing<L> {
    /// Whether `updates` may be taken in as few: they are, and they take no vertex away, which may need more than the gate.
    pub(super) fn are_few(updates: &[Update]) -> bool {
        updates.len() <= FEW && !updates.iter().any(|update| matches!(update, Update::DeleteVertex(_)))
    }

    /// As [`check_room`](Self::check_room), and without a lock where there is room for as many vertices as updates may bring.
    pub(super) fn check_room_for_few(&self, updates: &[Update]) -> Result<()> {
        match self.seen.load(Relaxed) + 2 * updates.len() <= VERTICES_MAX {
            true => Ok(()),
            false => self.check_room(updates),
        }
    }

    /// Take a batch of few in, as [`are_few`](Self::are_few) says. Its number, and what is worth merging now.
    pub(super) fn admit_few(&self, updates: &[Update]) -> Result<(u64, Due)> {
        let mut due = Due::default();
        let mut gate = self.gate();
        gate.sequence += 1;
        self.check_room_for_few(updates)?;
        match self.known(updates) {
            Some((edges, count)) => self.append_few(&mut gate, &edges[..count], &mut due),
            None => self.take_in(&mut gate, updates.iter(), &mut due),
        }
        Ok((gate.sequence, due))
    }

    /// The edges that change, and how many: when all are between vertices that are there.
    fn known(&self, updates: &[Update]) -> Option<([Stored; FEW], usize)> {
        let (mut edges, mut count) = ([(0, 0, false); FEW], 0);
        let names = self.names();
        for update in updates {
            let (source, target, appears) = update.edge()?;
            let edge = (names.number(source)?, names.number(target)?, appears);
            if self.is_kept(edge) {
                edges[count] = edge;
                count += 1;
            }
        }
        Some((edges, count))
    }

    fn append_few(&self, gate: &mut Gate, edges: &[Stored], due: &mut Due) {
        if L::LOGS_EDGES {
            edges.iter().for_each(|edge| gate.log(&[EdgeLog::pack(*edge)], due));
            return;
        }
        let turned = |edge: &Stored| (edge.1, edge.0, edge.2);
        let [out_due, inward_due] = &mut due.sections;
        match &self.inward {
            Some(inward) => {
                self.out.append_few(edges.iter().copied(), out_due);
                inward.append_few(edges.iter().map(turned), inward_due);
            }
            // Both directions of an edge one after the other, a loop once: as in a large batch.
            None => {
                let both = |edge: &Stored| [Some(*edge), (edge.0 != edge.1).then(|| turned(edge))];
                self.out.append_few(edges.iter().flat_map(both).flatten(), out_due);
            }
        }
    }
}
