//! RocksDB's options, chosen as its experts would for an embedded instance that shares a machine, and reported.
//!
//! - `cache_bytes` is divided: a quarter for three memtables, the rest is the block cache, in which index and filter blocks
//!   are counted too (they would be unbounded outside it).
//! - All instances of a process share one pool of background threads, as many as there are cores: eight partitions do not
//!   start eight times the threads.
//! - LZ4: blocks that do not shrink by an eighth are stored raw, so incompressible values cost little and others gain.
//! - The log is written to the kernel by each write (`manual_wal_flush` off) and never recycled (recovery to a point in time
//!   forbids it).
//! - Statistics are on: nothing else tells to the byte what RocksDB wrote, what its cache answered and how long compactions took. There
//!   are levels with fewer figures (`StatsLevel`), but the C API of 7.8 sets none, and with the timers the times of compactions would go.

use std::ffi::c_int;
use std::sync::Once;

use biombo_base::io::IoMode;
use biombo_engine::{Durability, OpenOptions};

use super::ffi;

const BLOCK_BYTES_MIN: u64 = 4 << 10;
const BLOCK_BYTES_MAX: u64 = 16 << 10;
const MEMTABLES: u64 = 3;
const MEMTABLE_BYTES_MIN: u64 = 512 << 10;
const MEMTABLE_BYTES_MAX: u64 = 128 << 20;
const BLOCK_CACHE_BYTES_MIN: u64 = 1 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const FORMAT_VERSION: c_int = 5;

/// How an instance is opened; all figures derived from [`OpenOptions`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    memtable_bytes: u64,
    block_cache_bytes: u64,
    block_bytes: u64,
    level_base_bytes: u64,
    file_bytes: u64,
    jobs: u32,
    files_max: i64,
    instances: u32,
    durability: Durability,
    is_direct: bool,
}

impl Settings {
    pub(super) fn new(options: &OpenOptions) -> Self {
        let memtable_bytes = (options.cache_bytes / 4 / MEMTABLES).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        let block_cache_bytes =
            options.cache_bytes.saturating_sub(memtable_bytes * MEMTABLES).max(BLOCK_CACHE_BYTES_MIN);
        // Four values a block: smaller ones read too much index, larger ones too much data for a point read.
        let block_bytes = options.value_bytes.map_or(BLOCK_BYTES_MIN, |value| {
            (u64::from(value) * 4).next_power_of_two().clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
        });
        // Level 1 as large as the four tables of level 0 that trigger a compaction into it.
        let level_base_bytes = (memtable_bytes * 4).clamp(32 << 20, 512 << 20);
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
        Self {
            memtable_bytes,
            block_cache_bytes,
            block_bytes,
            level_base_bytes,
            file_bytes: (level_base_bytes / 4).max(16 << 20),
            jobs: cores.max(2),
            files_max: crate::files::open_files_max(options.instances),
            instances: options.instances,
            durability: options.durability,
            is_direct: options.io == Some(IoMode::Direct),
        }
    }

    /// Name and value of everything that was set, for the report.
    pub(super) fn report(&self) -> Vec<(String, String)> {
        let pairs: [(&str, String); 24] = [
            ("write_buffer_size", self.memtable_bytes.to_string()),
            ("max_write_buffer_number", MEMTABLES.to_string()),
            ("block_cache", format!("LRU, {}", self.block_cache_bytes)),
            ("block_size", self.block_bytes.to_string()),
            ("cache_index_and_filter_blocks", "true, high priority, level 0 pinned".into()),
            ("filter_policy", format!("bloom, {BLOOM_BITS_PER_KEY} bits per key, whole key")),
            ("format_version", FORMAT_VERSION.to_string()),
            ("compaction_style", "level, dynamic level bytes".into()),
            ("max_bytes_for_level_base", self.level_base_bytes.to_string()),
            ("target_file_size_base", self.file_bytes.to_string()),
            ("compression", "lz4 (raw where a block shrinks by less than an eighth)".into()),
            ("max_background_jobs", format!("{} (one pool for all {} instances)", self.jobs, self.instances)),
            ("max_open_files", self.files_max.to_string()),
            ("use_direct_reads", self.is_direct.to_string()),
            ("use_direct_io_for_flush_and_compaction", self.is_direct.to_string()),
            ("bytes_per_sync", (1 << 20).to_string()),
            ("manual_wal_flush", "false".into()),
            ("wal_recovery_mode", "tolerate a cut tail; point in time after a torn one".into()),
            ("recycle_log_file_num", "0".into()),
            ("paranoid_checks", "true".into()),
            ("verify_checksums", "true".into()),
            ("statistics", "enabled".into()),
            ("stats_dump_period_sec", "0".into()),
            ("durability_hint", self.durability.name().into()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The options for the library.
    pub(super) fn build(&self, create: bool, recovery: c_int) -> OwnedOptions {
        share_background_threads(self.jobs);
        // SAFETY: (FC1, FC2) every handle is created here, used before it is destroyed, and the options keep shared
        // references of their own to cache, filter and table factory.
        unsafe {
            let table = ffi::rocksdb_block_based_options_create();
            ffi::rocksdb_block_based_options_set_block_size(table, self.block_bytes as usize);
            let cache = ffi::rocksdb_cache_create_lru(self.block_cache_bytes as usize);
            ffi::rocksdb_block_based_options_set_block_cache(table, cache);
            ffi::rocksdb_cache_destroy(cache);
            ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
            ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
            ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
            let owned = self.build_with(table, create, recovery);
            ffi::rocksdb_options_enable_statistics(owned.0);
            owned
        }
    }

    /// The options for a second, read-only look at the files that bypasses the cache.
    pub(super) fn build_for_verify(&self) -> OwnedOptions {
        // SAFETY: (FC1) as in `build`.
        unsafe {
            let table = ffi::rocksdb_block_based_options_create();
            ffi::rocksdb_block_based_options_set_block_size(table, self.block_bytes as usize);
            ffi::rocksdb_block_based_options_set_no_block_cache(table, 1);
            self.build_with(table, false, ffi::RECOVER_POINT_IN_TIME)
        }
    }

    /// # Safety
    /// `table` must be live; it is destroyed here.
    unsafe fn build_with(&self, table: *mut ffi::TableOptions, create: bool, recovery: c_int) -> OwnedOptions {
        // SAFETY: (FC1) the caller vouches for `table`; the options are created here and owned by the result.
        unsafe {
            ffi::rocksdb_block_based_options_set_filter_policy(
                table,
                ffi::rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY),
            );
            ffi::rocksdb_block_based_options_set_whole_key_filtering(table, 1);
            ffi::rocksdb_block_based_options_set_format_version(table, FORMAT_VERSION);
            let options = ffi::rocksdb_options_create();
            ffi::rocksdb_options_set_block_based_table_factory(options, table);
            ffi::rocksdb_block_based_options_destroy(table);
            ffi::rocksdb_options_set_create_if_missing(options, create.into());
            ffi::rocksdb_options_set_paranoid_checks(options, 1);
            // Nothing but what ends RocksDB, and few old logs: Debian builds it with assertions, and a text log that goes on after
            // a failed write of its own (a full disk) aborts the process.
            ffi::rocksdb_options_set_info_log_level(options, 4);
            ffi::rocksdb_options_set_keep_log_file_num(options, 4);
            ffi::rocksdb_options_set_write_buffer_size(options, self.memtable_bytes as usize);
            ffi::rocksdb_options_set_max_write_buffer_number(options, MEMTABLES as c_int);
            ffi::rocksdb_options_set_max_background_jobs(options, self.jobs as c_int);
            ffi::rocksdb_options_set_max_open_files(options, self.files_max as c_int);
            ffi::rocksdb_options_set_use_direct_reads(options, self.is_direct.into());
            ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, self.is_direct.into());
            ffi::rocksdb_options_set_max_bytes_for_level_base(options, self.level_base_bytes);
            ffi::rocksdb_options_set_target_file_size_base(options, self.file_bytes);
            ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
            ffi::rocksdb_options_set_compression(options, ffi::LZ4_COMPRESSION);
            ffi::rocksdb_options_set_bytes_per_sync(options, 1 << 20);
            ffi::rocksdb_options_set_manual_wal_flush(options, 0);
            ffi::rocksdb_options_set_wal_recovery_mode(options, recovery);
            ffi::rocksdb_options_set_stats_dump_period_sec(options, 0);
            ffi::rocksdb_options_set_stats_persist_period_sec(options, 0);
            ffi::rocksdb_options_set_skip_stats_update_on_db_open(options, 1);
            OwnedOptions(options)
        }
    }
}

/// Options that are destroyed with their owner.
pub(super) struct OwnedOptions(pub(super) *mut ffi::Options);

// SAFETY: (FC5) after it was built the handle is only read: for opening, and for the statistics, which are thread-safe.
unsafe impl Send for OwnedOptions {}
// SAFETY: (FC5) as above.
unsafe impl Sync for OwnedOptions {}

impl OwnedOptions {
    /// All tickers and histograms as text; empty without statistics.
    pub(super) fn statistics(&self) -> String {
        // SAFETY: (FC1, FC4) the handle is live; the string is ours to free.
        unsafe {
            let text = ffi::rocksdb_options_statistics_get_string(self.0);
            crate::c::take_string(text, ffi::rocksdb_free).unwrap_or_default()
        }
    }
}

impl Drop for OwnedOptions {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `build_with`, destroyed once.
        unsafe { ffi::rocksdb_options_destroy(self.0) }
    }
}

/// Size the process-wide pool once: a quarter of the cores flush, the rest compact, at least one each.
fn share_background_threads(jobs: u32) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let flushes = (jobs / 4).max(1);
        // SAFETY: (FC1) the default environment lives as long as the process; the handle is only a wrapper of it.
        unsafe {
            let env = ffi::rocksdb_create_default_env();
            ffi::rocksdb_env_set_high_priority_background_threads(env, flushes as c_int);
            ffi::rocksdb_env_set_low_priority_background_threads(env, (jobs - flushes).max(1) as c_int);
            ffi::rocksdb_env_destroy(env);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memtables_and_block_cache_together_stay_within_the_memory_given() {
        for cache_bytes in [16 << 20, 256 << 20, 2 << 30] {
            let settings = Settings::new(&OpenOptions { cache_bytes, ..OpenOptions::new("x") });
            assert!(settings.memtable_bytes * MEMTABLES + settings.block_cache_bytes <= cache_bytes, "{settings:?}");
        }
    }
}
