//! Cursors: a leaf at a time.
//!
//! A cursor holds a leaf as it was when it came there, which never changes, and looks for the next one by its last key. Keys that nobody
//! touches meanwhile come once, in order. A value in a run of its own is read under the tree's lock, from where its key leads then: the run
//! that an old leaf names may be somebody else's.

use std::sync::Arc;

use biombo_base::Result;
use biombo_engine::Cursor;

use super::engine::{MicroBtree, read_value};
use super::page::{Page, Stored};
use super::tree::Tree;

type Found = Option<(Arc<Page>, usize)>;

/// See the module.
pub(super) struct BtreeCursor {
    engine: Arc<MicroBtree>,
    here: Found,
    /// The value here, where it does not lie in the leaf.
    value: Vec<u8>,
}

impl BtreeCursor {
    pub fn new(engine: Arc<MicroBtree>) -> Self {
        Self { engine, here: None, value: Vec::new() }
    }

    /// Go to what `look` finds in the tree as it is now.
    fn go(&mut self, look: impl FnOnce(&Tree) -> Result<Found>) -> Result<()> {
        self.here = None;
        let tree = self.engine.sound()?;
        let found = look(&tree)?;
        if let Some((leaf, at)) = &found
            && let Stored::Run(_) = leaf.value(*at)
        {
            read_value(&self.engine.pages, leaf, *at, &mut self.value)?;
        }
        drop(tree);
        self.here = found;
        Ok(())
    }

    /// To the neighbour within the leaf, or in the tree.
    fn step(&mut self, after: bool) -> Result<()> {
        let Some((leaf, at)) = self.here.take() else { return Ok(()) };
        let next = if after { Some(at + 1).filter(|next| *next < leaf.count()) } else { at.checked_sub(1) };
        if let Some(next) = next
            && let Stored::Inline(_) = leaf.value(next)
        {
            self.here = Some((leaf, next));
            return Ok(());
        }
        let mut key = leaf.key(at).to_vec();
        if after {
            key.push(0);
        }
        let engine = Arc::clone(&self.engine);
        self.go(|tree| tree.neighbour(&engine.pages, Some(&key), after))
    }
}

impl Cursor for BtreeCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        self.go(|tree| tree.neighbour(&engine.pages, Some(key), true))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        self.go(|tree| tree.neighbour(&engine.pages, Some(key), false))
    }

    fn first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    fn last(&mut self) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        self.go(|tree| tree.neighbour(&engine.pages, None, false))
    }

    fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn key(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|(leaf, at)| leaf.key(*at))
    }

    fn value(&self) -> Option<&[u8]> {
        self.here.as_ref().map(|(leaf, at)| match leaf.value(*at) {
            Stored::Inline(value) => value,
            Stored::Run(_) => &self.value,
        })
    }
}
