//! What ends `biombo graph load` and `add` half-way: the graph is as it was, or has what was acknowledged, and the message says which.

mod common;

use std::path::Path;

use common::{Run, biombo_with, run, words};
use tempfile::tempdir;

/// A triangle that can be changed, in `DIR/g`.
fn triangle(dir: &Path) {
    let loaded = biombo_with(words("graph load DIR/g -", dir), b"1 2\n2 3\n3 1\n");
    assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""));
}

/// One line on standard error, and exit status 1.
#[track_caller]
fn refused(run: &Run, said: &[&str]) {
    assert_eq!((run.status, run.stderr.lines().count()), (1, 1), "{}", run.stderr);
    for words in said {
        assert!(run.stderr.contains(words), "no `{words}`: {}", run.stderr);
    }
}

fn vertices_and_edges(dir: &Path, graph: &str) -> (u64, u64) {
    let stat = run(&format!("graph stat DIR/{graph} --json"), dir).ok().json();
    (stat["vertices"].as_u64().expect("a number"), stat["edges"].as_u64().expect("a number"))
}

/// Fails when the vertices that a header names are added one by one before anybody asks how many they are.
#[test]
fn a_matrix_of_more_vertices_than_a_graph_has_is_refused_before_anything_is_added() {
    let dir = tempdir().expect("a directory");
    triangle(dir.path());
    for size in ["9000000000000000000", "2147483649"] {
        let matrix = format!("%%MatrixMarket matrix coordinate pattern general\n{size} {size} 1\n1 2\n");
        let added = biombo_with(words("graph add DIR/g -", dir.path()), matrix.as_bytes());
        refused(&added, &[&format!("{size} vertices; 2147483648 are the most"), "0 edges before that were added"]);
        assert_eq!(vertices_and_edges(dir.path(), "g"), (3, 3));
        let loaded = biombo_with(words("graph load DIR/h -", dir.path()), matrix.as_bytes());
        refused(&loaded, &[&format!("{size} vertices; 2147483648 are the most")]);
    }
    // Vertices that nothing leads to are added as they are loaded.
    let matrix = b"%%MatrixMarket matrix coordinate pattern general\n9 9 1\n1 2\n";
    assert_eq!(biombo_with(words("graph add DIR/g -", dir.path()), matrix).status, 0);
    assert_eq!(vertices_and_edges(dir.path(), "g"), (9, 3));
}
