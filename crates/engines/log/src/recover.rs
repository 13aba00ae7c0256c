//! Opening: the index out of the log.
//!
//! Cold segments come first, then the log's own in order. Every record is numbered, so a record that was moved, or comes before
//! an older one, is told by its number: for each key the greatest wins. Tombstones of cold segments are kept in mind while
//! older records may still come.
//!
//! The log never has a record and its moved copy both, since installing the one drops the other in one step; if it did, the
//! later one would win, and the earlier one be counted as dead.

use std::collections::HashMap;

use biombo_base::published::Guard;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{LogReader, Position};

use crate::accounts::Accounts;
use crate::engine::{LogKeys, leaf, peek, position};
use crate::index::Index;
use crate::record::{Kind, Record};

/// What the records of a log say together.
pub(crate) struct Recovered {
    pub index: Index,
    pub accounts: Accounts,
    /// The greatest number of a record.
    pub seq: u64,
    /// Deletions that older records may follow: by key, and ranges.
    deleted: HashMap<Box<[u8]>, u64>,
    ranges: Vec<DeletedRange>,
}

/// A deleted range and the number of its deletion.
struct DeletedRange {
    from: Box<[u8]>,
    to: Option<Box<[u8]>>,
    seq: u64,
}

impl DeletedRange {
    /// Whether it deleted `record`.
    fn covers(&self, record: &Record<'_>) -> bool {
        self.seq > record.seq && *self.from <= *record.key && self.to.as_ref().is_none_or(|to| *record.key < **to)
    }
}

impl Recovered {
    pub(crate) fn new() -> Self {
        Self { index: Index::new(), accounts: Accounts::default(), seq: 0, deleted: HashMap::new(), ranges: Vec::new() }
    }

    /// Take up the records at `places`, in the order in which the log gave them.
    pub(crate) fn take_up(&mut self, reader: &LogReader, places: &[Position]) -> Result<()> {
        for group in places.chunks(64) {
            // Pinned anew now and then: nobody else is there yet, but the guard costs nothing and its habit is to be short.
            let guard = reader.pin();
            for at in group {
                reader.prefetch(&guard, *at, 64);
            }
            for at in group {
                let record = peek(reader, &guard, *at)?;
                self.seq = self.seq.max(record.seq);
                if record.kind == Kind::Begin {
                    self.accounts.begin(at.segment(), record.seq);
                    continue;
                }
                self.accounts.add(at.segment(), &record);
                match record.kind {
                    // Whom it was kept for is gone.
                    Kind::Superseded | Kind::Begin => self.accounts.remove(at.segment(), record.stored_bytes()),
                    Kind::Put => self.put(reader, &guard, *at, &record)?,
                    Kind::Delete => self.delete(reader, &guard, &record)?,
                    Kind::DeleteRange => self.delete_range(reader, &guard, &record, Some(record.value))?,
                    Kind::DeleteFrom => self.delete_range(reader, &guard, &record, None)?,
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, reader: &LogReader, guard: &Guard, at: Position, record: &Record<'_>) -> Result<()> {
        let keys = LogKeys { reader, guard, sought: None };
        let mut writer = self.index.writer();
        let was_deleted = self.deleted.get(record.key).is_some_and(|seq| *seq > record.seq)
            || self.ranges.iter().any(|range| range.covers(record));
        let mut dead = was_deleted.then_some((at, *record));
        if !was_deleted && let Some(old) = writer.insert(record.key, leaf(at), &keys)? {
            let (old_at, old) = (position(old), peek(reader, guard, position(old))?);
            if old.seq > record.seq {
                writer.insert(record.key, leaf(old_at), &keys)?;
                dead = Some((at, *record));
            } else {
                self.accounts.logical(record.logical_bytes(), old.logical_bytes());
                dead = Some((old_at, old));
            }
        } else if !was_deleted {
            self.accounts.logical(record.logical_bytes(), 0);
        }
        if let Some((at, record)) = dead {
            self.accounts.remove(at.segment(), record.stored_bytes());
        }
        Ok(())
    }

    fn delete(&mut self, reader: &LogReader, guard: &Guard, record: &Record<'_>) -> Result<()> {
        self.remove(reader, guard, record.key, record.seq)?;
        let seq = self.deleted.entry(record.key.into()).or_default();
        *seq = record.seq.max(*seq);
        Ok(())
    }

    fn delete_range(
        &mut self,
        reader: &LogReader,
        guard: &Guard,
        record: &Record<'_>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let mut keys = Vec::new();
        {
            let pin = self.index.pin();
            let mut cursor = pin.cursor(LogKeys { reader, guard, sought: None });
            let mut found = cursor.seek(record.key)?;
            while let Some(leaf) = found {
                let key = peek(reader, guard, position(leaf))?.key;
                if to.is_some_and(|to| key >= to) {
                    break;
                }
                keys.push(key.to_vec());
                found = cursor.next()?;
            }
        }
        for key in keys {
            self.remove(reader, guard, &key, record.seq)?;
        }
        self.ranges.push(DeletedRange { from: record.key.into(), to: to.map(Into::into), seq: record.seq });
        Ok(())
    }

    /// Forget `key` if its record is older than `seq`.
    fn remove(&mut self, reader: &LogReader, guard: &Guard, key: &[u8], seq: u64) -> Result<()> {
        let Some(at) = self.index.pin().get(key)?.map(position) else { return Ok(()) };
        let old = peek(reader, guard, at)?;
        if old.key != key || old.seq > seq {
            return Ok(());
        }
        self.index.writer().remove(key, &LogKeys { reader, guard, sought: None })?;
        self.accounts.remove(at.segment(), old.stored_bytes());
        self.accounts.logical(0, old.logical_bytes());
        Ok(())
    }

    /// All records were taken up: no older one follows.
    pub(crate) fn finish(self) -> (Index, Accounts, u64) {
        (self.index, self.accounts, self.seq)
    }
}

/// Refuse a directory that holds something else than a log of this engine.
pub(crate) fn check_home(io: &dyn biombo_base::io::Io, dir: &std::path::Path, log: &str) -> Result<()> {
    let names = io.read_dir(dir).map_err(|e| Error::io(format_args!("open the directory {}", dir.display()), e))?;
    if !names.is_empty() && !names.iter().any(|name| name.file_name().is_some_and(|name| name == log)) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} holds files that are not of the engine log; choose an empty directory", dir.display()),
        ));
    }
    Ok(())
}
