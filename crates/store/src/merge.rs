//! One ordered view over the cursors of several partitions, both ways.
//!
//! A k-way merge with a binary heap over the sources' present keys; the first eight bytes of each key are kept beside the heap, so
//! that most comparisons touch no cursor. O(log sources) a step; a change of direction repositions all sources.
//!
//! Invariants: the heap holds exactly the sources that have a position; all of them lie on the same side of the present key
//! (after it when moving forward, before it when moving back); the top is the present key. Keys are unique over the sources,
//! because every key has one owner. Stored keys go in, user keys come out.

use biombo_engine::{Cursor, Result};

use crate::keyspace::{self, USER_FROM};

/// A merge over the stored keys of `hard` partitions.
pub(crate) struct MergeCursor {
    sources: Vec<Box<dyn Cursor>>,
    prefixes: Vec<u64>,
    heap: Vec<u32>,
    forward: bool,
    /// The user key here where it differs from the stored one.
    decoded: Vec<u8>,
}

impl MergeCursor {
    pub(crate) fn new(sources: Vec<Box<dyn Cursor>>) -> Self {
        let prefixes = vec![0; sources.len()];
        Self { sources, prefixes, heap: Vec::new(), forward: true, decoded: Vec::new() }
    }

    fn place_all(&mut self, forward: bool, mut place: impl FnMut(&mut dyn Cursor) -> Result<()>) -> Result<()> {
        self.forward = forward;
        self.heap.clear();
        for (index, source) in self.sources.iter_mut().enumerate() {
            place(&mut **source)?;
            if let Some(key) = user_position(&mut **source, forward)? {
                self.prefixes[index] = prefix(key);
                self.heap.push(index as u32);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        self.settle();
        Ok(())
    }

    /// After the top source moved on: restore the heap.
    fn settle_top(&mut self) -> Result<()> {
        let top = self.heap[0] as usize;
        match user_position(&mut *self.sources[top], self.forward)? {
            Some(key) => self.prefixes[top] = prefix(key),
            None => {
                self.heap.swap_remove(0);
            }
        }
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        if let Some(&top) = self.heap.first()
            && let Some(stored) = self.sources[top as usize].key()
            && stored.first() == Some(&0)
        {
            keyspace::decode(stored, &mut self.decoded);
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.comes_before(self.heap[child], self.heap[best]) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.heap.swap(at, best);
            at = best;
        }
    }

    fn comes_before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        let order =
            self.prefixes[a].cmp(&self.prefixes[b]).then_with(|| self.sources[a].key().cmp(&self.sources[b].key()));
        if self.forward { order.is_lt() } else { order.is_gt() }
    }

    fn here(&self) -> Option<Vec<u8>> {
        self.heap.first().and_then(|&top| self.sources[top as usize].key()).map(<[u8]>::to_vec)
    }
}

/// Big-endian first bytes, shorter keys padded with zeros: ordered as the keys are, equal only if a full look decides.
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The source's key, past the store's own keys at the low end.
fn user_position(source: &mut dyn Cursor, forward: bool) -> Result<Option<&[u8]>> {
    if source.key().is_some_and(keyspace::is_own) {
        if !forward {
            return Ok(None);
        }
        source.seek(USER_FROM)?;
    }
    Ok(source.key())
}

impl Cursor for MergeCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = keyspace::encode_from(key);
        self.place_all(true, |source| source.seek(&key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = keyspace::encode_from(key);
        self.place_all(false, |source| source.seek_before(&key))
    }

    fn expect(&mut self, keys: u64) {
        // Of evenly dealt keys; a source that has more of them gathers again.
        let share = keys / self.sources.len().max(1) as u64;
        self.sources.iter_mut().for_each(|source| source.expect(share.saturating_add(share / 4 + 4)));
    }

    fn first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    fn last(&mut self) -> Result<()> {
        self.place_all(false, |source| source.last())
    }

    fn next(&mut self) -> Result<()> {
        let Some(&top) = self.heap.first() else { return Ok(()) };
        if self.forward {
            self.sources[top as usize].next()?;
            return self.settle_top();
        }
        let Some(here) = self.here() else { return Ok(()) };
        self.place_all(true, |source| {
            source.seek(&here)?;
            if source.key() == Some(&here) { source.next() } else { Ok(()) }
        })
    }

    fn prev(&mut self) -> Result<()> {
        let Some(&top) = self.heap.first() else { return Ok(()) };
        if !self.forward {
            self.sources[top as usize].prev()?;
            return self.settle_top();
        }
        let Some(here) = self.here() else { return Ok(()) };
        self.place_all(false, |source| source.seek_before(&here))
    }

    fn key(&self) -> Option<&[u8]> {
        let stored = self.sources[*self.heap.first()? as usize].key()?;
        Some(if stored.first() == Some(&0) { &self.decoded } else { stored })
    }

    fn value(&self) -> Option<&[u8]> {
        self.sources[*self.heap.first()? as usize].value()
    }
}
