//! Shifting workloads through the driver: what is asked of the target, and when.

use std::collections::{BTreeMap, BTreeSet};

use super::by_hand::{ByHand, Call};
use super::*;
use crate::workload::shift::MarkKind;
use crate::workload::{Shift, ShiftKind};

const MS: u64 = 1_000_000;

fn shifting(shift: Shift, records: u64, operations: u64, threads: u32) -> Settings {
    Settings { task: shift.into(), inserts: 0, ..settings(Workload::A, records, operations, threads) }
}

/// A hot set of 10 of 1,000 records that jumps every tenth of a second.
fn jump() -> Shift {
    Shift { period_seconds: 0.1, hot_records: Some(10), share: 1.0, ..ShiftKind::Jump.into() }
}

fn keys_of(shift: &Shift, records: u64) -> Keys {
    Keys::with_room(shift.key_format(), 16, records, 100_000).unwrap()
}

/// The keys of the calls that began in each tenth of a second of `at`.
fn by_tenth(calls: &[Call], at: impl Fn(usize, &Call) -> u64) -> BTreeMap<u64, BTreeSet<Vec<u8>>> {
    let mut tenths: BTreeMap<u64, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (i, call) in calls.iter().enumerate() {
        tenths.entry(at(i, call) / (100 * MS)).or_default().extend(call.keys.iter().cloned());
    }
    tenths
}

#[test]
fn in_a_closed_loop_the_workload_shifts_by_the_clock() {
    let keys = keys_of(&jump(), 1_000);
    // 1 ms each: 350 operations take 350 ms.
    let (ran, calls) = ByHand::new(|_, _| MS).run(&shifting(jump(), 1_000, 350, 1), &keys);
    let tenths = by_tenth(&calls, |_, call| call.at_ns);
    assert_eq!(tenths.len(), 4);
    for (tenth, hot) in &tenths {
        assert_eq!(hot.len(), 10, "in tenth {tenth}");
        assert!(*tenth == 0 || hot.is_disjoint(&tenths[&(tenth - 1)]), "in tenth {tenth} nothing has shifted");
    }
    let marks: Vec<_> = ran.timeline.marks.iter().map(|mark| ((mark.at_seconds * 10.0).round(), mark.kind)).collect();
    assert_eq!(marks, [1.0, 2.0, 3.0].map(|at| (at, MarkKind::Shift)));
    assert_eq!((ran.operations, ran.errors, ran.seconds), (350, 0, 0.35));
    assert_eq!(ran.timeline.operations, [99, 100, 100, 51]);
}

#[test]
fn in_an_open_loop_it_shifts_by_the_schedule_and_latency_counts_from_it() {
    let keys = keys_of(&jump(), 1_000);
    let open = |cost_ns| {
        let settings = Settings { rate: Some(1_000.0), ..shifting(jump(), 1_000, 300, 1) };
        ByHand::new(cost_ns).run(&settings, &keys)
    };
    // A thousand a second are wanted, and each takes 2 ms: operation i is wanted at i ms and done at 2 (i + 1) ms.
    let (ran, calls) = open(|_, _| 2 * MS);
    let longest = ran.latencies.iter().map(|(_, histogram)| histogram.max()).max().unwrap();
    assert!(longest.abs_diff(301 * MS) < MS, "{longest} ns");
    let counted: u64 = ran.latencies.iter().map(|(_, h)| h.count_between(0, 151 * MS)).sum();
    assert!((149..=151).contains(&counted), "{counted} of 300 took no more than the mean of all");
    let tenths = by_tenth(&calls, |i, _| i as u64 * MS);
    assert_eq!(tenths.len(), 3);
    assert!(tenths.values().all(|hot| hot.len() == 10) && tenths[&1].is_disjoint(&tenths[&0]), "{tenths:?}");
    // The tail of the time line: in its first tenth the 49 that are done then were at most 51 ms late.
    assert!(ran.timeline.max_ns[0].abs_diff(50 * MS) <= 2 * MS, "{:?}", ran.timeline.max_ns);
    assert!(ran.timeline.p99_ns.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ran.timeline.p99_ns);
    // However late the clients are, the operations are the same.
    let asked = |calls: Vec<Call>| calls.into_iter().map(|call| (call.kind, call.keys)).collect::<Vec<_>>();
    assert_eq!(asked(calls), asked(open(|i, _| if i == 7 { 90 * MS } else { 3 * MS }).1));
}

#[test]
fn a_stall_stands_in_the_time_line_where_it_was() {
    let keys = keys_of(&jump(), 1_000);
    // Half a millisecond each, but the first one after 250 ms takes 40 ms.
    let cost = |_: usize, at_ns: u64| if (250 * MS..251 * MS).contains(&at_ns) { 40 * MS } else { MS / 2 };
    let (ran, _) = ByHand::new(cost).run(&shifting(jump(), 1_000, 1_000, 1), &keys);
    let slow: Vec<usize> = (0..ran.timeline.max_ns.len()).filter(|i| ran.timeline.max_ns[*i] > MS).collect();
    assert_eq!(slow, [2], "{:?}", ran.timeline.max_ns);
    assert!(ran.timeline.max_ns[2].abs_diff(40 * MS) < 2_000 && ran.timeline.operations[2] < 150);
}

#[test]
fn a_group_is_read_and_written_whole_by_one_call() {
    let shift = Shift { period_seconds: 0.1, group: 4, hot_records: Some(40), ..ShiftKind::Groups.into() };
    let keys = keys_of(&shift, 1_000);
    let (ran, calls) = ByHand::new(|_, _| MS).run(&shifting(shift, 1_000, 300, 1), &keys);
    let mut writes = 0;
    for call in &calls {
        assert!(matches!(call.kind, OpKind::MultiGet | OpKind::Batch), "{:?}", call.kind);
        assert_eq!(call.keys.iter().collect::<BTreeSet<_>>().len(), 4, "four keys, none twice");
        writes += u64::from(call.kind == OpKind::Batch);
    }
    assert_eq!((calls.len(), ran.logical_write_bytes), (300, writes * 4 * 116));
    assert_eq!(ran.latencies.iter().map(|(_, histogram)| histogram.len()).sum::<u64>(), 300);
    // The same key has the same companions in one period, and others in the next.
    let companions = |tenth: u64| {
        let mut all: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.at_ns / (100 * MS) == tenth) {
            for key in &call.keys {
                all.entry(key.clone()).or_default().extend(call.keys.iter().cloned());
            }
        }
        all
    };
    let (first, second) = (companions(0), companions(1));
    assert!(first.values().chain(second.values()).all(|group| group.len() == 4));
    assert!(first.iter().filter(|(key, group)| second.get(*key) == Some(group)).count() == 0);
}

#[test]
fn what_is_inserted_is_read_from_then_on() {
    let shift = Shift { reads: 0.5, ..ShiftKind::Monotonic.into() };
    let keys = keys_of(&shift, 100);
    let (_, calls) = ByHand::new(|_, _| 1_000).run(&shifting(shift, 100, 400, 1), &keys);
    let mut inserted = BTreeSet::new();
    let mut new = 0;
    for call in &calls {
        match call.kind {
            OpKind::Update => assert!(inserted.insert(call.keys[0].clone()), "no key is inserted twice"),
            _ => new += u32::from(inserted.contains(&call.keys[0])),
        }
    }
    assert!(inserted.len() > 150 && new > 50, "{new} reads of {} new records", inserted.len());
}

#[test]
fn the_adversary_asks_the_target_and_follows_what_it_says() {
    let shift = Shift { period_seconds: 0.1, hot_records: Some(20), share: 1.0, ..ShiftKind::Adversary.into() };
    let keys = keys_of(&shift, 1_000);
    // By the first digit; after 100 ms, when a planner has moved them, the other way round.
    fn place(key: &[u8], at_ns: u64) -> u32 {
        let low = u32::from(key[0] < b'8');
        if at_ns < 100 * MS { 1 - low } else { low }
    }
    let mut target = ByHand::new(|_, _| MS);
    (target.partitions, target.locate) = (2, place);
    let (ran, calls) = target.run(&shifting(shift, 1_000, 200, 1), &keys);
    // First partition 0, which has the low keys. Then they live in partition 1, so that 0 is calm: the high keys.
    let low = |call: &Call| call.keys[0][0] < b'8';
    assert!(calls[..100].iter().all(low), "it begins in partition 0");
    assert!(!calls[100..].iter().any(low), "it turns to where nothing is hot");
    let marks: Vec<_> = ran.timeline.marks.iter().map(|mark| (mark.at_seconds, mark.kind)).collect();
    assert_eq!(marks, [(0.1, MarkKind::Shift)]);
}

#[test]
fn every_kind_runs_over_an_engine_by_many_threads_without_errors() {
    for kind in ShiftKind::ALL {
        for threads in [1, 3] {
            let shift = Shift { period_seconds: 0.01, reads: 0.5, ..kind.into() };
            let (target, keys, values) = (memory(), keys_of(&shift, 1_000), Values::new(50, 1.0, 1));
            let loaded = load(&target, &keys, &values, 1_000, threads, 1, &Progress::new()).unwrap();
            assert_eq!((loaded.records, loaded.bytes), (1_000, 66_000));
            let progress = Progress::new();
            let settings = shifting(shift, 1_000, 3_001, threads);
            let ran = run(&target, &settings, &keys, &values, &progress).unwrap();
            assert_eq!(
                (ran.operations, ran.errors, progress.done()),
                (3_001, 0, 3_001),
                "{kind}: {:?}",
                ran.first_error
            );
            let records = shift.records_per_write();
            let writes: u64 = ran.latencies.iter().filter(|(k, _)| k.writes()).map(|(_, h)| h.len()).sum();
            assert_eq!(ran.logical_write_bytes, writes * records * 66, "{kind}");
            let grown = if kind == ShiftKind::Monotonic { writes } else { 0 };
            assert_eq!(target.stats().unwrap().keys, Some(1_000 + grown), "{kind}");
        }
    }
}

#[test]
fn a_group_with_a_missing_record_is_an_error() {
    let shift = Shift { reads: 1.0, ..ShiftKind::Groups.into() };
    let (target, keys, values) = (memory(), keys_of(&shift, 1_000), Values::new(50, 1.0, 1));
    // Half of the records only.
    load(&target, &keys, &values, 500, 1, 1, &Progress::new()).unwrap();
    let ran = run(&target, &shifting(shift, 1_000, 200, 1), &keys, &values, &Progress::new()).unwrap();
    assert!(ran.errors > 190, "{} errors", ran.errors);
    assert!(ran.first_error.unwrap().contains("multi_get of group"));
}
