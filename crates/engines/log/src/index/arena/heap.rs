//! Which units of the arena are free: the writer's side of the memory.
//!
//! Nodes of one kind are taken from a run of free units that the kind has claimed; when the run is used up, the kind's rover
//! looks for the next run in the bitmaps. Neighbours that are free are one run, whatever they held before: the nodes of a tree
//! that grows evenly leave their places in crowds, for the next larger kind.
//!
//! 1. A unit is busy if it holds a node, held one that a reader may still read, or is claimed by a kind.
//! 2. A unit's bit in the chunk's own bitmap says that it holds a node that is reachable. Retiring clears it at once; the busy
//!    bit goes when no reader can be there any more.
//! 3. A rover that has come to the end begins again only after a sixteenth of all units has been freed since it last began,
//!    so looking for runs costs a bounded share of freeing them; at the end of all memory it looks everywhere.

use std::collections::VecDeque;
use std::sync::Arc;

use biombo_base::{Error, ErrorKind};

use super::{Arena, BITMAP_UNITS, BITMAP_WORDS, CHUNK_UNITS, Walk};
use crate::index::epoch::Epochs;
use crate::index::frozen::Frozen;
use crate::index::node::{KINDS, Kind};
use crate::index::sync::{CHUNK_UNITS_LOG2, CLAIM_UNITS, Ordering, RETIRED_BETWEEN_EPOCHS};
use crate::index::word::NodeWord;
use crate::index::write::Scratch;

/// Units that a kind claims at a time, a whole number of nodes: what is left over would be of little use to others.
fn claim_units(units: usize) -> usize {
    (CLAIM_UNITS / units).max(1) * units
}

/// The state of the memory that only the writer knows.
pub struct Heap {
    pub scratch: Scratch,
    chunks: Vec<State>,
    rovers: [Rover; KINDS],
    fresh: Run,
    retired: VecDeque<Retired>,
    cleared: VecDeque<Cleared>,
    frozen: Option<Arc<Frozen>>,
    retired_in_epoch: usize,
    freed_units: u64,
    /// Units that nothing holds, in the chunks that were adopted.
    free_units: usize,
    /// How many chunks, from the first on, were adopted or never will be.
    adopted: usize,
}

/// A chunk as the writer sees it.
#[derive(Default)]
struct State {
    /// None: the chunk is one of an image, and the writer has not been there.
    busy: Option<Box<[u64; BITMAP_WORDS]>>,
    free_units: usize,
    /// Nothing of it is in use any more, but readers of the past may still load it.
    lost: bool,
}

/// Units `from..to` of a chunk.
#[derive(Clone, Copy, Default)]
struct Run {
    chunk: usize,
    from: usize,
    to: usize,
}

#[derive(Clone, Copy, Default)]
struct Rover {
    run: Run,
    chunk: usize,
    unit: usize,
    freed_at_start: u64,
}

/// All nodes of an index that was cleared, by the bitmaps of their chunks.
struct Cleared {
    epoch: u64,
    bitmaps: Vec<[u64; BITMAP_WORDS]>,
}

struct Retired {
    epoch: u64,
    reference: u32,
    units: u32,
}

impl Heap {
    pub fn new() -> Self {
        Self {
            scratch: Scratch::default(),
            chunks: Vec::new(),
            rovers: [Rover::default(); KINDS],
            fresh: Run::default(),
            retired: VecDeque::new(),
            cleared: VecDeque::new(),
            frozen: None,
            retired_in_epoch: 0,
            freed_units: 0,
            free_units: 0,
            adopted: 0,
        }
    }

    /// Room for a node of `kind`: its reference. Its words hold whatever they held before.
    pub fn allocate(&mut self, arena: &Arena, kind: Kind) -> Walk<u32> {
        let units = kind.words() / 2;
        let mut run = self.rovers[kind as usize].run;
        if run.to - run.from < units {
            run = self.next_run(arena, kind, units)?;
        }
        let reference = (run.chunk << CHUNK_UNITS_LOG2 | run.from) as u32;
        self.rovers[kind as usize].run = Run { from: run.from + units, ..run };
        self.mark_live(arena, reference, units, true)?;
        Ok(reference)
    }

    /// A node that readers can no longer find; those who found it before may still read it.
    pub fn retire(&mut self, arena: &Arena, epochs: &Epochs, node: NodeWord) -> Walk<()> {
        let units = node.kind().words() / 2;
        self.mark_live(arena, node.reference(), units, false)?;
        self.retired.push_back(Retired { epoch: epochs.current(), reference: node.reference(), units: units as u32 });
        self.retired_in_epoch += 1;
        if self.retired_in_epoch >= RETIRED_BETWEEN_EPOCHS {
            self.retired_in_epoch = 0;
            self.reclaim(epochs.advance());
        }
        Ok(())
    }

    /// All nodes at once: readers can find none of them any more.
    pub fn retire_all(&mut self, arena: &Arena, epochs: &Epochs) {
        let mut bitmaps = Vec::with_capacity(self.chunks.len());
        for number in 0..self.chunks.len() {
            let mut bitmap = [0; BITMAP_WORDS];
            let Some(chunk) = arena.resident(number) else {
                // A reader of the past may still load it, so it keeps its number, but nothing is put there again.
                self.chunks[number].lost = true;
                bitmaps.push(bitmap);
                continue;
            };
            self.adopt(arena, number);
            self.before_change(arena, number);
            for (word, live) in chunk.iter().zip(bitmap.iter_mut()) {
                *live = word.load(Ordering::Relaxed);
            }
            set(&mut bitmap[..], 0, BITMAP_UNITS, false);
            for (word, live) in chunk.iter().zip(bitmap.iter()) {
                word.store(word.load(Ordering::Relaxed) & !live, Ordering::Relaxed);
            }
            bitmaps.push(bitmap);
        }
        self.cleared.push_back(Cleared { epoch: epochs.current(), bitmaps });
        self.retired_in_epoch = 0;
        self.reclaim(epochs.advance());
    }

    /// Free what was retired before `oldest`.
    fn reclaim(&mut self, oldest: u64) {
        while let Some(first) = self.retired.front()
            && first.epoch < oldest
        {
            let (chunk, from) = place(first.reference);
            let units = first.units as usize;
            self.release(Run { chunk, from, to: from + units });
            self.freed_units += units as u64;
            self.retired.pop_front();
        }
        while let Some(first) = self.cleared.front()
            && first.epoch < oldest
        {
            for (state, live) in self.chunks.iter_mut().zip(&first.bitmaps) {
                for (busy, live) in state.busy.iter_mut().flat_map(|busy| busy.iter_mut()).zip(live) {
                    *busy &= !live;
                    let units = live.count_ones() as usize;
                    state.free_units += units;
                    self.free_units += units;
                    self.freed_units += units as u64;
                }
            }
            self.cleared.pop_front();
        }
    }

    /// Bytes that the writer keeps beside the chunks.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<State>()
            + self.chunks.len() * BITMAP_WORDS * 8
            + self.retired.capacity() * size_of::<Retired>()
    }

    /// Mark units in their chunk's own bitmap.
    fn mark_live(&mut self, arena: &Arena, reference: u32, units: usize, live: bool) -> Walk<()> {
        let (number, from) = place(reference);
        let chunk = arena.chunk(number)?;
        self.adopt(arena, number);
        self.before_change(arena, number);
        for_each_mask(from, from + units, |at, mask| {
            let word = chunk[at].load(Ordering::Relaxed);
            chunk[at].store(if live { word | mask } else { word & !mask }, Ordering::Relaxed);
        });
        Ok(())
    }

    /// The writer is about to change words of a chunk.
    #[inline]
    pub fn before_change(&mut self, arena: &Arena, number: usize) {
        if self.frozen.is_some() {
            self.leave_copy(arena, number);
        }
    }

    #[cold]
    fn leave_copy(&mut self, arena: &Arena, number: usize) {
        let Some(frozen) = &self.frozen else { return };
        if frozen.has_ended() {
            self.frozen = None;
        } else if let Some(chunk) = arena.resident(number) {
            frozen.before_change(number, || super::copy(chunk));
        }
    }

    /// Begin an image: copies of chunks are left for it from now on. `None` while there is another one.
    pub fn freeze(&mut self) -> Option<Arc<Frozen>> {
        if self.frozen.as_ref().is_some_and(|frozen| !frozen.has_ended()) {
            return None;
        }
        let blank: Vec<bool> = self.chunks.iter().map(|state| state.lost).collect();
        let frozen = Arc::new(Frozen::new(&blank));
        self.frozen = Some(frozen.clone());
        Some(frozen)
    }

    /// There are `chunks` chunks of an image, not yet in memory.
    pub fn adopt_later(&mut self, chunks: usize) {
        self.chunks.resize_with(chunks, State::default);
    }

    /// Take over a chunk of an image, which is in memory now: what its bitmap does not name is free.
    #[inline]
    fn adopt(&mut self, arena: &Arena, number: usize) {
        if let Some(State { busy: None, lost: false, .. }) = self.chunks.get(number) {
            self.adopt_absent(arena, number);
        }
    }

    #[cold]
    fn adopt_absent(&mut self, arena: &Arena, number: usize) {
        let Some(chunk) = arena.resident(number) else { return };
        let mut busy = Box::new([0; BITMAP_WORDS]);
        for (live, word) in busy.iter_mut().zip(chunk.iter()) {
            *live = word.load(Ordering::Relaxed);
        }
        set(&mut busy[..], 0, BITMAP_UNITS, true);
        let free_units = busy.iter().map(|word| word.count_zeros() as usize).sum();
        self.freed_units += free_units as u64;
        self.free_units += free_units;
        self.chunks[number] = State { busy: Some(busy), free_units, lost: false };
    }

    fn next_run(&mut self, arena: &Arena, kind: Kind, units: usize) -> Walk<Run> {
        let rest = std::mem::take(&mut self.rovers[kind as usize].run);
        self.release(rest);
        let all_units = (self.chunks.len() * CHUNK_UNITS) as u64;
        loop {
            if let Some(run) = self.search(arena, kind, units) {
                self.claim(run);
                return Ok(run);
            }
            let rover = &mut self.rovers[kind as usize];
            if self.freed_units - rover.freed_at_start <= all_units / 16 {
                break;
            }
            *rover = Rover { freed_at_start: self.freed_units, ..Rover::default() };
        }
        if let Some(run) = self.fresh_run(arena, units) {
            return Ok(run);
        }
        self.rovers[kind as usize] = Rover { freed_at_start: self.freed_units, ..Rover::default() };
        let run = self.search(arena, kind, units).ok_or_else(full)?;
        self.claim(run);
        Ok(run)
    }

    /// Units that nothing holds. Chunks of an image are brought into memory to be counted, once; from one on that cannot be, no more are.
    pub fn free_units(&mut self, arena: &Arena) -> usize {
        while let Some(state) = self.chunks.get(self.adopted)
            && (state.busy.is_some() || state.lost || arena.chunk(self.adopted).is_ok())
        {
            self.adopt(arena, self.adopted);
            self.adopted += 1;
        }
        self.free_units
    }

    /// The next run of at least `units` free units from the kind's rover on.
    fn search(&mut self, arena: &Arena, kind: Kind, units: usize) -> Option<Run> {
        while self.rovers[kind as usize].chunk < self.chunks.len() {
            let number = self.rovers[kind as usize].chunk;
            if arena.resident(number).is_some() {
                self.adopt(arena, number);
            }
            let (rover, state) = (&mut self.rovers[kind as usize], &self.chunks[number]);
            if let Some(busy) = &state.busy
                && state.free_units >= units
            {
                while let Some((from, to)) = next_zeros(&busy[..], rover.unit, claim_units(units)) {
                    rover.unit = to;
                    if to - from >= units {
                        let to = to - (to - from) % units;
                        return Some(Run { chunk: rover.chunk, from, to });
                    }
                }
            }
            rover.chunk += 1;
            rover.unit = 0;
        }
        None
    }

    /// A run from memory that was never used; `None` where there is no more of it.
    fn fresh_run(&mut self, arena: &Arena, units: usize) -> Option<Run> {
        if self.fresh.to - self.fresh.from < units {
            let rest = std::mem::take(&mut self.fresh);
            self.release(rest);
            let number = arena.grow()?;
            let mut busy = Box::new([0; BITMAP_WORDS]);
            set(&mut busy[..], 0, BITMAP_UNITS, true);
            self.chunks.push(State { busy: Some(busy), free_units: CHUNK_UNITS - BITMAP_UNITS, lost: false });
            self.free_units += CHUNK_UNITS - BITMAP_UNITS;
            self.fresh = Run { chunk: number, from: BITMAP_UNITS, to: CHUNK_UNITS };
            self.claim(self.fresh);
        }
        let from = self.fresh.from;
        let room = (self.fresh.to - from).min(claim_units(units));
        self.fresh.from += room - room % units;
        Some(Run { chunk: self.fresh.chunk, from, to: self.fresh.from })
    }

    fn claim(&mut self, run: Run) {
        let state = &mut self.chunks[run.chunk];
        if let Some(busy) = &mut state.busy {
            set(&mut busy[..], run.from, run.to, true);
            state.free_units = state.free_units.saturating_sub(run.to - run.from);
            self.free_units = self.free_units.saturating_sub(run.to - run.from);
        }
    }

    fn release(&mut self, run: Run) {
        if run.from < run.to
            && let Some(state) = self.chunks.get_mut(run.chunk)
            && let Some(busy) = &mut state.busy
        {
            set(&mut busy[..], run.from, run.to, false);
            state.free_units = (state.free_units + run.to - run.from).min(CHUNK_UNITS);
            self.free_units += run.to - run.from;
        }
    }
}

#[cold]
fn full() -> Box<Error> {
    Box::new(Error::new(ErrorKind::Full, "the index has reached its 64 GiB; use more partitions"))
}

fn place(reference: u32) -> (usize, usize) {
    ((reference >> CHUNK_UNITS_LOG2) as usize, reference as usize & (CHUNK_UNITS - 1))
}

fn set(bitmap: &mut [u64], from: usize, to: usize, busy: bool) {
    for_each_mask(from, to, |at, mask| {
        if busy {
            bitmap[at] |= mask;
        } else {
            bitmap[at] &= !mask;
        }
    });
}

/// The words and masks of the bits `from..to`.
fn for_each_mask(from: usize, to: usize, mut f: impl FnMut(usize, u64)) {
    let mut bit = from;
    while bit < to {
        let n = (64 - bit % 64).min(to - bit);
        f(bit / 64, (u64::MAX >> (64 - n)) << (bit % 64));
        bit += n;
    }
}

/// The next run of zeros at or after `from`, cut at `most` bits.
fn next_zeros(bitmap: &[u64], from: usize, most: usize) -> Option<(usize, usize)> {
    let start = next_bit(bitmap, from, 0)?;
    let end = next_bit(bitmap, start, u64::MAX).unwrap_or(bitmap.len() * 64);
    Some((start, end.min(start + most)))
}

/// The next zero at or after `from` where `flip` is 0, the next one where it is all ones.
fn next_bit(bitmap: &[u64], from: usize, flip: u64) -> Option<usize> {
    let mut at = from / 64;
    let mut mask = u64::MAX << (from % 64);
    while let Some(word) = bitmap.get(at) {
        let found = !(word ^ flip) & mask;
        if found != 0 {
            return Some(at * 64 + found.trailing_zeros() as usize);
        }
        at += 1;
        mask = u64::MAX;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words_and_cut() {
        let mut bits = [u64::MAX; 4];
        set(&mut bits, 60, 140, false);
        assert_eq!(next_zeros(&bits, 0, 1000), Some((60, 140)));
        assert_eq!(next_zeros(&bits, 61, 10), Some((61, 71)));
        assert_eq!(next_zeros(&bits, 140, 10), None);
        set(&mut bits, 250, 256, false);
        assert_eq!(next_zeros(&bits, 140, 1000), Some((250, 256)));
        set(&mut bits, 60, 256, true);
        assert_eq!(bits, [u64::MAX; 4]);
    }

    #[test]
    fn places_of_retired_nodes_are_used_again_but_not_under_a_reader() {
        let (arena, epochs, mut heap) = (Arena::new(), Epochs::new(), Heap::new());
        let node = |reference| NodeWord::new(reference, Kind::L16, 0);
        let fill = |heap: &mut Heap| -> Vec<u32> {
            (0..5000).map(|_| heap.allocate(&arena, Kind::L16).expect("room")).collect()
        };
        let first = fill(&mut heap);
        let chunks = arena.chunks();
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[0] + 10 <= w[1]), "nodes overlap");
        let reader = epochs.announce();
        for &reference in &first {
            heap.retire(&arena, &epochs, node(reference)).expect("in memory");
        }
        let recount = |heap: &mut Heap| {
            let busy = heap.chunks.iter().filter_map(|state| state.busy.as_ref());
            let counted: u32 = busy.flat_map(|busy| busy.iter()).map(|word| word.count_zeros()).sum();
            assert_eq!(heap.free_units(&arena), counted as usize);
        };
        recount(&mut heap);
        let second = fill(&mut heap);
        assert!(second.iter().all(|r| sorted.binary_search(r).is_err()), "reused under a reader");
        drop(reader);
        for &reference in &second {
            heap.retire(&arena, &epochs, node(reference)).expect("in memory");
        }
        let grown = arena.chunks();
        assert!(grown > chunks);
        for _ in 0..5 {
            for reference in fill(&mut heap) {
                heap.retire(&arena, &epochs, node(reference)).expect("in memory");
            }
            recount(&mut heap);
        }
        heap.retire_all(&arena, &epochs);
        recount(&mut heap);
        assert!(arena.chunks() <= grown + 1, "memory is not used again: {} chunks", arena.chunks());
    }

    #[test]
    fn at_the_end_of_all_memory_little_that_is_free_is_found() {
        let (arena, epochs, mut heap) = (Arena::new(), Epochs::new(), Heap::new());
        arena.limit(2);
        let mut taken = Vec::new();
        let error = loop {
            match heap.allocate(&arena, Kind::L16) {
                Ok(reference) => taken.push(reference),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), arena.chunks(), arena.room()), (ErrorKind::Full, 2, 0));
        // A thirtieth of the memory, where a sixteenth makes a rover begin again while there is fresh memory.
        let freed: Vec<u32> = taken.iter().copied().step_by(30).take(RETIRED_BETWEEN_EPOCHS).collect();
        for reference in &freed {
            heap.retire(&arena, &epochs, NodeWord::new(*reference, Kind::L16, 0)).expect("in memory");
        }
        for _ in 0..RETIRED_BETWEEN_EPOCHS * 2 {
            let reference = heap.allocate(&arena, Kind::L16).expect("room");
            heap.retire(&arena, &epochs, NodeWord::new(reference, Kind::L16, 0)).expect("in memory");
        }
    }
}
