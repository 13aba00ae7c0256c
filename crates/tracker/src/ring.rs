//! The rings of one thread: one for each tracker that it reports to.
//!
//! A thread alone writes into its ring, and whoever drains the tracker alone reads it. When the thread ends, or the tracker is gone,
//! the other side notices and lets go.

use std::cell::RefCell;

use rtrb::Producer;

use crate::sample::{self, Kind, Shape};

/// Where a thread leaves its samples for one tracker.
struct Ring {
    tracker: u64,
    producer: Producer<u8>,
    /// Accesses of single keys, and of groups and spans, whose samples found no room.
    lost: [u32; 2],
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

/// Put a sample of `weight` accesses into this thread's ring for `tracker`, which `open` makes if there is none.
pub(crate) fn put<'k>(
    tracker: u64,
    open: impl FnOnce() -> Producer<u8>,
    (kind, shape, weight): (Kind, Shape, u32),
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Put {
    let put = MINE.try_with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        let Mine { rings, scratch } = &mut *mine;
        let at = match rings.iter().position(|ring| ring.tracker == tracker) {
            Some(at) => at,
            None => {
                rings.retain(|ring| !ring.producer.is_abandoned());
                rings.push(Ring { tracker, producer: open(), lost: [0; 2] });
                rings.len() - 1
            }
        };
        let ring = &mut rings[at];
        let lost = &mut ring.lost[usize::from(shape != Shape::Single)];
        let stands_for = weight.saturating_add(*lost);
        sample::write(scratch, kind, shape, stands_for, keys);
        let kept = ring.producer.push_entire_slice(scratch).is_ok();
        *lost = if kept { 0 } else { stands_for };
        Some(if kept { Put::Kept } else { Put::Lost })
    });
    put.ok().flatten().unwrap_or(Put::Lost)
}
