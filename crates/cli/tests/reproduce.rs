//! `biombo reproduce --runs`: what is left of an experiment that somebody kills.

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, has_engine, run, words};
use tempfile::tempdir;

#[test]
fn runs_are_kept_one_by_one_and_a_kill_leaves_them_and_the_old_report() {
    if !has_engine("lmdb") {
        return;
    }
    let dir = tempdir().expect("a directory");
    let (kept, report) = (dir.path().join("kept.jsonl"), dir.path().join("report.html"));
    fs::write(&report, "the old report").expect("a file");
    let line =
        "reproduce logstore --scale 0.01 --engine lmdb --dir DIR/runs --runs DIR/kept.jsonl --html DIR/report.html";
    let mut child = command()
        .args(words(line, dir.path()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let lines = || fs::read_to_string(&kept).map_or(0, |text| text.lines().count());
    let begun = Instant::now();
    while lines() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no run was kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-9", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    child.wait().expect("it ended");
    let count = lines();
    assert!((2..24).contains(&count), "{count} lines");
    assert_eq!(fs::read_to_string(&report).expect("the report"), "the old report");
    // What was done is shown, and a report made of it.
    let shown = run("bench show DIR/kept.jsonl --html DIR/report.html", dir.path()).ok();
    assert!(shown.text().contains("db_bench fillrandom"), "{}", shown.text());
    assert!(fs::read_to_string(&report).expect("the report").contains("</html>"));
    assert!(!dir.path().join("report.html.part").exists());
}

#[test]
fn all_runs_of_an_experiment_are_in_the_file_and_one_that_cannot_be_made_is_refused_before_the_work() {
    if !has_engine("lmdb") {
        return;
    }
    let dir = tempdir().expect("a directory");
    let line = "reproduce logstore --scale 0.001 --engine lmdb --dir DIR/runs --json --runs";
    let done = run(&format!("{line} DIR/kept.jsonl"), dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(fs::read_to_string(dir.path().join("kept.jsonl")).expect("the runs").lines().count(), 8 * 3);
    let refused = run(&format!("{line} DIR/nosuch/kept.jsonl"), dir.path());
    assert!(refused.status == 1 && refused.stderr.contains("nosuch/kept.jsonl"), "{}", refused.stderr);
    // Steps over graphs are lines of their own, as those of `bench graph`.
    let graphs = run("reproduce dgap-numa --scale 0.0003 --json --runs DIR/steps.jsonl", dir.path()).ok();
    assert!(graphs.json()["findings"].is_array());
    let steps = fs::read_to_string(dir.path().join("steps.jsonl")).expect("the steps");
    let first: serde_json::Value = serde_json::from_str(steps.lines().next().expect("a step")).expect("an object");
    assert_eq!(first["bench"], "graph");
}
