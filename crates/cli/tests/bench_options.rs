//! Options of a bench that none of its runs goes by have no effect, and a note says so: scripts say the same to all of their benches.

mod common;

use common::{Run, has_engine, run};
use tempfile::tempdir;

const SIZES: &str = "--records 400 --operations 100 --value-bytes 50 --cache-bytes 16MiB";

/// The notes of a command.
fn notes(done: &Run) -> Vec<&str> {
    done.stderr.lines().filter_map(|line| line.strip_prefix("biombo: note: ")).collect()
}

/// Fails if such an option ends the bench, as it never did, or if it is passed over without a word.
#[test]
fn what_no_run_goes_by_is_noted_once_and_the_bench_goes_on() {
    let dir = tempdir().expect("a directory");
    for (line, says) in [
        (
            "ycsb --workload a --partitioning none --partitions 8 --dir DIR/a",
            "--partitions has no effect here: it divides",
        ),
        ("shift --workload jump --partitioning none --partitions 8 --dir DIR/a", "--partitions has no effect here: "),
        (
            "db --benchmark fillseq --placement range --dir DIR/a",
            "--placement has no effect here: it says which partition",
        ),
        ("ycsb --workload a --dir DIR/a,DIR/b", "--dir has no effect here but for its first directory"),
        ("ycsb --workload a --partitioning soft --dir DIR/a,DIR/b", "--dir has no effect here but for its first"),
        (
            "ycsb --workload a,b --repeat 2 --space-amplification 1.3 --dir DIR/a",
            "--space-amplification has no effect here: it is for engines that clean (log)",
        ),
        (
            "shift --workload slot,partition --period 1 --dir DIR/a",
            "--period has no effect here: it is for jump, rotate, groups, crowd, adversary",
        ),
        ("shift --workload jump,crowd --group 5 --dir DIR/a", "--group has no effect here: it is for groups, worker"),
        ("shift --workload crowd --hot-records 5 --dir DIR/a", "--hot-records has no effect here: it is for jump"),
        ("shift --workload monotonic --hot-share 1 --dir DIR/a", "--hot-share has no effect here: it is for jump"),
    ] {
        let done = run(&format!("bench {line} --engine memory {SIZES}"), dir.path());
        assert_eq!(done.status, 0, "{line}: {}", done.stderr);
        let notes = notes(&done);
        assert!(notes.len() == 1 && notes[0].starts_with(says), "{line}: {}", done.stderr);
    }
    // Each of them, and none beside what is refused.
    let both = "bench ycsb --workload a --placement range --space-amplification 1.3 --dir DIR/a --engine memory";
    assert_eq!(notes(&run(&format!("{both} {SIZES}"), dir.path())).len(), 2);
    for refused in ["--workload worker --period nan", "--workload jump --group 5 --reads 2"] {
        let refused = run(&format!("bench shift {refused} --engine memory --records 100"), dir.path());
        assert_eq!((refused.status, refused.stderr.lines().count()), (2, 1), "{}", refused.stderr);
    }
}

/// Fails if what some of the runs go by is said to have no effect: lists multiply, and hot records may be those of one of so many
/// partitions.
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
        let done = run(&format!("bench {line} {SIZES}"), dir.path());
        assert!(done.status == 0 && notes(&done).is_empty(), "{line}: {}", done.stderr);
    }
}
