//! Options of a bench that none of its runs would go by are refused by name, before anything is measured.

mod common;

use common::{has_engine, run};
use tempfile::tempdir;

/// Fails if such an option is passed over without a word.
#[test]
fn what_no_run_would_go_by_is_refused_by_its_name() {
    let dir = tempdir().expect("a directory");
    for (line, says) in [
        ("ycsb --workload a --partitioning none --partitions 8", "--partitions divides stores"),
        ("shift --workload jump --partitioning none --partitions 8", "--partitions divides stores"),
        ("db --benchmark fillseq --placement range", "--placement says which partition"),
        ("ycsb --workload a --dir DIR/a,DIR/b", "several directories of --dir"),
        ("ycsb --workload a --partitioning soft --dir DIR/a,DIR/b", "several directories of --dir"),
        ("ycsb --workload a --space-amplification 1.3", "--space-amplification is for engines that clean (log)"),
        ("shift --workload slot,worker --period 1", "--period is for jump, rotate, groups, crowd, adversary"),
        ("shift --workload worker --period nan", "--period is for jump"),
    ] {
        let refused = run(&format!("bench {line} --engine memory --records 100"), dir.path());
        assert_eq!(refused.status, 2, "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{line}: {}", refused.stderr);
    }
    assert!(!dir.path().join("a").exists(), "nothing is begun");
}

/// Fails if what some of the runs go by is refused: lists multiply, and hot records may be those of one of so many partitions.
#[test]
fn what_some_of_the_runs_go_by_is_taken() {
    let dir = tempdir().expect("a directory");
    let mut lines = vec![
        "ycsb --workload a --partitioning none,hard --partitions 2 --placement range --dir DIR/a --engine memory",
        "shift --workload partition --partitioning none --partitions 4 --dir DIR/a --engine memory",
        "shift --workload slot --period 0 --dir DIR/a --engine memory",
        "shift --workload slot,jump --period 1 --dir DIR/a --engine memory",
    ];
    if has_engine("log") {
        lines.push("ycsb --workload a --partitioning none,hard --partitions 2 --dir DIR/a,DIR/b --engine log");
        lines.push("ycsb --workload a --dir DIR/a --engine log,memory --space-amplification 1.3");
    }
    for line in lines {
        let sizes = "--records 400 --operations 100 --value-bytes 50 --cache-bytes 16MiB";
        let done = run(&format!("bench {line} {sizes}"), dir.path());
        assert_eq!(done.status, 0, "{line}: {}", done.stderr);
    }
}
