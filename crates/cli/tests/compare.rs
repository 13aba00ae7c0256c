//! `biombo bench compare`: what it ends with where runs are wrong, too few or gone.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
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

const PROGRAM: &str = env!("CARGO_BIN_EXE_biombo");

/// The records of a side that was kept.
fn kept(dir: &Path, side: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("kept").join(side)).expect("the lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

#[test]
fn two_builds_are_measured_by_turns_and_one_that_is_slowed_is_caught() {
    let dir = tempdir().expect("a directory");
    let slowed = dir.path().join("slowed");
    fs::write(&slowed, format!("#!/bin/sh\nBIOMBO_LAB_SLOWED=0.8 exec '{PROGRAM}' \"$@\"\n")).expect("a script");
    fs::set_permissions(&slowed, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let bench = "-- ycsb --engine memory --workload c --records 1000 --operations 100000 --threads 1 --dir DIR/runs";
    let line = format!("bench compare --build {PROGRAM} DIR/slowed --rounds 7 --keep DIR/kept {bench}");
    let done = run(&line, dir.path());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.text().contains("1 judged: 0 better, 1 worse (1 beyond"), "{}", done.text());
    assert!(done.stderr.contains("lost 5.0 % or more"), "{}", done.stderr);
    let (old, new) = (kept(dir.path(), "old.jsonl"), kept(dir.path(), "new.jsonl"));
    for side in [&old, &new] {
        let rounds: Vec<_> = side.iter().map(|line| (line["repetition"].as_u64(), line["seed"].as_u64())).collect();
        assert_eq!(rounds, (1..=7).map(|round| (Some(round), Some(round))).collect::<Vec<_>>());
    }
    let says = |line: &Value| line["engine_options"].to_string().contains("BIOMBO_LAB_SLOWED");
    assert!(!old.iter().any(says) && new.iter().all(says), "a run that is slowed on purpose says so");
    // What two builds wrote at once to one device is neither's.
    assert!(old.iter().all(|line| line["waf_by"]["device"].is_null()), "{}", old[0]["waf_by"]);
    // The lines that were kept are those of any bench.
    assert_eq!(run("bench compare DIR/kept/old.jsonl DIR/kept/old.jsonl", dir.path()).status, 0);
    // Two rounds tell nothing.
    let few = run(&format!("bench compare --build {PROGRAM} {PROGRAM} --rounds 2 {bench}"), dir.path());
    assert!(few.status == 1 && few.stderr.contains("2 old and 2 new runs are too few"), "{}", few.stderr);
}

/// A script in `dir` that is a build.
fn script(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
}

/// Fails if a build of before there were turns is taken for hung, is measured beside the other, or counts twice.
#[test]
fn a_build_that_knows_no_turns_is_measured_after_the_other_and_that_is_told() {
    let dir = tempdir().expect("a directory");
    script(dir.path(), "before", &format!("unset BIOMBO_LAB_TURNS; exec '{PROGRAM}' \"$@\""));
    let bench = "-- ycsb --engine memory --workload c --records 100 --operations 1000 --threads 1 --dir DIR/runs";
    for builds in [format!("DIR/before {PROGRAM}"), format!("{PROGRAM} DIR/before")] {
        let done = run(&format!("bench compare --build {builds} --rounds 2 --keep DIR/kept {bench}"), dir.path());
        assert!(done.stderr.contains("note: one of the builds knows no turns"), "{}", done.stderr);
        assert!(done.stderr.contains("2 old and 2 new runs are too few"), "{}", done.stderr);
        let repetitions: Vec<_> = kept(dir.path(), "new.jsonl").iter().map(|line| line["repetition"].clone()).collect();
        assert_eq!(repetitions, [1, 2]);
    }
    // Nor are those that repartition themselves, whose clock is the machine's; nobody has to be told, as nothing can be done about it.
    let bench = "-- ycsb --engine memory --workload c --records 100 --operations 1000 --dir DIR/runs --partitioning hard --repartition 1s";
    let done = run(&format!("bench compare --build {PROGRAM} {PROGRAM} --rounds 1 {bench}"), dir.path());
    assert!(!done.stderr.contains("note:") && done.stderr.contains("too few"), "{}", done.stderr);
}

/// The processes that were started with `word` in their environment.
fn processes_with(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    let has = |path: &std::path::PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(word)
    };
    all.filter(has).map(|path| fs::read_to_string(path.join("cmdline")).unwrap_or_default()).collect()
}

/// Of two workers one is stopped at any moment. Fails if it stays so for ever.
#[test]
fn a_comparison_that_is_killed_leaves_no_process_behind() {
    let dir = tempdir().expect("a directory");
    let word = format!("TMPDIR={}", dir.path().display());
    let bench = "ycsb --engine memory --workload c --records 1000 --seconds 600 --threads 1 --dir";
    let mut comparison = std::process::Command::new(PROGRAM)
        .args(["bench", "compare", "--build", PROGRAM, PROGRAM, "--"])
        .args(bench.split(' '))
        .arg(dir.path().join("runs"))
        .env("TMPDIR", dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it begins");
    let within = |wanted: &dyn Fn(usize) -> bool, what: &str| {
        let begun = std::time::Instant::now();
        while !wanted(processes_with(&word).iter().filter(|line| line.contains("bench-worker")).count()) {
            assert!(begun.elapsed().as_secs() < 60, "{what}: {:?}", processes_with(&word));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    within(&|workers| workers == 2, "two workers");
    std::thread::sleep(std::time::Duration::from_millis(500));
    comparison.kill().expect("it is killed");
    comparison.wait().expect("it is gone");
    within(&|workers| workers == 0, "no worker");
    let begun = std::time::Instant::now();
    while !processes_with(&word).is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", processes_with(&word));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_line_that_was_cut_short_is_told_and_costs_no_other() {
    let dir = tempdir().expect("a directory");
    let (limping, count) = (dir.path().join("limping"), dir.path().join("count"));
    // The last argument is the file of the lines.
    let cut = "for file; do :; done; printf '{\"bench\":\"yc' >> \"$file\"; exit 0";
    let script = format!("echo >> {0}; [ $(wc -l < {0}) = 2 ] && {{ '{PROGRAM}' \"$@\"; {cut}; }}", count.display());
    fs::write(&limping, format!("#!/bin/sh\n{script}\nexec '{PROGRAM}' \"$@\"\n")).expect("a script");
    fs::set_permissions(&limping, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let bench = "-- ycsb --engine memory --workload c --records 100 --operations 1000 --threads 1 --dir DIR/runs";
    let done = run(&format!("bench compare --build {PROGRAM} DIR/limping --rounds 8 {bench}"), dir.path());
    assert_eq!(done.status, 1, "{}", done.stderr);
    let told = done.stderr.contains("round 2 of the new build") && done.stderr.contains("missing or broken");
    assert!(told && done.text().contains("1 judged: "), "{}{}", done.text(), done.stderr);
}

#[test]
fn a_round_that_fails_is_told_and_the_runs_of_the_others_are_kept_and_compared() {
    let dir = tempdir().expect("a directory");
    // Its second bench does not come to its end.
    let (limping, count) = (dir.path().join("limping"), dir.path().join("count"));
    let fails =
        format!("echo >> {0}; [ $(wc -l < {0}) = 2 ] && echo 'biombo: it broke' >&2 && exit 1", count.display());
    fs::write(&limping, format!("#!/bin/sh\n{fails}\nexec '{PROGRAM}' \"$@\"\n")).expect("a script");
    fs::set_permissions(&limping, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let bench = "-- ycsb --engine memory --workload c --records 100 --operations 1000 --threads 1 --dir DIR/runs";
    let done =
        run(&format!("bench compare --build {PROGRAM} DIR/limping --rounds 8 --keep DIR/kept {bench}"), dir.path());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("round 2 of the new build") && done.stderr.contains("it broke"), "{}", done.stderr);
    assert!(done.text().contains("1 judged: "), "seven rounds are enough: {}", done.text());
    let repetitions = |name: &str| -> Vec<_> {
        kept(dir.path(), name).iter().filter_map(|line| line["repetition"].as_u64()).collect()
    };
    assert_eq!(repetitions("old.jsonl"), (1..=8).collect::<Vec<_>>());
    assert_eq!(repetitions("new.jsonl"), [1, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn builds_that_cannot_be_measured_are_refused_with_the_reason() {
    let dir = tempdir().expect("a directory");
    let bench = "ycsb --engine null --workload c --records 10 --operations 10 --dir DIR/runs";
    for (line, status, says) in [
        (format!("--build {PROGRAM} -- {bench}"), 2, "2 values"),
        (format!("--build {PROGRAM} {PROGRAM}"), 2, "BENCH"),
        (format!("--build {PROGRAM} {PROGRAM} -- graph --graph kron:4:4"), 2, "one of ycsb, db, shift, trace"),
        (format!("--build {PROGRAM} {PROGRAM} -- {bench} --seed=4"), 2, "leave --seed out"),
        (format!("--build {PROGRAM} {PROGRAM} --rounds 0 -- {bench}"), 2, "--rounds"),
        (format!("--build {PROGRAM} {PROGRAM} --turn 0.0001 -- {bench}"), 2, "--turn"),
        (format!("--build {PROGRAM} {PROGRAM} --turn nan -- {bench}"), 2, "--turn"),
        ("DIR/a.jsonl DIR/b.jsonl --turn 0.1".to_owned(), 2, "--turn"),
        (format!("--build {PROGRAM} DIR/nosuch -- {bench}"), 1, "cannot run"),
        (format!("--build {PROGRAM} {PROGRAM} -- {bench} --threads 0"), 1, "round 1 of the old build"),
        (format!("DIR/a.jsonl DIR/b.jsonl -- {bench}"), 2, "--build"),
        ("DIR/a.jsonl DIR/b.jsonl --rounds 5".to_owned(), 2, "--rounds"),
    ] {
        let refused = run(&format!("bench compare {line}"), dir.path());
        assert!(refused.status == status && refused.stderr.contains(says), "{line}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{line}: {}", refused.stderr);
    }
}
