//! What a log says that it wrote: pages as a sync writes them, zeros ahead of the writer among them, each as often as it is written.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::sim::SimIo;
use biombo_base::io::{Io, OpenMode};
use biombo_journal::{Durability, Log, LogOptions, LogStats, Lsn, Mode, Modes, Position};

const PAGE: u64 = 4096;
const STEP: u64 = 512 << 10;

fn open(sim: &SimIo, mode: Mode) -> Log {
    open_of(sim, mode, 8 << 20)
}

fn open_of(sim: &SimIo, mode: Mode, segment_bytes: u64) -> Log {
    let modes = Modes::Always(mode);
    let options = LogOptions { segment_bytes, first_segment_bytes: segment_bytes, modes, ..LogOptions::default() };
    let mut nothing = |_: Position, _: Lsn, _: &[u8]| Ok(());
    Log::open(Arc::new(sim.clone()), Path::new("store/log"), options, &mut nothing).unwrap().0
}

fn disk() -> SimIo {
    let sim = SimIo::new(1);
    sim.create_dir_all(Path::new("store")).unwrap();
    sim
}

fn append(log: &mut Log, bytes: usize, durability: Durability) {
    log.append(&[&[&vec![7; bytes]]], durability, &mut Vec::new()).unwrap();
}

/// Bytes written since `before`, and those ahead.
fn since(log: &Log, before: LogStats) -> (u64, u64) {
    let now = log.stats();
    (now.written_bytes - before.written_bytes, now.ahead_bytes)
}

/// Fails if bytes are counted and not pages, if a page that is written again is counted once, or if one that is not synced is counted twice.
#[test]
fn a_page_counts_once_for_each_sync_that_writes_it() {
    let mut log = open(&disk(), Mode::Buffered);
    let opened = log.stats();
    append(&mut log, 100, Durability::Sync);
    // The segment's header, the edit that names it, and the first 16 KiB, of which the record takes a little.
    assert_eq!(since(&log, opened), (PAGE + PAGE + 4 * PAGE, 0));
    let first = log.stats();
    (0..9).for_each(|_| append(&mut log, 100, Durability::Sync));
    assert_eq!(since(&log, first), (9 * PAGE, 0));
    let synced = log.stats();
    (0..9).for_each(|_| append(&mut log, 100, Durability::Os));
    assert_eq!(since(&log, synced), (PAGE, 0));
    log.sync().unwrap();
    assert_eq!(since(&log, synced), (PAGE, 0), "they were counted");
    assert!(log.appended_bytes() < 2 * PAGE, "what was appended is less");
}

/// Fails if room that was written in a former life is filled with zeros ahead of small writes, or if a write comes into a part of a page that is
/// not in memory: it would wait for the page to be read.
#[test]
fn a_small_write_to_a_used_file_writes_its_pages_whole_and_none_ahead() {
    let sim = disk();
    let mut log = open_of(&sim, Mode::Buffered, 16 << 10);
    append(&mut log, 11_000, Durability::Os);
    let first = log.active().unwrap().0;
    append(&mut log, 11_000, Durability::Sync);
    log.drop_segments(&[first]).unwrap();
    (0..10).for_each(|_| log.reclaim());
    let before = log.stats();
    append(&mut log, 7000, Durability::Sync);
    assert_eq!(since(&log, before), (PAGE + PAGE + 2 * PAGE, 0), "header, edit, the record's");
    let free = |name: &PathBuf| name.extension().is_some_and(|extension| extension == "free");
    let dir = Path::new("store/log");
    assert!(!sim.read_dir(dir).unwrap().iter().any(free), "the file is used again");
    let paths = sim.read_dir(dir).unwrap().into_iter().filter(|name| name.extension().is_some_and(|e| e == "seg"));
    let file = sim.open(&dir.join(paths.max().unwrap()), OpenMode::READ).unwrap();
    let mut pages = vec![1; 3 * PAGE as usize];
    assert_eq!(file.read_at(&mut pages, PAGE).unwrap(), pages.len());
    let (written, behind) = pages.split_at(2 * PAGE as usize);
    let end = written.iter().rposition(|byte| *byte != 0).unwrap();
    assert!((7000..7100).contains(&end), "the rest of the page is zeros, not of the former life: {end}");
    assert!(behind[..2000].iter().all(|byte| *byte == 7), "what is behind that page is left alone");
    let second = log.stats();
    append(&mut log, 100, Durability::Sync);
    assert_eq!(since(&log, second), (PAGE, 0));
}

/// Fails if the zeros that are written directly ahead of small writes are left out.
#[test]
fn directly_written_zeros_count() {
    let mut log = open(&disk(), Mode::Direct);
    let opened = log.stats();
    append(&mut log, 100, Durability::Sync);
    assert_eq!(since(&log, opened), (PAGE + PAGE + 5 * PAGE + PAGE, 0), "header, edit, zeros, the record");
    let first = log.stats();
    (0..3).for_each(|_| append(&mut log, 100, Durability::Sync));
    assert_eq!(since(&log, first), (3 * PAGE, 0));
}

/// Fails if zeros ahead of a mapped segment's writer count before they are written, never, or more than once for each time.
#[test]
fn zeros_ahead_count_when_something_syncs_them() {
    let mut log = open(&disk(), Mode::Mapped);
    let opened = log.stats();
    append(&mut log, 100, Durability::Os);
    // Nobody works ahead: the writer filled a step.
    let ahead = STEP - 2 * PAGE;
    assert_eq!(since(&log, opened), (3 * PAGE, ahead));
    log.sync().unwrap();
    assert_eq!(since(&log, opened), (3 * PAGE + ahead, 0));
    append(&mut log, 100, Durability::Os);
    assert_eq!(since(&log, opened), (4 * PAGE + ahead, 0), "room that is filled is not filled again");
    for _ in 0..2 {
        log.written_back();
        assert_eq!(since(&log, opened), (4 * PAGE + ahead, 0), "nothing is ahead");
    }
    // Sealed before it was full: what stands ahead goes with it.
    append(&mut log, 600 << 10, Durability::Os);
    let (written, ahead) = since(&log, opened);
    assert!(ahead > 0);
    log.seal().unwrap();
    assert_eq!(since(&log, opened), (written + ahead, 0));
}

/// Fails if the room of the segment that is made ahead is forgotten, or if it counts though nobody has had it written.
#[test]
fn what_is_prepared_counts_when_the_file_system_is_synced() {
    let sim = disk();
    let mut log = open(&sim, Mode::Mapped);
    let _preparer = log.preparer();
    append(&mut log, 3 << 20, Durability::Os);
    log.written_back();
    let before = log.stats();
    log.begin_preparing().expect("a quarter of the segment is written").run().unwrap();
    assert_eq!(since(&log, before), (PAGE, 0), "an edit names it");
    log.written_back();
    // Whole steps, until 4 MiB behind the header are ready.
    let prepared = (4 << 20) + STEP - PAGE;
    assert_eq!(since(&log, before), (PAGE + prepared, 0));
    log.written_back();
    assert_eq!(since(&log, before), (PAGE + prepared, 0));
    // In vain: its file goes with the zeros in it, instead of being kept for reuse as if it had been written.
    drop(log);
    let log = open(&sim, Mode::Mapped);
    let kept = log.stats().file_bytes - log.segments().iter().map(|info| info.file_bytes).sum::<u64>();
    assert_eq!(kept, 0);
}
