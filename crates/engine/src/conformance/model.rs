//! The model: a `BTreeMap`, a cursor over it, and the comparison of both with an engine.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::{Capabilities, Cursor, Engine, Op, Snapshot};

/// What an engine should hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// The live keys and values.
    pub map: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Names the first difference that was found.
pub type Difference = String;

impl Model {
    /// Apply in order; later operations win.
    pub fn apply(&mut self, ops: &[Op<'_>]) {
        for op in ops {
            match *op {
                Op::Put { key, value } => {
                    self.map.insert(key.to_vec(), value.to_vec());
                }
                Op::Delete { key } => {
                    self.map.remove(key);
                }
                Op::DeleteRange { from, to } => {
                    self.map.retain(|key, _| &key[..] < from || to.is_some_and(|to| &key[..] >= to));
                }
            }
        }
    }

    /// The bytes of live keys and values.
    pub fn logical_bytes(&self) -> u64 {
        self.map.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    /// Compare every key by `get`, and every key in order both ways where the engine is ordered.
    pub fn same_as_engine(&self, engine: &Arc<dyn Engine>, capabilities: &Capabilities) -> Result<(), Difference> {
        for (key, value) in &self.map {
            let got = engine.get(key).map_err(|e| format!("get {}: {e}", show(key)))?;
            self.same_value(key, got.as_deref(), value)?;
        }
        if capabilities.ordered {
            let cursor = Arc::clone(engine).cursor().map_err(|e| format!("open a cursor: {e}"))?;
            self.same_as_cursor(cursor)?;
        }
        Ok(())
    }

    /// Compare a snapshot as an engine.
    pub fn same_as_snapshot(&self, snapshot: &Arc<dyn Snapshot>, ordered: bool) -> Result<(), Difference> {
        for (key, value) in &self.map {
            let got = snapshot.get(key).map_err(|e| format!("get {} of a snapshot: {e}", show(key)))?;
            self.same_value(key, got.as_deref(), value)?;
        }
        if ordered {
            let cursor = Arc::clone(snapshot).cursor().map_err(|e| format!("open a cursor of a snapshot: {e}"))?;
            self.same_as_cursor(cursor)?;
        }
        Ok(())
    }

    /// Walk a cursor through everything, forward and back.
    pub fn same_as_cursor(&self, mut cursor: Box<dyn Cursor>) -> Result<(), Difference> {
        let mut here = ModelCursor::new(self);
        let mut step = Move::First;
        loop {
            here.apply(&step);
            step.apply(&mut *cursor).map_err(|e| format!("{step:?}: {e}"))?;
            here.same_as(&*cursor).map_err(|e| format!("walking forward: {e}"))?;
            if here.key().is_none() {
                break;
            }
            step = Move::Next;
        }
        step = Move::Last;
        loop {
            here.apply(&step);
            step.apply(&mut *cursor).map_err(|e| format!("{step:?}: {e}"))?;
            here.same_as(&*cursor).map_err(|e| format!("walking backward: {e}"))?;
            if here.key().is_none() {
                return Ok(());
            }
            step = Move::Prev;
        }
    }

    fn same_value(&self, key: &[u8], got: Option<&[u8]>, value: &[u8]) -> Result<(), Difference> {
        match got {
            Some(got) if got == value => Ok(()),
            got => Err(format!("key {} has {}, not {}", show(key), show_option(got), show(value))),
        }
    }
}

/// One movement of a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// `seek`.
    Seek(Vec<u8>),
    /// `seek_before`.
    SeekBefore(Vec<u8>),
    /// `first`.
    First,
    /// `last`.
    Last,
    /// `next`.
    Next,
    /// `prev`.
    Prev,
}

impl Move {
    /// Move a cursor of an engine.
    pub fn apply(&self, cursor: &mut dyn Cursor) -> crate::Result<()> {
        match self {
            Self::Seek(key) => cursor.seek(key),
            Self::SeekBefore(key) => cursor.seek_before(key),
            Self::First => cursor.first(),
            Self::Last => cursor.last(),
            Self::Next => cursor.next(),
            Self::Prev => cursor.prev(),
        }
    }
}

/// A cursor over the model, by the words of the contract.
#[derive(Debug)]
pub struct ModelCursor<'a> {
    map: &'a BTreeMap<Vec<u8>, Vec<u8>>,
    here: Option<(&'a Vec<u8>, &'a Vec<u8>)>,
}

impl<'a> ModelCursor<'a> {
    /// Positioned nowhere.
    pub fn new(model: &'a Model) -> Self {
        Self { map: &model.map, here: None }
    }

    /// Move.
    pub fn apply(&mut self, step: &Move) {
        let from = |bound: Bound<&[u8]>| self.map.range::<[u8], _>((bound, Bound::Unbounded)).next();
        let before = |key: &[u8]| self.map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).next_back();
        self.here = match step {
            Move::Seek(key) => from(Bound::Included(key)),
            Move::SeekBefore(key) => before(key),
            Move::First => self.map.first_key_value(),
            Move::Last => self.map.last_key_value(),
            Move::Next => self.here.and_then(|(key, _)| from(Bound::Excluded(key))),
            Move::Prev => self.here.and_then(|(key, _)| before(key)),
        };
    }

    /// The key here.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.here.map(|(key, _)| &key[..])
    }

    /// Compare key and value with a cursor of an engine.
    pub fn same_as(&self, cursor: &dyn Cursor) -> Result<(), Difference> {
        if cursor.key() != self.key() {
            return Err(format!("the cursor is at {}, not {}", show_option(cursor.key()), show_option(self.key())));
        }
        let value = self.here.map(|(_, value)| &value[..]);
        if cursor.value() != value {
            let at = show_option(self.key());
            return Err(format!("the cursor at {at} has {}, not {}", show_option(cursor.value()), show_option(value)));
        }
        Ok(())
    }
}

/// Bytes for people: escaped, and shortened with their length.
pub fn show(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let dots = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("\"{}{dots}\" ({} B)", shown.escape_ascii(), bytes.len())
}

/// As [`show`], or `nothing`.
pub fn show_option(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "nothing".to_owned(), show)
}
