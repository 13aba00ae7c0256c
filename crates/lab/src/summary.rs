//! Records of repeated runs put together: one row for each engine, layout and workload.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::moving::Moving;
use crate::record::{CompactionFigures, Latency, Record, WafBy};
use crate::statistics::{Ratio, Spread, ratio};
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
    /// The shifting workload with its parameters.
    pub shift: Option<Shift>,
    /// The files of a trace.
    pub traces: Vec<PathBuf>,
    /// Whether another table of the same runs differs in the lengths of keys and values alone.
    pub swept: bool,
    /// One for each engine and layout, in the order in which they first ran.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// One engine in one layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What tells it from the other rows of its table: label and placement.
    pub name: String,
    /// Such as `lmdb hard-8`.
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
    /// Operations per second.
    pub ops_per_s: Spread,
    /// For each kind of operation, the median of each figure over the repetitions.
    pub latency: BTreeMap<String, Latency>,
    /// Write amplification (median).
    pub waf: Option<f64>,
    /// By each counter (medians).
    pub waf_by: WafBy,
    /// The engine's work in the background (medians).
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
    /// Throughput by that of the same engine used directly, in pairs of one repetition.
    pub ratio: Option<Ratio>,
    /// What repartitioning brought, where it does.
    pub moving: Option<Moving>,
}

impl Table {
    /// A heading for people, which no other table of the same runs has.
    pub fn heading(&self) -> String {
        if self.swept { format!("{}, {}", self.sweep_heading(), self.sizes()) } else { self.sweep_heading() }
    }

    /// Random reads of 4 KiB a second that the device gave to as many threads after these runs (median).
    pub fn device_reads_per_s(&self) -> Option<f64> {
        let records = self.rows.iter().flat_map(|row| &row.records);
        Spread::of(records.filter_map(|record| record.device_random_reads_per_s)).map(|spread| spread.median)
    }

    /// The heading of all tables that differ in the lengths of keys and values alone.
    pub fn sweep_heading(&self) -> String {
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
        Self { key_bytes: 0, value_bytes: 0, swept: false, rows: Vec::new(), ..self.clone() }
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
            shift: record.shift,
            traces: record.traces.clone(),
            swept: false,
            rows: Vec::new(),
        }
    }
}

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

/// The records of one row and its name.
type Group = (String, Vec<Record>);

/// Put `records` together, tables and rows in the order of their first record.
pub fn tables(records: &[Record]) -> Vec<Table> {
    let mut tables: Vec<(Table, Vec<Group>)> = Vec::new();
    for record in records {
        let table = Table::of(record);
        let at = tables.iter().position(|(t, _)| *t == table).unwrap_or_else(|| {
            tables.push((table, Vec::new()));
            tables.len() - 1
        });
        let rows = &mut tables[at].1;
        let name = format!("{} {}", record.label(), record.placement);
        match rows.iter_mut().find(|(n, _)| *n == name) {
            Some((_, records)) => records.push(record.clone()),
            None => rows.push((name, vec![record.clone()])),
        }
    }
    let sizeless: Vec<Table> = tables.iter().map(|(table, _)| table.sizeless()).collect();
    tables
        .into_iter()
        .map(|(mut table, groups)| {
            table.swept = sizeless.iter().filter(|other| **other == table.sizeless()).count() > 1;
            let mut rows: Vec<Row> = groups.into_iter().filter_map(|(name, records)| row(name, records)).collect();
            let direct: Vec<Row> = rows.iter().filter(|row| row.partitioning == "none").cloned().collect();
            for row in rows.iter_mut().filter(|row| row.partitioning != "none") {
                row.ratio =
                    direct.iter().find(|d| d.engine == row.engine).and_then(|d| paired(row, d, |r| Some(r.ops_per_s)));
            }
            let moving: Vec<_> = rows.iter().map(|row| Moving::of(row, &rows)).collect();
            rows.iter_mut().zip(moving).for_each(|(row, moving)| row.moving = moving);
            table.rows = rows;
            table
        })
        .collect()
}

fn row(name: String, records: Vec<Record>) -> Option<Row> {
    let first = records.first()?;
    let known =
        |figure: &dyn Fn(&Record) -> Option<f64>| Spread::of(records.iter().filter_map(figure)).map(|s| s.median);
    let whole =
        |figure: &dyn Fn(&Record) -> Option<u64>| known(&|record| figure(record).map(|n| n as f64)).map(|n| n as u64);
    let median = |figure: &dyn Fn(&Record) -> f64| known(&|record| Some(figure(record))).unwrap_or(0.0);
    let latency = first
        .latency_ns
        .keys()
        .map(|kind| {
            let figure = |of: fn(&Latency) -> u64| {
                Spread::of(records.iter().filter_map(|r| r.latency_ns.get(kind)).map(|l| of(l) as f64))
                    .map_or(0, |s| s.median as u64)
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
        name,
        label: first.label(),
        engine: first.engine.clone(),
        partitioning: first.partitioning.clone(),
        partitions: first.partitions,
        placement: first.placement.clone(),
        ops_per_s: Spread::of(records.iter().map(|r| r.ops_per_s))?,
        latency,
        waf: known(&|r| r.waf),
        waf_by: WafBy {
            engine: known(&|r| r.waf_by.engine),
            process: known(&|r| r.waf_by.process),
            device: known(&|r| r.waf_by.device),
        },
        compaction: CompactionFigures {
            count: whole(&|r| r.compaction.count),
            seconds: known(&|r| r.compaction.seconds),
            latency_ns_p50: whole(&|r| r.compaction.latency_ns_p50),
            latency_ns_p99: whole(&|r| r.compaction.latency_ns_p99),
            latency_ns_max: whole(&|r| r.compaction.latency_ns_max),
            bytes: whole(&|r| r.compaction.bytes),
        },
        disk_bytes: median(&|r| r.disk_bytes as f64),
        rss_bytes: median(&|r| r.rss_bytes_max as f64),
        cpu_seconds: known(&|r| r.cpu_seconds),
        device_reads_per_s: known(&|r| r.device_random_reads_per_s),
        by_device: ratio(
            &records.iter().filter_map(|r| Some((r.ops_per_s, r.device_random_reads_per_s?))).collect::<Vec<_>>(),
        ),
        errors: records.iter().map(|r| r.errors).sum(),
        ratio: None,
        moving: None,
        records,
    })
}

/// A figure of `row` by that of `base`. The runs of one repetition, which have one seed and ran side by side, form a pair.
pub(crate) fn paired(row: &Row, base: &Row, figure: impl Fn(&Record) -> Option<f64>) -> Option<Ratio> {
    let pairs: Vec<_> = row
        .records
        .iter()
        .filter_map(|a| {
            let b = base.records.iter().find(|b| b.repetition == a.repetition && b.seed == a.seed)?;
            Some((figure(a)?, figure(b)?))
        })
        .collect();
    ratio(&pairs)
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
        assert_eq!(rows[0].ops_per_s, Spread { median: 5_000.0, min: 1_000.0, max: 9_000.0 });
        assert_eq!(rows[0].ratio, None);
        let ratio = rows[1].ratio.unwrap();
        assert_eq!((ratio.median, ratio.pairs, ratio.interval), (2.0, 9, Some((2.0, 2.0))));
        assert_eq!(rows[2].ratio, None, "without a direct run there is nothing to compare with");
        assert_eq!(rows[0].latency["read"].p99, 1_400);
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
        assert_eq!((row.waf_by.device, row.waf_by.engine), (Some(20.0), Some(1.5)));
    }
}
