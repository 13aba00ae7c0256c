//! The operations of one client thread, drawn ahead in small groups.
//!
//! A group of 64 is drawn at once: the arithmetic of neighbouring draws overlaps in the processor, and none of it lies
//! within the time that an operation is measured for. What an operation is depends only on the seed, the thread and its
//! position in the stream; which record a draw names may depend on the inserts that other threads have finished.

use super::chooser::Chooser;
use super::core::SCAN_RECORDS_MAX;
use super::inserts::Inserts;
use super::{Distribution, OpKind, Random};

/// Operations drawn at once.
pub const GROUP: usize = 64;

/// One operation, drawn but not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub kind: OpKind,
    /// Records to scan, for a scan.
    pub scan_records: u32,
    draw: u64,
}

/// The stream of one thread.
#[derive(Debug, Clone)]
pub struct Stream {
    // Cumulated shares of the kinds, in 2^-64.
    bounds: Vec<(u64, OpKind)>,
    chooser: Chooser,
    random: Random,
    spare: Random,
    group: [Operation; GROUP],
    at: usize,
}

impl Stream {
    /// Of `thread` under `seed`, over `records` loaded records, with `inserts` to expect from all threads together; `mix` has the
    /// share of each kind of operation, which add up to 1.
    pub fn new(
        mix: &[(OpKind, f64)],
        distribution: Distribution,
        records: u64,
        inserts: u64,
        seed: u64,
        thread: u32,
    ) -> Self {
        let mut sum = 0.0;
        let mut bounds: Vec<_> = mix
            .iter()
            .map(|&(kind, share)| {
                sum += share;
                ((sum * 2f64.powi(64)) as u64, kind)
            })
            .collect();
        if let Some(last) = bounds.last_mut() {
            last.0 = u64::MAX;
        }
        Self {
            bounds,
            chooser: Chooser::new(distribution, records, inserts),
            random: Random::new(seed, 2 * u64::from(thread)),
            spare: Random::new(seed, 2 * u64::from(thread) + 1),
            group: [Operation { kind: OpKind::Read, scan_records: 0, draw: 0 }; GROUP],
            at: GROUP,
        }
    }

    /// The next operation.
    #[inline]
    pub fn next(&mut self, inserts: &Inserts) -> Operation {
        if self.at == GROUP {
            self.refill(inserts);
        }
        let operation = self.group[self.at];
        self.at += 1;
        operation
    }

    /// The record that `operation` is for, among those that exist now, `at_ns` after the run phase began.
    #[inline]
    pub fn resolve(&mut self, operation: Operation, inserts: &Inserts, at_ns: u64) -> u64 {
        self.chooser.resolve(operation.draw, inserts.end(), at_ns, &mut self.spare)
    }

    fn refill(&mut self, inserts: &Inserts) {
        self.chooser.grow(inserts.end());
        for operation in &mut self.group {
            let kind = match &self.bounds[..] {
                [(_, only)] => *only,
                bounds => {
                    let bits = self.random.bits();
                    bounds.iter().find(|(bound, _)| bits <= *bound).map_or(OpKind::Read, |(_, kind)| *kind)
                }
            };
            let draw = if kind == OpKind::Insert { 0 } else { self.chooser.draw(&mut self.random) };
            let scan_records = if kind == OpKind::Scan { 1 + self.random.below(SCAN_RECORDS_MAX) as u32 } else { 0 };
            *operation = Operation { kind, scan_records, draw };
        }
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn take(workload: Workload, seed: u64, thread: u32, count: usize) -> Vec<Operation> {
        let inserts = Inserts::new(1_000);
        let mut stream = Stream::new(workload.mix(), workload.distribution(), 1_000, 100, seed, thread);
        (0..count).map(|_| stream.next(&inserts)).collect()
    }

    #[test]
    fn the_mix_agrees_with_the_definition() {
        for workload in Workload::ALL {
            let operations = take(workload, 1, 0, 400_000);
            for kind in OpKind::ALL {
                let seen = operations.iter().filter(|op| op.kind == kind).count() as f64 / 400_000.0;
                let share = workload.share(kind);
                assert!((seen - share).abs() < 0.004, "{workload}: {} is {seen}, not {share}", kind.name());
                assert!(share > 0.0 || seen == 0.0, "{workload} has no {}", kind.name());
            }
        }
    }

    #[test]
    fn scan_lengths_are_uniform_from_1_to_100() {
        let mut counts = [0u32; 101];
        let operations = take(Workload::E, 1, 0, 1_000_000);
        for op in operations.iter().filter(|op| op.kind == OpKind::Scan) {
            counts[op.scan_records as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let expected = f64::from(counts.iter().sum::<u32>()) / 100.0;
        let chi: f64 = counts[1..].iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 148.2, "chi-square {chi} with 99 degrees of freedom");
    }

    #[test]
    fn a_stream_is_set_by_seed_and_thread() {
        assert_eq!(take(Workload::A, 1, 0, 1_000), take(Workload::A, 1, 0, 1_000));
        assert_ne!(take(Workload::A, 1, 0, 1_000), take(Workload::A, 1, 1, 1_000));
        assert_ne!(take(Workload::A, 1, 0, 1_000), take(Workload::A, 2, 0, 1_000));
    }

    #[test]
    fn no_operation_asks_for_a_record_that_does_not_exist() {
        for workload in Workload::ALL {
            let inserts = Inserts::new(100);
            let mut stream = Stream::new(workload.mix(), workload.distribution(), 100, 1_000, 9, 0);
            for _ in 0..20_000 {
                let operation = stream.next(&inserts);
                if operation.kind == OpKind::Insert {
                    let number = inserts.begin();
                    assert_eq!(number, inserts.end());
                    inserts.acknowledge(number);
                } else {
                    assert!(stream.resolve(operation, &inserts, 0) < inserts.end());
                }
            }
        }
    }
}
