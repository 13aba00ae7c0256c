//! Copying chunks for an image while the writer goes on: who copies which chunk.
//!
//! 1. A chunk's state goes from untouched to copying to copied, once. Only who has put it to copying copies it.
//! 2. The writer changes a chunk of the image only when it has seen that it is copied; the copy was made before that was said.
//! 3. Who finds a chunk being copied waits for the end of one copy: 256 KiB of memory.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::arena::BITMAP_UNITS;
use super::sync::{AtomicU8, Mutex, Ordering, order, pause};

const UNTOUCHED: u8 = 0;
const COPYING: u8 = 1;
const COPIED: u8 = 2;

/// An image in the making, shared by the checkpointer and the writer.
pub struct Frozen {
    states: Vec<AtomicU8>,
    /// Copies that the writer made, for the checkpointer.
    left: Mutex<HashMap<usize, Vec<u64>>>,
    ended: AtomicU8,
}

impl Frozen {
    /// An image of as many chunks as `blank` has; of those that are blank nothing is left that the image needs.
    pub fn new(blank: &[bool]) -> Self {
        let words = || {
            let mut words = vec![0; super::arena::CHUNK_WORDS];
            (0..BITMAP_UNITS).for_each(|unit| words[unit / 64] |= 1 << (unit % 64));
            words
        };
        let left = blank.iter().enumerate().filter(|(_, blank)| **blank).map(|(number, _)| (number, words())).collect();
        let state = |blank: &bool| AtomicU8::new(if *blank { COPIED } else { UNTOUCHED });
        Self { states: blank.iter().map(state).collect(), left: Mutex::new(left), ended: AtomicU8::new(0) }
    }

    /// Chunks of the image.
    pub fn chunks(&self) -> usize {
        self.states.len()
    }

    /// The writer is about to change a chunk, which `copy` copies.
    pub fn before_change(&self, number: usize, copy: impl FnOnce() -> Vec<u64>) {
        let Some(state) = self.states.get(number) else { return };
        if state.load(order::copied_seen()) == COPIED {
            return;
        }
        if self.claim(state) {
            let copy = copy();
            self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(number, copy);
            state.store(COPIED, order::copied());
        } else {
            wait(state);
        }
    }

    /// The checkpointer wants a chunk, once; `copy` copies it.
    pub fn take(&self, number: usize, copy: impl FnOnce() -> Vec<u64>) -> Vec<u64> {
        let state = &self.states[number];
        if self.claim(state) {
            let copy = copy();
            state.store(COPIED, order::copied());
            return copy;
        }
        wait(state);
        self.left(number).unwrap_or_default()
    }

    /// The copy that the writer left, if it has come first.
    pub fn left(&self, number: usize) -> Option<Vec<u64>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    /// No more copies are wanted.
    pub fn end(&self) {
        self.ended.store(1, Ordering::Release);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether no more copies are wanted.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    fn claim(&self, state: &AtomicU8) -> bool {
        state.compare_exchange(UNTOUCHED, COPYING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

fn wait(state: &AtomicU8) {
    while state.load(order::copied_seen()) != COPIED {
        pause();
    }
}
