//! `biombo bench`: what comes out of a sweep; its lines are there as soon as a run is done, and Ctrl-C leaves nothing else behind.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, has_engine, run, words};
use tempfile::tempdir;

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// The run directories under `dir`.
fn stores(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

fn start(dir: &Path) -> Child {
    let line = "bench ycsb --engine memory,null --workload c --records 100 --seconds 0.5 --repeat 2 --dir DIR/runs \
                --json DIR/runs.jsonl --html DIR/report.html";
    command()
        .args(words(line, dir))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs")
}

#[test]
fn a_line_is_there_after_each_run_and_an_interruption_leaves_the_lines_and_no_stores() {
    for signal in ["INT", "TERM"] {
        let dir = tempdir().expect("a directory");
        let json = dir.path().join("runs.jsonl");
        let child = start(dir.path());
        wait_for("the first run's line", || lines(&json) == 1);
        wait_for("the second run's store", || stores(&dir.path().join("runs")) == 1);
        let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
        let output = child.wait_with_output().expect("the command ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("biombo: interrupted: ") && said.contains("of 4 runs were not done"), "{said}");
        assert_eq!(stores(&dir.path().join("runs")), 0, "a run directory is left behind");
        let text = fs::read_to_string(&json).expect("the lines");
        assert!((1..4).contains(&text.lines().count()) && text.ends_with('\n'));
        for line in text.lines() {
            let record: serde_json::Value = serde_json::from_str(line).expect("a whole line");
            assert_eq!(record["bench"], "ycsb");
        }
        assert!(fs::read_to_string(dir.path().join("report.html")).expect("a report").contains("</html>"));
    }
}

#[test]
fn direct_reads_stand_beside_what_the_device_gives_in_table_and_line() {
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine log --workload c --distribution uniform --records 20000 --operations 4000 --threads 2 \
                --partitions 2 --cache-bytes 8MiB --io direct --dir DIR/runs --json DIR/runs.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let text = fs::read_to_string(dir.path().join("runs.jsonl")).expect("the lines");
    let record: serde_json::Value = serde_json::from_str(text.trim()).expect("a JSON line");
    assert_eq!(
        (&record["io"], &record["errors"], &record["distribution"]),
        (&"direct".into(), &0.into(), &"uniform".into())
    );
    let options = record["engine_options"].to_string();
    assert!(options.contains(r#"["io","direct"]"#), "{options}");
    // Where the file system reads past the page cache.
    let rate = &record["device_random_reads_per_s"];
    assert!(rate.is_null() || rate.as_f64().is_some_and(|rate| rate > 0.0), "{rate}");
    let device = ["device reads/s", "x device", "device: ", "random reads/s at depth 2"];
    let measured = if rate.is_null() { &[][..] } else { &device[..] };
    for word in ["8.39 MB cache, io direct"].iter().chain(measured) {
        assert!(done.text().contains(word), "no `{word}` in\n{}", done.text());
    }
    let refused = run("bench ycsb --engine lmdb --workload c --records 100 --io direct --dir DIR/runs", dir.path());
    assert!(refused.status != 0 && refused.stderr.contains("--io direct"), "{}", refused.stderr);
}

#[test]
fn a_sweep_of_db_bench_gives_a_table_a_report_and_a_line_for_each_run() {
    let dir = tempdir().expect("a directory");
    let line = "bench db --engine lmdb,memory --benchmark fillrandom,readwhilewriting --records 300 --key-bytes 16,32 \
                --value-bytes 64,256 --partitioning none,hard --partitions 2 --repeat 2 --cache-bytes 16MiB --seed 7 \
                --dir DIR/runs --json DIR/runs.jsonl --html DIR/report.html";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    for word in ["db_bench fillrandom, 1 thread (uniform): 300 records of 16 + 64 bytes", "lmdb hard-2", "x direct"] {
        assert!(done.text().contains(word), "no `{word}` in\n{}", done.text());
    }
    let text = fs::read_to_string(dir.path().join("runs.jsonl")).expect("the lines");
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    assert_eq!(records.len(), 2 * 2 * 2 * 2 * 2 * 2);
    let names = "bench workload engine partitioning partitions executor threads durability placement cache_bytes repartition \
                 planner records operations key_bytes value_bytes repetition seconds ops_per_s latency_ns errors rss_bytes_max \
                 disk_bytes logical_write_bytes physical_write_bytes waf waf_by load moves compaction host version";
    for record in &records {
        for name in names.split_whitespace() {
            assert!(record.get(name).is_some(), "no {name} in {record}");
        }
        assert_eq!((&record["bench"], &record["errors"], &record["records"]), (&"db".into(), &0.into(), &300.into()));
        assert_eq!((&record["operations"], &record["threads"]), (&300.into(), &1.into()));
        assert_eq!(record["compression_ratio"], 0.5);
        let kinds: Vec<&String> = record["latency_ns"].as_object().expect("by kind").keys().collect();
        match record["workload"].as_str() {
            Some("fillrandom") => assert_eq!(kinds, ["insert"]),
            _ => assert_eq!(kinds, ["read", "update"]),
        }
        let untold = record["compaction"].as_object().expect("figures of compaction");
        assert!(untold.values().all(serde_json::Value::is_null), "neither of these engines tells: {untold:?}");
        for way in ["engine", "process", "device"] {
            assert!(record["waf_by"].get(way).is_some(), "no {way} in {record}");
        }
    }
    let report = fs::read_to_string(dir.path().join("report.html")).expect("a report");
    for word in
        ["Throughput against the size of values", "Throughput against the size of keys", "keys of 32 B", "lmdb hard-2"]
    {
        assert!(report.contains(word), "no `{word}` in the report");
    }
    assert_eq!(stores(&dir.path().join("runs")), 0, "a run directory is left behind");
}

#[test]
fn engines_that_compact_tell_how_often_how_long_and_how_much() {
    let engines: Vec<&str> = ["rocksdb", "leveldb"].into_iter().filter(|name| has_engine(name)).collect();
    if engines.is_empty() {
        println!("skipped: this build has no engine that compacts");
        return;
    }
    let dir = tempdir().expect("a directory");
    // Several times the smallest memtables.
    let line = format!(
        "bench db --engine {} --benchmark overwrite --records 15000 --value-bytes 2048 --cache-bytes 8MiB --partitioning \
         none,hard --partitions 2 --compression-ratio 1 --dir DIR/runs --json DIR/runs.jsonl",
        engines.join(",")
    );
    let done = run(&line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.text().contains("their p50"), "{}", done.text());
    let text = fs::read_to_string(dir.path().join("runs.jsonl")).expect("the lines");
    assert_eq!(text.lines().count(), 2 * engines.len());
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        let compaction = &record["compaction"];
        let figure = |name: &str| compaction[name].as_f64().unwrap_or(0.0);
        assert!(figure("count") > 0.0 && figure("bytes") > 0.0, "{line}");
        // One compaction takes no longer than all of them together, and none takes no time.
        let p50 = figure("latency_ns_p50") / 1e9;
        assert!(p50 > 0.0 && p50 <= figure("seconds") * 1.5, "{compaction}");
        for way in ["engine", "process"] {
            assert!(record["waf_by"][way].as_f64().is_some_and(|waf| waf > 0.5), "{way} in {line}");
        }
        let tail = ["p50", "p99", "max"].map(|of| figure(&format!("latency_ns_{of}")));
        assert!(tail.is_sorted() && tail[0] > 0.0, "{compaction}");
        // Others wrote these engines: what they say are statistics. The run has its own figures, and its series.
        let run = &record["amplification"]["run"];
        assert!(run["waf"]["statistics"].as_f64().is_some_and(|waf| waf > 0.5) && run["waf"]["own"].is_null(), "{run}");
        let column = |name: &str| run["series"][name].as_array().map_or(0, Vec::len);
        assert!(column("at_seconds") > 0 && column("at_seconds") == column("logical_write_bytes"), "{run}");
        assert!(record["space_amplification"].as_f64().is_some_and(|space| space > 0.5), "{line}");
    }
}

/// All that is put fits a memtable. Who writes it on closing has it counted by the kernel; who leaves it to a log has not.
#[test]
fn what_a_memtable_holds_at_the_end_counts_whether_closing_writes_it_or_not() {
    let engines: Vec<&str> = ["rocksdb", "leveldb", "micro-lsm"].into_iter().filter(|name| has_engine(name)).collect();
    if engines.is_empty() {
        println!("skipped: this build has no engine with a memtable");
        return;
    }
    let dir = tempdir().expect("a directory");
    let line = format!(
        "bench db --engine {} --benchmark fillseq --records 1000 --value-bytes 1000 --compression-ratio 1 --cache-bytes 64MiB \
         --dir DIR/runs --json DIR/runs.jsonl",
        engines.join(",")
    );
    let done = run(&line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let records = records(&dir.path().join("runs.jsonl"));
    assert_eq!(records.len(), engines.len());
    for record in &records {
        let left = record["unflushed_write_bytes"].as_u64().expect("a number");
        let closes = record["engine"] == "micro-lsm";
        assert_eq!(left == 0, closes, "{record}");
        assert!(closes || left > 1_000_000, "{left} of 1,016,000 bytes put are left, in {record}");
        // Once into the log, once into a table.
        for waf in [&record["waf"], &record["waf_by"]["engine"], &record["waf_by"]["process"]] {
            assert!(waf.as_f64().is_some_and(|waf| waf > 1.9), "{record}");
        }
    }
}

/// The JSON lines of a bench.
fn records(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).expect("the lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[test]
fn a_load_that_shifts_is_measured_over_time_with_its_shifts_marked() {
    let dir = tempdir().expect("a directory");
    let line = "bench shift --engine lmdb --workload jump,groups,adversary --records 2000 --period 0.1 --seconds 0.5 --threads 2 \
                --group 5 --value-bytes 100 --partitioning none,hard --partitions 2 --cache-bytes 16MiB --dir DIR/runs \
                --json DIR/runs.jsonl --html DIR/report.html";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    for word in ["Shifting load jump, 2 threads (90 % of the operations go to 20 hot records", "multi-get", "x direct"]
    {
        assert!(done.text().contains(word), "no `{word}` in\n{}", done.text());
    }
    let records = records(&dir.path().join("runs.jsonl"));
    assert_eq!(records.len(), 3 * 2);
    for record in &records {
        assert_eq!((&record["bench"], &record["errors"]), (&"shift".into(), &0.into()), "{record}");
        assert_eq!((&record["shift"]["kind"], &record["shift"]["period_seconds"]), (&record["workload"], &0.1.into()));
        let line = &record["timeline"];
        for figures in ["operations", "p99_ns", "max_ns"] {
            assert!(line[figures].as_array().is_some_and(|figures| figures.len() >= 4), "{figures} in {line}");
        }
        let marks = line["marks"].as_array().expect("marks");
        // The adversary's are those that a client came to; the others follow from the period.
        let least = if record["workload"] == "adversary" { 1 } else { 4 };
        assert!(marks.len() >= least && marks.iter().all(|mark| mark["kind"] == "shift"), "{marks:?}");
        assert!(record["moves"]["units"].is_u64());
        let kinds: Vec<&String> = record["latency_ns"].as_object().expect("by kind").keys().collect();
        match record["workload"].as_str() {
            Some("groups") => assert_eq!(kinds, ["batch", "multi_get"]),
            _ => assert_eq!(kinds, ["read", "update"]),
        }
    }
    let report = fs::read_to_string(dir.path().join("report.html")).expect("a report");
    for word in
        ["Tail over time", "the workload shifts", "the groups change", "the adversary turns", "Latency of batches"]
    {
        assert!(report.contains(word), "no `{word}` in the report");
    }
    assert_eq!(stores(&dir.path().join("runs")), 0, "a run directory is left behind");
}

#[test]
fn an_open_loop_over_a_shifting_load_keeps_its_rate() {
    let dir = tempdir().expect("a directory");
    let line = "bench shift --engine memory --workload crowd --records 500 --period 0.2 --operations 1200 --rate 2000 \
                --value-bytes 50 --dir DIR/runs --json DIR/runs.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.text().contains("open loop at 2.00 k/s"), "{}", done.text());
    let record = &records(&dir.path().join("runs.jsonl"))[0];
    // The last of 1,200 operations at 2,000 a second begins after 599.5 ms.
    let seconds = record["seconds"].as_f64().expect("a duration");
    assert!(seconds >= 0.5995, "the schedule was outrun: {seconds} s");
    assert_eq!(record["operations"], 1_200);
    assert!(record["timeline"]["marks"].as_array().is_some_and(|marks| marks.len() >= 5), "{record}");
    assert_eq!((&record["rate"], &record["errors"]), (&2_000.0.into(), &0.into()));
}

#[test]
fn popular_records_of_ycsb_can_shift() {
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine memory --workload a,d --distribution shift --records 500 --operations 2000 --value-bytes 50 \
                --dir DIR/runs --json DIR/runs.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let records = records(&dir.path().join("runs.jsonl"));
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|r| r["distribution"] == "shift" && r["errors"] == 0 && r["operations"] == 2_000));
}

#[test]
fn recorded_operations_are_replayed_a_file_each_or_one_by_all() {
    let dir = tempdir().expect("a directory");
    let lines = |from: u32, ending: &str| {
        (from..from + 300).map(|n| format!("{},k{}{ending}", n % 2, n % 200)).collect::<String>()
    };
    fs::write(dir.path().join("one.txt"), lines(0, "\n")).expect("it is written");
    fs::write(dir.path().join("two.txt"), lines(7, "\r\n") + "2,k1,10").expect("it is written");
    let trace = |rest: &str, json: &str| {
        let line = format!(
            "bench trace --engine lmdb --value-bytes 50 --cache-bytes 16MiB --dir DIR/runs --json DIR/{json} {rest}"
        );
        let done = run(&line, dir.path());
        assert_eq!(done.status, 0, "{}", done.stderr);
        (done.text().to_owned(), records(&dir.path().join(json)))
    };
    let (text, each) =
        trace("DIR/one.txt,DIR/two.txt --partitioning none,hard --partitions 2 --html DIR/r.html", "each.jsonl");
    assert!(text.contains("Trace one and 1 more, 2 threads (recorded): 200 records of 3 + 50 bytes"), "{text}");
    assert_eq!(each.len(), 2);
    for record in &each {
        assert_eq!(
            (&record["bench"], &record["errors"], &record["operations"]),
            (&"trace".into(), &0.into(), &601.into())
        );
        assert_eq!((&record["records"], &record["threads"]), (&200.into(), &2.into()));
        assert_eq!(record["latency_ns"]["scan"]["count"], 1);
        assert_eq!(record["traces"].as_array().map(Vec::len), Some(2));
    }
    assert!(fs::read_to_string(dir.path().join("r.html")).expect("a report").contains("Trace one and 1 more on lmdb"));
    let (_, all) = trace("DIR/one.txt --threads 1,3", "all.jsonl");
    assert_eq!(all.iter().map(|record| &record["operations"]).collect::<Vec<_>>(), [300, 900]);
    let (_, some) = trace("DIR/one.txt --operations 1000", "some.jsonl");
    assert_eq!((&some[0]["operations"], &some[0]["errors"]), (&1_000.into(), &0.into()));
    let (_, empty) = trace("DIR/one.txt --no-load", "empty.jsonl");
    assert_eq!(
        (&empty[0]["records"], &empty[0]["errors"], &empty[0]["load"]["seconds"]),
        (&0.into(), &0.into(), &0.0.into())
    );
}

/// Seven runs a side over the null engine, as lines; `factor` slows those of the second.
fn two_sides(dir: &Path, factor: f64) {
    let line = "bench ycsb --engine null --workload c --records 100 --operations 200 --repeat 7 --dir DIR/runs --json DIR/old.jsonl";
    assert_eq!(run(line, dir).status, 0);
    let text = fs::read_to_string(dir.join("old.jsonl")).expect("the lines");
    let side = |factor: f64| -> String {
        let runs = text.lines().enumerate().map(|(i, line)| {
            let mut record: serde_json::Value = serde_json::from_str(line).expect("a record");
            record["ops_per_s"] = serde_json::json!(factor * (100_000.0 + 100.0 * i as f64));
            format!("{record}\n")
        });
        runs.collect()
    };
    fs::write(dir.join("old.jsonl"), side(1.0)).expect("the lines");
    fs::write(dir.join("new.jsonl"), side(factor)).expect("the lines");
}

#[test]
fn a_comparison_ends_with_1_on_a_regression_beyond_the_threshold_alone() {
    let dir = tempdir().expect("a directory");
    two_sides(dir.path(), 0.94);
    let compare = |options: &str| {
        let run = run(&format!("bench compare DIR/old.jsonl DIR/new.jsonl {options}"), dir.path());
        (run.status, run.text().to_owned(), run.stderr)
    };
    let (status, out, error) = compare("");
    assert_eq!(status, 1, "{error}");
    assert!(out.contains("-6.0 %") && out.contains("WORSE, beyond the threshold"), "{out}");
    assert!(error.contains("lost 5.0 % or more"), "{error}");
    let (status, out, _) = compare("--threshold 0.2");
    assert!(status == 0 && out.contains("0 better, 1 worse (0 beyond"), "{out}");
    let (status, out, _) = compare("--json");
    let line: serde_json::Value = serde_json::from_str(&out).expect("one object");
    assert_eq!((status, &line["regressions"], &line["resamples"]), (1, &1.into(), &5_000.into()));
    let figure = &line["rows"][0]["figures"][0];
    assert_eq!((&line["rows"][0]["workload"], &figure["metric"]), (&"c".into(), &"ops_per_s".into()));
    assert_eq!((&figure["verdict"], &figure["regression"]), (&"worse".into(), &true.into()));
    // The other way round it is a gain.
    assert_eq!(run("bench compare DIR/new.jsonl DIR/old.jsonl", dir.path()).status, 0);
}

#[test]
fn kept_runs_are_shown_again_those_of_all_files_in_one_table() {
    let dir = tempdir().expect("a directory");
    let bench = "bench ycsb --engine log --workload c --records 100 --operations 200 --partitions 8 --dir DIR/runs";
    for (every, file) in [("off", "still"), ("1s", "moving")] {
        let run = run(&format!("{bench} --repartition {every} --json DIR/{file}.jsonl"), dir.path());
        assert_eq!(run.status, 0, "{}", run.stderr);
    }
    let shown = run("bench show DIR/still.jsonl DIR/moving.jsonl --html DIR/both.html", dir.path()).ok();
    let text = shown.text();
    assert_eq!(text.matches("YCSB workload C").count(), 1, "{text}");
    assert!(text.contains("log hard-8 moving 1s") && text.contains("x still") && text.contains("both.html"), "{text}");
    let page = fs::read_to_string(dir.path().join("both.html")).expect("the report");
    assert!(page.contains("What moving brought") && page.contains("log hard-8 hash"));
    for (line, status, says) in [
        ("bench show", 2, "RUNS.jsonl"),
        ("bench show DIR/nosuch.jsonl", 1, "nosuch.jsonl"),
        ("bench show DIR/both.html", 1, "line 1 is no record"),
    ] {
        let run = run(line, dir.path());
        assert!(run.status == status && run.stderr.contains(says), "{line}: {}", run.stderr);
    }
}

#[test]
fn a_run_may_lie_in_several_directories_and_leaves_nothing_in_any() {
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine log --workload a --records 500 --operations 500 --partitions 4 --dir DIR/a,DIR/b \
                --json DIR/runs.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let text = fs::read_to_string(dir.path().join("runs.jsonl")).expect("the lines");
    let record: serde_json::Value = serde_json::from_str(text.trim_end()).expect("a JSON line");
    assert_eq!(record["errors"], 0);
    assert!(record["disk_bytes"].as_u64().is_some_and(|bytes| bytes > 500_000), "{}", record["disk_bytes"]);
    for place in ["a", "b"] {
        assert!(dir.path().join(place).exists(), "{place} was never used");
        assert_eq!(stores(&dir.path().join(place)), 0, "a store is left in {place}");
    }
}

#[test]
fn the_experiments_are_listed_and_one_is_done_with_published_beside_measured() {
    let dir = tempdir().expect("a directory");
    let listed = run("reproduce --list", dir.path()).ok();
    for name in ["repart-kv", "btree-vs-lsm", "dgap-numa", "leveldb-sizes", "logstore"] {
        assert!(listed.text().contains(name), "{name} is not listed");
    }
    if !has_engine("leveldb") {
        return;
    }
    let done = run("reproduce leveldb-sizes --scale 0.001 --dir DIR/runs --html DIR/again.html --json", dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let found = done.json();
    let findings = found["findings"].as_array().expect("findings");
    assert_eq!((&found["name"], findings.len()), (&"leveldb-sizes".into(), 12));
    assert!(findings.iter().all(|finding| finding["published"].is_string() && finding["verdict"].is_string()));
    let page = fs::read_to_string(dir.path().join("again.html")).expect("the report");
    assert!(page.contains("Published and measured") && page.contains("fillrandom"));
    assert_eq!(stores(&dir.path().join("runs")), 0, "a store is left behind");
}

#[test]
fn a_sweep_over_threads_is_done_again_with_a_curve_of_each_engine() {
    let dir = tempdir().expect("a directory");
    if !(has_engine("log") && has_engine("lmdb")) {
        return;
    }
    let done = run(
        "reproduce logstore --scale 0.001 --engine log,lmdb --dir DIR/runs --html DIR/again.html --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let found = done.json();
    let curves = found["curves"].as_array().expect("curves");
    assert_eq!(curves.len(), 3, "two engines and what was published");
    for engine in ["log", "lmdb"] {
        let curve =
            curves.iter().find(|curve| curve["label"] == engine).unwrap_or_else(|| panic!("{engine} has no curve"));
        let points = curve["points"].as_array().expect("points");
        let threads: Vec<u64> = points.iter().filter_map(|point| point["threads"].as_u64()).collect();
        assert_eq!(threads, [1, 2, 4, 8, 16, 32, 64, 128], "{engine}");
        assert!(points.iter().all(|point| point["ops_per_s"].as_f64() > Some(0.0)), "{engine}");
    }
    let page = fs::read_to_string(dir.path().join("again.html")).expect("the report");
    assert!(page.contains("Latency against throughput") && page.contains("LogBase, 3 replicas"));
    assert_eq!(stores(&dir.path().join("runs")), 0, "a store is left behind");
}

#[test]
fn the_workloads_over_trees_are_done_again_with_each_published_figure_beside_its_like() {
    let dir = tempdir().expect("a directory");
    if !(has_engine("rocksdb") && has_engine("postgres")) {
        return;
    }
    // Without PostgreSQL, which has a second or two for each run.
    let done = run(
        "reproduce btree-vs-lsm --scale 0.001 --engine rocksdb --dir DIR/runs --html DIR/again.html --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let found = done.json();
    let figures = found["figures"].as_array().expect("figures");
    for work in ["A-load", "A", "B", "C", "D", "E", "F"] {
        let of = |name: &str| figures.iter().find(|f| f["load"] == format!("{work}, os") && f["of"] == name);
        let throughput = of("throughput").unwrap_or_else(|| panic!("no throughput of {work}"));
        assert_eq!((&throughput["published_system"], &throughput["engine"]), (&"RocksDB".into(), &"rocksdb".into()));
        let figure = |name: &str| throughput[name].as_f64().unwrap_or_else(|| panic!("no {name} in {throughput}"));
        assert!((figure("measured") / figure("published") / figure("ratio") - 1.0).abs() < 1e-9, "{throughput}");
        // Of what the run wrote, without what was loaded before it: none where that is less than a tenth of the load.
        let waf = of("WAF by the kernel").and_then(|waf| waf["measured"].as_f64());
        let puts = ["A-load", "A", "F"].contains(&work);
        assert!(if puts { waf > Some(0.5) } else { waf.is_none() }, "{work}: {waf:?}");
    }
    let scans = figures.iter().find(|f| f["load"] == "E, os" && f["of"] == "scan, mean").expect("scans");
    assert!(scans["measured"].as_f64() > Some(0.0) && scans["p99_ns"].as_f64() > Some(0.0), "{scans}");
    let findings = found["findings"].as_array().expect("findings");
    let verdicts: Vec<_> = findings.iter().map(|f| f["verdict"].clone()).collect();
    assert!(verdicts.contains(&"unknown".into()), "nothing was measured of PostgreSQL: {verdicts:?}");
    let told = |f: &serde_json::Value| f["measured"].as_str().is_some_and(|text| text.contains("0 compactions"));
    assert!(findings.iter().any(told), "1 MB is not merged, and nobody is told: {findings:?}");
    let page = fs::read_to_string(dir.path().join("again.html")).expect("the report");
    assert!(page.contains("Figures, published and measured") && page.contains("A-load, os"));
    assert_eq!(stores(&dir.path().join("runs")), 0, "a store is left behind");
}

#[test]
fn the_micro_benchmark_of_trees_is_done_without_the_engines_of_the_workloads() {
    let dir = tempdir().expect("a directory");
    if !has_engine("micro-btree") {
        return;
    }
    let done = run(
        "reproduce btree-vs-lsm --scale 0.05 --engine micro-btree-published,micro-lsm-published --dir DIR/runs --html DIR/micro.html --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let found = done.json();
    let findings = found["findings"].as_array().expect("findings");
    let figure = |what: &str| {
        let finding = findings.iter().find(|f| f["published"].as_str().is_some_and(|text| text.contains(what)));
        finding.and_then(|f| f["measured_figure"].as_f64()).unwrap_or_else(|| panic!("no {what} in {findings:?}"))
    };
    // Each put is a page, whatever the machine; and nothing is kept for less than a byte written for each byte put.
    assert!((256.0..270.0).contains(&figure("the B-tree writes 256")), "{findings:?}");
    assert!(figure("the LSM-tree writes 0.81") > 1.0, "{findings:?}");
    let page = fs::read_to_string(dir.path().join("micro.html")).expect("the report");
    assert!(page.contains("Published and measured") && page.contains("micro-lsm-published"));
    assert_eq!(stores(&dir.path().join("runs")), 0, "a store is left behind");
}

#[test]
fn the_matrix_of_partitions_is_done_again_with_all_layouts_side_by_side() {
    let dir = tempdir().expect("a directory");
    if !has_engine("lmdb") {
        return;
    }
    let line = "reproduce repart-kv --scale 0.001 --engine lmdb --dir DIR/runs --html DIR/again.html --json";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let found = done.json();
    let figures = found["figures"].as_array().expect("figures");
    let of_lmdb: Vec<_> = figures.iter().filter(|figure| figure["engine"] == "lmdb").collect();
    assert_eq!(of_lmdb.len(), 6 * 2 * 4, "workloads, workers, layouts");
    assert!(of_lmdb.iter().all(|figure| figure["measured"].as_f64() > Some(0.0)));
    assert_eq!(of_lmdb.iter().filter(|figure| figure["published"].is_number()).count(), 6);
    let page = fs::read_to_string(dir.path().join("again.html")).expect("the report");
    assert!(page.contains("Published and measured") && page.contains("hard-8-repartitioning"));
    assert_eq!(stores(&dir.path().join("runs")), 0, "a store is left behind");
}

#[test]
fn executors_stand_side_by_side_in_one_table() {
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine memory --workload a --records 300 --operations 600 --partitioning none,soft,hard --partitions 4 \
                --executor direct,pinned --workers 2 --durability sync --dir DIR/runs --json DIR/runs.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    for word in ["memory hard-4 pinned-2", "memory soft-4 pinned-2", "memory hard-4"] {
        assert!(done.text().contains(word), "no `{word}` in\n{}", done.text());
    }
    let text = fs::read_to_string(dir.path().join("runs.jsonl")).expect("the lines");
    let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a JSON line"));
    let of: Vec<_> = records
        .map(|record| {
            assert_eq!((&record["errors"], &record["operations"]), (&0.into(), &600.into()));
            (record["executor"].as_str().unwrap_or_default().to_owned(), record["workers"].as_u64())
        })
        .collect();
    let (direct, pinned) = (("direct".to_owned(), None), ("pinned".to_owned(), Some(2)));
    assert_eq!(of, [direct.clone(), direct.clone(), pinned.clone(), direct, pinned]);
}

/// Fails when a dash becomes a file, or when something that is no line comes with the lines.
#[test]
fn lines_go_to_standard_output_alone_and_a_page_never() {
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine memory --workload c --records 300 --operations 600 --dir DIR/runs";
    let done = run(&format!("{line} --json - --html DIR/page.html"), dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let records: Vec<serde_json::Value> =
        done.text().lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    assert_eq!((records.len(), &records[0]["engine"]), (1, &"memory".into()));
    assert!(dir.path().join("page.html").exists() && !std::path::Path::new("-").exists());
    for refused in [
        format!("{line} --html -"),
        "reproduce logstore --runs -".to_owned(),
        "advise --workload a --config -".to_owned(),
    ] {
        let refused = run(&refused, dir.path());
        assert!(refused.status == 2 && refused.stderr.contains("name a file"), "{}", refused.stderr);
    }
}

/// Fails when the level is refused, or measured as another one.
#[test]
fn writes_at_relaxed_are_measured_as_such() {
    let dir = tempdir().expect("a directory");
    let engine = if has_engine("log") { "log" } else { "memory" };
    let line = format!(
        "bench ycsb --engine {engine} --workload a --records 300 --operations 600 --partitioning none,hard --partitions 4 \
         --executor direct,pinned --workers 2 --durability relaxed --dir DIR/runs --json DIR/runs.jsonl"
    );
    let done = run(&line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let records = records(&dir.path().join("runs.jsonl"));
    assert_eq!(records.len(), 3, "none, and hard with both executors");
    for record in records {
        assert_eq!((&record["durability"], &record["errors"]), (&"relaxed".into(), &0.into()), "{record}");
    }
}
