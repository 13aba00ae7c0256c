//! The kernels' answers beside those of NetworkX, on drawn graphs and on the small real ones: scores within 2e-6 (PageRank) and 1e-9
//! (betweenness) of themselves, depths and components exactly. What a vertex gives PageRank rounds to `f32`, and sums of eight, so that each
//! part of a sum is wrong by at most 4 times 2^-24 of itself, and a score by that over 1 - 0.85: 1.6e-6. Where there is no Python with NetworkX (Debian: python3-networkx), the tests say so and pass.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::kill::Dice;
use common::run;
use tempfile::tempdir;

/// Its argument is a file of JSON: `nodes`, `edges` (both may be left out for a file `edge_list`), `directed`, `source`, `sources` (of betweenness; all
/// where it is empty), and `answers`, the files of vertex, tab, value by kernel.
const COMPARE: &str = r#"
import json, sys
try:
    import networkx as nx
except ImportError:
    print("no networkx")
    sys.exit(0)
with open(sys.argv[1]) as file:
    task = json.load(file)
graph = nx.DiGraph() if task["directed"] else nx.Graph()
graph.add_nodes_from(task.get("nodes", []))
graph.add_edges_from(task.get("edges", []))
if "edge_list" in task:
    with open(task["edge_list"]) as lines:
        graph.add_edges_from(tuple(map(int, line.split())) for line in lines if not line.startswith('#'))

def compare(kernel, expected, tolerance, relative=0.0):
    with open(task["answers"][kernel]) as lines:
        pairs = [line.split("\t") for line in lines]
    found = {int(vertex): float(value) for vertex, value in pairs}
    if len(pairs) != len(expected) or found.keys() != expected.keys():
        sys.exit(f"{kernel}: {len(pairs)} vertices, and not the {len(expected)} of the graph")
    for vertex, value in expected.items():
        if abs(found[vertex] - value) > tolerance + relative * abs(value):
            sys.exit(f"{kernel}: vertex {vertex} has {found[vertex]!r}, and NetworkX says {value!r}")

options = dict(alpha=0.85, max_iter=1000, tol=1e-9 / max(1, len(graph)))
try:
    ranks = nx.pagerank(graph, **options)
except ImportError:  # It wants SciPy, and has the same in Python.
    from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python
    ranks = _pagerank_python(graph, **options)
compare("pagerank", ranks, 1e-9, 2e-6)
components = nx.weakly_connected_components(graph) if task["directed"] else nx.connected_components(graph)
labels = {vertex: min(component) for component in components for vertex in component}
compare("cc", labels, 0)
compare("cc-sv", labels, 0)
depths = dict.fromkeys(graph, -1) | dict(nx.single_source_shortest_path_length(graph, task["source"]))
compare("bfs", depths, 0)
# Each pair of ends from both sides.
both = graph if task["directed"] else graph.to_directed()
sources = task["sources"] or list(both)
compare("bc", nx.betweenness_centrality_subset(both, sources, list(both), normalized=False), 1e-9, 1e-9)
print(f"{len(graph)} vertices and {graph.number_of_edges()} edges: all as NetworkX {nx.__version__}")
"#;

/// A graph that was loaded, and what Python is to know of it.
struct Task<'a> {
    dir: &'a Path,
    graph: &'a str,
    json: serde_json::Value,
    source: u64,
    sources: &'a [u64],
}

impl Task<'_> {
    /// Run every kernel and compare; false where there is no NetworkX.
    fn compared(mut self) -> bool {
        let bc: String = self.sources.iter().map(|source| format!(" --source {source}")).collect();
        let mut answers = serde_json::Map::new();
        for (kernel, options) in [
            ("pagerank", " --tolerance 1e-12 --iterations 1000".to_owned()),
            ("cc", String::new()),
            ("cc-sv", " --layout buffered".to_owned()),
            ("bfs", format!(" --source {} --layout adjacency", self.source)),
            ("bc", bc),
        ] {
            let out = format!("{}-{kernel}.tsv", self.graph);
            run(&format!("graph run DIR/{} {kernel} --threads 2 --out DIR/{out}{options}", self.graph), self.dir).ok();
            answers.insert(kernel.to_owned(), self.dir.join(out).display().to_string().into());
        }
        self.json["answers"] = answers.into();
        self.json["source"] = self.source.into();
        self.json["sources"] = self.sources.into();
        let task = self.dir.join("task.json");
        fs::write(&task, self.json.to_string()).expect("written");
        let python = Command::new("python3")
            .arg("-")
            .arg(&task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut python) = python else {
            println!("skipped: no python3 here");
            return false;
        };
        python.stdin.take().expect("a pipe").write_all(COMPARE.as_bytes()).expect("Python reads its program");
        let python = python.wait_with_output().expect("Python ends");
        let (told, wrong) = (String::from_utf8_lossy(&python.stdout), String::from_utf8_lossy(&python.stderr));
        assert!(python.status.success(), "{}: {wrong}", self.graph);
        if told.trim() == "no networkx" {
            println!("skipped: python3 has no networkx (Debian: python3-networkx)");
            return false;
        }
        println!("{}: {}", self.graph, told.trim());
        true
    }
}

/// Edges between ids that are not dense, skewed, with loops, repeated ones, and vertices that nothing leaves.
fn drawn(seed: u64, vertices: u64, edges: u64) -> Vec<(u64, u64)> {
    let mut dice = Dice(seed);
    let id = |vertex: u64| vertex * vertex * 3 + (vertex % 7) * (1 << 33);
    (0..edges)
        .map(|_| {
            let (a, b) = (dice.below(vertices), dice.below(vertices));
            // The larger numbers have in-edges alone.
            (id(a.min(b) * dice.below(4) / 3), id(dice.below(a.max(b) + 1)))
        })
        .collect()
}

#[test]
fn every_kernel_says_what_networkx_says_of_drawn_graphs() {
    for (seed, vertices, edges) in [(1, 40, 30), (2, 60, 200), (3, 300, 900), (4, 300, 3_000)] {
        for is_directed in [true, false] {
            let dir = tempdir().expect("a directory");
            let edges = drawn(seed, vertices, edges);
            let mut text = String::new();
            for (a, b) in &edges {
                writeln!(text, "{a} {b}").expect("a string takes everything");
            }
            fs::write(dir.path().join("g.el"), text).expect("written");
            let kind = if is_directed { "directed" } else { "undirected" };
            run(&format!("graph load DIR/g DIR/g.el --{kind}"), dir.path()).ok();
            let nodes: BTreeSet<u64> = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
            let json = serde_json::json!({ "nodes": nodes, "edges": edges, "directed": is_directed });
            let task = Task { dir: dir.path(), graph: "g", json, source: edges[0].0, sources: &[] };
            if !task.compared() {
                return;
            }
        }
    }
}

#[test]
fn every_kernel_says_what_networkx_says_of_a_matrix_with_isolated_vertices() {
    let dir = tempdir().expect("a directory");
    let matrix = "%%MatrixMarket matrix coordinate pattern symmetric\n9 9 6\n2 1\n3 2\n3 1\n5 4\n6 5\n8 8\n";
    fs::write(dir.path().join("g.mtx"), matrix).expect("written");
    run("graph load DIR/g DIR/g.mtx", dir.path()).ok();
    let nodes: Vec<u64> = (1..10).collect();
    let edges = [(2, 1), (3, 2), (3, 1), (5, 4), (6, 5), (8, 8)];
    let json = serde_json::json!({ "nodes": nodes, "edges": edges, "directed": false });
    Task { dir: dir.path(), graph: "g", json, source: 5, sources: &[] }.compared();
}

#[test]
fn every_kernel_says_what_networkx_says_of_the_small_real_graphs() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    let folder = std::env::var_os("BIOMBO_GRAPHS").map_or_else(beside, PathBuf::from);
    for (name, is_directed) in [("ego-Facebook", false), ("wiki-Vote", true)] {
        let file = folder.join(format!("{name}.el.zst"));
        if !file.is_file() {
            println!("skipped: {name} is not here; BIOMBO_GRAPHS names a folder of real graphs");
            continue;
        }
        let dir = tempdir().expect("a directory");
        let kind = if is_directed { "directed" } else { "undirected" };
        let line = format!("graph load DIR/{name} FILE --{kind}");
        let words = common::words(&line, dir.path()).into_iter();
        common::biombo(words.map(|word| word.replace("FILE", &file.display().to_string()))).ok();
        run(&format!("graph export DIR/{name} DIR/{name}.el"), dir.path()).ok();
        let list = dir.path().join(format!("{name}.el"));
        let text = fs::read_to_string(&list).expect("the edges");
        let edges = text.lines().filter(|line| !line.starts_with('#'));
        let mut ids = edges.map(|line| line.split('\t').next().and_then(|id| id.parse().ok()).expect("an id"));
        let sources: Vec<u64> = (0..3).filter_map(|_| ids.nth(1_000)).collect();
        let json = serde_json::json!({ "edge_list": list.display().to_string(), "directed": is_directed });
        let task = Task { dir: dir.path(), graph: name, json, source: sources[0], sources: &sources };
        if !task.compared() {
            return;
        }
    }
}
