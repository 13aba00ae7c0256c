//! `biombo advise`: a race of real trials, and a store made as it advises.

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{biombo_with, command, has_engine, run, words};
use tempfile::tempdir;

#[test]
fn a_small_race_ends_with_a_ranking_and_a_store_that_is_made_as_advised() {
    let dir = tempdir().expect("a directory");
    if !(has_engine("log") && has_engine("lmdb")) {
        return;
    }
    let done = run(
        "advise --reads 0.9 --records 3000 --value-bytes 100 --durability os --engine memory,log,lmdb --partitions 1,2 --placement hash \
         --budget 4s --cache-bytes 64MiB --dir DIR/runs --config DIR/store.toml --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let advice = done.json();
    let ranking = advice["ranking"].as_array().expect("a ranking");
    assert_eq!(ranking.len(), 6, "{advice}");
    assert_eq!(ranking[0]["standing"]["is"], "first");
    for ranked in ranking {
        let figure = |name: &str| ranked[name].as_f64().unwrap_or_else(|| panic!("no {name} in {ranked}"));
        assert!(figure("ops_per_s") > 0.0 && figure("p99_ns") > 0.0 && figure("memory_bytes") > 1e6, "{ranked}");
        assert!(figure("by_first") > 0.0 && figure("trials") >= 1.0, "{ranked}");
    }
    // Files have a write amplification, and take room.
    let log = ranking.iter().find(|ranked| ranked["name"] == "log").expect("log is ranked");
    assert!(log["waf"].as_f64() > Some(0.5) && log["disk_bytes"].as_f64() > Some(3e5), "{log}");
    assert!(advice["rounds"].as_u64() >= Some(1) && advice["trial"]["records"].as_u64() <= Some(3_000), "{advice}");
    let why = advice["why"].as_array().expect("sentences");
    let name = ranking[0]["name"].as_str().expect("a name");
    assert!(why[0].as_str().is_some_and(|first| first.starts_with(&format!("Take {name}: "))), "{why:?}");
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "a store is left behind");

    // What is advised can be made; the file says how it came about.
    let text = fs::read_to_string(dir.path().join("store.toml")).expect("the configuration");
    assert!(
        text.starts_with("# 90 % read, 10 % update (zipfian) over 3.00 k records") && text.contains("# Take "),
        "{text}"
    );
    let loaded =
        biombo_with(words("load DIR/s - --config DIR/store.toml --json", dir.path()), b"a\t1\nb\t2\n").ok().json();
    assert_eq!((&loaded["engine"], &loaded["partitions"]), (&ranking[0]["engine"], &ranking[0]["partitions"]));
    assert_eq!((&loaded["durability"], &loaded["lines"]), (&"os".into(), &2.into()));
}

#[test]
fn the_beginning_of_a_trace_is_tried_and_the_table_says_what_came_of_it() {
    let dir = tempdir().expect("a directory");
    if !has_engine("log") {
        return;
    }
    let lines: String = (0..4_000).map(|i| format!("{},key{:05}\n", i % 2, i * 7 % 1_000)).collect();
    fs::write(dir.path().join("day.txt"), lines).expect("a trace");
    let done = run(
        "advise --trace DIR/day.txt --engine memory,log --partitions 1 --durability os --budget 1s --value-bytes 20000 --cache-bytes 16MiB --dir DIR/runs",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let text = done.text();
    for part in [
        "4.00 k operations of ",
        "day.txt (50 % read, 50 % update)",
        "advised",
        "Take ",
        "A trial was 1.00 k of the 4.00 k",
        "engine = ",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "something is left behind");
}

#[test]
fn an_interruption_leaves_no_store_and_no_configuration() {
    let dir = tempdir().expect("a directory");
    let line = "advise --workload c --engine memory --partitions 1,2 --budget 1h --records 1000 --dir DIR/runs --config DIR/c.toml";
    let mut child = command();
    let child = child.args(words(line, dir.path())).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("the command runs");
    let begun = Instant::now();
    while fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "no trial begins");
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
    let output = child.wait_with_output().expect("the command ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("interrupted before every candidate had a trial"),
        "{said}"
    );
    assert!(!dir.path().join("c.toml").exists(), "an empty configuration is left behind");
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "a store is left behind");
}
