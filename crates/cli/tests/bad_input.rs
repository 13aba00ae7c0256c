//! What wrong arguments, files, disks and rivals get: an exit status, one line that says what to do, and nothing broken.
//!
//! The table of everything tried is written to `bad-input.md` in the target directory.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::mount::Mount;
use common::{Run, biombo, biombo_with, command, has_engine, run, words};
use tempfile::{TempDir, tempdir};

/// Everything tried, one row each.
struct Table {
    dir: TempDir,
    rows: Vec<String>,
    faults: Vec<String>,
}

impl Table {
    fn new() -> Self {
        Self { dir: tempdir().expect("a directory"), rows: Vec::new(), faults: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    /// A store of three keys with the given options; its directory's name is `name`.
    fn store(&self, name: &str, options: &str) {
        let line = format!("load DIR/{name} - {options}");
        biombo_with(words(&line, self.dir.path()), b"apple\tred\nbanana\tyellow\ncherry\tdark red\n").ok();
    }

    /// A command line (`DIR` stands for the directory) must end with `status` and say all of `says`.
    fn case(&mut self, what: &str, line: &str, status: i32, says: &[&str]) {
        let result = run(line, self.dir.path());
        self.result(what, &result, status, says);
    }

    fn case_with(&mut self, what: &str, line: &str, input: &[u8], status: i32, says: &[&str]) {
        let result = biombo_with(words(line, self.dir.path()), input);
        self.result(what, &result, status, says);
    }

    fn result(&mut self, what: &str, result: &Run, status: i32, says: &[&str]) {
        // A bench tells its progress, `[1/20] ..` a line, on standard error too.
        let errors: Vec<&str> = result.stderr.lines().filter(|line| !line.starts_with('[')).collect();
        let said = errors.join("\n").replace(&self.dir.path().display().to_string(), "DIR");
        let mut fault = |why: String| self.faults.push(format!("{what}: {why}\n    exit {}: {said}", result.status));
        if result.status != status {
            fault(format!("exit status {} instead of {status}", result.status));
        }
        for word in says {
            if !said.contains(word) {
                fault(format!("does not say `{word}`"));
            }
        }
        let lines = errors.len();
        if status != 0 && lines != 1 {
            fault(format!("{lines} lines instead of one"));
        }
        if status != 0 && !said.starts_with("biombo: ") {
            fault("does not name itself".to_owned());
        }
        if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
            fault("panicked".to_owned());
        }
        let shown = said.strip_prefix("biombo: ").unwrap_or(&said).replace('|', "\\|");
        let shown =
            if shown.chars().count() > 220 { shown.chars().take(220).collect::<String>() + " .." } else { shown };
        self.rows.push(format!(
            "| {what} | {} | {} |",
            result.status,
            if shown.is_empty() { "(works)" } else { &shown }
        ));
    }

    fn skipped(&mut self, what: &str, why: &str) {
        println!("skipped: {what}: {why}");
        self.rows.push(format!("| {what} | - | not tried here: {why} |"));
    }

    /// Keep the rows of this part, and fail if anything was not as it must be.
    fn end(self, part: &str) {
        let table = format!("| tried | exit | answer |\n|---|---|---|\n{}\n", self.rows.join("\n"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(target.join(format!("bad-input-{part}.md")), &table).expect("the table is kept");
        // The parts that are there, as one page; tests run in any order, the last one to end writes all.
        let mut page = String::from("| tried | exit | answer |\n|---|---|---|\n");
        for part in ["arguments", "input", "stores", "machine", "bench", "shift", "compare"] {
            let rows = fs::read_to_string(target.join(format!("bad-input-{part}.md"))).unwrap_or_default();
            rows.lines().skip(2).for_each(|row| page.push_str(&format!("{row}\n")));
        }
        fs::write(target.join("../bad-input.md"), page).expect("the table is kept");
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n"));
    }
}

#[test]
fn wrong_arguments_end_with_2_before_anything_is_touched() {
    let mut t = Table::new();
    t.case("no command", "", 2, &["biombo --help"]);
    t.case("an unknown command", "frobnicate", 2, &["frobnicate"]);
    t.case("a command that comes later", "serve DIR/s", 2, &["serve"]);
    t.case("an unknown option", "get DIR/s k --frob", 2, &["--frob", "biombo get --help"]);
    t.case("a missing argument", "get DIR/s", 2, &["KEY"]);
    t.case("one argument too many", "count DIR/s x", 2, &["x"]);
    t.case("an unknown engine", "put DIR/s k v --engine nosuch", 2, &["nosuch", "log"]);
    t.case("--partitions 0", "put DIR/s k v --partitions 0", 2, &["1..=1024"]);
    t.case("--partitions 1000000", "put DIR/s k v --partitions 1000000", 2, &["1..=1024"]);
    t.case("--partitions 99999999999999999999", "put DIR/s k v --partitions 99999999999999999999", 2, &["partitions"]);
    t.case("--partitions eight", "put DIR/s k v --partitions eight", 2, &["eight"]);
    t.case("none with eight partitions", "put DIR/s k v --partitioning none --partitions 8", 2, &["none", "hard"]);
    t.case("an unknown partitioning", "put DIR/s k v --partitioning firm", 2, &["firm", "hard", "soft", "none"]);
    t.case("an unknown placement", "put DIR/s k v --placement here", 2, &["here", "hash", "range"]);
    t.case("an unknown durability", "put DIR/s k v --durability forever", 2, &["forever", "sync", "os", "relaxed"]);
    t.case("cache of 12 parsecs", "put DIR/s k v --cache-bytes 12parsecs", 2, &["parsecs", "MiB"]);
    t.case("space for less than there is", "put DIR/s k v --space-amplification 1", 2, &["at least 1.05"]);
    t.case("an unknown way of reading", "put DIR/s k v --io tape", 2, &["tape", "mmap", "direct"]);
    t.case(
        "a way of reading that the engine has not",
        "put DIR/s k v --engine memory --io direct",
        2,
        &["--io direct"],
    );
    t.case("an unknown format", "load DIR/s - --format xml", 2, &["xml", "tsv", "jsonl", "lines"]);
    t.case("--limit -1", "scan DIR/s --limit=-1", 2, &["--limit"]);
    t.case("--limit -1 in two words", "scan DIR/s --limit -1", 2, &["--limit=-1"]);
    t.case("a dash after a flag", "scan DIR/s --reverse -1", 2, &["'-1'"]);
    t.case("no value", "put DIR/s k", 2, &["VALUE"]);
    t.case("a value twice", "put DIR/s k v --file f", 2, &["--file"]);
    t.case(r"an unknown escape on the command line", r"get DIR/s \q --escaped", 2, &[r"\q", r"\xHH"]);
    let dir = t.path("s").display().to_string();
    let empty = biombo(["put", &dir, "", "v"]);
    t.result("a key of 0 bytes", &empty, 2, &["empty"]);
    let long = biombo(["put", &dir, &"k".repeat(70_000), "v"]);
    t.result("a key of 70 KB", &long, 2, &["70000", "65536"]);
    assert!(!t.path("s").exists(), "a store was made although the arguments are wrong");
    t.end("arguments");
}

#[test]
fn broken_input_names_its_line_and_keeps_what_comes_before() {
    let mut t = Table::new();
    let load = |t: &mut Table, what: &str, format: &str, line: &[u8], says: &[&str]| {
        let name = format!("s{}", t.rows.len());
        let input =
            [if format == "jsonl" { &b"{\"key\":\"a\",\"value\":\"1\"}\n"[..] } else { &b"a\t1\n"[..] }, line].concat();
        let says = [says, &["standard input:2: "], &["1 line before it is loaded"]].concat();
        t.case_with(what, &format!("load DIR/{name} - --format {format}"), &input, 1, &says);
        let count = run(&format!("count DIR/{name}"), t.dir.path());
        assert_eq!(count.text(), "1\n", "{what}");
    };
    load(&mut t, "tsv without a tab", "tsv", b"no tab here\nb\t2\n", &["no tab"]);
    load(&mut t, r"tsv with the escape \q", "tsv", b"b\\q\t2\n", &[r"\q is no escape"]);
    load(&mut t, r"tsv with a cut \x4", "tsv", b"b\t\\x4\n", &["two hexadecimal digits"]);
    load(&mut t, "tsv with a backslash at the end", "tsv", b"b\t2\\\n", &["backslash"]);
    load(&mut t, "tsv with an empty key", "tsv", b"\t2\n", &["at least one byte"]);
    load(&mut t, "tsv with an empty line", "tsv", b"\n", &["no tab"]);
    let long = [b"k".repeat(70_000), b"\tv\n".to_vec()].concat();
    load(&mut t, "tsv with a key of 70 KB", "tsv", &long, &["70000"]);
    load(&mut t, "jsonl that is no JSON", "jsonl", b"key,value\n", &["JSON object"]);
    load(&mut t, "jsonl that is cut", "jsonl", b"{\"key\":\"a\",\n", &["EOF"]);
    load(&mut t, "jsonl with a number as value", "jsonl", b"{\"key\":\"a\",\"value\":1}\n", &["invalid type"]);
    load(&mut t, "jsonl without a value", "jsonl", b"{\"key\":\"a\"}\n", &["value_hex"]);
    load(&mut t, "jsonl with another field", "jsonl", b"{\"key\":\"a\",\"value\":\"b\",\"ttl\":1}\n", &["ttl"]);
    load(&mut t, "jsonl with broken hex", "jsonl", b"{\"key_hex\":\"0g\",\"value\":\"b\"}\n", &["hexadecimal"]);
    load(&mut t, "jsonl that is no UTF-8", "jsonl", b"{\"key\":\"\xff\",\"value\":\"b\"}\n", &["unicode"]);
    t.case("an input file that is missing", "load DIR/new DIR/nosuch.tsv", 1, &["nosuch.tsv", "No such file"]);
    t.case("an input file that is a directory", "load DIR/new DIR", 1, &["directory"]);
    assert!(!t.path("new").exists(), "a store was made although there is nothing to load");
    t.case("a value file that is missing", "put DIR/new k --file DIR/nosuch", 1, &["nosuch", "No such file"]);
    t.case_with("a key of bytes that are no UTF-8 (0xff)", "load DIR/bytes -", b"\xff\tv\n", 0, &[]);
    assert_eq!(run("scan DIR/bytes", t.dir.path()).ok().text(), "\\xff\tv\n");
    t.case("a configuration that is missing", "load DIR/new - --config DIR/c", 1, &["DIR/c", "No such file"]);
    t.file("typo", b"partitions = 8\nengin = \"lmdb\"\n");
    t.case("a configuration with an unknown name", "load DIR/new - --config DIR/typo", 2, &["DIR/typo:2", "engin"]);
    t.file("toml", b"partitions = \n");
    t.case("a configuration that is no TOML", "load DIR/new - --config DIR/toml", 2, &["DIR/toml:1"]);
    t.file("zero", b"partitions = 0\n");
    t.case("a configuration with partitions = 0", "load DIR/new - --config DIR/zero", 2, &["DIR/zero:1", "1 to 1024"]);
    t.file("placed", b"# ours\nengine = 'lmdb'\nplacement = 'sorted'\n");
    t.case(
        "a placement that there is not",
        "load DIR/new - --config DIR/placed",
        2,
        &["DIR/placed:3", "placement", "hash"],
    );
    t.file("format", b"format = 'csv'\n");
    t.case("a format that there is not", "load DIR/new - --config DIR/format", 2, &["DIR/format:1", "csv", "jsonl"]);
    t.file("engine", b"engine = \"nosuch\"\n");
    t.case("a configuration with an unknown engine", "load DIR/new - --config DIR/engine", 2, &["nosuch"]);
    t.end("input");
}

#[test]
fn strange_stores_are_refused_and_stay_as_they_are() {
    let mut t = Table::new();
    t.case("get from a directory that is missing", "get DIR/nosuch k", 1, &["nosuch"]);
    t.case("count in a directory that is missing", "count DIR/nosuch", 1, &["nosuch"]);
    assert!(!t.path("nosuch").exists(), "reading made a directory");
    t.file("plain", b"text");
    t.case("a file instead of a directory", "put DIR/plain k v", 1, &["plain"]);
    fs::create_dir(t.path("other")).expect("a directory");
    t.file("other/thesis.doc", b"years of work");
    t.case("put into the directory of another program", "put DIR/other k v", 1, &["other"]);
    t.case("get from the directory of another program", "get DIR/other k", 1, &["other"]);
    t.case_with("load into the directory of another program", "load DIR/other -", b"k\tv\n", 1, &["other"]);
    let left: Vec<_> =
        fs::read_dir(t.path("other")).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    assert!(left.iter().any(|name| name == "thesis.doc") && left.len() <= 2, "the other program's directory: {left:?}");

    t.store("s", "--partitions 2");
    for (option, word) in [("--partitions 3", "2"), ("--placement range", "hash"), ("--engine memory", "log")] {
        t.case(&format!("an existing store with {option}"), &format!("put DIR/s k v {option}"), 1, &[word]);
    }
    let manifest = fs::read(t.path("s/MANIFEST")).expect("a manifest");
    let text = String::from_utf8(manifest.clone()).expect("text");
    t.file("s/MANIFEST", text.replace("format = 1", "format = 7").as_bytes());
    t.case("a manifest of a newer format", "get DIR/s apple", 1, &["format 7", "newer"]);
    t.file("s/MANIFEST", &manifest[..manifest.len() / 2]);
    t.case("a manifest that is cut", "get DIR/s apple", 1, &["MANIFEST", "damaged"]);
    t.file("s/MANIFEST", b"");
    t.case("a manifest of 0 bytes", "get DIR/s apple", 1, &["MANIFEST"]);
    let mut flipped = manifest.clone();
    flipped[manifest.len() / 2] ^= 1;
    t.file("s/MANIFEST", &flipped);
    t.case("a manifest with a flipped bit", "get DIR/s apple", 1, &["MANIFEST"]);
    fs::remove_file(t.path("s/MANIFEST")).expect("a file");
    t.case("a store without its manifest", "put DIR/s apple v", 1, &["DIR/s"]);
    t.file("s/MANIFEST", &manifest);
    assert_eq!(run("get DIR/s apple", t.dir.path()).ok().stdout, b"red", "a refusal changed the store");

    t.store("gone", "--partitions 2");
    let part = fs::read_dir(t.path("gone")).expect("a directory").filter_map(|e| Some(e.ok()?.path()));
    let part = part.filter(|path| path.is_dir() && path.display().to_string().contains("p000")).min();
    fs::remove_dir_all(part.expect("a partition's directory")).expect("removed");
    t.case("a store that lost a partition's directory", "get DIR/gone apple", 1, &["DIR/gone"]);

    let mut holder = command()
        .args(words("load DIR/s - --acks", t.dir.path()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    std::io::Write::write_all(holder.stdin.as_mut().expect("a pipe"), b"k\tv\n").expect("the command reads");
    let mut line = String::new();
    let mut acks = std::io::BufReader::new(holder.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut acks, &mut line).expect("an acknowledgement");
    let pid = holder.id().to_string();
    t.case("a store that another process has open", "get DIR/s apple", 1, &["open", &pid]);
    drop(holder.stdin.take());
    assert!(holder.wait().expect("the holder ends").success());

    t.file("no-backup", b"something else altogether");
    t.case("restore of a file that is no backup", "restore DIR/no-backup DIR/r", 1, &["no-backup"]);
    run("backup DIR/s DIR/backup", t.dir.path()).ok();
    let backup = fs::read(t.path("backup")).expect("a backup");
    t.file("cut", &backup[..backup.len() - 9]);
    t.case("restore of a backup that is cut", "restore DIR/cut DIR/r", 1, &["cut"]);
    let mut flipped = backup.clone();
    flipped[backup.len() / 2] ^= 1;
    t.file("flipped", &flipped);
    t.case("restore of a backup with a flipped bit", "restore DIR/flipped DIR/r", 1, &["flipped"]);
    t.case("restore of a file that is missing", "restore DIR/nosuch DIR/r", 1, &["nosuch"]);
    assert!(!t.path("r/MANIFEST").exists(), "a failed restore left a store");
    t.case("restore onto a store", "restore DIR/backup DIR/s", 1, &["DIR/s"]);
    t.case("checkpoint into a directory that is not empty", "checkpoint DIR/s DIR/other", 1, &["other"]);
    t.case("checkpoint of a store onto itself", "checkpoint DIR/s DIR/s", 1, &["DIR/s"]);
    t.case("backup into a directory that is missing", "backup DIR/s DIR/nosuch/file", 1, &["nosuch"]);
    let registry = biombo::registry();
    let smallest =
        registry.iter().map(|kind| ((kind.capabilities)().key_bytes_max, kind.name)).min().expect("an engine");
    if smallest.0 < biombo::KEY_BYTES_MAX {
        let key = "k".repeat(smallest.0 + 1);
        let line = format!("put DIR/limit {key} v --engine {}", smallest.1);
        t.case(&format!("a key past the limit of {}", smallest.1), &line, 1, &["longer", &smallest.0.to_string()]);
    }
    if has_engine("tkrzw-hash") {
        t.store("hash", "--engine tkrzw-hash");
        t.case("scan over an engine without order", "scan DIR/hash", 1, &["order"]);
    }
    if has_engine("rocksdb") {
        t.store("rot", "--engine rocksdb");
        run("compact DIR/rot", t.dir.path()).ok();
        let table = files_below(&t.path("rot")).into_iter().find(|path| path.extension().is_some_and(|e| e == "sst"));
        let table = table.expect("a table file");
        let mut bytes = fs::read(&table).expect("a table");
        bytes[10] ^= 0x40;
        fs::write(&table, &bytes).expect("a table");
        let verify = run("verify DIR/rot", t.dir.path());
        t.result("verify of a table with a flipped bit", &verify, 1, &["damaged"]);
        assert!(verify.text().contains(".sst: offset "), "a damage names file and offset: {}", verify.text());
    }
    t.end("stores");
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn a_machine_that_refuses_is_named() {
    let mut t = Table::new();
    let lines: String = (0..40_000).map(|i| format!("key{i:06}\t{}\n", "v".repeat(1000))).collect();

    for engine in ["log", "lmdb", "rocksdb", "leveldb", "wiredtiger"].into_iter().filter(|engine| has_engine(engine)) {
        let what = format!("a full disk under {engine}");
        match Mount::tmpfs(&t.path(&format!("full-{engine}")), "size=24m") {
            None => t.skipped(&what, "mounting needs root"),
            Some(mount) => {
                let line = format!("load DIR/full-{engine}/s - --engine {engine} --acks --durability sync");
                let load = biombo_with(words(&line, t.dir.path()), lines.as_bytes());
                t.result(&what, &load, 1, &["loaded up to here: "]);
                let acked: u64 = load
                    .text()
                    .lines()
                    .filter_map(|line| line.strip_prefix("acked ")?.parse().ok())
                    .next_back()
                    .unwrap_or(0);
                // Room again: the store opens, and has what was acknowledged.
                mount.grow("200m");
                let scan = run(&format!("scan DIR/full-{engine}/s --keys-only --limit {acked}"), t.dir.path()).ok();
                assert_eq!(
                    scan.text().lines().count() as u64,
                    acked,
                    "{engine} lost acknowledged lines on a full disk"
                );
                run(&format!("put DIR/full-{engine}/s k v"), t.dir.path()).ok();
            }
        }
    }

    match Mount::tmpfs(&t.path("ro"), "size=64m") {
        None => t.skipped("a read-only file system", "mounting needs root"),
        Some(mount) => {
            t.store("ro/s", "--partitions 2");
            if mount.read_only() {
                t.case("put on a read-only file system", "put DIR/ro/s k v", 1, &["Read-only"]);
                t.case("get on a read-only file system", "get DIR/ro/s apple", 1, &["Read-only"]);
                t.case("a new store on a read-only file system", "put DIR/ro/new k v", 1, &["Read-only"]);
            } else {
                t.skipped("a read-only file system", "it cannot be remounted");
            }
        }
    }

    t.case("a directory that cannot be made", "put /proc/biombo k v", 1, &["/proc/biombo"]);
    t.store("s", "");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let output = command().args(words("scan DIR/s", t.dir.path())).stdout(full).output().expect("the command runs");
    t.result("standard output on a full device", &Run::of(output), 1, &["standard output", "No space"]);
    // A limit on the size of files stands for quotas; the signal that comes with it is ignored, as a service does.
    let script = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";
    let mut limited = Command::new("bash");
    limited.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_biombo"));
    limited.args(words("load DIR/limited DIR/lines", t.dir.path()));
    t.file("lines", lines.as_bytes());
    let output = limited.stdin(Stdio::null()).output().expect("bash runs");
    t.result("files limited to 2 MB (ulimit -f)", &Run::of(output), 1, &["DIR"]);
    t.end("machine");
}

#[test]
fn a_bench_refuses_before_it_works() {
    let mut t = Table::new();
    t.case("bench without a name", "bench", 2, &["--help"]);
    t.case("bench ycsb without a workload", "bench ycsb --engine lmdb", 2, &["--workload"]);
    t.case("bench ycsb with an unknown workload", "bench ycsb --engine lmdb --workload z", 2, &["z", "a"]);
    t.case("bench ycsb with an unknown engine", "bench ycsb --engine nosuch --workload a", 2, &["nosuch"]);
    t.case("bench ycsb --records 0", "bench ycsb --engine lmdb --workload a --records 0", 2, &["records"]);
    t.case("bench ycsb --threads 0", "bench ycsb --engine lmdb --workload a --threads 0", 2, &["threads"]);
    t.case("bench ycsb --partitions 0", "bench ycsb --engine lmdb --workload a --partitions 0", 2, &["partitions"]);
    let line = "bench ycsb --engine lmdb --workload a --partitions 2 --executor pinned --workers 0";
    t.case("bench ycsb --workers 0", line, 2, &["--workers"]);
    let line = "bench ycsb --engine lmdb --workload a --partitions 2 --workers 2";
    t.case("bench ycsb --workers without pinned", line, 2, &["--executor pinned"]);
    let line = "bench ycsb --engine lmdb --workload a --executor pinned";
    t.case("bench ycsb --executor pinned without partitions", line, 2, &["--partitioning"]);
    let line = "bench ycsb --engine lmdb --workload a --partitions 2 --executor nosuch";
    t.case("bench ycsb with an unknown executor", line, 2, &["nosuch", "pinned"]);
    t.case("bench ycsb --rate -5", "bench ycsb --engine lmdb --workload a --rate=-5", 2, &["rate"]);
    t.case(
        "bench ycsb --seconds and --operations",
        "bench ycsb --engine lmdb --workload a --seconds 1 --operations 5",
        2,
        &["--seconds"],
    );
    t.case(
        "bench ycsb --key-bytes 70000",
        "bench ycsb --engine lmdb --workload a --key-bytes 70000",
        2,
        &["key-bytes"],
    );
    for (what, options, says) in [
        ("without a benchmark", "--engine lmdb", "--benchmark"),
        ("without an engine", "--benchmark fillseq", "--engine"),
        ("with an unknown benchmark", "--engine lmdb --benchmark fillslow", "readwhilewriting"),
        ("with a workload", "--engine lmdb --benchmark fillseq --workload a", "--workload"),
        ("--key-bytes 16,0", "--engine lmdb --benchmark fillseq --key-bytes 16,0", "--key-bytes"),
        ("--key-bytes 2", "--engine lmdb --benchmark fillseq --key-bytes 2", "at most 100 records"),
        ("--key-bytes 16,x", "--engine lmdb --benchmark fillseq --key-bytes 16,x", "--key-bytes"),
        ("--value-bytes of 4 GB", "--engine lmdb --benchmark fillseq --value-bytes 4000000000", "--value-bytes"),
        ("--compression-ratio 0", "--engine lmdb --benchmark fillseq --compression-ratio 0", "--compression-ratio"),
        ("--compression-ratio 2", "--engine lmdb --benchmark fillseq --compression-ratio 2", "--compression-ratio"),
        ("--threads 1,0", "--engine lmdb --benchmark fillseq --threads 1,0", "threads"),
    ] {
        t.case(&format!("bench db {what}"), &format!("bench db {options}"), 2, &[says]);
    }
    t.case(
        "bench ycsb with a report where it cannot be",
        "bench ycsb --engine lmdb --workload a --html DIR/nosuch/r.html",
        1,
        &["nosuch"],
    );
    if has_engine("tkrzw-hash") {
        let line = "bench ycsb --engine tkrzw-hash --workload e --records 10 --operations 10 --dir DIR";
        t.case("bench ycsb: scans over an engine without order", line, 1, &["order"]);
        let line = "bench db --engine tkrzw-hash --benchmark readseq --records 10 --dir DIR";
        t.case("bench db: readseq over an engine without order", line, 1, &["order"]);
    }
    t.end("bench");
}

#[test]
fn a_bench_of_shifts_or_traces_refuses_before_it_works() {
    let mut t = Table::new();
    for (what, options, says) in [
        ("without a workload", "--engine lmdb", "--workload"),
        ("with an unknown workload", "--engine lmdb --workload hop", "adversary"),
        ("with a workload of YCSB", "--engine lmdb --workload a", "jump"),
        ("--period -1", "--engine lmdb --workload jump --period=-1", "--period"),
        ("--period nan", "--engine lmdb --workload jump --period nan", "--period"),
        ("--hot-share 2", "--engine lmdb --workload jump --hot-share 2", "--hot-share"),
        ("--reads 1.5", "--engine lmdb --workload jump --reads 1.5", "--reads"),
        (
            "--hot-records past the records",
            "--engine lmdb --workload jump --records 9 --hot-records 10",
            "--hot-records",
        ),
        ("--hot-records 0", "--engine lmdb --workload jump --hot-records 0", "--hot-records"),
        ("--group 1", "--engine lmdb --workload groups --group 1", "--group"),
        ("of groups larger than the records", "--engine lmdb --workload groups --records 5", "--group 10"),
        ("--key-bytes 3", "--engine lmdb --workload monotonic --key-bytes 3 --records 900", "--key-bytes"),
        ("--seconds and --operations", "--engine lmdb --workload jump --seconds 1 --operations 5", "--seconds"),
    ] {
        t.case(&format!("bench shift {what}"), &format!("bench shift {options}"), 2, &[says]);
    }
    if has_engine("tkrzw-tree") {
        let line = "bench shift --engine tkrzw-tree --workload groups --records 100 --operations 10 --dir DIR";
        t.case(
            "bench shift: batches over an engine that keeps none whole",
            line,
            1,
            &["no batch whole", "soft or hard"],
        );
    }
    t.file("good.txt", b"0,a\n1,b\n2,a,5\n");
    t.file("broken.txt", b"0,a\n1,b\n0\n");
    t.file("empty.txt", b"");
    t.file("long.txt", format!("0,a\n0,{}\n", "k".repeat(60_000)).as_bytes());
    for (what, rest, status, says) in [
        ("without a file", "", 2, "FILE"),
        ("of a file that is not there", "DIR/nosuch.txt", 1, "nosuch.txt"),
        ("of a directory", "DIR", 1, "is a directory"),
        ("of a broken line", "DIR/good.txt,DIR/broken.txt", 1, "broken.txt:3: the key is missing: write `0,key`"),
        ("of no line", "DIR/empty.txt", 1, "holds no operation"),
        ("of a key that the engine cannot hold", "DIR/long.txt", 2, "has 60000 bytes, and lmdb takes at most"),
        ("--records", "DIR/good.txt --records 5", 2, "leave --records out"),
        ("--key-bytes", "DIR/good.txt --key-bytes 5", 2, "leave --key-bytes out"),
        ("with its lines over the trace", "DIR/good.txt --json DIR/good.txt", 2, "a file of the trace"),
        ("with its page over the trace", "DIR/good.txt --html DIR/good.txt", 2, "a file of the trace"),
        ("with lines and page in one file", "DIR/good.txt --html DIR/x --json DIR/x", 2, "the same file"),
        (
            "of two files by three threads",
            "DIR/good.txt,DIR/good.txt --threads 3",
            2,
            "--threads 3 does not fit 2 files",
        ),
    ] {
        t.case(&format!("bench trace {what}"), &format!("bench trace --engine lmdb {rest}"), status, &[says]);
    }
    if has_engine("tkrzw-hash") {
        let line = "bench trace --engine tkrzw-hash DIR/good.txt --dir DIR/runs";
        t.case("bench trace: scans over an engine without order", line, 1, &["the trace's scans"]);
    }
    t.end("shift");
}

#[test]
fn a_comparison_says_what_it_cannot_compare() {
    let mut t = Table::new();
    t.file("empty.jsonl", b"");
    t.file("text.jsonl", b"hello\n");
    t.case(
        "two runs to compare",
        "bench ycsb --engine null --workload c --records 9 --operations 9 --json DIR/c.jsonl",
        0,
        &[],
    );
    t.case(
        "and one of another workload",
        "bench ycsb --engine null --workload a --records 9 --operations 9 --json DIR/a.jsonl",
        0,
        &[],
    );
    for (what, files, status, says) in [
        ("without a second file", "DIR/c.jsonl", 2, "NEW.jsonl"),
        ("of a file that is not there", "DIR/c.jsonl DIR/nosuch.jsonl", 1, "nosuch.jsonl"),
        ("of a file without runs", "DIR/empty.jsonl DIR/c.jsonl", 1, "empty.jsonl holds no run"),
        ("of a file of text", "DIR/c.jsonl DIR/text.jsonl", 1, "text.jsonl: line 1 is no record"),
        ("of runs that have nothing in common", "DIR/a.jsonl DIR/c.jsonl", 1, "no run in common"),
        ("of single runs", "DIR/c.jsonl DIR/c.jsonl", 1, "--repeat 6"),
        ("--threshold 5", "DIR/c.jsonl DIR/c.jsonl --threshold 5", 2, "0.05 is five percent"),
        ("--threshold -1", "DIR/c.jsonl DIR/c.jsonl --threshold=-1", 2, "--threshold"),
    ] {
        t.case(&format!("bench compare {what}"), &format!("bench compare {files}"), status, &[says]);
    }
    for (what, line, says) in [
        ("without a name", "reproduce", "NAME"),
        ("of an unknown experiment", "reproduce nosuch", "leveldb-sizes"),
        ("of graphs above their size", "reproduce dgap-numa --scale 2", "above 1"),
        ("of graphs over an engine", "reproduce dgap-numa --engine log", "--engine"),
        ("of graphs in several directories", "reproduce dgap-numa --dir DIR,DIR/other", "several directories"),
        ("of an engine that it has not", "reproduce logstore --engine nosuch", "nosuch"),
        ("--scale 0", "reproduce leveldb-sizes --scale 0", "--scale"),
        ("--scale nan", "reproduce leveldb-sizes --scale nan", "--scale"),
    ] {
        t.case(&format!("reproduce {what}"), line, 2, &[says]);
    }
    t.end("compare");
}

#[test]
fn advice_is_refused_before_it_works() {
    let mut t = Table::new();
    t.file("trace", b"0,a\n3,b\n");
    t.file("there", b"engine = 'log'\n");
    for (what, line, status, says) in [
        ("about nothing", "advise", 2, "--workload a"),
        ("about an unknown workload", "advise --workload z", 2, "--workload"),
        ("about two things", "advise --workload a --reads 0.5", 2, "--reads"),
        ("with a share of 2", "advise --reads 2", 2, "--reads 2"),
        ("with more than all operations", "advise --reads 0.9 --inserts 0.2", 2, "at most 1"),
        ("about a trace that is missing", "advise --trace DIR/nosuch", 1, "nosuch"),
        ("about a trace with a broken line", "advise --trace DIR/trace", 1, "trace:2"),
        ("about records of a trace", "advise --trace DIR/trace --records 5", 2, "--records"),
        ("within no time", "advise --workload a --budget 0s", 2, "--budget"),
        ("within a time of no unit", "advise --workload a --budget 3d", 2, "90s or 2m"),
        ("within a negative time", "advise --workload a --budget=-5s", 2, "more than 0"),
        ("judged in no time", "advise --workload a --exhaustive=0s", 2, "more than 0"),
        ("judged in a negative time", "advise --workload a --exhaustive=-5s", 2, "more than 0"),
        ("judged in a time that stands apart", "advise --workload a --exhaustive 5s", 2, "5s"),
        ("under an unknown executor", "advise --workload a --executor bound", 2, "--executor"),
        ("with trials nowhere", "advise --workload a --engine memory --trials DIR/no/t", 1, "cannot write DIR/no/t"),
        ("with its trials in a directory", "advise --workload a --engine memory --trials DIR", 1, "cannot write DIR"),
        ("into one file", "advise --workload a --config DIR/x --trials DIR/x", 2, "the same file"),
        ("over its trace", "advise --trace DIR/trace --trials DIR/trace", 2, "a file of --trace"),
        ("of an unknown engine", "advise --workload a --engine nosuch", 2, "nosuch"),
        ("of the engine that keeps nothing", "advise --workload a --engine null", 2, "no engine `null`"),
        ("with --partitions 0", "advise --workload a --engine memory --partitions 0", 2, "--partitions"),
        ("with --records 0", "advise --workload a --engine memory --records 0", 2, "--records"),
        ("into a file that is there", "advise --workload a --engine memory --config DIR/there", 1, "exists"),
        ("into no directory", "advise --workload a --engine memory --config DIR/no/c.toml", 1, "no/c.toml"),
    ] {
        t.case(&format!("advice {what}"), line, status, &[says]);
    }
    t.end("advice");
}
