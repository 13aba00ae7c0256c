//! Every command end to end: what it prints, what it says as JSON, how it ends.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{biombo, biombo_with, command, engines, run, words};
use tempfile::tempdir;

const FRUIT: &[u8] = b"apple\tred\nbanana\tyellow\ncherry\tdark red\n";

#[test]
fn every_engine_and_layout_gives_back_what_was_loaded() {
    for engine in engines(true) {
        for layout in [
            "--partitioning none",
            "--partitions 3 --partitioning soft",
            "--partitions 3",
            "--partitions 3 --placement range",
        ] {
            let dir = tempdir().expect("a directory");
            let name = format!("{engine} {layout}");
            let loaded = biombo_with(words(&format!("load DIR/s - --engine {engine} {layout}"), dir.path()), FRUIT);
            assert_eq!((loaded.status, loaded.stderr.as_str()), (0, ""), "{name}");
            assert!(loaded.text().starts_with("loaded 3 lines"), "{name}: {}", loaded.text());
            assert_eq!(run("get DIR/s banana", dir.path()).ok().stdout, b"yellow", "{name}");
            assert_eq!(run("scan DIR/s", dir.path()).ok().stdout, FRUIT, "{name}");
            assert_eq!(run("count DIR/s", dir.path()).ok().text(), "3\n", "{name}");
            assert!(run("verify DIR/s", dir.path()).ok().text().starts_with("3 keys read"), "{name}");
            let stat = run("stat DIR/s --json", dir.path()).ok().json();
            assert_eq!(stat["engine"], engine, "{name}");
            assert_eq!(stat["partitions"], if layout.contains('3') { 3 } else { 1 }, "{name}");
        }
    }
}

#[test]
fn an_engine_without_order_counts_and_gets_and_refuses_scans() {
    for engine in engines(false) {
        if engines(true).contains(&engine) {
            continue;
        }
        let dir = tempdir().expect("a directory");
        biombo_with(words(&format!("load DIR/s - --engine {engine} --partitions 2"), dir.path()), FRUIT).ok();
        assert_eq!(run("get DIR/s cherry", dir.path()).ok().stdout, b"dark red");
        assert_eq!(run("count DIR/s", dir.path()).ok().text(), "3\n");
        assert_eq!(run("verify DIR/s", dir.path()).ok().status, 0);
        let scan = run("scan DIR/s", dir.path());
        assert_eq!((scan.status, scan.stdout.len()), (1, 0));
        assert!(scan.stderr.contains("order"), "{}", scan.stderr);
    }
}

#[test]
fn put_get_delete_keep_every_byte() {
    let dir = tempdir().expect("a directory");
    run("put DIR/s empty --file -", dir.path()).ok();
    assert_eq!(run("get DIR/s empty", dir.path()).ok().stdout, b"");
    let all: Vec<u8> = (0..=255).collect();
    biombo_with(words("put DIR/s bytes --file -", dir.path()), &all).ok();
    assert_eq!(run("get DIR/s bytes", dir.path()).ok().stdout, all);
    run(r"put DIR/s a\x00b\n v\t --escaped --durability os", dir.path()).ok();
    assert_eq!(run(r"get DIR/s a\x00b\n --escaped", dir.path()).ok().stdout, b"v\t");
    assert_eq!(run(r"scan DIR/s --from a\x00 --to a\xff --escaped --keys-only", dir.path()).ok().stdout, b"a\0b\\n\n");
    let not_text = std::os::unix::ffi::OsStrExt::as_bytes(dir.path().join("s").as_os_str()).to_vec();
    let os = |bytes: &[u8]| std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec());
    let args: [std::ffi::OsString; 4] = [os(b"put"), os(&not_text), os(b"\xff\xfe"), os(b"v\xff")];
    biombo(args).ok();
    let args: [std::ffi::OsString; 4] = [os(b"get"), os(&not_text), os(b"\xff\xfe"), os(b"--json")];
    assert_eq!(biombo(args).ok().text(), "{\"key_hex\":\"fffe\",\"value_hex\":\"76ff\"}\n");
    run("delete DIR/s bytes", dir.path()).ok();
    run("delete DIR/s bytes", dir.path()).ok();
    let absent = run("get DIR/s bytes", dir.path());
    assert_eq!((absent.status, absent.stderr.as_str(), absent.stdout.len()), (1, "not found\n", 0));
}

#[test]
fn a_first_write_that_is_refused_leaves_no_store() {
    let dir = tempdir().expect("a directory");
    let refused = run(&format!("put DIR/s {} v --engine lmdb", "k".repeat(20_000)), dir.path());
    assert!(refused.status == 1 && refused.stderr.contains("20000 bytes is longer"), "{}", refused.stderr);
    assert!(!dir.path().join("s").exists(), "an empty store is left");
}

#[test]
fn a_scan_takes_any_range_both_ways() {
    let dir = tempdir().expect("a directory");
    biombo_with(words("load DIR/s - --format lines --partitions 4", dir.path()), b"a\nab\nabc\nb\nba\nc\n").ok();
    let keys = |options: &str| {
        let scan = run(&format!("scan DIR/s --keys-only {options}"), dir.path()).ok();
        scan.text().split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(""), "a ab abc b ba c");
    assert_eq!(keys("--prefix ab"), "ab abc");
    assert_eq!(keys("--prefix ab --from abb"), "abc");
    assert_eq!(keys("--prefix a --from a --to abc"), "a ab");
    assert_eq!((keys("--prefix ab --from b"), keys("--prefix ab --to a")), (String::new(), String::new()));
    assert_eq!(keys("--from ab --to b"), "ab abc");
    assert_eq!(keys("--from b"), "b ba c");
    assert_eq!(keys("--reverse --limit 2"), "c ba");
    assert_eq!(keys("--prefix a --reverse"), "abc ab a");
    assert_eq!(keys("--from c --to a"), "");
    assert_eq!(keys("--limit 0"), "");
    assert_eq!(keys("--prefix zz"), "");
}

#[test]
fn every_command_speaks_json() {
    let dir = tempdir().expect("a directory");
    let loaded = biombo_with(words("load DIR/s - --partitions 2 --json", dir.path()), FRUIT).ok().json();
    assert_eq!((&loaded["lines"], &loaded["engine"], &loaded["partitions"]), (&3.into(), &"log".into(), &2.into()));
    let json = |line: &str| run(line, dir.path()).ok().json();
    assert_eq!(json("get DIR/s apple --json")["value"], "red");
    assert_eq!(json("put DIR/s date brown --json")["value_bytes"], 5);
    assert_eq!(json("delete DIR/s date --json")["key"], "date");
    assert_eq!(json("scan DIR/s --limit 1 --json")["key"], "apple");
    assert_eq!(json("count DIR/s --json")["keys"], 3);
    let stat = json("stat DIR/s --exact --json");
    assert_eq!(
        (&stat["keys"], &stat["keys_estimated"], &stat["logical_bytes"]),
        (&3.into(), &false.into(), &34.into())
    );
    assert!(stat["physical_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{stat}");
    let verify = json("verify DIR/s --json");
    assert_eq!((&verify["keys"], &verify["damages"]), (&3.into(), &0.into()));
    assert!(json("checkpoint DIR/s DIR/copy --json")["bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(json("backup DIR/s DIR/file --json")["keys"], 3);
    assert_eq!(json("restore DIR/file DIR/again --json")["to"], dir.path().join("again").display().to_string());
    assert!(json("compact DIR/s --json")["physical_bytes_after"].as_u64().is_some());
    let wider = json("repartition DIR/s --partitions 3 --json");
    assert_eq!((&wider["partitions"], &wider["units"]), (&3.into(), &1365.into()));
    assert_eq!(
        (&json("verify DIR/s --json")["keys"], &json("stat DIR/s --json")["partitions"]),
        (&3.into(), &3.into())
    );
    let fewer = json("repartition DIR/s --partitions 2 --json");
    assert_eq!((&fewer["partitions"], &fewer["engine"]), (&2.into(), &json("stat DIR/s --json")["engine"]));
    assert_eq!(json("verify DIR/s --json")["keys"], 3);
    let engines = run("engines --json", dir.path()).ok();
    let engines: Vec<serde_json::Value> =
        engines.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(engines.iter().any(|engine| engine["name"] == "lmdb" && engine["ordered"] == true));
    let defaults: Vec<_> = engines.iter().filter(|engine| engine["default"] == true).collect();
    assert!(defaults.len() == 1 && defaults[0]["name"] == "log", "{defaults:?}");
    let acked = biombo_with(words("load DIR/s - --acks --json", dir.path()), FRUIT).ok();
    let first: serde_json::Value = serde_json::from_str(acked.text().lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["acked"], 3);
}

#[test]
fn copies_are_stores_of_their_own() {
    let dir = tempdir().expect("a directory");
    let lines: String = (0..5000).map(|i| format!("key{i:05}\tvalue{i}\n")).collect();
    biombo_with(words("load DIR/s - --partitions 4", dir.path()), lines.as_bytes()).ok();
    run("checkpoint DIR/s DIR/copy", dir.path()).ok();
    run("backup DIR/s DIR/file", dir.path()).ok();
    run("delete DIR/s key00000", dir.path()).ok();
    for engine in engines(true) {
        run(&format!("restore DIR/file DIR/{engine} --engine {engine} --partitions 2"), dir.path()).ok();
        assert_eq!(run(&format!("scan DIR/{engine}"), dir.path()).ok().text(), lines, "{engine}");
    }
    assert_eq!(run("scan DIR/copy", dir.path()).ok().text(), lines);
    assert_eq!(run("count DIR/s", dir.path()).ok().text(), "4999\n");
    run("restore DIR/file DIR/same", dir.path()).ok();
    let stat = run("stat DIR/same --json", dir.path()).ok().json();
    assert_eq!(
        (&stat["engine"], &stat["partitions"], &stat["partitioning"]),
        (&"log".into(), &4.into(), &"hard".into())
    );
}

/// From each engine to each other, and with fewer partitions at once; what a store serves stays the same.
#[test]
fn a_store_gets_other_partitions_and_another_engine_and_keeps_its_keys() {
    let dir = tempdir().expect("a directory");
    let lines: String = (0..3000).map(|i| format!("key{i:05}\tvalue{i}\n")).collect();
    let all = engines(true);
    let first = all[0];
    assert!(all.len() > 1, "one engine cannot be changed: {all:?}");
    biombo_with(words(&format!("load DIR/s - --engine {first} --partitions 4"), dir.path()), lines.as_bytes()).ok();
    let mut partitions = 4;
    for engine in all.iter().skip(1).chain([&first]) {
        partitions = if partitions == 4 { 3 } else { 4 };
        let said = run(&format!("repartition DIR/s --engine {engine} --partitions {partitions}"), dir.path()).ok();
        let expected = format!("{partitions} partitions of {engine}\n");
        assert!(said.text().starts_with("3,000 keys") && said.text().ends_with(&expected), "{}", said.text());
        assert_eq!(run("scan DIR/s", dir.path()).ok().text(), lines, "{engine}");
        let stat = run("stat DIR/s --json", dir.path()).ok().json();
        assert_eq!((&stat["engine"], &stat["partitions"]), (&(*engine).into(), &partitions.into()));
        assert_eq!(stat["partitions_leaving"], 0);
        let stays = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().starts_with("p0").then_some(())
        };
        let kept = std::fs::read_dir(dir.path().join("s")).expect("a directory").filter_map(stays).count();
        assert_eq!(kept, partitions, "directories of partitions after {engine}");
    }
    // A change that is under way is told, and goes on.
    let registry = biombo::registry();
    let options = biombo::Options::new().partitions(1).reshape(true);
    drop(options.open(dir.path().join("s"), &registry).expect("a store"));
    let stat = run("stat DIR/s", dir.path()).ok();
    assert!(stat.text().contains("leave: `biombo repartition` goes on"), "{}", stat.text());
    let said = run("repartition DIR/s", dir.path()).ok();
    assert!(said.text().contains(" 1 partition of"), "{}", said.text());
    assert_eq!(run("count DIR/s", dir.path()).ok().text(), "3000\n");
    for (placement, partitions) in [("range", 3), ("hash", 2)] {
        let line = format!("repartition DIR/s --placement {placement} --partitions {partitions} --json");
        let said = run(&line, dir.path()).ok().json();
        assert_eq!(
            (&said["placement"], &said["keys"], &said["partitions"]),
            (&placement.into(), &3000.into(), &partitions.into())
        );
        assert_eq!(run("stat DIR/s --json", dir.path()).ok().json()["placement"], placement);
        assert_eq!(run("scan DIR/s", dir.path()).ok().text(), lines, "{placement}");
    }
    let unknown = run("repartition DIR/s --placement sorted", dir.path());
    assert!(unknown.status == 2 && unknown.stderr.contains("sorted"), "{}", unknown.stderr);
    let unknown = run("repartition DIR/s --engine nosuch", dir.path());
    assert!(unknown.status == 2 && unknown.stderr.contains("nosuch"), "{}", unknown.stderr);
    run("put DIR/one apple red", dir.path()).ok();
    let refused = run("repartition DIR/one --partitions 2", dir.path());
    assert!(refused.status == 1 && refused.stderr.contains("hard"), "{}", refused.stderr);
}

/// What is in the way of the last step must not pass for success.
#[test]
fn partitions_that_could_not_be_taken_away_are_a_failure_until_they_are() {
    let dir = tempdir().expect("a directory");
    biombo_with(words("load DIR/s - --partitions 4", dir.path()), FRUIT).ok();
    // A file where the journal of the new placement is to be.
    let in_the_way = dir.path().join("s/placement-1");
    std::fs::write(&in_the_way, "").expect("a file");
    let failed = run("repartition DIR/s --partitions 2", dir.path());
    assert!(failed.status == 1 && failed.stdout.is_empty(), "{} {}", failed.status, failed.stderr);
    assert!(failed.stderr.contains("2 partitions could not be taken away"), "{}", failed.stderr);
    let count = run("count DIR/s", dir.path());
    assert_eq!((count.status, count.text()), (0, "3\n"), "{}", count.stderr);
    std::fs::remove_file(&in_the_way).expect("removed");
    let said = run("repartition DIR/s", dir.path()).ok();
    assert!(said.text().ends_with(" 2 partitions of log\n"), "{}", said.text());
    assert_eq!(run("count DIR/s", dir.path()).ok().text(), "3\n");
}

#[test]
fn acknowledgements_come_in_order_at_least_every_thousand_lines_and_at_the_end() {
    let dir = tempdir().expect("a directory");
    for (durability, partitions) in [("sync", 8), ("os", 3), ("relaxed", 1)] {
        let lines: String = (0..12_345).map(|i| format!("k{i}\t{i}\n")).collect();
        let line = format!("load DIR/{durability} - --acks --durability {durability} --partitions {partitions}");
        let run = biombo_with(words(&line, dir.path()), lines.as_bytes()).ok();
        let acked: Vec<u64> =
            run.text().lines().map(|line| line.strip_prefix("acked ").expect(line).parse().expect("N")).collect();
        assert_eq!(acked.last(), Some(&12_345));
        assert!(acked.is_sorted_by(|a, b| a < b), "{acked:?}");
        let gaps = std::iter::once(&0).chain(&acked).zip(&acked).map(|(a, b)| b - a);
        assert!(gaps.max().is_some_and(|gap| gap <= 1000), "{acked:?}");
    }
    assert_eq!(biombo_with(words("load DIR/none - --acks", dir.path()), b"").ok().text(), "acked 0\n");
}

#[test]
fn a_slow_writer_hears_of_its_lines_while_the_pipe_is_open() {
    ["hash", "range"].into_iter().for_each(a_slow_writer_hears);
}

fn a_slow_writer_hears(placement: &str) {
    let dir = tempdir().expect("a directory");
    let mut child = command()
        .args(words(&format!("load DIR/s - --acks --partitions 4 --placement {placement}"), dir.path()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(child.stdout.take().expect("a pipe"));
    for number in 1..=3 {
        writeln!(stdin, "k{number}\tv").expect("the command reads");
        let mut line = String::new();
        acks.read_line(&mut line).expect("the command writes");
        assert_eq!(line, format!("acked {number}\n"));
    }
    drop(stdin);
    let mut rest = String::new();
    acks.read_to_string(&mut rest).expect("the command writes");
    assert_eq!(rest, "");
    assert!(child.wait().expect("the command ends").success());
}

#[test]
fn the_later_of_two_lines_with_one_key_wins() {
    let dir = tempdir().expect("a directory");
    let lines: String = (0..20_000).map(|i| format!("k{}\t{i}\n", i % 7)).collect();
    biombo_with(words("load DIR/s - --partitions 3 --durability os", dir.path()), lines.as_bytes()).ok();
    let values: String = (19_993..20_000).map(|i| (i % 7, i)).map(|(k, i)| format!("k{k}\t{i}\n")).collect();
    let mut expected: Vec<&str> = values.lines().collect();
    expected.sort_unstable();
    assert_eq!(run("scan DIR/s", dir.path()).ok().text().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn ranges_are_cut_from_the_first_keys() {
    let dir = tempdir().expect("a directory");
    let lines: String = (0..20_000).map(|i| format!("user{i:06}\tv\n")).collect();
    let file = dir.path().join("lines.tsv");
    std::fs::write(&file, &lines).expect("a file");
    run("load DIR/s DIR/lines.tsv --partitions 4 --placement range --durability os", dir.path()).ok();
    let stat = run("stat DIR/s --json", dir.path()).ok().json();
    let keys: Vec<u64> =
        stat["instances"].as_array().expect("a list").iter().map(|i| i["keys"].as_u64().expect("keys")).collect();
    // The first 10,000 keys are half of all: three quarters of a quarter each, and the rest in the last partition.
    assert!(keys.iter().all(|keys| *keys >= 2000), "{keys:?}");
    assert_eq!(stat["placement"], "range");
    assert_eq!(run("scan DIR/s", dir.path()).ok().text(), lines);
}

#[test]
fn a_broken_line_keeps_what_comes_before_and_loads_nothing_after() {
    let dir = tempdir().expect("a directory");
    for (name, options) in [("hash", ""), ("range", "--placement range")] {
        let mut lines: String = (0..4321).map(|i| format!("k{i:05}\tv\n")).collect();
        lines.push_str("no tab\nafter\tv\n");
        std::fs::write(dir.path().join("broken.tsv"), &lines).expect("a file");
        let load = run(&format!("load DIR/{name} DIR/broken.tsv --partitions 4 --acks {options}"), dir.path());
        assert_eq!(load.status, 1);
        assert!(load.stderr.contains("broken.tsv:4322: no tab"), "{}", load.stderr);
        assert!(load.stderr.contains("4,321 lines before it are loaded"), "{}", load.stderr);
        assert_eq!(load.stderr.lines().count(), 1);
        assert_eq!(load.text().lines().last(), Some("acked 4321"));
        assert_eq!(run(&format!("count DIR/{name}"), dir.path()).ok().text(), "4321\n");
    }
}

#[test]
fn an_existing_store_keeps_its_shape_and_a_contradiction_is_an_error() {
    let dir = tempdir().expect("a directory");
    biombo_with(words("load DIR/s - --partitions 3", dir.path()), FRUIT).ok();
    biombo_with(words("load DIR/s -", dir.path()), b"date\tbrown\n").ok();
    biombo_with(words("load DIR/s - --partitions 3 --engine log", dir.path()), b"elder\tblack\n").ok();
    for (option, word) in [
        ("--partitions 4", "3"),
        ("--placement range", "hash"),
        ("--partitioning soft", "hard"),
        ("--engine memory", "log"),
    ] {
        let load = biombo_with(words(&format!("load DIR/s - {option}"), dir.path()), b"x\ty\n");
        assert_eq!(load.status, 1, "{option}");
        assert!(load.stderr.contains(word), "{option}: {}", load.stderr);
    }
    assert_eq!(run("count DIR/s", dir.path()).ok().text(), "5\n");
}

#[test]
fn a_configuration_file_has_the_names_of_the_options() {
    let dir = tempdir().expect("a directory");
    let config = "engine = \"lmdb\"\npartitions = 5\nplacement = \"range\"\ndurability = \"os\"\nformat = \"lines\"\ncache-bytes = 33554432\n";
    std::fs::write(dir.path().join("c.toml"), config).expect("a file");
    let loaded =
        biombo_with(words("load DIR/s - --config DIR/c.toml --partitions 2 --json", dir.path()), b"a\nb\n").ok().json();
    assert_eq!(
        (&loaded["partitions"], &loaded["placement"], &loaded["durability"]),
        (&2.into(), &"range".into(), &"os".into())
    );
    assert_eq!(run("get DIR/s b", dir.path()).ok().stdout, b"2");
}

#[test]
fn partitions_spread_over_directories() {
    let dir = tempdir().expect("a directory");
    biombo_with(words("load DIR/s - --partitions 4 --dir DIR/one,DIR/two", dir.path()), FRUIT).ok();
    for part in ["one", "two"] {
        let entries = std::fs::read_dir(dir.path().join(part)).expect("a directory").count();
        assert!(entries > 0, "{part} is empty");
    }
    assert_eq!(run("scan DIR/s", dir.path()).ok().stdout, FRUIT);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let dir = tempdir().expect("a directory");
    let lines: String = (0..50_000).map(|i| format!("key{i}\tsome value of some length\n")).collect();
    biombo_with(words("load DIR/s - --durability os", dir.path()), lines.as_bytes()).ok();
    let mut child = command()
        .args(words("scan DIR/s", dir.path()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// Fails when a load ends with the reader of its acknowledgements, in the middle and as if all were well.
#[test]
fn a_load_goes_on_when_nobody_reads_its_acknowledgements_any_more() {
    let dir = tempdir().expect("a directory");
    let mut child = command()
        .args(words("load DIR/s - --acks --durability os --format lines", dir.path()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        (0..50_000).try_for_each(|number| writeln!(input, "key{number}")).expect("it reads all of it");
    });
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    assert!(first.starts_with("acked "), "{first}");
    writer.join().expect("no panic");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    assert_eq!(run("count DIR/s", dir.path()).ok().text(), "50000\n");
}

#[test]
fn help_lists_what_works_and_teaches_it() {
    let help = biombo(["--help"]).ok();
    let listed: Vec<&str> = help
        .text()
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect();
    let works = "load get put delete scan count stat verify repair checkpoint backup restore compact plan repartition engines graph bench reproduce advise help";
    assert_eq!(listed.join(" "), works);
    for command in works.split(' ').filter(|command| *command != "help") {
        let help = biombo([command, "--help"]).ok();
        assert!(help.text().contains("Example") || command == "bench", "{command} has no example");
        assert!(help.text().contains("Usage: biombo"), "{command}");
    }
    let help = biombo(["bench", "ycsb", "--help"]).ok();
    for option in ["--engine", "--workload", "--records", "--durability", "--cache-bytes", "--html", "Example"] {
        assert!(help.text().contains(option), "bench ycsb does not explain {option}");
    }
    let help = biombo(["repartition", "--help"]).ok();
    for option in ["--partitions", "--engine", "--placement", "goes back", "Example"] {
        assert!(help.text().contains(option), "repartition does not explain {option}");
    }
    let help = biombo(["bench", "db", "--help"]).ok();
    for option in ["--engine", "--benchmark", "--key-bytes", "--value-bytes", "--compression-ratio", "Example"] {
        assert!(help.text().contains(option), "bench db does not explain {option}");
    }
    assert!(biombo(["--version"]).ok().text().starts_with("biombo "));
}

#[test]
fn stat_and_engines_say_what_people_ask_for() {
    let dir = tempdir().expect("a directory");
    biombo_with(words("load DIR/s - --partitions 2", dir.path()), FRUIT).ok();
    let stat = run("stat DIR/s --partitions --options", dir.path()).ok();
    for word in [
        "engine",
        "log",
        "partitions",
        "hard",
        "placement",
        "hash",
        "keys",
        "logical bytes",
        "physical bytes",
        "WAF",
        "segments",
        "caches",
        "instance 1",
    ] {
        assert!(stat.text().contains(word), "stat says nothing of {word}:\n{}", stat.text());
    }
    // What was overwritten is dead until it is cleaned, and opening took up every record of the log.
    let lines: String = (0..1000).map(|i| format!("key{:03}\t{}\n", i % 250, "v".repeat(100))).collect();
    biombo_with(words("load DIR/t - --durability os", dir.path()), lines.as_bytes()).ok();
    let stat = run("stat DIR/t --json", dir.path()).ok().json();
    let figure = |name: &str| stat[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stat}"));
    assert_eq!((figure("segments"), figure("keys"), figure("logical_bytes")), (1, 250, 250 * 106));
    assert!(figure("segment_live_bytes") > 250 * 106, "{stat}");
    assert!(figure("segment_dead_bytes") > 2 * figure("segment_live_bytes"), "{stat}");
    assert_eq!(figure("segment_data_bytes"), figure("segment_live_bytes") + figure("segment_dead_bytes"));
    assert!(stat["segment_amplification"].as_f64().is_some_and(|ratio| (3.5..=5.0).contains(&ratio)), "{stat}");
    let index = &stat["index"];
    assert_eq!((&index["opened_from_checkpoint"], &index["opened_from_log"]), (&serde_json::Value::Null, &1000.into()));
    assert!(index["bytes_per_key"].as_f64().is_some_and(|bytes| bytes > 8.0), "{stat}");
    assert!(index["opened_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0 && seconds < 10.0), "{stat}");
    assert_eq!((&index["is_loaded"], &stat["compaction"]["count"]), (&true.into(), &0.into()));
    let other = biombo_with(words("load DIR/u - --engine lmdb --json", dir.path()), FRUIT).ok().json();
    assert_eq!(other["engine"], "lmdb");
    let stat = run("stat DIR/u --json", dir.path()).ok().json();
    for name in ["segments", "segment_amplification", "index", "compaction"] {
        assert!(stat[name].is_null(), "lmdb has no {name}: {stat}");
    }
    let listed = biombo(["engines"]).ok();
    for kind in biombo::registry().iter() {
        assert!(listed.text().contains(kind.name), "{} is not listed", kind.name);
    }
    assert!(listed.text().contains("library") && listed.text().ends_with("have log.\n"), "{}", listed.text());
}

#[test]
fn the_plans_of_a_store_that_repartitions_itself_are_shown_while_it_is_open_and_after() {
    let dir = tempdir().expect("a directory");
    run("put DIR/quiet a b", dir.path()).ok();
    assert!(run("plan DIR/quiet", dir.path()).ok().text().starts_with("no plan was ever made"));
    assert_eq!(run("plan DIR/quiet --json", dir.path()).ok().json()["made"], 0);
    let missing = run("plan DIR/missing", dir.path());
    assert!(missing.status == 1 && missing.stderr.contains("no store"), "{}", missing.stderr);

    let every = biombo::Repartition::every(Duration::from_millis(100)).expect("an interval");
    let options = biombo::Options::new().engine(engines(true)[0]).partitions(4).repartition(every);
    let store = options.open(dir.path().join("busy"), &biombo::registry()).expect("a store");
    let begun = Instant::now();
    // A few keys are moved to learn from, and then the others.
    let is_whole = |plans: biombo::Plans| plans.last.iter().any(|plan| !plan.probe && plan.error.is_none());
    while !is_whole(store.plans().expect("plans")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.plans());
        for group in 0..40 {
            let mut batch = biombo::Batch::new();
            for member in 0..10 {
                batch.put(format!("{member} of {group}").as_bytes(), b"value");
            }
            store.write_with(&batch, biombo::Durability::Os).expect("write");
        }
    }
    let shown = |what: &str| {
        let text = run(&format!("plan DIR/busy{what}"), dir.path()).ok();
        for word in [
            "carried out",
            "plan 1, ",
            "to learn what it is worth",
            "learnt",
            "plan 2, ",
            "why",
            "lie apart",
            "moved",
            "keys copied",
            "predicted",
            "obtained",
            "of planning",
            "of watching",
            "to make",
            "to carry out",
        ] {
            assert!(text.text().contains(word), "`{word}` is missing: {}", text.text());
        }
    };
    // The file is written an instant after the plan has ended.
    while !is_whole(biombo::Plans::of(dir.path().join("busy")).unwrap_or_default()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    shown("");
    let moves = store.stats().expect("stats").moves;
    assert!(moves.plans >= 1 && moves.units >= 100 && moves.planning_ns > 0, "{moves:?}");
    drop(store);
    shown(" --last 64");
    let plans = run("plan DIR/busy --json", dir.path()).ok().json();
    let plan = plans["plans"].as_array().and_then(|plans| plans.iter().find(|plan| plan["probe"] == false));
    let plan = plan.unwrap_or_else(|| panic!("only what was moved to learn from: {plans}"));
    assert!(plan["units"].as_u64().is_some_and(|units| units >= 100), "{plans}");
    assert_eq!((&plan["level"], &plans["plans"][0]["probe"]), (&"keys".into(), &true.into()));
    for figure in [&plans["planning_ns"], &plans["watching_ns"], &plan["planning_ns"], &plan["took_ns"]] {
        assert!(figure.as_u64().is_some_and(|ns| ns > 0), "{plans}");
    }
    let pins = run("stat DIR/busy --json", dir.path()).ok().json()["pins"].as_u64();
    assert!(pins.is_some_and(|pins| pins >= 100), "{pins:?}");
}
