//! The part of RocksDB's C API (`rocksdb/c.h`) that the adapter calls, as declared there for 7.8.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

/// Opaque types of the library; only ever behind pointers.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}

opaque!(Db, Options, TableOptions, ReadOptions, WriteOptions, Batch, Iter, Snap, Pinned, Cache, Filter, Env);
opaque!(CheckpointObject, LiveFiles);

/// `rocksdb_lz4_compression`.
pub const LZ4_COMPRESSION: c_int = 4;
/// `rocksdb_tolerate_corrupted_tail_records_recovery`: only a cut last record is forgiven.
pub const RECOVER_TOLERATE_TAIL: c_int = 0;
/// `rocksdb_point_in_time_recovery`: replay up to the first damage.
pub const RECOVER_POINT_IN_TIME: c_int = 2;

unsafe extern "C" {
    pub fn rocksdb_open(options: *const Options, name: *const c_char, err: *mut *mut c_char) -> *mut Db;
    pub fn rocksdb_open_for_read_only(
        options: *const Options,
        name: *const c_char,
        error_if_wal_file_exists: c_uchar,
        err: *mut *mut c_char,
    ) -> *mut Db;
    pub fn rocksdb_close(db: *mut Db);
    pub fn rocksdb_free(ptr: *mut c_void);

    pub fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        err: *mut *mut c_char,
    );
    pub fn rocksdb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        err: *mut *mut c_char,
    );
    pub fn rocksdb_write(db: *mut Db, options: *const WriteOptions, batch: *mut Batch, err: *mut *mut c_char);
    pub fn rocksdb_flush_wal(db: *mut Db, sync: c_uchar, err: *mut *mut c_char);
    pub fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        err: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_pinnableslice_destroy(pinned: *mut Pinned);
    pub fn rocksdb_pinnableslice_value(pinned: *const Pinned, len: *mut usize) -> *const c_char;
    pub fn rocksdb_compact_range(db: *mut Db, from: *const c_char, from_len: usize, to: *const c_char, to_len: usize);
    pub fn rocksdb_property_int(db: *mut Db, name: *const c_char, value: *mut u64) -> c_int;
    pub fn rocksdb_disable_file_deletions(db: *mut Db, err: *mut *mut c_char);
    pub fn rocksdb_enable_file_deletions(db: *mut Db, force: c_uchar, err: *mut *mut c_char);

    pub fn rocksdb_writebatch_create() -> *mut Batch;
    pub fn rocksdb_writebatch_destroy(batch: *mut Batch);
    pub fn rocksdb_writebatch_put(
        batch: *mut Batch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    pub fn rocksdb_writebatch_delete(batch: *mut Batch, key: *const c_char, key_len: usize);
    pub fn rocksdb_writebatch_delete_range(
        batch: *mut Batch,
        from: *const c_char,
        from_len: usize,
        to: *const c_char,
        to_len: usize,
    );

    pub fn rocksdb_create_snapshot(db: *mut Db) -> *const Snap;
    pub fn rocksdb_release_snapshot(db: *mut Db, snapshot: *const Snap);

    pub fn rocksdb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iter;
    pub fn rocksdb_iter_destroy(iter: *mut Iter);
    pub fn rocksdb_iter_valid(iter: *const Iter) -> c_uchar;
    pub fn rocksdb_iter_seek_to_first(iter: *mut Iter);
    pub fn rocksdb_iter_seek_to_last(iter: *mut Iter);
    pub fn rocksdb_iter_seek(iter: *mut Iter, key: *const c_char, key_len: usize);
    pub fn rocksdb_iter_seek_for_prev(iter: *mut Iter, key: *const c_char, key_len: usize);
    pub fn rocksdb_iter_next(iter: *mut Iter);
    pub fn rocksdb_iter_prev(iter: *mut Iter);
    pub fn rocksdb_iter_key(iter: *const Iter, len: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_value(iter: *const Iter, len: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_get_error(iter: *const Iter, err: *mut *mut c_char);

    pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub fn rocksdb_readoptions_set_verify_checksums(options: *mut ReadOptions, value: c_uchar);
    pub fn rocksdb_readoptions_set_fill_cache(options: *mut ReadOptions, value: c_uchar);
    pub fn rocksdb_readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const Snap);

    pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, value: c_uchar);

    pub fn rocksdb_checkpoint_object_create(db: *mut Db, err: *mut *mut c_char) -> *mut CheckpointObject;
    pub fn rocksdb_checkpoint_create(
        checkpoint: *mut CheckpointObject,
        dir: *const c_char,
        log_size_for_flush: u64,
        err: *mut *mut c_char,
    );
    pub fn rocksdb_checkpoint_object_destroy(checkpoint: *mut CheckpointObject);

    pub fn rocksdb_livefiles(db: *mut Db) -> *const LiveFiles;
    pub fn rocksdb_livefiles_count(files: *const LiveFiles) -> c_int;
    pub fn rocksdb_livefiles_smallestkey(files: *const LiveFiles, index: c_int, len: *mut usize) -> *const c_char;
    pub fn rocksdb_livefiles_largestkey(files: *const LiveFiles, index: c_int, len: *mut usize) -> *const c_char;
    pub fn rocksdb_livefiles_destroy(files: *const LiveFiles);

    pub fn rocksdb_cache_create_lru(capacity: usize) -> *mut Cache;
    pub fn rocksdb_cache_destroy(cache: *mut Cache);
    pub fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut Filter;
    pub fn rocksdb_create_default_env() -> *mut Env;
    pub fn rocksdb_env_destroy(env: *mut Env);
    pub fn rocksdb_env_set_low_priority_background_threads(env: *mut Env, n: c_int);
    pub fn rocksdb_env_set_high_priority_background_threads(env: *mut Env, n: c_int);

    pub fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub fn rocksdb_block_based_options_destroy(options: *mut TableOptions);
    pub fn rocksdb_block_based_options_set_block_size(options: *mut TableOptions, value: usize);
    pub fn rocksdb_block_based_options_set_block_cache(options: *mut TableOptions, cache: *mut Cache);
    pub fn rocksdb_block_based_options_set_no_block_cache(options: *mut TableOptions, value: c_uchar);
    pub fn rocksdb_block_based_options_set_filter_policy(options: *mut TableOptions, filter: *mut Filter);
    pub fn rocksdb_block_based_options_set_format_version(options: *mut TableOptions, value: c_int);
    pub fn rocksdb_block_based_options_set_whole_key_filtering(options: *mut TableOptions, value: c_uchar);
    pub fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(options: *mut TableOptions, value: c_uchar);
    pub fn rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
        options: *mut TableOptions,
        value: c_uchar,
    );
    pub fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        options: *mut TableOptions,
        value: c_uchar,
    );

    pub fn rocksdb_options_create() -> *mut Options;
    pub fn rocksdb_options_destroy(options: *mut Options);
    pub fn rocksdb_options_set_block_based_table_factory(options: *mut Options, table: *mut TableOptions);
    pub fn rocksdb_options_set_create_if_missing(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_paranoid_checks(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_info_log_level(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_keep_log_file_num(options: *mut Options, value: usize);
    pub fn rocksdb_options_set_write_buffer_size(options: *mut Options, value: usize);
    pub fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_max_background_jobs(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_max_open_files(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_use_direct_reads(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_max_bytes_for_level_base(options: *mut Options, value: u64);
    pub fn rocksdb_options_set_target_file_size_base(options: *mut Options, value: u64);
    pub fn rocksdb_options_set_level_compaction_dynamic_level_bytes(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_compression(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_bytes_per_sync(options: *mut Options, value: u64);
    pub fn rocksdb_options_set_manual_wal_flush(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_set_wal_recovery_mode(options: *mut Options, value: c_int);
    pub fn rocksdb_options_set_stats_dump_period_sec(options: *mut Options, value: c_uint);
    pub fn rocksdb_options_set_stats_persist_period_sec(options: *mut Options, value: c_uint);
    pub fn rocksdb_options_set_skip_stats_update_on_db_open(options: *mut Options, value: c_uchar);
    pub fn rocksdb_options_enable_statistics(options: *mut Options);
    pub fn rocksdb_options_statistics_get_string(options: *mut Options) -> *mut c_char;
}
