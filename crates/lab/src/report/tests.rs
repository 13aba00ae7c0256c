//! The report holds what was measured and needs nothing from anywhere.

use crate::record::tests::record;
use crate::record::{CompactionFigures, Record, parse_lines};
use crate::workload::shift::{Mark, MarkKind};
use crate::workload::{Shift, ShiftKind};

mod open;
mod wrong;

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
    // A line of throughput for each of them, one of its 99th percentile and one of its slowest operation.
    assert!(html.matches("class=\"bar ").count() == 4 && html.matches("<polyline").count() == 3 * 4);
    assert!(!html.contains("class=\"mark ") && !html.contains("a plan is made"), "nothing happened");
    assert_eq!(html.matches("class=\"whisker\"").count(), 3, "the null engine's runs were all alike");
}

/// Mark kind, seconds, text.
fn mark(kind: MarkKind, at_seconds: f64, text: &str) -> Mark {
    Mark { at_seconds, kind, text: text.into() }
}

/// Two layouts of an engine under a load that shifts every 2 s, one of which plans and moves; `seconds` long.
fn shifting(seconds: usize) -> Vec<Record> {
    let shift = Shift { period_seconds: 2.0, hot_records: Some(10), ..ShiftKind::Jump.into() };
    let mut random = crate::workload::Random::new(7, 7);
    ["none", "hard"]
        .into_iter()
        .map(|layout| {
            let mut record = record("log", layout, 1, 400_000.0);
            (record.bench, record.workload, record.distribution) = ("shift".into(), "jump".into(), "shift".into());
            record.shift = Some(shift);
            let buckets = 10 * seconds + 1;
            let slow = |i: usize| if i % 20 < 4 { 3.0 } else { 1.0 };
            let mut noisy = |of: f64, i: usize| (of * slow(i) * (0.8 + 0.4 * random.unit())) as u64;
            let line = &mut record.timeline;
            line.operations = (0..buckets).map(|i| 80_000 / noisy(1_000.0, i) * 1_000).collect();
            line.p99_ns = (0..buckets).map(|i| noisy(9_000.0, i)).collect();
            line.max_ns = (0..buckets).map(|i| noisy(400_000.0, i * i)).collect();
            line.marks = shift.marks(seconds as f64);
            if layout == "hard" {
                line.marks.push(mark(MarkKind::Plan, 2.3, "12 units from 0 to <3>, predicted 1.4 times"));
                line.marks.push(mark(MarkKind::Move, 2.4, "12 units, 1.20 MB"));
                record.moves = crate::record::Moves { plans: 1, units: 12, bytes: 1_200_000 };
            }
            record
        })
        .collect()
}

#[test]
fn what_happened_is_marked_on_throughput_and_tail() {
    let html = super::page(&shifting(9), &[]).unwrap();
    look("shifting", &html);
    for expected in [
        "Shifting load jump on log",
        "90 % of the operations go to 10 hot records, others every 2 s, the rest to all others; 50 % of the operations read",
        "Tail over time",
        "99th percentile</span>",
        "the workload shifts",
        "a plan is made",
        "units move",
        "<title>2.3 s: 12 units from 0 to &lt;3&gt;, predicted 1.4 times</title>",
        "<title>4.0 s: the hot set jumps</title>",
        "the period that the operation begins in",
    ] {
        assert!(html.contains(expected), "`{expected}` is missing");
    }
    // Shifts at 2, 4, 6 and 8 s once in each of the two panels, though both runs tell of them; a plan and a move.
    let marks = |kind: &str| html.matches(&format!("<line class=\"mark {kind}\"")).count();
    assert_eq!((marks("shift"), marks("plan"), marks("move")), (8, 2, 2));
    // Of nine seconds, two are 22.22 % of the width.
    assert!(html.contains("<line class=\"mark shift\" x1=\"22.22%\""));
}

#[test]
fn figures_of_a_time_line_stand_beside_it_and_six_of_an_axis_are_halved() {
    let html = super::page(&records(), &[]).unwrap();
    let panels: Vec<&str> = html.split("<svg class=\"ordinate\"").skip(1).collect();
    assert!(!panels.is_empty());
    for panel in panels {
        let (ordinate, rest) = panel.split_once("</svg>").unwrap();
        let (plot, _) = rest.split_once("</div>").unwrap();
        assert!(ordinate.matches("<text").count() >= 2, "{ordinate}");
        assert_eq!(plot.matches("<text").count(), 2, "the ends of the axis of time alone: {plot}");
    }
    let figures = |count: usize| {
        let mut out = String::new();
        super::plots::ticks(&mut out, (0..count).map(|i| (i as f64 * 20.0, i.to_string())), "ns");
        (out.matches("class=\"tick\"").count(), out.matches("class=\"tick sparse\"").count())
    };
    assert_eq!((figures(4), figures(5), figures(6), figures(7)), ((4, 0), (3, 2), (3, 0), (4, 0)));
}

#[test]
fn records_from_before_there_were_tails_have_a_page_without_them() {
    let mut old = records();
    for record in &mut old {
        (record.timeline.p99_ns, record.timeline.max_ns) = (Vec::new(), Vec::new());
    }
    let html = super::page(&old, &[]).unwrap();
    assert!(html.contains("Throughput over time") && !html.contains("Tail over time"));
}

#[test]
fn recorded_operations_are_named_by_their_file() {
    let mut trace = record("lmdb", "none", 1, 1_000.0);
    (trace.bench, trace.workload, trace.distribution) = ("trace".into(), "oltp".into(), "recorded".into());
    trace.traces = vec!["/data/oltp.txt".into()];
    let mut other = trace.clone();
    other.traces = vec!["/more/oltp.txt".into()];
    let html = super::page(&[trace, other], &[]).unwrap();
    assert!(html.contains("Trace oltp on lmdb") && html.contains("Trace oltp: recorded."), "its name is missing");
    for file in ["&#x2f;data&#x2f;oltp.txt", "&#x2f;more&#x2f;oltp.txt"] {
        assert!(html.contains(&format!("<h2>oltp, 2 threads, {file}</h2>")), "two files are two workloads");
    }
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
pub(crate) fn look(name: &str, html: &str) {
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
                    record.timeline.p99_ns = (0..25).map(|_| 4_000 + random.below(2_000)).collect();
                    record.timeline.max_ns = (0..25).map(|_| 90_000 + random.below(900_000)).collect();
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
                            ..CompactionFigures::default()
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
    // And a piece of each line in the legend.
    assert_eq!(both.matches("<line class=\"line ").count(), lines * metrics + 3 * compacting + 6);
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
fn panels_of_a_sweep_show_several_sizes_and_name_no_more_than_there_is_room_for() {
    let values = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];
    // Values grow beside keys of two sizes, and keys beside values of one: keys of 128 B come with one size of values alone.
    let mut crossing = swept("fillrandom", &[16, 32], &values);
    crossing.extend(swept("fillrandom", &[128], &[1_024]));
    let html = super::page(&crossing, &[]).unwrap();
    look("crossing", &html);
    let (against_values, against_keys) = html.split_once("Throughput against the size of keys").unwrap();
    let throughput = against_values.split("<h3>").find(|part| part.starts_with("Throughput against")).unwrap();
    let panels: Vec<&str> = throughput.split("<h4>").skip(1).collect();
    let titles: Vec<&str> = panels.iter().filter_map(|panel| panel.split("</h4>").next()).collect();
    assert_eq!(titles, ["keys of 16 B", "keys of 32 B"]);
    let named = |panel: &str| values.map(|bytes| panel.contains(&format!(">{}</text>", crate::units::size(bytes))));
    assert!(panels.iter().all(|panel| named(panel) == [true, false, true, false, true, false, true]), "{panels:?}");
    assert!(against_keys.contains("values of 1 KiB"));
    // A single panel is as wide as the page.
    let single = super::page(&swept("fillrandom", &[16], &values), &[]).unwrap();
    assert_eq!(named(&single), [true; 7]);
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
        ..CompactionFigures::default()
    };
    let html = super::page(&[record], &[]).unwrap();
    for cell in ["2.75*", "3.25", "-", "17", "2.50 s", "145 ms", "12.3 MB"] {
        assert!(html.contains(&format!("<td>{cell}</td>")), "no cell `{cell}`");
    }
}

/// Graphs: what was measured of kernels, ingest and memory stands there, with plots, and a published experiment above it.
#[test]
fn a_page_of_graphs_has_its_plots_its_figures_and_its_records() {
    use crate::graph::{Kernel, Layout, Media, NodesPlan, Plan};
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        graph: "kron:7:6".to_owned(),
        shape: None,
        dealt: vec![Layout::Csr, Layout::Pma],
        layouts: vec![Layout::Csr, Layout::Pma],
        media: vec![Media::Dram, Media::Pmem],
        kernels: vec![Kernel::Bfs, Kernel::Pagerank],
        threads: vec![1, 2],
        nodes: NodesPlan { nodes: Some(2), ..NodesPlan::default() },
        trials: 3,
        ingest: true,
        batch: crate::graph::BATCH,
        churn: 0.0,
        stream: None,
        dir: dir.path().to_owned(),
    };
    let mut records = Vec::new();
    crate::graph::run(&plan, &mut |record| {
        records.push(record.clone());
        Ok(())
    })
    .unwrap();
    let html = super::graphs(&records, None).unwrap();
    let behind = records.iter().find_map(|record| record.pmem.clone()).expect("what is behind pmem");
    assert!(html.contains(&format!("<td class=\"l\">pmem ({behind})</td>")), "{behind} is not in the table");
    assert!(html.contains(&format!("pma on pmem ({behind})")), "{behind} is not in the plot");
    for expected in [
        "Graphs: kron:7:6",
        "times as fast as csr with 1 thread",
        "time by that of csr<br>with 1 thread",
        "pma, block-cyclic on 2 nodes, 2 threads",
        "Ingest",
        "snapshot after ingest",
        "checkpoint after ingest",
        "bytes per stored edge",
        "the time over csr, which never changes: mean of 2 kernels, from ",
        "<span>Ingest, pma on dram, kron:7:6</span><b>",
        " times one</span>",
        "<span>Bytes of a stored edge, kron:7:6</span><b>",
        "Edges of each node",
        "round-robin",
        "prefers-color-scheme: dark",
    ] {
        assert!(html.contains(expected), "`{expected}` is missing");
    }
    // Two kernels with two layouts, and csr on pmem, and two numbers of threads; ingest on two media with both; memory of the three.
    assert_eq!(html.matches("class=\"bar ").count(), 2 * 6 + 4 + 3);
    assert!(
        html.contains(&format!("csr on pmem ({behind}), block-cyclic on 2 nodes, 1 thread")),
        "no bar of csr on pmem"
    );
    assert!(html.contains("Lists of csr on pmem are read where they are kept"));
    assert!(!html.contains("stretches placed"), "nothing streamed in");
    let lines = html.split("id=\"records\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    assert_eq!(lines.lines().count(), records.len());
    let found = crate::reproduce::dgap_numa::findings(&[]).unwrap();
    let html = super::graphs(&records, Some(&found)).unwrap();
    assert!(html.contains("Published and measured") && html.contains("Optimising graph structures"));
}

#[test]
fn a_figure_leads_to_the_lines_of_its_records() {
    let html = super::page(&records(), &[]).unwrap();
    // The second of four rows, in seven repetitions; all that a link leads to is there.
    assert!(html.contains("<a href=\"#raw\" data-lines=\"2 6 10 14 18 22 26\">2, 6, 10, 14, 18, 22, 26</a>"));
    assert!(html.contains("id=\"raw\"") && html.contains("id=\"raw-lines\""));
    assert_eq!(html.matches("<a href=\"#raw\"").count(), 4);
    let (_, rest) = html.split_once("id=\"records\">").unwrap();
    let lines: Vec<&str> = rest.split("</script>").next().unwrap().lines().collect();
    for line in [2, 6, 26] {
        assert!(lines[line - 1].contains("\"engine\":\"lmdb\",\"partitioning\":\"hard\""), "line {line}");
    }
}

#[test]
fn sections_and_their_settings_say_all_that_they_differ_in() {
    let mut records = records();
    for (i, record) in records.iter_mut().enumerate() {
        record.repetition += u32::from(i >= 14) * 100;
        if i >= 14 {
            record.durability = "sync".into();
            (record.memory_bytes, record.io, record.placement) = (Some(1 << 30), Some("direct".into()), "range".into());
        }
    }
    let html = super::page(&records, &[]).unwrap();
    let of = |heading: &str| html.matches(&format!("<h2>{heading}")).count();
    assert_eq!(
        (of("Workload A, 2 threads, acknowledged at os"), of("Workload A, 2 threads, acknowledged at sync")),
        (1, 1)
    );
    for expected in [
        "Fastest in workload A, 2 threads, acknowledged at sync, read by direct, 1.07 GB of memory",
        "Fastest in workload A, 2 threads, acknowledged at os, read in each engine&#x27;s own way, memory without a limit",
        "1.07 GB of memory for each run, the kernel&#x27;s cache of its files included; files that are written no more are read by direct; keys \
         are placed in partitions by range",
        "keys are placed in partitions by hash; closed loop",
    ] {
        assert!(html.contains(expected), "`{expected}` is missing");
    }
}

#[test]
fn runs_of_several_machines_and_versions_are_named_as_such() {
    let mut records = records();
    let lead = |records: &[Record]| {
        let html = super::page(records, &[]).unwrap();
        html.split_once("<p class=\"lead\">").unwrap().1.split("</p>").next().unwrap().to_owned()
    };
    let one = lead(&records);
    assert!(
        one.starts_with("28 runs on A processor (2 cores), Linux 6.1, biombo 0.1.0. This page was made on 20"),
        "{one}"
    );
    (records[9].host.cores, records[10].version) = (64, "0.2.0".into());
    let two = lead(&records);
    assert!(two.contains("2 machines: A processor (2 cores), Linux 6.1; A processor (64 cores)"), "{two}");
    assert!(two.contains("biombo 0.1.0 and 0.2.0. Figures of different machines do not compare"), "{two}");
}

#[test]
fn sixteen_engines_of_a_sweep_have_sixteen_looks() {
    let mut records = Vec::new();
    for value_bytes in [100, 200] {
        for engine in 0..16 {
            let mut record = record(&format!("engine-{engine}"), "none", 1, 1_000.0 + f64::from(engine));
            record.value_bytes = value_bytes;
            records.push(record);
        }
    }
    let html = super::page(&records, &[]).unwrap();
    look("sixteen", &html);
    // What stands in the legend before each engine's name.
    let looks: std::collections::HashSet<&str> =
        html.split("<svg class=\"swatch\"").skip(1).map(|rest| rest.split("engine-").next().unwrap()).collect();
    assert_eq!(looks.len(), 16);
}

#[test]
fn paper_is_light_and_shows_what_a_screen_folds_up() {
    let html = super::page(&records(), &[]).unwrap();
    assert!(html.contains("@media screen and (prefers-color-scheme: dark)"), "dark stays on screens");
    let (_, print) = html.split_once("@media print {").unwrap();
    for rule in [".scroll { overflow: visible;", "details::details-content {", "thead { display: table-header-group; }"]
    {
        assert!(print.contains(rule), "`{rule}` is missing");
    }
    assert!(html.contains("\"beforeprint\""), "for browsers without that selector");
}

/// Fails if operations that were not done are said to take 0 ns.
#[test]
fn operations_that_were_not_done_have_no_latency_in_the_table_either() {
    let mut record = record("lmdb", "none", 1, 1_000.0);
    record.latency_ns.insert("scan".into(), crate::record::Latency::default());
    let html = super::page(&[record], &[]).unwrap();
    let (_, figures) = html.split_once("<td class=\"l\">scan</td>").unwrap();
    assert!(figures.starts_with(&"<td>-</td>".repeat(5)), "{}", &figures[..100]);
}
