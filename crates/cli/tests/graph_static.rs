//! Static graphs on persistent memory, and placements that are kept while edges stream in, end to end: `biombo graph` and `biombo bench graph`.

mod common;

use std::fs;
use std::path::Path;

use common::{biombo_with, run, words};
use serde_json::Value;
use tempfile::tempdir;

/// 100 -> 5 -> 2^40 -> 100, 5 -> 7, a loop at 7, and an edge twice; the ids are not dense.
const EDGES: &[u8] = b"# Directed graph: a test\n100\t5\n5 1099511627776\n1099511627776 100\n5\t7\n7 7\n100 5\n";

fn load(dir: &Path, edges: &[u8], options: &str) -> String {
    let loaded = biombo_with(words(&format!("graph load {options}"), dir), edges);
    assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""), "{options}");
    loaded.text().to_owned()
}

#[track_caller]
fn refused(dir: &Path, args: &str, said: &str) {
    let refused = biombo_with(words(args, dir), EDGES);
    assert_eq!((refused.status, refused.stderr.lines().count()), (1, 1), "{args}: {}", refused.stderr);
    assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("the lines");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Fails when the file is another one than on disk, when it is not found by one of the commands, and when what is behind it is not told.
#[test]
fn a_static_graph_on_persistent_memory_answers_as_one_on_disk() {
    let dir = tempdir().expect("a directory");
    // What a load that was killed left of a graph is none, and is in nobody's way.
    fs::create_dir(dir.path().join("g")).expect("made");
    for left in ["graph-csr.pmem.new", "graph-csr.pmem.new.new"] {
        fs::write(dir.path().join("g").join(left), b"BIOMBOGR").expect("written");
    }
    refused(dir.path(), "graph stat DIR/g", "there is no graph in");
    let told = load(dir.path(), EDGES, "DIR/g - --layout csr --media pmem --acks");
    assert!(told.starts_with("acked 6\n") && told.contains("kept on pmem, "), "{told}");
    load(dir.path(), EDGES, "DIR/h - --layout csr");
    let file = |name: &str| fs::read(dir.path().join(name)).expect("the graph's file");
    assert!(file("g/graph-csr.pmem") == file("h/graph.csr"), "the same bytes on both media");
    assert!(!dir.path().join("g/graph.csr").exists());

    let stat = run("graph stat DIR/g --json", dir.path()).ok().json();
    assert_eq!((&stat["vertices"], &stat["edges"], &stat["loops"]), (&4.into(), &5.into(), &1.into()));
    assert_eq!((&stat["layout"], &stat["media"]), (&"csr".into(), &"pmem".into()));
    let pmem = stat["pmem"].as_str().expect("what it is");
    assert_eq!(stat["pmem_is_played"], pmem.contains("played by"), "{pmem}");
    let told = run("graph stat DIR/g", dir.path()).ok();
    let line = format!("media         pmem, {pmem}; lists are read there\n");
    assert!(told.text().contains(&line), "{}", told.text());
    assert!(!run("graph stat DIR/h", dir.path()).ok().text().contains("read there"));
    assert!(run("graph verify DIR/g", dir.path()).ok().text().contains("5 stored edges read, no damage"));

    let mut questions =
        vec!["neighbors DIR/G 5".to_owned(), "neighbors DIR/G 7 --in".into(), "degree DIR/G 100".into()];
    questions.extend(["edge-list", "adjacency-list", "csr"].map(|format| format!("export DIR/G - --format {format}")));
    for question in questions {
        let ask = |graph: &str| run(&format!("graph {}", question.replace("DIR/G", graph)), dir.path()).ok().stdout;
        assert_eq!(ask("DIR/g"), ask("DIR/h"), "{question}");
    }
    let per_node = |graph: &str| run(&format!("graph stat DIR/{graph} --nodes 2 --json"), dir.path()).ok().json();
    for figure in ["edges_per_node", "memory_bytes", "in_edges_memory_bytes", "bytes_per_edge"] {
        assert_eq!(per_node("g")[figure], per_node("h")[figure], "{figure}");
    }
    let answer = |graph: &str, kernel: &str| {
        run(&format!("graph run DIR/{graph} {kernel} --out DIR/out"), dir.path()).ok();
        fs::read_to_string(dir.path().join("out")).expect("the file was written")
    };
    for kernel in ["bfs --source 100", "cc", "cc-sv --threads 2", "bc", "pagerank --nodes 2 --placement round-robin"] {
        assert_eq!(answer("g", kernel), answer("h", kernel), "{kernel}");
    }
    for layout in ["pma", "adjacency", "buffered"] {
        assert_eq!(answer("g", &format!("cc --layout {layout}")), answer("h", "cc"), "{layout}");
    }
}

/// Fails when a command takes the directory for one that has no graph, and makes another one beside it or says that there is none.
#[test]
fn a_static_graph_on_persistent_memory_takes_no_updates_and_no_other_graph_beside_it() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "DIR/g - --layout csr --media pmem --placement degree --nodes 3");
    for change in ["add", "delete"] {
        refused(dir.path(), &format!("graph {change} DIR/g -"), "/g has a static graph (csr)");
        refused(dir.path(), &format!("graph {change} DIR/g -"), "--layout pma");
    }
    let all = ["--layout csr --media pmem", "--layout csr", "--layout pma", "--layout pma --media pmem"];
    for options in all {
        refused(dir.path(), &format!("graph load DIR/g - {options}"), "has a graph already");
    }
    for (at, options) in all.into_iter().enumerate().skip(1) {
        load(dir.path(), EDGES, &format!("DIR/{at} - {options}"));
        refused(dir.path(), &format!("graph load DIR/{at} - --layout csr --media pmem"), "has a graph already");
    }
    let told = run("graph run DIR/g pagerank --json", dir.path()).ok().json();
    assert_eq!((&told["layout"], &told["placement"], &told["nodes"]), (&"csr".into(), &"degree".into(), &3.into()));
    let empty = load(dir.path(), b"", "DIR/empty - --layout csr --media pmem");
    assert!(empty.contains("0 vertices"), "{empty}");
    assert!(run("graph run DIR/empty cc", dir.path()).ok().text().contains("0 components"));
}

/// Fails when damage or a newer version is read as a graph, is not told in one line, or ends the command by a signal.
#[test]
fn damage_of_a_static_graph_on_persistent_memory_is_told_and_newer_versions_are_refused() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "DIR/g - --layout csr --media pmem");
    let file = dir.path().join("g/graph-csr.pmem");
    let sound = fs::read(&file).expect("the graph's file");
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 2;
        bytes
    };
    let mut newer = sound.clone();
    newer[8] = 2;
    for (bytes, said) in [
        (flipped(4100), "graph-csr.pmem is damaged at offset 4096: the checksum"),
        (flipped(20), "graph-csr.pmem is damaged at offset 0: the header's checksum"),
        (flipped(0), "graph-csr.pmem is damaged at offset 0: this is no graph"),
        (newer, "graph-csr.pmem has version 2 of its format, this program knows 1: use a newer one"),
        (sound[..100].to_vec(), "graph-csr.pmem is damaged at offset 100: the file is shorter than its header"),
        (sound[..sound.len() - 4096].to_vec(), "graph-csr.pmem is damaged"),
        (Vec::new(), "graph-csr.pmem is damaged at offset 0: the file is empty"),
    ] {
        fs::write(&file, bytes).expect("written");
        let found = run("graph verify DIR/g", dir.path());
        let told = said.replace(" is damaged at offset", ": offset").replace(" is damaged", ": offset");
        // A newer version is no damage.
        let told = if said.contains("damaged") { found.text().contains(&told) } else { found.stderr.contains(said) };
        assert!(found.status == 1 && told, "{said}: {} {}", found.text(), found.stderr);
        for command in ["stat DIR/g", "neighbors DIR/g 5", "run DIR/g cc", "export DIR/g -"] {
            refused(dir.path(), &format!("graph {command}"), said);
        }
        // It is a graph all the same: nobody loads another one over it.
        refused(dir.path(), "graph load DIR/g - --layout csr --media pmem", "has a graph already");
    }
    fs::write(&file, sound).expect("written");
    assert!(run("graph verify DIR/g", dir.path()).ok().text().contains("no damage"));
}

/// Fails when a row is missing or told as the other one, when an answer differs, and when the graph's file is left.
#[test]
fn kernels_run_over_csr_on_persistent_memory_in_turns_with_csr_in_memory() {
    let dir = tempdir().expect("a directory");
    fs::create_dir(dir.path().join("work")).expect("made");
    let bench = "bench graph --graph kron:9:8 --layout csr --media pmem --kernel bfs,pagerank --trials 2 --threads 1,2 \
                 --nodes 1 --dir DIR/work --json DIR/lines --html DIR/page.html";
    let told = run(bench, dir.path()).ok();
    let lines = lines(&dir.path().join("lines"));
    let of = |step: &str| lines.iter().filter(|line| line["step"] == step).collect::<Vec<_>>();
    // With each number of threads: two loads; two kernels twice over both.
    assert_eq!((of("load").len(), of("kernel").len(), lines.len()), (4, 16, 20));
    let media: Vec<&str> = of("kernel").iter().filter_map(|line| line["media"].as_str()).collect();
    assert_eq!(media, ["dram", "pmem"].repeat(8), "in turns");
    for line in &lines {
        let is_pmem = line["media"] == "pmem";
        assert_eq!((line["pmem"].is_string(), line["pmem_is_played"].is_boolean()), (is_pmem, is_pmem), "{line}");
        assert!(line["step"] == "kernel" || line["bytes_per_edge"].as_f64() > Some(4.0), "{line}");
    }
    let behind = lines[1]["pmem"].as_str().expect("what is behind it");
    assert_eq!(lines[1]["pmem_is_played"], behind.starts_with("played by "), "{behind}");
    for kernel in ["bfs", "pagerank"] {
        let of_kernel: Vec<_> = of("kernel").into_iter().filter(|line| line["kernel"] == kernel).collect();
        assert!(of_kernel.iter().all(|line| line["verified"] == true && line["answer"] == of_kernel[0]["answer"]));
        for threads in [1, 2] {
            let row = format!("{kernel:9} {threads:>7} csr on pmem ");
            assert_eq!(told.text().matches(&row).count(), 1, "`{row}`: {}", told.text());
        }
    }
    assert!(told.text().contains(&format!("load     csr       pmem ({behind})")), "{}", told.text());
    let page = fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(page.contains(&format!("csr on pmem ({behind}), 2 threads")), "no bar of it");
    assert_eq!(fs::read_dir(dir.path().join("work")).expect("listed").count(), 0, "its file goes");
    assert!(run("bench graph --help", dir.path()).ok().text().contains("--layout csr --media pmem"));
    assert!(run("graph load --help", dir.path()).ok().text().contains("--media pmem --layout csr"));

    // Elsewhere than where it can be made.
    fs::write(dir.path().join("file"), "in the way").expect("written");
    let bench = "bench graph --graph kron:4:4 --layout csr --media pmem --kernel cc --dir DIR/file";
    refused(dir.path(), bench, "file");
}

/// Half of the vertices have five times the edges of the others.
fn lopsided() -> String {
    let mut edges = "# Undirected graph\n".to_owned();
    for v in 0..8192 {
        edges += &format!("{v} {}\n", (v + 1) % 8192);
        if v < 4096 {
            [513, 1025, 1537, 2049].iter().for_each(|far| edges += &format!("{v} {}\n", (v + far) % 4096));
        }
    }
    edges
}

/// Fails when each turn has a placement of its own again: then nobody ever has too much for too long, and nothing moves.
#[test]
fn a_placement_is_kept_while_updates_come_in_and_what_that_takes_is_told() {
    let dir = tempdir().expect("a directory");
    fs::write(dir.path().join("lopsided.el"), lopsided()).expect("written");
    let bench = "bench graph --graph DIR/lopsided.el --layout csr,pma --kernel cc --trials 3 --threads 2 --nodes 2 \
                 --placement block,degree --stream 20000 --json DIR/lines --html DIR/page.html";
    let told = run(bench, dir.path()).ok();
    let lines = lines(&dir.path().join("lines"));
    let moved = |layout: &str, placement: &str| {
        let its =
            |line: &&Value| line["step"] == "kernel" && line["layout"] == layout && line["placement"] == placement;
        lines.iter().filter(its).map(|line| line["units_moved"].clone()).collect::<Vec<_>>()
    };
    // One of the four full units of the first half goes once, or two small ones of what degree begins with; placements take turns, and each
    // keeps its own.
    assert_eq!(moved("pma", "block"), [0, 1, 0]);
    assert_eq!(moved("pma", "degree"), [0, 2, 0]);
    assert_eq!(moved("csr", "block"), [Value::Null, Value::Null, Value::Null]);
    let stretches = |line: &Value| line["stretches_placed"].is_u64() == line["units_moved"].is_u64();
    assert!(lines.iter().all(stretches), "{lines:?}");
    assert!(
        told.text().contains("pma, block: in 3 turns 1 units of vertices went to another node, and "),
        "{}",
        told.text()
    );
    assert!(!told.text().contains("csr, block: in"), "{}", told.text());
    let page = fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(page.contains("units moved +<br>stretches placed") && page.contains("1.05 times its share"));
    // On one node there is nothing to keep.
    let bench =
        "bench graph --graph kron:4:4 --layout pma --kernel cc --trials 1 --nodes 1 --stream 1000 --json DIR/one";
    let one = run(bench, dir.path()).ok();
    assert!(!one.text().contains("went to another node"), "{}", one.text());
    assert!(self::lines(&dir.path().join("one")).iter().all(|line| line["units_moved"].is_null()));
}
