//! LevelDB's options, chosen as its experts would, and the database handle that they make.
//!
//! - `cache_bytes` is divided: a quarter for the two memtables (one filling, one being written out), the rest is the block
//!   cache. Index and filter blocks of open tables lie outside the cache; LevelDB cannot count them (about 10 bits a key).
//! - LevelDB has one background thread for the whole process, whatever the number of instances.
//! - Snappy: blocks that do not shrink by an eighth are stored raw.
//! - Level 1 holds 10 MB whatever is set; tables of 8 MiB instead of 2 keep the number of files and syncs low.

use std::ffi::c_int;
use std::path::Path;

use biombo_engine::{Durability, OpenOptions, Result};

use super::{call, ffi};
use crate::c;

const BLOCK_BYTES_MIN: u64 = 4 << 10;
const BLOCK_BYTES_MAX: u64 = 16 << 10;
const MEMTABLES: u64 = 2;
const MEMTABLE_BYTES_MIN: u64 = 512 << 10;
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
const BLOCK_CACHE_BYTES_MIN: u64 = 1 << 20;
const TABLE_BYTES: usize = 8 << 20;
const BLOOM_BITS_PER_KEY: c_int = 10;

/// How an instance is opened; all figures derived from [`OpenOptions`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    memtable_bytes: u64,
    block_cache_bytes: u64,
    block_bytes: u64,
    files_max: i64,
    durability: Durability,
}

impl Settings {
    pub(super) fn new(options: &OpenOptions) -> Self {
        let memtable_bytes = (options.cache_bytes / 4 / MEMTABLES).clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        Self {
            memtable_bytes,
            block_cache_bytes: options
                .cache_bytes
                .saturating_sub(memtable_bytes * MEMTABLES)
                .max(BLOCK_CACHE_BYTES_MIN),
            block_bytes: options.value_bytes.map_or(BLOCK_BYTES_MIN, |value| {
                (u64::from(value) * 4).next_power_of_two().clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
            }),
            files_max: crate::files::open_files_max(options.instances).min(50_000),
            durability: options.durability,
        }
    }

    /// Name and value of everything that was set, for the report.
    pub(super) fn report(&self) -> Vec<(String, String)> {
        let pairs: [(&str, String); 11] = [
            ("write_buffer_size", format!("{} (two at most)", self.memtable_bytes)),
            ("block_cache", format!("LRU, {}", self.block_cache_bytes)),
            ("block_size", self.block_bytes.to_string()),
            ("filter_policy", format!("bloom, {BLOOM_BITS_PER_KEY} bits per key")),
            ("max_file_size", TABLE_BYTES.to_string()),
            ("max_open_files", self.files_max.to_string()),
            ("compression", "snappy (raw where a block shrinks by less than an eighth)".into()),
            ("paranoid_checks", "true".into()),
            ("verify_checksums", "true".into()),
            ("background_threads", "1 for the whole process".into()),
            ("durability_hint", self.durability.name().into()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// An open database with the parts that LevelDB does not own: closed first, then those are destroyed.
pub(super) struct Handle {
    pub(super) db: *mut ffi::Db,
    _parts: Parts,
}

// SAFETY: (FC5) LevelDB's DB is safe to use from any number of threads; the parts are only held.
unsafe impl Send for Handle {}
// SAFETY: (FC5) as above.
unsafe impl Sync for Handle {}

struct Parts {
    options: *mut ffi::Options,
    cache: *mut ffi::Cache,
    filter: *mut ffi::Filter,
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: (FC1) created in `open`, destroyed once, after the database.
        unsafe {
            ffi::leveldb_options_destroy(self.options);
            ffi::leveldb_cache_destroy(self.cache);
            ffi::leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: (FC1) opened once, closed once; iterators and snapshots hold the engine, so none is left.
        unsafe { ffi::leveldb_close(self.db) }
    }
}

impl Handle {
    /// Open the database in `dir`.
    pub(super) fn open(dir: &Path, settings: &Settings, create: bool, paranoid: bool) -> Result<Self> {
        let name = c::path(dir)?;
        // SAFETY: (FC1) every handle is created here and owned by `parts`.
        let parts = unsafe {
            let parts = Parts {
                options: ffi::leveldb_options_create(),
                cache: ffi::leveldb_cache_create_lru(settings.block_cache_bytes as usize),
                filter: ffi::leveldb_filterpolicy_create_bloom(BLOOM_BITS_PER_KEY),
            };
            ffi::leveldb_options_set_create_if_missing(parts.options, create.into());
            ffi::leveldb_options_set_paranoid_checks(parts.options, paranoid.into());
            ffi::leveldb_options_set_write_buffer_size(parts.options, settings.memtable_bytes as usize);
            ffi::leveldb_options_set_max_open_files(parts.options, settings.files_max as c_int);
            ffi::leveldb_options_set_cache(parts.options, parts.cache);
            ffi::leveldb_options_set_filter_policy(parts.options, parts.filter);
            ffi::leveldb_options_set_block_size(parts.options, settings.block_bytes as usize);
            ffi::leveldb_options_set_max_file_size(parts.options, TABLE_BYTES);
            ffi::leveldb_options_set_compression(parts.options, ffi::SNAPPY_COMPRESSION);
            parts
        };
        // SAFETY: (FC1, FC2) live options, a zero-terminated name.
        let db = call("open the database", dir, |err| unsafe { ffi::leveldb_open(parts.options, name.as_ptr(), err) })?;
        Ok(Self { db, _parts: parts })
    }

    /// One of LevelDB's properties.
    pub(super) fn property(&self, name: &std::ffi::CStr) -> Option<String> {
        // SAFETY: (FC1, FC4) the database is live, the name zero-terminated; the string is ours to free.
        unsafe { c::take_string(ffi::leveldb_property_value(self.db, name.as_ptr()), ffi::leveldb_free) }
    }
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
