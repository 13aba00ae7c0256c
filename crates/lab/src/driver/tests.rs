//! The driver over targets whose behaviour is known.

mod by_hand;
mod shift;
mod trace;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{Batch, OpenOptions, Stats};

use super::*;
use crate::target::{EngineTarget, Target, Walk};
use crate::workload::{Benchmark, KeyFormat, Keys, OpKind, Task, Values, Workload};

fn settings(workload: Workload, records: u64, operations: u64, threads: u32) -> Settings {
    Settings {
        task: workload.into(),
        records,
        inserts: (operations as f64 * workload.share(OpKind::Insert)) as u64,
        threads,
        until: Until::Operations(operations),
        rate: None,
        seed: 1,
        check: true,
        traces: Vec::new(),
    }
}

fn memory() -> EngineTarget {
    EngineTarget::open(&biombo_engine::memory::kind(), &OpenOptions::new("/nowhere")).unwrap()
}

#[test]
fn every_workload_runs_without_errors_and_counts_what_it_did() {
    for workload in Workload::ALL {
        for threads in [1, 3] {
            let target = memory();
            let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
            let loading = Progress::new();
            let loaded = load(&target, &keys, &values, 1_000, threads, 1, &loading).unwrap();
            assert_eq!((loaded.records, loading.bytes()), (1_000, (loaded.bytes, 0)));
            assert_eq!(target.stats().unwrap().keys, Some(1_000));
            let progress = Progress::new();
            let ran = run(&target, &settings(workload, 1_000, 5_001, threads), &keys, &values, &progress).unwrap();
            assert_eq!((ran.operations, ran.errors, progress.done()), (5_001, 0, 5_001), "{:?}", ran.first_error);
            let mut writes = 0;
            let mut all = 0;
            for (kind, histogram) in ran.latencies.iter() {
                all += histogram.len();
                if kind.writes() {
                    writes += histogram.len();
                }
                let share = histogram.len() as f64 / 5_001.0;
                assert!((share - workload.share(kind)).abs() < 0.03, "{workload} {}: {share}", kind.name());
            }
            assert_eq!(all, 5_001);
            assert_eq!(ran.logical_write_bytes, writes * 66);
            // Every byte was told to who watches, those of the last moment too.
            assert_eq!(progress.bytes(), (ran.logical_write_bytes, ran.logical_read_bytes));
            let count = |of: OpKind| ran.latencies.iter().find(|(kind, _)| *kind == of).map_or(0, |(_, h)| h.len());
            // A value for each that was found, key and value of each record of a scan: at least the one that it begins at.
            let values_read = 50 * (count(OpKind::Read) + count(OpKind::ReadModifyWrite));
            let scanned = ran.logical_read_bytes - values_read;
            assert!(scanned.is_multiple_of(66) && scanned >= 66 * count(OpKind::Scan), "{workload}: {scanned}");
            assert_eq!(scanned > 0, count(OpKind::Scan) > 0, "{workload}");
            assert_eq!(ran.timeline.operations.iter().sum::<u64>(), 5_001);
            let inserted = ran.latencies.iter().find(|(kind, _)| *kind == OpKind::Insert).map_or(0, |(_, h)| h.len());
            assert_eq!(target.stats().unwrap().keys, Some(1_000 + inserted));
        }
    }
}

#[test]
fn a_run_by_seconds_ends_in_time() {
    let target = memory();
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
    load(&target, &keys, &values, 100, 1, 1, &Progress::new()).unwrap();
    let began = Instant::now();
    let settings = Settings { until: Until::Seconds(0.3), ..settings(Workload::C, 100, 0, 2) };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).unwrap();
    assert!(ran.seconds >= 0.3 && began.elapsed() < Duration::from_secs(5));
    assert!(ran.operations > 0);
}

/// Fails if a client waits for its next slot before it looks whether the run is over, or if what it then waited is not counted.
#[test]
fn an_open_loop_by_seconds_ends_with_them_however_far_its_next_slot_is() {
    let target = memory();
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
    load(&target, &keys, &values, 100, 1, 1, &Progress::new()).unwrap();
    let began = Instant::now();
    let settings = Settings { until: Until::Seconds(0.2), rate: Some(0.1), ..settings(Workload::C, 100, 0, 2) };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).unwrap();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(5), "{took:?}");
    // One client's second slot is twenty seconds away, the other's first one ten.
    assert!(ran.operations == 1 && ran.seconds >= 0.2 && ran.ops_per_s <= 5.0, "{ran:?}");
}

/// Answers at once, but stalls once for a fifth of a second.
struct Stalls {
    calls: AtomicU64,
}

impl Target for Stalls {
    fn read(&self, _key: &[u8], _into: &mut Vec<u8>) -> Result<bool> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 500 {
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(true)
    }
    fn put(&self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Full, "no room on the device"))
    }
    fn read_group(&self, _keys: &[Vec<u8>], _into: &mut Vec<u8>) -> Result<u32> {
        Err(Error::unsupported("no groups here"))
    }
    fn write_group(&self, _batch: &Batch) -> Result<()> {
        Err(Error::unsupported("no groups here"))
    }
    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }
    fn scan(&self, _from: &[u8], _limit: u32, _into: &mut Vec<u8>) -> Result<u32> {
        Ok(0)
    }
    fn walk(&self) -> Result<Box<dyn Walk>> {
        Err(Error::unsupported("no walks here"))
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> Result<Stats> {
        Ok(Stats::default())
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn p99_ns(rate: Option<f64>) -> u64 {
    let target = Stalls { calls: AtomicU64::new(0) };
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
    let settings = Settings { rate, check: false, ..settings(Workload::C, 100, 2_500, 1) };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).unwrap();
    assert_eq!(ran.operations, 2_500);
    if let Some(rate) = rate {
        assert!(ran.seconds > 2_499.0 / rate, "the schedule was outrun: {} s", ran.seconds);
    }
    let (_, histogram) = ran.latencies.iter().next().unwrap();
    assert!(histogram.max() >= 200_000_000);
    histogram.value_at_quantile(0.96)
}

#[test]
fn an_open_loop_shows_a_stall_to_all_who_wait_behind_it_and_a_closed_one_hides_it() {
    // At 5,000 per second a stall of 200 ms makes 1,000 of the 2,500 operations late, evenly from 200 ms down to none: the
    // slowest 4 % are late by 180 ms and more.
    let open = p99_ns(Some(5_000.0));
    assert!(open > 150_000_000, "open loop: {open} ns");
    let closed = p99_ns(None);
    assert!(closed < 50_000_000, "closed loop: {closed} ns");
}

#[test]
fn a_full_disk_ends_load_and_run_with_its_error() {
    let target = Stalls { calls: AtomicU64::new(0) };
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
    let error = load(&target, &keys, &values, 100, 2, 1, &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let settings = settings(Workload::A, 100, 1_000_000_000, 2);
    let error = run(&target, &settings, &keys, &values, &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

#[test]
fn a_missing_record_is_counted_as_an_error() {
    let target = memory();
    let (keys, values) = (Keys::new(KeyFormat::Hashed, 16, 10_000).unwrap(), Values::new(50, 1.0, 1));
    let ran = run(&target, &settings(Workload::C, 10, 100, 1), &keys, &values, &Progress::new()).unwrap();
    assert_eq!(ran.errors, 100);
    assert!(ran.first_error.unwrap().contains("missing"));
}

/// A key as put or read, and whether it was put.
type Call = (Vec<u8>, bool);

/// Notes every call and answers as if all were there.
#[derive(Default)]
struct Notes {
    calls: Mutex<Vec<Call>>,
    /// Since when reads wait for half as many puts, ten seconds at most; `None`: they never wait.
    paired: Option<Instant>,
    /// Two for each put, less one for each read.
    ahead: AtomicI64,
}

impl Notes {
    fn note(&self, key: &[u8], put: bool) {
        self.calls.lock().unwrap().push((key.to_vec(), put));
        self.ahead.fetch_add(if put { 2 } else { -1 }, Ordering::SeqCst);
    }
}

impl Target for Notes {
    fn read(&self, key: &[u8], _into: &mut Vec<u8>) -> Result<bool> {
        self.note(key, false);
        let is_waiting = || self.paired.is_some_and(|since| since.elapsed() < Duration::from_secs(10));
        while self.ahead.load(Ordering::SeqCst) < 0 && is_waiting() {
            std::thread::yield_now();
        }
        Ok(true)
    }
    fn put(&self, key: &[u8], _value: &[u8]) -> Result<()> {
        self.note(key, true);
        std::thread::yield_now();
        Ok(())
    }
    fn read_group(&self, _keys: &[Vec<u8>], _into: &mut Vec<u8>) -> Result<u32> {
        Err(Error::unsupported("no groups here"))
    }
    fn write_group(&self, _batch: &Batch) -> Result<()> {
        Err(Error::unsupported("no groups here"))
    }
    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }
    fn scan(&self, _from: &[u8], _limit: u32, _into: &mut Vec<u8>) -> Result<u32> {
        Ok(0)
    }
    fn walk(&self) -> Result<Box<dyn Walk>> {
        Err(Error::unsupported("no walks here"))
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> Result<Stats> {
        Ok(Stats::default())
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn db(benchmark: Benchmark, records: u64, operations: u64, threads: u32) -> Settings {
    Settings { task: benchmark.into(), inserts: 0, check: false, ..settings(Workload::C, records, operations, threads) }
}

fn noted(settings: &Settings) -> (Ran, Vec<Call>) {
    let target = Notes::default();
    let keys = Keys::new(KeyFormat::Decimal, 16, settings.records).unwrap();
    let ran = run(&target, settings, &keys, &Values::new(100, 0.5, 1), &Progress::new()).unwrap();
    (ran, target.calls.into_inner().unwrap())
}

#[test]
fn fillseq_puts_every_key_in_order_and_by_many_threads_once() {
    let (ran, calls) = noted(&db(Benchmark::FillSeq, 500, 500, 1));
    let keys: Vec<_> = calls.into_iter().map(|(key, put)| (String::from_utf8(key).unwrap(), put)).collect();
    assert!(keys.iter().enumerate().all(|(i, call)| *call == (format!("{i:016}"), true)));
    assert_eq!((keys.len(), ran.operations, ran.logical_write_bytes), (500, 500, 500 * 116));
    let (ran, mut calls) = noted(&db(Benchmark::FillSeq, 500, 500, 3));
    calls.sort();
    calls.dedup();
    assert_eq!((calls.len(), ran.operations), (500, 500));
}

#[test]
fn random_benchmarks_do_their_kind_on_keys_that_exist_with_replacement() {
    for (benchmark, puts) in
        [(Benchmark::FillRandom, true), (Benchmark::Overwrite, true), (Benchmark::ReadRandom, false)]
    {
        let (ran, mut calls) = noted(&db(benchmark, 500, 1_000, 2));
        assert_eq!((ran.operations, calls.len()), (1_000, 1_000));
        assert!(calls.iter().all(|(key, put)| *put == puts && key.as_slice() < b"0000000000000500".as_slice()));
        calls.sort();
        calls.dedup();
        // 1,000 draws of 500 keys leave out 1/e^2 of them, 68 give or take 7.
        assert!((400..470).contains(&calls.len()), "{benchmark}: {} keys", calls.len());
    }
}

#[test]
fn readwhilewriting_counts_its_readers_and_writes_beside_them_until_they_end() {
    for settings in [
        db(Benchmark::ReadWhileWriting, 500, 1_000, 2),
        Settings { until: Until::Seconds(0.1), ..db(Benchmark::ReadWhileWriting, 500, 0, 1) },
    ] {
        let progress = Progress::new();
        let target = Notes { paired: Some(Instant::now()), ..Notes::default() };
        let keys = Keys::new(KeyFormat::Decimal, 16, 500).unwrap();
        let ran = run(&target, &settings, &keys, &Values::new(100, 0.5, 1), &progress).unwrap();
        let calls = target.calls.into_inner().unwrap();
        let puts = calls.iter().filter(|(_, put)| *put).count() as u64;
        let reads = calls.len() as u64 - puts;
        // Each of at most two readers may have one read that waits no more.
        assert!(reads > 0 && 2 * puts + 2 >= reads, "{reads} reads, {puts} puts: the writer ended before them");
        assert_eq!((ran.operations, progress.done()), (reads, reads));
        assert_eq!(ran.timeline.operations.iter().sum::<u64>(), reads);
        let counts: Vec<_> = ran.latencies.iter().map(|(kind, histogram)| (kind, histogram.len())).collect();
        assert_eq!(counts, [(OpKind::Read, reads), (OpKind::Update, puts)]);
        assert_eq!(ran.logical_write_bytes, puts * 116);
    }
}

#[test]
fn a_reader_that_fails_ends_the_writer_beside_it() {
    let target = Stalls { calls: AtomicU64::new(0) };
    let keys = Keys::new(KeyFormat::Decimal, 16, 500).unwrap();
    let settings = db(Benchmark::ReadWhileWriting, 500, u64::MAX, 1);
    let error = run(&target, &settings, &keys, &Values::new(100, 0.5, 1), &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

#[test]
fn readseq_reads_in_order_and_begins_anew_after_the_last() {
    let target = memory();
    let (keys, values) = (Keys::new(KeyFormat::Decimal, 16, 100).unwrap(), Values::new(50, 0.5, 1));
    load(&target, &keys, &values, 100, 1, 1, &Progress::new()).unwrap();
    let mut walk = target.walk().unwrap();
    let mut seen = Vec::new();
    let mut buffer = Vec::new();
    while walk.next(&mut buffer).unwrap() {
        seen.push(String::from_utf8(buffer[..16].to_vec()).unwrap());
    }
    assert!(seen.iter().enumerate().all(|(i, key)| *key == format!("{i:016}")) && seen.len() == 100);
    let settings = Settings { check: true, ..db(Benchmark::ReadSeq, 100, 1_050, 2) };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).unwrap();
    assert_eq!((ran.operations, ran.errors, ran.logical_write_bytes), (1_050, 0, 0), "{:?}", ran.first_error);
    // An empty store has nothing to read.
    let ran = run(&memory(), &settings, &keys, &values, &Progress::new()).unwrap();
    assert_eq!(ran.errors, 1_050);
    assert_eq!(Task::from(Benchmark::ReadSeq).distribution(), "sequential");
}
