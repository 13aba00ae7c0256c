//! When a node that was unlinked may be written again: epochs (Fraser 2004), for one writer, of one index only.
//!
//! A reader announces the epoch that it has read in a slot of its own and takes it back when it leaves. The writer marks what
//! it unlinks with the current epoch, and advances the epoch now and then.
//!
//! 1. What is marked with epoch `e` was unlinked before the epoch became `e + 1`.
//! 2. A reader that announced `a > e` read an epoch above `e`, so it sees what was marked with `e` as unlinked: it cannot reach it.
//! 3. A reader that the writer's scan does not see announced after the scan: the fence after its announcement follows the
//!    fence before the scan, so it sees everything that the writer had unlinked before the scan.
//! 4. So what is marked with `e` is free once the scan finds no announced epoch at or below `e`. An announcement that is too
//!    old (the epoch advanced between its load and its store) only holds more.
//!
//! A reader that stays long holds memory of this index alone; nobody ever waits for it. Announcing is one compare-and-swap on
//! a cache line that the thread usually has to itself.

use std::cell::Cell;
use std::sync::OnceLock;

use super::sync::{AtomicU64, BLOCK_SLOTS, Ordering, order};

/// No reader.
const IDLE: u64 = 0;

/// A slot on cache lines of its own (two: processors fetch them in pairs).
#[repr(align(128))]
struct Line(AtomicU64);

struct Block {
    lines: Vec<Line>,
    next: OnceLock<Box<Block>>,
}

impl Block {
    fn new() -> Self {
        Self { lines: (0..BLOCK_SLOTS).map(|_| Line(AtomicU64::new(IDLE))).collect(), next: OnceLock::new() }
    }
}

/// The epochs of one index.
pub struct Epochs {
    epoch: AtomicU64,
    readers: Block,
}

/// A reader's announcement; it ends when this is dropped.
pub struct Announced<'e>(&'e AtomicU64);

thread_local! {
    /// Where this thread looks first; threads get different places as long as there are enough.
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn place() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % BLOCK_SLOTS);
        }
        place.get()
    })
}

impl Epochs {
    pub fn new() -> Self {
        Self { epoch: AtomicU64::new(IDLE + 1), readers: Block::new() }
    }

    /// Announce a reader. What it reaches from now on stays as it is until it leaves.
    #[inline]
    pub fn announce(&self) -> Announced<'_> {
        let epoch = self.epoch.load(order::enter());
        let slot = &self.readers.lines[place()].0;
        let slot = if slot.compare_exchange(IDLE, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            slot
        } else {
            self.announce_elsewhere(epoch)
        };
        order::pin_fence();
        Announced(slot)
    }

    #[cold]
    fn announce_elsewhere(&self, epoch: u64) -> &AtomicU64 {
        let mut block = &self.readers;
        loop {
            for Line(slot) in &block.lines {
                if slot.compare_exchange(IDLE, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    return slot;
                }
            }
            block = block.next.get_or_init(|| Box::new(Block::new()));
        }
    }

    /// The mark for what the writer unlinks now.
    pub fn current(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// End the current epoch and say which epoch the oldest reader announced: what is marked below it is free. Only the writer
    /// calls this.
    pub fn advance(&self) -> u64 {
        let ended = self.epoch.load(Ordering::Relaxed);
        self.epoch.store(ended + 1, order::advance());
        order::scan_fence();
        let mut oldest = ended + 1;
        let mut block = Some(&self.readers);
        while let Some(current) = block {
            for Line(slot) in &current.lines {
                let announced = slot.load(order::scan());
                if announced != IDLE {
                    oldest = oldest.min(announced);
                }
            }
            block = current.next.get().map(|next| &**next);
        }
        oldest
    }
}

impl Drop for Announced<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(IDLE, order::leave());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_holds_what_was_unlinked_since_it_announced_and_no_more() {
        let epochs = Epochs::new();
        let before = epochs.current();
        assert!(epochs.advance() > before, "nobody reads: all is free");
        let reader = epochs.announce();
        let mark = epochs.current();
        for _ in 0..3 {
            let oldest = epochs.advance();
            assert!(oldest <= mark && oldest > before);
        }
        drop(reader);
        assert!(epochs.advance() > mark);
    }

    #[test]
    fn more_readers_than_slots_all_count() {
        let epochs = Epochs::new();
        let mark = epochs.current();
        let mut readers: Vec<_> = (0..3 * BLOCK_SLOTS + 1).map(|_| epochs.announce()).collect();
        while let Some(reader) = readers.pop() {
            assert_eq!(epochs.advance(), mark);
            drop(reader);
        }
        assert!(epochs.advance() > mark);
    }
}
