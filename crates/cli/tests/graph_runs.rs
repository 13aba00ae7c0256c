//! Runs over graphs that are kept: what is left where somebody ends a bench with Ctrl-C, what is shown of it again, and what is not
//! written over.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Run, command, has_engine, run, words};
use tempfile::tempdir;

/// A command line that is ended with Ctrl-C when `file` has so many lines.
fn interrupted(line: &str, dir: &Path, file: &Path, lines: usize) -> Run {
    let child = command()
        .args(words(line, dir))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let begun = Instant::now();
    while fs::read_to_string(file).map_or(0, |text| text.lines().count()) < lines {
        assert!(begun.elapsed() < Duration::from_secs(60), "no step was kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    Run::of(child.wait_with_output().expect("it ended"))
}

/// What it printed, but for where its report is.
fn table(run: &Run) -> String {
    run.text().lines().filter(|line| !line.starts_with("report: ")).map(|line| format!("{line}\n")).collect()
}

/// Fails if Ctrl-C costs the table or the report of what was done, or if what was kept is shown otherwise or not at all.
#[test]
fn a_bench_that_is_ended_shows_what_was_done_and_its_lines_are_shown_again() {
    let dir = tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let bench = "bench graph --graph kron:12:8 --layout pma,csr --kernel pagerank,bfs --nodes 2 --placement block,auto --trials 100000 \
                 --json DIR/lines --html DIR/page.html";
    let ended = interrupted(bench, dir.path(), &at("lines"), 20);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let said = &ended.stderr;
    assert!(said.contains("interrupted: ") && said.contains(" of 800000 runs were not done"), "{said}");
    assert!(ended.text().contains("x first") && ended.text().contains("\npagerank "), "{}", ended.text());
    assert!(fs::read_to_string(at("page.html")).expect("a page").contains("</html>"));
    let shown = run("bench show DIR/lines --html DIR/again.html", dir.path()).ok();
    assert_eq!(table(&shown), table(&ended));
    assert!(fs::read_to_string(at("again.html")).expect("a page").contains("Graphs: kron:12:8"));
    // Half a line costs none that is whole.
    let text = fs::read_to_string(at("lines")).expect("the lines");
    fs::write(at("cut"), format!("{text}{}", &text[..40])).expect("written");
    let cut = run("bench show DIR/cut", dir.path());
    assert_eq!((cut.status, table(&cut)), (0, table(&ended)), "{}", cut.stderr);
    assert!(cut.stderr.contains("which stops in its middle"), "{}", cut.stderr);
    // Lines of stores stand beside, each kind in its tables; a report is of one of both.
    let stores =
        "bench ycsb --engine null --workload c --records 100 --operations 200 --dir DIR/runs --json DIR/stores";
    assert_eq!(run(stores, dir.path()).status, 0);
    let both = run("bench show DIR/stores DIR/lines", dir.path()).ok();
    assert!(both.text().contains("YCSB workload C") && both.text().ends_with(&table(&ended)), "{}", both.text());
    let refused = run("bench show DIR/stores DIR/lines --html DIR/both.html", dir.path());
    assert!(refused.status == 1 && refused.stderr.contains("show them apart"), "{}", refused.stderr);
    assert!(!at("both.html").exists());
}

/// Fails if half an hour of a published experiment is lost with the last minute of it.
#[test]
fn an_experiment_that_is_ended_shows_what_was_done_and_its_runs_are_shown_again() {
    let dir = tempdir().expect("a directory");
    let line = "reproduce dgap-numa --scale 0.01 --runs DIR/kept --html DIR/page.html";
    let ended = interrupted(line, dir.path(), &dir.path().join("kept"), 12);
    assert!(ended.status == 1 && ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    assert!(ended.text().contains("published conclusion") && ended.text().contains("orkut"), "{}", ended.text());
    assert!(fs::read_to_string(dir.path().join("page.html")).expect("a page").contains("</html>"));
    let shown = run("bench show DIR/kept", dir.path()).ok();
    for expected in ["orkut-like:0.01: ", "no-nodes", "round-robin", "edges of each node"] {
        assert!(shown.text().contains(expected), "`{expected}` is missing in\n{}", shown.text());
    }
}

#[test]
fn results_are_not_written_over_one_another_nor_over_the_graph_nor_over_an_old_report_before_there_is_a_new_one() {
    let dir = tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("inner")).expect("a directory");
    fs::write(at("edges.el"), "1 2\n2 3\n").expect("written");
    fs::write(at("edges.part"), "1 2\n2 3\n").expect("written");
    let graph = "bench graph --graph kron:4:4 --kernel cc --trials 1";
    let again = "reproduce dgap-numa --scale 0.0003";
    let mut lines = vec![
        (format!("{graph} --json DIR/r --html DIR/r"), "--json and --html name the same file"),
        (format!("{graph} --json DIR/r.part --html DIR/r"), "where the report is written until it is whole"),
        (
            "bench graph --graph DIR/edges.el --html DIR/inner/../edges.el".to_owned(),
            "the graph, which it would write over",
        ),
        ("bench graph --graph DIR/edges.part --html DIR/edges".to_owned(), "until it is whole, and that is the graph"),
        (format!("{again} --runs DIR/r --html DIR/inner/../r"), "--runs and --html name the same file"),
    ];
    if has_engine("lmdb") {
        let stores = "reproduce logstore --engine lmdb --runs DIR/r --html DIR/r";
        lines.push((stores.to_owned(), "--runs and --html name the same file"));
    }
    for (line, said) in lines {
        let refused = run(&line, dir.path());
        assert!(refused.status == 2 && refused.stderr.contains(said), "{line}: {}", refused.stderr);
        assert!(!at("r").exists() && !at("r.part").exists(), "{line} made something all the same");
    }
    for graph in ["edges.el", "edges.part"] {
        assert_eq!(fs::read_to_string(at(graph)).expect("the graph"), "1 2\n2 3\n");
    }
    // A bench that measures nothing keeps the report that was there.
    fs::write(at("page.html"), "the old report").expect("written");
    fs::write(at("broken.el"), "no edges but words\n").expect("written");
    let broken = run("bench graph --graph DIR/broken.el --html DIR/page.html", dir.path());
    assert!(broken.status == 1 && broken.stderr.contains("broken.el"), "{}", broken.stderr);
    assert_eq!(fs::read_to_string(at("page.html")).expect("the report"), "the old report");
    assert!(!at("page.html.part").exists());
}

/// Fails if the lines of an hour are gone where a command measures nothing at all.
#[test]
fn lines_of_before_stay_where_nothing_is_measured() {
    let dir = tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    for made in ["kept", "graphs"] {
        fs::create_dir(at(made)).expect("a directory");
    }
    for graph in ["soc-LiveJournal1.txt", "com-orkut.ungraph.txt"] {
        fs::write(at("graphs").join(graph), "no edges but words\n").expect("written");
    }
    let files = ["lines", "kept/old.jsonl", "kept/new.jsonl"];
    for file in files {
        fs::write(at(file), "what was measured before\n").expect("written");
    }
    let bench = "ycsb --engine memory --workload a --records 100 --operations 100 --dir DIR/runs";
    let program = command().get_program().to_owned();
    let program = Path::new(&program).display();
    for (line, said) in [
        (format!("bench {bench} --json DIR/lines --html DIR/nosuch/r.html"), "nosuch"),
        ("bench graph --graph DIR/nosuch.el --json DIR/lines".to_owned(), "nosuch.el"),
        ("bench graph --graph kron:4:4 --json DIR/lines --html DIR/nosuch/r.html".to_owned(), "nosuch"),
        ("reproduce dgap-numa --scale 0.0003 --dir DIR/graphs --runs DIR/lines".to_owned(), "com-orkut"),
        // Neither build begins, and the second one alone does not.
        (format!("bench compare --build DIR/nosuch {program} --keep DIR/kept -- {bench}"), "cannot run"),
        (format!("bench compare --build {program} DIR/nosuch --keep DIR/kept -- {bench}"), "cannot run"),
    ] {
        let done = run(&line, dir.path());
        assert!(done.status == 1 && done.stderr.contains(said), "{line}: {}", done.stderr);
        for file in files {
            let text = fs::read_to_string(at(file)).expect("it is there");
            assert_eq!(text, "what was measured before\n", "{line}: {file}");
        }
    }
    // What is measured takes their place.
    let done = run(&format!("bench {bench} --json DIR/lines"), dir.path());
    let text = fs::read_to_string(at("lines")).expect("it is there");
    assert!(done.status == 0 && text.lines().count() == 1 && text.starts_with('{'), "{}{text}", done.stderr);
}
