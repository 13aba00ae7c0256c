//! The log of a graph whose layout archives in batches: edges as they came, each once, whatever lists will have them.
//!
//! A batch costs a copy of 8 bytes an edge under the gate. When the log is long enough, or somebody wants to see the graph, it is *archived*: its
//! edges are sorted into the logs of both ends' sections, in their order, piece by piece, so that it takes little memory
//! ([`archive`](super::archive)).

use std::mem;

use super::side::Stored;
use super::tuning::Tuning;
use crate::Edge;

/// Edges that are sorted into sections at once.
const PIECE: usize = 1 << 16;

/// Set in the source of an edge that disappears: numbers of vertices have 31 bits.
const DISAPPEARS: u32 = 1 << 31;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EdgeLog {
    edges: Vec<Edge>,
    /// So many are worth archiving.
    due: usize,
}

impl EdgeLog {
    /// Without edges; so many will be worth archiving.
    pub(super) fn new(due: usize) -> Self {
        Self { edges: Vec::new(), due }
    }

    /// Changes of edges as they stand in a log.
    pub(super) fn packed(changes: impl Iterator<Item = Stored>) -> Vec<Edge> {
        changes.map(Self::pack).collect()
    }

    /// A change of an edge as it stands in a log.
    pub(super) fn pack((source, target, appears): Stored) -> Edge {
        [if appears { source } else { source | DISAPPEARS }, target]
    }

    /// Append changes. O(changes).
    pub(super) fn append(&mut self, packed: &[Edge]) {
        let needed = self.edges.len() + packed.len();
        let room = self.edges.capacity();
        if needed > room {
            let wanted = match needed <= self.due {
                // Twice as much at a time, but no more than is going to be used: the log is a share of the graph's memory.
                true => (2 * room).min(self.due).max(needed),
                // One batch is that large, or archiving is slower than those who log.
                false => (room + room / 2).max(needed),
            };
            self.edges.reserve_exact(wanted - self.edges.len());
        }
        self.edges.extend_from_slice(packed);
    }

    pub(super) fn is_due(&self) -> bool {
        self.edges.len() >= self.due
    }

    /// Whether who logs waits for who archives.
    pub(super) fn is_far_too_long(&self) -> bool {
        self.edges.len() > Tuning::BEHIND * self.due
    }

    /// So many will be worth archiving next time.
    pub(super) fn set_due(&mut self, due: usize) {
        self.due = due;
    }

    /// All changes as they stand in it, which are in it no more.
    pub(super) fn take(&mut self) -> Vec<Edge> {
        mem::take(&mut self.edges)
    }

    /// Hand out the changes that were `packed` in their order, piece by piece.
    pub(super) fn unpacked(packed: &[Edge], mut take: impl FnMut(&[Stored])) {
        let mut piece = Vec::with_capacity(packed.len().min(PIECE));
        for edges in packed.chunks(PIECE) {
            piece.clear();
            piece.extend(edges.iter().map(|[end, target]| (end & !DISAPPEARS, *target, end & DISAPPEARS == 0)));
            take(&piece);
        }
    }

    /// How much memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.edges.capacity() * size_of::<Edge>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_out_as_they_came_in() {
        let mut log = EdgeLog::new(3);
        let changes: Vec<Stored> = (0..PIECE as u32 * 2 + 5).map(|n| (n, (1 << 31) - 1 - n, n % 3 != 0)).collect();
        log.append(&EdgeLog::packed(changes[..2].iter().copied()));
        assert!(!log.is_due());
        log.append(&EdgeLog::packed(changes[2..].iter().copied()));
        assert!(log.is_due() && log.is_far_too_long() && log.memory_bytes() >= 8 * changes.len());
        let (mut taken, mut pieces) = (Vec::new(), 0);
        EdgeLog::unpacked(&log.take(), |piece| {
            taken.extend_from_slice(piece);
            pieces += 1;
        });
        assert!(taken == changes && pieces == 3);
        assert!(!log.is_due() && log.take().is_empty() && log.memory_bytes() == 0);
    }

    #[test]
    fn a_log_takes_single_changes_in_without_moving_for_each_and_has_no_room_past_what_is_due() {
        let mut log = EdgeLog::new(1000);
        let (mut moves, mut room) = (0, 0);
        for n in 0..4000u32 {
            log.append(&[[n, n]]);
            moves += usize::from(log.memory_bytes() != room);
            room = log.memory_bytes();
            assert!(n >= 1000 || room <= 8 * 1000, "{room} bytes for {n} edges");
        }
        assert!(moves < 20 && log.is_due() && !log.is_far_too_long(), "{moves} moves");
    }
}
