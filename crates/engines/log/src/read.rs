//! Reading the newest version of a key, and that of a snapshot. No lock, no wait, at most one look at the device.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use biombo_base::Result;
use biombo_base::published::Guard;
use biombo_engine::Value;
use biombo_journal::{Position, Segment};

use crate::engine::{LogEngine, position};
use crate::record::{HEADER_BYTES, Record};

/// How much of a record is asked for ahead, at most.
const PREFETCH_BYTES_MAX: u64 = 4096;
/// Keys whose ways through the index are gone side by side.
pub(crate) const WARMED: usize = 8;
/// How often a reader reads again because a batch was on its way into the index, before it waits for that batch.
const RETRIES: u32 = 2;

impl LogEngine {
    /// Give `found` the newest record of `key`, verified, or `None`.
    #[inline]
    pub(crate) fn find<R>(
        &self,
        key: &[u8],
        mut found: impl FnMut(&Guard, Option<(Position, Record<'_>)>) -> R,
    ) -> Result<R> {
        let guard = self.reader.pin();
        let begun = self.changing.load(Ordering::Acquire);
        if begun & 1 == 0 {
            let result = found(&guard, self.look_up(&guard, key)?);
            fence(Ordering::Acquire);
            if self.changing.load(Ordering::Relaxed) == begun {
                return Ok(result);
            }
        }
        self.find_beside_a_batch(key, found)
    }

    #[cold]
    fn find_beside_a_batch<R>(
        &self,
        key: &[u8],
        mut found: impl FnMut(&Guard, Option<(Position, Record<'_>)>) -> R,
    ) -> Result<R> {
        for _ in 0..RETRIES {
            let guard = self.reader.pin();
            let begun = self.changing.load(Ordering::Acquire);
            if begun & 1 == 0 {
                let result = found(&guard, self.look_up(&guard, key)?);
                fence(Ordering::Acquire);
                if self.changing.load(Ordering::Relaxed) == begun {
                    return Ok(result);
                }
            }
            std::hint::spin_loop();
        }
        let _none_changes = self.lock_snapshots();
        let guard = self.reader.pin();
        Ok(found(&guard, self.look_up(&guard, key)?))
    }

    #[inline]
    fn look_up<'g>(&self, guard: &'g Guard, key: &[u8]) -> Result<Option<(Position, Record<'g>)>> {
        let Some(leaf) = self.index.pin().get(key)? else { return Ok(None) };
        let at = position(leaf);
        self.reader.prefetch(guard, at, key.len() + self.typical_bytes());
        let record = self.read(guard, at)?;
        Ok((record.key == key).then_some((at, record)))
    }

    /// How much of a record is worth asking for ahead.
    #[inline]
    pub(crate) fn typical_bytes(&self) -> usize {
        HEADER_BYTES + self.typical_bytes.load(Ordering::Relaxed).min(PREFETCH_BYTES_MAX) as usize
    }

    /// Go the ways of up to [`WARMED`] keys through the index, side by side, and ask for the key and so many bytes beside it of
    /// the record at the end of each. Damage on the way is met again by who tells of it.
    pub(crate) fn ask_ahead(&self, keys: &[&[u8]], bytes: usize) {
        let mut leaves = [None; WARMED];
        let guard = self.reader.pin();
        if self.index.pin().get_batch(keys, &mut leaves).is_ok() {
            for (key, leaf) in keys.iter().zip(leaves).filter_map(|(key, leaf)| Some((key, leaf?))) {
                self.reader.prefetch(&guard, position(leaf), key.len() + bytes);
            }
        }
    }

    /// The record of `key` that a snapshot at `seq` sees, verified.
    pub(crate) fn find_at<'g>(&self, guard: &'g Guard, key: &[u8], seq: u64) -> Result<Option<(Position, Record<'g>)>> {
        if let Some(at) = self.index.pin().get(key)?.map(position) {
            // Verified before its key or its number may say that there is nothing to see.
            let record = self.read(guard, at)?;
            if record.key == key && record.seq <= seq {
                return Ok(Some((at, record)));
            }
        }
        match self.versions.at(key, seq) {
            Some(at) => Ok(Some((at, self.read(guard, at)?))),
            None => Ok(None),
        }
    }

    /// A value that keeps its segment.
    pub(crate) fn hold<'v>(&self, guard: &Guard, at: Position, record: &Record<'_>) -> Result<Value<'v>> {
        match self.reader.hold(guard, at) {
            Some(segment) => Ok(Value::guarded(Held { segment, at, key_bytes: record.key.len() })),
            None => Err(crate::engine::foreign(at)),
        }
    }
}

/// The value of a record, in its segment.
struct Held {
    segment: Arc<Segment>,
    at: Position,
    key_bytes: usize,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let record = self.segment.get(self.at.offset());
        record.and_then(|bytes| bytes.get(HEADER_BYTES + self.key_bytes..)).unwrap_or_default()
    }
}
