//! Reading every byte of a LevelDB database back from its files.
//!
//! LevelDB's iterator answers from its cache, skips damaged blocks and names no file. So the files themselves are read:
//! every block of every live table against its checksum ([`super::table`]), and the logs and the manifest record by record.
//! The keys are then counted through an iterator.

use std::fs;
use std::io::ErrorKind::NotFound;
use std::ptr;

use biombo_engine::{Damage, Error, ErrorKind, Result};

use super::cursor::RawIter;
use super::{LevelDb, ReadOptions, table};
use crate::log_tail;

impl LevelDb {
    pub(super) fn verify_files(&self, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let dir = self.home.dir();
        let damages = std::cell::Cell::new(0u64);
        let mut report = |file, offset, what: String| {
            damages.set(damages.get() + 1);
            report(Damage { file, offset, what });
        };
        for number in self.live_tables() {
            let paths = [dir.join(format!("{number:06}.ldb")), dir.join(format!("{number:06}.sst"))];
            let path = if paths[0].exists() { &paths[0] } else { &paths[1] };
            match fs::read(path) {
                Ok(bytes) => table::check(&bytes, |offset, what| report(path.clone(), offset, what)),
                // A compaction has replaced it since it was listed, if it is not live any more.
                Err(e) if e.kind() == NotFound && !self.live_tables().contains(&number) => {}
                Err(e) if e.kind() == NotFound => report(paths[0].clone(), 0, "the table is missing".into()),
                Err(e) => return Err(Error::io(format_args!("read {}", path.display()), e)),
            }
        }
        let mut logs = log_tail::log_files(dir)?;
        let current = fs::read_to_string(dir.join("CURRENT")).unwrap_or_default();
        logs.push(dir.join(current.trim_end()));
        for path in logs {
            match fs::read(&path) {
                Ok(bytes) => {
                    if let Some(offset) = log_tail::damage_in(&bytes) {
                        report(path, offset, "a record is damaged and valid ones follow it".into());
                    }
                }
                Err(e) if e.kind() == NotFound && path.extension().is_some() => {}
                Err(e) => report(path, 0, format!("it cannot be read: {e}")),
            }
        }
        let uncached = ReadOptions::new(ptr::null(), false);
        let mut iter = RawIter::new(self, &uncached);
        let mut keys = 0;
        iter.first();
        while iter.key().is_some() {
            keys += 1;
            iter.next();
        }
        match iter.status(dir) {
            Err(e) if e.kind() != ErrorKind::Corruption => return Err(e),
            Err(e) if damages.get() == 0 => report(dir.to_owned(), 0, e.message().to_owned()),
            _ => {}
        }
        Ok(keys)
    }

    /// The numbers of the tables of the present version: lines ` NUMBER:BYTES[..` of the property.
    fn live_tables(&self) -> Vec<u64> {
        let text = self.db.property(c"leveldb.sstables").unwrap_or_default();
        let number = |line: &str| {
            let (number, rest) = line.strip_prefix(' ')?.split_once(':')?;
            let (bytes, _) = rest.split_once('[')?;
            bytes.parse::<u64>().ok()?;
            number.parse().ok()
        };
        text.lines().filter_map(number).collect()
    }
}
