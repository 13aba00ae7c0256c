//! Reading every byte of a RocksDB database back from its files.
//!
//! The open database may answer from its cache, so a second, read-only instance without a cache is opened beside it on the
//! same files, while the first one is kept from deleting any. It replays the log and reads every block of every table with
//! its checksum. After a damage it goes on at the next boundary of a table, so that one damaged block does not hide damage in
//! the other tables; within one table only the first damage between two boundaries is found.

use std::path::PathBuf;
use std::ptr;

use biombo_engine::{Damage, Error, ErrorKind, Result};

use super::{Handle, ReadOptions, RocksDb, call, chars, ffi};
use crate::c;

impl RocksDb {
    pub(super) fn verify_files(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let dir = self.home.dir();
        // SAFETY: (FC1) the database is live.
        call("keep the files", dir, |err| unsafe { ffi::rocksdb_disable_file_deletions(self.db.0, err) })?;
        let result = self.verify_kept_files(report);
        // Deletions are counted: another verify that runs meanwhile keeps the files (force off).
        // SAFETY: (FC1) the database is live.
        call("release the files", dir, |err| unsafe { ffi::rocksdb_enable_file_deletions(self.db.0, 0, err) })?;
        result
    }

    fn verify_kept_files(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let dir = self.home.dir();
        let options = self.settings.build_for_verify();
        let name = c::path(dir)?;
        // SAFETY: (FC1, FC2) live options, a zero-terminated name.
        let opened = call("open the files read-only", dir, |err| unsafe {
            ffi::rocksdb_open_for_read_only(options.0, name.as_ptr(), 0, err)
        });
        let db = match opened {
            Ok(db) => Handle(db),
            Err(e) => return damage_or_error(e, dir, report).map(|()| 0),
        };
        let bounds = table_bounds(&db);
        let read = ReadOptions::new(ptr::null(), false);
        let mut scan = Scan { found: Vec::new(), keys: 0, last: Vec::new() };
        scan.run(&db, &read, &bounds, dir, report)?;
        Ok(scan.keys)
    }
}

/// One pass over all keys.
struct Scan {
    found: Vec<(PathBuf, u64)>,
    keys: u64,
    last: Vec<u8>,
}

impl Scan {
    fn run(
        &mut self,
        db: &Handle,
        read: &ReadOptions,
        bounds: &[Vec<u8>],
        dir: &std::path::Path,
        report: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        let mut from: Vec<u8> = Vec::new();
        loop {
            let Err(error) = self.keys_from(db, read, &from, dir) else { return Ok(()) };
            let place = error.place().map(|(file, offset)| (file.to_owned(), offset));
            if let Some(place) = place.filter(|place| !self.found.contains(place)) {
                self.found.push(place);
                damage_or_error(error, dir, report)?;
            } else if error.kind() != ErrorKind::Corruption {
                return Err(error);
            }
            // The next boundary past both the last good key and where this attempt began.
            let past = if self.last > from { &self.last } else { &from };
            match bounds.iter().find(|bound| *bound > past) {
                Some(bound) => from = bound.clone(),
                None => return Ok(()),
            }
        }
    }

    fn keys_from(&mut self, db: &Handle, read: &ReadOptions, from: &[u8], dir: &std::path::Path) -> Result<()> {
        // SAFETY: (FC1, FC2, FC3) the iterator is created from live handles, destroyed before they are, moved only at valid
        // positions, and its key is copied before the next movement.
        unsafe {
            let iter = ffi::rocksdb_create_iterator(db.0, read.0);
            ffi::rocksdb_iter_seek(iter, chars(from), from.len());
            while ffi::rocksdb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = c::bytes(ffi::rocksdb_iter_key(iter, &raw mut key_len), key_len);
                self.last.clear();
                self.last.extend_from_slice(key);
                // Naming the value makes the iterator load its block.
                ffi::rocksdb_iter_value(iter, &raw mut value_len);
                self.keys += 1;
                ffi::rocksdb_iter_next(iter);
            }
            let result = call("verify", dir, |err| ffi::rocksdb_iter_get_error(iter, err));
            ffi::rocksdb_iter_destroy(iter);
            result
        }
    }
}

fn damage_or_error(error: Error, dir: &std::path::Path, report: &mut dyn FnMut(Damage)) -> Result<()> {
    if error.kind() != ErrorKind::Corruption {
        return Err(error);
    }
    let (file, offset) = error.place().map_or_else(|| (dir.to_owned(), 0), |(file, offset)| (file.to_owned(), offset));
    report(Damage { file, offset, what: error.message().to_owned() });
    Ok(())
}

/// The first and last keys of all tables, sorted.
fn table_bounds(db: &Handle) -> Vec<Vec<u8>> {
    let mut bounds = Vec::new();
    // SAFETY: (FC1, FC3) the list is destroyed after its keys were copied.
    unsafe {
        let files = ffi::rocksdb_livefiles(db.0);
        for index in 0..ffi::rocksdb_livefiles_count(files) {
            let mut len = 0;
            let key = ffi::rocksdb_livefiles_smallestkey(files, index, &raw mut len);
            bounds.push(c::bytes(key, len).to_vec());
            let key = ffi::rocksdb_livefiles_largestkey(files, index, &raw mut len);
            bounds.push(c::bytes(key, len).to_vec());
        }
        ffi::rocksdb_livefiles_destroy(files);
    }
    bounds.sort();
    bounds.dedup();
    bounds
}
