//! The driver over targets whose behaviour is known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{OpenOptions, Stats};

use super::*;
use crate::target::{EngineTarget, Target};
use crate::workload::{Keys, OpKind, Values, Workload};

fn settings(workload: Workload, records: u64, operations: u64, threads: u32) -> Settings {
    Settings {
        workload,
        distribution: workload.distribution(),
        records,
        inserts: (operations as f64 * workload.share(OpKind::Insert)) as u64,
        threads,
        until: Until::Operations(operations),
        rate: None,
        seed: 1,
        check: true,
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
            let (keys, values) = (Keys::new(16, 10_000).unwrap(), Values::new(50, 1));
            let loaded = load(&target, &keys, &values, 1_000, threads, 1, &Progress::new()).unwrap();
            assert_eq!(loaded.records, 1_000);
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
            assert_eq!(ran.timeline.operations.iter().sum::<u64>(), 5_001);
            let inserted = ran.latencies.iter().find(|(kind, _)| *kind == OpKind::Insert).map_or(0, |(_, h)| h.len());
            assert_eq!(target.stats().unwrap().keys, Some(1_000 + inserted));
        }
    }
}

#[test]
fn a_run_by_seconds_ends_in_time() {
    let target = memory();
    let (keys, values) = (Keys::new(16, 10_000).unwrap(), Values::new(50, 1));
    load(&target, &keys, &values, 100, 1, 1, &Progress::new()).unwrap();
    let began = Instant::now();
    let settings = Settings { until: Until::Seconds(0.3), ..settings(Workload::C, 100, 0, 2) };
    let ran = run(&target, &settings, &keys, &values, &Progress::new()).unwrap();
    assert!(ran.seconds >= 0.3 && began.elapsed() < Duration::from_secs(5));
    assert!(ran.operations > 0);
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
    fn load(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }
    fn scan(&self, _from: &[u8], _limit: u32, _into: &mut Vec<u8>) -> Result<u32> {
        Ok(0)
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
    let (keys, values) = (Keys::new(16, 10_000).unwrap(), Values::new(50, 1));
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
    let (keys, values) = (Keys::new(16, 10_000).unwrap(), Values::new(50, 1));
    let error = load(&target, &keys, &values, 100, 2, 1, &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let settings = settings(Workload::A, 100, 1_000_000_000, 2);
    let error = run(&target, &settings, &keys, &values, &Progress::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

#[test]
fn a_missing_record_is_counted_as_an_error() {
    let target = memory();
    let (keys, values) = (Keys::new(16, 10_000).unwrap(), Values::new(50, 1));
    let ran = run(&target, &settings(Workload::C, 10, 100, 1), &keys, &values, &Progress::new()).unwrap();
    assert_eq!(ran.errors, 100);
    assert!(ran.first_error.unwrap().contains("missing"));
}
