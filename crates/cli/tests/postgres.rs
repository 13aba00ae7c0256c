//! `biombo bench` over PostgreSQL: its processes count, and its death costs its own run alone.
#![cfg(feature = "postgres")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, run, words};
use tempfile::TempDir;

/// A temporary directory; `None`, said, where PostgreSQL is not installed.
fn place() -> Option<TempDir> {
    let registry = biombo::registry();
    if !registry.get("postgres").expect("the feature is on").is_installed() {
        println!("skipped: PostgreSQL is not installed");
        return None;
    }
    Some(TempDir::with_prefix("biombo-cli-postgres-").expect("a temporary directory"))
}

fn records(dir: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(dir.join("runs.jsonl")).expect("the lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_server_counts_with_its_bytes_and_memory_and_scans_come_to_their_end() {
    let Some(place) = place() else { return };
    let dir = place.path();
    let done = run(
        "bench ycsb --engine postgres --workload a,e --records 3000 --operations 1500 --cache-bytes 64MiB --dir DIR/runs \
         --json DIR/runs.jsonl",
        dir,
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let records = records(dir);
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!((&record["errors"], &record["operations"]), (&0.into(), &1_500.into()));
        let figure = |name: &str| record[name].as_f64().expect("a figure");
        // The log and the pages have every byte that was put; the processes below wrote them, not the client.
        assert!(figure("waf") > 1.5 && record["waf_by"]["engine"].as_f64() > Some(1.0), "{record}");
        assert!(figure("rss_bytes_max") > 20e6, "the client alone has less: {record}");
        assert!(figure("cpu_seconds") > 0.1, "{record}");
        assert!(figure("disk_bytes") > figure("logical_write_bytes"), "{record}");
    }
    assert!(records[1]["latency_ns"]["scan"]["count"].as_u64() > Some(1_000));
    assert!(is_empty(&dir.join("runs")), "a cluster is left behind");
}

#[test]
fn a_store_over_it_is_loaded_read_and_verified_by_one_command_after_another() {
    let Some(place) = place() else { return };
    let dir = place.path();
    let fruit: &[u8] = b"apple\tred\nbanana\tyellow\ncherry\tdark red\n";
    for (name, layout) in [("one", "--partitioning none"), ("two", "--partitions 2")] {
        let loaded =
            common::biombo_with(words(&format!("load DIR/{name} - --engine postgres {layout}"), dir), fruit).ok();
        assert!(loaded.text().starts_with("loaded 3 lines"), "{}", loaded.text());
        assert_eq!(run(&format!("get DIR/{name} banana"), dir).ok().stdout, b"yellow");
        assert_eq!(run(&format!("scan DIR/{name}"), dir).ok().stdout, fruit);
        assert!(run(&format!("verify DIR/{name}"), dir).ok().text().starts_with("3 keys read"));
    }
    let refused = run("checkpoint DIR/one DIR/copy", dir);
    assert!(refused.status == 1 && refused.stderr.contains("has no checkpoints"), "{}", refused.stderr);
}

/// The lock file of the server that works below `runs`, once there is one.
fn lock_file(runs: &Path) -> Option<PathBuf> {
    let found = fs::read_dir(runs).ok()?.flatten().map(|run| run.path().join("cluster/postmaster.pid"));
    found.into_iter().find(|file| file.is_file())
}

fn server(runs: &Path) -> (String, String) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "no server after a minute");
        let text = lock_file(runs).and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        // The last line says that it answers.
        if lines.get(7) == Some(&"ready") {
            return (lines[0].to_owned(), lines[4].to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lives(process: &str) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|text| !text.is_empty())
}

fn start(line: &str, dir: &Path) -> Child {
    let mut command = command();
    command.args(words(line, dir)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command runs")
}

#[test]
fn a_server_that_dies_in_the_middle_costs_its_own_run_and_says_why() {
    let Some(place) = place() else { return };
    let dir = place.path();
    let line = "bench ycsb --engine memory,postgres,null --workload c --records 1000 --seconds 60 --threads 2 --cache-bytes 16MiB \
                --dir DIR/runs --json DIR/runs.jsonl";
    // Only the server's run would last that long: those beside it are short enough by operations.
    let line = line.replace("--seconds 60", "--operations 3000000");
    let child = start(&line, dir);
    let (server, _) = server(&dir.join("runs"));
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-9", &server]).status().is_ok_and(|status| status.success()));
    let done = common::Run::of(child.wait_with_output().expect("it ends"));
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("1 of 3 runs failed") && done.stderr.contains("the PostgreSQL server ended"),
        "{}",
        done.stderr
    );
    let kept: Vec<_> = records(dir).iter().map(|record| record["engine"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(kept, ["memory", "null"]);
    assert!(done.text().contains("memory") && done.text().contains("null"), "{}", done.text());
    assert!(is_empty(&dir.join("runs")), "a cluster is left behind");
}

#[test]
fn a_command_that_is_killed_leaves_no_server_and_its_directory_goes_with_the_next_run() {
    let Some(place) = place() else { return };
    let dir = place.path();
    let mut child = start(
        "bench ycsb --engine postgres --workload c --records 1000 --seconds 60 --cache-bytes 16MiB --dir DIR/runs",
        dir,
    );
    let (server, sockets) = server(&dir.join("runs"));
    child.kill().expect("kill it");
    child.wait().expect("it is gone");
    let until = Instant::now() + Duration::from_secs(60);
    while lives(&server) || Path::new(&sockets).exists() {
        assert!(Instant::now() < until, "the server {server} or its socket {sockets} is there after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    let next = run("bench ycsb --engine null --workload c --records 100 --operations 100 --dir DIR/runs", dir);
    assert_eq!(next.status, 0, "{}", next.stderr);
    assert!(is_empty(&dir.join("runs")), "the killed run's cluster is left behind");
}
