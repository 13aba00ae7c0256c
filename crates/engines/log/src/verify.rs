//! Verification: every record that the index leads to, the checkpoint and the footers, then the log as an opening without them
//! will read it.
//!
//! 1. No unverified key decides where it goes on, so that damage neither hides what lies behind it nor leads back.
//! 2. A key list is compared with the records of its segment, byte for byte, as repair does it: opening believes it.
//! 3. What would refuse the next opening is found too: superseded records and deletions are dead to readers, not to recovery.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::Damage;
use biombo_journal::{Log, Lsn, Position, SegmentNumber};

use crate::checkpoint;
use crate::engine::{LogEngine, foreign, position};
use crate::keys::KeyList;
use crate::record::Record;
use crate::recover::check_footer;

/// Records after which others may have room again that waits for the reader.
const GROUP: usize = 256;

impl LogEngine {
    /// Report what is damaged in the log's directory; returns the number of live keys that are not. Writers wait while the
    /// log is read.
    pub(crate) fn verify_all(&self, log_dir: &Path, report: &mut dyn FnMut(Damage)) -> Result<u64> {
        let mut files = BTreeSet::new();
        let mut damaged = |error: Error, reported: bool| -> Result<()> {
            if error.kind() != ErrorKind::Corruption {
                return Err(error);
            }
            let (file, offset) = error.place().unwrap_or((log_dir, 0));
            // Reading the log ends at the first damage, which is mostly one that was met before.
            if files.insert(PathBuf::from(file)) || !reported {
                report(Damage { file: file.to_owned(), offset, what: error.message().to_owned() });
            }
            Ok(())
        };
        // Before the writer's lock: the files of checkpoints stay what they are meanwhile.
        let _alone = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.verify_live(&mut |error| damaged(error, false))?;
        // Nobody changes files while they are compared with what is known of them.
        let _cleaner = self.lock_cleaner();
        let mut writer = self.lock_writer();
        writer.log.quiesce();
        match &writer.standing.distrusted {
            Some(error) => {
                damaged(Error::corruption(error.place().map_or(&*self.dir, |at| at.0), 0, error.message()), false)?
            }
            None => {
                let newest = checkpoint::newest(&*self.io, &self.dir)?;
                if let Some(Err(error)) = newest.map(|number| checkpoint::check(&*self.io, &self.dir, number)) {
                    damaged(error, false)?;
                }
            }
        }
        for info in writer.log.segments().iter().filter(|info| info.footer_bytes.is_some()) {
            let file = log_dir.join(format!("{:016x}.seg", info.number.0));
            match self.reader.footer(info.number) {
                Ok(footer) => {
                    if let Err(what) = check_footer(info, &footer.unwrap_or_default()) {
                        damaged(Error::corruption(file, info.data_bytes, what), false)?;
                    }
                }
                Err(error) => damaged(error, false)?,
            }
        }
        let mut last: Option<Position> = None;
        let mut list = KeyList::unbounded();
        let mut liars = Vec::new();
        let mut is_over = |segment: SegmentNumber, list: &KeyList| {
            // One that is no list at all was told above.
            let footer = self.reader.footer(segment).ok().flatten().filter(|footer| !footer.is_empty());
            liars.extend(footer.filter(|footer| **footer != *list.as_footer()).map(|_| segment));
        };
        let mut records = |at: Position, _: Lsn, bytes: &[u8]| {
            if let Some(last) = last.filter(|last| last.segment() != at.segment()) {
                is_over(last.segment(), &std::mem::replace(&mut list, KeyList::unbounded()));
            }
            last = Some(at);
            list.push(at, &Record::parse_sound(bytes).ok_or_else(|| foreign(at))?);
            Ok(())
        };
        let read = Log::read(&*self.io, log_dir, &mut records);
        if let Some(last) = last.filter(|_| read.is_ok()) {
            is_over(last.segment(), &list);
        }
        for segment in liars {
            let file = log_dir.join(format!("{:016x}.seg", segment.0));
            damaged(Error::corruption(file, 0, "its footer lists other keys than its records have"), true)?;
        }
        match read {
            Ok(end) if end < writer.log.next_lsn() => {
                // Nothing says yet that these records are durable, so an opening would take them for a torn end.
                let behind = last.map_or_else(String::new, |last| format!(" behind {last} (segment:offset)"));
                let what = format!("records {end} and further cannot be read{behind}");
                damaged(Error::corruption(log_dir, 0, what), true)?;
            }
            Ok(_) => {}
            Err(error) => damaged(error, true)?,
        }
        Ok(keys)
    }

    fn verify_live(&self, damaged: &mut dyn FnMut(Error) -> Result<()>) -> Result<u64> {
        let mut keys = 0;
        let mut from: Option<Vec<u8>> = None;
        loop {
            let guard = self.reader.pin();
            let pin = self.index.pin();
            let mut cursor = pin.cursor(self.keys(&guard, from.as_deref().unwrap_or_default()));
            let mut next = match &from {
                None => cursor.first()?,
                Some(key) => cursor.seek_after(key)?,
            };
            let mut group = 0;
            from = loop {
                let Some(leaf) = next else { return Ok(keys) };
                group += 1;
                match self.read(&guard, position(leaf)) {
                    Ok(stored) => {
                        let record = stored.record();
                        keys += 1;
                        if group >= GROUP && from.as_deref().is_none_or(|from| from < record.key) {
                            break Some(record.key.to_vec());
                        }
                    }
                    Err(error) => damaged(error)?,
                }
                next = cursor.next()?;
            };
        }
    }
}
