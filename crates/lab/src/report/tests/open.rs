//! The page of an open loop, where throughput is given.

use crate::record::Record;
use crate::record::tests::record;

/// Seven runs of each at 40,000 operations a second: directly, in partitions whose updates take a quarter of the time, and one that is late.
fn runs() -> Vec<Record> {
    let of = |engine: &str, layout: &str, repetition, ops, update_p99| {
        let mut record = record(engine, layout, repetition, ops);
        record.rate = Some(40_000.0);
        if let Some(update) = record.latency_ns.get_mut("update") {
            update.p99 = update_p99;
        }
        record
    };
    let round = |n| {
        [
            of("log", "none", n, 40_000.0, 4_000),
            of("log", "hard", n, 40_000.0, 1_000),
            of("lmdb", "none", n, 36_000.0, 9_000_000),
        ]
    };
    (1..=7).flat_map(round).collect()
}

/// Fails if a page compares what was given, takes a shorter tail for a loss, or leaves out who was late, how long the runs were, or where.
#[test]
fn tails_are_compared_and_who_is_late_is_named() {
    let html = crate::report::page(&runs(), &[]).unwrap();
    super::look("open", &html);
    for expected in [
        "<th>p99 of updates,<br>times the<br>engine directly</th>",
        "<span class=\"good\">0.25</span>",
        "open loop at 40.0 k operations per second, which lmdb did not keep; runs of 1000 operations; stores on ext4 (sda1).",
        "Shortest p99 of updates in workload A, 2 threads",
        "the rate was not kept by lmdb",
        "In an open loop throughput is given.",
    ] {
        assert!(html.contains(expected), "`{expected}` is missing");
    }
    assert!(!html.contains("about as fast as"), "all did what was given to them");
}
