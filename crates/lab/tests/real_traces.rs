//! Traces of real systems, where the folder with them is there: `BIOMBO_DATA`, or `shared/data` beside the repository.
//!
//! They are block accesses; a block is a key here. Their first operations are written as a trace is, then counted and replayed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biombo_engine::OpenOptions;
use biombo_lab::driver::{Progress, Settings, Until, load_trace, run};
use biombo_lab::target::{EngineTarget, Target};
use biombo_lab::workload::trace::survey;
use biombo_lab::workload::{KeyFormat, Keys, Task, Values};

/// Lines of the original that are taken.
const LINES: usize = 50_000;

/// The file `name` of the folder, unpacked line by line; `None`, with a word why, where it cannot be had.
fn original(name: &str) -> Option<impl Iterator<Item = String>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("BIOMBO_DATA").map_or(beside, PathBuf::from).join("kv").join(name);
    if !path.exists() {
        println!("skipped: {} is not there (BIOMBO_DATA names the folder)", path.display());
        return None;
    }
    let unpack = Command::new("zstdcat").arg(&path).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = unpack else {
        println!("skipped: zstdcat is not there");
        return None;
    };
    let output = child.stdout.take().expect("a pipe");
    Some(BufReader::new(output).lines().map_while(Result::ok).take(LINES).chain(std::iter::from_fn(move || {
        // The child ends when its pipe does.
        let _ = child.kill();
        let _ = child.wait();
        None
    })))
}

/// Write `lines` as a trace, look at it, load it and replay it; returns reads, writes and keys.
fn replay(lines: impl Iterator<Item = String>) -> (u64, u64, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace.txt");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    lines.for_each(|line| writeln!(file, "{line}").expect("it is written"));
    file.into_inner().expect("it is written");
    let target = EngineTarget::open(&biombo_engine::memory::kind(), &OpenOptions::new("/nowhere")).expect("an engine");
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 1).expect("keys"), Values::new(100, 1.0, 1));
    let files = [path];
    let counts = survey(&files).expect("every line is right");
    let loaded = load_trace(&target, &files, &values, 2, 1, &Progress::new()).expect("it is loaded");
    assert_eq!(target.stats().expect("figures").keys, Some(loaded.records), "every key once");
    let told = counts.keys as f64 / loaded.records as f64;
    assert!((told - 1.0).abs() < 0.02, "{} different keys were told, {} are there", counts.keys, loaded.records);
    let settings = Settings {
        task: Task::Trace { counts },
        records: 1,
        inserts: 0,
        threads: 1,
        until: Until::Once,
        rate: None,
        seed: 1,
        check: true,
        traces: files.to_vec(),
    };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).expect("it runs");
    assert_eq!((ran.operations, ran.errors), (counts.operations(), 0), "{:?}", ran.first_error);
    (counts.reads, counts.writes, loaded.records)
}

#[test]
fn an_oltp_systems_block_accesses() {
    // `start count 0 request`: blocks that are read.
    let Some(lines) = original("arc-OLTP.lis.zst") else { return };
    let (reads, writes, keys) = replay(lines.flat_map(|line| {
        let mut fields = line.split_whitespace().map(|field| field.parse::<u64>().expect("a number"));
        let (start, count) = (fields.next().expect("a block"), fields.next().expect("a count"));
        (start..start + count).map(|block| format!("0,{block}"))
    }));
    println!("arc-OLTP: {reads} reads of {keys} blocks");
    assert!(reads >= LINES as u64 && writes == 0);
    assert!((1_000..reads).contains(&keys), "blocks are read again");
}

#[test]
fn a_virtual_disks_requests() {
    // `version,time,op,size,lbn`, a header line; the op is that of SCSI: 2a writes, 28 reads.
    let Some(lines) = original("cloudphysics-io.csv.zst") else { return };
    let (reads, writes, keys) = replay(lines.skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        match (fields.nth(2)?, fields.nth(1)?) {
            ("2a" | "8a", block) => Some(format!("1,{block}")),
            ("28" | "88", block) => Some(format!("0,{block}")),
            _ => None,
        }
    }));
    println!("cloudphysics-io: {reads} reads and {writes} writes of {keys} blocks");
    assert!(reads > 0 && writes > 0 && keys > 1_000 && keys < reads + writes);
}
