//! Recorded operations through the driver.

use std::path::PathBuf;

use super::by_hand::ByHand;
use super::*;
use crate::workload::trace::survey;

/// Files with these contents.
fn files(texts: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let write = |(i, text): (usize, &&str)| {
        let path = dir.path().join(format!("worker{i}.txt"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths = texts.iter().enumerate().map(write).collect();
    (dir, paths)
}

fn replaying(traces: &[PathBuf], threads: u32, until: Until) -> Settings {
    let counts = survey(traces).unwrap();
    Settings { task: Task::Trace { counts }, until, traces: traces.to_vec(), ..settings(Workload::A, 1, 0, threads) }
}

fn keys() -> Keys {
    Keys::new(KeyFormat::Hashed, 16, 1).unwrap()
}

const ONE: &str = "0,apple\n1,banana\n2,apple,2\n1,apple\n";
const TWO: &str = "1,cherry\n0,cherry\n";

#[test]
fn operations_are_issued_as_they_are_recorded() {
    let (_dir, traces) = files(&[ONE]);
    let (ran, calls) = ByHand::new(|_, _| 1_000).run(&replaying(&traces, 1, Until::Once), &keys());
    let asked: Vec<_> = calls.iter().map(|c| (c.kind, String::from_utf8(c.keys[0].clone()).unwrap())).collect();
    let expected =
        [(OpKind::Read, "apple"), (OpKind::Update, "banana"), (OpKind::Scan, "apple"), (OpKind::Update, "apple")];
    assert_eq!(asked, expected.map(|(kind, key)| (kind, key.to_owned())));
    assert_eq!((ran.operations, ran.errors), (4, 0));
    assert_eq!(ran.logical_write_bytes, (6 + 100) + (5 + 100));
    let counts: Vec<_> = ran.latencies.iter().map(|(kind, h)| (kind, h.len())).collect();
    assert_eq!(counts, [(OpKind::Read, 1), (OpKind::Update, 2), (OpKind::Scan, 1)]);
}

#[test]
fn every_key_is_loaded_once_and_each_worker_replays_its_file() {
    let (_dir, traces) = files(&[ONE, TWO]);
    for threads in [1, 2, 5] {
        let (target, values) = (memory(), Values::new(50, 1.0, 1));
        let progress = Progress::new();
        let loaded = load_trace(&target, &traces, &values, threads, 1, &progress).unwrap();
        assert_eq!((loaded.records, loaded.bytes), (3, 5 + 6 + 6 + 3 * 50), "{threads} threads");
        assert_eq!((target.stats().unwrap().keys, progress.done()), (Some(3), 6));
    }
    let (target, values) = (memory(), Values::new(50, 1.0, 1));
    load_trace(&target, &traces, &values, 2, 1, &Progress::new()).unwrap();
    let ran = run(&target, &replaying(&traces, 2, Until::Once), &keys(), &values, &Progress::new()).unwrap();
    assert_eq!((ran.operations, ran.errors), (6, 0), "{:?}", ran.first_error);
    // One file is replayed by every thread.
    let ran = run(&target, &replaying(&traces[..1], 3, Until::Once), &keys(), &values, &Progress::new()).unwrap();
    assert_eq!((ran.operations, ran.errors), (12, 0), "{:?}", ran.first_error);
}

#[test]
fn a_trace_begins_anew_until_the_operations_or_seconds_are_over() {
    let (_dir, traces) = files(&[TWO]);
    let (ran, calls) = ByHand::new(|_, _| 1_000).run(&replaying(&traces, 1, Until::Operations(7)), &keys());
    assert_eq!((ran.operations, calls.iter().filter(|call| call.kind == OpKind::Update).count()), (7, 4));
    let (ran, _) = ByHand::new(|_, _| 1_000_000).run(&replaying(&traces, 1, Until::Seconds(0.05)), &keys());
    assert_eq!((ran.operations, ran.seconds), (50, 0.05));
}

#[test]
fn in_an_open_loop_recorded_operations_keep_their_schedule() {
    let (_dir, traces) = files(&[TWO]);
    let settings = Settings { rate: Some(1_000.0), ..replaying(&traces, 1, Until::Operations(100)) };
    let (ran, _) = ByHand::new(|_, _| 3_000_000).run(&settings, &keys());
    // Operation i is wanted at i ms and done at 3 (i + 1) ms.
    let longest = ran.latencies.iter().map(|(_, histogram)| histogram.max()).max().unwrap();
    assert!(longest.abs_diff(201_000_000) < 1_000_000, "{longest} ns");
}

#[test]
fn what_is_missing_is_an_error_after_loading_and_none_over_an_empty_store() {
    let (_dir, traces) = files(&["0,nothing\n0,here\n"]);
    let values = Values::new(50, 1.0, 1);
    let settings = replaying(&traces, 1, Until::Once);
    let ran = run(&memory(), &settings, &keys(), &values, &Progress::new()).unwrap();
    assert_eq!(ran.errors, 2);
    assert!(ran.first_error.unwrap().contains("read of line 1: "));
    let empty = Settings { check: false, ..settings };
    assert_eq!(run(&memory(), &empty, &keys(), &values, &Progress::new()).unwrap().errors, 0);
}

#[test]
fn a_file_that_breaks_or_goes_after_it_was_looked_at_ends_the_run_with_its_name() {
    let (_dir, traces) = files(&[ONE, TWO]);
    let (target, values) = (memory(), Values::new(50, 1.0, 1));
    // The other thread would replay for ever.
    let settings = replaying(&traces, 2, Until::Seconds(1e6));
    std::fs::write(&traces[1], "1,cherry\n9,cherry\n").unwrap();
    let error = run(&target, &settings, &keys(), &values, &Progress::new()).unwrap_err().to_string();
    assert!(error.contains("worker1.txt:2: the operation `9`"), "{error}");
    let error = load_trace(&target, &traces, &values, 2, 1, &Progress::new()).unwrap_err().to_string();
    assert!(error.contains("worker1.txt:2"), "{error}");
    std::fs::write(&traces[1], "").unwrap();
    let error = run(&target, &settings, &keys(), &values, &Progress::new()).unwrap_err().to_string();
    assert!(error.contains("became empty"), "{error}");
    std::fs::remove_file(&traces[1]).unwrap();
    let error = run(&target, &settings, &keys(), &values, &Progress::new()).unwrap_err().to_string();
    assert!(error.contains("worker1.txt"), "{error}");
}
