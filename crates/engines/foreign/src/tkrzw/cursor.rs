//! Cursors over Tkrzw's tree.
//!
//! 1. A cursor is live: it may see writes that came after it was opened. Key and value are copied at each movement, so they
//!    stay as they were when the cursor came there.
//! 2. Where the record that the library's iterator stands on was removed by another thread, its movements fail with
//!    `NOT_FOUND`; the cursor then goes on from its own copy of the key.
//! 3. Everything rests on the library's search upwards alone, which holds the tree's lock from its look at the root to the end.
//!    Between a movement and the reading of the record the page may be split, and the reading then gives the first key of the
//!    new page, which lies before the one that was found: each reading is checked, and done again where it does not fit.
//! 4. What the library finds below a key counts only when a search upwards from there finds nothing before that key. Its search
//!    downwards looks into the page twice: where the page's last record goes between the two looks, it passes over the whole
//!    page (`PreviousImpl` in 1.0.25).

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use biombo_engine::{Cursor, Result};

use super::{Tkrzw, chars, ffi, last_error, size};
use crate::c;

/// How often nothing may be found behind a movement before the cursor takes it for the end: the record may have vanished
/// between the movement and its reading, or the one that the iterator stood on before.
pub(super) const ATTEMPTS: u32 = 4;
/// How often the library's search downwards is asked before the cursor walks up to the key instead.
const SEARCHES_DOWN: u32 = 4;

pub(super) struct TreeCursor {
    iter: *mut ffi::DbmIter,
    here: Option<Record>,
    /// Whether the library's iterator stands on `here`, so that its own step forward leads to what is next.
    stands: bool,
    engine: Arc<Tkrzw>,
}

#[derive(Default)]
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

// SAFETY: (FC5) an iterator may move between threads; it is used by one at a time (`&mut self`).
unsafe impl Send for TreeCursor {}

impl Drop for TreeCursor {
    fn drop(&mut self) {
        // SAFETY: (FC1) made in `new`, freed once, while the database is open.
        unsafe { ffi::tkrzw_dbm_iter_free(self.iter) }
    }
}

/// Copy the record into the `Record` behind `arg`.
unsafe extern "C" fn copy_record(
    arg: *mut c_void,
    key: *const c_char,
    key_size: i32,
    value: *const c_char,
    value_size: i32,
    _result_size: *mut i32,
) -> *const c_char {
    // SAFETY: (FC3, FC6) `arg` is the record that the caller lends for this call; the bytes are valid during it.
    unsafe {
        let record = &mut *arg.cast::<Record>();
        record.key.clear();
        record.key.extend_from_slice(c::bytes(key, key_size.max(0) as usize));
        record.value.clear();
        record.value.extend_from_slice(c::bytes(value, value_size.max(0) as usize));
        ffi::TKRZW_REC_PROC_NOOP
    }
}

impl TreeCursor {
    pub(super) fn new(engine: Arc<Tkrzw>) -> Self {
        // SAFETY: (FC1) the database is open, and `engine` keeps it so.
        let iter = unsafe { ffi::tkrzw_dbm_make_iterator(engine.dbm.0) };
        Self { iter, here: None, stands: false, engine }
    }

    /// The result of a movement: `true` if it went, `false` if there is no such record.
    fn moved(&self, ok: bool) -> Result<bool> {
        if ok {
            return Ok(true);
        }
        let (code, error) = last_error("scan", &self.engine.path);
        if code == ffi::NOT_FOUND_ERROR { Ok(false) } else { Err(error) }
    }

    /// Copy the record here into `record`; `false` without one.
    fn read(&self, record: &mut Record) -> Result<bool> {
        self.engine.courtesy.read();
        // SAFETY: (FC1, FC6) the iterator is live; the record outlives the call, in which alone the callback runs.
        let ok = unsafe { ffi::tkrzw_dbm_iter_process(self.iter, copy_record, (&raw mut *record).cast(), false) };
        self.moved(ok)
    }

    /// Move by `go` and copy the record there into `record`, if its key is one that `fits`; `false` if there is none. Where that
    /// fails, move by `again`: without end where a key does not fit, since somebody split the page meanwhile.
    fn fetch(
        &self,
        go: impl Fn(*mut ffi::DbmIter) -> bool,
        again: impl Fn(*mut ffi::DbmIter) -> bool,
        fits: impl Fn(&[u8]) -> bool,
        record: &mut Record,
    ) -> Result<bool> {
        let mut is_there = self.moved(go(self.iter))? && self.read(record)?;
        let mut attempts = 1;
        while !(is_there && fits(&record.key)) {
            if !is_there && attempts == ATTEMPTS {
                return Ok(false);
            }
            attempts += u32::from(!is_there);
            is_there = self.moved(again(self.iter))? && self.read(record)?;
        }
        Ok(true)
    }

    /// As [`fetch`](Self::fetch), for the cursor's own record.
    fn step(
        &mut self,
        go: impl Fn(*mut ffi::DbmIter) -> bool,
        again: impl Fn(*mut ffi::DbmIter) -> bool,
        fits: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let mut record = self.here.take().unwrap_or_default();
        if self.fetch(go, again, fits, &mut record)? {
            self.here = Some(record);
        }
        self.stands = true;
        Ok(())
    }

    /// Whether a key at or past `key` (or only past it) exists; if so, `record` is the first one.
    fn probe(&self, key: &[u8], inclusive: bool, record: &mut Record) -> Result<bool> {
        let go = |iter| jump_upper(iter, key, inclusive);
        self.fetch(go, go, |found| found > key || inclusive && found == key, record)
    }

    /// To the last key. The library's own `last`, and its search below a key greater than all, cannot be used: in a file that was
    /// opened anew they stand at the end of the first page, or at a page that is gone (`invalid leaf node ID`; seen in 1.0.25).
    /// So the greatest key is found with searches upwards: from some key, where the greatest one parts from it (by halving its
    /// length), then the greatest byte there (by halving 256), until nothing is behind: some 24 searches for each byte at which
    /// keys branch on the way.
    fn seek_last(&mut self) -> Result<()> {
        let mut record = self.here.take().unwrap_or_default();
        if !self.probe(b"", true, &mut record)? {
            return Ok(());
        }
        let mut behind = Record::default();
        while self.probe(&record.key, false, &mut behind)? {
            // The shortest beginning of the key that some key lies behind altogether; where there is none, all further
            // keys begin with the whole key.
            let (mut short, mut long) = (0, record.key.len() + 1);
            while long - short > 1 {
                let middle = usize::midpoint(short, long);
                let is_behind = match successor(&record.key[..middle]) {
                    Some(key) => self.probe(&key, true, &mut behind)?,
                    None => false,
                };
                if is_behind { long = middle } else { short = middle }
            }
            // `short` bytes are shared with the greatest key; now its next byte.
            self.probe(&record.key, false, &mut behind)?;
            let mut probe = record.key[..short].to_vec();
            probe.push(0);
            let known = record.key.get(short).or(behind.key.get(short));
            let (mut low, mut high) = (known.map_or(0, |byte| u16::from(*byte)), 256u16);
            if behind.key > record.key {
                std::mem::swap(&mut record, &mut behind);
            }
            while high - low > 1 {
                let middle = low.midpoint(high);
                probe[short] = middle as u8;
                if self.probe(&probe, true, &mut behind)? {
                    low = middle;
                    std::mem::swap(&mut record, &mut behind);
                } else {
                    high = middle;
                }
            }
        }
        self.here = Some(record);
        self.stands = false;
        Ok(())
    }
}

impl Cursor for TreeCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let go = |iter| jump_upper(iter, key, true);
        self.step(go, go, |found| found >= key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let mut behind = Record::default();
        let mut searches = 0;
        loop {
            if searches == SEARCHES_DOWN {
                self.here = Some(std::mem::take(&mut behind));
            } else if self.probe(key, true, &mut behind)? {
                let go = |iter| jump_lower(iter, key);
                if let Err(error) = self.step(go, go, |found| found < key) {
                    // Where nothing is left at or past the key, the library looks for the last page (see `seek_last`).
                    if self.probe(key, true, &mut behind)? {
                        return Err(error);
                    }
                    continue;
                }
                searches += 1;
            } else {
                self.seek_last()?;
                // A key past this one may have come since the look: then the last one is not what was asked for.
                if self.here.as_ref().is_none_or(|here| *here.key < *key) {
                    return Ok(());
                }
                continue;
            }
            let floor = self.here.as_ref().map_or(&b""[..], |here| &here.key);
            let is_closest = !self.probe(floor, self.here.is_none(), &mut behind)? || *behind.key >= *key;
            self.stands = false;
            if is_closest {
                return Ok(());
            }
        }
    }

    fn first(&mut self) -> Result<()> {
        // SAFETY: (FC1) the iterator is live.
        let go = |iter| unsafe { ffi::tkrzw_dbm_iter_first(iter) };
        self.step(go, go, |_| true)
    }

    fn last(&mut self) -> Result<()> {
        self.seek_last()
    }

    fn next(&mut self) -> Result<()> {
        let Some(key) = self.here.as_ref().map(|here| here.key.clone()) else { return Ok(()) };
        let search = |iter| jump_upper(iter, &key, false);
        if !self.stands {
            return self.step(search, search, |found| *found > *key);
        }
        // SAFETY: (FC1) the iterator is live.
        let go = |iter| unsafe { ffi::tkrzw_dbm_iter_next(iter) };
        self.step(go, search, |found| *found > *key)
    }

    fn prev(&mut self) -> Result<()> {
        let Some(key) = self.here.as_ref().map(|here| here.key.clone()) else { return Ok(()) };
        // Not the library's own step back: it looks for the key in the page that it remembers, and where that page was split
        // meanwhile it passes over all keys that moved to the new one. A search from the root finds them.
        self.seek_before(&key)
    }

    fn key(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|here| &here.key[..])
    }

    fn value(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|here| &here.value[..])
    }
}

/// The least key that is greater than every key beginning with `prefix`; none behind all ones.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut key = prefix[..=at].to_vec();
    key[at] += 1;
    Some(key)
}

fn jump_upper(iter: *mut ffi::DbmIter, key: &[u8], inclusive: bool) -> bool {
    // SAFETY: (FC1, FC2) the iterator is live; the key is copied.
    unsafe { ffi::tkrzw_dbm_iter_jump_upper(iter, chars(key), size(key), inclusive) }
}

fn jump_lower(iter: *mut ffi::DbmIter, key: &[u8]) -> bool {
    // SAFETY: (FC1, FC2) the iterator is live; the key is copied.
    unsafe { ffi::tkrzw_dbm_iter_jump_lower(iter, chars(key), size(key), false) }
}
