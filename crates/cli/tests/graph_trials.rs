//! Trials of `biombo bench graph`: how many there are, and the medians that it prints of them.

mod common;

use std::fs;
use std::path::Path;

use common::run;
use serde_json::Value;
use tempfile::tempdir;

/// The kernels of a bench, each trial a line.
fn trials(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("the lines");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["step"] == "kernel").collect()
}

#[test]
fn what_is_named_twice_is_measured_once() {
    let dir = tempdir().expect("a directory");
    let bench = "bench graph --graph kron:6:4 --layout csr,pma,csr --kernel bfs,cc,bfs --threads 2,1,2 --trials 3 \
                 --nodes 2 --placement block,degree,block --media dram,dram --json DIR/lines";
    let told = run(bench, dir.path()).ok();
    let trials = trials(&dir.path().join("lines"));
    for number in 1..=3 {
        let its = trials.iter().filter(|line| line["trial"] == number).count();
        assert_eq!(its, 2 * 2 * 2 * 2, "trial {number} of two kernels, layouts, placements and numbers of threads");
    }
    let rows = told.text().lines().filter(|line| line.starts_with("bfs ") || line.starts_with("cc ")).count();
    assert_eq!((trials.len(), rows), (3 * 16, 16), "{}", told.text());
}

/// Fails if the median of two trials is one of them: reports show their mean.
#[test]
fn of_an_even_number_of_trials_the_median_is_the_mean_of_the_middle_two() {
    let dir = tempdir().expect("a directory");
    let bench = "bench graph --graph kron:13:8 --layout csr --kernel pagerank --trials 2 --nodes 1 --json DIR/lines";
    let told = run(bench, dir.path()).ok();
    let seconds: Vec<f64> =
        trials(&dir.path().join("lines")).iter().filter_map(|line| line["seconds"].as_f64()).collect();
    let &[a, b] = &seconds[..] else { panic!("two trials: {seconds:?}") };
    let row = told.text().lines().find(|line| line.starts_with("pagerank ")).expect("a row");
    let figures = [(a + b) / 2.0, a.min(b), a.max(b)].map(|seconds| format!("{seconds:.5}"));
    let shown: Vec<&str> = row.split_whitespace().skip(3).take(3).collect();
    assert_eq!(shown, figures, "{row}");
}

/// Fails if trials of other settings, of two files, fall into one median, or if nothing says which is which.
#[test]
fn trials_of_other_settings_have_medians_of_their_own() {
    let dir = tempdir().expect("a directory");
    let bench = "bench graph --graph orkut-like:0.0003 --layout csr,pma --kernel cc --trials 2 --nodes 1";
    for (file, options) in [("plain", ""), ("stream", "--stream 20000"), ("churn", "--churn 0.5")] {
        run(&format!("{bench} {options} --json DIR/{file}"), dir.path()).ok();
    }
    let told = run("bench show DIR/plain DIR/stream DIR/churn --html DIR/page.html", dir.path()).ok();
    let rows: Vec<&str> = told.text().lines().filter(|line| line.starts_with("cc ")).collect();
    assert_eq!(rows.len(), 4, "{}", told.text());
    // The static layout is the same in all three.
    for said in
        [" csr ", " pma, no churn, no stream ", " pma, no churn, stream of 20000/s ", " pma, churn 0.5, no stream "]
    {
        assert_eq!(rows.iter().filter(|row| row.contains(said)).count(), 1, "`{said}`: {}", told.text());
    }
    assert!(told.text().contains("\npma, no churn, stream of 20000/s took "), "{}", told.text());
    let page = fs::read_to_string(dir.path().join("page.html")).expect("a page");
    // Six trials of csr, two of each of the others.
    assert!(
        page.contains("medians of 2 to 6 repetitions") && page.contains("pma, no churn, stream of 20000/s, 1 thread")
    );
    assert!(page.contains("trials gave the same one"));
    // Without others of its layout nothing is to be told apart.
    let alone = run("bench show DIR/stream", dir.path()).ok();
    assert!(!alone.text().contains("stream of") && alone.text().contains("\npma took "), "{}", alone.text());
}
