//! README's examples of graphs on real data: SNAP's files as downloaded, and the package dependency graph of a Debian machine.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Run, run};
use tempfile::tempdir;

/// Fails for a field, an alternative, a version or an architecture that is taken for a name, and for a name that is given to another number.
#[test]
fn packages_are_ranked_by_what_depends_on_them_before_and_after_updates() {
    let dir = tempdir().expect("a directory");
    let status = "Package: app\nVersion: 1:2.0-3\nDepends: libfoo (>= 1.2), libc6 | libc6-alt, python3:any\n\
                  Description: Depends: on nothing\n Depends: nothing\n\n\
                  Package: libfoo\nPre-Depends: libc6 (>> 2), libc6\n\n\
                  Package: tool\nDepends: libc6, libfoo [amd64]\nRecommends: app\n\nPackage: libc6\n";
    fs::write(dir.path().join("status"), status).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package-graph.sh");
    let ranked = Command::new(script)
        .arg(env!("CARGO_BIN_EXE_biombo"))
        .env("BIOMBO_PACKAGES", dir.path().join("status"))
        .env("BIOMBO_PACKAGE_GRAPH", dir.path().join("made"))
        .stdin(Stdio::null())
        .output();
    let ranked = Run::of(ranked.expect("the script runs")).ok();
    let text = ranked.text();
    // app to libfoo, libc6, libc6-alt and python3; libfoo to libc6 twice; tool to libc6 and libfoo.
    assert!(text.starts_with("6 packages named by 8 dependencies"), "{text}");
    let first: Vec<&str> = text.lines().filter(|line| line.starts_with("   1  ")).collect();
    assert!(first.len() == 3 && first[0].ends_with("  libc6") && first[1].ends_with("  libc6"), "{text}");
    assert!(first[2].ends_with("  libfoo") && text.contains("deleted 3 stored edges"), "{text}");
    assert!(text.contains("added 1 stored edges") && text.contains("no damage"), "{text}");
    let names = fs::read_to_string(dir.path().join("made/names.tsv")).expect("the names");
    let number = |name: &str| {
        let line = names.lines().find(|line| line.split('\t').nth(1) == Some(name)).expect(name);
        line.split('\t').next().expect("a number").to_owned()
    };
    let uses = run(&format!("graph neighbors DIR/made/graph {}", number("tool")), dir.path()).ok();
    let uses: Vec<&str> = uses.text().lines().collect();
    assert_eq!(uses.len(), 2, "libfoo, and app, which is recommended; no longer libc6: {uses:?}");
    assert!(uses.contains(&number("libfoo").as_str()) && uses.contains(&number("app").as_str()), "{uses:?}");

    let none = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package-graph.sh"))
        .arg(env!("CARGO_BIN_EXE_biombo"))
        .env("BIOMBO_PACKAGES", dir.path().join("nosuch"))
        .output();
    let none = Run::of(none.expect("the script runs"));
    assert!(none.status == 1 && none.stderr.contains("no Debian package database"), "{}", none.stderr);
}

#[test]
fn files_of_snap_are_loaded_as_downloaded() {
    let dir = tempdir().expect("a directory");
    let votes = "# Directed graph (each unordered pair of nodes is saved once): Wiki-Vote.txt \n\
                 # Wikipedia voting on promotion to administratorship (till January 2008). Directed edge A->B means user A voted on B\n\
                 # Nodes: 4 Edges: 4\n# FromNodeId\tToNodeId\n30\t1412\n30\t3352\n3352\t5254\r\n5254\t30\n";
    let orkut = "# Undirected graph: ../../data/output/orkut.txt\n# ORKUT\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n1\t2\n1\t3\n";
    for (name, text, is_directed, edges) in [("wiki-Vote", votes, true, 4), ("com-orkut.ungraph", orkut, false, 4)] {
        let plain = dir.path().join(format!("{name}.txt"));
        fs::write(&plain, text).expect("written");
        let zipped = Command::new("gzip").arg("-k").arg(&plain).status();
        assert!(zipped.expect("gzip runs").success());
        for end in ["txt", "txt.gz"] {
            run(&format!("graph load DIR/{name}.{end}.graph DIR/{name}.{end}"), dir.path()).ok();
            let stat = run(&format!("graph stat DIR/{name}.{end}.graph --json"), dir.path()).ok().json();
            assert_eq!(
                (&stat["directed"], &stat["edges"]),
                (&is_directed.into(), &edges.into()),
                "{name}.{end}: {stat}"
            );
        }
    }
    assert_eq!(run("graph neighbors DIR/wiki-Vote.txt.gz.graph 30", dir.path()).ok().text(), "1412\n3352\n");
}
