//! The report holds what was measured and needs nothing from anywhere.

use crate::record::tests::record;
use crate::record::{CompactionFigures, Record, parse_lines};

fn records() -> Vec<Record> {
    (1..=7)
        .flat_map(|repetition| {
            let drift = f64::from(repetition) * 1_000.0;
            [
                record("lmdb", "none", repetition, drift),
                record("lmdb", "hard", repetition, 2.0 * drift),
                record("rocksdb", "none", repetition, 1.5 * drift),
                record("null", "none", repetition, 9_000_000.0),
            ]
        })
        .collect()
}

#[test]
fn it_names_every_engine_and_layout_with_figures_and_plots() {
    let html = super::page(&records(), &[]).unwrap();
    for expected in [
        "YCSB A on lmdb, rocksdb and null",
        "lmdb hard-8",
        "[2.00, 2.00]",
        "operations per second",
        "latency, logarithmic",
        "Throughput over time",
        "faster than the engine used directly; 95 % interval",
        "Fastest in workload A, 2 threads",
        "A processor",
        "the cost of the driver itself",
        "prefers-color-scheme: dark",
        "name=\"viewport\"",
    ] {
        assert!(html.contains(expected), "`{expected}` is missing");
    }
    assert!(html.matches("class=\"bar ").count() == 4 && html.matches("<polyline").count() == 4);
    assert_eq!(html.matches("class=\"whisker\"").count(), 3, "the null engine's runs were all alike");
}

#[test]
fn it_asks_nothing_of_a_network() {
    let html = super::page(&records(), &["http is only a word here".into()]).unwrap();
    for url in ["http://", "https://", "src=", "@import", "url(", "<link", "fetch("] {
        assert!(!html.contains(url), "the report refers to something outside: {url}");
    }
}

#[test]
fn the_records_can_be_taken_out_of_it_again() {
    let mut records = records();
    records[0].first_error = Some("</script><script>alert(1)".into());
    let html = super::page(&records, &[]).unwrap();
    assert_eq!(html.matches("</script>").count(), 2, "a record must not end the element that holds it");
    let (_, rest) = html.split_once("id=\"records\">").unwrap();
    let (lines, _) = rest.split_once("</script>").unwrap();
    assert!(parse_lines(lines).unwrap() == records);
}

#[test]
fn failures_and_odd_names_are_shown_as_text() {
    let html = super::page(&[record("<b>x", "none", 1, 1.0)], &["lmdb: <i>gone</i>".into()]).unwrap();
    assert!(html.contains("1 run failed") && html.contains("lmdb: &lt;i&gt;gone"));
    assert!(html.contains("&lt;b&gt;x") && !html.contains("<b>x</"));
}

#[test]
fn a_bench_without_results_still_gives_a_page() {
    let html = super::page(&[], &["all failed".into()]).unwrap();
    assert!(html.contains("No run was done.") && html.contains("all failed"));
}

/// Keep a page for looking at it, where the environment names a directory for that.
fn look(name: &str, html: &str) {
    if let Some(dir) = std::env::var_os("BIOMBO_REPORT_SAMPLES") {
        std::fs::write(std::path::Path::new(&dir).join(name).with_extension("html"), html).unwrap();
    }
}

/// A bench like a real one: seven engines, two layouts, two workloads, a few repetitions.
fn realistic(repetitions: u32) -> Vec<Record> {
    let mut random = crate::workload::Random::new(3, 3);
    let mut records = Vec::new();
    for repetition in 1..=repetitions {
        for (workload, kinds) in [("a", ["read", "update"]), ("d", ["insert", "read"])] {
            let factor = if workload == "a" { 1.0 } else { 2.2 };
            let engines = ["lmdb", "rocksdb", "leveldb", "tkrzw-tree-zlib", "wiredtiger"];
            for (engine, base) in engines.into_iter().zip([87e3, 103e3, 98e3, 242e3, 212e3]) {
                for layout in ["none", "hard"] {
                    let gain = if layout == "hard" { 2.4 - base / 130e3 } else { 1.0 };
                    let ops = base * factor * gain * (0.93 + 0.14 * random.unit());
                    let mut record = record(engine, layout, repetition, ops);
                    record.workload = workload.into();
                    record.records = 250_000;
                    record.latency_ns = kinds
                        .iter()
                        .map(|kind| {
                            let p50 = (1e9 / ops * (0.5 + random.unit())) as u64;
                            let mut next = p50;
                            let mut step = || {
                                next = (next as f64 * (1.4 + 2.5 * random.unit())) as u64;
                                next
                            };
                            let latency = crate::record::Latency {
                                count: 1,
                                mean: p50,
                                p50,
                                p95: step(),
                                p99: step(),
                                p999: step(),
                                max: step() * 9,
                            };
                            ((*kind).to_owned(), latency)
                        })
                        .collect();
                    record.timeline.operations =
                        (0..24).map(|_| (ops / 10.0 * (0.8 + 0.3 * random.unit())) as u64).chain([100]).collect();
                    records.push(record);
                }
            }
        }
    }
    records
}

#[test]
fn a_bench_of_many_engines_fits_one_page_of_modest_size() {
    let html = super::page(&realistic(9), &["e leveldb, 2 threads: gone".into()]).unwrap();
    look("many-engines", &html);
    assert!(html.len() < 600_000, "{} bytes", html.len());
    assert!(html.contains("YCSB A and D on lmdb, rocksdb, leveldb, tkrzw-tree-zlib and wiredtiger"));
}

/// A sweep like a real one: `keys` and `values` are sizes.
fn swept(workload: &str, keys: &[u32], values: &[u32]) -> Vec<Record> {
    let mut records = Vec::new();
    for repetition in 1..=3 {
        for (&key_bytes, &value_bytes) in keys.iter().flat_map(|key| values.iter().map(move |value| (key, value))) {
            for (i, engine) in ["leveldb", "rocksdb", "lmdb"].into_iter().enumerate() {
                for layout in ["none", "hard"] {
                    let growth = f64::from(key_bytes + value_bytes).sqrt();
                    let ops = (4e6 - 1e6 * i as f64) / growth * (1.0 + 0.1 * f64::from(repetition));
                    let mut record = record(engine, layout, repetition, ops);
                    (record.bench, record.workload) = ("db".into(), workload.into());
                    (record.key_bytes, record.value_bytes, record.compression_ratio) = (key_bytes, value_bytes, 0.5);
                    if let Some(update) = record.latency_ns.remove("update").filter(|_| workload == "fillrandom") {
                        record.latency_ns = [("insert".to_owned(), update)].into();
                    }
                    // LMDB compacts nothing.
                    record.compaction = CompactionFigures::default();
                    if engine != "lmdb" {
                        let one_ns = 1_000 * u64::from(value_bytes);
                        let count = u64::from(repetition * value_bytes) / 50;
                        record.compaction = CompactionFigures {
                            count: Some(count),
                            seconds: Some((count * one_ns) as f64 * 1.2e-9),
                            latency_ns_p50: Some(one_ns),
                            bytes: Some(count << 20),
                        };
                    }
                    records.push(record);
                }
            }
        }
    }
    records
}

#[test]
fn a_sweep_is_plotted_against_what_was_swept() {
    let titles = |html: &str| {
        [
            "Throughput",
            "99th percentile of inserts",
            "99th percentile of reads",
            "Write amplification",
            "Compactions",
            "Time in compactions",
            "Median compaction",
        ]
        .map(|metric| ["values", "keys"].map(|of| html.contains(&format!("{metric} against the size of {of}"))))
    };
    let both = super::page(&swept("fillrandom", &[16, 32], &[256, 1_024, 4_096]), &[]).unwrap();
    look("sweep", &both);
    assert_eq!(titles(&both), [[true; 2], [true; 2], [false; 2], [true; 2], [true; 2], [true; 2], [true; 2]]);
    for expected in
        ["db_bench fillrandom on leveldb", "keys of 32 B", "values of 4 KiB", "a compressor leaves 50 %", "lmdb hard-8"]
    {
        assert!(both.contains(expected), "`{expected}` is missing");
    }
    assert_eq!(both.matches("<details><summary>keys of").count(), 6, "the figures of each size are folded up");
    // Against values: 2 panels (keys) of 6 lines over 3 points; against keys: 3 panels of 6 lines over 2 points.
    let (lines, metrics) = (2 * 6 * 2 + 3 * 6, 3);
    let compacting = (2 * 4 * 2) + (3 * 4);
    assert_eq!(both.matches("<line class=\"line ").count(), lines * metrics + 3 * compacting);
    let values_only = super::page(&swept("readrandom", &[16], &[256, 1_024]), &[]).unwrap();
    assert_eq!(
        titles(&values_only),
        [[true, false], [false; 2], [true, false], [false; 2], [false; 2], [false; 2], [false; 2]]
    );
    let none = super::page(&swept("fillrandom", &[16], &[256]), &[]).unwrap();
    assert_eq!(titles(&none), [[false; 2]; 7]);
    assert!(!none.contains("<details><summary>keys of"));
}

#[test]
fn compaction_and_write_amplification_stand_in_a_table_of_their_own() {
    let mut record = record("leveldb", "none", 1, 1_000.0);
    record.waf_by = crate::record::WafBy { engine: Some(3.25), process: Some(2.75), device: None };
    record.compaction = CompactionFigures {
        count: Some(17),
        seconds: Some(2.5),
        latency_ns_p50: Some(145_000_000),
        bytes: Some(12_300_000),
    };
    let html = super::page(&[record], &[]).unwrap();
    for cell in ["2.75", "3.25", "-", "17", "2.50 s", "145 ms", "12.3 MB"] {
        assert!(html.contains(&format!("<td>{cell}</td>")), "no cell `{cell}`");
    }
}
