//! Archiving: what is in the log of edges comes into the logs of sections.
//!
//! Sorting a long log takes long, so that it is done without the gate, and others log on: whoever archives takes all edges out of the log
//! under the gate, and brings them in piece by piece afterwards. Only what came meanwhile is archived under the gate, by who needs all of it: a
//! snapshot, or a batch with which a vertex goes.
//!
//! Invariants:
//! 1. Edges are out of the log and not in the sections only in the hands of who holds `archiving`. So they come into the sections in their
//!    order, and who holds `archiving` and the gate, and has emptied the log, finds all edges there.
//! 2. Nobody waits for `archiving` who holds the gate, names or anything of a section. Who holds the turn of a kept graph may (a batch with
//!    which a vertex goes): who archives waits for no turn.

use std::sync::{MutexGuard, PoisonError, TryLockError};

use super::edge_log::EdgeLog;
use super::layout::{Layout, VERTICES};
use super::{Changing, Due, Gate};
use crate::Edge;

impl<L: Layout> Changing<L> {
    /// From now on nobody else archives.
    pub(super) fn archiving(&self) -> MutexGuard<'_, ()> {
        self.archiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Archive the log of edges if it is long enough, while others log on. If somebody else is at it, that is waited for only when the log is
    /// far too long. What is worth merging afterwards.
    pub(super) fn archive_due(&self) -> Due {
        let mut due = Due::default();
        let archiving = match self.archiving.try_lock() {
            Ok(archiving) => archiving,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if !self.gate().log.is_far_too_long() {
                    return due;
                }
                self.archiving()
            }
        };
        let next = self.tuning.edges_due(self.out.edges());
        let edges = {
            let mut gate = self.gate();
            if !gate.log.is_due() {
                return due;
            }
            gate.log.set_due(next);
            gate.log.take()
        };
        self.bring(&edges, &mut due);
        drop(archiving);
        due
    }

    /// Archive all of the log of edges while others log on. Nobody else archives until the guard goes; `None` where there is no such log.
    pub(super) fn archive_ahead(&self, due: &mut Due) -> Option<MutexGuard<'_, ()>> {
        L::LOGS_EDGES.then(|| {
            let archiving = self.archiving();
            let edges = self.gate().log.take();
            self.bring(&edges, due);
            archiving
        })
    }

    /// The same under `archiving` and the gate: afterwards all edges are in the sections.
    pub(super) fn archive(&self, gate: &mut Gate, due: &mut Due) {
        self.bring(&gate.log.take(), due);
    }

    /// Bring edges that were taken out of the log into the logs of sections.
    pub(super) fn bring(&self, edges: &[Edge], due: &mut Due) {
        if edges.is_empty() {
            return;
        }
        let vertices = self.out.room();
        let sections = vertices.div_ceil(VERTICES);
        EdgeLog::unpacked(edges, |piece| {
            self.append(&self.grouped(piece, vertices), due);
            // A section may be due after each piece.
            due.name_once(2 * sections);
        });
        due.name_once(0);
    }
}

impl Due {
    /// Name each section once in the lists that name more than `most`.
    fn name_once(&mut self, most: usize) {
        for sections in self.sections.iter_mut().filter(|sections| sections.len() > most) {
            sections.sort_unstable();
            sections.dedup();
        }
    }
}
