//! Snapshots, and cursors over them.
//!
//! A cursor gathers positions in groups, pinned for each group only, and holds the segments of a group: what it stands on stays
//! readable whatever is cleaned meanwhile, and nothing else is kept. Of segments that are read directly it reads the records of
//! a group at once, neighbours in one read, past the cache.
//!
//! Invariants:
//!
//! 1. A group has, in order, the records that the snapshot sees between its first and its last key, none left out.
//! 2. Versions that the index has forgotten come from [`Versions`](crate::versions::Versions), looked at after the index.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use biombo_base::Result;
use biombo_base::published::Guard;
use biombo_engine::{Cursor, Snapshot, Value};
use biombo_journal::{Ahead, Kept, Position, Segment};

use crate::engine::{LogEngine, foreign, position};
use crate::index::Leaf;
use crate::read::value;
use crate::record::Record;
use crate::versions::UNKNOWN;

const GROUP_MIN: usize = 32;
const GROUP_MAX: usize = 256;
/// How many records ahead of the cursor memory is asked for.
const AHEAD: usize = 3;

/// One point in the history of the engine.
pub(crate) struct View {
    engine: Arc<LogEngine>,
    seq: u64,
}

impl View {
    pub(crate) fn open(engine: Arc<LogEngine>) -> Arc<Self> {
        let seq = {
            let mut live = engine.lock_snapshots();
            let seq = engine.visible();
            live.enter(seq);
            seq
        };
        Arc::new(Self { engine, seq })
    }

    pub(crate) fn cursor(self: Arc<Self>) -> GroupCursor {
        GroupCursor {
            view: self,
            group: Vec::new(),
            held: Vec::new(),
            ahead: Ahead::default(),
            alone: None,
            at: None,
            way: Way::Forward,
            more: false,
            group_max: GROUP_MIN,
            expected: GROUP_MIN,
            leaves: Vec::new(),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut live = self.engine.lock_snapshots();
        live.leave(self.seq);
        self.engine.versions.purge(&live);
    }
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        self.engine.capabilities.check_key(key)?;
        let guard = self.engine.reader.pin();
        Ok(self.engine.find_at(&guard, key, self.seq)?.map(value))
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(View::cursor(self)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

/// A cursor over a [`View`].
pub(crate) struct GroupCursor {
    view: Arc<View>,
    /// In the direction of `way`.
    group: Vec<Position>,
    held: Vec<Arc<Segment>>,
    /// Records of the group that were read directly.
    ahead: Ahead,
    /// The record that the cursor stands on, if it was read alone.
    alone: Option<Kept>,
    /// Where in the group; `None`: at no key.
    at: Option<usize>,
    way: Way,
    /// Whether keys may follow the group.
    more: bool,
    group_max: usize,
    /// How large the first group of a range should be.
    expected: usize,
    leaves: Vec<Leaf>,
}

impl GroupCursor {
    /// Gather the first group of a range, in a direction, and stand at its first key.
    fn start(&mut self, from: Bound<&[u8]>, way: Way, group_max: usize) -> Result<()> {
        self.at = None;
        self.way = way;
        self.group_max = group_max;
        self.gather(from)?;
        self.stand(0)
    }

    /// Stand at a place of the group, whose record is verified.
    fn stand(&mut self, at: usize) -> Result<()> {
        self.at = None;
        self.alone = None;
        let Some(position) = self.group.get(at) else { return Ok(()) };
        let has_value = |bytes: &[u8]| Record::parse(bytes).is_some_and(|record| record.kind.has_value());
        if self.ahead.verified(*position).is_some_and(has_value) {
            self.at = Some(at);
            return Ok(());
        }
        let typical = self.view.engine.typical_bytes();
        // The first of a group asks for those up to the one that it would have been asked for by.
        let ahead = if at == 0 { 1..AHEAD + 1 } else { AHEAD..AHEAD + 1 };
        for next in ahead.filter_map(|ahead| self.group.get(at + ahead)) {
            if let Some(segment) = self.segment(*next) {
                segment.prefetch(next.offset(), typical);
            }
        }
        // The segment is held: its table entry may be gone, its bytes are not.
        match self.segment(*position) {
            Some(segment) if segment.verified(position.offset()).is_some_and(has_value) => {
                self.at = Some(at);
                Ok(())
            }
            Some(segment) if segment.is_direct() => {
                let alone = self.view.engine.reader.read_of(segment, position.offset())?;
                if !has_value(&alone) {
                    return Err(foreign(*position));
                }
                (self.alone, self.at) = (Some(alone), Some(at));
                Ok(())
            }
            _ => {
                let guard = self.view.engine.reader.pin();
                Err(self.view.engine.read(&guard, *position).err().unwrap_or_else(|| foreign(*position)))
            }
        }
    }

    fn segment(&self, at: Position) -> Option<&Arc<Segment>> {
        self.held.iter().find(|segment| segment.number() == at.segment())
    }

    fn record(&self) -> Option<Record<'_>> {
        let at = *self.group.get(self.at?)?;
        let bytes = match &self.alone {
            Some(alone) => Some(&**alone),
            None => self.ahead.get(at).or_else(|| self.segment(at)?.get(at.offset())),
        };
        bytes.and_then(Record::parse)
    }

    fn step(&mut self, way: Way) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        if way == self.way && at + 1 < self.group.len() {
            return self.stand(at + 1);
        }
        if way != self.way && at > 0 {
            return self.stand(at - 1);
        }
        if way == self.way && !self.more {
            self.at = None;
            return Ok(());
        }
        let key = self.record().map(|record| record.key.to_vec()).unwrap_or_default();
        let group_max = if way == self.way { (self.group_max * 2).min(GROUP_MAX) } else { GROUP_MIN };
        self.start(Bound::Excluded(&key), way, group_max)
    }

    /// Fill the group from `from` on, in the direction of `way`.
    fn gather(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.group.clear();
        self.held.clear();
        let mut from: Bound<Vec<u8>> = from.map(<[u8]>::to_vec);
        loop {
            let last = self.gather_from(from.as_ref().map(Vec::as_slice))?;
            match last {
                Some(last) if self.group.is_empty() => from = Bound::Excluded(last),
                last => {
                    self.more = last.is_some();
                    return Ok(());
                }
            }
        }
    }

    /// One round; returns the last key that it has come to, if there are more behind it.
    fn gather_from(&mut self, from: Bound<&[u8]>) -> Result<Option<Vec<u8>>> {
        let engine = Arc::clone(&self.view.engine);
        let guard = engine.reader.pin();
        let sought = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let keys = engine.keys(&guard, sought);
        self.leaves.clear();
        {
            let pin = engine.index.pin();
            let mut cursor = pin.cursor(keys);
            let first = match (self.way, from) {
                (Way::Forward, Bound::Unbounded) => cursor.first(),
                (Way::Forward, Bound::Included(key)) => cursor.seek(key),
                (Way::Forward, Bound::Excluded(key)) => cursor.seek_after(key),
                (Way::Backward, Bound::Unbounded) => cursor.last(),
                (Way::Backward, Bound::Included(key) | Bound::Excluded(key)) => cursor.seek_before(key),
            }?;
            if let Some(first) = first {
                self.leaves.push(first);
                match self.way {
                    Way::Forward => cursor.next_n(self.group_max - 1, &mut self.leaves)?,
                    Way::Backward => cursor.prev_n(self.group_max - 1, &mut self.leaves)?,
                };
            }
        }
        for leaf in &self.leaves {
            engine.reader.prefetch(&guard, position(*leaf), 64);
        }
        engine.reader.read_ahead(&guard, self.leaves.iter().map(|leaf| position(*leaf)), &mut self.ahead);
        let whole = self.leaves.len() < self.group_max;
        let last = match self.leaves.last() {
            Some(leaf) if !whole => Some(self.peek(&engine, &guard, *leaf, |record| record.key.to_vec())?),
            _ => None,
        };
        let mut is_plain = true;
        for leaf in &self.leaves {
            is_plain &= self.peek(&engine, &guard, *leaf, |record| record.seq <= self.view.seq)?;
        }
        if is_plain && engine.versions.is_empty() {
            self.group.extend(self.leaves.iter().map(|leaf| position(*leaf)));
        } else {
            self.merge(&engine, &guard, from, last.as_deref())?;
        }
        for at in &self.group {
            if !self.held.iter().any(|segment| segment.number() == at.segment()) {
                self.held.push(engine.reader.hold(&guard, *at).ok_or_else(|| foreign(*at))?);
            }
        }
        Ok(last)
    }

    /// What `f` says of the record of a leaf, unverified.
    #[inline]
    fn peek<R>(&self, engine: &LogEngine, guard: &Guard, leaf: Leaf, f: impl Fn(Record<'_>) -> R) -> Result<R> {
        let at = position(leaf);
        match self.ahead.get(at).and_then(Record::parse) {
            Some(record) => Ok(f(record)),
            None => engine.peek(guard, at).map(|stored| f(stored.record())),
        }
    }

    /// The group out of the leaves and of what the index has forgotten, up to the key `last`.
    fn merge(&mut self, engine: &LogEngine, guard: &Guard, from: Bound<&[u8]>, last: Option<&[u8]>) -> Result<()> {
        let mut merged: BTreeMap<Vec<u8>, Position> = BTreeMap::new();
        for leaf in &self.leaves {
            // Verified, because its number may say that it is not to be seen, and its key where it stands.
            let at = position(*leaf);
            let stored;
            let ahead = self.ahead.verified(at).and_then(Record::parse);
            let record = match ahead.filter(|record| record.kind.has_value()) {
                Some(record) => record,
                None => {
                    stored = engine.read(guard, at)?;
                    stored.record()
                }
            };
            if record.seq <= self.view.seq {
                merged.insert(record.key.to_vec(), at);
            }
        }
        let end = last.map_or(Bound::Unbounded, Bound::Included);
        let range = match self.way {
            Way::Forward => (from, end),
            Way::Backward => (end, exclusive(from)),
        };
        let mut unsure = Vec::new();
        engine.versions.range(range, self.view.seq, |key, old| match old.seq {
            UNKNOWN => unsure.push((key.to_vec(), old.at)),
            _ => _ = merged.entry(key.to_vec()).or_insert(old.at),
        });
        for (key, at) in unsure {
            // What still cannot be read is told by who comes to it.
            let is_other = |record: &Record<'_>| record.seq > self.view.seq || record.key != key;
            if !engine.read(guard, at).is_ok_and(|stored| is_other(&stored.record())) {
                merged.entry(key).or_insert(at);
            }
        }
        match self.way {
            Way::Forward => self.group.extend(merged.into_values()),
            Way::Backward => self.group.extend(merged.into_values().rev()),
        }
        Ok(())
    }
}

/// The end of a range that goes backward from it.
fn exclusive(from: Bound<&[u8]>) -> Bound<&[u8]> {
    match from {
        Bound::Included(key) | Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Cursor for GroupCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.start(Bound::Included(key), Way::Forward, self.expected)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.start(Bound::Excluded(key), Way::Backward, self.expected)
    }

    fn expect(&mut self, keys: u64) {
        self.expected = keys.clamp(1, GROUP_MAX as u64) as usize;
    }

    fn first(&mut self) -> Result<()> {
        self.start(Bound::Unbounded, Way::Forward, self.expected)
    }

    fn last(&mut self) -> Result<()> {
        self.start(Bound::Unbounded, Way::Backward, self.expected)
    }

    fn next(&mut self) -> Result<()> {
        self.step(Way::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Way::Backward)
    }

    fn key(&self) -> Option<&[u8]> {
        self.record().map(|record| record.key)
    }

    fn value(&self) -> Option<&[u8]> {
        self.record().map(|record| record.value)
    }
}
