//! What an append costs: `cargo bench -p biombo-journal` prints one line for each case, or with `-- WORD` for those with that
//! word: unsynced, sustained, direct, get.
//!
//! `BIOMBO_BENCH_BYTES` bytes are appended for each (by default 16 MB when run as a test, 4 GB as a benchmark); segments are
//! of 64 MiB and recycled, as an engine that cleans would have them. The directory is `BIOMBO_BENCH_DIR`, or the temporary
//! one, which must not be in memory to say anything about `Sync`.

use std::path::Path;
use std::time::{Duration, Instant};

use biombo_base::io::RealIo;
use biombo_journal::{Durability, Found, Log, LogOptions, LogReader, Lsn, Position};

const RECORD_BYTES: usize = 1024;

/// A log with `recycled` segments that were written and dropped. `sustained`: a thread syncs for it, and few segments may
/// wait for that, so that the device's speed is the limit; otherwise nothing is synced.
fn open(dir: &Path, recycled: usize, sustained: bool) -> biombo_base::Result<(Log, LogReader)> {
    let unsynced_segments_max = if sustained { 6 } else { 1000 };
    let options = LogOptions { recycle_segments_max: recycled, unsynced_segments_max, ..LogOptions::default() };
    let (mut log, reader) =
        Log::open(RealIo::shared(), dir, options.clone(), &mut |_: Position, _: Lsn, _: &[u8]| Ok(()))?;
    let (record, mut at) = (vec![1; RECORD_BYTES], Vec::new());
    // Frames and headers make a little more than so many segments of them.
    for _ in 0..recycled as u64 * options.segment_bytes / RECORD_BYTES as u64 {
        at.clear();
        log.append(&[&[&record]], Durability::Os, &mut at)?;
    }
    log.sync()?;
    drop_old(&mut log, 0)?;
    if sustained {
        let flusher = log.flusher();
        std::thread::spawn(move || flusher.run());
    }
    Ok((log, reader))
}

/// Drop all but the newest `keep` sealed segments that are durable.
fn drop_old(log: &mut Log, keep: usize) -> biombo_base::Result<()> {
    let sealed: Vec<_> =
        log.segments().iter().filter(|info| info.sealed && info.durable).map(|info| info.number).collect();
    let last = log.segments().last().map(|info| info.number);
    let old: Vec<_> =
        sealed.iter().take(sealed.len().saturating_sub(keep)).copied().filter(|n| Some(*n) != last).collect();
    if old.is_empty() { Ok(()) } else { log.drop_segments(&old) }
}

struct Run {
    elapsed: Duration,
    worst: Duration,
    count: u64,
}

fn append(log: &mut Log, bytes: u64, durability: Durability, drops: bool) -> biombo_base::Result<Run> {
    let (record, mut at) = (vec![7; RECORD_BYTES], Vec::with_capacity(1));
    let count = bytes / RECORD_BYTES as u64;
    let start = Instant::now();
    let (mut worst, mut last) = (Duration::ZERO, start);
    let mut segment = log.active().map(|(number, _)| number);
    for i in 0..count {
        at.clear();
        log.append(&[&[&record]], durability, &mut at)?;
        if drops && Some(at[0].segment()) != segment {
            segment = Some(at[0].segment());
            drop_old(log, 1)?;
        }
        if i % 16 == 0 || durability == Durability::Sync {
            let now = Instant::now();
            worst = worst.max(now - last);
            last = now;
        }
    }
    Ok(Run { elapsed: start.elapsed(), worst, count })
}

fn line(what: &str, runs: &[Run]) {
    let rate: f64 = runs.iter().map(|run| run.count as f64 / run.elapsed.as_secs_f64()).sum();
    let worst = runs.iter().map(|run| run.worst).max().unwrap_or_default();
    println!("{what:36} {rate:12.0} appends/s of {RECORD_BYTES} B   worst {worst:.1?}");
}

fn number(variable: &str, or: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(or)
}

fn main() -> biombo_base::Result<()> {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let bytes = number("BIOMBO_BENCH_BYTES", if is_bench { 4 << 30 } else { 16 << 20 });
    let word = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |case: &str| word.as_ref().is_none_or(|word| case.contains(word.as_str()));
    let recycled = if is_bench { 16 } else { 0 };
    let base = std::env::var_os("BIOMBO_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(base).map_err(|e| biombo_base::Error::io("make a directory", e))?;
    for (what, sustained, logs) in
        [("unsynced", false, 1), ("unsynced", false, 2), ("sustained", true, 1), ("sustained", true, 2)]
    {
        if !wanted(what) {
            continue;
        }
        let mut opened = Vec::new();
        for i in 0..logs {
            let recycled = if sustained { recycled / 2 } else { recycled / logs };
            opened.push(open(&dir.path().join(format!("{what}-{logs}-{i}")), recycled, sustained)?);
        }
        // Unsynced: as much as there are recycled segments, less than the kernel begins to write back by itself.
        let bytes = if sustained { bytes } else { bytes.min(1000 << 20) } / logs as u64;
        let runs = std::thread::scope(|scope| {
            let work = |(mut log, _reader): (Log, LogReader)| append(&mut log, bytes, Durability::Os, sustained);
            let threads: Vec<_> = opened.into_iter().map(|log| scope.spawn(move || work(log))).collect();
            threads.into_iter().map(|thread| thread.join().expect("invariant: it does not panic")).collect()
        });
        let runs: biombo_base::Result<Vec<_>> = runs;
        line(&format!("mapped, Os, {what}, {logs} log(s)"), &runs?);
        for i in 0..logs {
            let used = dir.path().join(format!("{what}-{logs}-{i}"));
            std::fs::remove_dir_all(used).map_err(|e| biombo_base::Error::io("clean", e))?;
        }
    }
    let (mut log, reader) = open(&dir.path().join("sync"), recycled.min(2), true)?;
    if wanted("direct") {
        line("direct, Sync, 1 log", &[append(&mut log, bytes / 100, Durability::Sync, true)?]);
    }
    if !wanted("get") {
        return Ok(());
    }

    // Reads of what lies in the page cache, in an order that the processor cannot foresee.
    let (record, mut at) = (vec![3; RECORD_BYTES], Vec::new());
    for _ in 0..(bytes / 8 / RECORD_BYTES as u64).min(200_000) {
        log.append(&[&[&record]], Durability::Os, &mut at)?;
    }
    let order: Vec<_> =
        (0..at.len() as u64).map(|i| at[(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % at.len() as u64) as usize]).collect();
    let length = |found: biombo_base::Result<Option<Found<'_>>>| found.ok().flatten().map_or(0, |record| record.len());
    let timed = |what: &str, read: &dyn Fn(Position) -> usize| {
        let start = Instant::now();
        let total: usize = order.iter().map(|at| read(*at)).sum();
        assert_eq!(total, order.len() * RECORD_BYTES);
        println!("{what:36} {:12.0} ns", start.elapsed().as_nanos() as f64 / order.len() as f64);
    };
    let guard = reader.pin();
    timed("get, pinned once", &|at| length(reader.get(&guard, at)));
    timed("get, pinned each time", &|at| length(reader.get(&reader.pin(), at)));
    timed("read_verified, pinned once", &|at| reader.read_verified(&guard, at).map_or(0, |record| record.len()));
    let same = order[0];
    timed("get of the same record", &|_| length(reader.get(&guard, std::hint::black_box(same))));
    Ok(())
}
