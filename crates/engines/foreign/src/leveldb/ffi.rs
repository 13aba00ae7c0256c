//! The part of LevelDB's C API (`leveldb/c.h`) that the adapter calls, as declared there for 1.23.

use std::ffi::{c_char, c_int, c_void};

/// Opaque types of the library; only ever behind pointers.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}

opaque!(Db, Options, ReadOptions, WriteOptions, Batch, Iter, Snap, Cache, Filter);

/// `leveldb_snappy_compression`.
pub const SNAPPY_COMPRESSION: c_int = 1;

unsafe extern "C" {
    pub fn leveldb_open(options: *const Options, name: *const c_char, err: *mut *mut c_char) -> *mut Db;
    pub fn leveldb_close(db: *mut Db);
    pub fn leveldb_free(ptr: *mut c_void);
    pub fn leveldb_major_version() -> c_int;
    pub fn leveldb_minor_version() -> c_int;

    pub fn leveldb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        err: *mut *mut c_char,
    );
    pub fn leveldb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        err: *mut *mut c_char,
    );
    pub fn leveldb_write(db: *mut Db, options: *const WriteOptions, batch: *mut Batch, err: *mut *mut c_char);
    pub fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        err: *mut *mut c_char,
    ) -> *mut c_char;
    pub fn leveldb_compact_range(db: *mut Db, from: *const c_char, from_len: usize, to: *const c_char, to_len: usize);
    pub fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;

    pub fn leveldb_writebatch_create() -> *mut Batch;
    pub fn leveldb_writebatch_destroy(batch: *mut Batch);
    pub fn leveldb_writebatch_put(
        batch: *mut Batch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    pub fn leveldb_writebatch_delete(batch: *mut Batch, key: *const c_char, key_len: usize);

    pub fn leveldb_create_snapshot(db: *mut Db) -> *const Snap;
    pub fn leveldb_release_snapshot(db: *mut Db, snapshot: *const Snap);

    pub fn leveldb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iter;
    pub fn leveldb_iter_destroy(iter: *mut Iter);
    pub fn leveldb_iter_valid(iter: *const Iter) -> u8;
    pub fn leveldb_iter_seek_to_first(iter: *mut Iter);
    pub fn leveldb_iter_seek_to_last(iter: *mut Iter);
    pub fn leveldb_iter_seek(iter: *mut Iter, key: *const c_char, key_len: usize);
    pub fn leveldb_iter_next(iter: *mut Iter);
    pub fn leveldb_iter_prev(iter: *mut Iter);
    pub fn leveldb_iter_key(iter: *const Iter, len: *mut usize) -> *const c_char;
    pub fn leveldb_iter_value(iter: *const Iter, len: *mut usize) -> *const c_char;
    pub fn leveldb_iter_get_error(iter: *const Iter, err: *mut *mut c_char);

    pub fn leveldb_readoptions_create() -> *mut ReadOptions;
    pub fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    pub fn leveldb_readoptions_set_verify_checksums(options: *mut ReadOptions, value: u8);
    pub fn leveldb_readoptions_set_fill_cache(options: *mut ReadOptions, value: u8);
    pub fn leveldb_readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const Snap);

    pub fn leveldb_writeoptions_create() -> *mut WriteOptions;
    pub fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, value: u8);

    pub fn leveldb_cache_create_lru(capacity: usize) -> *mut Cache;
    pub fn leveldb_cache_destroy(cache: *mut Cache);
    pub fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut Filter;
    pub fn leveldb_filterpolicy_destroy(filter: *mut Filter);

    pub fn leveldb_options_create() -> *mut Options;
    pub fn leveldb_options_destroy(options: *mut Options);
    pub fn leveldb_options_set_create_if_missing(options: *mut Options, value: u8);
    pub fn leveldb_options_set_paranoid_checks(options: *mut Options, value: u8);
    pub fn leveldb_options_set_write_buffer_size(options: *mut Options, value: usize);
    pub fn leveldb_options_set_max_open_files(options: *mut Options, value: c_int);
    pub fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    pub fn leveldb_options_set_filter_policy(options: *mut Options, filter: *mut Filter);
    pub fn leveldb_options_set_block_size(options: *mut Options, value: usize);
    pub fn leveldb_options_set_max_file_size(options: *mut Options, value: usize);
    pub fn leveldb_options_set_compression(options: *mut Options, value: c_int);
}
