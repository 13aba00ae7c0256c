//! `biombo advise`: a race of real trials, a store made as it advises, and what an exhaustive run says of it.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{biombo_with, command, has_engine, run, words};
use serde_json::Value;
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
    assert_eq!(ranking.len(), 3 * 3, "whole, and in two partitions under both executors: {advice}");
    assert_eq!(ranking[0]["standing"]["is"], "first");
    for ranked in ranking {
        let figure = |name: &str| ranked[name].as_f64().unwrap_or_else(|| panic!("no {name} in {ranked}"));
        assert!(figure("ops_per_s") > 0.0 && figure("p99_ns") > 0.0 && figure("memory_bytes") > 1e6, "{ranked}");
        assert!(figure("by_first") > 0.0 && figure("trials") >= 1.0, "{ranked}");
    }
    let pinned = ranking.iter().filter(|ranked| ranked["workers"].is_u64()).count();
    assert_eq!(pinned, 3, "{advice}");
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
        "A trial was 799 of the 4.00 k",
        "engine = ",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "something is left behind");
}

/// The lines of the file of trials.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the trials");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn an_exhaustive_run_judges_the_advice_and_every_trial_has_its_line() {
    let dir = tempdir().expect("a directory");
    if !has_engine("log") {
        return;
    }
    let done = run(
        "advise --workload a --records 2000 --value-bytes 100 --durability os --engine memory,log --partitions 1 --budget 2s \
         --exhaustive=0.3s --cache-bytes 64MiB --dir DIR/runs --trials DIR/t.jsonl --config DIR/c.toml --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let advice = done.json();
    let run = &advice["exhaustive"];
    let names: Vec<_> = run["ranking"].as_array().expect("a ranking").iter().map(|one| &one["name"]).collect();
    assert!(names.len() == 2 && names.contains(&&run["best"]) && run["rival"].is_string(), "{run}");
    assert_eq!(run["advised"], advice["ranking"][0]["name"]);
    let figure = |name: &str| run[name].as_f64().unwrap_or_else(|| panic!("no {name} in {run}"));
    assert_eq!((figure("run_seconds"), run["ranking"][0]["by_best"].as_f64()), (0.3, Some(1.0)));
    assert!(figure("seconds") > 0.6 && figure("advised_by_best") > 0.0, "{run}");
    let share = advice["seconds"].as_f64().expect("seconds") / figure("seconds");
    assert!((figure("advice_share") / share - 1.0).abs() < 1e-9, "{run}");
    assert_eq!(
        (run["advised"] == run["best"], &run["repetitions"]),
        (figure("advised_by_rival") >= 1.0, &2.into()),
        "{run}"
    );
    let config = fs::read_to_string(dir.path().join("c.toml")).expect("the configuration");
    assert!(config.contains("# The advice took "), "{config}");

    // What a bench reads, and what is said beside.
    let all = lines(&dir.path().join("t.jsonl"));
    let of = |part: &str| all.iter().filter(|line| line["part"] == part).collect::<Vec<_>>();
    let (race, exhaustive) = (of("race"), of("exhaustive"));
    let trials: u64 =
        advice["ranking"].as_array().expect("a ranking").iter().filter_map(|r| r["trials"].as_u64()).sum();
    assert_eq!(race.len() as u64, trials, "{advice}");
    assert_eq!(exhaustive.len() as u64, 2 + 2 * run["repetitions"].as_u64().expect("a number"), "{run}");
    assert!(all.iter().all(|line| line["trial_seconds"].as_f64() > line["seconds"].as_f64()), "{all:?}");
    assert!(
        exhaustive
            .iter()
            .all(|line| line["records"] == 2_000 && line["repetition"].as_u64() > advice["rounds"].as_u64())
    );
    let text = fs::read_to_string(dir.path().join("t.jsonl")).expect("the trials");
    assert_eq!(biombo_lab::record::parse_lines(&text).expect("records").len(), all.len());
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "a store is left behind");
}

#[test]
fn an_executor_that_is_advised_is_in_the_configuration_and_the_table_tells_of_the_exhaustive_run() {
    let dir = tempdir().expect("a directory");
    let done = run(
        "advise --reads 0.5 --records 500 --value-bytes 10 --durability os --engine memory --partitions 2 --placement hash \
         --executor pinned --budget 1s --exhaustive=0.2s --dir DIR/runs --config DIR/c.toml",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let text = done.text();
    for part in [
        "memory in 2 partitions by hash on ",
        "Exhaustively, 200 ms for each over all records",
        "is the best of them",
        "The advice took ",
        "c.toml (biombo load DIR --config",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    let config = fs::read_to_string(dir.path().join("c.toml")).expect("the configuration");
    assert!(config.contains("executor = \"pinned-"), "{config}");
    let loaded = biombo_with(words("load DIR/s - --config DIR/c.toml --json", dir.path()), b"a\t1\nb\t2\n").ok().json();
    assert_eq!((&loaded["partitions"], &loaded["lines"]), (&2.into(), &2.into()));
}

#[test]
fn an_advice_whose_trials_cannot_be_written_ends_with_that_and_leaves_no_configuration() {
    let dir = tempdir().expect("a directory");
    let line = "advise --workload a --engine memory --partitions 1,2 --records 500 --budget 1s --dir DIR/runs --config DIR/c.toml";
    // It cannot be made; and it is full from its first line on, before every candidate had its trial.
    for (file, says) in [("DIR/no/t.jsonl", "no/t.jsonl"), ("/dev/full", "cannot write /dev/full")] {
        let done = run(&format!("{line} --trials {file}"), dir.path());
        assert!(done.status == 1 && done.stderr.contains(says), "{}: {}", done.status, done.stderr);
        assert!(!dir.path().join("c.toml").exists(), "an empty configuration is left behind");
    }
}

#[test]
fn an_interrupted_exhaustive_run_leaves_the_advice_as_it_is() {
    let dir = tempdir().expect("a directory");
    let line = "advise --workload c --engine memory --partitions 1 --records 500 --budget 1s --exhaustive=100s --dir DIR/runs \
                --trials DIR/t.jsonl --config DIR/c.toml";
    let output =
        interrupted(line, dir.path(), || fs::read(dir.path().join("t.jsonl")).is_ok_and(|text| !text.is_empty()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && said.contains("unjudged: interrupted after 0 of 1 trials of the exhaustive run"),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("Take memory: "));
    assert!(fs::read_to_string(dir.path().join("c.toml")).is_ok_and(|text| text.contains("engine = \"memory\"")));
}

/// What a command says that is interrupted as soon as `begun` says so.
fn interrupted(line: &str, dir: &Path, begun: impl Fn() -> bool) -> Output {
    let mut child = command();
    let child = child.args(words(line, dir)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("the command runs");
    let started = Instant::now();
    while !begun() {
        assert!(started.elapsed() < Duration::from_secs(30), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
    child.wait_with_output().expect("the command ends")
}

#[test]
fn an_interruption_leaves_no_store_and_no_configuration() {
    let dir = tempdir().expect("a directory");
    let line = "advise --workload c --engine memory --partitions 1,2 --budget 1h --records 1000 --dir DIR/runs --config DIR/c.toml";
    let output = interrupted(line, dir.path(), || fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count) > 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("interrupted before every candidate had a trial"),
        "{said}"
    );
    assert!(!dir.path().join("c.toml").exists(), "an empty configuration is left behind");
    assert_eq!(fs::read_dir(dir.path().join("runs")).map_or(0, Iterator::count), 0, "a store is left behind");
}

#[test]
fn trials_of_more_data_than_the_memory_have_their_share_of_the_caches_and_what_was_in_memory_is_told() {
    let dir = tempdir().expect("a directory");
    if !has_engine("lmdb") {
        return;
    }
    // Four terabytes: more than the memory of any machine that this runs on.
    let done = run(
        "advise --workload c --records 1000000000 --value-bytes 4000 --durability os --engine memory,lmdb --partitions 1 --budget 1s \
         --cache-bytes 64MiB --dir DIR/runs --trials DIR/t.jsonl --json",
        dir.path(),
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
    let all = lines(&dir.path().join("t.jsonl"));
    assert!(!all.is_empty() && all.iter().all(|line| line["cache_bytes"] == 4 << 20), "{all:?}");
    let why = done.json()["why"].to_string();
    assert!(why.contains("its share of the caches, 4.19 MB of 67.1 MB"), "{why}");
    assert!(
        why.contains("Take care: the 4.02 TB that are asked about are more than") && why.contains("the memory ("),
        "{why}"
    );
    let help = run("advise --help", dir.path()).ok();
    let text = help.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("scatter alike") && text.contains("its share of --cache-bytes"), "{text}");
}

/// What the judge of the advice says of results in `kept`: its words, and its exit status.
fn judged(kept: &Path, args: &[&str]) -> (String, Option<i32>) {
    let done = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/advise.sh"))
        .args(args)
        .env("BIOMBO_ADVICE", kept)
        // A command that answers as if every advice were good.
        .env("BIOMBO", kept.join("answers"))
        .env("BIOMBO_DATA", kept.join("nowhere"))
        .output()
        .expect("bash");
    (String::from_utf8_lossy(&done.stdout).into_owned(), done.status.code())
}

/// An answer of the command, with so much of the best one's throughput for such a share of the time.
fn answer(by_best: &str, share: &str) -> String {
    format!(
        r#"{{"ranking":[],"exhaustive":{{"advised":"log","best":"lmdb","advised_by_best":{by_best},"advice_share":{share},"seconds":9}}}}"#
    )
}

/// Fails if a workload that was not measured is left out of what is judged, or if one is filled in from an earlier day.
#[test]
fn advice_is_judged_over_all_eight_workloads_and_by_no_results_of_before() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().expect("a directory");
    let keep = |workload: &str, text: &str| fs::write(dir.path().join(workload).with_extension("json"), text);
    for workload in ["a", "b", "c", "d", "e", "f", "trace", "large"] {
        keep(workload, &answer("0.95", "0.08")).expect("write");
    }
    let (table, status) = judged(dir.path(), &["--summary"]);
    assert!(status == Some(0) && table.contains("8 of 8 within 10 %"), "{table}");
    for (broken, told) in [("{}", "not measured: large"), (&answer("0.89", "0.08"), "7 of 8 within")] {
        keep("large", broken).expect("write");
        let (table, status) = judged(dir.path(), &["--summary"]);
        assert!(status == Some(1) && table.contains(told), "{table}");
    }
    keep("large", &answer("0.95", "0.11")).expect("write");
    let (table, status) = judged(dir.path(), &["--summary"]);
    assert!(status == Some(1) && table.contains("7 of 8 for a tenth"), "{table}");

    // The trace cannot be had this time; its result of before is gone.
    keep("large", &answer("0.95", "0.08")).expect("write");
    let answers = dir.path().join("answers");
    fs::write(&answers, format!("#!/bin/sh\necho '{}'\n", answer("0.95", "0.08"))).expect("write");
    fs::set_permissions(&answers, fs::Permissions::from_mode(0o755)).expect("make it a program");
    let (table, status) = judged(dir.path(), &["a", "trace"]);
    assert!(status == Some(1) && table.contains("1 of 2 within") && table.contains("not measured: trace"), "{table}");
    let (table, status) = judged(dir.path(), &["--summary"]);
    assert!(status == Some(1) && table.contains("7 of 8 within") && table.contains("not measured: trace"), "{table}");
    let (table, status) = judged(dir.path(), &["a"]);
    assert!(status == Some(0) && table.contains("1 of 1 within"), "{table}");
}
