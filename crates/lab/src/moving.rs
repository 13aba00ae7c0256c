//! What moving brought: a store that repartitions itself beside the best one of the same engine that stays as it is.
//!
//! 1. *Best* is the row with the largest median among those that have engine, layout, partitions, workers, bound on space and number of
//!    places in common and do not move, whatever their placement. The best of several medians is flattered by noise, which speaks against
//!    moving and never for it.
//! 2. Ratios are taken pair by pair, of runs of one repetition and seed.
//! 3. *Settled* is the last third of each period of a load that shifts (of the whole run where it never does): what moving comes to
//!    once it has learnt, while nothing changes. Both sides are taken over the same thirds, and of each pair of runs the period counts in which
//!    moving came to least: what fails after the second shift is not made good by the first.
//! 4. *Settles in* is the time from a shift until half a second of the run has what is asked of moving: so many times the settled rate that the one
//!    that stays has in this period. Of each run the slowest period counts, and one that never comes to it counts whole.
//! 5. In an open loop throughput is given: the best, and the ratio, go by the 99th percentile that its table is compared by, and nothing is
//!    said of settling.

use crate::driver::Timeline;
use crate::record::Record;
use crate::statistics::{Ratio, Spread, ratio};
use crate::summary::{Criterion, Row, paired, pairs};

/// The share of a period after which its load counts as settled.
const SETTLED_FROM: f64 = 2.0 / 3.0;
/// What is asked of moving: times the settled rate of what stays, at `sync`, where the device bounds both, and below it.
pub(crate) const ASKED: (f64, f64) = (1.3, 1.5);
/// Over so many seconds.
const WINDOW_SECONDS: f64 = 0.5;
/// Of a bucket: what times may be off by their representation.
const SLACK: f64 = 1e-6;

/// A row that moves, beside the best that stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moving {
    /// Label and placement of the best that stays; `None` where none of them was measured.
    pub still: Option<String>,
    /// Throughput by that of the best that stays; in an open loop the 99th percentile by that of it.
    pub ratio: Option<Ratio>,
    /// Settled throughput by that of it, of the worst period of each run; `None` for a load that knows no shifts, and in an open loop.
    pub settled: Option<Ratio>,
    /// From a shift until it has what is asked of it, or until the next one: the median over the runs, of the slowest period of each.
    pub settles_seconds: Option<f64>,
    /// Plans carried out in a run (median).
    pub plans: f64,
    /// Units moved in a run (median).
    pub units: f64,
    /// Bytes moved in a run (median).
    pub bytes: f64,
    /// What watching and planning cost: time of the store's own thread, as a share of that of the run (median).
    pub planning_share: f64,
}

impl Moving {
    /// Of `row` among the `rows` of its table, which are compared by `criterion`; `None` where it stays as it is.
    pub(crate) fn of(row: &Row, rows: &[Row], criterion: &Criterion) -> Option<Self> {
        if !moves(row) {
            return None;
        }
        let median =
            |figure: &dyn Fn(&Record) -> f64| Spread::of(row.told().map(figure)).map_or(0.0, |spread| spread.median);
        let still = rows
            .iter()
            .filter(|other| !moves(other) && layout(other) == layout(row) && other.sound().next().is_some())
            .filter_map(|other| Some((other, criterion.spread(other)?.median)))
            .max_by(|(_, a), (_, b)| criterion.order(*a, *b))
            .map(|(still, _)| still);
        let settling = still.filter(|_| *criterion == Criterion::Throughput);
        Some(Self {
            still: still.map(|still| still.name.clone()),
            ratio: still.and_then(|still| paired(row, still, |record| criterion.figure(record))),
            settled: settling.and_then(|still| {
                let worst: Vec<_> = pairs(row, still).filter_map(|(moving, still)| settled(moving, still)).collect();
                ratio(&worst)
            }),
            settles_seconds: settling.and_then(|still| {
                let slowest = pairs(row, still).filter_map(|(moving, still)| settles(moving, still));
                Spread::of(slowest).map(|spread| spread.median)
            }),
            plans: median(&|record| record.moves.plans as f64),
            units: median(&|record| record.moves.units as f64),
            bytes: median(&|record| record.moves.bytes as f64),
            planning_share: median(&|record| record.timeline.planning_seconds / record.seconds),
        })
    }
}

fn moves(row: &Row) -> bool {
    row.records.first().is_some_and(|record| record.repartition != "off")
}

/// Engine, partitioning, partitions, executor and workers.
type Layout<'a> = (&'a str, &'a str, u32, &'a str, Option<u32>);

/// What a row that moves has in common with those that it is measured by.
fn layout(row: &Row) -> Option<(Layout<'_>, Option<&str>, usize)> {
    let record = row.records.first()?;
    let layout = (&*record.engine, &*record.partitioning, record.partitions, &*record.executor, record.workers);
    Some((layout, row.key.space(), row.key.places()))
}

/// Beginning and end of the whole periods of a run, in seconds. A load in which nothing shifts has none but the run, whatever period is
/// noted.
fn periods(record: &Record) -> impl Iterator<Item = (f64, f64)> + use<> {
    let length = record.shift.map_or(0.0, |shift| match shift.period_ns() as f64 / 1e9 {
        period if period > 0.0 && period < record.seconds => period,
        _ => record.seconds,
    });
    let whole = if length > 0.0 { (record.seconds / length + SLACK).floor() as u32 } else { 0 };
    (0..whole).map(move |period| (f64::from(period) * length, f64::from(period + 1) * length))
}

/// Operations per second in the whole buckets from `from` to `to`; `None` where there are none.
fn rate(timeline: &Timeline, from: f64, to: f64) -> Option<f64> {
    let width = timeline.bucket_seconds;
    let begin = (from / width - SLACK).ceil() as usize;
    let end = ((to / width + SLACK).floor() as usize).min(timeline.operations.len());
    let buckets = timeline.operations.get(begin..end).filter(|buckets| !buckets.is_empty())?;
    Some(buckets.iter().sum::<u64>() as f64 / (buckets.len() as f64 * width))
}

/// The settled rate of a period.
fn late(timeline: &Timeline, (from, to): (f64, f64)) -> Option<f64> {
    rate(timeline, from + (to - from) * SETTLED_FROM, to)
}

/// The settled rates of both in the period in which moving came to least.
fn settled(moving: &Record, still: &Record) -> Option<(f64, f64)> {
    let both = periods(moving).zip(periods(still));
    let rates = both.filter_map(|(a, b)| Some((late(&moving.timeline, a)?, late(&still.timeline, b)?)));
    // Where both did nothing, neither was slower.
    rates.filter(|(_, still)| *still > 0.0).min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
}

/// What moving must come to, by what staying comes to.
fn asked(record: &Record) -> f64 {
    if record.durability == "sync" { ASKED.0 } else { ASKED.1 }
}

/// How long the slowest period took to come to what is asked, in seconds; the whole period, if it never did.
fn settles(moving: &Record, still: &Record) -> Option<f64> {
    let both = periods(moving).zip(periods(still));
    let seconds = both.filter_map(|(a, b)| {
        let aim = asked(moving) * late(&still.timeline, b)?;
        Some(reached(&moving.timeline, a, aim).unwrap_or(a.1 - a.0))
    });
    seconds.max_by(f64::total_cmp)
}

/// From the beginning of a period until half a second, begun in it, has such a rate.
fn reached(timeline: &Timeline, (from, to): (f64, f64), aim: f64) -> Option<f64> {
    let window = WINDOW_SECONDS.max(timeline.bucket_seconds);
    let buckets = ((to - from) / timeline.bucket_seconds) as u32;
    let mut waits = (0..buckets).map(|bucket| f64::from(bucket) * timeline.bucket_seconds);
    waits.find(|wait| {
        let end = from + wait + window;
        end <= to + SLACK && rate(timeline, from + wait, end).is_some_and(|rate| rate >= aim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Moves;
    use crate::record::tests::record;
    use crate::summary::tables;
    use crate::workload::{Shift, ShiftKind};

    /// A run of 12 s with a shift every 6 s, by tenths of seconds; what it does so long after a shift.
    fn run(repartition: &str, repetition: u32, ops: impl Fn(f64) -> u64) -> Record {
        let operations: Vec<u64> = (0..120).map(|tenth| ops(f64::from(tenth % 60) / 10.0)).collect();
        let mut record = record("log", "hard", repetition, operations.iter().sum::<u64>() as f64 / 12.0);
        (record.bench, record.workload) = ("shift".into(), "groups".into());
        record.shift = Some(Shift { period_seconds: 6.0, ..ShiftKind::Groups.into() });
        (record.seconds, record.repartition) = (12.0, repartition.into());
        record.timeline.operations = operations;
        record
    }

    #[test]
    fn what_moving_brought_is_taken_from_pairs_and_from_the_ends_of_periods() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            let drift = u64::from(repetition);
            records.push(run("off", repetition, |_| 100 * drift));
            let mut worse = run("off", repetition, |_| 90 * drift);
            worse.placement = "range".into();
            records.push(worse);
            // Nothing for a second, twice as much after it.
            let mut moving = run("1s", repetition, |at| if at < 1.0 { 0 } else { 200 * drift });
            moving.moves = Moves { plans: 2, units: 7, bytes: 1_000 };
            moving.timeline.planning_seconds = 0.03;
            records.push(moving);
        }
        let rows = &tables(&records)[0].rows;
        assert_eq!(rows.iter().filter(|row| row.moving.is_some()).count(), 1);
        let moving = rows[2].moving.as_ref().unwrap();
        assert_eq!(moving.still.as_deref(), Some("log hard-8 hash"), "the better of two");
        let (ratio, settled) = (moving.ratio.unwrap(), moving.settled.unwrap());
        assert!((ratio.median - 2.0 * 5.0 / 6.0).abs() < 1e-9 && ratio.pairs == 9, "{ratio:?}");
        assert!((settled.median - 2.0).abs() < 1e-9, "{settled:?}");
        // Half a second of which nine tenths are full begins one bucket, or a half, before the first full one.
        let settles = moving.settles_seconds.unwrap();
        assert!((0.9..=1.0 + 1e-9).contains(&settles), "{settles}");
        assert_eq!((moving.plans, moving.units, moving.bytes), (2.0, 7.0, 1_000.0));
        assert!((moving.planning_share - 0.03 / 12.0).abs() < 1e-12, "{}", moving.planning_share);
    }

    #[test]
    fn a_load_that_never_shifts_settles_in_the_last_third_and_one_without_shifts_nowhere() {
        let mut still = run("off", 1, |_| 100);
        let mut moving = run("1s", 1, |at| if at < 3.0 { 100 } else { 300 });
        let settled = |records: &[Record]| tables(records)[0].rows[1].moving.as_ref().unwrap().settled;
        let never = ShiftKind::ALL.into_iter().filter(|kind| !kind.has_periods()).map(Shift::from);
        for shift in never.chain([Shift { period_seconds: 0.0, ..ShiftKind::Jump.into() }]) {
            (still.shift, moving.shift) = (Some(shift), Some(shift));
            // Its last four seconds: a quarter of them at 100. Cut into periods of the 5 s that are noted, the worst would have 2.25.
            let median = settled(&[still.clone(), moving.clone()]).unwrap().median;
            assert!((median - 2.5).abs() < 1e-9, "{}: {median}", shift.kind);
        }
        (still.shift, moving.shift) = (None, None);
        assert_eq!(settled(&[still, moving.clone()]), None);
        let alone = tables(&[moving]);
        let moving = alone[0].rows[0].moving.as_ref().unwrap();
        assert_eq!((moving.still.as_ref(), moving.ratio), (None, None), "nothing to compare with");
    }

    #[test]
    fn a_period_in_which_moving_fails_is_not_hidden_by_one_in_which_it_pays() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            records.push(run("off", repetition, |_| 100));
            let mut moving = run("1s", repetition, |at| if at < 2.0 { 100 } else { 300 });
            // After the second shift it never gets over what stays; then, more than what stays and less than what is asked.
            moving.timeline.operations[60..].fill(if repetition < 6 { 50 } else { 120 });
            records.push(moving);
        }
        let rows = &tables(&records)[0].rows;
        let moving = rows[1].moving.as_ref().unwrap();
        let settled = moving.settled.unwrap();
        assert_eq!((settled.median, settled.min, settled.max), (0.5, 0.5, 1.2), "a mean of both would be 1.75");
        assert_eq!(moving.settles_seconds, Some(6.0));
    }

    /// Fails if runs in which moving did nothing drop out, and it is judged by those in which it paid.
    #[test]
    fn a_run_in_which_moving_did_nothing_counts_as_nothing() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            records.push(run("off", repetition, |_| 100));
            records.push(run("1s", repetition, |_| if repetition < 5 { 300 } else { 0 }));
        }
        let rows = &tables(&records)[0].rows;
        let moving = rows[1].moving.as_ref().unwrap();
        for ratio in [moving.ratio.unwrap(), moving.settled.unwrap()] {
            assert_eq!((ratio.median, ratio.min, ratio.max, ratio.pairs), (0.0, 0.0, 3.0, 9));
        }
    }

    /// Fails if units moved are also those of runs with wrong answers, which stand in no other figure of the row.
    #[test]
    fn what_moved_in_runs_with_wrong_answers_does_not_count() {
        let of = |repetition, units, errors| {
            let mut moving = run("1s", repetition, |_| 100);
            (moving.moves.units, moving.errors) = (units, errors);
            moving
        };
        let rows = &tables(&[of(1, 7, 0), of(2, 900, 1), of(3, 900, 1)])[0].rows;
        assert_eq!(rows[0].moving.as_ref().unwrap().units, 7.0);
    }

    #[test]
    fn other_engines_and_layouts_are_no_measure() {
        let moving = run("1s", 1, |_| 100);
        let mut others = vec![run("off", 1, |_| 50); 4];
        others[0].engine = "lmdb".into();
        others[1].partitions = 4;
        (others[2].executor, others[2].workers) = ("pinned".into(), Some(2));
        others[3].partitioning = "soft".into();
        others.push(moving);
        let rows = &tables(&others)[0].rows;
        assert_eq!(rows.last().unwrap().moving.as_ref().unwrap().still, None);
    }
}
