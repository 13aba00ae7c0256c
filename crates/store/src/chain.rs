//! One ordered view over ranges that lie side by side: the cursor of `range` placement.
//!
//! Each range has one owner, so one source at a time has the present key, and the others are not even positioned. O(1) a step.
//!
//! Invariants: `here` is the range of the present key; a source's keys outside of the range it stands for are ignored. Stored
//! keys go in, user keys come out.

use biombo_engine::{Cursor, Result};

use crate::keyspace;

/// A range, from its first stored key, and the source that owns it.
pub(crate) struct Link {
    pub(crate) start: Vec<u8>,
    pub(crate) source: usize,
}

/// A chain of ranges in order.
pub(crate) struct ChainCursor {
    links: Vec<Link>,
    sources: Vec<Box<dyn Cursor>>,
    here: Option<usize>,
    decoded: Vec<u8>,
}

impl ChainCursor {
    /// `links` in order of their starts, the first at or before every key that will be asked for.
    pub(crate) fn new(links: Vec<Link>, sources: Vec<Box<dyn Cursor>>) -> Self {
        Self { links, sources, here: None, decoded: Vec::new() }
    }

    fn link_of(&self, stored: &[u8]) -> usize {
        self.links.partition_point(|link| link.start.as_slice() <= stored).saturating_sub(1)
    }

    /// Whether the source of `link` stands inside of its range.
    fn inside(&self, link: usize) -> bool {
        self.sources[self.links[link].source].key().is_some_and(|key| {
            !keyspace::is_own(key)
                && key >= self.links[link].start.as_slice()
                && self.links.get(link + 1).is_none_or(|next| key < next.start.as_slice())
        })
    }

    /// The source of `link` was positioned: walk on to the first range that has a key.
    fn settle_forward(&mut self, mut link: usize) -> Result<()> {
        while !self.inside(link) {
            link += 1;
            let Some(next) = self.links.get(link) else {
                self.here = None;
                return Ok(());
            };
            self.sources[next.source].seek(&next.start)?;
        }
        self.arrive(link)
    }

    fn settle_back(&mut self, mut link: usize) -> Result<()> {
        while !self.inside(link) {
            if link == 0 {
                self.here = None;
                return Ok(());
            }
            let end = &self.links[link].start;
            self.sources[self.links[link - 1].source].seek_before(end)?;
            link -= 1;
        }
        self.arrive(link)
    }

    fn arrive(&mut self, link: usize) -> Result<()> {
        self.here = Some(link);
        if let Some(stored) = self.sources[self.links[link].source].key()
            && stored.first() == Some(&0)
        {
            keyspace::decode(stored, &mut self.decoded);
        }
        Ok(())
    }

    fn source(&self) -> Option<&dyn Cursor> {
        self.here.map(|link| &*self.sources[self.links[link].source])
    }
}

impl Cursor for ChainCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = keyspace::encode_from(key);
        let link = self.link_of(&key);
        self.sources[self.links[link].source].seek(key.as_ref().max(&self.links[link].start))?;
        self.settle_forward(link)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = keyspace::encode_from(key);
        let link = self.link_of(&key);
        self.sources[self.links[link].source].seek_before(&key)?;
        self.settle_back(link)
    }

    fn expect(&mut self, keys: u64) {
        self.sources.iter_mut().for_each(|source| source.expect(keys));
    }

    fn first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    fn last(&mut self) -> Result<()> {
        let link = self.links.len() - 1;
        self.sources[self.links[link].source].last()?;
        self.settle_back(link)
    }

    fn next(&mut self) -> Result<()> {
        let Some(link) = self.here else { return Ok(()) };
        self.sources[self.links[link].source].next()?;
        self.settle_forward(link)
    }

    fn prev(&mut self) -> Result<()> {
        let Some(link) = self.here else { return Ok(()) };
        self.sources[self.links[link].source].prev()?;
        self.settle_back(link)
    }

    fn key(&self) -> Option<&[u8]> {
        let stored = self.source()?.key()?;
        Some(if stored.first() == Some(&0) { &self.decoded } else { stored })
    }

    fn value(&self) -> Option<&[u8]> {
        self.source()?.value()
    }
}
