//! Distributions, and when they shift, by a clock that the tests set.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::workload::{KeyFormat, Keys};

const SECOND: u64 = 1_000_000_000;

/// Records dealt to four partitions in turn.
struct Dealt;

impl Whereabouts for Dealt {
    fn partitions(&self) -> u32 {
        4
    }

    fn partition_of(&self, record: u64) -> u32 {
        (record % 4) as u32
    }
}

/// A stream with what it draws from.
struct Source {
    stream: ShiftStream,
    inserts: Inserts,
    common: Common,
}

impl Source {
    fn new(shift: Shift, records: u64, seed: u64, thread: u32) -> Self {
        let keys = Keys::new(KeyFormat::Hashed, 16, records).unwrap();
        let common = Common::new(&shift, seed, records, &keys, &Dealt);
        let stream = ShiftStream::new(&shift, &common, records, seed, thread);
        Self { stream, inserts: Inserts::new(records), common }
    }

    fn of(kind: ShiftKind) -> Self {
        Self::new(kind.into(), 10_000, 1, 0)
    }

    fn at(&mut self, at_ns: u64, count: usize) -> Vec<ShiftOperation> {
        let operations = (0..count).map(|_| {
            let operation = self.stream.next(at_ns, &self.inserts, &Dealt);
            if operation.kind == OpKind::Insert {
                self.inserts.acknowledge(operation.number);
            }
            operation
        });
        operations.collect()
    }

    /// How often each number came in `count` operations at `at_ns`.
    fn counts(&mut self, at_ns: u64, count: usize) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        self.at(at_ns, count).iter().for_each(|operation| *counts.entry(operation.number).or_insert(0) += 1);
        counts
    }

    /// The `hot` numbers that came most, of many operations at `at_ns`, and their share.
    fn hot(&mut self, at_ns: u64, hot: usize) -> (BTreeSet<u64>, f64) {
        let mut counts: Vec<_> = self.counts(at_ns, 200_000).into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let share = counts.iter().take(hot).map(|(_, count)| f64::from(*count)).sum::<f64>() / 200_000.0;
        (counts.into_iter().take(hot).map(|(number, _)| number).collect(), share)
    }
}

#[test]
fn the_kinds_come_in_their_shares_and_of_the_right_records() {
    for kind in ShiftKind::ALL {
        let shift = Shift { reads: 0.3, ..kind.into() };
        let mut source = Source::new(shift, 10_000, 1, 0);
        let operations = source.at(SECOND, 100_000);
        for op in OpKind::ALL {
            let seen = operations.iter().filter(|operation| operation.kind == op).count() as f64 / 1e5;
            let share = shift.share_of(op);
            assert!((seen - share).abs() < 0.008, "{kind}: {} is {seen}, not {share}", op.name());
        }
        let end = source.inserts.end();
        let records = if kind == ShiftKind::Groups { 1_000 } else { end };
        assert!(operations.iter().all(|operation| operation.number < records), "{kind}");
        assert_eq!(end > 10_000, kind == ShiftKind::Monotonic, "{kind}");
    }
}

#[test]
fn the_hot_set_jumps_at_the_beginning_of_a_period_and_not_before() {
    let mut source = Source::of(ShiftKind::Jump);
    let (first, share) = source.hot(0, 100);
    // Nine tenths, and what falls on them of the other tenth: none.
    assert!((share - 0.9).abs() < 0.01, "{share}");
    assert_eq!(source.hot(5 * SECOND - 1, 100).0, first, "in the last nanosecond of the period");
    let (second, _) = source.hot(5 * SECOND, 100);
    assert!(second.is_disjoint(&first), "in the first nanosecond of the next");
    assert_eq!(source.hot(9 * SECOND, 100).0, second);
    assert!(source.hot(10 * SECOND, 100).0.is_disjoint(&second));
    let mut still = Source::new(Shift { period_seconds: 0.0, ..ShiftKind::Jump.into() }, 10_000, 1, 0);
    assert_eq!(still.hot(0, 100).0, still.hot(1_000 * SECOND, 100).0, "a period of 0 never ends");
}

#[test]
fn the_hot_range_is_one_of_neighbours_and_moves_on_by_its_length() {
    let mut source = Source::of(ShiftKind::Rotate);
    for period in [0u64, 1, 2, 99, 100] {
        let (hot, share) = source.hot(period * 5 * SECOND, 100);
        let start = (period % 100) * 100;
        assert_eq!(hot, (start..start + 100).collect(), "period {period}");
        assert!((share - 0.9).abs() < 0.01, "{share}");
    }
}

#[test]
fn a_crowd_comes_in_the_second_half_of_a_period_and_to_another_record_each_time() {
    let mut source = Source::of(ShiftKind::Crowd);
    let calm = source.hot(0, 1).1;
    assert!(calm < 0.001, "{calm} on one record while there is no crowd");
    let half = 5 * SECOND / 2;
    assert!(source.hot(half - 1, 1).1 < 0.001);
    let (first, share) = source.hot(half, 1);
    assert!((share - 0.5).abs() < 0.01, "{share}");
    assert_eq!(source.hot(5 * SECOND - 1, 1).0, first);
    assert!(source.hot(5 * SECOND, 1).1 < 0.001, "it has left");
    let (second, share) = source.hot(5 * SECOND + half, 1);
    assert!((share - 0.5).abs() < 0.01 && second.is_disjoint(&first));
}

#[test]
fn groups_are_whole_and_become_others_when_their_time_comes() {
    let mut source = Source::of(ShiftKind::Groups);
    let (hot, share) = source.hot(0, 10);
    assert_eq!(hot, (0..10).collect(), "100 hot records are 10 groups");
    assert!((share - 0.9).abs() < 0.01, "{share}");
    let members = |source: &mut Source, at_ns| {
        let operation = source.at(at_ns, 1)[0];
        (0..1_000)
            .map(|number| source.stream.members(ShiftOperation { number, ..operation }).collect::<BTreeSet<_>>())
            .collect::<Vec<_>>()
    };
    let first = members(&mut source, 0);
    assert!(first.iter().all(|group| group.len() == 10));
    assert_eq!(first.iter().flatten().collect::<BTreeSet<_>>().len(), 10_000, "every record is in one");
    assert_eq!(members(&mut source, 5 * SECOND - 1), first);
    let second = members(&mut source, 5 * SECOND);
    assert!(first.iter().zip(&second).all(|(a, b)| a != b));
    let kept = second.iter().filter(|group| first.iter().any(|old| old.intersection(group).count() > 3)).count();
    assert!(kept < 5, "{kept} groups kept more than three of their records");
    // What is for a single record has no members.
    let mut jump = Source::of(ShiftKind::Jump);
    let operation = jump.at(0, 1)[0];
    assert_eq!(jump.stream.members(operation).count(), 0);
}

#[test]
fn inserts_are_in_order_and_reads_prefer_the_latest() {
    let mut source = Source::new(Shift { reads: 0.5, ..ShiftKind::Monotonic.into() }, 1_000, 1, 0);
    let operations = source.at(0, 20_000);
    let inserted: Vec<_> = operations.iter().filter(|op| op.kind == OpKind::Insert).map(|op| op.number).collect();
    assert!(inserted.iter().enumerate().all(|(i, number)| *number == 1_000 + i as u64));
    let mut end = 1_000;
    let mut recent = 0;
    for operation in &operations {
        match operation.kind {
            OpKind::Insert => end += 1,
            _ => {
                assert!(operation.number < end, "a record is read before it is there");
                recent += u32::from(operation.number + 100 >= end);
            }
        }
    }
    // The latest hundred of ten thousand get half of a zipfian's draws.
    assert!(recent > 4_000, "{recent} of 10,000 reads are of the latest hundred");
}

#[test]
fn everything_in_one_slot_partition_or_worker_stays_in_its_records() {
    for kind in [ShiftKind::Slot, ShiftKind::Partition, ShiftKind::Worker] {
        let mut source = Source::of(kind);
        let Common::Chosen(chosen) = source.common.clone() else { panic!("{kind} chooses records") };
        let counts = source.counts(0, 200_000);
        assert_eq!(counts.keys().copied().collect::<BTreeSet<_>>(), chosen.iter().copied().collect());
        let expected = 200_000.0 / chosen.len() as f64;
        assert!(counts.values().all(|n| (f64::from(*n) - expected).abs() < 6.0 * expected.sqrt()), "{kind}");
        let mut half = Source::new(Shift { share: 0.5, ..kind.into() }, 10_000, 1, 0);
        let inside = half.at(0, 100_000).iter().filter(|op| chosen.contains(&op.number)).count() as f64 / 1e5;
        let expected = 0.5 + 0.5 * chosen.len() as f64 / 10_000.0;
        assert!((inside - expected).abs() < 0.01, "{kind}: {inside}, not {expected}");
    }
}

#[test]
fn a_worker_in_groups_takes_whole_groups_each_equally_often() {
    let shift = Shift { group: 5, hot_records: Some(400), reads: 0.25, ..ShiftKind::Worker.into() };
    let mut source = Source::new(shift, 10_000, 1, 0);
    let Common::Grouped(records, 5) = source.common.clone() else { panic!("groups of five") };
    let operations = source.at(0, 100_000);
    let reads = operations.iter().filter(|op| op.kind == OpKind::MultiGet).count();
    assert!(operations.iter().all(|op| matches!(op.kind, OpKind::MultiGet | OpKind::Batch)));
    assert!((reads as f64 / 1e5 - 0.25).abs() < 0.01, "{reads}");
    let mut counts = BTreeMap::new();
    for operation in operations {
        let members: Vec<u64> = source.stream.members(operation).collect();
        assert_eq!(members, records[5 * operation.number as usize..][..5]);
        *counts.entry(members).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), records.len() / 5);
    let expected = 1e5 / counts.len() as f64;
    assert!(counts.values().all(|n| (f64::from(*n) - expected).abs() < 6.0 * expected.sqrt()));
}

#[test]
fn the_adversary_turns_at_the_beginning_of_a_period() {
    let mut source = Source::of(ShiftKind::Adversary);
    let partition = |source: &mut Source, at_ns| {
        let mut counts = [0u32; 4];
        source.at(at_ns, 100_000).iter().for_each(|op| counts[(op.number % 4) as usize] += 1);
        let most = (0..4).max_by_key(|i| counts[*i]).unwrap();
        // Nine tenths, and a quarter of the rest.
        assert!((f64::from(counts[most]) / 1e5 - 0.925).abs() < 0.01, "{counts:?}");
        most
    };
    assert_eq!(partition(&mut source, 0), 0);
    assert_eq!(partition(&mut source, 5 * SECOND - 1), 0);
    assert_eq!(partition(&mut source, 5 * SECOND), 1);
    assert_eq!(partition(&mut source, 15 * SECOND), 2, "periods that nobody saw are left out");
    let marks = source.common.marks();
    assert_eq!(marks.iter().map(|mark| mark.at_seconds).collect::<Vec<_>>(), [5.0, 15.0]);
}

#[test]
fn a_stream_is_set_by_seed_thread_and_time() {
    for kind in ShiftKind::ALL {
        let take = |seed, thread, step: u64| {
            let mut source = Source::new(kind.into(), 10_000, seed, thread);
            (0..500).map(|i| source.at(i * step, 1)[0]).collect::<Vec<_>>()
        };
        let step = SECOND / 10;
        assert_eq!(take(1, 0, step), take(1, 0, step), "{kind}");
        if kind != ShiftKind::Monotonic {
            assert!(take(1, 0, step) != take(1, 1, step) && take(1, 0, step) != take(2, 0, step), "{kind}");
        }
        // Time changes what an operation is for, and never what it is.
        let kinds = |operations: Vec<ShiftOperation>| operations.into_iter().map(|op| op.kind).collect::<Vec<_>>();
        assert_eq!(kinds(take(1, 0, step)), kinds(take(1, 0, 0)), "{kind}");
        assert_eq!(take(1, 0, step) == take(1, 0, 0), !kind.has_periods(), "{kind}");
    }
}
