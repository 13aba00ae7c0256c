//! Records of repeated runs put together: one row for each engine, layout and workload.

mod criterion;
mod key;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

pub use self::criterion::Criterion;
pub(crate) use self::criterion::{paired, pairs};
pub(crate) use self::key::Key;
use crate::driver::Until;
use crate::measure::Place;
use crate::moving::Moving;
use crate::record::{CompactionFigures, Latency, Record, WafBy};
use crate::statistics::{Ratio, Spread, ratio};
use crate::units::{bytes, count};
use crate::workload::Shift;

/// What the rows of one table have in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The bench.
    pub bench: String,
    /// The workload's name.
    pub workload: String,
    /// How records were chosen.
    pub distribution: String,
    /// Client threads.
    pub threads: u32,
    /// When writes were acknowledged.
    pub durability: String,
    /// Records loaded.
    pub records: u64,
    /// The length of each key and value.
    pub key_bytes: u32,
    /// As above.
    pub value_bytes: u32,
    /// What a compressor leaves of a value.
    pub compression_ratio: f64,
    /// All caches of a store together.
    pub cache_bytes: u64,
    /// How engines were told to read files that they write no more.
    pub io: Option<String>,
    /// The limit on the memory of each run.
    pub memory_bytes: Option<u64>,
    /// Operations per second asked for.
    pub rate: Option<f64>,
    /// How long each run was to be; `None` for runs of before that was kept.
    pub until: Option<Until>,
    /// Where the runs' directories were, of each its first one; `None` for runs of before that was kept.
    pub place: Option<Place>,
    /// The shifting workload with those of its parameters that have an effect.
    pub shift: Option<Shift>,
    /// The files of a trace.
    pub traces: Vec<PathBuf>,
    /// Whether another table of the same runs differs in the lengths of keys and values alone.
    pub swept: bool,
    /// What tells it from other tables of the same runs with this workload and as many threads, a piece each.
    #[serde(skip)]
    pub apart: Vec<String>,
    /// One for each engine and layout, in the order in which they first ran.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// One engine in one layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What tells it from all other rows, of its table and of others.
    pub(crate) key: Key,
    /// Label and placement, and what else others of the same label differ in.
    pub name: String,
    /// Such as `lmdb hard-8`; with the placement, the planner, the bound on space or the number of places where other rows of the table
    /// that would be called the same differ in it.
    pub label: String,
    /// The engine.
    pub engine: String,
    /// The layout.
    pub partitioning: String,
    /// Partitions.
    pub partitions: u32,
    /// The placement.
    pub placement: String,
    /// Its runs, by repetition.
    pub records: Vec<Record>,
    /// Where these stand among all records, from 0.
    pub lines: Vec<usize>,
    /// Operations per second.
    pub ops_per_s: Spread,
    /// For each kind of operation, the median of each figure over the repetitions that did any; nothing but zeros where none did.
    pub latency: BTreeMap<String, Latency>,
    /// Write amplification (median).
    pub waf: Option<f64>,
    /// By each counter (medians).
    pub waf_by: WafBy,
    /// The engine's work in the background (medians; no time of one where most runs had none).
    pub compaction: CompactionFigures,
    /// Bytes on disk (median).
    pub disk_bytes: f64,
    /// Resident memory (median).
    pub rss_bytes: f64,
    /// Processor seconds of a whole run (median).
    pub cpu_seconds: Option<f64>,
    /// Random reads of 4 KiB a second that the device gave by as many threads (median).
    pub device_reads_per_s: Option<f64>,
    /// Throughput by what the device gave after each run.
    pub by_device: Option<Ratio>,
    /// Failed operations of all repetitions.
    pub errors: u64,
    /// What its table is compared by, by that of the same engine used directly, in pairs of one repetition.
    pub ratio: Option<Ratio>,
    /// What repartitioning brought, where it does.
    pub moving: Option<Moving>,
}

impl Table {
    /// A heading for people, which no other table of the same runs has.
    pub fn heading(&self) -> String {
        if self.swept { format!("{}, {}", self.sweep_heading(), self.sizes()) } else { self.sweep_heading() }
    }

    /// What its rows are compared by.
    pub fn criterion(&self) -> Criterion {
        Criterion::of(self.rate, &self.rows)
    }

    /// Whether a row did less than an open loop asked for: its operations wait, and the longer the later it is.
    pub fn is_behind(&self, row: &Row) -> bool {
        self.rate.is_some_and(|rate| row.ops_per_s.median < RATE_KEPT * rate)
    }

    /// How long its runs were to be, in words.
    pub fn length(&self) -> Option<String> {
        Some(match self.until? {
            Until::Operations(operations) => format!("runs of {operations} operations"),
            Until::Seconds(seconds) => format!("runs of {seconds} s"),
            Until::Once => "each trace once".to_owned(),
        })
    }

    /// Random reads of 4 KiB a second that the device gave to as many threads after these runs (median).
    pub fn device_reads_per_s(&self) -> Option<f64> {
        let records = self.rows.iter().flat_map(|row| &row.records);
        Spread::of(records.filter_map(|record| record.device_random_reads_per_s)).map(|spread| spread.median)
    }

    /// The heading of all tables that differ in the lengths of keys and values alone, which no others of the same runs have.
    pub fn sweep_heading(&self) -> String {
        self.apart.iter().fold(self.work(), |heading, apart| heading + ", " + apart)
    }

    /// What is done and by how many.
    pub fn work(&self) -> String {
        let work = match self.bench.as_str() {
            "ycsb" => format!("workload {}", self.workload.to_uppercase()),
            _ => self.workload.clone(),
        };
        format!("{work}, {} thread{}", self.threads, if self.threads == 1 { "" } else { "s" })
    }

    /// How records were chosen, in words where it takes more than a name.
    pub fn choice(&self) -> String {
        self.shift.map_or_else(|| self.distribution.clone(), |shift| shift.describe(self.records))
    }

    /// The lengths of keys and values.
    pub fn sizes(&self) -> String {
        format!("{} + {} bytes", self.key_bytes, self.value_bytes)
    }

    /// What a bench is called where it is well known.
    pub fn bench_name(&self) -> &str {
        bench_name(&self.bench)
    }

    /// Itself without rows, with the lengths of keys and values left out.
    fn sizeless(&self) -> Self {
        Self { key_bytes: 0, value_bytes: 0, swept: false, apart: Vec::new(), rows: Vec::new(), ..self.clone() }
    }

    /// Itself as what it is among any runs.
    pub(crate) fn alone(self) -> Self {
        Self { swept: false, apart: Vec::new(), rows: Vec::new(), ..self }
    }

    /// All that tables of one workload may differ in but for the lengths of keys and values, in words.
    fn settings(&self) -> [String; 11] {
        let files: Vec<String> = self.traces.iter().map(|file| file.display().to_string()).collect();
        [
            self.choice(),
            format!("acknowledged at {}", self.durability),
            format!("{} records", count(self.records as f64)),
            match self.compression_ratio {
                1.0 => "values that cannot be compressed".to_owned(),
                ratio => format!("values of which a compressor leaves {:.0} %", ratio * 100.0),
            },
            format!("{} of cache", bytes(self.cache_bytes as f64)),
            self.io.as_ref().map_or("read in each engine's own way".to_owned(), |io| format!("read by {io}")),
            self.memory_bytes
                .map_or("memory without a limit".to_owned(), |limit| format!("{} of memory", bytes(limit as f64))),
            self.rate.map_or("closed loop".to_owned(), |rate| format!("open loop at {}/s", count(rate))),
            self.length().unwrap_or_else(|| "runs of a length that is not told".to_owned()),
            self.place.as_ref().map_or("in a place that is not told".to_owned(), |place| format!("on {place}")),
            files.join(", "),
        ]
    }

    /// The settings in which others of the same work differ from this one.
    fn apart_from<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Vec<String> {
        let own = self.settings();
        let mut differs = [false; 11];
        for other in others.filter(|other| other.bench == self.bench && other.work() == self.work()) {
            let settings = other.settings();
            differs
                .iter_mut()
                .zip(own.iter().zip(&settings))
                .for_each(|(differs, (own, other))| *differs |= own != other);
        }
        own.into_iter().zip(differs).filter_map(|(own, differs)| differs.then_some(own)).collect()
    }

    fn of(record: &Record) -> Self {
        Self {
            bench: record.bench.clone(),
            workload: record.workload.clone(),
            distribution: record.distribution.clone(),
            threads: record.threads,
            durability: record.durability.clone(),
            records: record.records,
            key_bytes: record.key_bytes,
            value_bytes: record.value_bytes,
            compression_ratio: record.compression_ratio,
            cache_bytes: record.cache_bytes,
            io: record.io.clone(),
            memory_bytes: record.memory_bytes,
            rate: record.rate,
            until: record.until,
            place: record.places.first().cloned(),
            shift: record.shift.map(Shift::effective),
            traces: record.traces.clone(),
            swept: false,
            apart: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl Row {
    /// The runs whose every operation went well: what is judged is judged by these.
    pub fn sound(&self) -> impl Iterator<Item = &Record> {
        sound(&self.records)
    }

    /// The runs that its figures are of, here and wherever else it is shown: the sound ones; all of them where none is.
    pub fn told(&self) -> impl Iterator<Item = &Record> {
        told(&self.records)
    }
}

fn sound(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.errors == 0)
}

/// A store that finds nothing is fast: the figures of such runs stand only where there are no others.
fn told(records: &[Record]) -> impl Iterator<Item = &Record> {
    let is_any_sound = sound(records).next().is_some();
    records.iter().filter(move |record| record.errors == 0 || !is_any_sound)
}

/// Who did so much of what an open loop asked for kept its rate: what began before the run was over may have ended after it.
const RATE_KEPT: f64 = 0.99;

/// What a bench is called where it is well known.
pub(crate) fn bench_name(bench: &str) -> &str {
    match bench {
        "ycsb" => "YCSB",
        "db" => "db_bench",
        "shift" => "Shifting load",
        "trace" => "Trace",
        other => other,
    }
}

/// `tables` in groups that differ in the lengths of keys and values alone, in the order of their first.
pub fn sweeps(tables: &[Table]) -> Vec<Vec<&Table>> {
    let mut sweeps: Vec<Vec<&Table>> = Vec::new();
    for table in tables {
        match sweeps.iter_mut().find(|sweep| sweep[0].sizeless() == table.sizeless()) {
            Some(sweep) => sweep.push(table),
            None => sweeps.push(vec![table]),
        }
    }
    sweeps
}

/// The records of one row, where they stand among all, and what tells it from others.
type Group = (Key, Vec<(usize, Record)>);

/// Put `records` together, tables and rows in the order of their first record.
pub fn tables(records: &[Record]) -> Vec<Table> {
    let mut tables: Vec<(Table, Vec<Group>)> = Vec::new();
    for (line, record) in records.iter().enumerate() {
        let table = Table::of(record);
        let at = tables.iter().position(|(t, _)| *t == table).unwrap_or_else(|| {
            tables.push((table, Vec::new()));
            tables.len() - 1
        });
        let rows = &mut tables[at].1;
        let key = Key::of(record);
        match rows.iter_mut().find(|(other, _)| *other == key) {
            Some((_, records)) => records.push((line, record.clone())),
            None => rows.push((key, vec![(line, record.clone())])),
        }
    }
    let sizeless: Vec<Table> = tables.iter().map(|(table, _)| table.sizeless()).collect();
    tables
        .into_iter()
        .map(|(mut table, groups)| {
            table.swept = sizeless.iter().filter(|other| **other == table.sizeless()).count() > 1;
            table.apart = table.apart_from(sizeless.iter());
            let keys: Vec<Key> = groups.iter().map(|(key, _)| key.clone()).collect();
            let mut rows: Vec<Row> = groups.into_iter().filter_map(|(key, records)| row(key, &keys, records)).collect();
            let criterion = Criterion::of(table.rate, &rows);
            let direct: Vec<Row> = rows.iter().filter(|row| row.partitioning == "none").cloned().collect();
            for row in rows.iter_mut().filter(|row| row.partitioning != "none") {
                let is_base = |direct: &&Row| direct.engine == row.engine && direct.key.space() == row.key.space();
                let base = direct.iter().find(is_base);
                row.ratio = base.and_then(|base| paired(row, base, |record| criterion.figure(record)));
            }
            let moving: Vec<_> = rows.iter().map(|row| Moving::of(row, &rows, &criterion)).collect();
            rows.iter_mut().zip(moving).for_each(|(row, moving)| row.moving = moving);
            table.rows = rows;
            table
        })
        .collect()
}

/// The row of `records`, one of those of its table that have the keys `all`.
fn row(key: Key, all: &[Key], records: Vec<(usize, Record)>) -> Option<Row> {
    let (lines, records): (Vec<usize>, Vec<Record>) = records.into_iter().unzip();
    let first = records.first()?;
    let known =
        |figure: &dyn Fn(&Record) -> Option<f64>| Spread::of(told(&records).filter_map(figure)).map(|s| s.median);
    let whole =
        |figure: &dyn Fn(&Record) -> Option<u64>| known(&|record| figure(record).map(|n| n as f64)).map(|n| n as u64);
    let median = |figure: &dyn Fn(&Record) -> f64| known(&|record| Some(figure(record))).unwrap_or(0.0);
    let compactions = whole(&|r| r.compaction.count);
    // Beside a count of none stands no time of one, although the few runs that had some tell it.
    let of_one = |figure: &dyn Fn(&Record) -> Option<u64>| whole(figure).filter(|_| compactions != Some(0));
    let latency = first
        .latency_ns
        .keys()
        .map(|kind| {
            let figure = |of: fn(&Latency) -> u64| {
                // Where there was no such operation, none of them took no time.
                let done = told(&records).filter_map(|r| r.latency_ns.get(kind)).filter(|l| l.count > 0);
                Spread::of(done.map(|l| of(l) as f64)).map_or(0, |s| s.median as u64)
            };
            let latency = Latency {
                count: figure(|l| l.count),
                mean: figure(|l| l.mean),
                p50: figure(|l| l.p50),
                p95: figure(|l| l.p95),
                p99: figure(|l| l.p99),
                p999: figure(|l| l.p999),
                max: figure(|l| l.max),
            };
            (kind.clone(), latency)
        })
        .collect();
    Some(Row {
        name: key.name_among(all.iter()),
        label: key.label_among(all.iter()),
        key,
        engine: first.engine.clone(),
        partitioning: first.partitioning.clone(),
        partitions: first.partitions,
        placement: first.placement.clone(),
        ops_per_s: Spread::of(told(&records).map(|r| r.ops_per_s))?,
        latency,
        waf: known(&|r| r.waf),
        waf_by: WafBy {
            engine: known(&|r| r.waf_by.engine),
            process: known(&|r| r.waf_by.process),
            device: known(&|r| r.waf_by.device),
        },
        compaction: CompactionFigures {
            count: compactions,
            seconds: known(&|r| r.compaction.seconds),
            latency_ns_p50: of_one(&|r| r.compaction.latency_ns_p50),
            latency_ns_p99: of_one(&|r| r.compaction.latency_ns_p99),
            latency_ns_max: of_one(&|r| r.compaction.latency_ns_max),
            bytes: whole(&|r| r.compaction.bytes),
        },
        disk_bytes: median(&|r| r.disk_bytes as f64),
        rss_bytes: median(&|r| r.rss_bytes_max as f64),
        cpu_seconds: known(&|r| r.cpu_seconds),
        device_reads_per_s: known(&|r| r.device_random_reads_per_s),
        by_device: ratio(
            &sound(&records).filter_map(|r| Some((r.ops_per_s, r.device_random_reads_per_s?))).collect::<Vec<_>>(),
        ),
        errors: records.iter().map(|r| r.errors).sum(),
        ratio: None,
        moving: None,
        records,
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn repetitions_become_rows_and_pairs_become_ratios() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            let drift = 1_000.0 * f64::from(repetition);
            records.push(record("lmdb", "none", repetition, drift));
            records.push(record("lmdb", "hard", repetition, 2.0 * drift));
            records.push(record("memory", "hard", repetition, 5.0));
        }
        let tables = tables(&records);
        assert_eq!(tables.len(), 1);
        let rows = &tables[0].rows;
        assert_eq!(rows.iter().map(|r| r.label.as_str()).collect::<Vec<_>>(), ["lmdb", "lmdb hard-8", "memory hard-8"]);
        assert_eq!(rows[0].ops_per_s, Spread { median: 5_000.0, min: 1_000.0, max: 9_000.0, runs: 9 });
        assert_eq!(rows[0].ratio, None);
        let ratio = rows[1].ratio.unwrap();
        assert_eq!((ratio.median, ratio.pairs, ratio.interval), (2.0, 9, Some((2.0, 2.0))));
        assert_eq!(rows[2].ratio, None, "without a direct run there is nothing to compare with");
        assert_eq!(rows[0].latency["read"].p99, 1_400);
    }

    #[test]
    fn runs_with_errors_are_in_no_ratio() {
        let mut records = Vec::new();
        for repetition in 1..=9 {
            records.push(record("lmdb", "none", repetition, 100.0));
            let mut hard = record("lmdb", "hard", repetition, 110.0);
            // It finds nothing, and that quickly.
            (hard.errors, hard.ops_per_s) = if repetition <= 2 { (3, 9e9) } else { (0, hard.ops_per_s) };
            records.push(hard);
        }
        let row = &tables(&records)[0].rows[1];
        assert_eq!((row.ops_per_s.max, row.ops_per_s.runs, row.errors), (110.0, 7, 6), "nor in any figure");
        let ratio = row.ratio.unwrap();
        assert!(ratio.pairs == 7 && (ratio.max - 1.1).abs() < 1e-9, "{ratio:?}");
    }

    /// Fails if a kind that some runs did nothing of is quicker for that.
    #[test]
    fn operations_that_were_not_done_took_no_time_at_all_and_count_for_none() {
        let records: Vec<_> = (1..=3)
            .map(|repetition| {
                let mut record = record("lmdb", "none", repetition, 1.0);
                if repetition < 3 {
                    record.latency_ns.insert("update".into(), Latency::default());
                }
                record.latency_ns.insert("scan".into(), Latency::default());
                record
            })
            .collect();
        let latency = &tables(&records)[0].rows[0].latency;
        let update = latency["update"];
        assert_eq!((update.count, update.p50, update.p99, update.max), (500, 310, 1_400, 210_000));
        assert_eq!(latency["scan"], Latency::default());
    }

    #[test]
    fn other_threads_and_workloads_are_other_tables() {
        let mut other = record("lmdb", "none", 1, 1.0);
        other.threads = 4;
        let tables = tables(&[record("lmdb", "none", 1, 1.0), other]);
        assert_eq!(tables.iter().map(|t| t.threads).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(tables[1].heading(), "workload A, 4 threads");
    }

    #[test]
    fn tables_of_one_workload_say_in_their_headings_what_they_differ_in() {
        let of = |change: &dyn Fn(&mut Record)| {
            let mut record = record("lmdb", "none", 1, 1.0);
            change(&mut record);
            record
        };
        let records = [
            of(&|_| {}),
            of(&|r| r.durability = "sync".into()),
            of(&|r| (r.distribution, r.records) = ("uniform".into(), 5_000)),
            of(&|r| r.memory_bytes = Some(1 << 30)),
            of(&|r| (r.io, r.rate) = (Some("direct".into()), Some(2_000.0))),
            of(&|r| r.workload = "b".into()),
        ];
        let headings: Vec<_> = tables(&records).iter().map(Table::heading).collect();
        assert!(
            headings[1].starts_with("workload A, 2 threads, zipfian, acknowledged at sync, 1.00 k records"),
            "{headings:?}"
        );
        assert!(headings[2].contains("uniform, acknowledged at os, 5.00 k records"), "{headings:?}");
        assert!(headings[3].contains("1.07 GB of memory") && headings[4].contains("read by direct"), "{headings:?}");
        assert!(headings[4].contains("open loop at 2.00 k/s") && headings[0].contains("closed loop"), "{headings:?}");
        assert_eq!(headings[5], "workload B, 2 threads", "what all have in common is no part of it");
        for (i, heading) in headings.iter().enumerate() {
            assert!(!headings[..i].contains(heading), "{heading} stands twice");
        }
        // Two lengths of values that are swept at two levels: four headings.
        let swept: Vec<_> = ["os", "sync"]
            .into_iter()
            .flat_map(|level| [100, 200].map(|bytes| of(&|r| (r.durability, r.value_bytes) = (level.into(), bytes))))
            .collect();
        let headings: Vec<_> = tables(&swept).iter().map(Table::heading).collect();
        assert_eq!(headings[3], "workload A, 2 threads, acknowledged at sync, 16 + 200 bytes");
        assert_eq!(headings[0], "workload A, 2 threads, acknowledged at os, 16 + 100 bytes");
    }

    #[test]
    fn rows_know_their_lines_and_such_as_differ_in_placement_alone_are_told_apart() {
        let mut records: Vec<_> = (1..=4).map(|repetition| record("log", "hard", repetition, 1.0)).collect();
        (records[1].placement, records[3].placement) = ("range".into(), "range".into());
        let rows = &tables(&records)[0].rows;
        assert_eq!((rows[0].label.as_str(), rows[1].label.as_str()), ("log hard-8 hash", "log hard-8 range"));
        assert_eq!((&rows[0].lines[..], &rows[1].lines[..]), (&[0, 2][..], &[1, 3][..]));
    }

    #[test]
    fn sizes_make_a_sweep_and_anything_else_does_not() {
        let of = |workload: &str, key_bytes, value_bytes| {
            let mut record = record("lmdb", "none", 1, 1.0);
            (record.bench, record.workload) = ("db".into(), workload.into());
            (record.key_bytes, record.value_bytes) = (key_bytes, value_bytes);
            record
        };
        let records = [of("fillseq", 16, 100), of("readseq", 16, 100), of("fillseq", 16, 200), of("fillseq", 32, 200)];
        let tables = tables(&records);
        let sweeps = sweeps(&tables);
        assert_eq!(sweeps.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        let headings: Vec<_> = sweeps.iter().flatten().map(|table| table.heading()).collect();
        assert_eq!(headings[0], "fillseq, 2 threads, 16 + 100 bytes");
        assert_eq!(headings[3], "readseq, 2 threads");
    }

    #[test]
    fn costs_are_medians_of_what_is_known() {
        let records: Vec<_> = [Some(10), None, Some(30), Some(20)]
            .into_iter()
            .enumerate()
            .map(|(i, latency_ns_p50)| {
                let mut record = record("lmdb", "none", i as u32, 1.0);
                record.compaction = CompactionFigures {
                    count: Some(4),
                    seconds: Some(1.0),
                    latency_ns_p50,
                    bytes: Some(9),
                    ..CompactionFigures::default()
                };
                record.waf_by.device = latency_ns_p50.map(|ns| ns as f64);
                record
            })
            .collect();
        let row = &tables(&records)[0].rows[0];
        assert_eq!(
            (row.compaction.count, row.compaction.seconds, row.compaction.latency_ns_p50, row.compaction.bytes),
            (Some(4), Some(1.0), Some(20), Some(9))
        );
        let silent = record("lmdb", "none", 1, 1.0);
        assert_eq!(tables(&[silent])[0].rows[0].compaction.count, None, "what is not told is not 0");
        // Where one run of three compacted something, its time would stand beside 0 compactions.
        let few = |counts: [u64; 3]| {
            let run = |count: u64| {
                let mut record = record("rocksdb", "none", 1, 1.0);
                let ns = (count > 0).then_some(20_000_000);
                record.compaction = CompactionFigures { count: Some(count), latency_ns_p50: ns, ..Default::default() };
                record
            };
            let compaction = tables(&counts.map(run))[0].rows[0].compaction;
            (compaction.count, compaction.latency_ns_p50)
        };
        assert_eq!(few([0, 0, 3]), (Some(0), None));
        assert_eq!(few([0, 1, 3]), (Some(1), Some(20_000_000)));
        assert_eq!((row.waf_by.device, row.waf_by.engine), (Some(20.0), Some(1.5)));
    }
}
