//! RocksDB's own figures: properties and tickers.
//!
//! What memtables hold that no table has (`unflushed_bytes`) is told by the bytes of the log files ([`log_bytes`]), as LevelDB's is. Their
//! memory says too much: it is taken in blocks of up to 1 MiB in each instance, and has the pointers of a skip list. Closing does not
//! write it, because the log has it.

use biombo_engine::{Compaction, CompactionTail, Result, Stats};

use super::RocksDb;
use crate::log_tail::log_bytes;

impl RocksDb {
    pub(super) fn read_stats(&self) -> Result<Stats> {
        // Before what is written: a flush that ends meanwhile counts rather twice than not at all.
        let unflushed_bytes = self.unflushed_bytes()?;
        let text = self.options.statistics();
        let ticker = |name: &str| ticker(&text, name);
        let sum = |names: [&str; 3]| names.iter().filter_map(|name| ticker(name)).sum::<u64>();
        let times = histogram(&text, "rocksdb.compaction.times.micros");
        let block_cache = self.property(c"rocksdb.block-cache-usage");
        let memtables = self.property(c"rocksdb.size-all-mem-tables");
        let compaction_tail = times.as_ref().map(Histogram::tail);
        Ok(Stats {
            keys: self.property(c"rocksdb.estimate-num-keys"),
            keys_estimated: true,
            logical_bytes: None,
            physical_bytes: Some(self.home.physical_bytes()?),
            written_bytes: Some(sum(["rocksdb.wal.bytes", "rocksdb.flush.write.bytes", "rocksdb.compact.write.bytes"])),
            unflushed_bytes,
            leaves_unflushed: true,
            cache_bytes: block_cache.zip(memtables).map(|(cache, memtables)| cache + memtables),
            cache_hits_misses: ticker("rocksdb.block.cache.hit").zip(ticker("rocksdb.block.cache.miss")),
            compaction: times.map(|times| Compaction {
                count: times.count,
                seconds: times.sum as f64 / 1e6,
                latency_ns_p50: (times.count > 0).then_some((times.p50 * 1e3) as u64),
                bytes: ticker("rocksdb.compact.write.bytes").unwrap_or(0),
                // It keeps no count of them, and their times are not in the histogram.
                moves: 0,
            }),
            compaction_tail,
            options: self.settings.report(),
            ..Stats::default()
        })
    }

    /// What the active memtable and those that wait for their flush will be as tables.
    fn unflushed_bytes(&self) -> Result<Option<u64>> {
        let active = self.property(c"rocksdb.num-entries-active-mem-table");
        let waiting = self.property(c"rocksdb.num-entries-imm-mem-tables");
        let Some((active, waiting)) = active.zip(waiting) else { return Ok(None) };
        if active + waiting == 0 {
            // A log that nobody needs may be there for a moment.
            return Ok(Some(0));
        }
        // Nor does it count for more than its memtables hold, which is less than their memory.
        let memory = self.property(c"rocksdb.cur-size-all-mem-tables").unwrap_or(u64::MAX);
        Ok(Some(log_bytes(self.home.dir())?.min(memory)))
    }
}

/// `NAME COUNT : n`
fn ticker(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT :"))?;
    line.trim().parse().ok()
}

/// A histogram's figures, in its own unit.
#[derive(Debug, PartialEq)]
struct Histogram {
    p50: f64,
    p99: f64,
    max: f64,
    count: u64,
    sum: u64,
}

impl Histogram {
    /// Nothing is known of none, which is not the same as an engine that keeps no such figures.
    fn tail(&self) -> CompactionTail {
        let ns = |micros: f64| (self.count > 0).then_some((micros * 1e3) as u64);
        CompactionTail { latency_ns_p99: ns(self.p99), latency_ns_max: ns(self.max) }
    }
}

/// `NAME P50 : x P95 : x P99 : x P100 : x COUNT : n SUM : s`.
fn histogram(text: &str, name: &str) -> Option<Histogram> {
    fn after<T: std::str::FromStr>(line: &str, label: &str) -> Option<T> {
        line.split_once(label)?.1.split_whitespace().next()?.parse().ok()
    }
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(Histogram {
        p50: after(line, "P50 : ")?,
        p99: after(line, "P99 : ")?,
        max: after(line, "P100 : ")?,
        count: after(line, "COUNT : ")?,
        sum: after(line, "SUM : ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickers_and_histograms_are_found_by_their_whole_name() {
        let text = "rocksdb.block.cache.hit COUNT : 7\nrocksdb.block.cache.hit.add COUNT : 9\n\
                    rocksdb.compaction.times.micros P50 : 1.5 P95 : 2.0 P99 : 2.5 P100 : 3.0 COUNT : 3 SUM : 41\n\
                    rocksdb.compaction.times.cpu_micros P50 : 1.0 P95 : 2.0 P99 : 2.0 P100 : 2.0 COUNT : 4 SUM : 5\n";
        assert_eq!(ticker(text, "rocksdb.block.cache.hit"), Some(7));
        assert_eq!(ticker(text, "rocksdb.block"), None);
        let expected = Histogram { p50: 1.5, p99: 2.5, max: 3.0, count: 3, sum: 41 };
        assert_eq!(histogram(text, "rocksdb.compaction.times.micros"), Some(expected));
    }

    /// Fails if a partition that compacted nothing seems to keep no times, so that those of the others are lost.
    #[test]
    fn an_instance_without_a_compaction_tells_that_there_was_none() {
        let busy = Histogram { p50: 1.5, p99: 2.5, max: 3.0, count: 3, sum: 7 };
        let tail = CompactionTail { latency_ns_p99: Some(2_500), latency_ns_max: Some(3_000) };
        assert_eq!(busy.tail(), tail);
        let none = Histogram { count: 0, sum: 0, ..busy };
        assert_eq!(none.tail(), CompactionTail::default());
        assert_eq!(CompactionTail::together(&[none.tail(), tail]), Some(tail));
        let dir = tempfile::tempdir().unwrap();
        let engine = RocksDb::open(&biombo_engine::OpenOptions::new(dir.path())).unwrap();
        assert_eq!(engine.read_stats().unwrap().compaction_tail, Some(none.tail()));
    }
}
