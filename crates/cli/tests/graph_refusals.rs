//! What `biombo graph` refuses, and what ends `load` and `add` half-way: the graph is as it was, or has what was acknowledged, and the message says which.

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use common::mount::Mount;
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

/// Fails if a script that says the same to every kernel is ended, as it never was, or if nobody is told what has no effect.
#[test]
fn what_another_kernel_goes_by_is_noted_and_the_run_goes_on() {
    let dir = tempdir().expect("a directory");
    triangle(dir.path());
    let all: [(&str, &[&str]); 4] = [
        ("cc --iterations 5", &["--iterations"]),
        ("bc --tolerance 0.1", &["--tolerance"]),
        ("bfs --source 1 --tolerance 0.1 --iterations 5", &["--iterations", "--tolerance"]),
        ("pagerank --tolerance 0.1 --iterations 5", &[]),
    ];
    for (kernel, unused) in all {
        let done = run(&format!("graph run DIR/g {kernel}"), dir.path());
        let notes = unused.iter().map(|one| format!("biombo: note: {one} has no effect here: it is for pagerank\n"));
        assert_eq!((done.status, done.stderr.as_str()), (0, notes.collect::<String>().as_str()), "{kernel}");
        assert!(done.text().contains(" over 3 vertices"), "{kernel}: {}", done.text());
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line_and_leaves_nothing() {
    let dir = tempdir().expect("a directory");
    let refuse = |args: &str, input: &[u8], status: i32, said: &str| {
        let refused = biombo_with(words(args, dir.path()), input);
        assert_eq!((refused.status, refused.stderr.lines().count()), (status, 1), "{args}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
        assert_eq!(refused.stdout, b"", "{args}");
    };
    refuse("graph load DIR/g -", b"1 2\n3 -4\n", 1, "standard input, line 2: the id -4 is negative");
    refuse("graph load DIR/g -", &[0x1f, 0x8b, 8, 0], 1, "ends in the middle of its compressed data");
    refuse("graph load DIR/g DIR/missing.el", b"", 1, "missing.el");
    refuse("graph stat DIR/g", b"", 1, "there is no graph in");
    assert!(!dir.path().join("g").exists(), "a refused load left something");
    let edges = b"100 5\n5 1099511627776\n1099511627776 100\n5 7\n7 7\n100 5\n";
    assert_eq!(biombo_with(words("graph load DIR/g - --layout csr", dir.path()), edges).status, 0);
    refuse("graph load DIR/g -", b"1 2\n", 1, "has a graph already");
    run("put DIR/store k v", dir.path()).ok();
    refuse("graph load DIR/store -", b"1 2\n", 1, "has a store");
    refuse("graph run DIR/g bfs", b"", 2, "--source");
    refuse("graph run DIR/g cc --source 5", b"", 2, "only bfs and bc");
    refuse("graph run DIR/g cc --out - --json", b"", 2, "both go to standard output");
    refuse("graph run DIR/g bfs --source 6", b"", 1, "the graph has no vertex 6");
    refuse("graph run DIR/g pagerank --tolerance=-1", b"", 2, "--tolerance");
    refuse("graph run DIR/g cc --tolerance=-1", b"", 2, "--tolerance");
    refuse("graph run DIR/g bfs --source 6 --iterations 5", b"", 1, "the graph has no vertex 6");
    refuse("graph run DIR/g cc --threads 0", b"", 2, "threads");
    refuse("graph neighbors DIR/g -- -5", b"", 2, "-5");
    let file = dir.path().join("g/graph.csr");
    let mut bytes = fs::read(&file).expect("the graph's file");
    bytes[4100] ^= 1;
    fs::write(&file, bytes).expect("written");
    refuse("graph stat DIR/g", b"", 1, "graph.csr is damaged at offset 4096: the checksum");
    // What verify finds is its answer; the error says what to do.
    let found = run("graph verify DIR/g", dir.path());
    assert!(found.status == 1 && found.stderr.contains("is damaged: load it again"), "{}", found.stderr);
    assert!(found.text().contains("graph.csr: offset 4096: the checksum"), "{}", found.text());
    let found = run("graph verify DIR/g --json", dir.path());
    let lines: Vec<serde_json::Value> =
        found.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((found.status, &lines[0]["offset"], &lines[1]["ok"]), (1, &4096.into(), &false.into()));
    assert!(
        lines[1]["edges"].is_null() && lines[0]["file"].as_str().is_some_and(|file| file.ends_with("graph.csr")),
        "{lines:?}"
    );
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
    // Fewer than a graph may have, and more than this process has memory for: nobody begins with them.
    let matrix = "%%MatrixMarket matrix coordinate pattern general\n1000000000 1000000000 0\n";
    for command in ["add DIR/g", "load DIR/h"] {
        let [_, graph] = words(command, dir.path()).try_into().expect("two words");
        let verb = command.split(' ').next().expect("a word");
        let line = format!("ulimit -v 8000000; exec {} graph {verb} {graph} -", env!("CARGO_BIN_EXE_biombo"));
        let run = common::with_input(std::process::Command::new("sh").arg("-c").arg(line), matrix.as_bytes());
        refused(&run, &["standard input is of 1000000000 vertices, which take 22888 MiB at least"]);
        assert_eq!(vertices_and_edges(dir.path(), "g"), (3, 3));
    }
    assert!(!dir.path().join("h").exists(), "a refused load left something");
    // Vertices that nothing leads to are added as they are loaded.
    let matrix = b"%%MatrixMarket matrix coordinate pattern general\n9 9 1\n1 2\n";
    assert_eq!(biombo_with(words("graph add DIR/g -", dir.path()), matrix).status, 0);
    assert_eq!(vertices_and_edges(dir.path(), "g"), (9, 3));
}

/// Edges between ids of eight bytes, no two alike: their records fill a segment of the journal, and a graph of them does not fit beside it.
fn many() -> String {
    let far = 1u64 << 33;
    let mut edges = String::new();
    for n in 0..MANY {
        writeln!(edges, "{} {}", far + n % 1000, far + 1000 + n / 1000).expect("a string takes everything");
    }
    edges
}

const MANY: u64 = 1_200_000;

/// Fails when a full disk ends the command with another word than how many edges are durable, when one of them is lost, or when the graph cannot go
/// on where there is room again.
#[test]
fn a_full_disk_in_the_middle_of_graph_add_leaves_what_was_acknowledged_and_says_how_much() {
    let edges = many();
    for media in ["disk", "pmem"] {
        let dir = tempdir().expect("a directory");
        let Some(mount) = Mount::tmpfs(&dir.path().join("full"), "size=26m") else {
            println!("skipped: mounting needs root");
            return;
        };
        let loaded =
            biombo_with(words(&format!("graph load DIR/full/g - --media {media}"), dir.path()), b"1 2\n2 3\n3 1\n");
        assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""), "{media}");
        let added = biombo_with(words("graph add DIR/full/g - --acks", dir.path()), edges.as_bytes());
        let acked =
            added.text().lines().filter_map(|line| line.strip_prefix("acked ")?.parse::<u64>().ok()).next_back();
        let acked = acked.expect("some edges fit");
        assert!(acked < MANY, "{media}: everything fits");
        refused(&added, &[&format!("{acked} edges before that were added, and are durable"), "make room"]);
        mount.grow("200m");
        // Nothing of the group that did not fit.
        assert_eq!(vertices_and_edges(dir.path(), "full/g").1, acked + 3, "{media}");
        assert!(run("graph verify DIR/full/g", dir.path()).ok().text().contains("no damage"));
        // What is there already is passed over.
        let tail: String = edges.lines().skip(acked as usize - 1000).map(|line| format!("{line}\n")).collect();
        let added = biombo_with(words("graph add DIR/full/g -", dir.path()), tail.as_bytes());
        assert_eq!((added.status, added.stderr.as_str()), (0, ""), "{media}");
        assert_eq!(vertices_and_edges(dir.path(), "full/g").1, MANY + 3, "{media}");
    }
}

#[test]
fn a_full_disk_in_the_middle_of_graph_load_leaves_no_graph_and_room_for_another_try() {
    let edges = many();
    // Both directions of that many edges take 9.6 MB.
    let all =
        [("--layout pma", "6m"), ("--layout csr", "3m"), ("--media pmem", "3m"), ("--layout csr --media pmem", "3m")];
    for (options, size) in all {
        let dir = tempdir().expect("a directory");
        let Some(mount) = Mount::tmpfs(&dir.path().join("full"), &format!("size={size}")) else {
            println!("skipped: mounting needs root");
            return;
        };
        let load = format!("graph load DIR/full/g - {options} --placement degree --nodes 2 --acks");
        let loaded = biombo_with(words(&load, dir.path()), edges.as_bytes());
        refused(&loaded, &["No space left"]);
        assert_eq!(loaded.text(), "", "{options}: nothing was acknowledged");
        assert!(
            !dir.path().join("full/g/NODES").exists(),
            "{options}: a placement is left of a graph that is not there"
        );
        let stat = run("graph stat DIR/full/g", dir.path());
        refused(&stat, &["there is no graph"]);
        mount.grow("200m");
        let loaded = biombo_with(words(&load, dir.path()), edges.as_bytes());
        assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""), "{options}");
        assert_eq!(vertices_and_edges(dir.path(), "full/g").1, MANY, "{options}");
    }
}

/// Fails when the graph comes first: then it is there though the command says that it failed.
#[test]
fn a_placement_that_cannot_be_kept_fails_before_the_graph_is_there_and_none_is_left_of_an_earlier_try() {
    let dir = tempdir().expect("a directory");
    // A directory in the way of the file that is renamed.
    fs::create_dir_all(dir.path().join("g/NODES.tmp/x")).expect("made");
    let load = |options: &str| biombo_with(words(&format!("graph load DIR/g - {options}"), dir.path()), b"1 2\n");
    for layout in ["--layout pma", "--layout csr", "--media pmem", "--layout csr --media pmem"] {
        refused(&load(&format!("{layout} --placement degree --nodes 3")), &["NODES"]);
        refused(&run("graph stat DIR/g", dir.path()), &["there is no graph"]);
    }
    fs::remove_dir_all(dir.path().join("g/NODES.tmp")).expect("removed");
    fs::write(dir.path().join("g/NODES"), "{\"placement\":\"degree\",\"nodes\":3}").expect("written");
    assert_eq!(load("").status, 0);
    assert!(!dir.path().join("g/NODES").exists(), "nothing was said of nodes this time");
}

/// Fails when a load that finds the directory taken, or the graph there, removes or replaces the placement of the one that makes it.
#[test]
fn of_several_loads_at_once_one_makes_the_graph_and_its_own_placement_stays() {
    let edges: String = (0..20_000).map(|n| format!("{} {}\n", n % 5000, n * 7 % 5000)).collect();
    let dir = tempdir().expect("a directory");
    for round in 0..8 {
        for options in ["--layout pma", "--layout csr"] {
            let name = format!("g{round}{}", &options[9..]);
            let load = |nodes: u64| {
                let load = format!("graph load DIR/{name} - {options} --placement degree --nodes {nodes}");
                biombo_with(words(&load, dir.path()), edges.as_bytes())
            };
            let load = &load;
            let runs: Vec<(u64, Run)> = std::thread::scope(|scope| {
                let runs: Vec<_> = (2..6).map(|nodes| (nodes, scope.spawn(move || load(nodes)))).collect();
                runs.into_iter().map(|(nodes, run)| (nodes, run.join().expect("a run"))).collect()
            });
            let made: Vec<u64> = runs.iter().filter(|(_, run)| run.status == 0).map(|(nodes, _)| *nodes).collect();
            assert_eq!(made.len(), 1, "{name}: {:?}", runs.iter().map(|(_, run)| &run.stderr).collect::<Vec<_>>());
            for (_, run) in runs.iter().filter(|(_, run)| run.status != 0) {
                assert!(run.stderr.contains("wait for it") || run.stderr.contains("a graph already"), "{}", run.stderr);
            }
            let kept = fs::read_to_string(dir.path().join(&name).join("NODES")).expect("its placement");
            assert!(
                kept.contains(&format!("\"nodes\":{}", made[0])),
                "{name}: {kept} of the load for {} nodes",
                made[0]
            );
        }
    }
}
