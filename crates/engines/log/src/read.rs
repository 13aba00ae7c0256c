//! Reading the newest version of a key, and that of a snapshot. No lock, no wait, at most one look at the device (two, where a
//! record that is read directly is larger than those before it).

use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};

use biombo_base::Result;
use biombo_base::published::Guard;
use biombo_engine::Value;
use biombo_journal::{Kept, Position};

use crate::engine::{LogEngine, Stored, position};
use crate::record::HEADER_BYTES;

/// How much of a record is asked for ahead, at most.
const PREFETCH_BYTES_MAX: u64 = 4096;
/// Keys whose ways through the index are gone side by side.
pub(crate) const WARMED: usize = 8;
/// How often a reader reads again because a batch was on its way into the index, before it waits for that batch.
const RETRIES: u32 = 2;

impl LogEngine {
    /// Give `found` the newest record of `key`, verified, or `None`.
    #[inline]
    pub(crate) fn find<R>(&self, key: &[u8], mut found: impl FnMut(Option<Stored<'_>>) -> R) -> Result<R> {
        let guard = self.reader.pin();
        let begun = self.changing.load(Ordering::Acquire);
        if begun & 1 == 0 {
            let result = found(self.look_up(&guard, key)?);
            fence(Ordering::Acquire);
            if self.changing.load(Ordering::Relaxed) == begun {
                return Ok(result);
            }
        }
        self.find_beside_a_batch(key, found)
    }

    #[cold]
    fn find_beside_a_batch<R>(&self, key: &[u8], mut found: impl FnMut(Option<Stored<'_>>) -> R) -> Result<R> {
        for _ in 0..RETRIES {
            let guard = self.reader.pin();
            let begun = self.changing.load(Ordering::Acquire);
            if begun & 1 == 0 {
                let result = found(self.look_up(&guard, key)?);
                fence(Ordering::Acquire);
                if self.changing.load(Ordering::Relaxed) == begun {
                    return Ok(result);
                }
            }
            std::hint::spin_loop();
        }
        let _none_changes = self.lock_snapshots();
        let guard = self.reader.pin();
        Ok(found(self.look_up(&guard, key)?))
    }

    #[inline]
    pub(crate) fn look_up<'g>(&self, guard: &'g Guard, key: &[u8]) -> Result<Option<Stored<'g>>> {
        let Some(leaf) = self.index.pin().get(key)? else { return Ok(None) };
        let at = position(leaf);
        self.reader.prefetch(guard, at, key.len() + self.typical_bytes());
        let stored = self.read(guard, at)?;
        let is_it = stored.record().key == key;
        Ok(is_it.then_some(stored))
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
                self.ask_for(&guard, position(leaf), key.len() + bytes);
            }
        }
    }

    /// Ask for the memory of a record; where it is read directly, let it be in the cache.
    #[inline]
    pub(crate) fn ask_for(&self, guard: &Guard, at: Position, bytes: usize) {
        if self.reader.is_direct() {
            // Whoever needs it is told why it cannot be read.
            drop(self.reader.get(guard, at));
        } else {
            self.reader.prefetch(guard, at, bytes);
        }
    }

    /// The record of `key` that a snapshot at `seq` sees, verified.
    pub(crate) fn find_at<'g>(&self, guard: &'g Guard, key: &[u8], seq: u64) -> Result<Option<Stored<'g>>> {
        if let Some(at) = self.index.pin().get(key)?.map(position) {
            // Verified before its key or its number may say that there is nothing to see.
            let stored = self.read(guard, at)?;
            let record = stored.record();
            if record.key == key && record.seq <= seq {
                return Ok(Some(stored));
            }
        }
        match self.versions.at(key, seq) {
            Some(at) => {
                let stored = self.read(guard, at)?;
                // One that could not be read when it was superseded may be too new, or of another key.
                let is_it = stored.record().seq <= seq && stored.record().key == key;
                Ok(is_it.then_some(stored))
            }
            None => Ok(None),
        }
    }
}

/// The value of a record, which keeps its segment or the memory that it was read into.
pub(crate) fn value<'v>(stored: Stored<'_>) -> Value<'v> {
    let from = HEADER_BYTES + stored.record().key.len();
    Value::guarded(Held { record: stored.keep(), from })
}

struct Held {
    record: Kept,
    from: usize,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.record.get(self.from..).unwrap_or_default()
    }
}
