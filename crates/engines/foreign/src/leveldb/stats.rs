//! LevelDB's own figures. It keeps few; what its info log says of flushes and compactions since the database was opened is
//! added up (LevelDB begins a new log on each open).
//!
//! What memtables hold that no table has (`unflushed_bytes`) none of its properties tells apart from the block cache. It is the bytes of the
//! log files ([`log_bytes`]). Closing does not write it, because the log has it.

use std::fs;

use biombo_engine::{Compaction, CompactionTail, Result, Stats};

use super::LevelDb;
use crate::log_tail::log_bytes;

impl LevelDb {
    pub(super) fn read_stats(&self) -> Result<Stats> {
        // Before what is written: a flush that ends meanwhile counts rather twice than not at all.
        let unflushed_bytes = log_bytes(self.home.dir())?;
        let log = fs::read_to_string(self.home.dir().join("LOG")).unwrap_or_default();
        let work = Work::from_log(&log);
        let logged = self.logged_bytes.load(std::sync::atomic::Ordering::Relaxed);
        let cache = self.db.property(c"leveldb.approximate-memory-usage").and_then(|text| text.trim().parse().ok());
        Ok(Stats {
            keys: None,
            keys_estimated: false,
            logical_bytes: None,
            physical_bytes: Some(self.home.physical_bytes()?),
            // The log's framing of some 20 bytes a record is not counted.
            written_bytes: Some(logged + work.flushed_bytes + work.compaction.bytes),
            unflushed_bytes: Some(unflushed_bytes),
            leaves_unflushed: true,
            cache_bytes: cache,
            cache_hits_misses: None,
            compaction: Some(work.compaction),
            compaction_tail: Some(work.tail),
            options: self.settings.report(),
            ..Stats::default()
        })
    }
}

#[derive(Debug, Default, PartialEq)]
struct Work {
    flushed_bytes: u64,
    compaction: Compaction,
    tail: CompactionTail,
}

impl Work {
    fn from_log(log: &str) -> Self {
        let mut work = Self::default();
        let mut began = None;
        let mut times_ns = Vec::new();
        for line in log.lines() {
            let number_after = |mark: &str| {
                let (_, rest) = line.split_once(mark)?;
                rest.split_whitespace().next()?.parse::<u64>().ok()
            };
            if line.contains("Level-0 table #") && line.contains(" bytes OK") {
                work.flushed_bytes += line.split_once(": ").and_then(|(_, rest)| first_number(rest)).unwrap_or(0);
            } else if line.contains(" Moved #") {
                work.compaction.moves += 1;
            } else if line.contains(" Compacting ") {
                began = seconds_of_day(line);
            } else if line.contains(" Compacted ") {
                work.compaction.count += 1;
                work.compaction.bytes += number_after("=> ").unwrap_or(0);
                if let (Some(from), Some(to)) = (began.take(), seconds_of_day(line)) {
                    let seconds = if to >= from { to - from } else { to - from + 86_400.0 };
                    work.compaction.seconds += seconds;
                    times_ns.push((seconds * 1e9) as u64);
                }
            }
        }
        work.compaction.latency_ns_p50 = Compaction::median(&mut times_ns);
        work.tail = CompactionTail::of(times_ns);
        work
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// `2026/11/21-21:47:12.345678 THREAD TEXT`
fn seconds_of_day(line: &str) -> Option<f64> {
    let time = line.split_once('-')?.1.split_whitespace().next()?;
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    Some(parts.next()?? * 3600.0 + parts.next()?? * 60.0 + parts.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_and_compactions_of_the_info_log_are_added_up_over_midnight() {
        let log = "2026/11/21-23:59:59.500000 140 Level-0 table #5: started\n\
                   2026/11/21-23:59:59.500000 140 Level-0 table #5: 1000 bytes OK\n\
                   2026/11/21-23:59:59.500000 140 Compacting 4@0 + 1@1 files\n\
                   2026/11/21-23:59:59.600000 140 Generated table #8@0: 2 keys, 10 bytes\n\
                   2026/11/22-00:00:00.250000 140 Compacted 4@0 + 1@1 files => 4096 bytes\n\
                   2026/11/22-00:00:00.260000 140 Moved #8 to level-2 10 bytes OK: files[ 0 1 1 0 0 0 0 ]\n";
        let work = Work::from_log(log);
        assert_eq!((work.flushed_bytes, work.compaction.count, work.compaction.bytes), (1000, 1, 4096));
        assert_eq!(work.compaction.moves, 1, "a table that moves is no compaction");
        assert!((work.compaction.seconds - 0.75).abs() < 1e-6);
        let p50 = work.compaction.latency_ns_p50.unwrap();
        assert!(p50.abs_diff(750_000_000) < 1_000, "{p50} ns");
        assert_eq!(
            (work.tail.latency_ns_p99, work.tail.latency_ns_max),
            (Some(p50), Some(p50)),
            "of one, it is the slowest"
        );
        let again = "2026/11/22-00:00:01.000000 140 Compacting 4@0 + 1@1 files\n\
                     2026/11/22-00:00:01.250000 140 Compacted 4@0 + 1@1 files => 4096 bytes\n";
        let both = Work::from_log(&format!("{log}{again}")).compaction.latency_ns_p50.unwrap();
        assert!(both.abs_diff(500_000_000) < 1_000, "{both} ns, as the median of other engines is");
        let none = Work::from_log("");
        assert_eq!((none.compaction.latency_ns_p50, none.tail), (None, CompactionTail::default()));
    }
}
