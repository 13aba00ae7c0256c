//! RocksDB's own figures: properties and tickers.
//!
//! What memtables hold that no table has (`unflushed_bytes`) is told as it is in memory: a table of it is about as large where values do not
//! compress, and smaller where they do. Closing does not write it, because the log has it.

use biombo_engine::{Compaction, CompactionTail, Result, Stats};

use super::RocksDb;

impl RocksDb {
    pub(super) fn read_stats(&self) -> Result<Stats> {
        // Before what is written: a flush that ends meanwhile counts rather twice than not at all.
        let unflushed_bytes = self.unflushed_bytes();
        let text = self.options.statistics();
        let ticker = |name: &str| ticker(&text, name);
        let sum = |names: [&str; 3]| names.iter().filter_map(|name| ticker(name)).sum::<u64>();
        let times = histogram(&text, "rocksdb.compaction.times.micros");
        let block_cache = self.property(c"rocksdb.block-cache-usage");
        let memtables = self.property(c"rocksdb.size-all-mem-tables");
        let compaction_tail = times.as_ref().filter(|times| times.count > 0).map(|times| CompactionTail {
            latency_ns_p99: Some((times.p99 * 1e3) as u64),
            latency_ns_max: Some((times.max * 1e3) as u64),
        });
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

    /// Memory of the active memtable and of those that wait for their flush.
    fn unflushed_bytes(&self) -> Option<u64> {
        let entries = self.property(c"rocksdb.num-entries-active-mem-table")?
            + self.property(c"rocksdb.num-entries-imm-mem-tables")?;
        // An empty memtable has memory already.
        if entries == 0 { Some(0) } else { self.property(c"rocksdb.cur-size-all-mem-tables") }
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
}
