//! `biombo bench compare`: what it ends with where runs are wrong, too few or gone.

mod common;

use std::fs;
use std::path::Path;

use common::run;
use serde_json::{Value, json};
use tempfile::tempdir;

/// Real lines, made once: seven runs of two workloads over the null engine, at a known throughput.
fn lines(dir: &Path) -> Vec<Value> {
    let bench = "bench ycsb --engine null --workload b,c --records 100 --operations 200 --repeat 7 --dir DIR/runs --json DIR/all.jsonl";
    assert_eq!(run(bench, dir).status, 0);
    let text = fs::read_to_string(dir.join("all.jsonl")).expect("the lines");
    let known = |(i, line): (usize, &str)| {
        let mut record: Value = serde_json::from_str(line).expect("a record");
        record["ops_per_s"] = json!(100_000.0 + 100.0 * i as f64);
        record
    };
    text.lines().enumerate().map(known).collect()
}

fn write(dir: &Path, name: &str, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(dir.join(name), text).expect("the lines");
}

/// Status, standard output and the message of a comparison of `old` with `new`.
fn compared(dir: &Path, old: &[Value], new: &[Value], options: &str) -> (i32, String, String) {
    write(dir, "old.jsonl", old);
    write(dir, "new.jsonl", new);
    let run = run(&format!("bench compare DIR/old.jsonl DIR/new.jsonl {options}"), dir);
    (run.status, run.text().to_owned(), run.stderr)
}

#[test]
fn wrong_answers_missing_rows_and_too_few_runs_are_no_success() {
    let dir = tempdir().expect("a directory");
    let all = lines(dir.path());
    let of = |workload: &str| all.iter().filter(|line| line["workload"] == workload).cloned().collect::<Vec<_>>();
    let same = compared(dir.path(), &all, &all, "");
    assert!(same.0 == 0 && same.1.contains("2 judged: 0 better, 0 worse"), "{same:?}");

    // All reads miss, and so the new build is three times as fast.
    let mut wrong = all.clone();
    for line in wrong.iter_mut().filter(|line| line["workload"] == "c") {
        (line["ops_per_s"], line["errors"], line["first_error"]) =
            (json!(300_000.0), json!(200), json!("read of record 9"));
    }
    for options in ["", "--allow-missing"] {
        let (status, out, error) = compared(dir.path(), &all, &wrong, options);
        assert!(status == 1 && !out.contains("1 better"), "{out}");
        assert!(error.contains("1400 operations in 7 new runs of YCSB workload C"), "{error}");
        assert!(error.contains("read of record 9"), "{error}");
    }

    let (status, out, error) = compared(dir.path(), &all, &of("b"), "");
    assert!(
        status == 1 && error.contains("lacks 1 row") && out.contains("only in the old file: YCSB workload C"),
        "{error}"
    );
    assert_eq!(compared(dir.path(), &all, &of("b"), "--allow-missing").0, 0);
    assert_eq!(compared(dir.path(), &of("b"), &all, "").0, 0, "a row more is no loss");

    let few = [of("b"), of("c")[..5].to_vec()].concat();
    let (status, out, error) = compared(dir.path(), &all, &few, "");
    assert!(
        status == 1 && error.contains("7 old and 5 new runs are too few: it takes 6 of each (--repeat 6)"),
        "{error}"
    );
    assert!(out.contains("1 that cannot be judged (6 runs a side are needed)"), "{out}");
    assert_eq!(compared(dir.path(), &all, &few, "--allow-missing").0, 0);
    let (status, _, error) = compared(dir.path(), &of("c"), &of("c")[..5], "--allow-missing");
    assert!(status == 1 && error.contains("nothing could be judged"), "{error}");

    // A row of which one run stood still used to be left out without a word.
    let mut still = all.clone();
    still[0]["ops_per_s"] = json!(0.0);
    let (status, out, _) = compared(dir.path(), &all, &still, "--json");
    let line: Value = serde_json::from_str(&out).expect("one object");
    assert_eq!((status, line["rows"].as_array().map(Vec::len)), (1, Some(2)));
    let failures = line["failures"].as_array().expect("failures");
    assert!(failures.len() == 1 && failures[0].as_str().is_some_and(|why| why.contains("it is 0 in one of")), "{line}");
}
