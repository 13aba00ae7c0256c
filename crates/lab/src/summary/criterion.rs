//! What the rows of a table are compared by, and which of their runs form pairs.

use std::cmp::Ordering;

use super::Row;
use crate::record::Record;
use crate::statistics::{Ratio, Spread, ratio};

/// What the rows of a table are compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Criterion {
    /// Operations per second: in a closed loop.
    Throughput,
    /// The 99th percentile of a kind of operation: in an open loop, where throughput is given.
    Tail(String),
}

impl Criterion {
    /// That of `rows`, of which an open loop asked for `rate`: the kind of operation that has the longest 99th percentile in any of them.
    pub(super) fn of(rate: Option<f64>, rows: &[Row]) -> Self {
        let sound = rows.iter().filter(|row| rate.is_some() && row.sound().next().is_some());
        let tails = sound.flat_map(|row| &row.latency).filter(|(_, latency)| latency.count > 0);
        let longest = tails.max_by_key(|(_, latency)| latency.p99);
        longest.map_or(Self::Throughput, |(kind, _)| Self::Tail(kind.clone()))
    }

    /// The figure of a run; `None` where it did no such operation.
    pub fn figure(&self, record: &Record) -> Option<f64> {
        match self {
            Self::Throughput => Some(record.ops_per_s),
            Self::Tail(kind) => record.latency_ns.get(kind).filter(|l| l.count > 0).map(|latency| latency.p99 as f64),
        }
    }

    /// The figures of a row's runs.
    pub fn spread(&self, row: &Row) -> Option<Spread> {
        Spread::of(row.told().filter_map(|record| self.figure(record)))
    }

    /// The worse of two figures is less.
    pub fn order(&self, a: f64, b: f64) -> Ordering {
        if self.is_larger_better() { a.total_cmp(&b) } else { b.total_cmp(&a) }
    }

    /// Whether the larger of two figures is the better one.
    pub fn is_larger_better(&self) -> bool {
        *self == Self::Throughput
    }
}

/// The runs of `row` and of `base` that were made side by side, each in one pair: those of one repetition, which have one seed; where a
/// command was run again, the first ones of either, the second ones of either, and so on. Pairs with errors are left out.
pub(crate) fn pairs<'a>(row: &'a Row, base: &'a Row) -> impl Iterator<Item = (&'a Record, &'a Record)> {
    let mut free: Vec<&Record> = base.records.iter().collect();
    let pairs = row.records.iter().filter_map(move |record| {
        let is_beside = |other: &&Record| other.repetition == record.repetition && other.seed == record.seed;
        let at = free.iter().position(is_beside)?;
        Some((record, free.remove(at)))
    });
    pairs.filter(|(record, other)| record.errors == 0 && other.errors == 0)
}

/// A figure of `row` by that of `base`, pair by pair.
pub(crate) fn paired(row: &Row, base: &Row, figure: impl Fn(&Record) -> Option<f64>) -> Option<Ratio> {
    let pairs: Vec<_> = pairs(row, base).filter_map(|(a, b)| Some((figure(a)?, figure(b)?))).collect();
    ratio(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Until;
    use crate::measure::Place;
    use crate::record::tests::record;
    use crate::summary::{Table, tables};
    use crate::workload::{Shift, ShiftKind};

    /// The machine was twice as fast when the command was run again. Fails if a run of the one time stands beside one of the other.
    #[test]
    fn where_a_command_was_run_twice_each_run_has_a_partner_of_its_own() {
        let session = |ops: f64| -> Vec<Record> {
            let both = |n| [record("lmdb", "none", n, ops), record("lmdb", "hard", n, 1.1 * ops)];
            (1..=3).flat_map(both).collect()
        };
        let mut records = [session(100.0), session(200.0)].concat();
        let ratio = |records: &[Record]| tables(records)[0].rows[1].ratio.unwrap();
        let is_near = |ratio: Ratio| (ratio.min - 1.1).abs() < 1e-9 && (ratio.max - 1.1).abs() < 1e-9;
        let all = ratio(&records);
        assert!(all.pairs == 6 && is_near(all), "{all:?}");
        // One with errors costs its own pair: the second one's base is not the first one's as well.
        records[0].errors = 1;
        let some = ratio(&records);
        assert!(some.pairs == 5 && is_near(some), "{some:?}");
    }

    /// Of an open loop at 40,000 operations a second.
    fn open(engine: &str, partitioning: &str, repetition: u32, update_p99: u64) -> Record {
        let mut record = record(engine, partitioning, repetition, 40_000.0);
        record.rate = Some(40_000.0);
        for (kind, latency) in &mut record.latency_ns {
            latency.p99 = if kind == "update" { update_p99 } else { 900 };
        }
        record
    }

    /// Fails if rows are compared by what was given to all of them, or if who is late by more and more is not told from the others.
    #[test]
    fn rows_of_an_open_loop_are_compared_by_their_longest_tail() {
        let mut records = Vec::new();
        for repetition in 1..=3 {
            records.push(open("lmdb", "none", repetition, 2_000));
            records.push(open("lmdb", "hard", repetition, 500));
            let mut moving = open("lmdb", "hard", repetition, 250);
            moving.repartition = "1s".into();
            records.push(moving);
            records.push(Record { ops_per_s: 36_000.0, ..open("rocksdb", "none", repetition, 90_000) });
        }
        // One load for all of them.
        records.iter_mut().for_each(|record| record.shift = Some(ShiftKind::Jump.into()));
        let table = tables(&records).remove(0);
        assert_eq!(table.criterion(), Criterion::Tail("update".to_owned()));
        let [direct, hard, moving, late] = &table.rows[..] else { panic!("{} rows", table.rows.len()) };
        assert_eq!(hard.ratio.map(|ratio| ratio.median), Some(0.25));
        let brought = moving.moving.as_ref().unwrap();
        assert_eq!(brought.ratio.map(|ratio| ratio.median), Some(0.5));
        assert_eq!((brought.settled, brought.settles_seconds), (None, None), "the rate is given");
        let behind: Vec<bool> = [direct, hard, moving, late].map(|row| table.is_behind(row)).into();
        assert_eq!(behind, [false, false, false, true]);
        // Who stays and answers soonest is the one that moving is measured by.
        let mut range: Vec<Record> = (1..=3).map(|repetition| open("lmdb", "hard", repetition, 400)).collect();
        range.iter_mut().for_each(|record| {
            record.placement = "range".into();
            record.shift = Some(ShiftKind::Jump.into());
        });
        let table = tables(&[records.clone(), range].concat()).remove(0);
        let still = table.rows[2].moving.as_ref().unwrap().still.clone();
        assert_eq!(still.as_deref(), Some("lmdb hard-8 range"));
        // In a closed loop throughput tells.
        records.iter_mut().for_each(|record| record.rate = None);
        let table = tables(&records).remove(0);
        assert!(table.criterion() == Criterion::Throughput && !table.is_behind(&table.rows[3]));
    }

    /// Fails if runs of two lengths or places are one row with one median, or if nobody sees what they differ in.
    #[test]
    fn other_lengths_and_places_are_other_tables_and_their_headings_say_so() {
        let of = |until, kind: &str| {
            let mut record = record("log", "none", 1, 1.0);
            record.until = until;
            record.places = vec![Place { file_system: Some(kind.to_owned()), device: None }];
            record
        };
        let records = [
            of(Some(Until::Seconds(2.0)), "ext4"),
            of(Some(Until::Seconds(20.0)), "ext4"),
            of(Some(Until::Operations(5_000)), "ext4"),
            of(Some(Until::Seconds(2.0)), "tmpfs"),
            of(None, "ext4"),
        ];
        let headings: Vec<String> = tables(&records).iter().map(Table::heading).collect();
        let expected = [
            "workload A, 2 threads, runs of 2 s, on ext4",
            "workload A, 2 threads, runs of 20 s, on ext4",
            "workload A, 2 threads, runs of 5000 operations, on ext4",
            "workload A, 2 threads, runs of 2 s, on tmpfs",
            "workload A, 2 threads, runs of a length that is not told, on ext4",
        ];
        assert_eq!(headings, expected);
        // On how many devices a row lies is a matter of its layout.
        let mut two = records[0].clone();
        two.places.push(Place { file_system: Some("xfs".to_owned()), device: None });
        assert_eq!(tables(&[records[0].clone(), two]).len(), 1);
    }

    /// Fails if what a load has no use for makes two tables of it, which nothing tells apart.
    #[test]
    fn what_a_load_has_no_use_for_makes_no_other_table() {
        let of = |shift: Shift| {
            let mut record = record("log", "none", 1, 1.0);
            (record.bench, record.workload, record.shift) = ("shift".into(), shift.kind.to_string(), Some(shift));
            record
        };
        let (jump, groups) = (Shift::from(ShiftKind::Jump), Shift::from(ShiftKind::Groups));
        let same = [jump, Shift { group: 50, ..jump }, Shift { partitions: 4, ..jump }].map(of);
        assert_eq!(tables(&same).len(), 1);
        let other = [jump, Shift { period_seconds: 2.0, ..jump }, groups, Shift { group: 50, ..groups }].map(of);
        assert_eq!(tables(&other).len(), 4);
    }
}
