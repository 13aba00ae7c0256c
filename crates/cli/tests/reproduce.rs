//! `biombo reproduce --runs`: what is left of an experiment that somebody kills.

mod common;

use std::fs;
use std::path::Path;
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
    // A file that breaks in the middle ends the runs; what was measured until then is shown.
    if Path::new("/dev/full").exists() {
        let broken = run(&format!("{line} /dev/full --html DIR/broken.html"), dir.path());
        assert!(broken.status == 1 && broken.stderr.contains("cannot write /dev/full"), "{}", broken.stderr);
        assert!(broken.text().contains("\"findings\"") && dir.path().join("broken.html").exists(), "{}", broken.text());
        let broken = run("reproduce dgap-numa --scale 0.0003 --json --runs /dev/full", dir.path());
        assert!(broken.status == 1 && broken.stderr.contains("cannot write /dev/full"), "{}", broken.stderr);
        assert!(broken.json()["findings"].is_array(), "the step that was measured is shown");
    } else {
        eprintln!("skipped: no /dev/full here");
    }
    // Steps over graphs are lines of their own, as those of `bench graph`.
    let graphs = run("reproduce dgap-numa --scale 0.0003 --json --runs DIR/steps.jsonl", dir.path()).ok();
    assert!(graphs.json()["findings"].is_array());
    let steps = fs::read_to_string(dir.path().join("steps.jsonl")).expect("the steps");
    let first: serde_json::Value = serde_json::from_str(steps.lines().next().expect("a step")).expect("an object");
    assert_eq!(first["bench"], "graph");
}

/// What `--list` says of each experiment, by its name.
fn listed() -> Vec<serde_json::Value> {
    let dir = tempdir().expect("a directory");
    let all = run("reproduce --list --json", dir.path()).ok();
    all.text().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Fails if the list says what an experiment needs and not what of it is missing here, or how long the rest takes.
#[test]
fn the_list_says_what_is_missing_here_and_how_long_the_rest_takes() {
    let all = listed();
    assert_eq!(all.len(), 5);
    for one in &all {
        let (name, lacks) = (one["name"].as_str().expect("a name"), one["lacks"].as_array().expect("a list"));
        let (runs, minutes) = (one["runs"].as_u64().expect("runs"), one["minutes"].as_f64().expect("minutes"));
        assert!((runs > 0) == (minutes > 0.0) && minutes < 100.0, "{one}");
        assert!(runs > 0 || !lacks.is_empty(), "{name} cannot be done, and nothing is missing");
        let lacks_leveldb = lacks.iter().any(|lack| lack.as_str().is_some_and(|lack| lack.contains("leveldb")));
        let needs_leveldb = ["leveldb-sizes", "repart-kv"].contains(&name);
        assert_eq!(lacks_leveldb, needs_leveldb && !has_engine("leveldb"), "{one}");
    }
    let dir = tempdir().expect("a directory");
    let text = run("reproduce --list", dir.path()).ok().text().to_owned();
    assert!(text.contains(" runs (an estimate") || text.contains("cannot be done here"), "{text}");
}

/// Every experiment in turn at a scale that only tries whether all works. Fails if one that fails ends the others, or if a page is missing.
#[test]
fn all_experiments_are_done_in_turn_and_one_that_fails_keeps_none_from_it() {
    if !has_engine("lmdb") || !has_engine("leveldb") {
        return;
    }
    let dir = tempdir().expect("a directory");
    // A command that can do one of them alone.
    let biombo = dir.path().join("biombo");
    let real = command().get_program().to_owned();
    let text = format!(
        "#!/bin/sh\n[ \"$1 $2\" = 'reproduce --list' ] && exec {0} \"$@\"\n[ \"$2\" = logstore ] && exec {0} \"$@\" --engine lmdb --scale \
         0.001 --dir {1}\necho broken >&2\nexit 1\n",
        Path::new(&real).display(),
        dir.path().join("runs").display()
    );
    fs::write(&biombo, text).expect("write");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&biombo, executable).expect("make it a program");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/reproduce.sh");
    let kept = dir.path().join("kept");
    let done = Command::new(script).arg(&biombo).env("BIOMBO_REPRODUCE", &kept).output().expect("bash");
    let table = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(1), "{table}");
    assert_eq!(table.lines().count(), 1 + 5, "{table}");
    assert_eq!(table.matches("failed (exit status 1)").count(), 4, "{table}");
    let logstore = table.lines().find(|line| line.starts_with("logstore ")).expect("a line");
    assert!(logstore.contains("published conclusions hold"), "{table}");
    assert_eq!(fs::read_to_string(kept.join("seconds.txt")).expect("the table"), table);
    assert!(fs::read_to_string(kept.join("logstore.html")).expect("a page").contains("</html>"));
    assert_eq!(fs::read_to_string(kept.join("logstore.jsonl")).expect("the runs").lines().count(), 8 * 3);
}

/// Fails if the results of two hours are gone before those that replace them are whole, or if what was done of an experiment that failed
/// is nowhere.
#[test]
fn results_of_before_stay_until_those_of_now_are_whole() {
    let dir = tempdir().expect("a directory");
    let (biombo, kept) = (dir.path().join("biombo"), dir.path().join("kept"));
    // A command that writes the word that it is given, and ends as it is told to.
    let text = "#!/bin/sh
[ \"$2\" = --list ] && { echo '{\"name\":\"one\",\"title\":\"t\"}'; exit; }
printf 'one: t\\n  %s\\nreport: %s\\n' \"$4\" \"$6\"
echo \"$4\" >\"$6\"
echo \"$4\" >\"$8\"
[ \"$4\" = ended ] && kill -TERM \"$PPID\"
exit \"$3\"
";
    fs::write(&biombo, text).expect("write");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&biombo, executable).expect("make it a program");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/reproduce.sh");
    let at = |name: &str| fs::read_to_string(kept.join(name)).unwrap_or_default();
    // Status and word of a run; how the script ends; whose results stand then, and whose beside them.
    for (status, word, ends, whole, beside) in [
        ("1", "first", 1, "first", ""),
        ("0", "second", 0, "second", ""),
        ("1", "third", 1, "second", "third"),
        ("0", "fourth", 0, "fourth", ""),
        ("0", "ended", 130, "fourth", "ended"),
    ] {
        let done = Command::new(&script).arg(&biombo).args([status, word]).env("BIOMBO_REPRODUCE", &kept).output();
        let done = done.expect("bash");
        assert_eq!(done.status.code(), Some(ends), "{word}: {}", String::from_utf8_lossy(&done.stderr));
        for name in ["one.html", "one.jsonl"] {
            assert_eq!(at(name).trim_end(), whole, "{word}: {name}");
            assert_eq!(at(&name.replace("one.", "one.new.")).trim_end(), beside, "{word}: {name}");
        }
        let table = format!("one: t\n  {whole}\nreport: {}\n", kept.join("one.html").display());
        assert_eq!(at("one.txt"), table, "{word}");
        let stays = String::from_utf8_lossy(&done.stdout).contains("what was there before stays");
        assert_eq!(stays, word == "third", "{word}");
    }
}

/// Fails if a graph that cannot be read costs what was measured of the one before it, or if nothing measured takes the place of an old report.
#[test]
fn a_graph_that_cannot_be_read_costs_no_other() {
    let dir = tempdir().expect("a directory");
    let (graphs, report) = (dir.path().join("graphs"), dir.path().join("report.html"));
    fs::create_dir(&graphs).expect("a directory");
    fs::write(graphs.join("soc-LiveJournal1.txt"), "no edges but words\n").expect("a file");
    let line = "reproduce dgap-numa --scale 0.0003 --dir DIR/graphs --html DIR/report.html";
    let done = run(line, dir.path());
    assert!(done.status == 1 && done.stderr.contains("soc-LiveJournal1.txt"), "{}", done.stderr);
    assert!(done.text().contains("published conclusions hold") && done.text().contains("orkut"), "{}", done.text());
    let shown = fs::read_to_string(&report).expect("the report");
    assert!(shown.contains("</html>"));
    fs::write(graphs.join("com-orkut.ungraph.txt"), "no edges but words\n").expect("a file");
    let done = run(line, dir.path());
    assert!(done.status == 1 && done.text().is_empty() && done.stderr.contains("com-orkut"), "{}", done.stderr);
    assert!(fs::read_to_string(&report).expect("the report") == shown, "the report of before is gone");
}

#[test]
fn repetitions_are_those_that_are_asked_for() {
    if !has_engine("lmdb") {
        return;
    }
    let dir = tempdir().expect("a directory");
    let line = "reproduce logstore --scale 0.001 --engine lmdb --repeat 1 --dir DIR/runs --json --runs DIR/kept.jsonl";
    let done = run(line, dir.path());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(fs::read_to_string(dir.path().join("kept.jsonl")).expect("the runs").lines().count(), 8);
    let refused = run("reproduce dgap-numa --repeat 2", dir.path());
    assert!(refused.status == 2 && refused.stderr.contains("--repeat is of stores"), "{}", refused.stderr);
    assert_eq!(run("reproduce logstore --repeat 0", dir.path()).status, 2);
}
