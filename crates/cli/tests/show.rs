//! `biombo bench show`, and what it and `biombo bench compare` make of files that were not written to their end.

mod common;

use std::fs;
use std::path::Path;

use common::run;
use tempfile::tempdir;

/// The lines of seven runs over each of `engines`.
fn lines(dir: &Path, engines: &str) -> String {
    let bench = "bench ycsb --workload c --records 100 --operations 200 --repeat 7 --dir DIR/runs --json DIR/all.jsonl";
    assert_eq!(run(&format!("{bench} --engine {engines}"), dir).status, 0);
    fs::read_to_string(dir.join("all.jsonl")).expect("the lines")
}

/// Fails if half a line at the end of a file, or a trial that failed, costs all runs that are whole, or goes without a word.
#[test]
fn what_a_bench_that_was_killed_and_trials_that_failed_leave_costs_no_other_run() {
    let dir = tempdir().expect("a directory");
    let text = lines(dir.path(), "null");
    let keep = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect("written");
    let half = &text[..30];
    keep("cut.jsonl", format!("{text}{half}").as_bytes());
    // In the middle of a character.
    keep("letter.jsonl", &[text.as_bytes(), &b"{\"bench\":\"\xc2"[..]].concat());
    keep("failed.jsonl", format!("{{\"part\":\"race\",\"failed\":\"no room\"}}\n{text}").as_bytes());
    for (file, said) in [
        ("cut.jsonl", "line 8, the last one, which stops in its middle"),
        ("letter.jsonl", "line 8, the last one, which stops in its middle"),
        ("failed.jsonl", "1 line of runs that failed, such as line 1: no room"),
    ] {
        let shown = run(&format!("bench show DIR/{file}"), dir.path());
        assert!(shown.status == 0 && shown.text().contains("YCSB workload C"), "{file}: {}", shown.stderr);
        let note = format!("{file}: left out: {said}\n");
        assert!(shown.stderr.ends_with(&note) && shown.stderr.lines().count() == 1, "{file}: {}", shown.stderr);
        let compared = run(&format!("bench compare DIR/all.jsonl DIR/{file}"), dir.path());
        assert!(compared.status == 0 && compared.text().contains("1 judged: "), "{file}: {}", compared.stderr);
        assert!(compared.stderr.ends_with(&note), "{file}: {}", compared.stderr);
    }
    // In the middle it is damage.
    keep("broken.jsonl", format!("{half}\n{text}").as_bytes());
    keep("bytes.jsonl", &[&b"{\"bench\":\"\xc2\"}\n"[..], text.as_bytes()].concat());
    keep("nothing.jsonl", half.as_bytes());
    for (file, said) in
        [("broken.jsonl", "line 1 is no record"), ("bytes.jsonl", "cannot read"), ("nothing.jsonl", "holds no run")]
    {
        for line in [format!("bench show DIR/{file}"), format!("bench compare DIR/all.jsonl DIR/{file}")] {
            let refused = run(&line, dir.path());
            assert!(refused.status == 1 && refused.stderr.contains(said), "{line}: {}", refused.stderr);
            assert_eq!(refused.text(), "", "{line}");
        }
    }
}

/// Two files, and the only difference is an option. Fails if their runs have one median, or if the layout that both have means no row.
#[test]
fn runs_of_two_files_under_other_settings_stand_in_two_rows() {
    let dir = tempdir().expect("a directory");
    let bench = "bench ycsb --engine memory --workload c --records 100 --operations 200 --repeat 2 --dir DIR/runs \
                 --partitioning hard --partitions 2";
    for (file, options) in [
        ("hash", "--placement hash"),
        ("range", "--placement range"),
        ("greedy", "--repartition 1s --planner greedy"),
        ("ldg", "--repartition 1s --planner ldg"),
    ] {
        assert_eq!(run(&format!("{bench} {options} --json DIR/{file}"), dir.path()).status, 0, "{options}");
    }
    for (files, beside, rows) in [
        ("DIR/hash DIR/range", "memory hard-2", ["memory hard-2 hash", "memory hard-2 range"]),
        (
            "DIR/greedy DIR/ldg",
            "memory hard-2 moving 1s",
            ["memory hard-2 moving 1s greedy", "memory hard-2 moving 1s ldg"],
        ),
    ] {
        let shown = run(&format!("bench show {files}"), dir.path()).ok();
        for row in rows {
            let found = shown.text().lines().filter(|line| line.trim_start().starts_with(&format!("{row} "))).count();
            assert_eq!(found, 1, "{row}: {}", shown.text());
        }
        let files = files.split(' ').map(|file| file.replace("DIR", &dir.path().display().to_string()));
        let words = ["bench", "show", "--beside", beside].map(str::to_owned).into_iter().chain(files);
        let told = common::biombo(words).ok();
        let said = format!("of 2 rows of {beside} the best one by its median");
        assert!(told.text().contains(&said), "{}", told.text());
    }
    let compared = run("bench compare DIR/greedy DIR/ldg", dir.path());
    assert!(compared.status == 1 && compared.stderr.contains("no run in common"), "{}", compared.stderr);
}

/// Fails if README tells whoever measures anew another time than the command does.
#[test]
fn the_readme_says_of_make_figures_the_time_that_the_makefile_and_the_script_say() {
    let told = |file: &str, is_its: fn(&str) -> bool| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let line = text.lines().find(|line| is_its(line)).unwrap_or_else(|| panic!("no line of {file}"));
        ["an hour and a half", "an hour and three quarters"].map(|time| line.contains(time))
    };
    let readme = told("README.md", |line| line.contains("Made with `make figures` ("));
    assert_eq!(readme, told("Makefile", |line| line.starts_with("figures:")));
    assert_eq!(readme, told("scripts/figures.sh", |line| line.contains("(make figures)")));
    assert_ne!(readme, [false; 2], "a time that this test does not know");
}

#[test]
fn a_row_is_set_beside_the_others_and_the_files_of_runs_are_not_written_over() {
    let dir = tempdir().expect("a directory");
    let text = lines(dir.path(), "memory,null");
    let shown = run("bench show DIR/all.jsonl --beside memory --html DIR/page.html", dir.path()).ok();
    let told = shown.text();
    assert!(told.contains("\n  memory by the others in ops/s, in pairs of one repetition and seed:\n"), "{told}");
    let row = told.lines().rfind(|line| line.trim_start().starts_with("null ")).expect("a row");
    assert!(row.contains("..") && row.contains('[') && row.ends_with(" 7"), "{told}");
    assert!(told.ends_with("page.html\n") && dir.path().join("page.html").exists(), "{told}");
    assert!(!run("bench show DIR/all.jsonl", dir.path()).ok().text().contains("by the others"));
    for (options, status, said) in
        [("--beside lmdb", 1, "no table has a row of it"), ("--html DIR/all.jsonl", 2, "which has the runs")]
    {
        let refused = run(&format!("bench show DIR/all.jsonl {options}"), dir.path());
        assert!(refused.status == status && refused.stderr.contains(said), "{options}: {}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(dir.path().join("all.jsonl")).expect("the lines"), text);
}
