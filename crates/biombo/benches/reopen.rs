//! Opening after SIGKILL: a child loads records and is killed; another one opens the store, reads a first record, and then
//! enough of them to have touched all of the index.
//!
//! Small by default, to see that it works. To measure:
//!
//! ```text
//! BIOMBO_REOPEN_RECORDS=10000000 BIOMBO_REOPEN_ENGINES=log,rocksdb,lmdb BIOMBO_REOPEN_DIR=/somewhere cargo bench --bench reopen
//! ```
//!
//! Records have 16-byte keys in random order and 100-byte values, written one by one with `Os` by two threads; the engine `log` in
//! eight `hard` partitions and in one instance, the others used directly. The kernel's cache stays as the kill left it.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biombo::{Durability, Options, Partitioning, Store};

use common::{key, variable};

const VALUE_BYTES: usize = 100;
const CACHE_BYTES: u64 = 256 << 20;
/// Random reads after the first.
const READS: u64 = 100_000;

fn open(engine: &str, partitions: u32, dir: &Path) -> Store {
    let partitioning = if partitions > 1 { Partitioning::Hard } else { Partitioning::None };
    let options = Options::new().engine(engine).partitions(partitions).partitioning(partitioning);
    let options = options.cache_bytes(CACHE_BYTES).durability(Durability::Os).value_bytes(VALUE_BYTES as u32);
    options.open(dir, &biombo::registry()).unwrap_or_else(|e| panic!("open {engine}: {e}"))
}

fn load(store: &Store, records: u64) {
    let part = |first: u64| {
        let mut value = [7; VALUE_BYTES];
        for record in (first..records).step_by(2) {
            value[..8].copy_from_slice(&record.to_le_bytes());
            store.put_with(&key(record), &value, Durability::Os).expect("put");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| part(0));
        scope.spawn(|| part(1));
    });
}

fn read(store: &Store, record: u64) {
    let value = store.get(&key(record)).expect("get").unwrap_or_else(|| panic!("record {record} is gone"));
    assert_eq!(value[..8], record.to_le_bytes(), "record {record}");
}

fn is_loaded(store: &Store) -> bool {
    store.stats().expect("figures").index().is_none_or(|index| index.is_loaded)
}

fn reopen(engine: &str, partitions: u32, dir: &Path, records: u64) {
    let begin = Instant::now();
    let store = open(engine, partitions, dir);
    let opened = begin.elapsed();
    read(&store, records / 3);
    let first = begin.elapsed();
    (0..READS).for_each(|i| read(&store, i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records));
    while !is_loaded(&store) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let all = begin.elapsed();
    let from = store.stats().expect("figures").index().map_or_else(String::new, |index| {
        let keys = index.opened_from_checkpoint.unwrap_or(0);
        format!("   from a checkpoint of {keys} keys and {} records", index.opened_from_log)
    });
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{engine:8} {partitions:2}   open {:8.1} ms   first read {:8.1} ms   loaded, {READS} read {:8.1} ms{from}",
        ms(opened),
        ms(first),
        ms(all)
    );
}

fn child(role: &str, engine: &str, partitions: u32, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env("BIOMBO_REOPEN_ROLE", role).env("BIOMBO_REOPEN_ENGINES", engine);
    command.env("BIOMBO_REOPEN_PARTITIONS", partitions.to_string()).env("BIOMBO_REOPEN_STORE", dir);
    command
}

fn measure(engine: &str, partitions: u32, dir: &Path) {
    let begin = Instant::now();
    let mut loading = child("load", engine, partitions, dir).stdout(Stdio::piped()).spawn().expect("a child");
    let mut line = String::new();
    BufReader::new(loading.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "loaded\n", "the child that loads {engine} failed");
    println!("{engine:8} {partitions:2}   loaded in {:.1} s", begin.elapsed().as_secs_f64());
    loading.kill().expect("a child can be killed");
    loading.wait().expect("a killed child ends");
    assert!(child("reopen", engine, partitions, dir).status().expect("a child").success(), "{engine} did not reopen");
}

fn main() {
    let records = variable("BIOMBO_REOPEN_RECORDS", "20000").parse().expect("a number of records");
    let engines = variable("BIOMBO_REOPEN_ENGINES", "log,lmdb");
    if let Ok(role) = std::env::var("BIOMBO_REOPEN_ROLE") {
        let partitions = variable("BIOMBO_REOPEN_PARTITIONS", "1").parse().expect("a number");
        let dir = PathBuf::from(variable("BIOMBO_REOPEN_STORE", ""));
        if role == "reopen" {
            return reopen(&engines, partitions, &dir, records);
        }
        let store = open(&engines, partitions, &dir);
        load(&store, records);
        println!("loaded");
        std::io::stdout().flush().expect("a pipe");
        // Until it is killed.
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let registry = biombo::registry();
    let home = tempfile::tempdir_in(variable("BIOMBO_REOPEN_DIR", &std::env::temp_dir().to_string_lossy()));
    let home = home.expect("a directory");
    for engine in engines.split(',').filter(|engine| registry.get(engine).is_ok()) {
        for partitions in if engine == "log" { &[8, 1][..] } else { &[1] } {
            let dir = home.path().join(format!("{engine}-{partitions}"));
            measure(engine, *partitions, &dir);
            std::fs::remove_dir_all(&dir).expect("removed");
        }
    }
}
