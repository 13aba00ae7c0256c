//! One ordered view over ranges that lie side by side: the cursor of `range` placement.
//!
//! Each range has one owner, so one source at a time has the present key, and the others are not even positioned. O(1) a step, O(log ranges)
//! to seek. Nothing is made of ranges that are not reached: a short scan costs the same however many there are.
//!
//! Invariants: `here` is the range of the present key, and its source; a source's keys outside of the range it stands for are ignored. Stored
//! keys go in, user keys come out.

use std::borrow::Cow;
use std::sync::Arc;

use biombo_engine::{Cursor, Result};

use crate::topology::Topology;
use crate::{PartitionId, UnitId, keyspace};

/// The ranges that a view goes over, by their numbers in its placement.
struct Ranges {
    topology: Arc<Topology>,
    first: usize,
    last: usize,
    /// How many bounds were looked at.
    #[cfg(test)]
    looked: std::cell::Cell<usize>,
}

impl Ranges {
    /// Where a range begins, as a stored key; `None`: there is no such range.
    fn start(&self, range: usize) -> Option<Cow<'_, [u8]>> {
        #[cfg(test)]
        self.looked.set(self.looked.get() + 1);
        self.topology.placement.start_of(UnitId(range as u32)).map(keyspace::encode_from)
    }

    /// The range of a user key, or the one of these that lies nearest to it.
    fn of(&self, key: &[u8]) -> usize {
        (self.topology.placement.unit_of(key).0 as usize).clamp(self.first, self.last)
    }
}

/// A chain of ranges in order.
pub(crate) struct ChainCursor {
    ranges: Ranges,
    /// In the order of the owners' numbers.
    sources: Vec<(PartitionId, Box<dyn Cursor>)>,
    here: Option<(usize, usize)>,
    decoded: Vec<u8>,
}

impl ChainCursor {
    /// Over the ranges that hold keys of `[from, to)`, each of whose owners has one of `sources`.
    pub(crate) fn new(
        topology: &Arc<Topology>,
        from: &[u8],
        to: Option<&[u8]>,
        mut sources: Vec<(PartitionId, Box<dyn Cursor>)>,
    ) -> Self {
        let (first, last) = topology.placement.ranges_within(from, to);
        sources.sort_by_key(|(owner, _)| *owner);
        let ranges = Ranges {
            topology: Arc::clone(topology),
            first,
            last,
            #[cfg(test)]
            looked: std::cell::Cell::default(),
        };
        Self { ranges, sources, here: None, decoded: Vec::new() }
    }

    fn source_of(&self, range: usize) -> usize {
        let owner = self.ranges.topology.placement.owner_of(UnitId(range as u32));
        let found = self.sources.binary_search_by_key(&owner, |(owner, _)| Some(*owner));
        found.expect("invariant: every owner of a range in the chain has a source")
    }

    /// Whether the source of `range` stands inside of it.
    fn inside(&self, range: usize, source: usize) -> bool {
        self.sources[source].1.key().is_some_and(|key| {
            !keyspace::is_own(key)
                && self.ranges.start(range).is_some_and(|start| *start <= *key)
                && self.ranges.start(range + 1).is_none_or(|end| *key < *end)
        })
    }

    /// The source of `range` was positioned: walk on to the first range that has a key.
    fn settle_forward(&mut self, mut range: usize, mut source: usize) -> Result<()> {
        while !self.inside(range, source) {
            if range == self.ranges.last {
                self.here = None;
                return Ok(());
            }
            range += 1;
            source = self.source_of(range);
            self.sources[source].1.seek(&self.ranges.start(range).unwrap_or_default())?;
        }
        self.arrive(range, source)
    }

    fn settle_back(&mut self, mut range: usize, mut source: usize) -> Result<()> {
        while !self.inside(range, source) {
            if range == self.ranges.first {
                self.here = None;
                return Ok(());
            }
            range -= 1;
            source = self.source_of(range);
            self.sources[source].1.seek_before(&self.ranges.start(range + 1).unwrap_or_default())?;
        }
        self.arrive(range, source)
    }

    fn arrive(&mut self, range: usize, source: usize) -> Result<()> {
        self.here = Some((range, source));
        if let Some(stored) = self.sources[source].1.key()
            && stored.first() == Some(&0)
        {
            keyspace::decode(stored, &mut self.decoded);
        }
        Ok(())
    }

    fn source(&self) -> Option<&dyn Cursor> {
        self.here.map(|(_, source)| &*self.sources[source].1)
    }
}

impl Cursor for ChainCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let range = self.ranges.of(key);
        let source = self.source_of(range);
        let key = keyspace::encode_from(key);
        self.sources[source].1.seek(&self.ranges.start(range).unwrap_or_default().max(key))?;
        self.settle_forward(range, source)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let range = self.ranges.of(key);
        let source = self.source_of(range);
        self.sources[source].1.seek_before(&keyspace::encode_from(key))?;
        self.settle_back(range, source)
    }

    fn expect(&mut self, keys: u64) {
        self.sources.iter_mut().for_each(|(_, source)| source.expect(keys));
    }

    fn first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    fn last(&mut self) -> Result<()> {
        let range = self.ranges.last;
        let source = self.source_of(range);
        match self.ranges.start(range + 1) {
            Some(end) => self.sources[source].1.seek_before(&end)?,
            None => self.sources[source].1.last()?,
        }
        self.settle_back(range, source)
    }

    fn next(&mut self) -> Result<()> {
        let Some((range, source)) = self.here else { return Ok(()) };
        self.sources[source].1.next()?;
        self.settle_forward(range, source)
    }

    fn prev(&mut self) -> Result<()> {
        let Some((range, source)) = self.here else { return Ok(()) };
        self.sources[source].1.prev()?;
        self.settle_back(range, source)
    }

    fn key(&self) -> Option<&[u8]> {
        let stored = self.source()?.key()?;
        Some(if stored.first() == Some(&0) { &self.decoded } else { stored })
    }

    fn value(&self) -> Option<&[u8]> {
        self.source()?.value()
    }
}

#[cfg(test)]
mod tests {
    use biombo_engine::memory::Memory;
    use biombo_engine::{Durability, Engine, Op};

    use super::*;
    use crate::Placement;
    use crate::placement::{Cuts, UnitSet};

    const KEYS: u32 = 20_000;
    const PARTITIONS: u16 = 4;

    fn key(number: u32) -> Vec<u8> {
        // One in eight begins with the byte that stored keys escape.
        [&[(number * 8 / KEYS) as u8][..], &number.to_be_bytes()].concat()
    }

    /// Ten thousand ranges, dealt to the partitions in turn.
    fn topology() -> Arc<Topology> {
        let whole = Placement::range(PARTITIONS.into(), (0..KEYS).map(key).collect());
        let cuts = Cuts::splits(&whole, (0..KEYS).step_by(2).map(key)).expect("keys");
        let mut placement = whole.recut(&cuts).expect("keys");
        for partition in 0..PARTITIONS {
            let mine = (u32::from(partition)..placement.units() as u32).step_by(PARTITIONS.into());
            let units = UnitSet::of(&placement, &mine.map(UnitId).collect::<Vec<_>>()).expect("ranges");
            placement = placement.moved(&units, PartitionId(partition)).expect("ranges");
        }
        Arc::new(Topology::new(placement, std::iter::empty()))
    }

    /// Over partitions of which each holds every key: what it does not own must not be seen.
    fn chain(topology: &Arc<Topology>, engine: &Arc<Memory>, from: &[u8], to: Option<&[u8]>) -> ChainCursor {
        let owners = topology.placement.owners_of_range(from, to);
        let source = |owner: PartitionId| {
            let engine: Arc<dyn Engine> = engine.clone();
            (owner, engine.cursor().expect("a cursor"))
        };
        ChainCursor::new(topology, from, to, owners.into_iter().map(source).collect())
    }

    #[test]
    fn a_short_scan_looks_at_the_ranges_that_it_reaches_and_at_no_others() {
        let (topology, engine) = (topology(), Arc::new(Memory::new()));
        assert!(topology.placement.units() >= 10_000, "{}", topology.placement.units());
        for number in 0..KEYS {
            let stored = keyspace::encode(&key(number)).into_owned();
            engine.apply(&[Op::Put { key: &stored, value: b"" }], Durability::Os).expect("a put");
        }
        for first in [0, 1, 4_999, 12_345, KEYS - 30] {
            let (from, end) = (key(first), key(first + 20));
            for to in [None, Some(&end[..])] {
                let mut cursor = chain(&topology, &engine, &from, to);
                cursor.seek(&from).expect("seek");
                for number in first..first + 20 {
                    assert_eq!(cursor.key(), Some(&key(number)[..]));
                    cursor.next().expect("next");
                }
                // Two for each key, and four for each of the ranges in between.
                let looked = cursor.ranges.looked.get();
                assert!(looked <= 100, "{looked} bounds looked at for 20 keys from {first}");
                cursor.seek_before(&end).expect("seek");
                for number in (first..first + 20).rev() {
                    assert_eq!(cursor.key(), Some(&key(number)[..]));
                    cursor.prev().expect("prev");
                }
                if to.is_some() {
                    assert!(cursor.ranges.last - cursor.ranges.first <= 11);
                    cursor.last().expect("last");
                    let last = cursor.key().expect("the last one of the last range").to_vec();
                    assert!((&key(first + 19)..=&key(first + 20)).contains(&&last), "{last:?}");
                }
            }
        }
    }
}
