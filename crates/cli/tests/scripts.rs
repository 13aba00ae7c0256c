//! The scripts that measure: what becomes of a bench that fails, and what counts as a good try. A program that only answers stands for the
//! command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

/// The command, as these lines of a shell.
fn command(dir: &Path, lines: &str) -> PathBuf {
    let path = dir.join("biombo");
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    path
}

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Fails if a run that failed costs the lines of others, the parts after it, or the tables; if half a line is kept; or if all is told to
/// be well.
#[test]
fn a_bench_of_which_a_run_failed_costs_no_other_figures_and_is_listed() {
    let dir = tempdir().expect("a directory");
    let (calls, kept) = (dir.path().join("calls"), dir.path().join("kept"));
    // One run is done, and another one ends while it writes.
    let bench = r#"[ "$2" = show ] && exit 0
engine=log moves=off
case "$*" in *micro-lsm*) engine=micro-lsm ;; *--repartition*) moves=0.2s ;; esac
for file; do :; done
printf '{"engine":"%s","repartition":"%s","ops_per_s":1.0}\n{"engi' "$engine" "$moves" >"$file"
exit 1"#;
    let biombo = command(dir.path(), &format!("echo \"$*\" >>'{}'\n{bench}", calls.display()));
    let figures = |args: &[&str]| -> Output {
        let mut script = script("figures.sh");
        script.args(args).env("BIOMBO", &biombo).env("BIOMBO_FIGURES", &kept).env("BIOMBO_FIGURES_PAIRS", "1");
        script.output().expect("bash")
    };
    let parts = [("fill", 1), ("larger", 2), ("micro-cache", 1), ("multi-get", 1)];
    let done = figures(&parts.map(|(part, _)| part));
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    for (part, benches) in parts {
        let lines = fs::read_to_string(kept.join(part).with_extension("jsonl")).expect("what was measured");
        assert_eq!(lines.lines().count(), benches, "{part}: {lines}");
        let is_whole = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert!(lines.lines().all(is_whole), "{part}: {lines}");
        let listed = said.lines().filter(|line| line.starts_with(&format!("figures: failed: {part}: bench ")));
        assert_eq!(listed.count(), benches, "{said}");
    }
    assert_eq!(fs::read_dir(&kept).expect("it is listed").count(), parts.len(), "the work is left behind");

    // Tables of equal settings, and log beside the others where it is measured and nothing moves.
    let called = fs::read_to_string(&calls).expect("the calls");
    for (part, beside) in
        [("fill", " --beside log"), ("larger", " --beside log"), ("micro-cache", ""), ("multi-get", "")]
    {
        let call = format!("bench show {}/{part}.jsonl{beside}", kept.display());
        assert!(called.lines().any(|line| line == call), "no `{call}` in\n{called}");
    }
    let shown = figures(&["--summary"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    for (part, _) in parts {
        assert!(text(&shown.stdout).lines().any(|line| line == part), "{}", text(&shown.stdout));
    }
    command(dir.path(), "echo 'biombo: it is broken' >&2; exit 1");
    assert_eq!(figures(&["--summary"]).status.code(), Some(1), "no table can be shown");
}

/// Fails if figures of hours are gone before new ones are whole, if Ctrl-C costs what was measured until then, or if that is taken for a
/// part.
#[test]
fn figures_of_before_stay_until_the_new_ones_are_whole_and_what_was_ended_is_kept_beside_them() {
    let dir = tempdir().expect("a directory");
    // Its name is like that of the work, below which nothing is shown.
    let kept = dir.path().join("work.d/kept");
    fs::create_dir_all(&kept).expect("a directory");
    // A run that says the word that it is given and half a line, is told to end, or fails before it says anything.
    let bench = r#"[ "$2" = show ] && exit 0
for file; do :; done
[ "$FIGURE" = 0 ] && exit 1
printf '{"engine":"log","ops_per_s":%s.0}\n{"engi' "$FIGURE" >"$file"
[ -n "$ENDED" ] && kill -TERM "$PPID"
exit 0"#;
    let biombo = command(dir.path(), bench);
    let figures = |args: &[&str], [figure, ended, first, rounds]: [&str; 4]| -> Output {
        let mut script = script("figures.sh");
        script.args(args).env("BIOMBO", &biombo).env("BIOMBO_FIGURES", &kept).env("BIOMBO_FIGURES_PAIRS", rounds);
        script.env("BIOMBO_FIGURES_FIRST", first).env("FIGURE", figure).env("ENDED", ended);
        script.output().expect("bash")
    };
    let line = |figure: &u32| format!("{{\"engine\":\"log\",\"ops_per_s\":{figure}.0}}\n");
    let lines = |name: &str| fs::read_to_string(kept.join(name)).unwrap_or_default();
    fs::write(kept.join("fill.jsonl"), line(&1)).expect("written");
    // What a run says, whether it is ended, from which round to which; how the script ends; what is kept then, and what beside it.
    type Try<'a> = ([&'a str; 4], i32, &'a [u32], &'a [u32]);
    let tries: [Try<'_>; 7] = [
        (["2", "yes", "1", "2"], 130, &[1], &[2]),
        (["3", "yes", "2", "3"], 130, &[1], &[2, 3]),
        (["4", "", "3", "3"], 0, &[2, 3, 4], &[]),
        (["5", "", "4", "5"], 0, &[2, 3, 4, 5, 5], &[]),
        (["6", "yes", "1", "1"], 130, &[2, 3, 4, 5, 5], &[6]),
        (["0", "", "1", "1"], 1, &[2, 3, 4, 5, 5], &[]),
        (["7", "", "1", "1"], 0, &[7], &[]),
    ];
    for (tried, status, whole, beside) in tries {
        let done = figures(&["fill"], tried);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{tried:?}: {said}");
        assert_eq!(lines("fill.jsonl"), whole.iter().map(line).collect::<String>(), "{tried:?}: {said}");
        assert_eq!(lines("fill.new.jsonl"), beside.iter().map(line).collect::<String>(), "{tried:?}: {said}");
        assert_eq!(said.contains("fill.new.jsonl"), status == 130, "{tried:?}: {said}");
        let files = 1 + usize::from(!beside.is_empty());
        assert_eq!(fs::read_dir(&kept).expect("it is listed").count(), files, "{tried:?}: the work is left behind");
    }
    fs::write(kept.join("larger.new.jsonl"), line(&8)).expect("written");
    fs::write(kept.join("work.1.jsonl"), line(&9)).expect("written");
    let shown = figures(&["--summary"], ["7", "", "1", "1"]);
    let parts: Vec<String> = text(&shown.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    assert_eq!(parts, ["fill"], "{}", text(&shown.stderr));
}

/// Fails if a comparison that says nothing counts as one that went well.
#[test]
fn a_comparison_that_cannot_be_judged_is_no_good_try() {
    const SAME: &str = "1 judged: 0 better, 0 worse (0 beyond the threshold of 5.0 %), 1 without a difference";
    const WORSE: &str = "1 judged: 0 better, 1 worse (1 beyond the threshold of 5.0 %), 0 without a difference";
    const UNKNOWN: &str = concat!(
        "1 judged: 0 better, 0 worse (0 beyond the threshold of 5.0 %), 0 without a difference, ",
        "1 that cannot be judged (6 runs a side are needed)"
    );
    let dir = tempdir().expect("a directory");
    for (itself, slowed, status, [differ, unjudged, caught]) in [
        (SAME, WORSE, 0, [0, 0, 1]),
        (UNKNOWN, WORSE, 1, [0, 1, 1]),
        (WORSE, WORSE, 1, [1, 0, 1]),
        (SAME, UNKNOWN, 1, [0, 0, 0]),
        (SAME, SAME, 1, [0, 0, 0]),
    ] {
        let answer = format!("case $5 in */slowed) echo '{slowed}' ;; *) echo '{itself}' ;; esac");
        let said = format!("{differ} of 1 comparisons of a build with itself show a difference, ");
        let said = format!("{said}{unjudged} cannot be judged; {caught} of 1 of a build slowed by 0.05 are caught\n");
        let biombo = command(dir.path(), &answer);
        let kept = dir.path().join("kept");
        let done = script("compare.sh").arg("1").env("BIOMBO", &biombo).env("BIOMBO_COMPARE", &kept).output();
        let done = done.expect("bash");
        let told = text(&done.stdout);
        assert!(done.status.code() == Some(status) && told == said, "{said}: {told}{}", text(&done.stderr));
    }
}
