//! What one run of a bench cannot get costs that run alone: a disk that fills meanwhile, a rival that is not installed.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::mount::Mount;
use common::{Run, command, has_engine, words};
use serde_json::Value;
use tempfile::tempdir;

fn records(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("runs.jsonl")).expect("the runs");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Whether a file that ends so has come to be below `dir`.
fn has(dir: &Path, end: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| if path.is_dir() { has(&path, end) } else { path.to_string_lossy().ends_with(end) })
}

/// Fails if the bench ends with the run that had no room, if that one is taken for a good one, or if nobody is told why.
#[test]
fn a_disk_that_fills_in_the_middle_costs_the_run_that_wrote_to_it_and_no_other() {
    if !has_engine("log") {
        return;
    }
    let dir = tempdir().expect("a directory");
    let disk = dir.path().join("disk");
    let Some(mount) = Mount::tmpfs(&disk, "size=200m") else {
        println!("skipped: mounting needs root");
        return;
    };
    // Long enough by operations for the one that has a disk, short for those that have none.
    let line = "bench ycsb --engine memory,log,null --workload a --records 1000 --operations 6000000 --threads 1 --cache-bytes 16MiB \
                --dir DIR/disk/runs --json DIR/runs.jsonl";
    let mut bench = command();
    bench.args(words(line, dir.path())).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = bench.spawn().expect("the command runs");
    let until = Instant::now() + Duration::from_secs(60);
    while !has(&disk.join("runs"), ".seg") {
        assert!(Instant::now() < until, "the log has no segment after a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    // What the engine frees is taken as well, for it would go on with that for ever.
    let is_done = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut filler = fs::File::create(disk.join("filler")).expect("a file");
            while !is_done.load(Ordering::Relaxed) {
                if filler.write_all(&[1; 1 << 16]).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let ended = child.wait_with_output();
        is_done.store(true, Ordering::Relaxed);
        Run::of(ended.expect("it ends"))
    });
    let told = format!("{}{}", done.stderr, done.text());
    assert_eq!(done.status, 1, "{told}");
    assert!(told.contains("No space left on device"), "{told}");
    let kept = records(dir.path());
    let sound: Vec<_> = kept.iter().filter(|record| record["errors"] == 0).map(|record| &record["engine"]).collect();
    assert_eq!(sound, ["memory", "null"], "{told}");
    assert!(kept.iter().all(|record| record["engine"] != "log" || record["first_error"].is_string()), "{kept:?}");
    assert!(!has(&disk.join("runs"), ".seg"), "what was half written is left behind");
    drop(mount);
}

/// The command as on a machine without PostgreSQL's programs: an empty place is mounted over them, for it alone. `None` where that is not allowed.
fn without_postgres(line: &str, dir: &Path) -> Option<Run> {
    let places = "for place in /usr/lib/postgresql /usr/local/bin; do [ ! -d $place ] || mount -t tmpfs tmpfs $place || exit 77; done; exec \"$@\"";
    let mut hidden = Command::new("unshare");
    hidden.args(["--mount", "sh", "-c", places, "sh"]).arg(command().get_program()).args(words(line, dir));
    let output = hidden.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null()).output().ok()?;
    let done = Run::of(output);
    let is_refused = done.stderr.contains("unshare") || done.status == 77;
    (!is_refused).then_some(done)
}

/// Fails if a rival that is not installed ends the bench, or if what to do about it is not said.
#[test]
fn without_postgresql_its_run_says_what_to_install_and_the_others_are_done() {
    if !has_engine("postgres") {
        return;
    }
    let dir = tempdir().expect("a directory");
    let line = "bench ycsb --engine memory,postgres,null --workload a --records 500 --operations 500 --dir DIR/runs --json DIR/runs.jsonl";
    let Some(done) = without_postgres(line, dir.path()) else {
        println!("skipped: to hide PostgreSQL needs a mount namespace");
        return;
    };
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("1 of 3 runs failed") && done.stderr.contains("install the package postgresql"),
        "{}",
        done.stderr
    );
    let engines: Vec<_> = records(dir.path()).iter().map(|record| record["engine"].clone()).collect();
    assert_eq!(engines, ["memory", "null"]);
    // A published experiment is done without it, and says so; the list does too.
    let again = "reproduce btree-vs-lsm --scale 0.001 --repeat 1 --dir DIR/runs --runs DIR/again.jsonl";
    let again = without_postgres(again, dir.path()).expect("it was allowed just now");
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert!(again.stderr.contains("install the package postgresql"), "{}", again.stderr);
    assert!(!fs::read_to_string(dir.path().join("again.jsonl")).expect("the runs").contains("\"engine\":\"postgres\""));
    let listed = without_postgres("reproduce --list", dir.path()).expect("it was allowed just now");
    assert!(listed.text().contains("lacks here: the programs of postgres are not installed"), "{}", listed.text());
}
