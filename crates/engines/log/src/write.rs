//! Writing: append, then publish.
//!
//! 1. All operations of a call are one frame of the log: it survives whole or not at all.
//! 2. A version that a live snapshot needs is kept before the index forgets it.
//! 3. The index is changed after the append returned, so after the records are as durable as asked.
//! 4. Callers who wait for a sync at the same time share one frame and its write ([`Combiner`](biombo_engine::combine::Combiner)).
//! 5. Where damage keeps the index from following the log, nothing is written any more (`is_broken`).

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use biombo_base::published::Guard;
use biombo_base::{Error, ErrorKind, Result};
use biombo_engine::{Durability, Op};
use biombo_journal::{Durability as LogDurability, Parts, Position};

use crate::engine::{LogEngine, Writer, leaf, position};
use crate::index::{Pin, Writer as IndexWriter};
use crate::read::WARMED;
use crate::record::{HEADER_BYTES, Kind, Record};
use crate::versions::{Live, Old, UNKNOWN};

/// Keys of a range that are gathered at once before they are removed.
const RANGE_KEYS: usize = 256;

impl LogEngine {
    /// Apply checked operations.
    pub(crate) fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let level = if durability == Durability::Sync { LogDurability::Sync } else { LogDurability::Os };
        if let [Op::Put { key, .. } | Op::Delete { key }] = ops {
            self.warm(key);
        } else {
            ops.chunks(WARMED).for_each(|ops| self.warm_many(ops));
        }
        let wait_ns = {
            let mut writer = self.lock_writer();
            self.write_locked(ops, level, &mut writer)?;
            self.appended(&mut writer)
        };
        if wait_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wait_ns));
        }
        Ok(())
    }

    /// Go the way through the index that is gone again under the locks, and ask for what lies at its end: the memory that a
    /// write waits for comes before anybody else waits for the write, and while its record is appended. Damage on the way is
    /// met again by who tells of it.
    #[inline]
    fn warm(&self, key: &[u8]) {
        let guard = self.reader.pin();
        if let Ok(Some(leaf)) = self.index.pin().get(key) {
            self.ask_for(&guard, position(leaf), HEADER_BYTES + key.len());
        }
    }

    /// The same for up to [`WARMED`] operations, side by side.
    fn warm_many(&self, ops: &[Op<'_>]) {
        let (mut keys, mut count) = ([&[][..]; WARMED], 0);
        for op in ops {
            if let Op::Put { key, .. } | Op::Delete { key } = op {
                keys[count] = key;
                count += 1;
            }
        }
        self.ask_ahead(&keys[..count], HEADER_BYTES);
    }

    fn write_locked(&self, ops: &[Op<'_>], level: LogDurability, writer: &mut Writer) -> Result<()> {
        if writer.is_broken {
            let what = "damage kept the index from following the log: open it anew";
            return Err(Error::new(ErrorKind::Poisoned, what));
        }
        self.index_takes(ops, false)?;
        match ops {
            [] => {
                if level == LogDurability::Sync {
                    writer.log.sync()?;
                }
                Ok(())
            }
            [op @ (Op::Put { .. } | Op::Delete { .. })] => {
                let record = Record::of(op, writer.seq + 1);
                writer.at.clear();
                writer.log.append(&[&[&record.header(), record.key, record.value]], level, &mut writer.at)?;
                writer.seq += 1;
                writer.list(writer.at[0], &record);
                let guard = self.reader.pin();
                let live = self.lock_snapshots();
                let mut index = self.index.writer();
                let at = writer.at[0];
                writer.is_broken = true;
                self.publish(&record, at, &mut Publishing { guard: &guard, live: &live, index: &mut index, writer })?;
                writer.is_broken = false;
                self.visible.store(record.seq, Ordering::Release);
                self.typical_bytes.store(record.value.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            ops => self.write_many(ops, level, writer),
        }
    }

    /// `Full` if the index might have no room for the keys of `ops`. Asked before the log has the records: one that the index
    /// cannot lead to would be refused and yet be there, and might keep the log from being opened. `ahead`: asked for operations that will
    /// come and then must not be refused.
    #[inline]
    pub(crate) fn index_takes(&self, ops: &[Op<'_>], ahead: bool) -> Result<()> {
        if self.index.has_room(ops.len(), ahead) { Ok(()) } else { self.index_takes_new(ops) }
    }

    /// What has a place in the index already needs none, unless the same batch takes it away before.
    #[cold]
    fn index_takes_new(&self, ops: &[Op<'_>]) -> Result<()> {
        let deletes = |op: &Op<'_>, wanted: &[u8]| match op {
            Op::Put { .. } => false,
            Op::Delete { key } => *key == wanted,
            Op::DeleteRange { from, to } => *from <= wanted && to.is_none_or(|to| wanted < to),
        };
        let first = ops.iter().position(|op| !matches!(op, Op::Put { .. })).unwrap_or(ops.len());
        let is_new = |(at, op): (usize, &Op<'_>)| match op {
            Op::Put { key, .. } => {
                matches!(self.look_up(&self.reader.pin(), key), Ok(None))
                    || ops[first.min(at)..at].iter().any(|before| deletes(before, key))
            }
            _ => false,
        };
        if ops.iter().enumerate().any(is_new) {
            let what = "the index has reached its 64 GiB; delete something, or use more partitions";
            return Err(Error::new(ErrorKind::Full, what));
        }
        Ok(())
    }

    /// What cleaning has to know of an append; returns how long its caller should wait, in nanoseconds.
    #[inline]
    fn appended(&self, writer: &mut Writer) -> u64 {
        let segment = writer.at.last().map(|at| at.segment());
        if segment != writer.segment {
            writer.segment = segment;
            if let Some(cleaning) = &self.cleaning {
                cleaning.wake();
            }
            if let Some(indexing) = &self.indexing {
                indexing.wake();
            }
        }
        let written_bytes = writer.log.appended_bytes();
        let wait_ns = self.allowance.wait_ns(written_bytes, &mut writer.felt);
        if (writer.felt.has_died(written_bytes) || wait_ns > 0)
            && let Some(cleaning) = &self.cleaning
        {
            // What it knew when it said how far writers may go has changed since, or may have.
            cleaning.wake();
        }
        wait_ns
    }

    fn write_many(&self, ops: &[Op<'_>], level: LogDurability, writer: &mut Writer) -> Result<()> {
        let records: Vec<_> = (writer.seq + 1..).zip(ops).map(|(seq, op)| Record::of(op, seq)).collect();
        let headers: Vec<[u8; HEADER_BYTES]> = records.iter().map(Record::header).collect();
        let parts: Vec<[&[u8]; 3]> =
            records.iter().zip(&headers).map(|(record, header)| [&header[..], record.key, record.value]).collect();
        let parts: Vec<Parts<'_>> = parts.iter().map(|parts| &parts[..]).collect();
        let mut at = std::mem::take(&mut writer.at);
        at.clear();
        let appended = writer.log.append(&parts, level, &mut at);
        if appended.is_ok() {
            writer.seq += records.len() as u64;
            records.iter().zip(&at).for_each(|(record, at)| writer.list(*at, record));
        }
        let published = appended.and_then(|_| {
            let guard = self.reader.pin();
            let live = self.lock_snapshots();
            let mut index = self.index.writer();
            self.changing.fetch_add(1, Ordering::AcqRel);
            fence(Ordering::Release);
            writer.is_broken = true;
            let mut publishing = Publishing { guard: &guard, live: &live, index: &mut index, writer };
            let published =
                records.iter().zip(&at).try_for_each(|(record, at)| self.publish(record, *at, &mut publishing));
            self.visible.store(publishing.writer.seq, Ordering::Release);
            publishing.writer.is_broken = published.is_err();
            self.changing.fetch_add(1, Ordering::AcqRel);
            published
        });
        writer.at = at;
        published
    }

    /// Let the index lead to a record, or away from what it deletes.
    fn publish(&self, record: &Record<'_>, at: Position, publishing: &mut Publishing<'_, '_>) -> Result<()> {
        let Publishing { guard, live, index, writer } = publishing;
        writer.accounts.add(at.segment(), record);
        match record.kind {
            Kind::Put => {
                if !live.is_empty() {
                    self.keep(record.key, record.seq, guard, live)?;
                }
                let old = index.insert(record.key, leaf(at), &self.keys(guard, record.key))?;
                if let Some(old) = old {
                    self.supersede(position(old), guard, writer);
                }
            }
            Kind::Delete => self.remove(record.key, record.seq, publishing)?,
            Kind::DeleteRange => self.remove_range(record.key, Some(record.value), record.seq, publishing)?,
            Kind::DeleteFrom => self.remove_range(record.key, None, record.seq, publishing)?,
            // No operation makes these.
            Kind::Superseded | Kind::Begin => {}
        }
        Ok(())
    }

    /// Keep the present version of `key` if a live snapshot needs it.
    fn keep(&self, key: &[u8], until: u64, guard: &Guard, live: &Live) -> Result<()> {
        let Some(at) = self.index.pin().get(key)?.map(position) else { return Ok(()) };
        let old = self.read(guard, at);
        let (seq, stored_bytes) = match old.as_ref().map(|old| old.record()) {
            Ok(old) if old.key != key => return Ok(()),
            Ok(old) => (old.seq, old.stored_bytes()),
            // A damaged version may be any: every snapshot that looks for it shall be told.
            Err(_) => (UNKNOWN, 0),
        };
        if live.need(seq, until) {
            self.versions.keep(key, Old { seq, until, at, stored_bytes });
        }
        Ok(())
    }

    /// The index leads no longer to `at`.
    fn supersede(&self, at: Position, guard: &Guard, writer: &mut Writer) {
        // Damage to what is superseded is no reason to refuse what supersedes it; its bytes stay accounted as live.
        if let Ok(old) = self.peek(guard, at) {
            let old = old.record();
            writer.felt.died(old.stored_bytes());
            writer.accounts.remove(at.segment(), &old);
        }
    }

    fn remove(&self, key: &[u8], seq: u64, publishing: &mut Publishing<'_, '_>) -> Result<()> {
        let Publishing { guard, live, index, writer } = publishing;
        if !live.is_empty() {
            self.keep(key, seq, guard, live)?;
        }
        if let Some(old) = index.remove(key, &self.keys(guard, key))? {
            self.supersede(position(old), guard, writer);
        }
        Ok(())
    }

    /// Forget what lies in a range. A damaged record in it stays; where one has to be read to find the range's beginning, nothing is forgotten and
    /// the error says which.
    fn remove_range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        seq: u64,
        publishing: &mut Publishing<'_, '_>,
    ) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let (mut leaves, mut damaged) = (Vec::new(), 0);
        loop {
            leaves.clear();
            // Those that stay are found again.
            let most = RANGE_KEYS + damaged;
            gather(&self.index.pin(), self.keys(publishing.guard, from), from, most, &mut leaves)?;
            let whole = leaves.len() < most;
            damaged = 0;
            for found in &leaves {
                let stored = match self.read(publishing.guard, position(*found)) {
                    Ok(stored) => stored,
                    // Nobody knows its key: it stays, and says so to who reads it. A damaged record costs itself, and not the store.
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        damaged += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let key = stored.record().key;
                if to.is_some_and(|to| key >= to) {
                    return Ok(());
                }
                self.remove(key, seq, publishing)?;
            }
            if whole {
                return Ok(());
            }
        }
    }
}

/// The first leaves at or after `from`, `most` of them.
fn gather(
    pin: &Pin<'_>,
    keys: impl crate::index::Keys,
    from: &[u8],
    most: usize,
    leaves: &mut Vec<crate::index::Leaf>,
) -> Result<()> {
    let mut cursor = pin.cursor(keys);
    if let Some(first) = cursor.seek(from)? {
        leaves.push(first);
        cursor.next_n(most - 1, leaves)?;
    }
    Ok(())
}

/// What is held while the index is changed.
struct Publishing<'a, 'i> {
    guard: &'a Guard,
    live: &'a Live,
    index: &'a mut IndexWriter<'i>,
    writer: &'a mut Writer,
}
