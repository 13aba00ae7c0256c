//! The JSON lines keep the names that scripts rely on.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// The example of the command's interface, as it is documented.
const DOCUMENTED: &str = r#"{"bench":"ycsb","workload":"a","engine":"log","partitioning":"hard","partitions":8,"executor":"direct",
 "threads":2,"durability":"os","placement":"hash","cache_bytes":0,"repartition":"off","planner":null,"records":1000000,"operations":2000000,
 "key_bytes":16,"value_bytes":1000,"repetition":1,"seconds":2.31,"ops_per_s":865800.0,
 "latency_ns":{"read":{"count":1000000,"mean":402,"p50":310,"p95":720,"p99":1400,"p999":9000,"max":210000},"update":{}},
 "errors":0,"rss_bytes_max":0,"disk_bytes":0,"logical_write_bytes":0,"physical_write_bytes":0,"waf":1.02,
 "waf_by":{"engine":1.02,"process":1.05,"device":1.06},"load":{"seconds":1.9,"ops_per_s":520000.0},
 "moves":{"plans":0,"units":0,"bytes":0},"compaction":{"count":0,"seconds":0.0,"latency_ns_p50":0,"bytes":0},
 "host":{"cpu":"","cores":2,"kernel":""},"version":""}"#;

/// What this version adds at the top.
const ADDED: [&str; 22] = [
    "unflushed_write_bytes",
    "workers",
    "distribution",
    "compression_ratio",
    "rate",
    "seed",
    "shift",
    "traces",
    "first_error",
    "io",
    "memory_bytes",
    "cpu_seconds",
    "device_random_reads_per_s",
    "timeline",
    "engine_version",
    "engine_options",
    "read_amplification",
    "space_amplification",
    "amplification",
    "until",
    "places",
    "ended",
];

/// What it adds to `compaction`.
const ADDED_TO_COMPACTION: [&str; 2] = ["latency_ns_p99", "latency_ns_max"];

/// A plausible record.
pub(crate) fn record(engine: &str, partitioning: &str, repetition: u32, ops_per_s: f64) -> Record {
    let latency = Latency { count: 500, mean: 402, p50: 310, p95: 720, p99: 1_400, p999: 9_000, max: 210_000 };
    Record {
        bench: "ycsb".into(),
        workload: "a".into(),
        engine: engine.into(),
        partitioning: partitioning.into(),
        partitions: if partitioning == "none" { 1 } else { 8 },
        executor: "direct".into(),
        workers: None,
        threads: 2,
        durability: "os".into(),
        placement: "hash".into(),
        cache_bytes: 1 << 30,
        repartition: "off".into(),
        planner: None,
        records: 1_000,
        operations: 1_000,
        key_bytes: 16,
        value_bytes: 1_000,
        repetition,
        seconds: 1_000.0 / ops_per_s,
        ops_per_s,
        latency_ns: [("read".to_owned(), latency), ("update".to_owned(), latency)].into(),
        errors: 0,
        rss_bytes_max: 100 << 20,
        disk_bytes: 2 << 20,
        logical_write_bytes: 1_500_000,
        physical_write_bytes: 3_000_000,
        unflushed_write_bytes: 0,
        waf: Some(2.0),
        waf_by: WafBy { engine: Some(1.5), process: Some(2.0), device: None },
        load: Load { seconds: 0.1, ops_per_s: 10_000.0 },
        moves: Moves::default(),
        compaction: CompactionFigures { latency_ns_p50: Some(5), ..CompactionFigures::default() },
        host: Host { cpu: "A processor".into(), cores: 2, kernel: "6.1".into() },
        version: "0.1.0".into(),
        distribution: "zipfian".into(),
        compression_ratio: 1.0,
        rate: None,
        seed: 1,
        shift: None,
        traces: Vec::new(),
        io: None,
        memory_bytes: None,
        cpu_seconds: Some(1.5),
        device_random_reads_per_s: None,
        read_amplification: None,
        space_amplification: None,
        amplification: None,
        until: Some(Until::Operations(1_000)),
        places: vec![Place { file_system: Some("ext4".into()), device: Some("sda1".into()) }],
        ended: None,
        first_error: None,
        timeline: Timeline {
            bucket_seconds: 0.1,
            operations: vec![500, 400, 100],
            p99_ns: vec![1_300, 1_500, 1_400],
            max_ns: vec![210_000, 9_000, 8_000],
            marks: Vec::new(),
            planning_seconds: 0.0,
        },
        engine_version: "1.2.3".into(),
        engine_options: vec![("sync".into(), "off".into())],
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn a_line_has_exactly_the_documented_names_and_those_added_since() {
    let documented: Value = serde_json::from_str(DOCUMENTED).unwrap();
    let ours: Value = serde_json::from_str(&to_lines(&[record("lmdb", "hard", 1, 1_000.0)])).unwrap();
    let mut expected = keys(&documented);
    expected.extend(ADDED.map(str::to_owned));
    assert_eq!(keys(&ours), expected);
    for nested in ["waf_by", "load", "moves", "compaction", "host", "latency_ns"] {
        let mut expected = keys(&documented[nested]);
        if nested == "compaction" {
            expected.extend(ADDED_TO_COMPACTION.map(str::to_owned));
        }
        assert_eq!(keys(&ours[nested]), expected, "{nested}");
    }
    assert_eq!(keys(&ours["latency_ns"]["read"]), keys(&documented["latency_ns"]["read"]));
    // The types agree too, wherever the example is not null.
    for (name, value) in documented.as_object().unwrap() {
        if !value.is_null() {
            assert_eq!(
                std::mem::discriminant(value),
                std::mem::discriminant(&ours[name]),
                "{name}: {value} against {}",
                ours[name]
            );
        }
    }
}

#[test]
fn lines_round_trip_and_a_bad_one_is_named() {
    let records = [record("lmdb", "none", 1, 1_000.0), record("memory", "hard", 2, 2_000.5)];
    let lines = to_lines(&records);
    assert_eq!(lines.lines().count(), 2);
    assert_eq!(parse_lines(&lines).unwrap(), records);
    let error = parse_lines(&format!("{lines}{{\"bench\":1}}\n")).unwrap_err();
    assert!(error.to_string().starts_with("line 3 "), "{error}");
}

/// Fails if the lines of all other runs are refused for what a killed bench, or a trial that failed, leaves; or if more is overlooked.
#[test]
fn a_last_line_that_is_cut_and_runs_that_failed_are_left_out_and_said_and_anything_else_is_named() {
    let records = [record("lmdb", "none", 1, 1_000.0), record("log", "none", 1, 2_000.0)];
    let lines = to_lines(&records);
    let left_out = |text: &str| {
        let kept = parse_kept(text).unwrap();
        assert_eq!(kept.records, records);
        kept.left_out
    };
    assert_eq!(left_out(&lines), [""; 0]);
    assert_eq!(left_out(lines.trim_end()), [""; 0], "the last line is whole");
    let (first, rest) = lines.split_once('\n').unwrap();
    // Wherever it stops; a trial that failed has `null` where a record has none.
    let trial = r#"{"part":"race","failed":"no room\nnor time","engine":"log","planner":null,"repartition":null}"#;
    for line in [first, trial] {
        for length in [1, 9, 30, line.len() / 2, line.len() - 1] {
            let said = left_out(&format!("{lines}{}", &line[..length]));
            assert!(said.len() == 1 && said[0].starts_with("line 3, the last one, "), "{length}: {said:?}");
        }
    }
    let wrong = first.replacen('{', r#"{"failed":"7 operations failed","#, 1);
    let said = left_out(&format!("{first}\n{trial}\n\n{wrong}\n{rest}"));
    assert_eq!(said, ["2 lines of runs that failed, such as line 2: no room"]);
    for (text, number) in [
        (format!("{}\n{rest}", &first[..30]), 1),
        (format!("{lines}{}\n", &first[..30]), 3),
        (format!("{first}\nwords\n{rest}"), 2),
        (format!("{lines}words"), 3),
    ] {
        let error = parse_kept(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("line {number} is no record")), "{error}");
    }
}

/// A line of before there were phases: the names that came since left out. Fails if one of them is asked for.
#[test]
fn a_line_of_an_earlier_version_is_read() {
    let mut line: Value = serde_json::from_str(&to_lines(&[record("lmdb", "hard", 1, 1_000.0)])).unwrap();
    let object = line.as_object_mut().unwrap();
    for name in ["read_amplification", "space_amplification", "amplification", "until", "places", "ended"] {
        assert!(object.remove(name).is_some(), "{name} is written");
    }
    for name in ADDED_TO_COMPACTION {
        assert!(object["compaction"].as_object_mut().unwrap().remove(name).is_some(), "{name} is written");
    }
    let earlier = Record { until: None, places: Vec::new(), ..record("lmdb", "hard", 1, 1_000.0) };
    assert_eq!(parse_lines(&line.to_string()).unwrap(), [earlier]);
}
