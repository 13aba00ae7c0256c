//! An engine and what waits for it, read together: where the engine takes no more, because its disk is full or broken.
//!
//! Reads go on then, and see what was acknowledged. Nobody is in a hurry there: each step seeks anew.
//!
//! Invariants: what waits hides what the engine has under the same key, and so does a deletion that waits. A position is a key that is seen.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use biombo_engine::{Cursor, Result, Snapshot, Value};

/// What waits, by stored keys; `None` stands for a deletion.
pub(crate) type Waiting = BTreeMap<Box<[u8]>, Option<Arc<[u8]>>>;

/// One of it: a key, and its value or that it is deleted.
type Write = (Vec<u8>, Option<Arc<[u8]>>);

/// A snapshot of the engine under what waited when it was taken.
pub(crate) struct OverlaidSnapshot {
    snapshot: Arc<dyn Snapshot>,
    waiting: Arc<Waiting>,
}

impl OverlaidSnapshot {
    pub(crate) fn new(snapshot: Arc<dyn Snapshot>, waiting: Arc<Waiting>) -> Self {
        Self { snapshot, waiting }
    }
}

impl Snapshot for OverlaidSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        match self.waiting.get(key) {
            Some(value) => Ok(value.clone().map(Value::guarded)),
            None => self.snapshot.get(key),
        }
    }

    fn cursor(self: Arc<Self>) -> Result<Box<dyn Cursor>> {
        let cursor = Arc::clone(&self.snapshot).cursor()?;
        Ok(Box::new(Overlaid::new(cursor, Arc::clone(&self.waiting))))
    }
}

/// A cursor of the engine under what waited when it was opened.
pub(crate) struct Overlaid {
    cursor: Box<dyn Cursor>,
    waiting: Arc<Waiting>,
    /// Where it stands.
    key: Option<Vec<u8>>,
    /// The value there, if it waits; else the cursor stands there.
    value: Option<Arc<[u8]>>,
}

impl Overlaid {
    pub(crate) fn new(cursor: Box<dyn Cursor>, waiting: Arc<Waiting>) -> Self {
        Self { cursor, waiting, key: None, value: None }
    }

    /// To the first key that is seen from `from` on, where the cursor stands on its first.
    fn forward(&mut self, mut from: Bound<Vec<u8>>) -> Result<()> {
        loop {
            let begin = from.as_ref().map(Vec::as_slice);
            let waiting = self.waiting.range::<[u8], _>((begin, Bound::Unbounded)).next();
            let waiting = waiting.map(|(key, value)| (key.to_vec(), value.clone()));
            let Some(hidden) = self.stand(waiting, Ordering::Less) else { return Ok(()) };
            if self.cursor.key() == Some(hidden.as_slice()) {
                self.cursor.next()?;
            }
            from = Bound::Excluded(hidden);
        }
    }

    /// To the last key that is seen up to `to`, where the cursor stands on its last.
    fn backward(&mut self, mut to: Bound<Vec<u8>>) -> Result<()> {
        loop {
            let end = to.as_ref().map(Vec::as_slice);
            let waiting = self.waiting.range::<[u8], _>((Bound::Unbounded, end)).next_back();
            let waiting = waiting.map(|(key, value)| (key.to_vec(), value.clone()));
            let Some(hidden) = self.stand(waiting, Ordering::Greater) else { return Ok(()) };
            if self.cursor.key() == Some(hidden.as_slice()) {
                self.cursor.prev()?;
            }
            to = Bound::Excluded(hidden);
        }
    }

    /// Stand on what the cursor has where that compares as `first` with what waits, else on what waits. A deletion is no place to stand: its key
    /// is returned.
    fn stand(&mut self, waiting: Option<Write>, first: Ordering) -> Option<Vec<u8>> {
        let (key, value) = match (self.cursor.key(), waiting) {
            (Some(here), Some((key, _))) if here.cmp(key.as_slice()) == first => (Some(here.to_vec()), None),
            (here, None) => (here.map(<[u8]>::to_vec), None),
            (_, Some((key, None))) => return Some(key),
            (_, Some((key, value))) => (Some(key), value),
        };
        self.key = key;
        self.value = value;
        None
    }
}

impl Cursor for Overlaid {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        self.forward(Bound::Included(key.to_vec()))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)?;
        self.backward(Bound::Excluded(key.to_vec()))
    }

    fn first(&mut self) -> Result<()> {
        self.cursor.first()?;
        self.forward(Bound::Unbounded)
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.last()?;
        self.backward(Bound::Unbounded)
    }

    fn next(&mut self) -> Result<()> {
        let Some(key) = self.key.take() else { return Ok(()) };
        self.cursor.seek(&key)?;
        if self.cursor.key() == Some(key.as_slice()) {
            self.cursor.next()?;
        }
        self.forward(Bound::Excluded(key))
    }

    fn prev(&mut self) -> Result<()> {
        let Some(key) = self.key.take() else { return Ok(()) };
        self.cursor.seek_before(&key)?;
        self.backward(Bound::Excluded(key))
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        match (&self.key, &self.value) {
            (None, _) => None,
            (_, Some(value)) => Some(value),
            _ => self.cursor.value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biombo_engine::memory::Memory;
    use biombo_engine::{Durability, Engine, Op};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn key(number: u8) -> Vec<u8> {
        [b'k', number].to_vec()
    }

    proptest! {
        /// Against a map: fails where what waits does not win, a deletion does not hide, or a step goes too far or not far enough.
        #[test]
        fn an_engine_and_what_waits_for_it_are_seen_as_one(
            had in btree_map(0u8..12, any::<u8>(), 0..10),
            waits in btree_map(0u8..12, proptest::option::of(any::<u8>()), 0..10),
            steps in vec((0u8..6, 0u8..13), 1..30),
        ) {
            let engine = Arc::new(Memory::new());
            let mut model = BTreeMap::new();
            for (number, value) in &had {
                engine.apply(&[Op::Put { key: &key(*number), value: &[*value] }], Durability::Os).expect("put");
                model.insert(key(*number), [*value].to_vec());
            }
            let mut waiting = Waiting::new();
            for (number, value) in &waits {
                waiting.insert(key(*number).into(), value.map(|value| Arc::from(&[value][..])));
                match value {
                    Some(value) => drop(model.insert(key(*number), [*value].to_vec())),
                    None => drop(model.remove(&key(*number))),
                }
            }
            let snapshot = Arc::new(OverlaidSnapshot::new(engine.snapshot().expect("snapshot"), Arc::new(waiting)));
            for number in 0..13 {
                let found = snapshot.get(&key(number)).expect("get");
                prop_assert_eq!(found.as_deref(), model.get(&key(number)).map(Vec::as_slice));
            }
            let mut cursor = Arc::clone(&snapshot).cursor().expect("cursor");
            let mut at: Option<Vec<u8>> = None;
            let after = |from: Bound<Vec<u8>>| model.range((from, Bound::Unbounded)).next().map(|(key, _)| key.clone());
            let before = |to: Bound<Vec<u8>>| model.range((Bound::Unbounded, to)).next_back().map(|(key, _)| key.clone());
            for (step, number) in steps {
                let to = key(number);
                let moved = match step {
                    0 => cursor.seek(&to),
                    1 => cursor.seek_before(&to),
                    2 => cursor.first(),
                    3 => cursor.last(),
                    4 => cursor.next(),
                    _ => cursor.prev(),
                };
                moved.expect("a step");
                at = match step {
                    0 => after(Bound::Included(to)),
                    1 => before(Bound::Excluded(to)),
                    2 => after(Bound::Unbounded),
                    3 => before(Bound::Unbounded),
                    4 => at.and_then(|key| after(Bound::Excluded(key))),
                    _ => at.and_then(|key| before(Bound::Excluded(key))),
                };
                prop_assert_eq!(cursor.key(), at.as_deref());
                prop_assert_eq!(cursor.value(), at.as_ref().and_then(|key| model.get(key)).map(Vec::as_slice));
            }
        }
    }
}
