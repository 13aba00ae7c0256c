//! The operations of one client thread of a shifting workload.

use std::sync::Arc;

use super::adversary::{Victims, Whereabouts};
use super::clock::{is_crowded, period_at};
use super::groups::Groups;
use super::hot::{Jumps, Window, rotated, scale};
use super::{Common, Shift, ShiftKind};
use crate::workload::{Chooser, Distribution, Inserts, OpKind, Random};

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShiftOperation {
    /// What to do.
    pub kind: OpKind,
    /// The record; of a multi-get or batch, the group.
    pub number: u64,
    /// The period that it falls into.
    pub period: u64,
}

/// The stream of one thread.
#[derive(Debug, Clone)]
pub struct ShiftStream {
    reads: f64,
    share: f64,
    read: OpKind,
    write: OpKind,
    period_ns: u64,
    records: u64,
    choice: Choice,
    // The period of the last operation, and its first hot record.
    period: u64,
    start: u64,
    random: Random,
    spare: Random,
}

/// How records are chosen.
#[derive(Debug, Clone)]
enum Choice {
    Jump { jumps: Jumps, hot: u64 },
    Rotate { hot: u64 },
    Crowd { jumps: Jumps },
    Groups(Groups),
    Latest(Chooser),
    Chosen(Arc<[u64]>),
    Grouped { records: Arc<[u64]>, size: usize },
    Adversary { shared: Arc<super::Adversary>, victims: Arc<Victims> },
}

impl Choice {
    /// The first hot record of `period`, where they are neighbours.
    fn start(&self, period: u64, records: u64) -> u64 {
        match self {
            Self::Jump { jumps, .. } | Self::Crowd { jumps } => jumps.start(period),
            Self::Rotate { hot } => rotated(period, *hot, records),
            _ => 0,
        }
    }
}

impl ShiftStream {
    /// Of `thread` under `seed`, over `records` loaded records (at least 1).
    pub fn new(shift: &Shift, common: &Common, records: u64, seed: u64, thread: u32) -> Self {
        let hot = shift.hot(records);
        let choice = match (shift.kind, common) {
            (ShiftKind::Rotate, _) => Choice::Rotate { hot },
            (ShiftKind::Crowd, _) => Choice::Crowd { jumps: Jumps::new(seed, hot, records) },
            (ShiftKind::Groups, _) => Choice::Groups(Groups::new(seed, shift.group, hot, records)),
            (ShiftKind::Monotonic, _) => Choice::Latest(Chooser::new(Distribution::Latest, records, 0)),
            (_, Common::Chosen(records)) => Choice::Chosen(Arc::clone(records)),
            (_, Common::Grouped(records, size)) => Choice::Grouped { records: Arc::clone(records), size: *size },
            (_, Common::Adversary(shared)) => {
                Choice::Adversary { shared: Arc::clone(shared), victims: shared.victims() }
            }
            (_, Common::Nothing) => Choice::Jump { jumps: Jumps::new(seed, hot, records), hot },
        };
        let (read, write) = shift.kinds();
        let start = choice.start(0, records);
        Self {
            period: 0,
            start,
            reads: shift.reads,
            share: shift.share,
            read,
            write,
            period_ns: shift.period_ns(),
            records,
            choice,
            random: Random::new(seed, 2 * u64::from(thread)),
            spare: Random::new(seed, 2 * u64::from(thread) + 1),
        }
    }

    /// The operation that begins `at_ns` after the run phase did. An insert takes its number from `inserts`; the adversary asks
    /// `whereabouts`.
    #[inline]
    pub fn next(&mut self, at_ns: u64, inserts: &Inserts, whereabouts: &dyn Whereabouts) -> ShiftOperation {
        // Always three draws, so that time changes no operation but only what it is for.
        let kind = if self.random.unit() < self.reads { self.read } else { self.write };
        let hot = self.random.unit() < self.share;
        let bits = self.random.bits();
        let period = period_at(self.period_ns, at_ns);
        let records = self.records;
        if period != self.period {
            (self.period, self.start) = (period, self.choice.start(period, records));
        }
        let start = self.start;
        let number = match &mut self.choice {
            Choice::Jump { hot: count, .. } | Choice::Rotate { hot: count } => {
                Window { start, hot: *count, records }.choose(hot, bits)
            }
            Choice::Crowd { .. } if hot && is_crowded(self.period_ns, at_ns) => start,
            Choice::Crowd { .. } => scale(bits, records),
            Choice::Groups(groups) => groups.choose(hot, bits),
            Choice::Latest(_) if kind == OpKind::Insert => inserts.begin(),
            Choice::Latest(chooser) => {
                let end = inserts.end();
                chooser.grow(end);
                let draw = chooser.draw(&mut self.spare);
                chooser.resolve(draw, end, at_ns, &mut self.spare)
            }
            Choice::Chosen(chosen) if hot => chosen[scale(bits, chosen.len() as u64) as usize],
            Choice::Grouped { records, size } => scale(bits, (records.len() / *size) as u64),
            Choice::Adversary { shared, victims } => {
                if period > victims.period {
                    *victims = shared.turn(period, at_ns, whereabouts);
                }
                if hot {
                    victims.records[scale(bits, victims.records.len() as u64) as usize]
                } else {
                    scale(bits, records)
                }
            }
            Choice::Chosen(_) => scale(bits, records),
        };
        ShiftOperation { kind, number, period }
    }

    /// The records of the group that `operation` is for; none where it is for a single record.
    pub fn members(&self, operation: ShiftOperation) -> impl Iterator<Item = u64> {
        let (drawn, chosen) = match &self.choice {
            Choice::Groups(groups) => (Some(groups.members(operation.number, operation.period)), None),
            Choice::Grouped { records, size } => (None, records.chunks(*size).nth(operation.number as usize)),
            _ => (None, None),
        };
        drawn.into_iter().flatten().chain(chosen.unwrap_or_default().iter().copied())
    }
}

#[cfg(test)]
mod tests;
