//! Taking up key lists: into an empty index, or into that of a checkpoint.
//!
//! Cold segments come first, then the log's own in order. Every record is numbered, so a record that was moved, or comes before
//! an older one, is told by its number: for each key the greatest wins. Deletions of cold segments are kept in mind while older
//! records may still come; those of the log's own delete only what came before them.
//!
//! The log never has a record and its moved copy both, since installing the one drops the other in one step; if it did, the
//! later one would win, and the earlier one be counted as dead.
//!
//! **Segments that a checkpoint knows and that are gone.** Let the checkpoint be of the time when S was the last number, with a
//! key k that it lets lead to position P in a segment that cleaning has dropped since. Then k stands in what is taken up here,
//! in a record of its own:
//!
//! 1. No pass was under way when the index was frozen, so the segment was dropped by a pass that began later, into a cold segment
//!    that the checkpoint does not list.
//! 2. If the index led to P when that pass came to it, it copied the record into that cold segment. It is taken up, or was moved
//!    on in the same way, or superseded later, which is:
//! 3. If not, a record numbered above S superseded it, which was durable before the segment went. Consider the newest such
//!    record of k. A put is never dropped. A deletion numbered above S is not either, since a pass drops none above the number of
//!    a checkpoint that is there or in the making (`Standing::limit`). All records numbered above S lie in segments that are
//!    taken up.
//!
//! The reverse holds too: a record numbered S or lower that a cold segment brings was live when it was copied, so when the index
//! was frozen; no deletion that only the checkpoint knows is undone by it.
//!
//! So every leaf into a segment that is gone is met at the end of the way of some key that is taken up. The record there can be
//! read no more, to see whose it is; but whosever it is, that key comes too. All such leaves are removed first; then no
//! way leads to what is gone, and everything is taken up as usual. A deleted range names none of its keys: after one above S, with
//! segments gone, the checkpoint is not used.

use std::collections::BTreeSet;

use biombo_base::published::Guard;
use biombo_base::{Error, ErrorKind, Result};
use biombo_journal::{LogReader, Position, SegmentNumber};

use crate::accounts::{Accounts, Item};
use crate::checkpoint::Checkpoint;
use crate::engine::{LogKeys, Stored, leaf, position, read};
use crate::index::{Index, Keys, Leaf, Writer as IndexWriter};
use crate::keys::{Entries, Entry, NoList};
use crate::record::Kind;

use super::Used;
use super::deleted::Deleted;
use super::gather::Taken;

/// Entries whose ways are gone side by side before they are taken up.
const GROUP: usize = 64;

/// What the records of a log say together.
pub(crate) struct Recovered {
    pub index: Index,
    pub accounts: Accounts,
    /// The greatest number of a record.
    pub seq: u64,
    /// That of the checkpoint.
    begun_seq: u64,
    deleted: Deleted,
    pub used: Used,
}

impl Recovered {
    pub fn new() -> Self {
        let (accounts, deleted, used) = Default::default();
        Self { index: Index::new(), accounts, seq: 0, begun_seq: 0, deleted, used }
    }

    /// What a checkpoint says, but of the segments that are `gone`.
    pub fn over(checkpoint: Checkpoint, gone: &BTreeSet<SegmentNumber>) -> Self {
        let mut accounts = Accounts::default();
        for (number, listed) in checkpoint.segments.iter().filter(|(number, _)| !gone.contains(number)) {
            accounts.carry(*number, listed.content);
        }
        let seq = checkpoint.seq;
        let deleted = Deleted::default();
        let index = checkpoint.into_index();
        let used = Used { checkpoint_keys: index.len() as u64, records: 0 };
        Self { index, accounts, seq, begun_seq: seq, deleted, used }
    }

    /// Remove the leaves into segments that are `gone`; see above. `Unsupported` where a range was deleted.
    pub fn forget_moved(&mut self, gone: &BTreeSet<SegmentNumber>, taken: &[Taken]) -> Result<()> {
        let is_gone = |leaf: &Leaf| gone.contains(&position(*leaf).segment());
        let mut writer = self.index.writer();
        for entry in all(taken) {
            let entry = entry?;
            match entry.kind {
                Kind::Put | Kind::Delete => {}
                Kind::DeleteRange | Kind::DeleteFrom if entry.seq > self.begun_seq => {
                    let what = "a range was deleted after the checkpoint, and segments that it knows were cleaned";
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
                _ => continue,
            }
            let Some(old) = self.index.pin().get(entry.key)?.filter(is_gone) else { continue };
            if writer.remove(entry.key, &Supposed(entry.key))? != Some(old) {
                return Err(damaged("the index of the checkpoint has no such way"));
            }
        }
        Ok(())
    }

    /// Take up all that was gathered, in its order.
    pub fn take_up_all(&mut self, reader: &LogReader, taken: &[Taken]) -> Result<()> {
        let mut ranges = Vec::new();
        for entry in taken.iter().filter(|taken| taken.is_cold).flat_map(Taken::entries) {
            let entry = entry?;
            match entry.kind {
                Kind::DeleteRange => ranges.push((entry.seq, entry.key, Some(entry.end))),
                Kind::DeleteFrom => ranges.push((entry.seq, entry.key, None)),
                _ => {}
            }
        }
        ranges.sort_unstable();
        ranges.into_iter().for_each(|(seq, from, to)| self.deleted.range(from, to, seq));
        taken.iter().try_for_each(|taken| self.take_up(reader, taken))
    }

    fn take_up(&mut self, reader: &LogReader, taken: &Taken) -> Result<()> {
        let mut entries = taken.entries();
        let (mut group, mut keys, mut found) = (Vec::new(), Vec::new(), [None; GROUP]);
        loop {
            group.clear();
            keys.clear();
            for entry in entries.by_ref().take(GROUP) {
                let entry = entry?;
                keys.push(entry.key);
                group.push(entry);
            }
            if group.is_empty() {
                return Ok(());
            }
            self.used.records += group.len() as u64;
            let guard = reader.pin();
            self.index.pin().get_batch(&keys, &mut found)?;
            for leaf in found[..keys.len()].iter().flatten() {
                reader.prefetch(&guard, position(*leaf), 64);
            }
            let mut taking = Taking {
                reader,
                guard: &guard,
                index: &self.index,
                writer: self.index.writer(),
                accounts: &mut self.accounts,
                deleted: &mut self.deleted,
                is_cold: taken.is_cold,
            };
            for entry in &group {
                self.seq = self.seq.max(entry.seq);
                let at = Position::new(taken.segment, entry.offset).ok_or_else(|| damaged("a place within a word"))?;
                taking.entry(at, entry)?;
            }
        }
    }
}

impl Taken {
    /// Its entries that no checkpoint knows.
    fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>>> {
        let known = usize::try_from(self.known).unwrap_or(usize::MAX);
        Entries::of(&self.list).map(|entry| entry.map_err(|NoList| damaged("a list of keys"))).skip(known)
    }
}

fn all(taken: &[Taken]) -> impl Iterator<Item = Result<Entry<'_>>> {
    taken.iter().flat_map(Taken::entries)
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, what)
}

/// The record at a leaf is gone: its key is supposed to be this one.
struct Supposed<'a>(&'a [u8]);

impl Keys for Supposed<'_> {
    fn with_key<R>(&self, _: Leaf, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        Ok(f(self.0))
    }
}

/// Takes up the entries of one list.
struct Taking<'a> {
    reader: &'a LogReader,
    guard: &'a Guard,
    index: &'a Index,
    writer: IndexWriter<'a>,
    accounts: &'a mut Accounts,
    deleted: &'a mut Deleted,
    is_cold: bool,
}

impl<'a> Taking<'a> {
    fn entry(&mut self, at: Position, entry: &Entry<'_>) -> Result<()> {
        if entry.kind == Kind::Begin {
            self.accounts.begin(at.segment(), entry.seq);
            return Ok(());
        }
        self.accounts.add(at.segment(), entry);
        match entry.kind {
            // Whom it was kept for is gone.
            Kind::Superseded | Kind::Begin => self.accounts.remove(at.segment(), entry),
            Kind::Put => self.put(at, entry)?,
            Kind::Delete => {
                self.remove(entry.key, entry.seq)?;
                if self.is_cold {
                    self.deleted.key(entry.key, entry.seq);
                }
            }
            Kind::DeleteRange => self.delete_range(entry, Some(entry.end))?,
            Kind::DeleteFrom => self.delete_range(entry, None)?,
        }
        Ok(())
    }

    fn put(&mut self, at: Position, entry: &Entry<'_>) -> Result<()> {
        if self.deleted.is_deleted(entry.key, entry.seq) {
            self.accounts.remove(at.segment(), entry);
            return Ok(());
        }
        let keys = LogKeys { reader: self.reader, guard: self.guard, sought: Some(entry.key) };
        let Some(old) = self.writer.insert(entry.key, leaf(at), &keys)? else { return Ok(()) };
        let old_at = position(old);
        let old_stored = self.read(old_at);
        match old_stored.as_ref().map(|old| old.record()) {
            Ok(old_record) if old_record.seq > entry.seq => {
                self.writer.insert(entry.key, old, &keys)?;
                self.accounts.remove(at.segment(), entry);
            }
            Ok(old_record) => self.accounts.remove(old_at.segment(), Item::from(&old_record)),
            // Records of the log's order are newer than all before; damage to what they supersede is no reason to refuse
            // them, and its bytes stay accounted as live.
            Err(error) if error.kind() == ErrorKind::Corruption && !self.is_cold => {}
            Err(_) => return old_stored.map(|_| ()),
        }
        Ok(())
    }

    fn delete_range(&mut self, entry: &Entry<'_>, to: Option<&[u8]>) -> Result<()> {
        let mut keys = Vec::new();
        {
            let pin = self.index.pin();
            let log = LogKeys { reader: self.reader, guard: self.guard, sought: Some(entry.key) };
            let mut cursor = pin.cursor(log);
            // Every key is one that comes after this, which an index asks for: it is never empty.
            let mut found = if entry.key.is_empty() { cursor.first()? } else { cursor.seek(entry.key)? };
            while let Some(leaf) = found {
                match self.read(position(leaf)) {
                    Ok(stored) if to.is_some_and(|to| stored.record().key >= to) => break,
                    Ok(stored) => keys.push(stored.record().key.to_vec()),
                    // Nobody knows its key: it stays, and says so to who reads it.
                    Err(error) if error.kind() == ErrorKind::Corruption => {}
                    Err(error) => return Err(error),
                }
                found = cursor.next()?;
            }
        }
        keys.into_iter().try_for_each(|key| self.remove(&key, entry.seq))
    }

    /// Forget `key` if its record is older than `seq`.
    fn remove(&mut self, key: &[u8], seq: u64) -> Result<()> {
        let Some(at) = self.index.pin().get(key)?.map(position) else { return Ok(()) };
        let stored = match self.read(at) {
            Ok(stored) => stored,
            // A damaged record costs itself, and not the store.
            Err(error) if error.kind() == ErrorKind::Corruption => return self.remove_damaged(key),
            Err(error) => return Err(error),
        };
        let old = stored.record();
        if old.key != key || old.seq > seq {
            return Ok(());
        }
        self.writer.remove(key, &LogKeys { reader: self.reader, guard: self.guard, sought: Some(key) })?;
        self.accounts.remove(at.segment(), &old);
        Ok(())
    }

    /// Forget `key`, whose record is damaged. A deletion in the log's order is newer than all before; one of a cold segment may be older than the
    /// record, which stays then and says so to who reads it. So does one that may be of another key.
    fn remove_damaged(&mut self, key: &[u8]) -> Result<()> {
        if self.is_cold {
            return Ok(());
        }
        let keys = LogKeys { reader: self.reader, guard: self.guard, sought: Some(key) };
        match self.writer.remove(key, &keys) {
            // Its bytes stay accounted as live.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A record that lists or a checkpoint led to: nobody has verified it before.
    fn read(&self, at: Position) -> Result<Stored<'a>> {
        read(self.reader, self.guard, at)
    }
}
