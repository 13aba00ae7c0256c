//! Real graphs, which are no part of the project: one edge a line, `source destination` and perhaps more, compressed with zstd.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use biombo_planner::{AccessGraph, GraphBuilder, Part, Vertex};

/// The graphs that there are, smallest file first. `BIOMBO_GRAPHS` names their folder; else it is looked for beside the project.
pub fn files() -> Vec<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    let folder = std::env::var_os("BIOMBO_GRAPHS").map_or_else(beside, PathBuf::from);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
    files.sort_by_key(|path| (path.metadata().map_or(0, |meta| meta.len()), path.clone()));
    files
}

/// What a file is called without its endings.
pub fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The undirected graph of a file: ids numbered as they come, loops left out, each edge with the number of its lines as weight. A unit has
/// load 1 and 1 byte, and is at part 0.
pub fn read(path: &Path) -> AccessGraph {
    let text = ruzstd::decoding::StreamingDecoder::new(BufReader::new(File::open(path).expect("the file opens")));
    let mut builder = GraphBuilder::new();
    let mut numbers: HashMap<u64, Vertex> = HashMap::new();
    for line in BufReader::new(text.expect("a zstd frame")).lines() {
        let line = line.expect("text");
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse::<u64>().expect("a number"));
        let (Some(a), Some(b)) = (fields.next(), fields.next()) else { continue };
        let mut vertex = |id| *numbers.entry(id).or_insert_with(|| builder.vertex(1, 1, Part(0)).expect("a vertex"));
        let (a, b) = (vertex(a), vertex(b));
        if a != b {
            builder.edge(a, b, 1).expect("an edge");
        }
    }
    builder.build()
}
