//! The terminal table.

use std::io::{self, Write};

use crate::columns;
use crate::moving::Moving;
use crate::record::{Latency, Record};
use crate::statistics::{Ratio, Spread};
use crate::summary::{Row, Table};
use crate::units::{bytes, count, duration_ns};

/// Print `tables`, one below the other. Throughput is the median of the repetitions with the slowest and the fastest;
/// `x direct` is throughput by that of the same engine used directly, pair by pair, with its 95 % interval (from six
/// pairs on; the extremes before that). Write amplification is that of loading and that of the run, by the kernel; in one column for
/// records of before they were told apart. Of rows that repartition themselves `moves` are the units moved in a run, `planning` is what
/// watching and planning took of its time, on a thread of the store's own, `x still` throughput by that of the best row that stays as it
/// is, `settled` the same of the last third of the worst period of each run, `settles in` the time that it takes after a shift to come to
/// what is asked of it ([`Moving`]). `device reads/s` are random reads of 4 KiB that the device gave to as many threads after these
/// runs, `x device` is throughput by that, and the last line has their median over all runs.
pub fn print(tables: &[Table], output: &mut impl Write) -> io::Result<()> {
    for (i, table) in tables.iter().enumerate() {
        if i > 0 {
            writeln!(output)?;
        }
        write_table(table, output)?;
    }
    Ok(())
}

fn write_table(table: &Table, output: &mut impl Write) -> io::Result<()> {
    let loop_ = table.rate.map_or("closed loop".to_owned(), |rate| format!("open loop at {}/s", count(rate)));
    writeln!(
        output,
        "{} {} ({}): {} records of {}{}, {}, {} cache{}{}, {loop_}",
        table.bench_name(),
        table.work(),
        table.choice(),
        count(table.records as f64),
        table.sizes(),
        if table.compression_ratio < 1.0 {
            format!(" (a compressor leaves {:.0} % of a value)", table.compression_ratio * 100.0)
        } else {
            String::new()
        },
        table.durability,
        bytes(table.cache_bytes as f64),
        table.memory_bytes.map_or(String::new(), |limit| format!(" in {} of memory", bytes(limit as f64))),
        table.io.as_ref().map_or(String::new(), |io| format!(", io {io}")),
    )?;
    let ratios = table.rows.iter().any(|row| row.ratio.is_some());
    let mut header = vec!["engine", "ops/s", "min..max", "operation", "p50", "p99", "p99.9"];
    if table.rows.iter().flat_map(|row| &row.records).any(|record| record.amplification.is_some()) {
        header.extend(["WAF load", "WAF run"]);
    } else {
        header.push("WAF");
    }
    header.extend(["disk", "memory"]);
    if table.rows.iter().any(|row| row.compaction.is_any()) {
        header.extend(["compactions", "their time", "their p50", "they wrote"]);
    }
    if ratios {
        header.push("x direct");
    }
    if table.rows.iter().any(|row| row.moving.is_some()) {
        header.extend(["moves", "planning", "x still"]);
    }
    if table.rows.iter().any(|row| row.moving.as_ref().is_some_and(|moving| moving.settled.is_some())) {
        header.extend(["settled", "settles in"]);
    }
    if table.rows.iter().any(|row| row.errors > 0) {
        header.push("errors");
    }
    if table.rows.iter().any(|row| row.device_reads_per_s.is_some()) {
        header.extend(["device reads/s", "x device"]);
    }
    let mut lines = vec![header.iter().map(|&s| s.to_owned()).collect::<Vec<_>>()];
    for row in &table.rows {
        lines.extend(row_lines(row, &header));
    }
    columns::write(&lines, &[0, 3], output)?;
    if let Some(rate) = table.device_reads_per_s() {
        writeln!(output, "  device: {} random reads/s at depth {}", count(rate), table.threads)?;
    }
    Ok(())
}

/// A figure, or the dash of what no engine tells.
fn told(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// One line for each kind of operation; what belongs to the whole run stands on the first.
fn row_lines(row: &Row, header: &[&str]) -> Vec<Vec<String>> {
    let mut kinds: Vec<(&str, Option<&Latency>)> =
        row.latency.iter().map(|(kind, latency)| (kind.as_str(), Some(latency))).collect();
    if kinds.is_empty() {
        kinds.push(("", None));
    }
    kinds
        .iter()
        .enumerate()
        .map(|(i, (kind, latency))| {
            let first = |text: String| if i == 0 { text } else { String::new() };
            let time = |of: fn(&Latency) -> u64, l: &Latency| (l.count > 0).then(|| duration_ns(of(l) as f64));
            let at = |of: fn(&Latency) -> u64| latency.map_or(String::new(), |l| told(time(of, l)));
            header
                .iter()
                .map(|column| match *column {
                    "engine" => first(row.label.clone()),
                    "ops/s" => first(count(row.ops_per_s.median)),
                    "min..max" => first(format!("{}..{}", count(row.ops_per_s.min), count(row.ops_per_s.max))),
                    "operation" => (*kind).replace('_', "-"),
                    "p50" => at(|l| l.p50),
                    "p99" => at(|l| l.p99),
                    "p99.9" => at(|l| l.p999),
                    "WAF" => first(told(row.waf.map(|waf| format!("{waf:.2}")))),
                    "WAF load" => first(told(waf(row, waf_of_load))),
                    "WAF run" => first(told(waf(row, waf_of_run))),
                    "disk" => first(bytes(row.disk_bytes)),
                    "memory" => first(bytes(row.rss_bytes)),
                    "compactions" => first(told(row.compaction.count.map(|n| count(n as f64)))),
                    "their time" => first(told(row.compaction.seconds.map(|seconds| duration_ns(seconds * 1e9)))),
                    "their p50" => first(told(row.compaction.latency_ns_p50.map(|ns| duration_ns(ns as f64)))),
                    "they wrote" => first(told(row.compaction.bytes.map(|n| bytes(n as f64)))),
                    "device reads/s" => first(row.device_reads_per_s.map_or("-".to_owned(), count)),
                    "x device" => first(row.by_device.as_ref().map_or(String::new(), ratio)),
                    "x direct" => first(row.ratio.as_ref().map_or(String::new(), ratio)),
                    "moves" => first(row.moving.as_ref().map_or(String::new(), |moving| count(moving.units))),
                    "planning" => first(moving(row, |moving| Some(format!("{:.2} %", 100.0 * moving.planning_share)))),
                    "x still" => first(moving(row, |moving| moving.ratio.as_ref().map(ratio))),
                    "settled" => first(moving(row, |moving| moving.settled.as_ref().map(ratio))),
                    "settles in" => {
                        first(moving(row, |moving| moving.settles_seconds.map(|seconds| duration_ns(seconds * 1e9))))
                    }
                    _ => first(row.errors.to_string()),
                })
                .collect()
        })
        .collect()
}

/// Write amplification in one phase (median): what a run of reads does is not shown by what loading wrote.
fn waf(row: &Row, of_phase: fn(&Record) -> Option<f64>) -> Option<String> {
    Spread::of(row.told().filter_map(of_phase)).map(|spread| format!("{:.2}", spread.median))
}

/// By the kernel, or by the engine where the kernel does not tell; either way a phase pays for what was put in it and for nothing else.
fn waf_of_run(record: &Record) -> Option<f64> {
    record.waf_of_run(|ways| ways.process).or_else(|| record.amplification.as_ref()?.run.waf_by_engine())
}

/// The same of loading.
fn waf_of_load(record: &Record) -> Option<f64> {
    let told = record.amplification.as_ref()?;
    told.waf_of_load(|ways| ways.process).or_else(|| told.load.as_ref()?.waf_by_engine())
}

/// What is to be said of moving in a row that moves.
fn moving(row: &Row, text: impl Fn(&Moving) -> Option<String>) -> String {
    row.moving.as_ref().and_then(text).unwrap_or_default()
}

/// `1.93 [1.90, 2.01]`: the interval in brackets; `1.93 (1.90..2.01)`: the extremes of too few pairs.
pub(crate) fn ratio(ratio: &Ratio) -> String {
    match ratio.interval {
        Some((low, high)) => format!("{:.2} [{low:.2}, {high:.2}]", ratio.median),
        None if ratio.pairs > 1 => format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.min, ratio.max),
        None => format!("{:.2}", ratio.median),
    }
}

#[cfg(test)]
mod tests {
    use crate::amplification::{Amplification, PhaseFigures, Ways};
    use crate::record::CompactionFigures;
    use crate::record::tests::record;
    use crate::summary::tables;

    #[test]
    fn the_table_shows_medians_spread_latency_costs_and_ratios() {
        let mut records = Vec::new();
        for repetition in 1..=7 {
            records.push(record("lmdb", "none", repetition, 1_000.0 * f64::from(repetition)));
            records.push(record("lmdb", "hard", repetition, 3_000.0 * f64::from(repetition)));
        }
        let mut text = Vec::new();
        super::print(&tables(&records), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in ["4.00 k", "1.00 k..7.00 k", "3.00 [3.00, 3.00]", "1.40 µs", "9.00 µs", "2.00", "lmdb hard-8"]
        {
            assert!(text.contains(expected), "`{expected}` is missing in\n{text}");
        }
        assert_eq!(
            text.lines().count(),
            3 + 2 * 2,
            "a title, a header, a rule, and two operations of two rows:\n{text}"
        );
        assert!(!text.contains("errors") && !text.contains("compactions"));
    }

    /// Fails if the load's write amplification stands in the place of a run that put nothing.
    #[test]
    fn write_amplification_of_load_and_run_stands_apart() {
        let phase = |process, put, owed| PhaseFigures {
            write_bytes: Ways { process: Some(process), ..Ways::default() },
            logical_write_bytes: put,
            unflushed_bytes: Some(owed),
            ..PhaseFigures::default()
        };
        let mut reads = record("lmdb", "none", 1, 1_000.0);
        // The run writes what loading owes, and puts nothing.
        let (load, run) = (Some(phase(5_250, 1_000, 2_000)), phase(2_000, 0, 0));
        reads.amplification = Some(Amplification { load, run, ..Amplification::default() });
        let mut writes = record("log", "none", 1, 1_000.0);
        let (load, run) = (None, phase(1_375, 1_000, 0));
        writes.unflushed_write_bytes = 0;
        writes.amplification = Some(Amplification { load, run, ..Amplification::default() });
        let mut text = Vec::new();
        super::print(&tables(&[reads, writes]), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let cells = |engine: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.contains(&format!("  {engine} "))).unwrap();
            line.split_whitespace()
                .filter(|cell| *cell == "-" || cell.contains("7.2") || cell.contains("1.3"))
                .collect()
        };
        assert!(text.contains("WAF load  WAF run"), "{text}");
        assert_eq!(cells("lmdb"), ["7.25", "-"], "{text}");
        assert_eq!(cells("log"), ["-", "1.38"], "{text}");
    }

    /// Fails if a column is of other runs than the one beside it: of all where some are sound, or of none where none is.
    #[test]
    fn write_amplification_is_that_of_the_runs_that_the_other_figures_are_of() {
        let of = |repetition, process, errors| {
            let mut record = record("log", "none", repetition, 1_000.0);
            let write_bytes = Ways { process: Some(process), ..Ways::default() };
            let run = PhaseFigures { write_bytes, logical_write_bytes: 1_000, ..PhaseFigures::default() };
            record.amplification = Some(Amplification { run, ..Amplification::default() });
            record.errors = errors;
            record
        };
        let shown = |records: &[_]| {
            let mut text = Vec::new();
            super::print(&tables(records), &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let some = shown(&[of(1, 1_250, 0), of(2, 9_750, 1), of(3, 9_750, 1)]);
        assert!(some.contains("  1.25  ") && !some.contains("9.75"), "{some}");
        let none = shown(&[of(1, 9_750, 1)]);
        assert!(none.contains("  9.75  "), "{none}");
    }

    /// Fails if operations that were not done are said to take 0 ns.
    #[test]
    fn operations_that_were_not_done_have_no_latency() {
        let mut record = record("lmdb", "none", 1, 1_000.0);
        record.latency_ns.insert("scan".into(), crate::record::Latency::default());
        let mut text = Vec::new();
        super::print(&tables(&[record]), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let scan = text.lines().find(|line| line.contains(" scan ")).unwrap();
        assert_eq!(scan.split_whitespace().collect::<Vec<_>>(), ["scan", "-", "-", "-"], "{text}");
    }

    #[test]
    fn what_the_device_gave_stands_beside_and_below_the_runs_that_measured_it() {
        let mut records: Vec<_> = (1..=3).map(|n| record("log", "hard", n, 8_000.0 + 500.0 * f64::from(n))).collect();
        for record in &mut records {
            record.io = Some("direct".into());
            record.memory_bytes = Some(64_000_000);
            record.device_random_reads_per_s = Some(10_000.0);
        }
        let mut text = Vec::new();
        super::print(&tables(&records), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in [
            "cache in 64.0 MB of memory, io direct",
            "device reads/s",
            "0.90 (0.85..0.95)",
            "\n  device: 10.0 k random reads/s at depth 2\n",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing in\n{text}");
        }
    }

    #[test]
    fn what_moves_is_measured_by_what_stays() {
        let mut records = Vec::new();
        for repetition in 1..=7 {
            records.push(record("log", "hard", repetition, 1_000.0));
            let mut moving = record("log", "hard", repetition, 1_500.0);
            (moving.repartition, moving.moves.units) = ("1s".into(), 12);
            moving.timeline.planning_seconds = moving.seconds / 400.0;
            records.push(moving);
        }
        let mut text = Vec::new();
        super::print(&tables(&records), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let moving = text.lines().find(|line| line.contains("log hard-8 moving 1s")).unwrap();
        assert!(
            moving.contains("  12  ") && moving.contains("  0.25 %  ") && moving.contains("1.50 [1.50, 1.50]"),
            "{text}"
        );
        assert!(text.contains("x still") && !text.contains("settles in"), "nothing shifts here:\n{text}");
        let still = text.lines().find(|line| line.contains("log hard-8 ") && !line.contains("moving")).unwrap();
        assert!(!still.contains('['), "{text}");
    }

    #[test]
    fn compactions_are_shown_where_there_are_any() {
        let mut busy = record("leveldb", "none", 1, 1_000.0);
        (busy.bench, busy.workload) = ("db".into(), "fillrandom".into());
        busy.compression_ratio = 0.5;
        busy.compaction = CompactionFigures {
            count: Some(12),
            seconds: Some(1.25),
            latency_ns_p50: Some(7_500_000),
            bytes: Some(3_400_000),
            ..CompactionFigures::default()
        };
        let mut quiet = busy.clone();
        (quiet.engine, quiet.compaction) = ("lmdb".into(), Default::default());
        let mut text = Vec::new();
        super::print(&tables(&[busy, quiet]), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in [
            "db_bench fillrandom, 2 threads",
            "16 + 1000 bytes (a compressor leaves 50 % of a value)",
            "compactions",
            "their time",
            "they wrote",
            "  12  ",
            "1.25 s",
            "7.50 ms",
            "3.40 MB",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing in\n{text}");
        }
        let quiet = text.lines().find(|line| line.contains("lmdb")).unwrap();
        assert_eq!(quiet.split_whitespace().filter(|cell| *cell == "-").count(), 4, "what is not told: {quiet}");
    }
}
