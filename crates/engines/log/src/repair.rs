//! Repair of a damaged instance: the log's, with the keys of what is lost.
//!
//! A damaged record is as if it had never been written: the key has its version before that, if one is still there, or none. Which
//! keys these are is told as far as the damaged bytes can be read. A deletion that is damaged brings back what it deleted, if
//! that was not cleaned away yet.
//!
//! Moved records keep their bytes, their numbers among them. In a cold segment that repair wrote, the first record is numbered
//! no higher than any that a needed tombstone deletes there would allow: the rule of tombstones (`clean::pass`) holds for it,
//! since the records keep the order of the segment that they come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biombo_base::io::Io;
use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{Loss, Repaired};
use biombo_journal::{Log, Position, Salvage};

use crate::checkpoint::{self, Checkpoint, remove_all};
use crate::engine::LogEngine;
use crate::keys::KeyList;
use crate::open::LOG_DIR;
use crate::record::Record;
use crate::recover::check_home;

struct Telling<'a> {
    io: &'a dyn Io,
    dir: &'a Path,
    tell: &'a mut dyn FnMut(Loss),
}

impl Salvage for Telling<'_> {
    fn accepts(&mut self, record: &[u8]) -> bool {
        Record::parse_sound(record).is_some()
    }

    /// A key list is the one that its segment's records give, byte for byte.
    fn fits(&mut self, footer: &[u8], records: &mut dyn Iterator<Item = (Position, &[u8])>) -> bool {
        let mut list = KeyList::unbounded();
        records.for_each(|(at, bytes)| {
            if let Some(record) = Record::parse_sound(bytes) {
                list.push(at, &record);
            }
        });
        list.as_footer() == footer
    }

    /// What a checkpoint leads to may be lost, without a trace of it in what is left.
    fn begin(&mut self) -> Result<()> {
        remove_all(self.io, self.dir)
    }

    fn lost(&mut self, loss: biombo_journal::Loss) {
        let biombo_journal::Loss { file, offset, bytes, what, record } = loss;
        let key = record.as_deref().and_then(Record::parse).map(|record| record.key).filter(|key| !key.is_empty());
        let key = key.map(<[u8]>::to_vec);
        (self.tell)(Loss { file, offset, bytes, what, key });
    }
}

/// Check checkpoint `number` as verification does: by itself, and whether it fits the log.
fn check_checkpoint(io: &dyn Io, dir: &Path, log_dir: &Path, number: u64) -> Result<()> {
    let checkpoint = Checkpoint::read(io, dir, number)?;
    let (next_lsn, segments) = Log::survey(io, log_dir)?;
    checkpoint.fit(next_lsn, &segments).map(|_| ())
}

impl LogEngine {
    /// Make the damaged instance in `dir`, which nobody has open, one that opens and verifies clean, with everything in it that
    /// is sound; `tell` hears of each damage. One without damage is not changed.
    ///
    /// # Errors
    /// `Busy` while it is open, `NotFound` where there is none, `Invalid` where the directory holds something else,
    /// `Unsupported` when a newer version wrote it, `Full`; after any of them it is as it was, and repair can run again.
    pub fn repair(io: &Arc<dyn Io>, dir: &Path, tell: &mut dyn FnMut(Loss)) -> Result<Repaired> {
        let log_dir = log_dir(&**io, dir)?;
        let done = Log::repair(io, &log_dir, &mut Telling { io: &**io, dir, tell })?;
        let mut losses = done.losses;
        if tell_of_checkpoint(&**io, dir, &log_dir, tell)? {
            losses += 1;
            remove_all(&**io, dir)?;
        }
        Ok(Repaired { losses, moved_records: done.moved_records, replaced_files: done.replaced.len() as u64 })
    }

    /// Tell of everything that is damaged in the instance in `dir`, which nobody has open, and change nothing: the damages that were told of.
    ///
    /// # Errors
    /// As those of [`repair`](Self::repair).
    pub fn inspect(io: &Arc<dyn Io>, dir: &Path, tell: &mut dyn FnMut(Loss)) -> Result<u64> {
        let log_dir = log_dir(&**io, dir)?;
        let losses = Log::inspect(io, &log_dir, &mut Telling { io: &**io, dir, tell })?;
        // A checkpoint leads into a log that is whole.
        let has_more = losses == 0 && tell_of_checkpoint(&**io, dir, &log_dir, tell)?;
        Ok(losses + u64::from(has_more))
    }
}

/// Where the log of the instance in `dir` is.
fn log_dir(io: &dyn Io, dir: &Path) -> Result<PathBuf> {
    if !io.exists(dir).map_err(|e| Error::io(format_args!("open {}", dir.display()), e))? {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no store in {}", dir.display())));
    }
    check_home(io, dir, LOG_DIR)?;
    Ok(dir.join(LOG_DIR))
}

/// Whether the newest checkpoint of an instance whose log is whole is damaged, which is told.
fn tell_of_checkpoint(io: &dyn Io, dir: &Path, log_dir: &Path, tell: &mut dyn FnMut(Loss)) -> Result<bool> {
    let Some(number) = checkpoint::newest(io, dir)? else { return Ok(false) };
    let Err(error) = check_checkpoint(io, dir, log_dir, number) else { return Ok(false) };
    if error.kind() != ErrorKind::Corruption {
        return Err(error);
    }
    // Nothing is lost with it: opening takes up the log. One that knows records that are gone tells of their loss, where
    // nothing in the log says that they were durable.
    let (file, offset) = error.place().map_or((dir, 0), |place| place);
    tell(Loss { file: file.to_owned(), offset, bytes: 0, what: error.message().to_owned(), key: None });
    Ok(true)
}
