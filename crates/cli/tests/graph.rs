//! `biombo graph` end to end: what it prints, what it writes, how it refuses.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{biombo_with, run, words};
use tempfile::tempdir;

/// 100 -> 5 -> 2^40 -> 100, 5 -> 7, a loop at 7, and an edge twice; the ids are not dense.
const EDGES: &[u8] = b"# Directed graph: a test\n100\t5\n5 1099511627776\n1099511627776 100\n5\t7\n7 7\n100 5\n";

fn load(dir: &Path, edges: &[u8], options: &str) {
    let loaded = biombo_with(words(&format!("graph load DIR/g - {options}"), dir), edges);
    assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""));
}

/// `vertex<TAB>value` lines.
fn values(dir: &Path) -> BTreeMap<u64, f64> {
    let text = fs::read_to_string(dir.join("out")).expect("the file was written");
    let pair = |line: &str| {
        let (vertex, value) = line.split_once('\t').expect("a tab");
        (vertex.parse().expect("a vertex"), value.parse().expect("a value"))
    };
    text.lines().map(pair).collect()
}

fn kernel(dir: &Path, command: &str) -> BTreeMap<u64, f64> {
    run(&format!("graph run DIR/g {command} --out DIR/out"), dir).ok();
    values(dir)
}

#[test]
fn a_graph_is_loaded_asked_and_given_back() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "");
    assert_eq!(run("graph neighbors DIR/g 5", dir.path()).ok().text(), "7\n1099511627776\n");
    assert_eq!(run("graph neighbors DIR/g 7 --in", dir.path()).ok().text(), "5\n7\n");
    assert_eq!(run("graph degree DIR/g 100", dir.path()).ok().text(), "1\n");
    let stat = run("graph stat DIR/g --json", dir.path()).ok().json();
    assert_eq!((&stat["vertices"], &stat["edges"], &stat["loops"]), (&4.into(), &5.into(), &1.into()));
    assert_eq!((&stat["directed"], &stat["layout"]), (&true.into(), &"pma".into()), "one that can be changed");
    assert!(run("graph verify DIR/g", dir.path()).ok().text().contains("no damage"));
    let listed = run("graph export DIR/g -", dir.path()).ok();
    assert_eq!(listed.text(), "5\t7\n5\t1099511627776\n7\t7\n100\t5\n1099511627776\t100\n");
    let lists = run("graph export DIR/g - --format adjacency-list", dir.path()).ok();
    assert_eq!(lists.text(), "5\t7\t1099511627776\n7\t7\n100\t5\n1099511627776\t100\n");
    // 5, 7, 100, 2^40: two rows, one, one, one.
    let rows = run("graph export DIR/g - --format csr", dir.path()).ok();
    assert_eq!(rows.text(), "5 7 100 1099511627776\n0 2 3 4 5\n1 3 1 0 2\n");
    let matrix = run("graph export DIR/g - --format adjacency-matrix", dir.path()).ok();
    assert_eq!(matrix.text(), "5 7 100 1099511627776\n0 1 0 1\n0 1 0 0\n1 0 0 0\n0 0 1 0\n");
    run("graph export DIR/g DIR/again.el", dir.path()).ok();
    run("graph load DIR/h DIR/again.el --directed --layout csr --threads 2", dir.path()).ok();
    assert_eq!(run("graph export DIR/h -", dir.path()).ok().text(), listed.text());
}

/// Fails when a directed graph of a symmetric matrix has each edge in one direction alone.
#[test]
fn a_symmetric_matrix_has_both_directions_in_a_directed_graph() {
    let dir = tempdir().expect("a directory");
    let matrix = b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 2\n3 3\n";
    load(dir.path(), matrix, "--directed");
    let both = "1\t2\n2\t1\n2\t3\n3\t2\n3\t3\n";
    assert_eq!(run("graph export DIR/g -", dir.path()).ok().text(), both);
    let deleted = biombo_with(words("graph delete DIR/g -", dir.path()), matrix);
    assert!(deleted.text().starts_with("deleted 5 stored edges"), "{}", deleted.text());
    let added = biombo_with(words("graph add DIR/g -", dir.path()), matrix);
    assert!(added.text().starts_with("added 5 stored edges"), "{}", added.text());
    assert_eq!(run("graph export DIR/g -", dir.path()).ok().text(), both);
}

/// Fails when a list of edges does not say that they have no direction, or when vertices that it cannot name go without a word.
#[test]
fn an_exported_list_of_edges_loads_as_the_graph_that_it_was() {
    for kind in ["directed", "undirected"] {
        let dir = tempdir().expect("a directory");
        let symmetry = if kind == "directed" { "general" } else { "symmetric" };
        let matrix = format!("%%MatrixMarket matrix coordinate pattern {symmetry}\n9 9 3\n4 2\n5 5\n7 2\n");
        load(dir.path(), matrix.as_bytes(), "");
        run("graph export DIR/g DIR/g.el", dir.path()).ok();
        run("graph load DIR/h DIR/g.el", dir.path()).ok();
        let asked = |of: &str| run(&format!("graph {of}"), dir.path()).ok();
        let stat = |graph: &str| asked(&format!("stat DIR/{graph} --json")).json();
        let (before, after) = (stat("g"), stat("h"));
        for figure in ["directed", "edges", "loops", "degree_max"] {
            assert_eq!(before[figure], after[figure], "{kind}: {figure}");
        }
        assert_eq!((&before["directed"], &before["isolated"]), (&(kind == "directed").into(), &5.into()));
        assert_eq!((&after["vertices"], &after["isolated"]), (&4.into(), &0.into()), "{kind}");
        let text = fs::read_to_string(dir.path().join("g.el")).expect("the file was written");
        let without = "# Vertices without edges, which are not listed: 5\n";
        assert!(text.contains(without), "{text}");
        assert_eq!(asked("export DIR/h -").text(), text.replace(without, ""), "{kind}");
        let matrix = match kind {
            "directed" => "2 4 5 7\n0 0 0 0\n1 0 0 0\n0 0 1 0\n1 0 0 0\n",
            _ => "2 4 5 7\n0 1 0 1\n1 0 0 0\n0 0 1 0\n1 0 0 0\n",
        };
        assert_eq!(asked("export DIR/h - --format adjacency-matrix").text(), matrix, "{kind}");
    }
}

#[test]
fn kernels_answer_by_the_ids_of_the_file() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "");
    let far = 1u64 << 40;
    let depths = kernel(dir.path(), "bfs --source 100");
    assert_eq!(depths, BTreeMap::from([(100, 0.0), (5, 1.0), (7, 2.0), (far, 2.0)]));
    assert_eq!(kernel(dir.path(), "bfs --source 7"), BTreeMap::from([(7, 0.0), (5, -1.0), (100, -1.0), (far, -1.0)]));
    for cc in ["cc", "cc-sv --threads 2"] {
        assert!(kernel(dir.path(), cc).values().all(|label| *label == 5.0), "{cc}");
    }
    // From 100, 5 is on the way to 7 and 2^40; from 2^40, 100 to 5 and 7, and 5 to 7; from 5, 2^40 to 100.
    assert_eq!(kernel(dir.path(), "bc"), BTreeMap::from([(100, 2.0), (5, 3.0), (7, 0.0), (far, 1.0)]));
    let scores = kernel(dir.path(), "pagerank --tolerance 1e-9 --iterations 1000");
    assert!((scores.values().sum::<f64>() - 1.0).abs() < 1e-6, "{scores:?}");
    // p7 = b + d (p5 / 2 + p7), p5 = b + d p100, p100 = b + d pfar, pfar = b + d p5 / 2, with b = 0.15 / 4.
    let (b, d) = (0.15 / 4.0, 0.85);
    let five = b * (1.0 + d + d * d) / (1.0 - d * d * d / 2.0);
    assert!((scores[&5] - five).abs() < 1e-6 && (scores[&7] - (b + d * five / 2.0) / (1.0 - d)).abs() < 1e-6);
    let told = run("graph run DIR/g pagerank --json", dir.path()).ok().json();
    assert_eq!((&told["kernel"], &told["top"][0][0]), (&"pagerank".into(), &7.into()));
    assert!(run("graph run DIR/g bfs --source 5", dir.path()).ok().text().contains("4 vertices reached"));
    let printed = run("graph run DIR/g bfs --source 7 --out -", dir.path()).ok();
    assert_eq!(printed.text(), format!("5\t-1\n7\t0\n100\t-1\n{far}\t-1\n"), "the values, and nothing else");
}

#[test]
fn an_undirected_graph_has_each_edge_from_both_sides() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "--undirected");
    assert_eq!(run("graph neighbors DIR/g 5", dir.path()).ok().text(), "7\n100\n1099511627776\n");
    assert_eq!(
        run("graph export DIR/g -", dir.path()).ok().text(),
        "# Undirected graph\n5\t7\n5\t100\n5\t1099511627776\n7\t7\n100\t1099511627776\n"
    );
    let dir = tempdir().expect("a directory");
    load(dir.path(), b"# Undirected graph\n1 2\n", "");
    assert_eq!(run("graph degree DIR/g 2", dir.path()).ok().text(), "1\n");
    let dir = tempdir().expect("a directory");
    load(dir.path(), b"", "");
    assert!(run("graph run DIR/g cc", dir.path()).ok().text().contains("0 components"));
    assert!(run("graph run DIR/g pagerank", dir.path()).ok().text().starts_with("pagerank over 0 vertices"));
}

#[test]
fn a_graph_of_the_layout_pma_changes_and_answers_as_a_static_one() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "");
    let stat = run("graph stat DIR/g --json", dir.path()).ok().json();
    assert_eq!((&stat["vertices"], &stat["edges"], &stat["layout"]), (&4.into(), &5.into(), &"pma".into()));
    // An id below all others, and one that is there no more: numbers are not in the order of ids.
    let added = biombo_with(words("graph add DIR/g - --json", dir.path()), b"3 100\n5 3\n5 3\n");
    let told: serde_json::Value = serde_json::from_slice(&added.stdout).expect("JSON");
    assert_eq!((added.status, &told["edges"], &told["vertices"]), (0, &3.into(), &5.into()), "{}", added.stderr);
    assert_eq!((&told["stored_edges_changed"], &told["stored_edges"]), (&2.into(), &7.into()), "one came twice");
    let deleted = biombo_with(words("graph delete DIR/g -", dir.path()), b"5 7\n9 9\n");
    let said = deleted.text();
    assert!(said.starts_with("deleted 1 stored edges of 2 edges read, in 1 groups"), "one was not there: {said}");
    assert!(said.ends_with("5 vertices and 6 stored edges now\n"), "{said}");
    assert_eq!(run("graph neighbors DIR/g 5", dir.path()).ok().text(), "3\n1099511627776\n");
    let listed = run("graph export DIR/g -", dir.path()).ok();
    assert_eq!(listed.text(), "3\t100\n5\t3\n5\t1099511627776\n7\t7\n100\t5\n1099511627776\t100\n");
    assert!(run("graph verify DIR/g", dir.path()).ok().text().contains("6 stored edges read, no damage"));
    let isolated = biombo_with(words("graph add DIR/g -", dir.path()), b"2 2\n");
    assert_eq!(isolated.status, 0, "{}", isolated.stderr);

    for layout in ["csr", "adjacency", "buffered"] {
        let told = run(&format!("graph run DIR/g cc --layout {layout} --json"), dir.path()).ok().json();
        assert_eq!((&told["layout"], &told["vertices"]), (&layout.into(), &6.into()));
    }

    // The same graph as a static one, of the same files.
    run("graph export DIR/g DIR/now.el", dir.path()).ok();
    run("graph load DIR/h DIR/now.el --directed --layout csr", dir.path()).ok();
    for command in ["bfs --source 100", "cc", "cc-sv --threads 2", "bc", "pagerank --tolerance 1e-9"] {
        let expected = {
            run(&format!("graph run DIR/h {command} --out DIR/out"), dir.path()).ok();
            fs::read_to_string(dir.path().join("out")).expect("the file was written")
        };
        for graph in [
            "g",
            "g --layout csr",
            "g --layout pma",
            "g --layout adjacency",
            "g --layout buffered",
            "h --layout pma",
            "h --layout adjacency",
            "h --layout buffered",
        ] {
            let (name, options) = graph.split_at(1);
            run(&format!("graph run DIR/{name} {command} {options} --out DIR/out"), dir.path()).ok();
            let found = fs::read_to_string(dir.path().join("out")).expect("the file was written");
            let ids = |text: &str| {
                text.lines().map(|line| line.split('\t').next().unwrap_or("").to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(ids(&found), ids(&expected), "{command} over {graph}");
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
            let value = |line: &str| line.split('\t').nth(1).and_then(|value| value.parse().ok()).unwrap_or(f64::NAN);
            let pairs = found.lines().map(value).zip(expected.lines().map(value));
            assert!(pairs.into_iter().all(near), "{command} over {graph}:\n{found}\n{expected}");
        }
    }
}

#[test]
fn changes_are_acknowledged_in_groups_and_refused_where_they_cannot_be() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "--undirected");
    let refuse = |args: &str, input: &[u8], said: &str| {
        let refused = biombo_with(words(args, dir.path()), input);
        assert_eq!((refused.status, refused.stderr.lines().count()), (1, 1), "{args}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
    };
    let many: String = (0..100_000).map(|n| format!("{} {}\n", n % 1000, n)).collect();
    let added = biombo_with(words("graph add DIR/g - --acks", dir.path()), many.as_bytes());
    let acks: Vec<u64> =
        added.text().lines().map(|line| line.strip_prefix("acked ").expect(line).parse().expect("a number")).collect();
    assert!(acks.len() >= 2 && acks.is_sorted() && acks.last() == Some(&100_000), "{acks:?}");
    refuse("graph add DIR/g -", b"1 2\nx\n", "standard input, line 2");
    refuse("graph add DIR/g -", b"1 2\nx\n", "1 edges before that were added");
    refuse("graph add DIR/g DIR/missing.el", b"", "missing.el");
    refuse("graph add DIR/none -", b"1 2\n", "there is no graph of the layout pma");
    refuse("graph load DIR/g -", b"1 2\n", "has a graph already");
    load_static(dir.path());
    refuse("graph delete DIR/static -", b"1 2\n", "--layout pma");
    assert!(!dir.path().join("none").exists(), "a refused change left something");
    fs::remove_dir_all(dir.path().join("g/journal")).expect("removed");
    assert!(run("graph verify DIR/g", dir.path()).text().contains("journal: offset 0: "));
}

fn load_static(dir: &Path) {
    let loaded = biombo_with(words("graph load DIR/static - --layout csr", dir), EDGES);
    assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""));
}

#[test]
fn a_graph_that_somebody_has_open_is_said_to_be() {
    is_said_to_be_open("");
    is_said_to_be_open("--media pmem");
}

fn is_said_to_be_open(media: &str) {
    use std::io::{BufRead, BufReader, Write};
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, media);
    let mut adding = std::process::Command::new(env!("CARGO_BIN_EXE_biombo"))
        .args(words("graph add DIR/g - --acks", dir.path()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = adding.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(adding.stdout.take().expect("a pipe"));
    // A line is acknowledged though the input goes on.
    input.write_all(b"1 2\n").and_then(|()| input.flush()).expect("written");
    let mut line = String::new();
    acks.read_line(&mut line).expect("read");
    assert_eq!(line, "acked 1\n");
    for args in ["graph add DIR/g -", "graph stat DIR/g", "graph load DIR/g -"] {
        let refused = biombo_with(words(args, dir.path()), b"3 4\n");
        assert_eq!((refused.status, refused.stderr.lines().count()), (1, 1), "{args}: {}", refused.stderr);
        let said = if args.contains("load") { "has a graph already" } else { "is open in process" };
        assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
    }
    // Killed: what was acknowledged is there, and the lock goes with the process.
    adding.kill().expect("killed");
    adding.wait().expect("ended");
    assert_eq!(run("graph neighbors DIR/g 1", dir.path()).ok().text(), "2\n");
}

#[test]
fn a_graph_on_persistent_memory_says_whether_that_is_played() {
    let dir = tempdir().expect("a directory");
    let loaded = biombo_with(words("graph load DIR/g - --media pmem", dir.path()), EDGES);
    assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""));
    assert!(loaded.text().contains("kept on pmem, "), "{}", loaded.text());
    let added = biombo_with(words("graph add DIR/g -", dir.path()), b"3 100\n5 3\n");
    assert_eq!(added.status, 0, "{}", added.stderr);
    let deleted = biombo_with(words("graph delete DIR/g -", dir.path()), b"5 7\n");
    assert_eq!(deleted.status, 0, "{}", deleted.stderr);
    let listed = run("graph export DIR/g -", dir.path()).ok();
    assert_eq!(listed.text(), "3\t100\n5\t3\n5\t1099511627776\n7\t7\n100\t5\n1099511627776\t100\n");
    assert!(run("graph verify DIR/g", dir.path()).ok().text().contains("6 stored edges read, no damage"));
    let stat = run("graph stat DIR/g --json", dir.path()).ok().json();
    assert_eq!((&stat["media"], &stat["layout"]), (&"pmem".into(), &"pma".into()));
    let (pmem, is_played) = (stat["pmem"].as_str().expect("what it is"), &stat["pmem_is_played"]);
    assert_eq!(*is_played, !pmem.contains("MAP_SYNC"), "{pmem}");
    assert_eq!(*is_played, pmem.contains("played by"), "{pmem}");
    let told = run("graph stat DIR/g", dir.path()).ok();
    assert!(told.text().contains(&format!("media         pmem, {pmem}")), "{}", told.text());

    let on_disk = |args: &str| run(&format!("graph stat DIR/{args} --json"), dir.path()).ok().json()["media"].clone();
    biombo_with(words("graph load DIR/h - --layout pma --media disk", dir.path()), EDGES);
    biombo_with(words("graph load DIR/i - --layout csr", dir.path()), EDGES);
    assert_eq!((on_disk("h"), on_disk("i")), ("disk".into(), "disk".into()));
    for (args, status, said) in [
        ("graph load DIR/j - --layout pma --media dram", 2, "disk or pmem"),
        ("graph load DIR/j - --layout adjacency", 2, "kept as pma"),
        ("graph load DIR/j - --layout buffered --media pmem", 2, "kept as pma"),
        ("graph load DIR/g - --layout pma", 1, "has a graph already"),
        ("graph load DIR/h - --layout pma --media pmem", 1, "has a graph already"),
    ] {
        let refused = biombo_with(words(args, dir.path()), EDGES);
        assert_eq!((refused.status, refused.stderr.lines().count()), (status, 1), "{args}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
    }
    assert!(!dir.path().join("j").exists(), "a refused load left something");
    // A root cut off is told, and no panic or signal.
    fs::write(dir.path().join("g/graph.pmem"), b"BIOMBOPM").expect("written");
    let damaged = run("graph verify DIR/g", dir.path());
    assert_eq!((damaged.status, damaged.stderr.lines().count()), (1, 1), "{}", damaged.stderr);
    assert!(damaged.text().contains("graph.pmem: offset 8: "), "{}", damaged.text());
    fs::write(dir.path().join("g/graph.pmem"), b"").expect("written");
    let damaged = run("graph verify DIR/g", dir.path());
    assert!(damaged.text().contains("graph.pmem: offset 0: the file is empty"), "{}", damaged.text());
}

#[test]
fn a_bench_of_graphs_runs_layouts_in_turns_and_measures_ingest() {
    let dir = tempdir().expect("a directory");
    let bench = "bench graph --graph kron:9:8 --layout csr,pma,adjacency,buffered --kernel bfs,pagerank --threads 1,2 --trials 2 \
                 --churn 0.1 --dir DIR --json DIR/lines";
    let told = run(&format!("{bench} --ingest --media dram,disk,pmem"), dir.path()).ok();
    let dynamic = ["pma", "adjacency", "buffered"];
    let ingest = |layout: &str| ["dram", "disk", "pmem"].map(|media| format!("ingest   {layout:9} {media}"));
    let churn = dynamic.map(|layout| format!("churn    {layout}"));
    let others = ["512 vertices", "load     csr", "load     adjacency", "pagerank"].map(str::to_owned);
    for word in dynamic.map(ingest).iter().flatten().chain(&churn).chain(&others) {
        assert!(told.text().contains(word), "{word}: {}", told.text());
    }
    let lines = fs::read_to_string(dir.path().join("lines")).expect("the lines");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |step: &str| lines.iter().filter(|line| line["step"] == step).collect::<Vec<_>>();
    for line in lines.iter().filter(|line| line["media"] == "pmem") {
        let behind = line["pmem"].as_str().expect("what is behind it");
        assert_eq!(line["pmem_is_played"], behind.starts_with("played by "), "{line}");
        assert!(told.text().contains(&format!("pmem ({behind})")), "{behind}: {}", told.text());
    }
    // For each number of threads: nine, four and csr on pmem, three; two kernels twice over four layouts and csr on pmem.
    assert_eq!((of("ingest").len(), of("load").len(), of("churn").len(), of("kernel").len()), (18, 10, 6, 40));
    let layouts: Vec<_> = of("kernel").iter().take(5).map(|line| line["layout"].clone()).collect();
    assert_eq!(layouts, ["csr", "csr", "pma", "adjacency", "buffered"], "in turns");
    assert!(of("load").iter().chain(&of("ingest")).all(|line| line["bytes_per_edge"].as_f64() > Some(4.0)));
    let help = run("bench graph --help", dir.path()).ok();
    assert!(
        ["csr", "pma", "adjacency", "buffered"].iter().all(|layout| help.text().contains(layout)),
        "{}",
        help.text()
    );
    assert!(of("kernel").iter().all(|line| line["verified"] == true && line["layout"].is_string()));
    let answers: Vec<_> =
        of("kernel").iter().filter(|line| line["kernel"] == "bfs").map(|line| &line["answer"]).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let listed =
        run("bench graph --graph uniform:6:4 --kernel cc --layout pma --trials 1 --nodes 1 --json -", dir.path()).ok();
    assert_eq!(listed.text().lines().count(), 2, "a load and a kernel: {}", listed.text());
    let two = "bench graph --graph uniform:6:4 --kernel cc --layout buffered,adjacency --ingest --trials 1 --nodes 1 \
               --json -";
    let listed = run(two, dir.path()).ok();
    assert_eq!(listed.text().lines().count(), 6, "of each an ingest, a load and a kernel: {}", listed.text());
    let single =
        "bench graph --graph kron:5:4 --kernel cc --layout pma --ingest --batch 1 --media dram,pmem --trials 1";
    let told = run(&format!("{single} --json DIR/single"), dir.path()).ok();
    assert!(
        told.text().contains("after ingest into pma on dram, 1 thread, batches of 1: a snapshot took"),
        "{}",
        told.text()
    );
    assert!(told.text().contains(" s (none was due in the figure)"), "{}", told.text());
    let lines = fs::read_to_string(dir.path().join("single")).expect("the lines");
    let kept = lines.lines().find(|line| line.contains("\"media\":\"pmem\"")).expect("a line of pmem");
    let kept: serde_json::Value = serde_json::from_str(kept).expect("JSON");
    assert_eq!((&kept["batch"], kept["checkpoint_seconds"].is_f64()), (&1.into(), true), "{kept}");
    if fs::exists("/dev/full").is_ok_and(|is_there| is_there) {
        let broken = run("bench graph --graph kron:5:4 --kernel cc --trials 1 --json /dev/full", dir.path());
        assert!(broken.status == 1 && broken.stderr.contains("cannot write /dev/full"), "{}", broken.stderr);
        assert!(broken.text().contains("stored edges"), "what was measured is shown: {}", broken.text());
    }
    for (args, status, said) in [
        ("--graph kron:4:4 --ingest --batch 0", 2, "--batch"),
        ("--graph kron:4:4 --batch 5", 2, "--ingest"),
        ("--graph kron:99:1", 2, "scale 99 is too large"),
        ("--graph kron:8", 2, "--graph"),
        ("--graph kron:4:4 --layout csr --churn 0.1", 2, "--churn is of graphs that change"),
        ("--graph kron:4:4 --layout csr --stream 5", 2, "--stream is of graphs that change"),
        ("--graph kron:4:4 --media disk", 2, "it needs --ingest"),
        ("--graph kron:4:4 --layout pma --media dram,pmem", 2, "--ingest or --layout csr"),
        ("--graph DIR/missing", 1, "missing"),
        ("--graph kron:4:4 --layout adjacent", 2, "adjacent"),
        ("--graph kron:4:4 --churn 2", 2, "--churn"),
        ("--graph kron:4:4 --trials 0", 2, "--trials"),
        ("--graph kron:4:4 --threads 0", 2, "--threads"),
        ("--graph kron:4:4 --layout csr --ingest", 2, "--layout pma"),
        ("--graph kron:4:4 --placement blocks", 2, "blocks"),
        ("--graph kron:4:4 --nodes 0", 2, "--nodes are 1 to 64"),
        ("--graph kron:4:4 --nodes 65", 2, "--nodes are 1 to 64"),
        ("--graph kron:4:4 --allocation anywhere", 2, "anywhere"),
        ("--graph kron:4:4 --bind both", 2, "both"),
        ("--graph kron:4:4 --bind remote --allocation interleave", 2, "needs --allocation bind"),
        ("--graph kron:4:4 --json DIR/no/where", 1, "cannot write"),
    ] {
        let refused = run(&format!("bench graph {args}"), dir.path());
        assert_eq!(refused.status, status, "{args}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args}: {}", refused.stderr);
    }
}

#[test]
fn placements_on_nodes_run_in_turns_with_the_same_answers_and_their_edges_are_shown() {
    let dir = tempdir().expect("a directory");
    let all = ["block", "round-robin", "block-cyclic", "degree"];
    let bench = "bench graph --graph kron:12:8 --kernel bfs,pagerank --trials 2 --threads 2 --nodes 2 --json DIR/lines";
    let told = run(&format!("{bench} --placement {},auto", all.join(",")), dir.path()).ok();
    for word in all.iter().copied().chain(["edges of each node", "auto, bfs: ", "auto, pagerank: ", "placement"]) {
        assert!(told.text().contains(word), "{word}: {}", told.text());
    }
    let lines = fs::read_to_string(dir.path().join("lines")).expect("the lines");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["nodes"] == 2 && line["bind"] == "round-robin"), "{lines:?}");
    let of = |step: &str| lines.iter().filter(|line| line["step"] == step).collect::<Vec<_>>();
    // Two kernels, two trials, two layouts, five placements.
    assert_eq!((of("load").len(), of("placement").len(), of("kernel").len()), (2, 4, 40));
    for kernel in ["bfs", "pagerank"] {
        let of_kernel: Vec<_> = of("kernel").into_iter().filter(|line| line["kernel"] == kernel).collect();
        assert!(of_kernel.iter().all(|line| line["verified"] == true && line["answer"] == of_kernel[0]["answer"]));
        let placements: Vec<&str> = of_kernel.iter().filter_map(|line| line["placement"].as_str()).collect();
        assert_eq!(placements[..4], all, "in turns");
        assert!(of_kernel.iter().all(|line| line["why"].is_string() == (line["why"] != serde_json::Value::Null)));
        assert_eq!(of_kernel.iter().filter(|line| line["why"].is_string()).count(), 4);
    }
    for (line, placement) in of("placement").iter().zip(all) {
        let edges: Vec<u64> = serde_json::from_value(line["edges_per_node"].clone()).expect("numbers");
        assert_eq!((&line["placement"], edges.len()), (&placement.into(), 2));
        assert_eq!(line["edges"], edges.iter().sum::<u64>());
    }
    // What was not done is said, wherever this runs: it has one node, or two that memory goes to.
    let is_virtual = lines.iter().any(|line| line["not_done"].as_str().is_some_and(|what| what.contains("virtual")));
    assert_eq!(told.text().contains("nodes are virtual"), is_virtual);
    for options in
        ["--bind none", "--bind local", "--bind remote", "--allocation interleave", "--allocation first-touch"]
    {
        let bench =
            "bench graph --graph kron:9:8 --kernel cc --trials 1 --threads 2 --nodes 2 --placement degree --json -";
        let told = run(&format!("{bench} {options}"), dir.path()).ok();
        let value = options.split(' ').nth(1).expect("a value");
        let is_told = |line: &str| line.contains(&format!("\"{value}\"")) && line.contains("\"placement\":");
        assert!(told.text().lines().all(is_told), "{options}: {}", told.text());
    }
}

#[test]
fn the_edges_of_each_node_are_shown_for_a_graph_that_is_kept() {
    let dir = tempdir().expect("a directory");
    load(dir.path(), EDGES, "");
    // The ids 5, 7, 100 and 2^40 are vertices 0 to 3; 1, 2, 1 and 1 edges lead there. All four are in one unit of 1,024.
    let stat = run("graph stat DIR/g --nodes 2 --json", dir.path()).ok().json();
    let edges = &stat["edges_per_node"];
    assert_eq!(edges["round-robin"], serde_json::json!([2, 3]), "{stat}");
    for placement in ["block", "block-cyclic", "degree"] {
        assert_eq!(edges[placement], serde_json::json!([5, 0]), "{placement}: {stat}");
    }
    let told = run("graph stat DIR/g --nodes 2", dir.path()).ok();
    assert!(told.text().contains("round-robin   2 (40.00 %)  3 (60.00 %)"), "{}", told.text());
    let one = run("graph stat DIR/g --json", dir.path()).ok().json();
    assert!(one.get("edges_per_node").is_none(), "{one}");
    for nodes in ["0", "65", "x"] {
        let refused = run(&format!("graph stat DIR/g --nodes {nodes}"), dir.path());
        assert_eq!((refused.status, refused.stderr.lines().count() > 0), (2, true), "{nodes}");
    }
}

/// Fails when in-edges are part of the bytes of an edge, or are not told at all.
#[test]
fn what_in_edges_take_is_told_apart() {
    let dir = tempdir().expect("a directory");
    let many: String = (0..30_000u64).map(|n| format!("{} {}\n", n * 7919 % 5000, n * n % 5000)).collect();
    for layout in ["csr", "pma"] {
        for kind in ["directed", "undirected"] {
            let load = format!("graph load DIR/{layout}-{kind} - --layout {layout} --{kind}");
            assert_eq!(biombo_with(words(&load, dir.path()), many.as_bytes()).status, 0);
        }
        let stat = |kind: &str| run(&format!("graph stat DIR/{layout}-{kind} --json"), dir.path()).ok().json();
        let directed = stat("directed");
        let figure = |name: &str| directed[name].as_f64().expect(name);
        let (all, inward, edges) = (figure("memory_bytes"), figure("in_edges_memory_bytes"), figure("edges"));
        assert!((figure("bytes_per_edge") - (all - inward) / edges).abs() < 1e-9, "{directed}");
        assert!((figure("bytes_per_in_edge") - inward / edges).abs() < 1e-9 && inward > 4.0 * edges, "{directed}");
        let text = run(&format!("graph stat DIR/{layout}-directed"), dir.path()).ok();
        assert!(text.text().contains("per stored edge, without in-edges\nin-edges "), "{}", text.text());
        assert!(stat("undirected").get("in_edges_memory_bytes").is_none(), "its edges are stored at both ends anyway");
    }
}

#[test]
fn what_is_durable_is_told_when_it_is() {
    let dir = tempdir().expect("a directory");
    for layout in ["csr", "pma"] {
        let loaded =
            biombo_with(words(&format!("graph load DIR/{layout} - --acks --layout {layout}"), dir.path()), EDGES);
        assert_eq!((loaded.status, loaded.text().lines().next()), (0, Some("acked 6")));
    }
}

#[test]
fn updates_come_in_while_kernels_run_and_a_page_shows_what_was_measured() {
    let dir = tempdir().expect("a directory");
    let bench = "bench graph --graph orkut-like:0.0003 --kernel cc --trials 2 --threads 1,2 --stream 20000 --html DIR/page.html";
    let done = run(bench, dir.path()).ok();
    let text = done.text();
    assert!(text.contains("updates a second in while kernels ran") && text.contains("report: "), "{text}");
    let page = fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(page.contains("pma, 2 threads") && page.contains("times as fast as csr with 1 thread"));
    for (args, said) in
        [("--layout csr --stream 5", "--layout pma"), ("--stream 0", "--stream"), ("--html DIR/no/page", "no/page")]
    {
        let refused = run(&format!("bench graph --graph kron:4:4 {args}"), dir.path());
        assert!(refused.status != 0 && refused.stderr.contains(said), "{args}: {}", refused.stderr);
    }
}

#[test]
fn the_published_experiment_on_graphs_is_done_with_published_beside_measured() {
    let dir = tempdir().expect("a directory");
    let done = run("reproduce dgap-numa --scale 0.0003 --html DIR/again.html --json", dir.path()).ok();
    let found = done.json();
    assert_eq!(found["name"], "dgap-numa");
    let figures = found["figures"].as_array().expect("figures");
    // For each number of threads, two at least, four kernels with seven figures on both graphs; and four shares of edges.
    assert!(figures.len() >= 116 && (figures.len() - 4).is_multiple_of(56), "{}", figures.len());
    assert!(figures.iter().all(|figure| figure["measured"].is_f64()), "{figures:?}");
    assert!(figures.iter().filter(|figure| figure["interval"].is_array()).count() == figures.len() - 4, "{figures:?}");
    let answers = &found["findings"][6];
    assert_eq!(answers["verdict"], "holds");
    let page = fs::read_to_string(dir.path().join("again.html")).expect("a page");
    assert!(page.contains("Published and measured") && page.contains("orkut-like:0.0003"));
}

/// Placements change no answer; what is said at loading is kept, what is said of a run wins.
#[test]
fn kernels_run_under_the_placement_that_a_graph_was_loaded_with() {
    let dir = tempdir().expect("a directory");
    let many: String = (0..20_000u64).map(|n| format!("{} {}\n", n * 7919 % 5000, n * n % 5000)).collect();
    for layout in ["csr", "pma"] {
        let load = format!("graph load DIR/{layout} - --layout {layout} --placement round-robin --nodes 2");
        assert_eq!(biombo_with(words(&load, dir.path()), many.as_bytes()).status, 0);
        let rank = |options: &str| {
            let ran =
                run(&format!("graph run DIR/{layout} pagerank --threads 2 --json --out DIR/out {options}"), dir.path());
            let json = ran.ok().json();
            (json["placement"].clone(), json["nodes"].clone(), fs::read(dir.path().join("out")).expect("scores"))
        };
        let kept = rank("");
        assert_eq!((&kept.0, &kept.1), (&"round-robin".into(), &2.into()));
        let other = rank("--placement degree --nodes 3");
        assert_eq!((&other.0, &other.1), (&"degree".into(), &3.into()));
        let one = rank("--nodes 1");
        assert!(one.0.is_null() && one.2 == kept.2 && other.2 == kept.2, "{layout}: another answer");
        assert!(rank("--placement auto").0.is_string());
        fs::write(dir.path().join(layout).join("NODES"), "nonsense").expect("written");
        let refused = run(&format!("graph run DIR/{layout} pagerank"), dir.path());
        assert!(refused.status == 1 && refused.stderr.contains("NODES is damaged"), "{}", refused.stderr);
    }
    let refused = run("graph load DIR/x - --nodes 65", dir.path());
    assert!(refused.status == 2 && refused.stderr.contains("--nodes are 1 to 64"), "{}", refused.stderr);
}
