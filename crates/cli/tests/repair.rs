//! `biombo repair`, end to end: damage in every kind of file of a store over the engine log.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::{biombo_with, has_engine, run};
use tempfile::tempdir;

fn scanned(run: &common::Run) -> BTreeMap<String, String> {
    let lines = run.text().lines().map(|line| line.split_once('\t').expect("a record"));
    lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_damaged_store_is_repaired_and_keeps_all_but_the_damaged_record() {
    if !has_engine("log") {
        return;
    }
    for layout in ["--partitions 4", "--partitioning none"] {
        let dir = tempdir().expect("a directory");
        let input: String = (0..400).map(|n| format!("key{n:04}\tvalue {n} {}\n", "x".repeat(50))).collect();
        let load = format!("load DIR/s - --engine log --durability os {layout}");
        biombo_with(common::words(&load, dir.path()), input.as_bytes()).ok();
        let whole = scanned(&run("scan DIR/s", dir.path()).ok());
        assert_eq!(whole.len(), 400);
        let nothing = run("repair DIR/s --json", dir.path()).ok().json();
        assert_eq!((&nothing["keys"], &nothing["losses"]), (&400.into(), &0.into()));

        // A value, in the middle of one partition.
        let needle = b"key0123value 123 ";
        let (file, at) = find(&dir.path().join("s"), needle).expect("the record lies in a segment");
        let mut bytes = fs::read(&file).expect("a segment");
        bytes[at + needle.len() + 3] ^= 4;
        fs::write(&file, &bytes).expect("written");
        assert_eq!(run("get DIR/s key0001", dir.path()).status, 1, "it does not open");
        // What is damaged is told all the same, with what to do; and nothing is changed.
        let verified = run("verify DIR/s", dir.path());
        let begin = format!("{}: offset ", file.display());
        assert!(verified.text().starts_with(&begin) && verified.text().lines().count() == 1, "{}", verified.text());
        let next = format!("in 1 place, and does not open: `biombo repair {}`", dir.path().join("s").display());
        assert!(verified.status == 1 && verified.stderr.contains(&next), "{}", verified.stderr);
        let verified = run("verify DIR/s --json", dir.path());
        let told: Vec<serde_json::Value> =
            verified.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((told.len(), &told[1]["damages"], told[1]["keys"].is_null()), (2, &1.into(), true), "{told:?}");
        let repaired = run("repair DIR/s", dir.path()).ok();
        let text = repaired.text();
        assert!(text.contains("; key key0123\n") && text.contains("1 damage; 399 keys"), "{text}");
        let mut expected = whole.clone();
        expected.remove("key0123");
        assert!(scanned(&run("scan DIR/s", dir.path()).ok()) == expected);
        run("verify DIR/s", dir.path()).ok();

        // The manifest and the header of a segment: nothing is lost.
        let home = file.parent().expect("the log's directory");
        let segment = fs::read_dir(home).expect("a directory").map(|entry| entry.expect("an entry").path());
        let segment = segment.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).max();
        for (path, at) in [(home.join("MANIFEST"), 17), (segment.expect("a segment"), 20)] {
            let mut bytes = fs::read(&path).expect("a file");
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("written");
            let repaired = run("repair DIR/s --json", dir.path()).ok();
            assert!(repaired.text().lines().count() > 1, "{}", repaired.text());
            assert!(scanned(&run("scan DIR/s", dir.path()).ok()) == expected, "{}", path.display());
        }
        biombo_with(common::words("put DIR/s key0123 again", dir.path()), b"").ok();
        assert_eq!(run("count DIR/s", dir.path()).ok().text().trim(), "400");
    }
}

#[test]
fn what_cannot_be_repaired_is_refused_with_a_reason() {
    let dir = tempdir().expect("a directory");
    biombo_with(common::words("load DIR/s - --engine lmdb", dir.path()), b"a\tb\n").ok();
    let refused = run("repair DIR/s", dir.path());
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("lmdb cannot be repaired"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`biombo scan`"), "{}", refused.stderr);
    if has_engine("tkrzw-hash") {
        biombo_with(common::words("load DIR/h - --engine tkrzw-hash", dir.path()), b"a\tb\n").ok();
        let refused = run("repair DIR/h", dir.path());
        assert!(refused.stderr.contains("restore a backup"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("scan"), "it has no order, and scans are refused: {}", refused.stderr);
    }
    // The store's own file.
    let manifest = dir.path().join("s/MANIFEST");
    let mut text = fs::read(&manifest).expect("a manifest");
    text[3] ^= 1;
    fs::write(&manifest, text).expect("written");
    for command in ["repair DIR/s", "verify DIR/s"] {
        let refused = run(command, dir.path());
        assert!(refused.status == 1 && refused.stderr.contains("restore a backup"), "{command}: {}", refused.stderr);
    }
    assert!(run("verify DIR/s", dir.path()).text().contains("MANIFEST: offset "), "the damage is told");
    let missing = run("repair DIR/none", dir.path());
    assert_eq!((missing.status, missing.stderr.contains("no store")), (1, true), "{}", missing.stderr);
    if has_engine("log") {
        biombo_with(common::words("load DIR/l - --engine log", dir.path()), b"a\tb\n").ok();
        let store = biombo::Options::new().create(false).open(dir.path().join("l"), &biombo::registry()).expect("open");
        let busy = run("repair DIR/l", dir.path());
        assert_eq!((busy.status, busy.stderr.contains("open in process")), (1, true), "{}", busy.stderr);
        store.close().expect("closed");
    }
}

/// The segment and the offset where `needle` lies.
fn find(store: &std::path::Path, needle: &[u8]) -> Option<(PathBuf, usize)> {
    for partition in fs::read_dir(store).ok()?.map(|entry| entry.expect("an entry").path().join("log")) {
        let Ok(names) = fs::read_dir(partition) else { continue };
        for path in names.map(|entry| entry.expect("an entry").path()) {
            let bytes = fs::read(&path).ok()?;
            if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
                return Some((path, at));
            }
        }
    }
    None
}
