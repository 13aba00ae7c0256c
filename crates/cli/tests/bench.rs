//! `biombo bench`: its lines are there as soon as a run is done, and Ctrl-C leaves nothing else behind.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, words};
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
