//! The rings of one thread: one for each tracker that it reports to.
//!
//! A thread alone writes into its ring, and whoever drains the tracker alone reads it. When the thread ends, or the tracker is gone,
//! the other side notices and lets go.
//!
//! A ring without room for the largest sample that found none takes no smaller one either: what is kept is then not chosen by its size, and
//! who accesses does not put together what nobody takes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::Producer;

use crate::sample::{self, Kind, Shape};

/// Accesses whose samples found no room since somebody last asked: of single keys; of groups and spans.
#[derive(Default)]
pub(crate) struct Lost([AtomicU64; 2]);

impl Lost {
    pub(crate) fn take(&self) -> [u64; 2] {
        [0, 1].map(|class| self.0[class].swap(0, Ordering::Relaxed))
    }
}

/// Single keys, or groups and spans: what is lost of the one says nothing of the other.
pub(crate) fn class_of(shape: Shape) -> usize {
    usize::from(shape != Shape::Single)
}

/// Where a thread leaves its samples for one tracker.
struct Ring {
    tracker: u64,
    producer: Producer<u8>,
    lost: Arc<Lost>,
    /// Bytes of the largest sample that found no room, and half of the ring at most.
    wanted: usize,
}

#[derive(Default)]
struct Mine {
    rings: Vec<Ring>,
    /// Where samples are put together.
    scratch: Vec<u8>,
}

thread_local! {
    static MINE: RefCell<Mine> = RefCell::default();
}

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Kept,
    /// There was no room, or the thread is ending.
    Lost,
}

/// Put a sample of `weight` accesses of each key, `accesses` in all, into this thread's ring for `tracker`, which `open` makes if there is none.
pub(crate) fn put<'k>(
    tracker: u64,
    open: impl FnOnce() -> (Producer<u8>, Arc<Lost>),
    (kind, shape, weight): (Kind, Shape, u32),
    accesses: u64,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Put {
    let put = MINE.try_with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        let Mine { rings, scratch } = &mut *mine;
        let at = match rings.iter().position(|ring| ring.tracker == tracker) {
            Some(at) => at,
            None => {
                rings.retain(|ring| !ring.producer.is_abandoned());
                let (producer, lost) = open();
                rings.push(Ring { tracker, producer, lost, wanted: 0 });
                rings.len() - 1
            }
        };
        let Ring { producer, lost, wanted, .. } = &mut rings[at];
        let has_room = producer.slots() >= *wanted;
        if has_room {
            sample::write(scratch, kind, shape, weight, keys);
            if producer.push_entire_slice(scratch).is_ok() {
                return Some(Put::Kept);
            }
            // One that no empty ring had room for must not keep all others out.
            *wanted = scratch.len().min(producer.buffer().capacity() / 2).max(*wanted);
        }
        lost.0[class_of(shape)].fetch_add(accesses, Ordering::Relaxed);
        Some(Put::Lost)
    });
    put.ok().flatten().unwrap_or(Put::Lost)
}
