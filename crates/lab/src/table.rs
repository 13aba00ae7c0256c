//! The terminal table.

use std::io::{self, Write};

use crate::amplification::{OF_PHASES, OF_WHOLE, Waf, note};
use crate::columns;
use crate::moving::Moving;
use crate::record::Latency;
use crate::statistics::Ratio;
use crate::summary::{Criterion, Row, Table};
use crate::units::{bytes, count, duration_ns};

/// Print `tables`, one below the other. Throughput is the median of the repetitions with the slowest and the fastest;
/// `x direct` is throughput by that of the same engine used directly, pair by pair, with its 95 % interval (from six
/// pairs on; the extremes before that). Write amplification is that of loading and that of the run, by the kernel, with a star where the
/// engine says more, which stands below; in one column for records of before they were told apart. Of rows that repartition themselves
/// `moves` are the units moved in a run, `planning` is what watching and planning took of its time, on a thread of the store's own,
/// `x still` throughput by that of the best row that stays as it is, `settled` the same of the last third of the worst period of each run,
/// `settles in` the time that it takes after a shift to come to what is asked of it ([`Moving`]). `device reads/s` are random reads of 4 KiB
/// that the device gave to as many threads after these runs, `x device` is throughput by that, and the last line has their median over all
/// runs. In an open loop `p99 x direct` and `p99 x still` are of 99th percentiles ([`Criterion`]), and who did not keep the rate is named
/// below.
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
    let length = table.length().map_or(String::new(), |length| format!(", {length}"));
    let place = table.place.as_ref().map_or(String::new(), |place| format!(", on {place}"));
    writeln!(
        output,
        "{} {} ({}): {} records of {}{}, {}, {} cache{}{}, {loop_}{length}{place}",
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
    let criterion = table.criterion();
    let by = |throughput, tail| if criterion == Criterion::Throughput { throughput } else { tail };
    let mut header = vec!["engine", "ops/s", "min..max", "operation", "p50", "p99", "p99.9"];
    let has_phases = table.rows.iter().flat_map(|row| &row.records).any(|record| record.amplification.is_some());
    if has_phases {
        header.extend(["WAF load", "WAF run"]);
    } else {
        header.push("WAF");
    }
    header.extend(["disk", "memory"]);
    if table.rows.iter().any(|row| row.compaction.is_any()) {
        header.extend(["compactions", "their time", "their p50", "they wrote"]);
    }
    if ratios {
        header.push(by("x direct", "p99 x direct"));
    }
    if table.rows.iter().any(|row| row.moving.is_some()) {
        header.extend(["moves", "planning", by("x still", "p99 x still")]);
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
    let stars = if has_phases { note(&table.rows, &OF_PHASES) } else { note(&table.rows, &OF_WHOLE) };
    if let Some(stars) = stars {
        writeln!(output, "  {stars}")?;
    }
    remarks(table, &criterion, output)?;
    if let Some(rate) = table.device_reads_per_s() {
        writeln!(output, "  device: {} random reads/s at depth {}", count(rate), table.threads)?;
    }
    Ok(())
}

/// What is to be known of some rows.
fn remarks(table: &Table, criterion: &Criterion, output: &mut impl Write) -> io::Result<()> {
    let is_compared = table.rows.iter().any(|row| row.ratio.is_some() || row.moving.is_some());
    if let (Criterion::Tail(kind), true) = (criterion, is_compared) {
        let kind = kind.replace('_', "-");
        writeln!(output, "  p99 x: the 99th percentile of {kind}, the longest one here, by that of the other row")?;
    }
    let late = table.rows.iter().filter(|row| table.is_behind(row));
    let late: Vec<String> = late.map(|row| format!("{} ({}/s)", row.label, count(row.ops_per_s.median))).collect();
    if let Some(rate) = table.rate.filter(|_| !late.is_empty()) {
        writeln!(output, "  behind: {}/s were asked for and not kept by {}", count(rate), late.join(", "))?;
    }
    for record in table.rows.iter().flat_map(|row| &row.records) {
        if let Some(ended) = &record.ended {
            let (label, repetition) = (record.label(), record.repetition);
            writeln!(output, "  note: the process of {label}, repetition {repetition}, {ended} after its result")?;
        }
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
                    "WAF" => first(told(Waf::of_whole(row).map(Waf::text))),
                    "WAF load" => first(told(Waf::of_load(row).map(Waf::text))),
                    "WAF run" => first(told(Waf::of_run(row).map(Waf::text))),
                    "disk" => first(bytes(row.disk_bytes)),
                    "memory" => first(bytes(row.rss_bytes)),
                    "compactions" => first(told(row.compaction.count.map(|n| count(n as f64)))),
                    "their time" => first(told(row.compaction.seconds.map(|seconds| duration_ns(seconds * 1e9)))),
                    "their p50" => first(told(row.compaction.latency_ns_p50.map(|ns| duration_ns(ns as f64)))),
                    "they wrote" => first(told(row.compaction.bytes.map(|n| bytes(n as f64)))),
                    "device reads/s" => first(row.device_reads_per_s.map_or("-".to_owned(), count)),
                    "x device" => first(row.by_device.as_ref().map_or(String::new(), ratio)),
                    "x direct" | "p99 x direct" => first(row.ratio.as_ref().map_or(String::new(), ratio)),
                    "moves" => first(row.moving.as_ref().map_or(String::new(), |moving| count(moving.units))),
                    "planning" => first(moving(row, |moving| Some(format!("{:.2} %", 100.0 * moving.planning_share)))),
                    "x still" | "p99 x still" => first(moving(row, |moving| moving.ratio.as_ref().map(ratio))),
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

    /// Fails if a log that was deleted before it was written makes its engine look as if it had none, and nothing says so.
    #[test]
    fn a_figure_that_the_kernel_took_bytes_off_has_a_star_and_a_line_below() {
        let phase = |process, cancelled| PhaseFigures {
            write_bytes: Ways { process: Some(process), ..Ways::default() },
            waf: Ways { statistics: Some(1.15), ..Ways::default() },
            cancelled_write_bytes: Some(cancelled),
            logical_write_bytes: 1_000,
            ..PhaseFigures::default()
        };
        let shown = |process, cancelled| {
            let mut record = record("rocksdb", "hard", 1, 1_000.0);
            let (load, run) = (Some(phase(1_150, 0)), phase(process, cancelled));
            record.amplification = Some(Amplification { load, run, ..Amplification::default() });
            let mut text = Vec::new();
            super::print(&tables(&[record]), &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let short = shown(160, 990_000);
        assert!(short.contains("  1.15    0.16*  "), "{short}");
        let said = "\n  * by its own word the engine wrote more: rocksdb hard-8 1.15 in run, 990 kB taken back. ";
        assert!(short.contains(said), "{short}");
        let long = shown(1_150, 0);
        assert!(!long.contains('*'), "{long}");
        // Lines of before there were phases.
        let mut old = record("leveldb", "none", 1, 1_000.0);
        (old.waf, old.waf_by.process, old.waf_by.engine) = (Some(0.75), Some(0.75), Some(1.5));
        let mut text = Vec::new();
        super::print(&tables(&[old]), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(" 0.75* ") && text.contains("wrote more: leveldb 1.50. The kernel"), "{text}");
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

    /// Fails if the table of an open loop compares what was given, if nobody is told who did not keep it, or if it says nothing of length
    /// and place.
    #[test]
    fn an_open_loop_is_compared_by_its_tails_and_says_who_is_late() {
        let mut records = Vec::new();
        for repetition in 1..=6 {
            for (layout, ops, p99) in [("none", 4_000.0, 2_000), ("hard", 3_000.0, 9_000_000)] {
                let mut record = record("lmdb", layout, repetition, ops);
                record.rate = Some(4_000.0);
                record.latency_ns.values_mut().for_each(|latency| latency.p99 = p99);
                records.push(record);
            }
        }
        records[11].ended = Some("crashed (signal 11)".into());
        let mut text = Vec::new();
        super::print(&tables(&records), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in [
            "open loop at 4.00 k/s, runs of 1000 operations, on ext4 (sda1)\n",
            "  p99 x direct",
            "4500.00 [4500.00, 4500.00]",
            "\n  p99 x: the 99th percentile of update, ",
            "\n  behind: 4.00 k/s were asked for and not kept by lmdb hard-8 (3.00 k/s)\n",
            "\n  note: the process of lmdb hard-8, repetition 6, crashed (signal 11) after its result\n",
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
